//! The signer's end of the keeper's socket: starts the keeper, takes new workers from it, has it kill one.

use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};

use prost::Message as _;
use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType};
use sealwright_proto::token_v1::{Keep, Kept, Kill, NewWorker, ToKeeper, Variable, to_keeper};

use super::PACKET_BYTES_MAX;
use super::config::Settings;
use super::keeper::KEEPER_COMMAND;
use super::packet::{self, Packet};
use crate::error::Error;

/// The keeper, from the signer's side.
pub(crate) struct Keeper {
    socket: OwnedFd,
}

/// A worker that was started.
pub(super) struct Fresh {
    /// Index of its token.
    pub(super) token: usize,
    pub(super) worker: u64,
    pub(super) socket: UnixStream,
}

impl Keeper {
    /// Starts the keeper. Before the sandbox, which allows no other program, and before a key is read: what is started
    /// here has nothing to inherit.
    ///
    /// # Errors
    /// [`Error::Process`].
    pub(super) fn start(tokens: &[Settings]) -> Result<Self, Error> {
        let failed = |source| Error::Process { action: "start the keeper of the tokens", source };
        let pair =
            rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None);
        let (ours, theirs) = pair.map_err(|errno| failed(errno.into()))?;
        let mut command = Command::new("/proc/self/exe");
        command.arg(KEEPER_COMMAND).stdin(Stdio::from(theirs)).stdout(Stdio::null());
        // What a service manager said to this process is not for modules.
        for of_manager in
            ["NOTIFY_SOCKET", "WATCHDOG_PID", "WATCHDOG_USEC", "CREDENTIALS_DIRECTORY", "LISTEN_FDS"]
        {
            command.env_remove(of_manager);
        }
        // It ends when our end is closed, with us; nobody waits for it before.
        drop(command.spawn().map_err(failed)?);
        let keeper = Self { socket: ours };
        let kept = |token: &Settings| Kept {
            name: token.name.as_str().to_owned(),
            environment: token
                .environment
                .iter()
                .map(|(name, value)| Variable { name: name.clone(), value: value.clone() })
                .collect(),
        };
        keeper
            .send(to_keeper::Request::Keep(Keep { tokens: tokens.iter().map(kept).collect() }))
            .map_err(failed)?;
        Ok(keeper)
    }

    /// For the sandbox: the one socket from which descriptors are taken.
    pub(crate) fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// The worker is ended, and another started. If the keeper has gone, nothing happens.
    pub(super) fn kill(&self, token: usize, worker: u64) {
        let token = u32::try_from(token).unwrap_or(u32::MAX);
        if let Err(error) = self.send(to_keeper::Request::Kill(Kill { token, worker })) {
            tracing::error!(%error, "the keeper of the tokens does not hear");
        }
    }

    /// One that is at the other end already.
    pub(super) const fn of(socket: OwnedFd) -> Self {
        Self { socket }
    }

    pub(super) fn send(&self, request: to_keeper::Request) -> std::io::Result<()> {
        let packet = ToKeeper { request: Some(request) }.encode_to_vec();
        if packet.len() > PACKET_BYTES_MAX {
            return Err(std::io::Error::other("the names and environments of the tokens are too long"));
        }
        rustix::net::send(&self.socket, &packet, SendFlags::NOSIGNAL)?;
        Ok(())
    }

    /// The next worker; `None` when the keeper has gone.
    ///
    /// # Errors
    /// What the system says, and a message that is none.
    pub(super) fn next(&self) -> std::io::Result<Option<Fresh>> {
        let mut room = [0; 64];
        let Some(Packet { bytes, descriptor }) = packet::receive(&self.socket, &mut room)? else {
            return Ok(None);
        };
        let message = bytes.and_then(|bytes| NewWorker::decode(bytes).ok());
        let (Some(message), Some(descriptor)) = (message, descriptor) else {
            return Err(std::io::Error::other("the keeper sent no worker"));
        };
        let token = usize::try_from(message.token).unwrap_or(usize::MAX);
        Ok(Some(Fresh { token, worker: message.worker, socket: descriptor.into() }))
    }
}
