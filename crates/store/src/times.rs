//! Times of latest entries that are in the log and not yet in `key_states`.
//!
//! To note a time is to write a page of that table, one for each key where keys take turns: more than all else that a signature
//! writes. So where more than [`FEW`] keys sign, their times wait here, and are noted together, page by page, when the log has
//! grown by [`TAIL_MAX`] entries. The log is what counts: `log_head.noted` says up to which entry the table is complete, and what
//! follows is read from the log by whoever does not know it, inside his transaction: a process that has just started, or one
//! that finds that another has appended.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Most entries whose times are not noted: what is remembered, and what a process that starts reads of the log.
pub const TAIL_MAX: u64 = 8_192;

/// So many keys are noted with each commit, as they lie on few pages, and a process that starts has nothing to read.
pub const FEW: usize = 16;

/// Shared by the writer and those who read keys. The lock is held for memory alone.
#[derive(Clone, Default)]
pub(crate) struct Times(Arc<Mutex<Late>>);

#[derive(Default)]
struct Late {
    /// Entries from here on are not in the table.
    noted: u64,
    /// Entries up to here are in the table, or else in `times`.
    known: u64,
    times: HashMap<[u8; 16], i64>,
}

impl Times {
    /// The time of the latest entry of this key, if it waits to be noted.
    pub(crate) fn of(&self, id: [u8; 16]) -> Option<i64> {
        self.locked().times.get(&id).copied()
    }

    /// The entries that are to be learned, when the log has `size` and the table is complete up to `noted`.
    pub(crate) fn unknown(&self, size: u64, noted: u64) -> Range<u64> {
        let mut late = self.locked();
        if late.noted != noted || late.known < noted || late.known > size {
            // Another process has noted them; or the store is an older one, put back.
            *late = Late { noted, known: noted, times: HashMap::new() };
        }
        late.known..size
    }

    /// Entries before `known`, from the log.
    pub(crate) fn learn(&self, known: u64, entries: impl Iterator<Item = ([u8; 16], i64)>) {
        let mut late = self.locked();
        late.add(entries);
        late.known = known;
    }

    /// What is to be noted, by id, when these keys have signed up to this size of the log. None: it waits.
    pub(crate) fn to_note(&self, signed: &HashMap<[u8; 16], i64>, size: u64) -> Option<Vec<([u8; 16], i64)>> {
        let late = self.locked();
        let others = signed.keys().filter(|id| !late.times.contains_key(*id)).count();
        let keys = late.times.len().saturating_add(others);
        if keys > FEW && size.saturating_sub(late.noted) < TAIL_MAX {
            return None;
        }
        let mut all = Late { times: late.times.clone(), ..Late::default() };
        all.add(signed.iter().map(|(id, at_s)| (*id, *at_s)));
        let mut rows: Vec<_> = all.times.into_iter().collect();
        rows.sort_unstable();
        Some(rows)
    }

    /// It is durable: these keys have signed, up to this size, and what [`Self::to_note`] gave was noted, or waits.
    pub(crate) fn committed(&self, signed: HashMap<[u8; 16], i64>, size: u64, is_noted: bool) {
        let mut late = self.locked();
        late.known = size;
        if is_noted {
            *late = Late { noted: size, known: size, times: HashMap::new() };
        } else {
            late.add(signed.into_iter());
        }
    }

    fn locked(&self) -> MutexGuard<'_, Late> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Late {
    fn add(&mut self, entries: impl Iterator<Item = ([u8; 16], i64)>) {
        for (id, at_s) in entries {
            let latest = self.times.entry(id).or_insert(at_s);
            *latest = (*latest).max(at_s);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn signed(keys: u8, at_s: i64) -> HashMap<[u8; 16], i64> {
        (0..keys).map(|n| ([n; 16], at_s)).collect()
    }

    #[test]
    fn few_keys_are_noted_at_once_and_many_wait_for_the_tail() {
        let times = Times::default();
        let (few, many) = (u8::try_from(FEW).unwrap(), u8::try_from(FEW + 1).unwrap());
        assert_eq!(times.to_note(&signed(few, 5), 20).unwrap().len(), FEW);
        assert_eq!(times.to_note(&signed(many, 5), TAIL_MAX - 1), None);
        times.committed(signed(many, 5), TAIL_MAX - 1, false);
        assert_eq!(times.of([0; 16]), Some(5));
        // The one that comes late is not later.
        let rows = times.to_note(&signed(1, 4), TAIL_MAX).unwrap();
        assert_eq!((rows.len(), rows[0]), (FEW + 1, ([0; 16], 5)));
        assert!(rows.is_sorted());
        times.committed(signed(1, 4), TAIL_MAX, true);
        assert_eq!(times.of([0; 16]), None);
        assert_eq!(times.unknown(TAIL_MAX, TAIL_MAX), TAIL_MAX..TAIL_MAX);
    }

    #[test]
    fn what_others_appended_is_unknown_and_what_they_noted_is_forgotten() {
        let times = Times::default();
        assert_eq!(times.unknown(100, 40), 40..100);
        times.learn(100, [([1; 16], 7)].into_iter());
        assert_eq!(times.unknown(130, 40), 100..130);
        assert_eq!(times.of([1; 16]), Some(7));
        assert_eq!(times.unknown(150, 140), 140..150);
        assert_eq!(times.of([1; 16]), None);
        // A store of before.
        times.learn(150, std::iter::empty());
        assert_eq!(times.unknown(120, 40), 40..120);
    }
}
