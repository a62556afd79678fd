//! What the signer reads that others wrote: sealed keys from the database, key files of an import, certificates of a
//! renewal. The real signer runs beside, over its own socket, with root key and imported key made at the start; the first
//! byte says what it is asked.
//!
//! It answers everything, and never with `internal`, which is also its answer to a panic of its own. A sealed key opens
//! only as it was sealed. What it imports or renews is a key whose certificate reads. Not here: its own files (root key,
//! data key, floors), which only its own user can write.

use std::os::unix::net::UnixStream;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::Duration;

use hpke::aead::AesGcm256;
use hpke::kdf::HkdfSha256;
use hpke::kem::X25519HkdfSha256;
use hpke::{Deserializable as _, Kem, OpModeS, Serializable as _};
use prost::Message as _;
use sealwright_crypto::algorithm::HashAlgorithm;
use sealwright_crypto::digest::Hasher;
use sealwright_crypto::openpgp::certificate::Certificate;
use sealwright_crypto::openpgp::fingerprint::Fingerprint;
use sealwright_proto::convert::keys::{IMPORT_INFO, KeyMaterial};
use sealwright_proto::frame;
use sealwright_proto::signer_v1 as wire;
use sealwright_proto::signer_v1::from_signer::Response;
use sealwright_proto::signer_v1::to_signer::Request;
use sealwright_proto::status::{Code, Fault};
use sealwright_signer::{Clock, Config, serve};

use crate::choices::Choices;

/// A key without passphrase, which is imported at the start.
const KEY: &[u8] = include_bytes!("../../fixtures/pgp-key/gen_ed25519.sec.asc");
/// A UUID of version 7.
const KEY_ID: [u8; 16] = [0x01, 0x98, 0xf3, 0, 0, 1, 0x7a, 0xbc, 0x9d, 0, 1, 2, 3, 4, 5, 6];
const NAME: &str = "fuzz";

/// 2026-12-01, for ever.
struct Still;

impl Clock for Still {
    fn unix_s(&self) -> i64 {
        1_796_083_200
    }
}

/// The other end of the signer's socket.
struct Front {
    socket: Mutex<UnixStream>,
}

/// A signer that runs, with one key.
struct Signer {
    front: Front,
    import_key: Vec<u8>,
    material: KeyMaterial,
    /// The root key lies there.
    _folder: tempfile::TempDir,
}

static SIGNER: LazyLock<Signer> = LazyLock::new(Signer::start);

pub(crate) fn run(data: &[u8]) {
    let mut input = Choices::new(data);
    match input.byte() % 4 {
        0 => foreign_blob(input.rest()),
        1 => changed_blob(&mut input),
        2 => import(&mut input),
        _ => renew(&mut input),
    }
}

/// A blob that the fuzzer wrote, stored as the key that it says it is.
fn foreign_blob(blob: &[u8]) {
    let key_id = blob.get(9..25).unwrap_or(&KEY_ID).to_vec();
    let generation = blob.get(25..29).map_or(1, |bytes| u32::from_be_bytes(bytes.try_into().unwrap()));
    let key = wire::SealedKey { key_id, generation, sealed: blob.to_vec() };
    assert!(SIGNER.front.sign_with(key).is_err(), "a blob opened that was not sealed");
}

/// The blob of the imported key, with a few bytes changed, or stored as another.
fn changed_blob(input: &mut Choices<'_>) {
    let mut key = SIGNER.sealed();
    let good = key.clone();
    key.generation = key.generation.wrapping_add(u32::from(input.byte()));
    key.key_id[15] ^= input.byte();
    let len = key.sealed.len();
    key.sealed.truncate(len - usize::from(input.byte()) % len);
    while !input.is_empty() {
        let (at, change) = (usize::from(input.number()), input.byte());
        let len = key.sealed.len();
        key.sealed[at % len] ^= change;
    }
    let is_good = key == good;
    assert_eq!(SIGNER.front.sign_with(key).is_ok(), is_good, "a blob opens exactly as it was sealed");
}

/// A key file, with no passphrase or with one, and perhaps the subkey to use.
fn import(input: &mut Choices<'_>) {
    let passphrase = input.one_of(&["", "corpus-pass", "password"]);
    let subkey = if input.flag() {
        Fingerprint::from_bytes(&input.bytes(20)).unwrap().to_string()
    } else {
        String::new()
    };
    let file = std::mem::replace(input, Choices::new(&[])).rest();
    if let Ok(material) = SIGNER.front.import(&SIGNER.import_key, file, passphrase, &subkey) {
        sound(&material);
        let key = wire::SealedKey { key_id: KEY_ID.to_vec(), generation: 1, sealed: material.sealed };
        assert!(SIGNER.front.sign_with(key).is_ok(), "an imported key does not sign");
    }
}

/// A certificate of the imported key, as the database would give it.
fn renew(input: &mut Choices<'_>) {
    let valid_for_s = input.flag().then_some(86_400);
    let certificate = std::mem::replace(input, Choices::new(&[])).rest().to_vec();
    let renew = wire::RenewKey { key: Some(SIGNER.sealed()), valid_for_s, certificate, generation: 2 };
    if let Ok(material) = SIGNER.front.key(Request::Renew(renew)) {
        sound(&material);
    }
}

