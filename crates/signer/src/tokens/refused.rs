//! PINs that a token has refused, kept beside the root key: a signer that is started again must not try one a second
//! time, since a token locks itself after a few. What is kept names the entry and the PIN's file, not the PIN.

use std::collections::HashSet;
use std::path::Path;

use sealwright_crypto::algorithm::HashAlgorithm;
use sealwright_crypto::digest::{Digest, to_hex};

use crate::error::Error;
use crate::files::{self, Lock};
use crate::root::from_hex;

/// Its name.
const REFUSED_FILE: &str = "refused-pins";
/// Bytes of it, at most. It starts afresh when it is full: as many lines are no tokens of one installation.
const FILE_BYTES_MAX: u64 = 64 << 10;
const LINES_MAX: usize = 512;

/// All of them.
///
/// # Errors
/// [`Error::NotPrivate`], [`Error::Damaged`], [`Error::File`].
pub(super) fn read(directory: &Path) -> Result<HashSet<Digest>, Error> {
    let path = directory.join(REFUSED_FILE);
    let bytes = files::read_private(&path, FILE_BYTES_MAX)?.unwrap_or_default();
    let damaged = || Error::Damaged { path: path.clone(), reason: "it is not a list of refused PINs" };
    let text = core::str::from_utf8(&bytes).map_err(|_| damaged())?;
    let line = |line: &str| {
        let bytes = from_hex(line)?;
        Digest::from_bytes(HashAlgorithm::Sha256, &bytes).ok()
    };
    text.lines().map(|text| line(text).ok_or_else(damaged)).collect()
}

/// One more. A PIN that works later leaves its line, which names a file that is no more.
///
/// # Errors
/// Those of [`read`].
pub(super) fn add(directory: &Path, state: &Digest) -> Result<(), Error> {
    let _lock = Lock::take(directory)?;
    let mut all = read(directory)?;
    if all.len() >= LINES_MAX {
        all.clear();
    }
    all.insert(*state);
    let mut lines: Vec<String> =
        all.iter().map(|digest| format!("{}\n", to_hex(digest.as_bytes()))).collect();
    lines.sort_unstable();
    files::replace_private(directory, REFUSED_FILE, lines.concat().as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use sealwright_crypto::digest::Hasher;

    #[test]
    fn what_was_refused_is_remembered_and_a_damaged_list_is_no_empty_one() {
        let folder = tempfile::tempdir().unwrap();
        assert!(read(folder.path()).unwrap().is_empty());
        let states = [b"a", b"b"].map(|text| Hasher::digest(HashAlgorithm::Sha256, text));
        for state in &states {
            add(folder.path(), state).unwrap();
            add(folder.path(), state).unwrap();
        }
        assert_eq!(read(folder.path()).unwrap(), HashSet::from(states));
        files::replace_private(folder.path(), REFUSED_FILE, b"zz\n").unwrap();
        assert!(matches!(read(folder.path()), Err(Error::Damaged { .. })));
    }
}
