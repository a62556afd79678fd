//! Every state of a signature, and which goes first.

use sealwright_crypto::algorithm::HashAlgorithm;
use sealwright_crypto::digest::Hasher;
use sealwright_crypto::openpgp::certificate::{Certificate, Keyring};
use sealwright_crypto::openpgp::packet::SignaturePacket;
use sealwright_crypto::openpgp::verify::{State, verify};

use crate::forge::{Forge, Shape, mpi, packet};
use crate::interop::{check, read_signature};
use crate::{NOW, fixture, vector, without};

const CONTENT: &[u8] = b"content";

fn keyring(names: &[&str]) -> Keyring {
    let mut keyring = Keyring::new();
    for name in names {
        keyring.push(Certificate::parse(&fixture(&format!("pgp-key/{name}"))).unwrap());
    }
    keyring
}

fn state(shape: &Shape, now: i64) -> State {
    let forge = Forge::load("gen_ed25519.sec.asc");
    let packet = SignaturePacket::parse(&forge.sign(shape, CONTENT)).unwrap();
    check(&packet, CONTENT, &keyring(&["gen_ed25519.pub.asc"]), now).state
}

#[test]
fn good_signatures_of_versions_3_and_4_are_valid() {
    assert_eq!(state(&Shape::default(), NOW), State::Valid);
    assert_eq!(state(&Shape { version: 3, ..Shape::default() }, NOW), State::Valid);
    let forge = Forge::load("gen_rsa4096.sec.asc");
    let bytes = forge.sign(&Shape { version: 3, ..Shape::default() }, CONTENT);
    let packet = SignaturePacket::parse(&bytes).unwrap();
    assert_eq!((packet.version(), packet.created()), (3, Some(1_797_000_000)));
    assert_eq!(packet.issuer_hex(), "c1170a1e0929b21d");
    let ring = keyring(&["gen_rsa4096.pub.asc"]);
    assert_eq!(check(&packet, CONTENT, &ring, NOW).state, State::Valid);
    assert_eq!(check(&packet, b"other", &ring, NOW).state, State::Bad);
}

#[test]
fn a_key_outside_the_keyring_is_unknown_whatever_else_is_wrong() {
    let ring = keyring(&["gen_rsa4096.pub.asc"]);
    for name in ["gpg-ed25519-sha256.asc", "gpg-dsa1024-sha256.asc"] {
        let outcome = check(&read_signature(&vector(name)), CONTENT, &ring, NOW);
        assert_eq!(outcome.state, State::UnknownKey, "{name}");
        assert!(outcome.detail.unwrap().contains("not in the keyring"));
    }
    let packet = read_signature(&vector("gpg-ed25519-sha256.asc"));
    assert_eq!(check(&packet, CONTENT, &Keyring::new(), NOW).state, State::UnknownKey);
}

#[test]
fn sha1_sha224_and_dsa_are_weak_before_the_content_is_looked_at() {
    let ring = keyring(&["gen_rsa4096.pub.asc", "gen_dsa1024.pub.asc"]);
    for (name, word) in [
        ("gpg-rsa4096-sha1.asc", "SHA-1"),
        ("gpg-rsa4096-sha224.asc", "sha224"),
        ("gpg-dsa1024-sha256.asc", "DSA"),
    ] {
        let outcome = check(&read_signature(&vector(name)), b"other", &ring, 0);
        assert_eq!(outcome.state, State::Weak, "{name}");
        assert!(outcome.detail.unwrap().contains(word), "{name}");
        assert!(outcome.user_id.is_some());
    }
    let old = read_signature(&fixture("pgp-sig/rhs_testpkg-1.rpm.hdr.sig"));
    assert!(old.is_weak().unwrap().contains("SHA-1"));
    assert_eq!(check(&old, CONTENT, &keyring(&["rhs_gpgkey.asc"]), NOW).state, State::Weak);
}

