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

/// Most ended tickets that are pruned with one that is used: two for one, as above. Requests without salts pay nothing.
const PRUNE_PER_TICKET: i64 = 2;

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
    /// What is used up with it.
    pub tickets: Tickets,
}

/// The salt tickets of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tickets {
    /// These are used up with the intent, each of them once for ever; of a request without salts: none.
    Spend(Vec<Ticket>),
    /// They are no good: nothing new is begun, and the request is only answered from what is known of it.
    Refused,
}

/// A ticket to be used up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket {
    /// Drawn at random when it was handed out.
    pub id: [u8; 16],
    /// When it ends by itself, Unix milliseconds: until then it is remembered.
    pub expires_ms: i64,
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
    /// Not begun: one of its tickets was used before, by another request or twice in this one.
    TicketUsed,
    /// Not begun: nothing is known of the request, and its tickets are [`Tickets::Refused`].
    TicketsRefused,
}

const INSERT: &str = "INSERT INTO intents (principal, request_id, digest, key_id, attempt, lease_until, created) \
     VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT DO NOTHING";

pub(crate) const DISCARD: &str =
    "DELETE FROM intents WHERE principal = $1 AND request_id = $2 AND attempt = $3";

pub(crate) const SPEND: &str = "INSERT INTO tickets (id, expires) VALUES ($1, $2) ON CONFLICT DO NOTHING";

pub(crate) const UNSPEND: &str = "DELETE FROM tickets WHERE id = $1";

pub(crate) const PRUNE_TICKETS: &str =
    "DELETE FROM tickets WHERE id IN (SELECT id FROM tickets WHERE expires < $1 ORDER BY expires LIMIT $2)";

pub(crate) const SELECT: &str =
    "SELECT digest, lease_until, outcome FROM intents WHERE principal = $1 AND request_id = $2";

pub(crate) const TAKE_OVER: &str = "UPDATE intents SET attempt = $3, lease_until = $4, key_id = $5 \
     WHERE principal = $1 AND request_id = $2 AND outcome IS NULL";

pub(crate) const RELEASE: &str = "UPDATE intents SET lease_until = 0 \
     WHERE principal = $1 AND request_id = $2 AND attempt = $3 AND outcome IS NULL";

pub(crate) const RELEASE_ALL: &str =
    "UPDATE intents SET lease_until = 0 WHERE outcome IS NULL AND lease_until > 0";

pub(crate) const RELEASE_REQUEST: &str =
    "UPDATE intents SET lease_until = 0 WHERE principal = $1 AND request_id = $2 AND outcome IS NULL";

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

    /// The same for these requests of this principal alone.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn release_requests(&self, principal: String, request_ids: Vec<Uuid>) -> Result<(), Error> {
        self.writer().submit(ReleaseRequests { principal, request_ids }).await
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
            let intent = &self.0;
            let Tickets::Spend(tickets) = &intent.tickets else {
                return Ok(existing(tx, intent).await?.unwrap_or(Recorded::TicketsRefused));
            };
            // Nearly always it is new and has no tickets; what stands in its way is found at the commit.
            if tx.is_together() && tickets.is_empty() {
                tx.record_later(intent.clone());
                tx.prune_later(intent.now_ms);
                return Ok(Recorded::New);
            }
            if !insert(tx, intent).await? {
                // It is there: it was inserted under the same lock, or before.
                return existing(tx, intent).await?.ok_or(Error::Damaged { what: "intents" });
            }
            if !spend(tx, tickets).await? {
                discard(tx, &intent.id).await?;
                return Ok(Recorded::TicketUsed);
            }
            tx.prune_later(intent.now_ms);
            prune_tickets(tx, intent.now_ms, tickets.len()).await?;
            Ok(Recorded::New)
        })
    }
}

/// False: the request is known already.
async fn insert(tx: &mut Transaction<'_>, intent: &Intent) -> Result<bool, Error> {
    let id = &intent.id;
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
    Ok(inserted.rows_affected() == 1)
}

