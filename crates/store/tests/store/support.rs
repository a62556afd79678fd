//! Values for the tests of the store.

use std::path::Path;

use sealwright_crypto::algorithm::{HashAlgorithm, KeyAlgorithm};
use sealwright_crypto::digest::Hasher;
use sealwright_crypto::openpgp::fingerprint::Fingerprint;
use sealwright_crypto::usage::{Purpose, Usage};
use sealwright_store::{
    Conclusion, Intent, IntentId, ItemOutcome, ItemResult, Key, Material, NewKey, Store, Ticket, Tickets,
};
use sealwright_tlog::entry::packet_hash;
use sealwright_tlog::{Entry, Hash, Operation};
use sqlx::{ConnectOptions as _, Connection as _, SqliteConnection, sqlite::SqliteConnectOptions};
use uuid::Uuid;

pub(crate) const NOW_S: i64 = 1_796_000_000;

pub(crate) struct Opened {
    pub(crate) store: Store,
    pub(crate) folder: tempfile::TempDir,
}

pub(crate) async fn open() -> Opened {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(&folder.path().join("store")).await.unwrap();
    Opened { store, folder }
}

pub(crate) fn uuid(n: u8) -> Uuid {
    Uuid::from_bytes([n, 1, 2, 3, 4, 5, 0x70, 7, 0x80, 9, 10, 11, 12, 13, 14, 15])
}

pub(crate) fn material(n: u8, generation: u32) -> Material {
    Material {
        generation,
        algorithm: KeyAlgorithm::Ed25519,
        fingerprint: Fingerprint::from_bytes(&[n; 20]).unwrap(),
        signing_fingerprint: Fingerprint::from_bytes(&[n ^ 0x80; 20]).unwrap(),
        user_id: "Test <test@example.org>".to_owned(),
        created_s: NOW_S - 100,
        expires_s: None,
        certificate: vec![n; 300],
        sealed: vec![generation.to_be_bytes()[3]; 100],
        data_key_id: "d1".to_owned(),
        renewable: true,
        backend: "software".to_owned(),
    }
}

pub(crate) fn key(n: u8, name: &str) -> NewKey {
    NewKey { id: uuid(n), name: name.to_owned(), usages: vec![Usage::OpenPgp], material: material(n, 1) }
}

pub(crate) fn intent(request: u8, attempt: u8, key_id: Uuid) -> Intent {
    let id =
        IntentId { principal: "local".to_owned(), request_id: uuid(request), attempt: uuid(attempt ^ 0x55) };
    let now_ms = NOW_S * 1000;
    Intent {
        id,
        digest: [request; 32],
        key_id,
        now_ms,
        lease_until_ms: now_ms + 60_000,
        tickets: Tickets::Spend(Vec::new()),
    }
}

/// The same with tickets of these numbers.
pub(crate) fn with_tickets(intent: Intent, numbers: &[u8]) -> Intent {
    let expires_ms = intent.now_ms + 1_800_000;
    let tickets = numbers.iter().map(|number| Ticket { id: [*number; 16], expires_ms });
    Intent { tickets: Tickets::Spend(tickets.collect()), ..intent }
}

pub(crate) fn conclusion(intent: &Intent, key: &Key, packets: &[&[u8]]) -> Conclusion {
    let items = packets.iter().enumerate().map(|(item, packet)| {
        let entry = Box::new(Entry {
            signed_at_s: NOW_S,
            principal: intent.id.principal.clone(),
            request_id: *intent.id.request_id.as_bytes(),
            item: u32::try_from(item).unwrap(),
            key_id: *key.id.as_bytes(),
            key_version: key.version,
            key_generation: key.material.generation,
            signing_fingerprint: key.material.signing_fingerprint,
            usage: Usage::OpenPgp,
            purpose: Purpose::RpmHeader,
            digest: Hasher::digest(HashAlgorithm::Sha256, packet).into(),
            packet_sha256: packet_hash(packet),
            artefact: None,
            decision: "own".to_owned(),
            claimed_time_s: None,
            operation: Operation { number: 1, skipped: 0, chain: [0; 32] },
        });
        ItemResult::Signed { entry, packet: packet.to_vec() }
    });
    Conclusion {
        id: intent.id.clone(),
        key_id: key.id,
        generation: key.material.generation,
        now_s: NOW_S,
        items: items.collect(),
    }
}

pub(crate) fn set_time(conclusion: &mut Conclusion, time_s: i64) {
    for item in &mut conclusion.items {
        if let ItemResult::Signed { entry, .. } = item {
            entry.signed_at_s = time_s;
        }
    }
}

pub(crate) fn signed(outcome: &ItemOutcome) -> (Hash, u64) {
    match outcome {
        ItemOutcome::Signed { leaf_hash, log_index, .. } => (*leaf_hash, *log_index),
        ItemOutcome::Failed { .. } => panic!("{outcome:?}"),
    }
}

async fn connect(file: &Path) -> SqliteConnection {
    SqliteConnectOptions::new().filename(file).connect().await.unwrap()
}

/// Runs a statement as a foreign program would, and leaves everything in the main file.
pub(crate) async fn sql(file: &Path, statement: &'static str) {
    let mut connection = connect(file).await;
    sqlx::raw_sql(statement).execute(&mut connection).await.unwrap();
    sqlx::raw_sql("PRAGMA wal_checkpoint(TRUNCATE)").execute(&mut connection).await.unwrap();
    connection.close().await.unwrap();
}

pub(crate) async fn count(file: &Path, table: &'static str) -> i64 {
    let statement = match table {
        "intents" => "SELECT COUNT(*) FROM intents",
        "tickets" => "SELECT COUNT(*) FROM tickets",
        other => panic!("{other}"),
    };
    let mut connection = connect(file).await;
    sqlx::query_scalar(statement).fetch_one(&mut connection).await.unwrap()
}
