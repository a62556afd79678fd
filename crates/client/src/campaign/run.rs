//! The work itself: file after file through the same way as `sign`, tried again where that can help, ended where every
//! further file would fail too.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use tokio::sync::{Semaphore, watch};

use crate::apply::Written;
use crate::apply::second::link_or_copy;
use crate::batch::{self, JOBS_MAX, Stop};
use crate::campaign::Campaign;
use crate::campaign::look::Verdict;
use crate::campaign::plan::{Plan, Task, Way, feed};
use crate::error::{Code, Error, Retry};
use crate::shown::with_causes;
use crate::sign::{Done, FileReport, Part};
use crate::source::Entry;
use crate::source::file::SourceFile;

/// How often a file is tried whose failure can pass.
const ATTEMPTS_MAX: u32 = 5;
/// Pause before the second attempt; doubled before each further one.
const PAUSE: Duration = Duration::from_millis(250);
/// Files that are named for each reason of a failure.
const EXAMPLES_MAX: usize = 3;

/// Takes what is found and done, as it comes.
pub trait Watch {
    /// A file was looked at for the plan: what it is, and its size; or why it cannot be looked at.
    fn planned(&mut self, entry: &Entry, seen: Result<(Verdict, u64), &Error>);
    /// A file is done with.
    fn ended(&mut self, ended: &Ended);
    /// A directory cannot be read.
    fn unreadable(&mut self, path: &Path, error: &Error);
}

/// What became of one file.
#[derive(Debug)]
pub struct Ended {
    /// As for `sign`.
    pub report: FileReport,
    /// In one word.
    pub class: Class,
}

/// What became of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Signed.
    Signed,
    /// It carries the new key's signature already.
    Already,
    /// Unsigned, and left so.
    Unsigned,
    /// Signed by others, and left so.
    Foreign,
    /// No key is given for its directory.
    NoKey,
    /// No package.
    NotPackage,
    /// Failed.
    Failed,
    /// Not begun, or given up before a signature was asked for: a stop came.
    NotBegun,
}

/// What became of all.
#[derive(Debug, Default)]
pub struct Summary {
    /// Signed by this run.
    pub signed: u64,
    /// Carrying the new signature before.
    pub already: u64,
    /// Left as they are: unsigned.
    pub unsigned: u64,
    /// Left as they are: of others.
    pub foreign: u64,
    /// Without a key.
    pub no_key: u64,
    /// No packages.
    pub others: u64,
    /// Failed.
    pub failed: u64,
    /// To be signed, and not begun.
    pub not_begun: u64,
    /// Bytes sent to the server.
    pub sent_bytes: u64,
    /// Bytes written to the disk.
    pub written_bytes: u64,
    /// How long it took.
    pub elapsed: Duration,
    /// Why files failed, the reason with the most files first.
    pub reasons: Vec<Reason>,
    /// Why the campaign ended before its end, if not by a signal.
    pub fatal: Option<Fatal>,
}

/// Files that failed for one reason.
#[derive(Clone, Debug, Default)]
pub struct Reason {
    /// The reason of the first, in words.
    pub why: String,
    /// What to do.
    pub advice: String,
    /// How many.
    pub files: u64,
    /// Some of them.
    pub examples: Vec<PathBuf>,
}

/// A failure that every further file would meet too.
#[derive(Clone, Debug)]
pub struct Fatal {
    /// The file where it showed.
    pub path: PathBuf,
    /// In words.
    pub why: String,
    /// What to do.
    pub advice: String,
}

/// What all files of a run share.
struct Shared<'a> {
    campaign: &'a Campaign,
    in_hand: Semaphore,
    stop: Stop,
    level: watch::Sender<u8>,
    fatal: OnceLock<Fatal>,
}

