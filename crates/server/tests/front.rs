//! Front as a client sees it, over gRPC, with the real store and a signer of the test's own at the other end of
//! the socket: it speaks the frames and makes real Ed25519 signatures with a key of the fixtures.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::expect_used,
    clippy::panic,
    reason = "tests"
)]

#[path = "front/bench.rs"]
mod bench;
#[path = "front/keys.rs"]
mod keys;
#[path = "front/peer.rs"]
mod peer;
#[path = "front/salts.rs"]
mod salts;
#[path = "front/shares.rs"]
mod shares;
#[path = "front/sign.rs"]
mod sign;
#[path = "front/start.rs"]
mod start;
#[path = "front/trouble.rs"]
mod trouble;
