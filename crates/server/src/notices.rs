//! Lines about peers that come to nothing. Whoever can reach the port can fail in thousands of ways a second, so of each
//! kind at most one line a second is written: of the last peer, and how many others there were since the line before.
//! What is counted exactly is in the metrics.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use crate::metrics::Closed;

/// From one line of a kind to the next.
const PAUSE: Duration = Duration::from_secs(1);

/// What a line is about; each kind has a second of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Handshake,
    Closed,
    Accept,
    Refusal,
    Grant,
}

/// All of one front.
#[derive(Default)]
pub(crate) struct Notices {
    handshakes: Arc<Paced>,
    closings: Arc<Paced>,
    accepts: Arc<Paced>,
    refusals: Arc<Paced>,
    grants: Arc<Paced>,
}

impl Notices {
    /// A handshake came to nothing.
    pub(crate) fn handshake_failed(&self, peer: SocketAddr, reason: String) {
        self.tell(Kind::Handshake, move |left_out| {
            tracing::info!(%peer, reason, left_out, "a handshake failed");
        });
    }

    /// A connection was closed because of a limit; the name is that of the client, if it has shown one.
    pub(crate) fn closed(&self, limit: Closed, peer: SocketAddr, principal: Option<&str>) {
        let principal = principal.map(str::to_owned);
        self.tell(Kind::Closed, move |left_out| {
            let limit = limit.label();
            tracing::info!(%peer, principal, limit, left_out, "a connection was closed by a limit");
        });
    }

    /// No connection can be accepted: the process has no descriptor or memory for it.
    pub(crate) fn cannot_accept(&self, error: io::Error) {
        self.tell(Kind::Accept, move |left_out| {
            tracing::warn!(%error, left_out, "a connection cannot be accepted");
        });
    }

    /// A call or a group was refused before anything was done for it; `line` gets how many others were not shown.
    pub(crate) fn refused(&self, line: impl FnOnce(u64) + Send + 'static) {
        self.tell(Kind::Refusal, line);
    }

    /// The same for want of a grant.
    pub(crate) fn not_granted(&self, line: impl FnOnce(u64) + Send + 'static) {
        self.tell(Kind::Grant, line);
    }

    fn tell(&self, kind: Kind, line: impl FnOnce(u64) + Send + 'static) {
        let paced = match kind {
            Kind::Handshake => &self.handshakes,
            Kind::Closed => &self.closings,
            Kind::Accept => &self.accepts,
            Kind::Refusal => &self.refusals,
            Kind::Grant => &self.grants,
        };
        Paced::tell(paced, line);
    }
}

type Line = Box<dyn FnOnce(u64) + Send>;

struct Paced {
    pause: Duration,
    state: Mutex<State>,
}

impl Default for Paced {
    fn default() -> Self {
        Self::new(PAUSE)
    }
}

#[derive(Default)]
struct State {
    /// No line before this.
    next: Option<Instant>,
    /// The last one since, which is written then.
    waiting: Option<Line>,
    /// So many since are not written.
    left_out: u64,
}

impl Paced {
    fn new(pause: Duration) -> Self {
        Self { pause, state: Mutex::default() }
    }

    fn tell(this: &Arc<Self>, line: impl FnOnce(u64) + Send + 'static) {
        let now = Instant::now();
        let next = {
            let mut state = this.state.lock().unwrap_or_else(PoisonError::into_inner);
            if state.waiting.is_some() {
                state.left_out = state.left_out.saturating_add(1);
                state.waiting = Some(Box::new(line));
                return;
            }
            match state.next.filter(|next| *next > now) {
                Some(next) => {
                    state.waiting = Some(Box::new(line));
                    next
                }
                None => {
                    state.next = now.checked_add(this.pause);
                    drop(state);
                    return line(0);
                }
            }
        };
        let this = Arc::clone(this);
        tokio::spawn(async move {
            sleep_until(next).await;
            this.write();
        });
    }

    fn write(&self) {
        let (line, left_out) = {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            state.next = Instant::now().checked_add(self.pause);
            (state.waiting.take(), std::mem::take(&mut state.left_out))
        };
        if let Some(line) = line {
            line(left_out);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn of_a_storm_one_line_a_second_is_written_and_all_the_others_are_counted() {
        const STORM: u64 = 100_000;
        const SHORT: Duration = Duration::from_millis(50);
        let written = Arc::new(Mutex::new(Vec::new()));
        let paced = Arc::new(Paced::new(SHORT));
        let begun = Instant::now();
        for number in 0..STORM {
            let written = Arc::clone(&written);
            Paced::tell(&paced, move |left_out| written.lock().unwrap().push((number, left_out)));
            tokio::task::yield_now().await;
        }
        let is_last = || written.lock().unwrap().last().is_some_and(|(number, _)| *number == STORM - 1);
        while !is_last() {
            tokio::time::sleep(SHORT).await;
        }
        let most = begun.elapsed().as_millis() / SHORT.as_millis() + 1;
        let written = written.lock().unwrap();
        assert!(written.len() as u128 <= most, "{} of {most}", written.len());
        assert_eq!(written[0], (0, 0), "the first is written at once");
        let left_out: u64 = written.iter().map(|(_, left_out)| left_out).sum();
        assert_eq!(left_out + u64::try_from(written.len()).unwrap(), STORM);
    }

    #[tokio::test]
    async fn kinds_do_not_silence_each_other() {
        let notices = Notices::default();
        let written = Arc::new(Mutex::new(0));
        for kind in [Kind::Handshake, Kind::Closed, Kind::Accept, Kind::Refusal, Kind::Grant] {
            let written = Arc::clone(&written);
            notices.tell(kind, move |_| *written.lock().unwrap() += 1);
        }
        assert_eq!(*written.lock().unwrap(), 5);
    }
}
