//! Fuzz target `token_place`; what it does is in its body.

#![no_main]

#[path = "../bodies/token_place.rs"]
mod body;
#[path = "../bodies/choices.rs"]
mod choices;

libfuzzer_sys::fuzz_target!(|data: &[u8]| body::run(data));
