//! Independent tools, each with folders of its own: nothing of the machine's keys or databases is read or written.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

/// Runs a tool to its end.
///
/// # Panics
/// It is not installed.
#[must_use]
pub fn run(command: &mut Command) -> Output {
    let program = command.get_program().to_string_lossy().into_owned();
    command.env("LC_ALL", "C").output().unwrap_or_else(|error| {
        panic!("this test needs `{program}` ({error}): run `cargo xtask ci --install`, which installs it")
    })
}

/// stdout and stderr of a tool, together.
#[must_use]
pub fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// Runs a tool that must succeed, and returns what it printed on stdout.
///
/// # Panics
/// It fails.
pub fn succeed(command: &mut Command) -> Vec<u8> {
    let output = run(command);
    assert!(output.status.success(), "{command:?}: {}", text(&output));
    output.stdout
}

/// rpmkeys with a key database of its own.
pub struct RpmKeys {
    database: TempDir,
}

/// What `rpmkeys -K -v` says about a package.
#[derive(Debug)]
pub struct RpmVerdict {
    /// Exit status 0.
    pub accepted: bool,
    /// Lines after the name of the file, without blanks around them.
    pub lines: Vec<String>,
}

impl RpmVerdict {
    /// Lines about signatures.
    #[must_use]
    pub fn signatures(&self) -> Vec<&str> {
        self.lines
            .iter()
            .map(String::as_str)
            .filter(|line| line.contains("ignature") || line.contains("key ID"))
            .collect()
    }

    /// Accepted, with at least one signature, each of them and each digest OK.
    #[must_use]
    pub fn is_signed_and_all_ok(&self) -> bool {
        self.accepted && !self.signatures().is_empty() && self.all_ok()
    }

    /// Accepted, and each line OK.
    #[must_use]
    pub fn all_ok(&self) -> bool {
        self.accepted && self.lines.iter().all(|line| line.ends_with(": OK"))
    }
}

impl RpmKeys {
    /// With these certificates, and no other, in its database.
    ///
    /// # Panics
    /// rpm refuses one of them.
    #[must_use]
    pub fn new(certificates: &[PathBuf]) -> Self {
        let keys = Self { database: tempfile::tempdir().expect("a temporary folder") };
        succeed(Command::new("rpmdb").arg("--initdb").arg("--dbpath").arg(keys.database.path()));
        for certificate in certificates {
            succeed(keys.command().arg("--import").arg(certificate));
        }
        keys
    }

    /// What it says about a package.
    #[must_use]
    pub fn check(&self, package: &Path) -> RpmVerdict {
        let output = run(self.command().args(["-K", "-v"]).arg(package));
        let lines = text(&output).lines().skip(1).map(|line| line.trim().to_owned()).collect();
        RpmVerdict { accepted: output.status.success(), lines }
    }

    fn command(&self) -> Command {
        let mut command = Command::new("rpmkeys");
        command.arg("--dbpath").arg(self.database.path());
        command
    }
}

/// gpg with a home of its own.
pub struct Gpg {
    home: TempDir,
}

impl Gpg {
    /// With an empty home.
    ///
    /// # Panics
    /// The folder cannot be made.
    #[must_use]
    pub fn new() -> Self {
        let home = tempfile::tempdir().expect("a temporary folder");
        fs::set_permissions(home.path(), fs::Permissions::from_mode(0o700)).expect("a folder of ours");
        Self { home }
    }

    /// A gpg command in batch mode, in this home.
    #[must_use]
    pub fn command(&self) -> Command {
        let mut command = Command::new("gpg");
        command.env("GNUPGHOME", self.home.path()).args([
            "--batch",
            "--no-tty",
            "--quiet",
            "--no-auto-check-trustdb",
        ]);
        command
    }

    /// Imports a file; gpg must accept it.
    pub fn import(&self, file: &Path) {
        succeed(self.command().arg("--import").arg(file));
    }

    /// `--list-keys` in gpg's form for machines.
    #[must_use]
    pub fn list(&self) -> String {
        let output = succeed(self.command().args(["--list-keys", "--with-colons", "--with-fingerprint"]));
        String::from_utf8_lossy(&output).into_owned()
    }

    /// The packets in a file, for a person.
    #[must_use]
    pub fn packets(&self, file: &Path) -> String {
        text(&run(self.command().arg("--list-packets").arg(file)))
    }
}

impl Default for Gpg {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Gpg {
    fn drop(&mut self) {
        // An agent that gpg started lives on until its socket is gone; ask it to leave at once.
        let _ = Command::new("gpgconf").env("GNUPGHOME", self.home.path()).args(["--kill", "all"]).output();
    }
}

/// gpgv on a detached signature with these certificates (armored or binary).
#[must_use]
pub fn gpgv(certificates: &[PathBuf], signature: &Path, data: &Path) -> Output {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut command = Command::new("gpgv");
    command.env("GNUPGHOME", folder.path());
    for (number, certificate) in certificates.iter().enumerate() {
        let ring = folder.path().join(format!("{number}.gpg"));
        let bytes = fs::read(certificate).expect("a certificate");
        if bytes.starts_with(b"-----") {
            succeed(
                Command::new("gpg")
                    .env("GNUPGHOME", folder.path())
                    .args(["--batch", "--dearmor", "--output"])
                    .arg(&ring)
                    .arg(certificate),
            );
        } else {
            fs::write(&ring, bytes).expect("a temporary file");
        }
        command.arg("--keyring").arg(ring);
    }
    run(command.arg(signature).arg(data))
}

/// sqv (Sequoia) on a detached signature.
#[must_use]
pub fn sqv(certificate: &Path, signature: &Path, data: &Path) -> Output {
    run(Command::new("sqv").arg("--keyring").arg(certificate).arg(signature).arg(data))
}
