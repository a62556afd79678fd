//! Fuzz target `splice_round_trip`; what it does is in its body.

#![no_main]

#[path = "../bodies/splice_round_trip.rs"]
mod body;
#[path = "../bodies/choices.rs"]
mod choices;
#[path = "../bodies/made_up.rs"]
mod made_up;
#[path = "../bodies/rpm_layout.rs"]
mod rpm_layout;

libfuzzer_sys::fuzz_target!(|data: &[u8]| body::run(data));
