//! The trees of a campaign: one campaign for a tree at a time, and the walk through them. Nothing is kept for each file of a
//! tree but while its directory is in hand: 16 bytes and the name.

use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{Dir, FileType, FlockOperation, Mode, OFlags};
use rustix::io::Errno;

use crate::error::{CampaignFault, Error};
use crate::source::{
    DEPTH_MAX, Entry, FILES_MAX, Place, Root, TEMPORARY_PREFIX, kind_of, open_beneath, open_root,
};

/// A directory whose packages are signed.
#[derive(Debug)]
pub struct Tree {
    root: Arc<Root>,
    shown: PathBuf,
    locks: Vec<OwnedFd>,
}

impl Tree {
    /// Opens it; its name may be a symbolic link, all beneath is followed by no link.
    ///
    /// # Errors
    /// It cannot be opened, or is no directory.
    pub fn open(path: &Path) -> Result<Self, Error> {
        Ok(Self { root: Arc::new(open_root(path)?), shown: path.to_owned(), locks: Vec::new() })
    }

    /// No other campaign works here, above or below from here on until this value is dropped: the directory is locked,
    /// those above it are locked in common.
    ///
    /// # Errors
    /// [`CampaignFault::TreeBusy`]; a lock fails.
    pub fn lock(&mut self) -> Result<(), Error> {
        let path = &self.root.path;
        let own = rustix::io::fcntl_dupfd_cloexec(&self.root.fd, 0)
            .map_err(|error| Error::io("lock", path, error.into()))?;
        self.locks.extend(lock(own, path, FlockOperation::NonBlockingLockExclusive)?);
        for above in path.ancestors().skip(1) {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
            // One that may not be read cannot be locked either; whoever may, meets the lock further down.
            let Ok(fd) = rustix::fs::open(above, flags, Mode::empty()) else { continue };
            self.locks.extend(lock(fd, above, FlockOperation::NonBlockingLockShared)?);
        }
        Ok(())
    }

    /// Its real path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.root.path
    }

    /// The held directory.
    pub(crate) const fn root(&self) -> &Arc<Root> {
        &self.root
    }

    /// A file beneath it.
    pub(crate) fn entry(&self, relative: &Path) -> Entry {
        Entry {
            shown: self.shown.join(relative),
            place: Place::Found { root: Arc::clone(&self.root), relative: relative.to_owned() },
        }
    }
}

/// Opens trees; one inside another is left out, since it is walked with the other.
///
/// # Errors
/// As [`Tree::open`].
pub fn open_all(paths: &[PathBuf]) -> Result<Vec<Tree>, Error> {
    let mut trees: Vec<Tree> = Vec::new();
    let mut opened: Vec<Tree> = paths.iter().map(|path| Tree::open(path)).collect::<Result<_, _>>()?;
    opened.sort_by(|one, other| one.path().cmp(other.path()));
    for tree in opened {
        if !trees.iter().any(|above| tree.path().starts_with(above.path())) {
            trees.push(tree);
        }
    }
    Ok(trees)
}

/// `None` where the file system has no locks for directories.
fn lock(fd: OwnedFd, path: &Path, how: FlockOperation) -> Result<Option<OwnedFd>, Error> {
    match rustix::fs::flock(&fd, how) {
        Ok(()) => Ok(Some(fd)),
        Err(Errno::WOULDBLOCK) => Err(CampaignFault::TreeBusy { path: path.to_owned() }.into()),
        Err(Errno::BADF | Errno::NOLCK | Errno::OPNOTSUPP | Errno::INVAL | Errno::NOSYS) => Ok(None),
        Err(error) => Err(Error::io("lock", path, error.into())),
    }
}

/// One thing met on the way.
#[derive(Debug)]
pub(crate) enum Met {
    /// A directory, before what is in it.
    Directory(Spot),
    /// The same, after it.
    Left(Spot),
    /// The names that one file has in one directory.
    Names {
        /// Device and inode.
        inode: (u64, u64),
        /// At least one.
        spots: Vec<Spot>,
    },
    /// A symbolic link.
    Link(Spot),
    /// A FIFO, socket or device.
    Special(Spot),
    /// A directory that cannot be read.
    Failed(PathBuf, Error),
}

