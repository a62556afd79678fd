//! What a signature costs the store: one with many keys and a long log against one with ten keys and an empty log, in
//! turns. Prints one JSON object. The large one is made in FOLDER if it is not there (some 700 bytes an entry).
//!
//! `cargo run --release -p sealwright-store --example large_store -- FOLDER [KEYS ENTRIES ROUNDS REQUESTS USED]`; USED
//! keys of the large store, at random places in it, are signed with.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::print_stdout,
    reason = "a measurement: whatever is wrong ends it"
)]

use std::path::Path;
use std::time::Instant;

use rustix::time::{ClockId, clock_gettime};
use sealwright_crypto::algorithm::HashAlgorithm;
use sealwright_crypto::digest::Hasher;
use sealwright_crypto::openpgp::fingerprint::Fingerprint;
use sealwright_crypto::usage::{Purpose, Usage};
use sealwright_store::{Concluded, Conclusion, Intent, IntentId, ItemResult, Recorded, Store, Tickets};
use sealwright_tlog::entry::packet_hash;
use sealwright_tlog::merkle::leaf_hash;
use sealwright_tlog::{CompactRange, Entry, Operation};
use sqlx::sqlite::{SqliteConnectOptions, SqliteSynchronous};
use sqlx::{AssertSqlSafe, ConnectOptions as _, Connection as _, Executor as _, SqliteConnection};
use uuid::Uuid;

const NOW_S: i64 = 1_796_000_000;
/// Of an RSA-4096 key.
const SEALED_BYTES: usize = 3_000;
const CERTIFICATE_BYTES: usize = 1_200;
/// Requests at once in the second measurement.
const TOGETHER: usize = 64;
/// Rows of one INSERT, and of one transaction, while the store is filled.
const ROWS: u64 = 100;
const TRANSACTION: u64 = 100_000;

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().unwrap();
    let mut numbers = arguments.map(|argument| argument.parse::<u64>().unwrap());
    let mut next = |default| numbers.next().unwrap_or(default);
    let (keys, entries, rounds, requests) = (next(100_000), next(10_000_000), next(5), next(200));
    let used = next(keys);
    let large = Path::new(&folder).join(format!("{keys}-{entries}"));
    if !large.join("done").exists() {
        let begun = Instant::now();
        fill(&large.join("store"), keys, entries).await;
        std::fs::write(large.join("done"), "").unwrap();
        eprintln_seconds(begun);
    }
    let small = tempfile::tempdir_in(&folder).unwrap();
    fill(&small.path().join("store"), 10, 0).await;
    let stores = [
        (Store::open(&small.path().join("store")).await.unwrap(), (10, 10)),
        (Store::open(&large.join("store")).await.unwrap(), (keys, used)),
    ];
    let mut costs = [[Vec::new(), Vec::new()], [Vec::new(), Vec::new()]];
    for round in 0..rounds {
        for (which, (store, keys)) in stores.iter().enumerate() {
            costs[which][0].push(measure(store, *keys, round * 1_000_000, requests, 1).await);
            let groups = requests.div_ceil(4);
            costs[which][1].push(measure(store, *keys, round * 1_000_000 + 500_000, groups, TOGETHER).await);
        }
    }
    let [[lone_small, together_small], [lone_large, together_large]] = costs.map(|of| of.map(median));
    let head = stores[1].0.log_head().await.unwrap().size();
    println!(
        "{{\"keys\": {keys}, \"used\": {used}, \"log\": {head}, \"lone_cpu_us\": [{:.1}, {:.1}], \"lone_ratio\": {:.3}, \
         \"lone_wall_us\": [{:.0}, {:.0}], \"together_cpu_us\": [{:.1}, {:.1}], \"together_ratio\": {:.3}, \
         \"together_wall_us\": [{:.0}, {:.0}]}}",
        lone_small.0,
        lone_large.0,
        lone_large.0 / lone_small.0,
        lone_small.1,
        lone_large.1,
        together_small.0,
        together_large.0,
        together_large.0 / together_small.0,
        together_small.1,
        together_large.1,
    );
}

#[expect(clippy::print_stderr, reason = "a measurement")]
fn eprintln_seconds(begun: Instant) {
    eprintln!("filled in {} s", begun.elapsed().as_secs());
}

/// Median of CPU time, and of wall time.
fn median(mut costs: Vec<(f64, f64)>) -> (f64, f64) {
    let middle = costs.len() / 2;
    costs.sort_by(|a, b| a.0.total_cmp(&b.0));
    let cpu = costs[middle].0;
    costs.sort_by(|a, b| a.1.total_cmp(&b.1));
    (cpu, costs[middle].1)
}

/// Signs so many groups of requests with keys at random; CPU and wall time in microseconds a signature.
async fn measure(
    store: &Store,
    (keys, used): (u64, u64),
    first: u64,
    groups: u64,
    together: usize,
) -> (f64, f64) {
    let (begun, cpu) = (Instant::now(), cpu_us());
    for group in 0..groups {
        let requests = (0..together).map(|n| {
            let number = first + group * TOGETHER as u64 + n as u64;
            sign(store, scatter(scatter(number) % used) % keys)
        });
        futures_util::future::join_all(requests).await;
    }
    let signatures = groups as f64 * together as f64;
    ((cpu_us() - cpu) / signatures, begun.elapsed().as_micros() as f64 / signatures)
}

const fn scatter(number: u64) -> u64 {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29)
}

