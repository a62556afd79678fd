//! One open transaction: the log's head, read once and kept under the writer's lock, rows that wait to be
//! written at its end, and the keys that were checked in it.

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use sealwright_tlog::CompactRange;
use sealwright_tlog::storage::{LogTransaction, Row as LogRow};
use sqlx::query::Query;
use sqlx::sqlite::{SqliteArguments, SqliteRow};
use sqlx::{AssertSqlSafe, Row as _, Sqlite, SqliteConnection};

use crate::error::{Doing as _, Error};
use crate::intents::{self, Intent, IntentId};
use crate::times::Times;

mod bulk;
mod states;

use bulk::{Answer, Written};
#[cfg(test)]
pub(crate) use states::TAIL;
pub(crate) use states::{KEY, KeyCheck};

pub(crate) const SIGNED: &str =
    "UPDATE key_states SET last_signed = $6 WHERE id = $7 AND (last_signed IS NULL OR last_signed < $6)";

const WRITE_HEAD: &str = "UPDATE log_head SET size = $4, nodes = $5 WHERE id = 1";

pub(crate) const HEAD: &str = "SELECT size, nodes FROM log_head WHERE id = 1";

/// Of all entries, those of this transaction among them.
const NOTED: &str = "UPDATE log_head SET noted = $4 WHERE id = 1";

/// The last statements of a transaction, in one: with or without pruning, head, time of a key, that all times are noted (bits
/// 1, 2, 4, 8). Their parameters have numbers of their own; those of what is left out are not looked at.
static ENDS: LazyLock<[String; 16]> = LazyLock::new(|| {
    std::array::from_fn(|bits| {
        let parts = [(1, intents::PRUNE), (2, WRITE_HEAD), (4, SIGNED), (8, NOTED)];
        let parts = parts.into_iter().filter(|(bit, _)| bits & bit != 0).map(|(_, text)| text);
        parts.chain(["COMMIT"]).collect::<Vec<_>>().join("; ")
    })
});

/// See the module. Nothing is durable before [`Self::commit`]. Who began it rolls it back when it was not committed.
pub(crate) struct Transaction<'c> {
    open: &'c mut SqliteConnection,
    /// As it was at the beginning.
    stored_head: Option<SqliteRow>,
    head: Option<CompactRange>,
    head_changed: bool,
    rows: Vec<LogRow>,
    keys: HashMap<[u8; 16], KeyCheck>,
    /// Latest time of each key that got an entry in this transaction, where it is later than the one that is noted.
    signed: HashMap<[u8; 16], i64>,
    way: Way,
    /// Intents and answers that wait for the commit, where the way is together.
    intents: Vec<Intent>,
    answers: Vec<Answer>,
    /// What the intents that were recorded leave to prune.
    prune: Option<Prune>,
    times: &'c Times,
}

/// How intents and answers are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// At the commit, in statements for many, on the understanding that nothing is in the way of any.
    Together,
    /// Each by itself, with its own outcome.
    Alone,
}

/// The end of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum Ended {
    /// Durable.
    Committed,
    /// Nothing is; roll back. Some intent or answer has to go alone.
    Again,
}

/// Old rows that may go with the new ones.
#[derive(Clone, Copy)]
struct Prune {
    now_ms: i64,
    intents: usize,
}

/// A place in a transaction to go back to, as far as the log is concerned.
pub(crate) struct LogMark {
    head: Option<CompactRange>,
    head_changed: bool,
    rows: usize,
}

impl<'c> Transaction<'c> {
    /// Begins one, in which these keys sign.
    pub(crate) async fn begin(
        open: &'c mut SqliteConnection,
        way: Way,
        keys: &HashSet<[u8; 16]>,
        times: &'c Times,
    ) -> Result<Self, Error> {
        let (stored_head, keys) = states::begin(&mut *open, keys, times).await?;
        Ok(Self {
            open,
            stored_head,
            head: None,
            head_changed: false,
            rows: Vec::new(),
            keys,
            signed: HashMap::new(),
            way,
            intents: Vec::new(),
            answers: Vec::new(),
            prune: None,
            times,
        })
    }

    pub(crate) const fn times(&self) -> &Times {
        self.times
    }

    pub(crate) fn connection(&mut self) -> &mut SqliteConnection {
        self.open
    }

    /// Forget what was read of a key, because its row changes in this transaction.
    pub(crate) fn key_changed(&mut self, id: [u8; 16]) {
        self.keys.remove(&id);
    }

    /// The key's state as this transaction sees it; read at its beginning, unless it was changed since. None: no such key.
    pub(crate) async fn key(&mut self, id: [u8; 16]) -> Result<Option<KeyCheck>, Error> {
        if let Some(check) = self.keys.get(&id) {
            return Ok(Some(*check));
        }
        let row = sqlx::query(KEY)
            .bind(id.to_vec())
            .fetch_optional(self.connection())
            .await
            .doing("check a key before its entry")?;
        let Some(row) = row else { return Ok(None) };
        let (_, mut check) = states::parse(&row, self.times)?;
        check.last_signed_s = check.last_signed_s.max(self.signed.get(&id).copied());
        self.keys.insert(id, check);
        Ok(Some(check))
    }

    /// Notes that an entry of this time was appended.
    pub(crate) fn signed(&mut self, id: [u8; 16], at_s: i64) {
        if let Some(check) = self.keys.get_mut(&id) {
            if check.last_signed_s >= Some(at_s) {
                return;
            }
            check.last_signed_s = Some(at_s);
        }
        let latest = self.signed.entry(id).or_insert(at_s);
        *latest = (*latest).max(at_s);
    }

