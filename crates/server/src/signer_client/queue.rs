//! Groups wait here until a batch has a free place; then all that fit cross together.

use std::sync::Arc;
use std::time::Duration;

use sealwright_crypto::tbs::Content;
use sealwright_proto::convert::batch::{Batch, parse_outcomes};
use sealwright_proto::convert::group::Priority;
use sealwright_proto::limits::{INLINE_BYTES_MAX, ITEMS_PER_BATCH_MAX, KEYS_PER_BATCH_MAX};
use sealwright_proto::signer_v1::{from_signer::Response, to_signer};
use sealwright_proto::status::{Code, Fault};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tokio::time::Instant;

use super::{Job, Link, Signed, gone, other_answer, too_late};

/// Batches with the signer at once. Two keep it busy while answers and questions travel; two more allow for a
/// slow key beside quick ones. More would only make the batches small.
const BATCHES_WITH_SIGNER_MAX: usize = 4;

/// Groups of one priority that wait; further ones wait a moment for a place, and are then told to come again.
const GROUPS_QUEUED_MAX: usize = 1024;

/// See [`GROUPS_QUEUED_MAX`].
const MOMENT: Duration = Duration::from_secs(1);

/// When they are told to come again, in milliseconds: about as long as a full queue takes with slow keys.
const COME_AGAIN_MS: u32 = 2_000;

/// A place in the queue; only [`Queue::turn`] makes one.
pub(crate) struct Turn(mpsc::OwnedPermit<Queued>);

#[derive(Clone)]
pub(super) struct Queue {
    interactive: mpsc::Sender<Queued>,
    batch: mpsc::Sender<Queued>,
}

struct Queued {
    job: Job,
    reply: oneshot::Sender<Result<Signed, Fault>>,
}

struct Queues {
    interactive: mpsc::Receiver<Queued>,
    batch: mpsc::Receiver<Queued>,
    /// The one that did not fit the last batch: it opens the next.
    left_over: Option<Queued>,
}

impl Queue {
    pub(super) fn start(link: Link) -> Self {
        let (interactive, interactive_queue) = mpsc::channel(GROUPS_QUEUED_MAX);
        let (batch, batch_queue) = mpsc::channel(GROUPS_QUEUED_MAX);
        let queues = Queues { interactive: interactive_queue, batch: batch_queue, left_over: None };
        tokio::spawn(run(link, queues));
        Self { interactive, batch }
    }

    /// A place, taken before anything is written down for the group.
    pub(super) async fn turn(&self, priority: Priority, deadline: Instant) -> Result<Turn, Fault> {
        let queue = match priority {
            Priority::Interactive => &self.interactive,
            Priority::Batch => &self.batch,
        };
        let now = Instant::now();
        let until = now.checked_add(MOMENT).unwrap_or(now).min(deadline);
        match tokio::time::timeout_at(until, queue.clone().reserve_owned()).await {
            Ok(Ok(place)) => Ok(Turn(place)),
            Ok(Err(_)) => Err(gone()),
            Err(_) if until == deadline => Err(too_late()),
            Err(_) => Err(Fault::new(Code::Overloaded, "too many requests wait for the signer")
                .retry_after(COME_AGAIN_MS)),
        }
    }

    pub(super) async fn sign(&self, turn: Turn, job: Job) -> Result<Signed, Fault> {
        let deadline = job.deadline;
        let (reply, answer) = oneshot::channel();
        turn.0.send(Queued { job, reply });
        let answered = async { answer.await.map_err(|_| gone())? };
        tokio::time::timeout_at(deadline, answered).await.unwrap_or_else(|_| Err(too_late()))
    }
}

async fn run(link: Link, mut queues: Queues) {
    let places = Arc::new(Semaphore::new(BATCHES_WITH_SIGNER_MAX));
    // The place first, then the choice: whoever comes while all places are taken still counts in it.
    while let Ok(place) = Arc::clone(&places).acquire_owned().await {
        let Some(first) = queues.next().await else { return };
        let groups = queues.gather(first);
        if !groups.is_empty() {
            tokio::spawn(send(link.clone(), groups, place));
        }
    }
}

impl Queues {
    /// Waits for the group that opens the next batch, people before machines; None when nobody can come.
    async fn next(&mut self) -> Option<Queued> {
        if let Some(queued) = self.left_over.take() {
            return Some(queued);
        }
        tokio::select! {
            biased;
            Some(queued) = self.interactive.recv() => Some(queued),
            Some(queued) = self.batch.recv() => Some(queued),
            else => None,
        }
    }

    /// The first group and all that wait and fit with it. Groups that nobody waits for any more are dropped.
    fn gather(&mut self, first: Queued) -> Vec<Queued> {
        let mut room = Room::new();
        let mut groups = Vec::new();
        let mut next = Some(first);
        while let Some(queued) = next {
            if !queued.reply.is_closed() {
                if !room.take(&queued.job) {
                    self.left_over = Some(queued);
                    break;
                }
                groups.push(queued);
            }
            next = self.interactive.try_recv().or_else(|_| self.batch.try_recv()).ok();
        }
        groups
    }
}

