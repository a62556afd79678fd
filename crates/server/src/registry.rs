//! Keys by name, fingerprint and id: a snapshot that is read without a lock, behind one [`Registry::resolve`].
//!
//! The snapshot is a persistent map: a change copies O(log n) of it, and a request sees the old or the new one,
//! never a mix. It holds only keys that exist ("not found" is never remembered), and of two copies of a key the
//! one with the larger revision wins, whoever is slower. It may be stale when another process changes the store:
//! the store checks each key again when an entry is appended, and the caller then calls [`Registry::refresh`].

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use arc_swap::ArcSwap;
use rpds::HashTrieMapSync;
use sealwright_crypto::algorithm::KeyAlgorithm;
use sealwright_crypto::openpgp::fingerprint::Fingerprint;
use sealwright_crypto::usage::Usage;
use sealwright_proto::names::KeyReference;
use sealwright_proto::status::{Code, Fault};
use sealwright_store::{Key, KeyState, Store};
use uuid::Uuid;

use crate::fault::from_store;
use crate::policy::Authorised;

/// Most keys in the snapshot; at the limit it starts afresh. A key takes about 4 KiB: 64 MiB.
const KEYS_MAX: usize = 16_384;

/// What policy decides by. No key material.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// UUIDv7.
    pub id: Uuid,
    /// Unique in the store.
    pub name: String,
    /// Rotation.
    pub version: u32,
    /// Whether it may sign.
    pub state: KeyState,
    /// Renewal.
    pub generation: u32,
    /// Of the component that signs.
    pub signing_fingerprint: Fingerprint,
    /// As the database says; the sealed ones count.
    pub usages: Vec<Usage>,
    /// Unix seconds; None: no expiry.
    pub expires_s: Option<i64>,
    /// Where its private key works, as the database says: `software`, `pkcs11:TOKEN`.
    pub backend: Arc<str>,
}

/// One key of the snapshot.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) facts: Facts,
    /// As the database says; for counts.
    pub(crate) algorithm: KeyAlgorithm,
    revision: i64,
    sealed: Vec<u8>,
    /// Unix seconds of the latest log entry that we know of; [`i64::MIN`]: none.
    last_signed_s: AtomicI64,
}

impl Entry {
    /// The sealed blob, for the signer. [`Registry::resolve`] is the way here.
    pub(crate) fn sealed(&self) -> &[u8] {
        &self.sealed
    }

    /// Unix seconds before which no signature may be dated.
    pub(crate) fn not_before_s(&self) -> i64 {
        self.last_signed_s.load(Ordering::Relaxed).max(0)
    }

    /// Notes a log entry of this time.
    pub(crate) fn signed(&self, at_s: i64) {
        self.last_signed_s.fetch_max(at_s, Ordering::Relaxed);
    }
}

/// Whether facts may be older than the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Freshness {
    /// Just read from the store.
    Fresh,
    /// From the snapshot.
    Remembered,
}

#[derive(Clone, Default)]
struct Snapshot {
    by_id: HashTrieMapSync<Uuid, Arc<Entry>>,
    by_name: HashTrieMapSync<String, Uuid>,
    by_signing_fingerprint: HashTrieMapSync<Fingerprint, Uuid>,
}

/// See the module.
pub(crate) struct Registry {
    snapshot: ArcSwap<Snapshot>,
    store: Store,
}

impl Registry {
    pub(crate) fn new(store: Store) -> Self {
        Self { snapshot: ArcSwap::from_pointee(Snapshot::default()), store }
    }

    /// The key that a request names, from the snapshot or else from the store.
    ///
    /// # Errors
    /// [`Code::KeyNotFound`]; those of the store.
    pub(crate) async fn find(&self, reference: &KeyReference) -> Result<(Arc<Entry>, Freshness), Fault> {
        if let Some(entry) = self.remembered(reference) {
            return Ok((entry, Freshness::Remembered));
        }
        let key = load(&self.store, reference).await?;
        Ok((self.put(key), Freshness::Fresh))
    }

    /// Reads the key anew.
    ///
    /// # Errors
    /// Those of [`Self::find`].
    pub(crate) async fn refresh(&self, reference: &KeyReference) -> Result<Arc<Entry>, Fault> {
        let key = load(&self.store, reference).await?;
        Ok(self.put(key))
    }

