//! Programs that tests and chores start are among those that `ci --install` installs: on a machine that has them by
//! chance, nobody would notice otherwise.

use std::path::{Path, PathBuf};

use super::{Findings, has_extension, text};
use crate::Result;
use crate::install::NEEDED;

/// Everywhere: Debian's essential packages (bash, coreutils, util-linux and what they need), apt, and what builds this.
const EVERYWHERE: &[&str] = &[
    "apt-get",
    "bash",
    "cargo",
    "cat",
    "chown",
    "cp",
    "id",
    "install",
    "kill",
    "mkfifo",
    "prlimit",
    "setpriv",
    "sh",
    "sha256sum",
    "stat",
    "sync",
    "timeout",
    "true",
    "unshare",
];

/// How a program is started.
const START: &str = "Command::new(\"";

/// Looks at sources, those of tests too. A program that is named by its path, or by a variable, is not looked for.
pub(super) fn check(files: &[PathBuf]) -> Result<Findings> {
    let mut findings = Findings::new();
    for path in files.iter().filter(|path| has_extension(path, &["rs"])) {
        findings.extend(unknown(path, &text(path)?));
    }
    Ok(findings)
}

fn unknown(path: &Path, text: &str) -> Findings {
    let started = (1_usize..).zip(text.lines()).flat_map(|(number, line)| {
        let names = line.split(START).skip(1).filter_map(|rest| rest.split('"').next());
        names.map(move |name| (number, name))
    });
    let is_known =
        |name: &str| EVERYWHERE.contains(&name) || NEEDED.iter().any(|(program, _)| *program == name);
    started
        .filter(|(_, name)| !name.starts_with('/') && !is_known(name))
        .map(|(number, name)| {
            format!("{}:{number}: nothing installs `{name}` (xtask/src/install.rs)", path.display())
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_nothing_installs_is_found() {
        let text = |name: &str| format!("//! Why.\nlet it = {START}{name}\").arg(1);\n");
        for known in ["mkfs.xfs", "cp", "/proc/self/exe"] {
            assert!(unknown(Path::new("a.rs"), &text(known)).is_empty(), "{known}");
        }
        let found = unknown(Path::new("a.rs"), &text("mkfs.zfs"));
        assert_eq!(found, ["a.rs:2: nothing installs `mkfs.zfs` (xtask/src/install.rs)"]);
    }
}
