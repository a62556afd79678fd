//! Keys to find, read by a source that can be counted, held up and made to fail.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::AtomicU64;
use std::sync::{Mutex, PoisonError};

use sealwright_proto::convert::group::Group;
use sealwright_store::Material;
use tokio::sync::watch;

use super::super::*;
use crate::policy::{Principal, decide};

const NOW_S: i64 = 1_796_000_000;

/// Key number `n`: its blob is that number, modulo 256.
pub(super) fn key(n: usize) -> Key {
    let mut bytes = [0; 20];
    bytes[..8].copy_from_slice(&n.to_be_bytes());
    let mut id = [0; 16];
    id[..8].copy_from_slice(&n.to_be_bytes());
    Key {
        id: Uuid::from_bytes(id),
        name: format!("key-{n:08}"),
        version: 1,
        state: KeyState::Enabled,
        revision: 1,
        usages: vec![Usage::OpenPgp],
        material: Material {
            generation: 1,
            algorithm: KeyAlgorithm::Ed25519,
            fingerprint: Fingerprint::v4([0xff; 20]),
            signing_fingerprint: Fingerprint::v4(bytes),
            user_id: String::new(),
            created_s: NOW_S,
            expires_s: None,
            certificate: Vec::new(),
            sealed: vec![n.to_le_bytes()[0]],
            data_key_id: String::new(),
            renewable: true,
            backend: "software".to_owned(),
        },
        last_signed_s: None,
    }
}

/// Its name.
pub(super) fn named(n: usize) -> KeyReference {
    KeyReference::parse(&key(n).name).unwrap()
}

/// A decision for a request with that key.
pub(super) fn authorised(facts: &Facts) -> Authorised {
    let inline = sealwright_proto::v1::InlineContent { hash: 8, bytes: vec![1] };
    let wire = sealwright_proto::v1::SignGroup {
        request_id: Uuid::now_v7().as_bytes().to_vec(),
        key: facts.name.clone(),
        items: vec![sealwright_proto::v1::SignItem {
            usage: 1,
            purpose: 1,
            content: Some(sealwright_proto::v1::sign_item::Content::Inline(inline)),
            ticket: Vec::new(),
            artefact: None,
        }],
        ..Default::default()
    };
    decide(&Principal::local(), &Group::parse(wire).unwrap(), facts, NOW_S).unwrap()
}

/// See the module.
pub(super) struct Shelf {
    inside: Mutex<Inside>,
    /// Key numbers that are held up.
    held: watch::Sender<BTreeSet<String>>,
    reads: AtomicU64,
}

#[derive(Default)]
struct Inside {
    keys: BTreeMap<String, Key>,
    fails: bool,
    panics: bool,
}

impl Shelf {
    /// Keys from number 1 on.
    pub(super) fn with(keys: usize) -> Self {
        let shelf = Self {
            inside: Mutex::default(),
            held: watch::Sender::new(BTreeSet::new()),
            reads: AtomicU64::new(0),
        };
        (1..=keys).for_each(|n| shelf.add(key(n)));
        shelf
    }

    /// Reads that were begun.
    pub(super) fn reads(&self) -> u64 {
        self.reads.load(Ordering::Relaxed)
    }

    /// Adds it, or another copy of it.
    pub(super) fn add(&self, key: Key) {
        self.inside(|inside| inside.keys.insert(key.name.clone(), key));
    }

    pub(super) fn remove(&self, n: usize) {
        self.inside(|inside| inside.keys.remove(&key(n).name));
    }

    pub(super) fn fail(&self, fails: bool) {
        self.inside(|inside| inside.fails = fails);
    }

    pub(super) fn panic_once(&self) {
        self.inside(|inside| inside.panics = true);
    }

    /// Reads of this key end when it is dropped.
    pub(super) fn hold(&self, n: usize) -> impl Drop + 'static {
        struct Hold(watch::Sender<BTreeSet<String>>, String);
        impl Drop for Hold {
            fn drop(&mut self) {
                self.0.send_modify(|held| drop(held.take(&self.1)));
            }
        }
        let name = key(n).name;
        self.held.send_modify(|held| assert!(held.insert(name.clone()), "held twice"));
        Hold(self.held.clone(), name)
    }

    fn inside<R>(&self, work: impl FnOnce(&mut Inside) -> R) -> R {
        work(&mut self.inside.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Source for Shelf {
    async fn read(&self, wanted: &Wanted) -> Result<Key, Fault> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        let missing = || Fault::new(Code::KeyNotFound, "there is no such key");
        let found = |keys: &BTreeMap<String, Key>| match wanted {
            Wanted::Reference(reference) => keys.get(reference.as_str()).cloned(),
            Wanted::Id(id) => keys.values().find(|key| key.id == *id).cloned(),
        };
        // As a database does it: the row as it is now, and then the way here.
        let row = self.inside(|inside| found(&inside.keys));
        if let Some(row) = &row {
            let mut held = self.held.subscribe();
            held.wait_for(|held| !held.contains(&row.name)).await.map_err(|_| missing())?;
        }
        let (fails, panics) = self.inside(|inside| (inside.fails, std::mem::take(&mut inside.panics)));
        assert!(!panics, "as it was told");
        if fails { Err(Fault::new(Code::StoreFailed, "as it was told")) } else { row.ok_or_else(missing) }
    }
}
