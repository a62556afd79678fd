//! The log: appending is the one place where a signature becomes real. In one transaction the key is checked
//! once more, entries and head are written, and the answer is put beside the intent.

use futures_util::future::BoxFuture;
use sealwright_tlog::{CompactRange, Entry};
use sqlx::Row as _;
use uuid::Uuid;

use crate::Store;
use crate::error::{Doing as _, Error};
use crate::intents::{self, IntentId};
use crate::keys::KeyState;
use crate::outcome::{self, ItemOutcome};
use crate::transaction::{self, KeyCheck, Transaction};
use crate::writer::Work;

/// How far behind the latest entry of its key a signature's time may be when it is appended, in seconds.
/// Concurrent requests of one key can reach the log in another order than they were signed; the key process
/// itself never signs before the `not_before` it was given.
pub const DISORDER_S_MAX: i64 = 10;

/// Most entries of one page of [`Store::log_entries`].
pub const PAGE_MAX: u32 = 1000;

/// The results of one request, all of one key, ready to be made real.
#[derive(Clone, Debug)]
pub struct Conclusion {
    /// The intent, and the attempt that holds it.
    pub id: IntentId,
    /// The key, as it was resolved.
    pub key_id: Uuid,
    /// The generation that was given to the signer.
    pub generation: u32,
    /// The time now, Unix seconds: a key that has expired by now gives no signature.
    pub now_s: i64,
    /// One an item, in the order of the request.
    pub items: Vec<ItemResult>,
}

/// What came of one item.
#[derive(Clone, Debug)]
pub enum ItemResult {
    /// It was signed: the entry to be appended, and the packet.
    Signed {
        /// The record. Its key must be the conclusion's.
        entry: Box<Entry>,
        /// The signature packet.
        packet: Vec<u8>,
    },
    /// It was refused for good.
    Failed {
        /// A number of the caller's table of failures.
        code: u32,
        /// For a person.
        message: String,
    },
}

/// The end of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Concluded {
    /// Durable: entries, head and answer.
    Done(Vec<ItemOutcome>),
    /// Nothing was written, no signature may leave: the key is not what it was. Look at it again.
    Refused(Refusal),
    /// Nothing was written: another attempt has taken the intent over. Ask for its answer.
    Superseded,
}

/// Why a key gives no signature although it was resolved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// There is no such key any more.
    Gone,
    /// It was disabled meanwhile.
    Disabled,
    /// It was renewed meanwhile.
    GenerationChanged {
        /// The generation in force.
        found: u32,
    },
    /// It has expired.
    Expired {
        /// When, Unix seconds.
        at_s: i64,
    },
    /// The signature's time lies further behind the latest entry of the key than concurrency explains.
    ClockBehind {
        /// Time in the signature, Unix seconds.
        signed_at_s: i64,
        /// Time of the latest entry, Unix seconds.
        last_s: i64,
    },
}

pub(crate) const ENTRIES: &str = "SELECT entry FROM log WHERE position >= $1 ORDER BY position LIMIT $2";

impl Store {
    /// Appends the entries of a request and writes its answer, in one transaction that first checks that the key
    /// is enabled, of the same generation, and not expired, neither now nor at the times in the signatures.
    /// All or nothing. When this has returned [`Concluded::Done`], it is durable.
    ///
    /// # Errors
    /// Those of the database and the log; nothing was written then, as far as we know: ask again with the same
    /// request id.
    pub async fn conclude(&self, conclusion: Conclusion) -> Result<Concluded, Error> {
        self.writer().submit(conclusion).await
    }

    /// The head of the log as of the last commit.
    ///
    /// # Errors
    /// [`Error::Damaged`] or [`Error::Log`] if there is none or it is malformed; those of the database.
    pub async fn log_head(&self) -> Result<CompactRange, Error> {
        let mut connection = self.readers().acquire().await.doing("read the head of the log")?;
        transaction::read_head(&mut connection).await
    }

