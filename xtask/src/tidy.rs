//! Rules that lints cannot see. Each check returns what it found, one line each; nothing is changed.
//!
//! `edges`: who may depend on whom, read from the table in docs/ARCHITECTURE.md. `sources`: shape of source
//! files. `fixtures`: fixtures against their list, and each file format against its page. `links`: files that
//! documents name exist. `names`: so do the tests and functions. `programs`: what tests start is installed for them.

mod edges;
mod fixtures;
mod links;
mod names;
mod programs;
mod sources;

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::Error;
use crate::{Result, process};

/// What a check found, one line each; empty is good.
type Findings = Vec<String>;

/// Runs every check and prints what each found.
pub(crate) fn run() -> Result<()> {
    let files = tracked()?;
    let mut findings = edges::check()?;
    findings.extend(sources::check(&files)?);
    findings.extend(fixtures::check(&files)?);
    findings.extend(links::check(&files)?);
    findings.extend(names::check(&files)?);
    findings.extend(programs::check(&files)?);
    for finding in &findings {
        println!("tidy: {finding}");
    }
    if findings.is_empty() {
        Ok(())
    } else {
        Err(Error::Findings { count: findings.len(), what: "findings" })
    }
}

/// Files of the repository (tracked, or new and not ignored) that are there, relative to its root.
fn tracked() -> Result<Vec<PathBuf>> {
    let root = process::root();
    let mut git = Command::new("git");
    git.args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]).current_dir(&root);
    let mut files: Vec<PathBuf> = process::output(&mut git)?
        .split('\0')
        .filter(|name| !name.is_empty())
        .map(PathBuf::from)
        .filter(|path| root.join(path).is_file())
        .collect();
    files.sort();
    files.dedup();
    Ok(files)
}

/// Whether the name ends in one of these extensions.
fn has_extension(path: &Path, extensions: &[&str]) -> bool {
    path.extension().and_then(std::ffi::OsStr::to_str).is_some_and(|ext| extensions.contains(&ext))
}

/// The text of a tracked file.
fn text(path: &Path) -> Result<String> {
    let full = process::root().join(path);
    std::fs::read_to_string(&full).map_err(Error::file(&full))
}
