//! Tokens: keys that are kept in hardware, reached by a PKCS#11 module of somebody else's making. That code never runs in
//! this process: each token has a worker of its own (`worker.rs`), started again by the keeper (`keeper.rs`) whenever it
//! ends. What is here is the signer's side: requests in flight to a worker, their deadlines, and what is known of a token
//! that is down. `docs/adr/0014-pkcs11-workers.md` has the reasons.

mod config;
pub mod fuzz;
pub(crate) mod keeper;
mod link;
mod packet;
mod refused;
mod spare;
pub(crate) mod worker;

use std::collections::HashMap;
use std::io::{Read, Write as _};
use std::os::fd::BorrowedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use sealwright_proto::frame;
use sealwright_proto::limits::TOKEN_FRAME_BYTES_MAX;
use sealwright_proto::names::TokenName;
use sealwright_proto::status::{Code, Fault};
use sealwright_proto::token_v1::from_worker::Response;
use sealwright_proto::token_v1::to_worker::Request;
use sealwright_proto::token_v1::{Failed, FromWorker, Start, ToWorker, WorkerFailure};

use crate::confine::Landlock;
use crate::error::Error;
use config::{Configured, Settings, Wrong};
use link::{Fresh, Keeper};

/// Bytes of one message to or from the keeper.
const PACKET_BYTES_MAX: usize = 64 << 10;

/// So long after a start that missed its deadline everybody is told so at once: who asks again a few times, as clients do,
/// does not wait for as many starts.
const SILENT_START_PAUSE: Duration = Duration::from_secs(5);

/// How long a token may take to make a key, at least: RSA-4096 takes some of them a minute. Front waits 120 s.
const MAKING_MAX: Duration = Duration::from_secs(100);

/// The tokens of this installation.
pub(crate) struct Tokens {
    list: Vec<Arc<Token>>,
    /// Those whose entry is wrong, and how.
    unusable: Vec<(TokenName, Fault)>,
    keeper: Option<Arc<Keeper>>,
}

impl Tokens {
    /// None at all.
    pub(crate) const fn none() -> Self {
        Self { list: Vec::new(), unusable: Vec::new(), keeper: None }
    }

    /// Those that the directory of the root key names, with their keeper. Starts a process: before the sandbox. One whose entry
    /// is wrong is not used; the others are, and so are keys in software.
    ///
    /// # Errors
    /// Those of [`config::read`]; [`Error::Process`].
    pub(crate) fn start(directory: &Path, landlock: Landlock) -> Result<Self, Error> {
        let Configured { tokens: settings, wrong } = config::read(directory)?;
        let unusable = wrong.into_iter().map(|wrong| (wrong.name.clone(), unusable(&wrong))).collect();
        if settings.is_empty() {
            return Ok(Self { unusable, ..Self::none() });
        }
        let refused = refused::read(directory)?;
        let keeper = Arc::new(Keeper::start(&settings)?);
        let token = |(index, settings): (usize, Settings)| {
            let down = refused
                .contains(&settings.state)
                .then(|| pin_refused(&settings.name, "it was refused before"));
            let state = State { pin_refused: down.is_some(), down, ..State::default() };
            Arc::new(Token {
                index,
                require_sandbox: landlock == Landlock::Required,
                settings,
                directory: directory.to_owned(),
                keeper: Arc::clone(&keeper),
                state: Mutex::new(state),
                changed: Condvar::new(),
            })
        };
        let list = settings.into_iter().enumerate().map(token).collect();
        Ok(Self { list, unusable, keeper: Some(keeper) })
    }

    /// Takes workers from the keeper, on a thread: after the sandbox, which holds for it, too.
    ///
    /// # Errors
    /// [`Error::Process`].
    pub(crate) fn attend(&self) -> Result<(), Error> {
        let Some(keeper) = self.keeper.clone() else { return Ok(()) };
        let list = self.list.clone();
        let started =
            std::thread::Builder::new().name("tokens".to_owned()).spawn(move || attend(&keeper, &list));
        started.map(drop).map_err(|source| Error::Process { action: "start a thread", source })
    }

