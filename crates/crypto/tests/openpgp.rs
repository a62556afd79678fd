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
