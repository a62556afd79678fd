//! A signer of the test's own: a thread that speaks the frames and signs with a key of the fixtures.

use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use aws_lc_rs::signature::Ed25519KeyPair;
use pgp::composed::{Deserializable as _, SignedSecretKey};
use pgp::crypto::eddsa_legacy;
use pgp::types::{PlainSecretParams, SecretParams};
use sealwright_crypto::algorithm::KeyAlgorithm;
use sealwright_crypto::openpgp::certificate::Certificate;
use sealwright_crypto::openpgp::signature::Template;
use sealwright_proto::convert::batch::{Batch, Operation, Request, SignedItem, outcomes_to_wire};
use sealwright_proto::convert::keys::KeyMaterial;
use sealwright_proto::frame;
use sealwright_proto::names::{BackendName, KeyId};
use sealwright_proto::signer_v1::{
    FromSigner, ImportPublicKey, ProjectKeyMade, Ready, ToSigner, from_signer::Response, to_signer,
};
use sealwright_proto::status::{Code, Fault};

/// Before the certificate of the fixture was made nothing can be dated; after it, anything.
pub(crate) const CREATED: i64 = 1_796_042_100;

pub(crate) fn certificate() -> Certificate {
    Certificate::parse(include_bytes!("../../../../fixtures/pgp-key/gen_ed25519.pub.asc")).unwrap()
}

const V6: &[u8] = include_bytes!("../../../../fixtures/pgp-key/rpgp_v6-25519-annex-a-4_tsk.asc");

/// Of version 6: the sample of RFC 9580, appendix A.4.
pub(crate) fn certificate_v6() -> Certificate {
    let (secret, _) = SignedSecretKey::from_armor_single(V6).unwrap();
    Certificate::parse(&pgp::ser::Serialize::to_bytes(&secret.to_public_key()).unwrap()).unwrap()
}

fn key_pair_v6() -> Ed25519KeyPair {
    let (secret, _) = SignedSecretKey::from_armor_single(V6).unwrap();
    let SecretParams::Plain(PlainSecretParams::Ed25519(key)) = secret.primary_key.secret_params() else {
        panic!("the fixture holds another kind of key")
    };
    Ed25519KeyPair::from_seed_unchecked(key.as_bytes()).unwrap()
}

fn key_pair() -> Ed25519KeyPair {
    let armored = include_bytes!("../../../../fixtures/pgp-key/gen_ed25519.sec.asc");
    let (secret, _) = SignedSecretKey::from_armor_single(armored.as_slice()).unwrap();
    let SecretParams::Plain(PlainSecretParams::EdDSALegacy(eddsa_legacy::SecretKey::Ed25519(key))) =
        secret.primary_key.secret_params()
    else {
        panic!("the fixture holds another kind of key")
    };
    Ed25519KeyPair::from_seed_unchecked(key.as_bytes()).unwrap()
}

/// What the signer does with a batch.
pub(crate) enum Act {
    /// Signs it.
    Sign,
    /// Signs it, and then spoils every answer.
    Spoil(fn(&mut SignedItem)),
    /// Refuses every item.
    Refuse(Code),
    /// Refuses every item by the id of its key.
    RefuseNaming(KeyId),
    /// Refuses the batch as a whole.
    RefuseAll(Code),
    /// Leaves an item out.
    AnswerOneLess,
    /// Never answers.
    Forget,
    /// Closes the socket.
    Die,
}

pub(crate) type OnSign = Box<dyn FnMut(usize, &Batch) -> Act + Send>;

/// Counts what came over the socket.
#[derive(Clone, Default)]
pub(crate) struct Counts {
    batches: Arc<AtomicUsize>,
    items: Arc<AtomicUsize>,
}

impl Counts {
    pub(crate) fn batches(&self) -> usize {
        self.batches.load(Ordering::SeqCst)
    }

    pub(crate) fn items(&self) -> usize {
        self.items.load(Ordering::SeqCst)
    }
}

pub(crate) fn greet(socket: &mut UnixStream, response: Response) {
    frame::write(socket, &FromSigner { id: 0, response: Some(response) }).unwrap();
}

pub(crate) fn ready(version: u32) -> Response {
    ready_with(version, "b2", false)
}

pub(crate) fn ready_with(version: u32, data_key_id: &str, has_history: bool) -> Response {
    let (root_key_id, data_key_id) = ("a1".to_owned(), data_key_id.to_owned());
    Response::Ready(Ready { version, root_key_id, data_key_id, has_history })
}

