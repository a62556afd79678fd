//! Frames in, frames out: one thread reads, as many as there are processors work, each answers as it finishes.
//!
//! What is held is bounded (`limits::BATCHES_IN_FLIGHT_MAX`, `limits::BATCH_BYTES_IN_FLIGHT_MAX`): when it is full,
//! reading stops, and front feels it. A batch is cut into slices, so that every processor works on it and nothing that
//! has priority waits for more than one slice. Keys are made on a thread of their own: that takes seconds. Those for which
//! nobody waits are made on as many threads as there are processors, which run when nothing else of this machine wants to.
//!
//! What waits for a token waits elsewhere: each token has a queue and threads of its own (`Lanes`), so that one that
//! stands still delays nobody else.

mod lanes;
mod queue;

use std::io::{BufReader, ErrorKind, Read};
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::SendFlags;
use sealwright_proto::convert::batch::{self, Batch, Request, SignedItem, outcomes_to_wire};
use sealwright_proto::convert::group::Priority;
use sealwright_proto::convert::keys::{SignerCreate, SignerImport, SignerRenew};
use sealwright_proto::convert::project::MakeProjectKey;
use sealwright_proto::frame;
use sealwright_proto::signer_v1::from_signer::Response;
use sealwright_proto::signer_v1::to_signer::Request as Asked;
use sealwright_proto::signer_v1::{FromSigner, ImportPublicKey, SignBatchResult, ToSigner};
use sealwright_proto::status::{Code, Fault};

use crate::error::Error;
use crate::listen::Stop;
use crate::opened::OpenKey;
use crate::pulse::{LOOK_UNWATCHED, Pulse, Seen};
use crate::service::Service;
use lanes::Lanes;
use queue::{Permit, Queue};

/// Microseconds that one worker takes of a batch at a time, about, and at least one item: enough to pay for the taking
/// when an Ed25519 signature takes 20 microseconds, and no more than one RSA signature.
const SLICE_US: u64 = 320;

/// Microseconds for a message that has not been looked at.
const FRESH_US: u64 = 50;

/// Says to front why the service is not open.
pub(crate) fn refuse(socket: UnixStream, error: &Error) {
    let answers = Answers { socket: Mutex::new(socket), patience: None };
    answers.send(0, Response::Failure(Fault::from(error).into()));
}

/// Says to front that the service is open, and serves until front closes the socket, or a stop is asked.
///
/// # Errors
/// [`Error::Connection`] if the socket fails or front breaks the framing; [`Error::Process`].
pub(crate) fn serve(
    socket: UnixStream,
    service: &Service,
    workers: usize,
    stop: Option<&Stop>,
    pulse: &Pulse,
) -> Result<(), Error> {
    let writer = socket.try_clone().map_err(|source| Error::Process { action: "copy a socket", source })?;
    let answers = Answers { socket: Mutex::new(writer), patience: pulse.patience() };
    answers.send(0, Response::Ready(service.ready()));
    let (queue, chores, background) = (Queue::new(), Queue::new(), Queue::new());
    let lanes = Lanes::new(service.tokens());
    pulse.begin(workers);
    std::thread::scope(|scope| {
        let close = || {
            queue.close();
            chores.close();
            background.close();
            lanes.close();
        };
        // Those that may take long are not watched: who waits for a token, and who makes a key.
        let slow = Worker {
            service,
            answers: &answers,
            queue: &chores,
            is_background: false,
            chores: &chores,
            background: &background,
            lanes: &lanes,
            pulse: None,
        };
        let worker = Worker { queue: &queue, pulse: Some(pulse), ..slow };
        let named = (0..workers).map(|number| (format!("signer-{number}"), worker));
        let named = named.chain([("signer-keys".to_owned(), slow)]);
        let last = Worker { queue: &background, is_background: true, ..slow };
        let of_background = (0..workers).map(|number| (format!("signer-later-{number}"), last));
        let of_lanes = lanes.threads().map(|(name, queue)| (name, Worker { queue, ..slow }));
        for (name, worker) in named.chain(of_background).chain(of_lanes) {
            let started = std::thread::Builder::new().name(name).spawn_scoped(scope, move || worker.run());
            if let Err(source) = started {
                close();
                return Err(Error::Process { action: "start a thread", source });
            }
        }
        let read = read_requests(UntilStopped { socket, stop }, &queue);
        if !stop.is_some_and(Stop::is_asked) {
            // Front has gone: what waits for a token that stands still would hold up the next one.
            lanes.drop_all();
            background.clear();
            service.tokens().nobody_waits();
        }
        close();
        match read {
            // Cut in the middle of a frame, by us.
            Err(_) if stop.is_some_and(Stop::is_asked) => Ok(()),
            read => read,
        }
    })
}

