//! copr-keygen's HTTP API of a real server: what its own tests and its code say about it, asked over HTTP; what it lets
//! in and is not let in here; many at once; ends in the middle.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    reason = "tests"
)]

#[path = "copr_keygen/access.rs"]
mod access;
#[path = "copr_keygen/crowd.rs"]
mod crowd;
#[path = "copr_keygen/ends.rs"]
mod ends;
#[path = "copr_keygen/facts.rs"]
mod facts;
#[path = "copr_keygen/site.rs"]
mod site;

const PROGRAM: &str = env!("CARGO_BIN_EXE_sealwright");
