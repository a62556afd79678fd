//! A regular file as a source: its directory is opened first and held, then the file beneath it, so that what
//! is read, checked again and replaced is one and the same file whatever happens to the names above it.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use rustix::fs::{Advice, AtFlags, FileType, FlockOperation, Mode, OFlags, Stat};
use rustix::io::Errno;
use sealwright_formats::source::ReadAt;

use crate::batch::Stop;
use crate::error::{Error, FileKind};
use crate::source::cache::Brought;
use crate::source::{Entry, Place, open_beneath};

/// Reads from this many bytes on count as reading through a file: the kernel is told to read ahead.
const SEQUENTIAL_BYTES_MIN: usize = 128 << 10;
/// How often a file that was replaced between opening and locking is opened again.
const REOPEN_TIMES_MAX: usize = 8;

/// What must not have changed between reading a file and replacing it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Device number.
    pub device: u64,
    /// Inode number.
    pub inode: u64,
    /// Bytes.
    pub size: u64,
    /// Names of the inode.
    pub links: u64,
    /// Change time: seconds, nanoseconds.
    pub changed: (i64, u64),
    /// Modification time: seconds, nanoseconds.
    pub modified: (i64, u64),
}

impl Identity {
    /// Takes the parts that count from what the file system says.
    #[must_use]
    #[allow(clippy::useless_conversion, reason = "the types of these fields differ between architectures")]
    pub fn of(stat: &Stat) -> Self {
        Self {
            device: stat.st_dev,
            inode: stat.st_ino,
            size: u64::try_from(stat.st_size).unwrap_or_default(),
            links: stat.st_nlink.into(),
            changed: (stat.st_ctime, stat.st_ctime_nsec.into()),
            modified: (stat.st_mtime, stat.st_mtime_nsec.into()),
        }
    }

    /// The first difference that matters, in words; the number of links is compared only together with the
    /// change time, which moves with it.
    fn difference(&self, now: &Self) -> Option<&'static str> {
        if (self.device, self.inode) != (now.device, now.inode) {
            Some("another file has its name now")
        } else if self.size != now.size {
            Some("its size is another")
        } else if self.modified != now.modified {
            Some("its content was written to")
        } else if self.links != now.links {
            Some("a hard link was made or removed")
        } else if self.changed != now.changed {
            Some("its owner, mode or attributes were changed")
        } else {
            None
        }
    }
}

/// An open regular file with the directory it is in.
#[derive(Debug)]
pub struct SourceFile {
    file: File,
    dir: Arc<OwnedFd>,
    dir_path: PathBuf,
    name: OsString,
    stat: Stat,
    identity: Identity,
    notes: Vec<&'static str>,
    /// Its first bytes, once they were looked at: much of what is asked for of a header lies in them.
    head: OnceLock<Vec<u8>>,
    /// Whether the kernel was told that the file is read through.
    sequential: AtomicBool,
    /// Whether nobody needs its content again once it was read through.
    once: AtomicBool,
    /// What goes from the cache again.
    brought: OnceLock<Option<Brought>>,
}

impl SourceFile {
    /// Opens a file for reading.
    ///
    /// # Errors
    /// It is not there, not a regular file, or not readable: each by its own variant.
    pub fn open(entry: &Entry) -> Result<Self, Error> {
        let (dir, dir_path, name) = match &entry.place {
            Place::Named => open_directory_of_named(&entry.shown)?,
            Place::Found { root, relative } => {
                let parent = relative.parent().unwrap_or(Path::new(""));
                let dir_path = root.path.join(parent);
                let dir = open_beneath(root, parent, OFlags::PATH | OFlags::DIRECTORY)
                    .map_err(|error| Error::io("open the directory", &dir_path, error.into()))?;
                (dir, dir_path, relative.file_name().unwrap_or_default().to_owned())
            }
        };
        Self::open_in(Arc::new(dir), dir_path, name)
    }

    /// Opens and locks: no other signer has the file in hand from here until this value is dropped.
    ///
    /// # Errors
    /// As [`Self::open`]; [`Error::Locked`] if another signer has it.
    pub fn open_locked(entry: &Entry) -> Result<Self, Error> {
        for _ in 0..REOPEN_TIMES_MAX {
            let mut source = Self::open(entry)?;
            source.lock()?;
            // Another signer may have replaced it between our open and our lock.
            if source.still_named()? {
                return Ok(source);
            }
        }
        Err(Error::Changed { what: "it is replaced again and again" })
    }

