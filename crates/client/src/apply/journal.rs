//! The state directory, for its owner alone, and the undo journals in it.
//!
//! A journal named `undo-...` is whole: it was written and synced under another name (`new-...`). Its process holds
//! a lock on it as long as it lives; so a journal without a lock is one of a process that died. The file `lock` is
//! held while a journal is made or looked for, so that none is seen between its creation and its lock.
//!
//! Space for records is reserved before signatures are asked for, in one file without a name for all of them.

use std::ffi::{OsStr, OsString};
use std::fs::{DirBuilder, File};
use std::io::{self, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::fs::{AtFlags, Dir, FlockOperation, Mode, OFlags};
use rustix::io::Errno;

use crate::apply::space::Ballast;
use crate::apply::undo::{self, JOURNAL_BYTES_MAX, Malformed, RECORDS_MAX, Record};
use crate::error::Error;

const LOCK: &str = "lock";
const WHOLE: &str = "undo-";
const BEING_WRITTEN: &str = "new-";
/// Journals that one recovery looks at: as many processes can have died in between.
const JOURNALS_MAX: usize = 100_000;

/// A directory for undo records that nobody else may enter.
#[derive(Debug)]
pub struct StateDirectory {
    fd: OwnedFd,
    path: PathBuf,
    ballast: Mutex<Option<Ballast>>,
}

/// Space for the undo record of one file, until it is written or not needed any more.
#[derive(Debug)]
pub(crate) struct Reserved {
    directory: Arc<StateDirectory>,
    bytes: u64,
}

impl Drop for Reserved {
    fn drop(&mut self) {
        let mut ballast = self.directory.ballast.lock().unwrap_or_else(PoisonError::into_inner);
        if !ballast.as_mut().is_some_and(|ballast| ballast.give_back(self.bytes)) {
            *ballast = None;
        }
    }
}

/// What is found in the state directory of a process that died.
#[derive(Debug)]
pub(crate) enum Found {
    /// A journal, locked by us now.
    Whole(Journal, Vec<Record>),
    /// One that is damaged or of a later release; it is left alone.
    Damaged(PathBuf, Malformed),
    /// One that cannot be read.
    Unreadable(PathBuf, io::Error),
}

impl StateDirectory {
    /// Makes it where it is not there (mode 0700).
    ///
    /// # Errors
    /// It cannot be made, or others may enter it: [`Error::StateDirectory`].
    pub fn open(path: &Path) -> Result<Self, Error> {
        let failed = |source| Error::StateDirectory { path: path.to_owned(), source };
        DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(failed)?;
        Self::open_existing(path)?.ok_or_else(|| failed(io::ErrorKind::NotFound.into()))
    }

    /// The same, but `None` where it is not there.
    pub(crate) fn open_existing(path: &Path) -> Result<Option<Self>, Error> {
        let failed = |source| Error::StateDirectory { path: path.to_owned(), source };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let fd = match rustix::fs::open(path, flags, Mode::empty()) {
            Ok(fd) => fd,
            Err(Errno::NOENT) => return Ok(None),
            Err(error) => return Err(failed(error.into())),
        };
        let stat = rustix::fs::fstat(&fd).map_err(|error| failed(error.into()))?;
        let mode = Mode::from_raw_mode(stat.st_mode);
        let me = rustix::process::geteuid().as_raw();
        if stat.st_uid != me || mode.intersects(Mode::RWXG | Mode::RWXO) {
            let (owner, mode) = (stat.st_uid, mode.bits());
            return Err(Error::StateDirectoryOpen { path: path.to_owned(), owner, mode });
        }
        Ok(Some(Self { fd, path: path.to_owned(), ballast: Mutex::default() }))
    }

    /// Takes space for a record of at most so many bytes.
    ///
    /// # Errors
    /// Space or quota is short.
    pub(crate) fn reserve(self: &Arc<Self>, bytes: u64) -> Result<Reserved, Error> {
        let write = |error: io::Error| Error::write(&self.path, bytes, error);
        let mut ballast = self.ballast.lock().unwrap_or_else(PoisonError::into_inner);
        if ballast.is_none() {
            *ballast = Some(Ballast::new(self.nameless().map_err(|error| write(error.into()))?));
        }
        if let Some(ballast) = ballast.as_mut() {
            ballast.add(bytes).map_err(write)?;
        }
        drop(ballast);
        Ok(Reserved { directory: Arc::clone(self), bytes })
    }

    /// As [`Self::begin`], with space that was reserved for these records: where there is no other it is given back
    /// first, so that they take its place.
    ///
    /// # Errors
    /// As [`Self::begin`].
    pub(crate) fn begin_reserved(
        self: &Arc<Self>,
        records: &[Record],
        reserved: Vec<Reserved>,
    ) -> Result<Journal, Error> {
        match self.begin(records) {
            Err(Error::NoSpace { .. } | Error::Quota { .. }) if !reserved.is_empty() => {
                drop(reserved);
                self.with_ballast(Ballast::give_back_slack);
                match self.begin(records) {
                    // ext4 hands out blocks that were freed only when its own journal has been written.
                    Err(Error::NoSpace { .. } | Error::Quota { .. }) => {
                        let _ = rustix::fs::syncfs(&self.fd);
                        self.begin(records)
                    }
                    outcome => outcome,
                }
            }
            outcome => outcome,
        }
    }

    /// Does this with the reserved space, if there is any.
    fn with_ballast(&self, change: impl FnOnce(&mut Ballast)) {
        let mut ballast = self.ballast.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(ballast) = ballast.as_mut() {
            change(ballast);
        }
    }

    /// A file that is gone with this process.
    fn nameless(&self) -> rustix::io::Result<File> {
        // Killed in between, it is a journal that was never finished.
        let (new, _) = names();
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let file = rustix::fs::openat(&self.fd, &new, flags, Mode::RUSR | Mode::WUSR)?;
        match rustix::fs::unlinkat(&self.fd, &new, AtFlags::empty()) {
            // Another process took it for one of those.
            Ok(()) | Err(Errno::NOENT) => Ok(File::from(file)),
            Err(error) => Err(error),
        }
    }

    /// Writes and syncs a journal: after this, what it describes may be written.
    ///
    /// # Errors
    /// Space or quota is short.
    pub(crate) fn begin(self: &Arc<Self>, records: &[Record]) -> Result<Journal, Error> {
        let bytes = undo::encode(records);
        let need = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        let write = |error: io::Error| Error::write(&self.path, need, error);
        if records.len() > RECORDS_MAX || need > JOURNAL_BYTES_MAX {
            return Err(Error::Internal("an undo journal beyond its limits"));
        }
        let guard = self.lock().map_err(|error| write(error.into()))?;
        let (new, name) = names();
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let file = rustix::fs::openat(&self.fd, &new, flags, Mode::RUSR | Mode::WUSR)
            .map_err(|error| write(error.into()))?;
        let mut journal =
            Journal { directory: Arc::clone(self), name: new, file: File::from(file), keep: false };
        rustix::fs::flock(&journal.file, FlockOperation::NonBlockingLockExclusive)
            .map_err(|error| write(error.into()))?;
        drop(guard);
        journal.file.write_all(&bytes).map_err(write)?;
        rustix::fs::fsync(&journal.file).map_err(|error| write(error.into()))?;
        rustix::fs::renameat(&self.fd, &journal.name, &self.fd, &name)
            .map_err(|error| write(error.into()))?;
        journal.name = name;
        rustix::fs::fsync(&self.fd).map_err(|error| write(error.into()))?;
        Ok(journal)
    }

    /// The journals of processes that died, newest first: where one file is in two, the newer tells what it is now.
    ///
    /// # Errors
    /// The directory cannot be read.
    pub(crate) fn dead(self: &Arc<Self>) -> Result<Vec<Found>, Error> {
        let failed = |error: Errno| Error::StateDirectory { path: self.path.clone(), source: error.into() };
        let _guard = self.lock().map_err(failed)?;
        let mut names: Vec<OsString> = Vec::new();
        for item in Dir::read_from(&self.fd).map_err(failed)?.take(JOURNALS_MAX) {
            let name = crate::source::os_name(item.map_err(failed)?.file_name());
            let text = name.as_encoded_bytes();
            if text.starts_with(WHOLE.as_bytes()) || text.starts_with(BEING_WRITTEN.as_bytes()) {
                names.push(name);
            }
        }
        names.sort();
        Ok(names.into_iter().rev().filter_map(|name| self.take(name)).collect())
    }

    /// Locks one; `None` if its process lives, or if it was never finished (then it goes).
    fn take(self: &Arc<Self>, name: OsString) -> Option<Found> {
        let path = self.path.join(&name);
        let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let file = match rustix::fs::openat(&self.fd, &name, flags, Mode::empty()) {
            Ok(file) => File::from(file),
            Err(Errno::NOENT) => return None,
            Err(error) => return Some(Found::Unreadable(path, error.into())),
        };
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => return None,
            Err(error) => return Some(Found::Unreadable(path, error.into())),
        }
        // Renamed or finished while we opened it.
        let named = rustix::fs::statat(&self.fd, &name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        let opened = rustix::fs::fstat(&file).ok()?;
        if (named.st_dev, named.st_ino) != (opened.st_dev, opened.st_ino) {
            return None;
        }
        if !name.as_encoded_bytes().starts_with(WHOLE.as_bytes()) {
            // Nothing was written under it yet.
            let _ = rustix::fs::unlinkat(&self.fd, &name, AtFlags::empty());
            return None;
        }
        let mut bytes = Vec::new();
        if let Err(error) = (&file).take(JOURNAL_BYTES_MAX.saturating_add(1)).read_to_end(&mut bytes) {
            return Some(Found::Unreadable(path, error));
        }
        match undo::parse(&bytes) {
            Ok(records) => {
                let journal = Journal { directory: Arc::clone(self), name, file, keep: true };
                Some(Found::Whole(journal, records))
            }
            Err(error) => Some(Found::Damaged(path, error)),
        }
    }

    fn lock(&self) -> rustix::io::Result<OwnedFd> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let lock = rustix::fs::openat(&self.fd, LOCK, flags, Mode::RUSR | Mode::WUSR)?;
        rustix::fs::flock(&lock, FlockOperation::LockExclusive)?;
        Ok(lock)
    }
}

