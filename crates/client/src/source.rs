//! Where bytes come from, and which files a call is about: paths named by a user, or found beneath a named
//! directory. Nothing here parses or writes.
//!
//! | | named on the command line | found by `-r` |
//! |---|---|---|
//! | symbolic links | followed | skipped |
//! | directory | an error that names `-r` | walked |
//! | FIFO, device, socket | an error | skipped |
//! | content of no embedded format | an error that names `--format detached` | skipped |

mod cache;
pub mod file;
pub mod kept;
pub mod stdin;
pub(crate) mod whole;

use std::collections::{HashMap, HashSet};
use std::ffi::{CStr, OsStr, OsString};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{Dir, FileType, Mode, OFlags, ResolveFlags};

use crate::error::Error;

/// Most files that one call takes: each costs some hundred bytes of memory before the first is signed.
pub const FILES_MAX: usize = 4_000_000;
/// Deepest directory below one named with `-r`: more is a loop made by mounts, or an attack on our stack of
/// open directories.
pub const DEPTH_MAX: usize = 64;
/// How the names of our temporary files start; such files are never sources.
pub const TEMPORARY_PREFIX: &str = ".sealwright-";

/// One file of a call, not opened yet.
#[derive(Clone, Debug)]
pub struct Entry {
    /// As the user named or would name it: for messages.
    pub shown: PathBuf,
    /// How to get at it.
    pub place: Place,
}

/// How an entry is opened.
#[derive(Clone, Debug)]
pub enum Place {
    /// Named by the user: links are followed.
    Named,
    /// Found beneath a directory that is held open: no link is followed on the way.
    Found {
        /// The directory named by the user.
        root: Arc<Root>,
        /// The path beneath it.
        relative: PathBuf,
    },
}

/// A directory named with `-r`, held open while files beneath it are in hand.
#[derive(Debug)]
pub struct Root {
    pub(crate) fd: OwnedFd,
    pub(crate) path: PathBuf,
}

/// The files of a call in the order in which they are taken.
#[derive(Debug, Default)]
pub struct Listing {
    /// Files; the names of one inode are together, so that they are never in hand at once.
    pub groups: Vec<Vec<Entry>>,
    /// Named twice: the second name is not signed again.
    pub repeated: Vec<Entry>,
    /// What could not be listed, each with its reason.
    pub failed: Vec<(PathBuf, Error)>,
}

impl Listing {
    /// Files to be taken.
    #[must_use]
    pub fn len(&self) -> usize {
        self.groups.iter().map(Vec::len).fold(0, usize::saturating_add)
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }
}

/// Whether named directories are walked (`-r`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Directories {
    /// A named directory is an error.
    Refuse,
    /// Files beneath are found, in order of inode number, which is about their order on the disk.
    Walk,
}

/// Lists the files that `paths` stand for. It opens no file but the directories it walks. A path that cannot
/// be looked at is kept as an entry, so that its own error comes when it is opened.
#[must_use]
pub fn list(paths: &[PathBuf], directories: Directories) -> Listing {
    let mut lister = Lister::default();
    for path in paths {
        match std::fs::metadata(path) {
            Ok(meta) if meta.is_dir() && directories == Directories::Walk => lister.walk(path),
            Ok(meta) => lister.named(path, Some((meta.dev(), meta.ino()))),
            Err(_) => lister.named(path, None),
        }
    }
    lister.listing
}

#[derive(Default)]
struct Lister {
    listing: Listing,
    /// Real paths seen, so that a file named twice is signed once.
    seen: HashSet<PathBuf>,
    /// Real paths of directories of names.
    real_parents: HashMap<PathBuf, PathBuf>,
    /// Group of each inode with more than one name in this call.
    by_inode: HashMap<(u64, u64), usize>,
}

impl Lister {
    fn named(&mut self, path: &Path, inode: Option<(u64, u64)>) {
        let entry = Entry { shown: path.to_owned(), place: Place::Named };
        let real = self.real(path);
        self.push(entry, real, inode);
    }

    /// The real path. Of a name that is no link itself, as most are, only that of its directory has to be found out, once
    /// for all names in it.
    fn real(&mut self, path: &Path) -> Option<PathBuf> {
        let plain = || {
            let (parent, name) = (path.parent()?, path.file_name()?);
            let meta = path.symlink_metadata().ok()?;
            // Not with a slash behind it, which the kernel looks through.
            let is_plain = meta.is_file() && path.as_os_str().as_bytes().ends_with(name.as_bytes());
            is_plain.then_some((parent, name))
        };
        let Some((parent, name)) = plain() else { return path.canonicalize().ok() };
        if let Some(real) = self.real_parents.get(parent) {
            return Some(real.join(name));
        }
        let named = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
        let real = named.canonicalize().ok()?;
        let found = real.join(name);
        self.real_parents.insert(parent.to_owned(), real);
        Some(found)
    }

    fn push(&mut self, entry: Entry, real: Option<PathBuf>, inode: Option<(u64, u64)>) {
        if real.is_some_and(|real| !self.seen.insert(real)) {
            self.listing.repeated.push(entry);
            return;
        }
        if self.seen.len() > FILES_MAX {
            self.listing.failed.push((entry.shown, Error::TooManyFiles { limit: FILES_MAX }));
            return;
        }
        let known = inode.and_then(|inode| self.by_inode.get(&inode).copied());
        if let Some(group) = known.and_then(|at| self.listing.groups.get_mut(at)) {
            group.push(entry);
            return;
        }
        if let Some(inode) = inode {
            self.by_inode.insert(inode, self.listing.groups.len());
        }
        self.listing.groups.push(vec![entry]);
    }

