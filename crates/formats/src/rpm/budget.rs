//! How many bytes of large signature headers all jobs of the process hold together. A header can have 64 MiB; with
//! eight jobs that would be half a gigabyte, so large ones wait for each other.

use std::ops::Deref;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::error::Error;

/// Bytes that may be held at once. One header always may.
const BUDGET_BYTES: u64 = 64 << 20;
/// A header of up to this many bytes does not count.
const SMALL_BYTES: u64 = 1 << 20;
/// How long a header waits for others to be done with, before it is refused: the longest that a key holder may take.
const PATIENCE: Duration = Duration::from_mins(1);

static BUDGET: Budget = Budget { used: Mutex::new(0), freed: Condvar::new() };

/// What is held of a budget.
struct Budget {
    used: Mutex<u64>,
    freed: Condvar,
}

/// A part of the budget, until it is dropped.
struct Share {
    budget: &'static Budget,
    bytes: u64,
}

/// The bytes of a header, with their share of the budget.
pub(super) struct Buffer {
    bytes: Vec<u8>,
    _share: Option<Share>,
}

impl Buffer {
    /// So many zeros, once there is room for them.
    ///
    /// # Errors
    /// [`Error::Busy`] if there is none for a minute.
    pub(super) fn zeroed(len: u64) -> Result<Self, Error> {
        let share = if len > SMALL_BYTES { Some(BUDGET.take(len, PATIENCE)?) } else { None };
        Ok(Self { bytes: vec![0; usize::try_from(len).unwrap_or(0)], _share: share })
    }

    /// To fill it.
    pub(super) fn as_mut(&mut self) -> &mut [u8] {
        &mut self.bytes
    }
}

impl From<Vec<u8>> for Buffer {
    fn from(bytes: Vec<u8>) -> Self {
        Self { bytes, _share: None }
    }
}

impl Deref for Buffer {
    type Target = Vec<u8>;

    fn deref(&self) -> &Vec<u8> {
        &self.bytes
    }
}

impl core::fmt::Debug for Buffer {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{} bytes", self.bytes.len())
    }
}

impl Budget {
    fn take(&'static self, bytes: u64, patience: Duration) -> Result<Share, Error> {
        let full = |used: &mut u64| *used > 0 && used.saturating_add(bytes) > BUDGET_BYTES;
        let (mut used, waited) = self
            .freed
            .wait_timeout_while(self.lock(), patience, full)
            .unwrap_or_else(PoisonError::into_inner);
        if waited.timed_out() {
            return Err(Error::Busy { limit: BUDGET_BYTES });
        }
        *used = used.saturating_add(bytes);
        Ok(Share { budget: self, bytes })
    }

    fn lock(&self) -> MutexGuard<'_, u64> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut used = self.budget.lock();
        *used = used.saturating_sub(self.bytes);
        drop(used);
        self.budget.freed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;
    use std::thread;

    const MIB: u64 = 1 << 20;
    const SHORT: Duration = Duration::from_millis(50);

    fn budget() -> &'static Budget {
        Box::leak(Box::new(Budget { used: Mutex::new(0), freed: Condvar::new() }))
    }

    #[test]
    fn large_headers_wait_until_there_is_room() {
        let budget = budget();
        let first = budget.take(40 * MIB, SHORT).unwrap();
        let second = budget.take(20 * MIB, SHORT).unwrap();
        assert!(matches!(budget.take(5 * MIB, SHORT), Err(Error::Busy { .. })));
        let (said, heard) = channel();
        let waiting = thread::spawn(move || {
            let share = budget.take(44 * MIB, PATIENCE).unwrap();
            said.send(()).unwrap();
            drop(share);
        });
        assert!(heard.recv_timeout(SHORT).is_err());
        drop(first);
        heard.recv_timeout(PATIENCE).unwrap();
        waiting.join().unwrap();
        drop(second);
        assert_eq!(*budget.lock(), 0);
    }

    #[test]
    fn one_header_is_always_taken_whatever_its_size() {
        let budget = budget();
        assert!(budget.take(BUDGET_BYTES + MIB, SHORT).is_ok());
    }
}