    /// The material of the key that was authorised: exactly that key and generation.
    ///
    /// # Errors
    /// [`Code::KeyChanged`] if the snapshot has moved on since the decision.
    pub(crate) fn resolve(&self, authorised: &Authorised) -> Result<Arc<Entry>, Fault> {
        let entry = self.snapshot.load().by_id.get(&authorised.key_id()).map(Arc::clone);
        entry
            .filter(|entry| entry.facts.generation == authorised.generation())
            .ok_or_else(|| Fault::new(Code::KeyChanged, "the key was changed while the request was decided"))
    }

    /// Puts a key as it was read or written into the snapshot, unless a newer copy is there; returns the newer.
    pub(crate) fn put(&self, key: Key) -> Arc<Entry> {
        let entry = Arc::new(entry(key));
        let mut newest = Arc::clone(&entry);
        self.snapshot.rcu(|snapshot| {
            let known = snapshot.by_id.get(&entry.facts.id);
            if let Some(known) = known.filter(|known| known.revision > entry.revision) {
                newest = Arc::clone(known);
                return Arc::clone(snapshot);
            }
            newest = Arc::clone(&entry);
            if let Some(known) = known {
                entry.last_signed_s.fetch_max(known.last_signed_s.load(Ordering::Relaxed), Ordering::Relaxed);
            }
            let start = if snapshot.by_id.size() >= KEYS_MAX {
                Snapshot::default()
            } else {
                Snapshot::clone(snapshot)
            };
            Arc::new(start.with(&entry, known))
        });
        newest
    }

    fn remembered(&self, reference: &KeyReference) -> Option<Arc<Entry>> {
        let snapshot = self.snapshot.load();
        let id = match reference {
            KeyReference::Name(name) => snapshot.by_name.get(name.as_str())?,
            // By the certificate's fingerprint the store has to say whether there is exactly one.
            KeyReference::Fingerprint(hex) => {
                snapshot.by_signing_fingerprint.get(&Fingerprint::from_hex(hex).ok()?)?
            }
        };
        snapshot.by_id.get(id).map(Arc::clone)
    }
}

impl Snapshot {
    fn with(mut self, entry: &Arc<Entry>, old: Option<&Arc<Entry>>) -> Self {
        let facts = &entry.facts;
        if let Some(old) = old.filter(|old| old.facts.signing_fingerprint != facts.signing_fingerprint) {
            self.by_signing_fingerprint.remove_mut(&old.facts.signing_fingerprint);
        }
        self.by_id.insert_mut(facts.id, Arc::clone(entry));
        self.by_name.insert_mut(facts.name.clone(), facts.id);
        self.by_signing_fingerprint.insert_mut(facts.signing_fingerprint, facts.id);
        self
    }
}

fn entry(key: Key) -> Entry {
    Entry {
        revision: key.revision,
        algorithm: key.material.algorithm,
        sealed: key.material.sealed,
        last_signed_s: AtomicI64::new(key.last_signed_s.unwrap_or(i64::MIN)),
        facts: Facts {
            id: key.id,
            name: key.name,
            version: key.version,
            state: key.state,
            generation: key.material.generation,
            signing_fingerprint: key.material.signing_fingerprint,
            usages: key.usages,
            expires_s: key.material.expires_s,
            backend: key.material.backend.into(),
        },
    }
}

/// Reads the key that a reference names from the store.
///
/// # Errors
/// [`Code::KeyNotFound`]; those of the store.
pub(crate) async fn load(store: &Store, reference: &KeyReference) -> Result<Key, Fault> {
    let found = match reference {
        KeyReference::Name(name) => store.key_by_name(name.as_str()).await,
        KeyReference::Fingerprint(hex) => match Fingerprint::from_hex(hex) {
            Ok(fingerprint) => store.key_by_fingerprint(&fingerprint).await,
            Err(_) => Ok(None),
        },
    };
    found
        .map_err(from_store)?
        .ok_or_else(|| Fault::new(Code::KeyNotFound, format!("there is no key {reference}")))
}

#[cfg(test)]
mod tests {
    use sealwright_crypto::algorithm::KeyAlgorithm;
    use sealwright_proto::convert::group::Group;
    use sealwright_store::{Material, NewKey};

    use super::*;
    use crate::policy::{Principal, decide};

    const NOW_S: i64 = 1_796_000_000;

    fn new_key(n: u8, name: &str) -> NewKey {
        let material = Material {
            generation: 1,
            algorithm: KeyAlgorithm::Ed25519,
            fingerprint: Fingerprint::from_bytes(&[n; 20]).unwrap(),
            signing_fingerprint: Fingerprint::from_bytes(&[n ^ 0x80; 20]).unwrap(),
            user_id: String::new(),
            created_s: NOW_S,
            expires_s: None,
            certificate: vec![n],
            sealed: vec![n],
            data_key_id: String::new(),
            renewable: true,
            backend: "software".to_owned(),
        };
        NewKey { id: Uuid::now_v7(), name: name.to_owned(), usages: vec![Usage::OpenPgp], material }
    }

