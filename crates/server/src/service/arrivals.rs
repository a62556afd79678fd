//! Messages on their way in. What has been read of a message that is not complete lies in memory, and a peer could begin
//! a large one on each of its streams and never go on. So the bytes of a message over [`SMALL_BYTES_MAX`] are taken from
//! the peer only with a place: one a connection, [`LARGE_PER_CLIENT_MAX`] a client, and [`LARGE_MESSAGES_MAX`] together.
//! Until then they stay with the peer (HTTP/2 flow control). Any message that was begun has to be complete in time, a
//! large one sooner while all places are taken; otherwise the stream is lost.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame};
use sealwright_proto::limits::GRPC_MESSAGE_BYTES_MAX;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, Sleep, sleep};
use tonic::Status;

use super::flood::Worth;
use crate::metrics::Counter;

/// Bytes of a message that need no place: all groups of midstates but the largest.
pub(super) const SMALL_BYTES_MAX: usize = 16 << 10;

/// The flag byte and the length before each message (gRPC over HTTP/2, "Length-Prefixed-Message").
const PREFIX_BYTES: usize = 5;

/// What all connections together may have begun of large messages, in KiB.
pub(crate) type Total = Arc<Semaphore>;

/// Room for so many large messages of all connections.
const LARGE_MESSAGES_MAX: usize = 16;

/// Room for so many of one client, over all its connections: one that is slow holds up itself.
const LARGE_PER_CLIENT_MAX: usize = 2;

/// While all places are taken, a large message has to be complete after this part of the usual time.
const HURRY: u32 = 3;

pub(crate) fn total() -> Total {
    Arc::new(Semaphore::new(LARGE_MESSAGES_MAX))
}

/// The places of one client, over all its connections.
pub(super) fn of_client() -> Arc<Semaphore> {
    Arc::new(Semaphore::new(LARGE_PER_CLIENT_MAX))
}

/// The places of one connection.
#[derive(Clone)]
pub(super) struct Budget {
    of_connection: Arc<Semaphore>,
    of_client: Arc<Semaphore>,
    total: Total,
    /// A message has to be complete after this.
    time: Duration,
    worth: Arc<Worth>,
}

impl Budget {
    pub(super) fn new(of_client: Arc<Semaphore>, total: Total, time: Duration, worth: Arc<Worth>) -> Self {
        Self { of_connection: Arc::new(Semaphore::new(1)), of_client, total, time, worth }
    }

    /// A request came.
    pub(super) fn request(&self) {
        self.worth.request();
    }

    async fn place(self) -> Result<Permits, Status> {
        let closed = |_| Status::unavailable("the server is stopping");
        let of_connection = self.of_connection.acquire_owned().await.map_err(closed)?;
        let of_client = self.of_client.acquire_owned().await.map_err(closed)?;
        let of_all = self.total.acquire_owned().await.map_err(closed)?;
        Ok([of_connection, of_client, of_all])
    }
}

/// Of the connection, the client and all; taken in this order, so that who waits for his own keeps none of all.
type Permits = [OwnedSemaphorePermit; 3];

type Waiting = Pin<Box<dyn Future<Output = Result<Permits, Status>> + Send>>;

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
    /// Since a message was waited for that has begun; only then.
    late: Option<Late>,
    /// Bytes that came from the peer.
    taken: Arc<Counter>,
}

struct Late {
    begun: Instant,
    next: Pin<Box<Sleep>>,
}

enum Place {
    NotNeeded,
    Waiting(Waiting),
    Taken(#[expect(dead_code, reason = "held")] Permits),
}

impl<B> Arriving<B> {
    pub(super) const fn new(body: B, budget: Budget, taken: Arc<Counter>) -> Self {
        Self {
            body,
            budget,
            held: Bytes::new(),
            prefix: Vec::new(),
            left: 0,
            place: Place::NotNeeded,
            late: None,
            taken,
        }
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
            self.late = None;
        }
        Some(part)
    }

