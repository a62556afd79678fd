//! Groups wait here until the schedule sends their items to the signer; what comes back is put together again.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use sealwright_proto::convert::batch::{Batch, Request, SealedKey, SignedItem, parse_outcomes};
use sealwright_proto::convert::group::Priority;
use sealwright_proto::signer_v1::from_signer::Response;
use sealwright_proto::status::{Code, Fault};
use tokio::sync::{oneshot, watch};
use tokio::time::Instant;

use super::schedule::{Ask, GroupId, Length, Outgoing, Part, Place, Refused, Schedule};
use super::{Job, Link, Signed, gone, other_answer, too_late};
use crate::metrics::Histogram;

/// Backends whose waits are counted.
const COUNTED_MAX: usize = 256;

#[derive(Clone)]
pub(super) struct Queue {
    shared: Arc<Shared>,
    /// When the last clone is gone, nothing is waited for any more, so that the socket to the signer is closed.
    _open: Arc<watch::Sender<()>>,
}

struct Shared {
    link: Link,
    /// Ends with the last [`Queue`].
    open: watch::Receiver<()>,
    /// Held for as long as a batch is chosen, never across a wait.
    state: Mutex<State>,
}

struct State {
    schedule: Schedule,
    waiting: HashMap<GroupId, Waiting>,
    waits: HashMap<Arc<str>, Arc<Waits>>,
}

/// How long groups of one backend waited until the first of their items left.
#[derive(Debug)]
pub(crate) struct Waits {
    pub(crate) interactive: Histogram,
    pub(crate) batch: Histogram,
}

/// One queue as it is now, for metrics.
#[derive(Clone, Debug)]
pub(crate) struct QueueNow {
    pub(crate) length: Length,
    /// Of its backend; nothing has left it yet if there is none.
    pub(crate) waits: Option<Arc<Waits>>,
}

/// A place in the queue; only [`Queue::turn`] makes one. It is given back when this is dropped.
pub(crate) struct Turn {
    shared: Arc<Shared>,
    id: GroupId,
    backend: Arc<str>,
}

struct Waiting {
    key: SealedKey,
    /// Those that have not left.
    requests: std::vec::IntoIter<Request>,
    outcomes: Vec<Option<Result<SignedItem, Fault>>>,
    missing: usize,
    since: Instant,
    left: Arc<OnceLock<Instant>>,
    deadline: Instant,
    reply: oneshot::Sender<Result<Signed, Fault>>,
}

impl Queue {
    pub(super) fn start(link: Link) -> Self {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let state =
            State { schedule: Schedule::new(processors), waiting: HashMap::new(), waits: HashMap::new() };
        let (open, receiver) = watch::channel(());
        let shared = Arc::new(Shared { link, open: receiver, state: Mutex::new(state) });
        Self { shared, _open: Arc::new(open) }
    }

    /// A place, taken before anything is written down for the group.
    pub(super) fn turn(&self, ask: &Ask) -> Result<Turn, Fault> {
        let admitted = self.shared.state().schedule.admit(ask, Instant::now());
        let id = admitted.map_err(refusal)?;
        Ok(Turn { shared: Arc::clone(&self.shared), id, backend: Arc::clone(&ask.backend) })
    }

    /// Waits for the signatures. When the client goes away before any item has left for the signer, the group leaves.
    pub(super) async fn sign(
        &self,
        turn: Turn,
        job: Job,
        client_gone: impl Future<Output = ()>,
    ) -> Result<Signed, Fault> {
        let (reply, answer) = oneshot::channel();
        let deadline = job.deadline;
        if self.shared.enqueue(turn.id, job, reply) == Some(Priority::Batch) {
            // Those whose intents were written together come along. Who is alone finds nobody to wait for.
            tokio::task::yield_now().await;
        }
        self.shared.send_what_fits(&turn.backend);
        let answered = async { answer.await.map_err(|_| gone())? };
        let answered = tokio::time::timeout_at(deadline, answered);
        tokio::pin!(answered);
        let answered = tokio::select! {
            biased;
            answered = &mut answered => answered,
            () = client_gone => {
                if turn.leaves_unbegun() {
                    return Err(went_away());
                }
                answered.await
            }
        };
        answered.unwrap_or_else(|_| Err(too_late()))
    }

    /// All queues.
    pub(super) fn now(&self) -> Vec<QueueNow> {
        let state = self.shared.state();
        let lengths = state.schedule.lengths().into_iter();
        let now = lengths.map(|length| {
            let waits = state.waits.get(&length.backend).map(Arc::clone);
            QueueNow { length, waits }
        });
        now.collect()
    }
}

