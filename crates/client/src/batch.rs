//! Many files: a bounded number in hand, a stop that leaves every file whole, one result for each file.

use std::collections::{BTreeSet, HashMap};
use std::future::Future;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use futures_util::StreamExt as _;
use futures_util::stream::Stream;
use rustix::process::{Resource, Signal};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{Semaphore, watch};

use crate::apply::group::FILES_MAX;
use crate::error::Error;
use crate::sign::{Done, FileReport, Part, Signer};
use crate::source::{Entry, Listing};

/// Descriptors that one file needs at most: file, directory, the directory of its signature file, temporary, and one
/// for the moment.
const DESCRIPTORS_OF_A_FILE: usize = 5;
/// Descriptors that are left to the rest of the program: store, sockets, journals.
const DESCRIPTORS_OF_OTHERS: usize = 16;
/// Files in hand at once at most: each holds three descriptors and, while it is hashed, a buffer.
pub const JOBS_MAX: usize = 256;
/// Files in hand at once if nobody says another number.
const JOBS_DEFAULT: usize = 96;

/// What `--jobs` is when it is not given: so many that server and disk get groups of files, whatever they wait for.
/// Reading and hashing has places of its own.
#[must_use]
pub fn default_jobs() -> usize {
    hash_threads().max(JOBS_DEFAULT)
}

/// Files that are read and hashed at once: twice the cores, so that they are busy while some wait for the disk.
#[must_use]
pub fn hash_threads() -> usize {
    cores().saturating_mul(2).clamp(4, JOBS_MAX)
}

/// Processors that we may use. Asked once: it is a dozen files of control groups.
pub(crate) fn cores() -> usize {
    static CORES: OnceLock<usize> = OnceLock::new();
    *CORES.get_or_init(|| std::thread::available_parallelism().map_or(1, std::num::NonZero::get))
}

/// Whether a stop was asked for: once, files for which a signature was asked are finished; twice, nothing is waited
/// for.
#[derive(Clone, Debug)]
pub struct Stop {
    level: watch::Receiver<u8>,
    /// How often it is asked until files in hand are given up.
    patience: u8,
}

impl Stop {
    /// By SIGINT, SIGTERM and SIGHUP. From here on SIGXFSZ does not kill either: a write above the limit is an
    /// error that is reported.
    ///
    /// # Errors
    /// The signals cannot be caught.
    pub fn on_signals() -> std::io::Result<Self> {
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut terminate = signal(SignalKind::terminate())?;
        let mut hangup = signal(SignalKind::hangup())?;
        // The handler stays when its stream is dropped.
        drop(signal(SignalKind::from_raw(Signal::XFSZ.as_raw()))?);
        let (level, stop) = watch::channel(0u8);
        tokio::spawn(async move {
            loop {
                tokio::select! {
                    Some(()) = interrupt.recv() => {}
                    Some(()) = terminate.recv() => {}
                    Some(()) = hangup.recv() => {}
                    else => return,
                }
                level.send_modify(|level| *level = level.saturating_add(1));
            }
        });
        Ok(Self::from_level(stop))
    }

    /// Asked for by other means.
    #[must_use]
    pub const fn from_level(level: watch::Receiver<u8>) -> Self {
        Self { level, patience: 2 }
    }

    /// For work that changes nothing: files in hand are given up at the first time.
    #[must_use]
    pub const fn at_once(mut self) -> Self {
        self.patience = 1;
        self
    }

    /// Whether a stop was asked for.
    #[must_use]
    pub fn is_asked(&self) -> bool {
        *self.level.borrow() > 0
    }

    /// Whether both are asked for by the same means, and end the same.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        self.patience == other.patience && self.level.same_channel(&other.level)
    }

    /// Waits until a stop is asked for.
    pub async fn asked(&self) {
        self.reached(1).await;
    }

    /// Waits until nothing is to be waited for any more.
    pub async fn forced(&self) {
        self.reached(self.patience).await;
    }

    async fn reached(&self, times: u8) {
        let mut level = self.level.clone();
        if level.wait_for(|level| *level >= times).await.is_err() {
            // Nobody can ask any more.
            std::future::pending::<()>().await;
        }
    }
}

/// Takes results as they come, in the order in which files are finished.
pub trait Observer {
    /// One file.
    fn finished(&mut self, report: &FileReport);
}

