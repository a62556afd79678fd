//! Frames in, frames out: one thread reads, as many as there are processors work, each answers as it finishes.
//!
//! What is held is bounded (`limits::BATCHES_IN_FLIGHT_MAX`, `limits::BATCH_BYTES_IN_FLIGHT_MAX`): when it is full,
//! reading stops, and front feels it. A large batch is cut into slices so that every processor works on it.

mod queue;

use std::io::{BufReader, ErrorKind, Read};
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::SendFlags;
use sealwright_proto::convert::batch::{Batch, Request, SignedItem, outcomes_to_wire};
use sealwright_proto::convert::keys::{KeyMaterial, SignerCreate, SignerImport, SignerRenew};
use sealwright_proto::frame;
use sealwright_proto::signer_v1::from_signer::Response;
use sealwright_proto::signer_v1::to_signer::Request as Asked;
use sealwright_proto::signer_v1::{FromSigner, ImportPublicKey, ToSigner};
use sealwright_proto::status::{Code, Fault};

use crate::error::Error;
use crate::listen::Stop;
use crate::opened::OpenKey;
use crate::pulse::{Pulse, Seen};
use crate::service::Service;
use queue::{Permit, Queue};

/// Items that one worker takes of a batch at a time: few enough to share RSA work, enough to pay for the taking when
/// an Ed25519 signature takes 10 microseconds.
const SLICE_ITEMS: usize = 16;

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
    let queue = Queue::new();
    pulse.begin(workers);
    std::thread::scope(|scope| {
        let worker = Worker { service, answers: &answers, queue: &queue, pulse };
        for number in 0..workers {
            let started = std::thread::Builder::new()
                .name(format!("signer-{number}"))
                .spawn_scoped(scope, move || worker.run());
            if let Err(source) = started {
                queue.close();
                return Err(Error::Process { action: "start a thread", source });
            }
        }
        let read = read_requests(UntilStopped { socket, stop }, &queue);
        queue.close();
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
        queue.push_last(Job::Fresh(Fresh { message, received: Instant::now(), permit }));
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
    /// Given back when the batch is answered.
    _permit: Permit,
}

#[derive(Clone, Copy)]
struct Worker<'a> {
    service: &'a Service,
    answers: &'a Answers,
    queue: &'a Queue<Job>,
    pulse: &'a Pulse,
}

impl Worker<'_> {
    fn run(self) {
        let mut seen = Seen::default();
        while let Some(job) = self.queue.pop(self.pulse.look(), || self.pulse.come_by(&mut seen)) {
            match job {
                Job::Fresh(fresh) => self.start(fresh),
                Job::Slice(batch, first) => self.sign_slice(&batch, first),
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
        let Batch { keys, requests, deadline_ms } = batch;
        let keys = keys.iter().map(|key| guarded(|| self.service.open_key(key))).collect();
        let slices = requests.len().div_ceil(SLICE_ITEMS);
        let deadline = deadline_ms.and_then(|ms| received.checked_add(Duration::from_millis(u64::from(ms))));
        let outcomes = Mutex::new(vec![None; requests.len()]);
        let slices_left = AtomicUsize::new(slices);
        let batch =
            Arc::new(OpenBatch { id, keys, requests, deadline, outcomes, slices_left, _permit: permit });
        // The rest of this batch goes before the batches that came later.
        for slice in (1..slices).rev() {
            self.queue.push_first(Job::Slice(Arc::clone(&batch), slice));
        }
        self.sign_slice(&batch, 0);
    }

    fn sign_slice(self, batch: &OpenBatch, slice: usize) {
        let first = slice.saturating_mul(SLICE_ITEMS);
        let requests = batch.requests.iter().skip(first).take(SLICE_ITEMS);
        let signed: Vec<_> = requests.map(|request| self.sign(batch, request)).collect();
        let mut outcomes = batch.outcomes.lock().unwrap_or_else(PoisonError::into_inner);
        for (outcome, signed) in outcomes.iter_mut().skip(first).zip(signed) {
            *outcome = Some(signed);
        }
        if batch.slices_left.fetch_sub(1, Ordering::AcqRel) == 1 {
            let all = std::mem::take(&mut *outcomes);
            drop(outcomes);
            self.answers.send(batch.id, answer_batch(all));
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
fn answer_batch(outcomes: Vec<Option<Result<SignedItem, Fault>>>) -> Response {
    let missing = || Err(Fault::new(Code::Internal, "the item was not worked on"));
    Response::Sign(outcomes_to_wire(
        outcomes.into_iter().map(|outcome| outcome.unwrap_or_else(missing)).collect(),
    ))
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
