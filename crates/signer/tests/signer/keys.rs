//! Creation and renewal: certificates as strangers read them.

use super::harness::*;
use sealwright_crypto::algorithm::{HashAlgorithm, KeyAlgorithm, KeyVersion};
use sealwright_crypto::openpgp::armor;
use sealwright_crypto::openpgp::certificate::Certificate;
use sealwright_crypto::openpgp::verify::State;
use sealwright_proto::convert::keys::{KeyMaterial, KeySpec};
use sealwright_proto::status::Code;

const YEAR: u64 = 365 * 86_400;

fn certificate(key: &KeyMaterial) -> Certificate {
    Certificate::parse(&key.certificate).unwrap()
}

fn packets(key: &KeyMaterial) -> Vec<pgp::packet::Packet> {
    pgp::packet::PacketParser::new(key.certificate.as_slice()).map(Result::unwrap).collect()
}

#[test]
fn a_new_certificate_says_what_was_asked() {
    let mut signer = Signer::start();
    let shapes = KeyVersion::ALL.map(|version| [(version, false), (version, true)]);
    for (version, signing_subkey) in shapes.into_iter().flatten() {
        for valid_for_s in [None, Some(YEAR)] {
            let wanted = KeySpec { version, signing_subkey, valid_for_s, ..spec(KeyAlgorithm::Ed25519) };
            let key = signer.create(1, wanted);
            let certificate = certificate(&key);
            let versions = certificate.components().iter().map(|component| component.fingerprint().version());
            assert!(versions.into_iter().all(|one| one == version));
            assert_eq!(certificate.user_ids(), ["Release <release@example.org>"]);
            assert_eq!((i64::from(certificate.created()), key.created), (NOW, NOW));
            let expires = valid_for_s.map(|_| NOW + i64::try_from(YEAR).unwrap());
            assert_eq!((certificate.expires(), key.expires), (expires, expires));
            let signing = certificate.signing_components(NOW);
            assert_eq!(signing.len(), 1, "the primary key of a key with a subkey only certifies");
            assert_eq!(signing[0].fingerprint().to_string(), key.signing_fingerprint);
            assert_eq!(signing[0].is_primary(), !signing_subkey);
            assert!(certificate.warnings_at(NOW).is_empty() && key.warnings.is_empty());
            assert!(key.renewable);
            assert_eq!(key.generation, 1);
        }
    }
}

/// RFC 9580 section 10.1.1: the direct-key signature says what a version 6 key may do and when it ends; its user id
/// says nothing of the key. Every signature is salted and names its issuer by fingerprint alone.
#[test]
fn a_version_6_key_says_everything_of_itself_in_its_direct_key_signature() {
    use pgp::packet::{Packet, SignatureType, SubpacketType};
    let mut signer = Signer::start();
    let wanted = KeySpec {
        version: KeyVersion::V6,
        signing_subkey: true,
        valid_for_s: Some(YEAR),
        ..spec(KeyAlgorithm::Ed25519)
    };
    let made = signer.create(1, wanted);
    signer.set_clock(NOW + 10);
    let renewed = signer.renew(1, &made, Some(YEAR)).unwrap();
    for (key, of_each) in [(&made, 1), (&renewed, 2)] {
        let mut seen = Vec::new();
        for packet in packets(key) {
            let Packet::Signature(signature) = packet else { continue };
            let config = signature.config().unwrap();
            assert_eq!(u8::from(config.version()), 6);
            assert_eq!(config.unhashed_subpackets().count(), 0);
            let has = |kind| config.hashed_subpackets().any(|subpacket| subpacket.typ() == kind);
            assert!(has(SubpacketType::IssuerFingerprint) && !has(SubpacketType::IssuerKeyId));
            let is_user = config.typ() == SignatureType::CertPositive;
            assert_eq!(has(SubpacketType::KeyExpirationTime), !is_user);
            assert_eq!(has(SubpacketType::KeyFlags), !is_user);
            assert_eq!(has(SubpacketType::Features), config.typ() == SignatureType::Key);
            seen.push(config.typ());
        }
        let all = [SignatureType::Key, SignatureType::CertPositive, SignatureType::SubkeyBinding];
        let want: Vec<_> = all.into_iter().flat_map(|kind| vec![kind; of_each]).collect();
        assert_eq!(seen, want);
    }
    let end = NOW + 10 + i64::try_from(YEAR).unwrap();
    assert_eq!((renewed.expires, certificate(&renewed).expires()), (Some(end), Some(end)));
}

#[test]
fn the_revocation_certificate_revokes() {
    for version in KeyVersion::ALL {
        revokes(KeySpec { version, ..spec(KeyAlgorithm::Ed25519) });
    }
}

fn revokes(spec: KeySpec) {
    let mut signer = Signer::start();
    let key = signer.create(1, spec);
    let revocation = armor::decode_or_binary(key.revocation.as_deref().unwrap().as_bytes()).unwrap();
    let signed = signer.sign(sealed(1, &key), HashAlgorithm::Sha256, b"x").unwrap();
    assert_eq!(verdict(&key, &signed.packet, b"x", NOW), State::Valid);
    // A revocation stands right behind the primary key, as an importing program puts it.
    let primary_len = 2 + usize::from(key.certificate[1]);
    let (primary, rest) = key.certificate.split_at(primary_len);
    let revoked = KeyMaterial { certificate: [primary, &revocation, rest].concat(), ..key };
    assert!(certificate(&revoked).components()[0].revoked().is_some());
    assert_eq!(verdict(&revoked, &signed.packet, b"x", NOW), State::Expired);
    let fault = signer.renew(1, &revoked, None).unwrap_err();
    assert_eq!(fault.code, Code::NotRenewable);
    assert!(fault.message.contains("revoked"), "{}", fault.message);
}

