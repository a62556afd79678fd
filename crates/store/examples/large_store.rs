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
    let [[lone_small, together_small], [lone_large, together_large]] =
        costs.map(|of| of.map(|of| median(&of)));
    let head = stores[1].0.log_head().await.unwrap().size();
    print!("{{\"keys\": {keys}, \"used\": {used}, \"log\": {head}");
    for (name, small, large) in
        [("lone", lone_small, lone_large), ("together", together_small, together_large)]
    {
        for (of, what) in ["cpu_us", "wall_us", "bytes"].iter().enumerate() {
            print!(", \"{name}_{what}\": [{:.1}, {:.1}]", small[of], large[of]);
        }
        print!(", \"{name}_ratio\": {:.3}", large[0] / small[0]);
    }
    println!("}}");
}

#[expect(clippy::print_stderr, reason = "a measurement")]
fn eprintln_seconds(begun: Instant) {
    eprintln!("filled in {} s", begun.elapsed().as_secs());
}

/// Medians, each by itself.
fn median(costs: &[[f64; 3]]) -> [f64; 3] {
    std::array::from_fn(|which| {
        let mut each: Vec<f64> = costs.iter().map(|cost| cost[which]).collect();
        each.sort_by(f64::total_cmp);
        each[each.len() / 2]
    })
}

/// Signs so many groups of requests with keys at random; CPU and wall time in microseconds, and bytes written, a signature.
async fn measure(
    store: &Store,
    (keys, used): (u64, u64),
    first: u64,
    groups: u64,
    together: usize,
) -> [f64; 3] {
    let (begun, cpu, bytes) = (Instant::now(), cpu_us(), written_bytes());
    // After all that was signed before: a run on a store that is there begins with a later time.
    let begin_s = NOW_S + i64::try_from(store.log_head().await.unwrap().size()).unwrap();
    for group in 0..groups {
        let requests = (0..together).map(|n| {
            let number = first + group * TOGETHER as u64 + n as u64;
            // Each group is signed a second after the one before: so each signature changes what is noted of its key.
            let now_s = begin_s + i64::try_from(group).unwrap();
            sign(store, scatter(scatter(number) % used) % keys, now_s)
        });
        futures_util::future::join_all(requests).await;
    }
    let signatures = groups as f64 * together as f64;
    let spent = [cpu_us() - cpu, begun.elapsed().as_micros() as f64, written_bytes() - bytes];
    spent.map(|spent| spent / signatures)
}

const fn scatter(number: u64) -> u64 {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29)
}

async fn sign(store: &Store, key: u64, now_s: i64) {
    let key_id = key_id(key);
    let id = IntentId { principal: "client".to_owned(), request_id: Uuid::now_v7(), attempt: Uuid::now_v7() };
    let (now_ms, tickets) = (now_s * 1000, Tickets::Spend(Vec::new()));
    let digest = [7; 32];
    let intent = Intent { id: id.clone(), digest, key_id, now_ms, lease_until_ms: now_ms + 60_000, tickets };
    assert_eq!(store.record_intent(intent).await.unwrap(), Recorded::New);
    let entry =
        Box::new(Entry { request_id: *id.request_id.as_bytes(), signed_at_s: now_s, ..entry(key, 1) });
    let items = vec![ItemResult::Signed { entry, packet: vec![7; 560] }];
    let conclusion = Conclusion { id, key_id, generation: 1, now_s, items };
    assert!(matches!(store.conclude(conclusion).await.unwrap(), Concluded::Done(_)));
}

fn cpu_us() -> f64 {
    let now = clock_gettime(ClockId::ProcessCPUTime);
    now.tv_sec as f64 * 1e6 + now.tv_nsec as f64 / 1e3
}

/// Handed to the kernel so far.
fn written_bytes() -> f64 {
    let counts = std::fs::read_to_string("/proc/self/io").unwrap();
    counts.lines().find_map(|line| line.strip_prefix("wchar: ")).unwrap().parse().unwrap()
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
        digest: Hasher::digest(HashAlgorithm::Sha256, &number.to_be_bytes()).into(),
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
    sqlx::query("UPDATE log_head SET size = $1, noted = $1, nodes = $2 WHERE id = 1")
        .bind(i64::try_from(head.size()).unwrap())
        .bind(head.encode_nodes())
        .execute(&mut connection)
        .await
        .unwrap();
    connection.execute("COMMIT").await.unwrap();
    connection.close().await.unwrap();
}

async fn insert_key(connection: &mut SqliteConnection, n: u64) {
    let mut fingerprint = [0; 20];
    fingerprint[..8].copy_from_slice(&n.to_be_bytes());
    sqlx::query(
        "INSERT INTO keys (id, name, version, revision, algorithm, fingerprint, signing_fingerprint, \
         user_id, created, usages, renewable, certificate, sealed, data_key_id, backend) \
         VALUES ($1, $2, 1, 1, 'rsa4096', $3, $3, '', 0, $4, 1, $5, $6, 'd1', 'software')",
    )
    .bind(key_id(n).as_bytes().as_slice())
    .bind(format!("key-{n:08}"))
    .bind(fingerprint.as_slice())
    .bind([Usage::OpenPgp.id()].as_slice())
    .bind(vec![7; CERTIFICATE_BYTES])
    .bind(vec![7; SEALED_BYTES])
    .execute(&mut *connection)
    .await
    .unwrap();
    sqlx::query("INSERT INTO key_states (id, state, generation, last_signed) VALUES ($1, 1, 1, $2)")
        .bind(key_id(n).as_bytes().as_slice())
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
