//! Whether a request would be signed now: asked for real, not remembered from the start.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use sealwright_store::{Intent, IntentId, Tickets};
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};
use uuid::Uuid;

use crate::{Inner, clock};

/// Answers as old as this are given again; who asks more often costs nothing more.
const REMEMBERED: Duration = Duration::from_secs(1);

/// How long each part may take.
const PART_MAX: Duration = Duration::from_secs(3);

/// Bytes that the disk of the store must have free.
pub const DISK_FREE_BYTES_MIN: u64 = 64 << 20;

/// What a request needs, part by part; each says why not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Readiness {
    /// The signer answers.
    pub signer: Result<(), String>,
    /// The store takes a commit.
    pub store: Result<(), String>,
    /// The head of the log can be read.
    pub log: Result<(), String>,
    /// The disk of the store has [`DISK_FREE_BYTES_MIN`] free.
    pub disk: Result<(), String>,
}

impl Readiness {
    /// All parts.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.reasons().next().is_none()
    }

    /// Why it is not ready, part by part; for status lines.
    pub fn reasons(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let parts =
            [("signer", &self.signer), ("store", &self.store), ("log", &self.log), ("disk", &self.disk)];
        parts.into_iter().filter_map(|(part, state)| state.as_ref().err().map(|why| (part, why.as_str())))
    }
}

/// The last answer; its lock is held while a new one is found, so that there is one at a time.
#[derive(Default)]
pub(crate) struct Remembered(Mutex<Option<(Instant, Arc<Readiness>)>>);

impl Remembered {
    pub(crate) async fn readiness(&self, front: &Inner) -> Arc<Readiness> {
        let mut last = self.0.lock().await;
        if let Some((at, readiness)) = &*last
            && at.elapsed() < REMEMBERED
        {
            return Arc::clone(readiness);
        }
        let readiness = Arc::new(ask(front).await);
        *last = Some((Instant::now(), Arc::clone(&readiness)));
        readiness
    }
}

async fn ask(front: &Inner) -> Readiness {
    let (signer, store, log, disk) = tokio::join!(
        signer(front),
        part(async { commit(front).await.map_err(|error| error.to_string()) }),
        part(async { front.store.log_head().await.map(|_| ()).map_err(|error| error.to_string()) }),
        part(disk(front.store_folder.clone())),
    );
    Readiness { signer, store, log, disk }
}

async fn part(question: impl Future<Output = Result<(), String>>) -> Result<(), String> {
    let late = || Err(format!("no answer within {} s", PART_MAX.as_secs()));
    timeout(PART_MAX, question).await.unwrap_or_else(|_| late())
}

async fn signer(front: &Inner) -> Result<(), String> {
    let now = Instant::now();
    let deadline = now.checked_add(PART_MAX).unwrap_or(now);
    front.signer.answers(deadline).await.map_err(|fault| fault.message)
}

/// Writes one row, always the same: an intent that nobody has, because nobody has an empty name.
async fn commit(front: &Inner) -> Result<(), sealwright_store::Error> {
    let id = IntentId { principal: String::new(), request_id: Uuid::nil(), attempt: Uuid::now_v7() };
    let tickets = Tickets::Spend(Vec::new());
    let (digest, key_id, now_ms) = ([0; 32], Uuid::nil(), clock::now_ms());
    let intent = Intent { id, digest, key_id, now_ms, lease_until_ms: 0, tickets };
    front.store.record_intent(intent).await.map(|_| ())
}

async fn disk(store_folder: PathBuf) -> Result<(), String> {
    // A disk that hangs holds up a thread of its own.
    let state = tokio::task::spawn_blocking(move || rustix::fs::statvfs(&store_folder)).await;
    let state = state.map_err(|error| error.to_string())?.map_err(|error| error.to_string())?;
    let free = state.f_bavail.saturating_mul(state.f_frsize);
    if free < DISK_FREE_BYTES_MIN {
        return Err(format!("{} MiB are free; {} are needed", free >> 20, DISK_FREE_BYTES_MIN >> 20));
    }
    Ok(())
}
