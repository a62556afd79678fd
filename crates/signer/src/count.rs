//! The count of operations: each signature of a key has a number, chained by hashes to those before it, kept beside
//! the root key. Front copies both into the log entry, so that a signature that it had made and did not log leaves a
//! gap. Numbers are reserved in durable blocks: one sync for [`BLOCK`] signatures. What is left of a block at a clean
//! end is given back; a signer that was killed leaves its block open, and the next start declares it lost.
//!
//! Several embedded signers share the file (`count/ledger.rs`), under the lock. `docs/WIRE.md` has the bytes.

mod ledger;

use std::collections::HashMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::fs::FlockOperation;
use sealwright_crypto::algorithm::HashAlgorithm;
use sealwright_crypto::digest::Hasher;
use sealwright_proto::convert::batch::Operation;
use sealwright_proto::names::KeyId;
use sealwright_proto::status::Fault;

use crate::error::Error;
use crate::files::{self, Lock};
use ledger::{Ledger, Line};

/// Name of the file; beside it `running` is locked by every signer that lives.
pub(crate) const OPERATIONS_FILE: &str = "operations";
const RUNNING_FILE: &str = "running";

/// Numbers that are reserved at a time.
pub(crate) const BLOCK: u64 = 1_024;

/// Keys with a block at once, some 130 bytes each; beyond that all blocks are given back first. To give back and to reserve
/// takes a sync and two lines of the file, so it must be rare: more than the keys that are used in turns.
const KEYS_MAX: usize = 131_072;

/// The counts of all keys.
pub(crate) struct Counts {
    directory: PathBuf,
    ledger: Mutex<Ledger>,
    blocks: Mutex<HashMap<KeyId, Arc<Mutex<Block>>>>,
    /// Shared, as long as this lives: nobody else declares our blocks lost.
    _running: File,
}

/// What is left of a reservation; nothing at first.
#[derive(Default)]
struct Block {
    first: u64,
    next: u64,
    /// The last that is ours; before `next` when nothing is left.
    last: u64,
    chain: [u8; 32],
    skipped: u64,
}

/// Makes the file, with nothing counted: once, with the keys that it belongs to. Numbers would be used twice if one
/// that was lost were made anew.
///
/// # Errors
/// [`Error::File`].
pub(crate) fn create(directory: &Path) -> Result<(), Error> {
    files::replace_private(directory, OPERATIONS_FILE, ledger::TITLE.as_bytes())
}

impl Counts {
    /// Declares lost what signers before us left open, if none of them lives.
    ///
    /// # Errors
    /// [`Error::FileMissing`], [`Error::Damaged`], [`Error::NotPrivate`], [`Error::File`].
    pub(crate) fn open(directory: &Path) -> Result<Self, Error> {
        let _lock = Lock::take(directory)?;
        let path = directory.join(RUNNING_FILE);
        let running = files::open_to_lock(&path)?;
        let alone = rustix::fs::flock(&running, FlockOperation::NonBlockingLockExclusive).is_ok();
        let mut ledger = Ledger::open(directory)?;
        if alone {
            ledger.declare_lost()?;
            ledger.compact()?;
        }
        rustix::fs::flock(&running, FlockOperation::LockShared)
            .map_err(|error| files::failed("lock", &path)(error.into()))?;
        Ok(Self {
            directory: directory.to_owned(),
            ledger: Mutex::new(ledger),
            blocks: Mutex::default(),
            _running: running,
        })
    }

    /// Whether a key has ever signed here.
    pub(crate) fn has_any(&self) -> bool {
        locked(&self.ledger).has_any()
    }

