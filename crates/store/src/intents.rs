//! Intents: what was asked for, durable before the key process hears of it, with the answer beside it, so that a
//! retry is answered and never signed twice.
//!
//! An intent belongs to an *attempt* (a random id) under a *lease*. While the lease runs, a retry waits; when it
//! has passed without an answer (the process died), a retry takes over with an attempt of its own, and the
//! append of the old one is refused. So there is at most one answer, and at most one set of log entries.

use futures_util::future::BoxFuture;
use sqlx::Row as _;
use uuid::Uuid;

use crate::Store;
use crate::error::{Doing as _, Error};
use crate::outcome::{self, ItemOutcome};
use crate::transaction::Transaction;
use crate::writer::Work;

/// How long intents are kept, milliseconds: a day. A retry later than that is a new request.
pub const RETENTION_MS: i64 = 24 * 60 * 60 * 1000;

/// Most intents that are pruned with one new one: two for one keeps the table bounded and no commit long.
const PRUNE_PER_INTENT: i64 = 2;

/// Names an intent and the attempt that works on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IntentId {
    /// Who asks.
    pub principal: String,
    /// The client's UUID of the request.
    pub request_id: Uuid,
    /// A fresh random UUID of ours.
    pub attempt: Uuid,
}

/// What someone wants to have signed.
#[derive(Clone, Debug)]
pub struct Intent {
    /// Who, which request, which attempt.
    pub id: IntentId,
    /// SHA-256 of everything that was asked for.
    pub digest: [u8; 32],
    /// The key that it was resolved to.
    pub key_id: Uuid,
    /// The time now, Unix milliseconds.
    pub now_ms: i64,
    /// When others may take over, Unix milliseconds.
    pub lease_until_ms: i64,
}

/// What became of an intent that was recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Recorded {
    /// It is ours to work on; it is durable.
    New,
    /// There is a final answer from before.
    Replayed(Vec<ItemOutcome>),
    /// Another attempt works on it: ask again a little later.
    InFlight,
    /// The same request id stands for other content.
    Conflict,
}

const INSERT: &str = "INSERT INTO intents (principal, request_id, digest, key_id, attempt, lease_until, created) \
     VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT DO NOTHING";

pub(crate) const SELECT: &str =
    "SELECT digest, lease_until, outcome FROM intents WHERE principal = $1 AND request_id = $2";

pub(crate) const TAKE_OVER: &str = "UPDATE intents SET attempt = $3, lease_until = $4, key_id = $5 \
     WHERE principal = $1 AND request_id = $2 AND outcome IS NULL";

pub(crate) const RELEASE: &str = "UPDATE intents SET lease_until = 0 \
     WHERE principal = $1 AND request_id = $2 AND attempt = $3 AND outcome IS NULL";

pub(crate) const RELEASE_ALL: &str =
    "UPDATE intents SET lease_until = 0 WHERE outcome IS NULL AND lease_until > 0";

pub(crate) const CONCLUDE: &str = "UPDATE intents SET outcome = $4 \
     WHERE principal = $1 AND request_id = $2 AND attempt = $3 AND outcome IS NULL";

pub(crate) const PRUNE: &str = "DELETE FROM intents WHERE (principal, request_id) IN (SELECT principal, request_id FROM intents \
     WHERE created < $1 AND (outcome IS NOT NULL OR lease_until < $2) ORDER BY created LIMIT $3)";

impl Store {
    /// Records an intent; when this has returned [`Recorded::New`], it is durable. Old ones are pruned with it.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn record_intent(&self, intent: Intent) -> Result<Recorded, Error> {
        self.writer().submit(Record(intent)).await
    }

    /// Gives an intent back without a final answer, so that a retry can have another try at once.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn release_intent(&self, id: IntentId) -> Result<(), Error> {
        self.writer().submit(Release(id)).await
    }

    /// Gives back all intents without a final answer: their attempts died with the process before this one, or, if
    /// one still runs, its log entry finds that it has lost the intent.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn release_unanswered_intents(&self) -> Result<(), Error> {
        self.writer().submit(ReleaseAll).await
    }
}

