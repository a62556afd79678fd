//! No input panics, and what is written is what was read.

use proptest::prelude::*;
use sealwright_crypto::algorithm::{HashAlgorithm, KeyAlgorithm};
use sealwright_crypto::digest::Hasher;
use sealwright_crypto::openpgp::armor::{self, Kind};
use sealwright_crypto::openpgp::certificate::{Certificate, Keyring};
use sealwright_crypto::openpgp::fingerprint::Fingerprint;
use sealwright_crypto::openpgp::packet::SignaturePacket;
use sealwright_crypto::openpgp::salt::Salt;
use sealwright_crypto::openpgp::signature::{DataKind, Template};
use sealwright_crypto::openpgp::verify::{State, preflight, verify};

use crate::forge::{Forge, Shape};
use crate::interop::read_signature;
use crate::{NOW, fixture, vector};

fn any_bytes(max: usize) -> impl Strategy<Value = Vec<u8>> {
    proptest::collection::vec(any::<u8>(), 0..max)
}

/// A well-framed signature packet with random contents: reaches deeper than random bytes.
fn framed() -> impl Strategy<Value = Vec<u8>> {
    let head = (prop_oneof![Just(3_u8), Just(4), Just(6)], any::<[u8; 3]>());
    (head, any_bytes(60), any_bytes(40), any_bytes(80)).prop_map(
        |((version, rest), hashed, unhashed, value)| {
            let area = |area: &[u8]| {
                let len = u32::try_from(area.len()).unwrap().to_be_bytes();
                let len = if version == 6 { &len[..] } else { &len[2..] };
                [len, area].concat()
            };
            let body = [&[version][..], &rest, &area(&hashed), &area(&unhashed), &value].concat();
            [&[0xc2, u8::try_from(body.len().min(191)).unwrap()][..], &body[..body.len().min(191)]].concat()
        },
    )
}

/// One byte of a real file changed, or the file cut.
fn damage(bytes: &[u8], at: usize, to: u8, cut: bool) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    let at = at % bytes.len();
    if cut {
        bytes.truncate(at);
    } else {
        bytes[at] = to;
    }
    bytes
}

proptest! {
    #[test]
    fn random_bytes_never_panic(bytes in any_bytes(400)) {
        let _ = SignaturePacket::parse_many(&bytes);
        let _ = armor::decode_or_binary(&bytes);
        let _ = Certificate::parse(&bytes);
        let _ = Keyring::parse_many(&bytes);
    }

    #[test]
    fn random_text_in_armor_never_panics(bytes in any_bytes(400), text in "[ -~\n\r=:-]{0,200}") {
        let _ = Keyring::parse_many(armor::encode(Kind::PublicKey, &bytes).as_bytes());
        let text = format!("-----BEGIN PGP PUBLIC KEY BLOCK-----\n{text}\n-----END PGP PUBLIC KEY BLOCK-----\n");
        let _ = Keyring::parse_many(text.as_bytes());
    }

    #[test]
    fn framed_packets_never_panic_and_keep_their_bytes(bytes in framed()) {
        if let Ok(packet) = SignaturePacket::parse(&bytes) {
            prop_assert_eq!(packet.bytes(), &bytes[..]);
            let _ = (packet.is_weak(), packet.issuer_hex(), packet.hash_name(), packet.key_algorithm_name());
        }
    }

    #[test]
    fn armor_decodes_to_what_was_encoded(bytes in any_bytes(500)) {
        let text = armor::encode(Kind::Signature, &bytes);
        prop_assert_eq!(armor::decode_or_binary(text.as_bytes()).unwrap(), bytes);
    }

    #[test]
    fn what_we_compose_parses_to_what_was_meant(
        created: u32,
        issuer: [u8; 32],
        salt: Option<[u8; 32]>,
        raw in any_bytes(513),
        which in 0..4_usize,
        hash in 0..3_usize,
        is_v6: bool,
    ) {
        let key = KeyAlgorithm::CREATABLE[which];
        let len = match key {
            KeyAlgorithm::Rsa(bits) => usize::from(bits) / 8,
            KeyAlgorithm::Ed25519 => 64,
        };
        // Never all zeros, but any number of leading ones.
        let mut value = vec![0; len.saturating_sub(raw.len())];
        value.extend_from_slice(&raw[..raw.len().min(len)]);
        value[31] |= 1;
        value[len - 1] |= 1;
        let hash = HashAlgorithm::ALL[hash];
        let first = is_v6.then(|| Salt::new(hash, &issuer[..hash.salt_len()]).unwrap());
        let issuer =
            if is_v6 { Fingerprint::v6(issuer) } else { Fingerprint::v4(*issuer.first_chunk().unwrap()) };
        let template = Template { hash, kind: DataKind::Binary, key, issuer, created, salt, first };
        let content = first.map_or_else(|| Hasher::new(hash), |salt| salt.hasher());
        let unsigned = template.finish(&content.midstate()).unwrap();
        let digest = unsigned.digest();
        let bytes = unsigned.pack(&value).unwrap();
        let packet = SignaturePacket::parse(&bytes).unwrap();
        prop_assert_eq!(packet.bytes(), &bytes[..]);
        prop_assert_eq!((packet.version(), packet.signature_type()), (issuer.key_version(), 0));
        prop_assert_eq!(packet.salt(), first.as_ref().map(Salt::as_bytes));
        prop_assert_eq!(packet.hash(), Some(hash));
        prop_assert_eq!(packet.key_algorithm_id(), key.openpgp_id(issuer.version()));
        prop_assert_eq!(packet.created(), Some(created));
        prop_assert_eq!(packet.issuer_fingerprint(), Some(issuer));
        prop_assert_eq!(packet.expires(), None);
        prop_assert_eq!(digest.as_bytes().len(), hash.digest_len());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Certificates are read with rPGP, whose parser sees every byte.
    #[test]
    fn damaged_certificates_never_panic(which in 0..4_usize, at: usize, to: u8, cut: bool) {
        let names = ["gen_certonly-expsub-livesub.pub.asc", "gen_nistp256.pub.asc", "gen_v6-cv25519.pub.asc",
            "gen_dsa1024.pub.asc"];
        let bytes = armor::decode_or_binary(&fixture(&format!("pgp-key/{}", names[which]))).unwrap();
        let bytes = damage(&bytes, at, to, cut);
        if let Ok(keyring) = Keyring::parse_many(&bytes) {
            let packet = read_signature(&vector("gpg-subkey-ed25519-sha512.asc"));
            let _ = preflight(&packet, &keyring, NOW);
            for certificate in keyring.certificates() {
                let _ = (certificate.warnings_at(NOW), certificate.to_armor(), certificate.user_ids());
            }
        }
    }

    /// Whichever byte of the packet is changed, what is still valid says the same.
    #[test]
    fn damaged_signatures_are_never_valid_for_another_claim(at: usize, to: u8) {
        let forge = Forge::load("gen_ed25519.sec.asc");
        let keyring = Keyring::parse_many(&fixture("pgp-key/gen_ed25519.pub.asc")).unwrap();
        let good = forge.sign(&Shape::default(), b"content");
        let original = SignaturePacket::parse(&good).unwrap();
        if let Ok(packet) = SignaturePacket::parse(&damage(&good, at, to, false))
            && packet.hash().is_some()
        {
            let mut hasher = Hasher::new(packet.hash().unwrap());
            hasher.update(b"content");
            let outcome = verify(&packet, &hasher, &keyring, NOW);
            if outcome.state == State::Valid {
                prop_assert_eq!(packet.created(), original.created());
                prop_assert_eq!(packet.signature_type(), 0);
            }
        }
    }
}
