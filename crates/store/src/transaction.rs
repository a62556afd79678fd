//! One open transaction: the log's head, read once and kept under the writer's lock, rows that wait to be
//! written at its end, and the keys that were checked in it.

use std::collections::HashMap;

use sealwright_tlog::CompactRange;
use sealwright_tlog::storage::{LogTransaction, Row as LogRow};
use sqlx::{AssertSqlSafe, Row as _, SqliteConnection};

use crate::error::{Doing as _, Error};
use crate::keys::KeyState;

/// Rows of the log in one INSERT.
const ROWS_PER_INSERT: usize = 32;

pub(crate) const KEY: &str = "SELECT state, generation, expires, last_signed FROM keys WHERE id = $1";

pub(crate) const SIGNED: &str =
    "UPDATE keys SET last_signed = $1 WHERE id = $2 AND (last_signed IS NULL OR last_signed < $1)";

pub(crate) const HEAD: &str = "SELECT size, nodes FROM log_head WHERE id = 1";

/// What a signature's key must still be when its entry is written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeyCheck {
    pub(crate) state: KeyState,
    pub(crate) generation: u32,
    pub(crate) expires_s: Option<i64>,
    pub(crate) last_signed_s: Option<i64>,
}

/// See the module. Nothing is durable before [`Self::commit`]. Who began it rolls it back when it was not committed.
pub(crate) struct Transaction<'c> {
    open: &'c mut SqliteConnection,
    head: Option<CompactRange>,
    head_changed: bool,
    rows: Vec<LogRow>,
    keys: HashMap<[u8; 16], KeyCheck>,
    /// Latest time of each key that got an entry in this transaction.
    signed: HashMap<[u8; 16], i64>,
}

/// A place in a transaction to go back to, as far as the log is concerned.
pub(crate) struct LogMark {
    head: Option<CompactRange>,
    head_changed: bool,
    rows: usize,
}

impl<'c> Transaction<'c> {
    pub(crate) fn new(open: &'c mut SqliteConnection) -> Self {
        Self {
            open,
            head: None,
            head_changed: false,
            rows: Vec::new(),
            keys: HashMap::new(),
            signed: HashMap::new(),
        }
    }

    pub(crate) fn connection(&mut self) -> &mut SqliteConnection {
        self.open
    }

    /// Forget what was read of a key, because its row changes in this transaction.
    pub(crate) fn key_changed(&mut self, id: [u8; 16]) {
        self.keys.remove(&id);
    }

    /// The key's row as this transaction sees it; one query a key and transaction. None: no such key.
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
        let damaged = |what| move |_| Error::Damaged { what };
        let check = KeyCheck {
            state: KeyState::from_number(row.try_get(0).map_err(damaged("keys.state"))?)?,
            generation: u32::try_from(row.try_get::<i64, _>(1).map_err(damaged("keys.generation"))?)
                .map_err(|_| Error::Damaged { what: "keys.generation" })?,
            expires_s: row.try_get(2).map_err(damaged("keys.expires"))?,
            last_signed_s: row
                .try_get::<Option<i64>, _>(3)
                .map_err(damaged("keys.last_signed"))?
                .max(self.signed.get(&id).copied()),
        };
        self.keys.insert(id, check);
        Ok(Some(check))
    }

    /// Notes that an entry of this time was appended.
    pub(crate) fn signed(&mut self, id: [u8; 16], at_s: i64) {
        let latest = self.signed.entry(id).or_insert(at_s);
        *latest = (*latest).max(at_s);
        if let Some(check) = self.keys.get_mut(&id) {
            check.last_signed_s = Some(check.last_signed_s.map_or(at_s, |last| last.max(at_s)));
        }
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

    /// Writes rows, head and times, and commits: after this they are durable.
    pub(crate) async fn commit(mut self) -> Result<(), Error> {
        let rows = std::mem::take(&mut self.rows);
        for chunk in rows.chunks(ROWS_PER_INSERT) {
            insert_rows(self.connection(), chunk).await?;
        }
        if let Some(head) = self.head.take().filter(|_| self.head_changed) {
            sqlx::query("UPDATE log_head SET size = $1, nodes = $2 WHERE id = 1")
                .bind(i64::try_from(head.size()).map_err(|_| sealwright_tlog::Error::Full)?)
                .bind(head.encode_nodes())
                .execute(self.connection())
                .await
                .doing("write the head of the log")?;
        }
        for (id, at_s) in std::mem::take(&mut self.signed) {
            sqlx::query(SIGNED)
                .bind(at_s)
                .bind(id.to_vec())
                .execute(self.connection())
                .await
                .doing("note the time of a key's last entry")?;
        }
        sqlx::query("COMMIT").execute(self.open).await.doing("commit")?;
        Ok(())
    }
}

async fn insert_rows(connection: &mut SqliteConnection, rows: &[LogRow]) -> Result<(), Error> {
    // At most ROWS_PER_INSERT texts, fewer than the driver's statement cache holds.
    let groups: Vec<String> = (0..rows.len())
        .map(|row| {
            let first = row.saturating_mul(5);
            let parameter = |n: usize| format!("${}", first.saturating_add(n));
            format!("({})", (1..=5).map(parameter).collect::<Vec<_>>().join(", "))
        })
        .collect();
    let sql = format!(
        "INSERT INTO log (position, entry, leaf_hash, key_id, signed_at) VALUES {}",
        groups.join(", ")
    );
    // Only numbers of parameters were put into the text.
    let mut query = sqlx::query(AssertSqlSafe(sql));
    for row in rows {
        query = query
            .bind(i64::try_from(row.index).map_err(|_| sealwright_tlog::Error::Full)?)
            .bind(row.entry.as_slice())
            .bind(row.leaf_hash.as_bytes().as_slice())
            .bind(row.key_id.as_slice())
            .bind(row.signed_at_s);
    }
    query.execute(connection).await.doing("append to the log")?;
    Ok(())
}

impl LogTransaction for Transaction<'_> {
    type Error = Error;

    async fn head(&mut self) -> Result<CompactRange, Error> {
        if let Some(head) = &self.head {
            return Ok(head.clone());
        }
        let head = read_head(self.connection()).await?;
        self.head = Some(head.clone());
        Ok(head)
    }

    async fn write_rows(&mut self, rows: &[LogRow]) -> Result<(), Error> {
        self.rows.extend_from_slice(rows);
        Ok(())
    }

    async fn write_head(&mut self, head: &CompactRange) -> Result<(), Error> {
        self.head = Some(head.clone());
        self.head_changed = true;
        Ok(())
    }
}

/// Reads the head of the log. Inside `BEGIN IMMEDIATE` no other writer can change it. (On PostgreSQL the same
/// place needs `FOR UPDATE`: the second constant stands here when that database comes.)
pub(crate) async fn read_head(connection: &mut SqliteConnection) -> Result<CompactRange, Error> {
    let row = sqlx::query(HEAD)
        .fetch_optional(connection)
        .await
        .doing("read the head of the log")?
        .ok_or(Error::Damaged { what: "the log has no head" })?;
    let size: i64 = row.try_get(0).doing("read the head of the log")?;
    let nodes: Vec<u8> = row.try_get(1).doing("read the head of the log")?;
    let size = u64::try_from(size).map_err(|_| Error::Damaged { what: "log_head.size" })?;
    Ok(CompactRange::decode(size, &nodes)?)
}
