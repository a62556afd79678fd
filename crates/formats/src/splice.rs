//! A signed file as a list of edits to the unsigned one. Formats make them, `client/src/apply.rs` carries
//! them out; nothing here writes.

use crate::error::Error;

/// Replace `remove` bytes at `offset` (in the old file) by `insert`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edit {
    /// Byte offset in the old file.
    pub offset: u64,
    /// How many bytes of the old file go.
    pub remove: u64,
    /// What comes in their place.
    pub insert: Vec<u8>,
}

/// How a file may change its length.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Layout {
    /// By what is needed.
    #[default]
    Tight,
    /// By a multiple of this many bytes where the format can, so that what follows keeps its place within file
    /// system blocks and can be shared with the old file.
    Blocks(u32),
}

/// Edits in order of offset, without overlap, inside the file they are for: parsed once, right ever after.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edits {
    edits: Vec<Edit>,
    old_len: u64,
    new_len: u64,
}

impl Edits {
    /// # Errors
    /// [`Error::Internal`] if they are out of order, overlap, or reach past the end: a fault of the format.
    pub fn new(edits: Vec<Edit>, old_len: u64) -> Result<Self, Error> {
        let mut end = 0;
        let mut removed = 0u64;
        let mut inserted = 0u64;
        for edit in &edits {
            let edit_end = edit.offset.checked_add(edit.remove).ok_or(Error::internal("edit overflows"))?;
            if edit.offset < end || edit_end > old_len {
                return Err(Error::internal("edits overlap, are out of order or reach past the file"));
            }
            end = edit_end;
            removed = removed.saturating_add(edit.remove);
            inserted = inserted.saturating_add(u64::try_from(edit.insert.len()).unwrap_or(u64::MAX));
        }
        let new_len = old_len.saturating_sub(removed).saturating_add(inserted);
        Ok(Self { edits, old_len, new_len })
    }

    /// In order of offset.
    #[must_use]
    pub fn as_slice(&self) -> &[Edit] {
        &self.edits
    }

    /// Length of the file they are for.
    #[must_use]
    pub const fn old_len(&self) -> u64 {
        self.old_len
    }

    /// Length of the file they make.
    #[must_use]
    pub const fn new_len(&self) -> u64 {
        self.new_len
    }

    /// Whether every edit replaces as many bytes as it removes, so that nothing moves.
    #[must_use]
    pub fn keeps_layout(&self) -> bool {
        self.edits.iter().all(|edit| u64::try_from(edit.insert.len()) == Ok(edit.remove))
    }

    /// The new file in memory: for tests, small files, and re-reading what was written.
    #[must_use]
    pub fn apply(&self, old: &[u8]) -> Vec<u8> {
        let at = |offset: u64| usize::try_from(offset).unwrap_or(usize::MAX);
        let mut new = Vec::new();
        let mut from = 0;
        for edit in &self.edits {
            new.extend_from_slice(old.get(from..at(edit.offset)).unwrap_or_default());
            new.extend_from_slice(&edit.insert);
            from = at(edit.offset.saturating_add(edit.remove));
        }
        new.extend_from_slice(old.get(from..).unwrap_or_default());
        new
    }
}
