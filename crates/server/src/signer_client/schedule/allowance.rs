//! What a client may use as interactive: people sign now and then. Without it, who calls everything interactive would
//! pass everybody who is honest.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

/// Microseconds of work at once, times the weight.
const BURST_US: u64 = 2_000_000;

/// Of the time of a backend, times the weight: one part in so many.
const PART: u64 = 4;

/// Clients that are remembered before those who have all of their allowance are forgotten.
const CLIENTS_KEPT: usize = 1024;

/// By client; who is not in it has all of it.
#[derive(Default)]
pub(super) struct Allowances(HashMap<Arc<str>, Allowance>);

struct Allowance {
    /// Microseconds of work that are used up, as of then.
    used_us: u64,
    at: Instant,
    weight: u32,
}

impl Allowances {
    /// Whether the client may use so much as interactive.
    pub(super) fn covers(&self, client: &str, weight: u32, us: u64, processors: u64, now: Instant) -> bool {
        let used_us = self.0.get(client).map_or(0, |known| known.used_us(processors, now));
        used_us.saturating_add(us) <= BURST_US.saturating_mul(weight.into())
    }

    /// It does.
    pub(super) fn spend(&mut self, client: &Arc<str>, weight: u32, us: u64, processors: u64, now: Instant) {
        if self.0.len() >= CLIENTS_KEPT {
            self.0.retain(|_, known| known.used_us(processors, now) > 0);
        }
        let known = self.0.entry(Arc::clone(client)).or_insert(Allowance { used_us: 0, at: now, weight });
        let used_us = known.used_us(processors, now).saturating_add(us);
        *known = Allowance { used_us, at: now, weight };
    }
}

impl Allowance {
    fn used_us(&self, processors: u64, now: Instant) -> u64 {
        let passed: Duration = now.saturating_duration_since(self.at);
        let passed_us = u64::try_from(passed.as_micros()).unwrap_or(u64::MAX);
        let given_us = passed_us.saturating_mul(processors).saturating_mul(self.weight.into()) / PART;
        self.used_us.saturating_sub(given_us)
    }
}
