//! Who is signed for next (docs/adr/0015-scheduler.md): places, shares, priorities, deadlines, refusals. Numbers only:
//! no clock (time is an argument), no socket, no content. `queue.rs` keeps what the groups carry.
//!
//! Each backend has its lane: two queues, interactive and batch, and for each so many batches with the signer. A batch
//! keeps its place until [`Schedule::done`]; a backend that stands still so stops its own lane and no other.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use sealwright_crypto::algorithm::KeyAlgorithm;
use sealwright_proto::convert::group::Priority;
use sealwright_proto::limits::{INLINE_BYTES_MAX, ITEMS_PER_BATCH_MAX, KEYS_PER_BATCH_MAX};
use tokio::time::Instant;
use uuid::Uuid;

mod allowance;
mod costs;
mod fair;
#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;

use allowance::Allowances;
use costs::{Costs, Width};
use fair::{Fair, Held};

/// Groups of one backend and priority that wait. A client may hold as many of the places as are free: one alone gets
/// half of them, and there is always one for who has none.
const PLACES: usize = 2048;

/// Batches of one backend and priority with the signer at once: two a processor keep it busy while answers and
/// questions travel.
const BATCHES_PER_PROCESSOR: usize = 2;
const BATCHES_MIN: usize = 4;

/// The same of a token, whose sessions work at once: front does not know how many it has.
const BATCHES_OF_TOKEN: usize = 16;

/// The backend whose operations take our processors.
const SOFTWARE: &str = "software";

/// Microseconds of work in one batch, about, and at least one item: one RSA-4096 operation, so that what comes later
/// waits for few of them.
const BATCH_US: u64 = 5_000;

/// Batches of priority batch with our processors: one is worked on, and the next is there when it is done.
const MASS_BATCHES: usize = 2;

/// Microseconds of work in one of those, for each processor: 32 RSA-4096 operations. What is answered together shares
/// one frame, and two commits of the store, which take as much as a fifth of such an operation.
const MASS_BATCH_US: u64 = 160_000;

/// The part of the time that the signer gives to batch work while both kinds wait (`crates/signer/src/ipc/queue.rs`).
const BATCH_SHARE: u64 = 8;

/// Backends that are remembered before those without work are forgotten, with what their operations take.
const LANES_MAX: usize = 256;

/// When a refused group is told to come again, in milliseconds.
const COME_AGAIN_MS_MIN: u64 = 100;
const COME_AGAIN_MS_MAX: u64 = 30_000;

/// The number of a group, in the order of arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct GroupId(u64);

/// What is known of a group before it has a place.
#[derive(Clone, Debug)]
pub(crate) struct Ask {
    /// Where its key works.
    pub(crate) backend: Arc<str>,
    /// The principal.
    pub(crate) client: Arc<str>,
    /// The principal's share.
    pub(crate) weight: u32,
    /// As it was asked for.
    pub(crate) priority: Priority,
    pub(crate) algorithm: KeyAlgorithm,
    /// Id and generation.
    pub(crate) key: (Uuid, u32),
    /// At least one.
    pub(crate) items: usize,
    /// Inline content of all items, and the largest of one.
    pub(crate) inline_bytes: usize,
    pub(crate) inline_bytes_max: usize,
    pub(crate) deadline: Instant,
}

/// Why a group gets no place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refused {
    /// Its time is over.
    Late,
    /// It would wait for longer than it has time.
    TooLong { wait: Duration, come_again_ms: u32 },
    /// All places that its client can have are taken.
    Full { come_again_ms: u32 },
}

/// Some items of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) group: GroupId,
    /// Of its items.
    pub(super) first: usize,
    pub(super) items: usize,
}

/// What goes to the signer now.
#[derive(Debug)]
pub(super) struct Outgoing {
    pub(super) parts: Vec<Part>,
    pub(super) place: Place,
}

/// A place with the signer, to be given back by [`Schedule::done`].
#[derive(Debug)]
pub(super) struct Place {
    pub(super) backend: Arc<str>,
    pub(super) priority: Priority,
    items: u64,
    us: u64,
    /// If it is the same for all.
    algorithm: Option<KeyAlgorithm>,
}

