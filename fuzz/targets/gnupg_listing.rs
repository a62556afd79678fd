//! Fuzz target `gnupg_listing`; what it does is in its body.

#![no_main]

#[path = "../bodies/gnupg_listing.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|data: &[u8]| body::run(data));
