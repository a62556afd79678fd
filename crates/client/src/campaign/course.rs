//! What a campaign adds to the signing of one file: its request id comes from the journal, and no more are asked for than the
//! rate allows.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use sealwright_formats::prepared::Room;
use sealwright_formats::source::ReadAt as _;
use tokio::sync::Mutex;
use tokio::time::Instant;
use uuid::Uuid;

use crate::apply::undo::CHANGED_BYTES_MAX;
use crate::batch::Stop;
use crate::campaign::journal::Journal;
use crate::campaign::record::Before;
use crate::error::{Error, NotInPlace};
use crate::source::file::SourceFile;

/// Shared by all files of a campaign.
#[derive(Debug)]
pub struct Course {
    pub(crate) journal: Arc<Journal>,
    pace: Option<Pace>,
}

/// What the journal keeps of a file before its signature is asked for.
#[derive(Debug)]
pub(crate) struct Kept {
    path: PathBuf,
    before: Before,
}

impl Course {
    /// `per_second`: how many signatures are asked for in a second at most.
    #[must_use]
    pub fn new(journal: Arc<Journal>, per_second: Option<u32>) -> Self {
        Self { journal, pace: per_second.filter(|rate| *rate > 0).map(Pace::new) }
    }

    /// Reads what may change. Runs on a thread that may block.
    ///
    /// # Errors
    /// The file cannot be read; more can change than a journal keeps.
    pub(crate) fn keep(source: &SourceFile, room: &Room) -> Result<Kept, Error> {
        let until = room.until.min(source.len());
        let len = until.saturating_sub(room.from);
        if len > CHANGED_BYTES_MAX {
            return Err(Error::NotInPlace { why: NotInPlace::TooMuch { limit: CHANGED_BYTES_MAX } });
        }
        let mut bytes = vec![0; usize::try_from(len).unwrap_or(usize::MAX)];
        let path = source.path();
        source.read_exact_at(&mut bytes, room.from).map_err(|error| Error::io("read", &path, error))?;
        let before = Before { offset: room.from, bytes, size: source.len() };
        Ok(Kept { path, before })
    }

    /// Waits for its turn, and gives the id to ask under.
    ///
    /// # Errors
    /// [`Error::Stopped`]; the journal cannot be written.
    pub(crate) async fn ask(&self, kept: Kept, stop: Option<&Stop>) -> Result<Uuid, Error> {
        if let Some(pace) = &self.pace {
            let stopped = async {
                match stop {
                    Some(stop) => stop.asked().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = stopped => return Err(Error::Stopped),
                () = pace.turn() => {}
            }
        }
        self.journal.asked(&kept.path, kept.before).await
    }

    /// A file that is left as it is carries the signature; if it was asked for by a killed run, that is known now.
    ///
    /// # Errors
    /// The journal cannot be written.
    pub(crate) async fn seen(&self, path: &Path, size: u64) -> Result<(), Error> {
        if self.journal.is_open(path) { self.journal.applied(path, size, None).await } else { Ok(()) }
    }
}

/// Turns, evenly spaced.
#[derive(Debug)]
struct Pace {
    gap: Duration,
    next: Mutex<Option<Instant>>,
}

impl Pace {
    fn new(per_second: u32) -> Self {
        let gap = Duration::from_secs(1).checked_div(per_second).unwrap_or_default();
        Self { gap, next: Mutex::default() }
    }

    async fn turn(&self) {
        let now = Instant::now();
        let at = {
            let mut next = self.next.lock().await;
            let at = next.unwrap_or(now).max(now);
            *next = at.checked_add(self.gap);
            at
        };
        tokio::time::sleep_until(at).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn turns_are_spaced_evenly_however_many_wait() {
        let pace = Pace::new(100);
        let begun = Instant::now();
        futures_util::future::join_all((0..21).map(|_| pace.turn())).await;
        // Later it may be, never earlier.
        assert!(begun.elapsed() >= Duration::from_millis(200), "{:?}", begun.elapsed());
    }
}
