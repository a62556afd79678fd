//! Requests of the signer, worked on by one thread for each session. Never are more sessions open than allowed: a session
//! belongs to a thread, is opened when the thread has its first request, and is closed before another is opened in its place.

use std::collections::VecDeque;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use cryptoki::session::Session;
use sealwright_proto::frame;
use sealwright_proto::token_v1::from_worker::Response;
use sealwright_proto::token_v1::to_worker::Request;
use sealwright_proto::token_v1::{Failed, FromWorker, Started, ToWorker, WorkerFailure};

use super::module::{Module, Trouble};
use crate::error::Error;

/// Requests that wait, at most; the signer has fewer in flight.
const WAITING_MAX: usize = 4096;
/// Characters of a failure that are sent.
const TEXT_CHARS_MAX: usize = 1024;
/// Failures of unknown cause in a row after which the module is given up.
const FAILURES_MAX: u32 = 2;

/// The writing half, one whole frame at a time.
pub(super) struct Answers(Mutex<UnixStream>);

impl Answers {
    pub(super) const fn new(socket: UnixStream) -> Self {
        Self(Mutex::new(socket))
    }

    pub(super) fn started(&self, started: Started) {
        self.send(0, Response::Started(started));
    }

    pub(super) fn failure(&self, id: u64, trouble: &Trouble) {
        let kind = trouble.kind.into();
        // The signer takes no long frame of a worker, and shows less.
        let message = trouble.message.chars().take(TEXT_CHARS_MAX).collect();
        self.send(id, Response::Failure(WorkerFailure { kind, message }));
    }

    /// If the signer has gone, the reader sees it, too.
    fn send(&self, id: u64, response: Response) {
        let mut socket = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = frame::write(&mut *socket, &FromWorker { id, response: Some(response) });
    }
}

/// See the module.
pub(super) struct Pool<'a> {
    module: &'a Module,
    answers: &'a Answers,
    queue: Mutex<Queue>,
    changed: Condvar,
    failures: AtomicU32,
    /// The token or the module is given up: the process ends.
    over: AtomicBool,
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<(u64, Request)>,
    closed: bool,
}

impl<'a> Pool<'a> {
    pub(super) fn new(module: &'a Module, answers: &'a Answers) -> Self {
        Self {
            module,
            answers,
            queue: Mutex::default(),
            changed: Condvar::new(),
            failures: AtomicU32::new(0),
            over: AtomicBool::new(false),
        }
    }

    /// Until the signer closes, or the token fails for good.
    ///
    /// # Errors
    /// [`Error::Process`], [`Error::Connection`].
    pub(super) fn serve(&self, first: Session, sessions: u32, signer: &mut UnixStream) -> Result<(), Error> {
        let end = signer.try_clone().map_err(|source| Error::Process { action: "copy a socket", source })?;
        std::thread::scope(|scope| {
            let mut session = Some(first);
            for number in 0..sessions.max(1) {
                let (session, end) = (session.take(), &end);
                let started = std::thread::Builder::new()
                    .name(format!("session-{number}"))
                    .spawn_scoped(scope, move || self.work(session, end));
                if let Err(source) = started {
                    self.close();
                    return Err(Error::Process { action: "start a thread", source });
                }
            }
            let read = self.read(signer);
            self.close();
            if self.over.load(Ordering::Acquire) { Ok(()) } else { read }
        })
    }

    fn read(&self, signer: &mut UnixStream) -> Result<(), Error> {
        while let Some((message, _)) = frame::read::<ToWorker>(signer).map_err(Error::Connection)? {
            let Some(request) = message.request else { continue };
            let mut queue = self.queue();
            if queue.waiting.len() >= WAITING_MAX {
                drop(queue);
                self.answers.failure(message.id, &Trouble::gone("too many requests wait for the token"));
                continue;
            }
            queue.waiting.push_back((message.id, request));
            self.changed.notify_one();
        }
        Ok(())
    }

    /// One thread.
    fn work(&self, mut session: Option<Session>, end: &UnixStream) {
        while let Some((id, request)) = self.next() {
            match self.module.answer(&mut session, &request) {
                Ok(response) => {
                    self.failures.store(0, Ordering::Release);
                    self.answers.send(id, response);
                }
                // As many sessions as the token allows are open elsewhere: their threads do it.
                Err(trouble) if trouble.no_session && self.module.open_sessions() > 0 => {
                    self.queue().waiting.push_front((id, request));
                    self.changed.notify_one();
                    return;
                }
                Err(trouble) => {
                    self.answers.failure(id, &trouble);
                    if self.is_the_end(&trouble) {
                        self.over.store(true, Ordering::Release);
                        // Ends the reading, and with it the process.
                        let _ = end.shutdown(std::net::Shutdown::Read);
                        self.close();
                        return;
                    }
                }
            }
        }
    }

    fn is_the_end(&self, trouble: &Trouble) -> bool {
        if trouble.unclear {
            return self.failures.fetch_add(1, Ordering::AcqRel).saturating_add(1) >= FAILURES_MAX;
        }
        trouble.kind == Failed::Gone
    }

    fn next(&self) -> Option<(u64, Request)> {
        let mut queue = self.queue();
        loop {
            if queue.closed {
                return None;
            }
            if let Some(request) = queue.waiting.pop_front() {
                return Some(request);
            }
            queue = self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Nobody waits for what was not begun: the signer has gone, or says so to those who wait when our socket ends.
    fn close(&self) {
        self.queue().closed = true;
        self.changed.notify_all();
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