/// Threads that work: one a processor. Asked before the sandbox, which hides the files that say it.
pub(crate) fn workers() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Reads until front closes.
fn read_requests(socket: UntilStopped<'_>, queue: &Queue<Job>) -> Result<(), Error> {
    let mut stream = BufReader::with_capacity(READ_BYTES, socket);
    while let Some((message, bytes)) = frame::read::<ToSigner>(&mut stream).map_err(Error::Connection)? {
        let permit = queue.admit(bytes);
        let priority = match &message.request {
            Some(Asked::Sign(batch)) => batch::priority(batch).unwrap_or(Priority::Batch),
            Some(
                Asked::Create(_)
                | Asked::BeginImport(_)
                | Asked::Import(_)
                | Asked::Renew(_)
                | Asked::MakeProjectKey(_),
            )
            | None => Priority::Interactive,
        };
        let fresh = Fresh { message, received: Instant::now(), permit };
        queue.push_last(priority, FRESH_US, Job::Fresh(fresh));
    }
    Ok(())
}

/// The reading half, which ends when a stop is asked.
struct UntilStopped<'a> {
    socket: UnixStream,
    stop: Option<&'a Stop>,
}

impl Read for UntilStopped<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        if let Some(stop) = self.stop
            && !stop.is_readable_before(&self.socket, None)?
        {
            return Ok(0);
        }
        self.socket.read(buffer)
    }
}

/// Bytes of the read buffer: several frames of one system call.
const READ_BYTES: usize = 64 << 10;

/// Something for a worker.
enum Job {
    /// As it came.
    Fresh(Fresh),
    /// A part of a batch whose keys are open.
    Slice(Arc<OpenBatch>, usize),
    /// A key is made, renewed or imported.
    Administer(u64, Administration, Permit),
}

/// What may take its time.
enum Administration {
    Create(SignerCreate),
    Renew(SignerRenew),
    Import(SignerImport),
    MakeProjectKey(MakeProjectKey),
}

impl Administration {
    const fn may_wait(&self) -> bool {
        match self {
            Self::Create(wanted) => wanted.may_wait,
            Self::Renew(_) | Self::Import(_) | Self::MakeProjectKey(_) => false,
        }
    }
}

struct Fresh {
    message: ToSigner,
    received: Instant,
    permit: Permit,
}

/// A batch in work; the worker that finishes its last item answers.
struct OpenBatch {
    id: u64,
    keys: Vec<Result<Arc<OpenKey>, Fault>>,
    requests: Vec<Request>,
    deadline: Option<Instant>,
    outcomes: Mutex<Vec<Option<Result<SignedItem, Fault>>>>,
    slices: Vec<Slice>,
    slices_left: AtomicUsize,
    /// Microseconds, of all workers.
    worked_us: AtomicU64,
    /// Given back when the batch is answered.
    _permit: Permit,
}

/// Items of a batch that are worked on together.
struct Slice {
    /// Of the token that they wait for.
    lane: Option<usize>,
    items: Vec<usize>,
    /// That they take, about.
    us: u64,
}

#[derive(Clone, Copy)]
struct Worker<'a> {
    service: &'a Service,
    answers: &'a Answers,
    /// Its own: of all workers, or of a token.
    queue: &'a Queue<Job>,
    /// Keys that are made in software.
    chores: &'a Queue<Job>,
    /// Of these, those for which nobody waits.
    background: &'a Queue<Job>,
    lanes: &'a Lanes,
    pulse: Option<&'a Pulse>,
    /// It runs when no other thread wants to.
    is_background: bool,
}

