//! What decides whether a key may sign: read at the beginning of a transaction for all keys that sign in it, in the statement
//! that begins it, and noted at its end. So a batch costs as many statements for 64 keys as for one.

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use sqlx::sqlite::SqliteRow;
use sqlx::{Row as _, SqliteConnection};

use super::bulk::{ROWS_MAX, Texts, statement, texts};
use crate::error::{Doing as _, Error};
use crate::keys::KeyState;
use crate::times::Times;

pub(crate) const KEY: &str =
    "SELECT id, state, generation, expires, last_signed FROM key_states WHERE id = $1";

/// IMMEDIATE: what follows is read under the lock for writing, which other processes respect. All in one, as each statement is a
/// way to the driver's thread and back.
const BEGIN: &str = "BEGIN IMMEDIATE; SELECT size, nodes, noted FROM log_head WHERE id = 1";

/// For 1, 2, 4 ... keys.
static BEGIN_FOR: LazyLock<[String; 7]> =
    LazyLock::new(|| KEYS.each_ref().map(|keys| format!("{BEGIN}; {keys}")));

static KEYS: LazyLock<[String; 7]> = LazyLock::new(|| {
    let before = "SELECT id, state, generation, expires, last_signed FROM key_states WHERE id IN (";
    std::array::from_fn(|power| format!("{before}{})", vec!["?"; 1 << power].join(", ")))
});

static TIMES: Texts = LazyLock::new(|| {
    let after = ") UPDATE key_states SET last_signed = latest.signed FROM latest WHERE key_states.id = latest.key_id \
         AND (last_signed IS NULL OR last_signed < latest.signed)";
    texts("WITH latest (key_id, signed) AS (VALUES ", 2, after)
});

/// A row of another number of columns is of a key.
const HEAD_COLUMNS: usize = 3;

pub(crate) const TAIL: &str =
    "SELECT key_id, signed_at FROM log WHERE position >= $1 AND position < $2 ORDER BY position";

/// Entries that are learned with one statement.
const TAIL_ROWS: u64 = 1_024;

/// What a signature's key must still be when its entry is written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeyCheck {
    pub(crate) state: KeyState,
    pub(crate) generation: u32,
    pub(crate) expires_s: Option<i64>,
    pub(crate) last_signed_s: Option<i64>,
}

/// Begins a transaction; the row of the log's head, and the states of the keys that there are. Then `times` has what the
/// table has not.
pub(super) async fn begin(
    connection: &mut SqliteConnection,
    keys: &HashSet<[u8; 16]>,
    times: &Times,
) -> Result<(Option<SqliteRow>, HashMap<[u8; 16], KeyCheck>), Error> {
    let keys: Vec<[u8; 16]> = keys.iter().copied().collect();
    let mut parts = padded(&keys);
    let begin = match parts.next() {
        None => sqlx::query(BEGIN),
        Some(ids) => bind(&BEGIN_FOR, &ids),
    };
    let mut rows = begin.fetch_all(&mut *connection).await.doing("begin a transaction")?;
    for ids in parts {
        let query = bind(&KEYS, &ids);
        rows.extend(query.fetch_all(&mut *connection).await.doing("check keys before their entries")?);
    }
    let (heads, states): (Vec<_>, Vec<_>) = rows.into_iter().partition(|row| row.len() == HEAD_COLUMNS);
    let head = heads.into_iter().next();
    if let Some(head) = &head {
        learn(connection, head, times).await?;
    }
    let checks: Result<_, Error> = states.iter().map(|row| parse(row, times)).collect();
    Ok((head, checks?))
}

/// The tail of the log that another process wrote, or this one before it was started anew.
async fn learn(connection: &mut SqliteConnection, head: &SqliteRow, times: &Times) -> Result<(), Error> {
    let number = |at| {
        let number: i64 = head.try_get(at).map_err(|_| Error::Damaged { what: "log_head" })?;
        u64::try_from(number).map_err(|_| Error::Damaged { what: "log_head" })
    };
    let (size, noted) = (number(0)?, number(2)?);
    if noted > size {
        return Err(Error::Damaged { what: "log_head.noted" });
    }
    let mut unknown = times.unknown(size, noted);
    while !unknown.is_empty() {
        let end = unknown.start.saturating_add(TAIL_ROWS).min(unknown.end);
        let bound = |at| i64::try_from(at).map_err(|_| sealwright_tlog::Error::Full);
        let query = sqlx::query(TAIL).bind(bound(unknown.start)?).bind(bound(end)?);
        let rows = query.fetch_all(&mut *connection).await.doing("read the tail of the log")?;
        let entries: Result<Vec<_>, Error> = rows.iter().map(entry).collect();
        times.learn(end, entries?.into_iter());
        unknown.start = end;
    }
    Ok(())
}

