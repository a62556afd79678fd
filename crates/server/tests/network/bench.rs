//! One server with its store and signer, and clients of it.

use std::io;
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use sealwright_crypto::algorithm::HashAlgorithm;
use sealwright_crypto::digest::Hasher;
use sealwright_crypto::tbs::{Content, ToBeSigned};
use sealwright_crypto::usage::{Purpose, Usage};
use sealwright_proto::convert::batch::Batch;
use sealwright_proto::convert::group::{Artefact, Group, GroupResult, Priority};
use sealwright_proto::names::{KeyReference, RequestId};
use sealwright_proto::status::{Code, Fault};
use sealwright_proto::v1::keys_client::KeysClient;
use sealwright_proto::v1::signing_client::SigningClient;
use sealwright_proto::v1::{CreateKeyRequest, DescribeKeyRequest};
use sealwright_server::{Clients, Front, Limits, Service, tls};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tonic::transport::{Channel, Endpoint, Uri};

use crate::certificates::{Authority, Certified};
use crate::peer::{self, Act};

/// `build` may sign with `release`, `operator` may do everything.
pub(crate) const CLIENTS: &str = r#"
    [[client]]
    name = "build"
    keys = ["release"]

    [[client]]
    name = "operator"
    keys = ["*"]
    administrator = true
"#;

pub(crate) struct Bench {
    pub(crate) authority: Authority,
    pub(crate) service: Service,
    pub(crate) plane: Arc<tls::Plane>,
    pub(crate) address: SocketAddr,
    pub(crate) serving: tokio::task::JoinHandle<()>,
    pub(crate) folder: tempfile::TempDir,
}

impl Bench {
    /// With a key `release`, and a signer that signs.
    pub(crate) async fn start() -> Self {
        Self::start_with(Limits::default(), |_, _| Act::Sign).await
    }

    pub(crate) async fn start_with(
        limits: Limits,
        on_sign: impl FnMut(usize, &Batch) -> Act + Send + 'static,
    ) -> Self {
        let authority = Authority::new();
        let folder = tempfile::tempdir().unwrap();
        let (ours, theirs) = UnixStream::pair().unwrap();
        peer::start(theirs, Box::new(on_sign));
        let front = Front::start(limits.front(), &folder.path().join("store"), ours).await.unwrap();
        let plane = tls::server_config(&authority.material()).unwrap();
        let service = Service::new(front, limits, Arc::clone(&plane), Clients::parse(CLIENTS).unwrap());
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let serving = {
            let service = service.clone();
            tokio::spawn(async move { service.serve(listener).await.unwrap() })
        };
        let bench = Self { authority, service, plane, address, serving, folder };
        let operator = bench.authority.client("operator");
        let create = CreateKeyRequest {
            name: "release".to_owned(),
            algorithm: "ed25519".to_owned(),
            user_id: "Test <test@example.org>".to_owned(),
            valid_for_s: None,
            signing_subkey: false,
            openpgp_version: 4,
            ..CreateKeyRequest::default()
        };
        KeysClient::new(bench.channel(&bench.config(&operator)).await).create(create).await.unwrap();
        bench
    }

    /// What a client has; sessions are resumed between connections with one config.
    pub(crate) fn config(&self, client: &Certified) -> Arc<ClientConfig> {
        config(&self.authority.pem, Some(client))
    }

    pub(crate) async fn channel(&self, config: &Arc<ClientConfig>) -> Channel {
        channel(tls(self.address, config).await.unwrap()).await
    }

    pub(crate) async fn client(&self, name: &str) -> Channel {
        self.channel(&self.config(&self.authority.client(name))).await
    }

    pub(crate) fn reload_clients(&self, clients: &str) {
        // Made of the files that are in force: only the clients change.
        self.service.reload(Arc::clone(&self.plane), Clients::parse(clients).unwrap());
    }
}

/// A client's side of TLS, which trusts this authority.
pub(crate) fn config(ca_pem: &str, client: Option<&Certified>) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(ca_pem.as_bytes()).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .with_root_certificates(roots);
    let mut config = match client {
        Some(client) => {
            let chain = vec![CertificateDer::from_pem_slice(client.pem.as_bytes()).unwrap()];
            let key = PrivateKeyDer::from_pem_slice(client.key_pem.as_bytes()).unwrap();
            builder.with_client_auth_cert(chain, key).unwrap()
        }
        None => builder.with_no_client_auth(),
    };
    config.alpn_protocols = vec![b"h2".to_vec()];
    Arc::new(config)
}

pub(crate) async fn tls(address: SocketAddr, config: &Arc<ClientConfig>) -> io::Result<TlsStream<TcpStream>> {
    tls_over(TcpStream::connect(address).await?, config).await
}

pub(crate) async fn tls_over(
    socket: TcpStream,
    config: &Arc<ClientConfig>,
) -> io::Result<TlsStream<TcpStream>> {
    socket.set_nodelay(true)?;
    let name = ServerName::try_from("localhost").unwrap();
    TlsConnector::from(Arc::clone(config)).connect(name, socket).await
}

pub(crate) async fn channel(stream: TlsStream<TcpStream>) -> Channel {
    let mut stream = Some(TokioIo::new(stream));
    let connector = tower::service_fn(move |_: Uri| {
        let stream = stream.take();
        async move { stream.ok_or_else(|| io::Error::other("connected already")) }
    });
    Endpoint::from_static("http://localhost").connect_with_connector(connector).await.unwrap()
}

pub(crate) fn group(content: &[u8]) -> Group {
    group_of("release", Content::Midstate(hasher(content).midstate()))
}

pub(crate) fn hasher(content: &[u8]) -> Hasher {
    let mut hasher = Hasher::new(HashAlgorithm::Sha256);
    hasher.update(content);
    hasher
}

pub(crate) fn group_of(key: &str, content: Content) -> Group {
    Group {
        request_id: RequestId::parse(uuid::Uuid::now_v7().as_bytes()).unwrap(),
        key: KeyReference::parse(key).unwrap(),
        priority: Priority::Interactive,
        deadline_ms: 30_000,
        artefact: Artefact { name: "a.rpm".to_owned(), size: 3 },
        artefacts: Vec::new(),
        items: vec![ToBeSigned { usage: Usage::OpenPgp, purpose: Purpose::RpmHeader, content, ticket: None }],
        salt: false,
    }
}

/// Sends one group over a stream of its own: how many were signed, or the refusal.
pub(crate) async fn sign(channel: &Channel, group: &Group) -> Result<usize, Code> {
    let mut client = SigningClient::new(channel.clone());
    let asked = tokio_stream::once(group.to_wire());
    let stream = client.sign(asked).await.map_err(|status| Fault::from(&status).code)?;
    let answer = stream.into_inner().message().await.map_err(|status| Fault::from(&status).code)?;
    outcome(answer.expect("an answer"))
}

pub(crate) fn outcome(answer: sealwright_proto::v1::SignGroupResult) -> Result<usize, Code> {
    let items = GroupResult::parse(answer).unwrap().outcome.map_err(|fault| fault.code)?;
    Ok(items.iter().filter(|item| item.is_ok()).count())
}

/// Asks about the key `release`.
pub(crate) async fn describe(channel: &Channel) -> Result<String, Code> {
    let asked = DescribeKeyRequest { key: "release".to_owned() };
    let described = KeysClient::new(channel.clone()).describe(asked).await;
    described.map(|key| key.into_inner().name).map_err(|status| Fault::from(&status).code)
}

/// Waits until something is so; fails after a time in which it must have become so.
pub(crate) async fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    for _ in 0..6_000 {
        if is_so() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("never: {what}");
}
