//! Every seed of this crate's fuzz targets goes through the same body as in the fuzzer: `docs/howto/fuzz.md`.
#![allow(
    clippy::arithmetic_side_effects,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::ptr_arg,
    clippy::unwrap_used,
    reason = "tests"
)]

#[path = "../../../fuzz/bodies/choices.rs"]
mod choices;
#[path = "../../../fuzz/bodies/cleartext.rs"]
mod cleartext;
#[path = "../../../fuzz/bodies/formats.rs"]
mod formats;
#[path = "../../../fuzz/bodies/made_up.rs"]
mod made_up;
#[path = "../../../fuzz/bodies/rpm_layout.rs"]
mod rpm_layout;
#[path = "../../../fuzz/bodies/seeds.rs"]
mod seeds;
#[path = "../../../fuzz/bodies/splice_round_trip.rs"]
mod splice_round_trip;

#[test]
fn no_seed_of_cleartext_breaks_a_rule() {
    seeds::replay("cleartext", cleartext::run);
}

#[test]
fn no_seed_of_formats_breaks_a_rule() {
    seeds::replay("formats", formats::run);
}

#[test]
fn no_seed_of_splice_round_trip_breaks_a_rule() {
    seeds::replay("splice_round_trip", splice_round_trip::run);
}
