//! Work for the workers, first come first served, with a bound on what is held from reading to answering.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use sealwright_proto::limits::{BATCH_BYTES_IN_FLIGHT_MAX, BATCHES_IN_FLIGHT_MAX};

/// A queue that many threads take from.
pub(super) struct Queue<T> {
    state: Mutex<State<T>>,
    not_empty: Condvar,
    room: Arc<Room>,
}

struct State<T> {
    jobs: VecDeque<T>,
    closed: bool,
}

impl<T> Queue<T> {
    pub(super) fn new() -> Self {
        Self {
            state: Mutex::new(State { jobs: VecDeque::new(), closed: false }),
            not_empty: Condvar::new(),
            room: Arc::new(Room { held: Mutex::default(), freed: Condvar::new() }),
        }
    }

    /// Waits until a request of so many bytes may be held; it is, until the permit is dropped.
    pub(super) fn admit(&self, bytes: usize) -> Permit {
        let mut held = self.room.held.lock().unwrap_or_else(PoisonError::into_inner);
        while held.is_full_for(bytes) {
            held = self.room.freed.wait(held).unwrap_or_else(PoisonError::into_inner);
        }
        held.requests = held.requests.saturating_add(1);
        held.bytes = held.bytes.saturating_add(bytes);
        Permit { room: Arc::clone(&self.room), bytes }
    }

    /// After all others. The number of jobs is bounded by the permits: each has one, and at most so many slices.
    pub(super) fn push_last(&self, job: T) {
        self.push(|jobs| jobs.push_back(job));
    }

    /// Before all others.
    pub(super) fn push_first(&self, job: T) {
        self.push(|jobs| jobs.push_front(job));
    }

    fn push(&self, add: impl FnOnce(&mut VecDeque<T>)) {
        add(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner).jobs);
        self.not_empty.notify_one();
    }

    /// The next job, waiting for it; `None` once the queue is closed and empty. `come_by` is called before, and whenever
    /// there was none for so long.
    pub(super) fn pop(&self, look: Duration, mut come_by: impl FnMut()) -> Option<T> {
        loop {
            come_by();
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            let mut has_waited = false;
            while !has_waited {
                if let Some(job) = state.jobs.pop_front() {
                    return Some(job);
                }
                if state.closed {
                    return None;
                }
                let waited = self.not_empty.wait_timeout(state, look).unwrap_or_else(PoisonError::into_inner);
                (state, has_waited) = (waited.0, waited.1.timed_out());
            }
        }
    }

    /// What is in it is still handed out.
    pub(super) fn close(&self) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).closed = true;
        self.not_empty.notify_all();
    }
}

struct Room {
    held: Mutex<Held>,
    freed: Condvar,
}

#[derive(Default)]
struct Held {
    requests: usize,
    bytes: usize,
}

impl Held {
    /// An empty room takes anything that a frame can hold.
    const fn is_full_for(&self, bytes: usize) -> bool {
        self.requests > 0
            && (self.requests >= BATCHES_IN_FLIGHT_MAX
                || self.bytes.saturating_add(bytes) > BATCH_BYTES_IN_FLIGHT_MAX)
    }
}

/// The right to be held in memory.
pub(super) struct Permit {
    room: Arc<Room>,
    bytes: usize,
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut held = self.room.held.lock().unwrap_or_else(PoisonError::into_inner);
        held.requests = held.requests.saturating_sub(1);
        held.bytes = held.bytes.saturating_sub(self.bytes);
        drop(held);
        self.room.freed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};

    #[test]
    fn first_come_first_served_but_parts_of_what_was_begun_go_first() {
        let queue = Queue::new();
        queue.push_last(1);
        queue.push_last(2);
        queue.push_first(0);
        queue.close();
        let popped = [(); 4].map(|()| queue.pop(Duration::from_secs(3_600), || ()));
        assert_eq!(popped, [Some(0), Some(1), Some(2), None]);
    }

    #[test]
    fn a_full_room_admits_only_when_something_is_answered() {
        for (first, second) in [(vec![0; BATCHES_IN_FLIGHT_MAX], 0), (vec![BATCH_BYTES_IN_FLIGHT_MAX], 1)] {
            let queue = Queue::<()>::new();
            let mut permits: Vec<_> = first.into_iter().map(|bytes| queue.admit(bytes)).collect();
            let admitted = AtomicBool::new(false);
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    let permit = queue.admit(second);
                    admitted.store(true, Ordering::SeqCst);
                    drop(permit);
                });
                std::thread::sleep(Duration::from_millis(50));
                assert!(!admitted.load(Ordering::SeqCst));
                permits.pop();
            });
            assert!(admitted.load(Ordering::SeqCst));
        }
    }

    /// By themselves, as long as there is nothing to do.
    #[test]
    fn workers_that_wait_come_by_again_and_again() {
        let queue = Queue::<()>::new();
        let mut times = 0;
        let popped = queue.pop(Duration::from_millis(1), || {
            times += 1;
            if times == 5 {
                queue.close();
            }
        });
        assert_eq!((popped, times), (None, 5));
    }

    #[test]
    fn workers_that_wait_are_told_of_the_end() {
        let queue = Queue::<()>::new();
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| queue.pop(Duration::from_secs(3_600), || ()));
            std::thread::sleep(Duration::from_millis(20));
            queue.close();
            assert!(waiting.join().unwrap().is_none());
        });
    }
}
