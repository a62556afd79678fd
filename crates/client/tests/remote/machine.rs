//! A server on a port of this machine, and clients with files of their own, all of one authority.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use rustls::server::WebPkiClientVerifier;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use sealwright_client::connection::Connection;
use sealwright_client::connection::credentials::Credentials;
use sealwright_client::connection::remote::{Address, Remote};
use sealwright_proto::v1::keys_server::KeysServer;
use sealwright_proto::v1::signing_server::SigningServer;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tonic::transport::Server;

use crate::service::Service;

pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
    der: CertificateDer<'static>,
}

pub(crate) fn server_params(names: &[&str]) -> CertificateParams {
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let mut params = CertificateParams::new(names).unwrap();
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    params
}

pub(crate) fn client_params(name: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, name);
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    params
}

impl Authority {
    pub(crate) fn new() -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        // Two authorities of one name and different keys are the hard case.
        let certificate = params.self_signed(&key).unwrap();
        Self { pem: certificate.pem(), der: certificate.der().clone(), issuer: Issuer::new(params, key) }
    }

    pub(crate) fn client(&self, name: &str) -> Client {
        self.client_with(&client_params(name))
    }

    pub(crate) fn client_with(&self, params: &CertificateParams) -> Client {
        Client::new(&self.pem, self, params)
    }

    /// A client of this authority that believes servers of another.
    pub(crate) fn client_trusting(&self, other: &Self, name: &str) -> Client {
        Client::new(&other.pem, self, &client_params(name))
    }
}

/// A folder with the files of a client.
pub(crate) struct Client(TempDir);

impl Client {
    fn new(ca: &str, issuer: &Authority, params: &CertificateParams) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &issuer.issuer).unwrap();
        for (name, text) in
            [("ca.pem", ca), ("client.pem", &certificate.pem()), ("client.key", &key.serialize_pem())]
        {
            std::fs::write(folder.path().join(name), text).unwrap();
            let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
            std::fs::set_permissions(folder.path().join(name), mode).unwrap();
        }
        Self(folder)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(crate) fn credentials(&self) -> Credentials {
        Credentials {
            ca: self.file("ca.pem"),
            certificate: self.file("client.pem"),
            key: self.file("client.key"),
        }
    }

    pub(crate) fn connect(&self, urls: &[String]) -> Connection {
        let addresses = urls.iter().map(|url| Address::parse(url).unwrap()).collect();
        Connection::remote(Remote::new(addresses, self.credentials().load().unwrap()).unwrap())
    }
}

/// A running server.
pub(crate) struct Machine {
    address: SocketAddr,
    seen: Arc<Seen>,
    task: tokio::task::JoinHandle<()>,
}

#[derive(Default)]
struct Seen {
    handshakes: AtomicUsize,
    resumed: AtomicUsize,
    open: AtomicUsize,
    cut: Notify,
}

impl Machine {
    pub(crate) async fn start(authority: &Authority, params: CertificateParams, service: Service) -> Self {
        Self::run(0, authority, params, b"h2", service).await
    }

    pub(crate) async fn start_at(
        port: u16,
        authority: &Authority,
        params: CertificateParams,
        service: Service,
    ) -> Self {
        Self::run(port, authority, params, b"h2", service).await
    }

    pub(crate) async fn start_with_alpn(
        authority: &Authority,
        params: CertificateParams,
        alpn: &[u8],
    ) -> Self {
        Self::run(0, authority, params, alpn, Service::default()).await
    }

    async fn run(
        port: u16,
        authority: &Authority,
        params: CertificateParams,
        alpn: &[u8],
        service: Service,
    ) -> Self {
        let acceptor = TlsAcceptor::from(Arc::new(config(authority, &params, alpn)));
        let listener = TcpListener::bind(("127.0.0.1", port)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Arc::new(Seen::default());
        let task = tokio::spawn(accept(listener, acceptor, Arc::clone(&seen), service));
        Self { address, seen, task }
    }

    pub(crate) fn url(&self, host: &str) -> String {
        format!("https://{host}:{}", self.address.port())
    }

    pub(crate) fn handshakes(&self) -> usize {
        self.seen.handshakes.load(Ordering::SeqCst)
    }

    pub(crate) fn resumed(&self) -> usize {
        self.seen.resumed.load(Ordering::SeqCst)
    }

    /// Ends all connections.
    pub(crate) fn cut(&self) {
        self.seen.cut.notify_waiters();
    }

    /// Ends it, and tells its port.
    pub(crate) async fn stop(self) -> u16 {
        self.task.abort();
        let _ = self.task.await;
        self.address.port()
    }

    /// Waits until no connection is open.
    pub(crate) async fn all_closed(&self) {
        for _ in 0..2000 {
            if self.seen.open.load(Ordering::SeqCst) == 0 {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("a connection stays open");
    }
}

fn config(authority: &Authority, params: &CertificateParams, alpn: &[u8]) -> rustls::ServerConfig {
    let key = KeyPair::generate().unwrap();
    let certificate = params.signed_by(&key, &authority.issuer).unwrap();
    let mut roots = rustls::RootCertStore::empty();
    roots.add(authority.der.clone()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let clients =
        WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider)).build().unwrap();
    let key = PrivateKeyDer::Pkcs8(key.serialize_der().into());
    let mut config = rustls::ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .with_client_cert_verifier(clients)
        .with_single_cert(vec![certificate.der().clone()], key)
        .unwrap();
    config.alpn_protocols = vec![alpn.to_vec()];
    config
}

async fn accept(listener: TcpListener, acceptor: TlsAcceptor, seen: Arc<Seen>, service: Service) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let (acceptor, seen, service) = (acceptor.clone(), Arc::clone(&seen), service.clone());
        connections.spawn(async move {
            let cut = seen.cut.notified();
            let Ok(mut stream) = acceptor.accept(stream).await else { return };
            seen.handshakes.fetch_add(1, Ordering::SeqCst);
            if stream.get_ref().1.handshake_kind() == Some(rustls::HandshakeKind::Resumed) {
                seen.resumed.fetch_add(1, Ordering::SeqCst);
            }
            seen.open.fetch_add(1, Ordering::SeqCst);
            let (mut ours, theirs) = tokio::io::duplex(64 << 10);
            let serve = Server::builder()
                .add_service(SigningServer::new(service.clone()))
                .add_service(KeysServer::new(service))
                .serve_with_incoming(tokio_stream::once(Ok::<_, std::io::Error>(theirs)));
            let copy = async {
                let _ = tokio::io::copy_bidirectional(&mut stream, &mut ours).await;
                drop((stream, ours));
            };
            tokio::select! {
                _ = async { tokio::join!(serve, copy) } => {}
                () = cut => {}
            }
            seen.open.fetch_sub(1, Ordering::SeqCst);
        });
    }
}