    pub(crate) fn log_mark(&self) -> LogMark {
        LogMark { head: self.head.clone(), head_changed: self.head_changed, rows: self.rows.len() }
    }

    /// Takes back what was appended since the mark. Rows are written at the commit, so none was written.
    pub(crate) fn log_return(&mut self, mark: LogMark) {
        self.head = mark.head;
        self.head_changed = mark.head_changed;
        self.rows.truncate(mark.rows);
    }

    /// Whether [`Self::record_later`] and [`Self::conclude_later`] may be used.
    pub(crate) fn is_together(&self) -> bool {
        self.way == Way::Together
    }

    /// The intent is recorded at the commit, or there is none.
    pub(crate) fn record_later(&mut self, intent: Intent) {
        self.intents.push(intent);
    }

    /// The answer is written at the commit, or there is none.
    pub(crate) fn conclude_later(&mut self, id: IntentId, outcome: Vec<u8>) {
        self.answers.push(Answer { id, outcome });
    }

    /// Old intents go at the commit, some for each that was recorded.
    pub(crate) fn prune_later(&mut self, now_ms: i64) {
        let prune = self.prune.get_or_insert(Prune { now_ms, intents: 0 });
        prune.now_ms = prune.now_ms.max(now_ms);
        prune.intents = prune.intents.saturating_add(1);
    }

    /// Writes what waits, and commits: after [`Ended::Committed`] it is durable.
    pub(crate) async fn commit(mut self) -> Result<Ended, Error> {
        let intents = std::mem::take(&mut self.intents);
        if bulk::record(self.connection(), &intents).await? == Written::Fewer {
            return Ok(Ended::Again);
        }
        let answers = std::mem::take(&mut self.answers);
        if bulk::conclude(self.connection(), &answers).await? == Written::Fewer {
            return Ok(Ended::Again);
        }
        let rows = std::mem::take(&mut self.rows);
        bulk::append(self.connection(), &rows).await?;
        self.end().await?;
        Ok(Ended::Committed)
    }

    /// Prunes, writes head and times, and commits.
    async fn end(self) -> Result<(), Error> {
        let head = self.head.filter(|_| self.head_changed);
        let noted = head.as_ref().and_then(|head| self.times.to_note(&self.signed, head.size()));
        let is_noted = noted.is_some();
        let mut noted = noted.unwrap_or_default();
        // A lone one goes with the commit.
        let last_signed = if noted.len() == 1 { noted.pop() } else { None };
        states::note(&mut *self.open, &noted).await?;
        let bits = usize::from(self.prune.is_some())
            | usize::from(head.is_some()) << 1
            | usize::from(last_signed.is_some()) << 2
            | usize::from(is_noted) << 3;
        let text = ENDS.get(bits).map_or("", String::as_str);
        let size = head.as_ref().map(CompactRange::size);
        let [retained, now, most] =
            self.prune.map_or([0; 3], |prune| intents::pruned(prune.now_ms, prune.intents));
        let end = sqlx::query(AssertSqlSafe(text))
            .bind(retained)
            .bind(now)
            .bind(most)
            .bind(i64::try_from(size.unwrap_or_default()).map_err(|_| sealwright_tlog::Error::Full)?)
            .bind(head.unwrap_or_default().encode_nodes());
        note_time(end, last_signed).execute(self.open).await.doing("commit")?;
        if let Some(size) = size {
            self.times.committed(self.signed, size, is_noted);
        }
        Ok(())
    }
}

fn note_time(
    query: Query<'static, Sqlite, SqliteArguments>,
    signed: Option<([u8; 16], i64)>,
) -> Query<'static, Sqlite, SqliteArguments> {
    let (id, at_s) = signed.unwrap_or_default();
    query.bind(at_s).bind(id.to_vec())
}

impl LogTransaction for Transaction<'_> {
    type Error = Error;

    async fn head(&mut self) -> Result<CompactRange, Error> {
        if let Some(head) = &self.head {
            return Ok(head.clone());
        }
        let head = parse_head(self.stored_head.as_ref())?;
        self.head = Some(head.clone());
        Ok(head)
    }

    async fn write_rows(&mut self, rows: Vec<LogRow>) -> Result<(), Error> {
        self.rows.extend(rows);
        Ok(())
    }

    async fn write_head(&mut self, head: &CompactRange) -> Result<(), Error> {
        self.head = Some(head.clone());
        self.head_changed = true;
        Ok(())
    }
}

/// Reads the head of the log as of the last commit.
pub(crate) async fn read_head(connection: &mut SqliteConnection) -> Result<CompactRange, Error> {
    let row = sqlx::query(HEAD).fetch_optional(connection).await.doing("read the head of the log")?;
    parse_head(row.as_ref())
}

fn parse_head(row: Option<&SqliteRow>) -> Result<CompactRange, Error> {
    let row = row.ok_or(Error::Damaged { what: "the log has no head" })?;
    let size: i64 = row.try_get(0).doing("read the head of the log")?;
    let nodes: Vec<u8> = row.try_get(1).doing("read the head of the log")?;
    let size = u64::try_from(size).map_err(|_| Error::Damaged { what: "log_head.size" })?;
    Ok(CompactRange::decode(size, &nodes)?)
}
