//! What is written when the signatures are there: a frame around the text, or edits.
//!
//! ```text
//! -----BEGIN PGP SIGNED MESSAGE-----
//! Hash: SHA256,SHA512                 each hash of a version 4 signature; no such line if all are version 6
//!
//! text                                with escapes, and an LF at its end
//! -----BEGIN PGP SIGNATURE-----
//! ...                                 all signatures in one block
//! ```

use std::io;

use sealwright_crypto::openpgp::armor;
use sealwright_crypto::openpgp::packet::{PACKETS_MAX, SignaturePacket};

use crate::cleartext::signed::Signed;
use crate::cleartext::text::{Escaper, Piece};
use crate::cleartext::{BEGIN, ESCAPES_MAX, Plain};
use crate::error::Error;
use crate::prepared::{Layout, NewContent, Output, Plan, Room};
use crate::source::{ReadAt, for_each_chunk};
use crate::splice::{Edit, Edits};

/// Longest head that is written, in bytes.
pub(super) const HEAD_BYTES_MAX: u64 = 256;

/// A document in its frame: written piece by piece, from the document that was hashed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Framed {
    head: Vec<u8>,
    tail: Vec<u8>,
    document_len: u64,
}

impl Framed {
    /// `packets` is one signature packet or more.
    pub(crate) fn new(packets: &[u8], document_len: u64) -> Result<Self, Error> {
        let packets = SignaturePacket::parse_many(packets)?;
        let (head, tail) = frame(&packets);
        Ok(Self { head, tail, document_len })
    }

    /// Writes it all, in order.
    ///
    /// # Errors
    /// What `document` or `sink` say.
    pub fn write(
        &self,
        document: &dyn ReadAt,
        sink: &mut dyn FnMut(&[u8]) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut outcome = sink(&self.head);
        let mut out = Vec::new();
        let mut escaper = Escaper::new();
        for_each_chunk(document, 0, self.document_len, |chunk| {
            out.clear();
            escaper.feed(chunk, &mut |piece| push(piece, &mut out));
            if outcome.is_ok() {
                outcome = sink(&out);
            }
        })?;
        outcome?;
        out.clear();
        escaper.finish(&mut |piece| push(piece, &mut out));
        sink(&out)?;
        sink(&self.tail)
    }
}

fn push(piece: Piece<'_>, out: &mut Vec<u8>) {
    match piece {
        Piece::Escape => out.extend_from_slice(b"- "),
        Piece::Bytes(bytes) => out.extend_from_slice(bytes),
        Piece::LastNewline => out.push(b'\n'),
    }
}

/// Head and tail for these signatures.
fn frame(packets: &[SignaturePacket]) -> (Vec<u8>, Vec<u8>) {
    let mut hashes: Vec<String> = Vec::new();
    for packet in packets.iter().filter(|packet| packet.version() < 6) {
        // gpg wants capitals. A hash that has no name is one that nobody checks.
        let name = packet.hash_name().to_ascii_uppercase();
        if !name.contains(' ') && !hashes.contains(&name) {
            hashes.push(name);
        }
    }
    let mut head = [BEGIN, b"\n"].concat();
    if !hashes.is_empty() {
        head.extend_from_slice(format!("Hash: {}\n", hashes.join(",")).as_bytes());
    }
    head.push(b'\n');
    let all: Vec<u8> = packets.iter().flat_map(|packet| packet.bytes()).copied().collect();
    (head, armor::encode(armor::Kind::Signature, &all).into_bytes())
}

/// Bytes of head and tail for signatures with so many bytes.
fn frame_len_max(packets_len: u64) -> u64 {
    // Armor makes a third more, a newline a line more, and has a frame.
    packets_len.saturating_mul(3).div_euclid(2).saturating_add(HEAD_BYTES_MAX).saturating_add(128)
}

fn length(len: usize) -> u64 {
    u64::try_from(len).unwrap_or(u64::MAX)
}

fn only(packets: &[Vec<u8>]) -> Result<&[u8], Error> {
    match packets {
        [packet] => Ok(packet),
        _ => Err(Error::internal("not one signature for one document")),
    }
}

/// A new file.
pub(super) struct FramePlan {
    pub(super) document_len: u64,
}

impl Plan for FramePlan {
    fn room(&self, _: usize, _: Layout) -> Room {
        Room { from: 0, until: 0, growth_max: 0, keeps_len: true, shares: true }
    }

    fn output(&self, packets: &[Vec<u8>], _: Layout) -> Result<Output, Error> {
        let framed = Framed::new(only(packets)?, self.document_len)?;
        Ok(Output::Beside(vec![NewContent::Framed(framed)]))
    }
}

/// The document becomes the signed one.
pub(super) struct InPlacePlan {
    escapes: Vec<u64>,
    needs_newline: bool,
    document_len: u64,
}

