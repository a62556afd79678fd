//! Signature files beside a file (`NAME.asc`, `NAME.sig`): found, read, and written as safely as the files
//! themselves.

use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{Mode, OFlags};

use crate::apply::temporary::Temporary;
use crate::apply::{Method, Target, Written, length};
use crate::error::Error;
use crate::source::file::SourceFile;
use crate::source::{Entry, Place};

/// Suffixes of detached signatures: armored, binary.
pub const SUFFIXES: [&str; 2] = [".asc", ".sig"];
/// Longest signature file in bytes: room for a hundred signatures.
pub const SIDECAR_BYTES_MAX: u64 = 1 << 20;

/// Where the signature files of one file lie.
#[derive(Debug)]
pub struct Beside {
    dir: Arc<OwnedFd>,
    dir_path: PathBuf,
    name: OsString,
}

impl Beside {
    /// Beside the name by which the user knows the file: a link named on the command line has its signature
    /// beside the link.
    ///
    /// # Errors
    /// The directory cannot be opened.
    pub fn of(entry: &Entry, source: &SourceFile) -> Result<Self, Error> {
        match &entry.place {
            Place::Found { .. } => Ok(Self {
                dir: Arc::clone(source.dir()),
                dir_path: source.dir_path().to_owned(),
                name: source.name().to_owned(),
            }),
            Place::Named => {
                let parent = match entry.shown.parent() {
                    Some(parent) if !parent.as_os_str().is_empty() => parent,
                    Some(_) | None => Path::new("."),
                };
                let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
                let dir = rustix::fs::open(parent, flags, Mode::empty())
                    .map_err(|error| Error::io("open the directory", parent, error.into()))?;
                let name = entry.shown.file_name().unwrap_or(source.name()).to_owned();
                Ok(Self { dir: Arc::new(dir), dir_path: parent.to_owned(), name })
            }
        }
    }

    /// Beside a result in another directory.
    #[must_use]
    pub fn target(target: &Target) -> Self {
        Self { dir: Arc::clone(&target.dir), dir_path: target.dir_path.clone(), name: target.name.clone() }
    }

    /// The signature file with this suffix, if it is there.
    ///
    /// # Errors
    /// It is there, and is not a readable regular file of at most [`SIDECAR_BYTES_MAX`].
    pub fn read(&self, suffix: &str) -> Result<Option<Vec<u8>>, Error> {
        match SourceFile::open_in(Arc::clone(&self.dir), self.dir_path.clone(), self.with(suffix)) {
            Ok(file) => file.read_all("the signature file", SIDECAR_BYTES_MAX).map(Some),
            Err(Error::Missing) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The path of the signature file with this suffix.
    #[must_use]
    pub fn path(&self, suffix: &str) -> PathBuf {
        self.dir_path.join(self.with(suffix))
    }

    /// Makes the temporary, before a signature is asked for.
    ///
    /// # Errors
    /// The directory cannot be written.
    pub fn stage(self) -> Result<StagedSidecar, Error> {
        // The kernel applies the umask and the directory's default ACL, as for any new file.
        let mode = Mode::RUSR | Mode::WUSR | Mode::RGRP | Mode::ROTH;
        let temporary = Temporary::create(&self.dir, &self.dir_path, mode)?;
        Ok(StagedSidecar { beside: self, temporary })
    }

    fn with(&self, suffix: &str) -> OsString {
        let mut name = self.name.clone();
        name.push(suffix);
        name
    }
}

/// A signature file that only waits for its content.
#[derive(Debug)]
pub struct StagedSidecar {
    beside: Beside,
    temporary: Temporary,
}

impl StagedSidecar {
    /// Where it will be.
    #[must_use]
    pub const fn beside(&self) -> &Beside {
        &self.beside
    }

    /// Writes it whole, in the place of an older one.
    ///
    /// # Errors
    /// Space or quota is short; nothing is left behind.
    pub fn commit(mut self, suffix: &str, bytes: &[u8]) -> Result<Written, Error> {
        let fail = |error: io::Error| Error::write(&self.beside.dir_path, length(bytes), error);
        self.temporary.file().write_all_at(bytes, 0).map_err(fail)?;
        rustix::fs::fsync(self.temporary.file()).map_err(|error| fail(error.into()))?;
        self.temporary.rename(&self.beside.with(suffix))?;
        super::sync_directory(&self.beside.dir, &self.beside.dir_path)?;
        if self.beside.read(suffix)?.as_deref() != Some(bytes) {
            return Err(Error::ReadBack { offset: 0 });
        }
        Ok(Written {
            path: self.beside.path(suffix),
            size: length(bytes),
            bytes: length(bytes),
            method: Method::Copy,
            other_links: 0,
            replaced: None,
            notes: Vec::new(),
        })
    }
}
