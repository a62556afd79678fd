//! The registry over the real store.

use sealwright_store::{Material, NewKey};

use super::*;

fn new_key(n: usize) -> NewKey {
    let Key { name, usages, material, .. } = key(n);
    let fingerprint = Fingerprint::v4([material.sealed[0]; 20]);
    NewKey { id: Uuid::now_v7(), name, usages, material: Material { fingerprint, ..material } }
}

async fn open() -> (tempfile::TempDir, Store, Registry) {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(&folder.path().join("store")).await.unwrap();
    (folder, store.clone(), Registry::new(store))
}

#[tokio::test]
async fn r6_a_key_that_is_not_there_is_not_remembered_as_missing() {
    let (_folder, store, registry) = open().await;
    assert_eq!(registry.find(&named(1)).await.unwrap_err().code, Code::KeyNotFound);
    store.insert_key(new_key(1)).await.unwrap();
    let (first, freshness) = registry.find(&named(1)).await.unwrap();
    assert_eq!(freshness, Freshness::Fresh);
    let (second, freshness) = registry.find(&named(1)).await.unwrap();
    assert_eq!(freshness, Freshness::Remembered);
    assert!(Arc::ptr_eq(&first, &second));
    let signing = KeyReference::parse(&first.facts.signing_fingerprint.to_string()).unwrap();
    assert!(Arc::ptr_eq(&first, &registry.find(&signing).await.unwrap().0));
}

#[tokio::test]
async fn r3_other_keys_keep_their_place_when_one_changes() {
    let (_folder, store, registry) = open().await;
    let a = registry.put(store.insert_key(new_key(1)).await.unwrap());
    let b = store.insert_key(new_key(2)).await.unwrap();
    registry.put(b.clone());
    for state in [KeyState::Disabled, KeyState::Enabled, KeyState::Disabled] {
        let changed = store.set_key_state(b.id, state).await.unwrap();
        registry.put(changed);
        assert!(Arc::ptr_eq(&a, &registry.find(&named(1)).await.unwrap().0));
        assert_eq!(registry.find(&named(2)).await.unwrap().0.facts.state, state);
    }
}

#[tokio::test]
async fn only_the_generation_that_was_authorised_is_resolved() {
    let (_folder, store, registry) = open().await;
    let key = store.insert_key(new_key(1)).await.unwrap();
    let entry = registry.put(key.clone());
    let authorised = authorised(&entry.facts);
    assert_eq!(registry.resolve(&authorised).await.unwrap().sealed(), [1]);
    // Also when it is not in memory any more.
    registry.memory.forget(&named(1));
    assert_eq!(registry.resolve(&authorised).await.unwrap().sealed(), [1]);
    let material = Material { generation: 2, sealed: vec![2], ..key.material };
    registry.put(store.replace_material(key.id, 1, material).await.unwrap());
    assert_eq!(registry.resolve(&authorised).await.unwrap_err().code, Code::KeyChanged);
    registry.memory.forget(&named(1));
    assert_eq!(registry.resolve(&authorised).await.unwrap_err().code, Code::KeyChanged);
}

#[tokio::test]
async fn a_newer_copy_keeps_the_time_of_the_last_entry() {
    let (_folder, store, registry) = open().await;
    let key = store.insert_key(new_key(1)).await.unwrap();
    let entry = registry.put(key.clone());
    assert_eq!(entry.not_before_s(), 0);
    entry.signed(1_796_000_000);
    let newer = registry.put(store.set_key_state(key.id, KeyState::Disabled).await.unwrap());
    assert_eq!(newer.not_before_s(), 1_796_000_000);
}
