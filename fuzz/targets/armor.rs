//! Fuzz target `armor`; what it does is in its body.

#![no_main]

#[path = "../bodies/armor.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|data: &[u8]| body::run(data));
