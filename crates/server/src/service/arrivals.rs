//! Messages on their way in. What has been read of a message that is not complete lies in memory, and a peer could begin
//! a large one on each of its streams and never go on. So the bytes of a message over [`SMALL_BYTES_MAX`] are taken from
//! the peer only with a place: one a connection, and together no more bytes than a budget. Until then they stay with the
//! peer (HTTP/2 flow control). Who holds a place and stops sending loses the stream.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame};
use sealwright_proto::limits::GRPC_MESSAGE_BYTES_MAX;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Sleep, sleep};

/// Bytes of a message that need no place: all groups of midstates but the largest.
pub(super) const SMALL_BYTES_MAX: usize = 16 << 10;

/// The flag byte and the length before each message (gRPC over HTTP/2, "Length-Prefixed-Message").
const PREFIX_BYTES: usize = 5;

/// What all connections together may have begun of large messages, in KiB.
pub(crate) type Total = Arc<Semaphore>;

/// Room for so many large messages of all connections.
const LARGE_MESSAGES_MAX: usize = 16;

pub(crate) fn total() -> Total {
    Arc::new(Semaphore::new(LARGE_MESSAGES_MAX))
}

/// The places of one connection.
#[derive(Clone)]
pub(super) struct Budget {
    of_connection: Arc<Semaphore>,
    total: Total,
    /// A large message has to be complete after this.
    time: Duration,
}

impl Budget {
    pub(super) fn new(total: Total, time: Duration) -> Self {
        Self { of_connection: Arc::new(Semaphore::new(1)), total, time }
    }

    async fn place(self) -> io::Result<(OwnedSemaphorePermit, OwnedSemaphorePermit)> {
        let closed = |_| io::Error::other("the server is stopping");
        let of_connection = self.of_connection.acquire_owned().await.map_err(closed)?;
        let of_all = self.total.acquire_owned().await.map_err(closed)?;
        Ok((of_connection, of_all))
    }
}

type Waiting = Pin<Box<dyn Future<Output = io::Result<(OwnedSemaphorePermit, OwnedSemaphorePermit)>> + Send>>;

/// The body of one request, as its messages are let through.
pub(super) struct Arriving<B> {
    body: B,
    budget: Budget,
    /// Read from the peer, not let through.
    held: Bytes,
    /// Of the next message; let through as a whole, and only when the message may come: a decoder makes room by it.
    prefix: Vec<u8>,
    /// Bytes of the message that are still to come; 0 before its prefix is complete.
    left: usize,
    place: Place,
}

enum Place {
    NotNeeded,
    Waiting(Waiting),
    Taken(
        #[expect(dead_code, reason = "held")] (OwnedSemaphorePermit, OwnedSemaphorePermit),
        Pin<Box<Sleep>>,
    ),
}

impl<B> Arriving<B> {
    pub(super) const fn new(body: B, budget: Budget) -> Self {
        Self { body, budget, held: Bytes::new(), prefix: Vec::new(), left: 0, place: Place::NotNeeded }
    }

    /// Takes what is held up to the end of a prefix, and asks for a place by it.
    fn read_prefix(&mut self) {
        let missing = PREFIX_BYTES.saturating_sub(self.prefix.len());
        let part = self.held.split_to(self.held.len().min(missing));
        self.prefix.extend_from_slice(&part);
        let Some([_, length @ ..]) = self.prefix.first_chunk::<PREFIX_BYTES>() else { return };
        self.left = usize::try_from(u32::from_be_bytes(*length)).unwrap_or(usize::MAX);
        // One over the limit is refused by its prefix, and needs no place.
        if self.left > SMALL_BYTES_MAX && self.left <= GRPC_MESSAGE_BYTES_MAX {
            self.place = Place::Waiting(Box::pin(self.budget.clone().place()));
        }
    }

    /// The next part of what is held that may go through.
    fn next(&mut self) -> Option<Bytes> {
        if self.prefix.len() == PREFIX_BYTES {
            return Some(std::mem::take(&mut self.prefix).into());
        }
        if self.left == 0 || self.held.is_empty() {
            return None;
        }
        let part = self.held.split_to(self.held.len().min(self.left));
        self.left = self.left.saturating_sub(part.len());
        if self.left == 0 {
            self.place = Place::NotNeeded;
        }
        Some(part)
    }

    fn poll_place(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if let Place::Waiting(waiting) = &mut self.place {
            let taken = ready!(waiting.as_mut().poll(context))?;
            self.place = Place::Taken(taken, Box::pin(sleep(self.budget.time)));
        }
        Poll::Ready(Ok(()))
    }

    /// An error once a large message has taken too long.
    fn poll_late(&mut self, context: &mut Context<'_>) -> Poll<io::Error> {
        match &mut self.place {
            Place::Taken(_, time) => {
                ready!(time.as_mut().poll(context));
                Poll::Ready(io::Error::new(io::ErrorKind::TimedOut, "a large message did not arrive in time"))
            }
            Place::NotNeeded | Place::Waiting(_) => Poll::Pending,
        }
    }
}

