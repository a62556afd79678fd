//! Generation floors: the newest generation of each key that this signer has worked with, kept beside the root key.
//! A restored or altered database cannot bring back an older blob. Several embedded signers share the file, under
//! the lock.
//!
//! A floor is raised by the first use of a newer blob, not by the renewal that made it: a renewal that the database
//! then fails to record must not lock the key out.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use sealwright_crypto::digest::to_hex;
use sealwright_proto::names::KeyId;
use sealwright_proto::status::{Code, Fault};

use crate::error::Error;
use crate::files::{self, Lock};
use crate::root::{from_hex, missing};

/// Name of the file.
pub(crate) const FLOORS_FILE: &str = "floors";

const TITLE: &str = "sealwright-floors 1";
/// Bytes of the file, at most: some 90,000 keys that were renewed.
const FILE_BYTES_MAX: u64 = 4 << 20;

/// The generation of a key that was never renewed; its floor needs no line.
const FIRST: u32 = 1;

/// The floors, read again when another process has changed them.
pub(crate) struct Floors {
    directory: PathBuf,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    stamp: Option<Stamp>,
    floors: BTreeMap<KeyId, u32>,
}

/// Tells one version of the file from another; each is a new file.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Stamp {
    inode: u64,
    modified_s: i64,
    modified_ns: i64,
    size: u64,
}

/// Makes the file, without a floor: once, with the keys that it belongs to. A database could go back if one that was
/// lost were made anew.
///
/// # Errors
/// [`Error::File`].
pub(crate) fn create(directory: &Path) -> Result<(), Error> {
    files::replace_private(directory, FLOORS_FILE, write(&BTreeMap::new()).as_bytes())
}

impl Floors {
    /// # Errors
    /// [`Error::FileMissing`], [`Error::Damaged`], [`Error::NotPrivate`], [`Error::File`].
    pub(crate) fn open(directory: &Path) -> Result<Self, Error> {
        let floors = Self { directory: directory.to_owned(), known: Mutex::default() };
        let mut known = floors.known.lock().unwrap_or_else(PoisonError::into_inner);
        floors.refresh(&mut known)?;
        if known.stamp.is_none() {
            return Err(missing(directory, FLOORS_FILE));
        }
        drop(known);
        Ok(floors)
    }

    /// Whether a renewed key was ever used.
    pub(crate) fn has_any(&self) -> bool {
        !self.known.lock().unwrap_or_else(PoisonError::into_inner).floors.is_empty()
    }

    /// Lets a blob of this generation pass, and remembers it, durably, if it is newer than all before.
    ///
    /// # Errors
    /// [`Code::GenerationSuperseded`], naming both; [`Code::SignerStateFailed`] if it cannot be remembered.
    pub(crate) fn pass(&self, key_id: KeyId, generation: u32) -> Result<(), Fault> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        self.refresh(&mut known).map_err(|error| Fault::from(&error))?;
        if known.is_at(key_id, generation)? {
            return Ok(());
        }
        self.raise(&mut known, key_id, generation)
    }

    fn raise(&self, known: &mut Known, key_id: KeyId, generation: u32) -> Result<(), Fault> {
        let failed = |error: Error| Fault::from(&error);
        let _lock = Lock::take(&self.directory).map_err(failed)?;
        self.refresh(known).map_err(failed)?;
        if known.is_at(key_id, generation)? {
            return Ok(());
        }
        let mut floors = known.floors.clone();
        floors.insert(key_id, generation);
        let text = write(&floors);
        if u64::try_from(text.len()).unwrap_or(u64::MAX) > FILE_BYTES_MAX {
            return Err(Fault::new(Code::SignerStateFailed, "the file of generation floors is full"));
        }
        files::replace_private(&self.directory, FLOORS_FILE, text.as_bytes()).map_err(failed)?;
        self.refresh(known).map_err(failed)
    }

    /// Reads the file if it is another than the one known.
    fn refresh(&self, known: &mut Known) -> Result<(), Error> {
        let path = self.directory.join(FLOORS_FILE);
        let stamp = match std::fs::symlink_metadata(&path) {
            Ok(metadata) => Some(Stamp {
                inode: metadata.ino(),
                modified_s: metadata.mtime(),
                modified_ns: metadata.mtime_nsec(),
                size: metadata.size(),
            }),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
            Err(error) => return Err(files::failed("look at", &path)(error)),
        };
        if stamp == known.stamp {
            return Ok(());
        }
        let mut floors = match files::read_private(&path, FILE_BYTES_MAX)? {
            Some(file) => {
                parse(&file).ok_or(Error::Damaged { path, reason: "it is not a list of floors" })?
            }
            None => return Err(Error::Damaged { path, reason: "it has vanished" }),
        };
        // What this process has seen stays, whatever the file says now.
        for (key_id, floor) in &known.floors {
            let entry = floors.entry(*key_id).or_insert(*floor);
            *entry = (*entry).max(*floor);
        }
        *known = Known { stamp, floors };
        Ok(())
    }
}

impl Known {
    /// `true` if this generation is the floor, `false` if it is newer.
    fn is_at(&self, key_id: KeyId, generation: u32) -> Result<bool, Fault> {
        let floor = self.floors.get(&key_id).copied().unwrap_or(FIRST);
        if generation < floor {
            let message = format!(
                "key {key_id}: the database has generation {generation}, but generation {floor} was in use already"
            );
            return Err(Fault::new(Code::GenerationSuperseded, message));
        }
        Ok(generation == floor)
    }
}

