//! One socket to one signer process, from its greeting to its end: requests by number, answers in any order.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use prost::Message as _;
use sealwright_proto::frame;
use sealwright_proto::signer_v1::{self as wire, from_signer::Response, to_signer};
use sealwright_proto::status::{Code, Fault};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;

use super::{gone, other_answer, silent, too_late};

/// Frames that wait to be written; the queue in front of them does the batching.
const FRAMES_QUEUED_MAX: usize = 8;

/// Memory that is there for the body of a frame before any of it has come: an answer of 64 RSA-4096 signatures fits.
const BODY_BYTES_FIRST: usize = 64 << 10;

/// How long the signer may take to say that it is ready: it opens its keys and tests each algorithm once.
const READY_DEADLINE: Duration = Duration::from_secs(60);

/// Pause before the second look at a signer that answers nobody.
const SILENCE_LOOK_AGAIN: Duration = Duration::from_secs(1);

/// The protocol that we speak.
const PROTOCOL_VERSION: u32 = 1;

/// A signer that said that it is ready. When the last reference is gone, the socket is closed and the signer leaves.
pub(super) struct Line {
    frames: mpsc::Sender<Vec<u8>>,
    waiting: Arc<Waiting>,
    data_key_id: Arc<str>,
    has_history: bool,
    silence_max: Duration,
}

impl Line {
    /// Waits for the greeting, and starts the tasks that serve the socket.
    ///
    /// # Errors
    /// What the signer says that keeps it from serving; [`Code::SignerGone`], [`Code::DeadlineExceeded`].
    pub(super) async fn open(socket: UnixStream, silence_max: Duration) -> Result<Self, Fault> {
        let (mut reading, writing) = socket.into_split();
        let greeting = tokio::time::timeout(READY_DEADLINE, read_one(&mut reading));
        let ready = ready(greeting.await.map_err(|_| too_late())?)?;
        tracing::debug!(root_key = ready.root_key_id, data_key = ready.data_key_id, "the signer is ready");
        let (frames, queued) = mpsc::channel(FRAMES_QUEUED_MAX);
        let waiting = Arc::new(Waiting::default());
        tokio::spawn(read_all(reading, Arc::clone(&waiting)));
        tokio::spawn(write_all(writing, queued, Arc::clone(&waiting)));
        let (data_key_id, has_history) = (ready.data_key_id.into(), ready.has_history);
        Ok(Self { frames, waiting, data_key_id, has_history, silence_max })
    }

    /// Waits until nothing has been answered for too long. Then it looks once more a little later: it may have been
    /// this process that stood still (Ctrl-Z), with the answers waiting in the socket.
    async fn silence(&self) {
        let asked = Instant::now();
        let mut looked_again = false;
        loop {
            let heard = self.waiting.state().last_answer.map_or(asked, |last| last.max(asked));
            let Some(until) = heard.checked_add(self.silence_max) else {
                return std::future::pending().await;
            };
            if until > Instant::now() {
                looked_again = false;
                tokio::time::sleep_until(until).await;
            } else if looked_again {
                return;
            } else {
                looked_again = true;
                tokio::time::sleep(SILENCE_LOOK_AGAIN).await;
            }
        }
    }

    /// The data key under which it seals, in hexadecimal.
    pub(super) fn data_key_id(&self) -> Arc<str> {
        Arc::clone(&self.data_key_id)
    }

    /// See [`crate::Config::signer_silence_max`].
    pub(super) const fn silence_max(&self) -> Duration {
        self.silence_max
    }

    /// Whether keys have signed under its root key.
    pub(super) const fn has_history(&self) -> bool {
        self.has_history
    }

    /// Sends one request and waits for its answer; a failure of the whole request is an error. The request can be
    /// sent again afterwards. Without a deadline it waits for as long as the signer lives.
    pub(super) async fn ask(
        &self,
        request: &mut Option<to_signer::Request>,
        deadline: Option<Instant>,
    ) -> Result<Response, Fault> {
        let (entered, answer) = Entered::new(&self.waiting)?;
        let id = entered.id;
        // Making a key may take its time alone.
        let is_sign = matches!(request, Some(to_signer::Request::Sign(_)));
        let message = wire::ToSigner { id, request: request.take() };
        let frame = frame::encode(&message);
        *request = message.request;
        let frame = match frame {
            Ok(frame) => frame,
            Err(error) => return Err(Fault::new(Code::LimitExceeded, error.to_string())),
        };
        let answered = async {
            self.frames.send(frame).await.map_err(|_| gone())?;
            answer.await.map_err(|_| gone())
        };
        let in_time = async {
            match deadline {
                Some(deadline) => {
                    tokio::time::timeout_at(deadline, answered).await.unwrap_or_else(|_| Err(too_late()))
                }
                None => answered.await,
            }
        };
        let answered = tokio::select! {
            biased;
            answered = in_time => answered,
            () = self.silence(), if is_sign => {
                tracing::warn!(silence_s = self.silence_max.as_secs(), "the signer answers nobody; it counts as dead");
                self.waiting.close();
                Err(silent())
            }
        };
        match answered? {
            Response::Failure(failure) => Err(failure.into()),
            Response::Ready(_) => Err(other_answer()),
            response @ (Response::Sign(_)
            | Response::Key(_)
            | Response::ImportKey(_)
            | Response::ProjectKey(_)) => Ok(response),
        }
    }

    /// Whether the signer is gone.
    pub(super) fn has_ended(&self) -> bool {
        *self.waiting.gone.borrow()
    }

