//! A key operation that goes wrong releases nothing, whatever goes wrong.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use sealwright_crypto::algorithm::{HashAlgorithm, KeyAlgorithm, KeyVersion};
use sealwright_crypto::digest::{Digest, Hasher};
use sealwright_crypto::openpgp::packet::SignaturePacket;
use sealwright_crypto::openpgp::signature::DataKind;
use sealwright_crypto::tbs::{Content, ToBeSigned};
use sealwright_crypto::usage::{Purpose, Usage};

use super::*;
use crate::backend::software::Software;
use crate::backend::{Failed, PrivateKey, Trouble};
use crate::opened::Component;
use crate::public::PublicHalf;

/// What the faulty backend does instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Slip {
    None,
    Fails,
    Empty,
    Short,
    Long,
    Zeros,
    OneBit,
    OtherData,
    OtherKey,
    /// Right at first, wrong from the third on.
    WrongLater,
}

const FAULTS: [Slip; 9] = [
    Slip::Fails,
    Slip::Empty,
    Slip::Short,
    Slip::Long,
    Slip::Zeros,
    Slip::OneBit,
    Slip::OtherData,
    Slip::OtherKey,
    Slip::WrongLater,
];

struct Faulty {
    right: Box<dyn PrivateKey>,
    other: Box<dyn PrivateKey>,
    fault: Slip,
    calls: AtomicUsize,
}

impl PrivateKey for Faulty {
    fn sign(&self, digest: &Digest) -> Result<Vec<u8>, Trouble> {
        let call = self.calls.fetch_add(1, Ordering::SeqCst);
        let mut raw = self.right.sign(digest)?;
        match self.fault {
            Slip::None => {}
            Slip::WrongLater if call < 2 => {}
            Slip::Fails => return Err(Failed("the token was pulled out").into()),
            Slip::Empty => raw.clear(),
            Slip::Short => raw.truncate(63),
            Slip::Long => raw.push(0),
            Slip::Zeros => raw.fill(0),
            Slip::OneBit | Slip::WrongLater => raw[17] ^= 4,
            Slip::OtherData => raw = self.right.sign(&Hasher::digest(digest.hash(), b"other"))?,
            Slip::OtherKey => raw = self.other.sign(digest)?,
        }
        Ok(raw)
    }

    fn sign_sha1(&self, digest: &[u8; 20]) -> Result<Vec<u8>, Trouble> {
        self.right.sign_sha1(digest)
    }
}

fn key(algorithm: KeyAlgorithm, fault: Slip) -> OpenKey {
    let make = || {
        let (numbers, secret) = Software.generate(algorithm).unwrap();
        let public = PublicHalf::new(KeyVersion::V4, 1_000_000_000, &numbers).unwrap();
        let private = Software.open_key(&public, &secret).unwrap();
        (public, private)
    };
    let (public, right) = make();
    let (_, other) = make();
    let faulty = Faulty { right, other, fault, calls: AtomicUsize::new(0) };
    OpenKey::for_test(Component::for_test(Arc::new(public), Box::new(faulty)), Some(2_000_000_000))
}

fn request(content: &[u8]) -> Request {
    let content = Content::Inline(HashAlgorithm::Sha256, content.to_vec());
    let item = ToBeSigned { usage: Usage::OpenPgp, purpose: Purpose::Detached, content, ticket: None };
    Request { key: 0, item, not_before: 0, salt: true, first: None, trace_id: None }
}

const NOW: i64 = 1_796_047_439;

#[test]
fn of_ten_thousand_faulty_key_operations_none_gives_a_signature() {
    for algorithm in [KeyAlgorithm::Ed25519, KeyAlgorithm::Rsa(2048)] {
        let rounds: u32 = if algorithm == KeyAlgorithm::Ed25519 { 1_000 } else { 112 };
        for fault in FAULTS {
            let key = key(algorithm, fault);
            let mut released = 0;
            for round in 0..rounds {
                match sign_at(&key, &request(&round.to_be_bytes()), NOW) {
                    Ok(_) => released += 1,
                    Err(refused) => assert_eq!(refused.code, Code::SignatureSelfCheckFailed),
                }
            }
            let right = if fault == Slip::WrongLater { 2 } else { 0 };
            assert_eq!(released, right, "{algorithm} {fault:?}");
        }
    }
}

#[test]
fn without_a_fault_the_same_backend_signs() {
    for algorithm in [KeyAlgorithm::Ed25519, KeyAlgorithm::Rsa(2048)] {
        let key = key(algorithm, Slip::None);
        let signed = sign_at(&key, &request(b"content"), NOW).unwrap();
        let packet = SignaturePacket::parse(&signed.packet).unwrap();
        assert_eq!(packet.created().map(i64::from), Some(NOW));
        assert_eq!(signed.created, NOW);
    }
}

#[test]
fn a_faulty_key_certifies_nothing() {
    use crate::certify::{Claims, certify_user, new_primary_claims, user_id};
    for fault in FAULTS.into_iter().filter(|fault| *fault != Slip::WrongLater) {
        let key = key(KeyAlgorithm::Ed25519, fault);
        let claims = Claims { created: 1_700_000_000, expires: None, other: new_primary_claims(true) };
        assert!(
            certify_user(key.signing(), &user_id("a <a@example.org>").unwrap(), claims).is_err(),
            "{fault:?}"
        );
    }
}

/// Whoever parsed the request has looked too; this is the last place to.
#[test]
fn a_bare_digest_under_the_usage_of_content_is_refused_whatever_the_key_is_sealed_for() {
    let bare = Bare::new(AnyDigest::Sha1([7; 20]), DataKind::Binary, 1).unwrap();
    let content = request(b"x").item.content;
    let project = Content::Project(bare, [0x85; 9].as_slice().into());
    let key = key(KeyAlgorithm::Ed25519, Slip::None).with_usages(&Usage::ALL);
    for (usage, right) in [
        (Usage::OpenPgp, &content),
        (Usage::ObsDigestSha1, &Content::Bare(bare)),
        (Usage::ObsProjectKeys, &project),
    ] {
        for content in [&content, &Content::Bare(bare), &project].into_iter().filter(|other| *other != right)
        {
            for purpose in Purpose::ALL {
                let item = ToBeSigned { usage, purpose, content: content.clone(), ticket: None };
                let fault = sign_at(&key, &Request { item, ..request(b"x") }, NOW).unwrap_err();
                assert_eq!(fault.code, Code::MalformedRequest, "{usage:?} {purpose:?}");
            }
        }
    }
    let item = ToBeSigned::bare(bare);
    assert_eq!(item.usage, Usage::ObsDigestSha1);
    assert!(sign_at(&key, &Request { item: item.clone(), ..request(b"x") }, NOW).is_ok());
    let item = ToBeSigned { usage: Usage::ObsDigest, ..item };
    assert!(sign_at(&key, &Request { item, ..request(b"x") }, NOW).is_err());
}

#[test]
fn the_order_is_usage_time_then_the_key() {
    let key = key(KeyAlgorithm::Ed25519, Slip::Fails);
    let code = |now| sign_at(&key, &request(b"x"), now).unwrap_err().code;
    assert_eq!(code(999_999_999), Code::ClockBehind);
    assert_eq!(code(2_000_000_000), Code::KeyExpired);
    assert_eq!(code(NOW), Code::SignatureSelfCheckFailed);
    let key = key.with_usages(&[]);
    for now in [999_999_999, NOW, 2_000_000_000] {
        assert_eq!(sign_at(&key, &request(b"x"), now).unwrap_err().code, Code::UsageNotAllowed);
    }
}