/// A path beneath one of the trees.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Spot {
    /// Which tree.
    pub(crate) tree: usize,
    /// Beneath it; empty for the tree itself.
    pub(crate) relative: PathBuf,
}

/// Walks trees directory by directory; in each, files come in order of inode number, then other things, then the
/// directories below.
pub(crate) struct Walk<'a> {
    trees: &'a [Tree],
    next: usize,
    stack: Vec<Frame>,
}

struct Frame {
    spot: Spot,
    device: u64,
    files: Names,
    others: Names,
    below: Names,
}

impl<'a> Walk<'a> {
    pub(crate) const fn new(trees: &'a [Tree]) -> Self {
        Self { trees, next: 0, stack: Vec::new() }
    }

    fn enter(&mut self, spot: Spot) -> Met {
        let Some(tree) = self.trees.get(spot.tree) else {
            return Met::Failed(spot.relative, Error::Internal("a tree that is not there"));
        };
        match read(&tree.root, &spot, self.stack.len()) {
            Ok(frame) => {
                self.stack.push(frame);
                Met::Directory(spot)
            }
            Err(error) => Met::Failed(tree.shown.join(&spot.relative), error),
        }
    }
}

impl Iterator for Walk<'_> {
    type Item = Met;

    fn next(&mut self) -> Option<Met> {
        let Some(frame) = self.stack.last_mut() else {
            let tree = self.next;
            if tree >= self.trees.len() {
                return None;
            }
            self.next = tree.saturating_add(1);
            return Some(self.enter(Spot { tree, relative: PathBuf::new() }));
        };
        let spot = |name: &OsStr| Spot { tree: frame.spot.tree, relative: frame.spot.relative.join(name) };
        if let Some((first, inode)) = frame.files.next() {
            let mut spots = vec![spot(first)];
            while let Some(name) = frame.files.next_of(inode) {
                spots.push(spot(name));
            }
            return Some(Met::Names { inode: (frame.device, inode), spots });
        }
        // Its names are not needed while the directories below are walked.
        frame.files.clear();
        if let Some((name, kind)) = frame.others.next() {
            let spot = spot(name);
            return Some(if kind == LINK { Met::Link(spot) } else { Met::Special(spot) });
        }
        if let Some((name, _)) = frame.below.next() {
            let below = spot(name);
            return Some(self.enter(below));
        }
        self.stack.pop().map(|frame| Met::Left(frame.spot))
    }
}

const LINK: u64 = 0;
const SPECIAL: u64 = 1;

/// Names with a number each (files: inode; others: what they are), in few allocations.
#[derive(Default)]
struct Names {
    text: Vec<u8>,
    items: Vec<Item>,
    at: usize,
}

/// 16 bytes for each file.
struct Item {
    number: u64,
    start: u32,
    len: u32,
}

impl Names {
    fn push(&mut self, name: &[u8], number: u64) -> Option<()> {
        let start = u32::try_from(self.text.len()).ok()?;
        self.text.extend_from_slice(name);
        self.items.push(Item { number, start, len: u32::try_from(name.len()).ok()? });
        Some(())
    }

    fn name(&self, item: &Item) -> &OsStr {
        let start = usize::try_from(item.start).unwrap_or(usize::MAX);
        let end = start.saturating_add(usize::try_from(item.len).unwrap_or(usize::MAX));
        OsStr::from_bytes(self.text.get(start..end).unwrap_or_default())
    }

    fn next(&mut self) -> Option<(&OsStr, u64)> {
        let at = self.at;
        self.at = at.saturating_add(1).min(self.items.len());
        self.items.get(at).map(|item| (self.name(item), item.number))
    }

    /// The next one, if it has this number.
    fn next_of(&mut self, number: u64) -> Option<&OsStr> {
        if self.items.get(self.at)?.number != number {
            return None;
        }
        self.next().map(|(name, _)| name)
    }

    fn clear(&mut self) {
        *self = Self::default();
    }
}

