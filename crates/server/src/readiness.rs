//! Whether a request would be signed now: asked for real, not remembered from the start.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use sealwright_store::{Intent, IntentId, Tickets};
use tokio::sync::Mutex;
use tokio::task::JoinHandle;
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
pub(crate) struct Remembered(Mutex<State>);

#[derive(Default)]
struct State {
    last: Option<(Instant, Arc<Readiness>)>,
    /// A question about the disk that is not answered. A disk that hangs holds up one thread, however often it is asked.
    disk: Option<JoinHandle<Result<(), String>>>,
}

impl Remembered {
    pub(crate) async fn readiness(&self, front: &Inner) -> Arc<Readiness> {
        let mut state = self.0.lock().await;
        if let Some((at, readiness)) = &state.last
            && at.elapsed() < REMEMBERED
        {
            return Arc::clone(readiness);
        }
        let readiness = Arc::new(ask(front, &mut state.disk).await);
        state.last = Some((Instant::now(), Arc::clone(&readiness)));
        readiness
    }
}

async fn ask(front: &Inner, asked: &mut Option<JoinHandle<Result<(), String>>>) -> Readiness {
    let folder = front.store_folder.clone();
    let (signer, store, log, disk) = tokio::join!(
        signer(front),
        part(async { commit(front).await.map_err(|error| error.to_string()) }),
        part(async { front.store.log_head().await.map(|_| ()).map_err(|error| error.to_string()) }),
        part(answer_of(asked, move || disk(&folder))),
    );
    Readiness { signer, store, log, disk }
}

/// Of the question that is under way, or of a new one.
async fn answer_of(
    asked: &mut Option<JoinHandle<Result<(), String>>>,
    question: impl FnOnce() -> Result<(), String> + Send + 'static,
) -> Result<(), String> {
    let answer = asked.get_or_insert_with(|| tokio::task::spawn_blocking(question)).await;
    // Only now: who stops waiting leaves it there.
    *asked = None;
    answer.unwrap_or_else(|error| Err(error.to_string()))
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

fn disk(store_folder: &Path) -> Result<(), String> {
    let state = rustix::fs::statvfs(store_folder).map_err(|error| error.to_string())?;
    let free = state.f_bavail.saturating_mul(state.f_frsize);
    if free < DISK_FREE_BYTES_MIN {
        return Err(format!("{} MiB are free; {} are needed", free >> 20, DISK_FREE_BYTES_MIN >> 20));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::sync::mpsc;

    use super::*;

    #[tokio::test]
    async fn a_disk_that_hangs_is_asked_once_however_often_somebody_wants_to_know() {
        let (go_on, hangs) = mpsc::channel::<()>();
        let hangs = Arc::new(std::sync::Mutex::new(hangs));
        let questions = Arc::new(AtomicU32::new(0));
        let question = || {
            let (hangs, questions) = (Arc::clone(&hangs), Arc::clone(&questions));
            move || {
                questions.fetch_add(1, Ordering::Relaxed);
                let _ = hangs.lock().unwrap().recv();
                Err("it was there".to_owned())
            }
        };
        let mut asked = None;
        for _ in 0..5 {
            let waited = timeout(Duration::from_millis(20), answer_of(&mut asked, question())).await;
            assert!(waited.is_err(), "{waited:?}");
        }
        go_on.send(()).unwrap();
        assert_eq!(answer_of(&mut asked, question()).await, Err("it was there".to_owned()));
        assert_eq!(questions.load(Ordering::Relaxed), 1);
        assert!(asked.is_none());
    }
}
