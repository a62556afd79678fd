//! Files that are read whole: keys, passphrases, keyrings. Unlike files to be signed they may be pipes, since nothing is
//! written back: `/dev/stdin`, `<(command)`, `-`.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use zeroize::Zeroizing;

use crate::error::{Error, FileKind};
use crate::source::stdin::NAME;

/// A file's content.
pub(crate) struct Whole {
    /// Zeroed when dropped; it never grew, so that no copy is left in freed memory.
    pub(crate) bytes: Zeroizing<Vec<u8>>,
    /// Permission bits of a regular file.
    pub(crate) mode: Option<u32>,
}

/// Reads `path`, or standard input for `-`, if it has at most `max` bytes. `what` names its role in errors.
///
/// # Errors
/// [`Error::Beside`], which names the file.
pub(crate) fn read(path: &Path, what: &'static str, max: u64) -> Result<Whole, Error> {
    let is_stdin = path == Path::new(NAME);
    let shown = if is_stdin { PathBuf::from("standard input") } else { path.to_owned() };
    let read = if is_stdin {
        bounded(io::stdin().lock(), what, max, 0).map(|bytes| (bytes, None))
    } else {
        open(path, what, max)
    };
    match read {
        Ok((bytes, mode)) => Ok(Whole { bytes, mode }),
        Err(source) => Err(Error::Beside { what, path: shown, source: Box::new(source) }),
    }
}

fn open(path: &Path, what: &'static str, max: u64) -> Result<(Zeroizing<Vec<u8>>, Option<u32>), Error> {
    let io = |error: io::Error| {
        if error.kind() == io::ErrorKind::NotFound { Error::Missing } else { Error::io("read", path, error) }
    };
    let file = File::open(path).map_err(io)?;
    let meta = file.metadata().map_err(io)?;
    if meta.is_dir() {
        return Err(Error::NotAFile { kind: FileKind::Directory });
    }
    let mode = meta.is_file().then(|| meta.mode() & 0o777);
    Ok((bounded(file, what, max, meta.len())?, mode))
}

/// `size` is what is known of it before.
fn bounded(reader: impl Read, what: &'static str, max: u64, size: u64) -> Result<Zeroizing<Vec<u8>>, Error> {
    let too_large = |size| Error::TooLarge { what, size, limit: max };
    if size > max {
        return Err(too_large(size));
    }
    // Short secrets are never moved while they are read; a long keyring is no secret.
    let room = max.min(2 << 20).max(size).saturating_add(1);
    let mut bytes = Zeroizing::new(Vec::with_capacity(usize::try_from(room).unwrap_or_default()));
    reader
        .take(max.saturating_add(1))
        .read_to_end(&mut bytes)
        .map_err(|error| Error::io("read", Path::new(what), error))?;
    let len = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
    if len > max { Err(too_large(len)) } else { Ok(bytes) }
}