impl Worker<'_> {
    fn run(self) {
        if self.is_background {
            stand_back();
        }
        let mut seen = Seen::default();
        let look = self.pulse.map_or(LOOK_UNWATCHED, Pulse::look);
        let mut come_by = || self.pulse.into_iter().for_each(|pulse| pulse.come_by(&mut seen));
        while let Some(job) = self.queue.pop(look, &mut come_by) {
            match job {
                Job::Fresh(fresh) => self.start(fresh),
                Job::Slice(batch, slice) => self.sign_slice(&batch, slice),
                Job::Administer(id, asked, permit) => {
                    self.answer(id, || self.administer(asked));
                    drop(permit);
                }
            }
        }
    }

    fn answer(self, id: u64, work: impl FnOnce() -> Result<Response, Fault>) {
        let answer = guarded(work).unwrap_or_else(|fault| Response::Failure(fault.into()));
        self.answers.send(id, answer);
    }

    fn start(self, fresh: Fresh) {
        let Fresh { message, received, permit } = fresh;
        let id = message.id;
        match message.request {
            Some(Asked::Sign(batch)) => match Batch::parse(batch) {
                Ok(batch) => self.start_batch(id, batch, received, permit),
                Err(fault) => self.answers.send(id, Response::Failure(fault.into())),
            },
            Some(Asked::Create(wire)) => self.start_administration(id, permit, || {
                let wanted = SignerCreate::parse(wire)?;
                Ok((self.service.lane_of_create(&wanted)?, Administration::Create(wanted)))
            }),
            Some(Asked::Renew(wire)) => self.start_administration(id, permit, || {
                let wanted = SignerRenew::parse(wire)?;
                Ok((self.service.lane_of_renew(&wanted)?, Administration::Renew(wanted)))
            }),
            Some(Asked::BeginImport(_)) => {
                let hpke_public_key = self.service.import_public_key();
                self.answers.send(id, Response::ImportKey(ImportPublicKey { hpke_public_key }));
            }
            Some(Asked::Import(wire)) => self.start_administration(id, permit, || {
                Ok((None, Administration::Import(SignerImport::parse(wire)?)))
            }),
            Some(Asked::MakeProjectKey(wire)) => self.start_administration(id, permit, || {
                Ok((None, Administration::MakeProjectKey(MakeProjectKey::parse(wire)?)))
            }),
            None => {
                let unknown = Fault::new(Code::MalformedRequest, "a request that this signer does not know");
                self.answers.send(id, Response::Failure(unknown.into()));
            }
        }
    }

    /// Where keys are made, or where the token is waited for.
    fn start_administration(
        self,
        id: u64,
        permit: Permit,
        parse: impl FnOnce() -> Result<(Option<usize>, Administration), Fault>,
    ) {
        match guarded(parse) {
            Ok((None, asked)) => {
                let queue = if asked.may_wait() { self.background } else { self.chores };
                queue.push_last(Priority::Interactive, FRESH_US, Job::Administer(id, asked, permit));
            }
            Ok((Some(lane), asked)) => match self.lanes.queue(lane) {
                Ok(queue) => {
                    queue.push_last(Priority::Interactive, FRESH_US, Job::Administer(id, asked, permit));
                }
                Err(fault) => self.answers.send(id, Response::Failure(fault.into())),
            },
            Err(fault) => self.answers.send(id, Response::Failure(fault.into())),
        }
    }

    /// Opens the keys and hands out the slices; takes the first of its own itself.
    fn start_batch(self, id: u64, batch: Batch, received: Instant, permit: Permit) {
        let Batch { keys, requests, deadline_ms, priority } = batch;
        let keys: Vec<_> = keys.iter().map(|key| guarded(|| self.service.open_key(key))).collect();
        let slices = slices(&keys, &requests);
        let deadline = deadline_ms.and_then(|ms| received.checked_add(Duration::from_millis(u64::from(ms))));
        let outcomes = Mutex::new(vec![None; requests.len()]);
        let slices_left = AtomicUsize::new(slices.len());
        let batch = Arc::new(OpenBatch {
            id,
            keys,
            requests,
            deadline,
            outcomes,
            slices,
            slices_left,
            worked_us: AtomicU64::new(0),
            _permit: permit,
        });
        let mut own = None;
        // The rest of this batch goes before the batches of its priority that came later.
        for (number, slice) in batch.slices.iter().enumerate().rev() {
            match slice.lane {
                Some(lane) => match self.lanes.queue(lane) {
                    Ok(queue) => {
                        queue.push_last(priority, slice.us, Job::Slice(Arc::clone(&batch), number));
                    }
                    Err(fault) => self.conclude(&batch, slice, vec![Err(fault); slice.items.len()]),
                },
                None => {
                    if let Some((before, us)) = own.replace((number, slice.us)) {
                        self.queue.push_first(priority, us, Job::Slice(Arc::clone(&batch), before));
                    }
                }
            }
        }
        if let Some((own, us)) = own {
            self.queue.charge(priority, us);
            self.sign_slice(&batch, own);
        }
    }

    fn sign_slice(self, batch: &OpenBatch, number: usize) {
        let Some(slice) = batch.slices.get(number) else { return };
        let missing = || Err(Fault::new(Code::Internal, "an item of a batch is missing"));
        let sign = |item: &usize| {
            batch.requests.get(*item).map_or_else(missing, |request| self.sign(batch, request))
        };
        let begun = Instant::now();
        let signed = slice.items.iter().map(sign).collect();
        let us = u64::try_from(begun.elapsed().as_micros()).unwrap_or(u64::MAX);
        batch.worked_us.fetch_add(us, Ordering::Relaxed);
        self.conclude(batch, slice, signed);
    }

    /// Whoever concludes the last slice answers.
    fn conclude(self, batch: &OpenBatch, slice: &Slice, signed: Vec<Result<SignedItem, Fault>>) {
        let mut outcomes = batch.outcomes.lock().unwrap_or_else(PoisonError::into_inner);
        for (item, signed) in slice.items.iter().zip(signed) {
            if let Some(outcome) = outcomes.get_mut(*item) {
                *outcome = Some(signed);
            }
        }
        if batch.slices_left.fetch_sub(1, Ordering::AcqRel) == 1 {
            let all = std::mem::take(&mut *outcomes);
            drop(outcomes);
            self.answers.send(batch.id, answer_batch(all, batch.worked_us.load(Ordering::Relaxed)));
        }
    }

    fn sign(self, batch: &OpenBatch, request: &Request) -> Result<SignedItem, Fault> {
        if batch.deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            return Err(Fault::new(Code::DeadlineExceeded, "the signer came to it after its deadline"));
        }
        let missing = || Fault::new(Code::MalformedRequest, "an item of a batch points to no key of it");
        let key = batch.keys.get(request.key).ok_or_else(missing)?.as_ref().map_err(Fault::clone)?;
        let signed = guarded(|| self.service.sign(key, request));
        let (key, trace_id) = (key.key_id(), request.trace_id.map(tracing::field::display));
        match &signed {
            Ok(_) => tracing::debug!(%key, trace_id, "signed"),
            Err(fault) => tracing::info!(%key, trace_id, code = %fault.code, "refused"),
        }
        signed
    }

    fn administer(self, asked: Administration) -> Result<Response, Fault> {
        let made = match asked {
            Administration::Create(wanted) => self.service.create(wanted),
            Administration::Renew(wanted) => self.service.renew(&wanted),
            Administration::Import(wanted) => self.service.import(wanted),
            Administration::MakeProjectKey(wanted) => {
                let made = self.service.make_project_key(&wanted)?;
                return Ok(Response::ProjectKey(made.into_wire()));
            }
        };
        made.map(|material| Response::Key(material.into_wire()))
    }
}