impl Campaign {
    /// Signs what is to be signed.
    ///
    /// # Errors
    /// It is a preview: a fault of the caller.
    pub async fn run(&self, plan: &Plan, stop: &Stop, watch: &mut dyn Watch) -> Result<Summary, Error> {
        let begun = Instant::now();
        let journal = self.journal.as_ref().ok_or(Error::Internal("a campaign without a journal"))?;
        let planned = journal.planned(plan.sign.files, plan.sign.bytes).await;
        let (level, receiver) = watch::channel(0u8);
        let passing = pass_on(stop.clone(), level.clone());
        let shared = Shared {
            campaign: self,
            in_hand: Semaphore::new(self.jobs.clamp(1, JOBS_MAX)),
            stop: Stop::from_level(receiver),
            level,
            fatal: OnceLock::new(),
        };
        if let Err(error) = planned {
            shared.end(journal.path(), &error);
        }
        let mut tally = Tally::default();
        let way = Way {
            links: Arc::clone(&plan.links),
            second: self.second.clone(),
            journal: Some(Arc::clone(journal)),
            ..Way::of(Arc::clone(&self.trees))
        };
        let (tasks, walk) = feed(way);
        let work = |index, task: Task| shared.one(index, task);
        let stopped = |index, task: Task| Ended {
            report: batch::report(index, task.entry.shown, Err(Error::Stopped)),
            class: Class::NotBegun,
        };
        batch::each_of(tasks, batch::open_max(self.jobs), &shared.stop, work, stopped, |ended| {
            tally.take(&ended);
            watch.ended(&ended);
        })
        .await;
        passing.abort();
        for (path, error) in walk.await.unwrap_or_default() {
            tally.fail(&path, &error);
            watch.unreadable(&path, &error);
        }
        // A summary is due also when these fail.
        if let Err(error) = journal.flush().await {
            shared.end(journal.path(), &error);
        }
        if let (Some(second), false) = (&self.second, shared.stop.is_asked())
            && let Err(error) = second.finish(Arc::clone(&self.trees)).await
        {
            shared.end(second.path(), &error);
        }
        let mut summary = tally.summary;
        summary.not_begun = left_to_sign(&summary, plan);
        summary.reasons = tally.reasons.into_values().collect();
        summary.reasons.sort_by_key(|reason| std::cmp::Reverse(reason.files));
        summary.fatal = shared.fatal.into_inner();
        summary.elapsed = begun.elapsed();
        Ok(summary)
    }
}

/// Of the files that were not begun, those that have to be signed: what else was not looked at any more is known from the
/// plan.
fn left_to_sign(summary: &Summary, plan: &Plan) -> u64 {
    let others = [
        (plan.already, summary.already),
        (plan.unsigned, summary.unsigned),
        (plan.foreign, summary.foreign),
        (plan.no_key, summary.no_key),
        (plan.others, summary.others),
    ];
    let passed_over = others.map(|(planned, ended)| planned.files.saturating_sub(ended));
    passed_over.into_iter().fold(summary.not_begun, u64::saturating_sub)
}

/// The user's stop, and ours after a failure that ends the campaign, are one.
fn pass_on(user: Stop, level: watch::Sender<u8>) -> tokio::task::JoinHandle<()> {
    tokio::spawn(async move {
        user.asked().await;
        level.send_modify(|level| *level = (*level).max(1));
        user.forced().await;
        level.send_modify(|level| *level = (*level).max(2));
    })
}