/// What [`Schedule::next`] found.
#[derive(Debug, Default)]
pub(super) struct Chosen {
    /// Their time was over; they have left.
    pub(super) late: Vec<GroupId>,
    pub(super) outgoing: Option<Outgoing>,
}

/// One queue, for metrics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Length {
    pub(crate) backend: Arc<str>,
    pub(crate) priority: Priority,
    /// Groups, those with a place that is kept for them too.
    pub(crate) groups: usize,
    /// Estimated work in them, microseconds of one processor.
    pub(crate) us: u64,
    /// Batches with the signer.
    pub(crate) batches: usize,
}

/// See the module.
pub(super) struct Schedule {
    processors: u64,
    lanes: HashMap<Arc<str>, Lane>,
    groups: HashMap<GroupId, Group>,
    last_id: u64,
}

struct Group {
    backend: Arc<str>,
    client: Arc<str>,
    /// As it is treated.
    priority: Priority,
    algorithm: KeyAlgorithm,
    key: (Uuid, u32),
    items: usize,
    /// The first of its items that has not left.
    next: usize,
    /// Microseconds of one item: for shares and waits, as measured; for what is with the signer, by the table.
    item_us: u64,
    item_nominal_us: u64,
    inline_bytes_max: usize,
    deadline: Instant,
}

impl Group {
    const fn left(&self) -> usize {
        self.items.saturating_sub(self.next)
    }

    fn us_left(&self) -> u64 {
        times(self.left(), self.item_us)
    }
}

#[derive(Default)]
struct Lane {
    interactive: Queue,
    batch: Queue,
    costs: Costs,
    width: Width,
    allowances: Allowances,
}

#[derive(Default)]
struct Queue {
    waiting: Fair,
    /// With the signer.
    batches: usize,
    us: u64,
    /// When one of those was done, or the first of them left.
    moved: Option<Instant>,
}

impl Lane {
    const fn queue(&self, priority: Priority) -> &Queue {
        match priority {
            Priority::Interactive => &self.interactive,
            Priority::Batch => &self.batch,
        }
    }

    const fn queue_mut(&mut self, priority: Priority) -> &mut Queue {
        match priority {
            Priority::Interactive => &mut self.interactive,
            Priority::Batch => &mut self.batch,
        }
    }

    fn is_idle(&self) -> bool {
        [&self.interactive, &self.batch]
            .iter()
            .all(|queue| queue.batches == 0 && queue.waiting.held().groups == 0)
    }
}

impl Schedule {
    pub(super) fn new(processors: usize) -> Self {
        let processors = u64::try_from(processors).unwrap_or(u64::MAX).max(1);
        Self { processors, lanes: HashMap::new(), groups: HashMap::new(), last_id: 0 }
    }

    /// A place for a group. It is to be given back by [`Self::withdraw`], or used by [`Self::enqueue`].
    ///
    /// # Errors
    /// See [`Refused`].
    pub(super) fn admit(&mut self, ask: &Ask, now: Instant) -> Result<GroupId, Refused> {
        let left = ask.deadline.saturating_duration_since(now);
        if left.is_zero() {
            return Err(Refused::Late);
        }
        self.forget_idle_lanes(&ask.backend);
        let processors = self.processors;
        let lane = self.lanes.entry(Arc::clone(&ask.backend)).or_default();
        let inline_us = inline_us(ask);
        let item_us = lane.costs.of(ask.algorithm).saturating_add(inline_us);
        let us = times(ask.items, item_us);
        let priority = match ask.priority {
            Priority::Interactive if lane.allowances.covers(&ask.client, ask.weight, us, processors, now) => {
                Priority::Interactive
            }
            Priority::Interactive | Priority::Batch => Priority::Batch,
        };
        let wait = Wait { lane, priority, ask, processors };
        wait.check(us, left, now)?;
        if priority == Priority::Interactive {
            lane.allowances.spend(&ask.client, ask.weight, us, processors, now);
        }
        lane.queue_mut(priority).waiting.hold(&ask.client, ask.weight, us);
        self.last_id = self.last_id.wrapping_add(1);
        let id = GroupId(self.last_id);
        let group = Group {
            backend: Arc::clone(&ask.backend),
            client: Arc::clone(&ask.client),
            priority,
            algorithm: ask.algorithm,
            key: ask.key,
            items: ask.items,
            next: 0,
            item_us,
            item_nominal_us: u64::from(ask.algorithm.nominal_us()).saturating_add(inline_us),
            inline_bytes_max: ask.inline_bytes_max,
            deadline: ask.deadline,
        };
        self.groups.insert(id, group);
        Ok(id)
    }

