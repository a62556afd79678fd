//! What is ahead: every file is looked at once, headers only. And the walk that feeds work, in a thread of its own.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;

use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_stream::wrappers::ReceiverStream;

use crate::batch::{self, Stop};
use crate::campaign::journal::Journal;
use crate::campaign::look::{Seen, Verdict, look};
use crate::campaign::second::Second;
use crate::campaign::tree::{Met, Spot, Tree, Walk};
use crate::campaign::{Campaign, run::Watch};
use crate::error::{Error, FileKind};
use crate::source::Entry;

/// Groups of names that are found ahead of the work.
const AHEAD: usize = 256;

/// Files whose headers are read at once at most. Each takes a thread that may block, and the runtime keeps several times as many
/// as are at work: with 128 there were 512, which took 20 MiB for nothing.
pub(crate) const LOOKS_MAX: usize = 16;

/// How many files and bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Files.
    pub files: u64,
    /// Bytes in them.
    pub bytes: u64,
}

impl Count {
    pub(crate) const fn add(&mut self, bytes: u64) {
        self.files = self.files.saturating_add(1);
        self.bytes = self.bytes.saturating_add(bytes);
    }
}

/// What is ahead.
#[derive(Debug, Default)]
pub struct Plan {
    /// To be signed.
    pub sign: Count,
    /// Signed by the new key.
    pub already: Count,
    /// Unsigned, and left so.
    pub unsigned: Count,
    /// Signed by others, and left so.
    pub foreign: Count,
    /// In directories without a key.
    pub no_key: Count,
    /// No packages.
    pub others: Count,
    /// Malformed or unreadable; each was reported.
    pub failed: Count,
    /// Whether a stop came first.
    pub is_stopped: bool,
    pub(crate) links: Arc<Links>,
}

/// Files with several names: all of them that are in the trees.
#[derive(Debug, Default)]
pub(crate) struct Links(HashMap<(u64, u64), Vec<Spot>>);

/// One name to work on.
#[derive(Clone, Debug)]
pub(crate) struct Task {
    pub(crate) entry: Entry,
    /// Other names of it in the campaign.
    pub(crate) others: usize,
    spot: Spot,
    inode: (u64, u64),
}

impl Campaign {
    /// Looks at everything.
    pub async fn plan(&self, stop: &Stop, watch: &mut dyn Watch) -> Plan {
        let mut plan = Plan::default();
        let mut links = Links::default();
        let (tasks, walk) = feed(Way::of(Arc::clone(&self.trees)));
        let work = |_, task: Task| async move {
            let outcome = self.look(&task.entry).await;
            Some((task, outcome))
        };
        batch::each_of(
            tasks,
            batch::open_max(self.jobs).min(LOOKS_MAX),
            stop,
            work,
            |_, _| None,
            |done| {
                let Some((task, outcome)) = done else {
                    plan.is_stopped = true;
                    return;
                };
                if outcome.as_ref().is_ok_and(|seen| seen.is_linked) {
                    links.0.entry(task.inode).or_default().push(task.spot);
                }
                plan.count(&outcome);
                watch.planned(&task.entry, outcome.as_ref().map(|seen| (seen.verdict, seen.size)));
            },
        )
        .await;
        plan.is_stopped |= stop.is_asked();
        for (path, error) in walk.await.unwrap_or_default() {
            plan.failed.add(0);
            watch.unreadable(&path, &error);
        }
        plan.links = Arc::new(links);
        plan
    }

    /// What a file is to this campaign.
    pub(crate) async fn look(&self, entry: &Entry) -> Result<Seen, Error> {
        let (entry, keys, from) = (entry.clone(), Arc::clone(&self.keys), self.from.clone());
        let look = move || look(&entry, &entry.real_path(), &keys, from.as_deref());
        tokio::task::spawn_blocking(look).await.map_err(|_| Error::Internal("a worker thread ended"))?
    }
}

impl Plan {
    fn count(&mut self, outcome: &Result<Seen, Error>) {
        let (count, size) = match outcome {
            Err(_) => (&mut self.failed, 0),
            Ok(seen) => {
                let count = match seen.verdict {
                    Verdict::Sign => &mut self.sign,
                    Verdict::Already => &mut self.already,
                    Verdict::Unsigned => &mut self.unsigned,
                    Verdict::Foreign => &mut self.foreign,
                    Verdict::NoKey => &mut self.no_key,
                    Verdict::NotPackage => &mut self.others,
                };
                (count, seen.size)
            }
        };
        count.add(size);
    }
}

