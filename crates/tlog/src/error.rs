//! The one error type of this crate.

/// Why bytes of a log are not accepted, or an entry cannot be written. None can be mended by a retry.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Bytes that are not a canonical entry. The log or its reader is at fault: compare with another copy.
    #[error("log entry: {field}: {reason}")]
    MalformedEntry {
        /// The field in which the rule is broken.
        field: &'static str,
        /// The rule.
        reason: &'static str,
    },
    /// An entry of a version that this release does not know; use the release that wrote it, or a newer one.
    #[error("log entry of version {version}, which this release cannot read; use a newer release")]
    UnknownVersion {
        /// The version byte found.
        version: u8,
    },
    /// A field longer than its named limit: our caller did not check what it took from outside.
    #[error("log entry: {field} has {len} bytes; the limit is {limit}")]
    FieldTooLong {
        /// The field.
        field: &'static str,
        /// Its length in bytes.
        len: usize,
        /// The limit in bytes.
        limit: usize,
    },
    /// The stored head has another number of hashes than its size needs: the store is damaged. Stop writing
    /// and compare with a backup.
    #[error("log head of size {size} holds {found} hash bytes; it needs {expected}")]
    MalformedHead {
        /// Number of entries that the head claims.
        size: u64,
        /// Bytes expected.
        expected: usize,
        /// Bytes found.
        found: usize,
    },
    /// The log holds 2^63 entries already.
    #[error("the log is full")]
    Full,
}