    /// The group can leave from now on. As what it is treated.
    pub(super) fn enqueue(&mut self, id: GroupId) -> Option<Priority> {
        let group = self.groups.get(&id)?;
        let lane = self.lanes.get_mut(&group.backend)?;
        lane.queue_mut(group.priority).waiting.enqueue(&group.client, id);
        Some(group.priority)
    }

    /// What of the group has not left does not any more. False: all of it has.
    pub(super) fn withdraw(&mut self, id: GroupId) -> bool {
        let Some(group) = self.groups.remove(&id) else { return false };
        if let Some(lane) = self.lanes.get_mut(&group.backend) {
            lane.queue_mut(group.priority).waiting.release(&group.client, id, group.us_left());
        }
        true
    }

    /// Whether some of the group has left, or all.
    pub(super) fn has_begun(&self, id: GroupId) -> bool {
        self.groups.get(&id).is_none_or(|group| group.next > 0)
    }

    /// The next batch of this backend, if it has a place with the signer.
    pub(super) fn next(&mut self, backend: &str, now: Instant) -> Chosen {
        let mut chosen = Chosen::default();
        for priority in [Priority::Interactive, Priority::Batch] {
            let batches = self.lanes.get(backend).map_or(usize::MAX, |lane| lane.queue(priority).batches);
            let most = Most::of(backend, priority, self.processors);
            if batches < most.batches && chosen.outgoing.is_none() {
                chosen.outgoing = self.fill(backend, priority, now, &mut chosen.late);
            }
        }
        chosen
    }

    /// The signer has answered a batch, or died: its place is free. It took so many microseconds, if it says so.
    pub(super) fn done(&mut self, place: &Place, worked_us: Option<u64>, now: Instant) {
        let Some(lane) = self.lanes.get_mut(&place.backend) else { return };
        let queue = lane.queue_mut(place.priority);
        queue.batches = queue.batches.saturating_sub(1);
        queue.us = queue.us.saturating_sub(place.us);
        queue.moved = Some(now);
        let does_work_wait =
            lane.interactive.waiting.held().groups > 0 || lane.batch.waiting.held().groups > 0;
        lane.width.learn(worked_us.unwrap_or(place.us), now, does_work_wait);
        if let (Some(algorithm), Some(us)) = (place.algorithm, worked_us) {
            lane.costs.learn(algorithm, us.checked_div(place.items).unwrap_or(us));
        }
    }

    /// All queues.
    pub(super) fn lengths(&self) -> Vec<Length> {
        let queues = self.lanes.iter().flat_map(|(backend, lane)| {
            [Priority::Interactive, Priority::Batch].map(|priority| {
                let queue = lane.queue(priority);
                let Held { groups, us } = queue.waiting.held();
                Length { backend: Arc::clone(backend), priority, groups, us, batches: queue.batches }
            })
        });
        queues.collect()
    }