/// Directories that could not be read, and why.
type Faults = Vec<(PathBuf, Error)>;

/// How a walk goes.
pub(crate) struct Way {
    pub(crate) trees: Arc<Vec<Tree>>,
    pub(crate) links: Arc<Links>,
    /// Directories and links are made there before what is in them comes.
    pub(crate) second: Option<Arc<Second>>,
    /// Files for which a killed run has asked come last: who asks for them again may have to wait.
    pub(crate) journal: Option<Arc<Journal>>,
}

impl Way {
    /// To look at everything, in order.
    pub(crate) fn of(trees: Arc<Vec<Tree>>) -> Self {
        Self { trees, links: Arc::default(), second: None, journal: None }
    }
}

/// Walks in a thread of its own, so far ahead as the queue allows; ends when nobody takes any more.
pub(crate) fn feed(way: Way) -> (ReceiverStream<Vec<Task>>, JoinHandle<Faults>) {
    let (queue, tasks) = mpsc::channel(AHEAD);
    let walk = tokio::task::spawn_blocking(move || {
        let trees = &way.trees;
        let mut faults = Vec::new();
        let mut feeder = Feeder {
            trees,
            links: &way.links,
            journal: way.journal.as_deref(),
            taken: HashSet::new(),
            queue,
            last: Vec::new(),
        };
        for met in Walk::new(trees) {
            let made = way.second.as_ref().map_or(Ok(()), |second| make(second, trees, &met));
            if let (Err(error), Met::Directory(spot) | Met::Link(spot) | Met::Special(spot)) = (made, &met) {
                faults.push((spot.relative.clone(), error));
            }
            match met {
                Met::Names { inode, spots } => {
                    if feeder.send(inode, spots).is_none() {
                        return faults;
                    }
                }
                Met::Failed(path, error) => faults.push((path, error)),
                Met::Special(_) | Met::Directory(_) | Met::Left(_) | Met::Link(_) => {}
            }
        }
        for tasks in std::mem::take(&mut feeder.last) {
            if feeder.queue.blocking_send(tasks).is_err() {
                break;
            }
        }
        faults
    });
    (ReceiverStream::new(tasks), walk)
}

/// What a second tree has beside files.
fn make(second: &Second, trees: &[Tree], met: &Met) -> Result<(), Error> {
    match met {
        Met::Directory(spot) => second.make_directory(&spot.relative),
        Met::Link(spot) => {
            let tree = trees.get(spot.tree).ok_or(Error::Internal("a tree that is not there"))?;
            second.make_link(tree, &spot.relative)
        }
        Met::Special(_) => Err(Error::NotAFile { kind: FileKind::Unknown }),
        Met::Names { .. } | Met::Left(_) | Met::Failed(..) => Ok(()),
    }
}

struct Feeder<'a> {
    trees: &'a [Tree],
    links: &'a Links,
    journal: Option<&'a Journal>,
    /// Names that came with others of their file.
    taken: HashSet<Spot>,
    queue: mpsc::Sender<Vec<Task>>,
    last: Vec<Vec<Task>>,
}

impl Feeder<'_> {
    /// `None` when nobody takes any more.
    fn send(&mut self, inode: (u64, u64), spots: Vec<Spot>) -> Option<()> {
        let mut all = match self.links.0.get(&inode) {
            Some(known) => known.clone(),
            None => Vec::new(),
        };
        for spot in spots {
            if !all.contains(&spot) {
                all.push(spot);
            }
        }
        all.retain(|spot| !self.taken.contains(spot));
        if self.links.0.contains_key(&inode) {
            self.taken.extend(all.iter().cloned());
        }
        let others = all.len().saturating_sub(1);
        let task = |spot: Spot| {
            let entry = self.trees.get(spot.tree)?.entry(&spot.relative);
            Some(Task { entry, others, spot, inode })
        };
        let tasks: Vec<Task> = all.into_iter().filter_map(task).collect();
        let is_open =
            |task: &Task| self.journal.is_some_and(|journal| journal.is_open(&task.entry.real_path()));
        if tasks.iter().any(is_open) {
            self.last.push(tasks);
            return Some(());
        }
        if tasks.is_empty() { Some(()) } else { self.queue.blocking_send(tasks).ok() }
    }
}