    pub(crate) fn open_in(dir: Arc<OwnedFd>, dir_path: PathBuf, name: OsString) -> Result<Self, Error> {
        let path = dir_path.join(&name);
        let io = |error: Errno| match error {
            Errno::NOENT => Error::Missing,
            Errno::LOOP => Error::NotAFile { kind: FileKind::Link },
            Errno::NXIO => Error::NotAFile { kind: FileKind::Socket },
            _ => Error::io("read", &path, error.into()),
        };
        // Looked at first: opening a device can have effects.
        let before = rustix::fs::statat(&dir, &name, AtFlags::SYMLINK_NOFOLLOW).map_err(io)?;
        require_regular(&before)?;
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
        let file = File::from(rustix::fs::openat(&dir, &name, flags, Mode::empty()).map_err(io)?);
        let stat = rustix::fs::fstat(&file).map_err(io)?;
        require_regular(&stat)?;
        let identity = Identity::of(&stat);
        Ok(Self {
            file,
            dir,
            dir_path,
            name,
            stat,
            identity,
            notes: Vec::new(),
            head: OnceLock::new(),
            sequential: AtomicBool::new(false),
            once: AtomicBool::new(false),
            brought: OnceLock::new(),
        })
    }

    /// Says that what is read through is not needed again: it leaves the page cache, unless it was there before. Not for a
    /// file that is copied afterwards.
    pub(crate) fn read_once(&self) {
        self.once.store(true, Ordering::Relaxed);
    }

    fn lock(&mut self) -> Result<(), Error> {
        match rustix::fs::flock(&self.file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(()),
            Err(Errno::WOULDBLOCK) => Err(Error::Locked),
            // Network file systems want a file open for writing, or have no locks: the identity is checked
            // again before the write in any case.
            Err(
                Errno::BADF | Errno::NOLCK | Errno::OPNOTSUPP | Errno::INVAL | Errno::NOSYS | Errno::ROFS,
            ) => {
                self.notes.push("not locked: the file system has no locks");
                Ok(())
            }
            Err(error) => Err(Error::io("lock", &self.path(), error.into())),
        }
    }

    /// Whether its name still stands for the file that was opened.
    pub(crate) fn still_named(&self) -> Result<bool, Error> {
        match rustix::fs::statat(&self.dir, &self.name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(now) => Ok((now.st_dev, now.st_ino) == (self.stat.st_dev, self.stat.st_ino)),
            Err(Errno::NOENT) => Ok(false),
            Err(error) => Err(Error::io("look at", &self.path(), error.into())),
        }
    }

    /// Checks that the name still stands for the file that was read, unchanged.
    ///
    /// # Errors
    /// [`Error::Changed`].
    pub fn check_unchanged(&self) -> Result<(), Error> {
        let path = self.path();
        let io = |error: Errno| match error {
            Errno::NOENT => Error::Changed { what: "its name is gone" },
            _ => Error::io("look at", &path, error.into()),
        };
        let named = rustix::fs::statat(&self.dir, &self.name, AtFlags::SYMLINK_NOFOLLOW).map_err(io)?;
        match self.identity.difference(&Identity::of(&named)) {
            Some(what) => Err(Error::Changed { what }),
            None => Ok(()),
        }
    }

    /// The first `max` bytes, or fewer if the file is shorter.
    ///
    /// # Errors
    /// What reading says.
    pub fn head(&self, max: usize) -> Result<Vec<u8>, Error> {
        let len = usize::try_from(self.identity.size).unwrap_or(usize::MAX).min(max);
        let mut head = vec![0; len];
        self.read_exact_at(&mut head, 0).map_err(|error| Error::io("read", &self.path(), error))?;
        if len <= sealwright_formats::DETECT_BYTES {
            let _ = self.head.set(head.clone());
        }
        Ok(head)
    }

    /// What lies in the first bytes, if they are kept.
    fn kept(&self, len: usize, offset: u64) -> Option<&[u8]> {
        self.head.get()?.get(usize::try_from(offset).ok()?..)?.get(..len)
    }

    /// All of it, if it is not longer than `max`.
    ///
    /// # Errors
    /// What reading says, or [`Error::TooLarge`].
    pub fn read_all(&self, what: &'static str, max: u64) -> Result<Vec<u8>, Error> {
        if self.identity.size > max {
            return Err(Error::TooLarge { what, size: self.identity.size, limit: max });
        }
        self.head(usize::try_from(max).unwrap_or(usize::MAX))
    }

    /// The real path, links resolved.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.dir_path.join(&self.name)
    }

    /// The name without directories.
    #[must_use]
    pub fn name(&self) -> &OsStr {
        &self.name
    }

    /// What must not change.
    #[must_use]
    pub const fn identity(&self) -> &Identity {
        &self.identity
    }

    /// What a user should know about how it was opened.
    #[must_use]
    pub fn notes(&self) -> &[&'static str] {
        &self.notes
    }

    pub(crate) const fn dir(&self) -> &Arc<OwnedFd> {
        &self.dir
    }

    pub(crate) fn dir_path(&self) -> &Path {
        &self.dir_path
    }

    pub(crate) const fn file(&self) -> &File {
        &self.file
    }

    pub(crate) const fn stat(&self) -> &Stat {
        &self.stat
    }
}

