//! Work for the workers, with a bound on what is held from reading to answering. Interactive work goes first, and of
//! the time for which both kinds wait, batch gets one part in [`BATCH_SHARE`]; within each, first come first served.
//! Front decides whose work comes here, and sends no more than a few operations for each processor (docs/adr/0015).

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use sealwright_proto::convert::group::Priority;
use sealwright_proto::limits::{BATCH_BYTES_IN_FLIGHT_MAX, BATCHES_IN_FLIGHT_MAX};

/// While interactive work never ends, batch still gets this part of the time.
const BATCH_SHARE: u64 = 8;

/// A queue that many threads take from.
pub(super) struct Queue<T> {
    state: Mutex<State<T>>,
    not_empty: Condvar,
    room: Arc<Room>,
}

struct State<T> {
    waiting: Waiting<T>,
    closed: bool,
}

/// What is to be done, and how many microseconds it takes, about.
struct Job<T> {
    us: u64,
    what: T,
}

struct Waiting<T> {
    interactive: VecDeque<Job<T>>,
    batch: VecDeque<Job<T>>,
    /// Microseconds of interactive work that went before batch work which was waiting; below zero, what batch work took
    /// before its turn.
    passed_us: i64,
}

impl<T> Waiting<T> {
    const fn new() -> Self {
        Self { interactive: VecDeque::new(), batch: VecDeque::new(), passed_us: 0 }
    }

    fn of(&mut self, priority: Priority) -> &mut VecDeque<Job<T>> {
        match priority {
            Priority::Interactive => &mut self.interactive,
            Priority::Batch => &mut self.batch,
        }
    }

    fn next(&mut self) -> Option<T> {
        let Some(batch) = self.batch.front() else {
            self.passed_us = 0;
            return self.interactive.pop_front().map(|job| job.what);
        };
        let due_us = due_us(batch.us);
        if self.passed_us < due_us
            && let Some(Job { us, what }) = self.interactive.pop_front()
        {
            self.passed_us = self.passed_us.saturating_add_unsigned(us);
            return Some(what);
        }
        self.passed_us = self.passed_us.saturating_sub(due_us);
        self.batch.pop_front().map(|job| job.what)
    }

    /// What was taken takes so many microseconds more than it said.
    fn charge(&mut self, priority: Priority, us: u64) {
        if self.batch.is_empty() {
            return;
        }
        self.passed_us = match priority {
            Priority::Interactive => self.passed_us.saturating_add_unsigned(us),
            Priority::Batch => self.passed_us.saturating_sub(due_us(us)),
        };
    }
}

/// Interactive work that goes before so much batch work.
const fn due_us(us: u64) -> i64 {
    0_i64.saturating_add_unsigned(us.saturating_mul(BATCH_SHARE.saturating_sub(1)))
}

impl<T> Queue<T> {
    pub(super) fn new() -> Self {
        Self {
            state: Mutex::new(State { waiting: Waiting::new(), closed: false }),
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

    /// After all others of its priority; it takes about so many microseconds. The number of jobs is bounded by the
    /// permits: each has one, and at most so many slices.
    pub(super) fn push_last(&self, priority: Priority, us: u64, job: T) {
        self.push(|waiting| waiting.of(priority).push_back(Job { us, what: job }));
    }

    /// Before all others of its priority.
    pub(super) fn push_first(&self, priority: Priority, us: u64, job: T) {
        self.push(|waiting| waiting.of(priority).push_front(Job { us, what: job }));
    }

    /// What was taken takes so many microseconds more than it said.
    pub(super) fn charge(&self, priority: Priority, us: u64) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).waiting.charge(priority, us);
    }

