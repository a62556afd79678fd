//! Fuzz target `openpgp_certificate`; what it does is in its body.

#![no_main]

#[path = "../bodies/openpgp_certificate.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|data: &[u8]| body::run(data));