#[test]
fn an_expired_key_is_renewed_and_signs_again() {
    let mut signer = Signer::start();
    let shapes = KeyVersion::ALL.map(|version| [(version, false), (version, true)]);
    for (id, (version, signing_subkey)) in (1..).zip(shapes.into_iter().flatten()) {
        signer.set_clock(NOW);
        let (valid_for_s, algorithm) = (Some(YEAR), KeyAlgorithm::Rsa(2048));
        let wanted = KeySpec { version, signing_subkey, valid_for_s, ..spec(algorithm) };
        let key = signer.create(id, wanted);
        let later = NOW + 2 * i64::try_from(YEAR).unwrap();
        signer.set_clock(later);
        let expired = signer.sign(sealed(id, &key), HashAlgorithm::Sha256, b"x").unwrap_err();
        assert_eq!(expired.code, Code::KeyExpired);
        let renewed = signer.renew(id, &key, Some(YEAR)).unwrap();
        assert_eq!(renewed.expires, Some(later + i64::try_from(YEAR).unwrap()));
        assert_eq!((renewed.generation, &renewed.fingerprint), (2, &key.fingerprint));
        assert_eq!(renewed.signing_fingerprint, key.signing_fingerprint);
        assert_eq!(renewed.user_id, key.user_id);
        assert!(renewed.revocation.is_none());
        let signed = signer.sign(sealed(id, &renewed), HashAlgorithm::Sha256, b"x").unwrap();
        assert_eq!(verdict(&renewed, &signed.packet, b"x", later), State::Valid);
        signer.set_clock(later + 1);
        assert_eq!(signer.renew(id, &renewed, None).unwrap().expires, None);
    }
}

#[test]
fn once_the_renewed_key_has_signed_the_old_one_does_not() {
    let mut signer = Signer::start();
    let key = signer.create(1, spec(KeyAlgorithm::Ed25519));
    signer.set_clock(NOW + 10);
    let renewed = signer.renew(1, &key, Some(YEAR)).unwrap();
    signer.sign(sealed(1, &key), HashAlgorithm::Sha256, b"x").unwrap();
    signer.sign(sealed(1, &renewed), HashAlgorithm::Sha256, b"x").unwrap();
    let code =
        |signer: &mut Signer| signer.sign(sealed(1, &key), HashAlgorithm::Sha256, b"x").unwrap_err().code;
    assert_eq!(code(&mut signer), Code::GenerationSuperseded);
    let mut later = signer.start_beside();
    assert_eq!(code(&mut later), Code::GenerationSuperseded, "the floor outlives the process");
    assert_eq!(later.renew(1, &key, None).unwrap_err().code, Code::GenerationSuperseded);
}

#[test]
fn a_renewal_keeps_every_packet_and_what_the_flags_allow() {
    let mut signer = Signer::start();
    // A certificate with several user ids or subkeys, and one whose self-signatures are SHA-1.
    for (id, file) in
        [(1, "gen_sha1-selfsig-rsa2048.sec.asc"), (2, "obs_secret-key.asc"), (3, "rpmorg_alice.secret")]
    {
        let key = signer.import(id, &fixture(file), "", "").unwrap_or_else(|fault| panic!("{file}: {fault}"));
        let renewed = signer.renew(id, &key, Some(YEAR)).unwrap_or_else(|fault| panic!("{file}: {fault}"));
        let (old, new) = (certificate(&key), certificate(&renewed));
        assert_eq!(old.user_ids(), new.user_ids(), "{file}");
        let able = |certificate: &Certificate| -> Vec<_> {
            certificate
                .components()
                .iter()
                .map(|component| (component.fingerprint(), component.can_sign()))
                .collect()
        };
        assert_eq!(able(&old), able(&new), "{file}");
        assert!(
            !new.warnings().iter().any(|warning| warning.contains("SHA-1") && warning.contains("user id")),
            "{file}"
        );
        let mut kept = packets(&renewed).into_iter();
        let lost = packets(&key).into_iter().find(|old| !kept.any(|new| new == *old));
        assert!(lost.is_none(), "{file}: every old packet is there, in its order: {lost:?}");
        let signed = signer.sign(sealed(id, &renewed), HashAlgorithm::Sha256, b"x").unwrap();
        assert_eq!(verdict(&renewed, &signed.packet, b"x", NOW), State::Valid, "{file}");
    }
}

#[test]
fn a_certificate_of_another_key_is_not_renewed() {
    let mut signer = Signer::start();
    let one = signer.create(1, spec(KeyAlgorithm::Ed25519));
    let two = signer.create(2, spec(KeyAlgorithm::Ed25519));
    signer.set_clock(NOW + 10);
    let mixed = KeyMaterial { certificate: two.certificate, ..one };
    assert_eq!(signer.renew(1, &mixed, None).unwrap_err().code, Code::NotRenewable);
}

#[test]
fn a_renewal_is_never_as_old_as_the_certificate() {
    let mut signer = Signer::start();
    let key = signer.create(1, spec(KeyAlgorithm::Ed25519));
    for time in [NOW, NOW - 100] {
        signer.set_clock(time);
        let fault = signer.renew(1, &key, None).unwrap_err();
        assert_eq!(fault.code, Code::ClockBehind);
    }
}
