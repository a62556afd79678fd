//! After a campaign: who signed what is there now, what has to be made anew beside it, and what caches hold that is old.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::batch::{self, Stop};
use crate::campaign::Campaign;
use crate::campaign::look::{Seen, look};
use crate::campaign::plan::{LOOKS_MAX, Task, Way, feed};
use crate::campaign::record::Record;
use crate::campaign::tree::{Tree, open_all};
use crate::error::Error;

/// Files that are named at most.
const EXAMPLES_MAX: usize = 20;
/// Keys that are counted apart at most: more than any distribution has.
const KEYS_MAX: usize = 1000;
/// Directories beside which metadata of a repository is looked for at most.
const DIRECTORIES_MAX: usize = 1_000_000;

/// Who signed the packages of the trees, by their own word.
#[derive(Debug, Default)]
pub struct Check {
    /// Packages.
    pub packages: u64,
    /// Packages of each key, by fingerprint or key id; one that two keys have signed counts for both.
    pub keys: BTreeMap<String, u64>,
    /// The same for keys beyond those that are counted apart.
    pub further: u64,
    /// Packages that several keys have signed.
    pub several: u64,
    /// Packages without a signature.
    pub unsigned: u64,
    /// Packages that carry the old key.
    pub old: u64,
    /// Packages without a signature of the new key, where one is given.
    pub not_new: u64,
    /// Some of those that a campaign should have reached: with the old key, or, where none was named, without the new one.
    pub examples: Vec<PathBuf>,
    /// Files that could not be read, or are malformed.
    pub unreadable: u64,
    /// Whether a stop came first.
    pub is_stopped: bool,
}

impl Campaign {
    /// Reads the headers of all packages, of the second tree if one was built.
    ///
    /// # Errors
    /// The trees cannot be opened.
    pub async fn check(&self, stop: &Stop) -> Result<Check, Error> {
        let trees: Arc<Vec<Tree>> = match &self.second {
            Some(second) => Arc::new(open_all(&[second.path().to_owned()])?),
            None => Arc::clone(&self.trees),
        };
        let mut check = Check::default();
        let names_old = self.from.is_some();
        let (tasks, walk) = feed(Way::of(trees));
        let work = |_, task: Task| async move {
            let entry = task.entry;
            let keyed = self.first_path(&entry.real_path());
            let (keys, from, looked) = (Arc::clone(&self.keys), self.from.clone(), entry.clone());
            let look = tokio::task::spawn_blocking(move || look(&looked, &keyed, &keys, from.as_deref()));
            Some((entry.shown, look.await.unwrap_or(Err(Error::Internal("a worker thread ended")))))
        };
        batch::each_of(
            tasks,
            batch::open_max(self.jobs).min(LOOKS_MAX),
            stop,
            work,
            |_, _| None,
            |done| match done {
                Some((path, outcome)) => check.count(path, outcome, names_old),
                None => check.is_stopped = true,
            },
        )
        .await;
        check.is_stopped |= stop.is_asked();
        let faults = walk.await.unwrap_or_default();
        check.unreadable = check.unreadable.saturating_add(u64::try_from(faults.len()).unwrap_or(u64::MAX));
        Ok(check)
    }

    /// Directories with metadata of repositories in which packages were changed by this campaign.
    ///
    /// # Errors
    /// The journal cannot be read.
    pub fn repositories(&self) -> Result<BTreeSet<PathBuf>, Error> {
        let mut directories: BTreeSet<PathBuf> = BTreeSet::new();
        self.changes(&mut |path| {
            if let Some(directory) = path.parent()
                && !directories.contains(directory)
                && directories.len() < DIRECTORIES_MAX
            {
                directories.insert(directory.to_owned());
            }
            Ok(())
        })?;
        let has_metadata = |directory: &&Path| directory.join("repodata/repomd.xml").is_file();
        let nearest = |directory: &PathBuf| directory.ancestors().find(has_metadata).map(Path::to_owned);
        Ok(directories.iter().filter_map(nearest).collect())
    }

