//! A measure of digests for each client: over it, it waits for a while; over that, it is refused.
//!
//! With each client stands the moment up to which what it asked for is paid, at [`Rate::wait`]'s rate. A second in
//! advance is free, so that the bursts of a build service pass.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// What may be asked for at once before anybody waits.
const BURST: Duration = Duration::from_millis(1_000);

/// Longest wait; clients of this protocol know no "come again".
const WAIT_MAX: Duration = Duration::from_millis(5_000);

#[derive(Default)]
pub(super) struct Rate {
    /// By client; no more than there are in `clients.toml`, so nothing leaves.
    paid_until: Mutex<HashMap<String, Instant>>,
}

impl Rate {
    /// How long the client has to wait with so many digests, at so many a second; `None`: too long, and nothing is noted.
    pub(super) fn wait(&self, client: &str, digests: usize, per_s: u32, now: Instant) -> Option<Duration> {
        let cost =
            Duration::from_secs(u64::try_from(digests).unwrap_or(u64::MAX)).checked_div(per_s.max(1))?;
        let mut paid_until = self.paid_until.lock().unwrap_or_else(PoisonError::into_inner);
        let begin = paid_until.get(client).copied().map_or(now, |paid| paid.max(now));
        let paid = begin.checked_add(cost)?;
        let wait = paid.saturating_duration_since(now).saturating_sub(BURST);
        if wait > WAIT_MAX {
            return None;
        }
        paid_until.insert(client.to_owned(), paid);
        Some(wait)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_passes_then_a_client_waits_then_it_is_refused_and_no_other_is() {
        let (rate, now) = (Rate::default(), Instant::now());
        assert_eq!(rate.wait("a", 100, 100, now), Some(Duration::ZERO));
        assert_eq!(rate.wait("a", 100, 100, now), Some(Duration::from_secs(1)));
        assert_eq!(rate.wait("a", 400, 100, now), Some(Duration::from_secs(5)));
        assert_eq!(rate.wait("a", 1, 100, now), None);
        assert_eq!(rate.wait("b", 1, 100, now), Some(Duration::ZERO));
        let later = now + Duration::from_secs(6);
        assert_eq!(rate.wait("a", 100, 100, later), Some(Duration::ZERO), "what was refused is not noted");
    }
}