    fn fill(
        &mut self,
        backend: &str,
        priority: Priority,
        now: Instant,
        late: &mut Vec<GroupId>,
    ) -> Option<Outgoing> {
        let backend = Arc::clone(self.lanes.get_key_value(backend)?.0);
        let most = Most::of(&backend, priority, self.processors);
        let (mut room, mut parts) = (Room::new(most.us), Vec::new());
        while let Some(next) = self.lane(&backend).and_then(|lane| lane.queue(priority).waiting.next()) {
            let id = next.group;
            let Some(group) = self.groups.get_mut(&id) else { break };
            if group.deadline <= now {
                late.push(id);
                self.withdraw(id);
                continue;
            }
            let items = room.fits(group).min(group.left()).min(next.run(group.item_us));
            if items == 0 {
                break;
            }
            room.take(group, items);
            parts.push(Part { group: id, first: group.next, items });
            group.next = group.next.saturating_add(items);
            let lane = self.lanes.get_mut(&backend)?;
            lane.queue_mut(priority).waiting.take(&group.client, times(items, group.item_us));
            if group.left() == 0 {
                self.withdraw(id);
            }
        }
        if parts.is_empty() {
            return None;
        }
        let queue = self.lanes.get_mut(&backend)?.queue_mut(priority);
        if queue.batches == 0 {
            queue.moved = Some(now);
        }
        queue.batches = queue.batches.saturating_add(1);
        queue.us = queue.us.saturating_add(room.us);
        Some(Outgoing { parts, place: room.place(backend, priority) })
    }

    fn lane(&self, backend: &str) -> Option<&Lane> {
        self.lanes.get(backend)
    }

    fn forget_idle_lanes(&mut self, but: &str) {
        if self.lanes.len() >= LANES_MAX && !self.lanes.contains_key(but) {
            self.lanes.retain(|_, lane| !lane.is_idle());
        }
    }
}

/// What is in a batch, against the limits of one.
struct Room {
    items: usize,
    inline_bytes: usize,
    keys: HashSet<(Uuid, u32)>,
    nominal_us: u64,
    nominal_us_max: u64,
    /// As measured.
    us: u64,
    algorithms: HashSet<KeyAlgorithm>,
}

impl Room {
    fn new(nominal_us_max: u64) -> Self {
        Self {
            items: 0,
            inline_bytes: 0,
            keys: HashSet::new(),
            nominal_us: 0,
            nominal_us_max,
            us: 0,
            algorithms: HashSet::new(),
        }
    }

    /// How many items of the group fit with what is there; into an empty batch, at least one. All limits of a group
    /// are smaller than those of a batch.
    fn fits(&self, group: &Group) -> usize {
        if !self.keys.contains(&group.key) && self.keys.len() >= KEYS_PER_BATCH_MAX {
            return 0;
        }
        let items = ITEMS_PER_BATCH_MAX.saturating_sub(self.items);
        let bytes = INLINE_BYTES_MAX.saturating_sub(self.inline_bytes);
        let by_bytes = bytes.checked_div(group.inline_bytes_max).unwrap_or(usize::MAX);
        let us = self.nominal_us_max.saturating_sub(self.nominal_us);
        let by_us = us.checked_div(group.item_nominal_us).unwrap_or(u64::MAX);
        let fits = items.min(by_bytes).min(usize::try_from(by_us).unwrap_or(usize::MAX));
        if self.items == 0 { fits.max(1) } else { fits }
    }

    fn take(&mut self, group: &Group, items: usize) {
        self.items = self.items.saturating_add(items);
        self.inline_bytes = self.inline_bytes.saturating_add(group.inline_bytes_max.saturating_mul(items));
        self.keys.insert(group.key);
        self.nominal_us = self.nominal_us.saturating_add(times(items, group.item_nominal_us));
        self.us = self.us.saturating_add(times(items, group.item_us));
        self.algorithms.insert(group.algorithm);
    }

    fn place(self, backend: Arc<str>, priority: Priority) -> Place {
        let mut algorithms = self.algorithms.into_iter();
        let algorithm = algorithms.next().filter(|_| algorithms.next().is_none());
        let items = u64::try_from(self.items).unwrap_or(u64::MAX);
        Place { backend, priority, items, us: self.us, algorithm }
    }
}

/// What is ahead of a group that comes now.
struct Wait<'a> {
    lane: &'a Lane,
    priority: Priority,
    ask: &'a Ask,
    processors: u64,
}

