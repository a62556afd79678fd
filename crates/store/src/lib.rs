//! The only SQL of Sealwright: keys, intents and the log in one SQLite file.
//!
//! ```text
//! record_intent --durable--> (the key process signs) --> conclude: key checked again, entries, head, answer
//!        \___________________ writer.rs: many callers, one transaction, one commit ___________________/
//! ```
//!
//! What this crate refuses to do: decide who may sign, read a clock or draw random numbers (all are arguments),
//! trust what it reads (a row that we would not write is [`Error::Damaged`]). It holds no clear private key.
//!
//! One SQL text with `$1` parameters serves SQLite and, later, PostgreSQL; no query grows with the number of
//! keys or with the log. Several processes may share a store: every write begins with the database's lock.
//!
//! Reading order: `migrations/sqlite`, [`keys`], [`intents`], [`log`], then `writer.rs` and `transaction.rs`.
//!
//! Promise: a store of an older release is brought up to date when it is opened; one of a newer release is
//! refused by name and not touched.

#![forbid(unsafe_code)]

use std::path::Path;
use std::sync::Arc;

use sqlx::SqlitePool;

mod copier;
pub mod error;
pub mod intents;
pub mod keys;
pub mod log;
mod open;
pub mod outcome;
pub mod times;
mod transaction;
mod writer;

pub use error::Error;
pub use intents::{Intent, IntentId, Recorded, Ticket, Tickets};
pub use keys::{Key, KeyState, Material, NewKey};
pub use log::{Concluded, Conclusion, ItemResult, Refusal};
pub use outcome::ItemOutcome;
pub use writer::BATCH_MAX;

/// An open store; clones share its connections. It must be used inside the Tokio runtime that opened it.
#[derive(Clone)]
pub struct Store {
    inner: Arc<Inner>,
}

struct Inner {
    readers: SqlitePool,
    writer: writer::Writer,
    times: times::Times,
}

impl Store {
    /// Opens the store in `folder`, or makes it (folder 0700, files 0600), and brings it up to date.
    ///
    /// # Errors
    /// [`Error::NewerStore`] and [`Error::NotAStore`], with the file untouched; [`Error::Permissions`] if others
    /// could read or replace it; [`Error::Path`], [`Error::Busy`] and those of the database.
    pub async fn open(folder: &Path) -> Result<Self, Error> {
        let open::Pools { readers, writer } = open::open(folder).await?;
        let times = times::Times::default();
        let writer = writer::Writer::start(writer, times.clone());
        Ok(Self { inner: Arc::new(Inner { readers, writer, times }) })
    }

    /// Commits made through this store since it was opened, for metrics.
    #[must_use]
    pub fn commits(&self) -> u64 {
        self.inner.writer.commits()
    }

    fn readers(&self) -> &SqlitePool {
        &self.inner.readers
    }

    fn times(&self) -> &times::Times {
        &self.inner.times
    }

    fn writer(&self) -> &writer::Writer {
        &self.inner.writer
    }
}
