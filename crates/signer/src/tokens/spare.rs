//! Two keepers: one keeps the workers, the spare one holds the same socket to the signer and waits. Each says a byte a second to
//! the other. When the keeper dies, its workers die with it (`worker.rs`), and the spare one takes its place and starts a spare
//! one of its own; when the spare one dies, the keeper starts another. One that stands still is killed by the other. The
//! signer sees new workers on the socket that it has, and nothing else.

use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use rustix::process::{Pid, PidfdFlags, Signal};
use sealwright_proto::token_v1::{StandBy, ToKeeper, to_keeper};

use super::keeper::{KEEPER_COMMAND, Post};
use super::packet;
use crate::error::Error;

/// Between two signs of life.
const TICK: Duration = Duration::from_secs(1);
/// So many of our own without one of the other: it stands still. Counted, not measured: where both were frozen, neither has
/// counted on.
const SILENT_MAX: u32 = 10;
/// From the start of one spare one to that of the next, at least; doubled each time, to [`PAUSE_MAX`].
const PAUSE_FIRST: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(10);
/// One that lived as long was no failure to start.
const GOOD_LIFE: Duration = Duration::from_secs(60);

/// The keeper's spare one.
pub(super) struct Spare {
    stand_by: StandBy,
    living: Option<(Child, Other)>,
    pause: Duration,
    not_before: Instant,
}

/// The other of the two.
struct Other {
    line: OwnedFd,
    /// Stays its own, whatever becomes of the process id.
    handle: OwnedFd,
    silent: u32,
    next_tick: Instant,
}

impl Spare {
    /// Not started yet.
    pub(super) fn new(post: &Post) -> Self {
        let generation = post.generation.wrapping_add(1);
        Self {
            stand_by: StandBy { keep: Some(post.keep.clone()), generation },
            living: None,
            pause: PAUSE_FIRST,
            not_before: Instant::now(),
        }
    }

    /// Looks after the spare one for about [`TICK`], or until the signer says something; whether it does.
    ///
    /// # Errors
    /// Those of poll(2).
    pub(super) fn until_readable(&mut self, signer: &OwnedFd) -> std::io::Result<bool> {
        if self.living.is_none() && Instant::now() >= self.not_before {
            self.start(signer.as_fd());
        }
        let mut wait = TICK.min(self.not_before.saturating_duration_since(Instant::now()));
        if let Some((_, other)) = &mut self.living {
            wait = other.tick();
        }
        let mut polled = vec![PollFd::new(signer, PollFlags::IN)];
        polled.extend(self.living.iter().map(|(_, other)| PollFd::new(&other.line, PollFlags::IN)));
        if !is_any_ready(&mut polled, wait)? {
            return Ok(false);
        }
        let mut ready = polled.iter().map(|polled| !polled.revents().is_empty());
        let (from_signer, from_spare) = (ready.next() == Some(true), ready.next() == Some(true));
        drop(polled);
        if from_spare && self.living.as_mut().is_some_and(|(_, other)| !other.is_heard()) {
            tracing::warn!("the spare keeper of the tokens has ended; another is started");
            self.end();
        }
        Ok(from_signer)
    }

    fn start(&mut self, signer: BorrowedFd<'_>) {
        if self.not_before.elapsed() >= GOOD_LIFE {
            self.pause = PAUSE_FIRST;
        }
        self.not_before = Instant::now().checked_add(self.pause).unwrap_or(self.not_before);
        self.pause = self.pause.saturating_mul(2).min(PAUSE_MAX);
        match started(&self.stand_by, signer) {
            Ok(living) => self.living = Some(living),
            Err(error) => tracing::error!(%error, "no spare keeper of the tokens was started"),
        }
    }

