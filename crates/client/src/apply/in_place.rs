//! Writing into the file itself, for `--in-place`: only the bytes that change, under an undo record that was
//! synced first. The size must stay; whoever reads the file meanwhile can see half of it.

use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{Mode, OFlags, Timespec, Timestamps, UTIME_OMIT};
use rustix::io::Errno;
use sealwright_formats::prepared::Room;
use sealwright_formats::splice::Edits;

use crate::apply::journal::{Reserved, StateDirectory};
use crate::apply::undo::{self, CHANGED_BYTES_MAX, PATH_BYTES_MAX, Record, SECTOR_BYTES, Sector, sha256};
use crate::apply::{length, metadata};
use crate::error::{Error, Kept, NotInPlace};
use crate::source::file::SourceFile;

/// The same as [`SECTOR_BYTES`], for memory; and bytes that are read at once, whole sectors.
const SECTOR_BYTES_USIZE: usize = 512;
const PART_BYTES: u64 = 128 << 10;
const _: () = assert!(SECTOR_BYTES == 512 && PART_BYTES.is_multiple_of(SECTOR_BYTES));

/// A file that is open for writing, and the directory for its undo record.
#[derive(Debug)]
pub(crate) struct InPlace {
    file: File,
    state: Arc<StateDirectory>,
    /// Space for the undo record, until it is written.
    reserved: Option<Reserved>,
}

impl InPlace {
    /// Tries everything that writing will need, and reserves space for the undo record.
    ///
    /// # Errors
    /// As [`Self::check`]; space or quota is short where undo records lie.
    pub(crate) fn stage(source: &SourceFile, room: Room, state: &Arc<StateDirectory>) -> Result<Self, Error> {
        let mut staged = Self::check(source, room, state)?;
        let changed_bytes = room.until.saturating_sub(room.from);
        let path_bytes = source.path().as_os_str().len();
        staged.reserved = Some(state.reserve(undo::encoded_len_max(changed_bytes, path_bytes))?);
        Ok(staged)
    }

    /// Tries what can be tried without writing anything.
    ///
    /// # Errors
    /// [`Error::NotInPlace`], or the file cannot be written by this user.
    pub(crate) fn check(source: &SourceFile, room: Room, state: &Arc<StateDirectory>) -> Result<Self, Error> {
        let refused = |why| Err(Error::NotInPlace { why });
        if !room.keeps_len {
            return refused(NotInPlace::Moves);
        }
        if room.until.saturating_sub(room.from) > CHANGED_BYTES_MAX {
            return refused(NotInPlace::TooMuch { limit: CHANGED_BYTES_MAX });
        }
        if source.path().as_os_str().len() > PATH_BYTES_MAX {
            return refused(NotInPlace::LongPath { limit: PATH_BYTES_MAX });
        }
        if let Some(name) = metadata::seal_over_content(source.file())? {
            return refused(NotInPlace::Sealed { name });
        }
        let me = rustix::process::geteuid().as_raw();
        if me != 0 && me != source.stat().st_uid {
            // Only the owner may set times, and a package that changed must look newer.
            return Err(Error::NotKept { what: Kept::Times, source: Errno::PERM.into() });
        }
        let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
        let path = source.path();
        let io = |error: Errno| Error::io("write to", &path, error.into());
        let opened = rustix::fs::openat(source.dir(), source.name(), flags, Mode::empty());
        let file = File::from(opened.map_err(io)?);
        let stat = rustix::fs::fstat(&file).map_err(io)?;
        if (stat.st_dev, stat.st_ino) != (source.stat().st_dev, source.stat().st_ino) {
            return Err(Error::Changed { what: "another file has its name now" });
        }
        Ok(Self { file, state: Arc::clone(state), reserved: None })
    }

    /// What was reserved for its record, which is written now.
    pub(crate) const fn take_reserved(&mut self) -> Option<Reserved> {
        self.reserved.take()
    }

    pub(crate) const fn state(&self) -> &Arc<StateDirectory> {
        &self.state
    }

    pub(crate) const fn file(&self) -> &File {
        &self.file
    }

