//! Every seed of this crate's fuzz targets goes through the same body as in the fuzzer: `docs/howto/fuzz.md`.
#![allow(
    clippy::arithmetic_side_effects,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "tests"
)]

#[path = "../../../fuzz/bodies/armor.rs"]
mod armor;
#[path = "../../../fuzz/bodies/choices.rs"]
mod choices;
#[path = "../../../fuzz/bodies/midstate.rs"]
mod midstate;
#[path = "../../../fuzz/bodies/openpgp_certificate.rs"]
mod openpgp_certificate;
#[path = "../../../fuzz/bodies/openpgp_packet.rs"]
mod openpgp_packet;
#[path = "../../../fuzz/bodies/seeds.rs"]
mod seeds;

#[test]
fn no_seed_of_armor_breaks_a_rule() {
    seeds::replay("armor", armor::run);
}

#[test]
fn no_seed_of_midstate_breaks_a_rule() {
    seeds::replay("midstate", midstate::run);
}

#[test]
fn no_seed_of_openpgp_certificate_breaks_a_rule() {
    seeds::replay("openpgp_certificate", openpgp_certificate::run);
}

#[test]
fn no_seed_of_openpgp_packet_breaks_a_rule() {
    seeds::replay("openpgp_packet", openpgp_packet::run);
}
