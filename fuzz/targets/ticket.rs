//! Fuzz target `ticket`; what it does is in its body.

#![no_main]

#[path = "../bodies/ticket.rs"]
mod body;
#[path = "../bodies/choices.rs"]
mod choices;

libfuzzer_sys::fuzz_target!(|data: &[u8]| body::run(data));
