//! Front over the network: real sockets on loopback, real TLS, real certificates, the real store, and a signer of the
//! test's own at the other end of its socket (`front/peer.rs`).

#![allow(
    dead_code,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::expect_used,
    clippy::panic,
    reason = "tests"
)]

#[path = "network/bench.rs"]
mod bench;
#[path = "network/certificates.rs"]
mod certificates;
#[path = "network/connections.rs"]
mod connections;
#[path = "network/crowd.rs"]
mod crowd;
#[path = "network/drain.rs"]
mod drain;
#[path = "network/flood.rs"]
mod flood;
#[path = "network/gone.rs"]
mod gone;
#[path = "network/handshake.rs"]
mod handshake;
#[path = "network/health.rs"]
mod health;
#[path = "network/identity.rs"]
mod identity;
#[path = "front/peer.rs"]
mod peer;
#[path = "network/refused.rs"]
mod refused;
#[path = "network/slow.rs"]
mod slow;
#[path = "network/typed.rs"]
mod typed;
