//! Carries edits out, so that a file is never half written and never torn for a reader (but see `--in-place`).
//!
//! ```text
//! stage:  temporary beside the target <- clone (reflink), or a copy, or reserved space if bytes will move
//!         owner, attributes and mode are tried on it, or the file is refused
//!         ... only now a signature is asked for ...
//! commit: changed bytes -> times, mode -> fsync -> source unchanged? -> rename -> fsync of the directory
//!         -> re-read of the changed bytes
//! ```
//!
//! With [`Writing::InPlace`] there is no temporary: space for an undo record is reserved; it is written and synced,
//! then the changed bytes are written into the file itself and synced, then the record goes. The next run undoes what
//! a killed one left half done ([`recovery`]). A signature file beside a file goes the way of a temporary
//! ([`sidecar`]). Several files are committed as one group, so that they share syncs ([`group`]).
//!
//! Whatever fails, the temporary is removed and the target stays as it was; only the re-read can fail after the
//! rename. The file's other hard links keep the old content: [`Written::other_links`] says so.

mod copy;
pub mod group;
mod in_place;
pub mod journal;
mod leftovers;
mod metadata;
mod output;
pub mod recovery;
pub mod relink;
mod replace;
pub(crate) mod second;
pub mod sidecar;
mod space;
mod spare;
mod target;
mod temporary;
pub mod undo;
mod whole_system;

use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use sealwright_formats::prepared::Room;
use sealwright_formats::splice::{Edits, Layout};

use crate::apply::group::Job;
use crate::apply::in_place::InPlace;
use crate::apply::journal::StateDirectory;
use crate::apply::replace::Replacement;
use crate::apply::target::Role;
use crate::error::Error;
use crate::source::file::{Identity, SourceFile};

pub use crate::apply::output::OutputDirectory;
pub use crate::apply::target::Target;

/// Block of `--in-place` where a header cannot keep its length by itself: it changes by so much or not at all.
const IN_PLACE_BLOCK_BYTES: u32 = 4096;

/// How files are written.
#[derive(Clone, Debug, Default)]
pub struct Policy {
    /// Whether the file is replaced or written.
    pub writing: Writing,
    /// What becomes of a file's other names.
    pub hard_links: HardLinks,
}

/// Whether the file is replaced or written.
#[derive(Clone, Debug, Default)]
pub enum Writing {
    /// A new file takes its name: a reader sees the old or the new one.
    #[default]
    Replace,
    /// The changed bytes are written into it, under an undo record in this directory.
    InPlace(Arc<StateDirectory>),
}

/// What becomes of the other names of a file that has several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HardLinks {
    /// As [`Self::Relink`] when files are replaced, as [`Self::Refuse`] when they are written in place.
    #[default]
    Careful,
    /// Names in the same call stay names of one file; names outside keep the old content, or, in place, get the
    /// new one; they are reported.
    Relink,
    /// Each name becomes a file of its own.
    Break,
    /// A file with another name is not touched.
    Refuse,
}

impl Policy {
    /// Whether this file is written in place.
    ///
    /// # Errors
    /// [`Error::Linked`] if it has other names, and is to be refused for it.
    fn in_place(&self, source: &SourceFile) -> Result<Option<&Arc<StateDirectory>>, Error> {
        let others = source.identity().links.saturating_sub(1);
        let state = match &self.writing {
            Writing::Replace => None,
            Writing::InPlace(state) => Some(state),
        };
        if others == 0 {
            return Ok(state);
        }
        match self.hard_links {
            HardLinks::Refuse => Err(Error::Linked { others, in_place: state.is_some() }),
            HardLinks::Careful if state.is_some() => Err(Error::Linked { others, in_place: true }),
            HardLinks::Break => Ok(None),
            HardLinks::Careful | HardLinks::Relink => Ok(state),
        }
    }

    /// Whether names of one file in one call stay together.
    #[must_use]
    pub const fn keeps_links(&self) -> bool {
        matches!(self.hard_links, HardLinks::Careful | HardLinks::Relink)
    }
}

/// How the content of the result came to be there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// Shares the old file's blocks: costs nothing.
    Clone,
    /// Copied by the kernel or by us.
    Copy,
    /// Written into the old file.
    InPlace,
    /// Another name of a file that was written already.
    Link,
}

impl Method {
    /// The word in JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Clone => "clone",
            Self::Copy => "copy",
            Self::InPlace => "in-place",
            Self::Link => "link",
        }
    }
}

/// What [`Staged::commit`] did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// The file that holds the result.
    pub path: PathBuf,
    /// Its size in bytes.
    pub size: u64,
    /// Bytes that were really written; cloned ones are not.
    pub bytes: u64,
    /// How unchanged bytes came there.
    pub method: Method,
    /// Other names of the old inode. Where it was replaced they keep the old content; in place they changed with it.
    pub other_links: u64,
    /// The file that had the name before, if the source itself was changed.
    pub replaced: Option<Identity>,
    /// What a user should know: "owner not kept".
    pub notes: Vec<&'static str>,
}

/// Everything is ready to be written: space, metadata and permission were tried. Dropping it removes the
/// temporary.
#[derive(Debug)]
pub struct Staged {
    source: Arc<SourceFile>,
    target: Target,
    how: How,
    layout: Layout,
}

