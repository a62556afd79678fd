//! What a peer sends that is no request. A frame of HTTP/2 that asks for nothing (PRIORITY, SETTINGS, PING, WINDOW_UPDATE;
//! RFC 9113 section 6) is a dozen bytes, and costs us a thousand times what it costs the peer's line. So each
//! connection has a measure of frames, which grows with time and with what its requests bring; over it nothing more is
//! read for a while, and one that goes on is closed.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

use crate::Front;
use crate::metrics::Closed;

/// Before the first frame: `PRI * HTTP/2.0` and its end (RFC 9113 section 3.4).
const PREFACE_BYTES: usize = 24;

/// Length, kind, flags and stream before each frame (RFC 9113 section 4.1).
const HEAD_BYTES: usize = 9;

/// A frame costs one unit, and one more for so many bytes of it.
const UNIT_BYTES: usize = 64;

/// Units that may come at once. More than twice what may be on its way of requests that nobody has read
/// ([`super::CONNECTION_WINDOW`]): who waits for his place with large messages is not stopped for it.
const UNITS_MAX: u64 = 8_192;

/// Units a second.
const UNITS_PER_S: u64 = 1_024;

/// Units a request is worth: its own headers, and what a peer says around it.
const REQUEST_UNITS: u64 = 8;

/// Units a part of a body is worth beside its bytes.
const PART_UNITS: u64 = 3;

/// Units over the measure, with no rest in which it was whole again, after which the connection is closed.
const OVER_MAX: u64 = 8_192;

/// Reads in a row after which others have their turn.
const READS_IN_A_ROW: u32 = 4;

/// In the measure, so that parts of a unit are not lost.
const MICRO: u64 = 1_000_000;

/// What a connection's requests were worth since this was last asked. Said by who serves them, asked by who reads.
#[derive(Debug, Default)]
pub(super) struct Worth(AtomicU64);

impl Worth {
    /// A request reached the services.
    pub(super) fn request(&self) {
        self.0.fetch_add(REQUEST_UNITS, Ordering::Relaxed);
    }

    /// So many bytes of a request were wanted by who serves it.
    pub(super) fn body(&self, bytes: usize) {
        if bytes >= UNIT_BYTES {
            self.0.fetch_add(units(bytes).saturating_add(PART_UNITS), Ordering::Relaxed);
        }
    }

    fn take(&self) -> u64 {
        self.0.swap(0, Ordering::Relaxed)
    }
}

fn units(bytes: usize) -> u64 {
    let more = bytes.checked_div(UNIT_BYTES).unwrap_or_default();
    u64::try_from(more).unwrap_or(u64::MAX)
}

/// Where frames begin, however the bytes are cut.
struct Frames {
    /// Bytes to the next head.
    skip: usize,
    /// Of the next head.
    head: Vec<u8>,
}

impl Frames {
    fn new() -> Self {
        Self { skip: PREFACE_BYTES, head: Vec::with_capacity(HEAD_BYTES) }
    }

    /// What the frames cost whose heads end in these bytes.
    fn cost(&mut self, mut bytes: &[u8]) -> u64 {
        let mut cost = 0_u64;
        loop {
            let skipped = bytes.len().min(self.skip);
            self.skip = self.skip.saturating_sub(skipped);
            bytes = bytes.get(skipped..).unwrap_or_default();
            if bytes.is_empty() {
                return cost;
            }
            let missing = HEAD_BYTES.saturating_sub(self.head.len());
            let (part, rest) = bytes.split_at_checked(missing).unwrap_or((bytes, &[]));
            self.head.extend_from_slice(part);
            bytes = rest;
            if let Some([high, middle, low, _, _, _, _, _, _]) = self.head.first_chunk::<HEAD_BYTES>() {
                let length = u32::from_be_bytes([0, *high, *middle, *low]);
                self.skip = usize::try_from(length).unwrap_or(usize::MAX);
                cost = cost.saturating_add(1).saturating_add(units(self.skip));
                self.head.clear();
            }
        }
    }
}

/// How it goes on after something was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    On,
    /// Nothing more is read for so long.
    Wait(Duration),
    /// It is closed.
    Over,
}

/// The measure of one connection.
struct Measure {
    /// In millionths of a unit.
    left: u64,
    /// Units that came over it since it was last whole.
    over: u64,
    as_of: Instant,
}

impl Measure {
    const fn new(now: Instant) -> Self {
        Self { left: UNITS_MAX.saturating_mul(MICRO), over: 0, as_of: now }
    }

    fn read(&mut self, now: Instant, cost: u64, worth: u64) -> Verdict {
        let us = u64::try_from(now.saturating_duration_since(self.as_of).as_micros()).unwrap_or(u64::MAX);
        self.as_of = now;
        let whole = UNITS_MAX.saturating_mul(MICRO);
        let more = us.saturating_mul(UNITS_PER_S).saturating_add(worth.saturating_mul(MICRO));
        self.left = self.left.saturating_add(more).min(whole);
        if self.left == whole {
            self.over = 0;
        }
        let cost = cost.saturating_mul(MICRO);
        let missing = cost.saturating_sub(self.left);
        self.left = self.left.saturating_sub(cost);
        if missing == 0 {
            return Verdict::On;
        }
        self.over = self.over.saturating_add(missing.div_ceil(MICRO));
        if self.over > OVER_MAX {
            return Verdict::Over;
        }
        // The time in which as much grows; it is not given twice.
        let wait = Duration::from_micros(missing.div_ceil(UNITS_PER_S));
        self.as_of = now.checked_add(wait).unwrap_or(now);
        Verdict::Wait(wait)
    }
}