impl InPlacePlan {
    pub(super) fn new(plain: &Plain, document_len: u64) -> Result<Self, Error> {
        refuse_many(plain.escapes.len())?;
        let needs_newline = plain.needs_newline;
        Ok(Self { escapes: plain.escapes.clone(), needs_newline, document_len })
    }
}

impl Plan for InPlacePlan {
    fn room(&self, packet_len: usize, _: Layout) -> Room {
        let escapes = length(self.escapes.len()).saturating_mul(2);
        let growth_max = frame_len_max(length(packet_len)).saturating_add(escapes).saturating_add(1);
        Room { from: 0, until: self.document_len, growth_max, keeps_len: false, shares: false }
    }

    fn output(&self, packets: &[Vec<u8>], _: Layout) -> Result<Output, Error> {
        let (head, mut tail) = frame(&SignaturePacket::parse_many(only(packets)?)?);
        if self.needs_newline {
            tail.insert(0, b'\n');
        }
        let insert = |offset, insert| Edit { offset, remove: 0, insert };
        let mut edits = vec![insert(0, head)];
        edits.extend(self.escapes.iter().map(|at| insert(*at, b"- ".to_vec())));
        edits.push(insert(self.document_len, tail));
        Ok(Output::Edits(Edits::new(edits, self.document_len)?))
    }
}

/// A signed document gets other signatures.
pub(super) struct ResignPlan {
    others: Vec<SignaturePacket>,
    head_len: u64,
    body_end: u64,
    len: u64,
}

impl ResignPlan {
    /// # Errors
    /// With one more there would be more signatures than anybody reads.
    pub(super) fn new(
        others: Vec<SignaturePacket>,
        head_len: u64,
        body_end: u64,
        len: u64,
    ) -> Result<Self, Error> {
        if others.len() >= PACKETS_MAX {
            return Err(Error::Refused {
                reason: format!("it has {} signatures already, and {PACKETS_MAX} are read", others.len()),
                advice: "Use --if-signed replace.",
            });
        }
        Ok(Self { others, head_len, body_end, len })
    }
}

impl Plan for ResignPlan {
    fn room(&self, packet_len: usize, _: Layout) -> Room {
        let others: u64 = self.others.iter().map(|packet| length(packet.bytes().len())).sum();
        let growth_max = frame_len_max(others.saturating_add(length(packet_len)));
        Room { from: 0, until: self.len, growth_max, keeps_len: false, shares: false }
    }

    fn output(&self, packets: &[Vec<u8>], _: Layout) -> Result<Output, Error> {
        let mut all = self.others.clone();
        all.extend(SignaturePacket::parse_many(only(packets)?)?);
        let (head, tail) = frame(&all);
        let edits = vec![
            Edit { offset: 0, remove: self.head_len, insert: head },
            Edit { offset: self.body_end, remove: self.len.saturating_sub(self.body_end), insert: tail },
        ];
        Ok(Output::Edits(Edits::new(edits, self.len)?))
    }
}

/// Standard input: the signed document is made in memory.
pub(super) struct StreamPlan {
    pub(super) document: Vec<u8>,
    pub(super) plan: Box<dyn Plan>,
}

impl Plan for StreamPlan {
    fn room(&self, packet_len: usize, layout: Layout) -> Room {
        self.plan.room(packet_len, layout)
    }

    fn output(&self, packets: &[Vec<u8>], layout: Layout) -> Result<Output, Error> {
        let bytes = match self.plan.output(packets, layout)? {
            Output::Edits(edits) => edits.apply(&self.document),
            Output::Beside(files) => match files.into_iter().next() {
                Some(NewContent::Bytes(bytes)) => bytes,
                Some(NewContent::Framed(framed)) => {
                    let mut out = Vec::new();
                    let written = framed.write(&self.document, &mut |bytes| {
                        out.extend_from_slice(bytes);
                        Ok(())
                    });
                    written.map_err(|source| Error::Read { offset: 0, source })?;
                    out
                }
                None => return Err(Error::internal("no document was made")),
            },
        };
        Ok(Output::Beside(vec![NewContent::Bytes(bytes)]))
    }
}

/// Edits that leave the document alone: its escapes, head and tail go.
pub(super) fn strip(signed: &Signed, len: u64) -> Result<Edits, Error> {
    refuse_many(signed.escapes_at.len())?;
    let remove = |offset, remove| Edit { offset, remove, insert: Vec::new() };
    let mut edits = vec![remove(0, signed.head_len)];
    edits.extend(signed.escapes_at.iter().map(|at| remove(*at, 2)));
    edits.push(remove(signed.body_end, len.saturating_sub(signed.body_end)));
    Edits::new(edits, len)
}

fn refuse_many(escapes: usize) -> Result<(), Error> {
    if escapes <= ESCAPES_MAX {
        return Ok(());
    }
    Err(Error::Refused {
        reason: format!(
            "more than {ESCAPES_MAX} of its lines have an escape, too many to change a file in place"
        ),
        advice: "Sign it to a new file (--cleartext-output asc); gpg --output FILE --decrypt takes escapes away.",
    })
}
