//! What front counts, for an operator's monitoring: atomics that are added to without a lock, and a page of text
//! that is made when somebody asks (docs/howto/observe.md explains each line).
//!
//! No label comes from a peer: the values of each label are a list in the code, so a page has a size that is known.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use sealwright_crypto::algorithm::KeyAlgorithm;
use sealwright_obs::Verb;
use sealwright_proto::status::Code;

pub mod listener;
mod page;
mod process;
mod source;

pub use page::Now;
pub use process::Process;

/// A number that only grows.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Zero.
    #[must_use]
    pub const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// One more.
    pub fn increment(&self) {
        self.add(1);
    }

    /// So many more.
    pub fn add(&self, more: u64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }

    /// As of now.
    #[must_use]
    pub fn value(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A number that goes up and down.
#[derive(Debug, Default)]
pub struct Gauge(AtomicI64);

impl Gauge {
    /// Zero.
    #[must_use]
    pub const fn new() -> Self {
        Self(AtomicI64::new(0))
    }

    /// One more, for as long as the value that is returned lives.
    #[must_use]
    pub fn hold(&self) -> Held<'_> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Held(self)
    }

    /// One more; see [`Self::hold`] for a thing whose end is the end of a scope.
    pub fn increment(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// One less.
    pub fn decrement(&self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }

    /// Another value.
    pub fn set(&self, value: i64) {
        self.0.store(value, Ordering::Relaxed);
    }

    /// As of now.
    #[must_use]
    pub fn value(&self) -> i64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// See [`Gauge::hold`].
#[derive(Debug)]
pub struct Held<'a>(&'a Gauge);

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0.decrement();
    }
}

/// Upper bounds of the buckets of each histogram, in microseconds: from one Ed25519 signature to the deadline.
const BOUNDS_US: [u64; 16] = [
    250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000, 2_500_000,
    5_000_000, 15_000_000, 60_000_000,
];

/// Durations by size.
#[derive(Debug)]
pub struct Histogram {
    /// One a bound, and the last for all above. Not cumulated; the page does that.
    buckets: [AtomicU64; BOUNDS_US.len() + 1],
    sum_us: AtomicU64,
}

impl Histogram {
    pub(crate) const fn new() -> Self {
        Self { buckets: [const { AtomicU64::new(0) }; BOUNDS_US.len() + 1], sum_us: AtomicU64::new(0) }
    }

    /// One more.
    pub fn observe(&self, duration: Duration) {
        let us = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        let bucket = BOUNDS_US.iter().position(|bound| us <= *bound).unwrap_or(BOUNDS_US.len());
        if let Some(bucket) = self.buckets.get(bucket) {
            bucket.fetch_add(1, Ordering::Relaxed);
        }
        self.sum_us.fetch_add(us, Ordering::Relaxed);
    }
}

/// One counter for success, and one for each failure of the table.
#[derive(Debug)]
pub struct Outcomes {
    success: Counter,
    failures: [Counter; Code::ALL.len()],
}

impl Outcomes {
    const fn new() -> Self {
        Self { success: Counter::new(), failures: [const { Counter::new() }; Code::ALL.len()] }
    }

    /// One more of this outcome; `None` is success.
    pub fn count(&self, failure: Option<Code>) {
        let counter = match failure {
            None => Some(&self.success),
            Some(code) => {
                let row = Code::ALL.iter().position(|known| *known == code);
                row.and_then(|row| self.failures.get(row))
            }
        };
        if let Some(counter) = counter {
            counter.increment();
        }
    }

    fn each(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let failures = Code::ALL.iter().zip(&self.failures);
        std::iter::once(("success", self.success.value()))
            .chain(failures.map(|(code, counter)| (code.name(), counter.value())))
    }
}

macro_rules! labels {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $label:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name {
            $($(#[$variant_doc])* $variant,)+
        }

        impl $name {
            /// All of them, in the order of the page.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// The value of the label.
            #[must_use]
            pub const fn label(self) -> &'static str {
                match self {
                    $(Self::$variant => $label,)+
                }
            }
        }
    };
}

labels! {
    /// How a TLS handshake ended.
    Handshake {
        /// With a client that has a certificate of ours.
        Completed = "completed",
        /// The same, from a ticket.
        Resumed = "resumed",
        /// The peer was not accepted, or spoke something else.
        Failed = "failed",
        /// It took longer than it may.
        TimedOut = "timed-out",
    }
}