    /// The socket of the keeper, for the sandbox.
    pub(crate) fn keeper_socket(&self) -> Option<BorrowedFd<'_>> {
        self.keeper.as_ref().map(|keeper| keeper.socket())
    }

    /// The token of this name.
    ///
    /// # Errors
    /// [`Code::TokenRefused`] if there is none, or its entry is wrong.
    pub(crate) fn find(&self, name: &TokenName) -> Result<&Arc<Token>, Fault> {
        self.list.iter().find(|token| token.settings.name == *name).ok_or_else(|| {
            let wrong = self.unusable.iter().find(|(unusable, _)| unusable == name);
            wrong.map(|(_, fault)| fault.clone()).unwrap_or_else(|| {
                let message = format!(
                    "token {name} is not among those that tokens.toml named when the signer started; one that was added \
                     since is known after a restart of it"
                );
                Fault::new(Code::TokenRefused, message)
            })
        })
    }

    /// All of them, in the order of their numbers.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<Token>> {
        self.list.iter()
    }

    /// Front has gone: nobody waits for what is in flight.
    pub(crate) fn nobody_waits(&self) {
        for token in &self.list {
            let gone = token.gone("front has gone");
            token.state().give_up(&gone);
        }
    }
}

/// One token, and its worker.
pub(crate) struct Token {
    index: usize,
    settings: Settings,
    require_sandbox: bool,
    directory: PathBuf,
    keeper: Arc<Keeper>,
    state: Mutex<State>,
    /// A worker is ready, or the token is down.
    changed: Condvar,
}

#[derive(Default)]
struct State {
    worker: Option<Worker>,
    last_id: u64,
    waiting: HashMap<u64, SyncSender<Result<Response, Fault>>>,
    /// Why it could not be used when that was tried last; gone as soon as it can.
    down: Option<Fault>,
    /// Then [`Self::down`] stays.
    pin_refused: bool,
    /// Until then [`Self::down`] stays, too.
    down_until: Option<Instant>,
}

struct Worker {
    number: u64,
    /// One whole frame at a time. What is in flight is less than the socket holds: writing does not wait.
    socket: Arc<Mutex<UnixStream>>,
    stage: Stage,
}

/// A token is spoken to when it is first needed: an embedded run that signs with other keys does not log in.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// The process is there, and has no PIN.
    Idle,
    /// It was told to start.
    Starting(Instant),
    Ready,
}

impl State {
    /// Whoever waits for an answer is told why there is none.
    fn give_up(&mut self, fault: &Fault) {
        for (_, waiting) in self.waiting.drain() {
            let _ = waiting.try_send(Err(fault.clone()));
        }
    }

    /// Why no worker is to be asked, or waited for.
    fn stays_down(&self) -> Option<&Fault> {
        let stays = self.pin_refused || self.down_until.is_some_and(|until| Instant::now() < until);
        self.down.as_ref().filter(|_| stays)
    }

    fn is(&self, number: u64) -> bool {
        self.worker.as_ref().is_some_and(|worker| worker.number == number)
    }
}

impl Token {
    /// Its number: where its requests queue.
    pub(crate) const fn index(&self) -> usize {
        self.index
    }

    /// Its name.
    pub(crate) const fn name(&self) -> &TokenName {
        &self.settings.name
    }

    /// Threads that are to wait for it at once: one more than sessions, so that none of these waits for us.
    pub(crate) const fn threads(&self) -> u32 {
        self.settings.sessions_max.saturating_add(1)
    }

