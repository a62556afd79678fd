//! Reads clear-signed documents, from anybody (RFC 9580 section 7). Stricter than gpg where readers disagree, because what one
//! shows must be what another has checked: nothing before the first line or after the signatures, no header but `Hash`, no dash without
//! an escape, one block of signatures.

use sealwright_crypto::digest::Hasher;
use sealwright_crypto::openpgp::armor;
use sealwright_crypto::openpgp::packet::SignaturePacket;

use crate::cleartext::text::{Canonical, LINE_READ_BYTES_MAX};
use crate::cleartext::{BEGIN, ESCAPES_MAX};
use crate::error::Error;
use crate::source::{CHUNK_BYTES, ReadAt, for_each_chunk};

/// Longest head that is read, in bytes.
const HEAD_BYTES_MAX: usize = 4096;
/// Longest block of signatures that is read, in bytes: as for signature files.
const TAIL_BYTES_MAX: u64 = 1 << 20;
/// Bytes of something else that an error shows.
const SHOWN_BYTES: usize = 40;
const WHAT: &str = "clear-signed document";
const BEGIN_SIGNATURE: &[u8] = b"-----BEGIN PGP SIGNATURE-----";
const END_SIGNATURE: &[u8] = b"-----END PGP SIGNATURE-----";

/// Whether a file that starts so is clear-signed.
pub(super) fn is_signed(head: &[u8]) -> bool {
    head.strip_prefix(BEGIN).is_some_and(|rest| rest.trim_ascii_start().len() < rest.len() || rest.is_empty())
}

/// Whether this one is.
///
/// # Errors
/// It cannot be read.
pub(super) fn starts_signed(source: &dyn ReadAt) -> Result<bool, Error> {
    Ok(is_signed(&start(source, BEGIN.len().saturating_add(1))?))
}

/// The parts of a clear-signed document.
#[derive(Debug)]
pub(super) struct Signed {
    /// Bytes before the text.
    pub(super) head_len: u64,
    /// Hash algorithms that its head names; believed in nothing.
    pub(super) declared: Vec<String>,
    /// Offset of the block of signatures.
    pub(super) body_end: u64,
    /// Number of escaped lines.
    pub(super) escapes: u64,
    /// Where they are, at most one more than [`ESCAPES_MAX`].
    pub(super) escapes_at: Vec<u64>,
    /// The signatures, or why they cannot be read.
    pub(super) packets: Result<Vec<SignaturePacket>, String>,
}

impl Signed {
    /// Reads it all once.
    ///
    /// # Errors
    /// It is none, breaks a rule of its format, or cannot be read.
    pub(super) fn read(source: &dyn ReadAt) -> Result<Self, Error> {
        let (head_len, declared) = read_head(source)?;
        let mut body = Body::new(head_len);
        let mut escapes_at = Vec::new();
        let mut escapes = 0_u64;
        let mut at = head_len;
        let mut buf = vec![0; CHUNK_BYTES];
        let body_end = loop {
            let left = source.len().saturating_sub(at);
            if left == 0 {
                return Err(malformed(at, "no signature follows the text"));
            }
            let want = usize::try_from(left).unwrap_or(usize::MAX).min(CHUNK_BYTES);
            let chunk = buf.get_mut(..want).unwrap_or_default();
            source.read_exact_at(chunk, at).map_err(|source| Error::Read { offset: at, source })?;
            let end = body.feed(chunk, &mut |part| {
                if let Part::Escape(offset) = part {
                    escapes = escapes.saturating_add(1);
                    if escapes_at.len() <= ESCAPES_MAX {
                        escapes_at.push(offset);
                    }
                }
            });
            if let Some(end) = end {
                break end;
            }
            at = at.saturating_add(length(want));
        };
        let packets = read_tail(source, body_end)?;
        Ok(Self { head_len, declared, body_end, escapes, escapes_at, packets })
    }

    /// Bytes of the text with its escapes.
    pub(super) const fn body_len(&self) -> u64 {
        self.body_end.saturating_sub(self.head_len)
    }

    /// The text in its canonical form, fed to these hashes.
    ///
    /// # Errors
    /// It cannot be read, or a line is longer than anybody writes.
    pub(super) fn hash(&self, source: &dyn ReadAt, hashers: Vec<Hasher>) -> Result<Canonical, Error> {
        let mut text = Canonical::new(hashers);
        let mut body = Body::new(self.head_len);
        for_each_chunk(source, self.head_len, self.body_end, |chunk| {
            body.feed(chunk, &mut |part| {
                if let Part::Text(bytes) = part {
                    text.update(bytes);
                }
            });
        })
        .map_err(|source| Error::Read { offset: self.head_len, source })?;
        if text.is_too_long() {
            let reason = format!("a line has more than {LINE_READ_BYTES_MAX} bytes");
            return Err(malformed(self.head_len, reason));
        }
        Ok(text)
    }
}

/// What a body is made of.
enum Part<'a> {
    /// `- ` at this offset.
    Escape(u64),
    /// Text without escapes.
    Text(&'a [u8]),
}

/// Reads the lines of a text up to the first that starts with a dash and is not escaped.
struct Body {
    at: u64,
    line: Line,
}

enum Line {
    Start,
    Dash,
    Inside,
}

impl Body {
    const fn new(at: u64) -> Self {
        Self { at, line: Line::Start }
    }

