//! The order of effects, asserted over the real program: client, front, store and signer, as the kernel sees them.
//! docs/REQUEST.md tells the order; `LAW` in the test kit (`effects.rs`) is the same as data.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::disallowed_methods,
    reason = "tests"
)]

#[path = "order/bench.rs"]
mod bench;
#[path = "order/faults.rs"]
mod faults;
#[path = "order/law.rs"]
mod law;
#[path = "order/probes.rs"]
mod probes;
#[path = "order/spot.rs"]
mod spot;
