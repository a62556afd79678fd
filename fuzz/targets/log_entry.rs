//! Fuzz target `log_entry`; what it does is in its body.

#![no_main]

#[path = "../bodies/log_entry.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|data: &[u8]| body::run(data));
