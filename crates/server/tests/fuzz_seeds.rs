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
#[path = "../../../fuzz/bodies/keygen_query.rs"]
mod keygen_query;
#[path = "../../../fuzz/bodies/seeds.rs"]
mod seeds;
#[path = "../../../fuzz/bodies/ticket.rs"]
mod ticket;

#[test]
fn no_seed_of_ticket_breaks_a_rule() {
    seeds::replay("ticket", ticket::run);
}

#[test]
fn no_seed_of_keygen_query_breaks_a_rule() {
    seeds::replay("keygen_query", keygen_query::run);
}