/// Title; then a line for each key, its id in hexadecimal and its floor, rising by id.
fn write(floors: &BTreeMap<KeyId, u32>) -> String {
    let mut text = format!("{TITLE}\n");
    for (key_id, floor) in floors {
        text.push_str(&format!("{} {floor}\n", to_hex(key_id.as_bytes())));
    }
    text
}

/// Accepts what [`write`] writes, and nothing else.
fn parse(file: &[u8]) -> Option<BTreeMap<KeyId, u32>> {
    let text = core::str::from_utf8(file).ok()?;
    let mut floors = BTreeMap::new();
    for line in text.strip_prefix(TITLE)?.strip_prefix('\n')?.split_terminator('\n') {
        let (key_id, floor) = line.split_once(' ')?;
        floors.insert(KeyId::parse(&from_hex(key_id)?).ok()?, floor.parse().ok()?);
    }
    (write(&floors) == text).then_some(floors)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seal::tests::ID;

    fn key(last: u8) -> KeyId {
        let mut id = ID;
        id[15] = last;
        KeyId::parse(&id).unwrap()
    }

    /// As it is when the keys are made.
    fn directory() -> tempfile::TempDir {
        let directory = tempfile::tempdir().unwrap();
        create(directory.path()).unwrap();
        directory
    }

    #[test]
    fn floors_that_were_lost_do_not_start_again() {
        let directory = directory();
        let path = directory.path().join(FLOORS_FILE);
        std::fs::remove_file(&path).unwrap();
        assert!(Floors::open(directory.path()).is_err());
        assert!(!path.exists(), "made anew");
    }

    #[test]
    fn an_older_generation_is_refused_once_a_newer_was_used() {
        let directory = directory();
        let floors = Floors::open(directory.path()).unwrap();
        for generation in [1, 2, 2, 5] {
            floors.pass(key(1), generation).unwrap();
        }
        let fault = floors.pass(key(1), 4).unwrap_err();
        assert_eq!(fault.code, Code::GenerationSuperseded);
        assert!(fault.message.contains('4') && fault.message.contains('5'));
        floors.pass(key(2), 1).unwrap();
    }

    #[test]
    fn floors_outlive_the_process_and_are_shared_with_others() {
        let directory = directory();
        let one = Floors::open(directory.path()).unwrap();
        let two = Floors::open(directory.path()).unwrap();
        two.pass(key(1), 2).unwrap();
        one.pass(key(1), 3).unwrap();
        one.pass(key(2), 7).unwrap();
        assert!(two.pass(key(1), 2).is_err());
        let later = Floors::open(directory.path()).unwrap();
        assert!(later.pass(key(1), 2).is_err());
        assert!(later.pass(key(2), 6).is_err());
        later.pass(key(2), 7).unwrap();
    }

    #[test]
    fn many_processes_that_raise_at_once_lose_no_floor() {
        let directory = directory();
        std::thread::scope(|scope| {
            for last in 0..8 {
                let path = directory.path();
                scope.spawn(move || {
                    let floors = Floors::open(path).unwrap();
                    for generation in 2..12 {
                        floors.pass(key(last), generation).unwrap();
                    }
                });
            }
        });
        let floors = Floors::open(directory.path()).unwrap();
        for last in 0..8 {
            assert!(floors.pass(key(last), 10).is_err(), "{last}");
            floors.pass(key(last), 11).unwrap();
        }
    }

    #[test]
    fn a_file_that_vanishes_or_goes_back_while_we_run_lowers_no_floor() {
        let directory = directory();
        let floors = Floors::open(directory.path()).unwrap();
        floors.pass(key(1), 2).unwrap();
        let path = directory.path().join(FLOORS_FILE);
        let older = std::fs::read(&path).unwrap();
        floors.pass(key(1), 3).unwrap();
        files::replace_private(directory.path(), FLOORS_FILE, &older).unwrap();
        assert_eq!(floors.pass(key(1), 2).unwrap_err().code, Code::GenerationSuperseded);
        std::fs::remove_file(&path).unwrap();
        assert!(floors.pass(key(1), 3).is_err());
    }

    #[test]
    fn a_key_that_was_never_renewed_costs_no_write() {
        let directory = directory();
        let inode = || std::fs::metadata(directory.path().join(FLOORS_FILE)).unwrap().ino();
        let before = inode();
        let floors = Floors::open(directory.path()).unwrap();
        floors.pass(key(1), 1).unwrap();
        assert_eq!(inode(), before, "each write makes a new file");
    }

    #[test]
    fn a_damaged_file_stops_the_signer() {
        let line = format!("{} 2\n", to_hex(key(1).as_bytes()));
        for bad in [
            "junk".to_owned(),
            format!("{TITLE}\nx 2\n"),
            format!("{TITLE}\n{line}{line}"),
            format!("{TITLE}\n{}", line.trim_end()),
            format!("{TITLE}\n{}", line.replace(" 2", " 02")),
            line.clone(),
        ] {
            let directory = directory();
            files::replace_private(directory.path(), FLOORS_FILE, bad.as_bytes()).unwrap();
            assert!(matches!(Floors::open(directory.path()), Err(Error::Damaged { .. })), "{bad}");
        }
    }
}