    /// Gives a signature its number. It must not leave without.
    ///
    /// # Errors
    /// [`sealwright_proto::status::Code::SignerStateFailed`] if no number can be reserved durably.
    pub(crate) fn count(&self, key_id: KeyId, packet: &[u8]) -> Result<Operation, Fault> {
        let block = self.block_of(key_id).map_err(|error| Fault::from(&error))?;
        let mut block = locked(&block);
        if block.next > block.last || block.first == 0 {
            // Taken: it is ended once, even if no other can be reserved after it.
            let before = std::mem::take(&mut *block);
            *block = self.reserve(key_id, &before).map_err(|error| Fault::from(&error))?;
        }
        let number = block.next;
        block.next = number.saturating_add(1);
        block.chain = step(&block.chain, number, packet);
        Ok(Operation { number, skipped: block.skipped, chain: block.chain })
    }

    /// Gives back what is left of all blocks. Not synced: after a power cut they count as lost.
    pub(crate) fn close(&self) {
        if let Err(error) = self.give_back() {
            tracing::warn!(error = &error as &dyn std::error::Error, "reserved numbers are not given back");
        }
    }

    fn block_of(&self, key_id: KeyId) -> Result<Arc<Mutex<Block>>, Error> {
        let full = {
            let blocks = locked(&self.blocks);
            if let Some(block) = blocks.get(&key_id) {
                return Ok(Arc::clone(block));
            }
            blocks.len() >= KEYS_MAX
        };
        if full {
            self.give_back()?;
        }
        Ok(Arc::clone(locked(&self.blocks).entry(key_id).or_default()))
    }

    /// The next block; `before`, if it is one, is used up.
    fn reserve(&self, key_id: KeyId, before: &Block) -> Result<Block, Error> {
        let _lock = Lock::take(&self.directory)?;
        let mut ledger = locked(&self.ledger);
        ledger.refresh()?;
        if before.first > 0 {
            let Block { first, last, chain, .. } = *before;
            ledger.append(&[Line::End { key_id, first, used: last, chain }])?;
        }
        let state = ledger.state(key_id);
        let first = state.next;
        let last = first.saturating_add(BLOCK).saturating_sub(1);
        let chain = start(&state.chain, key_id, first, last);
        let skipped = state.skipped;
        ledger.append(&[Line::Reserve { key_id, first, last, chain }])?;
        ledger.sync()?;
        Ok(Block { first, next: first, last, chain, skipped })
    }

    fn give_back(&self) -> Result<(), Error> {
        let blocks = std::mem::take(&mut *locked(&self.blocks));
        let mut lines = Vec::with_capacity(blocks.len());
        for (key_id, block) in blocks {
            // Whoever still counts with it finds it empty, and reserves anew.
            let Block { first, next, chain, .. } = std::mem::take(&mut *locked(&block));
            if first > 0 {
                lines.push(Line::End { key_id, first, used: next.saturating_sub(1), chain });
            }
        }
        if lines.is_empty() {
            return Ok(());
        }
        let _lock = Lock::take(&self.directory)?;
        let mut ledger = locked(&self.ledger);
        ledger.refresh()?;
        ledger.append(&lines)
    }
}

/// Whole after each use: a panic of another thread leaves nothing half done.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Where the chain of a block starts: it holds the end of the block before, and so all reservations so far.
fn start(before: &[u8; 32], key_id: KeyId, first: u64, last: u64) -> [u8; 32] {
    let [first, last] = [first, last].map(u64::to_be_bytes);
    hash(&[b"sealwright operations 1", before, key_id.as_bytes(), &first, &last])
}

/// One operation further.
fn step(before: &[u8; 32], number: u64, packet: &[u8]) -> [u8; 32] {
    let packet = Hasher::digest(HashAlgorithm::Sha256, packet);
    hash(&[b"sealwright operation 1", before, &number.to_be_bytes(), packet.as_bytes()])
}

fn hash(parts: &[&[u8]]) -> [u8; 32] {
    let mut hasher = Hasher::new(HashAlgorithm::Sha256);
    for part in parts {
        hasher.update(part);
    }
    hasher.finish().as_bytes().first_chunk::<32>().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests;
