//! What a store must give for the log to be append-only and whole.

use crate::merkle::{CompactRange, Hash};

/// One row of the log as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Position in the log, from 0, without gaps.
    pub index: u64,
    /// Canonical bytes of the entry ([`crate::entry`]).
    pub entry: Vec<u8>,
    /// RFC 6962 leaf hash of those bytes.
    pub leaf_hash: Hash,
    /// UUID of the key, for look-ups.
    pub key_id: [u8; 16],
    /// Time in the signature, Unix seconds, for look-ups.
    pub signed_at_s: i64,
}

/// An open transaction of the store, as seen by the log. Duties of an implementation:
///
/// * **Exclusive.** From [`Self::head`] to the end of the transaction no other writer, in this process or any
///   other that shares the store, changes the head: two appends never see the same head.
/// * **Atomic.** Rows and head become visible together with the commit, or not at all.
/// * **Durable.** When the commit has returned, they survive a crash of process and machine. Whoever commits
///   tells nobody of an index before that.
/// * **Append-only.** A row is never changed or deleted; writing a row whose index exists is an error.
pub trait LogTransaction {
    /// The store's own error.
    type Error;

    /// Reads the head inside the transaction; a cached head is wrong.
    fn head(&mut self) -> impl Future<Output = Result<CompactRange, Self::Error>> + Send;

    /// Writes rows whose indexes follow the head.
    fn write_rows(&mut self, rows: Vec<Row>) -> impl Future<Output = Result<(), Self::Error>> + Send;

    /// Replaces the head by one that covers the rows just written.
    fn write_head(&mut self, head: &CompactRange) -> impl Future<Output = Result<(), Self::Error>> + Send;
}