    fn end(&mut self) {
        if let Some((mut child, _)) = self.living.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Waits until the keeper has gone. `None`: the signer has gone, too.
///
/// # Errors
/// [`Error::Process`].
pub(super) fn stand_by(line: &OwnedFd, post: Post) -> Result<Option<Post>, Error> {
    let failed = |source| Error::Process { action: "stand by as the spare keeper of the tokens", source };
    let keeper = rustix::net::sockopt::socket_peercred(line).map_err(|errno| failed(errno.into()))?.pid;
    let line = line.try_clone().map_err(failed)?;
    match Other::new(line, keeper) {
        Ok(keeper) => until_gone(keeper).map_err(failed)?,
        Err(error) if error.raw_os_error() == Some(Errno::SRCH.raw_os_error()) => (),
        Err(error) => return Err(failed(error)),
    }
    if has_gone(&post.signer).map_err(failed)? {
        return Ok(None);
    }
    tracing::warn!("the keeper of the tokens has ended; the spare one takes its place");
    Ok(Some(post))
}

fn until_gone(mut keeper: Other) -> std::io::Result<()> {
    loop {
        let wait = keeper.tick();
        let ready = is_any_ready(&mut [PollFd::new(&keeper.line, PollFlags::IN)], wait)?;
        if ready && !keeper.is_heard() {
            // Its end of the line has gone, so it is dying at least; two of them there must not be.
            keeper.kill();
            return Ok(());
        }
    }
}

impl Other {
    fn new(line: OwnedFd, pid: Pid) -> std::io::Result<Self> {
        let handle = rustix::process::pidfd_open(pid, PidfdFlags::empty())?;
        Ok(Self { line, handle, silent: 0, next_tick: Instant::now() })
    }

    /// Says that we live, when it is time; how long it is until the next time.
    fn tick(&mut self) -> Duration {
        let now = Instant::now();
        if now >= self.next_tick {
            self.next_tick = now.checked_add(TICK).unwrap_or(now);
            // Who does not read is not waited for.
            let _ = rustix::net::send(&self.line, &[1], SendFlags::NOSIGNAL | SendFlags::DONTWAIT);
            self.silent = self.silent.saturating_add(1);
            if self.silent > SILENT_MAX {
                tracing::warn!("one of the two keepers of the tokens stands still; it is ended");
                self.kill();
            }
        }
        self.next_tick.saturating_duration_since(now)
    }

    /// Takes its sign of life; false if it has gone.
    fn is_heard(&mut self) -> bool {
        match rustix::net::recv(&self.line, &mut [0; 8][..], RecvFlags::DONTWAIT) {
            Ok((_, 0)) => false,
            Ok(_) => {
                self.silent = 0;
                true
            }
            Err(errno) => matches!(errno, Errno::AGAIN | Errno::INTR),
        }
    }

    fn kill(&self) {
        let _ = rustix::process::pidfd_send_signal(&self.handle, Signal::KILL);
    }
}

fn started(stand_by: &StandBy, signer: BorrowedFd<'_>) -> std::io::Result<(Child, Other)> {
    let (ours, theirs) =
        rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
    // The running file itself, even if another was installed over it meanwhile.
    let mut command = Command::new("/proc/self/exe");
    command.arg(KEEPER_COMMAND).stdin(Stdio::from(theirs)).stdout(Stdio::null());
    let mut child = command.spawn()?;
    // Our copy of its end goes with the command.
    drop(command);
    let told = Other::new(ours, Pid::from_child(&child)).and_then(|other| {
        let request = to_keeper::Request::StandBy(stand_by.clone());
        packet::send(&other.line, &ToKeeper { request: Some(request) }, signer)?;
        Ok(other)
    });
    match told {
        Ok(other) => Ok((child, other)),
        Err(error) => {
            let _ = child.kill();
            let _ = child.wait();
            Err(error)
        }
    }
}

/// A signal that is handled is no news.
fn is_any_ready(polled: &mut [PollFd<'_>], wait: Duration) -> std::io::Result<bool> {
    let wait = Timespec::try_from(wait).map_err(std::io::Error::other)?;
    match poll(polled, Some(&wait)) {
        Err(Errno::INTR) => Ok(false),
        ready => Ok(ready? > 0),
    }
}

fn has_gone(signer: &OwnedFd) -> std::io::Result<bool> {
    let mut polled = [PollFd::new(signer, PollFlags::IN)];
    is_any_ready(&mut polled, Duration::ZERO)?;
    Ok(polled.iter().any(|polled| polled.revents().contains(PollFlags::HUP)))
}
