//! Signature packets: any bytes are read or refused; what is read holds its own bytes; nobody's signature is valid
//! without a key; and what we compose reads back as what was asked for.

use sealwright_crypto::algorithm::{HashAlgorithm, KeyAlgorithm};
use sealwright_crypto::digest::Hasher;
use sealwright_crypto::openpgp::certificate::Keyring;
use sealwright_crypto::openpgp::fingerprint::Fingerprint;
use sealwright_crypto::openpgp::packet::{PACKET_BYTES_MAX, PACKETS_MAX, SignaturePacket};
use sealwright_crypto::openpgp::salt::Salt;
use sealwright_crypto::openpgp::signature::{DataKind, Template};
use sealwright_crypto::openpgp::verify::{State, preflight, verify};
use std::sync::LazyLock;

use crate::choices::Choices;

/// After every fixture key was made: 2026-12-01.
const NOW: i64 = 1_796_083_200;

const KEYS: [&[u8]; 3] = [
    include_bytes!("../../fixtures/pgp-key/gen_ed25519.pub.asc"),
    include_bytes!("../../fixtures/pgp-key/gen_rsa4096.pub.asc"),
    include_bytes!("../../fixtures/pgp-key/rpmorg_rpm.org-v6-ed25519-test.asc"),
];

static KEYRING: LazyLock<Keyring> = LazyLock::new(|| Keyring::parse_many(&KEYS.join(&b'\n')).unwrap());

pub(crate) fn run(data: &[u8]) {
    if let Ok(packets) = SignaturePacket::parse_many(data) {
        assert!((1..=PACKETS_MAX).contains(&packets.len()), "too many packets");
        let bytes: Vec<u8> = packets.iter().flat_map(SignaturePacket::bytes).copied().collect();
        assert_eq!(bytes, data, "packets do not hold the bytes that they were read from");
        packets.iter().for_each(look);
    }
    match (SignaturePacket::parse(data), SignaturePacket::parse_many(data)) {
        (Ok(one), Ok(many)) => assert_eq!(many, [one], "two parsers differ"),
        (Ok(_), Err(error)) => panic!("one packet is read alone, but not as a list: {error}"),
        (Err(_), _) => {}
    }
    compose(data);
}

fn look(packet: &SignaturePacket) {
    assert!(packet.bytes().len() <= PACKET_BYTES_MAX, "over the limit");
    assert_eq!(SignaturePacket::parse(packet.bytes()).as_ref().unwrap(), packet, "it does not read again");
    assert!(matches!(packet.version(), 3 | 4 | 6), "an unknown version");
    assert_eq!(packet.salt().is_some(), packet.version() == 6, "salts are of version 6");
    let _ = (packet.hash_name(), packet.key_algorithm_name(), packet.issuer_hex(), packet.expires());
    let alone = preflight(packet, &Keyring::new(), NOW);
    assert_ne!(alone.unwrap().state, State::Valid, "valid without a key");
    let first = preflight(packet, &KEYRING, NOW);
    if let Some(hash) = packet.hash() {
        let mut content = Hasher::new(hash);
        content.update(packet.salt().unwrap_or_default());
        content.update(b"content that nobody signed");
        let outcome = verify(packet, &content, &KEYRING, NOW);
        assert_ne!(outcome.state, State::Valid, "valid for a content that nobody signed");
        assert!(outcome.verified.is_none(), "a proof without a valid signature");
        assert!(
            first.is_none_or(|first| first == outcome),
            "an outcome that needs no content changed with it"
        );
    }
}

/// Writes a signature as the key holder does, with a value that no key made.
fn compose(data: &[u8]) {
    let mut input = Choices::new(data);
    let hash = input.one_of(&HashAlgorithm::ALL);
    let bits = 2048 + input.number() % (8192 - 2048 + 1);
    let key = if input.flag() { KeyAlgorithm::Rsa(bits) } else { KeyAlgorithm::Ed25519 };
    let mut issuer = input.bytes(20);
    let created = u32::from_be_bytes(input.bytes(4).try_into().unwrap());
    let salt = input.flag().then(|| input.bytes(32).try_into().unwrap());
    let len = match key {
        KeyAlgorithm::Rsa(bits) => usize::from(bits.div_ceil(8)),
        KeyAlgorithm::Ed25519 => 64,
    };
    let raw = input.bytes(len);
    let is_v6 = input.flag();
    issuer.extend(if is_v6 { input.bytes(12) } else { Vec::new() });
    let issuer = Fingerprint::from_bytes(&issuer).unwrap();
    let first = is_v6.then(|| Salt::new(hash, &input.bytes(hash.salt_len())).unwrap());
    let mut content = first.map_or_else(|| Hasher::new(hash), |salt| salt.hasher());
    content.update(input.rest());
    let kind = DataKind::Binary;
    let template = Template { hash, kind, key, issuer, created, salt, first };
    let unsigned = template.finish(&content.midstate()).unwrap();
    let Ok(packet) = unsigned.pack(&raw) else {
        let is_zero = |part: &[u8]| part.iter().all(|byte| *byte == 0);
        assert!(is_zero(&raw) || is_zero(&raw[..32]) || is_zero(&raw[32..]), "a good value is refused");
        return;
    };
    let read = SignaturePacket::parse(&packet).unwrap();
    assert_eq!(read.bytes(), packet, "a composed packet changed");
    assert_eq!((read.version(), read.signature_type()), (issuer.key_version(), 0));
    assert_eq!((read.hash(), read.salt()), (Some(hash), first.as_ref().map(Salt::as_bytes)));
    assert_eq!(read.key_algorithm_id(), key.openpgp_id(issuer.version()));
    assert_eq!((read.created(), read.expires()), (Some(created), None));
    assert_eq!(read.issuer_fingerprint(), Some(issuer));
    assert_eq!(read.issuer_key_id(), Some(issuer.key_id()));
    look(&read);
}