    fn poll_place(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Status>> {
        if let Place::Waiting(waiting) = &mut self.place {
            let taken = ready!(waiting.as_mut().poll(context))?;
            self.place = Place::Taken(taken);
            // The wait was not the peer's fault.
            self.late = None;
        }
        Poll::Ready(Ok(()))
    }

    /// An error once a message that has begun has taken too long.
    fn poll_late(&mut self, context: &mut Context<'_>) -> Poll<Status> {
        if self.left == 0 && self.prefix.is_empty() {
            self.late = None;
            return Poll::Pending;
        }
        let step = self.budget.time.checked_div(HURRY).unwrap_or_default().max(Duration::from_millis(1));
        let late =
            self.late.get_or_insert_with(|| Late { begun: Instant::now(), next: Box::pin(sleep(step)) });
        loop {
            ready!(late.next.as_mut().poll(context));
            let others_wait =
                matches!(self.place, Place::Taken(_)) && self.budget.total.available_permits() == 0;
            if others_wait || late.begun.elapsed() >= self.budget.time {
                return Poll::Ready(Status::deadline_exceeded("a message did not arrive in time"));
            }
            late.next.set(sleep(step));
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
                Some(Ok(data)) => {
                    self.taken.add(u64::try_from(data.len()).unwrap_or(u64::MAX));
                    self.budget.worth.body(data.len());
                    self.held = data;
                }
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
        Budget::new(of_client(), total(), Duration::from_secs(60), Arc::default())
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
            let out = Arriving::new(body, budget.clone(), Arc::default()).collect().await.unwrap().to_bytes();
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
        let mut first = Arriving::new(first, budget.clone(), Arc::default());
        let mut second = Arriving::new(second, budget.clone(), Arc::default());
        let mut taken = 0;
        while taken < large.len() - 1 {
            taken += first.frame().await.unwrap().unwrap().into_data().unwrap().len();
        }
        let waits = tokio::time::timeout(Duration::from_millis(50), second.frame()).await;
        assert!(waits.is_err(), "nothing of it goes through, not even its length");
        drop(first);
        assert_eq!(second.frame().await.unwrap().unwrap().into_data().unwrap().len(), PREFIX_BYTES);
    }

    /// Whether it fails, and does not go on waiting.
    async fn fails(parts: Vec<Bytes>, budget: &Budget) -> bool {
        let (_open, begun) = body(parts);
        let mut arriving = Arriving::new(begun, budget.clone(), Arc::default());
        let failed = async {
            while let Some(frame) = arriving.frame().await {
                if frame.is_err() {
                    return;
                }
            }
        };
        tokio::time::timeout(Duration::from_secs(1), failed).await.is_ok()
    }

    #[tokio::test]
    async fn a_message_that_does_not_end_in_time_fails_and_a_pause_between_messages_does_not() {
        let budget = Budget::new(of_client(), total(), Duration::from_millis(10), Arc::default());
        for len in [SMALL_BYTES_MAX + 1, SMALL_BYTES_MAX, 200] {
            assert!(fails(vec![Bytes::from(message(len)).slice(..100)], &budget).await, "{len}");
            assert!(fails(vec![Bytes::from(message(len)).slice(..3)], &budget).await, "{len}");
            assert!(!fails(vec![Bytes::from(message(len))], &budget).await, "{len}");
        }
    }

    #[tokio::test]
    async fn a_large_message_has_less_time_while_all_places_are_taken() {
        let all = total();
        let half = || vec![Bytes::from(message(SMALL_BYTES_MAX + 1)).slice(..100)];
        let budget = Budget::new(of_client(), Arc::clone(&all), Duration::from_secs(2), Arc::default());
        assert!(!fails(half(), &budget).await);
        let others = u32::try_from(LARGE_MESSAGES_MAX - 1).unwrap();
        let _others = all.acquire_many(others).await.unwrap();
        assert!(fails(half(), &budget).await);
    }

    #[tokio::test]
    async fn one_client_holds_a_few_of_the_places_however_many_connections_it_has() {
        let (all, client) = (total(), of_client());
        let mut held = Vec::new();
        for _ in 0..LARGE_PER_CLIENT_MAX {
            let budget =
                Budget::new(Arc::clone(&client), Arc::clone(&all), Duration::from_secs(60), Arc::default());
            held.push(budget.place().await.unwrap());
        }
        let another = Budget::new(client, Arc::clone(&all), Duration::from_secs(60), Arc::default());
        assert!(tokio::time::timeout(Duration::from_secs(1), another.place()).await.is_err());
        assert_eq!(all.available_permits(), LARGE_MESSAGES_MAX - LARGE_PER_CLIENT_MAX);
        let other_client = Budget::new(of_client(), all, Duration::from_secs(60), Arc::default());
        assert!(other_client.place().await.is_ok());
    }
}
