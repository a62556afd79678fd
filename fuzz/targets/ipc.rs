//! Fuzz target `ipc`; what it does is in its body.

#![no_main]

#[path = "../bodies/ipc.rs"]
mod body;
#[path = "../bodies/message.rs"]
mod message;

libfuzzer_sys::fuzz_target!(|data: &[u8]| body::run(data));
