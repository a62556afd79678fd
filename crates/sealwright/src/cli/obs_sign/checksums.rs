//! `-S FILE`: checksums of packages as they were written, a line each, for who makes repository metadata of them.
//!
//! ```text
//! MD5 of lead and signature header " md5:" ... " sha1:" ... " sha256:" ... " sha512:" ... of the whole file
//! ```

use std::fs::File;
use std::io::{Error, Read, Write as _};
use std::path::{Path, PathBuf};

use md5::Md5;
use sealwright_crypto::algorithm::HashAlgorithm;
use sealwright_crypto::digest::{Hasher, to_hex};
use sha1::{Digest as _, Sha1};

use crate::failure::Failure;
use crate::output::shown;
use crate::terminal;

/// Bytes of the lead, and of the intro of the header after it.
const LEAD_BYTES: usize = 96;
const INTRO_BYTES: usize = 16;
/// Longest signature header in bytes, as rpm allows.
const SIGNATURE_BYTES_MAX: u64 = 64 << 20;
/// What is read at once.
const PIECE_BYTES: usize = 128 << 10;

/// Where the lines go.
pub(super) struct Checksums(Option<Target>);

enum Target {
    StandardOutput,
    File(PathBuf, File),
}

impl Checksums {
    /// Opened before anything is signed; `-` is standard output.
    ///
    /// # Errors
    /// It cannot be written.
    pub(super) fn open(path: Option<&Path>) -> Result<Self, Failure> {
        Ok(Self(match path {
            None => None,
            Some(path) if path == Path::new("-") => Some(Target::StandardOutput),
            Some(path) => {
                let file = File::options().append(true).create(true).open(path);
                let file = file.map_err(|error| unusable(path, &error))?;
                Some(Target::File(path.to_owned(), file))
            }
        }))
    }

    /// A line for each of these packages, in the order of the call.
    ///
    /// # Errors
    /// One cannot be read, or the line cannot be written. They are signed all the same.
    pub(super) fn add(&mut self, mut packages: Vec<(usize, PathBuf)>) -> Result<(), Failure> {
        let Some(target) = &mut self.0 else { return Ok(()) };
        packages.sort();
        for (_, package) in packages {
            let line = File::open(&package).and_then(line).map_err(|error| unusable(&package, &error))?;
            match target {
                Target::StandardOutput => terminal::out(&line),
                Target::File(path, file) => {
                    writeln!(file, "{line}").map_err(|error| unusable(path, &error))?;
                }
            }
        }
        Ok(())
    }
}

fn unusable(path: &Path, error: &Error) -> Failure {
    Failure::failed(
        format!("-S: {}: {error}", shown(path)),
        "Check the file of -S, then run the same command again.",
    )
}

fn line(mut package: impl Read) -> Result<String, Error> {
    let mut head = vec![0; LEAD_BYTES.saturating_add(INTRO_BYTES)];
    package.read_exact(&mut head)?;
    let rest = signature_bytes(&head).ok_or(std::io::ErrorKind::InvalidData)?;
    (&mut package).take(rest).read_to_end(&mut head)?;
    let (mut md5, mut sha1) = (Md5::new(), Sha1::new());
    let mut sha256 = Hasher::new(HashAlgorithm::Sha256);
    let mut sha512 = Hasher::new(HashAlgorithm::Sha512);
    let mut feed = |piece: &[u8]| {
        md5.update(piece);
        sha1.update(piece);
        sha256.update(piece);
        sha512.update(piece);
    };
    feed(&head);
    let lead = to_hex(&Md5::digest(&head));
    let mut piece = vec![0; PIECE_BYTES];
    loop {
        let len = package.read(&mut piece)?;
        match piece.get(..len) {
            Some(bytes) if !bytes.is_empty() => feed(bytes),
            Some(_) | None => break,
        }
    }
    Ok(format!(
        "{lead} md5:{} sha1:{} sha256:{} sha512:{}",
        to_hex(&md5.finalize()),
        to_hex(&sha1.finalize()),
        sha256.finish().to_hex(),
        sha512.finish().to_hex()
    ))
}

/// Index, data and padding of the signature header, whose intro ends `head`.
fn signature_bytes(head: &[u8]) -> Option<u64> {
    let (_, numbers) = head.split_last_chunk::<8>()?;
    let (entries, data) = numbers.split_first_chunk::<4>()?;
    let entries = u64::from(u32::from_be_bytes(*entries));
    let data = u64::from(u32::from_be_bytes(*data.first_chunk::<4>()?));
    let bytes = entries.checked_mul(16)?.checked_add(data)?.checked_next_multiple_of(8)?;
    (bytes <= SIGNATURE_BYTES_MAX).then_some(bytes)
}
