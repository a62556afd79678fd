//! A file that is read through once leaves the page cache as it was: what somebody else had there stays, what came for us
//! goes. Without this, signing a large tree over its payloads would push out everything that the machine works with.
//!
//! Which parts are there is asked before the first long read, one page in each window: `preadv2` with `RWF_NOWAIT`
//! fails where it would have to wait for the disk. Afterwards the kernel reads ahead, and the answer is not to be had.

use std::fs::File;
use std::io::IoSliceMut;
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::Advice;
use rustix::io::{Errno, ReadWriteFlags};

/// What is asked about, and dropped, as one.
const WINDOW_BYTES: u64 = 2 << 20;
/// Smaller files stay: they are gone soon enough, and asking would take its time.
const FILE_BYTES_MIN: u64 = 32 << 20;
/// Windows at most, one bit each: files of 2 TiB; what is beyond stays in the cache.
const WINDOWS_MAX: u64 = 1 << 20;

/// The windows of a file that were not in the cache before it was read.
#[derive(Debug)]
pub(super) struct Brought {
    /// One bit for each window.
    bits: Vec<u8>,
    /// Windows before this one are dropped already.
    next: AtomicU64,
}

impl Brought {
    /// Asks the kernel; `None` if everything is to stay.
    pub(super) fn look(file: &File, len: u64) -> Option<Self> {
        if len < FILE_BYTES_MIN {
            return None;
        }
        // So that no more is read than the one page of each question.
        let _ = rustix::fs::fadvise(file, 0, None, Advice::Random);
        let windows = len.div_ceil(WINDOW_BYTES).min(WINDOWS_MAX);
        let mut bits = vec![0_u8; usize::try_from(windows.div_ceil(8)).ok()?];
        let mut any = false;
        for window in 0..windows {
            if is_away(file, window.saturating_mul(WINDOW_BYTES))? {
                any = true;
                let byte = usize::try_from(window / 8).ok().and_then(|at| bits.get_mut(at))?;
                *byte |= 1 << (window % 8);
            }
        }
        // The first window holds what is read again after a signature.
        any.then(|| Self { bits, next: AtomicU64::new(1) })
    }

    /// Everything before `offset` was read and is not needed any more: what came for us goes.
    pub(super) fn drop_before(&self, file: &File, offset: u64, len: u64) {
        let until = if offset >= len { len.div_ceil(WINDOW_BYTES) } else { offset / WINDOW_BYTES };
        let from = self.next.fetch_max(until, Ordering::Relaxed);
        for window in from..until {
            if self.is_set(window) {
                let at = window.saturating_mul(WINDOW_BYTES);
                let _ = rustix::fs::fadvise(file, at, NonZeroU64::new(WINDOW_BYTES), Advice::DontNeed);
            }
        }
    }

    fn is_set(&self, window: u64) -> bool {
        let byte = usize::try_from(window / 8).ok().and_then(|at| self.bits.get(at));
        byte.is_some_and(|byte| byte & (1 << (window % 8)) != 0)
    }
}

/// Whether the page at `at` is not in the cache; `None` if the file system does not say.
fn is_away(file: &File, at: u64) -> Option<bool> {
    let mut byte = [0_u8];
    let mut buffers = [IoSliceMut::new(&mut byte)];
    match rustix::io::preadv2(file, &mut buffers, at, ReadWriteFlags::NOWAIT) {
        Ok(_) => Some(false),
        Err(Errno::AGAIN) => Some(true),
        Err(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::os::unix::fs::FileExt as _;
    use std::path::Path;

    use super::*;

    const LEN: u64 = FILE_BYTES_MIN + 3 * WINDOW_BYTES / 2;

    /// A file on a disk, nothing of it in the cache; none where that cannot be had (tmpfs).
    fn cold() -> Option<File> {
        let target = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target");
        let mut file = tempfile::tempfile_in(target).or_else(|_| tempfile::tempfile()).unwrap();
        file.write_all(&vec![7; usize::try_from(LEN).unwrap()]).unwrap();
        file.sync_all().unwrap();
        rustix::fs::fadvise(&file, 0, None, Advice::DontNeed).unwrap();
        rustix::fs::fadvise(&file, 0, None, Advice::Random).unwrap();
        let is_cold = is_away(&file, LEN / 2) == Some(true);
        if !is_cold {
            eprintln!("the cache of this file system cannot be emptied: this test is left out");
        }
        is_cold.then_some(file)
    }

    #[test]
    fn what_was_brought_in_goes_and_what_was_there_stays() {
        let Some(file) = cold() else { return };
        let mut window = vec![0; usize::try_from(WINDOW_BYTES).unwrap()];
        for warm in [3, 7] {
            file.read_exact_at(&mut window, warm * WINDOW_BYTES).unwrap();
        }
        let brought = Brought::look(&file, LEN).unwrap();
        for at in (0..LEN).step_by(1 << 18) {
            let chunk = &mut window[..usize::try_from((LEN - at).min(1 << 18)).unwrap()];
            file.read_exact_at(chunk, at).unwrap();
            brought.drop_before(&file, at + u64::try_from(chunk.len()).unwrap(), LEN);
        }
        // In the middle of each window: the page that was asked about before may be on its way.
        let stays: Vec<u64> = (0..LEN.div_ceil(WINDOW_BYTES))
            .filter(|window| is_away(&file, window * WINDOW_BYTES + WINDOW_BYTES / 4) == Some(false))
            .collect();
        assert_eq!(stays, [0, 3, 7]);
    }

    #[test]
    fn a_file_that_is_in_the_cache_or_short_is_left_there() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&vec![7; usize::try_from(LEN).unwrap()]).unwrap();
        assert!(Brought::look(&file, LEN).is_none());
        if let Some(file) = cold() {
            assert!(Brought::look(&file, FILE_BYTES_MIN - 1).is_none());
        }
    }
}
