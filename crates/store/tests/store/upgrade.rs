//! Stores of earlier releases: made with the steps of the schema that those knew, and rows as they wrote them.

use std::path::{Path, PathBuf};

use sealwright_store::{Concluded, Key, KeyState, Recorded, Refusal, Store};
use sealwright_tlog::CompactRange;
use sealwright_tlog::merkle::leaf_hash;
use sqlx::migrate::Migrator;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode};
use sqlx::{AssertSqlSafe, ConnectOptions as _, Connection as _, SqliteConnection};

use crate::support::{NOW_S, conclusion, intent, material, set_time, signed, uuid, with_tickets};

/// The steps of the schema up to this one, applied in a new folder.
async fn old_store(folder: &Path, last: usize) -> SqliteConnection {
    let all = Path::new(env!("CARGO_MANIFEST_DIR")).join("migrations/sqlite");
    let mut steps: Vec<PathBuf> = std::fs::read_dir(all).unwrap().map(|file| file.unwrap().path()).collect();
    steps.sort();
    let known = tempfile::tempdir().unwrap();
    for step in steps.iter().take(last) {
        std::fs::copy(step, known.path().join(step.file_name().unwrap())).unwrap();
    }
    drop(Store::open(folder).await.unwrap());
    let file = folder.join("store.db");
    for extra in ["", "-wal", "-shm"] {
        let _ = std::fs::remove_file(folder.join(format!("store.db{extra}")));
    }
    let options = SqliteConnectOptions::new().filename(&file).create_if_missing(true);
    let mut connection = options.journal_mode(SqliteJournalMode::Wal).connect().await.unwrap();
    Migrator::new(known.path()).await.unwrap().run(&mut connection).await.unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    std::fs::set_permissions(&file, mode).unwrap();
    connection
}

/// As a release before `key_states` wrote it.
async fn old_key(store: &mut SqliteConnection, n: u8, state: i64, last_signed: Option<i64>, backend: &str) {
    let (material, column) = (material(n, 2), if backend.is_empty() { "" } else { ", backend" });
    let sql = format!(
        "INSERT INTO keys (id, name, version, state, generation, revision, algorithm, fingerprint, \
         signing_fingerprint, user_id, created, expires, usages, renewable, certificate, sealed, data_key_id, \
         last_signed{column}) VALUES (?, ?, 1, ?, 2, 7, 'ed25519', ?, ?, ?, ?, ?, x'01', 1, ?, ?, 'd1', ?{backend})"
    );
    sqlx::query(AssertSqlSafe(sql))
        .bind(uuid(n).as_bytes().to_vec())
        .bind(format!("key{n}"))
        .bind(state)
        .bind(material.fingerprint.as_bytes().to_vec())
        .bind(material.signing_fingerprint.as_bytes().to_vec())
        .bind(material.user_id)
        .bind(material.created_s)
        .bind(NOW_S + i64::from(n))
        .bind(material.certificate)
        .bind(material.sealed)
        .bind(last_signed)
        .execute(store)
        .await
        .unwrap();
}

/// Entries and the head, as every release writes them.
async fn log(store: &mut SqliteConnection, entries: &[Vec<u8>]) -> CompactRange {
    let mut head = CompactRange::default();
    for (position, entry) in entries.iter().enumerate() {
        head.append(leaf_hash(entry)).unwrap();
        sqlx::query("INSERT INTO log (position, entry, leaf_hash, key_id, signed_at) VALUES (?, ?, ?, ?, ?)")
            .bind(i64::try_from(position).unwrap())
            .bind(entry)
            .bind(leaf_hash(entry).as_bytes().to_vec())
            .bind(uuid(1).as_bytes().to_vec())
            .bind(NOW_S)
            .execute(&mut *store)
            .await
            .unwrap();
    }
    sqlx::query("UPDATE log_head SET size = ?, nodes = ?")
        .bind(i64::try_from(head.size()).unwrap())
        .bind(head.encode_nodes())
        .execute(store)
        .await
        .unwrap();
    head
}

