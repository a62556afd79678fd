//! Fuzz target `cleartext`; what it does is in its body.

#![no_main]

#[path = "../bodies/cleartext.rs"]
mod body;
#[path = "../bodies/choices.rs"]
mod choices;
#[path = "../bodies/made_up.rs"]
mod made_up;

libfuzzer_sys::fuzz_target!(|data: &[u8]| body::run(data));
