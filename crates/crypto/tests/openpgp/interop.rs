//! Signatures of other programs are understood, and ours are understood by another implementation.

use pgp::composed::{Deserializable as _, DetachedSignature, SignedPublicKey};
use sealwright_crypto::algorithm::{HashAlgorithm, KeyAlgorithm};
use sealwright_crypto::digest::{Hasher, to_hex};
use sealwright_crypto::openpgp::armor;
use sealwright_crypto::openpgp::certificate::Keyring;
use sealwright_crypto::openpgp::fingerprint::Fingerprint;
use sealwright_crypto::openpgp::packet::SignaturePacket;
use sealwright_crypto::openpgp::salt::Salt;
use sealwright_crypto::openpgp::signature::{DataKind, Template};
use sealwright_crypto::openpgp::verify::{Outcome, State, preflight, verify};

use crate::forge::Forge;
use crate::{NOW, fixture, vector};

/// Does what a caller does: preflight, hash, verify.
pub(crate) fn check(packet: &SignaturePacket, content: &[u8], keyring: &Keyring, now: i64) -> Outcome {
    if let Some(outcome) = preflight(packet, keyring, now) {
        // The answer must not depend on who is asked.
        let hasher = Hasher::new(packet.hash().unwrap_or(HashAlgorithm::Sha256));
        assert_eq!(verify(packet, &hasher, keyring, now), outcome);
        assert!(outcome.verified.is_none() && outcome.state != State::Valid);
        return outcome;
    }
    let mut hasher = Hasher::new(packet.hash().unwrap());
    hasher.update(packet.salt().unwrap_or_default());
    hasher.update(content);
    let outcome = verify(packet, &hasher, keyring, now);
    assert_eq!(outcome.verified.is_some(), outcome.state == State::Valid);
    outcome
}

pub(crate) fn read_signature(bytes: &[u8]) -> SignaturePacket {
    SignaturePacket::parse(&armor::decode_or_binary(bytes).unwrap()).unwrap()
}

fn keyring(name: &str) -> Keyring {
    Keyring::parse_many(&fixture(&format!("pgp-key/{name}"))).unwrap()
}

#[test]
fn signatures_by_gpg_of_every_algorithm_are_valid() {
    let content = vector("content.txt");
    let cases = [
        ("gpg-rsa4096-sha512.asc", keyring("gen_rsa4096.pub.asc")),
        ("gpg-rsa4096-sha512.asc", keyring("gen_rsa4096.pub.bin")),
        ("gpg-ed25519-sha256.asc", keyring("gen_ed25519.pub.asc")),
        ("gpg-ed25519-sha256.asc", keyring("gen_ed25519-crlf.pub.asc")),
        ("gpg-ed25519-sha256.asc", keyring("gen_ed25519-no-crc.pub.asc")),
        ("gpg-nistp256-sha256.asc", keyring("gen_nistp256.pub.asc")),
        ("gpg-nistp384-sha384.asc", keyring("gen_nistp384.pub.asc")),
        ("gpg-nistp521-sha512.asc", Keyring::parse_many(&vector("p521.pub.asc")).unwrap()),
        ("gpg-subkey-ed25519-sha512.asc", keyring("gen_certonly-expsub-livesub.pub.asc")),
    ];
    for (name, keyring) in cases {
        let packet = read_signature(&vector(name));
        let outcome = check(&packet, &content, &keyring, NOW);
        assert_eq!(outcome.state, State::Valid, "{name}: {:?}", outcome.detail);
        let verified = outcome.verified.unwrap();
        assert_eq!(Some(verified.component()), packet.issuer_fingerprint());
        assert_eq!(Some(verified.created()), packet.created());
        assert_eq!(verified.certificate(), keyring.certificates()[0].fingerprint());
        assert!(outcome.user_id.unwrap().contains('@'));
        assert_eq!(check(&packet, b"other", &keyring, NOW).state, State::Bad, "{name}");
    }
}