#[test]
fn rsa_keys_under_2048_bits_are_weak_and_warned_of() {
    let ring = Keyring::parse_many(&vector("rsa1024.pub.asc")).unwrap();
    let packet = read_signature(&vector("rsa1024.asc"));
    assert_eq!(check(&packet, &vector("content.txt"), &ring, NOW).state, State::Weak);
    let certificate = &ring.certificates()[0];
    assert!(certificate.warnings().iter().any(|warning| warning.contains("rsa1024")));
    assert_eq!(certificate.components()[0].algorithm(), None);
}

/// Whoever breaks the primary key can bind a subkey of their own.
#[test]
fn a_strong_subkey_of_a_weak_primary_key_is_weak() {
    let certificate = Certificate::parse(&vector("weak-primary.pub.asc")).unwrap();
    let [primary, subkey] = certificate.components() else { panic!("two components") };
    assert!(primary.weak().is_some());
    assert_eq!(subkey.algorithm_name(), "rsa2048");
    assert!(subkey.weak().unwrap().contains("primary"));
    let packet = read_signature(&vector("weak-primary.asc"));
    let mut ring = Keyring::new();
    ring.push(certificate);
    assert_eq!(check(&packet, &vector("content.txt"), &ring, NOW).state, State::Weak);
}

#[test]
fn post_quantum_keys_are_weak_in_the_sense_of_not_checked() {
    let certificate = Certificate::parse(&fixture("pgp-key/rpmorg_rpm.org-v6-mldsa87-test.asc")).unwrap();
    let mut ring = Keyring::new();
    let issuer = certificate.components()[1].fingerprint();
    ring.push(certificate);
    let area = [&[5, 2, 0x6a, 0, 0, 0, 34, 33, 6][..], issuer.as_bytes()].concat();
    let body =
        [&[6, 0, 31, 10, 0, 0, 0, 41][..], &area, &[0, 0, 0, 0, 1, 2, 32], &[7; 32], &[9; 4741]].concat();
    let outcome = check(&SignaturePacket::parse(&packet(&body)).unwrap(), CONTENT, &ring, NOW);
    assert_eq!(outcome.state, State::Weak);
    assert!(outcome.detail.unwrap().contains("ml-dsa-87"));
}

#[test]
fn a_signature_after_now_is_from_the_future() {
    let shape = Shape { created: Some(1_799_999_999), ..Shape::default() };
    assert_eq!(state(&shape, 1_799_999_998), State::Future);
    assert_eq!(state(&shape, 1_799_999_999), State::Valid);
    let detail = {
        let forge = Forge::load("gen_ed25519.sec.asc");
        let packet = SignaturePacket::parse(&forge.sign(&shape, CONTENT)).unwrap();
        check(&packet, CONTENT, &keyring(&["gen_ed25519.pub.asc"]), 1_799_999_900).detail.unwrap()
    };
    assert!(detail.contains("99 seconds"), "the skew is named: {detail}");
}

#[test]
fn a_key_that_had_expired_when_it_signed_is_expired_and_before_it_is_valid() {
    let forge = Forge::load("gen_expired-primary-rsa2048.sec.asc");
    let ring = keyring(&["gen_expired-primary-rsa2048.pub.asc"]);
    for (created, want) in [
        (1_614_599_999, State::Valid),
        (1_614_600_000, State::Expired),
        (1_700_000_000, State::Expired),
        (1_583_063_999, State::Bad),
    ] {
        let bytes = forge.sign(&Shape { created: Some(created), ..Shape::default() }, CONTENT);
        let outcome = check(&SignaturePacket::parse(&bytes).unwrap(), CONTENT, &ring, NOW);
        assert_eq!(outcome.state, want, "{created}: {:?}", outcome.detail);
    }
}

