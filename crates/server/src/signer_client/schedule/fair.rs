//! Whose item is next, of one backend and priority: start-time fair queueing (Goyal, Vin, Cheng 1996, "Start-time fair
//! queuing: a scheduling algorithm for integrated services packet switching networks").
//!
//! Time here is virtual: microseconds of work divided by the weight of the client whose work it is. An item of a client
//! begins where its last one ended, or at the virtual time of now if that is later, and the smallest beginning goes
//! next. So clients that always have something waiting get shares by weight, exact to one item of each, and one that
//! had nothing for a while gets its next item at once, but nothing for the time when it asked for nothing.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use super::GroupId;

/// Virtual time of one microsecond at weight 1: fine enough for weights of hundreds, and enough for years.
const SCALE: u64 = 1 << 16;

/// One queue.
#[derive(Default)]
pub(super) struct Fair {
    flows: HashMap<Arc<str>, Flow>,
    /// Clients of which something waits, by the beginning of their next item; who came first to it, first.
    waiting: BTreeMap<Beginning, Arc<str>>,
    /// Clients that hold nothing but have had more than others, by the time until which that is remembered.
    remembered: BTreeSet<(u64, Arc<str>)>,
    virtual_now: u64,
    last_number: u64,
    groups: usize,
    us: u64,
    weights: u64,
}

type Beginning = (u64, u64);

struct Flow {
    weight: u32,
    /// Virtual time at which the next item begins.
    begins: u64,
    /// Its place in `waiting`, if something waits.
    place: Option<Beginning>,
    queued: BTreeSet<GroupId>,
    held: Held,
}

/// What of a client is here: queued, or with a place that is kept for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Held {
    pub(super) groups: usize,
    /// Microseconds of work.
    pub(super) us: u64,
}

/// The group whose item is next.
pub(super) struct Next {
    pub(super) group: GroupId,
    begins: u64,
    weight: u32,
    /// When the client after it is as far.
    other_begins: Option<u64>,
}

impl Next {
    /// Items of so many microseconds that go before another client's turn.
    pub(super) fn run(&self, item_us: u64) -> usize {
        let Some(other) = self.other_begins else { return usize::MAX };
        let items = other.saturating_sub(self.begins).div_ceil(span(item_us, self.weight));
        usize::try_from(items).unwrap_or(usize::MAX).max(1)
    }
}

impl Fair {
    pub(super) const fn held(&self) -> Held {
        Held { groups: self.groups, us: self.us }
    }

    pub(super) fn held_by(&self, client: &str) -> Held {
        self.flows.get(client).map_or_else(Held::default, |flow| flow.held)
    }

    /// Of clients of which something is here.
    pub(super) const fn weights(&self) -> u64 {
        self.weights
    }

    /// A group comes.
    pub(super) fn hold(&mut self, client: &Arc<str>, weight: u32, us: u64) {
        let begins = self.virtual_now;
        let new = || Flow { weight, begins, place: None, queued: BTreeSet::new(), held: Held::default() };
        let flow = self.flows.entry(Arc::clone(client)).or_insert_with(new);
        if flow.held.groups == 0 {
            self.remembered.remove(&(flow.begins, Arc::clone(client)));
        } else {
            self.weights = self.weights.saturating_sub(flow.weight.into());
        }
        // It may have been given another one.
        flow.weight = weight;
        self.weights = self.weights.saturating_add(weight.into());
        flow.held.groups = flow.held.groups.saturating_add(1);
        flow.held.us = flow.held.us.saturating_add(us);
        self.groups = self.groups.saturating_add(1);
        self.us = self.us.saturating_add(us);
    }

    /// A group that is held can be chosen from now on.
    pub(super) fn enqueue(&mut self, client: &str, group: GroupId) {
        let Some((client, mut flow)) = self.flows.remove_entry(client) else { return };
        flow.queued.insert(group);
        self.place(&client, &mut flow);
        self.flows.insert(client, flow);
    }

    /// A group that is held goes, with what is left of its work.
    pub(super) fn release(&mut self, client: &str, group: GroupId, us: u64) {
        let Some((client, mut flow)) = self.flows.remove_entry(client) else { return };
        flow.queued.remove(&group);
        flow.held.groups = flow.held.groups.saturating_sub(1);
        flow.held.us = flow.held.us.saturating_sub(us);
        self.groups = self.groups.saturating_sub(1);
        self.us = self.us.saturating_sub(us);
        if flow.queued.is_empty() {
            self.displace(&mut flow);
        }
        if flow.held.groups == 0 {
            self.weights = self.weights.saturating_sub(flow.weight.into());
        }
        if self.groups == 0 {
            // Nobody waits for anybody: there is nothing to be fair about, and nothing to remember.
            *self = Self::default();
        } else if flow.held.groups > 0 {
            self.flows.insert(client, flow);
        } else if flow.begins > self.virtual_now {
            self.remembered.insert((flow.begins, Arc::clone(&client)));
            self.flows.insert(client, flow);
        }
    }

    /// Whose turn it is.
    pub(super) fn next(&self) -> Option<Next> {
        let mut waiting = self.waiting.iter();
        let ((begins, _), client) = waiting.next()?;
        let flow = self.flows.get(client)?;
        let other_begins = waiting.next().map(|((begins, _), _)| *begins);
        Some(Next { group: *flow.queued.first()?, begins: *begins, weight: flow.weight, other_begins })
    }

    /// So many microseconds of the client's work were taken, as [`Self::next`] said.
    pub(super) fn take(&mut self, client: &str, us: u64) {
        let Some((client, mut flow)) = self.flows.remove_entry(client) else { return };
        self.virtual_now = self.virtual_now.max(flow.begins);
        flow.begins = flow.begins.saturating_add(span(us, flow.weight));
        flow.held.us = flow.held.us.saturating_sub(us);
        self.us = self.us.saturating_sub(us);
        self.displace(&mut flow);
        self.place(&client, &mut flow);
        self.flows.insert(client, flow);
        self.forget();
    }

    /// Where the client stands by its next item, if something of it is queued and it has no place yet.
    fn place(&mut self, client: &Arc<str>, flow: &mut Flow) {
        if flow.place.is_some() || flow.queued.is_empty() {
            return;
        }
        flow.begins = flow.begins.max(self.virtual_now);
        self.last_number = self.last_number.wrapping_add(1);
        let place = (flow.begins, self.last_number);
        flow.place = Some(place);
        self.waiting.insert(place, Arc::clone(client));
    }

    fn displace(&mut self, flow: &mut Flow) {
        if let Some(place) = flow.place.take() {
            self.waiting.remove(&place);
        }
    }

    /// Those who hold nothing, and with whom others have caught up.
    fn forget(&mut self) {
        while self.remembered.first().is_some_and(|(until, _)| *until <= self.virtual_now) {
            if let Some((_, client)) = self.remembered.pop_first() {
                self.flows.remove(&client);
            }
        }
    }
}

/// Virtual time of so many microseconds; never nothing.
fn span(us: u64, weight: u32) -> u64 {
    us.max(1).saturating_mul(SCALE).div_ceil(u64::from(weight.max(1)))
}
