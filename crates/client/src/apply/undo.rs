//! The undo record of files that are written in place: a pure codec, strict, with limits; and what the bytes of a
//! file say about its record. What is done with it is in `journal.rs` and `recovery.rs`; why it is as it is in
//! `docs/adr/0010-in-place-and-undo.md`.
//!
//! ```text
//! "SEALUNDO" | version u32 = 1 | records u32 | record... | SHA-256 of everything before it
//! record: device u64 | inode u64 | size u64 | modified s i64, ns u32 | path length u32, path | sectors u32 | sector...
//! sector: offset u64 | length u32 | old bytes | SHA-256 of the new bytes
//! ```
//!
//! All numbers are big-endian. A sector starts at a multiple of 512 and is 512 bytes long, but for the last one of
//! the file: the disk writes a sector whole or not at all, so after a crash each is old or new.

use sealwright_crypto::algorithm::HashAlgorithm;
use sealwright_crypto::digest::Hasher;

/// Bytes that a disk writes whole.
pub const SECTOR_BYTES: u64 = 512;
/// Records in one journal: files of one group.
pub const RECORDS_MAX: usize = 64;
/// Bytes that change in one file at most, in sectors: more is not "the bytes of a signature".
pub const CHANGED_BYTES_MAX: u64 = 16 << 20;
/// Longest path in bytes (Linux `PATH_MAX`).
pub const PATH_BYTES_MAX: usize = 4096;
/// Longest journal in bytes; a group that would need more is split.
pub const JOURNAL_BYTES_MAX: u64 = 64 << 20;

const MAGIC: &[u8; 8] = b"SEALUNDO";
const VERSION: u32 = 1;
const CHECKSUM_BYTES: usize = 32;

/// What one file was before it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Device number.
    pub device: u64,
    /// Inode number.
    pub inode: u64,
    /// Bytes of the file; writing in place does not change it.
    pub size: u64,
    /// Modification time before: seconds, nanoseconds.
    pub modified: (i64, u32),
    /// Absolute path: to find the file again, and for a person.
    pub path: Vec<u8>,
    /// In order of offset, without overlap.
    pub sectors: Vec<Sector>,
}

/// One sector that changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sector {
    /// Byte offset, a multiple of [`SECTOR_BYTES`].
    pub offset: u64,
    /// What was there.
    pub old: Vec<u8>,
    /// SHA-256 of what will be there.
    pub new: [u8; 32],
}

/// What a file is to its record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Every sector is old: nothing was written. A record without sectors says so too.
    Old,
    /// Every sector is new: everything was written.
    New,
    /// Every sector is old or new, and there are both: it was being written. Only now may old bytes be written back.
    Torn,
}

/// Why it cannot be said what a file is to its record: nothing may be written to it.
#[derive(Debug, PartialEq, Eq)]
pub enum Undecided<E> {
    /// It cannot be read.
    Read(E),
    /// The sector at this offset is neither old nor new.
    Foreign(u64),
}

impl Record {
    /// Compares every sector of the record with the file. `read` fills a buffer with the file's bytes from an offset.
    ///
    /// # Errors
    /// [`Undecided`].
    pub fn state<E>(
        &self,
        mut read: impl FnMut(&mut [u8], u64) -> Result<(), E>,
    ) -> Result<State, Undecided<E>> {
        let (mut some_old, mut some_new) = (false, false);
        for sector in &self.sectors {
            let mut there = vec![0; sector.old.len()];
            read(&mut there, sector.offset).map_err(Undecided::Read)?;
            let (is_old, is_new) = (there == sector.old, sha256(&there) == sector.new);
            if !(is_old || is_new) {
                return Err(Undecided::Foreign(sector.offset));
            }
            // One that does not change at all says nothing.
            some_old |= is_old && !is_new;
            some_new |= is_new && !is_old;
        }
        Ok(match (some_old, some_new) {
            (_, false) => State::Old,
            (false, true) => State::New,
            (true, true) => State::Torn,
        })
    }
}

/// Why bytes are no undo journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Malformed {
    /// Of another kind, or of a later release.
    #[error("not an undo record of version {VERSION}")]
    Version,
    /// The checksum differs: damaged.
    #[error("its checksum is wrong")]
    Checksum,
    /// It ends early, or goes on.
    #[error("its length is wrong")]
    Length,
    /// A number is beyond a limit.
    #[error("{0} is beyond the limit")]
    Limit(&'static str),
    /// A path that is not absolute or holds a zero byte.
    #[error("its path is not absolute")]
    Path,
    /// Sectors out of order, out of the file, or of a wrong length.
    #[error("its sectors are wrong")]
    Sectors,
}

/// Writes a journal.
#[must_use]
pub fn encode(records: &[Record]) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    let count = |len: usize| u32::try_from(len).unwrap_or(u32::MAX).to_be_bytes();
    bytes.extend(VERSION.to_be_bytes());
    bytes.extend(count(records.len()));
    for record in records {
        bytes.extend(record.device.to_be_bytes());
        bytes.extend(record.inode.to_be_bytes());
        bytes.extend(record.size.to_be_bytes());
        bytes.extend(record.modified.0.to_be_bytes());
        bytes.extend(record.modified.1.to_be_bytes());
        bytes.extend(count(record.path.len()));
        bytes.extend_from_slice(&record.path);
        bytes.extend(count(record.sectors.len()));
        for sector in &record.sectors {
            bytes.extend(sector.offset.to_be_bytes());
            bytes.extend(count(sector.old.len()));
            bytes.extend_from_slice(&sector.old);
            bytes.extend_from_slice(&sector.new);
        }
    }
    let checksum = sha256(&bytes);
    bytes.extend_from_slice(&checksum);
    bytes
}

