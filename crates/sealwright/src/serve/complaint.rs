//! How often the same trouble is said: when it begins or becomes another, and then once a while, so that a log tells it
//! without being filled by it.

use std::time::{Duration, Instant};

/// Between two lines about the same.
const AGAIN: Duration = Duration::from_secs(60);

/// What was said last, and when; nothing, while all is well.
#[derive(Default)]
pub(super) struct Complaint(Option<(Vec<&'static str>, Instant)>);

impl Complaint {
    /// Whether this is to be said now. It is another trouble if other parts have one, whatever figures are in its words.
    pub(super) fn is_due(&mut self, parts: &[&'static str], now: Instant) -> bool {
        let is_known = self
            .0
            .as_ref()
            .is_some_and(|(said, at)| said.as_slice() == parts && now.saturating_duration_since(*at) < AGAIN);
        if !is_known {
            self.0 = Some((parts.to_vec(), now));
        }
        !is_known
    }

    /// All is well; whether that is news.
    pub(super) fn end(&mut self) -> bool {
        self.0.take().is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trouble_is_said_when_it_begins_or_changes_then_once_a_minute_and_its_end_once() {
        let begun = Instant::now();
        let mut complaint = Complaint::default();
        assert!(!complaint.end());
        let at = |seconds| begun.checked_add(Duration::from_secs(seconds)).unwrap();
        let said: Vec<u64> = (0..150).filter(|second| complaint.is_due(&["disk"], at(*second))).collect();
        assert_eq!(said, [0, 60, 120]);
        assert!(complaint.is_due(&["signer", "disk"], at(150)));
        assert!(!complaint.is_due(&["signer", "disk"], at(151)));
        assert!(complaint.end() && !complaint.end());
        assert!(complaint.is_due(&["disk"], at(152)));
    }
}
