//! The crash test at full length: as root, so that it runs on XFS too.

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