impl<B> Body for Arriving<B>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    type Data = Bytes;
    type Error = Box<dyn std::error::Error + Send + Sync>;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        loop {
            ready!(self.poll_place(context))?;
            if let Some(part) = self.next() {
                return Poll::Ready(Some(Ok(Frame::data(part))));
            }
            if !self.held.is_empty() {
                self.read_prefix();
                continue;
            }
            let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(context) else {
                let late = ready!(self.poll_late(context));
                return Poll::Ready(Some(Err(late.into())));
            };
            match frame.transpose().map_err(Into::into)?.map(Frame::into_data) {
                Some(Ok(data)) => self.held = data,
                Some(Err(other)) => return Poll::Ready(Some(Ok(other))),
                // Half a prefix goes through as it is: the decoder says that something is missing.
                None if !self.prefix.is_empty() => {
                    let rest = std::mem::take(&mut self.prefix);
                    return Poll::Ready(Some(Ok(Frame::data(rest.into()))));
                }
                None => return Poll::Ready(None),
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.held.is_empty() && self.prefix.is_empty() && self.body.is_end_stream()
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use http_body_util::{BodyExt as _, StreamBody};
    use tokio::sync::mpsc;
    use tokio_stream::wrappers::ReceiverStream;

    use super::*;

    /// A body of these parts, that then ends or stays open.
    fn body(
        parts: Vec<Bytes>,
    ) -> (mpsc::Sender<Result<Frame<Bytes>, Infallible>>, impl Body<Data = Bytes, Error = Infallible> + Unpin)
    {
        let (sender, receiver) = mpsc::channel(parts.len().max(1));
        for part in parts {
            sender.try_send(Ok(Frame::data(part))).unwrap();
        }
        (sender, StreamBody::new(ReceiverStream::new(receiver)))
    }

    fn message(len: usize) -> Vec<u8> {
        let mut message = vec![0];
        message.extend(u32::try_from(len).unwrap().to_be_bytes());
        message.extend((0..len).map(|index| index.to_le_bytes()[0]));
        message
    }

    fn budget() -> Budget {
        Budget::new(total(), Duration::from_secs(60))
    }

    #[tokio::test]
    async fn what_goes_in_comes_out_however_it_is_cut() {
        let lengths = [0, 1, SMALL_BYTES_MAX, SMALL_BYTES_MAX + 1, 0, 100_000, 7];
        let mut all: Vec<u8> = lengths.into_iter().flat_map(message).collect();
        // And a prefix that is not complete.
        all.extend([0, 0, 0]);
        let all = Bytes::from(all);
        for cut in [1, 2, 3, 4, 5, 6, 7, 1000, 16_389, 16_390, 65_536, all.len()] {
            let mut parts = Vec::new();
            let mut rest = all.clone();
            while !rest.is_empty() {
                parts.push(rest.split_to(cut.min(rest.len())));
            }
            let (sender, body) = body(parts);
            drop(sender);
            let budget = budget();
            let out = Arriving::new(body, budget.clone()).collect().await.unwrap().to_bytes();
            assert!(out == all, "{cut}");
            assert_eq!(budget.of_connection.available_permits(), 1, "{cut}");
            assert_eq!(budget.total.available_permits(), LARGE_MESSAGES_MAX, "{cut}");
        }
    }

    #[tokio::test]
    async fn of_two_large_messages_of_one_connection_the_second_waits_with_its_prefix() {
        let budget = budget();
        let large = Bytes::from(message(SMALL_BYTES_MAX + 1));
        let (_open, first) = body(vec![large.slice(..large.len() - 1)]);
        let (_open_too, second) = body(vec![large.clone()]);
        let mut first = Arriving::new(first, budget.clone());
        let mut second = Arriving::new(second, budget.clone());
        let mut taken = 0;
        while taken < large.len() - 1 {
            taken += first.frame().await.unwrap().unwrap().into_data().unwrap().len();
        }
        let waits = tokio::time::timeout(Duration::from_millis(50), second.frame()).await;
        assert!(waits.is_err(), "nothing of it goes through, not even its length");
        drop(first);
        assert_eq!(second.frame().await.unwrap().unwrap().into_data().unwrap().len(), PREFIX_BYTES);
    }

    #[tokio::test]
    async fn a_large_message_that_does_not_end_in_time_fails_and_a_small_one_does_not() {
        let budget = Budget::new(total(), Duration::from_millis(10));
        for (len, fails) in [(SMALL_BYTES_MAX + 1, true), (SMALL_BYTES_MAX, false)] {
            let begun = Bytes::from(message(len)).slice(..100);
            let (_open, begun) = body(vec![begun]);
            let mut arriving = Arriving::new(begun, budget.clone());
            let failed = async {
                while let Some(frame) = arriving.frame().await {
                    if frame.is_err() {
                        return;
                    }
                }
            };
            let failed = tokio::time::timeout(Duration::from_millis(300), failed).await.is_ok();
            assert_eq!(failed, fails, "{len}");
        }
    }
}
