//! A document that is to be signed: read once, hashed, and refused where readers would disagree about it.

use sealwright_crypto::algorithm::HashAlgorithm;
use sealwright_crypto::digest::{Digest, Hasher};

use crate::cleartext::text::{Canonical, Escaper, Piece};
use crate::cleartext::{ESCAPES_MAX, LINE_BYTES_MAX};
use crate::error::Error;
use crate::source::{ReadAt, for_each_chunk};

/// What is known of a document.
pub(crate) struct Plain {
    /// The canonical text was fed to it, after what was in it before.
    pub(crate) content: Hasher,
    /// SHA-256 of the canonical text alone.
    pub(crate) text: Digest,
    /// Length with escapes and a last newline, in bytes.
    pub(crate) escaped_len: u64,
    /// Where escapes go, at most one more than [`ESCAPES_MAX`].
    pub(super) escapes: Vec<u64>,
    /// Whether it ends without a newline.
    pub(super) needs_newline: bool,
    notes: Vec<String>,
}

impl Plain {
    /// Reads it; `each` sees its bytes as they are.
    ///
    /// # Errors
    /// It cannot be read, or readers of clear-signed text would disagree about what it is.
    pub(crate) fn read(
        source: &dyn ReadAt,
        content: Hasher,
        mut each: impl FnMut(&[u8]),
    ) -> Result<Self, Error> {
        let is_text_alone = content.total() == 0 && content.hash() == HashAlgorithm::Sha256;
        let mut hashers = vec![content];
        if !is_text_alone {
            hashers.push(Hasher::new(HashAlgorithm::Sha256));
        }
        let mut text = Canonical::new(hashers);
        let mut escaper = Escaper::new();
        let mut layout = LayoutOf { at: 0, escaped_len: 0, escapes: Vec::new(), needs_newline: false };
        for_each_chunk(source, 0, source.len(), |chunk| {
            each(chunk);
            text.update(chunk);
            escaper.feed(chunk, &mut |piece| layout.take(piece));
        })
        .map_err(|cause| Error::Read { offset: 0, source: cause })?;
        escaper.finish(&mut |piece| layout.take(piece));
        let notes = notes(&text)?;
        let mut hashers = text.finish().into_iter();
        let content = hashers.next().ok_or(Error::internal("a hash is missing"))?;
        let text = hashers.next().unwrap_or_else(|| content.clone()).finish();
        let LayoutOf { escaped_len, escapes, needs_newline, .. } = layout;
        Ok(Self { content, text, escaped_len, escapes, needs_newline, notes })
    }

    /// What a user should know of it.
    pub(crate) fn notes(&self) -> Vec<String> {
        self.notes.clone()
    }
}

/// What a user should know of a text that was read whole.
///
/// # Errors
/// Readers would disagree about it.
pub(super) fn notes(text: &Canonical) -> Result<Vec<String>, Error> {
    const DETACHED: &str = "Use --format detached: the signature is then over the bytes as they are.";
    let refused = |reason: String| Err(Error::Refused { reason, advice: DETACHED });
    let longest = text.longest_line();
    if longest > LINE_BYTES_MAX {
        return refused(format!(
            "a line has {longest} bytes; gpg reads at most {LINE_BYTES_MAX} of a line of clear-signed text"
        ));
    }
    if text.has_zero() {
        return refused(
            "it has a zero byte, so it is no text: readers take it for different things".to_owned(),
        );
    }
    let lone_cr =
        "a carriage return is not at the end of its line: gpg and apt accept the signature, Sequoia does not";
    Ok(text.has_lone_cr().then(|| lone_cr.to_owned()).into_iter().collect())
}

/// Where escapes go.
struct LayoutOf {
    at: u64,
    escaped_len: u64,
    escapes: Vec<u64>,
    needs_newline: bool,
}

impl LayoutOf {
    fn take(&mut self, piece: Piece<'_>) {
        let added = match piece {
            Piece::Escape => {
                if self.escapes.len() <= ESCAPES_MAX {
                    self.escapes.push(self.at);
                }
                2
            }
            Piece::Bytes(bytes) => {
                let len = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
                self.at = self.at.saturating_add(len);
                len
            }
            Piece::LastNewline => {
                self.needs_newline = true;
                1
            }
        };
        self.escaped_len = self.escaped_len.saturating_add(added);
    }
}