    /// Waits until the signer is gone.
    pub(super) async fn ended(&self) {
        let mut gone = self.waiting.gone.subscribe();
        // Fails only when the sender is gone, which is ours.
        let _ = gone.wait_for(|gone| *gone).await;
    }

    /// Whether it ever answered a request.
    pub(super) fn has_answered(&self) -> bool {
        self.last_answer().is_some()
    }

    /// When it last answered anybody.
    pub(super) fn last_answer(&self) -> Option<Instant> {
        self.waiting.state().last_answer
    }
}

/// The first message: ready, or why not.
fn ready(greeting: Result<Option<wire::FromSigner>, frame::Error>) -> Result<wire::Ready, Fault> {
    match greeting {
        Ok(Some(wire::FromSigner { id: 0, response: Some(Response::Ready(ready)) })) => {
            if ready.version == PROTOCOL_VERSION {
                return Ok(ready);
            }
            let message =
                format!("the signer speaks version {}, front version {PROTOCOL_VERSION}", ready.version);
            Err(Fault::new(Code::Unsupported, message))
        }
        Ok(Some(wire::FromSigner { response: Some(Response::Failure(failure)), .. })) => Err(failure.into()),
        Ok(Some(_)) => Err(other_answer()),
        Ok(None) => Err(Fault::new(Code::SignerGone, "the signer process ended before it was ready")),
        Err(error) => {
            tracing::error!(error = &error as &dyn std::error::Error, "the signer's greeting failed");
            Err(gone())
        }
    }
}

/// Who waits for which answer. The lock is held for a look-up, never across a wait.
#[derive(Default)]
struct Waiting {
    state: Mutex<WaitingState>,
    gone: watch::Sender<bool>,
}

#[derive(Default)]
struct WaitingState {
    gone: bool,
    last_answer: Option<Instant>,
    last_id: u64,
    answers: HashMap<u64, oneshot::Sender<Response>>,
}

impl Waiting {
    fn state(&self) -> std::sync::MutexGuard<'_, WaitingState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn enter(&self) -> Result<(u64, oneshot::Receiver<Response>), Fault> {
        let (answer, answered) = oneshot::channel();
        let mut state = self.state();
        if state.gone {
            return Err(gone());
        }
        state.last_id = state.last_id.wrapping_add(1);
        let id = state.last_id;
        state.answers.insert(id, answer);
        Ok((id, answered))
    }

    fn leave(&self, id: u64) {
        self.state().answers.remove(&id);
    }

    /// An answer to nobody came after its deadline.
    fn answer(&self, id: u64, response: Response) {
        let mut state = self.state();
        state.last_answer = Some(Instant::now());
        let waiting = state.answers.remove(&id);
        drop(state);
        if let Some(waiting) = waiting {
            let _ = waiting.send(response);
        }
    }

    /// Everyone who waits, and everyone who comes, is told that the signer is gone.
    fn close(&self) {
        let mut state = self.state();
        state.gone = true;
        state.answers.clear();
        drop(state);
        self.gone.send_replace(true);
    }
}

/// Somebody who waits for the answer of this number; gone when dropped, also in the middle of the wait.
struct Entered<'a> {
    waiting: &'a Waiting,
    id: u64,
}

impl<'a> Entered<'a> {
    fn new(waiting: &'a Waiting) -> Result<(Self, oneshot::Receiver<Response>), Fault> {
        let (id, answer) = waiting.enter()?;
        Ok((Self { waiting, id }, answer))
    }
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        self.waiting.leave(self.id);
    }
}

async fn read_all(mut socket: OwnedReadHalf, waiting: Arc<Waiting>) {
    loop {
        match read_one(&mut socket).await {
            Ok(Some(wire::FromSigner { id, response: Some(response) })) => waiting.answer(id, response),
            Ok(Some(wire::FromSigner { response: None, .. })) => {
                tracing::error!("the signer sent an empty answer");
                break;
            }
            Ok(None) => break,
            Err(error) => {
                tracing::warn!(error = &error as &dyn std::error::Error, "the signer's socket failed");
                break;
            }
        }
    }
    waiting.close();
}

async fn read_one(socket: &mut OwnedReadHalf) -> Result<Option<wire::FromSigner>, frame::Error> {
    let mut header = [0; frame::HEADER_BYTES];
    match socket.read_exact(&mut header).await {
        Ok(_) => (),
        Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => return Ok(None),
        Err(error) => return Err(frame::Error::Io(error)),
    }
    let len = frame::body_len(header)?;
    let mut body = Vec::with_capacity(len.min(BODY_BYTES_FIRST));
    // Memory grows with the bytes that arrive, not with the length that is claimed.
    let limit = u64::try_from(len).unwrap_or(u64::MAX);
    socket.take(limit).read_to_end(&mut body).await.map_err(frame::Error::Io)?;
    if body.len() < len {
        return Err(frame::Error::Truncated);
    }
    wire::FromSigner::decode(body.as_slice()).map(Some).map_err(frame::Error::Malformed)
}

async fn write_all(mut socket: OwnedWriteHalf, mut frames: mpsc::Receiver<Vec<u8>>, waiting: Arc<Waiting>) {
    while let Some(frame) = frames.recv().await {
        if let Err(error) = socket.write_all(&frame).await {
            tracing::warn!(%error, "the signer's socket failed");
            waiting.close();
            return;
        }
    }
    // Nobody will ask any more: the signer sees the end and leaves.
    let _ = socket.shutdown().await;
}
