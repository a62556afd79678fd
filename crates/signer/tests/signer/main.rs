//! The whole signer, spoken to as front does: frames over a socket pair. What it signs is verified with rPGP and, by
//! hand or in the tests of `testkit`, with gpg and rpm.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::panic,
    clippy::wildcard_enum_match_arm,
    reason = "tests"
)]

mod bare;
mod harness;
mod import;
mod keys;
mod project;
mod protocol;
mod sign;
