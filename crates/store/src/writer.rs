//! Group commit: one task owns the writing connection, takes everything that waits (up to a limit), does it in
//! one transaction, commits once and then answers each caller. There is no timer: while a commit is being
//! synced, the next batch gathers; a lone request never waits for company.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures_util::future::BoxFuture;
use sqlx::{SqliteConnection, SqlitePool};
use tokio::sync::{mpsc, oneshot};

use crate::copier::Copier;
use crate::error::{Doing as _, Error};
use crate::times::Times;
use crate::transaction::{Ended, Transaction, Way};

/// Most pieces of work in one commit: bounds the time that the first of them waits for the last.
pub const BATCH_MAX: usize = 256;

/// How often the others are let go first.
const YIELDS_MAX: usize = 16;

/// Most pieces of work that wait; further callers wait for a place, which is the back-pressure.
const QUEUE_MAX: usize = 1024;

/// Work inside a transaction. It may run again after a failed batch only by a new call of its caller.
pub(crate) trait Work: Send + Sync + 'static {
    /// The answer, refusals included: a refusal does not disturb the others in the batch.
    type Output: Send + 'static;

    /// The key that signs with it: its state is read when the transaction begins, with those of the others.
    fn signing_key(&self) -> Option<[u8; 16]> {
        None
    }

    /// Does it. An error undoes the whole batch and goes to everyone in it.
    fn run<'a>(&'a self, transaction: &'a mut Transaction<'_>) -> BoxFuture<'a, Result<Self::Output, Error>>;
}

/// The sending side; cheap to clone.
#[derive(Clone)]
pub(crate) struct Writer {
    queue: mpsc::Sender<Box<dyn Job>>,
    commits: Arc<AtomicU64>,
}

impl Writer {
    /// Starts the task; it ends when the last sender is gone and all work is done.
    pub(crate) fn start(pool: SqlitePool, times: Times) -> Self {
        let (queue, jobs) = mpsc::channel(QUEUE_MAX);
        let commits = Arc::new(AtomicU64::new(0));
        tokio::spawn(run((pool, times), jobs, Arc::clone(&commits)));
        Self { queue, commits }
    }

    /// Commits made by this process so far.
    pub(crate) fn commits(&self) -> u64 {
        self.commits.load(Ordering::Relaxed)
    }

    /// Has `work` done in the next commit and returns after it is durable.
    pub(crate) async fn submit<W: Work>(&self, work: W) -> Result<W::Output, Error> {
        let (reply, answer) = oneshot::channel();
        let job = Box::new(Pending { work, done: None, reply });
        self.queue.send(job).await.map_err(|_| Error::Closed)?;
        answer.await.map_err(|_| Error::Closed)?
    }
}

/// Where it is written: the connection, and what is remembered of the log.
type Place = (SqlitePool, Times);

async fn run(place: Place, mut queue: mpsc::Receiver<Box<dyn Job>>, commits: Arc<AtomicU64>) {
    let mut batch = Vec::with_capacity(BATCH_MAX);
    let mut reported = Reported::default();
    let mut copier = Copier::start(&place.0.connect_options());
    while queue.recv_many(&mut batch, BATCH_MAX).await > 0 {
        gather(&mut queue, &mut batch).await;
        let works = batch.len();
        let committed = commit(&place, &mut batch).await;
        if committed.is_ok() {
            commits.fetch_add(1, Ordering::Relaxed);
        }
        reported.outcome(&committed, batch.len());
        for job in batch.drain(..) {
            job.answer(committed.clone());
        }
        copier.committed(works);
    }
    copier.end().await;
    place.0.close().await;
}

