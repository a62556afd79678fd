//! OpenPGP against keys and signatures of others: interoperability, states of a signature, certificates, properties.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::panic,
    reason = "tests"
)]

#[path = "openpgp/certificates.rs"]
mod certificates;
#[path = "openpgp/forge.rs"]
mod forge;
#[path = "openpgp/interop.rs"]
mod interop;
#[path = "openpgp/properties.rs"]
mod properties;
#[path = "openpgp/states.rs"]
mod states;

/// After every key and signature of the fixtures but those that are meant to lie in the future: 2027-01-15.
const NOW: i64 = 1_800_000_000;

/// The bytes of a file of the repository's fixtures.
fn fixture(path: &str) -> Vec<u8> {
    read(&format!("{}/../../fixtures/{path}", env!("CARGO_MANIFEST_DIR")))
}

/// The bytes of a file beside these tests.
fn vector(name: &str) -> Vec<u8> {
    read(&format!("{}/tests/vectors/{name}", env!("CARGO_MANIFEST_DIR")))
}

fn read(path: &str) -> Vec<u8> {
    std::fs::read(path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The packets of a certificate as gpg writes them (old headers, one or two length bytes): type, whole packet.
fn packets(bytes: &[u8]) -> Vec<(u8, Vec<u8>)> {
    let mut packets = Vec::new();
    let mut rest = bytes;
    while let [head, ..] = rest {
        let (header, len) = match head & 0xc3 {
            0x80 => (2, usize::from(rest[1])),
            0x81 => (3, usize::from(u16::from_be_bytes([rest[1], rest[2]]))),
            _ => panic!("another header"),
        };
        let (packet, tail) = rest.split_at(header + len);
        packets.push(((head >> 2) & 15, packet.to_vec()));
        rest = tail;
    }
    packets
}

/// What is left when the packets that `remove` names are taken out.
fn without(bytes: &[u8], remove: impl Fn(u8, &[u8]) -> bool) -> Vec<u8> {
    packets(bytes)
        .into_iter()
        .filter(|(tag, packet)| !remove(*tag, packet))
        .flat_map(|(_, packet)| packet)
        .collect()
}