/// The first release had no tickets, and keys of one kind.
#[tokio::test]
async fn a_store_of_the_first_release_is_brought_up_to_date_and_keeps_what_it_has() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let mut old = old_store(&path, 1).await;
    old_key(&mut old, 1, 1, None, "").await;
    old.close().await.unwrap();
    let store = Store::open(&path).await.unwrap();
    let kept = store.key_by_name("key1").await.unwrap().unwrap();
    assert_eq!((kept.id, kept.material.backend.as_str()), (uuid(1), "software"));
    let one = intent(1, 1, kept.id);
    assert_eq!(store.record_intent(one.clone()).await.unwrap(), Recorded::New);
    assert_eq!(store.record_intent(one).await.unwrap(), Recorded::InFlight);
    assert_eq!(store.record_intent(with_tickets(intent(2, 2, kept.id), &[1])).await.unwrap(), Recorded::New);
}

/// The state of a key was in the row of the key, and the log had an index of keys.
#[tokio::test]
async fn states_times_and_the_log_survive_the_parting_of_keys_and_their_states() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let mut old = old_store(&path, 3).await;
    old_key(&mut old, 1, 1, Some(NOW_S - 5), ", 'software'").await;
    old_key(&mut old, 2, 2, None, ", 'pkcs11:safe'").await;
    let entries: Vec<Vec<u8>> = (0..5_u8).map(|n| vec![n; 300]).collect();
    let head = log(&mut old, &entries).await;
    old.close().await.unwrap();
    let store = Store::open(&path).await.unwrap();
    assert_eq!(store.log_head().await.unwrap(), head);
    assert_eq!(store.log_entries(0, 10).await.unwrap(), entries);
    let keys = store.keys_after("", 10).await.unwrap();
    for (key, n, state, backend, last_signed_s) in [
        (&keys[0], 1, KeyState::Enabled, "software", Some(NOW_S - 5)),
        (&keys[1], 2, KeyState::Disabled, "pkcs11:safe", None),
    ] {
        let mut wanted = material(n, 2);
        (wanted.expires_s, wanted.backend) = (Some(NOW_S + i64::from(n)), backend.to_owned());
        assert_eq!(key.material, wanted);
        assert_eq!((key.id, key.version, key.revision), (uuid(n), 1, 7));
        assert_eq!((key.state, key.last_signed_s), (state, last_signed_s));
        assert_eq!(store.key_by_id(key.id).await.unwrap().as_ref(), Some(key));
    }
    assert_eq!(keys.len(), 2);
    behaves_as_before(&store, &keys[0], &keys[1]).await;
}

/// What was noted before is obeyed; and the log goes on where it was.
async fn behaves_as_before(store: &Store, enabled: &Key, disabled: &Key) {
    let one = intent(1, 1, enabled.id);
    assert_eq!(store.record_intent(one.clone()).await.unwrap(), Recorded::New);
    let mut late = conclusion(&one, enabled, &[b"packet"]);
    set_time(&mut late, NOW_S - 100);
    let behind = Refusal::ClockBehind { signed_at_s: NOW_S - 100, last_s: NOW_S - 5 };
    assert_eq!(store.conclude(late).await.unwrap(), Concluded::Refused(behind));
    let done = store.conclude(conclusion(&one, enabled, &[b"packet"])).await.unwrap();
    let Concluded::Done(outcomes) = done else { panic!("{done:?}") };
    assert_eq!(signed(&outcomes[0]).1, 5);
    assert_eq!(store.key_by_id(enabled.id).await.unwrap().unwrap().last_signed_s, Some(NOW_S));
    let two = intent(2, 2, disabled.id);
    assert_eq!(store.record_intent(two.clone()).await.unwrap(), Recorded::New);
    let refused = store.conclude(conclusion(&two, disabled, &[b"packet"])).await.unwrap();
    assert_eq!(refused, Concluded::Refused(Refusal::Disabled));
    let enabled = store.set_key_state(disabled.id, KeyState::Enabled).await.unwrap();
    assert_eq!((enabled.state, enabled.revision), (KeyState::Enabled, 8));
}