#[test]
fn an_expired_subkey_is_expired_although_its_primary_key_lives() {
    let forge = Forge::load("gen_certonly-expsub-livesub.sec.asc");
    let ring = keyring(&["gen_certonly-expsub-livesub.pub.asc"]);
    for (created, subkey, want) in [
        (1_650_000_000, Some(0), State::Valid),
        (1_700_000_000, Some(0), State::Expired),
        (1_797_000_000, Some(1), State::Valid),
        (1_797_000_000, None, State::Bad),
    ] {
        let shape = Shape { created: Some(created), subkey, ..Shape::default() };
        let packet = SignaturePacket::parse(&forge.sign(&shape, CONTENT)).unwrap();
        let outcome = check(&packet, CONTENT, &ring, NOW);
        assert_eq!(outcome.state, want, "{created} {subkey:?}: {:?}", outcome.detail);
    }
}

#[test]
fn a_signature_by_an_expired_key_of_others_is_expired_or_valid_by_its_time() {
    let ring = keyring(&["librepo_expired_key.asc"]);
    let packet = read_signature(&fixture("pgp-sig/librepo_test_data.txt.asc"));
    let content = fixture("pgp-sig/librepo_test_data.txt");
    assert_eq!(check(&packet, &content, &ring, NOW).state, State::Valid);
}

#[test]
fn a_signature_that_ends_is_expired_afterwards() {
    let ring = keyring(&["gen_rsa4096.pub.asc"]);
    let packet = read_signature(&vector("gpg-rsa4096-ends-after-a-day.asc"));
    let content = vector("content.txt");
    let end = packet.expires().unwrap();
    assert_eq!(end - i64::from(packet.created().unwrap()), 86_400);
    assert_eq!(check(&packet, &content, &ring, end - 1).state, State::Valid);
    let outcome = check(&packet, &content, &ring, end);
    assert_eq!(outcome.state, State::Expired);
    assert!(outcome.detail.unwrap().contains("signature itself"));
}

#[test]
fn signatures_of_other_types_are_bad_although_the_key_made_them() {
    for kind in [0x01, 0x02, 0x10, 0x13, 0x18, 0x1f, 0x40, 0x50] {
        assert_eq!(state(&Shape { kind, ..Shape::default() }, NOW), State::Bad, "{kind:#x}");
    }
    let text = read_signature(&vector("gpg-rsa4096-text.asc"));
    let outcome = check(&text, &vector("content.txt"), &keyring(&["gen_rsa4096.pub.asc"]), NOW);
    assert_eq!(outcome.state, State::Bad);
    assert!(outcome.detail.unwrap().contains("0x01"));
}

#[test]
fn critical_subpackets_that_nobody_understands_make_it_bad() {
    let notation = |name: &[u8]| {
        let head =
            [&[20 | 0x80, 0, 0, 0, 0, 0][..], &[u8::try_from(name.len()).unwrap(), 0, 0], name].concat();
        [&[u8::try_from(head.len()).unwrap()][..], &head].concat()
    };
    for (hashed, want) in [
        (vec![3, 100 | 0x80, 1, 2], State::Bad),
        (vec![3, 100, 1, 2], State::Valid),
        (vec![2, 7 | 0x80, 1], State::Valid),
        (notation(b"x@example.org"), State::Bad),
        (notation(b"salt@notations.sealwright.org"), State::Valid),
    ] {
        assert_eq!(state(&Shape { hashed: hashed.clone(), ..Shape::default() }, NOW), want, "{hashed:?}");
    }
}

#[test]
fn a_signature_without_a_time_is_malformed_and_without_an_issuer_unknown() {
    assert_eq!(state(&Shape { created: None, ..Shape::default() }, NOW), State::Malformed);
    let body = [&[4, 0, 22, 8, 0, 0, 0, 0, 1, 2][..], &mpi(&[1; 32]), &mpi(&[1; 32])].concat();
    let packet = SignaturePacket::parse(&packet(&body)).unwrap();
    let ring = keyring(&["gen_ed25519.pub.asc"]);
    assert_eq!(check(&packet, CONTENT, &ring, NOW).state, State::UnknownKey);
    assert_eq!(packet.issuer_hex(), "");
}

