//! Every seed of this crate's fuzz targets goes through the same body as in the fuzzer: `docs/howto/fuzz.md`.
#![allow(
    clippy::arithmetic_side_effects,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "tests"
)]

#[path = "../../../fuzz/bodies/ipc.rs"]
mod ipc;
#[path = "../../../fuzz/bodies/message.rs"]
mod message;
#[path = "../../../fuzz/bodies/seeds.rs"]
mod seeds;
#[path = "../../../fuzz/bodies/wire.rs"]
mod wire;

#[test]
fn no_seed_of_ipc_breaks_a_rule() {
    seeds::replay("ipc", ipc::run);
}

#[test]
fn no_seed_of_wire_breaks_a_rule() {
    seeds::replay("wire", wire::run);
}
