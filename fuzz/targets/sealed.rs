//! Fuzz target `sealed`; what it does is in its body.
//!
//! The signer catches panics of the library that unlocks imported keys, and answers them; so a panic must not end the
//! process here either. One that is not caught there shows as the answer `internal`, which the body refuses.

#![no_main]

#[path = "../bodies/sealed.rs"]
mod body;
#[path = "../bodies/choices.rs"]
mod choices;

libfuzzer_sys::fuzz_target!(
    init: drop(std::panic::take_hook()),
    |data: &[u8]| body::run(data)
);
