//! `sealwright serve` from outside: processes that are killed, stopped and told to end under load, reloads, sockets and
//! notices of a service manager, and what front can reach.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::print_stdout,
    reason = "tests"
)]

#[path = "serve/caller.rs"]
mod caller;
#[path = "serve/configuration.rs"]
mod configuration;
#[path = "serve/crowded.rs"]
mod crowded;
#[path = "serve/deaf.rs"]
mod deaf;
#[path = "serve/end.rs"]
mod end;
#[path = "serve/hung.rs"]
mod hung;
#[path = "serve/kill.rs"]
mod kill;
#[path = "serve/load.rs"]
mod load;
#[path = "serve/manager.rs"]
mod manager;
#[path = "sandbox/memory.rs"]
mod memory;
#[path = "serve/reload.rs"]
mod reload;
#[path = "serve/stopped.rs"]
mod stopped;
#[path = "serve/walls.rs"]
mod walls;

const PROGRAM: &str = env!("CARGO_BIN_EXE_sealwright");

/// A plain user, where the tests are run by root.
const NOBODY: u32 = 65_534;

/// How often a test does what it does: a number of its own, or what `cargo xtask soak --serve` wants.
#[expect(clippy::disallowed_methods, reason = "the length of a soak test is set from outside")]
fn times(variable: &str, otherwise: usize) -> usize {
    std::env::var(variable).ok().and_then(|times| times.parse().ok()).unwrap_or(otherwise)
}
