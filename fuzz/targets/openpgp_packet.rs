//! Fuzz target `openpgp_packet`; what it does is in its body.

#![no_main]

#[path = "../bodies/openpgp_packet.rs"]
mod body;
#[path = "../bodies/choices.rs"]
mod choices;

libfuzzer_sys::fuzz_target!(|data: &[u8]| body::run(data));