#[test]
fn the_unhashed_area_cannot_change_time_or_end() {
    let key_id = [&[9, 16][..], &Forge::load("gen_ed25519.sec.asc").fingerprint(None).key_id()].concat();
    let unhashed = [&[5, 2, 0, 0, 0, 1, 5, 3, 0, 0, 0, 1][..], &key_id].concat();
    assert_eq!(state(&Shape { unhashed: Some(unhashed), ..Shape::default() }, NOW), State::Valid);
}

#[test]
fn another_value_under_the_right_digest_prefix_is_bad() {
    let forge = Forge::load("gen_ed25519.sec.asc");
    let mut bytes = forge.sign(&Shape::default(), CONTENT);
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    let ring = keyring(&["gen_ed25519.pub.asc"]);
    let outcome = check(&SignaturePacket::parse(&bytes).unwrap(), CONTENT, &ring, NOW);
    assert_eq!((outcome.state, outcome.verified), (State::Bad, None));
    assert!(outcome.detail.unwrap().contains("did not make"));
}

/// The binding of the subkey that signed is not by the primary key (CVE-2021-3521).
#[test]
fn a_subkey_with_a_bad_binding_counts_as_unknown() {
    let ring = keyring(&["rpmorg_CVE-2021-3521-badbind.asc"]);
    let forge = Forge::load("rpmorg_rpm.org-rsa-2048-test.secret");
    assert!(ring.find(&forge.fingerprint(Some(0))).is_some());
    let shape = Shape { subkey: Some(0), ..Shape::default() };
    let packet = SignaturePacket::parse(&forge.sign(&shape, CONTENT)).unwrap();
    let outcome = check(&packet, CONTENT, &ring, NOW);
    assert_eq!(outcome.state, State::UnknownKey);
    assert!(outcome.detail.unwrap().contains("binding"));
    // The same key, well bound, is for encryption only.
    let outcome = check(&packet, CONTENT, &keyring(&["rpmorg_rpm.org-rsa-2048-test.pub"]), NOW);
    assert_eq!(outcome.state, State::Bad);
}

#[test]
fn a_sha1_self_signature_makes_no_signature_invalid() {
    let forge = Forge::load("gen_sha1-selfsig-rsa2048.sec.asc");
    let packet = SignaturePacket::parse(&forge.sign(&Shape::default(), CONTENT)).unwrap();
    let ring = keyring(&["gen_sha1-selfsig-rsa2048.pub.asc"]);
    assert_eq!(check(&packet, CONTENT, &ring, NOW).state, State::Valid);
}

#[test]
fn the_order_is_how_bad_it_is_and_the_names_are_those_of_the_report() {
    assert!(State::ALL.is_sorted());
    let names = State::ALL.map(State::name);
    let want = ["valid", "unsigned", "unknown-key", "future", "expired", "weak", "malformed", "bad"];
    assert_eq!(names, want);
}

#[test]
fn revocation_spoils_by_its_reason_and_time() {
    let content = vector("content.txt");
    for (name, before, after) in [
        ("revoked-hard", State::Expired, State::Expired),
        ("revoked-noreason", State::Expired, State::Expired),
        ("revoked-soft", State::Valid, State::Expired),
        ("subrevoked", State::Valid, State::Expired),
        ("primary-revoked", State::Valid, State::Expired),
    ] {
        let ring = Keyring::parse_many(&vector(&format!("{name}.pub.asc"))).unwrap();
        for (when, want) in [("before", before), ("after", after)] {
            let packet = read_signature(&vector(&format!("{name}-{when}.asc")));
            let outcome = check(&packet, &content, &ring, NOW);
            assert_eq!(outcome.state, want, "{name} {when}: {:?}", outcome.detail);
            assert_eq!(
                outcome.detail.is_some_and(|detail| detail.contains("revoked")),
                want == State::Expired
            );
        }
    }
}

