//! Signs of life, for whoever started this process: some bytes each time *every* thread that works has come round for more
//! work. No timer says so on their behalf: where one of them is stuck, or the process stands still, nothing is said, and
//! after [`Watcher::silence_max`] it can be killed and started anew. Front has no part in it.

use std::os::fd::OwnedFd;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::io::Errno;

/// What is said: the words of sd_notify(3), so that a service manager understands them too.
const ALIVE: &[u8] = b"WATCHDOG=1";

/// Threads that have nothing to do come round so often in the time of the longest silence: a round takes two of these.
const LOOKS: u32 = 4;

/// Between two looks, where nobody watches.
const LOOK_UNWATCHED: Duration = Duration::from_secs(60);

/// Who is told that the signer works.
#[derive(Debug)]
pub struct Watcher {
    /// A pipe or a connected socket, not blocking: who does not read is not waited for.
    pub heartbeat: OwnedFd,
    /// After so long without a word the signer counts as hung.
    pub silence_max: Duration,
}

/// See the module.
pub(crate) struct Pulse {
    watcher: Option<Watcher>,
    round: Mutex<Round>,
}

/// In which each thread is to come by once.
struct Round {
    number: u64,
    threads: usize,
    missing: usize,
    not_before: Option<Instant>,
}

/// The last round of one thread.
#[derive(Default)]
pub(crate) struct Seen(u64);

impl Pulse {
    pub(crate) fn new(watcher: Option<Watcher>) -> Self {
        Self { watcher, round: Mutex::new(Round { number: 0, threads: 0, missing: 0, not_before: None }) }
    }

    /// From now on so many threads, which have seen no round.
    pub(crate) fn begin(&self, threads: usize) {
        let mut round = self.round.lock().unwrap_or_else(PoisonError::into_inner);
        let number = round.number.saturating_add(1);
        *round = Round { number, threads, missing: threads, not_before: round.not_before };
    }

    /// A thread comes by, between two pieces of work or with none. The last one of a round ends it with a word.
    pub(crate) fn come_by(&self, seen: &mut Seen) {
        let Some(watcher) = &self.watcher else { return };
        let mut round = self.round.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        if seen.0 == round.number || round.not_before.is_some_and(|moment| now < moment) {
            return;
        }
        seen.0 = round.number;
        round.missing = round.missing.saturating_sub(1);
        if round.missing > 0 {
            return;
        }
        round.number = round.number.saturating_add(1);
        round.missing = round.threads;
        round.not_before = now.checked_add(self.look());
        drop(round);
        match rustix::io::write(&watcher.heartbeat, ALIVE) {
            Ok(_) | Err(Errno::AGAIN) => (),
            Err(error) => tracing::debug!(%error, "nobody hears that the signer works"),
        }
    }

    /// How long a thread without work waits before it comes by.
    pub(crate) fn look(&self) -> Duration {
        let look = |watcher: &Watcher| watcher.silence_max.checked_div(LOOKS).unwrap_or_default();
        self.watcher.as_ref().map_or(LOOK_UNWATCHED, look)
    }

    /// How long front may leave an answer where it is: a thread that waits for front does not come by. `None`: as long
    /// as it likes.
    pub(crate) fn patience(&self) -> Option<Duration> {
        self.watcher.as_ref().map(|_| self.look())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::os::unix::net::UnixStream;

    use super::*;

    fn watched(silence_max: Duration) -> (Pulse, UnixStream) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        theirs.set_nonblocking(true).unwrap();
        (Pulse::new(Some(Watcher { heartbeat: theirs.into(), silence_max })), ours)
    }

    fn words(mut heard: &UnixStream) -> usize {
        let mut bytes = [0; 1024];
        let length = heard.read(&mut bytes).unwrap_or_default();
        bytes.get(..length).unwrap().chunks(ALIVE.len()).count()
    }

    #[test]
    fn a_word_is_said_when_every_thread_has_come_by_and_not_before() {
        let (pulse, heard) = watched(Duration::ZERO);
        pulse.begin(3);
        let [mut first, mut second, mut stuck] = [(); 3].map(|()| Seen::default());
        for _ in 0..100 {
            pulse.come_by(&mut first);
            pulse.come_by(&mut second);
        }
        assert_eq!(words(&heard), 0, "one of three has not come by");
        pulse.come_by(&mut stuck);
        assert_eq!(words(&heard), 1);
        pulse.come_by(&mut stuck);
        assert_eq!(words(&heard), 0, "the others have to come by again");
        pulse.come_by(&mut second);
        pulse.come_by(&mut first);
        assert_eq!(words(&heard), 1);
    }

    #[test]
    fn busy_threads_do_not_say_it_more_often_than_idle_ones() {
        let (pulse, heard) = watched(Duration::from_secs(3_600));
        pulse.begin(1);
        let mut seen = Seen::default();
        for _ in 0..1_000 {
            pulse.come_by(&mut seen);
        }
        assert_eq!(words(&heard), 1);
    }

    #[test]
    fn threads_that_are_no_more_are_not_waited_for() {
        let (pulse, heard) = watched(Duration::ZERO);
        pulse.begin(7);
        pulse.come_by(&mut Seen::default());
        pulse.begin(1);
        pulse.come_by(&mut Seen::default());
        assert_eq!(words(&heard), 1);
    }

    #[test]
    fn a_watcher_that_does_not_read_holds_up_nobody() {
        let (pulse, _heard) = watched(Duration::ZERO);
        pulse.begin(1);
        let mut seen = Seen::default();
        // Far more than the socket holds.
        for _ in 0..100_000 {
            pulse.come_by(&mut seen);
        }
    }
}
