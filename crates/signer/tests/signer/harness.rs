//! A signer in a thread, a directory that goes with it, and the requests of front in one line each.

use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::thread::JoinHandle;

use hpke::aead::AesGcm256;
use hpke::kdf::HkdfSha256;
use hpke::kem::X25519HkdfSha256;
use hpke::{Deserializable as _, Kem, OpModeS, Serializable as _};
use prost::Message as _;
use sealwright_crypto::algorithm::{HashAlgorithm, KeyAlgorithm, KeyVersion};
use sealwright_crypto::digest::Hasher;
use sealwright_crypto::openpgp::certificate::{Certificate, Keyring};
use sealwright_crypto::openpgp::packet::SignaturePacket;
use sealwright_crypto::openpgp::salt::Salt;
use sealwright_crypto::openpgp::verify;
use sealwright_crypto::tbs::{Content, ToBeSigned};
use sealwright_crypto::usage::{Purpose, Usage};
use sealwright_proto::convert::batch::{Batch, Request, SealedKey, SignedItem, parse_outcomes};
use sealwright_proto::convert::group::Priority;
use sealwright_proto::convert::keys::{
    IMPORT_INFO, ImportKey, KeyMaterial, KeySource, KeySpec, SignerCreate, SignerImport, SignerRenew,
};
use sealwright_proto::frame;
use sealwright_proto::names::{KeyId, KeyName};
use sealwright_proto::signer_v1::from_signer::Response;
use sealwright_proto::signer_v1::to_signer::Request as Asked;
use sealwright_proto::signer_v1::{BeginImport, FromSigner, ImportSecret, ToSigner};
use sealwright_proto::status::Fault;
use sealwright_signer::{Clock, Config, Error};

/// 2026-11-30 14:03:59 UTC.
pub(crate) const NOW: i64 = 1_796_047_439;

/// A clock that a test sets.
pub(crate) struct TestClock(AtomicI64);

impl Clock for TestClock {
    fn unix_s(&self) -> i64 {
        self.0.load(Ordering::SeqCst)
    }
}

/// A running signer.
pub(crate) struct Signer {
    pub(crate) socket: UnixStream,
    clock: Arc<TestClock>,
    thread: Option<JoinHandle<Result<(), Error>>>,
    directory: Arc<tempfile::TempDir>,
    next_id: u64,
}

impl Signer {
    /// With keys of its own.
    pub(crate) fn start() -> Self {
        Self::start_in(Arc::new(tempfile::tempdir().unwrap()))
    }

    /// Another one on the same keys.
    pub(crate) fn start_beside(&self) -> Self {
        Self::start_in(self.shared())
    }

    fn start_in(directory: Arc<tempfile::TempDir>) -> Self {
        let mut signer = Self::start_without_greeting(directory);
        match signer.receive() {
            FromSigner { id: 0, response: Some(Response::Ready(ready)) } => assert_eq!(ready.version, 1),
            other => panic!("{other:?}"),
        }
        signer
    }

    pub(crate) fn start_without_greeting(directory: Arc<tempfile::TempDir>) -> Self {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let clock = Arc::new(TestClock(AtomicI64::new(NOW)));
        let config = Config {
            watcher: None,
            root: directory.path().join("root"),
            create: true,
            root_key: None,
            socket: theirs.into(),
        };
        let thread = std::thread::spawn({
            let clock = Arc::clone(&clock);
            move || sealwright_signer::serve(config, clock)
        });
        Self { socket: ours, clock, thread: Some(thread), directory, next_id: 0 }
    }

    /// For another signer on the same keys.
    pub(crate) fn shared(&self) -> Arc<tempfile::TempDir> {
        Arc::clone(&self.directory)
    }

    /// Where its files are.
    pub(crate) fn root(&self) -> PathBuf {
        self.directory.path().join("root")
    }

    pub(crate) fn set_clock(&self, unix_s: i64) {
        self.clock.0.store(unix_s, Ordering::SeqCst);
    }

