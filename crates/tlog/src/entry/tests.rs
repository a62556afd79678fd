//! Tests of the canonical entry: golden bytes, strict decoding, limits.

use proptest::prelude::*;
use sealwright_crypto::algorithm::HashAlgorithm;
use sealwright_crypto::digest::{Hasher, to_hex};

use super::*;

pub(crate) fn small() -> Entry {
    Entry {
        signed_at_s: 1_764_513_000,
        principal: "local".to_owned(),
        request_id: [0x11; 16],
        item: 2,
        key_id: [0x22; 16],
        key_version: 1,
        key_generation: 3,
        signing_fingerprint: Fingerprint::from_hex(&"ab".repeat(20)).unwrap(),
        usage: Usage::OpenPgp,
        purpose: Purpose::RpmHeader,
        digest: Hasher::digest(HashAlgorithm::Sha256, b"abc").into(),
        packet_sha256: packet_hash(b"packet"),
        artefact: None,
        decision: "own".to_owned(),
        claimed_time_s: None,
        operation: Operation { number: 5, skipped: 1024, chain: [0x33; 32] },
    }
}

fn large() -> Entry {
    Entry {
        signed_at_s: -1,
        principal: "p".repeat(255),
        item: u32::MAX,
        signing_fingerprint: Fingerprint::from_hex(&"cd".repeat(32)).unwrap(),
        purpose: Purpose::Detached,
        digest: Hasher::digest(HashAlgorithm::Sha512, b"abc").into(),
        artefact: Some(Artefact { name: "a".repeat(255), size: u64::MAX }),
        decision: "d".repeat(255),
        claimed_time_s: Some(i64::MIN),
        ..small()
    }
}

/// The bytes of version 1 may never change: every leaf hash ever handed out depends on them.
#[test]
fn golden_vectors() {
    assert_eq!(
        to_hex(&small().encode().unwrap()),
        concat!(
            "01",
            "00000000692c54e8",
            "056c6f63616c",
            "11111111111111111111111111111111",
            "00000002",
            "22222222222222222222222222222222",
            "00000001",
            "00000003",
            "14abababababababababababababababababababab",
            "01",
            "01",
            "08",
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
            "7426afc489d0eef99a0b438def226ad139f752350c25cf2c04900281afbb79e0",
            "00",
            "036f776e",
            "00",
            "0000000000000005",
            "0000000000000400",
            "3333333333333333333333333333333333333333333333333333333333333333",
        )
    );
    let claimed = Entry {
        artefact: Some(Artefact { name: "a.rpm".to_owned(), size: 258 }),
        claimed_time_s: Some(1),
        ..small()
    };
    let bytes = to_hex(&claimed.encode().unwrap());
    let bytes = &bytes[..bytes.len() - 96];
    assert!(bytes.ends_with(concat!(
        "01",
        "05612e72706d",
        "0000000000000102",
        "036f776e",
        "01",
        "0000000000000001"
    )));
}

/// As a bare digest of SHA-1 is recorded: its own usage and purpose, number 2, 20 bytes, the client's time.
#[test]
fn a_digest_of_sha_1_is_kept_with_its_length_and_the_time_that_was_claimed() {
    let entry = Entry {
        usage: Usage::ObsDigestSha1,
        purpose: Purpose::ObsDigest,
        digest: AnyDigest::Sha1([0x5a; 20]),
        claimed_time_s: Some(7),
        ..small()
    };
    let bytes = entry.encode().unwrap();
    assert!(to_hex(&bytes).contains(&format!("030502{}", "5a".repeat(20))));
    assert_eq!(Entry::decode(&bytes).unwrap(), entry);
}

#[test]
fn what_is_decoded_encodes_to_the_same_bytes() {
    for entry in [small(), large()] {
        let bytes = entry.encode().unwrap();
        assert_eq!(Entry::decode(&bytes).unwrap(), entry);
    }
    assert_eq!(large().encode().unwrap().len(), ENCODED_BYTES_MAX);
}

#[test]
fn entry_truncated_anywhere_is_refused_not_a_panic() {
    for entry in [small(), large()] {
        let bytes = entry.encode().unwrap();
        for len in 0..bytes.len() {
            assert!(Entry::decode(&bytes[..len]).is_err(), "{len}");
        }
    }
}

#[test]
fn entry_with_bytes_after_it_is_refused() {
    let mut bytes = small().encode().unwrap();
    bytes.push(0);
    assert!(matches!(Entry::decode(&bytes), Err(Error::MalformedEntry { field: "end", .. })));
}

#[test]
fn entry_of_an_unknown_version_is_refused_by_its_number() {
    let mut bytes = small().encode().unwrap();
    bytes[0] = 2;
    assert!(matches!(Entry::decode(&bytes), Err(Error::UnknownVersion { version: 2 })));
}

#[test]
fn entry_with_a_presence_byte_of_two_is_refused() {
    let mut bytes = small().encode().unwrap();
    let at = bytes.len() - 49;
    bytes[at] = 2;
    assert!(matches!(Entry::decode(&bytes), Err(Error::MalformedEntry { field: "claimed time", .. })));
}

#[test]
fn entry_with_a_text_over_the_limit_is_not_written() {
    let fields: [fn(&mut Entry, String); 3] = [
        |entry, text| entry.principal = text,
        |entry, text| entry.decision = text,
        |entry, text| entry.artefact = Some(Artefact { name: text, size: 0 }),
    ];
    for set in fields {
        let mut entry = small();
        set(&mut entry, "x".repeat(TEXT_BYTES_MAX + 1));
        assert!(matches!(entry.encode(), Err(Error::FieldTooLong { len: 256, limit: 255, .. })));
    }
}

proptest! {
    /// Whatever is accepted is canonical; whatever is not is refused without a panic.
    #[test]
    fn one_changed_byte_is_refused_or_another_canonical_entry(at in 0..ENCODED_BYTES_MAX, value: u8) {
        let mut bytes = large().encode().unwrap();
        bytes[at] = value;
        if let Ok(entry) = Entry::decode(&bytes) {
            prop_assert_eq!(entry.encode().unwrap(), bytes);
        }
    }
}
