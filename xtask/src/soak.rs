//! Tests at full length: of crashes while files are written (as root, so that it runs on XFS too), and of a server whose
//! processes are killed, stopped and told to end, beside peers that say or read nothing.

use crate::{Result, process};

/// Kills a signing run so often at random moments, for each way of writing and each file system.
pub(crate) fn run(kills: u32) -> Result<()> {
    let mut tests = process::cargo(&[
        "test",
        "--locked",
        "--package",
        "sealwright",
        "--test",
        "crash",
        "--",
        "--nocapture",
    ]);
    process::run(tests.env("SEALWRIGHT_CRASH_KILLS", kills.to_string()))
}

/// How long the signer stands still.
const STOPPED_S: u32 = 30;

/// Rounds of an honest client beside peers that are not: some minutes.
const ROUNDS: u32 = 60;

/// Kills signer, front and supervisor of a server under load so often each, and ends it in order five times as often;
/// stops its signer; and is a bad client to it.
pub(crate) fn serve(kills: u32) -> Result<()> {
    let mut tests = process::cargo(&[
        "test",
        "--locked",
        "--package",
        "sealwright",
        "--test",
        "serve",
        "--",
        "--nocapture",
        "kill::",
        "end::",
        "stopped::",
        "deaf::",
    ]);
    tests.env("SEALWRIGHT_SERVE_STOPPED_S", STOPPED_S.to_string());
    tests.env("SEALWRIGHT_SERVE_ROUNDS", ROUNDS.to_string());
    tests.env("SEALWRIGHT_SERVE_KILLS", kills.to_string());
    process::run(tests.env("SEALWRIGHT_SERVE_ENDS", kills.saturating_mul(5).to_string()))
}

/// Idle connections of one client, of whom an honest client of the same address notices nothing.
const CROWD: u32 = 5_000;

/// The crowds of the server's tests at their full number.
pub(crate) fn crowd() -> Result<()> {
    let mut tests = process::cargo(&[
        "test",
        "--locked",
        "--package",
        "sealwright-server",
        "--test",
        "network",
        "--",
        "--nocapture",
        "crowd::",
    ]);
    process::run(tests.env("SEALWRIGHT_CROWD", CROWD.to_string()))
}