    /// Canonical bytes of the entries from index `first`, at most `limit` and [`PAGE_MAX`] of them.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn log_entries(&self, first: u64, limit: u32) -> Result<Vec<Vec<u8>>, Error> {
        let Ok(first) = i64::try_from(first) else { return Ok(Vec::new()) };
        let rows = sqlx::query(ENTRIES)
            .bind(first)
            .bind(i64::from(limit.min(PAGE_MAX)))
            .fetch_all(self.readers())
            .await
            .doing("read the log")?;
        rows.iter().map(|row| row.try_get(0).doing("read the log")).collect()
    }
}

impl Work for Conclusion {
    type Output = Concluded;

    fn signing_key(&self) -> Option<[u8; 16]> {
        Some(*self.key_id.as_bytes())
    }

    fn run<'a>(&'a self, tx: &'a mut Transaction<'_>) -> BoxFuture<'a, Result<Concluded, Error>> {
        Box::pin(async move {
            let entries = self.entries();
            if let Some(refusal) = self.refusal(tx, &entries).await? {
                return Ok(Concluded::Refused(refusal));
            }
            // Only an attempt that has lost its intent goes back to it, and that is found out here only where it is alone.
            let mark = (!tx.is_together()).then(|| tx.log_mark());
            let appended = sealwright_tlog::append(tx, &entries).await?;
            let mut appended = appended.into_iter();
            let outcomes: Vec<ItemOutcome> = self
                .items
                .iter()
                .filter_map(|item| match item {
                    ItemResult::Signed { packet, .. } => appended.next().map(|at| ItemOutcome::Signed {
                        packet: packet.clone(),
                        log_index: at.index,
                        leaf_hash: at.leaf_hash,
                    }),
                    ItemResult::Failed { code, message } => {
                        Some(ItemOutcome::Failed { code: *code, message: message.clone() })
                    }
                })
                .collect();
            match mark {
                None => tx.conclude_later(self.id.clone(), outcome::encode(&outcomes)?),
                Some(mark) if !intents::conclude(tx, &self.id, &outcomes).await? => {
                    tx.log_return(mark);
                    return Ok(Concluded::Superseded);
                }
                Some(_) => (),
            }
            for entry in &entries {
                tx.signed(entry.key_id, entry.signed_at_s);
            }
            Ok(Concluded::Done(outcomes))
        })
    }
}

impl Conclusion {
    fn entries(&self) -> Vec<&Entry> {
        let signed = self.items.iter().filter_map(|item| match item {
            ItemResult::Signed { entry, .. } => Some(entry.as_ref()),
            ItemResult::Failed { .. } => None,
        });
        signed.collect()
    }

    async fn refusal(&self, tx: &mut Transaction<'_>, entries: &[&Entry]) -> Result<Option<Refusal>, Error> {
        if entries.is_empty() {
            return Ok(None);
        }
        let key_id = *self.key_id.as_bytes();
        let foreign = |entry: &&Entry| entry.key_id != key_id || entry.key_generation != self.generation;
        let Some(key) = tx.key(key_id).await? else { return Ok(Some(Refusal::Gone)) };
        if entries.iter().any(foreign) {
            return Ok(Some(Refusal::GenerationChanged { found: key.generation }));
        }
        Ok(entries.iter().find_map(|entry| self.refuses(&key, entry.signed_at_s)))
    }

    fn refuses(&self, key: &KeyCheck, signed_at_s: i64) -> Option<Refusal> {
        match key.state {
            KeyState::Enabled => (),
            KeyState::Disabled => return Some(Refusal::Disabled),
        }
        if key.generation != self.generation {
            return Some(Refusal::GenerationChanged { found: key.generation });
        }
        let latest = signed_at_s.max(self.now_s);
        if let Some(at_s) = key.expires_s.filter(|at_s| *at_s <= latest) {
            return Some(Refusal::Expired { at_s });
        }
        let last_s = key.last_signed_s?;
        (signed_at_s < last_s.saturating_sub(DISORDER_S_MAX))
            .then_some(Refusal::ClockBehind { signed_at_s, last_s })
    }
}
