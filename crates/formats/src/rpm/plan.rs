//! Where new signatures go: which tags they take, what stays beside them, and the one edit that writes them.

use std::ops::Range;
use std::sync::Arc;

use sealwright_crypto::openpgp::packet::SignaturePacket;

use super::budget::Buffer;
use super::limits::{LEAD_BYTES, Release};
use super::signature_header::{GROWN_BYTES_MAX, Item, SignatureHeader};
use super::signatures::{Covers, encode};
use super::tags;
use crate::error::Error;
use crate::prepared::{Layout, Output, Plan, Room};
use crate::splice::{Edit, Edits};

/// By how many bytes packets of one key differ at most: integers without leading zeros, the salt notation.
const PACKET_LEN_SPREAD: usize = 160;

/// The plan for one package.
pub(super) struct RpmPlan {
    /// The signature header without signatures.
    pub(super) base: SignatureHeader,
    /// The bytes that it has now, padding included.
    pub(super) old: Arc<Buffer>,
    /// Signature entries that stay as they are.
    pub(super) kept: Vec<Item>,
    /// Strings of tag 278 that stay.
    pub(super) kept_strings: Vec<Vec<u8>>,
    /// One for each thing to sign.
    pub(super) slots: Vec<Slot>,
    /// The oldest rpm that must read the result.
    pub(super) release: Release,
    /// Bytes of the file.
    pub(super) file_len: u64,
}

/// Where one signature goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slot {
    pub(super) covers: Covers,
    /// To 267 or 268, 1005 or 1002.
    pub(super) legacy: bool,
    /// To 278.
    pub(super) openpgp: bool,
}

impl RpmPlan {
    /// Refuses early what [`Plan::output`] would refuse after a signature was made; `packet_len` is the least
    /// that a packet will have.
    ///
    /// # Errors
    /// [`Error::TooLarge`].
    pub(super) fn check(&self, packet_len: usize) -> Result<(), Error> {
        let (entries, data_bytes) = self.base.with(&self.dummies(packet_len)).size();
        self.release.check(entries, data_bytes)
    }

    /// The header with these signatures: in the space that is there if they fit, else longer, by whole blocks if
    /// that is wanted and the release reads it.
    fn header_with(&self, signatures: &[Item], layout: Layout) -> SignatureHeader {
        let tight = self.base.with(signatures);
        let Layout::Blocks(block) = layout else { return tight };
        let blocks = |header: &SignatureHeader| header.encoded_len().abs_diff(self.old.len());
        let block = usize::try_from(block).unwrap_or(usize::MAX).max(1);
        if blocks(&tight).is_multiple_of(block) {
            return tight;
        }
        let fits = |grown: &SignatureHeader| {
            let (entries, data_bytes) = grown.size();
            self.release.check(entries, data_bytes).is_ok()
        };
        self.base.grown(signatures, self.old.len(), block).filter(fits).unwrap_or(tight)
    }

    /// Length of the header with packets of this length.
    fn len_with(&self, packet_len: usize, layout: Layout) -> usize {
        self.header_with(&self.dummies(packet_len), layout).encoded_len()
    }

    /// Entries of the length that packets of this length make; the tags do not matter for the length.
    fn dummies(&self, packet_len: usize) -> Vec<Item> {
        let packet = vec![0; packet_len];
        let legacy = self.slots.iter().filter(|slot| slot.legacy).map(|slot| match slot.covers {
            Covers::Header => Item::binary(tags::RSA_HEADER, packet.clone()),
            Covers::HeaderAndPayload => Item::binary(tags::PGP, packet.clone()),
        });
        let mut items: Vec<Item> = self.kept.iter().cloned().chain(legacy).collect();
        let new = self.slots.iter().filter(|slot| slot.openpgp).map(|_| encode(&packet));
        items.extend(self.openpgp(new.collect()));
        items
    }

    /// Tag 278 with what stays and what is new, if there is any.
    fn openpgp(&self, new: Vec<Vec<u8>>) -> Option<Item> {
        let strings: Vec<Vec<u8>> = self.kept_strings.iter().cloned().chain(new).collect();
        (!strings.is_empty()).then(|| Item::strings(tags::OPENPGP, &strings))
    }

    /// One edit, of the bytes that differ if the length stays. The new header is not held whole beside the old one,
    /// only what the edit writes.
    fn edits(&self, new: &SignatureHeader) -> Result<Edits, Error> {
        let bytes = |len: usize| u64::try_from(len).unwrap_or(u64::MAX);
        let new_len = new.encoded_len();
        let keeps_len = new_len == self.old.len();
        let range = if keeps_len { self.changed(new) } else { 0..new_len };
        let insert = part(new, &range);
        let remove = if keeps_len { insert.len() } else { self.old.len() };
        let edit =
            Edit { offset: LEAD_BYTES.saturating_add(bytes(range.start)), remove: bytes(remove), insert };
        let nothing = edit.remove == 0 && edit.insert.is_empty();
        Edits::new(if nothing { Vec::new() } else { vec![edit] }, self.file_len)
    }

