//! Room for connections, and places for handshakes.
//!
//! Who has not said who he is costs a descriptor and little else, and is counted apart from those who have, so that he
//! can never be in their way. Where there is no room for one more, the one that has been silent for longest leaves; who
//! has done his part, and waits for us, never does. If all wait for us or have just come, a newcomer waits, those after
//! him in the kernel's backlog.
//!
//! Over the number of connections that may be, or of those of one address, a socket is closed at once: it has cost
//! nothing.
//!
//! Who has sent his first message waits for a place: handshakes are computed a few at a time, in order, so that a storm
//! of clients is served whole and nobody else waits behind it. A place is ours to give for a moment ([`PLACE_MAX`]): who
//! takes longer goes on without one. Addresses fall into lanes by a keyed hash, so one of them holds up little more than
//! itself, and cannot aim at another's.

use std::hash::{BuildHasher as _, RandomState};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, oneshot};

use crate::Limits;

mod book;

pub(crate) use book::Standing;
use book::{Book, Entered};

/// Lanes for handshakes: an address is in one of them.
const LANES: usize = 64;

/// The part of all handshakes that one lane may have.
const LANE_SHARE: usize = 4;

/// How long a handshake has its place: one whose peer is there is done in a few round trips.
pub(super) const PLACE_MAX: Duration = Duration::from_millis(100);

/// How long a peer is waited for in a handshake before he may have to leave for another.
pub(super) const LATE_AFTER: Duration = Duration::from_secs(2);

/// How often it is looked, beside each change, whether somebody has been silent for long enough.
const LOOK_EVERY: Duration = Duration::from_millis(50);

pub(crate) struct Admission {
    limits: Limits,
    room: Arc<Room>,
    handshakes: Arc<Semaphore>,
    lanes: Vec<Arc<Semaphore>>,
    hashing: RandomState,
}

#[derive(Default)]
struct Room {
    book: Mutex<State>,
    /// Somebody has left, or may have to leave for another from now on.
    changed: Notify,
}

#[derive(Default)]
struct State {
    book: Book,
    /// All that are there, those too that have to leave and have not yet.
    open: u64,
}

impl Room {
    /// For a moment; nothing waits while it is held.
    fn state(&self) -> MutexGuard<'_, State> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Why there is no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// Too many connections.
    Connections,
    /// Too many of this address.
    Address,
    /// All that have not said who they are wait for us, or have just come: in a moment there is room.
    NotNow,
}

/// Room for one connection, given back when dropped.
pub(crate) struct Admitted {
    room: Arc<Room>,
    number: u64,
    network: IpAddr,
    is_authenticated: bool,
    lane: Arc<Semaphore>,
}

impl Admitted {
    /// How far he is; for one that has not said who he is.
    pub(crate) fn stands(&self, standing: Standing) {
        self.room.state().book.stands(self.number, standing);
        if standing != Standing::Working {
            self.room.changed.notify_waiters();
        }
    }

    /// He has said who he is. Refused, he is still counted with those who have not.
    pub(super) fn authenticate(&mut self, limits: &Limits) -> Result<(), Refused> {
        self.room.state().book.authenticate(self.number, limits)?;
        self.is_authenticated = true;
        self.room.changed.notify_waiters();
        Ok(())
    }
}

impl Drop for Admitted {
    fn drop(&mut self) {
        {
            let mut state = self.room.state();
            if self.is_authenticated {
                state.book.left(self.network);
            } else {
                state.book.forget(self.number);
            }
            state.open = state.open.saturating_sub(1);
        }
        self.room.changed.notify_waiters();
    }
}

/// Ends when its connection has to leave for another; means nothing once that has said who it is.
pub(crate) type Stay = oneshot::Receiver<()>;

/// A newcomer.
pub(crate) struct Newcomer {
    pub(crate) admitted: Admitted,
    pub(crate) stay: Stay,
}

