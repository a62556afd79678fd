//! Every seed of this crate's fuzz target goes through the same body as in the fuzzer: `docs/howto/fuzz.md`.
#![allow(
    clippy::arithmetic_side_effects,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "tests"
)]

#[path = "../../../fuzz/bodies/choices.rs"]
mod choices;
#[path = "../../../fuzz/bodies/obs_wire.rs"]
mod obs_wire;
#[path = "../../../fuzz/bodies/seeds.rs"]
mod seeds;

#[test]
fn no_seed_of_obs_wire_breaks_a_rule() {
    seeds::replay("obs_wire", obs_wire::run);
}