/// The stream of a connection, with HTTP/2 in clear, as it may be read.
pub(super) struct Measured<S> {
    stream: S,
    frames: Frames,
    measure: Measure,
    worth: Arc<Worth>,
    waiting: Option<Pin<Box<Sleep>>>,
    reads_in_a_row: u32,
    front: Front,
    peer: SocketAddr,
}

impl<S> Measured<S> {
    pub(super) fn new(stream: S, worth: Arc<Worth>, front: Front, peer: SocketAddr) -> Self {
        Self {
            stream,
            frames: Frames::new(),
            measure: Measure::new(Instant::now()),
            worth,
            waiting: None,
            reads_in_a_row: 0,
            front,
            peer,
        }
    }

    /// Says and counts the end.
    fn over(&self) -> io::Error {
        self.front.inner.metrics.closed(Closed::Flood);
        self.front.inner.notices.closed(Closed::Flood, self.peer, None);
        io::Error::new(io::ErrorKind::InvalidData, "too much that is no request")
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Measured<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if let Some(waiting) = &mut self.waiting {
            ready!(waiting.as_mut().poll(context));
            self.waiting = None;
        }
        if self.reads_in_a_row >= READS_IN_A_ROW {
            self.reads_in_a_row = 0;
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        let before = buffer.filled().len();
        let Poll::Ready(outcome) = Pin::new(&mut self.stream).poll_read(context, buffer) else {
            self.reads_in_a_row = 0;
            return Poll::Pending;
        };
        self.reads_in_a_row = self.reads_in_a_row.saturating_add(1);
        outcome?;
        let cost = self.frames.cost(buffer.filled().get(before..).unwrap_or_default());
        let worth = self.worth.take();
        match self.measure.read(Instant::now(), cost, worth) {
            Verdict::On => (),
            Verdict::Wait(wait) => self.waiting = Some(Box::pin(sleep(wait))),
            Verdict::Over => return Poll::Ready(Err(self.over())),
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Measured<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of this kind and length; what is in it does not matter here.
    fn frame(kind: u8, length: usize) -> Vec<u8> {
        let [_, high, middle, low] = u32::try_from(length).unwrap().to_be_bytes();
        let mut frame = vec![high, middle, low, kind, 0, 0, 0, 0, 1];
        frame.resize(HEAD_BYTES.saturating_add(length), 0xff);
        frame
    }

    #[test]
    fn frames_cost_the_same_however_they_are_cut() {
        let mut all = vec![b'P'; PREFACE_BYTES];
        for (kind, length) in [(4, 0), (2, 5), (8, 4), (0, 63), (0, 64), (1, 200), (0, 16_384), (6, 8)] {
            all.extend(frame(kind, length));
        }
        for cut in [1, 2, 8, 9, 10, 25, 1_000, all.len()] {
            let mut frames = Frames::new();
            let cost: u64 = all.chunks(cut).map(|part| frames.cost(part)).sum();
            assert_eq!(cost, 8 + 1 + 3 + 256, "{cut}");
        }
    }

    #[test]
    fn who_sends_only_frames_that_ask_for_nothing_is_slowed_to_the_measure_and_then_closed() {
        let begun = Instant::now();
        let (mut now, mut measure, mut read) = (begun, Measure::new(begun), 0);
        loop {
            match measure.read(now, 1_000, 0) {
                Verdict::On => read += 1_000,
                Verdict::Wait(wait) => {
                    read += 1_000;
                    now += wait;
                }
                Verdict::Over => break,
            }
            assert!(read <= UNITS_MAX + 1_000 + UNITS_PER_S * ((now - begun).as_secs() + 1), "{read}");
        }
        assert!(read >= OVER_MAX, "{read}");
    }

    #[test]
    fn after_a_rest_what_was_over_is_forgotten() {
        let mut now = Instant::now();
        let mut measure = Measure::new(now);
        for _ in 0..100 {
            assert!(matches!(measure.read(now, UNITS_MAX + 1_000, 0), Verdict::Wait(_)));
            now += Duration::from_secs(UNITS_MAX / UNITS_PER_S + 2);
        }
    }

    #[test]
    fn requests_pay_for_themselves_however_many_they_are() {
        let now = Instant::now();
        let (mut measure, worth) = (Measure::new(now), Worth::default());
        // In one moment: calls with a small message, groups on streams, messages of the largest size.
        for (requests, parts, length) in [(10_000, 1, 30), (100, 1_000, 200), (100, 1_000, 16_384)] {
            for _ in 0..requests {
                // Its headers, and the end of its stream.
                assert_eq!(measure.read(now, units(300) + 2, 0), Verdict::On, "{length}");
                worth.request();
                for _ in 0..parts {
                    assert_eq!(measure.read(now, units(length) + 1, worth.take()), Verdict::On, "{length}");
                    worth.body(length);
                }
            }
        }
    }
}
