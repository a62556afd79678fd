//! Signature files beside a file (`NAME.asc`, `NAME.sig`, `InRelease`): found, read, and written as safely as the files
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
//! with the next run. Of several that belong together all get their names or none (`sidecar/commit.rs`).

mod commit;

use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{Mode, OFlags};
use sealwright_crypto::algorithm::HashAlgorithm;
use sealwright_crypto::digest::{Digest, Hasher};
use sealwright_crypto::openpgp::armor;
use sealwright_crypto::openpgp::packet::SignaturePacket;
use sealwright_formats::cleartext;
use sealwright_formats::prepared::{BesideFile, BesideKind, BesideName};
use sealwright_formats::source::{ReadAt as _, for_each_chunk};

use crate::apply::temporary::Temporary;
use crate::apply::{Target, space};
use crate::error::Error;
use crate::shown::shown;
use crate::source::file::SourceFile;
use crate::source::{Entry, Place};

pub use crate::apply::sidecar::commit::Sidecars;

/// Its role in errors.
pub(crate) const SIGNATURE_FILE: &str = "the signature file";
/// Longest signature file in bytes: room for a hundred signatures.
pub const SIDECAR_BYTES_MAX: u64 = 1 << 20;

/// Longest signed document that is read into memory, to compare it with the file that it is made of.
pub const DOCUMENT_BYTES_MAX: u64 = 16 << 20;

