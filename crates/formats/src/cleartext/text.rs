//! Text as it is signed and as it is written (RFC 9580 sections 5.2.1 and 7.1). Piece by piece, in flat memory.
//!
//! ```text
//! document --Escaper--> lines with "- " before those that start with a dash or "From "
//!     --Canonical--> lines without blanks at their end, joined by CR LF, none after the last
//! ```
//!
//! A line ends with LF. Blanks are space, tab and CR, as gpg has it: so a CR inside of a line is text, which Sequoia takes for
//! the end of a line ([`Canonical::has_lone_cr`]).

use sealwright_crypto::digest::Hasher;

/// Longest line that is read, in bytes: whether blanks in it count shows only when something follows.
pub(super) const LINE_READ_BYTES_MAX: usize = 1 << 20;
/// Bytes that are collected before they are hashed.
const BATCH_BYTES: usize = 64 << 10;
const FROM: &[u8] = b"From ";

/// What an [`Escaper`] finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Piece<'a> {
    /// Here `- ` is to be written.
    Escape,
    /// Bytes of the document.
    Bytes(&'a [u8]),
    /// The document has no LF at its end: one is to be written.
    LastNewline,
}

/// Finds the lines that are to be escaped: those that start with a dash (section 7.1: must), and those with `From ` (should: mail
/// programs change them).
#[derive(Clone, Debug)]
pub(super) struct Escaper {
    /// Start of a line that does not show yet whether it is to be escaped.
    held: Vec<u8>,
    at_start: bool,
    is_empty: bool,
}

impl Escaper {
    pub(super) const fn new() -> Self {
        Self { held: Vec::new(), at_start: true, is_empty: true }
    }

