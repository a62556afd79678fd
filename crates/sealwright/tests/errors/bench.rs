//! One server on loopback with its store and signer; clients with certificates, in this process and as the command.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use hyper_util::rt::TokioIo;
use sealwright_client::connection::credentials::Credentials;
use sealwright_crypto::algorithm::HashAlgorithm;
use sealwright_crypto::digest::Hasher;
use sealwright_crypto::tbs::{Content, ToBeSigned};
use sealwright_crypto::usage::{Purpose, Usage};
use sealwright_proto::convert::group::{Artefact, Group, GroupResult, Priority};
use sealwright_proto::names::{KeyReference, RequestId};
use sealwright_proto::status::Fault;
use sealwright_proto::v1::keys_client::KeysClient;
use sealwright_proto::v1::signing_client::SigningClient;
use sealwright_proto::v1::{CreateKeyRequest, SignGroup, SignGroupResult};
use sealwright_server::{Clients, Config, Front, Launcher, Limits, Service, tls};
use sealwright_testkit::sealwright::Ran;
use sealwright_testkit::{fixtures, tools};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tonic::Status;
use tonic::transport::{Channel, Endpoint, Uri};

use crate::certificates::{Authority, Certified, Wanted};
use crate::stand::Stand;

const CLIENTS: &str = r#"
    [[client]]
    name = "admin"
    keys = ["*"]
    administrator = true

    [[client]]
    name = "build"
    keys = ["release"]

    [[client]]
    name = "revoked"
    keys = ["*"]
    revoked = ["0badc0de"]
"#;

/// Number of the certificate that [`CLIENTS`] revokes.
pub(crate) const REVOKED_SERIAL: [u8; 4] = [0x0b, 0xad, 0xc0, 0xde];

/// What a client has on its disk.
pub(crate) struct Client {
    folder: PathBuf,
}

pub(crate) struct Bench {
    pub(crate) folder: tempfile::TempDir,
    authority: Authority,
    pub(crate) stand: Arc<Stand>,
    pub(crate) service: Service,
    address: SocketAddr,
    store: PathBuf,
    serving: Vec<tokio::task::JoinHandle<()>>,
}