/// A place for one handshake, given back when dropped.
pub(super) struct Place(#[expect(dead_code, reason = "held")] (OwnedSemaphorePermit, OwnedSemaphorePermit));

impl Admission {
    pub(crate) fn new(limits: &Limits) -> Self {
        let handshakes = usize::try_from(limits.handshakes.max(1)).unwrap_or(usize::MAX);
        let handshakes = handshakes.min(Semaphore::MAX_PERMITS);
        let lane = handshakes.div_ceil(LANE_SHARE);
        Self {
            limits: limits.clone(),
            room: Arc::default(),
            handshakes: Arc::new(Semaphore::new(handshakes)),
            lanes: std::iter::repeat_with(|| Arc::new(Semaphore::new(lane))).take(LANES).collect(),
            hashing: RandomState::new(),
        }
    }

    /// Room for a connection from this address, now or not at all.
    pub(crate) fn admit(&self, address: IpAddr) -> Result<Newcomer, Refused> {
        let network = network(address);
        let hash = usize::try_from(self.hashing.hash_one(network) >> 1).unwrap_or_default();
        let lane = self.lanes.get(hash % LANES).ok_or(Refused::Address)?;
        let mut state = self.room.state();
        let Entered { number, stay } = state.book.enter(network, &self.limits, Instant::now())?;
        state.open = state.open.saturating_add(1);
        drop(state);
        let admitted = Admitted {
            room: Arc::clone(&self.room),
            number,
            network,
            is_authenticated: false,
            lane: Arc::clone(lane),
        };
        Ok(Newcomer { admitted, stay })
    }

    /// The same, as soon as there is room: [`Refused::NotNow`] is waited for.
    pub(crate) async fn admit_soon(&self, address: IpAddr) -> Result<Newcomer, Refused> {
        loop {
            // Before the look, so that no change is missed.
            let changed = self.room.changed.notified();
            match self.admit(address) {
                Err(Refused::NotNow) => {
                    let _ = tokio::time::timeout(LOOK_EVERY, changed).await;
                }
                outcome => return outcome,
            }
        }
    }

    /// Waits for a place for a handshake; first among those of the same lane.
    pub(super) async fn place(&self, admitted: &Admitted) -> Option<Place> {
        let of_lane = Arc::clone(&admitted.lane).acquire_owned().await.ok()?;
        let of_all = Arc::clone(&self.handshakes).acquire_owned().await.ok()?;
        Some(Place((of_lane, of_all)))
    }

    /// Connections now.
    pub(crate) fn open(&self) -> u64 {
        self.room.state().open
    }

    /// Waits until no connection is left; none may be admitted meanwhile.
    pub(crate) async fn empty(&self) {
        loop {
            let changed = self.room.changed.notified();
            if self.open() == 0 {
                return;
            }
            changed.await;
        }
    }
}

/// What counts as one address: for IPv6 the /64 that one subscriber has.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            IpAddr::V6(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0))
        }
        address @ IpAddr::V4(_) => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: &str = "192.0.2.1";
    const OTHER: &str = "192.0.2.2";

    /// Of those who have said who they are, and of those who have not.
    fn limits((connections, per_address): (u32, u32), (unauthenticated, of_one): (u32, u32)) -> Limits {
        Limits {
            connections,
            connections_per_address: per_address,
            unauthenticated,
            unauthenticated_per_address: of_one,
            ..Limits::default()
        }
    }

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn has_to_leave(newcomer: &mut Newcomer) -> bool {
        newcomer.stay.try_recv() == Err(oneshot::error::TryRecvError::Closed)
    }

    fn authenticated(admission: &Admission, from: &str) -> Result<Newcomer, Refused> {
        let mut newcomer = admission.admit(address(from))?;
        newcomer.admitted.authenticate(&admission.limits).map(|()| newcomer)
    }

    #[test]
    fn room_for_the_authenticated_ends_at_the_limits_and_comes_back() {
        let admission = Admission::new(&limits((3, 2), (9, 9)));
        let one = authenticated(&admission, ONE).unwrap();
        let _two = authenticated(&admission, "::ffff:192.0.2.1").unwrap();
        assert_eq!(admission.admit(address(ONE)).err(), Some(Refused::Address));
        let _three = authenticated(&admission, "2001:db8::1").unwrap();
        assert_eq!(admission.admit(address("2001:db8:1::1")).err(), Some(Refused::Connections));
        assert_eq!(admission.open(), 3);
        drop(one);
        assert_eq!(admission.open(), 2);
        let _again = authenticated(&admission, "2001:db8::2").unwrap();
        assert_eq!(admission.admit(address(ONE)).err(), Some(Refused::Connections));
    }

    #[test]
    fn who_says_who_he_is_when_there_is_no_room_any_more_stays_with_the_others() {
        let admission = Admission::new(&limits((1, 1), (9, 9)));
        let (mut one, mut two) =
            (admission.admit(address(ONE)).unwrap(), admission.admit(address(OTHER)).unwrap());
        assert_eq!(one.admitted.authenticate(&admission.limits), Ok(()));
        assert_eq!(two.admitted.authenticate(&admission.limits), Err(Refused::Connections));
        drop(one);
        assert!(!has_to_leave(&mut two));
        assert_eq!(two.admitted.authenticate(&admission.limits), Ok(()));
        drop(two);
        assert!(admission.room.state().book.is_empty(), "nothing is left behind");
    }

    #[test]
    fn the_oldest_silent_one_of_an_address_leaves_for_its_next() {
        let admission = Admission::new(&limits((9, 9), (9, 2)));
        let mut other = admission.admit(address(OTHER)).unwrap();
        let mut first = admission.admit(address(ONE)).unwrap();
        let mut second = admission.admit(address(ONE)).unwrap();
        let mut third = admission.admit(address(ONE)).unwrap();
        assert!(has_to_leave(&mut first));
        assert!(!has_to_leave(&mut other) && !has_to_leave(&mut second) && !has_to_leave(&mut third));
        assert_eq!(admission.open(), 4, "the one that has to leave is there until it has left");
    }

    #[tokio::test]
    async fn the_oldest_silent_one_of_all_leaves_once_it_had_its_time_when_there_is_no_room_at_all() {
        let admission = Admission::new(&limits((9, 9), (2, 2)));
        let begun = Instant::now();
        let mut other = admission.admit(address(OTHER)).unwrap();
        let mut first = admission.admit(address(ONE)).unwrap();
        let _second = admission.admit_soon(address(ONE)).await.unwrap();
        assert!(begun.elapsed() >= book::SILENT_MIN);
        assert!(has_to_leave(&mut other) && !has_to_leave(&mut first));
    }

    #[tokio::test]
    async fn a_late_one_leaves_before_one_that_has_just_come() {
        let admission = Admission::new(&limits((9, 9), (2, 2)));
        let mut late = admission.admit(address(OTHER)).unwrap();
        let mut first = admission.admit(address(ONE)).unwrap();
        late.admitted.stands(Standing::Late);
        let _second = admission.admit(address(ONE)).unwrap();
        assert!(has_to_leave(&mut late) && !has_to_leave(&mut first));
    }

    #[test]
    fn silent_ones_leave_before_late_ones_and_who_waits_for_us_never() {
        let admission = Admission::new(&limits((9, 9), (9, 3)));
        let mut working = admission.admit(address(ONE)).unwrap();
        let mut late = admission.admit(address(ONE)).unwrap();
        let mut silent = admission.admit(address(ONE)).unwrap();
        working.admitted.stands(Standing::Working);
        late.admitted.stands(Standing::Late);
        let next = admission.admit(address(ONE)).unwrap();
        assert!(has_to_leave(&mut silent) && !has_to_leave(&mut late));
        next.admitted.stands(Standing::Working);
        let last = admission.admit(address(ONE)).unwrap();
        assert!(has_to_leave(&mut late) && !has_to_leave(&mut working));
        last.admitted.stands(Standing::Working);
        assert_eq!(admission.admit(address(ONE)).err(), Some(Refused::Address));
        assert!(admission.admit(address(OTHER)).is_ok());
    }

    #[test]
    fn who_has_said_who_he_is_is_not_in_the_way_of_those_who_have_not() {
        let admission = Admission::new(&limits((9, 9), (1, 1)));
        let mut known: Vec<_> = (0..5).map(|_| authenticated(&admission, ONE).unwrap()).collect();
        let mut newcomer = admission.admit(address(ONE)).unwrap();
        assert!(!has_to_leave(&mut newcomer));
        drop(known.pop());
        assert_eq!(admission.open(), 5);
    }

    #[tokio::test]
    async fn when_all_wait_for_us_a_newcomer_waits_until_there_is_room() {
        let admission = Admission::new(&limits((9, 9), (2, 2)));
        let one = admission.admit(address(ONE)).unwrap();
        let two = admission.admit(address(ONE)).unwrap();
        one.admitted.stands(Standing::Working);
        two.admitted.stands(Standing::Working);
        assert_eq!(admission.admit(address(OTHER)).err(), Some(Refused::NotNow));
        let newcomer = admission.admit_soon(address(OTHER));
        tokio::pin!(newcomer);
        let waits =
            tokio::select! { biased; _ = &mut newcomer => false, () = std::future::ready(()) => true };
        assert!(waits);
        drop(one);
        let newcomer = newcomer.await.unwrap();
        let another = admission.admit_soon(address(OTHER));
        newcomer.admitted.stands(Standing::Working);
        tokio::pin!(another);
        let waits = tokio::select! { biased; _ = &mut another => false, () = std::future::ready(()) => true };
        assert!(waits);
        two.admitted.stands(Standing::Late);
        assert!(another.await.is_ok());
    }

    #[tokio::test]
    async fn a_service_is_empty_only_when_the_last_has_left() {
        let admission = Admission::new(&limits((9, 9), (1, 1)));
        let first = admission.admit(address(ONE)).unwrap();
        let second = admission.admit(address(ONE)).unwrap();
        let empty = admission.empty();
        tokio::pin!(empty);
        for last in [second, first] {
            let waits =
                tokio::select! { biased; () = &mut empty => false, () = std::future::ready(()) => true };
            assert!(waits);
            drop(last);
        }
        empty.await;
        assert!(admission.room.state().book.is_empty());
    }

    #[test]
    fn a_subscriber_of_ipv6_is_one_address() {
        assert_eq!(network(address("2001:db8:0:1::1")), network(address("2001:db8:0:1:ffff::")));
        assert_ne!(network(address("2001:db8:0:1::1")), network(address("2001:db8:0:2::1")));
        assert_ne!(network(address("192.0.2.1")), network(address("192.0.2.2")));
    }

    #[tokio::test]
    async fn one_address_takes_a_quarter_of_the_handshakes() {
        let admission = Admission::new(&Limits { handshakes: 8, ..Limits::default() });
        let admitted: Vec<_> = (0..3).map(|_| admission.admit(address(ONE)).unwrap().admitted).collect();
        let first = admission.place(&admitted[0]).await;
        let _second = admission.place(&admitted[1]).await;
        let third = admission.place(&admitted[2]);
        tokio::pin!(third);
        let pending = tokio::select! { biased; _ = &mut third => false, () = std::future::ready(()) => true };
        assert!(pending);
        assert_eq!(admission.handshakes.available_permits(), 6);
        drop(first);
        assert!(third.await.is_some());
    }
}
