//! Signature files beside a file (`NAME.asc`, `NAME.sig`): found, read, and written as safely as the files
//! themselves.
//!
//! ```text
//! stage:  what is there is read; a temporary beside it, with space for the content
//!         ... only now a signature is asked for ...
//! commit: content -> fsync -> file unchanged? what is there still what was read? -> rename -> fsync of the directory
//!         -> read back
//! ```
//!
//! Killed at any point, the old signature file is there or the new one, or none as before; a temporary that stays goes
//! with the next run.

use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{Mode, OFlags};
use sealwright_crypto::openpgp::armor;
use sealwright_crypto::openpgp::packet::SignaturePacket;

use crate::apply::temporary::Temporary;
use crate::apply::undo::sha256;
use crate::apply::{Method, Target, Written, length, space};
use crate::error::Error;
use crate::source::file::SourceFile;
use crate::source::{Entry, Place};

/// Suffixes of detached signatures: armored, binary.
pub const SUFFIXES: [&str; 2] = [".asc", ".sig"];
/// Its role in errors.
pub(crate) const SIGNATURE_FILE: &str = "the signature file";
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
            Ok(file) => file.read_all(SIGNATURE_FILE, SIDECAR_BYTES_MAX).map(Some),
            Err(Error::Missing) => Ok(None),
            Err(error) => Err(error),
        }
        .map_err(|source| Error::Beside {
            what: SIGNATURE_FILE,
            path: self.path(suffix),
            source: Box::new(source),
        })
    }

    /// The signature file with this suffix, if it is there: nothing else may ever be replaced by a signature, since
    /// it could be the only copy of something.
    ///
    /// # Errors
    /// As [`Self::read`]; [`Error::NotASignature`] if its content is anything but signatures over data.
    pub fn read_signatures(&self, suffix: &str) -> Result<Option<Vec<u8>>, Error> {
        match self.read(suffix)? {
            Some(bytes) if !is_signatures(&bytes) => Err(Error::NotASignature { path: self.path(suffix) }),
            found => Ok(found),
        }
    }

    /// The path of the signature file with this suffix.
    #[must_use]
    pub fn path(&self, suffix: &str) -> PathBuf {
        self.dir_path.join(self.with(suffix))
    }

    /// Makes the temporary, with space for a signature of this many bytes and, where they are kept, those that are
    /// there, before it is asked for.
    ///
    /// # Errors
    /// As [`Self::read_signatures`]; the directory cannot be written, space or quota is short.
    pub fn stage(
        self,
        source: Arc<SourceFile>,
        suffix: String,
        keep: Keep,
        packet_len_max: usize,
    ) -> Result<StagedSidecar, Error> {
        let replaced = self.read_signatures(&suffix)?;
        // The kernel applies the umask and the directory's default ACL, as for any new file.
        let mode = Mode::RUSR | Mode::WUSR | Mode::RGRP | Mode::ROTH;
        let temporary = Temporary::create(&self.dir, &self.dir_path, mode)?;
        let before = replaced.as_deref().map(sha256);
        let kept = replaced.filter(|_| keep == Keep::Others);
        let bytes = kept.as_ref().map_or(0, Vec::len).saturating_add(packet_len_max);
        // Armor makes a third more, and has a frame.
        let len_max = length_of(bytes.saturating_mul(3).div_ceil(2).saturating_add(256));
        space::take(temporary.file(), 0, len_max)
            .map_err(|error| Error::write(&self.dir_path, len_max, error))?;
        Ok(StagedSidecar { beside: self, source, suffix, before, kept, temporary })
    }

    fn with(&self, suffix: &str) -> OsString {
        let mut name = self.name.clone();
        name.push(suffix);
        name
    }
}

/// What becomes of the signatures that a signature file has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// Those of other keys stay.
    Others,
    /// They go.
    Nothing,
}

/// A signature file that only waits for its content.
#[derive(Debug)]
pub struct StagedSidecar {
    beside: Beside,
    source: Arc<SourceFile>,
    suffix: String,
    /// SHA-256 of what is there.
    before: Option<[u8; 32]>,
    /// The same itself, if something of it stays.
    kept: Option<Vec<u8>>,
    temporary: Temporary,
}

impl StagedSidecar {
    /// Where it will be.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.beside.path(&self.suffix)
    }

    /// What is there and stays in part: [`Keep::Others`].
    #[must_use]
    pub fn kept(&self) -> Option<&[u8]> {
        self.kept.as_deref()
    }

    /// With its content it can be committed.
    ///
    /// # Errors
    /// It was staged under another suffix.
    pub fn filled(self, suffix: &str, content: Vec<u8>) -> Result<Sidecar, Error> {
        if suffix != self.suffix {
            return Err(Error::Internal("a signature file of another kind than was staged"));
        }
        Ok(Sidecar { staged: self, content })
    }
}

/// A signature file that only waits for the disk. [`crate::apply::group`] calls the steps, in their order.
#[derive(Debug)]
pub struct Sidecar {
    staged: StagedSidecar,
    content: Vec<u8>,
}