/// What is about to come anyway comes along: as long as others that are ready to run bring more, they go first. Who is
/// alone finds nobody to wait for, and goes on at once.
async fn gather(queue: &mut mpsc::Receiver<Box<dyn Job>>, batch: &mut Vec<Box<dyn Job>>) {
    for _ in 0..YIELDS_MAX {
        let before = batch.len();
        tokio::task::yield_now().await;
        while batch.len() < BATCH_MAX {
            let Ok(job) = queue.try_recv() else { break };
            batch.push(job);
        }
        if batch.len() == before || batch.len() == BATCH_MAX {
            return;
        }
    }
}

/// Whether the log was told: a failure that lasts gets one line when it starts and one when it ends, however many
/// callers try meanwhile. Each of them has its answer, and says it where it is an error; so this is news, and no more.
#[derive(Default)]
struct Reported(Option<String>);

impl Reported {
    fn outcome(&mut self, committed: &Result<(), Error>, works: usize) {
        match committed {
            Ok(()) if self.0.take().is_some() => tracing::info!("the store commits again"),
            Ok(()) => (),
            Err(error) => {
                let text = error.to_string();
                if self.0.as_ref() != Some(&text) {
                    tracing::info!(
                        error = error as &dyn std::error::Error,
                        works,
                        "a commit of the store failed"
                    );
                    self.0 = Some(text);
                }
            }
        }
    }
}

/// One transaction, together; or, where something is in the way of that, another, each alone. When it fails, the
/// connection is brought back to outside of one, or else replaced: the next batch starts clean, and succeeds as soon as
/// what was in the way is gone.
async fn commit((pool, times): &Place, batch: &mut [Box<dyn Job>]) -> Result<(), Error> {
    let mut connection = pool.acquire().await.doing("connect to the store")?;
    let committed = commit_on(&mut connection, times, batch).await;
    if committed.is_err() && !is_outside_after_rollback(&mut connection).await {
        let _ = connection.close().await;
    }
    committed
}

async fn commit_on(
    connection: &mut SqliteConnection,
    times: &Times,
    batch: &mut [Box<dyn Job>],
) -> Result<(), Error> {
    if transact((connection, times), batch, Way::Together).await? == Ended::Committed {
        return Ok(());
    }
    sqlx::query("ROLLBACK").execute(&mut *connection).await.doing("roll back")?;
    match transact((connection, times), batch, Way::Alone).await? {
        Ended::Committed => Ok(()),
        Ended::Again => Err(Error::Damaged { what: "intents" }),
    }
}

/// The statements themselves and no guard of the driver's: it counts how deep it is in transactions, and SQLite ends
/// one by itself when the disk is full, after which the driver can neither roll back nor begin.
async fn transact(
    (connection, times): (&mut SqliteConnection, &Times),
    batch: &mut [Box<dyn Job>],
    way: Way,
) -> Result<Ended, Error> {
    let keys = batch.iter().filter_map(|job| job.signing_key()).collect();
    let mut transaction = Transaction::begin(connection, way, &keys, times).await?;
    for job in batch {
        job.run(&mut transaction).await?;
    }
    transaction.commit().await
}

/// A rollback fails when SQLite has rolled back already. Then a transaction that writes nothing tells: it begins only
/// where none is open.
async fn is_outside_after_rollback(connection: &mut SqliteConnection) -> bool {
    if sqlx::query("ROLLBACK").execute(&mut *connection).await.is_ok() {
        return true;
    }
    sqlx::query("BEGIN").execute(&mut *connection).await.is_ok()
        && sqlx::query("ROLLBACK").execute(&mut *connection).await.is_ok()
}

/// Work of any type, with its place for the answer.
trait Job: Send {
    fn signing_key(&self) -> Option<[u8; 16]>;
    fn run<'a>(&'a mut self, transaction: &'a mut Transaction<'_>) -> BoxFuture<'a, Result<(), Error>>;
    fn answer(self: Box<Self>, committed: Result<(), Error>);
}

struct Pending<W: Work> {
    work: W,
    done: Option<W::Output>,
    reply: oneshot::Sender<Result<W::Output, Error>>,
}

impl<W: Work> Job for Pending<W> {
    fn signing_key(&self) -> Option<[u8; 16]> {
        self.work.signing_key()
    }

