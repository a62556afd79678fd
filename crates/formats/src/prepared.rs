//! What `prepare` found: the things to sign, and the plan that turns signatures into a new file.

use sealwright_crypto::algorithm::{HashAlgorithm, KeyVersion};
use sealwright_crypto::digest::{Digest, Hasher};
use sealwright_crypto::openpgp::certificate::Certificate;
use sealwright_crypto::openpgp::salt::Salt;
use sealwright_crypto::usage::Purpose;

use crate::error::Error;
use crate::splice::Edits;

pub use crate::cleartext::Framed;
pub use crate::splice::Layout;

/// The answer of [`crate::Format::prepare`].
pub enum Preparation {
    /// Sign these.
    Sign(Prepared),
    /// Nothing to do: the file stays as it is, and `why` goes into the report.
    Leave {
        /// "already signed by this key", "already signed (skipped)".
        why: String,
    },
}

/// Things to sign, with their plan.
pub struct Prepared {
    /// In the order in which the plan wants the signatures.
    pub items: Vec<Item>,
    /// Turns that many signatures into the output.
    pub plan: Box<dyn Plan>,
    /// The files beside it that [`Output::Beside`] fills, in the order in which they get their names; none: the file itself
    /// changes.
    pub beside: Vec<BesideFile>,
    /// What a user should know: "payload not checked", "kept 12 file signatures".
    pub notes: Vec<String>,
}

/// One thing to sign: the hash over its content, which the key holder will finish. The hasher is kept to
/// verify the answer like a stranger.
#[derive(Clone, Debug)]
pub struct Item {
    /// What it is.
    pub purpose: Purpose,
    /// All of the content was fed to it, after the salt if there is one.
    pub content: Hasher,
    /// For a version 6 key: what was fed to it first.
    pub salt: Option<Salt>,
}

/// A file that is made beside the one that is signed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BesideFile {
    /// What it is called.
    pub name: BesideName,
    /// What it holds, and so what may have the name already.
    pub kind: BesideKind,
    /// The item of [`Prepared::items`] whose signature it holds.
    pub item: usize,
    /// Its length in bytes at most, without signatures.
    pub len_max: u64,
}

/// What a file beside another is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BesideName {
    /// The name of the file, and this: `.asc`.
    Suffix(&'static str),
    /// This: `InRelease`.
    Whole(&'static str),
}

/// What a file beside another holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BesideKind {
    /// Signatures alone.
    Signatures,
    /// The text of the file, and signatures over it.
    Document {
        /// SHA-256 of the canonical text.
        text: Digest,
    },
}

/// The salt to hash first for this key: none for version 4; for version 6 the first of those that were asked for.
///
/// # Errors
/// [`Error::Internal`] if they were not given, or are for another hash.
pub(crate) fn first_salt(
    key: &Certificate,
    salts: &[Salt],
    hash: HashAlgorithm,
) -> Result<Option<Salt>, Error> {
    match key.fingerprint().version() {
        KeyVersion::V4 => Ok(None),
        KeyVersion::V6 => {
            let salt = salts.first().filter(|salt| salt.hash() == hash);
            salt.copied().map(Some).ok_or(Error::internal("a salt is missing"))
        }
    }
}

/// How many salts a format needs that makes this many signatures.
pub(crate) fn salts_for(key: &Certificate, signatures: usize) -> usize {
    match key.fingerprint().version() {
        KeyVersion::V4 => 0,
        KeyVersion::V6 => signatures,
    }
}

/// What a user should know of signatures of other keys that stay beside ours: their keys are not known here, so nobody
/// looked at them.
#[must_use]
pub fn kept_unchecked(count: usize) -> Option<String> {
    match count {
        0 => None,
        1 => Some("kept 1 signature of another key, not checked".to_owned()),
        _ => Some(format!("kept {count} signatures of other keys, not checked")),
    }
}

/// Where the signatures go. It has no access to the file: all it needs was read by `prepare`.
pub trait Plan: Send {
    /// What of the file the edits can touch, and by how much it grows at most, if each signature packet has up
    /// to `packet_len` bytes.
    fn room(&self, packet_len: usize, layout: Layout) -> Room;

    /// The output for these OpenPGP signature packets, one for each item, in order. Where the file itself stays as it is, those
    /// of other keys can follow in the same bytes.
    ///
    /// # Errors
    /// A packet is not of the kind that fits, or the result breaks a limit that the user set.
    fn output(&self, packets: &[Vec<u8>], layout: Layout) -> Result<Output, Error>;
}

/// What a plan may do to a file, known before there is a signature: what is to be reserved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// Byte offset from which edits can lie.
    pub from: u64,
    /// Byte offset before which they end, in the old file.
    pub until: u64,
    /// Bytes by which the file grows at most.
    pub growth_max: u64,
    /// Whether the length stays whatever the signatures are, so that nothing moves.
    pub keeps_len: bool,
    /// Whether what follows the edits keeps its place within blocks whatever the signatures are.
    pub shares: bool,
}

/// What becomes of the signatures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// The file changes.
    Edits(Edits),
    /// The files of [`Prepared::beside`]: all of them or none.
    Beside(Vec<NewContent>),
}

/// What a new file holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NewContent {
    /// These bytes.
    Bytes(Vec<u8>),
    /// The text of the file in a frame, written piece by piece.
    Framed(Framed),
}