/// What became of all files.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Summary {
    /// Signed (or, on a dry run, would be).
    pub signed: usize,
    /// Left as they are.
    pub unchanged: usize,
    /// Failed, each reported.
    pub failed: usize,
    /// Found by `-r`, not ours.
    pub skipped: usize,
    /// Not begun because of a stop.
    pub not_begun: usize,
    /// Bytes sent to the server.
    pub sent_bytes: u64,
    /// Bytes written to the disk.
    pub written_bytes: u64,
    /// From the first to the last.
    pub elapsed: Duration,
    /// Id of the last request.
    pub request_id: Option<String>,
    /// Servers that answered, in order of their names.
    pub servers: BTreeSet<Arc<str>>,
}

impl Summary {
    fn add(&mut self, report: &FileReport) {
        self.sent_bytes = self.sent_bytes.saturating_add(report.sent_bytes);
        if report.request_id.is_some() {
            self.request_id.clone_from(&report.request_id);
        }
        self.servers.extend(report.server.clone());
        let written = match &report.outcome {
            Ok(Done::Signed(signed)) => signed.written.bytes,
            Ok(Done::Unchanged { copy: Some(copy), .. }) => copy.bytes,
            Ok(Done::Unchanged { copy: None, .. } | Done::WouldSign { .. } | Done::Skipped) | Err(_) => 0,
        };
        self.written_bytes = self.written_bytes.saturating_add(written);
        let count = match &report.outcome {
            Ok(Done::Signed(_) | Done::WouldSign { .. }) => &mut self.signed,
            Ok(Done::Unchanged { .. }) => &mut self.unchanged,
            Ok(Done::Skipped) => &mut self.skipped,
            Err(Error::Stopped) => &mut self.not_begun,
            Err(_) => &mut self.failed,
        };
        *count = count.saturating_add(1);
    }
}

/// Signs all files of a listing, `jobs` at once.
pub async fn sign(
    signer: &Arc<Signer>,
    listing: Listing,
    jobs: usize,
    stop: &Stop,
    observer: &mut dyn Observer,
) -> Summary {
    let begun = Instant::now();
    let mut summary = Summary::default();
    let mut take = |report: FileReport| {
        summary.add(&report);
        observer.finished(&report);
    };
    for (path, error) in listing.failed {
        take(report(0, path, Err(error)));
    }
    for entry in listing.repeated {
        let why = "named twice in this call".to_owned();
        take(report(0, entry.shown, Ok(Done::Unchanged { why, copy: None })));
    }
    let others = other_names(&listing.groups);
    let jobs = jobs.clamp(1, JOBS_MAX);
    let in_hand = Semaphore::new(jobs);
    let (in_hand, others) = (&in_hand, &others);
    let work = |index, entry: Entry| {
        let signer = Arc::clone(signer);
        let other_names = others.get(&index).copied().unwrap_or_default();
        let part = Part { in_hand: Some(in_hand), other_names, stop: Some(stop) };
        async move { signer.sign_part(index, &entry, part).await }
    };
    let stopped = |index, entry: Entry| report(index, entry.shown, Err(Error::Stopped));
    // A group is worked on file after file.
    let open = if listing.groups.len() > 1 { open_max(jobs) } else { 1 };
    each(listing.groups, open, stop, work, stopped, take).await;
    summary.elapsed = begun.elapsed();
    summary
}

/// For files with other names in the call: how many.
fn other_names(groups: &[Vec<Entry>]) -> HashMap<usize, usize> {
    let mut first = 0usize;
    let mut others = HashMap::new();
    for group in groups {
        let next = first.saturating_add(group.len());
        if group.len() > 1 {
            others.extend((first..next).map(|index| (index, group.len().saturating_sub(1))));
        }
        first = next;
    }
    others
}

/// Files that are open at once: those in hand, and a group that waits for the disk; fewer where this process may not
/// open so many.
pub(crate) fn open_max(jobs: usize) -> usize {
    let wanted = jobs.saturating_add(FILES_MAX);
    let Some(limit) = rustix::process::getrlimit(Resource::Nofile).current else { return wanted };
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let open = std::fs::read_dir("/proc/self/fd").map_or(DESCRIPTORS_OF_OTHERS, Iterator::count);
    let free = limit.saturating_sub(open).saturating_sub(DESCRIPTORS_OF_OTHERS);
    wanted.min(free.checked_div(DESCRIPTORS_OF_A_FILE).unwrap_or(0)).max(1)
}

