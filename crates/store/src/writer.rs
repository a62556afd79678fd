//! Group commit: one task owns the writing connection, takes everything that waits (up to a limit), does it in
//! one transaction, commits once and then answers each caller. There is no timer: while a commit is being
//! synced, the next batch gathers; a lone request never waits for company.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures_util::future::BoxFuture;
use sqlx::SqlitePool;
use tokio::sync::{mpsc, oneshot};

use crate::error::{Doing as _, Error};
use crate::transaction::Transaction;

/// Most pieces of work in one commit: bounds the time that the first of them waits for the last.
pub const BATCH_MAX: usize = 256;

/// Most pieces of work that wait; further callers wait for a place, which is the back-pressure.
const QUEUE_MAX: usize = 1024;

/// Work inside a transaction. It may run again after a failed batch only by a new call of its caller.
pub(crate) trait Work: Send + Sync + 'static {
    /// The answer, refusals included: a refusal does not disturb the others in the batch.
    type Output: Send + 'static;

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
    pub(crate) fn start(pool: SqlitePool) -> Self {
        let (queue, jobs) = mpsc::channel(QUEUE_MAX);
        let commits = Arc::new(AtomicU64::new(0));
        tokio::spawn(run(pool, jobs, Arc::clone(&commits)));
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

async fn run(pool: SqlitePool, mut queue: mpsc::Receiver<Box<dyn Job>>, commits: Arc<AtomicU64>) {
    let mut batch = Vec::with_capacity(BATCH_MAX);
    while queue.recv_many(&mut batch, BATCH_MAX).await > 0 {
        let committed = commit(&pool, &mut batch).await;
        match &committed {
            Ok(()) => {
                commits.fetch_add(1, Ordering::Relaxed);
            }
            Err(error) => tracing::error!(%error, works = batch.len(), "a commit of the store failed"),
        }
        for job in batch.drain(..) {
            job.answer(committed.clone());
        }
    }
    pool.close().await;
}

async fn commit(pool: &SqlitePool, batch: &mut [Box<dyn Job>]) -> Result<(), Error> {
    // IMMEDIATE: the head is read under the lock for writing, which other processes respect.
    let open = pool.begin_with("BEGIN IMMEDIATE").await.doing("begin a transaction")?;
    let mut transaction = Transaction::new(open);
    for job in batch {
        job.run(&mut transaction).await?;
    }
    transaction.commit().await
}

/// Work of any type, with its place for the answer.
trait Job: Send {
    fn run<'a>(&'a mut self, transaction: &'a mut Transaction<'_>) -> BoxFuture<'a, Result<(), Error>>;
    fn answer(self: Box<Self>, committed: Result<(), Error>);
}

struct Pending<W: Work> {
    work: W,
    done: Option<W::Output>,
    reply: oneshot::Sender<Result<W::Output, Error>>,
}

impl<W: Work> Job for Pending<W> {
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