    fn walk(&mut self, path: &Path) {
        let root = match open_root(path) {
            Ok(root) => Arc::new(root),
            Err(error) => {
                self.listing.failed.push((path.to_owned(), error));
                return;
            }
        };
        let mut found = Found::default();
        found.directory(&root, Path::new(""), 0);
        self.listing.failed.append(&mut found.failed);
        found.files.sort_by_key(|file| file.inode);
        for FoundFile { inode, relative } in found.files {
            let entry = Entry {
                shown: path.join(&relative),
                place: Place::Found { root: Arc::clone(&root), relative: relative.clone() },
            };
            self.push(entry, Some(root.path.join(&relative)), Some(inode));
        }
    }
}

pub(crate) fn open_root(path: &Path) -> Result<Root, Error> {
    let io = |source| Error::io("open the directory", path, source);
    let real = path.canonicalize().map_err(io)?;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let fd = rustix::fs::open(&real, flags, Mode::empty()).map_err(|error| io(error.into()))?;
    Ok(Root { fd, path: real })
}

struct FoundFile {
    inode: (u64, u64),
    relative: PathBuf,
}

#[derive(Default)]
struct Found {
    files: Vec<FoundFile>,
    failed: Vec<(PathBuf, Error)>,
}

impl Found {
    /// Collects the regular files of one directory and of those beneath it.
    fn directory(&mut self, root: &Root, relative: &Path, depth: usize) {
        if let Err(error) = self.entries(root, relative, depth) {
            self.failed.push((root.path.join(relative), error));
        }
    }

    fn entries(&mut self, root: &Root, relative: &Path, depth: usize) -> Result<(), Error> {
        let path = root.path.join(relative);
        let io = |error: rustix::io::Errno| Error::io("list the directory", &path, error.into());
        if depth > DEPTH_MAX {
            return Err(Error::TooDeep { limit: DEPTH_MAX });
        }
        let fd = open_beneath(root, relative, OFlags::RDONLY | OFlags::DIRECTORY).map_err(io)?;
        let device = rustix::fs::fstat(&fd).map_err(io)?.st_dev;
        let mut below = Vec::new();
        for item in Dir::read_from(&fd).map_err(io)? {
            let item = item.map_err(io)?;
            let name = item.file_name();
            match kind_of(&fd, name, item.file_type()) {
                FileType::Directory if name != c"." && name != c".." => below.push(os_name(name)),
                FileType::RegularFile if !name.to_bytes().starts_with(TEMPORARY_PREFIX.as_bytes()) => {
                    if self.files.len() >= FILES_MAX {
                        return Err(Error::TooManyFiles { limit: FILES_MAX });
                    }
                    let relative = relative.join(os_name(name));
                    self.files.push(FoundFile { inode: (device, item.ino()), relative });
                }
                FileType::Directory
                | FileType::RegularFile
                | FileType::Symlink
                | FileType::Fifo
                | FileType::Socket
                | FileType::CharacterDevice
                | FileType::BlockDevice
                | FileType::Unknown => {}
            }
        }
        drop(fd);
        below.sort();
        for name in below {
            self.directory(root, &relative.join(name), depth.saturating_add(1));
        }
        Ok(())
    }
}

/// File systems that do not say the kind in the listing are asked for each file.
pub(crate) fn kind_of(dir: &OwnedFd, name: &CStr, listed: FileType) -> FileType {
    if listed != FileType::Unknown {
        return listed;
    }
    rustix::fs::statat(dir, name, rustix::fs::AtFlags::SYMLINK_NOFOLLOW)
        .map_or(FileType::Unknown, |stat| FileType::from_raw_mode(stat.st_mode))
}

pub(crate) fn os_name(name: &CStr) -> OsString {
    OsString::from_vec(name.to_bytes().to_vec())
}

/// Opens beneath a held directory without following any link; `relative` may be empty (the directory itself).
pub(crate) fn open_beneath(root: &Root, relative: &Path, flags: OFlags) -> rustix::io::Result<OwnedFd> {
    let relative = if relative.as_os_str().is_empty() { OsStr::new(".") } else { relative.as_os_str() };
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let flags = flags | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    match rustix::fs::openat2(&root.fd, relative.as_bytes(), flags, Mode::empty(), resolve) {
        // Before Linux 5.6, and in sandboxes that hide it: one step at a time.
        Err(rustix::io::Errno::NOSYS) => open_by_steps(root, Path::new(relative), flags),
        other => other,
    }
}

fn open_by_steps(root: &Root, relative: &Path, flags: OFlags) -> rustix::io::Result<OwnedFd> {
    let mut steps = relative.components().peekable();
    let mut dir = rustix::io::fcntl_dupfd_cloexec(&root.fd, 0)?;
    while let Some(step) = steps.next() {
        let flags = if steps.peek().is_some() {
            OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC
        } else {
            flags
        };
        dir = rustix::fs::openat(&dir, step.as_os_str(), flags, Mode::empty())?;
    }
    Ok(dir)
}