impl ReadAt for SourceFile {
    fn len(&self) -> u64 {
        self.identity.size
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        if buf.len() < SEQUENTIAL_BYTES_MIN {
            if let Some(kept) = self.kept(buf.len(), offset) {
                buf.copy_from_slice(kept);
                return Ok(());
            }
            return self.file.read_exact_at(buf, offset);
        }
        if !self.sequential.swap(true, Ordering::Relaxed) {
            if self.once.load(Ordering::Relaxed) {
                self.brought.get_or_init(|| Brought::look(&self.file, self.identity.size));
            }
            // Advice only: a file system without it reads all the same.
            let _ = rustix::fs::fadvise(&self.file, 0, None, Advice::Sequential);
        }
        self.file.read_exact_at(buf, offset)?;
        if let Some(Some(brought)) = self.brought.get() {
            let end = offset.saturating_add(u64::try_from(buf.len()).unwrap_or(u64::MAX));
            brought.drop_before(&self.file, end, self.identity.size);
        }
        Ok(())
    }
}

/// A file that is read no further once a stop is asked for: of a long one, hashing ends within a chunk.
pub(crate) struct Until<'a> {
    pub(crate) source: &'a SourceFile,
    pub(crate) stop: Option<Stop>,
}

impl Until<'_> {
    /// Whether a stop was asked for.
    pub(crate) fn ended(&self) -> bool {
        self.stop.as_ref().is_some_and(Stop::is_asked)
    }
}

impl ReadAt for Until<'_> {
    fn len(&self) -> u64 {
        self.source.len()
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        if self.ended() {
            return Err(io::Error::other("stopped"));
        }
        self.source.read_exact_at(buf, offset)
    }
}

/// A named file: links are followed first, then the real directory is opened and held.
fn open_directory_of_named(path: &Path) -> Result<(OwnedFd, PathBuf, OsString), Error> {
    if let Some(opened) = open_directory_of_plain(path) {
        return Ok(opened);
    }
    let real = path.canonicalize().map_err(|error| missing_or(path, error))?;
    let (Some(parent), Some(name)) = (real.parent(), real.file_name()) else {
        return Err(Error::NotAFile { kind: FileKind::Directory });
    };
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let dir = rustix::fs::open(parent, flags, Mode::empty())
        .map_err(|error| Error::io("open the directory", parent, error.into()))?;
    Ok((dir, parent.to_owned(), name.to_owned()))
}

/// The same for a name that is no link itself, as most are: the kernel follows the links of the directory, and says where
/// it came to, instead of a question for each part of the path. `None`: the long way tells what is wrong, if anything is.
fn open_directory_of_plain(path: &Path) -> Option<(OwnedFd, PathBuf, OsString)> {
    let (parent, name) = (path.parent()?, path.file_name()?);
    // Not with a slash behind it, which only a directory may have.
    path.as_os_str().as_bytes().ends_with(name.as_bytes()).then_some(())?;
    let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
    let dir =
        rustix::fs::open(parent, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).ok()?;
    let stat = rustix::fs::statat(&dir, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return None;
    }
    let link = rustix::fs::readlink(format!("/proc/self/fd/{}", dir.as_raw_fd()), Vec::new()).ok()?;
    let real = PathBuf::from(OsString::from_vec(link.into_bytes()));
    // What is mounted elsewhere, moved or removed has no path, or that of another directory.
    let there = rustix::fs::stat(&real).ok().filter(|_| real.is_absolute())?;
    let here = rustix::fs::fstat(&dir).ok()?;
    ((there.st_dev, there.st_ino) == (here.st_dev, here.st_ino)).then(|| (dir, real, name.to_owned()))
}

fn missing_or(path: &Path, error: io::Error) -> Error {
    match path.read_link() {
        Ok(target) if error.kind() == io::ErrorKind::NotFound => Error::DanglingLink { target },
        Ok(_) | Err(_) if error.kind() == io::ErrorKind::NotFound => Error::Missing,
        Ok(_) | Err(_) => Error::io("find", path, error),
    }
}

fn require_regular(stat: &Stat) -> Result<(), Error> {
    let kind = match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => return Ok(()),
        FileType::Directory => FileKind::Directory,
        FileType::Symlink => FileKind::Link,
        FileType::Fifo => FileKind::Fifo,
        FileType::Socket => FileKind::Socket,
        FileType::CharacterDevice | FileType::BlockDevice => FileKind::Device,
        FileType::Unknown => FileKind::Unknown,
    };
    Err(Error::NotAFile { kind })
}
