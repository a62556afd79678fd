//! A signer that is there, or is being started again. When the process dies, those who wait for its answers are not
//! failed but sent to the next one, once each: nothing that a dead signer made has left front, so asking again is
//! safe. What it cost shows in the count of operations in the log.

use std::sync::Arc;
use std::time::Duration;

use sealwright_proto::signer_v1::{from_signer::Response, to_signer};
use sealwright_proto::status::{Code, Fault};
use tokio::net::UnixStream;
use tokio::sync::watch;
use tokio::time::Instant;

use super::gone;
use super::line::Line;

/// Starts a signer process, with the other end of the socket that is returned as its own. Called again when the
/// process has died; it may block for as long as a process takes to start.
pub type Launcher = Arc<dyn Fn() -> std::io::Result<std::os::unix::net::UnixStream> + Send + Sync>;

/// Pause before a signer is started again; doubled for each that dies without having answered anything.
const PAUSE_FIRST: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// After so many failures in a row requests are refused at once instead of waiting, and further attempts are rare.
const FAILURES_MAX: u32 = 8;
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
    pub(super) fn start(line: Line, launcher: Option<Launcher>) -> Self {
        let line = Arc::new(line);
        let (sender, state) = watch::channel(State::Present(Arc::clone(&line)));
        tokio::spawn(Supervisor { state: sender, launcher, failures: 0 }.run(line));
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
        match self.line(deadline).await?.ask(&mut request, deadline).await {
            Err(fault) if fault.code == Code::SignerGone => {
                self.line(deadline).await?.ask(&mut request, deadline).await
            }
            answered => answered,
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

impl State {
    fn line(&self) -> Result<Arc<Line>, Fault> {
        match self {
            Self::Present(line) => Ok(Arc::clone(line)),
            Self::Away => Err(gone()),
            Self::Refused(fault) => Err(fault.clone()),
        }
    }
}

struct Supervisor {
    state: watch::Sender<State>,
    launcher: Option<Launcher>,
    /// In a row: attempts to start that failed, and signers that died without having answered.
    failures: u32,
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
            self.failures = if line.has_answered() { 0 } else { self.failures.saturating_add(1) };
            let Some(launcher) = self.launcher.clone() else {
                self.state.send_replace(State::Refused(gone()));
                return;
            };
            tracing::warn!("the signer process has ended; another is started");
            self.state.send_replace(State::Away);
            let Some(next) = self.restart(&launcher).await else { return };
            line = next;
            self.state.send_replace(State::Present(Arc::clone(&line)));
        }
    }

    /// `None` when nobody can ask any more.
    async fn restart(&mut self, launcher: &Launcher) -> Option<Arc<Line>> {
        loop {
            tokio::select! {
                biased;
                () = self.state.closed() => return None,
                () = tokio::time::sleep(pause(self.failures)) => (),
            }
            match launch(Arc::clone(launcher)).await {
                Ok(line) => return Some(Arc::new(line)),
                Err(fault) => {
                    self.failures = self.failures.saturating_add(1);
                    tracing::error!(code = %fault.code, "the signer does not start: {fault}");
                    if !fault.code.is_retryable() || self.failures >= FAILURES_MAX {
                        self.failures = self.failures.max(FAILURES_MAX);
                        self.state.send_replace(State::Refused(fault));
                    }
                }
            }
        }
    }
}

fn pause(failures: u32) -> Duration {
    if failures >= FAILURES_MAX {
        return PAUSE_WHEN_REFUSED;
    }
    PAUSE_FIRST.saturating_mul(1 << failures.min(FAILURES_MAX)).min(PAUSE_MAX)
}

async fn launch(launcher: Launcher) -> Result<Line, Fault> {
    let failed = |error: &std::io::Error| {
        Fault::new(Code::SignerGone, format!("the signer process cannot be started: {error}"))
    };
    let socket = tokio::task::spawn_blocking(move || launcher())
        .await
        .map_err(|_| gone())?
        .map_err(|error| failed(&error))?;
    socket.set_nonblocking(true).map_err(|error| failed(&error))?;
    Line::open(UnixStream::from_std(socket).map_err(|error| failed(&error))?).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_to_five_seconds_and_are_rare_after_eight_failures() {
        let pauses: Vec<_> = (0..10).map(|failures| pause(failures).as_millis()).collect();
        assert_eq!(pauses, [100, 200, 400, 800, 1600, 3200, 5000, 5000, 30_000, 30_000]);
    }
}
