//! Carries edits out, so that a file is never half written and never torn for a reader.
//!
//! ```text
//! stage:  temporary beside the target <- clone (reflink), or a copy, or reserved space if bytes will move
//!         owner, attributes and mode are tried on it, or the file is refused
//!         ... only now a signature is asked for ...
//! commit: changed bytes -> times, mode -> fsync -> source unchanged? -> rename -> fsync of the directory
//!         -> re-read of the changed bytes
//! ```
//!
//! Whatever fails, the temporary is removed and the target stays as it was; only the re-read can fail after the
//! rename. The file's other hard links keep the old content: [`Written::other_links`] says so.

mod copy;
mod metadata;
mod output;
pub mod sidecar;
mod temporary;

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::num::NonZeroU64;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{Access, Advice, AtFlags, FallocateFlags, IFlags, Mode, OFlags};
use rustix::io::Errno;
use sealwright_formats::source::ReadAt as _;
use sealwright_formats::splice::Edits;

use crate::apply::temporary::Temporary;
use crate::error::Error;
use crate::source::file::SourceFile;

pub use crate::apply::output::OutputDirectory;

/// Where the result goes.
#[derive(Debug)]
pub struct Target {
    dir: OwnedFd,
    dir_path: PathBuf,
    name: OsString,
    role: Role,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    /// The result takes the name of the source.
    ReplacesSource,
    /// The result is another file; the source stays.
    Copy,
}

impl Target {
    /// The source itself.
    ///
    /// # Errors
    /// Too many open files.
    pub fn replacing(source: &SourceFile) -> Result<Self, Error> {
        let dir = dup(source.dir()).map_err(|error| Error::io("hold", source.dir_path(), error.into()))?;
        let dir_path = source.dir_path().to_owned();
        Ok(Self { dir, dir_path, name: source.name().to_owned(), role: Role::ReplacesSource })
    }

    /// The path of the result.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.dir_path.join(&self.name)
    }

    /// Whether a temporary could be made there and the result renamed; nothing is written.
    ///
    /// # Errors
    /// As for [`Staged::stage`].
    pub fn check_writable(&self, source: &SourceFile) -> Result<(), Error> {
        self.check(source)?;
        match rustix::fs::accessat(&self.dir, ".", Access::WRITE_OK | Access::EXEC_OK, AtFlags::EACCESS) {
            Ok(()) => Ok(()),
            Err(error) => Err(temporary::create_error(&self.dir, &self.dir_path, error)),
        }
    }

    /// Refuses what a rename would fail at, or wrongly do, later.
    fn check(&self, source: &SourceFile) -> Result<(), Error> {
        match self.role {
            Role::ReplacesSource => {
                let flags = rustix::fs::ioctl_getflags(source.file()).unwrap_or(IFlags::empty());
                if flags.intersects(IFlags::IMMUTABLE | IFlags::APPEND) {
                    return Err(Error::Immutable);
                }
                self.check_sticky(source)
            }
            Role::Copy => match rustix::fs::statat(&self.dir, &self.name, AtFlags::empty()) {
                Ok(there) if (there.st_dev, there.st_ino) == (source.stat().st_dev, source.stat().st_ino) => {
                    Err(Error::OutputIsSource { path: self.path() })
                }
                Ok(_) | Err(_) => Ok(()),
            },
        }
    }

    /// In a sticky directory (like /tmp) only the owner of file or directory may replace a file.
    fn check_sticky(&self, source: &SourceFile) -> Result<(), Error> {
        let stat = rustix::fs::fstat(&self.dir)
            .map_err(|error| Error::io("look at the directory", &self.dir_path, error.into()))?;
        let me = rustix::process::geteuid().as_raw();
        let sticky = Mode::from_raw_mode(stat.st_mode).contains(Mode::SVTX);
        if sticky && me != 0 && me != stat.st_uid && me != source.stat().st_uid {
            return Err(Error::DirectoryNotWritable(Box::new(temporary::not_writable(
                &self.dir,
                &self.dir_path,
                Errno::PERM,
            ))));
        }
        Ok(())
    }
}

/// How the content of the temporary came to be there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// Shares the old file's blocks: costs nothing.
    Clone,
    /// Copied by the kernel or by us.
    Copy,
}

