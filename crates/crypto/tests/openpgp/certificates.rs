//! What is said of the certificates of the fixtures.

use pgp::crypto::hash::HashAlgorithm as PgpHash;
use pgp::packet::{Subpacket, SubpacketData};
use pgp::types::Duration;
use sealwright_crypto::algorithm::KeyAlgorithm;
use sealwright_crypto::error::Error;
use sealwright_crypto::openpgp::armor;
use sealwright_crypto::openpgp::certificate::{Certificate, Keyring};

use crate::forge::Forge;
use crate::{NOW, fixture, packets, vector, without};

fn certificate(name: &str) -> Certificate {
    Certificate::parse(&fixture(&format!("pgp-key/{name}"))).unwrap()
}

/// Fixture, fingerprint, algorithm names of the components, which of them sign.
const ALL: [(&str, &str, &[&str], &[usize]); 22] = [
    (
        "gen_certonly-encrypt-sub-no-sign.pub.asc",
        "10cf49a0c45059077d1e661c7d233a4cffde5af4",
        &["ed25519", "ecdh"],
        &[],
    ),
    (
        "gen_certonly-expsub-livesub.pub.asc",
        "3f0ade5fef5f7aa82a09aa8a820cb7e1db3eea04",
        &["rsa3072", "rsa3072", "ed25519"],
        &[2],
    ),
    ("gen_dsa1024.pub.asc", "59db3af64ea5bcda40b28beba05dab37f3741bff", &["dsa1024"], &[]),
    ("gen_ed25519.pub.asc", "2b510dbba3a3fcb701e124d29225999dec7f0968", &["ed25519"], &[0]),
    ("gen_ed25519-crlf.pub.asc", "2b510dbba3a3fcb701e124d29225999dec7f0968", &["ed25519"], &[0]),
    ("gen_ed25519-no-crc.pub.asc", "2b510dbba3a3fcb701e124d29225999dec7f0968", &["ed25519"], &[0]),
    ("gen_expired-primary-rsa2048.pub.asc", "184da900560ea8945a40a06577e54fa8fbf253b9", &["rsa2048"], &[]),
    ("gen_nistp256.pub.asc", "469f1a9c9d22d31c9c617ce05ebb221adf1112c3", &["nistp256"], &[]),
    ("gen_nistp384.pub.asc", "6f8c6fbd6442b2607e26cd09167fc5465719afdd", &["nistp384"], &[]),
    ("gen_rsa3072-passphrase.pub.asc", "bca2cfbd29d29286baf750522c064f658cf65010", &["rsa3072"], &[0]),
    ("gen_rsa4096.pub.asc", "540b4008adbe54197fba7930c1170a1e0929b21d", &["rsa4096"], &[0]),
    ("gen_rsa4096.pub.bin", "540b4008adbe54197fba7930c1170a1e0929b21d", &["rsa4096"], &[0]),
    ("gen_sha1-selfsig-rsa2048.pub.asc", "8cd67b3ae20d02fb29eb3dd6e6464de4814a47ca", &["rsa2048"], &[0]),
    ("gen_stubprimary.pub.asc", "902e742328ce844905387cb701ac9cdc79b9cba7", &["rsa3072", "rsa3072"], &[1]),
    ("obs_public-key.asc", "2aa0e9f70f186184377807b57581f22be40a9a2f", &["rsa2048", "elgamal"], &[0]),
    ("relic_rocky9.pgp", "21cb256ae16fc54c6e652949702d426d350d275d", &["rsa4096"], &[0]),
    (
        "rhs_puiterwijk.gpgkey.asc",
        "178dcfb4151bd949d2eb087e8657980d9ab51e50",
        &["rsa4096", "rsa4096", "rsa2048"],
        &[0],
    ),
    (
        "rpmorg_CVE-2021-3521-badbind.asc",
        "771b18d3d7baa28734333c424344591e1964c5fc",
        &["rsa2048", "rsa2048"],
        &[0],
    ),
    (
        "rpmorg_alice-expired-subkey.asc",
        "b6542f92f30650c36b6f41bcb3a771bfeb04e625",
        &["rsa3072", "rsa3072"],
        &[],
    ),
    ("rpmorg_alice.asc", "b6542f92f30650c36b6f41bcb3a771bfeb04e625", &["rsa3072", "rsa3072"], &[1]),
    (
        "rpmrs_rpm-testkey-v6-ed25519.asc",
        "ee11adb4fb08151e04ced70b413e0ace80950f1e78e7ecc6fdb8f64041dd35af",
        &["ed25519", "ed25519"],
        &[1],
    ),
    (
        "rpmrs_rpm-testkey-v6-mldsa65-ed25519.asc",
        "e52b3cb536be98a1bd19500647e069157085e6f70608f0d32e0cddd4720227e6",
        &["ml-dsa-65+ed25519", "ml-dsa-65+ed25519"],
        &[],
    ),
];