    /// Has the token work. Waits for a worker that starts, and then for the answer, each within the token's deadline; a
    /// worker that misses it is ended, and its other requests fail so that they can be repeated.
    ///
    /// # Errors
    /// [`Code::TokenGone`], [`Code::TokenSilent`], [`Code::TokenRefused`].
    pub(crate) fn call(&self, request: Request) -> Result<Response, Fault> {
        let makes = matches!(request, Request::Generate(_));
        let deadline = self.settings.deadline;
        let (number, socket) = self.ready_worker()?;
        let allowed = if makes { deadline.max(MAKING_MAX) } else { deadline };
        let (answer, answered) = sync_channel(1);
        let id = {
            let mut state = self.state();
            if !state.is(number) {
                return Err(self.gone("its worker ended"));
            }
            state.last_id = state.last_id.wrapping_add(1).max(1);
            let id = state.last_id;
            state.waiting.insert(id, answer);
            id
        };
        self.write(&socket, &ToWorker { id, request: Some(request) }, &[]).inspect_err(|_| {
            self.state().waiting.remove(&id);
        })?;
        match answered.recv_timeout(allowed) {
            Ok(answer) => self.answer(answer),
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                Err(self.missed_deadline(number, allowed))
            }
        }
    }

    fn answer(&self, answer: Result<Response, Fault>) -> Result<Response, Fault> {
        match answer? {
            Response::Failure(failure) => Err(self.fault_of(&failure)),
            answer @ (Response::Started(_) | Response::Signature(_) | Response::Key(_)) => Ok(answer),
        }
    }

    /// The worker, once it is ready. All who wait for one start wait until its deadline, not for one each.
    fn ready_worker(&self) -> Result<(u64, Arc<Mutex<UnixStream>>), Fault> {
        let (deadline, asked) = (self.settings.deadline, Instant::now());
        let mut state = self.state();
        loop {
            if let Some(down) = state.stays_down() {
                return Err(down.clone());
            }
            let (starting, since) = match (&state.worker, &state.down) {
                (Some(Worker { number, socket, stage: Stage::Ready }), _) => {
                    return Ok((*number, Arc::clone(socket)));
                }
                (Some(Worker { number, stage: Stage::Starting(since), .. }), _) => (Some(*number), *since),
                (Some(Worker { stage: Stage::Idle, .. }), _) => {
                    self.tell_to_start(&mut state)?;
                    continue;
                }
                (None, Some(down)) => return Err(down.clone()),
                (None, None) => (None, asked),
            };
            let left = deadline.saturating_sub(since.elapsed());
            if left.is_zero() {
                return Err(self.missed_start(state, starting));
            }
            state = self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Its module, or the token, blocks: its worker is ended, and all who wait are told.
    fn missed_start(&self, mut state: MutexGuard<'_, State>, starting: Option<u64>) -> Fault {
        let within = self.settings.deadline.as_millis();
        let Some(number) = starting else {
            let message = format!("token {}: no worker came for it within {within} ms", self.name());
            return Fault::new(Code::TokenSilent, message);
        };
        let message = format!("token {}: its module did not load and log in within {within} ms", self.name());
        let fault = Fault::new(Code::TokenSilent, message);
        tracing::error!(backend = %self.name(), worker = number, "{fault}; its worker is ended");
        state.worker = None;
        state.down = Some(fault.clone());
        state.down_until = Instant::now().checked_add(SILENT_START_PAUSE);
        self.changed.notify_all();
        drop(state);
        self.keeper.kill(self.index, number);
        fault
    }

    /// With its PIN, which no worker gets before it is needed.
    fn tell_to_start(&self, state: &mut State) -> Result<(), Fault> {
        state.down = None;
        let Some(worker) = &mut state.worker else { return Ok(()) };
        worker.stage = Stage::Starting(Instant::now());
        let socket = Arc::clone(&worker.socket);
        self.write(&socket, &self.start_message(), self.settings.pin.expose())
    }

    fn missed_deadline(&self, number: u64, allowed: Duration) -> Fault {
        let mut state = self.state();
        if state.is(number) {
            tracing::error!(backend = %self.name(), worker = number, "the token did not answer in time; its worker is ended");
            state.worker = None;
            state.give_up(&self.gone("another request was not answered in time, and its worker was ended"));
            self.keeper.kill(self.index, number);
        }
        let message = format!("token {}: no answer within {} ms", self.name(), allowed.as_millis());
        Fault::new(Code::TokenSilent, message)
    }

    /// A worker, from its start to its end.
    fn serve(&self, number: u64, mut socket: UnixStream) {
        let Ok(writer) = socket.try_clone() else { return self.keeper.kill(self.index, number) };
        {
            let mut state = self.state();
            state.give_up(&self.gone("its worker ended"));
            if state.pin_refused {
                drop(state);
                return wait_for_end(&mut socket);
            }
            let socket = Arc::new(Mutex::new(writer));
            let before = state.worker.replace(Worker { number, socket, stage: Stage::Idle });
            if let Some(before) = before {
                // Of a keeper that has died: it dies with that, or of this.
                let socket = before.socket.lock().unwrap_or_else(PoisonError::into_inner);
                let _ = socket.shutdown(std::net::Shutdown::Both);
            }
            self.changed.notify_all();
        }
        self.listen(number, &mut socket);
    }

    /// What this worker says, to its end.
    fn listen(&self, number: u64, socket: &mut impl Read) {
        loop {
            match frame::read_within::<FromWorker>(socket, TOKEN_FRAME_BYTES_MAX) {
                Ok(Some((message, _))) => {
                    if self.hear(number, message) == Heard::NoMore {
                        return wait_for_end(socket);
                    }
                }
                Ok(None) | Err(frame::Error::Truncated) => return self.ended(number),
                Err(error) => {
                    tracing::error!(backend = %self.name(), %error, "what the worker of the token says is no message");
                    self.ended(number);
                    return self.keeper.kill(self.index, number);
                }
            }
        }
    }

    fn start_message(&self) -> ToWorker {
        let text = |path: &PathBuf| path.to_string_lossy().into_owned();
        let settings = &self.settings;
        let start = Start {
            module: text(&settings.module),
            label: settings.label.clone(),
            serial: settings.serial.clone(),
            sessions_max: settings.sessions_max,
            paths: settings.paths.iter().map(text).collect(),
            network: settings.network,
            pin_bytes: u32::try_from(settings.pin.expose().len()).unwrap_or(u32::MAX),
            require_sandbox: self.require_sandbox,
            closed: text(&self.directory),
        };
        ToWorker { id: 0, request: Some(Request::Start(start)) }
    }

    fn hear(&self, number: u64, message: FromWorker) -> Heard {
        match (message.id, message.response) {
            (0, Some(Response::Started(started))) => {
                tracing::info!(backend = %self.name(), worker = number, is = started.token, "the token is ready");
                let mut state = self.state();
                // One that has failed, or was followed by another, is not ready whatever it says.
                if let Some(worker) = state.worker.as_mut().filter(|worker| worker.number == number) {
                    worker.stage = Stage::Ready;
                    state.down = None;
                }
                self.changed.notify_all();
                Heard::Understood
            }
            (_, Some(Response::Failure(failure))) if failure.kind() == Failed::Pin => {
                self.refuse_pin(&failure);
                Heard::NoMore
            }
            (0, Some(Response::Failure(failure))) => {
                self.down(number, self.fault_of(&failure));
                Heard::Understood
            }
            (id, Some(response)) => {
                // An answer to nobody came after its deadline.
                let waiting = self.state().waiting.remove(&id);
                if let Some(waiting) = waiting {
                    let _ = waiting.try_send(Ok(response));
                }
                Heard::Understood
            }
            (_, None) => Heard::Understood,
        }
    }

    /// The PIN is tried no more: not by another worker, not after a restart, until its file or its entry is another.
    fn refuse_pin(&self, failure: &WorkerFailure) {
        let fault = pin_refused(self.name(), &failure.message);
        tracing::error!(backend = %self.name(), "{fault}");
        // Before anybody is told: who hears of it may end this process.
        if let Err(error) = refused::add(&self.directory, &self.settings.state) {
            let error = &error as &dyn std::error::Error;
            tracing::error!(error, "the refusal of the PIN is not remembered");
        }
        let mut state = self.state();
        state.pin_refused = true;
        state.worker = None;
        state.give_up(&fault);
        state.down = Some(fault);
        self.changed.notify_all();
    }

    /// It cannot be used, for now.
    fn down(&self, number: u64, fault: Fault) {
        let mut state = self.state();
        if state.is(number) {
            tracing::warn!(backend = %self.name(), worker = number, "{fault}");
            state.worker = None;
            state.give_up(&fault);
            state.down = Some(fault);
            self.changed.notify_all();
        }
    }

    fn ended(&self, number: u64) {
        let mut state = self.state();
        if !state.is(number) {
            return;
        }
        let stage = state.worker.take().map(|worker| worker.stage);
        let gone = self.gone("its worker ended");
        state.give_up(&gone);
        if matches!(stage, Some(Stage::Starting(_))) {
            state.down = Some(self.gone("its worker ends while it starts"));
        }
        self.changed.notify_all();
    }

    fn fault_of(&self, failure: &WorkerFailure) -> Fault {
        let code = match failure.kind() {
            Failed::Gone | Failed::Unspecified => Code::TokenGone,
            Failed::Refused | Failed::Pin => Code::TokenRefused,
        };
        Fault::new(code, format!("token {}: {}", self.name(), printable(&failure.message)))
    }

    fn gone(&self, reason: &str) -> Fault {
        Fault::new(Code::TokenGone, format!("token {}: {reason}", self.name()))
    }

    fn write(&self, socket: &Mutex<UnixStream>, message: &ToWorker, after: &[u8]) -> Result<(), Fault> {
        let frame =
            frame::encode(message).map_err(|error| Fault::new(Code::LimitExceeded, error.to_string()))?;
        let mut socket = socket.lock().unwrap_or_else(PoisonError::into_inner);
        let written = socket.write_all(&frame).and_then(|()| socket.write_all(after));
        written.map_err(|_| self.gone("its worker ended"))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(PartialEq, Eq)]
enum Heard {
    Understood,
    NoMore,
}

/// Said once in the log, and to everybody who asks for the token.
fn unusable(wrong: &Wrong) -> Fault {
    let message = format!(
        "token {} cannot be used: {}; correct it, and start the signer again",
        wrong.name,
        Fault::from(&wrong.error).message
    );
    tracing::error!(backend = %wrong.name, "{message}");
    Fault::new(Code::TokenRefused, message)
}

fn pin_refused(token: &TokenName, reason: &str) -> Fault {
    let message = format!("token {token} is down: wrong PIN ({}); it is not tried again", printable(reason));
    Fault::new(Code::TokenRefused, message)
}

/// What a worker says is for a person, in one line.
fn printable(text: &str) -> String {
    text.chars().take(300).map(|c| if c.is_control() { '?' } else { c }).collect()
}

/// A worker that is not used, and not started anew either.
fn wait_for_end(socket: &mut impl Read) {
    while let Ok(Some(_)) = frame::read_within::<FromWorker>(socket, TOKEN_FRAME_BYTES_MAX) {}
}

fn attend(keeper: &Keeper, tokens: &[Arc<Token>]) {
    loop {
        let Fresh { token, worker, socket } = match keeper.next() {
            Ok(Some(fresh)) => fresh,
            Ok(None) => break,
            Err(error) => {
                tracing::error!(%error, "the keeper of the tokens cannot be understood");
                break;
            }
        };
        let Some(token) = tokens.get(token).cloned() else { continue };
        let name = format!("token-{}", token.name());
        let spawned = {
            let token = Arc::clone(&token);
            std::thread::Builder::new().name(name).spawn(move || token.serve(worker, socket))
        };
        if let Err(error) = spawned {
            tracing::error!(%error, backend = %token.name(), "no thread for a worker");
            keeper.kill(token.index, worker);
        }
    }
    tracing::error!("both keepers of the tokens have ended: a worker that ends now is not started again");
    for token in tokens {
        let mut state = token.state();
        if state.worker.is_none() {
            state.down.get_or_insert_with(|| {
                token.gone("both keepers of its worker have ended; restart the signer")
            });
            token.changed.notify_all();
        }
    }
}

#[cfg(test)]
mod tests;