labels! {
    /// Why a connection was closed by us.
    Closed {
        /// As many connections are open as may be.
        Connections = "connections",
        /// As many of this address are open as may be.
        PerAddress = "connections-per-address",
        /// As many of this client are open as may be; its first call was told.
        PerClient = "connections-per-client",
        /// It had not authenticated, and had to leave for another.
        Unauthenticated = "unauthenticated",
        /// As many handshakes are under way as may be.
        Handshakes = "handshakes",
        /// Nothing was asked for too long.
        Idle = "idle",
        /// The peer took nothing of what was sent to it for too long.
        WriteStall = "write-stall",
        /// It sent more that is no request than it may.
        Flood = "flood",
        /// It had not ended when the time for a graceful end was over.
        Drain = "drain",
        /// No descriptor was left for it.
        Descriptors = "descriptors",
    }
}

labels! {
    /// The calls of key administration.
    KeyCall {
        /// Makes a key.
        Create = "create",
        /// Lists keys.
        List = "list",
        /// Shows a key.
        Describe = "describe",
        /// Gives the public key for an import.
        BeginImport = "begin-import",
        /// Takes a key in.
        Import = "import",
        /// Extends a certificate.
        Renew = "renew",
        /// Switches a key on or off.
        SetState = "set-state",
    }
}

labels! {
    /// Algorithms of signatures; imported RSA keys can have any length.
    SignedWith {
        /// RSA, 2048 bits.
        Rsa2048 = "rsa2048",
        /// RSA, 3072 bits.
        Rsa3072 = "rsa3072",
        /// RSA, 4096 bits.
        Rsa4096 = "rsa4096",
        /// Ed25519.
        Ed25519 = "ed25519",
        /// Anything else.
        Other = "other",
    }
}

impl From<KeyAlgorithm> for SignedWith {
    fn from(algorithm: KeyAlgorithm) -> Self {
        let name = algorithm.to_string();
        Self::ALL.iter().copied().find(|known| known.label() == name).unwrap_or(Self::Other)
    }
}

/// One counter a value of a label.
#[derive(Debug)]
pub struct Labelled<const N: usize>([Counter; N]);

impl<const N: usize> Labelled<N> {
    const fn new() -> Self {
        Self([const { Counter::new() }; N])
    }

    /// The counter at this place in the list of values.
    fn at(&self, place: Option<usize>) -> Option<&Counter> {
        place.and_then(|place| self.0.get(place))
    }
}

/// All that front counts. One for each [`crate::Front`].
#[derive(Debug)]
pub struct Metrics {
    pub(crate) requests: Outcomes,
    pub(crate) items: Outcomes,
    signatures: Labelled<{ SignedWith::ALL.len() }>,
    key_calls: [Outcomes; KeyCall::ALL.len()],
    /// Requests by obs-sign's protocol, by command: those with results, and those that were refused.
    obs: [(Counter, Counter); Verb::ALL.len()],
    /// From the arrival of a group to its answer.
    pub(crate) request_seconds: Histogram,
    /// Of that: until its batch left for the signer.
    pub(crate) queue_seconds: Histogram,
    /// Of that: until the signer had answered.
    pub(crate) signer_seconds: Histogram,
    /// Of that: intent and log entry, until durable.
    pub(crate) store_seconds: Histogram,
    /// Bytes of the bodies of calls that were taken from peers.
    pub request_bytes: Arc<Counter>,
    /// Groups that have arrived and are not answered.
    pub requests_in_flight: Gauge,
    /// Open connections, those in their handshake too.
    pub connections_open: Gauge,
    /// Those of them that have not authenticated.
    pub connections_unauthenticated: Gauge,
    /// Connections accepted.
    pub connections: Counter,
    handshakes: Labelled<{ Handshake::ALL.len() }>,
    closed: Labelled<{ Closed::ALL.len() }>,
    /// Signers that were started after the first.
    pub signer_restarts: Counter,
    /// 1 while there is a signer.
    pub signer_up: Gauge,
    /// Keys that were read from the store because the snapshot had none, or an old one.
    pub(crate) key_loads: Counter,
    /// Reloads that took force.
    pub reloads: Counter,
    /// Reloads that were refused: what was in force stays.
    pub reloads_refused: Counter,
    process: Arc<Process>,
    started: Instant,
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new(Process::opened())
    }
}

impl Metrics {
    /// All zero.
    fn new(process: Arc<Process>) -> Self {
        Self {
            requests: Outcomes::new(),
            items: Outcomes::new(),
            signatures: Labelled::new(),
            key_calls: [const { Outcomes::new() }; KeyCall::ALL.len()],
            obs: [const { (Counter::new(), Counter::new()) }; Verb::ALL.len()],
            request_seconds: Histogram::new(),
            queue_seconds: Histogram::new(),
            signer_seconds: Histogram::new(),
            store_seconds: Histogram::new(),
            request_bytes: Arc::default(),
            requests_in_flight: Gauge::new(),
            connections_open: Gauge::new(),
            connections_unauthenticated: Gauge::new(),
            connections: Counter::new(),
            handshakes: Labelled::new(),
            closed: Labelled::new(),
            signer_restarts: Counter::new(),
            signer_up: Gauge::new(),
            key_loads: Counter::new(),
            reloads: Counter::new(),
            reloads_refused: Counter::new(),
            process,
            started: Instant::now(),
        }
    }

