//! The one error type of this crate. It can be cloned, because an error of a commit goes to everyone whose
//! work was in it.

use std::path::PathBuf;
use std::sync::Arc;

use sealwright_crypto::openpgp::fingerprint::Fingerprint;

/// Why the store did not do what it was asked.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The caller's: two keys have this primary fingerprint (two subkeys of one certificate). Name the key, or
    /// give the fingerprint of its signing subkey.
    #[error(
        "several keys have the certificate {fingerprint}; give the name, or the fingerprint of the signing subkey"
    )]
    Ambiguous {
        /// The fingerprint asked for.
        fingerprint: Fingerprint,
    },
    /// Another process holds the store for longer than we wait. A retry can help.
    #[error("the store is busy: another process is writing to it")]
    Busy,
    /// The writer has stopped: this process is shutting down. A retry goes to another process.
    #[error("the store is closed: this process is shutting down")]
    Closed,
    /// A row that we did not write like this. Restore a backup; do not go on.
    #[error("the store is damaged: {what}")]
    Damaged {
        /// The table and column, or what the database says.
        what: &'static str,
    },
    /// The database or its driver failed in a way that has no name of its own here.
    #[error("database error while trying to {doing}")]
    Database {
        /// What we did.
        doing: &'static str,
        /// What the driver says.
        source: Arc<sqlx::Error>,
    },
    /// The caller's: a key that signs with this component is here already.
    #[error("the key {fingerprint} is here already, as {name}")]
    FingerprintTaken {
        /// Of the component that signs.
        fingerprint: Fingerprint,
        /// The key that has it.
        name: String,
    },
    /// No space is left where the store is. Free some and ask again; nothing else has to be done.
    #[error("the disk that holds the store is full")]
    Full,
    /// A file of the store cannot grow, and this process has a limit of file sizes: that, or the disk. The database
    /// does not say which.
    #[error(
        "the files of the store cannot grow: the limit of file sizes is reached (ulimit -f), or the disk that holds the store is full"
    )]
    CannotGrow,
    /// Someone renewed the key meanwhile. Read it again and retry.
    #[error("key {name} was changed meanwhile: generation {found}, not {expected}")]
    GenerationChanged {
        /// The key.
        name: String,
        /// What the caller had read.
        expected: u32,
        /// What is there.
        found: u32,
    },
    /// The caller's: a value over its limit.
    #[error("{what} is {size} bytes; the limit is {limit}")]
    TooLarge {
        /// The column.
        what: &'static str,
        /// Its size in bytes.
        size: usize,
        /// The limit in bytes.
        limit: usize,
    },
    /// The log refused an entry or its head.
    #[error(transparent)]
    Log(#[from] sealwright_tlog::Error),
    /// The caller's: names are given once and for all.
    #[error("the name {name} is taken; names are never reused")]
    NameTaken {
        /// The name.
        name: String,
    },
    /// The store was written by a newer release. It was not touched.
    #[error(
        "the store {path} was written by a newer release (schema {version}; this release knows {known}); use that release"
    )]
    NewerStore {
        /// The file.
        path: PathBuf,
        /// The schema it has.
        version: i64,
        /// The newest schema of this release.
        known: i64,
    },
    /// The file is a database, but not one of ours, or a migration was interrupted.
    #[error("{path} is not a store of Sealwright: {reason}")]
    NotAStore {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: &'static str,
    },
    /// All connections of this process to the store are in use, for longer than we wait. A retry can help.
    #[error("the store is overloaded: all connections to it are in use")]
    Overloaded,
    /// The database cannot be opened: no file may be opened any more (`ulimit -n`), or its folder was changed.
    #[error(
        "the files of the store cannot be opened; its folder was changed, or the limit of open files is reached (ulimit -n)"
    )]
    CannotOpen {
        /// What the driver says.
        source: Arc<sqlx::Error>,
    },
    /// The operating system refused.
    #[error("cannot {doing} {path}")]
    Path {
        /// What we did.
        doing: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// What the operating system says.
        source: Arc<std::io::Error>,
    },
    /// Others could read or replace the store. `chmod` it.
    #[error("{path} has mode {mode:04o}: {reason}")]
    Permissions {
        /// The file or folder.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
        /// What is wrong, and what to do.
        reason: &'static str,
    },
    /// The store is another user's, who could put into it what he likes. Root, too, opens only a store of its own.
    #[error("{path} belongs to user {owner}, but is opened by user {user}", path = path.display())]
    OtherOwner {
        /// The file or folder.
        path: PathBuf,
        /// User id of its owner.
        owner: u32,
        /// User id of this process.
        user: u32,
    },
    /// The store cannot be written: a read-only filesystem or file.
    #[error("the store is read-only")]
    ReadOnly,
    /// The caller's: there is no such key.
    #[error("there is no such key")]
    UnknownKey,
}

