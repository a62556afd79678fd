//! Loads on their way: who asks for something that another loads already waits for that load and gets its result (R8);
//! loads of different things know nothing of each other (R9). Nothing is kept of a load that has ended.

use std::collections::HashMap;
use std::hash::Hash;

use tokio::sync::watch;

use super::sync::Mutex;

/// Most loads at once; one takes some 600 bytes at most: 10 MiB.
pub(super) const FLIGHTS_MAX: usize = 16_384;

/// See the module.
pub(super) struct Flights<K, T> {
    table: Mutex<HashMap<K, watch::Receiver<Option<T>>>>,
    limit: usize,
}

/// Who does what.
pub(super) enum Place<'a, K: Hash + Eq, T> {
    /// Load it, and [`Loader::land`].
    Loader(Loader<'a, K, T>),
    /// Another loads it.
    Waiter(Waiter<T>),
    /// There are [`FLIGHTS_MAX`].
    Full,
}

/// Loads. Dropped without a result (its request was given up, it panicked), it leaves its place to one of the waiters.
pub(super) struct Loader<'a, K: Hash + Eq, T> {
    flights: &'a Flights<K, T>,
    wanted: K,
    result: watch::Sender<Option<T>>,
}

/// Waits.
pub(super) struct Waiter<T>(watch::Receiver<Option<T>>);

impl<K: Hash + Eq + Clone, T: Clone> Flights<K, T> {
    pub(super) fn new(limit: usize) -> Self {
        Self { table: Mutex::new(HashMap::new()), limit }
    }

    /// Joins the load of what is wanted, or begins it.
    pub(super) fn join(&self, wanted: &K) -> Place<'_, K, T> {
        self.table.with(|table| {
            if let Some(result) = table.get(wanted) {
                return Place::Waiter(Waiter(result.clone()));
            }
            if table.len() >= self.limit {
                return Place::Full;
            }
            let (result, receiver) = watch::channel(None);
            table.insert(wanted.clone(), receiver);
            Place::Loader(Loader { flights: self, wanted: wanted.clone(), result })
        })
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.table.with(|table| table.len())
    }
}

impl<K: Hash + Eq, T> Loader<'_, K, T> {
    /// Hands the result to all who wait. What is to be found by those who come later must be in its place before.
    pub(super) fn land(self, result: T) {
        self.leave();
        self.result.send_replace(Some(result));
    }

    /// Before the waiters are woken: who of them asks again joins no load that has ended.
    fn leave(&self) {
        let gone = self.flights.table.with(|table| table.remove(&self.wanted));
        drop(gone);
    }
}

impl<K: Hash + Eq, T> Drop for Loader<'_, K, T> {
    fn drop(&mut self) {
        if self.result.borrow().is_none() {
            self.leave();
        }
    }
}

impl<T: Clone> Waiter<T> {
    /// The result; `None`: the loader was given up.
    pub(super) async fn landed(mut self) -> Option<T> {
        self.0.wait_for(Option::is_some).await.ok().and_then(|result| result.clone())
    }
}
