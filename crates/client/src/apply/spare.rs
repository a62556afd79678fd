//! A file that holds space for undo records until they are written, and takes them where there is no other space: into
//! its own blocks, so that a disk that is full by then has no say, and no file system must hand out again what it was
//! given back (which it may do late, or to another).
//!
//! ```text
//! header: "SEALKEPT" | time u64, nanoseconds since 1970 | length u64 of the journal | zeros up to 512 bytes
//! journal, as undo.rs writes it | anything: space for the next ones
//! ```
//!
//! All numbers are big-endian. A header of zeros says that there is no journal; it is one sector, which a disk writes
//! whole or not at all, and it is written when the journal is on the disk. So a journal is there whole or not at all.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::apply::undo::{JOURNAL_BYTES_MAX, SECTOR_BYTES};
use crate::apply::{length, space};

/// The file grows and shrinks by so many bytes, for many records at once: a change of a length is a good part of what
/// the file system does for a signature over a header.
const STEP_BYTES: u64 = 512 << 10;
const MAGIC: &[u8; 8] = b"SEALKEPT";
const HEADER_BYTES: usize = 24;
const NO_JOURNAL: [u8; HEADER_BYTES] = [0; HEADER_BYTES];

/// The file; whoever made it removes its name.
#[derive(Debug)]
pub(crate) struct Spare {
    file: File,
    name: OsString,
    /// Its length; all of it has blocks.
    len: u64,
    /// Whether the disk may know another header than that of no journal.
    used: bool,
}

/// What such a file of a dead process holds.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Content {
    /// No journal.
    Nothing,
    /// One that was written at this time, in nanoseconds since 1970.
    Journal { time: u64, bytes: Vec<u8> },
    /// Not a header that this release writes.
    OtherHeader,
    /// It is shorter than its header says, or longer than a journal can be.
    OtherLength,
}

impl Spare {
    /// Of a file that is empty.
    pub(crate) const fn new(file: File, name: OsString) -> Self {
        Self { file, name, len: 0, used: false }
    }

    pub(crate) const fn name(&self) -> &OsString {
        &self.name
    }

    /// Has blocks for a journal of so many bytes, at least.
    ///
    /// # Errors
    /// Space or quota is short; nothing was taken.
    pub(crate) fn grow(&mut self, journal_bytes: u64) -> io::Result<()> {
        let need = journal_bytes.saturating_add(SECTOR_BYTES);
        if need > self.len && self.take(need.next_multiple_of(STEP_BYTES)).is_err() {
            self.take(need)?;
        }
        Ok(())
    }

    fn take(&mut self, len: u64) -> io::Result<()> {
        let taken = space::take(&self.file, self.len, len);
        match taken {
            Ok(()) => self.len = self.len.max(len),
            // Whatever part of it was taken.
            Err(_) => self.set_len(self.len),
        }
        taken
    }

    /// Gives back what a journal of so many bytes does not need, if it is worth it.
    pub(crate) fn shrink(&mut self, journal_bytes: u64) {
        let need = journal_bytes.saturating_add(SECTOR_BYTES).next_multiple_of(STEP_BYTES);
        if self.len.saturating_sub(need) >= STEP_BYTES {
            self.set_len(need);
        }
    }

    /// For good: a journal stays in it.
    pub(crate) fn shrink_to(mut self, journal_bytes: u64) {
        self.set_len(journal_bytes.saturating_add(SECTOR_BYTES));
    }

    /// A failure only keeps space that could be free.
    fn set_len(&mut self, len: u64) {
        if rustix::fs::ftruncate(&self.file, len).is_ok() {
            self.len = len;
        }
    }

    /// Writes and syncs a journal.
    ///
    /// # Errors
    /// It is longer than what was taken, or the disk refuses; there is no journal then.
    pub(crate) fn write(&mut self, journal: &[u8]) -> io::Result<()> {
        if length(journal).saturating_add(SECTOR_BYTES) > self.len {
            return Err(io::ErrorKind::StorageFull.into());
        }
        if self.used {
            // Bytes of the next journal must not be on the disk under the header of the one before.
            self.file.write_all_at(&NO_JOURNAL, 0)?;
            rustix::fs::fsync(&self.file)?;
            self.used = false;
        }
        self.file.write_all_at(journal, SECTOR_BYTES)?;
        rustix::fs::fsync(&self.file)?;
        self.used = true;
        let written = self
            .file
            .write_all_at(&header(length(journal)), 0)
            .and_then(|()| Ok(rustix::fs::fsync(&self.file)?));
        if written.is_err() {
            self.clear();
        }
        written
    }