    fn run<'a>(&'a mut self, transaction: &'a mut Transaction<'_>) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(async move {
            self.done = Some(self.work.run(transaction).await?);
            Ok(())
        })
    }

    fn answer(self: Box<Self>, committed: Result<(), Error>) {
        let Self { done, reply, .. } = *self;
        let answer = committed.and_then(|()| done.ok_or(Error::Closed));
        // A caller who has gone away does not want the answer; what is committed stands.
        let _ = reply.send(answer);
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    /// Fills a table, or asks how many rows there are.
    struct Fill(usize);

    impl Work for Fill {
        type Output = ();

        fn run<'a>(&'a self, tx: &'a mut Transaction<'_>) -> BoxFuture<'a, Result<(), Error>> {
            Box::pin(async move {
                sqlx::query("INSERT INTO filling VALUES ($1)")
                    .bind(vec![7_u8; self.0])
                    .execute(tx.connection())
                    .await
                    .doing("fill the disk")?;
                Ok(())
            })
        }
    }

    async fn run_sql(pool: &SqlitePool, sql: &'static str) {
        sqlx::query(sql).execute(pool).await.unwrap();
    }

    async fn writer(folder: &std::path::Path) -> (SqlitePool, Writer) {
        let pools = crate::open::open(folder).await.unwrap();
        run_sql(&pools.writer, "CREATE TABLE filling (bytes BLOB)").await;
        (pools.writer.clone(), Writer::start(pools.writer, Times::default()))
    }

    #[tokio::test]
    async fn a_full_disk_is_one_typed_error_and_the_store_works_again_with_space() {
        let folder = tempfile::tempdir().unwrap();
        let (pool, writer) = writer(&folder.path().join("store")).await;
        let pages: i64 = sqlx::query_scalar("PRAGMA page_count").fetch_one(&pool).await.unwrap();
        // Of the one connection that writes: SQLite answers as on a full disk.
        let limit = sqlx::AssertSqlSafe(format!("PRAGMA max_page_count = {}", pages + 4));
        sqlx::query(limit).execute(&pool).await.unwrap();
        let begun = Instant::now();
        for _ in 0..5 {
            let filled = futures_util::future::join_all((0..20).map(|_| writer.submit(Fill(64 << 10)))).await;
            assert!(filled.iter().all(|filled| matches!(filled, Err(Error::Full))), "{filled:?}");
        }
        assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
        writer.submit(Fill(1)).await.unwrap();
        run_sql(&pool, "PRAGMA max_page_count = 1000000").await;
        writer.submit(Fill(64 << 10)).await.unwrap();
        let rows: i64 = sqlx::query_scalar("SELECT COUNT(*) FROM filling").fetch_one(&pool).await.unwrap();
        assert_eq!(rows, 2, "what failed left nothing");
    }

    #[tokio::test]
    async fn a_connection_that_cannot_be_rolled_back_is_brought_out_of_its_transaction() {
        let folder = tempfile::tempdir().unwrap();
        let (pool, writer) = writer(&folder.path().join("store")).await;
        // Left open by nobody we know: the next batch fails, the one after it does not.
        run_sql(&pool, "BEGIN IMMEDIATE").await;
        assert!(writer.submit(Fill(1)).await.is_err());
        writer.submit(Fill(1)).await.unwrap();
        let rows: i64 = sqlx::query_scalar("SELECT COUNT(*) FROM filling").fetch_one(&pool).await.unwrap();
        assert_eq!(rows, 1);
    }

    #[test]
    fn a_failure_that_lasts_is_reported_once() {
        let mut reported = Reported::default();
        reported.outcome(&Err(Error::Full), 1);
        assert_eq!(reported.0, Some(Error::Full.to_string()));
        reported.outcome(&Err(Error::Full), 1);
        reported.outcome(&Ok(()), 1);
        assert_eq!(reported.0, None);
    }
}
