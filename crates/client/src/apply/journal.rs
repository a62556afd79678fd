//! The state directory, for its owner alone, and the undo journals in it.
//!
//! A journal named `undo-...` is whole: it was written and synced under another name (`new-...`). Its process holds
//! a lock on it as long as it lives; so a journal without a lock is one of a process that died. The file `lock` is
//! held while a journal is made or looked for, so that none is seen between its creation and its lock.
//!
//! Space for records is reserved before signatures are asked for, in one file for all of them, which takes a journal
//! itself where there is no other space (`spare-...`, see `spare.rs`).

use std::cmp::Reverse;
use std::ffi::{OsStr, OsString};
use std::fs::{DirBuilder, File};
use std::io::{self, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::fs::{AtFlags, Dir, FlockOperation, Mode, OFlags};
use rustix::io::Errno;

use crate::apply::length;
use crate::apply::spare::{self, Content, Spare};
use crate::apply::undo::{self, JOURNAL_BYTES_MAX, Malformed, RECORDS_MAX, Record};
use crate::error::Error;

const LOCK: &str = "lock";
const WHOLE: &str = "undo-";
const BEING_WRITTEN: &str = "new-";
const SPARE: &str = "spare-";
/// Journals that one recovery looks at: as many processes can have died in between.
const JOURNALS_MAX: usize = 100_000;

/// A directory for undo records that nobody else may enter.
#[derive(Debug)]
pub struct StateDirectory {
    fd: OwnedFd,
    path: PathBuf,
    space: Mutex<Space>,
    /// Signalled when the spare file can take another journal.
    spare_is_free: Condvar,
}

/// Space that is reserved for records.
#[derive(Debug, Default)]
struct Space {
    spare: Option<Spare>,
    /// Bytes that were asked for and not given back.
    asked: u64,
    /// Whether a journal is in the spare file.
    in_use: bool,
}

/// Space for the undo record of one file, until it is written or not needed any more.
#[derive(Debug)]
pub(crate) struct Reserved {
    directory: Arc<StateDirectory>,
    bytes: u64,
}

impl Drop for Reserved {
    fn drop(&mut self) {
        let mut space = self.directory.space();
        space.asked = space.asked.saturating_sub(self.bytes);
        let (asked, is_in_use) = (space.asked, space.in_use);
        match &mut space.spare {
            Some(_) if asked == 0 => self.directory.remove_spare(&mut space),
            // Not below a journal that is in it.
            Some(spare) if !is_in_use => spare.shrink(asked),
            _ => {}
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
        Ok(Some(Self { fd, path: path.to_owned(), space: Mutex::default(), spare_is_free: Condvar::new() }))
    }

    /// Takes space for a record of at most so many bytes.
    ///
    /// # Errors
    /// Space or quota is short.
    pub(crate) fn reserve(self: &Arc<Self>, bytes: u64) -> Result<Reserved, Error> {
        let write = |error: io::Error| Error::write(&self.path, bytes, error);
        let mut space = self.space();
        if space.spare.is_none() {
            let (name, _) = names(SPARE);
            let file = self.create(&name).map_err(|error| write(error.into()))?;
            space.spare = Some(Spare::new(file, name));
        }
        let asked = space.asked.saturating_add(bytes);
        let grown = space.spare.as_mut().map_or(Ok(()), |spare| spare.grow(asked));
        match grown {
            Ok(()) => space.asked = asked,
            Err(_) if space.asked == 0 => self.remove_spare(&mut space),
            Err(_) => {}
        }
        drop(space);
        grown.map_err(write)?;
        Ok(Reserved { directory: Arc::clone(self), bytes })
    }

    /// As [`Self::begin`], with space that was reserved for these records: they are written there where there is no other.
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
                self.begin_in_spare(records, reserved)
            }
            outcome => outcome,
        }
    }

    /// One at a time: whoever comes second waits for the end of the first.
    fn begin_in_spare(
        self: &Arc<Self>,
        records: &[Record],
        reserved: Vec<Reserved>,
    ) -> Result<Journal, Error> {
        let bytes = undo::encode(records);
        let write = |error: io::Error| Error::write(&self.path, length(&bytes), error);
        let waited = self.spare_is_free.wait_while(self.space(), |space| space.in_use);
        let mut space = waited.unwrap_or_else(PoisonError::into_inner);
        // There is none if an earlier journal had to stay in it.
        let full = || write(io::ErrorKind::StorageFull.into());
        let spare = space.spare.as_mut().ok_or_else(full)?;
        spare.write(&bytes).map_err(write)?;
        let name = spare.name().clone();
        space.in_use = true;
        drop(space);
        let place = Place::Spare { bytes: length(&bytes), _reserved: reserved };
        let journal = Journal { directory: Arc::clone(self), name, place, keep: false };
        let named = rustix::fs::fsync(&self.fd).map_err(io::Error::from);
        named.map_err(write)?;
        Ok(journal)
    }

    fn end_in_spare(&self, bytes: u64, keep: bool) {
        let mut space = self.space();
        space.in_use = false;
        if !keep {
            space.spare.iter().for_each(Spare::clear);
        } else if let Some(spare) = space.spare.take() {
            spare.shrink_to(bytes);
        }
        drop(space);
        self.spare_is_free.notify_all();
    }

    fn space(&self) -> MutexGuard<'_, Space> {
        self.space.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn remove_spare(&self, space: &mut Space) {
        if let Some(spare) = space.spare.take() {
            // One that stays is removed by the next run.
            let _ = rustix::fs::unlinkat(&self.fd, spare.name(), AtFlags::empty());
        }
    }

    /// A file that is locked: it is taken for one of a living process.
    fn create(&self, name: &OsStr) -> rustix::io::Result<File> {
        let _guard = self.lock()?;
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let file = rustix::fs::openat(&self.fd, name, flags, Mode::RUSR | Mode::WUSR)?;
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(File::from(file)),
            Err(error) => {
                let _ = rustix::fs::unlinkat(&self.fd, name, AtFlags::empty());
                Err(error)
            }
        }
    }

    /// Writes and syncs a journal: after this, what it describes may be written.
    ///
    /// # Errors
    /// Space or quota is short.
    pub(crate) fn begin(self: &Arc<Self>, records: &[Record]) -> Result<Journal, Error> {
        let bytes = undo::encode(records);
        let need = length(&bytes);
        let write = |error: io::Error| Error::write(&self.path, need, error);
        if records.len() > RECORDS_MAX || need > JOURNAL_BYTES_MAX {
            return Err(Error::Internal("an undo journal beyond its limits"));
        }
        let (new, name) = names(BEING_WRITTEN);
        let file = self.create(&new).map_err(|error| write(error.into()))?;
        let place = Place::Own { file };
        let mut journal = Journal { directory: Arc::clone(self), name: new, place, keep: false };
        if let Place::Own { file } = &mut journal.place {
            file.write_all(&bytes).map_err(write)?;
            rustix::fs::fsync(&*file).map_err(|error| write(error.into()))?;
        }
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
            if [WHOLE, BEING_WRITTEN, SPARE].iter().any(|start| text.starts_with(start.as_bytes())) {
                names.push(name);
            }
        }
        names.sort();
        let mut found: Vec<(u64, Found)> =
            names.into_iter().rev().filter_map(|name| self.take(name)).collect();
        found.sort_by_key(|(time, _)| Reverse(*time));
        Ok(found.into_iter().map(|(_, found)| found).collect())
    }

    /// Locks one, and says when it was written; `None` if its process lives, or if it was never finished (then it goes).
    fn take(self: &Arc<Self>, name: OsString) -> Option<(u64, Found)> {
        let path = self.path.join(&name);
        let time = time(&name);
        let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let file = match rustix::fs::openat(&self.fd, &name, flags, Mode::empty()) {
            Ok(file) => File::from(file),
            Err(Errno::NOENT) => return None,
            Err(error) => return Some((time, Found::Unreadable(path, error.into()))),
        };
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => return None,
            Err(error) => return Some((time, Found::Unreadable(path, error.into()))),
        }
        // Renamed or finished while we opened it.
        let named = rustix::fs::statat(&self.fd, &name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        let opened = rustix::fs::fstat(&file).ok()?;
        if (named.st_dev, named.st_ino) != (opened.st_dev, opened.st_ino) {
            return None;
        }
        let (time, parsed) = match content(&name, &file) {
            Ok(Content::Nothing) => {
                // Nothing was written under it yet.
                let _ = rustix::fs::unlinkat(&self.fd, &name, AtFlags::empty());
                return None;
            }
            Ok(Content::Journal { time, bytes }) => (time, undo::parse(&bytes)),
            Ok(Content::OtherHeader) => (time, Err(Malformed::Version)),
            Ok(Content::OtherLength) => (time, Err(Malformed::Length)),
            Err(error) => return Some((time, Found::Unreadable(path, error))),
        };
        let found = match parsed {
            Ok(records) => {
                let journal =
                    Journal { directory: Arc::clone(self), name, place: Place::Own { file }, keep: true };
                Found::Whole(journal, records)
            }
            Err(error) => Found::Damaged(path, error),
        };
        Some((time, found))
    }

    fn lock(&self) -> rustix::io::Result<OwnedFd> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let lock = rustix::fs::openat(&self.fd, LOCK, flags, Mode::RUSR | Mode::WUSR)?;
        rustix::fs::flock(&lock, FlockOperation::LockExclusive)?;
        Ok(lock)
    }
}

