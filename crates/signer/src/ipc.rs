//! Frames in, frames out: one thread reads, as many as there are processors work, each answers as it finishes.
//!
//! What is held is bounded (`limits::BATCHES_IN_FLIGHT_MAX`, `limits::BATCH_BYTES_IN_FLIGHT_MAX`): when it is full,
//! reading stops, and front feels it. A batch is cut into slices, so that every processor works on it and nothing that
//! has priority waits for more than one slice. Keys are made on a thread of their own: that takes seconds.

mod queue;

use std::collections::VecDeque;
use std::io::{BufReader, Read};
use std::ops::Range;
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use sealwright_proto::convert::batch::{self, Batch, Request, SignedItem, outcomes_to_wire};
use sealwright_proto::convert::group::Priority;
use sealwright_proto::convert::keys::{KeyMaterial, SignerCreate, SignerImport, SignerRenew};
use sealwright_proto::frame;
use sealwright_proto::signer_v1::from_signer::Response;
use sealwright_proto::signer_v1::to_signer::Request as Asked;
use sealwright_proto::signer_v1::{FromSigner, ImportPublicKey, SignBatchResult, ToSigner};
use sealwright_proto::status::{Code, Fault};

use crate::error::Error;
use crate::listen::Stop;
use crate::opened::OpenKey;
use crate::service::Service;
use queue::{Permit, Queue};

/// Microseconds that one worker takes of a batch at a time, about, and at least one item: enough to pay for the taking
/// when an Ed25519 signature takes 20 microseconds, and no more than one RSA signature.
const SLICE_US: u64 = 320;

/// Microseconds for a message that has not been looked at.
const FRESH_US: u64 = 50;

/// Says to front why the service is not open.
pub(crate) fn refuse(socket: UnixStream, error: &Error) {
    let answers = Answers { socket: Mutex::new(socket) };
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
) -> Result<(), Error> {
    let writer = socket.try_clone().map_err(|source| Error::Process { action: "copy a socket", source })?;
    let answers = Answers { socket: Mutex::new(writer) };
    answers.send(0, Response::Ready(service.ready()));
    let (queue, chores) = (Queue::new(), Queue::new());
    let close = || {
        queue.close();
        chores.close();
    };
    std::thread::scope(|scope| {
        let signs = Worker { service, answers: &answers, queue: &queue };
        let administers = Worker { queue: &chores, ..signs };
        let names = (0..workers).map(|number| (format!("signer-{number}"), signs));
        for (name, worker) in names.chain([("signer-keys".to_owned(), administers)]) {
            let started = std::thread::Builder::new().name(name).spawn_scoped(scope, move || worker.run());
            if let Err(source) = started {
                close();
                return Err(Error::Process { action: "start a thread", source });
            }
        }
        let read = read_requests(UntilStopped { socket, stop }, &queue, &chores);
        close();
        match read {
            // Cut in the middle of a frame, by us.
            Err(_) if stop.is_some_and(Stop::is_asked) => Ok(()),
            read => read,
        }
    })
}

