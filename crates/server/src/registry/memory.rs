//! The keys that are remembered: three maps in one snapshot, exchanged as a whole, bounded in bytes.
//!
//! Readers look at a snapshot and take no lock; all that they write is the mark on the entry they found. Writers are
//! one after the other. When there are too many bytes, entries go one at a time, by second chance: the oldest that was
//! not used since it was looked at last. An entry that stays keeps its address.

use std::collections::VecDeque;
use std::sync::Arc;

use rpds::HashTrieMapSync;
use sealwright_crypto::openpgp::fingerprint::Fingerprint;
use sealwright_proto::names::KeyReference;
use sealwright_store::Key;
use uuid::Uuid;

use super::sync::{Mutex, Swap};
use super::{Entry, Facts};

/// Bytes of entries that are remembered. Front and signer together stay below 128 MiB with it: some 14,000 keys of
/// RSA-4096, 40,000 of Ed25519.
pub(super) const BYTES_MAX: usize = 48 << 20;

/// Bytes that an entry takes beside its texts and blobs: itself, its places in three maps and the ring.
pub(super) const ENTRY_BYTES: usize = 900;

/// See the module.
pub(super) struct Memory {
    snapshot: Swap<Snapshot>,
    writer: Mutex<Writer>,
}

#[derive(Clone, Default)]
struct Snapshot {
    by_id: HashTrieMapSync<Uuid, Arc<Entry>>,
    /// The newest version of each name.
    by_name: HashTrieMapSync<String, Arc<Entry>>,
    by_signing_fingerprint: HashTrieMapSync<Fingerprint, Arc<Entry>>,
    /// See [`Memory::changes_forgotten`].
    changes_forgotten: u64,
}

struct Writer {
    /// Each id that is in the snapshot, once; the oldest first.
    ring: VecDeque<Uuid>,
    bytes: usize,
    bytes_max: usize,
    /// Snapshots that somebody looked at when they were exchanged; fewer than there are threads. The next writer frees
    /// them: a reader frees nothing, so that it never waits for the allocator.
    retired: Vec<Arc<Snapshot>>,
}

/// Where a copy of a key comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Copied {
    /// From the store by a change that was made here: it is news.
    Changed,
    /// From the store by a read that began when this was [`Memory::changes_forgotten`].
    Read(u64),
}

impl Memory {
    pub(super) fn new(bytes_max: usize) -> Self {
        let writer = Writer { ring: VecDeque::new(), bytes: 0, bytes_max, retired: Vec::new() };
        Self { snapshot: Swap::from_pointee(Snapshot::default()), writer: Mutex::new(writer) }
    }

    /// The key of this id.
    pub(super) fn by_id(&self, id: &Uuid) -> Option<Arc<Entry>> {
        self.snapshot.load().by_id.get(id).map(Entry::used)
    }

    /// The key of this name, or whose signing component has this fingerprint. By the certificate's fingerprint the
    /// store has to say whether there is exactly one.
    pub(super) fn named(&self, reference: &KeyReference) -> Option<Arc<Entry>> {
        let snapshot = self.snapshot.load();
        let found = match reference {
            KeyReference::Name(name) => snapshot.by_name.get(name.as_str()),
            KeyReference::Fingerprint(hex) => {
                snapshot.by_signing_fingerprint.get(&Fingerprint::from_hex(hex).ok()?)
            }
        };
        found.map(Entry::used)
    }

    /// How many changes made here were forgotten since. While it stands still, every copy that is older than a change
    /// made here finds the newer one in the snapshot.
    pub(super) fn changes_forgotten(&self) -> u64 {
        self.snapshot.load().changes_forgotten
    }

    /// Remembers a copy of a key, unless a newer one is there; returns the newer, and whether it is remembered. A copy
    /// that was read is not, if it could be older than a change that was forgotten while it was read; then it is only
    /// good for who asked for that read.
    pub(super) fn put(&self, key: Key, copied: Copied) -> (Arc<Entry>, bool) {
        // What has to go is dropped outside the lock.
        let (entry, is_remembered, _gone) = self.writer.with(|writer| {
            let snapshot = self.snapshot.load();
            let known = snapshot.by_id.get(&key.id).map(Arc::clone);
            if let Some(known) = known.as_ref().filter(|known| known.revision >= key.revision) {
                known.signed(key.last_signed_s.unwrap_or(i64::MIN));
                return (Arc::clone(known), true, Vec::new());
            }
            let changed = copied == Copied::Changed || known.as_ref().is_some_and(|known| known.changed);
            let entry = Arc::new(Entry::new(key, changed));
            // A known copy is not older than any change that was forgotten, and this one is newer.
            let may_be_old = matches!(copied, Copied::Read(seen) if seen != snapshot.changes_forgotten);
            if (may_be_old && known.is_none()) || entry.bytes() > writer.bytes_max {
                return (entry, false, Vec::new());
            }
            let next = writer.with_entry(Snapshot::clone(&snapshot), &entry, known.as_deref());
            drop(snapshot);
            (entry, true, self.exchange(writer, next))
        });
        (entry, is_remembered)
    }