/// What is left of the limits of one batch.
struct Room {
    items: usize,
    inline_bytes: usize,
    keys: usize,
}

impl Room {
    const fn new() -> Self {
        Self { items: ITEMS_PER_BATCH_MAX, inline_bytes: INLINE_BYTES_MAX, keys: KEYS_PER_BATCH_MAX }
    }

    /// False: it does not fit; then nothing is taken. A group alone always fits: its own limits are smaller.
    fn take(&mut self, job: &Job) -> bool {
        let inline = job.requests.iter().map(|request| match &request.item.content {
            Content::Midstate(_) => 0,
            Content::Inline(_, bytes) => bytes.len(),
        });
        let left = (
            self.items.checked_sub(job.requests.len()),
            self.inline_bytes.checked_sub(inline.fold(0, usize::saturating_add)),
            self.keys.checked_sub(1),
        );
        let (Some(items), Some(inline_bytes), Some(keys)) = left else { return false };
        *self = Self { items, inline_bytes, keys };
        true
    }
}

/// Sends one batch, waits for its answer, and gives each group its part.
async fn send(link: Link, groups: Vec<Queued>, place: OwnedSemaphorePermit) {
    let deadline = groups.iter().map(|queued| queued.job.deadline).max().unwrap_or_else(Instant::now);
    let mut batch =
        Batch { keys: Vec::new(), requests: Vec::new(), deadline_ms: milliseconds_until(deadline) };
    let mut replies = Vec::with_capacity(groups.len());
    for Queued { job, reply } in groups {
        let _ = job.left.set(Instant::now());
        replies.push((job.requests.len(), reply));
        let known = batch.keys.iter().position(|key| *key == job.key);
        let index = known.unwrap_or(batch.keys.len());
        if known.is_none() {
            batch.keys.push(job.key);
        }
        batch.requests.extend(job.requests.into_iter().map(|mut request| {
            request.key = index;
            request
        }));
    }
    let items = batch.requests.len();
    let answer = link.ask(to_signer::Request::Sign(batch.into_wire()), deadline).await;
    drop(place);
    let outcomes = answer.and_then(|response| match response {
        Response::Sign(result) => parse_outcomes(result, items),
        Response::Failure(_) | Response::Key(_) | Response::ImportKey(_) | Response::Ready(_) => {
            Err(other_answer())
        }
    });
    distribute(outcomes, replies);
}

fn distribute(
    outcomes: Result<Signed, Fault>,
    replies: Vec<(usize, oneshot::Sender<Result<Signed, Fault>>)>,
) {
    match outcomes {
        Ok(outcomes) => {
            let mut outcomes = outcomes.into_iter();
            for (items, reply) in replies {
                let _ = reply.send(Ok(outcomes.by_ref().take(items).collect()));
            }
        }
        Err(fault) => {
            for (_, reply) in replies {
                let _ = reply.send(Err(fault.clone()));
            }
        }
    }
}

/// For the signer: after this nobody waits. Never 0, which would mean for ever.
fn milliseconds_until(deadline: Instant) -> Option<u32> {
    let left = deadline.saturating_duration_since(Instant::now()).as_millis();
    Some(u32::try_from(left).unwrap_or(u32::MAX).max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A queue that nobody empties.
    fn queue() -> (Queue, Queues) {
        let (interactive, interactive_queue) = mpsc::channel(GROUPS_QUEUED_MAX);
        let (batch, batch_queue) = mpsc::channel(GROUPS_QUEUED_MAX);
        (
            Queue { interactive, batch },
            Queues { interactive: interactive_queue, batch: batch_queue, left_over: None },
        )
    }

    fn in_a_while() -> Instant {
        Instant::now().checked_add(Duration::from_secs(60)).unwrap()
    }

    #[tokio::test]
    async fn above_its_places_a_group_is_told_to_come_again_and_the_other_priority_goes_on() {
        let (queue, _queues) = queue();
        let mut turns = Vec::new();
        for _ in 0..GROUPS_QUEUED_MAX {
            turns.push(queue.turn(Priority::Batch, in_a_while()).await.unwrap());
        }
        let begun = Instant::now();
        let Err(refused) = queue.turn(Priority::Batch, in_a_while()).await else {
            panic!("a place too many")
        };
        assert_eq!((refused.code, refused.retry_after_ms), (Code::Overloaded, Some(COME_AGAIN_MS)));
        assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
        let Err(late) = queue.turn(Priority::Batch, Instant::now()).await else { panic!("a place too many") };
        assert_eq!(late.code, Code::DeadlineExceeded);
        assert!(queue.turn(Priority::Interactive, in_a_while()).await.is_ok());
        turns.pop();
        assert!(queue.turn(Priority::Batch, in_a_while()).await.is_ok());
    }
}