/// A journal in the state directory, locked while this value lives.
#[derive(Debug)]
pub(crate) struct Journal {
    directory: Arc<StateDirectory>,
    name: OsString,
    file: File,
    /// Whether it must outlive us.
    keep: bool,
}

impl Journal {
    /// From here on files are written: it stays, whatever happens, until it is settled.
    pub(crate) const fn armed(mut self) -> Self {
        self.keep = true;
        self
    }

    /// Ends it: what could not be settled goes into a journal of its own, which stays; returns that one's path.
    ///
    /// # Errors
    /// It cannot be written; then this one stays.
    pub(crate) fn settle(mut self, unsettled: &[Record]) -> Result<Option<PathBuf>, Error> {
        let path = match unsettled {
            [] => None,
            records => {
                let mut rest = self.directory.begin(records)?;
                rest.keep = true;
                Some(rest.path())
            }
        };
        self.keep = false;
        Ok(path)
    }

    /// Where it lies.
    pub(crate) fn path(&self) -> PathBuf {
        self.directory.path.join(&self.name)
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        // A power cut can bring the name back: recovery then finds every sector new, and only removes it.
        if !self.keep
            && let Err(error) = rustix::fs::unlinkat(&self.directory.fd, &self.name, AtFlags::empty())
        {
            tracing::warn!(path = %self.path().display(), error = %error, "undo record not removed");
        }
        // For the next one, if its space was given back for this one.
        self.directory.with_ballast(Ballast::take_slack);
    }
}

/// Names of one journal, while it is written and after; they sort by time.
fn names() -> (OsString, OsString) {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let mut random = [0; 8];
    let _ = rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty());
    let id = format!("{:020}-{}", since.as_nanos(), sealwright_crypto::digest::to_hex(&random));
    let name = |prefix: &str| [OsStr::new(prefix), OsStr::new(&id)].iter().copied().collect();
    (name(BEING_WRITTEN), name(WHOLE))
}
