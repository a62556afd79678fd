//! Where things are in an RPM package, read without the code under test.
#![allow(dead_code, reason = "each target uses its part")]

use sealwright_formats::splice::Edits;

/// Bytes of the lead.
pub(crate) const LEAD_BYTES: usize = 96;

/// Where the main header starts: after the signature header, at a multiple of 8.
pub(crate) fn main_start(package: &[u8]) -> usize {
    let number = |at: usize| u32::from_be_bytes(package[at..at + 4].try_into().unwrap()) as usize;
    (LEAD_BYTES + 16 + 16 * number(104) + number(108)).next_multiple_of(8)
}

/// Lead, main header and payload are as they were, and no edit touches them.
pub(crate) fn changes_only_the_signature_header(old: &[u8], new: &[u8], edits: &Edits) {
    let (old_start, new_start) = (main_start(old), main_start(new));
    for edit in edits.as_slice() {
        let inside = edit.offset >= LEAD_BYTES as u64 && edit.offset + edit.remove <= old_start as u64;
        assert!(inside, "an edit reaches out of the signature header");
    }
    assert_eq!(old[..LEAD_BYTES], new[..LEAD_BYTES], "the lead changed");
    assert!(old[old_start..] == new[new_start..], "the main header or the payload changed");
}
