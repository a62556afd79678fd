//! When a process that has died is started again: soon, and less soon each time it dies young.

use std::time::{Duration, Instant};

/// After the first death.
const FIRST: Duration = Duration::from_millis(100);
/// At most: nobody gives up, since what is wrong may be mended meanwhile.
const MOST: Duration = Duration::from_secs(5);
/// Who has lived so long has not died young.
const LIFE: Duration = Duration::from_secs(30);

/// Of one process.
#[derive(Debug)]
pub(super) struct Backoff {
    next: Duration,
}

impl Backoff {
    pub(super) const fn new() -> Self {
        Self { next: FIRST }
    }

    /// How long to wait after one that lived so long.
    pub(super) fn after(&mut self, lived: Duration) -> Duration {
        if lived >= LIFE {
            self.next = FIRST;
        }
        let pause = self.next;
        self.next = pause.saturating_mul(2).min(MOST);
        pause
    }
}

/// A moment so far from now.
pub(super) fn from_now(pause: Duration) -> Instant {
    let now = Instant::now();
    now.checked_add(pause).unwrap_or(now)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_to_five_seconds_and_begin_anew_after_thirty_seconds_of_life() {
        let mut backoff = Backoff::new();
        let young: Vec<u128> = (0..8).map(|_| backoff.after(Duration::ZERO).as_millis()).collect();
        assert_eq!(young, [100, 200, 400, 800, 1600, 3200, 5000, 5000]);
        assert_eq!(backoff.after(Duration::from_secs(30)).as_millis(), 100);
        assert_eq!(backoff.after(Duration::from_secs(29)).as_millis(), 200);
    }
}