    /// There is no journal any more. Not synced, and a failure is none: recovery finds every sector new, and only removes
    /// it; the next journal is written only after this one is surely gone.
    pub(crate) fn clear(&self) {
        let _ = self.file.write_all_at(&NO_JOURNAL, 0);
    }
}

fn header(len: u64) -> [u8; HEADER_BYTES] {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let time = u64::try_from(since.as_nanos()).unwrap_or(u64::MAX);
    let mut header = NO_JOURNAL;
    let fields = [*MAGIC, time.to_be_bytes(), len.to_be_bytes()];
    header.copy_from_slice(fields.as_flattened());
    header
}

/// Reads such a file.
///
/// # Errors
/// Reading fails.
pub(crate) fn read(file: &File) -> io::Result<Content> {
    let mut header = NO_JOURNAL;
    match file.read_exact_at(&mut header, 0) {
        // Killed before there was space.
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(Content::Nothing),
        outcome => outcome?,
    }
    let (fields, _) = header.as_chunks::<8>();
    let &[magic, time, len] = fields else { return Ok(Content::OtherHeader) };
    if header == NO_JOURNAL {
        return Ok(Content::Nothing);
    }
    if magic != *MAGIC {
        return Ok(Content::OtherHeader);
    }
    let len = u64::from_be_bytes(len);
    let end = len.checked_add(SECTOR_BYTES).filter(|_| len <= JOURNAL_BYTES_MAX);
    if end.is_none_or(|end| file.metadata().is_ok_and(|meta| meta.len() < end)) {
        return Ok(Content::OtherLength);
    }
    let mut bytes = vec![0; usize::try_from(len).unwrap_or_default()];
    file.read_exact_at(&mut bytes, SECTOR_BYTES)?;
    Ok(Content::Journal { time: u64::from_be_bytes(time), bytes })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt as _;

    use super::*;

    fn spare() -> (Spare, File) {
        let file = tempfile::tempfile().unwrap();
        (Spare::new(file.try_clone().unwrap(), OsString::new()), file)
    }

    fn journal(file: &File) -> Option<Vec<u8>> {
        match read(file).unwrap() {
            Content::Journal { bytes, .. } => Some(bytes),
            Content::Nothing => None,
            other @ (Content::OtherHeader | Content::OtherLength) => panic!("{other:?}"),
        }
    }

    #[test]
    fn it_takes_blocks_in_steps_and_gives_them_back_in_steps() {
        let (mut spare, file) = spare();
        let len = || file.metadata().unwrap().len();
        spare.grow(1 << 20).unwrap();
        assert_eq!(len(), (1 << 20) + STEP_BYTES);
        assert!(file.metadata().unwrap().blocks() * 512 >= len());
        spare.grow((1 << 20) + 4096).unwrap();
        spare.shrink(1 << 20);
        spare.shrink(1 << 19);
        assert_eq!(len(), (1 << 20) + STEP_BYTES - STEP_BYTES);
        spare.shrink_to(100);
        assert_eq!(len(), 100 + SECTOR_BYTES);
    }

    #[test]
    fn journals_one_after_another_are_read_as_they_were_written_in_the_same_blocks() {
        let (mut spare, file) = spare();
        assert_eq!(read(&file).unwrap(), Content::Nothing, "empty");
        spare.grow(1000).unwrap();
        assert_eq!(journal(&file), None);
        let blocks = file.metadata().unwrap().blocks();
        for bytes in [vec![1; 1000], vec![2; 10], vec![3; 600]] {
            spare.write(&bytes).unwrap();
            assert_eq!(journal(&file), Some(bytes));
            spare.clear();
            assert_eq!(journal(&file), None);
        }
        assert_eq!((file.metadata().unwrap().blocks(), file.metadata().unwrap().len()), (blocks, STEP_BYTES));
        let error = spare.write(&vec![4; usize::try_from(STEP_BYTES).unwrap()]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull, "more than was taken");
        assert_eq!(journal(&file), None);
    }

    #[test]
    fn a_header_that_is_not_ours_or_does_not_fit_is_named_and_nothing_is_read_for_it() {
        let (mut spare, file) = spare();
        spare.grow(1000).unwrap();
        spare.write(&[1; 1000]).unwrap();
        for (at, byte, expected) in [
            (0, b'X', Content::OtherHeader),
            (20, 0xff, Content::OtherLength),
            (16, 0xff, Content::OtherLength),
        ] {
            let mut old = [0];
            file.read_exact_at(&mut old, at).unwrap();
            file.write_all_at(&[byte], at).unwrap();
            assert_eq!(read(&file).unwrap(), expected, "byte {at}");
            file.write_all_at(&old, at).unwrap();
        }
        file.set_len(1000).unwrap();
        assert_eq!(read(&file).unwrap(), Content::OtherLength, "cut");
    }
}
