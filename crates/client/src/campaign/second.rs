//! A second tree beside the first: its directories and symbolic links. Files come by `apply` (signed ones, and links to or
//! copies of the others). The first tree is only read.

use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{AtFlags, Gid, Mode, OFlags, Stat, Timespec, Timestamps, Uid};
use rustix::io::Errno;

use crate::apply::OutputDirectory;
use crate::campaign::tree::{Met, Tree, Walk};
use crate::error::{CampaignFault, Error, FileKind};
use crate::source::{Root, open_beneath, open_root};

/// The place of the second tree.
#[derive(Debug)]
pub struct Second {
    root: Root,
    output: OutputDirectory,
    was_empty: bool,
}

impl Second {
    /// Opens the directory, which is made if it is not there.
    ///
    /// # Errors
    /// It lies in a tree, or a tree in it; it cannot be made.
    pub fn open(path: &Path, trees: &[Tree]) -> Result<Self, Error> {
        let in_tree = |path: &Path| {
            trees.iter().any(|tree| path.starts_with(tree.path()) || tree.path().starts_with(path))
        };
        let fault = |path: &Path| Error::from(CampaignFault::OutputInTree { path: path.to_owned() });
        // Looked at before it is made: nothing is left in the tree.
        let absolute = std::path::absolute(path).map_err(|error| Error::io("find", path, error))?;
        let above = absolute.ancestors().find_map(|above| Some((above, above.canonicalize().ok()?)));
        if let Some((above, real)) = above {
            let rest = absolute.strip_prefix(above).unwrap_or(Path::new(""));
            if in_tree(&real.join(rest)) {
                return Err(fault(path));
            }
        }
        let output = OutputDirectory::open_second_tree(path)?;
        let root = open_root(path)?;
        if in_tree(&root.path) {
            return Err(fault(path));
        }
        let mut entries =
            std::fs::read_dir(&root.path).map_err(|error| Error::io("list the directory", path, error))?;
        let was_empty = entries.next().is_none();
        Ok(Self { root, output, was_empty })
    }

    /// For a signer.
    ///
    /// # Errors
    /// It cannot be opened.
    pub fn directory(&self) -> Result<OutputDirectory, Error> {
        OutputDirectory::open_second_tree(&self.root.path)
    }

    /// Its real path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.root.path
    }

    /// For files that are not signed.
    pub(crate) const fn output(&self) -> &OutputDirectory {
        &self.output
    }

    pub(crate) const fn was_empty(&self) -> bool {
        self.was_empty
    }

    /// Makes a directory, for us alone until [`Self::finish`].
    pub(crate) fn make_directory(&self, relative: &Path) -> Result<(), Error> {
        let Some(name) = relative.file_name() else { return Ok(()) };
        let (dir, path) = self.parent(relative)?;
        match rustix::fs::mkdirat(&dir, name, Mode::RWXU) {
            Ok(()) | Err(Errno::EXIST) => Ok(()),
            Err(error) => Err(Error::io("make the directory", &path, error.into())),
        }
    }

    /// Makes the same symbolic link.
    pub(crate) fn make_link(&self, tree: &Tree, relative: &Path) -> Result<(), Error> {
        let name = relative.file_name().unwrap_or_default();
        let (from, from_path) = parent(tree.root(), relative)?;
        let read = |error: Errno| Error::io("read the link", &from_path, error.into());
        let leads_to = rustix::fs::readlinkat(&from, name, Vec::new()).map_err(read)?;
        let stat = rustix::fs::statat(&from, name, AtFlags::SYMLINK_NOFOLLOW).map_err(read)?;
        let (dir, path) = self.parent(relative)?;
        let make = |error: Errno| Error::io("make the link", &path, error.into());
        match rustix::fs::symlinkat(leads_to.as_c_str(), &dir, name) {
            Ok(()) => {}
            Err(Errno::EXIST) => {
                let there = rustix::fs::readlinkat(&dir, name, Vec::new());
                if there.is_ok_and(|there| there == leads_to) {
                    return Ok(());
                }
                return Err(Error::OutputOccupied { path, kind: FileKind::Other });
            }
            Err(error) => return Err(make(error)),
        }
        own(&dir, name, &stat);
        rustix::fs::utimensat(&dir, name, &times(&stat), AtFlags::SYMLINK_NOFOLLOW).map_err(make)
    }

    /// Gives every directory the owner (where we may), mode and times of the one that it stands for, the deepest first, and
    /// syncs it.
    ///
    /// # Errors
    /// The first that cannot be finished.
    pub(crate) async fn finish(self: &Arc<Self>, trees: Arc<Vec<Tree>>) -> Result<(), Error> {
        let this = Arc::clone(self);
        let work = move || {
            for met in Walk::new(&trees) {
                let Met::Left(spot) = met else { continue };
                if let Some(tree) = trees.get(spot.tree) {
                    this.finish_directory(tree, &spot.relative)?;
                }
            }
            Ok(())
        };
        tokio::task::spawn_blocking(work).await.map_err(|_| Error::Internal("a worker thread ended"))?
    }

    fn finish_directory(&self, tree: &Tree, relative: &Path) -> Result<(), Error> {
        let path = self.root.path.join(relative);
        let io = |error: Errno| Error::io("finish the directory", &path, error.into());
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let from = open_beneath(tree.root(), relative, flags).map_err(io)?;
        let stat = rustix::fs::fstat(&from).map_err(io)?;
        let to = open_beneath(&self.root, relative, flags).map_err(io)?;
        // Another owner only where we may; a copy elsewhere is what was asked for.
        let _ = rustix::fs::fchown(&to, Some(Uid::from_raw(stat.st_uid)), Some(Gid::from_raw(stat.st_gid)));
        rustix::fs::fchmod(&to, Mode::from_raw_mode(stat.st_mode)).map_err(io)?;
        rustix::fs::futimens(&to, &times(&stat)).map_err(io)?;
        match rustix::fs::fsync(&to) {
            Ok(()) | Err(Errno::INVAL | Errno::NOTSUP) => Ok(()),
            Err(error) => Err(Error::sync(&path, 0, error.into())),
        }
    }

    fn parent(&self, relative: &Path) -> Result<(OwnedFd, PathBuf), Error> {
        parent(&self.root, relative)
    }
}

/// The directory in which a path ends, and the whole path.
fn parent(root: &Root, relative: &Path) -> Result<(OwnedFd, PathBuf), Error> {
    let path = root.path.join(relative);
    let above = relative.parent().unwrap_or(Path::new(""));
    let flags = OFlags::PATH | OFlags::DIRECTORY;
    let dir = open_beneath(root, above, flags)
        .map_err(|error| Error::io("open the directory of", &path, error.into()))?;
    Ok((dir, path))
}

fn own(dir: &OwnedFd, name: &OsStr, stat: &Stat) {
    let (uid, gid) = (Uid::from_raw(stat.st_uid), Gid::from_raw(stat.st_gid));
    let _ = rustix::fs::chownat(dir, name, Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW);
}

fn times(stat: &Stat) -> Timestamps {
    let time = |tv_sec, nanoseconds| Timespec { tv_sec, tv_nsec: nanoseconds };
    Timestamps {
        last_access: time(stat.st_atime, i64::try_from(stat.st_atime_nsec).unwrap_or_default()),
        last_modification: time(stat.st_mtime, i64::try_from(stat.st_mtime_nsec).unwrap_or_default()),
    }
}