/// Threads that sign: one a processor. Asked before the sandbox, which hides the files that say it.
pub(crate) fn workers() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Reads until front closes.
fn read_requests(socket: UntilStopped<'_>, queue: &Queue<Job>, chores: &Queue<Job>) -> Result<(), Error> {
    let mut stream = BufReader::with_capacity(READ_BYTES, socket);
    while let Some((message, bytes)) = frame::read::<ToSigner>(&mut stream).map_err(Error::Connection)? {
        let permit = queue.admit(bytes);
        let (queue, priority) = match &message.request {
            Some(Asked::Sign(batch)) => (queue, batch::priority(batch).unwrap_or(Priority::Batch)),
            // By this front asks whether we are there: not behind a key that is made.
            Some(Asked::BeginImport(_)) | None => (queue, Priority::Interactive),
            Some(Asked::Create(_) | Asked::Import(_) | Asked::Renew(_)) => (chores, Priority::Interactive),
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
    Slice(Arc<OpenBatch>, Range<usize>),
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
    slices_left: AtomicUsize,
    /// Microseconds, of all workers.
    worked_us: AtomicU64,
    /// Given back when the batch is answered.
    _permit: Permit,
}

#[derive(Clone, Copy)]
struct Worker<'a> {
    service: &'a Service,
    answers: &'a Answers,
    queue: &'a Queue<Job>,
}

impl Worker<'_> {
    fn run(self) {
        while let Some(job) = self.queue.pop() {
            match job {
                Job::Fresh(fresh) => self.start(fresh),
                Job::Slice(batch, slice) => self.sign_slice(&batch, slice),
            }
        }
    }

    fn start(self, fresh: Fresh) {
        let Fresh { message, received, permit } = fresh;
        let id = message.id;
        let batch = match message.request {
            Some(Asked::Sign(batch)) => Batch::parse(batch),
            other => {
                let answer = guarded(|| self.administer(other))
                    .unwrap_or_else(|fault| Response::Failure(fault.into()));
                self.answers.send(id, answer);
                drop(permit);
                return;
            }
        };
        match batch {
            Ok(batch) => self.start_batch(id, batch, received, permit),
            Err(fault) => self.answers.send(id, Response::Failure(fault.into())),
        }
    }

    /// Opens the keys and hands out the slices; takes the first itself.
    fn start_batch(self, id: u64, batch: Batch, received: Instant, permit: Permit) {
        let Batch { keys, requests, deadline_ms, priority } = batch;
        let keys: Vec<_> = keys.iter().map(|key| guarded(|| self.service.open_key(key))).collect();
        let mut slices = slices(&keys, &requests);
        let deadline = deadline_ms.and_then(|ms| received.checked_add(Duration::from_millis(u64::from(ms))));
        let batch = Arc::new(OpenBatch {
            id,
            keys,
            deadline,
            outcomes: Mutex::new(vec![None; requests.len()]),
            requests,
            slices_left: AtomicUsize::new(slices.len()),
            worked_us: AtomicU64::new(0),
            _permit: permit,
        });
        let first = slices.pop_front();
        // The rest of this batch goes before the batches of its priority that came later.
        for (slice, us) in slices.into_iter().rev() {
            self.queue.push_first(priority, us, Job::Slice(Arc::clone(&batch), slice));
        }
        first.into_iter().for_each(|(slice, _)| self.sign_slice(&batch, slice));
    }

    fn sign_slice(self, batch: &OpenBatch, slice: Range<usize>) {
        let begun = Instant::now();
        let first = slice.start;
        let requests = batch.requests.iter().skip(first).take(slice.len());
        let signed: Vec<_> = requests.map(|request| self.sign(batch, request)).collect();
        let us = u64::try_from(begun.elapsed().as_micros()).unwrap_or(u64::MAX);
        batch.worked_us.fetch_add(us, Ordering::Relaxed);
        let mut outcomes = batch.outcomes.lock().unwrap_or_else(PoisonError::into_inner);
        for (outcome, signed) in outcomes.iter_mut().skip(first).zip(signed) {
            *outcome = Some(signed);
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

    /// Everything but signing.
    fn administer(self, asked: Option<Asked>) -> Result<Response, Fault> {
        let key = |material: KeyMaterial| Response::Key(material.into_wire());
        match asked {
            Some(Asked::Create(wire)) => self.service.create(SignerCreate::parse(wire)?).map(key),
            Some(Asked::BeginImport(_)) => {
                let hpke_public_key = self.service.import_public_key();
                Ok(Response::ImportKey(ImportPublicKey { hpke_public_key }))
            }
            Some(Asked::Import(wire)) => self.service.import(SignerImport::parse(wire)?).map(key),
            Some(Asked::Renew(wire)) => self.service.renew(&SignerRenew::parse(wire)?).map(key),
            Some(Asked::Sign(_)) | None => {
                Err(Fault::new(Code::MalformedRequest, "a request that this signer does not know"))
            }
        }
    }
}

/// All outcomes; one that is missing (it cannot be) is a failure, never a success.
fn answer_batch(outcomes: Vec<Option<Result<SignedItem, Fault>>>, worked_us: u64) -> Response {
    let missing = || Err(Fault::new(Code::Internal, "the item was not worked on"));
    let outcomes = outcomes.into_iter().map(|outcome| outcome.unwrap_or_else(missing)).collect();
    Response::Sign(SignBatchResult { worked_us, ..outcomes_to_wire(outcomes) })
}

/// Cuts a batch into parts of about [`SLICE_US`], each with its microseconds. At least one; none is empty.
fn slices(keys: &[Result<Arc<OpenKey>, Fault>], requests: &[Request]) -> VecDeque<(Range<usize>, u64)> {
    let mut slices = VecDeque::new();
    let (mut start, mut us) = (0_usize, 0_u64);
    for (index, request) in requests.iter().enumerate() {
        let item_us = match keys.get(request.key) {
            Some(Ok(key)) => key.signing().public().algorithm().nominal_us().into(),
            // Nothing is done for it.
            Some(Err(_)) | None => 1,
        };
        if start < index && us.saturating_add(item_us) > SLICE_US {
            slices.push_back((start..index, us));
            (start, us) = (index, 0);
        }
        us = us.saturating_add(item_us);
    }
    slices.push_back((start..requests.len(), us));
    slices
}

/// A panic in one request is its failure, not the end of the signer and of everybody's requests.
fn guarded<T>(work: impl FnOnce() -> Result<T, Fault>) -> Result<T, Fault> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| {
        Err(Fault::new(Code::Internal, "the signer failed unexpectedly; its log says where"))
    })
}

/// The writing half, one whole frame at a time.
struct Answers {
    socket: Mutex<UnixStream>,
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
        if let Err(error) = std::io::Write::write_all(&mut *socket, &encoded) {
            // Front has said why it went, if there was a reason.
            tracing::debug!(%error, "front did not take an answer");
        }
    }
}