#[test]
fn certificates_of_others_are_read_as_they_are() {
    for (name, fingerprint, algorithms, signing) in ALL {
        let certificate = certificate(name);
        assert_eq!(certificate.fingerprint().to_string(), fingerprint, "{name}");
        let names: Vec<_> =
            certificate.components().iter().map(|component| component.algorithm_name()).collect();
        assert_eq!(names, algorithms, "{name}");
        let want: Vec<_> = signing.iter().map(|at| certificate.components()[*at].fingerprint()).collect();
        let found: Vec<_> =
            certificate.signing_components(NOW).iter().map(|component| component.fingerprint()).collect();
        assert_eq!(found, want, "{name}");
    }
}

#[test]
fn what_is_exported_is_what_was_read() {
    for (name, ..) in ALL {
        let certificate = certificate(name);
        let binary = certificate.to_binary();
        assert_eq!(binary, armor::decode_or_binary(&fixture(&format!("pgp-key/{name}"))).unwrap(), "{name}");
        let again = Certificate::parse(certificate.to_armor().as_bytes()).unwrap();
        assert_eq!(again.to_binary(), binary, "{name}");
    }
}

#[test]
fn several_certificates_are_a_keyring_and_not_one_certificate() {
    let two = fixture("pgp-key/gen_two-keys-concatenated.pub.asc");
    assert!(matches!(Certificate::parse(&two), Err(Error::Malformed { .. })));
    let keyring = Keyring::parse_many(&two).unwrap();
    let found: Vec<_> =
        keyring.certificates().iter().map(|certificate| certificate.fingerprint().key_id_hex()).collect();
    assert_eq!(found, ["9225999dec7f0968", "c1170a1e0929b21d"]);
    // One block with both, and the packets as they are.
    let joined: Vec<u8> = keyring.certificates().iter().flat_map(Certificate::to_binary).collect();
    let block = armor::encode(armor::Kind::PublicKey, &joined);
    for bytes in [block.into_bytes(), joined] {
        assert_eq!(Keyring::parse_many(&bytes).unwrap().certificates().len(), 2);
    }
}

#[test]
fn private_keys_and_other_things_are_refused_by_name() {
    for (name, word) in [
        ("gen_ed25519.sec.asc", "private key"),
        ("gen_stubprimary.secsub.asc", "private key"),
        ("rpgp_v6-legacy_illegal_tsk.asc", "private key"),
        ("nfpm_wrong_key_format.pub", "PUBLIC KEY"),
        ("rpgp_two_signed.asc", "PGP MESSAGE"),
    ] {
        let error = Certificate::parse(&fixture(&format!("pgp-key/{name}"))).unwrap_err().to_string();
        assert!(error.contains(word), "{name}: {error}");
    }
    let signature = fixture("pgp-sig/librepo_test_data.txt.asc");
    assert!(Keyring::parse_many(&signature).unwrap_err().to_string().contains("public key"));
}

