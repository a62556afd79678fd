//! Who is in, by address, and who of those that have not said who they are goes first when there is no room.
//!
//! Two ordered sets, one of all and one of each address; each step costs the logarithm of what is in them, and they hold
//! no more than the limits say.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use super::Refused;
use crate::Limits;

/// How far somebody is who has not said who he is. The first in this order goes first, the oldest of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Standing {
    /// Has not sent a whole first message.
    Silent,
    /// Has been waited for longer than anybody needs who is there; or was told that he cannot stay.
    Late,
    /// Has done his part: the next step is ours. Stays.
    Working,
}

/// For so long a newcomer may be silent before he may have to leave for one of another address: in a storm all are
/// silent for a moment, and a newcomer does better to wait.
pub(super) const SILENT_MIN: Duration = Duration::from_secs(2);

/// In order of their age.
type Number = u64;

/// What a newcomer gets.
pub(super) struct Entered {
    pub(super) number: Number,
    /// Ends when he has to leave.
    pub(super) stay: oneshot::Receiver<()>,
}

struct Waiting {
    address: IpAddr,
    since: Instant,
    standing: Standing,
    /// Dropped, it tells him to leave.
    _stay: oneshot::Sender<()>,
}

#[derive(Default)]
struct OfAddress {
    order: BTreeSet<(Standing, Number)>,
    authenticated: u32,
}

#[derive(Default)]
pub(super) struct Book {
    next: Number,
    waiting: BTreeMap<Number, Waiting>,
    order: BTreeSet<(Standing, Number)>,
    by_address: HashMap<IpAddr, OfAddress>,
    authenticated: u32,
}

impl Book {
    /// Room for a newcomer, of whom nothing is known but his address.
    pub(super) fn enter(
        &mut self,
        address: IpAddr,
        limits: &Limits,
        now: Instant,
    ) -> Result<Entered, Refused> {
        if self.authenticated >= limits.connections.max(1) {
            return Err(Refused::Connections);
        }
        let leaves = self.who_leaves_for(address, limits, now)?;
        if let Some(number) = leaves {
            self.forget(number);
        }
        let number = self.next;
        self.next = self.next.saturating_add(1);
        let (sender, stay) = oneshot::channel();
        self.waiting
            .insert(number, Waiting { address, since: now, standing: Standing::Silent, _stay: sender });
        self.order.insert((Standing::Silent, number));
        self.by_address.entry(address).or_default().order.insert((Standing::Silent, number));
        Ok(Entered { number, stay })
    }

    /// Whoever has to, if anybody has to.
    fn who_leaves_for(
        &self,
        address: IpAddr,
        limits: &Limits,
        now: Instant,
    ) -> Result<Option<Number>, Refused> {
        let of_all = usize::try_from(limits.unauthenticated.max(1)).unwrap_or(usize::MAX);
        let of_one = usize::try_from(limits.unauthenticated_per_address.max(1)).unwrap_or(usize::MAX);
        if let Some(here) = self.by_address.get(&address) {
            if here.authenticated >= limits.connections_per_address.max(1) {
                return Err(Refused::Address);
            }
            if here.order.len() >= of_one {
                return first_to_leave(&here.order).map(Some).ok_or(Refused::Address);
            }
        }
        if self.order.len() < of_all {
            return Ok(None);
        }
        let has_been_silent = |number: &Number| {
            let since = self.waiting.get(number).map(|waiting| waiting.since);
            since.is_some_and(|since| now.saturating_duration_since(since) >= SILENT_MIN)
        };
        let silent = first_to_leave(&self.order).filter(has_been_silent);
        let late =
            || self.order.range((Standing::Late, 0)..(Standing::Working, 0)).next().map(|(_, late)| *late);
        silent.or_else(late).map(Some).ok_or(Refused::NotNow)
    }

    /// Another standing; nothing for one who has to leave.
    pub(super) fn stands(&mut self, number: Number, standing: Standing) {
        let Some(waiting) = self.waiting.get_mut(&number) else { return };
        let (old, new) = ((waiting.standing, number), (standing, number));
        waiting.standing = standing;
        self.order.remove(&old);
        self.order.insert(new);
        if let Some(here) = self.by_address.get_mut(&waiting.address) {
            here.order.remove(&old);
            here.order.insert(new);
        }
    }

    /// He has said who he is, and is counted with those. Refused, he is where he was.
    pub(super) fn authenticate(&mut self, number: Number, limits: &Limits) -> Result<(), Refused> {
        let address = self.waiting.get(&number).ok_or(Refused::NotNow)?.address;
        if self.authenticated >= limits.connections.max(1) {
            return Err(Refused::Connections);
        }
        let here = self.by_address.entry(address).or_default();
        if here.authenticated >= limits.connections_per_address.max(1) {
            return Err(Refused::Address);
        }
        here.authenticated = here.authenticated.saturating_add(1);
        self.authenticated = self.authenticated.saturating_add(1);
        self.forget(number);
        Ok(())
    }

    /// One that had not said who he is has gone, or has to.
    pub(super) fn forget(&mut self, number: Number) {
        let Some(Waiting { address, standing, .. }) = self.waiting.remove(&number) else { return };
        self.order.remove(&(standing, number));
        self.of_address(address, |here| {
            here.order.remove(&(standing, number));
        });
    }

    /// One that had said who he is has gone.
    pub(super) fn left(&mut self, address: IpAddr) {
        self.authenticated = self.authenticated.saturating_sub(1);
        self.of_address(address, |here| here.authenticated = here.authenticated.saturating_sub(1));
    }

    /// Changes what is held of an address, and forgets an address of which there is nobody.
    fn of_address(&mut self, address: IpAddr, change: impl FnOnce(&mut OfAddress)) {
        if let Entry::Occupied(mut here) = self.by_address.entry(address) {
            change(here.get_mut());
            if here.get().order.is_empty() && here.get().authenticated == 0 {
                here.remove();
            }
        }
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
            && self.order.is_empty()
            && self.by_address.is_empty()
            && self.authenticated == 0
    }
}

fn first_to_leave(order: &BTreeSet<(Standing, Number)>) -> Option<Number> {
    match order.first()? {
        (Standing::Silent | Standing::Late, number) => Some(*number),
        (Standing::Working, _) => None,
    }
}