impl Method {
    /// The word in JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Clone => "clone",
            Self::Copy => "copy",
        }
    }
}

/// What [`Staged::commit`] did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// The file that holds the result.
    pub path: PathBuf,
    /// Its size in bytes.
    pub size: u64,
    /// Bytes that were really written; cloned ones are not.
    pub bytes: u64,
    /// How unchanged bytes came there.
    pub method: Method,
    /// Other names of the old inode; they keep the old content.
    pub other_links: u64,
    /// What a user should know: "owner not kept".
    pub notes: Vec<&'static str>,
}

/// Everything is ready to be written: space, metadata and permission were tried. Dropping it removes the
/// temporary.
#[derive(Debug)]
pub struct Staged {
    source: Arc<SourceFile>,
    target: Target,
    temporary: Temporary,
    content: Content,
    bytes: u64,
    mode: Mode,
    notes: Vec<&'static str>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Content {
    /// The temporary has the old content.
    Whole(Method),
    /// Space for the new content is reserved, nothing is in it: bytes will move, so each is written once, later.
    Reserved,
}

impl Staged {
    /// Makes the temporary. `growth_max` is how many bytes longer than the source the result can be.
    ///
    /// # Errors
    /// The directory cannot be written, space or quota is short, or owner, mode or attributes cannot be kept.
    pub fn stage(source: Arc<SourceFile>, target: Target, growth_max: u64) -> Result<Self, Error> {
        target.check(&source)?;
        let temporary = Temporary::create(&target.dir, &target.dir_path, Mode::RUSR | Mode::WUSR)?;
        let file = temporary.file();
        let len_max = source.len().saturating_add(growth_max);
        let mut bytes = 0;
        let no_space = |error: io::Error| Error::write(&target.dir_path, len_max, error);
        let content = if growth_max > 0 && reserve(file, len_max).map_err(no_space)? {
            Content::Reserved
        } else if rustix::fs::ioctl_ficlone(file, source.file()).is_ok() {
            Content::Whole(Method::Clone)
        } else {
            bytes = copy::range(source.file(), file, (0, 0), source.len()).map_err(no_space)?;
            copy::zeros(file, source.len(), growth_max).map_err(no_space)?;
            Content::Whole(Method::Copy)
        };
        let rule = match target.role {
            Role::ReplacesSource => metadata::Rule::Exact,
            Role::Copy => metadata::Rule::AsFarAsAllowed,
        };
        let kept = metadata::keep(&source, file, rule)?;
        Ok(Self { source, target, temporary, content, bytes, mode: kept.mode, notes: kept.notes })
    }

    /// Writes the edits and puts the result in place. `self` is used up: after an error nothing is left behind.
    ///
    /// # Errors
    /// As for [`Self::stage`], or the source was changed meanwhile.
    pub fn commit(mut self, edits: &Edits) -> Result<Written, Error> {
        if edits.old_len() != self.source.len() {
            return Err(Error::Internal("edits for another length"));
        }
        self.write(edits).map_err(|error| Error::write(&self.target.dir_path, edits.new_len(), error))?;
        let changes = !edits.as_slice().is_empty();
        metadata::finish(&self.source, self.temporary.file(), self.mode, changes)?;
        let path = self.target.path();
        rustix::fs::fsync(self.temporary.file())
            .map_err(|error| Error::write(&self.target.dir_path, edits.new_len(), error.into()))?;
        self.source.check_unchanged()?;
        self.temporary.rename(&self.target.name)?;
        sync_directory(&self.target.dir, &self.target.dir_path)?;
        read_back(&self.target, self.temporary.file(), edits)?;
        let other_links = match self.target.role {
            Role::ReplacesSource => self.source.identity().links.saturating_sub(1),
            Role::Copy => 0,
        };
        let method = match self.content {
            Content::Whole(method) => method,
            Content::Reserved => Method::Copy,
        };
        let Self { bytes, notes, .. } = self;
        Ok(Written { path, size: edits.new_len(), bytes, method, other_links, notes })
    }

