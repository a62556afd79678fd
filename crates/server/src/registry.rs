//! Keys by name, fingerprint and id, as the store has them: read without a lock, behind [`Registry::find`] and
//! [`Registry::resolve`]. The laws R1 to R13 of `docs/adr/0013-registry.md`, each with its test in `registry/laws.rs`.
//!
//! `registry/memory.rs` holds what is remembered: keys that exist ("not found" is never remembered), of two copies of
//! one the newer, bounded in bytes. `registry/flights.rs` makes many requests for one missing key one read of the
//! store. What is remembered may be stale when another process changes the store: the store checks each key again when
//! an entry is appended, and the caller then calls [`Registry::refresh`].

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use sealwright_crypto::algorithm::KeyAlgorithm;
use sealwright_crypto::openpgp::fingerprint::Fingerprint;
use sealwright_crypto::usage::Usage;
use sealwright_proto::names::KeyReference;
use sealwright_proto::status::{Code, Fault};
use sealwright_store::{Key, KeyState, Store};
use uuid::Uuid;

use crate::fault::from_store;
use crate::policy::Authorised;
use flights::{FLIGHTS_MAX, Flights, Place};
use memory::{BYTES_MAX, Copied, ENTRY_BYTES, Memory};

#[cfg(feature = "bench")]
pub mod bench;
mod flights;
mod memory;
mod sync;

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
}

/// One key as it was read.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) facts: Facts,
    /// As the database says; for counts.
    pub(crate) algorithm: KeyAlgorithm,
    revision: i64,
    sealed: Vec<u8>,
    /// Unix seconds of the latest log entry that we know of; [`i64::MIN`]: none.
    last_signed_s: AtomicI64,
    /// It, or a copy before it, comes of a change that was made by this process.
    changed: bool,
    /// Since it was looked at last for what can go.
    used: AtomicBool,
}

impl Entry {
    fn new(key: Key, changed: bool) -> Self {
        Self {
            revision: key.revision,
            algorithm: key.material.algorithm,
            sealed: key.material.sealed,
            last_signed_s: AtomicI64::new(key.last_signed_s.unwrap_or(i64::MIN)),
            changed,
            used: AtomicBool::new(false),
            facts: Facts {
                id: key.id,
                name: key.name,
                version: key.version,
                state: key.state,
                generation: key.material.generation,
                signing_fingerprint: key.material.signing_fingerprint,
                usages: key.usages,
                expires_s: key.material.expires_s,
            },
        }
    }

    /// The sealed blob, for the signer. [`Registry::resolve`] is the way here.
    pub(crate) fn sealed(&self) -> &[u8] {
        &self.sealed
    }

    /// Unix seconds before which no signature may be dated.
    pub(crate) fn not_before_s(&self) -> i64 {
        self.last_signed_s().max(0)
    }

    /// Notes a log entry of this time.
    pub(crate) fn signed(&self, at_s: i64) {
        self.last_signed_s.fetch_max(at_s, Ordering::Relaxed);
    }

    fn last_signed_s(&self) -> i64 {
        self.last_signed_s.load(Ordering::Relaxed)
    }

    /// A reference for a request. Of an entry that is used all the time, only the count of references is written.
    fn used(entry: &Arc<Self>) -> Arc<Self> {
        if !entry.used.load(Ordering::Relaxed) {
            entry.used.store(true, Ordering::Relaxed);
        }
        Arc::clone(entry)
    }

    fn take_used(&self) -> bool {
        self.used.swap(false, Ordering::Relaxed)
    }

    /// What it takes of [`BYTES_MAX`]. The name is there twice.
    fn bytes(&self) -> usize {
        let texts = self.facts.name.len().saturating_mul(2).saturating_add(self.facts.usages.len());
        ENTRY_BYTES.saturating_add(texts).saturating_add(self.sealed.len())
    }
}

/// Whether facts may be older than the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Freshness {
    /// Read from the store since they were asked for.
    Fresh,
    /// From memory, or from a read that had begun before.
    Remembered,
}

/// What is read from the store.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Wanted {
    /// What a request names.
    Reference(KeyReference),
    /// What was found before.
    Id(Uuid),
}

/// Where keys are read from: the store; in tests something that can be held up.
pub(crate) trait Source: Send + Sync {
    /// # Errors
    /// [`Code::KeyNotFound`]; those of the store.
    fn read(&self, wanted: &Wanted) -> impl Future<Output = Result<Key, Fault>> + Send;
}

/// See the module.
pub(crate) struct Registry<S = Store> {
    memory: Memory,
    flights: Flights<Wanted, Result<Arc<Entry>, Fault>>,
    source: S,
}

impl<S: Source> Registry<S> {
    pub(crate) fn new(source: S) -> Self {
        Self::with_limit(source, BYTES_MAX)
    }