    /// From the first byte that differs from the old header, which has the same length, to the last.
    fn changed(&self, new: &SignatureHeader) -> Range<usize> {
        let mut at = 0usize;
        let mut changed: Option<Range<usize>> = None;
        new.emit(&mut |piece| {
            let end = at.saturating_add(piece.len());
            let old = self.old.get(at..end).unwrap_or_default();
            if old != piece {
                let differs = |pair: (&u8, &u8)| pair.0 != pair.1;
                let first = old.iter().zip(piece).position(differs).unwrap_or(0);
                let last = old.iter().zip(piece).rposition(differs).unwrap_or(piece.len());
                let start = changed.as_ref().map_or(at.saturating_add(first), |range| range.start);
                changed = Some(start..at.saturating_add(last).saturating_add(1));
            }
            at = end;
        });
        changed.unwrap_or_default()
    }
}

/// These bytes of an encoded header.
fn part(header: &SignatureHeader, range: &Range<usize>) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(range.len());
    let mut at = 0usize;
    header.emit(&mut |piece| {
        let index = |offset: usize| offset.saturating_sub(at).min(piece.len());
        bytes.extend_from_slice(piece.get(index(range.start)..index(range.end)).unwrap_or_default());
        at = at.saturating_add(piece.len());
    });
    bytes
}

impl Plan for RpmPlan {
    fn room(&self, packet_len: usize, layout: Layout) -> Room {
        let bytes = |len: usize| u64::try_from(len).unwrap_or(u64::MAX);
        // Every entry costs its index entry, its data, and at most 7 bytes of alignment around it.
        let dummies = self.dummies(packet_len);
        let costs = dummies.iter().map(|item| item.data.len().saturating_add(16).saturating_add(8));
        let most = costs.fold(8usize, usize::saturating_add);
        let base = self.base.encoded_len();
        let fits = self.base.reserve_zeros() > most && self.len_with(packet_len, Layout::Tight) == base;
        let new = if fits { base } else { base.saturating_add(most) };
        let growth_max = match layout {
            Layout::Tight => new.saturating_sub(self.old.len()),
            Layout::Blocks(block) => new
                .saturating_add(if fits { 0 } else { GROWN_BYTES_MAX })
                .saturating_sub(self.old.len())
                .checked_next_multiple_of(usize::try_from(block).unwrap_or(usize::MAX))
                .unwrap_or(usize::MAX),
        };
        let shorter = packet_len.saturating_sub(PACKET_LEN_SPREAD);
        let lens = [packet_len, shorter].map(|len| self.len_with(len, layout).abs_diff(self.old.len()));
        let keeps_len = lens.iter().all(|moved| *moved == 0);
        let shares = match layout {
            Layout::Tight => keeps_len,
            Layout::Blocks(block) => {
                let block = usize::try_from(block).unwrap_or(usize::MAX);
                lens.iter().all(|moved| moved.is_multiple_of(block))
            }
        };
        let until = LEAD_BYTES.saturating_add(bytes(self.old.len()));
        Room { from: LEAD_BYTES, until, growth_max: bytes(growth_max), keeps_len, shares }
    }

    fn output(&self, packets: &[Vec<u8>], layout: Layout) -> Result<Output, Error> {
        if packets.len() != self.slots.len() {
            return Err(Error::internal("not as many signatures as things to sign"));
        }
        let mut items = self.kept.clone();
        let mut strings = Vec::new();
        for (slot, bytes) in self.slots.iter().zip(packets) {
            let packet = SignaturePacket::parse(bytes)?;
            if slot.legacy {
                items.push(Item::binary(legacy_tag(&packet, slot.covers)?, bytes.clone()));
            }
            if slot.openpgp {
                strings.push(encode(bytes));
            }
        }
        items.extend(self.openpgp(strings));
        let header = self.header_with(&items, layout);
        let (entries, data_bytes) = header.size();
        self.release.check(entries, data_bytes)?;
        Ok(Output::Edits(self.edits(&header)?))
    }
}

/// The edits that turn `old` into the header without its signatures.
pub(super) fn strip_edits(base: SignatureHeader, old: Arc<Buffer>, file_len: u64) -> Result<Edits, Error> {
    let (kept, kept_strings, slots) = (Vec::new(), Vec::new(), Vec::new());
    let plan = RpmPlan { base, old, kept, kept_strings, slots, release: Release::NEWEST, file_len };
    plan.edits(&plan.base)
}

/// Tags were named after the algorithms of 1999; later ones share that of DSA (rpm `sign/rpmgensig.cc`,
/// `putSignature`).
fn legacy_tag(packet: &SignaturePacket, covers: Covers) -> Result<u32, Error> {
    let refused = |why: String| Error::Refused {
        reason: why,
        advice: "Use a version 4 RSA or EdDSA key; newer kinds only go into tag 278.",
    };
    if packet.version() > 4 {
        let version = packet.version();
        return Err(refused(format!("a version {version} signature has no place in an old tag")));
    }
    match (packet.key_algorithm_id(), covers) {
        (1 | 3, Covers::Header) => Ok(tags::RSA_HEADER),
        (1 | 3, Covers::HeaderAndPayload) => Ok(tags::PGP),
        (17 | 19 | 22, Covers::Header) => Ok(tags::DSA_HEADER),
        (17 | 19 | 22, Covers::HeaderAndPayload) => Ok(tags::GPG),
        _ => {
            let name = packet.key_algorithm_name();
            Err(refused(format!("rpm has no tag for a {name} signature in a v4 package")))
        }
    }
}