    /// Forgets the key of this name or fingerprint, and no other.
    pub(super) fn forget(&self, reference: &KeyReference) {
        let Some(entry) = self.named(reference) else { return };
        let id = entry.facts.id;
        let _gone = self.writer.with(|writer| {
            let mut next = Snapshot::clone(&self.snapshot.load());
            let Some(entry) = next.by_id.get(&id).map(Arc::clone) else { return Vec::new() };
            writer.ring.retain(|other| *other != id);
            writer.bytes = writer.bytes.saturating_sub(entry.bytes());
            next.remove(&entry);
            self.exchange(writer, next)
        });
    }

    /// Returns what nobody looks at any more, to be dropped outside the lock.
    fn exchange(&self, writer: &mut Writer, next: Snapshot) -> Vec<Arc<Snapshot>> {
        writer.retired.push(self.snapshot.swap(Arc::new(next)));
        // Nobody can come to look at it again: it is not in its place any more.
        let (idle, looked_at) =
            std::mem::take(&mut writer.retired).into_iter().partition(|old| Arc::strong_count(old) == 1);
        writer.retired = looked_at;
        idle
    }

    /// A reader that looks, and snapshots that are kept for such.
    #[cfg(test)]
    pub(super) fn look(&self) -> (impl std::ops::Deref + '_, usize) {
        (self.snapshot.load(), self.writer.with(|writer| writer.retired.len()))
    }

    /// Stops a writer inside.
    #[cfg(test)]
    pub(super) fn stop_inside(&self, work: impl FnOnce()) {
        self.writer.with(|_| work());
    }

    /// Keys, and their bytes as they are counted.
    #[cfg(any(test, feature = "bench"))]
    pub(super) fn size(&self) -> (usize, usize) {
        self.writer.with(|writer| (writer.ring.len(), writer.bytes))
    }
}

impl Writer {
    /// The snapshot with one more entry, or a newer copy of one, and without what has to go for it.
    fn with_entry(&mut self, mut snapshot: Snapshot, entry: &Arc<Entry>, known: Option<&Entry>) -> Snapshot {
        match known {
            Some(known) => {
                entry.signed(known.last_signed_s());
                self.bytes = self.bytes.saturating_sub(known.bytes());
                snapshot.remove_names(known);
            }
            None => self.ring.push_back(entry.facts.id),
        }
        self.bytes = self.bytes.saturating_add(entry.bytes());
        snapshot.insert(entry);
        // One chance for each, and none before the others for the new one, which is the last.
        let mut chances = self.ring.len();
        while self.bytes > self.bytes_max {
            let Some(id) = self.ring.pop_front() else { break };
            let Some(oldest) = snapshot.by_id.get(&id).map(Arc::clone) else { continue };
            if chances > 0 && (oldest.take_used() || id == entry.facts.id) {
                chances = chances.saturating_sub(1);
                self.ring.push_back(id);
                continue;
            }
            self.bytes = self.bytes.saturating_sub(oldest.bytes());
            snapshot.remove(&oldest);
        }
        snapshot
    }
}

impl Snapshot {
    fn insert(&mut self, entry: &Arc<Entry>) {
        let facts = &entry.facts;
        self.by_id.insert_mut(facts.id, Arc::clone(entry));
        self.by_signing_fingerprint.insert_mut(facts.signing_fingerprint, Arc::clone(entry));
        let newer = self.by_name.get(&facts.name).filter(|other| other.facts.version > facts.version);
        if newer.is_none() {
            self.by_name.insert_mut(facts.name.clone(), Arc::clone(entry));
        }
    }

    fn remove(&mut self, entry: &Entry) {
        self.by_id.remove_mut(&entry.facts.id);
        self.remove_names(entry);
        if entry.changed {
            self.changes_forgotten = self.changes_forgotten.wrapping_add(1);
        }
    }

    fn remove_names(&mut self, entry: &Entry) {
        let Facts { id, name, signing_fingerprint, .. } = &entry.facts;
        if self.by_name.get(name).is_some_and(|other| other.facts.id == *id) {
            self.by_name.remove_mut(name);
        }
        if self.by_signing_fingerprint.get(signing_fingerprint).is_some_and(|other| other.facts.id == *id) {
            self.by_signing_fingerprint.remove_mut(signing_fingerprint);
        }
    }
}