#[test]
fn a_renewal_in_the_keyring_mends_an_expiry_and_nothing_mends_a_revocation() {
    let content = vector("content.txt");
    let [old, new] = ["renewed-old.pub.asc", "renewed-new.pub.asc"].map(vector);
    let packet = read_signature(&vector("renewed.asc"));
    let state = |rings: &[&[u8]]| {
        let ring = Keyring::parse_many(&rings.concat()).unwrap();
        check(&packet, &content, &ring, NOW).state
    };
    assert_eq!(state(&[&old]), State::Expired);
    for rings in [&[&new[..]][..], &[&old, &new], &[&new, &old]] {
        assert_eq!(state(rings), State::Valid);
    }
    let revoked = Certificate::parse(&vector("revoked-hard.pub.asc")).unwrap().to_binary();
    let live = without(&revoked, |tag, packet| tag == 2 && packet[3] == 0x20);
    let packet = read_signature(&vector("revoked-hard-before.asc"));
    for (rings, want) in [
        ([&live[..], &[]], State::Valid),
        ([&live, &revoked], State::Expired),
        ([&revoked, &live], State::Expired),
    ] {
        let ring = Keyring::parse_many(&rings.concat()).unwrap();
        assert_eq!(check(&packet, &content, &ring, NOW).state, want);
    }
}

#[test]
fn a_subkey_ends_with_its_primary_key() {
    let ring = Keyring::parse_many(&vector("primary-ends.pub.asc")).unwrap();
    let [primary, subkey] = ring.certificates()[0].components() else { panic!("two components") };
    assert_eq!((primary.expires(), subkey.expires()), (Some(1_775_001_600), Some(1_775_001_600)));
    for (when, want) in [("before", State::Valid), ("after", State::Expired)] {
        let packet = read_signature(&vector(&format!("primary-ends-{when}.asc")));
        assert_eq!(check(&packet, &vector("content.txt"), &ring, NOW).state, want);
    }
}

#[test]
fn a_revocation_that_the_key_did_not_make_does_not_count() {
    let whole = Certificate::parse(&vector("revoked-hard.pub.asc")).unwrap().to_binary();
    let damaged: Vec<u8> = crate::packets(&whole)
        .into_iter()
        .flat_map(|(tag, mut packet)| {
            let last = packet.len() - 1;
            packet[last] ^= u8::from(tag == 2 && packet[3] == 0x20);
            packet
        })
        .collect();
    let ring = Keyring::parse_many(&damaged).unwrap();
    let packet = read_signature(&vector("revoked-hard-after.asc"));
    assert_eq!(check(&packet, &vector("content.txt"), &ring, NOW).state, State::Valid);
}

#[test]
fn the_signature_must_be_of_the_algorithm_of_its_key() {
    // ECDSA values look like EdDSA ones: two numbers.
    assert_eq!(state(&Shape { algorithm: Some(22), ..Shape::default() }, NOW), State::Valid);
    assert_eq!(state(&Shape { algorithm: Some(19), ..Shape::default() }, NOW), State::Bad);
    // RSA has an old number for keys that only sign.
    let forge = Forge::load("gen_rsa4096.sec.asc");
    let bytes = forge.sign(&Shape { algorithm: Some(3), ..Shape::default() }, CONTENT);
    let outcome =
        check(&SignaturePacket::parse(&bytes).unwrap(), CONTENT, &keyring(&["gen_rsa4096.pub.asc"]), NOW);
    assert_eq!(outcome.state, State::Valid);
}

#[test]
fn content_hashed_with_another_algorithm_is_named() {
    let packet = read_signature(&vector("gpg-rsa4096-sha512.asc"));
    let hasher = Hasher::new(HashAlgorithm::Sha256);
    let outcome = verify(&packet, &hasher, &keyring(&["gen_rsa4096.pub.asc"]), NOW);
    assert_eq!(outcome.state, State::Bad);
    assert!(outcome.detail.unwrap().contains("another algorithm"));
}