    /// A signature left.
    pub(crate) fn signed(&self, with: SignedWith) {
        let place = SignedWith::ALL.iter().position(|known| *known == with);
        self.signatures.at(place).into_iter().for_each(Counter::increment);
    }

    /// A key call was answered; `None` is success.
    pub(crate) fn key_call(&self, call: KeyCall, failure: Option<Code>) {
        let place = KeyCall::ALL.iter().position(|known| *known == call);
        if let Some(outcomes) = place.and_then(|place| self.key_calls.get(place)) {
            outcomes.count(failure);
        }
    }

    /// A request by obs-sign's protocol was answered; one that could not be read is of no known command.
    pub(crate) fn obs(&self, verb: Verb, is_refused: bool) {
        let place = Verb::ALL.iter().position(|known| *known == verb);
        if let Some((answered, refused)) = place.and_then(|place| self.obs.get(place)) {
            if is_refused { refused.increment() } else { answered.increment() }
        }
    }

    /// A handshake has ended.
    pub fn handshake(&self, outcome: Handshake) {
        let place = Handshake::ALL.iter().position(|known| *known == outcome);
        self.handshakes.at(place).into_iter().for_each(Counter::increment);
    }

    /// Handshakes that ended so.
    #[must_use]
    pub fn handshakes(&self, outcome: Handshake) -> u64 {
        let place = Handshake::ALL.iter().position(|known| *known == outcome);
        self.handshakes.at(place).map_or(0, Counter::value)
    }

    /// Connections that we closed for this reason.
    #[must_use]
    pub fn closings(&self, reason: Closed) -> u64 {
        let place = Closed::ALL.iter().position(|known| *known == reason);
        self.closed.at(place).map_or(0, Counter::value)
    }

    /// A connection was closed by us.
    pub fn closed(&self, reason: Closed) {
        let place = Closed::ALL.iter().position(|known| *known == reason);
        self.closed.at(place).into_iter().for_each(Counter::increment);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_counts_in_the_first_bucket_that_holds_it() {
        let histogram = Histogram::new();
        for us in [0, 250, 251, 60_000_001] {
            histogram.observe(Duration::from_micros(us));
        }
        let counts: Vec<u64> =
            histogram.buckets.iter().map(|bucket| bucket.load(Ordering::Relaxed)).collect();
        assert_eq!(counts[..2], [2, 1]);
        assert_eq!((counts.iter().sum::<u64>(), *counts.last().unwrap()), (4, 1));
    }

    #[test]
    fn every_command_of_obs_sign_has_two_counters_of_its_own() {
        let metrics = Metrics::default();
        for verb in Verb::ALL {
            metrics.obs(verb, true);
            metrics.obs(verb, false);
            metrics.obs(verb, false);
        }
        for (answered, refused) in &metrics.obs {
            assert_eq!((answered.value(), refused.value()), (2, 1));
        }
        let page = metrics.page(&Now::default());
        assert!(
            page.contains("sealwright_obs_requests_total{command=\"keygen\",outcome=\"refused\"} 1"),
            "{page}"
        );
    }

    #[test]
    fn every_code_has_a_counter_of_its_own() {
        let outcomes = Outcomes::new();
        outcomes.count(None);
        Code::ALL.iter().for_each(|code| outcomes.count(Some(*code)));
        assert!(outcomes.each().all(|(_, count)| count == 1));
        assert_eq!(outcomes.each().count(), Code::ALL.len() + 1);
    }

    #[test]
    fn a_held_gauge_falls_when_it_is_let_go() {
        let gauge = Gauge::new();
        let held = gauge.hold();
        assert_eq!(gauge.value(), 1);
        drop(held);
        assert_eq!(gauge.value(), 0);
    }

    #[test]
    fn an_algorithm_that_no_key_is_made_with_counts_as_other() {
        assert_eq!(SignedWith::from(KeyAlgorithm::Rsa(4096)), SignedWith::Rsa4096);
        assert_eq!(SignedWith::from(KeyAlgorithm::Rsa(5000)), SignedWith::Other);
        for algorithm in KeyAlgorithm::CREATABLE {
            assert_ne!(SignedWith::from(algorithm), SignedWith::Other, "{algorithm}");
        }
    }
}
