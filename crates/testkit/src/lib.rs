//! What end-to-end tests need: the fixtures, the real program with a fresh home, and independent tools (rpm, gpg,
//! gpgv, sqv, and pysequoia for OpenPGP version 6) that judge what it made. Only tests link this crate; it links no crate of ours, so that nothing it
//! says comes from the code under test.
//!
//! Everything here panics when something is missing: that is how a test fails. A tool that is not installed fails
//! the test with a text that says how to install it; no test is skipped.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    reason = "this crate is linked into tests alone: a panic is a failed test"
)]

pub mod effects;
pub mod fixtures;
pub mod pysequoia;
pub mod rpm;
pub mod sealwright;
pub mod server;
pub mod softhsm;
pub mod tools;
pub mod trace;
