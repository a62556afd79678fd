//! Whether a process that says that it lives still does.

use std::time::{Duration, Instant};

use super::backoff::from_now;

/// Before it is given up, it is listened to once more for so long: everything may have stood still, ourselves first of
/// all, and what it says be under way.
const ONCE_MORE: Duration = Duration::from_secs(2);

/// What a process may take to start: as long as front waits for a signer.
const START_MAX: Duration = Duration::from_secs(60);

/// Of one process.
pub(super) struct Watchdog {
    silence_max: Duration,
    /// When it is looked at, if it says nothing until then.
    look: Instant,
    is_suspect: bool,
}

impl Watchdog {
    pub(super) fn new(silence_max: Duration) -> Self {
        Self { silence_max, look: from_now(silence_max), is_suspect: false }
    }

    /// It was just started.
    pub(super) fn started(&mut self) {
        self.heard();
        self.look = from_now(self.silence_max.max(START_MAX));
    }

    /// It has said something.
    pub(super) fn heard(&mut self) {
        *self = Self::new(self.silence_max);
    }

    pub(super) const fn next_look(&self) -> Instant {
        self.look
    }

    /// Looks: whether it has said nothing for too long. It is once; then it is as if the process were new.
    pub(super) fn is_silent(&mut self, now: Instant) -> bool {
        if now < self.look {
            return false;
        }
        if self.is_suspect {
            self.heard();
            return true;
        }
        (self.is_suspect, self.look) = (true, now.checked_add(ONCE_MORE).unwrap_or(now));
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_silent_is_listened_to_once_more_and_then_given_up_once() {
        let mut watchdog = Watchdog::new(Duration::from_secs(3_600));
        assert!(!watchdog.is_silent(Instant::now()));
        // As after a sleep of the whole machine: nobody could have said anything.
        let late = from_now(Duration::from_secs(86_400));
        assert!(!watchdog.is_silent(late));
        assert_eq!(watchdog.next_look(), late + ONCE_MORE);
        assert!(watchdog.is_silent(late + ONCE_MORE));
        assert!(!watchdog.is_silent(from_now(Duration::from_secs(60))), "the next one has its time");
    }

    #[test]
    fn a_start_may_take_longer_than_a_piece_of_work() {
        let mut watchdog = Watchdog::new(Duration::from_secs(5));
        watchdog.started();
        assert!(!watchdog.is_silent(from_now(Duration::from_secs(50))) && !watchdog.is_suspect);
        watchdog.heard();
        assert!(!watchdog.is_silent(from_now(Duration::from_secs(6))) && watchdog.is_suspect);
    }

    #[test]
    fn a_word_in_time_ends_the_suspicion() {
        let mut watchdog = Watchdog::new(Duration::from_secs(3_600));
        let late = from_now(Duration::from_secs(3_700));
        assert!(!watchdog.is_silent(late));
        watchdog.heard();
        assert!(!watchdog.is_silent(from_now(Duration::from_secs(3_000))));
    }
}