pub(crate) fn report(index: usize, path: PathBuf, outcome: Result<Done, Error>) -> FileReport {
    FileReport {
        index,
        path,
        format: None,
        outcome,
        notes: Vec::new(),
        warnings: Vec::new(),
        size: 0,
        sent_bytes: 0,
        elapsed: Duration::ZERO,
        request_id: None,
        server: None,
    }
}

/// Runs `work` on every entry, `jobs` groups at once and the entries of a group one after the other; `stopped`
/// makes the result of those that a stop kept back.
pub async fn each<R, Fut: Future<Output = R>>(
    groups: Vec<Vec<Entry>>,
    jobs: usize,
    stop: &Stop,
    work: impl Fn(usize, Entry) -> Fut,
    stopped: impl Fn(usize, Entry) -> R,
    take: impl FnMut(R),
) {
    each_of(futures_util::stream::iter(groups), jobs, stop, work, stopped, take).await;
}

/// The same with groups that come one after the other, so that not all need be known.
pub async fn each_of<E: Clone, R, Fut: Future<Output = R>>(
    groups: impl Stream<Item = Vec<E>>,
    jobs: usize,
    stop: &Stop,
    work: impl Fn(usize, E) -> Fut,
    stopped: impl Fn(usize, E) -> R,
    mut take: impl FnMut(R),
) {
    let mut index = 0usize;
    let indexed = groups.map(|group| {
        let first = index;
        index = index.saturating_add(group.len());
        (first, group)
    });
    let (work, stopped) = (&work, &stopped);
    let results = indexed
        .map(|(first, group)| async move {
            let mut results = Vec::with_capacity(group.len());
            for (at, entry) in group.into_iter().enumerate() {
                let index = first.saturating_add(at);
                if stop.is_asked() {
                    results.push(stopped(index, entry));
                    continue;
                }
                let result = tokio::select! {
                    biased;
                    result = work(index, entry.clone()) => result,
                    () = stop.forced() => stopped(index, entry),
                };
                results.push(result);
            }
            results
        })
        .buffer_unordered(jobs.clamp(1, JOBS_MAX.saturating_add(FILES_MAX)));
    let mut results = std::pin::pin!(results);
    while let Some(batch) = results.next().await {
        batch.into_iter().for_each(&mut take);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::Place;

    fn groups(count: usize) -> Vec<Vec<Entry>> {
        (0..count)
            .map(|at| vec![Entry { shown: PathBuf::from(at.to_string()), place: Place::Named }])
            .collect()
    }

    #[tokio::test]
    async fn every_file_has_one_result_and_never_more_than_the_jobs_are_in_hand() {
        let (_level, receiver) = watch::channel(0);
        let in_hand = std::cell::Cell::new(0usize);
        let most = std::cell::Cell::new(0usize);
        let mut seen = Vec::new();
        let work = |index, _| {
            let (in_hand, most) = (&in_hand, &most);
            async move {
                in_hand.set(in_hand.get() + 1);
                most.set(most.get().max(in_hand.get()));
                tokio::task::yield_now().await;
                in_hand.set(in_hand.get() - 1);
                index
            }
        };
        each(groups(50), 7, &Stop::from_level(receiver), work, |i, _| i, |i| seen.push(i)).await;
        seen.sort_unstable();
        assert_eq!(seen, (0..50).collect::<Vec<_>>());
        assert_eq!(most.get(), 7);
    }

    #[tokio::test]
    async fn a_stop_finishes_what_is_in_hand_and_begins_nothing_new() {
        let (level, receiver) = watch::channel(0);
        let level = &level;
        let work = |index: usize, _| async move {
            if index == 3 {
                level.send_replace(1);
            }
            tokio::task::yield_now().await;
            Some(index)
        };
        let mut done = Vec::new();
        each(groups(20), 2, &Stop::from_level(receiver), work, |_, _| None, |r| done.push(r)).await;
        assert_eq!(done.len(), 20);
        assert!(done.contains(&Some(3)), "in hand when the stop came");
        assert!(done.iter().filter(|r| r.is_none()).count() >= 14);
    }

    #[tokio::test]
    async fn a_second_stop_waits_for_nobody() {
        let (level, receiver) = watch::channel(0);
        let level = &level;
        let work = |_, _| async move {
            level.send_replace(2);
            // As an answer that never comes.
            std::future::pending::<()>().await;
            true
        };
        let mut done = Vec::new();
        each(groups(2), 1, &Stop::from_level(receiver), work, |_, _| false, |r| done.push(r)).await;
        assert_eq!(done, [false, false]);
    }
}
