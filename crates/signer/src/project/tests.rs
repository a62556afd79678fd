//! A message that gpg made opens, one that is damaged in any way says one thing, and what we make gpg could open.

use std::path::Path;
use std::sync::Arc;

use sealwright_crypto::algorithm::KeyAlgorithm;
use sealwright_crypto::digest::Hasher;
use sealwright_crypto::openpgp::certificate::Certificate;
use sealwright_proto::convert::batch::SealedKey;
use sealwright_proto::convert::project::MakeProjectKey;

use super::*;
use crate::backend::Backend as _;
use crate::backend::software::Software;
use crate::public::PublicHalf;
use crate::seal::{Primary, StoredComponent, StoredKey};
use crate::tokens::Tokens;

const NOW: i64 = 1_796_047_439;

fn fixture(name: &str) -> Vec<u8> {
    std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/obs").join(name)).unwrap()
}

/// The key that the fixture is encrypted to.
fn recipient() -> StoredComponent {
    let armored = fixture("keys/rsa2048.sec.asc");
    let binary = sealwright_crypto::openpgp::armor::decode_or_binary(&armored).unwrap();
    let packets = crate::packets::split(&binary).unwrap();
    import::clear_secret(packets[0].body).unwrap()
}

fn opened(stored: &StoredComponent) -> Component {
    Component::open(&Tokens::none(), stored).unwrap()
}

/// `files/P`, as `sign -g` wrote it.
fn message() -> Vec<u8> {
    let text = String::from_utf8(fixture("files/P")).unwrap();
    let pairs = text.trim_end().as_bytes().chunks(2).map(|pair| core::str::from_utf8(pair).unwrap());
    pairs.map(|pair| u8::from_str_radix(pair, 16).unwrap()).collect()
}

fn made(algorithm: KeyAlgorithm, created: u32) -> StoredComponent {
    let (numbers, secret) = Software.generate(algorithm).unwrap();
    let public = PublicHalf::new(KeyVersion::V4, created, &numbers).unwrap();
    StoredComponent { backend: Software.number(), public: Arc::new(public), secret }
}

fn signs_and_verifies(project: &Component) {
    let hash = sealwright_crypto::algorithm::HashAlgorithm::Sha256;
    project.sign(&Hasher::digest(hash, b"content")).unwrap();
}

#[test]
fn a_key_that_gpg_encrypted_opens_and_signs() {
    let project = open(&opened(&recipient()), &message()).unwrap();
    let certificate = fixture("files/proj.asc");
    let certificate = sealwright_crypto::openpgp::armor::decode_or_binary(&certificate).unwrap();
    let certificate = Certificate::parse(&certificate).unwrap();
    assert_eq!(project.public().fingerprint(), certificate.fingerprint());
    signs_and_verifies(&project);
}

#[test]
fn whatever_is_wrong_with_a_message_the_answer_is_one() {
    let (recipient, message) = (opened(&recipient()), message());
    let closed = |bytes: &[u8]| {
        let fault = open(&recipient, bytes).err().unwrap();
        assert_eq!((fault.code, &fault.message), (Code::MalformedRequest, &super::closed().message));
    };
    for at in (0..message.len()).step_by(13) {
        let mut damaged = message.clone();
        damaged[at] ^= 1 << (at % 8);
        closed(&damaged);
        closed(&message[..at]);
    }
    closed(&[&message[..], &[0]].concat());
    closed(&[]);
    // For another key of the same kind.
    let other = opened(&made(KeyAlgorithm::Rsa(2048), 7));
    let fault = open(&other, &message).err().unwrap();
    assert_eq!(fault.message, super::closed().message);
    // Its key id hidden, and then it is not the one.
    let mut hidden = message;
    hidden[4..12].fill(0);
    assert!(open(&recipient, &hidden).is_ok());
    assert_eq!(open(&other, &hidden).err().unwrap().message, super::closed().message);
}

#[test]
fn what_is_inside_must_be_a_secret_key_in_the_clear_that_we_can_use() {
    let recipient = opened(&recipient());
    let encrypted = |body: &[u8]| super::message::encrypt(&recipient, body).unwrap();
    let binary = |name: &str| {
        sealwright_crypto::openpgp::armor::decode_or_binary(&fixture(&format!("keys/{name}.sec.asc")))
            .unwrap()
    };
    let body_of = |name: &str| crate::packets::split(&binary(name)).unwrap()[0].body.to_vec();
    signs_and_verifies(&open(&recipient, &encrypted(&body_of("rsa4096"))).unwrap());
    signs_and_verifies(&open(&recipient, &encrypted(&body_of("ed25519"))).unwrap());
    let good = body_of("ed25519");
    let mut wrong_sum = good.clone();
    *wrong_sum.last_mut().unwrap() ^= 1;
    let mut other_public = good.clone();
    other_public[30] ^= 1;
    for bad in
        [body_of("p256"), wrong_sum, other_public, good[..good.len() - 1].to_vec(), vec![4], Vec::new()]
    {
        let fault = open(&recipient, &encrypted(&bad)).err().unwrap();
        assert_eq!(fault.message, super::closed().message);
    }
}

#[test]
fn keys_that_decrypt_nothing_say_so() {
    let edwards = opened(&made(KeyAlgorithm::Ed25519, 7));
    assert_eq!(open(&edwards, &message()).err().unwrap().code, Code::Unsupported);
}

fn owner(signing: StoredComponent, primary: Primary) -> (StoredKey, SealedKey) {
    let key = crate::seal::tests::stored(primary);
    let sealed = SealedKey { key_id: key.key_id, generation: 1, blob: Vec::new() };
    (StoredKey { signing, ..key }, sealed)
}

#[test]
fn a_key_that_is_made_is_certified_expires_when_asked_and_opens_again() {
    let (owner, key) = owner(recipient(), Primary::Signs);
    for algorithm in [KeyAlgorithm::Ed25519, KeyAlgorithm::Rsa(2048)] {
        let user_id = "Project <project@example.org>".to_owned();
        let wanted = MakeProjectKey { key: key.clone(), algorithm, user_id, valid_for_s: Some(86_400) };
        let made = make(&Tokens::none(), &owner, &wanted, NOW).unwrap();
        let certificate = Certificate::parse(&made.certificate).unwrap();
        assert_eq!(certificate.primary_user_id(), Some("Project <project@example.org>"));
        assert_eq!(certificate.expires(), Some(NOW + 86_400));
        let packets = crate::packets::split(&made.certificate).unwrap();
        let signatures = packets.iter().filter(|packet| packet.tag == pgp::types::Tag::Signature);
        assert_eq!(signatures.count(), 2, "by itself, and by its owner");
        let opened = open(&opened(&owner.signing), &made.encrypted).unwrap();
        assert_eq!(opened.public().fingerprint(), certificate.fingerprint());
        signs_and_verifies(&opened);
    }
}

#[test]
fn without_a_primary_key_that_certifies_no_project_key_is_made() {
    let (owner, key) = owner(recipient(), Primary::Absent);
    let algorithm = KeyAlgorithm::Ed25519;
    let wanted = MakeProjectKey { key, algorithm, user_id: "a".to_owned(), valid_for_s: None };
    assert_eq!(make(&Tokens::none(), &owner, &wanted, NOW).unwrap_err().code, Code::Unsupported);
}