    /// Writes the paths of all files that this campaign changed, relative to their tree, one a line.
    ///
    /// # Errors
    /// The journal cannot be read, or the list not be written.
    pub fn write_changes(&self, list: &Path) -> Result<u64, Error> {
        let failed = |error| Error::write(list, 0, error);
        let mut file = BufWriter::new(File::create(list).map_err(failed)?);
        let mut count = 0u64;
        let roots: Vec<&Path> = match &self.second {
            Some(second) => vec![second.path()],
            None => self.trees().collect(),
        };
        self.changes(&mut |path| {
            let relative = roots.iter().find_map(|root| path.strip_prefix(root).ok()).unwrap_or(path);
            count = count.saturating_add(1);
            file.write_all(relative.as_os_str().as_bytes())?;
            file.write_all(b"\n")
        })?;
        let file = file.into_inner().map_err(|error| failed(error.into_error()))?;
        file.sync_all().map_err(|error| Error::sync(list, 0, error))?;
        Ok(count)
    }

    /// Every file that this campaign changed, in this run or an earlier one, where it lies now.
    fn changes(&self, take: &mut dyn FnMut(&Path) -> std::io::Result<()>) -> Result<(), Error> {
        let Some(journal) = &self.journal else { return Ok(()) };
        let mut failed = None;
        journal.records(&mut |record| {
            let path = match record {
                Record::Applied { path, .. } | Record::Linked { path, .. } => path,
                Record::Planned { .. } | Record::Asked { .. } | Record::Failed { .. } | Record::Finished => {
                    return Ok(());
                }
            };
            if failed.is_none() {
                let path = PathBuf::from(std::ffi::OsString::from_vec(path));
                failed = take(&self.result_path(&path)).err();
            }
            Ok(())
        })?;
        failed.map_or(Ok(()), |error| Err(Error::io("write the list of", journal.path(), error)))
    }

    /// Where the result of a file lies.
    fn result_path(&self, path: &Path) -> PathBuf {
        let moved = self.second.as_ref().and_then(|second| {
            let relative = self.trees().find_map(|tree| path.strip_prefix(tree).ok())?;
            Some(second.path().join(relative))
        });
        moved.unwrap_or_else(|| path.to_owned())
    }

    /// The file of the first tree for one of the second: its key is found by that.
    fn first_path(&self, path: &Path) -> PathBuf {
        let first = self.second.as_ref().and_then(|second| {
            let relative = path.strip_prefix(second.path()).ok()?;
            Some(self.trees().next()?.join(relative))
        });
        first.unwrap_or_else(|| path.to_owned())
    }
}

impl Check {
    fn count(&mut self, path: PathBuf, outcome: Result<Seen, Error>, names_old: bool) {
        let seen = match outcome {
            Ok(seen) => seen,
            Err(_) => {
                self.unreadable = self.unreadable.saturating_add(1);
                return;
            }
        };
        if seen.verdict == crate::campaign::Verdict::NotPackage {
            return;
        }
        self.packages = self.packages.saturating_add(1);
        if seen.issuers.is_empty() {
            self.unsigned = self.unsigned.saturating_add(1);
        }
        let add = |count: &mut u64, yes: bool| *count = count.saturating_add(yes.into());
        add(&mut self.old, seen.is_old);
        add(&mut self.several, seen.issuers.len() > 1);
        let is_not_new = !seen.is_new && seen.verdict != crate::campaign::Verdict::NoKey;
        add(&mut self.not_new, is_not_new);
        let is_left = if names_old { seen.is_old } else { is_not_new };
        if is_left && self.examples.len() < EXAMPLES_MAX {
            self.examples.push(path);
        }
        for issuer in seen.issuers {
            if self.keys.len() < KEYS_MAX || self.keys.contains_key(&issuer) {
                add(self.keys.entry(issuer).or_default(), true);
            } else {
                add(&mut self.further, true);
            }
        }
    }
}
