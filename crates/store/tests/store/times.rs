//! Where many keys sign, the times of their latest entries wait to be noted, and count all the same.

use std::path::Path;

use futures_util::future::join_all;
use sealwright_store::times::{FEW, TAIL_MAX};
use sealwright_store::{Concluded, Key, Recorded, Refusal, Store};
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{AssertSqlSafe, ConnectOptions as _};

use crate::support::{NOW_S, Opened, conclusion, intent, key, open, set_time};

const UNNOTED: &str = "SELECT COUNT(*) FROM key_states WHERE last_signed IS NULL";

async fn number(folder: &Path, sql: &str) -> i64 {
    let options = SqliteConnectOptions::new().filename(folder.join("store/store.db"));
    let mut connection = options.connect().await.unwrap();
    sqlx::query_scalar(AssertSqlSafe(sql.to_owned())).fetch_one(&mut connection).await.unwrap()
}

/// One more than are noted with each commit.
async fn many_keys(store: &Store) -> Vec<Key> {
    let mut keys = Vec::new();
    for n in 1..=u8::try_from(FEW + 1).unwrap() {
        keys.push(store.insert_key(key(n, &format!("key{n}"))).await.unwrap());
    }
    keys
}

/// A signature of each of them, all in one commit.
async fn sign(store: &Store, keys: &[Key], first: u8, at_s: i64) -> Vec<Concluded> {
    let intents: Vec<_> = (first..).zip(keys).map(|(n, key)| intent(n, n, key.id)).collect();
    for recorded in join_all(intents.iter().map(|intent| store.record_intent(intent.clone()))).await {
        assert_eq!(recorded.unwrap(), Recorded::New);
    }
    let conclusions = intents.iter().zip(keys).map(|(intent, key)| {
        let mut conclusion = conclusion(intent, key, &[b"packet"]);
        set_time(&mut conclusion, at_s);
        store.conclude(conclusion)
    });
    join_all(conclusions).await.into_iter().map(Result::unwrap).collect()
}

#[tokio::test]
async fn times_that_wait_to_be_noted_count_for_every_process() {
    let Opened { store, folder } = open().await;
    let keys = many_keys(&store).await;
    let done = sign(&store, &keys, 0, NOW_S + 50).await;
    assert!(done.iter().all(|done| matches!(done, Concluded::Done(_))));
    assert_eq!(number(folder.path(), UNNOTED).await, i64::try_from(keys.len()).unwrap());
    assert_eq!(store.key_by_id(keys[0].id).await.unwrap().unwrap().last_signed_s, Some(NOW_S + 50));
    // One that starts, or has not heard of it.
    let other = Store::open(&folder.path().join("store")).await.unwrap();
    let behind = |last_s, signed_at_s| vec![Concluded::Refused(Refusal::ClockBehind { signed_at_s, last_s })];
    assert_eq!(sign(&other, &keys[..1], 60, NOW_S + 30).await, behind(NOW_S + 50, NOW_S + 30));
    let done = sign(&other, &keys, 100, NOW_S + 90).await;
    assert!(done.iter().all(|done| matches!(done, Concluded::Done(_))));
    assert_eq!(sign(&store, &keys[..1], 160, NOW_S + 70).await, behind(NOW_S + 90, NOW_S + 70));
}

#[tokio::test]
async fn times_are_noted_together_when_the_log_has_grown() {
    let Opened { store, folder } = open().await;
    let keys = many_keys(&store).await;
    sign(&store, &keys, 0, NOW_S).await;
    assert_eq!(number(folder.path(), UNNOTED).await, i64::try_from(keys.len()).unwrap());
    let packets = vec![b"packet".as_slice(); 4_096];
    for n in 60..62 {
        assert!(u64::try_from(number(folder.path(), "SELECT size FROM log_head").await).unwrap() < TAIL_MAX);
        let intent = intent(n, n, keys[0].id);
        store.record_intent(intent.clone()).await.unwrap();
        let done = store.conclude(conclusion(&intent, &keys[0], &packets)).await.unwrap();
        assert!(matches!(done, Concluded::Done(_)));
    }
    assert_eq!(number(folder.path(), UNNOTED).await, 0);
    assert_eq!(number(folder.path(), "SELECT size - noted FROM log_head").await, 0);
}

#[tokio::test]
async fn times_of_few_keys_are_noted_with_each_commit() {
    let Opened { store, folder } = open().await;
    let keys = many_keys(&store).await;
    sign(&store, &keys[..FEW], 0, NOW_S).await;
    assert_eq!(number(folder.path(), UNNOTED).await, 1);
    assert_eq!(number(folder.path(), "SELECT size - noted FROM log_head").await, 0);
}
