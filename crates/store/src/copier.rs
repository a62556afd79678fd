//! Commits go to SQLite's write-ahead log; here they are copied on into the database file, beside the commits and not in
//! one of them. A commit that copies waits for a thousand pages and their sync, and so does everybody in it and behind it:
//! every hundredth or so did, by SQLite's own rule, which now only comes to what is left over.

use std::sync::Arc;

use sqlx::sqlite::{SqliteConnectOptions, SqlitePoolOptions};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

/// Pages in the write-ahead log, about, after which they are copied: few enough that a commit that is synced at the same
/// time does not wait for long, and enough that pages that change with each commit are mostly copied once.
const PAGES: usize = 500;

/// Pages that a commit writes, about, without those that each piece of work adds.
const PAGES_OF_COMMIT: usize = 8;

/// Pages after which the writing connection copies in a commit, as SQLite counts: only where this one does not keep up,
/// or never found the end of the log, because there was always another commit. It bounds the log, at 32 MiB.
pub(crate) const PAGES_MAX: &str = "8000";

/// See the module.
pub(crate) struct Copier {
    due: mpsc::Sender<()>,
    task: JoinHandle<()>,
    pages: usize,
}

impl Copier {
    /// Starts the task; its connection is made when there is something to copy.
    pub(crate) fn start(options: &Arc<SqliteConnectOptions>) -> Self {
        let (due, asked) = mpsc::channel(1);
        Self { due, task: tokio::spawn(run(SqliteConnectOptions::clone(options), asked)), pages: 0 }
    }

    /// A commit with so many pieces of work was made.
    pub(crate) fn committed(&mut self, works: usize) {
        self.pages = self.pages.saturating_add(PAGES_OF_COMMIT).saturating_add(works);
        // Full: it is at work, or will be, and finds these too.
        if self.pages >= PAGES && self.due.try_send(()).is_ok() {
            self.pages = 0;
        }
    }

    /// What is due is copied, and the connection closed.
    pub(crate) async fn end(self) {
        let Self { due, task, .. } = self;
        drop(due);
        // It does not panic; if it did, the log is copied by whoever opens the store next.
        let _ = task.await;
    }
}

async fn run(options: SqliteConnectOptions, mut due: mpsc::Receiver<()>) {
    let pool =
        SqlitePoolOptions::new().max_connections(1).test_before_acquire(false).connect_lazy_with(options);
    while due.recv().await.is_some() {
        // Passive: it waits for nobody, and nobody for it.
        if let Err(error) = sqlx::query("PRAGMA wal_checkpoint(PASSIVE)").execute(&pool).await {
            // The commits say what is wrong with the disk; they copy themselves, when the log is long.
            tracing::debug!(
                error = &error as &dyn std::error::Error,
                "the log of the database is not copied"
            );
        }
    }
    pool.close().await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_was_committed_is_copied_into_the_file_without_a_commit() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("store");
        let pool = crate::open::open(&folder).await.unwrap().writer;
        let mut copier = Copier::start(&pool.connect_options());
        let length = || std::fs::metadata(folder.join(crate::open::FILE_NAME)).unwrap().len();
        sqlx::query("CREATE TABLE filling (bytes BLOB)").execute(&pool).await.unwrap();
        let before = length();
        for _ in 0..PAGES.div_ceil(PAGES_OF_COMMIT) {
            sqlx::query("INSERT INTO filling VALUES (zeroblob(32768))").execute(&pool).await.unwrap();
            assert_eq!(length(), before, "not in a commit");
            copier.committed(0);
        }
        copier.end().await;
        assert!(length() >= before + 32_768 * 50, "{} {before}", length());
    }
}
