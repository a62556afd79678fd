//! What the next run does with undo records of a process that died: every file becomes the old one again, or is
//! the new one, or is left alone and named.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{FileType, FlockOperation};
use rustix::io::Errno;

use crate::apply::in_place::{open_for_undo, roll_back};
use crate::apply::journal::{Found, Journal, StateDirectory};
use crate::apply::undo::{Malformed, Record, State, Undecided};
use crate::error::Error;

/// One file of an undo record.
#[derive(Debug)]
pub struct Recovered {
    /// The file, or the record itself where it cannot be read.
    pub path: PathBuf,
    /// What became of it.
    pub outcome: Outcome,
}

/// What recovery did.
#[derive(Debug)]
pub enum Outcome {
    /// It was half written: it is the old one again.
    RolledBack,
    /// Everything had been written: it stays the new one.
    Completed,
    /// Nothing had been written: it is the old one.
    Untouched,
    /// It cannot be decided, or not be written: it was left as it is, and so was the record.
    Left {
        /// Why.
        why: Left,
        /// The record.
        record: PathBuf,
    },
}

/// Why a file was left as it is.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Left {
    /// Nothing has its name.
    #[error("it is not there any more")]
    Gone,
    /// Another file has its name.
    #[error("another file has its name now")]
    OtherFile,
    /// It is longer or shorter.
    #[error("its size is another")]
    OtherSize,
    /// A sector is neither old nor new.
    #[error("byte {offset} and what follows is neither what it was nor what was being written")]
    OtherContent {
        /// Where.
        offset: u64,
    },
    /// Another signer has it in hand.
    #[error("it is in use by another signer")]
    Locked,
    /// The operating system refused.
    #[error("it cannot be read or written")]
    Io(#[source] io::Error),
    /// The record cannot be read.
    #[error("the undo record cannot be used")]
    Record(#[source] Malformed),
}

/// Settles every record that no living process holds. A state directory that is not there has none.
///
/// # Errors
/// The state directory cannot be read, or others may enter it.
pub fn recover(state: &Path) -> Result<Vec<Recovered>, Error> {
    let Some(directory) = StateDirectory::open_existing(state)? else { return Ok(Vec::new()) };
    let mut report = Vec::new();
    for found in Arc::new(directory).dead()? {
        match found {
            Found::Whole(journal, records) => settle(journal, records, &mut report)?,
            Found::Damaged(record, error) => report.push(left(record.clone(), Left::Record(error), record)),
            Found::Unreadable(record, error) => report.push(left(record.clone(), Left::Io(error), record)),
        }
    }
    Ok(report)
}

fn settle(journal: Journal, records: Vec<Record>, report: &mut Vec<Recovered>) -> Result<(), Error> {
    let mut unsettled = Vec::new();
    let mut why = Vec::new();
    let several = records.len() > 1;
    for record in records {
        let path = PathBuf::from(OsStr::from_bytes(&record.path));
        match one(&path, &record) {
            Ok(outcome) => report.push(Recovered { path, outcome }),
            Err(reason) => {
                unsettled.push(record);
                why.push((path, reason));
            }
        }
    }
    let old = journal.path();
    let kept = if several || unsettled.is_empty() { journal.settle(&unsettled)? } else { None };
    let kept = kept.unwrap_or(old);
    report.extend(why.into_iter().map(|(path, why)| left(path, why, kept.clone())));
    Ok(())
}

fn left(path: PathBuf, why: Left, record: PathBuf) -> Recovered {
    Recovered { path, outcome: Outcome::Left { why, record } }
}

/// One file: nothing is written unless it is surely the file of the record, half written.
fn one(path: &Path, record: &Record) -> Result<Outcome, Left> {
    let file = open_for_undo(path).map_err(|error| match error {
        Errno::NOENT | Errno::NOTDIR => Left::Gone,
        Errno::LOOP => Left::OtherFile,
        error => Left::Io(error.into()),
    })?;
    let stat = rustix::fs::fstat(&file).map_err(|error| Left::Io(error.into()))?;
    if (stat.st_dev, stat.st_ino) != (record.device, record.inode)
        || FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile
    {
        return Err(Left::OtherFile);
    }
    // Where there are no locks, identity and content decide.
    if rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) == Err(Errno::WOULDBLOCK) {
        return Err(Left::Locked);
    }
    if u64::try_from(stat.st_size) != Ok(record.size) {
        return Err(Left::OtherSize);
    }
    match state(&file, record)? {
        State::Old => Ok(Outcome::Untouched),
        State::New => {
            rustix::fs::fsync(&file).map_err(|error| Left::Io(error.into()))?;
            Ok(Outcome::Completed)
        }
        State::Torn => {
            roll_back(&file, record).map_err(Left::Io)?;
            match state(&file, record)? {
                State::Old => Ok(Outcome::RolledBack),
                State::New | State::Torn => Err(Left::Io(io::ErrorKind::InvalidData.into())),
            }
        }
    }
}

fn state(file: &File, record: &Record) -> Result<State, Left> {
    record.state(|there, offset| file.read_exact_at(there, offset)).map_err(|error| match error {
        Undecided::Read(error) => Left::Io(error),
        Undecided::Foreign(offset) => Left::OtherContent { offset },
    })
}
