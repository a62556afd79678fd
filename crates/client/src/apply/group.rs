//! Files committed together: each step is done for all of them before the next, so that they share syncs. A result
//! is only given when its file, and the directory of its name, are on the disk.
//!
//! ```text
//! all written (temporaries) or recorded (undo) -> all synced, one journal for all records
//!     -> all checked again, then renamed or written in place -> written files synced, each directory once
//!     -> all read back -> the journal goes
//! ```

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::num::NonZeroU64;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{Advice, Mode, OFlags};
use rustix::io::Errno;
use sealwright_formats::source::ReadAt as _;
use sealwright_formats::splice::Edits;

use crate::apply::in_place::{InPlace, roll_back};
use crate::apply::journal::{Journal, StateDirectory};
use crate::apply::sidecar::Sidecars;
use crate::apply::undo::Record;
use crate::apply::{How, Staged, Target, Written, length, sync_directory, whole_system};
use crate::error::Error;

/// Files of one group at most.
pub const FILES_MAX: usize = 64;
/// Bytes of edits in one group: their undo records fit in one journal, and in memory.
pub const EDIT_BYTES_MAX: u64 = 16 << 20;

/// Files of one file system from which on all that is dirty there is synced at once: fewer are quicker alone, and do not
/// wait for what others have written.
const TOGETHER_MIN: usize = 8;

/// What is to be committed.
#[derive(Debug)]
pub enum Job {
    /// A file and its edits.
    File(Box<Staged>, Edits),
    /// The signature files of one file.
    Sidecars(Box<Sidecars>),
}

impl From<(Staged, Edits)> for Job {
    fn from((staged, edits): (Staged, Edits)) -> Self {
        Self::File(Box::new(staged), edits)
    }
}

impl Job {
    /// Bytes that it holds in memory.
    pub(crate) fn bytes(&self) -> u64 {
        match self {
            Self::File(_, edits) => {
                let inserted = edits.as_slice().iter().map(|edit| length(&edit.insert));
                inserted.fold(0, u64::saturating_add)
            }
            Self::Sidecars(sidecars) => sidecars.held(),
        }
    }

    /// The directory in which a name changes, if one does.
    fn directory(&self) -> Option<(&OwnedFd, &Path)> {
        match self {
            Self::File(staged, _) if staged.in_place().is_some() => None,
            Self::File(staged, _) => Some((&staged.target.dir, &staged.target.dir_path)),
            Self::Sidecars(sidecars) => Some(sidecars.directory()),
        }
    }
}

/// One file on its way.
struct Member {
    job: Job,
    /// Only in place.
    record: Option<Record>,
    /// Whether bytes of the file itself may have changed.
    touched: bool,
    /// Whether it is neither old nor new, so that its record must stay.
    open: bool,
    failed: Option<Error>,
}

/// Commits files as one group; a failure of one does not hold back the others. The results are in the same order.
#[must_use]
pub fn commit(jobs: Vec<impl Into<Job>>) -> Vec<Result<Written, Error>> {
    let member = |job: Job| Member { job, record: None, touched: false, open: false, failed: None };
    let mut members: Vec<Member> = jobs.into_iter().map(|job| member(job.into())).collect();
    each(&mut members, Member::write);
    sync(&mut members, Member::temporary, Member::sync_temporary);
    let journal = record(&mut members);
    each(&mut members, Member::switch);
    sync(&mut members, Member::written_in_place, Member::sync_in_place);
    sync_directories(&mut members);
    for member in &mut members {
        member.undo_if_failed();
    }
    each(&mut members, Member::read_back);
    if let Some(journal) = journal {
        settle(journal, &mut members);
    }
    members.into_iter().map(Member::outcome).collect()
}

/// Runs a step for every file that has not failed.
fn each(members: &mut [Member], step: impl Fn(&mut Member) -> Result<(), Error>) {
    for member in members.iter_mut().filter(|member| member.failed.is_none()) {
        member.failed = step(member).err();
    }
}

