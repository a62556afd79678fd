//! A temporary file in the directory of its target, removed on every way out but one: [`Temporary::rename`].

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;

use crate::apply::dup;
use crate::error::{DirectoryNotWritable, Error};
use crate::source::TEMPORARY_PREFIX;

/// Random bytes in a name: two signers of one directory never meet.
const RANDOM_BYTES: usize = 8;

#[derive(Debug)]
pub(crate) struct Temporary {
    dir: OwnedFd,
    dir_path: PathBuf,
    name: OsString,
    file: File,
    /// Whether it still has its own name, and so must go.
    to_remove: bool,
}

impl Temporary {
    pub(crate) fn create(dir: &OwnedFd, dir_path: &Path, mode: Mode) -> Result<Self, Error> {
        let mut random = [0; RANDOM_BYTES];
        rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty())
            .map_err(|error| Error::io("draw a random name in", dir_path, error.into()))?;
        let name =
            OsString::from(format!("{TEMPORARY_PREFIX}{}", sealwright_crypto::digest::to_hex(&random)));
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::openat(dir, &name, flags, mode)
            .map(File::from)
            .map_err(|error| create_error(dir, dir_path, error))?;
        match dup(dir) {
            Ok(dir) => Ok(Self { dir, dir_path: dir_path.to_owned(), name, file, to_remove: true }),
            Err(error) => {
                let _ = rustix::fs::unlinkat(dir, &name, AtFlags::empty());
                Err(Error::io("hold", dir_path, error.into()))
            }
        }
    }

    pub(crate) const fn file(&self) -> &File {
        &self.file
    }

    /// Gives it its name, in the place of whatever had that name.
    pub(crate) fn rename(&mut self, to: &OsStr) -> Result<(), Error> {
        rustix::fs::renameat(&self.dir, &self.name, &self.dir, to)
            .map_err(|error| create_error(&self.dir, &self.dir_path, error))?;
        self.to_remove = false;
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