/// What the processors do in slices, and what waits for tokens item by item, so that each session of one has something to
/// do.
fn slices(keys: &[Result<Arc<OpenKey>, Fault>], requests: &[Request]) -> Vec<Slice> {
    let mut slices = Vec::new();
    let mut own = Slice { lane: None, items: Vec::new(), us: 0 };
    for (item, request) in requests.iter().enumerate() {
        let key = keys.get(request.key).and_then(|key| key.as_ref().ok());
        // For a key that does not open, nothing is done.
        let us = key.map_or(1, |key| u64::from(key.signing().public().algorithm().nominal_us()));
        if let Some(lane) = key.and_then(|key| key.lane()) {
            slices.push(Slice { lane: Some(lane), items: vec![item], us });
            continue;
        }
        if !own.items.is_empty() && own.us.saturating_add(us) > SLICE_US {
            slices.push(std::mem::replace(&mut own, Slice { lane: None, items: Vec::new(), us: 0 }));
        }
        own.items.push(item);
        own.us = own.us.saturating_add(us);
    }
    if !own.items.is_empty() {
        slices.push(own);
    }
    slices
}

/// All outcomes; one that is missing (it cannot be) is a failure, never a success.
fn answer_batch(outcomes: Vec<Option<Result<SignedItem, Fault>>>, worked_us: u64) -> Response {
    let missing = || Err(Fault::new(Code::Internal, "the item was not worked on"));
    let outcomes = outcomes.into_iter().map(|outcome| outcome.unwrap_or_else(missing)).collect();
    Response::Sign(SignBatchResult { worked_us, ..outcomes_to_wire(outcomes) })
}