    pub(crate) fn receive(&mut self) -> FromSigner {
        frame::read::<FromSigner>(&mut self.socket).unwrap().expect("an answer").0
    }

    pub(crate) fn send(&mut self, asked: Asked) -> u64 {
        self.next_id += 1;
        let message = ToSigner { id: self.next_id, request: Some(asked) };
        frame::write(&mut self.socket, &message).unwrap();
        self.next_id
    }

    pub(crate) fn ask(&mut self, asked: Asked) -> Result<Response, Fault> {
        let id = self.send(asked);
        let answer = self.receive();
        assert_eq!(answer.id, id);
        match answer.response.expect("a response") {
            Response::Failure(failure) => Err(failure.into()),
            other => Ok(other),
        }
    }

    fn ask_for_key(&mut self, asked: Asked) -> Result<KeyMaterial, Fault> {
        match self.ask(asked)? {
            Response::Key(wire) => Ok(KeyMaterial::parse(wire).unwrap()),
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn create(&mut self, id: u8, spec: KeySpec) -> KeyMaterial {
        self.create_for(id, spec, vec![Usage::OpenPgp]).unwrap()
    }

    /// With these usages.
    pub(crate) fn create_for(
        &mut self,
        id: u8,
        spec: KeySpec,
        usages: Vec<Usage>,
    ) -> Result<KeyMaterial, Fault> {
        let create = SignerCreate { key_id: key_id(id), spec, usages, may_wait: false };
        self.ask_for_key(Asked::Create(create.into_wire()))
    }

    pub(crate) fn import(
        &mut self,
        id: u8,
        file: &[u8],
        passphrase: &str,
        subkey: &str,
    ) -> Result<KeyMaterial, Fault> {
        let secret = ImportSecret {
            key: file.to_vec(),
            passphrase: passphrase.as_bytes().to_vec(),
            subkey: subkey.to_owned(),
            usages: Vec::new(),
            bare_digests_on_primary: false,
        };
        self.import_encrypted_for(id, &secret, "imported", "imported")
    }

    /// Encrypts for one name and asks with another.
    pub(crate) fn import_encrypted_for(
        &mut self,
        id: u8,
        secret: &ImportSecret,
        name: &str,
        asked_name: &str,
    ) -> Result<KeyMaterial, Fault> {
        self.import_told(id, secret, (name, asked_name), vec![Usage::OpenPgp])
    }

    /// The same, with what front was told of the usages.
    pub(crate) fn import_told(
        &mut self,
        id: u8,
        secret: &ImportSecret,
        (name, asked_name): (&str, &str),
        usages: Vec<Usage>,
    ) -> Result<KeyMaterial, Fault> {
        let Response::ImportKey(public) = self.ask(Asked::BeginImport(BeginImport {})).unwrap() else {
            panic!("no public key")
        };
        let public = <X25519HkdfSha256 as Kem>::PublicKey::from_bytes(&public.hpke_public_key).unwrap();
        let (encapsulated, ciphertext) = hpke::single_shot_seal::<AesGcm256, HkdfSha256, X25519HkdfSha256>(
            &OpModeS::Base,
            &public,
            IMPORT_INFO,
            &secret.encode_to_vec(),
            name.as_bytes(),
        )
        .unwrap();
        let import = ImportKey {
            name: KeyName::parse(asked_name).unwrap(),
            encapsulated_key: encapsulated.to_bytes().into(),
            ciphertext,
            usages,
        };
        let import = SignerImport { key_id: key_id(id), import };
        self.ask_for_key(Asked::Import(import.into_wire()))
    }

    pub(crate) fn renew(
        &mut self,
        id: u8,
        key: &KeyMaterial,
        valid_for_s: Option<u64>,
    ) -> Result<KeyMaterial, Fault> {
        let renew = SignerRenew {
            key: sealed(id, key),
            valid_for_s,
            certificate: key.certificate.clone(),
            generation: key.generation + 1,
        };
        self.ask_for_key(Asked::Renew(renew.into_wire()))
    }

    pub(crate) fn sign_batch(&mut self, batch: Batch) -> Result<Vec<Result<SignedItem, Fault>>, Fault> {
        let items = batch.requests.len();
        match self.ask(Asked::Sign(batch.into_wire()))? {
            Response::Sign(result) => parse_outcomes(result, items),
            other => panic!("{other:?}"),
        }
    }

    /// Signs `content` alone.
    pub(crate) fn sign(
        &mut self,
        key: SealedKey,
        hash: HashAlgorithm,
        content: &[u8],
    ) -> Result<SignedItem, Fault> {
        let request = if key.blob[0] == 2 { request_v6(0, hash, content) } else { request(0, hash, content) };
        let batch =
            Batch { keys: vec![key], requests: vec![request], deadline_ms: None, priority: Priority::Batch };
        self.sign_batch(batch)?.remove(0)
    }

    /// Closes the socket, as front does in the end.
    pub(crate) fn stop(mut self) -> Result<(), Error> {
        self.socket.shutdown(std::net::Shutdown::Both).unwrap();
        self.thread.take().unwrap().join().unwrap()
    }

    /// Waits for the end that the signer came to by itself.
    pub(crate) fn ended(mut self) -> Result<(), Error> {
        self.thread.take().unwrap().join().unwrap()
    }
}

pub(crate) fn key_id(last: u8) -> KeyId {
    KeyId::parse(&[0x01, 0x98, 0xf3, 0, 0, 1, 0x7a, 0xbc, 0x9d, 0, 1, 2, 3, 4, 5, last]).unwrap()
}

pub(crate) fn spec(algorithm: KeyAlgorithm) -> KeySpec {
    KeySpec {
        version: KeyVersion::V4,
        source: KeySource::Software(algorithm),
        user_id: "Release <release@example.org>".to_owned(),
        valid_for_s: None,
        signing_subkey: false,
        bare_digests_on_primary: false,
    }
}

pub(crate) fn sealed(id: u8, key: &KeyMaterial) -> SealedKey {
    SealedKey { key_id: key_id(id), generation: key.generation, blob: key.sealed.clone() }
}

/// With key number `key`, by midstate, salted.
pub(crate) fn request(key: usize, hash: HashAlgorithm, content: &[u8]) -> Request {
    let mut hasher = Hasher::new(hash);
    hasher.update(content);
    let content = Content::Midstate(hasher.midstate());
    let item = ToBeSigned { usage: Usage::OpenPgp, purpose: Purpose::Detached, content, ticket: None };
    Request { key, item, not_before: 0, salt: true, first: None, trace_id: None }
}

/// The same for a version 6 key: hashed after a salt.
pub(crate) fn request_v6(key: usize, hash: HashAlgorithm, content: &[u8]) -> Request {
    let salt = Salt::new(hash, &vec![0x5a; hash.salt_len()]).unwrap();
    let mut hasher = salt.hasher();
    hasher.update(content);
    let mut request = request(key, hash, b"");
    request.item.content = Content::Midstate(hasher.midstate());
    Request { first: Some(salt), salt: false, ..request }
}

/// Verifies like a stranger.
pub(crate) fn verdict(key: &KeyMaterial, packet: &[u8], content: &[u8], now: i64) -> verify::State {
    let mut keyring = Keyring::new();
    keyring.push(Certificate::parse(&key.certificate).unwrap());
    let packet = SignaturePacket::parse(packet).unwrap();
    let mut hasher = Hasher::new(packet.hash().unwrap());
    hasher.update(packet.salt().unwrap_or_default());
    hasher.update(content);
    verify::verify(&packet, &hasher, &keyring, now).state
}

pub(crate) fn fixture(name: &str) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/pgp-key").join(name);
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}
