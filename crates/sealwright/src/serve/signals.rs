//! What signals ask of the supervisor and of front: the same of both.

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::failure::Failure;

/// What was asked.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Asked {
    /// SIGTERM and SIGINT in order, SIGQUIT at once.
    End(End),
    /// SIGHUP.
    Reload,
}

/// How it is to end.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// With what is in flight answered.
    InOrder,
    AtOnce,
}

/// Signals are heard from here on.
pub(super) struct Signals {
    terminate: Signal,
    interrupt: Signal,
    quit: Signal,
    hang_up: Signal,
}

impl Signals {
    pub(super) fn new() -> Result<Self, Failure> {
        let hear = |kind| {
            signal(kind).map_err(|error| {
                Failure::failed(format!("cannot hear signals: {error}"), "Please report it.")
            })
        };
        Ok(Self {
            terminate: hear(SignalKind::terminate())?,
            interrupt: hear(SignalKind::interrupt())?,
            quit: hear(SignalKind::quit())?,
            hang_up: hear(SignalKind::hangup())?,
        })
    }

    /// Waits for the next one.
    pub(super) async fn next(&mut self) -> Asked {
        tokio::select! {
            end = ended(&mut self.terminate, &mut self.interrupt, &mut self.quit) => Asked::End(end),
            _ = self.hang_up.recv() => Asked::Reload,
        }
    }

    /// Waits for one that asks for the end; a reload that is asked for meanwhile is kept.
    pub(super) async fn end(&mut self) -> End {
        ended(&mut self.terminate, &mut self.interrupt, &mut self.quit).await
    }
}

async fn ended(terminate: &mut Signal, interrupt: &mut Signal, quit: &mut Signal) -> End {
    tokio::select! {
        _ = terminate.recv() => End::InOrder,
        _ = interrupt.recv() => End::InOrder,
        _ = quit.recv() => End::AtOnce,
    }
}
