//! A signing service with one real Ed25519 key of the fixtures; what a server must never do, it does when told.

use std::path::PathBuf;
use std::pin::Pin;
use std::sync::{Arc, Mutex};

use hyper_util::rt::TokioIo;
use pgp::composed::{Deserializable as _, SignedSecretKey};
use pgp::crypto::hash::HashAlgorithm as PgpHash;
use pgp::types::{Password, SignatureBytes, SigningKey};
use sealwright_client::connection::Connection;
use sealwright_crypto::algorithm::{KeyAlgorithm, KeyVersion};
use sealwright_crypto::digest::Hasher;
use sealwright_crypto::openpgp::armor;
use sealwright_crypto::openpgp::certificate::Certificate;
use sealwright_crypto::openpgp::fingerprint::Fingerprint;
use sealwright_crypto::openpgp::salt::Salt;
use sealwright_crypto::openpgp::signature::Template;
use sealwright_proto::convert::group::{Group, GroupResult, LoggedSignature};
use sealwright_proto::convert::salts::{SaltTicket, Salts, SaltsRequest};
use sealwright_proto::names::RequestId;
use sealwright_proto::status::{Code, Fault as Failure};
use sealwright_proto::v1;
use sealwright_proto::v1::keys_server::{Keys, KeysServer};
use sealwright_proto::v1::signing_server::{Signing, SigningServer};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::{Channel, Endpoint, Server, Uri};
use tonic::{Request, Response, Status, Streaming};

/// Signing time: right after the key was made (2026-11-30 12:34:38Z), before any test runs.
const CREATED: u32 = 1_796_042_080;

/// What the service does wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    None,
    /// A valid signature over something else.
    OtherContent,
    /// The issuer is another key.
    OtherKey,
    /// Bytes that are no packet.
    Garbage,
    /// One result too many.
    NotMyItems,
    /// The group is refused.
    Refused(Code),
    /// The first stream ends without an answer.
    LostOnce,
    /// The first group gets "overloaded".
    BusyOnce,
    /// No answer, ever.
    Silent,
    /// Another salt in the packet than the one of the ticket.
    OtherSalt,
    /// The first group gets "ticket refused", as by a server that was restarted.
    TicketsOnce,
    /// Every group gets it.
    NoTicket,
    /// Groups of several items are refused as a whole.
    Several(Code),
}

#[derive(Clone)]
pub(crate) struct Service {
    pub(crate) fault: Fault,
    pub(crate) disabled: bool,
    /// Of its key.
    pub(crate) version: KeyVersion,
    /// Salts in each request for them.
    pub(crate) salts_asked: Arc<Mutex<Vec<usize>>>,
    /// Tickets in the order in which they came, nothing for an item without.
    pub(crate) tickets: Arc<Mutex<Vec<Option<Vec<u8>>>>>,
    /// Request ids in the order in which they came.
    pub(crate) asked: Arc<Mutex<Vec<RequestId>>>,
    /// What was claimed of each item, in the order in which they came.
    pub(crate) claims: Arc<Mutex<Vec<(String, u64)>>>,
    pub(crate) before_answer: Option<Arc<dyn Fn() + Send + Sync>>,
}

impl Default for Service {
    fn default() -> Self {
        Self {
            fault: Fault::None,
            disabled: false,
            version: KeyVersion::V4,
            salts_asked: Arc::default(),
            tickets: Arc::default(),
            asked: Arc::default(),
            claims: Arc::default(),
            before_answer: None,
        }
    }
}

pub(crate) fn fixture_path(name: &str) -> PathBuf {
    PathBuf::from(format!("{}/../../fixtures/{name}", env!("CARGO_MANIFEST_DIR")))
}

pub(crate) fn fixture(name: &str) -> Vec<u8> {
    std::fs::read(fixture_path(name)).unwrap()
}

fn secret(version: KeyVersion) -> SignedSecretKey {
    let file = match version {
        KeyVersion::V4 => "pgp-key/gen_ed25519.sec.asc",
        KeyVersion::V6 => "pgp-key/rpgp_v6-25519-annex-a-4_tsk.asc",
    };
    SignedSecretKey::from_bytes(&armor::decode_or_binary(&fixture(file)).unwrap()[..]).unwrap()
}

pub(crate) fn certificate(version: KeyVersion) -> Certificate {
    let public = secret(version).to_public_key();
    Certificate::parse(&pgp::ser::Serialize::to_bytes(&public).unwrap()).unwrap()
}

