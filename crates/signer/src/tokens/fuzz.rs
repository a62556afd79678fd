//! What the fuzz targets of tokens reach (`docs/howto/fuzz.md`), and nobody else: what comes from `tokens.toml`, from a
//! seal, from keeper and worker, given as bytes, and what was made of it.

use std::collections::BTreeMap;
use std::fmt;
use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::mpsc::Receiver;

use rustix::net::{
    AddressFamily, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
};
use sealwright_crypto::algorithm::{HashAlgorithm, KeyVersion};
use sealwright_crypto::digest::{Digest, Hasher};
use sealwright_proto::token_v1::to_keeper;

use super::*;
use crate::backend::pkcs11;
use crate::public::PublicHalf;
use crate::secret::Secret;

/// Of a worker that is heard.
const NUMBER: u64 = 1;
/// Descriptors of one packet at most.
const DESCRIPTORS_MAX: usize = 4;

/// One token of `tokens.toml`; the fields are those of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "docs/howto/tokens.md has them")]
pub struct Entry {
    pub name: String,
    pub module: PathBuf,
    pub label: String,
    pub serial: String,
    pub pin_file: PathBuf,
    pub sessions_max: Option<u32>,
    pub deadline_ms: Option<u64>,
    pub paths: Vec<PathBuf>,
    pub network: bool,
    pub environment: BTreeMap<String, String>,
}

/// The tokens of a `tokens.toml`.
///
/// # Errors
/// Why not, in one line.
pub fn entries(bytes: &[u8]) -> Result<Vec<Entry>, String> {
    let entry = |named: config::Named| {
        let entry = config::entry(named.table).map_err(|rule| rule.to_string())?;
        Ok(Entry {
            name: named.name.as_str().to_owned(),
            module: entry.module,
            label: entry.label,
            serial: entry.serial,
            pin_file: entry.pin_file,
            sessions_max: entry.sessions_max,
            deadline_ms: entry.deadline_ms,
            paths: entry.paths,
            network: entry.network,
            environment: entry.environment,
        })
    };
    config::named(bytes).map_err(|broken| broken.to_string())?.into_iter().map(entry).collect()
}

/// Where on a token a key is, as it is sealed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Name of the token.
    pub token: String,
    /// CKA_ID.
    pub id: Vec<u8>,
    /// CKA_LABEL.
    pub label: Vec<u8>,
    /// SHA-256 of the numbers of the public half.
    pub numbers: [u8; 32],
}

impl Place {
    /// The place in opened bytes of a seal.
    #[must_use]
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let (place, numbers) = pkcs11::Place::read(&Secret::joined(&[bytes]).ok()?)?;
        let pkcs11::Place { token, id, label } = place;
        let numbers = numbers.as_bytes().try_into().ok()?;
        Some(Self { token: token.as_str().to_owned(), id, label, numbers })
    }

    /// The bytes that are sealed.
    #[must_use]
    pub fn encode(&self) -> Option<Vec<u8>> {
        let Self { token, id, label, numbers } = self;
        let token = TokenName::parse(token).ok()?;
        let numbers = Digest::from_bytes(HashAlgorithm::Sha256, numbers).ok()?;
        pkcs11::Place { token, id: id.clone(), label: label.clone() }.encode(&numbers).ok()
    }
}

/// What a worker makes of the bytes that reach it first: the start, and the bytes of its PIN.
#[must_use]
pub fn first_of_worker(mut bytes: &[u8]) -> Option<(Start, Vec<u8>)> {
    let (start, pin) = worker::first_message(&mut bytes).ok()??;
    Some((start, pin.expose().to_vec()))
}

/// What the keeper makes of a packet of the signer.
#[must_use]
pub fn heard_by_keeper(packet: &[u8]) -> Option<to_keeper::Request> {
    let (signer, keeper) = packets()?;
    rustix::net::send(&signer, packet, SendFlags::NOSIGNAL).ok()?;
    keeper::receive(&keeper).ok()?.map(|(request, _)| request)
}

/// What the signer makes of a packet of the keeper with so many descriptors: index of the token, number of the worker.
#[must_use]
pub fn heard_of_keeper(packet: &[u8], descriptors: usize) -> Option<(usize, u64)> {
    let (signer, keeper) = packets()?;
    let (worker, _other) = UnixStream::pair().ok()?;
    let all: [BorrowedFd<'_>; DESCRIPTORS_MAX] = [worker.as_fd(); DESCRIPTORS_MAX];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if let Some(some) = all.get(..descriptors).filter(|some| !some.is_empty()) {
        control.push(SendAncillaryMessage::ScmRights(some));
    }
    rustix::net::sendmsg(&keeper, &[IoSlice::new(packet)], &mut control, SendFlags::NOSIGNAL).ok()?;
    let fresh = Keeper::of(signer).next().ok()??;
    Some((fresh.token, fresh.worker))
}