#[derive(Debug)]
enum How {
    Replace(Box<Replacement>),
    InPlace(InPlace),
}

impl Staged {
    /// Makes the temporary, or opens the file for writing. `room` says what can change, in the layout that the file
    /// system asks for.
    ///
    /// # Errors
    /// The directory cannot be written, space or quota is short, or owner, mode or attributes cannot be kept; in
    /// place, the size would change or the file has other names.
    pub fn stage(
        source: Arc<SourceFile>,
        target: Target,
        policy: &Policy,
        room: &dyn Fn(Layout) -> Room,
    ) -> Result<Self, Error> {
        let in_place = match target.role {
            Role::ReplacesSource => policy.in_place(&source)?,
            Role::Copy => None,
        };
        if let Some(state) = in_place {
            target::check_mutable(&source)?;
            let layout = Layout::Blocks(IN_PLACE_BLOCK_BYTES);
            let how = How::InPlace(InPlace::stage(&source, room(layout), state)?);
            return Ok(Self { source, target, how, layout });
        }
        target.check(&source)?;
        let (replacement, layout) = Replacement::stage(&source, &target, room)?;
        Ok(Self { source, target, how: How::Replace(Box::new(replacement)), layout })
    }

    /// Whether it could be staged, as far as that can be told without writing.
    ///
    /// # Errors
    /// As [`Self::stage`].
    pub fn check(
        source: &SourceFile,
        target: &Target,
        policy: &Policy,
        room: &dyn Fn(Layout) -> Room,
    ) -> Result<(), Error> {
        let in_place = match target.role {
            Role::ReplacesSource => policy.in_place(source)?,
            Role::Copy => None,
        };
        match in_place {
            Some(state) => {
                target::check_mutable(source)?;
                InPlace::check(source, room(Layout::Blocks(IN_PLACE_BLOCK_BYTES)), state).map(|_| ())
            }
            None => target.check_writable(source),
        }
    }

    /// The layout that edits must keep to.
    #[must_use]
    pub const fn layout(&self) -> Layout {
        self.layout
    }

    /// Writes the edits and puts the result in place. `self` is used up: after an error nothing is left behind.
    ///
    /// # Errors
    /// As for [`Self::stage`], or the source was changed meanwhile.
    pub fn commit(self, edits: Edits) -> Result<Written, Error> {
        let mut outcomes = group::commit(vec![Job::File(Box::new(self), edits)]);
        outcomes.pop().unwrap_or(Err(Error::Internal("a group of one gave no result")))
    }

    fn written(&self, edits: &Edits) -> Written {
        let (bytes, method, notes) = match &self.how {
            How::Replace(replacement) => {
                (replacement.bytes(), replacement.method(), replacement.notes().to_vec())
            }
            How::InPlace(_) => {
                let inserted = edits.as_slice().iter().map(|edit| length(&edit.insert));
                (inserted.fold(0, u64::saturating_add), Method::InPlace, Vec::new())
            }
        };
        let identity = self.source.identity();
        let (other_links, replaced) = match self.target.role {
            Role::ReplacesSource => (identity.links.saturating_sub(1), Some(*identity)),
            Role::Copy => (0, None),
        };
        let path = self.target.path();
        Written { path, size: edits.new_len(), bytes, method, other_links, replaced, notes }
    }

    const fn in_place(&self) -> Option<&InPlace> {
        match &self.how {
            How::Replace(_) => None,
            How::InPlace(in_place) => Some(in_place),
        }
    }

    fn result(&self) -> &File {
        match &self.how {
            How::Replace(replacement) => replacement.file(),
            How::InPlace(in_place) => in_place.file(),
        }
    }
}

/// Room for edits that are known already.
#[must_use]
pub fn room_of(edits: &Edits, layout: Layout) -> Room {
    let from = edits.as_slice().first().map_or(0, |edit| edit.offset);
    let until = edits.as_slice().last().map_or(0, |edit| edit.offset.saturating_add(edit.remove));
    let growth_max = edits.new_len().saturating_sub(edits.old_len());
    let keeps_len = edits.keeps_layout();
    let moved = edits.new_len().abs_diff(edits.old_len());
    let shares = match layout {
        Layout::Tight => keeps_len,
        Layout::Blocks(block) => {
            keeps_len || (edits.as_slice().len() <= 1 && moved.is_multiple_of(block.into()))
        }
    };
    Room { from, until, growth_max, keeps_len, shares }
}

/// Makes a rename last: without this a power cut can bring the old name back.
fn sync_directory(dir: &OwnedFd, path: &Path) -> Result<(), Error> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let synced = rustix::fs::openat(dir, ".", flags, Mode::empty()).and_then(rustix::fs::fsync);
    match synced {
        // A directory that we may write but not read, or a file system that has no such sync.
        Ok(()) | Err(Errno::ACCESS | Errno::INVAL | Errno::NOTSUP | Errno::ROFS) => Ok(()),
        Err(error) => Err(Error::sync(path, 0, error.into())),
    }
}

fn length(bytes: &[u8]) -> u64 {
    u64::try_from(bytes.len()).unwrap_or(u64::MAX)
}