/// What a file of this name holds.
fn content(name: &OsStr, file: &File) -> io::Result<Content> {
    let starts_with = |start: &str| name.as_encoded_bytes().starts_with(start.as_bytes());
    if starts_with(SPARE) {
        return spare::read(file);
    }
    if !starts_with(WHOLE) {
        return Ok(Content::Nothing);
    }
    let mut bytes = Vec::new();
    file.take(JOURNAL_BYTES_MAX.saturating_add(1)).read_to_end(&mut bytes)?;
    Ok(Content::Journal { time: time(name), bytes })
}

/// A journal in the state directory, locked while this value lives.
#[derive(Debug)]
pub(crate) struct Journal {
    directory: Arc<StateDirectory>,
    name: OsString,
    place: Place,
    /// Whether it must outlive us.
    keep: bool,
}

#[derive(Debug)]
enum Place {
    /// In a file of its own, held by its lock.
    Own { file: File },
    /// In the spare file of its directory, which keeps space for it as long.
    Spare { bytes: u64, _reserved: Vec<Reserved> },
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
        match self.place {
            // A power cut can bring the name back: recovery then finds every sector new, and only removes it.
            Place::Own { .. } if !self.keep => {
                if let Err(error) = rustix::fs::unlinkat(&self.directory.fd, &self.name, AtFlags::empty()) {
                    tracing::warn!(path = %self.path().display(), error = %error, "undo record not removed");
                }
            }
            Place::Own { .. } => {}
            Place::Spare { bytes, .. } => self.directory.end_in_spare(bytes, self.keep),
        }
    }
}

/// Names of one file, while it is written and when it is whole; they sort by time.
fn names(first: &str) -> (OsString, OsString) {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let mut random = [0; 8];
    let _ = rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty());
    let id = format!("{:020}-{}", since.as_nanos(), sealwright_crypto::digest::to_hex(&random));
    let name = |prefix: &str| [OsStr::new(prefix), OsStr::new(&id)].iter().copied().collect();
    (name(first), name(WHOLE))
}

/// When a file of this name was made, in nanoseconds since 1970.
fn time(name: &OsStr) -> u64 {
    let text = name.to_string_lossy();
    text.split('-').nth(1).and_then(|time| time.parse().ok()).unwrap_or_default()
}