/// The signature of a version 6 package (tag 278) over its main header, by rpm-rs.
#[test]
fn version_6_signatures_are_valid() {
    const SIGNATURE: &str = "wpgGABsKAAAAKQWCadHayiIhBnFWGa4jZdkJ65kf+XpQnNdqC6yS8OF8HCUlgShSzt/FAAAAADehIMPLoPwgK85UM/4pZpKuCczrKDhiS3tVCXB07dX0TIlXPS9tkEnS3UY/aClBOad1DWpx5X676FdYNc9PBmBn7hfyDu3e+sCqoZ2AFosYOHcovfqUokcUTIpN3QuGSLMhDA==";
    let armored = format!("-----BEGIN PGP SIGNATURE-----\n\n{SIGNATURE}\n-----END PGP SIGNATURE-----\n");
    let packet = read_signature(armored.as_bytes());
    assert_eq!((packet.version(), packet.key_algorithm_id(), packet.hash_id()), (6, 27, 10));
    assert_eq!(packet.salt().unwrap().len(), 32);
    let package = fixture("rpm/rpmrs_v6_signed_rpm-basic-with-ed25519-2.3.4-5.el9.noarch.rpm");
    let header = &package[4456..4456 + 5043];
    let keyring = keyring("rpmrs_rpm-testkey-v6-ed25519.asc");
    let outcome = check(&packet, header, &keyring, NOW);
    assert_eq!(outcome.state, State::Valid, "{:?}", outcome.detail);
    assert_eq!(check(&packet, &header[1..], &keyring, NOW).state, State::Bad);
}

#[test]
fn our_signatures_verify_with_rpgp_and_with_ourselves() {
    let content = b"the main header of a package";
    for (secret, public, key) in [
        ("gen_rsa4096.sec.asc", "gen_rsa4096.pub.asc", KeyAlgorithm::Rsa(4096)),
        ("gen_sha1-selfsig-rsa2048.sec.asc", "gen_sha1-selfsig-rsa2048.pub.asc", KeyAlgorithm::Rsa(2048)),
        ("gen_ed25519.sec.asc", "gen_ed25519.pub.asc", KeyAlgorithm::Ed25519),
    ] {
        let forge = Forge::load(secret);
        let public = armor::decode_or_binary(&fixture(&format!("pgp-key/{public}"))).unwrap();
        let keyring = Keyring::parse_many(&public).unwrap();
        let theirs = SignedPublicKey::from_bytes(&public[..]).unwrap();
        for (hash, salt) in HashAlgorithm::ALL.into_iter().zip([None, Some([7; 32]), None]) {
            let issuer = forge.fingerprint(None);
            let template = Template {
                hash,
                kind: DataKind::Binary,
                key,
                issuer,
                created: 1_799_000_000,
                salt,
                first: None,
            };
            let mut hasher = Hasher::new(hash);
            hasher.update(content);
            let unsigned = template.finish(&hasher.midstate()).unwrap();
            let raw = forge.sign_raw(key, &unsigned.digest());
            let bytes = unsigned.pack(&raw).unwrap();

            let packet = SignaturePacket::parse(&bytes).unwrap();
            assert_eq!(packet.bytes(), bytes);
            assert_eq!(packet.created(), Some(1_799_000_000));
            assert_eq!(packet.issuer_fingerprint(), Some(issuer));
            assert_eq!(check(&packet, content, &keyring, NOW).state, State::Valid);
            let detached = DetachedSignature::from_bytes(&bytes[..]).unwrap();
            detached.verify(&theirs.primary_key, content).unwrap();
            assert_eq!(
                pgp::ser::Serialize::to_bytes(&detached).unwrap(),
                bytes,
                "rPGP writes it differently"
            );
            let config = detached.signature.config().unwrap();
            assert!(config.hashed_subpackets().all(|subpacket| !subpacket.is_critical));
            assert_eq!(detached.signature.notations().len(), usize::from(salt.is_some()));
        }
    }
}