    /// Returns the offset of the line that ends the text.
    fn feed(&mut self, chunk: &[u8], each: &mut impl FnMut(Part<'_>)) -> Option<u64> {
        let mut rest = chunk;
        while let Some((first, after)) = rest.split_first() {
            let taken = match (&self.line, *first) {
                (Line::Start, b'-') => {
                    self.line = Line::Dash;
                    rest = after;
                    1
                }
                (Line::Dash, b' ') => {
                    each(Part::Escape(self.at.saturating_sub(1)));
                    self.line = Line::Inside;
                    rest = after;
                    1
                }
                (Line::Dash, _) => return Some(self.at.saturating_sub(1)),
                (Line::Start | Line::Inside, _) => {
                    let end = rest.iter().position(|byte| *byte == b'\n').map(|at| at.saturating_add(1));
                    let (text, after) =
                        rest.split_at_checked(end.unwrap_or(rest.len())).unwrap_or((rest, &[]));
                    each(Part::Text(text));
                    self.line = if end.is_some() { Line::Start } else { Line::Inside };
                    rest = after;
                    text.len()
                }
            };
            self.at = self.at.saturating_add(length(taken));
        }
        None
    }
}

/// Length of the head, and the hashes that it names.
fn read_head(source: &dyn ReadAt) -> Result<(u64, Vec<String>), Error> {
    let head = start(source, HEAD_BYTES_MAX)?;
    if !is_signed(&head) {
        let shown = head.get(..SHOWN_BYTES).unwrap_or(&head).escape_ascii().to_string();
        return Err(Error::Refused {
            reason: format!("it is not a clear-signed document: it starts with \"{shown}\""),
            advice: "Check what was downloaded. For a signature beside a file, use --format detached.",
        });
    }
    let mut declared = Vec::new();
    let mut at = 0_usize;
    for (number, line) in head.split_inclusive(|byte| *byte == b'\n').enumerate() {
        let offset = length(at);
        at = at.saturating_add(line.len());
        let Some(line) = line.strip_suffix(b"\n") else { break };
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if number == 0 {
            if line.trim_ascii_end() != BEGIN {
                return Err(malformed(offset, "something follows in its first line"));
            }
        } else if line.is_empty() {
            return Ok((length(at), declared));
        } else {
            declared.extend(hashes(line).ok_or_else(|| malformed(offset, "a header line other than Hash"))?);
        }
    }
    Err(malformed(0, format!("no empty line ends its head, within {HEAD_BYTES_MAX} bytes")))
}

/// The names in a line `Hash: SHA256,SHA512`.
fn hashes(line: &[u8]) -> Option<Vec<String>> {
    let names = core::str::from_utf8(line.strip_prefix(b"Hash: ")?).ok()?;
    let is_name = |name: &&str| name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    let names: Vec<&str> = names.split(',').map(str::trim).collect();
    names.iter().all(is_name).then(|| names.into_iter().map(str::to_owned).collect())
}

/// The signatures from `body_end` to the end of the file.
fn read_tail(source: &dyn ReadAt, body_end: u64) -> Result<Result<Vec<SignaturePacket>, String>, Error> {
    let len = source.len().saturating_sub(body_end);
    let mut tail = vec![0; usize::try_from(len.min(TAIL_BYTES_MAX)).unwrap_or_default()];
    source.read_exact_at(&mut tail, body_end).map_err(|source| Error::Read { offset: body_end, source })?;
    let first = tail.split(|byte| *byte == b'\n').next().unwrap_or_default();
    if first.trim_ascii_end() != BEGIN_SIGNATURE {
        return Err(malformed(body_end, "a line of the text starts with a dash that is not escaped"));
    }
    if len > TAIL_BYTES_MAX {
        return Err(malformed(
            body_end,
            format!("its signatures have {len} bytes; {TAIL_BYTES_MAX} are read"),
        ));
    }
    let mut at = body_end;
    let mut ended = false;
    for line in tail.split_inclusive(|byte| *byte == b'\n') {
        let text = line.trim_ascii();
        if ended && !text.is_empty() {
            return Err(malformed(at, "something follows the signatures, and nobody signed it"));
        }
        if at > body_end && text.starts_with(b"-----") && text != END_SIGNATURE {
            return Err(malformed(at, "another block among the signatures"));
        }
        ended |= text == END_SIGNATURE;
        at = at.saturating_add(length(line.len()));
    }
    if !ended {
        return Err(malformed(at, "its signatures have no end: it is truncated"));
    }
    let packets = armor::decode_or_binary(&tail).and_then(|bytes| SignaturePacket::parse_many(&bytes));
    Ok(packets.map_err(|error| error.to_string()))
}

/// The first bytes, at most so many.
fn start(source: &dyn ReadAt, most: usize) -> Result<Vec<u8>, Error> {
    let mut head = vec![0; usize::try_from(source.len()).unwrap_or(usize::MAX).min(most)];
    source.read_exact_at(&mut head, 0).map_err(|source| Error::Read { offset: 0, source })?;
    Ok(head)
}

fn malformed(offset: u64, reason: impl Into<String>) -> Error {
    Error::Malformed { what: WHAT, offset, reason: reason.into() }
}

fn length(len: usize) -> u64 {
    u64::try_from(len).unwrap_or(u64::MAX)
}
