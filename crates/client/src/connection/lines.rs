//! The line that is in use: over one channel that was given, or to one of several servers, whichever serves. A line
//! that failed, or whose server said that it stops or has no room for it, is given up for new requests; those that it still carries keep it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use sealwright_proto::status::Code;
use sealwright_proto::trace::Traceparent;
use tokio::sync::Mutex;
use tonic::transport::Channel;

use crate::connection::remote::{Failures, Remote};
use crate::connection::stream::Stream;
use crate::error::{Error, Tried};

/// One open connection, and its stream of sign groups once that is needed.
#[derive(Debug)]
pub(crate) struct Line {
    pub(crate) channel: Channel,
    /// For people; none for a front in this process.
    pub(crate) server: Option<Arc<str>>,
    pub(crate) trace: Traceparent,
    place: usize,
    spent: AtomicBool,
    stream: Mutex<Option<Arc<Stream>>>,
}

impl Line {
    fn new(channel: Channel, server: Option<Arc<str>>, place: usize, trace: Traceparent) -> Self {
        Self { channel, server, trace, place, spent: AtomicBool::new(false), stream: Mutex::default() }
    }

    /// The stream, opened if it is not open.
    pub(crate) async fn stream(&self) -> Result<Arc<Stream>, Error> {
        let mut current = self.stream.lock().await;
        if let Some(stream) = current.as_ref().filter(|stream| stream.is_open()) {
            return Ok(Arc::clone(stream));
        }
        let stream = Arc::new(Stream::open(self.channel.clone(), self.trace).await?);
        *current = Some(Arc::clone(&stream));
        Ok(stream)
    }
}

/// Where lines come from.
#[derive(Debug)]
enum Way {
    /// One channel for ever: what ends it cannot be mended from here.
    Given(Arc<Line>),
    /// A new line whenever one is spent.
    Remote(Remote, Mutex<State>),
}

#[derive(Debug, Default)]
struct State {
    line: Option<Arc<Line>>,
    failures: Failures,
    /// The last round in which no server was reached: when it ended, and what was tried.
    failed: Option<(Instant, Arc<[Tried]>)>,
    /// Since when no server is reached.
    down_since: Option<Instant>,
}

/// Gives out the line in use.
#[derive(Debug)]
pub(crate) struct Lines {
    way: Way,
    trace: Traceparent,
}

impl Lines {
    pub(crate) fn given(channel: Channel, trace: Traceparent) -> Self {
        Self { way: Way::Given(Arc::new(Line::new(channel, None, 0, trace))), trace }
    }

    pub(crate) fn remote(remote: Remote, trace: Traceparent) -> Self {
        Self { way: Way::Remote(remote, Mutex::default()), trace }
    }

    pub(crate) const fn trace(&self) -> Traceparent {
        self.trace
    }

    pub(crate) const fn is_remote(&self) -> bool {
        matches!(self.way, Way::Remote(..))
    }

    /// The line in use, or a new one. All who wait while one is looked for share what is found, and what is not.
    ///
    /// # Errors
    /// [`Error::Unreachable`].
    pub(crate) async fn line(&self) -> Result<Arc<Line>, Error> {
        let asked = Instant::now();
        let (remote, state) = match &self.way {
            Way::Given(line) => return Ok(Arc::clone(line)),
            Way::Remote(remote, state) => (remote, state),
        };
        let mut state = state.lock().await;
        if let Some(line) = state.line.as_ref().filter(|line| !line.spent.load(Ordering::Relaxed)) {
            return Ok(Arc::clone(line));
        }
        if let Some((_, tried)) = state.failed.as_ref().filter(|(ended, _)| *ended > asked) {
            return Err(Error::Unreachable { tried: Arc::clone(tried) });
        }
        match remote.connect(&mut state.failures).await {
            Ok(reached) => {
                let server = remote.address(reached.server).map(|address| address.short().into());
                let line = Arc::new(Line::new(reached.channel, server, reached.server, self.trace));
                state.line = Some(Arc::clone(&line));
                (state.failed, state.down_since) = (None, None);
                Ok(line)
            }
            Err(tried) => {
                let (now, tried) = (Instant::now(), Arc::from(tried));
                state.line = None;
                state.failed = Some((now, Arc::clone(&tried)));
                state.down_since.get_or_insert(now);
                Err(Error::Unreachable { tried })
            }
        }
    }

    /// What a failure says about the line that it came over.
    pub(crate) async fn learn(&self, line: &Line, error: &Error) {
        let Way::Remote(_, state) = &self.way else { return };
        let gone = matches!(error, Error::ConnectionLost { .. } | Error::Unreachable { .. });
        // The answer to a call as a whole: a server that stops, or has no room for our connection, and ends it.
        let leaves = matches!(error.server_code(), Some(Code::ShuttingDown | Code::Overloaded));
        if (gone || leaves) && !line.spent.swap(true, Ordering::Relaxed) {
            state.lock().await.failures.note(line.place);
        }
    }

    /// For how long no server has been reached.
    pub(crate) async fn down_for(&self) -> Duration {
        match &self.way {
            Way::Given(_) => Duration::ZERO,
            Way::Remote(_, state) => {
                state.lock().await.down_since.map_or(Duration::ZERO, |since| since.elapsed())
            }
        }
    }
}
