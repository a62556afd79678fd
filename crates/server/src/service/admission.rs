//! Room for connections and places for handshakes.
//!
//! Over the number of connections, or of one address, a socket is closed at once: it has cost nothing. Under it, it is
//! taken from the kernel's backlog, and waits for a place for its handshake here: a bare socket costs us little more than
//! the kernel, and here the places can be shared out by address, so that one machine that begins handshakes and never
//! ends them holds up itself. A storm of clients is served in its order.
//!
//! Addresses fall into buckets by a keyed hash: fixed memory, no lock, and nobody can aim at another's bucket.

use std::hash::{BuildHasher as _, RandomState};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::Limits;

/// Buckets for connections. Two addresses in one bucket share its limit.
const BUCKETS: usize = 1 << 16;

/// Lanes for handshakes: an address is in one of them.
const LANES: usize = 64;

/// The part of all handshakes that one lane may have.
const LANE_SHARE: usize = 4;

pub(super) struct Admission {
    connections: Arc<Semaphore>,
    connections_max: u32,
    per_address_max: u32,
    by_address: Arc<[AtomicU32]>,
    handshakes: Arc<Semaphore>,
    lanes: Vec<Arc<Semaphore>>,
    hashing: RandomState,
}

/// Why a socket is closed at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refused {
    /// Too many connections.
    Connections,
    /// Too many of this address.
    Address,
}

/// Room for one connection, given back when dropped.
pub(super) struct Admitted {
    _connection: OwnedSemaphorePermit,
    bucket: usize,
    by_address: Arc<[AtomicU32]>,
    lane: Arc<Semaphore>,
}

impl Drop for Admitted {
    fn drop(&mut self) {
        if let Some(count) = self.by_address.get(self.bucket) {
            count.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// A place for one handshake, given back when dropped.
pub(super) struct Place(#[expect(dead_code, reason = "held")] (OwnedSemaphorePermit, OwnedSemaphorePermit));

impl Admission {
    pub(super) fn new(limits: &Limits) -> Self {
        let connections_max = limits.connections.max(1);
        let places =
            |count: u32| usize::try_from(count.max(1)).unwrap_or(usize::MAX).min(Semaphore::MAX_PERMITS);
        let handshakes = places(limits.handshakes);
        let lane = handshakes.div_ceil(LANE_SHARE);
        Self {
            connections: Arc::new(Semaphore::new(places(connections_max))),
            connections_max,
            per_address_max: limits.connections_per_address.max(1),
            by_address: std::iter::repeat_with(AtomicU32::default).take(BUCKETS).collect(),
            handshakes: Arc::new(Semaphore::new(handshakes)),
            lanes: std::iter::repeat_with(|| Arc::new(Semaphore::new(lane))).take(LANES).collect(),
            hashing: RandomState::new(),
        }
    }

    /// Room for a connection from this address, now or not at all.
    pub(super) fn admit(&self, address: IpAddr) -> Result<Admitted, Refused> {
        let connection =
            Arc::clone(&self.connections).try_acquire_owned().map_err(|_| Refused::Connections)?;
        let hash = usize::try_from(self.hashing.hash_one(network(address)) >> 1).unwrap_or_default();
        let bucket = hash % BUCKETS;
        let (Some(count), Some(lane)) = (self.by_address.get(bucket), self.lanes.get(hash % LANES)) else {
            return Err(Refused::Address);
        };
        if count.fetch_add(1, Ordering::Relaxed) >= self.per_address_max {
            count.fetch_sub(1, Ordering::Relaxed);
            return Err(Refused::Address);
        }
        Ok(Admitted {
            _connection: connection,
            bucket,
            by_address: Arc::clone(&self.by_address),
            lane: Arc::clone(lane),
        })
    }

    /// Waits for a place for a handshake; first among those of the same lane.
    pub(super) async fn place(&self, admitted: &Admitted) -> Option<Place> {
        let of_lane = Arc::clone(&admitted.lane).acquire_owned().await.ok()?;
        let of_all = Arc::clone(&self.handshakes).acquire_owned().await.ok()?;
        Some(Place((of_lane, of_all)))
    }

    /// Connections now.
    pub(super) fn open(&self) -> u64 {
        let free = u64::try_from(self.connections.available_permits()).unwrap_or(u64::MAX);
        u64::from(self.connections_max).saturating_sub(free)
    }

    /// Waits until no connection is left; none may be admitted meanwhile.
    pub(super) async fn empty(&self) {
        let _ = self.connections.acquire_many(self.connections_max).await;
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

    fn limits(connections: u32, per_address: u32, handshakes: u32) -> Limits {
        Limits { connections, connections_per_address: per_address, handshakes, ..Limits::default() }
    }

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn room_ends_at_the_limits_and_comes_back() {
        let admission = Admission::new(&limits(3, 2, 4));
        let one = admission.admit(address("192.0.2.1")).unwrap();
        let _two = admission.admit(address("::ffff:192.0.2.1")).unwrap();
        assert_eq!(admission.admit(address("192.0.2.1")).err(), Some(Refused::Address));
        let _three = admission.admit(address("2001:db8::1")).unwrap();
        assert_eq!(admission.admit(address("2001:db8:1::1")).err(), Some(Refused::Connections));
        assert_eq!(admission.open(), 3);
        drop(one);
        assert_eq!(admission.open(), 2);
        let _again = admission.admit(address("2001:db8::2")).unwrap();
        assert_eq!(admission.admit(address("192.0.2.1")).err(), Some(Refused::Connections));
    }

    #[test]
    fn a_subscriber_of_ipv6_is_one_address() {
        assert_eq!(network(address("2001:db8:0:1::1")), network(address("2001:db8:0:1:ffff::")));
        assert_ne!(network(address("2001:db8:0:1::1")), network(address("2001:db8:0:2::1")));
        assert_ne!(network(address("192.0.2.1")), network(address("192.0.2.2")));
    }

    #[tokio::test]
    async fn one_address_takes_a_quarter_of_the_handshakes() {
        let admission = Admission::new(&limits(100, 100, 8));
        let admitted: Vec<_> = (0..3).map(|_| admission.admit(address("192.0.2.1")).unwrap()).collect();
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
