//! Every seed of this crate's fuzz targets goes through the same body as in the fuzzer: `docs/howto/fuzz.md`.
#![allow(
    clippy::arithmetic_side_effects,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "tests"
)]

#[path = "../../../fuzz/bodies/campaign_journal.rs"]
mod campaign_journal;
#[path = "../../../fuzz/bodies/choices.rs"]
mod choices;
#[path = "../../../fuzz/bodies/gnupg_listing.rs"]
mod gnupg_listing;
#[path = "../../../fuzz/bodies/key_map.rs"]
mod key_map;
#[path = "../../../fuzz/bodies/seeds.rs"]
mod seeds;
#[path = "../../../fuzz/bodies/undo.rs"]
mod undo;

#[test]
fn no_seed_of_undo_breaks_a_rule() {
    seeds::replay("undo", undo::run);
}

#[test]
fn no_seed_of_campaign_journal_breaks_a_rule() {
    seeds::replay("campaign_journal", campaign_journal::run);
}

#[test]
fn no_seed_of_key_map_breaks_a_rule() {
    seeds::replay("key_map", key_map::run);
}

#[test]
fn no_seed_of_gnupg_listing_breaks_a_rule() {
    seeds::replay("gnupg_listing", gnupg_listing::run);
}