fn entry(row: &SqliteRow) -> Result<([u8; 16], i64), Error> {
    let id: Vec<u8> = row.try_get(0).map_err(|_| Error::Damaged { what: "log.key_id" })?;
    let at_s = row.try_get(1).map_err(|_| Error::Damaged { what: "log.signed_at" })?;
    Ok((id.try_into().map_err(|_| Error::Damaged { what: "log.key_id" })?, at_s))
}

/// Notes the time of the latest entry of each of these keys, where it is later than what is noted.
pub(super) async fn note(connection: &mut SqliteConnection, times: &[([u8; 16], i64)]) -> Result<(), Error> {
    for times in padded(times) {
        let mut query = statement(&TIMES, times.len());
        for (id, at_s) in times {
            query = query.bind(id.to_vec()).bind(at_s);
        }
        query.execute(&mut *connection).await.doing("note the times of entries")?;
    }
    Ok(())
}

/// Id and the rest of a row of [`KEY`].
pub(super) fn parse(row: &SqliteRow, times: &Times) -> Result<([u8; 16], KeyCheck), Error> {
    let damaged = |what| move |_| Error::Damaged { what };
    let id: Vec<u8> = row.try_get(0).map_err(damaged("key_states.id"))?;
    let id = id.try_into().map_err(|_| Error::Damaged { what: "key_states.id" })?;
    let noted: Option<i64> = row.try_get(4).map_err(damaged("key_states.last_signed"))?;
    let check = KeyCheck {
        state: KeyState::from_number(row.try_get(1).map_err(damaged("key_states.state"))?)?,
        generation: u32::try_from(row.try_get::<i64, _>(2).map_err(damaged("key_states.generation"))?)
            .map_err(|_| Error::Damaged { what: "key_states.generation" })?,
        expires_s: row.try_get(3).map_err(damaged("key_states.expires"))?,
        last_signed_s: noted.max(times.of(id)),
    };
    Ok((id, check))
}

fn bind<'q>(
    texts: &'static LazyLock<[String; 7]>,
    ids: &[[u8; 16]],
) -> sqlx::query::Query<'q, sqlx::Sqlite, sqlx::sqlite::SqliteArguments> {
    ids.iter().fold(statement(texts, ids.len()), |query, id| query.bind(id.to_vec()))
}

/// Parts whose lengths are powers of two: the last of a part stands in it as often as that takes, which changes nothing for
/// statements about keys.
fn padded<T: Copy>(rows: &[T]) -> impl Iterator<Item = Vec<T>> {
    rows.chunks(ROWS_MAX).map(|part| {
        let mut part = part.to_vec();
        if let Some(last) = part.last().copied() {
            part.resize(part.len().next_power_of_two(), last);
        }
        part
    })
}

#[cfg(test)]
mod tests {
    use sqlx::AssertSqlSafe;

    use super::*;

    #[test]
    fn parts_are_padded_to_powers_of_two_with_what_is_there() {
        for count in 0..200_usize {
            let rows: Vec<usize> = (0..count).collect();
            let parts: Vec<Vec<usize>> = padded(&rows).collect();
            assert!(parts.iter().all(|part| part.len().is_power_of_two() && part.len() <= ROWS_MAX));
            let mut all = parts.concat();
            all.dedup();
            assert_eq!(all, rows);
        }
    }

    /// 100,000 keys, or ten: those of a batch are found by the primary key.
    #[tokio::test]
    async fn states_of_many_keys_are_found_by_their_ids() {
        let folder = tempfile::tempdir().unwrap();
        let pools = crate::open::open(&folder.path().join("store")).await.unwrap();
        for text in KEYS.iter().chain(TIMES.iter()) {
            let plan = sqlx::query(AssertSqlSafe(format!("EXPLAIN QUERY PLAN {text}")))
                .fetch_all(&pools.writer)
                .await
                .unwrap();
            let plan: Vec<String> = plan.iter().map(|row| row.get("detail")).collect();
            assert!(
                plan.iter().any(|step| step.starts_with("SEARCH key_states USING PRIMARY KEY")),
                "{plan:?}"
            );
            assert!(!plan.iter().any(|step| step.starts_with("SCAN key_states")), "{plan:?}");
        }
    }
}
