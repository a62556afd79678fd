//! A signer that is there, or is being started again. When the process dies, those who wait for its answers are not
//! failed but sent to the next one, once each: nothing that a dead signer made has left front, so asking again is
//! safe. What it cost shows in the count of operations in the log.

use std::sync::Arc;
use std::time::Duration;

use sealwright_proto::convert::batch::Batch;
use sealwright_proto::signer_v1::{from_signer::Response, to_signer};
use sealwright_proto::status::{Code, Fault};
use tokio::net::UnixStream;
use tokio::sync::watch;
use tokio::time::Instant;

use super::gone;
use super::line::Line;
use crate::metrics::Metrics;

/// Starts a signer process, with the other end of the socket that is returned as its own. Called again when the
/// process has died; it may block for as long as a process takes to start.
pub type Launcher = Arc<dyn Fn() -> std::io::Result<std::os::unix::net::UnixStream> + Send + Sync>;

/// Pause before a signer is started again; doubled for each that dies without having answered anything. In all, a
/// signer that does not start again is known within a few seconds.
const PAUSE_FIRST: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// After so many failures in a row, or so long without a signer, requests are refused at once instead of waiting.
const FAILURES_MAX: u32 = 5;
const AWAY_MAX: Duration = Duration::from_secs(15);

/// Then further attempts are rare; this is also when a refused request is told to come again, in milliseconds.
const PAUSE_WHEN_REFUSED_MS: u32 = 30_000;
const PAUSE_WHEN_REFUSED: Duration = Duration::from_secs(30);

/// See the module. When the last clone is gone, the socket is closed, the signer leaves, and none is started.
#[derive(Clone)]
pub(super) struct Link {
    state: watch::Receiver<State>,
}

enum State {
    /// Or has just died, and this has not been noticed.
    Present(Arc<Line>),
    /// Being started: wait.
    Away,
    /// It does not start, and says why.
    Refused(Fault),
}

impl Link {
    pub(super) fn start(line: Line, launcher: Option<Launcher>, metrics: Arc<Metrics>) -> Self {
        let line = Arc::new(line);
        let (sender, state) = watch::channel(State::Present(Arc::clone(&line)));
        let first = First { data_key_id: line.data_key_id(), silence_max: line.silence_max() };
        metrics.signer_up.set(1);
        tokio::spawn(Supervisor { state: sender, launcher, first, failures: 0, metrics }.run(line));
        Self { state }
    }

    /// Sends one request and waits for its answer; a failure of the whole request is an error. If the signer dies
    /// meanwhile, the next one is asked.
    pub(super) async fn ask(
        &self,
        request: to_signer::Request,
        deadline: Instant,
    ) -> Result<Response, Fault> {
        let mut request = Some(request);
        match self.line(deadline).await?.ask(&mut request, Some(deadline)).await {
            Err(fault) if fault.code == Code::SignerGone => {
                self.line(deadline).await?.ask(&mut request, Some(deadline)).await
            }
            answered => answered,
        }
    }

    /// The same with a batch to sign, except that the signer has it until this returns: after the deadline it is asked
    /// of no other signer, but the answer is still waited for, because only then is its place free.
    pub(super) async fn ask_to_sign(&self, batch: Batch, deadline: Instant) -> Result<Response, Fault> {
        let mut request = Some(to_signer::Request::Sign(batch.into_wire()));
        let line = self.line(deadline).await?;
        renew(&mut request, deadline);
        let answered = line.ask(&mut request, None).await;
        let is_gone = answered.as_ref().is_err_and(|fault| fault.code == Code::SignerGone);
        if !is_gone || Instant::now() >= deadline {
            return answered;
        }
        let line = self.line(deadline).await?;
        renew(&mut request, deadline);
        line.ask(&mut request, None).await
    }

    /// Whether the signer of now has answered anybody since then.
    pub(super) fn has_answered_since(&self, since: Option<Instant>) -> bool {
        match &*self.state.borrow() {
            State::Present(line) => !line.has_ended() && line.last_answer() > since,
            State::Away | State::Refused(_) => false,
        }
    }

    /// Waits for a signer that is there.
    async fn line(&self, deadline: Instant) -> Result<Arc<Line>, Fault> {
        let mut state = self.state.clone();
        let settled = state.wait_for(|state| match state {
            State::Present(line) => !line.has_ended(),
            State::Away => false,
            State::Refused(_) => true,
        });
        let settled = tokio::time::timeout_at(deadline, settled).await;
        match settled.map(|state| state.map(|state| state.line())) {
            Ok(Ok(line)) => line,
            Ok(Err(_)) | Err(_) => Err(gone()),
        }
    }
}

/// Tells the signer when nobody waits any more. Never 0, which would mean for ever.
fn renew(request: &mut Option<to_signer::Request>, deadline: Instant) {
    if let Some(to_signer::Request::Sign(batch)) = request {
        let left = deadline.saturating_duration_since(Instant::now()).as_millis();
        batch.deadline_ms = u32::try_from(left).unwrap_or(u32::MAX).max(1);
    }
}