impl Bench {
    /// With a key `release`.
    pub(crate) async fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = folder.path().join("store");
        Self::start_in(folder, store).await
    }

    /// The same with the store here.
    pub(crate) async fn start_in(folder: tempfile::TempDir, store: PathBuf) -> Self {
        let authority = Authority::new();
        let stand = Stand::new(&folder.path().join("root"));
        let (service, address, serving) = serve(&authority, &store, &stand).await;
        let bench = Self { folder, authority, stand, service, address, store, serving: vec![serving] };
        bench.create("release").await.unwrap();
        bench
    }

    /// Another front, which knows nothing but what is in the store, after SQL has changed that.
    pub(crate) async fn restart_after(&mut self, statement: &str) {
        self.sql(statement);
        let (service, address, serving) = serve(&self.authority, &self.store, &self.stand).await;
        (self.service, self.address) = (service, address);
        self.serving.push(serving);
    }

    pub(crate) fn port(&self) -> u16 {
        self.address.port()
    }

    pub(crate) fn store(&self) -> PathBuf {
        self.store.clone()
    }

    /// Nothing of it has the store open any more.
    pub(crate) async fn end(self) {
        let Self { service, serving, stand, .. } = self;
        service.drain(std::time::Duration::from_secs(1)).await;
        for serving in serving {
            serving.abort();
            let _ = serving.await;
        }
        drop(service);
        stand.kill_for_good();
    }

    /// One statement on the store, by a library of its own; the rows, a line each.
    pub(crate) fn sql(&self, statement: &str) -> Vec<String> {
        const SCRIPT: &str = "
import sqlite3, sys
database = sqlite3.connect(sys.argv[1])
for row in database.execute(sys.argv[2]):
    print('|'.join(str(cell) for cell in row))
database.commit()
";
        let mut command = Command::new("python3");
        command.args(["-c", SCRIPT]).arg(self.store.join("store.db")).arg(statement);
        let printed = tools::succeed(&mut command);
        String::from_utf8(printed).unwrap().lines().map(str::to_owned).collect()
    }

    /// A client of this name, with all files that it needs.
    pub(crate) fn client(&self, name: &str) -> Client {
        self.client_with(name, Wanted::client(name))
    }

    /// A client with this certificate.
    pub(crate) fn client_with(&self, folder: &str, wanted: Wanted) -> Client {
        let certified = self.authority.certify(wanted);
        let folder = self.folder.path().join("clients").join(folder);
        fs::create_dir_all(&folder).unwrap();
        let Certified { pem, key_pem } = certified;
        fs::write(folder.join("ca.pem"), &self.authority.pem).unwrap();
        fs::write(folder.join("client.pem"), pem).unwrap();
        fs::write(folder.join("client.key"), key_pem).unwrap();
        fs::set_permissions(folder.join("client.key"), fs::Permissions::from_mode(0o600)).unwrap();
        let toml = format!(
            "server = \"https://localhost:{}\"\nca = \"ca.pem\"\ncertificate = \"client.pem\"\nkey = \"client.key\"\n",
            self.address.port()
        );
        fs::write(folder.join("client.toml"), toml).unwrap();
        Client { folder }
    }

    /// A connection of its own.
    pub(crate) async fn channel(&self, client: &Client) -> Channel {
        let config = client.credentials().load().unwrap();
        let socket = TcpStream::connect(self.address).await.unwrap();
        let name = rustls_pki_types::ServerName::try_from("localhost").unwrap();
        let mut stream = Some(TokioIo::new(TlsConnector::from(config).connect(name, socket).await.unwrap()));
        let connector = tower::service_fn(move |_: Uri| {
            let stream = stream.take();
            async move { stream.ok_or_else(|| std::io::Error::other("connected already")) }
        });
        Endpoint::from_static("http://localhost").connect_with_connector(connector).await.unwrap()
    }

    pub(crate) async fn keys(&self) -> KeysClient<Channel> {
        KeysClient::new(self.channel(&self.client("admin")).await)
    }

    pub(crate) async fn create(&self, name: &str) -> Result<(), Status> {
        self.create_for(name, None).await
    }

    pub(crate) async fn create_for(&self, name: &str, valid_for_s: Option<u64>) -> Result<(), Status> {
        self.create_on(name, valid_for_s, "").await
    }

    pub(crate) async fn create_on(
        &self,
        name: &str,
        valid_for_s: Option<u64>,
        token: &str,
    ) -> Result<(), Status> {
        let create = CreateKeyRequest {
            name: name.to_owned(),
            token: token.to_owned(),
            algorithm: "ed25519".to_owned(),
            user_id: "Test <test@example.org>".to_owned(),
            valid_for_s,
            signing_subkey: false,
            openpgp_version: 4,
            ..Default::default()
        };
        self.keys().await.create(create).await.map(|_| ())
    }

    /// As the administrator.
    pub(crate) async fn sign(&self, group: SignGroup) -> Result<SignGroupResult, Status> {
        self.sign_as(&self.client("admin"), group).await
    }

    pub(crate) async fn sign_as(&self, client: &Client, group: SignGroup) -> Result<SignGroupResult, Status> {
        let mut signing = SigningClient::new(self.channel(client).await)
            .max_encoding_message_size(sealwright_proto::limits::GRPC_MESSAGE_BYTES_MAX);
        let answers = signing.sign(tokio_stream::once(group)).await?;
        answers.into_inner().message().await.map(|answer| answer.expect("an answer"))
    }

    /// The real program with this client's configuration.
    pub(crate) fn command(&self, client: &Client, arguments: &[&str]) -> Ran {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sealwright"));
        command.args(arguments).env("SEALWRIGHT_CLIENT_CONFIG", client.folder.join("client.toml"));
        command.env("SEALWRIGHT_HOME", self.folder.path().join("home")).env_remove("SEALWRIGHT_SERVER");
        tokio::task::block_in_place(|| Ran::from(tools::run(&mut command)))
    }

    /// The same that signs a package with this key.
    pub(crate) fn sign_command(&self, client: &Client, key: &str) -> Ran {
        let file = fixtures::copy_into(self.folder.path(), &fixtures::package(PACKAGE));
        self.command(client, &["sign", "--json", "--key", key, file.to_str().unwrap()])
    }
}

const PACKAGE: &str = "gen_tiny-reserved4096.rpm";

impl Client {
    pub(crate) fn credentials(&self) -> Credentials {
        let file = |name| self.folder.join(name);
        Credentials { ca: file("ca.pem"), certificate: file("client.pem"), key: file("client.key") }
    }
}

async fn serve(
    authority: &Authority,
    store: &Path,
    stand: &Arc<Stand>,
) -> (Service, SocketAddr, tokio::task::JoinHandle<()>) {
    let launcher: Launcher = {
        let stand = Arc::clone(stand);
        Arc::new(move || stand.launch())
    };
    // The smallest that there can be: one message of the largest size.
    let config = Config { request_bytes_in_work_max: 1, ..Config::default() };
    let front = Front::start_with(config, store, launcher).await.unwrap();
    let plane = tls::server_config(&authority.material()).unwrap();
    let service = Service::new(front, Limits::default(), plane, Clients::parse(CLIENTS).unwrap());
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let serving = {
        let service = service.clone();
        tokio::spawn(async move { service.serve(listener).await.unwrap() })
    };
    (service, address, serving)
}

pub(crate) fn group(key: &str) -> Group {
    group_of(key, Content::Midstate(Hasher::new(HashAlgorithm::Sha256).midstate()))
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

/// The failure of a group, or of its first item.
pub(crate) fn failure(answer: SignGroupResult) -> Fault {
    match GroupResult::parse(answer).unwrap().outcome {
        Err(fault) => fault,
        Ok(items) => items.into_iter().find_map(Result::err).expect("a failure"),
    }
}
