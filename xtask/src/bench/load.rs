//! The load generator (an example of the crate client: this crate links nothing of the product) and what it says.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use serde::Deserialize;

use super::server::Server;
use crate::error::Error;
use crate::{Result, process};

/// The built helper.
pub(super) struct Load {
    program: PathBuf,
}

/// How signatures are asked for.
#[derive(Clone, Copy)]
pub(super) struct Shape {
    pub(super) key: &'static str,
    /// Of one group.
    pub(super) items: u64,
    /// Groups of one connection, answers outstanding.
    pub(super) in_flight: u64,
    /// Of one connection, in all.
    pub(super) groups: u64,
    pub(super) connections: u64,
    pub(super) priority: &'static str,
    /// Between an answer and the next question.
    pub(super) pause_ms: u64,
}

impl Shape {
    /// A person who signs one thing after the other.
    pub(super) const LONE: Self = Self {
        key: "rsa4096",
        items: 1,
        in_flight: 1,
        groups: 400,
        connections: 1,
        priority: "interactive",
        pause_ms: 20,
    };
}

/// What came of it.
#[derive(Debug, Deserialize)]
pub(super) struct Signed {
    pub(super) signatures: u64,
    pub(super) failures: u64,
    /// The first.
    pub(super) failure: String,
    /// Wall clock.
    pub(super) seconds: f64,
    /// Processor time of the client.
    pub(super) cpu_seconds: f64,
    /// From question to answer, of groups.
    pub(super) p50_us: u64,
    pub(super) p99_us: u64,
}

/// What came of a crowd.
#[derive(Debug, Deserialize)]
pub(super) struct Crowd {
    pub(super) connections: u64,
    pub(super) errors: u64,
    pub(super) seconds: f64,
    pub(super) cpu_seconds: f64,
}

/// A helper that runs on after it has said its line; it is ended when this is dropped.
pub(super) struct Running(Child);

impl Running {
    /// Its process.
    pub(super) fn id(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[derive(Deserialize)]
struct Port {
    port: u16,
}

impl Load {
    /// Builds it.
    pub(super) fn build() -> Result<Self> {
        let arguments =
            ["build", "--release", "--locked", "--package", "sealwright-client", "--example", "load"];
        process::run(&mut process::cargo(&arguments))?;
        Ok(Self { program: process::root().join("target/release/examples/load") })
    }

    /// Makes Ed25519 keys `PREFIX-0` to the number before `count`.
    pub(super) fn make_keys(&self, server: &Server, prefix: &str, count: u64) -> Result<()> {
        let mut command = Command::new(&self.program);
        command.arg("keys").arg(server.credentials()).arg(server.port().to_string());
        process::output(command.arg(prefix).arg(count.to_string())).map(|_| ())
    }

    /// Asks for signatures; one that is not made is an error.
    pub(super) fn sign(&self, server: &Server, shape: Shape) -> Result<Signed> {
        let said = process::output(&mut self.command(server, shape))?;
        parse(&said)
    }

    /// The same; of what was not made, the number and the first reason come back.
    pub(super) fn sign_or_fail(&self, server: &Server, shape: Shape) -> Result<Signed> {
        parse_line(&process::output(&mut self.command(server, shape))?)
    }

    /// The same beside other work.
    pub(super) fn start_signing(&self, server: &Server, shape: Shape) -> Result<Running> {
        let mut command = self.command(server, shape);
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn();
        child.map(Running).map_err(|source| process::start(&command, source))
    }

    fn command(&self, server: &Server, shape: Shape) -> Command {
        let numbers =
            [shape.items, shape.in_flight, shape.groups, shape.connections].map(|it| it.to_string());
        let mut command = Command::new(&self.program);
        command.arg("sign").arg(server.credentials()).args([server.port().to_string().as_str(), shape.key]);
        command.args(numbers).args([shape.priority, &shape.pause_ms.to_string()]);
        command
    }

    /// So many connections at once, which stay until the value that comes back is dropped.
    pub(super) fn crowd(
        &self,
        credentials: &Path,
        port: u16,
        key: &str,
        count: u64,
    ) -> Result<(Crowd, Running)> {
        let mut command = Command::new(&self.program);
        command.arg("crowd").arg(credentials).args([&port.to_string(), key, &count.to_string()]);
        let (said, running) = first_line(&mut command)?;
        Ok((parse_line(&said)?, running))
    }

    /// The bare server, with certificates of this folder; and its port.
    pub(super) fn echo(&self, config: &Path) -> Result<(u16, Running)> {
        let (said, running) = first_line(Command::new(&self.program).arg("echo").arg(config))?;
        Ok((parse_line::<Port>(&said)?.port, running))
    }
}

fn parse(said: &str) -> Result<Signed> {
    let signed: Signed = parse_line(said)?;
    if signed.failures > 0 {
        let what = format!("{} signatures were not made: {}", signed.failures, signed.failure);
        return Err(Error::unexpected(what));
    }
    Ok(signed)
}

fn parse_line<T: for<'a> Deserialize<'a>>(said: &str) -> Result<T> {
    serde_json::from_str(said).map_err(|source| Error::Json { command: "load", source })
}

/// Its standard input stays open as long as it runs.
fn first_line(command: &mut Command) -> Result<(String, Running)> {
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().map_err(|source| process::start(command, source))?;
    let stdout: Option<ChildStdout> = child.stdout.take();
    let running = Running(child);
    let mut line = String::new();
    if let Some(stdout) = stdout {
        BufReader::new(stdout).read_line(&mut line).map_err(|source| process::start(command, source))?;
    }
    Ok((line, running))
}