/// Result codes of SQLite, lowest byte (`sqlite3.h`).
mod code {
    pub(super) const BUSY: u32 = 5;
    pub(super) const LOCKED: u32 = 6;
    pub(super) const READONLY: u32 = 8;
    pub(super) const CORRUPT: u32 = 11;
    pub(super) const FULL: u32 = 13;
    pub(super) const CANNOT_OPEN: u32 = 14;
    pub(super) const NOT_A_DATABASE: u32 = 26;
    /// Whole code: a write failed for another reason than a full disk.
    pub(super) const IO_WRITE: u32 = 10 | (3 << 8);
    /// Whole code: the index of the journal, in shared memory, could not grow.
    pub(super) const IO_SHARED_MEMORY_SIZE: u32 = 10 | (19 << 8);
}

impl Error {
    /// Names what can be named, and keeps the rest with what we did.
    pub(crate) fn database(doing: &'static str, source: sqlx::Error) -> Self {
        if matches!(source, sqlx::Error::PoolTimedOut) {
            return Self::Overloaded;
        }
        if let sqlx::Error::PoolClosed | sqlx::Error::WorkerCrashed = source {
            return Self::Closed;
        }
        let code = source.as_database_error().and_then(|error| error.code()?.parse::<u32>().ok());
        match (code, has_file_size_limit()) {
            (Some(code::IO_SHARED_MEMORY_SIZE | code::IO_WRITE), true) => return Self::CannotGrow,
            (Some(code::IO_SHARED_MEMORY_SIZE), false) => return Self::Full,
            _ => (),
        }
        match code.map(|code| code & 0xff) {
            Some(code::BUSY | code::LOCKED) => Self::Busy,
            Some(code::FULL) => Self::Full,
            Some(code::CANNOT_OPEN) => Self::CannotOpen { source: Arc::new(source) },
            Some(code::READONLY) => Self::ReadOnly,
            Some(code::CORRUPT) => Self::Damaged { what: "the database file is malformed" },
            Some(code::NOT_A_DATABASE) => Self::Damaged { what: "the file is not a database" },
            Some(_) | None => Self::Database { doing, source: Arc::new(source) },
        }
    }

    /// Whether the same call can succeed later without anyone's help.
    #[must_use]
    pub const fn is_retryable(&self) -> bool {
        matches!(self, Self::Busy | Self::Closed | Self::Overloaded | Self::GenerationChanged { .. })
    }
}

/// Whether the system would refuse a write by the size of its file (`EFBIG`). SQLite keeps that number to itself.
fn has_file_size_limit() -> bool {
    rustix::process::getrlimit(rustix::process::Resource::Fsize).current.is_some()
}

/// Names the step for errors of the driver: `query.await.doing("read a key")?`.
pub(crate) trait Doing<T> {
    fn doing(self, doing: &'static str) -> Result<T, Error>;
}

impl<T> Doing<T> for Result<T, sqlx::Error> {
    fn doing(self, doing: &'static str) -> Result<T, Error> {
        self.map_err(|source| Error::database(doing, source))
    }
}
