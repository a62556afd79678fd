//! One front with its store, its signer and clients.

use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use hyper_util::rt::TokioIo;
use sealwright_crypto::algorithm::HashAlgorithm;
use sealwright_crypto::digest::Hasher;
use sealwright_crypto::tbs::{Content, ToBeSigned};
use sealwright_crypto::usage::{Purpose, Usage};
use sealwright_proto::convert::group::{Artefact, Group, GroupResult, Priority};
use sealwright_proto::names::{KeyReference, RequestId};
use sealwright_proto::v1::keys_client::KeysClient;
use sealwright_proto::v1::signing_client::SigningClient;
use sealwright_proto::v1::{CreateKeyRequest, Key};
use sealwright_server::{Config, Front, Principal};
use sealwright_store::Store;
use tonic::transport::{Channel, Endpoint, Uri};
use uuid::Uuid;

use crate::peer::{self, Act, Counts, OnSign};

/// Less than the largest message: front takes that much then, one at a time.
const CONFIG: Config = Config { request_bytes_in_work_max: 1, signer_silence_max: Duration::from_secs(5) };

pub(crate) struct Bench {
    pub(crate) front: Front,
    pub(crate) signer: Counts,
    pub(crate) folder: tempfile::TempDir,
}

impl Bench {
    pub(crate) async fn start(
        on_sign: impl FnMut(usize, &sealwright_proto::convert::batch::Batch) -> Act + Send + 'static,
    ) -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self::start_in(folder, Box::new(on_sign)).await
    }

    pub(crate) async fn start_in(folder: tempfile::TempDir, on_sign: OnSign) -> Self {
        Self::start_as(CONFIG, folder, on_sign).await
    }

    /// With a signer that may keep silent for longer than the test lasts.
    pub(crate) async fn start_patient(on_sign: OnSign) -> Self {
        let config = Config { signer_silence_max: Duration::from_secs(600), ..CONFIG };
        Self::start_as(config, tempfile::tempdir().unwrap(), on_sign).await
    }

    async fn start_as(config: Config, folder: tempfile::TempDir, on_sign: OnSign) -> Self {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let signer = peer::start(theirs, on_sign);
        let front = Front::start(config, &folder.path().join("store"), ours).await.unwrap();
        Self { front, signer, folder }
    }

    /// With signers that `launcher` starts, now and whenever one has died; they are not counted.
    pub(crate) async fn start_with(launcher: sealwright_server::Launcher) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let front = Front::start_with(CONFIG, &folder.path().join("store"), launcher).await.unwrap();
        Self { front, signer: Counts::default(), folder }
    }

    pub(crate) fn store_folder(&self) -> PathBuf {
        self.folder.path().join("store")
    }

    /// The store as another process sees it.
    pub(crate) async fn other_process(&self) -> Store {
        Store::open(&self.store_folder()).await.unwrap()
    }

    pub(crate) async fn log_size(&self) -> u64 {
        self.other_process().await.log_head().await.unwrap().size()
    }

    /// A connection over an in-memory stream, as the embedded default has it.
    pub(crate) async fn connect(&self, principal: Principal) -> Channel {
        let (client_half, server_half) = tokio::io::duplex(256 << 10);
        let front = self.front.clone();
        tokio::spawn(async move { front.serve_stream(server_half, principal).await });
        let mut half = Some(TokioIo::new(client_half));
        let connector = tower::service_fn(move |_: Uri| {
            let half = half.take();
            async move { half.ok_or_else(|| std::io::Error::other("connected already")) }
        });
        Endpoint::from_static("http://embedded").connect_with_connector(connector).await.unwrap()
    }

    pub(crate) async fn keys(&self) -> KeysClient<Channel> {
        KeysClient::new(self.connect(Principal::local()).await)
    }

    pub(crate) async fn create(&self, name: &str) -> Key {
        self.keys().await.create(create_request(name)).await.unwrap().into_inner()
    }

    /// Sends groups over one stream and returns the answers in the order of the groups.
    pub(crate) async fn sign_all(&self, groups: &[Group]) -> Vec<GroupResult> {
        let mut client = SigningClient::new(self.connect(Principal::local()).await);
        let wire: Vec<_> = groups.iter().map(Group::to_wire).collect();
        let mut stream = client.sign(tokio_stream::iter(wire)).await.unwrap().into_inner();
        let mut answers = Vec::new();
        while let Some(answer) = stream.message().await.unwrap() {
            answers.push(GroupResult::parse(answer).unwrap());
        }
        assert_eq!(answers.len(), groups.len());
        let position =
            |answer: &GroupResult| groups.iter().position(|group| group.request_id == answer.request_id);
        answers.sort_by_key(position);
        answers
    }

    pub(crate) async fn sign(&self, group: &Group) -> GroupResult {
        self.sign_all(std::slice::from_ref(group)).await.remove(0)
    }
}

pub(crate) fn create_request(name: &str) -> CreateKeyRequest {
    CreateKeyRequest {
        name: name.to_owned(),
        algorithm: "ed25519".to_owned(),
        user_id: "Test <test@example.org>".to_owned(),
        valid_for_s: None,
        signing_subkey: false,
        openpgp_version: 4,
        ..Default::default()
    }
}

pub(crate) fn hasher(content: &[u8]) -> Hasher {
    let mut hasher = Hasher::new(HashAlgorithm::Sha256);
    hasher.update(content);
    hasher
}

pub(crate) fn group(key: &str, contents: &[&[u8]]) -> Group {
    let items = contents.iter().map(|content| ToBeSigned {
        usage: Usage::OpenPgp,
        purpose: Purpose::RpmHeader,
        content: Content::Midstate(hasher(content).midstate()),
        ticket: None,
    });
    Group {
        request_id: RequestId::parse(Uuid::now_v7().as_bytes()).unwrap(),
        key: KeyReference::parse(key).unwrap(),
        priority: Priority::Interactive,
        deadline_ms: 20_000,
        artefact: Artefact { name: "a.rpm".to_owned(), size: 3 },
        artefacts: Vec::new(),
        items: items.collect(),
        salt: false,
    }
}
