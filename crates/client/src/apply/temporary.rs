//! A temporary file in the directory of its target, removed on every way out but one: [`Temporary::rename`].
//! It is locked as long as its process lives, and its name says which process that is: so the next run can tell
//! what a killed one left behind (`leftovers.rs`).

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{AtFlags, FlockOperation, Mode, OFlags, RenameFlags};
use rustix::io::Errno;

use crate::apply::leftovers;
use crate::error::{DirectoryNotWritable, Error};

#[derive(Debug)]
pub(crate) struct Temporary {
    dir: Arc<OwnedFd>,
    dir_path: PathBuf,
    name: OsString,
    file: File,
    /// Whether it still has its own name, and so must go.
    to_remove: bool,
}

impl Temporary {
    pub(crate) fn create(dir: &Arc<OwnedFd>, dir_path: &Path, mode: Mode) -> Result<Self, Error> {
        leftovers::remove_once(dir);
        let name = leftovers::fresh_name()
            .map_err(|error| Error::io("draw a random name in", dir_path, error.into()))?;
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::openat(dir, &name, flags, mode)
            .map(File::from)
            .map_err(|error| create_error(dir, dir_path, error))?;
        // Where there are no locks, the name alone says whose it is.
        let _ = rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive);
        Ok(Self { dir: Arc::clone(dir), dir_path: dir_path.to_owned(), name, file, to_remove: true })
    }

    /// One more name, beside its other names, of a file that is done: renamed over another of its names.
    pub(crate) fn link(
        dir: &Arc<OwnedFd>,
        dir_path: &Path,
        of: (&OwnedFd, &OsStr),
        file: File,
    ) -> Result<Self, Error> {
        let name = leftovers::fresh_name()
            .map_err(|error| Error::io("draw a random name in", dir_path, error.into()))?;
        rustix::fs::linkat(of.0, of.1, dir, &name, AtFlags::empty()).map_err(|error| match error {
            Errno::XDEV | Errno::MLINK | Errno::PERM => Error::io("link in", dir_path, error.into()),
            error => create_error(dir, dir_path, error),
        })?;
        Ok(Self { dir: Arc::clone(dir), dir_path: dir_path.to_owned(), name, file, to_remove: true })
    }

    pub(crate) const fn file(&self) -> &File {
        &self.file
    }

    pub(crate) fn name(&self) -> &OsStr {
        &self.name
    }

    /// Gives it its name, in the place of whatever had that name.
    pub(crate) fn rename(&mut self, to: &OsStr) -> Result<(), Error> {
        rustix::fs::renameat(&self.dir, &self.name, &self.dir, to)
            .map_err(|error| create_error(&self.dir, &self.dir_path, error))?;
        self.to_remove = false;
        Ok(())
    }
}

impl Temporary {
    /// Gives it its name if nothing has it; `false` if something does.
    pub(crate) fn rename_to_new(&mut self, to: &OsStr) -> Result<bool, Error> {
        match rustix::fs::renameat_with(&self.dir, &self.name, &self.dir, to, RenameFlags::NOREPLACE) {
            Ok(()) => {
                self.to_remove = false;
                Ok(true)
            }
            Err(Errno::EXIST) => Ok(false),
            // A file system or a kernel that cannot say "if": the caller has looked just before.
            Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => self.rename(to).map(|()| true),
            Err(error) => Err(create_error(&self.dir, &self.dir_path, error)),
        }
    }
}

/// What a temporary did when it took its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Switched {
    /// Nothing had the name.
    New,
    /// What had it has the name of the temporary now.
    Exchanged,
    /// What had it is gone.
    Over,
}

impl Temporary {
    /// As [`Self::rename`], and what had the name stays until the end under the name of the temporary, if the file system can
    /// exchange names.
    pub(crate) fn exchange(&mut self, to: &OsStr) -> Result<Switched, Error> {
        match rustix::fs::renameat_with(&self.dir, &self.name, &self.dir, to, RenameFlags::EXCHANGE) {
            Ok(()) => Ok(Switched::Exchanged),
            Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => self.rename(to).map(|()| Switched::Over),
            Err(error) => Err(create_error(&self.dir, &self.dir_path, error)),
        }
    }

    /// Takes the name back: what had it before has it again, where it is still there.
    pub(crate) fn switch_back(&mut self, to: &OsStr, how: Switched) -> Result<(), Error> {
        let flags = match how {
            Switched::Over => return Ok(()),
            Switched::New => RenameFlags::empty(),
            Switched::Exchanged => RenameFlags::EXCHANGE,
        };
        rustix::fs::renameat_with(&self.dir, to, &self.dir, &self.name, flags)
            .map_err(|error| create_error(&self.dir, &self.dir_path, error))?;
        self.to_remove = true;
        Ok(())
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if self.to_remove
            && let Err(error) = rustix::fs::unlinkat(&self.dir, &self.name, AtFlags::empty())
        {
            let path = self.dir_path.join(&self.name);
            tracing::warn!(path = %path.display(), error = %error, "temporary file not removed");
        }
    }
}

pub(crate) fn create_error(dir: &OwnedFd, dir_path: &Path, error: Errno) -> Error {
    match error {
        Errno::ACCESS | Errno::PERM => {
            Error::DirectoryNotWritable(Box::new(not_writable(dir, dir_path, error)))
        }
        error => Error::write(dir_path, 0, error.into()),
    }
}

/// Who we are and what the directory allows: what a person needs to mend it.
pub(crate) fn not_writable(dir: &OwnedFd, dir_path: &Path, error: Errno) -> DirectoryNotWritable {
    let (owner, mode) =
        rustix::fs::fstat(dir).map_or((0, 0), |stat| (stat.st_uid, Mode::from_raw_mode(stat.st_mode).bits()));
    DirectoryNotWritable {
        dir: dir_path.to_owned(),
        uid: rustix::process::geteuid().as_raw(),
        owner,
        mode,
        source: error.into(),
    }
}
