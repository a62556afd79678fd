//! Fuzz target `obs_wire`; what it does is in its body.

#![no_main]

#[path = "../bodies/obs_wire.rs"]
mod body;
#[path = "../bodies/choices.rs"]
mod choices;

libfuzzer_sys::fuzz_target!(|data: &[u8]| body::run(data));
