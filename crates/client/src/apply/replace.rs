//! The temporary that will take the name of its target: filled, given the edits, and dressed in the metadata of
//! the source.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use rustix::fs::Mode;
use sealwright_formats::prepared::Room;
use sealwright_formats::source::ReadAt as _;
use sealwright_formats::splice::{Edits, Layout};

use crate::apply::space::reserve;
use crate::apply::target::{Role, Target};
use crate::apply::temporary::Temporary;
use crate::apply::{Method, copy, length, metadata};
use crate::error::Error;
use crate::source::file::SourceFile;

/// Block sizes that a header may grow by; a file system that says another one is not asked to share.
const BLOCK_BYTES_MAX: u64 = 64 << 10;

/// Shorter files are copied where their content would have to move: a header that grows by whole blocks costs
/// space in every copy of the file, and saves nothing here.
const SHARED_BYTES_MIN: u64 = 1 << 20;

#[derive(Debug)]
pub(crate) struct Replacement {
    temporary: Temporary,
    content: Content,
    bytes: u64,
    mode: Mode,
    notes: Vec<&'static str>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Content {
    /// It shares the old content in blocks of this many bytes, but for the front: from `from` to `until` it has
    /// blocks of its own, so that writing there needs no space.
    Cloned { block: u64, spoilt: (u64, u64) },
    /// It is a copy of the old content.
    Copied,
    /// Space for the new content is reserved, nothing is in it: bytes will move, so each is written once, later.
    Reserved,
}

impl Replacement {
    pub(crate) fn stage(
        source: &SourceFile,
        target: &Target,
        room: &dyn Fn(Layout) -> Room,
    ) -> Result<(Self, Layout), Error> {
        let temporary = Temporary::create(&target.dir, &target.dir_path, Mode::RUSR | Mode::WUSR)?;
        let file = temporary.file();
        let block = rustix::fs::ioctl_ficlone(file, source.file()).ok().and_then(|()| block_bytes(file));
        let layout = block
            .filter(|_| source.len() >= SHARED_BYTES_MIN)
            .and_then(|block| u32::try_from(block).ok())
            .map_or(Layout::Tight, Layout::Blocks);
        let room = room(layout);
        let len_max = source.len().saturating_add(room.growth_max);
        let no_space = |error: io::Error| Error::write(&target.dir_path, len_max, error);
        let mut bytes = 0;
        let content = if let (Some(block), true) = (block, room.shares) {
            let spoilt = spoil(source, file, room, block).map_err(no_space)?;
            Content::Cloned { block, spoilt }
        } else {
            // What was shared of a file whose bytes will move.
            rustix::fs::ftruncate(file, 0).map_err(|error| no_space(error.into()))?;
            if !room.keeps_len && reserve(file, len_max).map_err(no_space)? {
                Content::Reserved
            } else {
                bytes = copy::whole(source.file(), file, source.len(), room.until).map_err(no_space)?;
                copy::zeros(file, source.len(), room.growth_max).map_err(no_space)?;
                Content::Copied
            }
        };
        let rule = match target.role {
            Role::ReplacesSource => metadata::Rule::Exact,
            Role::Copy => metadata::Rule::AsFarAsAllowed,
        };
        let kept = metadata::keep(source, file, rule)?;
        Ok((Self { temporary, content, bytes, mode: kept.mode, notes: kept.notes }, layout))
    }

    pub(crate) const fn file(&self) -> &File {
        self.temporary.file()
    }

