//! Tests at full length: of crashes while files are written (as root, so that it runs on XFS too), of campaigns that are
//! killed, and of a server whose processes are killed and told to end.

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

/// Kills signer, front and supervisor of a server under load so often each, and ends it in order five times as often.
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
    ]);
    tests.env("SEALWRIGHT_SERVE_KILLS", kills.to_string());
    process::run(tests.env("SEALWRIGHT_SERVE_ENDS", kills.saturating_mul(5).to_string()))
}

/// Packages of a campaign: 130 MB, and once more for a second tree.
const CAMPAIGN_PACKAGES: u32 = 20_000;

/// Kills campaigns over many packages ten times each, then checks every package and the log.
pub(crate) fn campaign() -> Result<()> {
    let mut tests = process::cargo(&[
        "test",
        "--locked",
        "--package",
        "sealwright",
        "--test",
        "resign",
        "--",
        "--nocapture",
        "--test-threads",
        "1",
        "kill::killed",
    ]);
    process::run(tests.env("SEALWRIGHT_CAMPAIGN_PACKAGES", CAMPAIGN_PACKAGES.to_string()))
}
