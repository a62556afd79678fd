//! Fills the store of a running server with keys and log entries that nobody made, for benches: `fill FOLDER KEYS ENTRIES`.
//! Rows are as long as real ones. A store that was filled is good for nothing else.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a tool for benches: what is wrong ends it")]

use std::path::Path;

use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{AssertSqlSafe, ConnectOptions as _, SqliteConnection};

/// Rows of one transaction: the server's own commits find their turn between two.
const ROWS: i64 = 100_000;

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize| arguments[at].parse::<i64>().unwrap();
    let (keys, entries) = (number(1), number(2));
    let options = SqliteConnectOptions::new()
        .filename(Path::new(&arguments[0]).join("store.db"))
        .busy_timeout(std::time::Duration::from_secs(60))
        .foreign_keys(false)
        .disable_statement_logging();
    let mut store = options.connect().await.unwrap();
    let done: i64 = sqlx::query_scalar("SELECT COUNT(*) FROM keys").fetch_one(&mut store).await.unwrap();
    fill(&mut store, done, keys, KEYS).await;
    sqlx::query(STATES).execute(&mut store).await.unwrap();
    let done: i64 = sqlx::query_scalar("SELECT size FROM log_head").fetch_one(&mut store).await.unwrap();
    fill(&mut store, done, entries, ENTRIES).await;
    if entries > done {
        // As many nodes of the tree as the number has ones.
        sqlx::query("UPDATE log_head SET size = $1, noted = $1, nodes = randomblob(32 * $2)")
            .bind(entries)
            .bind(i64::from(entries.count_ones()))
            .execute(&mut store)
            .await
            .unwrap();
    }
    sqlx::query("PRAGMA wal_checkpoint(TRUNCATE)").execute(&mut store).await.unwrap();
}

/// $1 and $2: numbers of the first row and of the one after the last. Ids ascend with time, as UUIDv7 does.
const KEYS: &str = "WITH RECURSIVE n(i) AS (SELECT $1 UNION ALL SELECT i + 1 FROM n WHERE i + 1 < $2) \
    INSERT INTO keys (id, name, version, revision, algorithm, fingerprint, signing_fingerprint, \
    user_id, created, usages, renewable, certificate, sealed, data_key_id, backend) \
    SELECT CAST(printf('%08d', i) AS BLOB) || randomblob(8), 'filled-' || i, 1, 1, 'rsa4096', \
    randomblob(20), randomblob(20), 'Filled <filled@example.invalid>', 1700000000, x'01', 1, randomblob(1200), \
    randomblob(3000), '00', 'software' FROM n";

const STATES: &str = "INSERT INTO key_states (id, state, generation) SELECT id, 1, 1 FROM keys \
    WHERE NOT EXISTS (SELECT 1 FROM key_states WHERE key_states.id = keys.id) ORDER BY id";

/// Of sixteen keys: they lie in the index of keys beside each other.
const ENTRIES: &str = "WITH RECURSIVE n(i) AS (SELECT $1 UNION ALL SELECT i + 1 FROM n WHERE i + 1 < $2), \
    k(number, id) AS MATERIALIZED (SELECT row_number() OVER (ORDER BY id) - 1, id FROM keys ORDER BY id LIMIT 16) \
    INSERT INTO log (position, entry, leaf_hash, key_id, signed_at) \
    SELECT i, randomblob(300), randomblob(32), k.id, 1700000000 FROM n \
    JOIN k ON k.number = i % (SELECT COUNT(*) FROM k)";

async fn fill(store: &mut SqliteConnection, done: i64, wanted: i64, sql: &'static str) {
    let mut first = done;
    while first < wanted {
        let end = wanted.min(first.saturating_add(ROWS));
        sqlx::query(AssertSqlSafe(sql)).bind(first).bind(end).execute(&mut *store).await.unwrap();
        first = end;
    }
}
