//! Open keys that were used lately. A key is found by its id, its generation and the hash of its blob, so that
//! anything else in the database opens anew, seal and all.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use sealwright_crypto::algorithm::HashAlgorithm;
use sealwright_crypto::digest::{Digest, Hasher};
use sealwright_proto::convert::batch::SealedKey;
use sealwright_proto::names::KeyId;
use sealwright_proto::status::Fault;

use crate::opened::OpenKey;

/// Open keys that are held; an RSA-4096 key takes about 10 KiB.
const KEYS_MAX: usize = 1024;

/// Which key, exactly as it is stored.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Exact {
    key_id: KeyId,
    generation: u32,
    blob: Digest,
}

impl Exact {
    fn of(key: &SealedKey) -> Self {
        let blob = Hasher::digest(HashAlgorithm::Sha256, &key.blob);
        Self { key_id: key.key_id, generation: key.generation, blob }
    }
}

struct Entry {
    key: Arc<OpenKey>,
    /// Value of [`Inner::uses`] when it was last used.
    used: u64,
}

#[derive(Default)]
struct Inner {
    entries: HashMap<Exact, Entry>,
    uses: u64,
}

/// At most [`KEYS_MAX`] open keys; the one unused longest goes first.
pub(crate) struct Cache {
    inner: Mutex<Inner>,
    limit: usize,
}

impl Cache {
    pub(crate) fn new() -> Self {
        Self { inner: Mutex::default(), limit: KEYS_MAX }
    }

    /// The open key, or what `open` makes of it. The lock is not held meanwhile: keys do not wait for each other.
    /// A failure is not kept.
    ///
    /// # Errors
    /// Those of `open`.
    pub(crate) fn get_or_open(
        &self,
        key: &SealedKey,
        open: impl FnOnce(&SealedKey) -> Result<OpenKey, Fault>,
    ) -> Result<Arc<OpenKey>, Fault> {
        let exact = Exact::of(key);
        if let Some(found) = self.with(|inner| inner.find(&exact)) {
            return Ok(found);
        }
        let opened = Arc::new(open(key)?);
        let evicted = self.with(|inner| inner.insert(exact, Arc::clone(&opened), self.limit));
        drop(evicted);
        Ok(opened)
    }

    fn with<T>(&self, work: impl FnOnce(&mut Inner) -> T) -> T {
        // The map is whole after each call: a panic of another thread leaves nothing half done.
        work(&mut self.inner.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Inner {
    fn find(&mut self, exact: &Exact) -> Option<Arc<OpenKey>> {
        self.uses = self.uses.wrapping_add(1);
        let entry = self.entries.get_mut(exact)?;
        entry.used = self.uses;
        Some(Arc::clone(&entry.key))
    }

    /// Returns what had to go, to be dropped outside the lock.
    fn insert(&mut self, exact: Exact, key: Arc<OpenKey>, limit: usize) -> Option<Entry> {
        self.uses = self.uses.wrapping_add(1);
        let mut gone = None;
        if self.entries.len() >= limit {
            let oldest = self.entries.iter().min_by_key(|(_, entry)| entry.used).map(|(exact, _)| *exact);
            gone = oldest.and_then(|oldest| self.entries.remove(&oldest));
        }
        let replaced = self.entries.insert(exact, Entry { key, used: self.uses });
        gone.or(replaced)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seal::Primary;
    use crate::seal::tests::{ID, stored};
    use sealwright_proto::status::Code;

    fn key(generation: u32, blob: &[u8]) -> SealedKey {
        SealedKey { key_id: KeyId::parse(&ID).unwrap(), generation, blob: blob.to_vec() }
    }

    fn open(_: &SealedKey) -> Result<OpenKey, Fault> {
        OpenKey::open(&crate::tokens::Tokens::none(), &stored(Primary::Signs))
    }

    fn must_not_open(_: &SealedKey) -> Result<OpenKey, Fault> {
        panic!("it is in the cache")
    }

    #[test]
    fn a_key_is_opened_once() {
        let cache = Cache::new();
        let first = cache.get_or_open(&key(1, b"a"), open).unwrap();
        let second = cache.get_or_open(&key(1, b"a"), must_not_open).unwrap();
        assert!(Arc::ptr_eq(&first, &second));
    }

    #[test]
    fn another_generation_or_blob_opens_anew() {
        let cache = Cache::new();
        let first = cache.get_or_open(&key(1, b"a"), open).unwrap();
        for other in [key(2, b"a"), key(1, b"b")] {
            assert!(!Arc::ptr_eq(&first, &cache.get_or_open(&other, open).unwrap()));
        }
    }

    #[test]
    fn a_failure_is_not_kept() {
        let cache = Cache::new();
        let failing = |_: &SealedKey| Err(Fault::new(Code::SealBroken, "no"));
        assert!(cache.get_or_open(&key(1, b"a"), failing).is_err());
        assert!(cache.get_or_open(&key(1, b"a"), open).is_ok());
    }

    #[test]
    fn the_key_unused_longest_goes_first() {
        let cache = Cache { limit: 2, ..Cache::new() };
        for generation in [1, 2] {
            cache.get_or_open(&key(generation, b"a"), open).unwrap();
        }
        cache.get_or_open(&key(1, b"a"), must_not_open).unwrap();
        cache.get_or_open(&key(3, b"a"), open).unwrap();
        cache.get_or_open(&key(1, b"a"), must_not_open).unwrap();
        cache.get_or_open(&key(3, b"a"), must_not_open).unwrap();
        assert_eq!(cache.with(|inner| inner.entries.len()), 2);
        let mut opened = false;
        cache
            .get_or_open(&key(2, b"a"), |key| {
                opened = true;
                open(key)
            })
            .unwrap();
        assert!(opened);
    }
}
