//! Every seed of this crate's fuzz targets goes through the same body as in the fuzzer: `docs/howto/fuzz.md`.
#![allow(
    clippy::arithmetic_side_effects,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "tests"
)]

#[path = "../../../fuzz/bodies/log_entry.rs"]
mod log_entry;
#[path = "../../../fuzz/bodies/seeds.rs"]
mod seeds;

#[test]
fn no_seed_of_log_entry_breaks_a_rule() {
    seeds::replay("log_entry", log_entry::run);
}