impl State {
    fn line(&self) -> Result<Arc<Line>, Fault> {
        match self {
            Self::Present(line) => Ok(Arc::clone(line)),
            Self::Away => Err(gone()),
            Self::Refused(fault) => Err(fault.clone()),
        }
    }
}

/// What the next signer has in common with the first.
#[derive(Clone)]
struct First {
    /// The stored keys are sealed under it.
    data_key_id: Arc<str>,
    silence_max: Duration,
}

struct Supervisor {
    state: watch::Sender<State>,
    launcher: Option<Launcher>,
    first: First,
    /// In a row: attempts to start that failed, and signers that died without having answered.
    failures: u32,
    metrics: Arc<Metrics>,
}

impl Supervisor {
    /// Until nobody can ask any more.
    async fn run(mut self, mut line: Arc<Line>) {
        loop {
            tokio::select! {
                biased;
                () = self.state.closed() => return,
                () = line.ended() => (),
            }
            self.metrics.signer_up.set(0);
            self.failures = if line.has_answered() { 0 } else { self.failures.saturating_add(1) };
            let Some(launcher) = self.launcher.clone() else {
                let message = "the signer process has ended, and nothing here can start another";
                self.state.send_replace(State::Refused(Fault::new(Code::SignerGone, message)));
                return;
            };
            tracing::warn!("the signer process has ended; another is started");
            self.state.send_replace(State::Away);
            let Some(next) = self.restart(&launcher).await else { return };
            line = next;
            self.metrics.signer_restarts.increment();
            self.metrics.signer_up.set(1);
            self.state.send_replace(State::Present(Arc::clone(&line)));
        }
    }

    /// `None` when nobody can ask any more.
    async fn restart(&mut self, launcher: &Launcher) -> Option<Arc<Line>> {
        let now = Instant::now();
        let given_up = tokio::time::sleep_until(now.checked_add(AWAY_MAX).unwrap_or(now));
        tokio::pin!(given_up);
        loop {
            let attempt = launch(pause(self.failures), Arc::clone(launcher), self.first.clone());
            tokio::pin!(attempt);
            let launched = loop {
                tokio::select! {
                    biased;
                    () = self.state.closed() => return None,
                    launched = &mut attempt => break launched,
                    () = &mut given_up, if !given_up.is_elapsed() => self.refuse(late()),
                }
            };
            match launched {
                Ok(line) => return Some(Arc::new(line)),
                Err(fault) => {
                    self.failures = self.failures.saturating_add(1);
                    tracing::warn!(code = %fault.code, "the signer does not start: {fault}");
                    if !fault.code.is_retryable() || self.failures >= FAILURES_MAX || given_up.is_elapsed() {
                        self.failures = self.failures.max(FAILURES_MAX);
                        self.refuse(fault);
                    }
                }
            }
        }
    }

    /// From now on nobody waits, until one starts after all.
    fn refuse(&self, fault: Fault) {
        self.state.send_replace(State::Refused(refusal(fault)));
    }
}

/// What everyone is told: why, and when the next attempt will have been made.
fn refusal(fault: Fault) -> Fault {
    if !fault.code.is_retryable() {
        return fault;
    }
    let message = format!("the signer process has ended, and another does not start: {}", fault.message);
    Fault::new(Code::SignerGone, message).retry_after(PAUSE_WHEN_REFUSED_MS)
}

fn late() -> Fault {
    Fault::new(Code::SignerGone, format!("it is not ready after {} s", AWAY_MAX.as_secs()))
}

fn pause(failures: u32) -> Duration {
    if failures >= FAILURES_MAX {
        return PAUSE_WHEN_REFUSED;
    }
    PAUSE_FIRST.saturating_mul(1 << failures.min(FAILURES_MAX)).min(PAUSE_MAX)
}

/// One attempt, after a pause.
async fn launch(pause: Duration, launcher: Launcher, first: First) -> Result<Line, Fault> {
    tokio::time::sleep(pause).await;
    let failed = |error: &std::io::Error| Fault::new(Code::SignerGone, error.to_string());
    let ended = |_| Fault::new(Code::Internal, "what starts the signer has panicked");
    let socket = tokio::task::spawn_blocking(move || launcher()).await.map_err(ended)?;
    let socket = socket.map_err(|error| failed(&error))?;
    socket.set_nonblocking(true).map_err(|error| failed(&error))?;
    let socket = UnixStream::from_std(socket).map_err(|error| failed(&error))?;
    let line = Line::open(socket, first.silence_max).await?;
    if line.data_key_id() == first.data_key_id {
        return Ok(line);
    }
    let message = format!(
        "the signer that was started again has data key {}; the keys here are sealed under {}",
        line.data_key_id(),
        first.data_key_id
    );
    Err(Fault::new(Code::StoreMismatch, message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_to_a_second_and_are_rare_after_five_failures() {
        let pauses: Vec<_> = (0..7).map(|failures| pause(failures).as_millis()).collect();
        assert_eq!(pauses, [100, 200, 400, 800, 1000, 30_000, 30_000]);
        assert_eq!(u128::from(PAUSE_WHEN_REFUSED_MS), PAUSE_WHEN_REFUSED.as_millis());
    }
}