/// Syncs the files of all members: one by one, or those of one file system together.
fn sync(
    members: &mut [Member],
    file: impl Fn(&Member) -> Option<&File>,
    alone: impl Fn(&mut Member) -> Result<(), Error>,
) {
    let device = |member: &Member| {
        let file = file(member).filter(|_| member.failed.is_none())?;
        rustix::fs::fstat(file).ok().map(|stat| stat.st_dev)
    };
    let devices: Vec<Option<u64>> = members.iter().map(device).collect();
    let mut counts: HashMap<u64, usize> = HashMap::new();
    for device in devices.iter().flatten() {
        counts.entry(*device).and_modify(|count| *count = count.saturating_add(1)).or_insert(1);
    }
    counts.retain(|device, count| {
        let of_device = || members.iter().zip(&devices).find(|(_, its)| **its == Some(*device));
        *count >= TOGETHER_MIN
            && of_device().and_then(|(member, _)| file(member)).is_some_and(whole_system::sync)
    });
    for (member, device) in members.iter_mut().zip(&devices) {
        let is_synced = device.is_some_and(|device| counts.contains_key(&device));
        if member.failed.is_none() && !is_synced {
            member.failed = alone(member).err();
        }
    }
}

impl Member {
    /// The temporary is written, or the record made; the file itself is not touched.
    fn write(&mut self) -> Result<(), Error> {
        let (staged, edits) = match &mut self.job {
            Job::File(staged, edits) => (staged, edits),
            Job::Sidecars(sidecars) => return sidecars.write(),
        };
        let source = &staged.source;
        if edits.old_len() != source.len() {
            return Err(Error::Internal("edits for another length"));
        }
        match &mut staged.how {
            How::Replace(replacement) => replacement.write(source, &staged.target.dir_path, edits),
            How::InPlace(in_place) => {
                self.record = Some(in_place.record(source, edits)?);
                Ok(())
            }
        }
    }

    /// The temporary that is to be synced.
    fn temporary(&self) -> Option<&File> {
        match &self.job {
            Job::File(staged, _) if staged.in_place().is_some() => None,
            Job::File(staged, _) => Some(staged.result()),
            Job::Sidecars(sidecars) => sidecars.file(),
        }
    }

    /// The file itself, where that is written.
    fn written_in_place(&self) -> Option<&File> {
        match &self.job {
            Job::File(staged, _) => staged.in_place().map(InPlace::file),
            Job::Sidecars(_) => None,
        }
    }

    fn sync_temporary(&mut self) -> Result<(), Error> {
        match &self.job {
            Job::File(staged, edits) => match &staged.how {
                How::Replace(replacement) => replacement.sync(&staged.target.dir_path, edits.new_len()),
                How::InPlace(_) => Ok(()),
            },
            Job::Sidecars(sidecars) => sidecars.sync(),
        }
    }

    /// From here on a reader sees the new file.
    fn switch(&mut self) -> Result<(), Error> {
        let (staged, edits) = match &mut self.job {
            Job::File(staged, edits) => (staged, edits),
            Job::Sidecars(sidecars) => return sidecars.rename(),
        };
        staged.source.check_unchanged()?;
        match &mut staged.how {
            How::Replace(replacement) => {
                // Somebody may have put a file there while the signature was made.
                staged.target.check_replaceable()?;
                replacement.rename(&staged.target)
            }
            How::InPlace(in_place) => {
                self.touched = true;
                in_place.write(&staged.source, edits).map(|_| ())
            }
        }
    }

    fn sync_in_place(&mut self) -> Result<(), Error> {
        match &self.job {
            Job::File(staged, edits) => match &staged.how {
                How::Replace(_) => Ok(()),
                How::InPlace(in_place) => rustix::fs::fsync(in_place.file())
                    .map_err(|error| Error::sync(&staged.target.dir_path, edits.new_len(), error.into())),
            },
            Job::Sidecars(_) => Ok(()),
        }
    }

    /// A file that could not be written whole is put back at once; if that fails its record stays.
    fn undo_if_failed(&mut self) {
        let in_place = match &self.job {
            Job::File(staged, _) => staged.in_place(),
            Job::Sidecars(_) => None,
        };
        if let (Some(_), true, Some(in_place), Some(record)) =
            (&self.failed, self.touched, in_place, &self.record)
        {
            self.open = roll_back(in_place.file(), record).is_err();
        }
    }

    fn read_back(&mut self) -> Result<(), Error> {
        match &self.job {
            Job::File(staged, edits) => read_back(&staged.target, staged.result(), edits),
            Job::Sidecars(sidecars) => sidecars.read_back(),
        }
    }