impl Service {
    pub(crate) fn failing(fault: Fault) -> Self {
        Self { fault, ..Self::default() }
    }

    /// Serves over an in-memory stream, as the embedded default does.
    pub(crate) async fn connect(self) -> Connection {
        let (ours, theirs) = tokio::io::duplex(64 << 10);
        let server = Server::builder()
            .add_service(SigningServer::new(self.clone()))
            .add_service(KeysServer::new(self))
            .serve_with_incoming(tokio_stream::once(Ok::<_, std::io::Error>(theirs)));
        tokio::spawn(server);
        let mut half = Some(TokioIo::new(ours));
        let connector = tower::service_fn(move |_: Uri| {
            let half = half.take();
            async move { half.ok_or_else(|| std::io::Error::other("ended")) }
        });
        let channel: Channel =
            Endpoint::from_static("http://test").connect_with_connector(connector).await.unwrap();
        Connection::new(channel)
    }

    /// The answer; `None` ends the stream.
    fn answer(&self, group: &Group) -> Option<v1::SignGroupResult> {
        let nth = {
            let mut asked = self.asked.lock().unwrap();
            asked.push(group.request_id);
            asked.len()
        };
        self.tickets.lock().unwrap().extend(group.items.iter().map(|item| item.ticket.clone()));
        let claims = (0..group.items.len()).map(|item| group.artefact_of(item));
        let claims = claims.map(|claim| (claim.name.clone(), claim.size));
        self.claims.lock().unwrap().extend(claims);
        if let Some(before) = &self.before_answer {
            before();
        }
        let fault = match self.fault {
            Fault::LostOnce if nth == 1 => return None,
            Fault::BusyOnce if nth == 1 => {
                let busy = Failure::new(Code::Overloaded, "queues are full").retry_after(1);
                return Some(GroupResult { request_id: group.request_id, outcome: Err(busy) }.into_wire());
            }
            Fault::NoTicket => return Some(no_ticket(group)),
            Fault::TicketsOnce if nth == 1 => return Some(no_ticket(group)),
            Fault::Several(_) if group.items.len() == 1 => Fault::None,
            Fault::Refused(code) | Fault::Several(code) => {
                let refused = Failure::new(code, format!("refused: {code}"));
                return Some(GroupResult { request_id: group.request_id, outcome: Err(refused) }.into_wire());
            }
            Fault::None
            | Fault::OtherContent
            | Fault::OtherKey
            | Fault::Garbage
            | Fault::NotMyItems
            | Fault::LostOnce
            | Fault::BusyOnce
            | Fault::OtherSalt
            | Fault::TicketsOnce
            | Fault::Silent => self.fault,
        };
        let mut items: Vec<_> = group.items.iter().map(|item| Ok(sign(item, self.version, fault))).collect();
        if fault == Fault::NotMyItems {
            items.push(items[0].clone());
        }
        Some(GroupResult { request_id: group.request_id, outcome: Ok(items) }.into_wire())
    }
}

fn no_ticket(group: &Group) -> v1::SignGroupResult {
    let refused = Failure::new(Code::TicketRefused, "the ticket was not made here");
    GroupResult { request_id: group.request_id, outcome: Err(refused) }.into_wire()
}

fn sign(item: &sealwright_crypto::tbs::ToBeSigned, version: KeyVersion, fault: Fault) -> LoggedSignature {
    let hash = item.content.hash().unwrap();
    let issuer = if fault == Fault::OtherKey {
        Fingerprint::from_bytes(&[7; 20]).unwrap()
    } else {
        certificate(version).fingerprint()
    };
    // A ticket of this service is its salt.
    let first = item.ticket.as_ref().map(|salt| Salt::new(hash, salt).unwrap());
    let content = if fault == Fault::OtherContent {
        Hasher::new(hash).midstate()
    } else {
        item.content.to_midstate(first.as_ref()).unwrap()
    };
    let first =
        if fault == Fault::OtherSalt { first.map(|_| Salt::new(hash, &[9; 16]).unwrap()) } else { first };
    let template = Template {
        hash,
        kind: item.purpose.data_kind(),
        key: KeyAlgorithm::Ed25519,
        issuer,
        created: CREATED,
        salt: None,
        first,
    };
    let unsigned = template.finish(&content).unwrap();
    let key = secret(version);
    let digest = unsigned.digest();
    let value = SigningKey::sign(
        &key.primary_key,
        &Password::empty(),
        PgpHash::from(hash.openpgp_id()),
        digest.as_bytes(),
    );
    let raw: Vec<u8> = match value.unwrap() {
        SignatureBytes::Mpis(mpis) => mpis
            .iter()
            .flat_map(|mpi| {
                let bytes = mpi.as_ref();
                [vec![0; 32 - bytes.len()], bytes.to_vec()].concat()
            })
            .collect(),
        SignatureBytes::Native(bytes) => bytes.to_vec(),
    };
    let packet = if fault == Fault::Garbage { vec![0x13; 40] } else { unsigned.pack(&raw).unwrap() };
    LoggedSignature { packet, log_index: 0, leaf_hash: [1; 32] }
}

