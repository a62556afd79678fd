//! Signing: what is signed verifies, and what may not be signed is not.

use super::harness::*;
use sealwright_crypto::algorithm::{HashAlgorithm, KeyAlgorithm, KeyVersion};
use sealwright_crypto::openpgp::packet::SignaturePacket;
use sealwright_crypto::openpgp::salt::Salt;
use sealwright_crypto::openpgp::verify::State;
use sealwright_crypto::tbs::Content;
use sealwright_proto::convert::batch::{Batch, Request, SealedKey};
use sealwright_proto::convert::group::Priority;
use sealwright_proto::convert::keys::{KeyMaterial, KeySpec};
use sealwright_proto::status::Code;

const CONTENT: &[u8] = b"content of any length";

fn assert_signs(signer: &mut Signer, id: u8, key: &KeyMaterial) {
    for hash in HashAlgorithm::ALL {
        let signed = signer.sign(sealed(id, key), hash, CONTENT).unwrap();
        assert_eq!(signed.created, NOW);
        assert_eq!(signed.digest.len(), hash.digest_len());
        assert_eq!(
            verdict(key, &signed.packet, CONTENT, NOW),
            State::Valid,
            "{} {}",
            key.algorithm,
            hash.name()
        );
        assert_eq!(verdict(key, &signed.packet, b"other", NOW), State::Bad);
        let packet = SignaturePacket::parse(&signed.packet).unwrap();
        assert_eq!(packet.issuer_fingerprint().unwrap().to_string(), key.signing_fingerprint);
        assert_eq!(packet.signature_type(), 0, "never anything but a signature over data");
        assert_eq!(packet.version(), packet.issuer_fingerprint().unwrap().key_version());
    }
}

#[test]
fn created_keys_sign_with_every_hash() {
    let mut signer = Signer::start();
    let all =
        KeyVersion::ALL.map(|version| [(version, KeyAlgorithm::Ed25519), (version, KeyAlgorithm::Rsa(2048))]);
    for ((version, algorithm), id) in all.into_iter().flatten().zip(1..) {
        for signing_subkey in [false, true] {
            let key = signer.create(id, KeySpec { version, signing_subkey, ..spec(algorithm) });
            assert_eq!(key.fingerprint == key.signing_fingerprint, !signing_subkey);
            assert_signs(&mut signer, id, &key);
        }
    }
    signer.stop().unwrap();
}

#[test]
fn an_imported_rsa_4096_key_signs_with_every_hash() {
    let mut signer = Signer::start();
    let key = signer.import(1, &fixture("gen_rsa4096.sec.asc"), "", "").unwrap();
    assert_eq!(key.algorithm, KeyAlgorithm::Rsa(4096));
    assert_signs(&mut signer, 1, &key);
}

#[test]
fn a_version_6_key_signs_with_the_salt_that_front_gives_and_never_without() {
    let mut signer = Signer::start();
    let v6 = signer.create(1, KeySpec { version: KeyVersion::V6, ..spec(KeyAlgorithm::Ed25519) });
    let v4 = signer.create(2, spec(KeyAlgorithm::Ed25519));
    let good = request_v6(0, HashAlgorithm::Sha512, CONTENT);
    let unsalted = request(0, HashAlgorithm::Sha512, CONTENT);
    let mut inline = good.clone();
    inline.item.content = Content::Inline(HashAlgorithm::Sha512, CONTENT.to_vec());
    let requests = vec![good.clone(), unsalted, inline, Request { key: 1, ..good.clone() }];
    let keys = vec![sealed(1, &v6), sealed(2, &v4)];
    let outcomes =
        signer.sign_batch(Batch { keys, requests, deadline_ms: None, priority: Priority::Batch }).unwrap();
    let [good_one, unsalted, inline, with_v4] = <[_; 4]>::try_from(outcomes).unwrap();
    for signed in [good_one.unwrap(), inline.unwrap()] {
        assert_eq!(verdict(&v6, &signed.packet, CONTENT, NOW), State::Valid);
        let packet = SignaturePacket::parse(&signed.packet).unwrap();
        assert_eq!(packet.salt(), good.first.as_ref().map(Salt::as_bytes));
    }
    for refused in [unsalted, with_v4] {
        assert_eq!(refused.unwrap_err().code, Code::TicketRefused);
    }
}

#[test]
fn inline_content_is_hashed_by_the_signer() {
    let mut signer = Signer::start();
    let key = signer.create(1, spec(KeyAlgorithm::Ed25519));
    let mut inline = request(0, HashAlgorithm::Sha256, b"");
    inline.item.content = Content::Inline(HashAlgorithm::Sha256, CONTENT.to_vec());
    let batch = Batch {
        keys: vec![sealed(1, &key)],
        requests: vec![inline],
        deadline_ms: None,
        priority: Priority::Batch,
    };
    let signed = signer.sign_batch(batch).unwrap().remove(0).unwrap();
    assert_eq!(verdict(&key, &signed.packet, CONTENT, NOW), State::Valid);
}

#[test]
fn salted_signatures_of_one_second_differ_and_unsalted_ones_do_not() {
    let mut signer = Signer::start();
    let key = signer.create(1, spec(KeyAlgorithm::Ed25519));
    for salt in [true, false] {
        let mut one = request(0, HashAlgorithm::Sha256, CONTENT);
        one.salt = salt;
        let batch = Batch {
            keys: vec![sealed(1, &key)],
            requests: vec![one.clone(), one],
            deadline_ms: None,
            priority: Priority::Batch,
        };
        let signed = signer.sign_batch(batch).unwrap();
        assert_eq!(signed[0].as_ref().unwrap().packet != signed[1].as_ref().unwrap().packet, salt);
    }
}

