//! A file that is not signed, in the directory of results: another name of the same file where that can be, else a copy.

use std::sync::Arc;

use rustix::fs::{AtFlags, Stat};
use rustix::io::Errno;
use sealwright_formats::source::ReadAt as _;
use sealwright_formats::splice::Edits;

use crate::apply::{Method, Policy, Staged, Target, Written, room_of};
use crate::error::{Error, FileKind};
use crate::source::file::SourceFile;

/// Gives the file a second name. Other file systems, other owners where the kernel protects links, and too many links
/// make it a copy, which shares blocks where it can.
///
/// # Errors
/// Something else has the name; the directory cannot be written.
pub(crate) fn link_or_copy(source: &Arc<SourceFile>, target: Target) -> Result<Written, Error> {
    let io = |error: Errno| Error::io("make a link in", &target.dir_path, error.into());
    let linked = rustix::fs::linkat(source.dir(), source.name(), &target.dir, &target.name, AtFlags::empty());
    match linked {
        Ok(()) => {}
        Err(Errno::EXIST) => return there_already(source, &target),
        Err(Errno::XDEV | Errno::PERM | Errno::ACCESS | Errno::MLINK | Errno::OPNOTSUPP | Errno::NOSYS) => {
            return copy_whole(source, target);
        }
        Err(error) => return Err(io(error)),
    }
    let now = rustix::fs::statat(&target.dir, &target.name, AtFlags::SYMLINK_NOFOLLOW).map_err(io)?;
    if is_same_file(&now, source.stat()) {
        return Ok(written(source, &target, Method::Link));
    }
    rustix::fs::unlinkat(&target.dir, &target.name, AtFlags::empty()).map_err(io)?;
    Err(Error::Changed { what: "another file has its name now" })
}

/// A copy with the same content.
///
/// # Errors
/// As [`Staged::stage`].
pub(crate) fn copy_whole(source: &Arc<SourceFile>, target: Target) -> Result<Written, Error> {
    let same = Edits::new(Vec::new(), source.len())?;
    let room = |layout| room_of(&same, layout);
    Staged::stage(Arc::clone(source), target, &Policy::default(), &room)?.commit(same)
}

/// What an earlier run of the same campaign has made: a name of this file, or a copy of it (same size and time).
fn there_already(source: &Arc<SourceFile>, target: &Target) -> Result<Written, Error> {
    let there = rustix::fs::statat(&target.dir, &target.name, AtFlags::SYMLINK_NOFOLLOW)
        .map_err(|error| Error::io("look at", &target.path(), error.into()))?;
    let own = source.stat();
    if is_same_file(&there, own) {
        return Ok(written(source, target, Method::Link));
    }
    let is_copy = there.st_size == own.st_size
        && (there.st_mtime, there.st_mtime_nsec) == (own.st_mtime, own.st_mtime_nsec);
    if is_copy {
        return Ok(written(source, target, Method::Copy));
    }
    Err(Error::OutputOccupied { path: target.path(), kind: FileKind::Other })
}

const fn is_same_file(one: &Stat, other: &Stat) -> bool {
    one.st_dev == other.st_dev && one.st_ino == other.st_ino
}

fn written(source: &SourceFile, target: &Target, method: Method) -> Written {
    Written {
        path: target.path(),
        size: source.len(),
        bytes: 0,
        method,
        other_links: 0,
        replaced: None,
        notes: Vec::new(),
    }
}
