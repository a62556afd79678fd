//! `--hardlinks relink`: the other names of a file that was replaced become names of the new one.

use std::fs::File;
use std::sync::Arc;

use rustix::fs::{AtFlags, Mode, OFlags};

use crate::apply::target::Target;
use crate::apply::temporary::Temporary;
use crate::apply::{Method, Written, sync_directory};
use crate::error::Error;
use crate::source::file::SourceFile;

/// Gives the name of `source` to the file that `first` describes. It must still be a name of the old file; where
/// the old file was written in place, it is a name of the new one already.
///
/// # Errors
/// The name stands for another file now, or the directory cannot be written.
pub fn relink(source: &SourceFile, leader: &Target, first: &Written) -> Result<Written, Error> {
    let now = source.identity();
    let done = |path| Written { path, bytes: 0, method: Method::Link, other_links: 0, ..first.clone() };
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let new = rustix::fs::openat(&leader.dir, &leader.name, flags, Mode::empty())
        .map_err(|error| Error::io("open", &first.path, error.into()))?;
    let stat = rustix::fs::fstat(&new).map_err(|error| Error::io("look at", &first.path, error.into()))?;
    if (now.device, now.inode) == (stat.st_dev, stat.st_ino) {
        return Ok(done(source.path()));
    }
    let is_old = first.replaced.is_some_and(|old| {
        (old.device, old.inode, old.size, old.modified) == (now.device, now.inode, now.size, now.modified)
    });
    if !is_old || u64::try_from(stat.st_size) != Ok(first.size) {
        return Err(Error::Changed { what: "another file has its name now" });
    }
    let target = Target::replacing(source);
    target.check_writable(source)?;
    let (dir, dir_path) = (Arc::clone(&target.dir), target.dir_path.clone());
    let of = (leader.dir.as_ref(), leader.name.as_os_str());
    let mut link = Temporary::link(&dir, &dir_path, of, File::from(new))?;
    let linked = rustix::fs::statat(&dir, link.name(), AtFlags::SYMLINK_NOFOLLOW)
        .map_err(|error| Error::io("look at", &dir_path, error.into()))?;
    if (linked.st_dev, linked.st_ino) != (stat.st_dev, stat.st_ino) {
        return Err(Error::Changed { what: "another file took the name of the signed one" });
    }
    source.check_unchanged()?;
    link.rename(&target.name)?;
    sync_directory(&dir, &dir_path)?;
    Ok(done(target.path()))
}
