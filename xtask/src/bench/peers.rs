//! The public tools that we are measured against, and the bare operation of the engine that we use.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::measure::{Cost, time};
use crate::error::Error;
use crate::{Result, process};

/// Name of the test key for gpg.
const GPG_NAME: &str = "rsa4096@corpus.invalid";

/// Folder of rpm's database.
const DATABASE: &str = "rpmdb";

/// Homes of gpg and rpm with the test key.
pub(super) struct Peers {
    folder: PathBuf,
}

impl Peers {
    /// New ones below this folder.
    pub(super) fn new(folder: &Path) -> Result<Self> {
        let keys = process::root().join("fixtures/pgp-key");
        let (secret, public) = (keys.join("gen_rsa4096.sec.asc"), keys.join("gen_rsa4096.pub.asc"));
        fresh_folder(&folder.join("gnupg"))?;
        rpm_database(folder, &public)?;
        let peers = Self { folder: folder.to_owned() };
        process::run(
            Command::new("gpg")
                .env("GNUPGHOME", peers.gnupg())
                .args(["--batch", "--quiet", "--import"])
                .arg(&secret),
        )?;
        Ok(peers)
    }

    fn gnupg(&self) -> PathBuf {
        self.folder.join("gnupg")
    }

    /// rpm's database, with the public half of the test key.
    pub(super) fn database(&self) -> PathBuf {
        self.folder.join(DATABASE)
    }

    /// `rpmsign --addsign` with gpg, without paths.
    pub(super) fn rpmsign(&self) -> Command {
        let mut command = Command::new("rpmsign");
        command.env("GNUPGHOME", self.gnupg());
        let name = format!("_gpg_name {GPG_NAME}");
        command.args(["--define", "__gpg /usr/bin/gpg", "--define", &name, "--addsign"]);
        command
    }
}

impl Drop for Peers {
    fn drop(&mut self) {
        // gpg left its agent behind.
        let _ = Command::new("gpgconf").env("GNUPGHOME", self.gnupg()).args(["--kill", "all"]).status();
    }
}

/// A new database of rpm below this folder, with this public key.
pub(super) fn rpm_database(folder: &Path, public: &Path) -> Result<PathBuf> {
    let database = folder.join(DATABASE);
    fresh_folder(&database)?;
    process::run(Command::new("rpmdb").arg("--initdb").arg("--dbpath").arg(&database))?;
    process::run(Command::new("rpmkeys").arg("--dbpath").arg(&database).arg("--import").arg(public))?;
    Ok(database)
}

/// An empty folder for the owner alone.
pub(super) fn fresh_folder(folder: &Path) -> Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder).map_err(Error::file(folder))?;
    }
    process::run(Command::new("install").args(["-d", "-m", "0700"]).arg(folder))
}

/// The private-key operation of aws-lc-rs and nothing else.
pub(super) struct Bare {
    program: PathBuf,
}

/// What so many operations took.
#[derive(Clone, Copy, Debug)]
pub(super) struct Operations {
    /// Wall clock, in seconds.
    pub(super) seconds: f64,
    /// Processor time of the operations, in seconds.
    pub(super) cpu: f64,
}

impl Bare {
    /// Builds the helper.
    pub(super) fn build() -> Result<Self> {
        let arguments =
            ["build", "--release", "--locked", "--package", "sealwright-signer", "--example", "bare"];
        process::run(&mut process::cargo(&arguments))?;
        Ok(Self { program: process::root().join("target/release/examples/bare") })
    }

    /// So many signatures on so many threads; algorithm `rsa4096` or `ed25519`, or new keys: `rsa2048-keys`.
    pub(super) fn run(&self, algorithm: &str, threads: usize, operations: u64) -> Result<Operations> {
        let words = [algorithm.to_owned(), threads.to_string(), operations.to_string()];
        let said = process::output(Command::new(&self.program).args(words))?;
        let value: serde_json::Value =
            serde_json::from_str(&said).map_err(|source| Error::Json { command: "bare", source })?;
        let number = |name: &str| value.get(name).and_then(serde_json::Value::as_f64);
        match (number("seconds"), number("cpu_seconds")) {
            (Some(seconds), Some(cpu)) => Ok(Operations { seconds, cpu }),
            _ => Err(Error::unexpected(format!("the helper said {said}"))),
        }
    }
}

/// Signatures a second of `openssl speed` on one core.
pub(super) fn openssl_speed(algorithm: &str) -> Result<f64> {
    let said = process::output(Command::new("openssl").args(["speed", "-seconds", "1", "-mr", algorithm]))?;
    // "+F2:3:4096:SIGNATURES:VERIFICATIONS", "+F6:..." for Ed25519: a second, or by old releases the time of one.
    let line = said.lines().find(|line| line.starts_with("+F2:") || line.starts_with("+F6:"));
    let value = line.and_then(|line| line.split(':').rev().nth(1)).and_then(|word| word.parse::<f64>().ok());
    match value.filter(|value| *value > 0.0) {
        Some(value) => Ok(if value < 1.0 { 1.0 / value } else { value }),
        None => Err(Error::unexpected(format!("openssl speed: {said}"))),
    }
}

/// `openssl dgst` of files, one process for each, all at once; algorithm `sha256` or `md5`.
pub(super) fn openssl_digest(algorithm: &str, paths: &[&Path]) -> Result<Cost> {
    let mut command = Command::new("sh");
    command.args([
        "-c",
        "algorithm=$1; shift; printf '%s\\0' \"$@\" | xargs -0 -n 1 -P 64 openssl dgst \"-$algorithm\"",
        "sh",
    ]);
    time(command.arg(algorithm).args(paths))
}
