//! Statements for many rows at once. A statement costs a way to the driver's thread and back, whatever it does, and that
//! is more than the row itself; so what a batch writes into one table goes there together.
//!
//! Each statement says how many rows it wrote. If that is not all, something in the batch needs a look of its own (a
//! retry of a request that is there, an attempt that has lost its intent): the batch is rolled back and done again one by
//! one.

use std::sync::LazyLock;

use sealwright_tlog::storage::Row as LogRow;
use sqlx::query::Query;
use sqlx::sqlite::SqliteArguments;
use sqlx::{AssertSqlSafe, Sqlite, SqliteConnection};

use crate::error::{Doing as _, Error};
use crate::intents::{Intent, IntentId};

/// Rows of a statement are powers of two up to this: few texts, which stay prepared (the driver keeps 100).
pub(super) const ROWS_MAX: usize = 64;

/// Texts for 1, 2, 4 ... [`ROWS_MAX`] rows.
pub(super) type Texts = LazyLock<[String; 7]>;

static LOG: Texts =
    LazyLock::new(|| texts("INSERT INTO log (position, entry, leaf_hash, key_id, signed_at) VALUES ", 5, ""));

static INTENTS: Texts = LazyLock::new(|| {
    let before =
        "INSERT INTO intents (principal, request_id, digest, key_id, attempt, lease_until, created) VALUES ";
    texts(before, 7, " ON CONFLICT DO NOTHING")
});

/// An attempt that has lost its intent is not among them.
static OUTCOMES: Texts = LazyLock::new(|| {
    let before = "WITH answers (principal, request_id, attempt, outcome) AS (VALUES ";
    let after = ") UPDATE intents SET outcome = answers.outcome FROM answers \
         WHERE intents.principal = answers.principal AND intents.request_id = answers.request_id \
         AND intents.attempt = answers.attempt AND intents.outcome IS NULL";
    texts(before, 4, after)
});

/// With `?`, not `$1`: SQLite keeps names for numbered parameters, and the driver has it walk through all of them for each.
/// PostgreSQL, when it comes, gets numbers here.
pub(super) fn texts(before: &str, columns: usize, after: &str) -> [String; 7] {
    std::array::from_fn(|power| {
        let row = format!("({})", vec!["?"; columns].join(", "));
        format!("{before}{}{after}", vec![row; 1 << power].join(", "))
    })
}

/// An answer that waits to be written.
pub(super) struct Answer {
    pub(super) id: IntentId,
    pub(super) outcome: Vec<u8>,
}

/// Every row was written; or some were not, for a reason that a statement for many does not tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(super) enum Written {
    All,
    Fewer,
}

/// Appends to the log.
pub(super) async fn append(connection: &mut SqliteConnection, rows: &[LogRow]) -> Result<(), Error> {
    for rows in parts(rows) {
        let mut query = statement(&LOG, rows.len());
        for row in rows {
            query = query
                .bind(i64::try_from(row.index).map_err(|_| sealwright_tlog::Error::Full)?)
                .bind(row.entry.as_slice())
                .bind(row.leaf_hash.as_bytes().as_slice())
                .bind(row.key_id.as_slice())
                .bind(row.signed_at_s);
        }
        query.execute(&mut *connection).await.doing("append to the log")?;
    }
    Ok(())
}

/// Records intents of requests that are not there.
pub(super) async fn record(connection: &mut SqliteConnection, intents: &[Intent]) -> Result<Written, Error> {
    for intents in parts(intents) {
        let mut query = statement(&INTENTS, intents.len());
        for intent in intents {
            query = query
                .bind(intent.id.principal.as_str())
                .bind(intent.id.request_id.as_bytes().as_slice())
                .bind(intent.digest.as_slice())
                .bind(intent.key_id.as_bytes().as_slice())
                .bind(intent.id.attempt.as_bytes().as_slice())
                .bind(intent.lease_until_ms)
                .bind(intent.now_ms);
        }
        let done = query.execute(&mut *connection).await.doing("record an intent")?;
        if !is_all(done.rows_affected(), intents.len()) {
            return Ok(Written::Fewer);
        }
    }
    Ok(Written::All)
}

/// Writes the answers of attempts that hold their intents.
pub(super) async fn conclude(
    connection: &mut SqliteConnection,
    answers: &[Answer],
) -> Result<Written, Error> {
    for answers in parts(answers) {
        let mut query = statement(&OUTCOMES, answers.len());
        for Answer { id, outcome } in answers {
            query = query
                .bind(id.principal.as_str())
                .bind(id.request_id.as_bytes().as_slice())
                .bind(id.attempt.as_bytes().as_slice())
                .bind(outcome.as_slice());
        }
        let done = query.execute(&mut *connection).await.doing("write the answer to a request")?;
        if !is_all(done.rows_affected(), answers.len()) {
            return Ok(Written::Fewer);
        }
    }
    Ok(Written::All)
}

fn is_all(affected: u64, rows: usize) -> bool {
    usize::try_from(affected) == Ok(rows)
}

/// Slices whose lengths are powers of two, the largest first.
fn parts<T>(rows: &[T]) -> impl Iterator<Item = &[T]> {
    let mut rest = rows;
    std::iter::from_fn(move || {
        let power = rest.len().checked_ilog2()?;
        let (part, left) = rest.split_at_checked((1_usize << power).min(ROWS_MAX))?;
        rest = left;
        Some(part)
    })
}

/// The statement for so many rows, a power of two.
pub(super) fn statement<'q>(texts: &'static Texts, rows: usize) -> Query<'q, Sqlite, SqliteArguments> {
    let power = usize::try_from(rows.trailing_zeros()).unwrap_or_default();
    let text = texts.get(power).map_or("", String::as_str);
    // Only places for parameters were put into the text.
    sqlx::query(AssertSqlSafe(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_powers_of_two_and_all_of_it() {
        for count in 0..300_usize {
            let rows: Vec<usize> = (0..count).collect();
            let parts: Vec<&[usize]> = parts(&rows).collect();
            assert_eq!(parts.concat(), rows);
            assert!(parts.iter().all(|part| part.len().is_power_of_two() && part.len() <= ROWS_MAX));
        }
    }

    #[test]
    fn there_is_a_text_for_every_part() {
        for texts in [&LOG, &INTENTS, &OUTCOMES] {
            assert_eq!(texts.last().map(|text| text.matches('(').count() > ROWS_MAX), Some(true));
            assert_eq!(1 << (texts.len() - 1), ROWS_MAX);
        }
        assert!(INTENTS[1].contains("VALUES (?, ?, ?, ?, ?, ?, ?), (?, "));
    }

    /// As many rows as one statement has are found by the index, not by looking through the table.
    #[tokio::test]
    async fn answers_find_their_intents_by_the_index() {
        use sqlx::Row as _;
        let folder = tempfile::tempdir().unwrap();
        let pools = crate::open::open(&folder.path().join("store")).await.unwrap();
        for text in OUTCOMES.iter() {
            let plan = sqlx::query(AssertSqlSafe(format!("EXPLAIN QUERY PLAN {text}")))
                .fetch_all(&pools.writer)
                .await
                .unwrap();
            let plan: Vec<String> = plan.iter().map(|row| row.get("detail")).collect();
            assert!(plan.iter().any(|step| step.starts_with("SEARCH intents USING INDEX")), "{plan:?}");
        }
    }
}