    /// What to undo: the sectors that these edits change, as they are now.
    ///
    /// # Errors
    /// Reading fails, or the edits move something.
    pub(crate) fn record(&self, source: &SourceFile, edits: &Edits) -> Result<Record, Error> {
        if !edits.keeps_layout() {
            return Err(Error::NotInPlace { why: NotInPlace::Moves });
        }
        let mut sectors: Vec<Sector> = Vec::new();
        for edit in edits.as_slice() {
            let end = edit.offset.saturating_add(edit.remove);
            let mut at = edit.offset.saturating_sub(edit.offset.checked_rem(SECTOR_BYTES).unwrap_or(0));
            while at < end {
                let old = part(&self.file, edits.old_len(), at, end)
                    .map_err(|error| Error::io("read", &source.path(), error))?;
                for old in old.chunks(SECTOR_BYTES_USIZE) {
                    if sectors.last().is_none_or(|last| last.offset < at) {
                        sectors.extend(sector(old, edits, at));
                    }
                    at = at.saturating_add(SECTOR_BYTES);
                }
            }
        }
        let stat = source.stat();
        let identity = source.identity();
        Ok(Record {
            device: identity.device,
            inode: identity.inode,
            size: identity.size,
            modified: (stat.st_mtime, u32::try_from(stat.st_mtime_nsec).unwrap_or_default()),
            path: source.path().as_os_str().as_bytes().to_vec(),
            sectors,
        })
    }

    /// Writes the bytes that change, and the time; returns how many bytes. Not synced yet.
    pub(crate) fn write(&self, source: &SourceFile, edits: &Edits) -> Result<u64, Error> {
        let mut bytes = 0u64;
        for edit in edits.as_slice() {
            self.file
                .write_all_at(&edit.insert, edit.offset)
                .map_err(|error| Error::write(source.dir_path(), edits.new_len(), error))?;
            bytes = bytes.saturating_add(length(&edit.insert));
        }
        let mode = Mode::from_raw_mode(source.stat().st_mode);
        metadata::finish(source, &self.file, mode, bytes > 0)?;
        Ok(bytes)
    }
}

/// Puts the old bytes back, with the time that the file had, and syncs. What is old already is not written: where a
/// file shares blocks with another, that would need space, and a full disk can be why it is rolled back.
///
/// # Errors
/// The disk refuses: the record must stay.
pub(crate) fn roll_back(file: &File, record: &Record) -> io::Result<()> {
    for sector in &record.sectors {
        let mut there = vec![0; sector.old.len()];
        let is_old = file.read_exact_at(&mut there, sector.offset).is_ok() && there == sector.old;
        if !is_old {
            file.write_all_at(&sector.old, sector.offset)?;
        }
    }
    let last_modification = Timespec { tv_sec: record.modified.0, tv_nsec: record.modified.1.into() };
    let times = Timestamps { last_access: Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT }, last_modification };
    rustix::fs::futimens(file, &times)?;
    rustix::fs::fsync(file)?;
    Ok(())
}

/// Whole sectors from `at` on, to the one in which `end` lies or the end of the file, but not too many at once.
fn part(file: &File, file_len: u64, at: u64, end: u64) -> io::Result<Vec<u8>> {
    let end = end.checked_next_multiple_of(SECTOR_BYTES).unwrap_or(end).min(file_len);
    let len = end.saturating_sub(at).min(PART_BYTES);
    if len == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let mut old = vec![0; usize::try_from(len).unwrap_or_default()];
    file.read_exact_at(&mut old, at)?;
    Ok(old)
}

/// The sector at `at`, which is `old`, if these edits change it.
fn sector(old: &[u8], edits: &Edits, at: u64) -> Option<Sector> {
    let len = length(old);
    let mut new = old.to_vec();
    for edit in edits.as_slice() {
        let from = edit.offset.max(at);
        let until = edit.offset.saturating_add(edit.remove).min(at.saturating_add(len));
        if from >= until {
            continue;
        }
        let index =
            |offset: u64, base: u64| usize::try_from(offset.saturating_sub(base)).unwrap_or(usize::MAX);
        let inserted = edit.insert.get(index(from, edit.offset)..index(until, edit.offset));
        if let (Some(target), Some(inserted)) = (new.get_mut(index(from, at)..index(until, at)), inserted) {
            target.copy_from_slice(inserted);
        }
    }
    (new != old).then(|| Sector { offset: at, old: old.to_vec(), new: sha256(&new) })
}

/// Opens what an undo record is about, as it was found when the record was written: no link on the way.
///
/// # Errors
/// It is not there, or cannot be opened for writing.
pub(crate) fn open_for_undo(path: &Path) -> rustix::io::Result<File> {
    use rustix::fs::ResolveFlags;
    let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
    let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    match rustix::fs::openat2(rustix::fs::CWD, path, flags, Mode::empty(), resolve) {
        // Identity and content are compared in any case.
        Err(Errno::NOSYS) => rustix::fs::open(path, flags, Mode::empty()),
        other => other,
    }
    .map(File::from)
}