#[test]
fn a_sha1_self_signature_is_warned_of_by_name_with_the_cure() {
    for (name, several) in [
        ("gen_sha1-selfsig-rsa2048.pub.asc", 1),
        ("gen_dsa1024.pub.asc", 1),
        ("obs_public-key.asc", 2),
        ("rhs_gpgkey.asc", 1),
    ] {
        let warnings = certificate(name).warnings();
        let sha1: Vec<_> = warnings.iter().filter(|warning| warning.contains("SHA-1")).collect();
        assert_eq!(sha1.len(), several, "{name}: {warnings:?}");
        assert!(sha1.iter().all(|warning| warning.contains("sealwright key renew")));
    }
    for name in ["gen_rsa4096.pub.asc", "relic_rocky9.pgp", "rpmrs_rpm-testkey-v6-ed25519.asc"] {
        assert_eq!(certificate(name).warnings(), Vec::<String>::new(), "{name}");
    }
}

#[test]
fn dsa_bad_bindings_and_expiry_are_warned_of() {
    assert!(certificate("gen_dsa1024.pub.asc").warnings().iter().any(|warning| warning.contains("dsa1024")));
    let bad = certificate("rpmorg_CVE-2021-3521-badbind.asc");
    assert!(bad.warnings().iter().any(|warning| warning.contains("binding")));
    assert!(bad.components()[1].binding_problem().is_some() && !bad.components()[1].can_sign());
    let expired = certificate("gen_expired-primary-rsa2048.pub.asc");
    assert_eq!(expired.expires(), Some(1_614_600_000));
    assert!(expired.warnings().is_empty());
    assert!(expired.warnings_at(NOW).iter().any(|warning| warning.contains("expired")));
    assert!(expired.warnings_at(1_600_000_000).is_empty());
}

#[test]
fn only_the_live_subkey_signs_and_the_expired_one_says_why_not() {
    let certificate = certificate("gen_certonly-expsub-livesub.pub.asc");
    let [primary, expired, live] = certificate.components() else { panic!("three components") };
    assert_eq!(live.unfit_to_sign(NOW), None);
    assert_eq!(live.algorithm(), Some(KeyAlgorithm::Ed25519));
    assert!(expired.unfit_to_sign(NOW).unwrap().contains("expired"));
    assert_eq!(expired.unfit_to_sign(1_650_000_000), None);
    assert!(primary.unfit_to_sign(NOW).unwrap().contains("flags"));
    assert!(live.unfit_to_sign(1_700_000_000).unwrap().contains("valid only from"));
}

#[test]
fn user_ids_come_primary_first() {
    let ids = certificate("rhs_puiterwijk.gpgkey.asc").user_ids();
    assert_eq!(ids.len(), 5);
    assert_eq!(ids[0], "Patrick Uiterwijk <puiterwijk@gmail.com>");
    assert_eq!(
        certificate("gen_rsa4096.pub.asc").primary_user_id(),
        Some("corpus rsa4096 <rsa4096@corpus.invalid>")
    );
}

#[test]
fn a_certificate_with_every_signature_removed_is_read_and_binds_nothing() {
    let whole = certificate("gen_certonly-expsub-livesub.pub.asc").to_binary();
    let bare = without(&whole, |tag, _| tag == 2);
    let certificate = Certificate::parse(&bare).unwrap();
    assert!(certificate.user_ids().is_empty());
    assert_eq!(certificate.components().len(), 3);
    for component in certificate.components() {
        assert!(component.binding_problem().is_some() && !component.can_sign());
    }
}

#[test]
fn a_signing_subkey_that_has_not_signed_back_does_not_sign() {
    let whole = certificate("gen_certonly-expsub-livesub.pub.asc").to_binary();
    let mut bare = Vec::new();
    for (tag, packet) in packets(&whole) {
        // In the bindings (type 0x18) gpg keeps the back signature in the unhashed area, which nothing protects.
        let body = &packet[if packet[0] & 3 == 0 { 2 } else { 3 }..];
        if tag != 2 || body[1] != 0x18 {
            bare.extend(packet);
            continue;
        }
        let hashed = 6 + usize::from(u16::from_be_bytes([body[4], body[5]]));
        let unhashed = usize::from(u16::from_be_bytes([body[hashed], body[hashed + 1]]));
        let rest = [&body[..hashed], &[0, 0], &body[hashed + 2 + unhashed..]].concat();
        bare.extend(crate::forge::packet(&rest));
    }
    let certificate = Certificate::parse(&bare).unwrap();
    for subkey in &certificate.components()[1..] {
        assert!(!subkey.can_sign());
        assert!(subkey.binding_problem().unwrap().contains("has not signed"));
    }
    assert!(certificate.signing_components(NOW).is_empty());
}