impl Turn {
    /// False: some of it has left.
    fn leaves_unbegun(&self) -> bool {
        let mut state = self.shared.state();
        if state.schedule.has_begun(self.id) {
            return false;
        }
        state.withdraw(self.id);
        true
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.shared.state().withdraw(self.id);
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The priority that the group has.
    fn enqueue(
        &self,
        id: GroupId,
        job: Job,
        reply: oneshot::Sender<Result<Signed, Fault>>,
    ) -> Option<Priority> {
        let Job { key, requests, deadline, left } = job;
        let missing = requests.len();
        let waiting = Waiting {
            key,
            requests: requests.into_iter(),
            outcomes: vec![None; missing],
            missing,
            since: Instant::now(),
            left,
            deadline,
            reply,
        };
        let mut state = self.state();
        state.waiting.insert(id, waiting);
        state.schedule.enqueue(id)
    }

    /// As long as the backend has places with the signer, and something waits for it.
    fn send_what_fits(self: &Arc<Self>, backend: &str) {
        loop {
            let sending = self.state().next(backend, Instant::now());
            let Some(sending) = sending else { return };
            tokio::spawn(Arc::clone(self).send(sending));
        }
    }

    /// Sends one batch, waits for its answer, and gives each group its part.
    async fn send(self: Arc<Self>, sending: Sending) {
        let Sending { batch, parts, place, deadline } = sending;
        let items = batch.requests.len();
        let mut open = self.open.clone();
        let answer = tokio::select! {
            biased;
            answer = self.link.ask_to_sign(batch, deadline) => answer,
            // Everybody who waited is gone, too.
            _ = open.changed() => return,
        };
        let (worked_us, outcomes) = match answer {
            Ok(Response::Sign(result)) => {
                ((result.worked_us > 0).then_some(result.worked_us), parse_outcomes(result, items))
            }
            Ok(
                Response::Failure(_)
                | Response::Key(_)
                | Response::ImportKey(_)
                | Response::Ready(_)
                | Response::ProjectKey(_),
            ) => (None, Err(other_answer())),
            Err(fault) => (None, Err(fault)),
        };
        let mut state = self.state();
        state.schedule.done(&place, worked_us, Instant::now());
        state.distribute(&parts, outcomes);
        drop(state);
        self.send_what_fits(&place.backend);
    }
}

/// One batch on its way.
struct Sending {
    batch: Batch,
    parts: Vec<Part>,
    place: Place,
    /// When nobody waits for any of it.
    deadline: Instant,
}

impl State {
    /// Also what still waits of a group whose answer nobody reads any more.
    fn withdraw(&mut self, id: GroupId) {
        self.schedule.withdraw(id);
        self.waiting.remove(&id);
    }

    fn next(&mut self, backend: &str, now: Instant) -> Option<Sending> {
        let chosen = self.schedule.next(backend, now);
        for id in chosen.late {
            if let Some(waiting) = self.waiting.remove(&id) {
                let _ = waiting.reply.send(Err(too_late()));
            }
        }
        chosen.outgoing.map(|outgoing| self.put_together(outgoing, now))
    }

    fn put_together(&mut self, outgoing: Outgoing, now: Instant) -> Sending {
        let Outgoing { parts, place } = outgoing;
        let waits = self.waits(&place.backend);
        let mut batch =
            Batch { keys: Vec::new(), requests: Vec::new(), deadline_ms: None, priority: place.priority };
        let mut deadline = now;
        for part in &parts {
            let Some(waiting) = self.waiting.get_mut(&part.group) else { continue };
            if waiting.left.set(now).is_ok()
                && let Some(waits) = &waits
            {
                waits.of(place.priority).observe(now.saturating_duration_since(waiting.since));
            }
            deadline = deadline.max(waiting.deadline);
            let known = batch.keys.iter().position(|key| *key == waiting.key);
            let key = known.unwrap_or(batch.keys.len());
            if known.is_none() {
                batch.keys.push(waiting.key.clone());
            }
            let requests = waiting.requests.by_ref().take(part.items);
            batch.requests.extend(requests.map(|request| Request { key, ..request }));
        }
        Sending { batch, parts, place, deadline }
    }

    fn waits(&mut self, backend: &Arc<str>) -> Option<Arc<Waits>> {
        if self.waits.len() >= COUNTED_MAX && !self.waits.contains_key(backend) {
            return None;
        }
        let waits = self.waits.entry(Arc::clone(backend)).or_insert_with(|| Arc::new(Waits::new()));
        Some(Arc::clone(waits))
    }

    /// Each group is answered when its last item is there, or with the first failure of a whole batch.
    fn distribute(&mut self, parts: &[Part], outcomes: Result<Signed, Fault>) {
        let (outcomes, fault) = match outcomes {
            Ok(outcomes) => (outcomes, None),
            Err(fault) => (Vec::new(), Some(fault)),
        };
        let mut outcomes = outcomes.into_iter();
        for part in parts {
            let of_part = outcomes.by_ref().take(part.items);
            let Some(waiting) = self.waiting.get_mut(&part.group) else {
                // Nobody waits for these any more.
                of_part.for_each(drop);
                continue;
            };
            for (place, outcome) in waiting.outcomes.iter_mut().skip(part.first).zip(of_part) {
                *place = Some(outcome);
                waiting.missing = waiting.missing.saturating_sub(1);
            }
            if (fault.is_some() || waiting.missing == 0)
                && let Some(waiting) = self.waiting.remove(&part.group)
            {
                self.schedule.withdraw(part.group);
                let all = waiting.outcomes.into_iter().collect::<Option<Vec<_>>>();
                let answer = fault.clone().map_or_else(|| all.ok_or_else(other_answer), Err);
                let _ = waiting.reply.send(answer);
            }
        }
    }
}

impl Waits {
    const fn new() -> Self {
        Self { interactive: Histogram::new(), batch: Histogram::new() }
    }

    /// Those of one priority.
    pub(crate) const fn of(&self, priority: Priority) -> &Histogram {
        match priority {
            Priority::Interactive => &self.interactive,
            Priority::Batch => &self.batch,
        }
    }
}

fn refusal(refused: Refused) -> Fault {
    match refused {
        Refused::Late => {
            Fault::new(Code::DeadlineExceeded, "the request's time was over before it had a place")
        }
        Refused::TooLong { wait, come_again_ms } => {
            let message = format!(
                "what waits for the signer takes about {} ms, longer than the request has time",
                wait.as_millis()
            );
            Fault::new(Code::Overloaded, message).retry_after(come_again_ms)
        }
        Refused::Full { come_again_ms } => {
            Fault::new(Code::Overloaded, "too many requests of this client wait for the signer")
                .retry_after(come_again_ms)
        }
    }
}

fn went_away() -> Fault {
    Fault::new(Code::DeadlineExceeded, "the client went away before its turn came")
}
