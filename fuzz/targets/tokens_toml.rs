//! Fuzz target `tokens_toml`; what it does is in its body.

#![no_main]

#[path = "../bodies/tokens_toml.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|data: &[u8]| body::run(data));