/// Version 6, with the two algorithms that we make keys of. What the salt is for: another one, or none, and the
/// signature is bad.
#[test]
fn our_version_6_signatures_verify_with_rpgp_and_with_ourselves_by_their_salt_alone() {
    let content = b"the main header of a package";
    for (secret, key) in [
        ("rpgp_v6-25519-annex-a-4_tsk.asc", KeyAlgorithm::Ed25519),
        ("rpgp_v6-rsa_tsk.asc", KeyAlgorithm::Rsa(4096)),
    ] {
        let forge = Forge::load(secret);
        let public = forge.public();
        let keyring = Keyring::parse_many(&public).unwrap();
        assert_eq!(keyring.certificates()[0].components()[0].algorithm(), Some(key), "{secret}");
        let theirs = SignedPublicKey::from_bytes(&public[..]).unwrap();
        for hash in HashAlgorithm::ALL {
            let salt = Salt::new(hash, &vec![0xa5; hash.salt_len()]).unwrap();
            let issuer = forge.fingerprint(None);
            let template = Template {
                hash,
                kind: DataKind::Binary,
                key,
                issuer,
                created: 1_799_000_000,
                salt: None,
                first: Some(salt),
            };
            let mut hasher = salt.hasher();
            hasher.update(content);
            let unsigned = template.finish(&hasher.midstate()).unwrap();
            let raw = forge.sign_raw(key, &unsigned.digest());
            let bytes = unsigned.pack(&raw).unwrap();

            let packet = SignaturePacket::parse(&bytes).unwrap();
            assert_eq!((packet.version(), packet.salt()), (6, Some(salt.as_bytes())));
            assert_eq!(verify(&packet, &hasher, &keyring, NOW).state, State::Valid, "{secret} {hash:?}");
            let detached = DetachedSignature::from_bytes(&bytes[..]).unwrap();
            detached.verify(&theirs.primary_key, &content[..]).unwrap();
            assert_eq!(pgp::ser::Serialize::to_bytes(&detached).unwrap(), bytes);

            let mut unsalted = Hasher::new(hash);
            unsalted.update(content);
            assert_eq!(verify(&packet, &unsalted, &keyring, NOW).state, State::Bad);
            let mut other = Salt::new(hash, &vec![0xa4; hash.salt_len()]).unwrap().hasher();
            other.update(content);
            assert_eq!(verify(&packet, &other, &keyring, NOW).state, State::Bad);
        }
    }
}

/// The bytes of our signatures may change only on purpose. Ed25519 is deterministic, so this is a whole packet.
/// gpg 2.2.40 calls it a good signature.
#[test]
fn golden_packet() {
    let forge = Forge::load("gen_ed25519.sec.asc");
    let template = Template {
        hash: HashAlgorithm::Sha256,
        kind: DataKind::Binary,
        key: KeyAlgorithm::Ed25519,
        issuer: Fingerprint::from_hex("2b510dbba3a3fcb701e124d29225999dec7f0968").unwrap(),
        created: 1_799_000_000,
        salt: Some([0x5a; 32]),
        first: None,
    };
    let mut hasher = Hasher::new(HashAlgorithm::Sha256);
    hasher.update(&vector("content.txt"));
    let unsigned = template.finish(&hasher.midstate()).unwrap();
    let raw = forge.sign_raw(KeyAlgorithm::Ed25519, &unsigned.digest());
    let bytes = unsigned.pack(&raw).unwrap();
    assert_eq!(to_hex(&bytes), GOLDEN);
}

const GOLDEN: &str = "c2bc04001608006405026b3a8fc01621042b510dbba3a3fcb701e124d29225999dec7f0968461400000000001d002073616c74406e6f746174696f6e732e7365616c7772696768742e6f72675a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a000a09109225999dec7f09684f330100ce880bda7b9678b743f42801060dc5ce27c89beeab1165f5c4a2c719c2c5b55a010084be7628df34825ee8a63420c37a762c2b2c5ce4759526057e5459fd285f7c0e";

/// One RSA signature in 256 starts with a zero byte, and so do R and S of Ed25519.
#[test]
fn every_mpi_that_we_write_is_minimal() {
    let forge = Forge::load("gen_ed25519.sec.asc");
    let keyring = keyring("gen_ed25519.pub.asc");
    let mut shorter = 0;
    for number in 0..600_u32 {
        let content = number.to_be_bytes();
        let template = Template {
            hash: HashAlgorithm::Sha256,
            kind: DataKind::Binary,
            key: KeyAlgorithm::Ed25519,
            issuer: forge.fingerprint(None),
            created: 1_799_000_000,
            salt: None,
            first: None,
        };
        let mut hasher = Hasher::new(HashAlgorithm::Sha256);
        hasher.update(&content);
        let unsigned = template.finish(&hasher.midstate()).unwrap();
        let raw = forge.sign_raw(KeyAlgorithm::Ed25519, &unsigned.digest());
        shorter += usize::from(raw[0] == 0 || raw[32] == 0);
        let packet = SignaturePacket::parse(&unsigned.pack(&raw).unwrap()).unwrap();
        assert_eq!(check(&packet, &content, &keyring, NOW).state, State::Valid);
    }
    assert!(shorter > 0, "no value with a leading zero came up: the test shows nothing");
}