    fn outcome(self) -> Result<Written, Error> {
        match (self.failed, &self.job) {
            (Some(error), _) => Err(error),
            (None, Job::File(staged, edits)) => Ok(staged.written(edits)),
            (None, Job::Sidecars(sidecars)) => Ok(sidecars.written()),
        }
    }
}

/// Writes the records of all files that are written in place into one journal.
fn record(members: &mut [Member]) -> Option<Journal> {
    let mut state: Option<Arc<StateDirectory>> = None;
    let (mut records, mut reserved) = (Vec::new(), Vec::new());
    for member in members.iter_mut().filter(|member| member.failed.is_none()) {
        let Job::File(staged, _) = &mut member.job else { continue };
        if let (How::InPlace(in_place), Some(record)) = (&mut staged.how, &member.record) {
            state.get_or_insert_with(|| Arc::clone(in_place.state()));
            records.push(record.clone());
            reserved.extend(in_place.take_reserved());
        }
    }
    match state?.begin_reserved(&records, reserved) {
        Ok(journal) => Some(journal.armed()),
        Err(error) => {
            let mut error = Some(error);
            let recorded = |member: &&mut Member| member.record.is_some() && member.failed.is_none();
            for member in members.iter_mut().filter(recorded) {
                member.failed = Some(error.take().unwrap_or(Error::WithOthers));
            }
            None
        }
    }
}

/// Ends the journal but for files that could be put back neither to old nor to new.
fn settle(journal: Journal, members: &mut [Member]) {
    let open: Vec<Record> =
        members.iter().filter(|member| member.open).filter_map(|member| member.record.clone()).collect();
    if let Err(error) = journal.settle(&open) {
        tracing::warn!(error = %error, "undo record not rewritten; the old one stays");
    }
    for member in members.iter_mut().filter(|member| member.open) {
        if let Some(source) = member.failed.take() {
            member.failed = Some(Error::HalfWritten { source: Box::new(source) });
        }
    }
}

/// Each directory once, whatever number of names in it changed.
fn sync_directories(members: &mut [Member]) {
    let mut synced: HashMap<(u64, u64), bool> = HashMap::new();
    for member in members.iter_mut().filter(|member| member.failed.is_none()) {
        let Some((dir, dir_path)) = member.job.directory() else { continue };
        let id = rustix::fs::fstat(dir).map(|stat| (stat.st_dev, stat.st_ino)).unwrap_or_default();
        match synced.get(&id) {
            Some(true) => {}
            Some(false) => member.failed = Some(Error::WithOthers),
            None => {
                member.failed = sync_directory(dir, dir_path).err();
                synced.insert(id, member.failed.is_none());
            }
        }
    }
}

/// Opens the result by its name, as a stranger would, and compares every changed byte.
fn read_back(target: &Target, written: &File, edits: &Edits) -> Result<(), Error> {
    let path = target.path();
    let io = |error: io::Error| Error::io("read back", &path, error);
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let named = rustix::fs::openat(&target.dir, &target.name, flags, Mode::empty());
    let file = match named {
        Ok(named) => File::from(named),
        // A mode without read permission for the owner: our own descriptor is the same inode.
        Err(Errno::ACCESS) => written.try_clone().map_err(io)?,
        Err(error) => return Err(io(error.into())),
    };
    let now = rustix::fs::fstat(&file).map_err(|error| io(error.into()))?;
    let then = rustix::fs::fstat(written).map_err(|error| io(error.into()))?;
    if (now.st_dev, now.st_ino) != (then.st_dev, then.st_ino) {
        return Err(Error::Changed { what: "another file took its name right after it was written" });
    }
    if u64::try_from(now.st_size) != Ok(edits.new_len()) {
        return Err(Error::ReadBack { offset: edits.new_len() });
    }
    let (mut old, mut new) = (0u64, 0u64);
    for edit in edits.as_slice() {
        new = new.saturating_add(edit.offset.saturating_sub(old));
        let mut there = vec![0; edit.insert.len()];
        // The bytes are on the disk by now; let the comparison fetch them from there, and them alone.
        let _ = rustix::fs::fadvise(&file, new, NonZeroU64::new(length(&edit.insert)), Advice::DontNeed);
        file.read_exact_at(&mut there, new).map_err(io)?;
        if there != edit.insert {
            return Err(Error::ReadBack { offset: new });
        }
        new = new.saturating_add(length(&edit.insert));
        old = edit.offset.saturating_add(edit.remove);
    }
    Ok(())
}
