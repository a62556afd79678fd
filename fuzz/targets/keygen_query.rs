//! Fuzz target `keygen_query`; what it does is in its body.

#![no_main]

#[path = "../bodies/keygen_query.rs"]
mod body;
#[path = "../bodies/choices.rs"]
mod choices;

libfuzzer_sys::fuzz_target!(|data: &[u8]| body::run(data));