    fn push(&self, add: impl FnOnce(&mut Waiting<T>)) {
        add(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner).waiting);
        self.not_empty.notify_one();
    }

    /// Drops what waits.
    pub(super) fn clear(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let dropped = std::mem::replace(&mut state.waiting, Waiting::new());
        drop(state);
        // Outside the lock.
        drop(dropped);
    }

    /// Jobs that wait.
    pub(super) fn len(&self) -> usize {
        let waiting = &self.state.lock().unwrap_or_else(PoisonError::into_inner).waiting;
        waiting.interactive.len().saturating_add(waiting.batch.len())
    }

    /// The next job, waiting for it; `None` once the queue is closed and empty. `come_by` is called before, and whenever
    /// there was none for so long.
    pub(super) fn pop(&self, look: Duration, mut come_by: impl FnMut()) -> Option<T> {
        loop {
            come_by();
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            let mut has_waited = false;
            while !has_waited {
                if let Some(job) = state.waiting.next() {
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

    use Priority::{Batch, Interactive};

    fn pop<T>(queue: &Queue<T>) -> Option<T> {
        queue.pop(Duration::from_secs(3_600), || ())
    }

    #[test]
    fn first_come_first_served_but_parts_of_what_was_begun_go_first() {
        let queue = Queue::new();
        queue.push_last(Batch, 1, 1);
        queue.push_last(Batch, 1, 2);
        queue.push_first(Batch, 1, 0);
        queue.close();
        let popped = [(); 4].map(|()| queue.pop(Duration::from_secs(3_600), || ()));
        assert_eq!(popped, [Some(0), Some(1), Some(2), None]);
    }

    #[test]
    fn interactive_work_that_comes_last_goes_first() {
        let queue = Queue::new();
        (0..100).for_each(|number| queue.push_last(Batch, 5_000, number));
        queue.push_last(Interactive, 5_000, 1_000);
        assert_eq!([pop(&queue), pop(&queue)], [Some(1_000), Some(0)]);
    }

    #[test]
    fn batch_work_gets_an_eighth_of_the_time_while_interactive_work_never_ends() {
        for (interactive_us, batch_us) in [(5_000, 5_000), (5_000, 300), (20, 5_000), (700, 2_000)] {
            let queue = Queue::new();
            let (mut spent_us, mut spent_on_batch_us) = (0, 0);
            let more = |us: &mut u64, priority, cost| {
                while *us < 10_000 {
                    queue.push_last(priority, cost, (priority, cost));
                    *us += cost;
                }
            };
            let (mut waiting_interactive_us, mut waiting_batch_us) = (0, 0);
            while spent_us < 10_000_000_u64 {
                more(&mut waiting_interactive_us, Interactive, interactive_us);
                more(&mut waiting_batch_us, Batch, batch_us);
                let (priority, us) = pop(&queue).unwrap();
                spent_us += us;
                if priority == Batch {
                    spent_on_batch_us += us;
                    waiting_batch_us -= us;
                } else {
                    waiting_interactive_us -= us;
                }
            }
            let share = spent_us * 100 / spent_on_batch_us;
            assert!((790..=810).contains(&share), "{share} {interactive_us} {batch_us}");
        }
    }

    #[test]
    fn what_a_message_holds_counts_when_it_is_known() {
        let queue = Queue::new();
        let (mut count, mut of_batch) = (0, 0);
        queue.push_last(Interactive, 50, Interactive);
        queue.push_last(Batch, 50, Batch);
        while count < 8_000 {
            let priority = pop(&queue).unwrap();
            count += 1;
            of_batch += usize::from(priority == Batch);
            queue.push_last(priority, 50, priority);
            // Each has one operation in it, which is done at once.
            queue.charge(priority, 5_000);
        }
        assert!((990..=1_010).contains(&of_batch), "{of_batch} of {count}");
    }

    #[test]
    fn interactive_work_owes_nothing_for_the_time_when_no_batch_work_waited() {
        let queue = Queue::new();
        for number in 0..100 {
            queue.push_last(Interactive, 5_000, number);
            assert_eq!(pop(&queue), Some(number));
        }
        queue.push_last(Batch, 5_000, 1_000);
        (0..8).for_each(|number| queue.push_last(Interactive, 5_000, number));
        let order: Vec<_> = (0..9).map(|_| pop(&queue).unwrap()).collect();
        assert_eq!(order, [0, 1, 2, 3, 4, 5, 6, 1_000, 7]);
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