impl Sidecar {
    pub(super) fn write(&self) -> Result<(), Error> {
        let file = self.staged.temporary.file();
        file.write_all_at(&self.content, 0)
            .and_then(|()| Ok(rustix::fs::ftruncate(file, self.len())?))
            .map_err(|error| self.write_error(error))
    }

    /// What is to be synced.
    pub(crate) const fn file(&self) -> &std::fs::File {
        self.staged.temporary.file()
    }

    pub(super) fn sync(&self) -> Result<(), Error> {
        rustix::fs::fsync(self.staged.temporary.file()).map_err(|error| self.write_error(error.into()))
    }

    /// From here on a reader sees the new signature. What it is over, and what it replaces, must be what was read when
    /// it was asked for: nobody else's signature is lost.
    pub(super) fn rename(&mut self) -> Result<(), Error> {
        let staged = &mut self.staged;
        staged.source.check_unchanged()?;
        let now = staged.beside.read_signatures(&staged.suffix)?;
        if now.as_deref().map(sha256) != staged.before {
            return Err(staged.changed());
        }
        let name = staged.beside.with(&staged.suffix);
        if staged.before.is_some() {
            return staged.temporary.rename(&name);
        }
        if staged.temporary.rename_to_new(&name)? { Ok(()) } else { Err(staged.changed()) }
    }

    pub(super) fn directory(&self) -> (&OwnedFd, &Path) {
        (&self.staged.beside.dir, &self.staged.beside.dir_path)
    }

    pub(super) fn read_back(&self) -> Result<(), Error> {
        let there = self.staged.beside.read(&self.staged.suffix)?;
        if there.as_ref() == Some(&self.content) { Ok(()) } else { Err(Error::ReadBack { offset: 0 }) }
    }

    pub(super) fn written(&self) -> Written {
        Written {
            path: self.staged.path(),
            size: self.len(),
            bytes: self.len(),
            method: Method::Copy,
            other_links: 0,
            replaced: None,
            notes: Vec::new(),
        }
    }

    pub(super) fn len(&self) -> u64 {
        length(&self.content)
    }

    fn write_error(&self, error: io::Error) -> Error {
        Error::write(&self.staged.beside.dir_path, self.len(), error)
    }
}

impl StagedSidecar {
    fn changed(&self) -> Error {
        let source = Error::Changed { what: "it is another than when the signature was asked for" };
        Error::Beside { what: SIGNATURE_FILE, path: self.path(), source: Box::new(source) }
    }
}

fn length_of(len: usize) -> u64 {
    u64::try_from(len).unwrap_or(u64::MAX)
}

/// Whether a file holds signatures over binary or text data (RFC 9580 section 5.2.1) and nothing else: no key, no
/// revocation certificate, no signed text.
fn is_signatures(bytes: &[u8]) -> bool {
    const BEGIN: &[u8] = b"-----BEGIN PGP SIGNATURE-----";
    const END: &[u8] = b"-----END PGP SIGNATURE-----";
    let text = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes).trim_ascii();
    let is_binary =
        bytes.first().is_some_and(|first| first & 0x80 != 0) && text.len() == bytes.trim_ascii().len();
    let is_armored = text.starts_with(BEGIN) && text.ends_with(END);
    if !(is_binary || is_armored) {
        return false;
    }
    armor::decode_or_binary(bytes)
        .and_then(|packets| SignaturePacket::parse_many(&packets))
        .is_ok_and(|packets| packets.iter().all(|packet| packet.signature_type() <= 0x01))
}

#[cfg(test)]
mod tests {
    use sealwright_crypto::openpgp::armor::Kind;

    use super::*;

    #[test]
    fn only_signatures_over_data_may_be_replaced_by_one() {
        // Version 3, RSA, SHA-256: short, and of the type given.
        let packet = |kind: u8| {
            let mut body = vec![3, 5, kind, 0, 0, 0, 1];
            body.extend([7; 8]);
            body.extend([1, 8, 0xaa, 0xbb, 0, 1, 1]);
            [vec![0x88, u8::try_from(body.len()).unwrap()], body].concat()
        };
        let armored = |bytes: &[u8]| armor::encode(Kind::Signature, bytes).into_bytes();
        assert!(is_signatures(&packet(0)));
        assert!(is_signatures(&armored(&packet(1))));
        assert!(is_signatures(&[armored(&packet(0)), armored(&packet(0))].concat()));
        assert!(!is_signatures(&armored(&packet(0x20))), "a revocation certificate");
        assert!(!is_signatures(&packet(0x10)), "a certification of a key");
        assert!(!is_signatures(b""));
        assert!(!is_signatures(b"notes\n"));
        assert!(!is_signatures(&[b"my notes\n", armored(&packet(0)).as_slice()].concat()));
        assert!(!is_signatures(&[armored(&packet(0)).as_slice(), b"my notes\n"].concat()));
        assert!(!is_signatures(&[0x95, 0x03, 0xc6, 4]), "a secret key");
    }
}
