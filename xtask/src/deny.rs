//! `cargo deny check`: licences, advisories, sources and banned edges of dependencies (deny.toml), of the workspace and of the
//! fuzz targets, which are outside of it.

use std::process::Command;

use crate::Result;
use crate::process;

/// Runs cargo-deny, installing it first where that was asked for.
pub(crate) fn run(install: bool) -> Result<()> {
    if !process::cargo(&["deny", "--version"]).output().is_ok_and(|output| output.status.success()) {
        if !install {
            return Err(crate::error::Error::unexpected(
                "cargo-deny is not installed: run `cargo xtask deny --install`, or `cargo install --locked cargo-deny`",
            ));
        }
        process::run(&mut process::cargo(&["install", "--locked", "cargo-deny"]))?;
    }
    process::run(Command::new("cargo").args(["deny", "--locked", "check"]).current_dir(process::root()))?;
    // Few of the crates that may use a banned one are there.
    process::run(
        Command::new("cargo")
            .args(["deny", "--locked", "--manifest-path", "fuzz/Cargo.toml", "--config", "deny.toml"])
            .args(["check", "--allow", "unused-wrapper", "--allow", "license-not-encountered"])
            .current_dir(process::root()),
    )
}