/// Writes the final answer. False: the attempt has lost the intent to another one.
pub(crate) async fn conclude(
    transaction: &mut Transaction<'_>,
    id: &IntentId,
    items: &[ItemOutcome],
) -> Result<bool, Error> {
    let done = sqlx::query(CONCLUDE)
        .bind(&id.principal)
        .bind(id.request_id.as_bytes().as_slice())
        .bind(id.attempt.as_bytes().as_slice())
        .bind(outcome::encode(items)?)
        .execute(transaction.connection())
        .await
        .doing("write the answer to a request")?;
    Ok(done.rows_affected() == 1)
}

struct Record(Intent);

impl Work for Record {
    type Output = Recorded;

    fn run<'a>(&'a self, tx: &'a mut Transaction<'_>) -> BoxFuture<'a, Result<Recorded, Error>> {
        Box::pin(async move {
            let (intent, id) = (&self.0, &self.0.id);
            let inserted = sqlx::query(INSERT)
                .bind(&id.principal)
                .bind(id.request_id.as_bytes().as_slice())
                .bind(intent.digest.as_slice())
                .bind(intent.key_id.as_bytes().as_slice())
                .bind(id.attempt.as_bytes().as_slice())
                .bind(intent.lease_until_ms)
                .bind(intent.now_ms)
                .execute(tx.connection())
                .await
                .doing("record an intent")?;
            if inserted.rows_affected() == 1 {
                prune(tx, intent.now_ms).await?;
                return Ok(Recorded::New);
            }
            existing(tx, intent).await
        })
    }
}

async fn existing(tx: &mut Transaction<'_>, intent: &Intent) -> Result<Recorded, Error> {
    let id = &intent.id;
    let row = sqlx::query(SELECT)
        .bind(&id.principal)
        .bind(id.request_id.as_bytes().as_slice())
        .fetch_one(tx.connection())
        .await
        .doing("read an intent")?;
    let digest: Vec<u8> = row.try_get(0).doing("read an intent")?;
    let lease_until_ms: i64 = row.try_get(1).doing("read an intent")?;
    let answer: Option<Vec<u8>> = row.try_get(2).doing("read an intent")?;
    if digest != intent.digest {
        return Ok(Recorded::Conflict);
    }
    if let Some(answer) = answer {
        return Ok(Recorded::Replayed(outcome::decode(&answer)?));
    }
    if lease_until_ms > intent.now_ms {
        return Ok(Recorded::InFlight);
    }
    sqlx::query(TAKE_OVER)
        .bind(&id.principal)
        .bind(id.request_id.as_bytes().as_slice())
        .bind(id.attempt.as_bytes().as_slice())
        .bind(intent.lease_until_ms)
        .bind(intent.key_id.as_bytes().as_slice())
        .execute(tx.connection())
        .await
        .doing("take over an intent")?;
    Ok(Recorded::New)
}

async fn prune(tx: &mut Transaction<'_>, now_ms: i64) -> Result<(), Error> {
    sqlx::query(PRUNE)
        .bind(now_ms.saturating_sub(RETENTION_MS))
        .bind(now_ms)
        .bind(PRUNE_PER_INTENT)
        .execute(tx.connection())
        .await
        .doing("prune old intents")?;
    Ok(())
}

struct ReleaseAll;

impl Work for ReleaseAll {
    type Output = ();

    fn run<'a>(&'a self, tx: &'a mut Transaction<'_>) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(async move {
            sqlx::query(RELEASE_ALL).execute(tx.connection()).await.doing("give back intents")?;
            Ok(())
        })
    }
}

struct Release(IntentId);

impl Work for Release {
    type Output = ();

    fn run<'a>(&'a self, tx: &'a mut Transaction<'_>) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(async move {
            sqlx::query(RELEASE)
                .bind(&self.0.principal)
                .bind(self.0.request_id.as_bytes().as_slice())
                .bind(self.0.attempt.as_bytes().as_slice())
                .execute(tx.connection())
                .await
                .doing("give back an intent")?;
            Ok(())
        })
    }
}
