//! obs-sign's protocol spoken to a real `serve`: captured requests, bad ones, idle ones, and who may ask.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    reason = "tests"
)]

#[path = "obs/bad_input.rs"]
mod bad_input;
#[path = "obs/grants.rs"]
mod grants;
#[path = "obs/make.rs"]
mod make;
#[path = "obs/project_keys.rs"]
mod project_keys;
#[path = "obs/replay.rs"]
mod replay;
#[path = "obs/serving.rs"]
mod serving;
#[path = "obs/shadow.rs"]
mod shadow;
#[path = "obs/tls.rs"]
mod tls;
#[path = "obs/trouble.rs"]
mod trouble;

const PROGRAM: &str = env!("CARGO_BIN_EXE_sealwright");