async fn sign(store: &Store, key: u64) {
    let key_id = key_id(key);
    let id = IntentId { principal: "client".to_owned(), request_id: Uuid::now_v7(), attempt: Uuid::now_v7() };
    let (now_ms, tickets) = (NOW_S * 1000, Tickets::Spend(Vec::new()));
    let digest = [7; 32];
    let intent = Intent { id: id.clone(), digest, key_id, now_ms, lease_until_ms: now_ms + 60_000, tickets };
    assert_eq!(store.record_intent(intent).await.unwrap(), Recorded::New);
    let entry = Box::new(Entry { request_id: *id.request_id.as_bytes(), ..entry(key, 1) });
    let items = vec![ItemResult::Signed { entry, packet: vec![7; 560] }];
    let conclusion = Conclusion { id, key_id, generation: 1, now_s: NOW_S, items };
    assert!(matches!(store.conclude(conclusion).await.unwrap(), Concluded::Done(_)));
}

fn cpu_us() -> f64 {
    let now = clock_gettime(ClockId::ProcessCPUTime);
    now.tv_sec as f64 * 1e6 + now.tv_nsec as f64 / 1e3
}

fn key_id(n: u64) -> Uuid {
    Uuid::from_u64_pair((n << 16) | 0x7000, 0x8000_0000_0000_0000 | n)
}

fn entry(key: u64, number: u64) -> Entry {
    let mut fingerprint = [0; 20];
    fingerprint[..8].copy_from_slice(&key.to_be_bytes());
    Entry {
        signed_at_s: NOW_S,
        principal: "client".to_owned(),
        request_id: number.to_be_bytes().repeat(2).try_into().unwrap(),
        item: 0,
        key_id: *key_id(key).as_bytes(),
        key_version: 1,
        key_generation: 1,
        signing_fingerprint: Fingerprint::v4(fingerprint),
        usage: Usage::OpenPgp,
        purpose: Purpose::RpmHeader,
        digest: Hasher::digest(HashAlgorithm::Sha256, &number.to_be_bytes()),
        packet_sha256: packet_hash(&number.to_be_bytes()),
        artefact: None,
        decision: "grant".to_owned(),
        claimed_time_s: None,
        operation: Operation { number, skipped: 0, chain: [0; 32] },
    }
}

/// Makes the store and fills it past the product, as the product would have, only faster.
async fn fill(folder: &Path, keys: u64, entries: u64) {
    drop(Store::open(folder).await.unwrap());
    let options = SqliteConnectOptions::new()
        .filename(folder.join("store.db"))
        .synchronous(SqliteSynchronous::Off)
        .pragma("cache_size", "-1000000");
    let mut connection = options.disable_statement_logging().connect().await.unwrap();
    connection.execute("BEGIN").await.unwrap();
    for n in 0..keys {
        insert_key(&mut connection, n).await;
    }
    connection.execute("DROP INDEX log_key").await.unwrap();
    let mut head = CompactRange::default();
    let mut number = 0;
    while number < entries {
        let rows = ROWS.min(entries - number);
        insert_entries(&mut connection, &mut head, number, rows, keys).await;
        number += rows;
        if number % TRANSACTION == 0 {
            connection.execute("COMMIT; BEGIN").await.unwrap();
        }
    }
    sqlx::query("UPDATE log_head SET size = $1, nodes = $2 WHERE id = 1")
        .bind(i64::try_from(head.size()).unwrap())
        .bind(head.encode_nodes())
        .execute(&mut connection)
        .await
        .unwrap();
    connection.execute("CREATE INDEX log_key ON log (key_id, position)").await.unwrap();
    connection.execute("COMMIT").await.unwrap();
    connection.close().await.unwrap();
}

async fn insert_key(connection: &mut SqliteConnection, n: u64) {
    let mut fingerprint = [0; 20];
    fingerprint[..8].copy_from_slice(&n.to_be_bytes());
    sqlx::query(
        "INSERT INTO keys (id, name, version, state, generation, revision, algorithm, fingerprint, signing_fingerprint, \
         user_id, created, usages, renewable, certificate, sealed, data_key_id, last_signed) \
         VALUES ($1, $2, 1, 1, 1, 1, 'rsa4096', $3, $3, '', 0, $4, 1, $5, $6, 'd1', $7)",
    )
    .bind(key_id(n).as_bytes().as_slice())
    .bind(format!("key-{n:08}"))
    .bind(fingerprint.as_slice())
    .bind([Usage::OpenPgp.id()].as_slice())
    .bind(vec![7; CERTIFICATE_BYTES])
    .bind(vec![7; SEALED_BYTES])
    .bind(NOW_S)
    .execute(connection)
    .await
    .unwrap();
}

async fn insert_entries(
    connection: &mut SqliteConnection,
    head: &mut CompactRange,
    first: u64,
    rows: u64,
    keys: u64,
) {
    let groups: Vec<String> = (0..rows)
        .map(|row| {
            let p = row * 5;
            format!("(${}, ${}, ${}, ${}, ${})", p + 1, p + 2, p + 3, p + 4, p + 5)
        })
        .collect();
    let sql = format!(
        "INSERT INTO log (position, entry, leaf_hash, key_id, signed_at) VALUES {}",
        groups.join(", ")
    );
    let mut query = sqlx::query(AssertSqlSafe(sql));
    for number in first..first + rows {
        let key = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) % keys;
        let bytes = entry(key, number + 1).encode().unwrap();
        let leaf = leaf_hash(&bytes);
        head.append(leaf).unwrap();
        query = query
            .bind(i64::try_from(number).unwrap())
            .bind(bytes)
            .bind(leaf.as_bytes().to_vec())
            .bind(key_id(key).as_bytes().to_vec())
            .bind(NOW_S);
    }
    query.execute(connection).await.unwrap();
}
