//! Every seed of this crate's fuzz targets goes through the same body as in the fuzzer: `docs/howto/fuzz.md`.
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
#[path = "../../../fuzz/bodies/sealed.rs"]
mod sealed;
#[path = "../../../fuzz/bodies/seeds.rs"]
mod seeds;
#[path = "../../../fuzz/bodies/token_ipc.rs"]
mod token_ipc;
#[path = "../../../fuzz/bodies/token_place.rs"]
mod token_place;
#[path = "../../../fuzz/bodies/tokens_toml.rs"]
mod tokens_toml;

#[test]
fn no_seed_of_sealed_breaks_a_rule() {
    seeds::replay("sealed", sealed::run);
}

#[test]
fn no_seed_of_token_ipc_breaks_a_rule() {
    seeds::replay("token_ipc", token_ipc::run);
}

#[test]
fn no_seed_of_token_place_breaks_a_rule() {
    seeds::replay("token_place", token_place::run);
}

#[test]
fn no_seed_of_tokens_toml_breaks_a_rule() {
    seeds::replay("tokens_toml", tokens_toml::run);
}