/// How long a journal with one record becomes at most, in bytes, if so many bytes in a row can change in its file.
#[must_use]
pub fn encoded_len_max(changed_bytes: u64, path_bytes: usize) -> u64 {
    /// Magic, version, number of records, checksum; device, inode, size, time, two lengths.
    const FRAME: u64 = 8 + 4 + 4 + 32 + 3 * 8 + 12 + 2 * 4;
    /// Offset, length, old bytes, hash of the new ones.
    const SECTOR: u64 = 8 + 4 + SECTOR_BYTES + 32;
    // The first and the last can be touched by a byte each.
    let sectors = changed_bytes.div_ceil(SECTOR_BYTES).saturating_add(1);
    let path = u64::try_from(path_bytes).unwrap_or(u64::MAX);
    sectors.saturating_mul(SECTOR).saturating_add(FRAME).saturating_add(path)
}

/// Reads a journal; `write(read(x)) = x`.
///
/// # Errors
/// [`Malformed`]: the rule that it breaks.
pub fn parse(bytes: &[u8]) -> Result<Vec<Record>, Malformed> {
    if u64::try_from(bytes.len()).unwrap_or(u64::MAX) > JOURNAL_BYTES_MAX {
        return Err(Malformed::Limit("its length"));
    }
    let (content, checksum) = bytes.split_last_chunk::<CHECKSUM_BYTES>().ok_or(Malformed::Length)?;
    let mut cursor = Cursor(content);
    if cursor.array::<8>()? != *MAGIC || cursor.u32()? != VERSION {
        return Err(Malformed::Version);
    }
    if sha256(content) != *checksum {
        return Err(Malformed::Checksum);
    }
    let count = cursor.count(RECORDS_MAX, "the number of records")?;
    let records = (0..count).map(|_| record(&mut cursor)).collect::<Result<Vec<Record>, Malformed>>()?;
    if cursor.0.is_empty() { Ok(records) } else { Err(Malformed::Length) }
}

/// SHA-256.
#[must_use]
pub fn sha256(bytes: &[u8]) -> [u8; 32] {
    Hasher::digest(HashAlgorithm::Sha256, bytes).as_bytes().first_chunk().copied().unwrap_or_default()
}

fn record(cursor: &mut Cursor<'_>) -> Result<Record, Malformed> {
    let (device, inode, size) = (cursor.u64()?, cursor.u64()?, cursor.u64()?);
    let modified = (i64::from_be_bytes(cursor.array()?), cursor.u32()?);
    let path_len = cursor.count(PATH_BYTES_MAX, "the length of a path")?;
    let path = cursor.take(path_len)?.to_vec();
    if !path.starts_with(b"/") || path.contains(&0) {
        return Err(Malformed::Path);
    }
    let sectors_max = usize::try_from(CHANGED_BYTES_MAX.div_ceil(SECTOR_BYTES)).unwrap_or(usize::MAX);
    let count = cursor.count(sectors_max, "the number of sectors")?;
    let mut sectors = Vec::new();
    let mut end = 0u64;
    for _ in 0..count {
        let offset = cursor.u64()?;
        let len = cursor.count(usize::try_from(SECTOR_BYTES).unwrap_or(0), "the length of a sector")?;
        let expected = size.checked_sub(offset).map(|rest| rest.min(SECTOR_BYTES));
        let is_whole = expected.is_some_and(|expected| expected > 0 && u64::try_from(len) == Ok(expected));
        if !offset.is_multiple_of(SECTOR_BYTES) || offset < end || !is_whole {
            return Err(Malformed::Sectors);
        }
        end = offset.saturating_add(SECTOR_BYTES);
        sectors.push(Sector { offset, old: cursor.take(len)?.to_vec(), new: cursor.array()? });
    }
    Ok(Record { device, inode, size, modified, path, sectors })
}

struct Cursor<'a>(&'a [u8]);

impl<'a> Cursor<'a> {
    fn take(&mut self, len: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.0.split_at_checked(len).ok_or(Malformed::Length)?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (taken, rest) = self.0.split_first_chunk::<N>().ok_or(Malformed::Length)?;
        self.0 = rest;
        Ok(*taken)
    }

    fn u32(&mut self) -> Result<u32, Malformed> {
        self.array().map(u32::from_be_bytes)
    }

    fn u64(&mut self) -> Result<u64, Malformed> {
        self.array().map(u64::from_be_bytes)
    }

    fn count(&mut self, max: usize, what: &'static str) -> Result<usize, Malformed> {
        let count = usize::try_from(self.u32()?).unwrap_or(usize::MAX);
        if count > max { Err(Malformed::Limit(what)) } else { Ok(count) }
    }
}
