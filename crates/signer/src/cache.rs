//! Open keys that were used lately. A key is found by its id, its generation and the hash of its blob, so that
//! anything else in the database opens anew, seal and all. The laws R1 to R13 of `docs/adr/0013-registry.md`, as far as
//! they are the signer's, each with its test in `cache/laws.rs`.
//!
//! A look for an open key takes no lock. Threads that need the same key open it once (R8); threads that need others
//! know nothing of it (R9). When there are too many, keys go one at a time, by second chance, and each when its last
//! user is done (R4). Of one key there is one generation: a newer one takes the place of the older.

mod sync;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rpds::HashTrieMapSync;
use sealwright_crypto::algorithm::HashAlgorithm;
use sealwright_crypto::digest::{Digest, Hasher};
use sealwright_proto::convert::batch::SealedKey;
use sealwright_proto::names::KeyId;
use sealwright_proto::status::{Code, Fault};

use crate::opened::OpenKey;
use sync::{Mutex, Promise, Swap};

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

/// An open key that is held.
struct Place<T> {
    exact: Exact,
    key: Arc<T>,
    /// Since it was looked at last for what can go.
    used: AtomicBool,
}

type Places<T> = HashTrieMapSync<KeyId, Arc<Place<T>>>;

/// What came of opening a key.
type Opened<T> = Result<Arc<T>, Fault>;

/// At most [`KEYS_MAX`] open keys; the oldest that was not used lately goes first.
pub(crate) struct Cache<T = OpenKey> {
    places: Swap<Places<T>>,
    /// Each id that has a place, once; the oldest first. Its lock makes writers one after the other.
    ring: Mutex<VecDeque<KeyId>>,
    /// Keys that are being opened: no more than there are threads.
    opening: Mutex<HashMap<Exact, Arc<Promise<Opened<T>>>>>,
    limit: usize,
}

impl<T> Cache<T> {
    pub(crate) fn new() -> Self {
        Self::with_limit(KEYS_MAX)
    }

    fn with_limit(limit: usize) -> Self {
        let places = Swap::from_pointee(Places::default());
        Self { places, ring: Mutex::new(VecDeque::new()), opening: Mutex::new(HashMap::new()), limit }
    }

    /// The open key, or what `open` makes of it; for all threads that ask meanwhile. A failure goes to all of them
    /// and is not kept.
    ///
    /// # Errors
    /// Those of `open`; [`Code::Internal`] if it panicked in another thread.
    pub(crate) fn get_or_open(
        &self,
        key: &SealedKey,
        open: impl FnOnce(&SealedKey) -> Result<T, Fault>,
    ) -> Opened<T> {
        let exact = Exact::of(key);
        if let Some(found) = self.find(&exact) {
            return Ok(found);
        }
        let opener = match self.join(exact) {
            Joined::Opens(opener) => opener,
            Joined::Waits(promise) => return promise.wait(),
        };
        // Another may have opened it between our look and our turn.
        let opened = match self.find(&exact) {
            Some(found) => Ok(found),
            None => {
                sync::assert_no_lock_is_held();
                open(key).map(Arc::new).inspect(|opened| self.keep(exact, opened))
            }
        };
        opener.done(opened.clone());
        opened
    }

    fn find(&self, exact: &Exact) -> Option<Arc<T>> {
        let places = self.places.load();
        let place = places.get(&exact.key_id).filter(|place| place.exact == *exact)?;
        if !place.used.load(Ordering::Relaxed) {
            place.used.store(true, Ordering::Relaxed);
        }
        Some(Arc::clone(&place.key))
    }

    fn join(&self, exact: Exact) -> Joined<'_, T> {
        self.opening.with(|opening| {
            if let Some(promise) = opening.get(&exact) {
                return Joined::Waits(Arc::clone(promise));
            }
            let promise = Arc::new(Promise::new());
            opening.insert(exact, Arc::clone(&promise));
            Joined::Opens(Opener { cache: self, exact, promise })
        })
    }

    /// Gives it a place, unless a newer generation of the key has it.
    fn keep(&self, exact: Exact, key: &Arc<T>) {
        // What has to go is dropped outside the lock: keys are zeroed then.
        let _gone = self.ring.with(|ring| {
            let mut places = Places::clone(&self.places.load());
            match places.get(&exact.key_id) {
                Some(place) if place.exact.generation > exact.generation => return None,
                Some(_) => {}
                None => {
                    make_room(ring, &mut places, self.limit);
                    ring.push_back(exact.key_id);
                }
            }
            let place = Place { exact, key: Arc::clone(key), used: AtomicBool::new(false) };
            places.insert_mut(exact.key_id, Arc::new(place));
            Some(self.places.swap(Arc::new(places)))
        });
    }
}

/// Takes the oldest that was not used since it was looked at last; each has one chance.
fn make_room<T>(ring: &mut VecDeque<KeyId>, places: &mut Places<T>, limit: usize) {
    let mut chances = ring.len();
    while ring.len() >= limit {
        let Some(id) = ring.pop_front() else { return };
        let was_used = places.get(&id).is_some_and(|place| place.used.swap(false, Ordering::Relaxed));
        if was_used && chances > 0 {
            chances = chances.saturating_sub(1);
            ring.push_back(id);
        } else {
            places.remove_mut(&id);
        }
    }
}

/// Who does what.
enum Joined<'a, T> {
    Opens(Opener<'a, T>),
    Waits(Arc<Promise<Opened<T>>>),
}

/// Opens a key that others may wait for.
struct Opener<'a, T> {
    cache: &'a Cache<T>,
    exact: Exact,
    promise: Arc<Promise<Opened<T>>>,
}

impl<T> Opener<'_, T> {
    /// Tells those who wait. What is to be found by those who come later must be in its place before.
    fn done(self, opened: Opened<T>) {
        self.promise.keep(opened);
    }
}

impl<T> Drop for Opener<'_, T> {
    fn drop(&mut self) {
        self.cache.opening.with(|opening| opening.remove(&self.exact));
        // Kept already, unless opening it panicked: nobody waits for ever.
        self.promise.keep(Err(Fault::new(Code::Internal, "another request failed while it opened the key")));
    }
}

#[cfg(test)]
mod laws;