/// Uses up all of them, or none and says false. The unique index decides; others in the batch are not disturbed.
async fn spend(tx: &mut Transaction<'_>, tickets: &[Ticket]) -> Result<bool, Error> {
    for (position, ticket) in tickets.iter().enumerate() {
        let spent = sqlx::query(SPEND)
            .bind(ticket.id.as_slice())
            .bind(ticket.expires_ms)
            .execute(tx.connection())
            .await
            .doing("use up a ticket")?;
        if spent.rows_affected() == 1 {
            continue;
        }
        for earlier in tickets.iter().take(position) {
            sqlx::query(UNSPEND)
                .bind(earlier.id.as_slice())
                .execute(tx.connection())
                .await
                .doing("give back a ticket")?;
        }
        return Ok(false);
    }
    Ok(true)
}

/// Takes back what was inserted in this transaction.
async fn discard(tx: &mut Transaction<'_>, id: &IntentId) -> Result<(), Error> {
    sqlx::query(DISCARD)
        .bind(&id.principal)
        .bind(id.request_id.as_bytes().as_slice())
        .bind(id.attempt.as_bytes().as_slice())
        .execute(tx.connection())
        .await
        .doing("take back an intent")?;
    Ok(())
}

/// What is known of the request; `None`: nothing.
async fn existing(tx: &mut Transaction<'_>, intent: &Intent) -> Result<Option<Recorded>, Error> {
    let id = &intent.id;
    let row = sqlx::query(SELECT)
        .bind(&id.principal)
        .bind(id.request_id.as_bytes().as_slice())
        .fetch_optional(tx.connection())
        .await
        .doing("read an intent")?;
    let Some(row) = row else { return Ok(None) };
    let digest: Vec<u8> = row.try_get(0).doing("read an intent")?;
    let lease_until_ms: i64 = row.try_get(1).doing("read an intent")?;
    let answer: Option<Vec<u8>> = row.try_get(2).doing("read an intent")?;
    if digest != intent.digest {
        return Ok(Some(Recorded::Conflict));
    }
    if let Some(answer) = answer {
        return Ok(Some(Recorded::Replayed(outcome::decode(&answer)?)));
    }
    if lease_until_ms > intent.now_ms {
        return Ok(Some(Recorded::InFlight));
    }
    if intent.tickets == Tickets::Refused {
        // It has spent its tickets and has no answer; without their salts it cannot be signed any more.
        return Ok(Some(Recorded::TicketsRefused));
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
    Ok(Some(Recorded::New))
}

/// The parameters of [`PRUNE`], after so many new intents.
pub(crate) fn pruned(now_ms: i64, intents: usize) -> [i64; 3] {
    let most = i64::try_from(intents).unwrap_or(i64::MAX).saturating_mul(PRUNE_PER_INTENT);
    [now_ms.saturating_sub(RETENTION_MS), now_ms, most]
}

async fn prune_tickets(tx: &mut Transaction<'_>, now_ms: i64, tickets: usize) -> Result<(), Error> {
    if tickets == 0 {
        return Ok(());
    }
    let limit = i64::try_from(tickets).unwrap_or(i64::MAX).saturating_mul(PRUNE_PER_TICKET);
    sqlx::query(PRUNE_TICKETS)
        .bind(now_ms)
        .bind(limit)
        .execute(tx.connection())
        .await
        .doing("prune ended tickets")?;
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

struct ReleaseRequests {
    principal: String,
    request_ids: Vec<Uuid>,
}

impl Work for ReleaseRequests {
    type Output = ();

    fn run<'a>(&'a self, tx: &'a mut Transaction<'_>) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(async move {
            for id in &self.request_ids {
                sqlx::query(RELEASE_REQUEST)
                    .bind(&self.principal)
                    .bind(id.as_bytes().as_slice())
                    .execute(tx.connection())
                    .await
                    .doing("give back the intent of a request")?;
            }
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
