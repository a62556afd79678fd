//! The keeper: a small process without a secret that the signer starts before it shuts itself in, since afterwards it can
//! start nothing. It keeps one worker running for each token, hands the signer one end of each new worker's socket, and
//! kills a worker when the signer says that it does not answer. It ends with the signer. Beside it runs a spare one, which
//! takes its place when it dies (`spare.rs`).

use std::collections::HashMap;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use prost::Message as _;
use rustix::process::{Pid, PidfdFlags, Signal};
use sealwright_proto::token_v1::{Keep, Kept, NewWorker, StandBy, ToKeeper, to_keeper};

use super::PACKET_BYTES_MAX;
use super::packet::{self, Packet};
use super::spare::{self, Spare};
use crate::error::Error;
use crate::process;

/// The command by which the program starts the keeper, its socket as standard input.
pub const KEEPER_COMMAND: &str = "token-keeper";
/// The command by which the keeper starts a worker, its socket as standard input.
pub const WORKER_COMMAND: &str = "token-worker";

/// Pause before a worker that ended is started again; doubled each time, to [`PAUSE_MAX`].
const PAUSE_FIRST: Duration = Duration::from_millis(50);
/// The longest pause: so soon a token is noticed that was plugged in again.
const PAUSE_MAX: Duration = Duration::from_secs(2);
/// A worker that lived as long was no failure to start.
const GOOD_LIFE: Duration = Duration::from_secs(10);
/// How long workers may take to log out when the signer has gone; then they are killed.
const END_MAX: Duration = Duration::from_secs(2);

/// What a keeper keeps, and for whom.
pub(super) struct Post {
    /// Its end of the signer's socket.
    pub(super) signer: OwnedFd,
    pub(super) keep: Keep,
    /// Keepers before this one.
    pub(super) generation: u32,
}

/// Keeps the workers until the signer closes the socket; the spare one does so when the keeper has died. The socket is that
/// of the signer, or of the keeper beside which this is the spare one.
///
/// # Errors
/// [`Error::Process`].
pub fn token_keeper(socket: OwnedFd) -> Result<(), Error> {
    process::harden_helper()?;
    let failed = |source| Error::Process { action: "hear the signer", source };
    match receive(&socket).map_err(failed)? {
        Some((to_keeper::Request::Keep(keep), None)) => {
            keep_for(Post { signer: socket, keep, generation: 0 })
        }
        Some((to_keeper::Request::StandBy(StandBy { keep: Some(keep), generation }), Some(signer))) => {
            let post = Post { signer, keep, generation };
            spare::stand_by(&socket, post)?.map_or(Ok(()), keep_for)
        }
        Some(_) | None => Ok(()),
    }
}

fn keep_for(post: Post) -> Result<(), Error> {
    let mut spare = Spare::new(&post);
    let shared = Arc::new(Shared {
        signer: post.signer,
        state: Mutex::default(),
        over: Condvar::new(),
        numbers: AtomicU64::new(u64::from(post.generation) << 32),
    });
    let mut threads = Vec::new();
    for (token, kept) in post.keep.tokens.into_iter().enumerate() {
        let shared = Arc::clone(&shared);
        let index = u32::try_from(token).unwrap_or(u32::MAX);
        let started =
            std::thread::Builder::new().name(kept.name.clone()).spawn(move || shared.keep(index, &kept));
        threads.push(started.map_err(|source| Error::Process { action: "start a thread", source })?);
    }
    let failed = |source| Error::Process { action: "hear the signer", source };
    loop {
        if !spare.until_readable(&shared.signer).map_err(failed)? {
            continue;
        }
        match receive(&shared.signer).map_err(failed)? {
            Some((to_keeper::Request::Kill(kill), _)) => shared.kill(kill.worker),
            Some((to_keeper::Request::Keep(_) | to_keeper::Request::StandBy(_), _)) | None => break,
        }
    }
    shared.end();
    for thread in threads {
        let _ = thread.join();
    }
    Ok(())
}