/// More items than a slice, over several keys, with bad ones between: each has its own outcome, in its place.
#[test]
fn a_large_batch_is_answered_item_by_item() {
    let mut signer = Signer::start();
    let one = signer.create(1, spec(KeyAlgorithm::Ed25519));
    let two = signer.create(2, spec(KeyAlgorithm::Rsa(2048)));
    let broken = SealedKey { blob: vec![1; 90], ..sealed(3, &one) };
    let contents: Vec<_> = (0..200_u32).map(|index| index.to_be_bytes()).collect();
    let requests = contents.iter().enumerate();
    let requests =
        requests.map(|(index, content)| request(index % 3, HashAlgorithm::Sha256, content)).collect();
    let keys = vec![sealed(1, &one), sealed(2, &two), broken];
    let outcomes =
        signer.sign_batch(Batch { keys, requests, deadline_ms: None, priority: Priority::Batch }).unwrap();
    for (index, (outcome, content)) in outcomes.iter().zip(&contents).enumerate() {
        match index % 3 {
            2 => assert_eq!(outcome.as_ref().unwrap_err().code, Code::SealBroken),
            key => {
                let key = if key == 0 { &one } else { &two };
                let packet = &outcome.as_ref().unwrap().packet;
                assert_eq!(verdict(key, packet, content, NOW), State::Valid, "{index}");
            }
        }
    }
}

#[test]
fn a_blob_of_another_key_generation_or_root_signs_nothing() {
    let mut signer = Signer::start();
    let key = signer.create(1, spec(KeyAlgorithm::Ed25519));
    let mut code = |sealed: SealedKey| signer.sign(sealed, HashAlgorithm::Sha256, CONTENT).unwrap_err().code;
    assert_eq!(code(SealedKey { key_id: key_id(2), ..sealed(1, &key) }), Code::SealBroken);
    assert_eq!(code(SealedKey { generation: 2, ..sealed(1, &key) }), Code::SealBroken);
    for index in [0, 5, 20, 30, key.sealed.len() - 1] {
        let mut blob = key.sealed.clone();
        blob[index] ^= 0x10;
        let code = code(SealedKey { blob, ..sealed(1, &key) });
        assert!(matches!(code, Code::SealBroken | Code::RootKeyWrong | Code::Unsupported), "{index}: {code}");
    }
    let mut stranger = Signer::start();
    let fault = stranger.sign(sealed(1, &key), HashAlgorithm::Sha256, CONTENT).unwrap_err();
    assert_eq!(fault.code, Code::RootKeyWrong);
}

#[test]
fn a_signature_never_predates_its_key_or_the_last_signature() {
    let mut signer = Signer::start();
    let key = signer.create(1, spec(KeyAlgorithm::Ed25519));
    signer.set_clock(NOW - 1);
    let fault = signer.sign(sealed(1, &key), HashAlgorithm::Sha256, CONTENT).unwrap_err();
    assert_eq!(fault.code, Code::ClockBehind);
    assert!(fault.message.contains("predate the key"), "{}", fault.message);
    assert!(fault.message.contains("2026-11-30 14:03:58 UTC"), "{}", fault.message);
    assert!(fault.message.contains("2026-11-30 14:03:59 UTC"), "{}", fault.message);
    signer.set_clock(NOW);
    for (not_before, allowed) in [(NOW - 5, true), (NOW, true), (NOW + 1, false)] {
        let mut one = request(0, HashAlgorithm::Sha256, CONTENT);
        one.not_before = not_before;
        let batch = Batch {
            keys: vec![sealed(1, &key)],
            requests: vec![one],
            deadline_ms: None,
            priority: Priority::Batch,
        };
        let outcome = signer.sign_batch(batch).unwrap().remove(0);
        assert_eq!(outcome.err().map(|fault| fault.code), (!allowed).then_some(Code::ClockBehind));
    }
}

/// Far ahead is allowed while the key is valid then, and not once it has expired.
#[test]
fn a_clock_ahead_signs_only_with_a_key_that_is_valid_then() {
    let mut signer = Signer::start();
    let forever = signer.create(1, spec(KeyAlgorithm::Ed25519));
    let year = signer.create(2, KeySpec { valid_for_s: Some(365 * 86_400), ..spec(KeyAlgorithm::Ed25519) });
    let later = NOW + 20 * 365 * 86_400;
    signer.set_clock(later);
    let signed = signer.sign(sealed(1, &forever), HashAlgorithm::Sha256, CONTENT).unwrap();
    assert_eq!(signed.created, later, "the time is the clock's");
    assert_eq!(verdict(&forever, &signed.packet, CONTENT, later), State::Valid);
    let code = |signer: &mut Signer| {
        signer.sign(sealed(2, &year), HashAlgorithm::Sha256, CONTENT).map_err(|f| f.code)
    };
    assert_eq!(code(&mut signer).unwrap_err(), Code::KeyExpired);
    signer.set_clock(NOW + 365 * 86_400);
    assert_eq!(code(&mut signer).unwrap_err(), Code::KeyExpired);
    signer.set_clock(NOW + 365 * 86_400 - 1);
    assert!(code(&mut signer).is_ok());
}

#[test]
fn the_middle_of_the_22nd_century_cannot_be_said_in_openpgp() {
    let mut signer = Signer::start();
    let key = signer.create(1, spec(KeyAlgorithm::Ed25519));
    signer.set_clock(i64::from(u32::MAX) + 1);
    let fault = signer.sign(sealed(1, &key), HashAlgorithm::Sha256, CONTENT).unwrap_err();
    assert_eq!(fault.code, Code::Unsupported);
}
