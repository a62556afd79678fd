//! Where a result goes, and what a rename there would fail at: refused before anything is written.

use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;

use rustix::fs::{Access, AtFlags, IFlags, Mode};
use rustix::io::Errno;

use crate::apply::temporary;
use crate::detect;
use crate::error::{Error, FileKind};
use crate::source::file::SourceFile;

/// Where the result goes.
#[derive(Clone, Debug)]
pub struct Target {
    pub(crate) dir: Arc<OwnedFd>,
    pub(crate) dir_path: PathBuf,
    pub(crate) name: OsString,
    pub(super) role: Role,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// The result takes the name of the source.
    ReplacesSource,
    /// The result is another file; the source stays.
    Copy,
}

impl Target {
    /// The source itself.
    #[must_use]
    pub fn replacing(source: &SourceFile) -> Self {
        let dir_path = source.dir_path().to_owned();
        let name = source.name().to_owned();
        Self { dir: Arc::clone(source.dir()), dir_path, name, role: Role::ReplacesSource }
    }

    /// The path of the result.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.dir_path.join(&self.name)
    }

    /// Whether a temporary could be made there and the result renamed; nothing is written.
    ///
    /// # Errors
    /// As for [`crate::apply::Staged::stage`].
    pub fn check_writable(&self, source: &SourceFile) -> Result<(), Error> {
        self.check(source)?;
        match rustix::fs::accessat(&self.dir, ".", Access::WRITE_OK | Access::EXEC_OK, AtFlags::EACCESS) {
            Ok(()) => Ok(()),
            Err(error) => Err(temporary::create_error(&self.dir, &self.dir_path, error)),
        }
    }

    /// Refuses what a rename would fail at, or wrongly do, later.
    pub(super) fn check(&self, source: &SourceFile) -> Result<(), Error> {
        match self.role {
            Role::ReplacesSource => {
                check_mutable(source)?;
                self.check_sticky(source)
            }
            Role::Copy => {
                let its_own = (source.stat().st_dev, source.stat().st_ino);
                match rustix::fs::statat(&self.dir, &self.name, AtFlags::empty()) {
                    Ok(there) if (there.st_dev, there.st_ino) == its_own => {
                        Err(Error::OutputIsSource { path: self.path() })
                    }
                    Ok(_) | Err(_) => self.check_replaceable(),
                }
            }
        }
    }

    /// A result takes the place of an earlier one: a regular file of a format with embedded signatures. Whatever else
    /// has its name could be the only copy of something.
    pub(super) fn check_replaceable(&self) -> Result<(), Error> {
        if self.role == Role::ReplacesSource {
            return Ok(());
        }
        let occupied = |kind| Err(Error::OutputOccupied { path: self.path(), kind });
        match SourceFile::open_in(Arc::clone(&self.dir), self.dir_path.clone(), self.name.clone()) {
            Ok(there) if detect::recognise(&there)?.is_some() => Ok(()),
            Ok(_) => occupied(FileKind::Other),
            Err(Error::Missing) => Ok(()),
            Err(Error::NotAFile { kind }) => occupied(kind),
            Err(error) => Err(error),
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

/// Refuses what neither a rename nor a write would get past.
pub(super) fn check_mutable(source: &SourceFile) -> Result<(), Error> {
    let flags = rustix::fs::ioctl_getflags(source.file()).unwrap_or(IFlags::empty());
    let fixed = flags.intersects(IFlags::IMMUTABLE | IFlags::APPEND);
    if fixed { Err(Error::Immutable) } else { Ok(()) }
}
