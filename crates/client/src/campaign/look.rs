//! What a file is to a campaign, by its headers alone.

use crate::campaign::keys::{Keys, OldKey, claims, is_same};
use crate::detect;
use crate::error::Error;
use crate::source::Entry;
use crate::source::file::SourceFile;

/// What is to be done with a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is signed, or signed again.
    Sign,
    /// It carries the new key's signature, by its own word: looked at once more when its turn comes.
    Already,
    /// Unsigned, and only packages of an old key are wanted.
    Unsigned,
    /// Signed by others than the old key.
    Foreign,
    /// No key is given for its directory.
    NoKey,
    /// No package: left alone, or linked into the second tree.
    NotPackage,
}

/// A file that was looked at.
#[derive(Debug)]
pub(crate) struct Seen {
    pub(crate) verdict: Verdict,
    /// Bytes.
    pub(crate) size: u64,
    /// Whether the file has other names.
    pub(crate) is_linked: bool,
    /// Fingerprints or key ids of those who signed it, by its own word; each key once.
    pub(crate) issuers: Vec<String>,
    /// Whether the old key is one of them; whether the new one is.
    pub(crate) is_old: bool,
    pub(crate) is_new: bool,
}

/// Reads the headers of one file. Runs on a thread that may block. `keyed` is the path by which its key is found.
///
/// # Errors
/// It cannot be read, or is malformed.
pub(crate) fn look(
    entry: &Entry,
    keyed: &std::path::Path,
    keys: &Keys,
    from: Option<&OldKey>,
) -> Result<Seen, Error> {
    let source = SourceFile::open(entry)?;
    let identity = source.identity();
    let mut seen = Seen {
        verdict: Verdict::NotPackage,
        size: identity.size,
        is_linked: identity.links > 1,
        issuers: Vec::new(),
        is_old: false,
        is_new: false,
    };
    let Some(format) = detect::detect(&source)? else { return Ok(seen) };
    let signatures = format.inspect(&source, None)?.signatures;
    let signer = keys.of(keyed);
    let by_new = |report: &_| signer.is_some_and(|signer| claims(signer.certificate(), report));
    seen.is_new = signatures.iter().any(by_new);
    seen.is_old = from.is_some_and(|old| signatures.iter().any(|report| old.made(report)));
    seen.verdict = match (signer, from) {
        (None, _) => Verdict::NoKey,
        (Some(_), Some(_)) if signatures.is_empty() => Verdict::Unsigned,
        (Some(_), Some(_)) if seen.is_old => Verdict::Sign,
        (Some(_), Some(_)) if seen.is_new => Verdict::Already,
        (Some(_), Some(_)) => Verdict::Foreign,
        (Some(_), None) if !signatures.is_empty() && signatures.iter().all(by_new) => Verdict::Already,
        (Some(_), None) => Verdict::Sign,
    };
    seen.issuers = distinct(signatures.into_iter().map(|report| report.issuer));
    Ok(seen)
}

/// Each key once, however many signatures it made; by its fingerprint, if one of them has that.
fn distinct(issuers: impl Iterator<Item = String>) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for issuer in issuers {
        match all.iter_mut().find(|known| **known == issuer || is_same(known, &issuer)) {
            Some(known) if issuer.len() > known.len() => *known = issuer,
            Some(_) => {}
            None => all.push(issuer),
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_made_two_signatures_is_named_once_and_by_its_fingerprint() {
        let (id, print, other) =
            ("89abcdef01234567", "0123456789abcdef0123456789abcdef01234567", "fedcba9876543210");
        let all = [id, print, other, "", id, ""].map(str::to_owned);
        assert_eq!(distinct(all.into_iter()), [print, other, ""]);
    }
}