/// Starts the thread; `on_sign` gets the number of the batch, from 0.
pub(crate) fn start(mut socket: UnixStream, mut on_sign: OnSign) -> Counts {
    let counts = Counts::default();
    let counting = counts.clone();
    std::thread::spawn(move || {
        greet(&mut socket, ready(1));
        let key_pair = key_pair();
        let mut keys_made = 0;
        while let Ok(Some((ToSigner { id, request }, _))) = frame::read::<ToSigner>(&mut socket) {
            let response = match request.unwrap() {
                to_signer::Request::Sign(batch) => {
                    let batch = Batch::parse(batch).unwrap();
                    let number = counting.batches.fetch_add(1, Ordering::SeqCst);
                    counting.items.fetch_add(batch.requests.len(), Ordering::SeqCst);
                    match on_sign(number, &batch) {
                        Act::Forget => continue,
                        Act::Die => return,
                        act @ (Act::Sign
                        | Act::Spoil(_)
                        | Act::Refuse(_)
                        | Act::RefuseNaming(_)
                        | Act::RefuseAll(_)
                        | Act::AnswerOneLess) => answer(&key_pair, &batch, &act),
                    }
                }
                to_signer::Request::Create(create) if create.openpgp_version == 6 => {
                    Response::Key(material_v6().into_wire())
                }
                to_signer::Request::Create(create) if !create.token.is_empty() => {
                    keys_made += 1;
                    let backend = BackendName::parse(&format!("pkcs11:{}", create.token)).unwrap();
                    Response::Key(KeyMaterial { backend, ..material(keys_made, 1) }.into_wire())
                }
                to_signer::Request::Create(_) | to_signer::Request::Import(_) => {
                    keys_made += 1;
                    Response::Key(material(keys_made, 1).into_wire())
                }
                to_signer::Request::Renew(renew) => Response::Key(material(1, renew.generation).into_wire()),
                to_signer::Request::BeginImport(_) => {
                    Response::ImportKey(ImportPublicKey { hpke_public_key: vec![7; 32] })
                }
                to_signer::Request::MakeProjectKey(_) => {
                    let certificate = material(1, 1).certificate;
                    Response::ProjectKey(ProjectKeyMade { certificate, encrypted: vec![0x85; 64] })
                }
            };
            if frame::write(&mut socket, &FromSigner { id, response: Some(response) }).is_err() {
                return;
            }
        }
    });
    counts
}

fn answer(key_pair: &Ed25519KeyPair, batch: &Batch, act: &Act) -> Response {
    let mut outcomes: Vec<Result<SignedItem, Fault>> =
        batch.requests.iter().map(|request| Ok(sign(key_pair, request))).collect();
    match act {
        Act::Sign | Act::Forget | Act::Die => (),
        Act::Spoil(spoil) => outcomes.iter_mut().flatten().for_each(spoil),
        Act::Refuse(code) => outcomes.fill(Err(Fault::new(*code, "refused by the test"))),
        Act::RefuseNaming(key_id) => {
            let message = format!("key {key_id}: generation 2 was in use already");
            outcomes.fill(Err(Fault::new(Code::GenerationSuperseded, message)));
        }
        Act::AnswerOneLess => outcomes.truncate(outcomes.len() - 1),
        Act::RefuseAll(code) => return Response::Failure(Fault::new(*code, "refused by the test").into()),
    }
    Response::Sign(outcomes_to_wire(outcomes))
}

fn sign(key_pair: &Ed25519KeyPair, request: &Request) -> SignedItem {
    let content = request.item.content.to_midstate(request.first.as_ref()).unwrap();
    assert_eq!(request.item.ticket, None, "tickets are front's");
    let (key_pair, issuer) = match request.first {
        None => (key_pair, certificate().fingerprint()),
        Some(_) => (&key_pair_v6(), certificate_v6().fingerprint()),
    };
    let template = Template {
        hash: content.hash(),
        kind: request.item.purpose.data_kind(),
        key: KeyAlgorithm::Ed25519,
        issuer,
        created: u32::try_from(CREATED).unwrap(),
        salt: request.salt.then_some([9; 32]),
        first: request.first,
    };
    let unsigned = template.finish(&content).unwrap();
    let digest = unsigned.digest();
    let packet = unsigned.pack(key_pair.sign(digest.as_bytes()).as_ref()).unwrap();
    let operation = Operation { number: 1, ..Operation::default() };
    SignedItem { packet, digest: digest.as_bytes().to_vec(), created: CREATED, operation, issuer: None }
}

fn material_v6() -> KeyMaterial {
    let certificate = certificate_v6();
    let fingerprint = certificate.fingerprint().to_string();
    let signing_fingerprint = fingerprint.clone();
    KeyMaterial { fingerprint, signing_fingerprint, certificate: certificate.to_binary(), ..material(1, 1) }
}

/// The fixture's key for the first, made-up fingerprints for all others.
pub(crate) fn material(number: u8, generation: u32) -> KeyMaterial {
    let certificate = certificate();
    let fingerprint = match number {
        1 => certificate.fingerprint().to_string(),
        other => format!("{other:02x}").repeat(20),
    };
    KeyMaterial {
        sealed: format!("sealed {number} {generation}").into_bytes(),
        generation,
        algorithm: KeyAlgorithm::Ed25519,
        signing_fingerprint: fingerprint.clone(),
        fingerprint,
        user_id: "Test <test@example.org>".to_owned(),
        created: CREATED,
        expires: None,
        certificate: certificate.to_binary(),
        renewable: true,
        backend: BackendName::software(),
        revocation: Some("-----BEGIN PGP SIGNATURE-----".to_owned()),
        warnings: vec!["made by a test".to_owned()],
    }
}