    pub(crate) const fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) fn notes(&self) -> &[&'static str] {
        &self.notes
    }

    pub(crate) const fn method(&self) -> Method {
        match self.content {
            Content::Cloned { .. } => Method::Clone,
            Content::Copied | Content::Reserved => Method::Copy,
        }
    }

    /// Writes the edits, times and mode; nothing is synced yet.
    pub(crate) fn write(&mut self, source: &SourceFile, dir: &Path, edits: &Edits) -> Result<(), Error> {
        self.bytes =
            self.write_edits(source, edits).map_err(|error| Error::write(dir, edits.new_len(), error))?;
        metadata::finish(source, self.temporary.file(), self.mode, !edits.as_slice().is_empty())
    }

    pub(crate) fn sync(&self, dir: &Path, need: u64) -> Result<(), Error> {
        rustix::fs::fsync(self.temporary.file()).map_err(|error| Error::sync(dir, need, error.into()))
    }

    pub(crate) fn rename(&mut self, target: &Target) -> Result<(), Error> {
        self.temporary.rename(&target.name)
    }

    /// Walks the edits: what lies between them is copied or shared unless it is there already. Returns all bytes
    /// written so far.
    fn write_edits(&self, source: &SourceFile, edits: &Edits) -> io::Result<u64> {
        let file = self.temporary.file();
        if let Content::Cloned { .. } = self.content {
            // The end of the old file can only be shared where the new one ends too.
            rustix::fs::ftruncate(file, edits.new_len())?;
        }
        let (mut old, mut new) = (0u64, 0u64);
        let mut bytes = self.bytes;
        for edit in edits.as_slice() {
            let len = edit.offset.saturating_sub(old);
            bytes = bytes.saturating_add(self.between(source.file(), old, new, len)?);
            new = new.saturating_add(len);
            file.write_all_at(&edit.insert, new)?;
            let inserted = length(&edit.insert);
            bytes = bytes.saturating_add(inserted);
            new = new.saturating_add(inserted);
            old = edit.offset.saturating_add(edit.remove);
        }
        bytes = bytes.saturating_add(self.between(
            source.file(),
            old,
            new,
            edits.old_len().saturating_sub(old),
        )?);
        // Also gives back what was reserved and not used.
        rustix::fs::ftruncate(file, edits.new_len())?;
        Ok(bytes)
    }

    /// Brings `len` unchanged bytes from `old` in the source to `new`; returns how many were written.
    fn between(&self, source: &File, old: u64, new: u64, len: u64) -> io::Result<u64> {
        let file = self.temporary.file();
        if len == 0 {
            return Ok(0);
        }
        match self.content {
            Content::Copied if old == new => Ok(0),
            Content::Copied | Content::Reserved => copy::range(source, file, (old, new), len),
            Content::Cloned { spoilt, .. }
                if old == new && (old >= spoilt.1 || old.saturating_add(len) <= spoilt.0) =>
            {
                Ok(0)
            }
            Content::Cloned { block, .. } if old.abs_diff(new).is_multiple_of(block) => {
                // By hand up to the next block; from there the kernel shares (copy_file_range clones what is aligned).
                let head =
                    old.checked_next_multiple_of(block).unwrap_or(u64::MAX).saturating_sub(old).min(len);
                copy::by_hand(source, file, (old, new), head)?;
                let at = (old.saturating_add(head), new.saturating_add(head));
                copy::range(source, file, at, len.saturating_sub(head))?;
                Ok(head)
            }
            Content::Cloned { .. } => copy::range(source, file, (old, new), len),
        }
    }
}

/// Gives the front of a clone blocks of its own, as many as the edits will need: after this a full disk does not
/// stop them. Returns the bytes that are not the old ones any more.
fn spoil(source: &SourceFile, file: &File, room: Room, block: u64) -> io::Result<(u64, u64)> {
    let until = room.until.min(source.len());
    copy::by_hand(source.file(), file, (room.from, room.from), until.saturating_sub(room.from))?;
    if room.growth_max == 0 {
        return Ok((0, 0));
    }
    let end = until.checked_next_multiple_of(block).unwrap_or(u64::MAX).saturating_add(room.growth_max);
    copy::zeros(file, until, end.saturating_sub(until))?;
    Ok((until, end))
}

/// The block in which this file system shares, if it is one to reckon with.
fn block_bytes(file: &File) -> Option<u64> {
    let said = rustix::fs::fstatfs(file).ok()?.f_bsize;
    let block = u64::try_from(said).ok()?;
    (block.is_power_of_two() && (512..=BLOCK_BYTES_MAX).contains(&block)).then_some(block)
}