/// Where the signature files of one file lie.
#[derive(Clone, Debug)]
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

    /// The signature file with this name, if it is there.
    ///
    /// # Errors
    /// It is there, and is not a readable regular file of at most [`SIDECAR_BYTES_MAX`], or [`DOCUMENT_BYTES_MAX`] if it is
    /// a clear-signed document.
    pub fn read(&self, name: BesideName) -> Result<Option<Vec<u8>>, Error> {
        let Some(file) = self.open(name)? else { return Ok(None) };
        let limit = if cleartext::is_clear_signed(&file).unwrap_or_default() {
            DOCUMENT_BYTES_MAX
        } else {
            SIDECAR_BYTES_MAX
        };
        file.read_all(SIGNATURE_FILE, limit).map(Some).map_err(|error| self.unusable(name, error))
    }

    /// The signature file with this name, if it is there: nothing else may ever be replaced by a signature, since
    /// it could be the only copy of something.
    ///
    /// # Errors
    /// As [`Self::read`]; [`Error::NotASignature`] if its content is anything but signatures over data.
    pub fn read_signatures(&self, name: BesideName) -> Result<Option<Vec<u8>>, Error> {
        match self.read(name)? {
            Some(bytes) if !is_signatures(&bytes) => Err(Error::NotASignature { path: self.path(name) }),
            found => Ok(found),
        }
    }

    /// The clear-signed document with this name, if it is there. It may have any length.
    ///
    /// # Errors
    /// [`Error::NotASignature`] if it is anything else; it cannot be opened.
    pub fn open_document(&self, name: BesideName) -> Result<Option<SourceFile>, Error> {
        let Some(file) = self.open(name)? else { return Ok(None) };
        match cleartext::is_clear_signed(&file) {
            Ok(true) => Ok(Some(file)),
            Ok(false) => Err(Error::NotASignature { path: self.path(name) }),
            Err(error) => Err(self.unusable(name, error.into())),
        }
    }

    /// The path of the signature file with this name.
    #[must_use]
    pub fn path(&self, name: BesideName) -> PathBuf {
        self.dir_path.join(self.with(name))
    }

    /// Makes the temporaries, each with space for a signature of this many bytes and, where they are kept, those that are
    /// there, before they are asked for.
    ///
    /// # Errors
    /// As [`Self::read_signatures`] and [`Self::open_document`]; signatures that are to be kept are over another text; the
    /// directory cannot be written, space or quota is short.
    pub fn stage(
        self,
        source: Arc<SourceFile>,
        files: Vec<BesideFile>,
        keep: Keep,
        packet_len_max: usize,
    ) -> Result<StagedSidecars, Error> {
        let stage = |file| self.stage_one(file, keep, packet_len_max);
        let files = files.into_iter().map(stage).collect::<Result<Vec<_>, _>>()?;
        Ok(StagedSidecars { beside: self, source, files })
    }

    fn stage_one(&self, file: BesideFile, keep: Keep, packet_len_max: usize) -> Result<StagedSidecar, Error> {
        let before = self.digest(&file)?;
        let kept = if keep == Keep::Others { self.signatures(&file)? } else { Vec::new() };
        // The kernel applies the umask and the directory's default ACL, as for any new file.
        let mode = Mode::RUSR | Mode::WUSR | Mode::RGRP | Mode::ROTH;
        let temporary = Temporary::create(&self.dir, &self.dir_path, mode)?;
        let kept_len: usize = kept.iter().map(|packet| packet.bytes().len()).sum();
        let packets = kept_len.saturating_add(packet_len_max);
        // Armor makes a third more, and has a frame.
        let len_max = length_of(packets.saturating_mul(3).div_ceil(2).saturating_add(256));
        let len_max = len_max.saturating_add(file.len_max);
        space::take(temporary.file(), 0, len_max)
            .map_err(|error| Error::write(&self.dir_path, len_max, error))?;
        Ok(StagedSidecar { file, before, kept, temporary })
    }

    /// SHA-256 of what is there under the name of this file, if it may be replaced.
    fn digest(&self, file: &BesideFile) -> Result<Option<Digest>, Error> {
        match file.kind {
            BesideKind::Signatures => Ok(self
                .read_signatures(file.name)?
                .map(|bytes| Hasher::digest(HashAlgorithm::Sha256, &bytes))),
            BesideKind::Document { .. } => {
                self.open_document(file.name)?.map(|there| self.digest_of(file.name, &there)).transpose()
            }
        }
    }

    fn digest_of(&self, name: BesideName, there: &SourceFile) -> Result<Digest, Error> {
        let mut hasher = Hasher::new(HashAlgorithm::Sha256);
        for_each_chunk(there, 0, there.len(), |chunk| hasher.update(chunk))
            .map_err(|error| Error::io("read", &self.path(name), error))?;
        Ok(hasher.finish())
    }

    /// The signatures that are there.
    fn signatures(&self, file: &BesideFile) -> Result<Vec<SignaturePacket>, Error> {
        match file.kind {
            BesideKind::Signatures => {
                let Some(there) = self.read_signatures(file.name)? else { return Ok(Vec::new()) };
                armor::decode_or_binary(&there)
                    .and_then(|bytes| SignaturePacket::parse_many(&bytes))
                    .map_err(|source| Error::KeyFile { path: self.path(file.name), source })
            }
            BesideKind::Document { text } => {
                let Some(there) = self.open_document(file.name)? else { return Ok(Vec::new()) };
                let unusable =
                    |error: sealwright_formats::error::Error| self.unusable(file.name, error.into());
                if cleartext::text_of(&there).map_err(unusable)? != text {
                    return Err(Error::Format(sealwright_formats::error::Error::Refused {
                        reason: format!(
                            "{} is over another text: the signatures in it cannot be kept",
                            shown(&self.path(file.name))
                        ),
                        advice: "Sign with one key and --if-signed replace, then add the others.",
                    }));
                }
                cleartext::signatures_of(&there).map_err(unusable)
            }
        }
    }

    fn open(&self, name: BesideName) -> Result<Option<SourceFile>, Error> {
        match SourceFile::open_in(Arc::clone(&self.dir), self.dir_path.clone(), self.with(name)) {
            Ok(file) => Ok(Some(file)),
            Err(Error::Missing) => Ok(None),
            Err(error) => Err(self.unusable(name, error)),
        }
    }

    fn unusable(&self, name: BesideName, error: Error) -> Error {
        Error::Beside { what: SIGNATURE_FILE, path: self.path(name), source: Box::new(error) }
    }

    fn with(&self, name: BesideName) -> OsString {
        match name {
            BesideName::Suffix(suffix) => {
                let mut name = self.name.clone();
                name.push(suffix);
                name
            }
            BesideName::Whole(name) => name.into(),
        }
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

/// Signature files of one file that only wait for their content.
#[derive(Debug)]
pub struct StagedSidecars {
    beside: Beside,
    source: Arc<SourceFile>,
    files: Vec<StagedSidecar>,
}

/// One of them.
#[derive(Debug)]
pub struct StagedSidecar {
    file: BesideFile,
    /// SHA-256 of what is there.
    before: Option<Digest>,
    /// The signatures in it, if some of them stay.
    kept: Vec<SignaturePacket>,
    temporary: Temporary,
}

impl StagedSidecars {
    /// Each of them, with where it will be.
    pub fn files(&self) -> impl Iterator<Item = (&StagedSidecar, PathBuf)> {
        self.files.iter().map(|staged| (staged, self.beside.path(staged.file.name)))
    }
}

impl StagedSidecar {
    /// The item whose signature it holds.
    #[must_use]
    pub const fn item(&self) -> usize {
        self.file.item
    }

    /// The signatures that are there, if some of them stay: [`Keep::Others`].
    #[must_use]
    pub fn kept(&self) -> &[SignaturePacket] {
        &self.kept
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