#[test]
fn a_binding_moved_to_another_certificate_does_not_bind() {
    let mine = certificate("gen_rsa4096.pub.asc").to_binary();
    let theirs = packets(&certificate("gen_certonly-expsub-livesub.pub.asc").to_binary());
    let subkeys = theirs.iter().position(|(tag, _)| *tag == 14).unwrap();
    let stolen: Vec<u8> = theirs[subkeys..].iter().flat_map(|(_, packet)| packet.clone()).collect();
    let certificate = Certificate::parse(&[mine, stolen].concat()).unwrap();
    assert_eq!(certificate.components().len(), 3);
    assert!(certificate.components()[1..].iter().all(|subkey| subkey.binding_problem().is_some()));
    assert_eq!(certificate.signing_components(NOW).len(), 1);
}

#[test]
fn revoked_user_ids_are_not_listed_and_revoked_keys_are_warned_of() {
    let revoked = Certificate::parse(&vector("subrevoked.pub.asc")).unwrap();
    assert_eq!(revoked.user_ids(), ["subrevoked <subrevoked@vector.invalid>"]);
    let certification_revocation = |tag: u8, packet: &[u8]| tag == 2 && packet[3] == 0x30;
    let before = Certificate::parse(&without(&revoked.to_binary(), certification_revocation)).unwrap();
    assert_eq!(before.user_ids().len(), 2);
    let hard = Certificate::parse(&vector("revoked-hard.pub.asc")).unwrap();
    assert!(hard.warnings_at(NOW).iter().any(|warning| warning.contains("revoked")));
    assert!(hard.signing_components(NOW).is_empty());
    assert!(hard.components()[0].unfit_to_sign(NOW).unwrap().contains("revoked"));
}

#[test]
fn the_newest_self_signature_counts() {
    let old = Certificate::parse(&vector("renewed-old.pub.asc")).unwrap();
    let new = Certificate::parse(&vector("renewed-new.pub.asc")).unwrap();
    assert_eq!((old.expires(), new.expires()), (Some(1_772_323_200), Some(1_830_297_600)));
    // Both self-signatures in one certificate, in either order.
    let (old, new) = (packets(&old.to_binary()), packets(&new.to_binary()));
    let [key, id, first] = &old[..] else { panic!("key, user id, self-signature") };
    let second = new.last().unwrap();
    for order in [[first, second], [second, first]] {
        let bytes: Vec<u8> =
            [key, id, order[0], order[1]].into_iter().flat_map(|(_, packet)| packet.clone()).collect();
        assert_eq!(Certificate::parse(&bytes).unwrap().expires(), Some(1_830_297_600));
    }
}

#[test]
fn a_user_id_that_was_changed_is_not_listed() {
    let whole = certificate("gen_rsa4096.pub.asc").to_binary();
    let change = |(tag, mut packet): (u8, Vec<u8>)| {
        packet[2] ^= u8::from(tag == 13);
        packet
    };
    let changed: Vec<u8> = packets(&whole).into_iter().flat_map(change).collect();
    assert!(Certificate::parse(&changed).unwrap().user_ids().is_empty());
}

#[test]
fn too_many_pieces_are_refused_by_a_named_limit() {
    let whole = certificate("gen_rsa4096.pub.asc").to_binary();
    let user = [0xb4, 1, b'x'];
    let many = [whole, user.repeat(300)].concat();
    let error = Certificate::parse(&many).unwrap_err();
    assert!(matches!(error, Error::TooLarge { limit: 256, .. }), "{error}");
    assert!(error.to_string().starts_with("a certificate has 257 user ids; the limit is 256"), "{error}");
}

