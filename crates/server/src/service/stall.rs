//! A socket whose other end has to take what is sent to it, and may send so much before it has said who it is.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Sleep, sleep};

use crate::Front;
use crate::metrics::Closed;

/// Fails a write that could not go on for too long. The timer exists only while one waits.
pub(super) struct Watched {
    socket: TcpStream,
    stall_max: Duration,
    waiting: Option<Pin<Box<Sleep>>>,
    /// Bytes that may still come; none for no limit.
    may_come: Option<usize>,
    front: Front,
    peer: SocketAddr,
}

impl Watched {
    pub(super) const fn new(socket: TcpStream, stall_max: Duration, front: Front, peer: SocketAddr) -> Self {
        Self { socket, stall_max, waiting: None, may_come: None, front, peer }
    }

    /// So many bytes may come from now on, and as many more as one read takes.
    pub(super) const fn may_send(&mut self, bytes: usize) {
        self.may_come = Some(bytes);
    }

    /// Whoever it is may go on.
    pub(super) const fn may_send_on(&mut self) {
        self.may_come = None;
    }

    /// The outcome of a write, unless it has waited for too long.
    fn watched<T>(&mut self, context: &mut Context<'_>, outcome: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if outcome.is_ready() {
            self.waiting = None;
            return outcome;
        }
        let stall_max = self.stall_max;
        let waiting = self.waiting.get_or_insert_with(|| Box::pin(sleep(stall_max)));
        ready!(waiting.as_mut().poll(context));
        self.waiting = None;
        self.front.inner.metrics.closed(Closed::WriteStall);
        self.front.inner.notices.closed(Closed::WriteStall, self.peer, None);
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the peer takes nothing")))
    }
}

impl AsyncRead for Watched {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let Some(may_come) = self.may_come else {
            return Pin::new(&mut self.socket).poll_read(context, buffer);
        };
        if may_come == 0 {
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, "too long a handshake")));
        }
        let before = buffer.filled().len();
        let outcome = Pin::new(&mut self.socket).poll_read(context, buffer);
        let came = buffer.filled().len().saturating_sub(before);
        self.may_come = Some(may_come.saturating_sub(came));
        outcome
    }
}

impl AsyncWrite for Watched {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.socket).poll_write(context, bytes);
        self.watched(context, outcome)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.socket).poll_write_vectored(context, parts);
        self.watched(context, outcome)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(context)
    }
}
