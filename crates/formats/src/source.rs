//! Where bytes come from: anything with a length that can be read at an offset. Every read is bounded by the
//! caller's buffer; a length that a file claims is compared with [`ReadAt::len`] before it is believed.

use std::io;

/// A file, a part of one, or bytes in memory.
pub trait ReadAt: Send + Sync {
    /// Length in bytes, taken once when it was opened.
    fn len(&self) -> u64;

    /// Whether there is no byte.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Fills `buf` from `offset`.
    ///
    /// # Errors
    /// [`io::ErrorKind::UnexpectedEof`] if the source ends before, and what the operating system says.
    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()>;
}

impl ReadAt for [u8] {
    fn len(&self) -> u64 {
        u64::try_from(<[u8]>::len(self)).unwrap_or(u64::MAX)
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        let part = usize::try_from(offset)
            .ok()
            .and_then(|start| self.get(start..))
            .and_then(|rest| rest.get(..buf.len()))
            .ok_or(io::ErrorKind::UnexpectedEof)?;
        buf.copy_from_slice(part);
        Ok(())
    }
}

impl ReadAt for Vec<u8> {
    fn len(&self) -> u64 {
        ReadAt::len(self.as_slice())
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        self.as_slice().read_exact_at(buf, offset)
    }
}

/// Largest piece that [`for_each_chunk`] reads at once, in bytes: large enough for sequential disks, small
/// enough that eight jobs stay far below the memory law.
pub const CHUNK_BYTES: usize = 256 << 10;

/// Reads `start..end` in pieces of at most [`CHUNK_BYTES`], in order, and hands each to `each`.
///
/// # Errors
/// As [`ReadAt::read_exact_at`].
pub fn for_each_chunk(
    source: &dyn ReadAt,
    start: u64,
    end: u64,
    mut each: impl FnMut(&[u8]),
) -> io::Result<()> {
    let longest = usize::try_from(end.saturating_sub(start)).unwrap_or(usize::MAX).min(CHUNK_BYTES);
    let mut buf = vec![0; longest];
    let mut at = start;
    while at < end {
        let want = usize::try_from(end.saturating_sub(at)).unwrap_or(usize::MAX).min(CHUNK_BYTES);
        let part = buf.get_mut(..want).unwrap_or_default();
        source.read_exact_at(part, at)?;
        each(part);
        at = at.saturating_add(u64::try_from(want).unwrap_or(u64::MAX));
    }
    Ok(())
}
