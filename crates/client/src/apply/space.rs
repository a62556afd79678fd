//! Space that is taken before a signature is asked for: a disk that is full, or a quota that is used up, shows while
//! nothing was signed yet.

use std::fs::File;
use std::io;

use rustix::fs::FallocateFlags;
use rustix::io::Errno;

use crate::apply::copy;

/// Bytes of a ballast beyond what was asked for: making a file takes space too. XFS wants some 60 blocks to be free
/// before it makes one, in case inodes and directory must grow.
const SLACK_BYTES: u64 = 512 << 10;
/// A ballast grows and shrinks by so many bytes, for many files at once: a change of a length is a good part of what the
/// file system does for a signature over a header.
const STEP_BYTES: u64 = 512 << 10;

/// Whether space for `len` bytes could be reserved, which makes the file so long; `false` if the file system cannot
/// reserve.
pub(crate) fn reserve(file: &File, len: u64) -> io::Result<bool> {
    // Not KEEP_SIZE: only a growing file is measured against the limit of the process (ulimit -f).
    match rustix::fs::fallocate(file, FallocateFlags::empty(), 0, len.max(1)) {
        Ok(()) => Ok(true),
        Err(Errno::NOTSUP | Errno::NOSYS | Errno::INVAL | Errno::NODEV) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Makes a file `len` bytes long that has blocks for all of them: reserved, or written where nothing can be reserved.
pub(crate) fn take(file: &File, from: u64, len: u64) -> io::Result<()> {
    if len > from && !reserve(file, len)? {
        copy::zeros(file, from, len.saturating_sub(from))?;
    }
    Ok(())
}

/// A file without a name that only takes up space, thrown off when the space is needed. Its bytes go to whoever asks
/// first: on a disk that is full, another process can be faster.
#[derive(Debug)]
pub(crate) struct Ballast {
    file: File,
    /// Its length.
    len: u64,
    /// What was asked for, and not given back.
    asked: u64,
}

impl Ballast {
    pub(crate) const fn new(file: File) -> Self {
        Self { file, len: 0, asked: 0 }
    }

    /// Takes this much more.
    ///
    /// # Errors
    /// Space or quota is short; nothing was taken.
    pub(crate) fn add(&mut self, bytes: u64) -> io::Result<()> {
        let asked = self.asked.saturating_add(bytes);
        let need = asked.saturating_add(SLACK_BYTES);
        if need > self.len && self.grow(need.next_multiple_of(STEP_BYTES)).is_err() {
            self.grow(need)?;
        }
        self.asked = asked;
        Ok(())
    }

    fn grow(&mut self, len: u64) -> io::Result<()> {
        let grown = take(&self.file, self.len, len);
        match grown {
            Ok(()) => self.len = self.len.max(len),
            // Whatever part of it was taken.
            Err(_) => self.set_len(self.len),
        }
        grown
    }

    /// Gives back what was asked for once; returns whether anything is left.
    pub(crate) fn give_back(&mut self, bytes: u64) -> bool {
        self.asked = self.asked.saturating_sub(bytes);
        let need = self.asked.saturating_add(SLACK_BYTES).next_multiple_of(STEP_BYTES);
        if self.len.saturating_sub(need) >= STEP_BYTES {
            self.set_len(need);
        }
        self.asked > 0
    }

    /// Gives back what was taken beyond what was asked for, until it is taken again.
    pub(crate) fn give_back_slack(&mut self) {
        self.set_len(self.asked.min(self.len));
    }

    /// Takes it again, if it is free.
    pub(crate) fn take_slack(&mut self) {
        let _ = self.grow(self.asked.saturating_add(SLACK_BYTES));
    }

    /// A failure only keeps space that could be free.
    fn set_len(&mut self, len: u64) {
        if rustix::fs::ftruncate(&self.file, len).is_ok() {
            self.len = len;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt as _;

    use super::*;

    #[test]
    fn a_ballast_takes_blocks_and_gives_them_back() {
        let file = tempfile::tempfile().unwrap();
        let blocks = |file: &File| file.metadata().unwrap().blocks() * 512;
        let mut ballast = Ballast::new(file.try_clone().unwrap());
        ballast.add(1 << 20).unwrap();
        ballast.add(1 << 20).unwrap();
        assert!(blocks(&file) >= 2 << 20);
        assert!(ballast.give_back(1 << 20), "the other is still there");
        assert_eq!(file.metadata().unwrap().len(), (1 << 20) + SLACK_BYTES);
        ballast.give_back_slack();
        assert_eq!(file.metadata().unwrap().len(), 1 << 20);
        ballast.take_slack();
        assert_eq!(file.metadata().unwrap().len(), (1 << 20) + SLACK_BYTES);
        for _ in 0..10 {
            ballast.add(4096).unwrap();
            assert_eq!(
                file.metadata().unwrap().len(),
                (1 << 20) + SLACK_BYTES + STEP_BYTES,
                "one step for many"
            );
        }
        assert!(ballast.give_back(1 << 20));
        assert!(!ballast.give_back(10 * 4096));
    }
}