/// What became of a token whose worker has said something, and ended.
pub struct Report {
    /// It was told to be killed.
    pub killed: bool,
    /// The PIN is tried no more.
    pub pin_refused: bool,
    /// Why the token cannot be used now.
    pub down: Option<Fault>,
    /// What those were told who had asked, in their order; exactly one answer each.
    pub answers: Vec<Answer>,
}

/// An answer to who had asked.
#[derive(Debug)]
pub struct Answer {
    /// As it was given to who had asked.
    pub given: Result<Response, Fault>,
    /// The key, if the answer is one that can be used.
    pub key: Option<Key>,
}

/// A key that a worker has found.
#[derive(Debug)]
pub struct Key {
    /// What would be sealed.
    pub place: Vec<u8>,
    /// What its user would be told.
    pub warnings: Vec<String>,
    /// Body of the public-key packet, if aws-lc takes the key, and what is read of it again.
    pub public: Option<(Vec<u8>, Option<Vec<u8>>)>,
}

impl fmt::Debug for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Report")
            .field("down", &self.down)
            .field("answers", &self.answers)
            .finish_non_exhaustive()
    }
}

/// A worker that was told to start says these bytes, while requests with these ids wait for it. What has to be remembered of
/// a PIN goes to `directory`.
#[must_use]
pub fn heard_of_worker(directory: &Path, said: &[u8], asked: &[u64]) -> Option<Report> {
    let (signer, keeper) = packets()?;
    let (socket, _worker) = UnixStream::pair().ok()?;
    let token = token(directory, Keeper::of(signer))?;
    let mut answers = Vec::new();
    {
        let mut state = token.state();
        let stage = Stage::Starting(Instant::now());
        state.worker = Some(Worker { number: NUMBER, socket: Arc::new(Mutex::new(socket)), stage });
        for id in asked {
            let (answer, answered) = sync_channel(1);
            state.waiting.insert(*id, answer);
            answers.push(answered);
        }
    }
    token.listen(NUMBER, &mut &*said);
    let mut packet = [0; 64];
    let killed = rustix::net::recv(&keeper, packet.as_mut_slice(), RecvFlags::DONTWAIT).is_ok();
    let answers = answers.iter().map(|answered| answer_of(&token, answered)).collect::<Option<_>>()?;
    let state = token.state();
    Some(Report { killed, pin_refused: state.pin_refused, down: state.down.clone(), answers })
}

/// `None` if there is none, or another after it.
fn answer_of(token: &Token, answered: &Receiver<Result<Response, Fault>>) -> Option<Answer> {
    let given = token.answer(answered.try_recv().ok()?);
    if answered.try_recv().is_ok() {
        return None;
    }
    let pair = given.as_ref().ok().and_then(|found| pkcs11::pair_of(token.name(), found.clone()).ok());
    let key = pair.map(|pair| {
        let public = PublicHalf::new(KeyVersion::V4, 1, &pair.numbers).ok();
        let again =
            |public: &PublicHalf| PublicHalf::parse(public.body()).ok().map(|half| half.body().to_vec());
        Key {
            place: pair.secret.expose().to_vec(),
            warnings: pair.warnings,
            public: public.map(|public| (public.body().to_vec(), again(&public))),
        }
    });
    Some(Answer { given, key })
}

fn token(directory: &Path, keeper: Keeper) -> Option<Token> {
    let settings = Settings {
        name: TokenName::parse("hsm1").ok()?,
        module: PathBuf::from("/x.so"),
        label: "l".to_owned(),
        serial: String::new(),
        pin: Secret::joined(&[b"1234"]).ok()?,
        sessions_max: 1,
        deadline: Duration::from_secs(1),
        paths: Vec::new(),
        network: false,
        environment: BTreeMap::new(),
        state: Hasher::digest(HashAlgorithm::Sha256, b"the entry"),
    };
    Some(Token {
        index: 0,
        settings,
        require_sandbox: false,
        directory: directory.to_owned(),
        keeper: Arc::new(keeper),
        state: Mutex::default(),
        changed: Condvar::new(),
    })
}

/// Both ends of a socket between signer and keeper.
fn packets() -> Option<(OwnedFd, OwnedFd)> {
    rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).ok()
}
