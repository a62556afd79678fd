//! What one operation takes, by algorithm, of one backend, and how many go on at once: the table and a guess at first,
//! and then what the signer reports.

use std::collections::HashMap;

use sealwright_crypto::algorithm::KeyAlgorithm;
use tokio::time::Instant;

/// A report moves the estimate by one part in so many of the difference: about that many batches are remembered.
const MEMORY: u64 = 16;

/// No report moves an estimate below this part of the table, or above so many microseconds.
const FASTER_MAX: u64 = 8;
const US_MAX: u64 = 10_000_000;

/// Algorithms that are measured; imported RSA keys can have any length. Others go by the table.
const ALGORITHMS_MAX: usize = 32;

/// Microseconds.
#[derive(Default)]
pub(super) struct Costs(HashMap<KeyAlgorithm, u64>);

impl Costs {
    pub(super) fn of(&self, algorithm: KeyAlgorithm) -> u64 {
        self.0.get(&algorithm).copied().unwrap_or_else(|| algorithm.nominal_us().into())
    }

    /// Operations took so many microseconds each.
    pub(super) fn learn(&mut self, algorithm: KeyAlgorithm, us: u64) {
        if self.0.len() >= ALGORITHMS_MAX && !self.0.contains_key(&algorithm) {
            return;
        }
        let least = (u64::from(algorithm.nominal_us()) / FASTER_MAX).max(1);
        let us = us.clamp(least, US_MAX);
        let known = self.0.entry(algorithm).or_insert_with(|| algorithm.nominal_us().into());
        // The part that is taken away is rounded up, so that an estimate falls as far as it should.
        *known = known.saturating_sub(known.div_ceil(MEMORY)).saturating_add(us.div_ceil(MEMORY)).max(least);
    }
}

/// Operations of one backend that go on at once: work done by time passed, of times when work waited.
#[derive(Default)]
pub(super) struct Width {
    /// Of the last batches, microseconds.
    work_us: u64,
    time_us: u64,
    /// When the last batch was done, if work waited then.
    last: Option<Instant>,
}

/// About so many batches are remembered: more than come back together.
const WIDTH_MEMORY: u64 = 64;

/// Less time than this tells nothing.
const TIME_US_MIN: u64 = 50_000;

impl Width {
    /// Microseconds of time for so many of work. Before anything is known, `guess` operations go on at once.
    pub(super) fn time_us(&self, work_us: u64, guess: u64) -> u64 {
        if self.time_us < TIME_US_MIN || self.work_us <= self.time_us {
            // One at once, at least.
            let width = if self.time_us < TIME_US_MIN { guess } else { 1 };
            return work_us.div_ceil(width.max(1));
        }
        let time_us =
            u128::from(work_us).saturating_mul(self.time_us.into()).checked_div(self.work_us.into());
        u64::try_from(time_us.unwrap_or(0)).unwrap_or(u64::MAX)
    }

    /// A batch is done.
    pub(super) fn learn(&mut self, worked_us: u64, now: Instant, does_work_wait: bool) {
        if let Some(last) = self.last {
            let passed = now.saturating_duration_since(last).as_micros();
            let forget = |us: u64| us.saturating_sub(us / WIDTH_MEMORY);
            self.work_us = forget(self.work_us).saturating_add(worked_us);
            self.time_us = forget(self.time_us).saturating_add(u64::try_from(passed).unwrap_or(u64::MAX));
        }
        self.last = does_work_wait.then_some(now);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const RSA: KeyAlgorithm = KeyAlgorithm::Rsa(4096);

    #[test]
    fn a_cost_is_what_was_measured_last_about() {
        let mut costs = Costs::default();
        assert_eq!(costs.of(RSA), u64::from(RSA.nominal_us()));
        for us in [200_000, 2_500, 7_000] {
            (0..200).for_each(|_| costs.learn(RSA, us));
            assert!(costs.of(RSA).abs_diff(us) <= us / 50 + 32, "{} {us}", costs.of(RSA));
        }
        assert_eq!(costs.of(KeyAlgorithm::Ed25519), 20, "another algorithm is another cost");
    }

    #[test]
    fn how_many_go_on_at_once_is_learned_while_work_waits() {
        for (at_once, guess) in [(1, 4), (2, 2), (16, 4)] {
            let (mut width, mut now) = (Width::default(), Instant::now());
            assert_eq!(width.time_us(1_000_000, guess), 1_000_000 / guess);
            for number in 0..400 {
                // All of them come back at the same time.
                if number % at_once == 0 {
                    now += Duration::from_millis(100);
                }
                width.learn(100_000, now, true);
            }
            let time_us = width.time_us(1_000_000, guess);
            assert!(time_us.abs_diff(1_000_000 / at_once) <= 300_000 / at_once, "{time_us} {at_once}");
        }
    }

    #[test]
    fn time_when_nothing_waited_tells_nothing() {
        let (mut width, mut now) = (Width::default(), Instant::now());
        for _ in 0..100 {
            now += Duration::from_secs(1);
            width.learn(5_000, now, false);
        }
        assert_eq!(width.time_us(1_000, 2), 500);
    }

    #[test]
    fn one_wrong_report_moves_a_cost_by_a_sixteenth_at_most() {
        let mut costs = Costs::default();
        costs.learn(RSA, 0);
        assert!(costs.of(RSA) > 4_600);
        costs.learn(RSA, u64::MAX);
        assert!(costs.of(RSA) < 5_000 + US_MAX / MEMORY);
    }
}