/// Reads one directory whole, then closes it.
fn read(root: &Root, spot: &Spot, depth: usize) -> Result<Frame, Error> {
    let path = root.path.join(&spot.relative);
    let io = |error: Errno| Error::io("list the directory", &path, error.into());
    if depth > DEPTH_MAX {
        return Err(Error::TooDeep { limit: DEPTH_MAX });
    }
    let fd = open_beneath(root, &spot.relative, OFlags::RDONLY | OFlags::DIRECTORY).map_err(io)?;
    let device = rustix::fs::fstat(&fd).map_err(io)?.st_dev;
    let (mut files, mut others, mut below) = (Names::default(), Names::default(), Names::default());
    for item in Dir::read_from(&fd).map_err(io)? {
        let item = item.map_err(io)?;
        let name = item.file_name();
        let pushed = match kind_of(&fd, name, item.file_type()) {
            FileType::Directory if name == c"." || name == c".." => continue,
            FileType::Directory => below.push(name.to_bytes(), item.ino()),
            FileType::RegularFile if name.to_bytes().starts_with(TEMPORARY_PREFIX.as_bytes()) => continue,
            FileType::RegularFile => files.push(name.to_bytes(), item.ino()),
            FileType::Symlink => others.push(name.to_bytes(), LINK),
            FileType::Fifo
            | FileType::Socket
            | FileType::CharacterDevice
            | FileType::BlockDevice
            | FileType::Unknown => others.push(name.to_bytes(), SPECIAL),
        };
        if pushed.is_none() || files.items.len() > FILES_MAX {
            return Err(Error::TooManyFiles { limit: FILES_MAX });
        }
    }
    files.items.sort_by_key(|item| item.number);
    below.items.sort_by_key(|item| item.number);
    Ok(Frame { spot: spot.clone(), device, files, others, below })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::MetadataExt as _;

    use super::*;

    fn met(trees: &[Tree]) -> Vec<(char, PathBuf)> {
        Walk::new(trees)
            .flat_map(|met| match met {
                Met::Directory(spot) => vec![('d', spot.relative)],
                Met::Left(spot) => vec![('u', spot.relative)],
                Met::Names { spots, .. } => spots.into_iter().map(|spot| ('f', spot.relative)).collect(),
                Met::Link(spot) => vec![('l', spot.relative)],
                Met::Special(spot) => vec![('s', spot.relative)],
                Met::Failed(path, error) => panic!("{}: {error}", path.display()),
            })
            .collect()
    }

    #[test]
    fn files_come_in_order_of_inode_and_names_of_one_file_together_and_no_link_is_followed() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("sub")).unwrap();
        for name in ["z", "a", "m"] {
            fs::write(folder.path().join(name), name).unwrap();
        }
        fs::write(folder.path().join("sub/deep"), "deep").unwrap();
        fs::write(folder.path().join(".sealwright-temporary"), "").unwrap();
        fs::hard_link(folder.path().join("z"), folder.path().join("b")).unwrap();
        std::os::unix::fs::symlink("sub", folder.path().join("link")).unwrap();
        let trees = open_all(&[folder.path().to_owned(), folder.path().join("sub")]).unwrap();
        assert_eq!(trees.len(), 1, "a tree in another is walked with it");
        let met = met(&trees);
        let files: Vec<&PathBuf> =
            met.iter().filter(|(kind, _)| *kind == 'f').map(|(_, path)| path).collect();
        assert_eq!(files.len(), 5);
        let inodes: Vec<u64> =
            files[..4].iter().map(|name| fs::metadata(folder.path().join(name)).unwrap().ino()).collect();
        assert!(inodes.is_sorted(), "{inodes:?}");
        assert_eq!(met.first(), Some(&('d', PathBuf::new())));
        assert_eq!(met.last(), Some(&('u', PathBuf::new())));
        assert!(met.contains(&('l', PathBuf::from("link"))));
        assert!(!met.iter().any(|(_, path)| path.parent() == Some(Path::new("link"))));
    }

    #[test]
    fn a_second_campaign_on_a_tree_or_above_or_below_is_refused_and_beside_it_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| {
            let path = folder.path().join(name);
            fs::create_dir_all(&path).unwrap();
            Tree::open(&path).unwrap()
        };
        let mut first = at("repo/el9");
        first.lock().unwrap();
        for overlapping in ["repo", "repo/el9", "repo/el9/x86_64"] {
            let error = at(overlapping).lock().unwrap_err();
            assert!(matches!(error, Error::Campaign(CampaignFault::TreeBusy { .. })), "{overlapping}");
        }
        at("repo/el8").lock().unwrap();
        drop(first);
        at("repo").lock().unwrap();
    }
}