    fn named(text: &str) -> KeyReference {
        KeyReference::parse(text).unwrap()
    }

    fn authorised(facts: &Facts) -> Authorised {
        let wire = sealwright_proto::v1::SignGroup {
            request_id: Uuid::now_v7().as_bytes().to_vec(),
            key: facts.name.clone(),
            items: vec![sealwright_proto::v1::SignItem {
                usage: 1,
                purpose: 1,
                content: Some(sealwright_proto::v1::sign_item::Content::Inline(
                    sealwright_proto::v1::InlineContent { hash: 8, bytes: vec![1] },
                )),
                ticket: Vec::new(),
            }],
            ..Default::default()
        };
        decide(&Principal::local(), &Group::parse(wire).unwrap(), facts, NOW_S).unwrap()
    }

    async fn open() -> (tempfile::TempDir, Store, Registry) {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&folder.path().join("store")).await.unwrap();
        (folder, store.clone(), Registry::new(store))
    }

    #[tokio::test]
    async fn a_key_that_is_not_there_is_not_remembered_as_missing() {
        let (_folder, store, registry) = open().await;
        assert_eq!(registry.find(&named("release")).await.unwrap_err().code, Code::KeyNotFound);
        store.insert_key(new_key(1, "release")).await.unwrap();
        let (first, freshness) = registry.find(&named("release")).await.unwrap();
        assert_eq!(freshness, Freshness::Fresh);
        let (second, freshness) = registry.find(&named("release")).await.unwrap();
        assert_eq!(freshness, Freshness::Remembered);
        assert!(Arc::ptr_eq(&first, &second));
        let signing = named(&first.facts.signing_fingerprint.to_string());
        assert!(Arc::ptr_eq(&first, &registry.find(&signing).await.unwrap().0));
    }

    #[tokio::test]
    async fn other_keys_keep_their_place_when_one_changes() {
        let (_folder, store, registry) = open().await;
        let a = registry.put(store.insert_key(new_key(1, "a")).await.unwrap());
        let b = store.insert_key(new_key(2, "b")).await.unwrap();
        registry.put(b.clone());
        for state in [KeyState::Disabled, KeyState::Enabled, KeyState::Disabled] {
            let changed = store.set_key_state(b.id, state).await.unwrap();
            registry.put(changed);
            assert!(Arc::ptr_eq(&a, &registry.find(&named("a")).await.unwrap().0));
            assert_eq!(registry.find(&named("b")).await.unwrap().0.facts.state, state);
        }
    }

    #[tokio::test]
    async fn the_slower_reader_of_an_older_row_does_not_win() {
        let (_folder, store, registry) = open().await;
        let old = store.insert_key(new_key(1, "release")).await.unwrap();
        let new = store.set_key_state(old.id, KeyState::Disabled).await.unwrap();
        registry.put(new);
        assert_eq!(registry.put(old).facts.state, KeyState::Disabled);
        assert_eq!(registry.find(&named("release")).await.unwrap().0.facts.state, KeyState::Disabled);
    }

    #[tokio::test]
    async fn only_the_generation_that_was_authorised_is_resolved() {
        let (_folder, store, registry) = open().await;
        let key = store.insert_key(new_key(1, "release")).await.unwrap();
        let entry = registry.put(key.clone());
        let authorised = authorised(&entry.facts);
        assert_eq!(registry.resolve(&authorised).unwrap().sealed(), [1]);
        let material = Material { generation: 2, sealed: vec![2], ..key.material };
        registry.put(store.replace_material(key.id, 1, material).await.unwrap());
        assert_eq!(registry.resolve(&authorised).unwrap_err().code, Code::KeyChanged);
    }

    #[tokio::test]
    async fn a_newer_copy_keeps_the_time_of_the_last_entry() {
        let (_folder, store, registry) = open().await;
        let key = store.insert_key(new_key(1, "release")).await.unwrap();
        let entry = registry.put(key.clone());
        assert_eq!(entry.not_before_s(), 0);
        entry.signed(NOW_S);
        let newer = registry.put(store.set_key_state(key.id, KeyState::Disabled).await.unwrap());
        assert_eq!(newer.not_before_s(), NOW_S);
    }
}