type Answers = Pin<Box<dyn tokio_stream::Stream<Item = Result<v1::SignGroupResult, Status>> + Send>>;

#[tonic::async_trait]
impl Signing for Service {
    type SignStream = Answers;

    async fn sign(&self, request: Request<Streaming<v1::SignGroup>>) -> Result<Response<Answers>, Status> {
        let mut groups = request.into_inner();
        let (answers, stream) = mpsc::channel(16);
        let service = self.clone();
        tokio::spawn(async move {
            while let Ok(Some(group)) = groups.message().await {
                let group = Group::parse(group).unwrap();
                if service.fault == Fault::Silent {
                    service.asked.lock().unwrap().push(group.request_id);
                    continue;
                }
                let Some(answer) = service.answer(&group) else { return };
                answers.send(Ok(answer)).await.unwrap();
            }
        });
        Ok(Response::new(Box::pin(ReceiverStream::new(stream))))
    }

    async fn begin_salts(
        &self,
        request: Request<v1::BeginSaltsRequest>,
    ) -> Result<Response<v1::BeginSaltsResponse>, Status> {
        let asked = SaltsRequest::parse(request.get_ref())?;
        let mut requests = self.salts_asked.lock().unwrap();
        let before: usize = requests.iter().sum();
        requests.push(asked.count);
        let ticket = |number: usize| {
            let salt = vec![u8::try_from(number).unwrap(); asked.hash.salt_len()];
            SaltTicket { salt: Salt::new(asked.hash, &salt).unwrap(), ticket: salt }
        };
        let tickets = (before..before + asked.count).map(ticket).collect();
        Ok(Response::new(Salts { tickets, valid_for_s: 1800 }.into_wire()))
    }
}

fn unused<T>() -> Result<Response<T>, Status> {
    Err(Status::unimplemented("not used by these tests"))
}

#[tonic::async_trait]
impl Keys for Service {
    async fn describe(&self, _: Request<v1::DescribeKeyRequest>) -> Result<Response<v1::Key>, Status> {
        let certificate = certificate(self.version);
        let state = if self.disabled { v1::KeyState::Disabled } else { v1::KeyState::Enabled };
        Ok(Response::new(v1::Key {
            id: vec![1; 16],
            name: "release".to_owned(),
            state: state.into(),
            algorithm: "ed25519".to_owned(),
            fingerprint: certificate.fingerprint().to_string(),
            signing_fingerprint: certificate.fingerprint().to_string(),
            user_id: "u".to_owned(),
            created: 0,
            expires: None,
            generation: 1,
            usages: vec![1],
            certificate: certificate.to_binary(),
            renewable: true,
            backend: "software".to_owned(),
            revocation: String::new(),
            warnings: Vec::new(),
        }))
    }

    async fn create(&self, _: Request<v1::CreateKeyRequest>) -> Result<Response<v1::Key>, Status> {
        unused()
    }

    async fn list(&self, _: Request<v1::ListKeysRequest>) -> Result<Response<v1::ListKeysResponse>, Status> {
        unused()
    }

    async fn begin_import(
        &self,
        _: Request<v1::BeginImportRequest>,
    ) -> Result<Response<v1::BeginImportResponse>, Status> {
        unused()
    }

    async fn import(
        &self,
        _: Request<v1::ImportKeyRequest>,
    ) -> Result<Response<v1::ImportKeyResponse>, Status> {
        unused()
    }

    async fn renew(&self, _: Request<v1::RenewKeyRequest>) -> Result<Response<v1::Key>, Status> {
        unused()
    }

    async fn set_state(&self, _: Request<v1::SetKeyStateRequest>) -> Result<Response<v1::Key>, Status> {
        unused()
    }
}
