//! Starting the two processes: this very program, with an environment and descriptors that are chosen, in process groups
//! of their own, as the users that are named, and bound to our life.

use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt as _;
use std::process::Stdio;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};
use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe::Receiver;
use tokio::process::{Child, Command};

use super::config::Config;
use crate::config as environment;
use crate::log::Format;
use crate::users::User;

/// Bytes of signs of life that are read at once; one has ten, and they say nothing but themselves.
const HEARTBEAT_BYTES_MAX: usize = 1 << 10;

/// Which of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Front,
    Signer,
}

impl core::fmt::Display for Kind {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::Front => "front",
            Self::Signer => "signer",
        })
    }
}

/// The two users of a supervisor of root.
#[derive(Clone, Copy, Debug)]
pub(super) struct Users {
    pub(super) front: User,
    pub(super) signer: User,
}

/// A process that was started.
pub(super) struct Running {
    kind: Kind,
    child: Child,
    started: Instant,
    /// Where the signer says that it works.
    heartbeat: Option<Receiver>,
}

impl Running {
    /// # Errors
    /// What the system says.
    pub(super) fn start_front(
        config: &Config,
        users: Option<&Users>,
        channel: OwnedFd,
    ) -> std::io::Result<Self> {
        let mut command = command(config, users.map(|users| &users.front));
        command.args(["front", "--supervised"]).stdin(channel);
        // Beside the store it can write nowhere.
        command.env("SQLITE_TMPDIR", &config.store);
        Self::start(Kind::Front, command)
    }

    /// # Errors
    /// What the system says.
    pub(super) fn start_signer(
        config: &Config,
        users: Option<&Users>,
        socket: OwnedFd,
    ) -> std::io::Result<Self> {
        let mut command = command(config, users.map(|users| &users.signer));
        command.arg("signer").arg("--root").arg(&config.signer.root).stdin(socket);
        // It never waits for us, nor we for it.
        let (heartbeat, theirs) = std::io::pipe()?;
        rustix::io::ioctl_fionbio(&theirs, true)?;
        command.stdout(theirs).args(["--watched", &config.signer.silence_s.to_string()]);
        if config.signer.require_sandbox || environment::require_sandbox() {
            command.arg("--require-sandbox");
        }
        if let Some(users) = users {
            command.args(["--front-uid", &users.front.uid.to_string()]);
        }
        let heartbeat = Receiver::from_owned_fd(heartbeat.into())?;
        Ok(Self { heartbeat: Some(heartbeat), ..Self::start(Kind::Signer, command)? })
    }

    fn start(kind: Kind, mut command: std::process::Command) -> std::io::Result<Self> {
        command.args(["--parent", &std::process::id().to_string()]);
        let child = Command::from(command).kill_on_drop(true).spawn()?;
        tracing::info!(child = %kind, pid = child.id(), "started");
        Ok(Self { kind, child, started: Instant::now(), heartbeat: None })
    }

    /// Waits for its end.
    pub(super) async fn ended(&mut self) -> std::io::Result<std::process::ExitStatus> {
        self.child.wait().await
    }

    /// Waits for its end (`Some`), or a sign that it works (`None`).
    pub(super) async fn news(&mut self) -> Option<std::io::Result<std::process::ExitStatus>> {
        tokio::select! {
            biased;
            ended = self.child.wait() => Some(ended),
            () = beat(&mut self.heartbeat) => None,
        }
    }

    /// How long it has lived.
    pub(super) fn lived(&self) -> Duration {
        self.started.elapsed()
    }

    /// Sends a signal, unless it has ended.
    pub(super) fn signal(&self, signal: Signal) {
        let pid = self.child.id().and_then(|pid| Pid::from_raw(pid.cast_signed()));
        if let Some(Err(error)) = pid.map(|pid| rustix::process::kill_process(pid, signal)) {
            tracing::warn!(child = %self.kind, %error, "a signal was not sent");
        }
    }
}

/// Waits for a sign of life; for ever, where none will come any more.
async fn beat(heartbeat: &mut Option<Receiver>) {
    if let Some(receiver) = heartbeat {
        if let Ok(1..) = receiver.read(&mut [0; HEARTBEAT_BYTES_MAX]).await {
            return;
        }
        *heartbeat = None;
    }
    std::future::pending().await
}

fn command(config: &Config, user: Option<&User>) -> std::process::Command {
    // The running file itself, even if another was installed over it meanwhile.
    let mut command = std::process::Command::new("/proc/self/exe");
    let format = match config.log.format {
        Format::Json => "json",
        Format::Text => "text",
    };
    command
        .env_clear()
        .env("SEALWRIGHT_LOG", &config.log.filter)
        .env("SEALWRIGHT_LOG_FORMAT", format)
        .envs(environment::signer_environment())
        .current_dir("/")
        .process_group(0)
        .stdout(Stdio::null());
    if let Some(user) = user {
        // As root this gives up all other groups, too.
        command.gid(user.gid).uid(user.uid);
    }
    command
}
