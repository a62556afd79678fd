//! Fuzz target `key_map`; what it does is in its body.

#![no_main]

#[path = "../bodies/key_map.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|data: &[u8]| body::run(data));
