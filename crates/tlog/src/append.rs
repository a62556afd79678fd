//! Sequencing: entries get indexes, the head grows with them, inside the caller's transaction.

use crate::entry::Entry;
use crate::error::Error;
use crate::merkle::{Hash, leaf_hash};
use crate::storage::{LogTransaction, Row};

/// Where an entry stands, once the caller has committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Appended {
    /// Position in the log.
    pub index: u64,
    /// RFC 6962 leaf hash of the canonical entry.
    pub leaf_hash: Hash,
}

/// Appends `entries` in order: reads the head inside the transaction, writes rows and the new head. Nothing
/// is durable, and no index may be told to anyone, before the caller has committed; on an error the caller
/// must roll back. An empty batch writes nothing.
///
/// # Errors
/// An entry with a field over its limit, a damaged head, a full log (all as [`Error`], through `From`), or the
/// store's own error.
pub async fn append<T>(transaction: &mut T, entries: &[&Entry]) -> Result<Vec<Appended>, T::Error>
where
    T: LogTransaction,
    T::Error: From<Error>,
{
    if entries.is_empty() {
        return Ok(Vec::new());
    }
    let mut head = transaction.head().await?;
    let mut rows = Vec::with_capacity(entries.len());
    let mut appended = Vec::with_capacity(entries.len());
    for entry in entries {
        let bytes = entry.encode()?;
        let leaf_hash = leaf_hash(&bytes);
        let index = head.append(leaf_hash)?;
        appended.push(Appended { index, leaf_hash });
        let (key_id, signed_at_s) = (entry.key_id, entry.signed_at_s);
        rows.push(Row { index, entry: bytes, leaf_hash, key_id, signed_at_s });
    }
    transaction.write_rows(rows).await?;
    transaction.write_head(&head).await?;
    Ok(appended)
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;
    use crate::entry::tests::small;
    use crate::merkle::CompactRange;

    #[derive(Default)]
    struct Memory {
        head: CompactRange,
        rows: Vec<Row>,
        calls: Vec<&'static str>,
    }

    impl LogTransaction for Memory {
        type Error = Error;

        async fn head(&mut self) -> Result<CompactRange, Error> {
            self.calls.push("head");
            Ok(self.head.clone())
        }

        async fn write_rows(&mut self, rows: Vec<Row>) -> Result<(), Error> {
            self.calls.push("rows");
            self.rows.extend(rows);
            Ok(())
        }

        async fn write_head(&mut self, head: &CompactRange) -> Result<(), Error> {
            self.calls.push("write head");
            self.head = head.clone();
            Ok(())
        }
    }

    fn append_now(memory: &mut Memory, entries: &[Entry]) -> Result<Vec<Appended>, Error> {
        let entries: Vec<&Entry> = entries.iter().collect();
        match pin!(append(memory, &entries)).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(result) => result,
            Poll::Pending => panic!("memory never waits"),
        }
    }

    #[test]
    fn rows_follow_the_head_that_was_read_in_the_transaction() {
        let mut memory = Memory::default();
        let entries: Vec<Entry> = (0..5).map(|item| Entry { item, ..small() }).collect();
        let first = append_now(&mut memory, &entries[..3]).unwrap();
        let second = append_now(&mut memory, &entries[3..]).unwrap();
        assert_eq!(memory.calls, ["head", "rows", "write head", "head", "rows", "write head"]);
        let indexes: Vec<u64> = first.iter().chain(&second).map(|at| at.index).collect();
        assert_eq!(indexes, [0, 1, 2, 3, 4]);
        let mut head = CompactRange::empty();
        for (row, entry) in memory.rows.iter().zip(&entries) {
            assert_eq!(Entry::decode(&row.entry).unwrap(), *entry);
            assert_eq!(row.leaf_hash, leaf_hash(&row.entry));
            assert_eq!(head.append(row.leaf_hash).unwrap(), row.index);
        }
        assert_eq!(memory.head, head);
    }

    #[test]
    fn an_entry_over_its_limits_stops_the_batch_before_anything_is_written() {
        let mut memory = Memory::default();
        let long = Entry { principal: "x".repeat(300), ..small() };
        assert!(matches!(append_now(&mut memory, &[small(), long]), Err(Error::FieldTooLong { .. })));
        assert_eq!(memory.calls, ["head"]);
    }

    #[test]
    fn an_empty_batch_does_not_even_read_the_head() {
        let mut memory = Memory::default();
        assert_eq!(append_now(&mut memory, &[]).unwrap(), []);
        assert!(memory.calls.is_empty());
    }
}