fn sound(material: &KeyMaterial) {
    let certificate = Certificate::parse(&material.certificate).unwrap();
    assert_eq!(certificate.fingerprint().to_string(), material.fingerprint);
    let signing = Fingerprint::from_hex(&material.signing_fingerprint).unwrap();
    assert!(certificate.find(&signing).is_some(), "the key that signs is not in its certificate");
}

/// The failure of an answer that is none of the expected ones.
fn failed(response: Response) -> Fault {
    let Response::Failure(failure) = response else { panic!("an answer to another question") };
    let fault = Fault::from(failure);
    assert!(
        !matches!(fault.code, Code::Internal | Code::SignatureSelfCheckFailed),
        "{}: {fault}",
        fault.code
    );
    fault
}

impl Signer {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (ours, theirs) = UnixStream::pair().unwrap();
        let root = folder.path().join("root");
        std::thread::spawn(move || {
            let config = Config { root, root_key: None, create: true, socket: theirs.into(), watcher: None };
            serve(config, Arc::new(Still)).unwrap()
        });
        ours.set_read_timeout(Some(Duration::from_secs(120))).unwrap();
        let front = Front { socket: Mutex::new(ours) };
        assert!(matches!(front.answer(), Response::Ready(_)), "the signer does not start");
        let Response::ImportKey(key) = front.ask(Request::BeginImport(wire::BeginImport {})) else {
            panic!("no key to import with")
        };
        let import_key = key.hpke_public_key;
        let material = front.import(&import_key, KEY, "", "").unwrap();
        Self { front, import_key, material, _folder: folder }
    }

    fn sealed(&self) -> wire::SealedKey {
        let (generation, sealed) = (self.material.generation, self.material.sealed.clone());
        wire::SealedKey { key_id: KEY_ID.to_vec(), generation, sealed }
    }
}

impl Front {
    fn ask(&self, request: Request) -> Response {
        let message = wire::ToSigner { id: 1, request: Some(request) };
        frame::write(&mut *self.lock(), &message).unwrap();
        self.answer()
    }

    fn answer(&self) -> Response {
        let (message, _) = frame::read::<wire::FromSigner>(&mut *self.lock()).unwrap().unwrap();
        message.response.unwrap()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, UnixStream> {
        self.socket.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One signature with this key.
    fn sign_with(&self, key: wire::SealedKey) -> Result<wire::SignerSignature, Fault> {
        let content = Hasher::new(HashAlgorithm::Sha256).midstate().encode();
        let item = wire::SignRequest {
            key: 0,
            usage: 1,
            purpose: 3,
            content: Some(wire::sign_request::Content::Midstate(content)),
            not_before: 0,
            salt: false,
            // Blobs of version 2 have version 6 keys, which hash a salt first.
            first: vec![7; if key.sealed.first() == Some(&2) { 16 } else { 0 }],
            trace_id: Vec::new(),
        };
        let batch = wire::SignBatch { keys: vec![key], items: vec![item], ..Default::default() };
        let answer = self.ask(Request::Sign(batch));
        let Response::Sign(mut result) = answer else { return Err(failed(answer)) };
        match result.items.remove(0).outcome.unwrap() {
            wire::sign_outcome::Outcome::Signature(signature) => Ok(signature),
            wire::sign_outcome::Outcome::Failure(failure) => Err(failed(Response::Failure(failure))),
        }
    }

    fn import(
        &self,
        import_key: &[u8],
        file: &[u8],
        passphrase: &str,
        subkey: &str,
    ) -> Result<KeyMaterial, Fault> {
        let secret = wire::ImportSecret {
            key: file.to_vec(),
            passphrase: passphrase.as_bytes().to_vec(),
            subkey: subkey.to_owned(),
            usages: vec![1],
            bare_digests_on_primary: false,
        };
        let recipient = <X25519HkdfSha256 as Kem>::PublicKey::from_bytes(import_key).unwrap();
        let sealed = hpke::single_shot_seal::<AesGcm256, HkdfSha256, X25519HkdfSha256>(
            &OpModeS::Base,
            &recipient,
            IMPORT_INFO,
            &secret.encode_to_vec(),
            NAME.as_bytes(),
        );
        let (encapsulated, ciphertext) = sealed.unwrap();
        let import = wire::ImportKey {
            key_id: KEY_ID.to_vec(),
            name: NAME.to_owned(),
            encapsulated_key: encapsulated.to_bytes().to_vec(),
            ciphertext,
            usages: vec![1],
        };
        self.key(Request::Import(import))
    }

    /// What is answered with a key.
    fn key(&self, request: Request) -> Result<KeyMaterial, Fault> {
        let answer = self.ask(request);
        let Response::Key(material) = answer else { return Err(failed(answer)) };
        Ok(KeyMaterial::parse(material).unwrap())
    }
}