impl Shared<'_> {
    async fn one(&self, index: usize, task: Task) -> Ended {
        let mut attempt = 1;
        let mut pause = PAUSE;
        loop {
            let ended = self.attempt(index, &task).await;
            let error = match &ended.report.outcome {
                Err(error) if !matches!(error, Error::Stopped) => error,
                Ok(_) | Err(_) => return ended,
            };
            if error.retry() == Retry::Yes && attempt < ATTEMPTS_MAX && !self.stop.is_asked() {
                tracing::info!(path = %task.entry.shown.display(), error = %error, attempt, "tried again");
                tokio::select! {
                    biased;
                    () = self.stop.asked() => {}
                    () = tokio::time::sleep(pause) => {}
                }
                attempt = attempt.saturating_add(1);
                pause = pause.saturating_mul(2);
                continue;
            }
            self.failed(&task.entry, error).await;
            return ended;
        }
    }

    async fn failed(&self, entry: &Entry, error: &Error) {
        if ends_the_campaign(error) {
            self.end(&entry.shown, error);
        }
        if let Some(journal) = &self.campaign.journal
            && let Err(error) = journal.failed(&entry.real_path(), error).await
        {
            self.end(journal.path(), &error);
        }
    }

    fn end(&self, path: &Path, error: &Error) {
        let (why, advice) = (with_causes(error), error.advice().to_owned());
        // Of several that come at once, the first is told.
        let _ = self.fatal.set(Fatal { path: path.to_owned(), why, advice });
        self.level.send_modify(|level| *level = (*level).max(1));
    }

    async fn attempt(&self, index: usize, task: &Task) -> Ended {
        let (campaign, entry) = (self.campaign, &task.entry);
        let failed = |error: Error| Ended {
            class: if matches!(error, Error::Stopped) { Class::NotBegun } else { Class::Failed },
            report: batch::report(index, entry.shown.clone(), Err(error)),
        };
        if campaign.must_look() {
            match self.look(index, entry).await {
                Ok(None) => {}
                Ok(Some(left)) => return left,
                Err(error) => return failed(error),
            }
        }
        let Some(signer) = campaign.keys.of(&entry.real_path()) else {
            return failed(Error::Internal("a file without a key"));
        };
        let part = Part { in_hand: Some(&self.in_hand), other_names: task.others, stop: Some(&self.stop) };
        let report = signer.sign_part(index, entry, part).await;
        let class = match &report.outcome {
            Ok(Done::Signed(_)) => Class::Signed,
            Ok(Done::Unchanged { .. } | Done::WouldSign { .. }) => Class::Already,
            Ok(Done::Skipped) => Class::NotPackage,
            Err(Error::Stopped) => Class::NotBegun,
            Err(_) => Class::Failed,
        };
        Ended { report, class }
    }

    /// A file that is not to be signed; the second tree gets it as it is.
    async fn look(&self, index: usize, entry: &Entry) -> Result<Option<Ended>, Error> {
        let _permit = self.in_hand.acquire().await.map_err(|_| Error::Stopped)?;
        if self.stop.is_asked() {
            return Err(Error::Stopped);
        }
        let seen = self.campaign.look(entry).await?;
        let (class, why) = match seen.verdict {
            Verdict::Sign | Verdict::Already => return Ok(None),
            Verdict::Unsigned => (Class::Unsigned, "unsigned, and not by the old key"),
            Verdict::Foreign => (Class::Foreign, "signed by another key than the old one"),
            Verdict::NoKey => (Class::NoKey, "no key is given for its directory"),
            Verdict::NotPackage => (Class::NotPackage, "no package"),
        };
        let copy = self.place(entry).await?;
        let done = Done::Unchanged { why: why.to_owned(), copy };
        let mut report = batch::report(index, entry.shown.clone(), Ok(done));
        report.size = seen.size;
        Ok(Some(Ended { report, class }))
    }

    async fn place(&self, entry: &Entry) -> Result<Option<Written>, Error> {
        let Some(second) = self.campaign.second.clone() else { return Ok(None) };
        let entry = entry.clone();
        let work = move || {
            let source = Arc::new(SourceFile::open(&entry)?);
            link_or_copy(&source, second.output().target(&entry, &source)?).map(Some)
        };
        tokio::task::spawn_blocking(work).await.map_err(|_| Error::Internal("a worker thread ended"))?
    }
}