    pub(super) fn feed(&mut self, chunk: &[u8], each: &mut impl FnMut(Piece<'_>)) {
        self.is_empty &= chunk.is_empty();
        let mut rest = chunk;
        while let Some((first, tail)) = rest.split_first() {
            if self.at_start {
                self.held.push(*first);
                rest = tail;
                if self.held != FROM && FROM.starts_with(&self.held) {
                    continue;
                }
                if self.held == FROM || self.held == b"-" {
                    each(Piece::Escape);
                }
                each(Piece::Bytes(&self.held));
                self.at_start = self.held.ends_with(b"\n");
                self.held.clear();
                continue;
            }
            let line_len = rest.iter().position(|byte| *byte == b'\n').map(|at| at.saturating_add(1));
            let (line, after) = rest.split_at_checked(line_len.unwrap_or(rest.len())).unwrap_or((rest, &[]));
            each(Piece::Bytes(line));
            self.at_start = line_len.is_some();
            rest = after;
        }
    }

    pub(super) fn finish(self, each: &mut impl FnMut(Piece<'_>)) {
        if !self.held.is_empty() {
            each(Piece::Bytes(&self.held));
        }
        // An empty document has one empty line, as gpg writes it.
        if self.is_empty || !self.at_start || !self.held.is_empty() {
            each(Piece::LastNewline);
        }
    }
}

/// Hashes text in its canonical form, with several hashes at once.
#[derive(Clone, Debug)]
pub(super) struct Canonical {
    hashers: Vec<Hasher>,
    batch: Vec<u8>,
    /// Blanks that count only if something else follows in the line.
    blanks: Vec<u8>,
    /// A line has ended; its CR LF counts only if another follows.
    ended: bool,
    line_len: u64,
    longest_line: u64,
    lone_cr: bool,
    zero: bool,
}

impl Canonical {
    pub(super) fn new(hashers: Vec<Hasher>) -> Self {
        Self {
            hashers,
            batch: Vec::new(),
            blanks: Vec::new(),
            ended: false,
            line_len: 0,
            longest_line: 0,
            lone_cr: false,
            zero: false,
        }
    }

    /// The next bytes of the document, without escapes.
    pub(super) fn update(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        while !rest.is_empty() {
            if self.ended {
                self.ended = false;
                self.push(b"\r\n");
            }
            let end = rest.iter().position(|byte| *byte == b'\n');
            let (part, after) = rest.split_at_checked(end.unwrap_or(rest.len())).unwrap_or((rest, &[]));
            self.part(part);
            if end.is_none() {
                return;
            }
            self.end_line();
            rest = after.get(1..).unwrap_or_default();
        }
    }

    /// The hashes, each over the text and whatever was in it before.
    pub(super) fn finish(mut self) -> Vec<Hasher> {
        self.flush();
        self.hashers
    }

    /// Bytes of the longest line without LF, so far.
    pub(super) fn longest_line(&self) -> u64 {
        self.longest_line.max(self.line_len)
    }

    /// A line was longer than [`LINE_READ_BYTES_MAX`]: the hash is worth nothing.
    pub(super) fn is_too_long(&self) -> bool {
        self.longest_line() > u64::try_from(LINE_READ_BYTES_MAX).unwrap_or(u64::MAX)
    }

    /// A CR is not before an LF: gpg takes it for text or a blank, Sequoia for the end of a line.
    pub(super) const fn has_lone_cr(&self) -> bool {
        self.lone_cr
    }

    /// A byte is zero: gpg takes it for a blank, others for text.
    pub(super) const fn has_zero(&self) -> bool {
        self.zero
    }

    fn part(&mut self, part: &[u8]) {
        self.line_len = self.line_len.saturating_add(u64::try_from(part.len()).unwrap_or(u64::MAX));
        self.zero |= part.contains(&0);
        let is_text = |byte: &u8| !matches!(byte, b' ' | b'\t' | b'\r');
        let text_len = part.iter().rposition(is_text).map_or(0, |last| last.saturating_add(1));
        let (text, blanks) = part.split_at_checked(text_len).unwrap_or((part, &[]));
        if !text.is_empty() {
            self.lone_cr |= self.blanks.contains(&b'\r') || text.contains(&b'\r');
            let before = core::mem::take(&mut self.blanks);
            self.push(&before);
            self.push(text);
        }
        let room = LINE_READ_BYTES_MAX.saturating_sub(self.blanks.len());
        self.blanks.extend(blanks.iter().take(room));
    }

    fn end_line(&mut self) {
        let before_last = self.blanks.split_last().map_or(&[][..], |(_, before)| before);
        self.lone_cr |= before_last.contains(&b'\r');
        self.blanks.clear();
        self.ended = true;
        self.longest_line = self.longest_line();
        self.line_len = 0;
    }

    fn push(&mut self, bytes: &[u8]) {
        self.batch.extend_from_slice(bytes);
        if self.batch.len() >= BATCH_BYTES {
            self.flush();
        }
    }

    fn flush(&mut self) {
        for hasher in &mut self.hashers {
            hasher.update(&self.batch);
        }
        self.batch.clear();
    }
}

#[cfg(test)]
mod tests {
    use sealwright_crypto::algorithm::HashAlgorithm;

    use super::*;

    fn written(document: &[u8], step: usize) -> Vec<u8> {
        let mut out = Vec::new();
        let mut each = |piece: Piece<'_>| match piece {
            Piece::Escape => out.extend(b"- "),
            Piece::Bytes(bytes) => out.extend(bytes),
            Piece::LastNewline => out.push(b'\n'),
        };
        let mut escaper = Escaper::new();
        document.chunks(step.max(1)).for_each(|chunk| escaper.feed(chunk, &mut each));
        escaper.finish(&mut each);
        out
    }

    fn is_hashed_as(document: &[u8], canonical: &[u8]) {
        let want = Hasher::digest(HashAlgorithm::Sha256, canonical);
        for step in 1..=document.len().max(1) {
            let mut text = Canonical::new(vec![Hasher::new(HashAlgorithm::Sha256)]);
            document.chunks(step).for_each(|chunk| text.update(chunk));
            let hasher = text.finish().remove(0);
            assert_eq!(hasher.total(), u64::try_from(canonical.len()).unwrap(), "{document:?} by {step}");
            assert_eq!(hasher.finish(), want, "{document:?} by {step}");
        }
    }

    #[test]
    fn lines_that_start_with_a_dash_or_from_are_escaped_wherever_pieces_end() {
        for (document, want) in [
            ("-a\n--\n- b\n", "- -a\n- --\n- - b\n"),
            ("From a\nFromb\nFrom\nfrom a\n", "- From a\nFromb\nFrom\nfrom a\n"),
            ("a -\n-", "a -\n- -\n"),
            ("From", "From\n"),
            ("From ", "- From \n"),
            ("\n\n-\n\n", "\n\n- -\n\n"),
            ("-----BEGIN PGP SIGNATURE-----\r\n", "- -----BEGIN PGP SIGNATURE-----\r\n"),
            ("\n", "\n"),
            ("", "\n"),
        ] {
            for step in 1..=document.len().max(1) {
                assert_eq!(written(document.as_bytes(), step), want.as_bytes(), "{document:?} by {step}");
            }
        }
    }

    #[test]
    fn canonical_text_has_no_blanks_at_line_ends_and_no_end_of_its_last_line() {
        is_hashed_as(b"", b"");
        is_hashed_as(b"\n", b"");
        is_hashed_as(b"a", b"a");
        is_hashed_as(b"a\n", b"a");
        is_hashed_as(b"a\n\n", b"a\r\n");
        is_hashed_as(b"a \t\r\n \t \nb c \r\n", b"a\r\n\r\nb c");
        is_hashed_as(b"mixed\r\nlf\nlone\rcr\n", b"mixed\r\nlf\r\nlone\rcr");
        is_hashed_as(b" a\r \rb\r\r\n", b" a\r \rb");
        is_hashed_as("\u{e4} \u{a0}\n".as_bytes(), "\u{e4} \u{a0}".as_bytes());
    }

    #[test]
    fn what_readers_disagree_about_is_seen() {
        let read = |document: &[u8], step| {
            let mut text = Canonical::new(Vec::new());
            document.chunks(step).for_each(|chunk| text.update(chunk));
            text
        };
        for step in [1, 2, 100] {
            for (document, lone) in
                [(&b"a\r\nb\r\n"[..], false), (b"a\rb\n", true), (b"a\r\r\n", true), (b"a\r \n", true)]
            {
                assert_eq!(read(document, step).has_lone_cr(), lone, "{document:?} by {step}");
            }
            assert!(read(b"a\0b", step).has_zero() && !read(b"ab", step).has_zero());
            assert_eq!(read(b"abc\nabcde\nab", step).longest_line(), 5);
        }
        let line = |blanks| [vec![b' '; blanks], b"a\n".to_vec()].concat();
        for step in [1, 1000, usize::MAX] {
            assert!(!read(&line(LINE_READ_BYTES_MAX - 1), step).is_too_long());
            assert!(read(&line(LINE_READ_BYTES_MAX), step).is_too_long());
        }
    }
}