impl Wait<'_> {
    fn check(&self, us: u64, left: Duration, now: Instant) -> Result<(), Refused> {
        let waiting = &self.lane.queue(self.priority).waiting;
        let free = PLACES.saturating_sub(waiting.held().groups);
        if waiting.held_by(&self.ask.client).groups >= free {
            // When about half of what its client has here is done: then there are places for many.
            let wait = self.us(0) / 2;
            return Err(Refused::Full { come_again_ms: come_again_ms(wait) });
        }
        let wait = Duration::from_micros(self.us(us)).saturating_add(self.stands_still(now));
        if wait > left {
            let more = u64::try_from(wait.saturating_sub(left).as_micros()).unwrap_or(u64::MAX);
            return Err(Refused::TooLong { wait, come_again_ms: come_again_ms(more) });
        }
        Ok(())
    }

    /// How long nothing has come back from the signer, which has all that it may have. It may take as long again.
    fn stands_still(&self, now: Instant) -> Duration {
        let queue = self.lane.queue(self.priority);
        let most = Most::of(&self.ask.backend, self.priority, self.processors);
        let moved = queue.moved.filter(|_| queue.batches >= most.batches);
        moved.map_or(Duration::ZERO, |moved| now.saturating_duration_since(moved))
    }

    /// Microseconds until so much more of this client would be done, if nobody else came.
    fn us(&self, more_us: u64) -> u64 {
        let queue = self.lane.queue(self.priority);
        let (all, own) = (queue.waiting.held(), queue.waiting.held_by(&self.ask.client));
        let weight = u64::from(self.ask.weight.max(1));
        let own_weight = if own.groups == 0 { weight } else { 0 };
        let weights = queue.waiting.weights().saturating_add(own_weight);
        let own_us = own.us.saturating_add(more_us);
        // While its own is done, each other client gets as much for its weight, or all it has.
        let by_share = own_us.saturating_mul(weights).div_ceil(weight);
        let ahead = by_share.min(all.us.saturating_add(more_us)).saturating_add(queue.us);
        let with_other = match self.priority {
            Priority::Interactive => {
                let share = ahead / (BATCH_SHARE - 1);
                ahead.saturating_add(share.min(self.lane.batch.waiting.held().us))
            }
            Priority::Batch => {
                let all = ahead.saturating_add(self.lane.interactive.waiting.held().us);
                all.min(ahead.saturating_mul(BATCH_SHARE))
            }
        };
        self.lane.width.time_us(with_other, self.processors)
    }
}

/// What a backend may have of one priority with the signer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Most {
    batches: usize,
    /// Microseconds of work in one of them, by the table.
    us: u64,
}

impl Most {
    fn of(backend: &str, priority: Priority, processors: u64) -> Self {
        if backend != SOFTWARE {
            return Self { batches: BATCHES_OF_TOKEN, us: BATCH_US };
        }
        match priority {
            Priority::Interactive => {
                let processors = usize::try_from(processors).unwrap_or(usize::MAX);
                let batches = processors.saturating_mul(BATCHES_PER_PROCESSOR).max(BATCHES_MIN);
                Self { batches, us: BATCH_US }
            }
            Priority::Batch => Self { batches: MASS_BATCHES, us: MASS_BATCH_US.saturating_mul(processors) },
        }
    }
}

/// Microseconds that the inline content of an item takes to hash, about: half a GB a second.
fn inline_us(ask: &Ask) -> u64 {
    let each = ask.inline_bytes.checked_div(ask.items).unwrap_or(0);
    u64::try_from(each / 512).unwrap_or(u64::MAX)
}

fn come_again_ms(wait_us: u64) -> u32 {
    let ms = (wait_us / 1000).clamp(COME_AGAIN_MS_MIN, COME_AGAIN_MS_MAX);
    u32::try_from(ms).unwrap_or(u32::MAX)
}

fn times(items: usize, us: u64) -> u64 {
    u64::try_from(items).unwrap_or(u64::MAX).saturating_mul(us)
}