#[test]
fn md5_and_critical_unknowns_do_not_bind() {
    let forge = Forge::load("gen_rsa4096.sec.asc");
    let strange = |critical| {
        let data = SubpacketData::Experimental(100, vec![1].into());
        if critical { Subpacket::critical(data) } else { Subpacket::regular(data) }.unwrap()
    };
    for (hash, more, binds) in [
        (PgpHash::Sha256, Vec::new(), true),
        (PgpHash::Sha1, Vec::new(), true),
        (PgpHash::Md5, Vec::new(), false),
        (PgpHash::Sha256, vec![strange(false)], true),
        (PgpHash::Sha256, vec![strange(true)], false),
    ] {
        let certificate = Certificate::parse(&forge.certificate(hash, 1_797_000_000, more)).unwrap();
        assert_eq!(certificate.user_ids().len(), usize::from(binds), "{hash:?}");
        let primary = &certificate.components()[0];
        assert_eq!((primary.can_sign(), primary.binding_problem().is_none()), (binds, binds), "{hash:?}");
        assert_eq!(primary.is_bound_by_sha1(), hash == PgpHash::Sha1);
    }
}

#[test]
fn a_self_signature_that_ends_ends_the_key() {
    let forge = Forge::load("gen_rsa4096.sec.asc");
    let end = |data| vec![Subpacket::regular(data).unwrap()];
    for (more, want) in [
        (end(SubpacketData::KeyExpirationTime(Duration::from_secs(1000))), Some(1_796_042_075 + 1000)),
        (end(SubpacketData::KeyExpirationTime(Duration::from_secs(0))), None),
        (end(SubpacketData::SignatureExpirationTime(Duration::from_secs(10))), Some(1_797_000_010)),
    ] {
        let certificate =
            Certificate::parse(&forge.certificate(PgpHash::Sha256, 1_797_000_000, more)).unwrap();
        assert_eq!(certificate.expires(), want);
    }
}

#[test]
fn a_damaged_binding_binds_nothing_and_a_damaged_back_signature_does_not_sign() {
    let whole = certificate("gen_certonly-expsub-livesub.pub.asc").to_binary();
    let damaged = |damage: &dyn Fn(&mut [u8])| {
        let change = |(tag, mut packet): (u8, Vec<u8>)| {
            let header = if packet[0] & 3 == 0 { 2 } else { 3 };
            if tag == 2 && packet[header + 1] == 0x18 {
                damage(&mut packet[header..]);
            }
            packet
        };
        let bytes: Vec<u8> = packets(&whole).into_iter().flat_map(change).collect();
        let certificate = Certificate::parse(&bytes).unwrap();
        certificate.components()[1..].iter().map(|subkey| subkey.binding_problem()).collect::<Vec<_>>()
    };
    assert_eq!(damaged(&|_| {}), [None, None]);
    let problems = damaged(&|body| *body.last_mut().unwrap() ^= 1);
    assert!(problems.iter().all(|problem| problem.unwrap().contains("no valid binding")), "{problems:?}");
    // The last byte of the embedded signature; what follows it is the issuer or nothing.
    let problems = damaged(&|body| {
        let hashed = 6 + usize::from(u16::from_be_bytes([body[4], body[5]]));
        let mut at = hashed + 2;
        loop {
            let (head, len) = match usize::from(body[at]) {
                long @ 192.. => (2, ((long - 192) << 8) + 192 + usize::from(body[at + 1])),
                short => (1, short),
            };
            if body[at + head] == 32 {
                body[at + head + len - 1] ^= 1;
                return;
            }
            at += head + len;
        }
    });
    assert!(problems.iter().all(|problem| problem.unwrap().contains("has not signed")), "{problems:?}");
}

/// Anyone can add certifications to a published certificate.
#[test]
fn a_flood_of_certifications_by_others_costs_nothing() {
    let others = packets(&certificate("gen_certonly-expsub-livesub.pub.asc").to_binary());
    let (_, theirs) = others.iter().find(|(tag, _)| *tag == 2).unwrap();
    let flooded = [certificate("gen_rsa4096.pub.asc").to_binary(), theirs.repeat(3000)].concat();
    let certificate = Certificate::parse(&flooded).unwrap();
    assert_eq!(certificate.signing_components(NOW).len(), 1);
}