impl Campaign {
    /// Whether a file's signatures, or its not being a package, decide what becomes of it.
    fn must_look(&self) -> bool {
        let all = self.trees.iter().all(|tree| self.keys.of(tree.path()).is_some());
        self.from.is_some() || self.second.is_some() || !all
    }
}

/// Whether every file that follows would fail as well: the disk, the server or the key has to be seen to first.
fn ends_the_campaign(error: &Error) -> bool {
    if let Error::NotApplied { source, .. } | Error::Beside { source, .. } = error {
        return ends_the_campaign(source);
    }
    let of_file = [
        Code::MalformedRequest,
        Code::LimitExceeded,
        Code::Unsupported,
        Code::RequestConflict,
        Code::TicketRefused,
        Code::SignatureSelfCheckFailed,
        Code::Internal,
    ];
    match error.server_code() {
        Some(code) => !of_file.contains(&code),
        None => matches!(
            error,
            Error::Sync { .. }
                | Error::NoSpace { .. }
                | Error::Quota { .. }
                | Error::ReadOnlyFileSystem { .. }
                | Error::HalfWritten { .. }
                | Error::StateDirectory { .. }
                | Error::StateDirectoryOpen { .. }
                | Error::ConnectionLost { .. }
                | Error::Unreachable { .. }
                | Error::NotSealwright
                | Error::Credential { .. }
        ),
    }
}

#[derive(Default)]
struct Tally {
    summary: Summary,
    /// By what is to be done: there are as many as there are pieces of advice.
    reasons: BTreeMap<String, Reason>,
}

impl Tally {
    fn take(&mut self, ended: &Ended) {
        let report = &ended.report;
        let summary = &mut self.summary;
        summary.sent_bytes = summary.sent_bytes.saturating_add(report.sent_bytes);
        let written = match &report.outcome {
            Ok(Done::Signed(signed)) => signed.written.bytes,
            Ok(Done::Unchanged { copy: Some(copy), .. }) => copy.bytes,
            Ok(Done::Unchanged { copy: None, .. } | Done::WouldSign { .. } | Done::Skipped) | Err(_) => 0,
        };
        summary.written_bytes = summary.written_bytes.saturating_add(written);
        let count = match ended.class {
            Class::Signed => &mut summary.signed,
            Class::Already => &mut summary.already,
            Class::Unsigned => &mut summary.unsigned,
            Class::Foreign => &mut summary.foreign,
            Class::NoKey => &mut summary.no_key,
            Class::NotPackage => &mut summary.others,
            Class::NotBegun => &mut summary.not_begun,
            Class::Failed => {
                if let Err(error) = &report.outcome {
                    self.fail(&report.path, error);
                }
                return;
            }
        };
        *count = count.saturating_add(1);
    }

    fn fail(&mut self, path: &Path, error: &Error) {
        self.summary.failed = self.summary.failed.saturating_add(1);
        let reason = self.reasons.entry(error.advice().to_owned()).or_insert_with(|| Reason {
            why: with_causes(error),
            advice: error.advice().to_owned(),
            ..Reason::default()
        });
        reason.files = reason.files.saturating_add(1);
        if reason.examples.len() < EXAMPLES_MAX {
            reason.examples.push(path.to_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    use sealwright_proto::status::Fault;

    use super::*;

    #[test]
    fn what_every_further_file_would_meet_ends_the_campaign_and_a_bad_file_does_not() {
        let sync = || Error::Sync { path: "/t".into(), source: std::io::ErrorKind::Other.into() };
        let applied = Error::NotApplied { log_index: 1, source: Box::new(sync()) };
        let server = |code| Error::Server(Fault::new(code, "x"));
        for error in [sync(), applied, server(Code::KeyDisabled), server(Code::StoreFull)] {
            assert!(ends_the_campaign(&error), "{error}");
        }
        for error in [Error::Locked, Error::Missing, server(Code::LimitExceeded), Error::Immutable] {
            assert!(!ends_the_campaign(&error), "{error}");
        }
    }
}