struct Shared {
    signer: OwnedFd,
    state: Mutex<State>,
    /// Woken at the end.
    over: Condvar,
    numbers: AtomicU64,
}

#[derive(Default)]
struct State {
    /// Worker number to a handle that stays its own, whatever becomes of the process id.
    living: HashMap<u64, OwnedFd>,
    over: bool,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One worker after the other.
    fn keep(&self, token: u32, kept: &Kept) {
        let mut pause = PAUSE_FIRST;
        while !self.state().over {
            let started = Instant::now();
            match self.start(token, kept) {
                Ok((number, child)) => self.wait(number, child),
                Err(error) => tracing::error!(backend = kept.name, %error, "no worker was started"),
            }
            pause = if started.elapsed() >= GOOD_LIFE { PAUSE_FIRST } else { pause };
            // Waits; woken at the end.
            drop(self.over.wait_timeout_while(self.state(), pause, |state| !state.over));
            pause = pause.saturating_mul(2).min(PAUSE_MAX);
        }
    }

    fn start(&self, token: u32, kept: &Kept) -> std::io::Result<(u64, Child)> {
        let (ours, theirs) = UnixStream::pair()?;
        // The running file itself, even if another was installed over it meanwhile.
        let mut command = Command::new("/proc/self/exe");
        command
            .arg(WORKER_COMMAND)
            .arg(&kept.name)
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::null());
        command.envs(kept.environment.iter().map(|variable| (&variable.name, &variable.value)));
        let child = command.spawn()?;
        // Its copy of the worker's end goes with the command.
        drop(command);
        let number = self.numbers.fetch_add(1, Ordering::Relaxed).saturating_add(1);
        let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        let pid = pid.ok_or_else(|| std::io::Error::other("a process without a number"))?;
        let handle = rustix::process::pidfd_open(pid, PidfdFlags::empty())?;
        self.state().living.insert(number, handle);
        if let Err(error) = packet::send(&self.signer, &NewWorker { token, worker: number }, ours.as_fd()) {
            // The signer has gone; its socket says so to us, too.
            tracing::debug!(%error, "the signer did not take a worker");
        }
        Ok((number, child))
    }

    fn wait(&self, number: u64, mut child: Child) {
        let status = child.wait();
        self.state().living.remove(&number);
        if !self.state().over {
            match status {
                // It has said why, or its signer has gone.
                Ok(status) if status.success() => tracing::debug!(worker = number, "a worker has ended"),
                Ok(status) => {
                    tracing::warn!(worker = number, %status, "the worker of a token died; another is started")
                }
                Err(error) => tracing::error!(worker = number, %error, "a worker is lost sight of"),
            }
        }
    }

    fn kill(&self, number: u64) {
        if let Some(handle) = self.state().living.get(&number) {
            let _ = rustix::process::pidfd_send_signal(handle, Signal::KILL);
        }
    }

    /// Their sockets are closed: they leave by themselves, or are made to.
    fn end(&self) {
        self.state().over = true;
        self.over.notify_all();
        let until = Instant::now().checked_add(END_MAX);
        loop {
            let state = self.state();
            if state.living.is_empty() {
                return;
            }
            if until.is_none_or(|until| Instant::now() >= until) {
                for handle in state.living.values() {
                    let _ = rustix::process::pidfd_send_signal(handle, Signal::KILL);
                }
                return;
            }
            drop(state);
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// The next request, and the descriptor with it; `None` when the other end has gone, or says what we do not know.
pub(super) fn receive(socket: &OwnedFd) -> std::io::Result<Option<(to_keeper::Request, Option<OwnedFd>)>> {
    // The spare one gets what the keeper got, and a number.
    let mut room = vec![0; PACKET_BYTES_MAX.saturating_add(64)];
    let Some(Packet { bytes, descriptor }) = packet::receive(socket, &mut room)? else { return Ok(None) };
    let request = bytes.and_then(|bytes| ToKeeper::decode(bytes).ok()).and_then(|message| message.request);
    Ok(request.map(|request| (request, descriptor)))
}