/// From here on this thread gets the time that no thread of usual priority wants, and a little more so that it always
/// comes on. Its locks are held for microseconds, so that hardly ever somebody waits for one of them.
fn stand_back() {
    // Of this thread alone, on Linux; setpriority(2), "C library/kernel differences".
    if let Err(error) = rustix::process::setpriority_process(None, NICE_MAX) {
        tracing::warn!(%error, "keys that may wait are made at the usual priority");
    }
}

/// The last in the line of all threads.
const NICE_MAX: i32 = 19;

/// A panic in one request is its failure, not the end of the signer and of everybody's requests.
fn guarded<T>(work: impl FnOnce() -> Result<T, Fault>) -> Result<T, Fault> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| {
        Err(Fault::new(Code::Internal, "the signer failed unexpectedly; its log says where"))
    })
}

/// The writing half, one whole frame at a time.
struct Answers {
    socket: Mutex<UnixStream>,
    /// How long front may take to take one.
    patience: Option<Duration>,
}

impl Answers {
    /// If front is gone, the reader sees it too; there is nobody to tell.
    fn send(&self, id: u64, response: Response) {
        let encoded = frame::encode(&FromSigner { id, response: Some(response) }).or_else(|error| {
            let fault = Fault::new(Code::LimitExceeded, format!("the answer is too large: {error}"));
            frame::encode(&FromSigner { id, response: Some(Response::Failure(fault.into())) })
        });
        let Ok(encoded) = encoded else { return };
        let mut socket = self.socket.lock().unwrap_or_else(PoisonError::into_inner);
        let deadline = self.patience.and_then(|patience| Instant::now().checked_add(patience));
        let written = match deadline {
            Some(deadline) => write_before(deadline, &socket, &encoded),
            None => std::io::Write::write_all(&mut *socket, &encoded),
        };
        match written {
            Ok(()) => (),
            Err(error) if error.kind() == ErrorKind::TimedOut => {
                tracing::warn!("front takes no answers; its connection is closed");
                // What was begun cannot be ended: nothing else can follow it.
                let _ = socket.shutdown(std::net::Shutdown::Both);
            }
            // Front has said why it went, if there was a reason.
            Err(error) => tracing::debug!(%error, "front did not take an answer"),
        }
    }
}

/// A thread must not wait for a front that stands still: it would look as if the signer did.
fn write_before(deadline: Instant, socket: &UnixStream, mut bytes: &[u8]) -> std::io::Result<()> {
    while !bytes.is_empty() {
        match rustix::net::send(socket, bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
            Ok(sent) => bytes = bytes.get(sent..).unwrap_or_default(),
            Err(Errno::INTR) => (),
            Err(Errno::AGAIN) => {
                let left = deadline.saturating_duration_since(Instant::now());
                let timeout = Timespec::try_from(left).ok();
                match poll(&mut [PollFd::new(socket, PollFlags::OUT)], timeout.as_ref()) {
                    Ok(0) => return Err(ErrorKind::TimedOut.into()),
                    Ok(_) | Err(Errno::INTR) => (),
                    Err(error) => return Err(error.into()),
                }
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_front_that_takes_nothing_is_waited_for_until_the_deadline_and_one_that_does_gets_all() {
        let (front, socket) = UnixStream::pair().unwrap();
        let long = vec![7; 4 << 20];
        let soon = Instant::now().checked_add(Duration::from_millis(50)).unwrap();
        let refused = write_before(soon, &socket, &long).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::TimedOut);
        drop((front, socket));
        let (mut front, socket) = UnixStream::pair().unwrap();
        let late = Instant::now().checked_add(Duration::from_secs(3_600)).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| write_before(late, &socket, &long).unwrap());
            let mut taken = vec![0; long.len()];
            front.read_exact(&mut taken).unwrap();
            assert_eq!(taken, long);
        });
    }
}