    fn with_limit(source: S, bytes_max: usize) -> Self {
        Self { memory: Memory::new(bytes_max), flights: Flights::new(FLIGHTS_MAX), source }
    }

    /// The key that a request names, from memory or else from the store.
    ///
    /// # Errors
    /// [`Code::KeyNotFound`]; [`Code::Overloaded`] when too many keys are read at once; those of the store.
    pub(crate) async fn find(&self, reference: &KeyReference) -> Result<(Arc<Entry>, Freshness), Fault> {
        match self.memory.named(reference) {
            Some(entry) => Ok((entry, Freshness::Remembered)),
            None => self.load(Wanted::Reference(reference.clone())).await,
        }
    }

    /// Reads the key anew, with a read that begins now.
    ///
    /// # Errors
    /// [`Code::KeyNotFound`], and then nothing is remembered of it; those of the store.
    pub(crate) async fn refresh(&self, reference: &KeyReference) -> Result<Arc<Entry>, Fault> {
        let read = self.read(&Wanted::Reference(reference.clone())).await;
        if read.as_ref().is_err_and(|fault| fault.code == Code::KeyNotFound) {
            self.memory.forget(reference);
        }
        read.map(|(entry, _)| entry)
    }

    /// The material of the key that was authorised: exactly that key and generation.
    ///
    /// # Errors
    /// [`Code::KeyChanged`] if the key is another by now than when it was decided about. If it had to make room
    /// meanwhile, those of [`Self::find`].
    pub(crate) async fn resolve(&self, authorised: &Authorised) -> Result<Arc<Entry>, Fault> {
        let id = authorised.key_id();
        let entry = match self.memory.by_id(&id) {
            Some(entry) => entry,
            None => self.load(Wanted::Id(id)).await?.0,
        };
        if entry.facts.generation == authorised.generation() {
            return Ok(entry);
        }
        Err(Fault::new(Code::KeyChanged, "the key was changed while the request was decided"))
    }

    /// Remembers a key as it was just written, unless a newer copy is there; returns the newer.
    pub(crate) fn put(&self, key: Key) -> Arc<Entry> {
        self.memory.put(key, Copied::Changed).0
    }

    /// One read of the store for all who ask meanwhile. A failure goes to all of them and is not kept. Who gives up
    /// while it reads leaves the reading to one of the others.
    async fn load(&self, wanted: Wanted) -> Result<(Arc<Entry>, Freshness), Fault> {
        let mut has_waited = false;
        loop {
            let waiter = match self.flights.join(&wanted) {
                Place::Loader(loader) => {
                    // It may have landed between our look and our place.
                    if let Some(entry) = self.remembered(&wanted) {
                        loader.land(Ok(Arc::clone(&entry)));
                        return Ok((entry, Freshness::Remembered));
                    }
                    let read = self.read(&wanted).await;
                    match &read {
                        Ok((entry, true)) => loader.land(Ok(Arc::clone(entry))),
                        // Who waits may have come after a change that this read did not see: one of them reads anew.
                        Ok((_, false)) => drop(loader),
                        Err(fault) => loader.land(Err(fault.clone())),
                    }
                    return read.map(|(entry, _)| (entry, Freshness::Fresh));
                }
                Place::Waiter(waiter) => waiter,
                Place::Full => {
                    return Err(Fault::new(
                        Code::Overloaded,
                        "too many keys are read from the store at once",
                    ));
                }
            };
            match waiter.landed().await {
                // That read may have begun before we asked, and before the key was made: once more, together.
                Some(Err(fault)) if fault.code == Code::KeyNotFound && !has_waited => has_waited = true,
                Some(landed) => return landed.map(|entry| (entry, Freshness::Remembered)),
                None => {}
            }
        }
    }

    fn remembered(&self, wanted: &Wanted) -> Option<Arc<Entry>> {
        match wanted {
            Wanted::Reference(reference) => self.memory.named(reference),
            Wanted::Id(id) => self.memory.by_id(id),
        }
    }

    /// The key as the store has it, and whether it is remembered now.
    async fn read(&self, wanted: &Wanted) -> Result<(Arc<Entry>, bool), Fault> {
        sync::assert_no_lock_is_held();
        let seen = self.memory.changes_forgotten();
        let key = self.source.read(wanted).await?;
        Ok(self.memory.put(key, Copied::Read(seen)))
    }
}

impl Source for Store {
    async fn read(&self, wanted: &Wanted) -> Result<Key, Fault> {
        match wanted {
            Wanted::Reference(reference) => load(self, reference).await,
            Wanted::Id(id) => self
                .key_by_id(*id)
                .await
                .map_err(from_store)?
                .ok_or_else(|| Fault::new(Code::KeyNotFound, format!("there is no key {id}"))),
        }
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
mod laws;
