//! What one operation takes, by algorithm, of one backend: the table at first, and then what the signer reports.

use std::collections::HashMap;

use sealwright_crypto::algorithm::KeyAlgorithm;

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

#[cfg(test)]
mod tests {
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
    fn one_wrong_report_moves_a_cost_by_a_sixteenth_at_most() {
        let mut costs = Costs::default();
        costs.learn(RSA, 0);
        assert!(costs.of(RSA) > 4_600);
        costs.learn(RSA, u64::MAX);
        assert!(costs.of(RSA) < 5_000 + US_MAX / MEMORY);
    }
}