    /// Walks the edits: what lies between them is copied unless it is there already.
    fn write(&mut self, edits: &Edits) -> io::Result<()> {
        let file = self.temporary.file();
        let (mut old, mut new) = (0u64, 0u64);
        let mut bytes = self.bytes;
        let between = |old: u64, new: u64, len: u64| -> io::Result<u64> {
            let there = old == new && matches!(self.content, Content::Whole(_));
            if there || len == 0 { Ok(0) } else { copy::range(self.source.file(), file, (old, new), len) }
        };
        for edit in edits.as_slice() {
            let len = edit.offset.saturating_sub(old);
            bytes = bytes.saturating_add(between(old, new, len)?);
            new = new.saturating_add(len);
            file.write_all_at(&edit.insert, new)?;
            let inserted = length(&edit.insert);
            bytes = bytes.saturating_add(inserted);
            new = new.saturating_add(inserted);
            old = edit.offset.saturating_add(edit.remove);
        }
        bytes = bytes.saturating_add(between(old, new, edits.old_len().saturating_sub(old))?);
        self.bytes = bytes;
        // Also gives back what was reserved and not used.
        rustix::fs::ftruncate(file, edits.new_len())?;
        Ok(())
    }
}

/// Whether space for `len` bytes could be reserved; `false` if the file system cannot reserve.
fn reserve(file: &File, len: u64) -> io::Result<bool> {
    // Not KEEP_SIZE: only a growing file is measured against the limit of the process (ulimit -f).
    match rustix::fs::fallocate(file, FallocateFlags::empty(), 0, len.max(1)) {
        Ok(()) => Ok(true),
        Err(Errno::NOTSUP | Errno::NOSYS | Errno::INVAL | Errno::NODEV) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Makes a rename last: without this a power cut can bring the old name back.
fn sync_directory(dir: &OwnedFd, path: &Path) -> Result<(), Error> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let synced = rustix::fs::openat(dir, ".", flags, Mode::empty()).and_then(rustix::fs::fsync);
    match synced {
        // A directory that we may write but not read, or a file system that has no such sync.
        Ok(()) | Err(Errno::ACCESS | Errno::INVAL | Errno::NOTSUP | Errno::ROFS) => Ok(()),
        Err(error) => Err(Error::io("sync the directory", path, error.into())),
    }
}

/// Opens the result by its name, as a stranger would, and compares every changed byte.
fn read_back(target: &Target, written: &File, edits: &Edits) -> Result<(), Error> {
    let path = target.path();
    let io = |error: io::Error| Error::io("read back", &path, error);
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let named = rustix::fs::openat(&target.dir, &target.name, flags, Mode::empty());
    let file = match named {
        Ok(named) => File::from(named),
        // A mode without read permission for the owner: our own descriptor is the same inode.
        Err(Errno::ACCESS) => written.try_clone().map_err(io)?,
        Err(error) => return Err(io(error.into())),
    };
    let now = rustix::fs::fstat(&file).map_err(|error| io(error.into()))?;
    let then = rustix::fs::fstat(written).map_err(|error| io(error.into()))?;
    if (now.st_dev, now.st_ino) != (then.st_dev, then.st_ino) {
        return Err(Error::Changed { what: "another file took its name right after it was written" });
    }
    if u64::try_from(now.st_size) != Ok(edits.new_len()) {
        return Err(Error::ReadBack { offset: edits.new_len() });
    }
    let (mut old, mut new) = (0u64, 0u64);
    for edit in edits.as_slice() {
        new = new.saturating_add(edit.offset.saturating_sub(old));
        let mut there = vec![0; edit.insert.len()];
        // The bytes are on the disk by now; let the comparison fetch them from there, and them alone.
        let _ = rustix::fs::fadvise(&file, new, NonZeroU64::new(length(&edit.insert)), Advice::DontNeed);
        file.read_exact_at(&mut there, new).map_err(io)?;
        if there != edit.insert {
            return Err(Error::ReadBack { offset: new });
        }
        new = new.saturating_add(length(&edit.insert));
        old = edit.offset.saturating_add(edit.remove);
    }
    Ok(())
}

fn length(bytes: &[u8]) -> u64 {
    u64::try_from(bytes.len()).unwrap_or(u64::MAX)
}

fn dup(fd: &OwnedFd) -> rustix::io::Result<OwnedFd> {
    rustix::io::fcntl_dupfd_cloexec(fd.as_fd(), 0)
}
