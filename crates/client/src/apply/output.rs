//! `--output DIR`: signed copies go there, the sources stay. Files found by `-r` keep their path beneath the
//! named directory.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use crate::apply::{Role, Target};
use crate::error::Error;
use crate::source::file::SourceFile;
use crate::source::{Entry, Place};

/// A directory for results, made if it is not there.
#[derive(Debug)]
pub struct OutputDirectory {
    fd: Arc<OwnedFd>,
    path: PathBuf,
    /// Names given out, and the inode of the source of each: two sources of one name would overwrite each other. Not kept for
    /// a second tree, where each name comes once.
    given: Option<Mutex<HashMap<PathBuf, (u64, u64)>>>,
}

impl OutputDirectory {
    /// Opens it.
    ///
    /// # Errors
    /// It cannot be made or opened.
    pub fn open(path: &Path) -> Result<Self, Error> {
        if is_directory(path)?.is_none() {
            std::fs::create_dir_all(path).map_err(|error| Error::io("make the directory", path, error))?;
        }
        Self::of(path)
    }

    /// Opens one that is there; none is made.
    ///
    /// # Errors
    /// What is there is no directory, or cannot be looked at or opened.
    pub fn open_if_there(path: &Path) -> Result<Option<Self>, Error> {
        is_directory(path)?.map(|()| Self::of(path)).transpose()
    }

    /// Opens it as a second tree: unchanged files become other names of the files of the first where they can.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn open_second_tree(path: &Path) -> Result<Self, Error> {
        Ok(Self { given: None, ..Self::open(path)? })
    }

    /// Whether it is a second tree.
    pub(crate) const fn links_unchanged(&self) -> bool {
        self.given.is_none()
    }

    fn of(path: &Path) -> Result<Self, Error> {
        let real = path.canonicalize().map_err(|error| Error::io("find", path, error))?;
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = rustix::fs::open(&real, flags, Mode::empty())
            .map_err(|error| Error::io("open the directory", path, error.into()))?;
        Ok(Self { fd: Arc::new(fd), path: real, given: Some(Mutex::default()) })
    }

    /// The place of one result; directories on the way are made.
    ///
    /// # Errors
    /// The name was given out before, or a directory cannot be made.
    pub fn target(&self, entry: &Entry, source: &SourceFile) -> Result<Target, Error> {
        let relative = match &entry.place {
            // A link gives its result the name of the link.
            Place::Named => Path::new(entry.shown.file_name().unwrap_or(source.name())),
            Place::Found { relative, .. } => relative,
        };
        if let Some(given) = &self.given {
            let identity = source.identity();
            let inode = (identity.device, identity.inode);
            let mut given = given.lock().unwrap_or_else(PoisonError::into_inner);
            // The same source comes again when it is tried again.
            if *given.entry(relative.to_owned()).or_insert(inode) != inode {
                return Err(Error::OutputNameTaken { name: relative.to_owned() });
            }
        }
        let mut dir = Arc::clone(&self.fd);
        let mut dir_path = self.path.clone();
        for step in relative.parent().unwrap_or(Path::new("")).components() {
            let Component::Normal(step) = step else { continue };
            dir_path.push(step);
            let entered = enter(&dir, step);
            dir =
                Arc::new(entered.map_err(|error| Error::io("make the directory", &dir_path, error.into()))?);
        }
        let name = relative.file_name().unwrap_or_default().to_owned();
        Ok(Target { dir, dir_path, name, role: Role::Copy })
    }
}

/// `None` if nothing is there.
fn is_directory(path: &Path) -> Result<Option<()>, Error> {
    match path.metadata() {
        Ok(metadata) if metadata.is_dir() => Ok(Some(())),
        Ok(_) => Err(Error::OutputNotADirectory { path: path.to_owned() }),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::io("look at", path, error)),
    }
}

fn enter(dir: &OwnedFd, name: &std::ffi::OsStr) -> rustix::io::Result<OwnedFd> {
    match rustix::fs::mkdirat(dir, name, Mode::RWXU | Mode::RWXG | Mode::RWXO) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(error) => return Err(error),
    }
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(dir, name, flags, Mode::empty())
}
