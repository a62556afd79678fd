//! Copies a part of one file into another: by the kernel where it can (it clones where blocks line up), else
//! through a buffer.

use std::fs::File;
use std::io;
use std::num::NonZeroU64;
use std::os::unix::fs::FileExt as _;

use rustix::fs::Advice;
use rustix::io::Errno;

/// Bytes asked of the kernel at once, so that a stop is noticed and a progress can be shown in time.
const KERNEL_BYTES: u64 = 64 << 20;
/// Buffer of the copy by hand, in bytes.
const BUFFER_BYTES: u64 = 256 << 10;

/// Copies the first `len` bytes, and lets the disk begin with what lies behind `hot`, where nothing is written again: the
/// sync before the rename has less to wait for. Returns the bytes copied.
pub(crate) fn whole(from: &File, to: &File, len: u64, hot: u64) -> io::Result<u64> {
    let mut done = 0u64;
    while done < len {
        let part = len.saturating_sub(done).min(KERNEL_BYTES);
        done = done.saturating_add(range(from, to, (done, done), part)?);
        let cold = hot.max(done.saturating_sub(part));
        if let Some(cold_len) = done.checked_sub(cold).and_then(NonZeroU64::new) {
            // Of what is not on the disk yet, this starts the writing and forgets nothing (mm/fadvise.c). Advice only.
            let _ = rustix::fs::fadvise(to, cold, Some(cold_len), Advice::DontNeed);
        }
    }
    Ok(done)
}

/// Copies `len` bytes between the offsets (`from`, `to`); returns the bytes copied.
pub(crate) fn range(from: &File, to: &File, at: (u64, u64), len: u64) -> io::Result<u64> {
    let mut done = 0u64;
    while done < len {
        let part = len.saturating_sub(done).min(KERNEL_BYTES);
        let mut read_at = at.0.saturating_add(done);
        let mut write_at = at.1.saturating_add(done);
        let want = usize::try_from(part).unwrap_or(usize::MAX);
        match rustix::fs::copy_file_range(from, Some(&mut read_at), to, Some(&mut write_at), want) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(n) => done = done.saturating_add(u64::try_from(n).unwrap_or(u64::MAX)),
            Err(Errno::INTR) => {}
            Err(Errno::XDEV | Errno::NOTSUP | Errno::INVAL | Errno::NOSYS | Errno::PERM | Errno::BADF) => {
                let rest = len.saturating_sub(done);
                by_hand(from, to, (at.0.saturating_add(done), at.1.saturating_add(done)), rest)?;
                done = len;
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(done)
}

/// Writes zeros: keeps the space for a result that may be longer.
pub(crate) fn zeros(to: &File, at: u64, len: u64) -> io::Result<()> {
    let buffer = vec![0; usize::try_from(len.min(BUFFER_BYTES)).unwrap_or_default()];
    let mut done = 0u64;
    while done < len {
        let part = usize::try_from(len.saturating_sub(done)).unwrap_or(usize::MAX).min(buffer.len());
        to.write_all_at(buffer.get(..part).unwrap_or_default(), at.saturating_add(done))?;
        done = done.saturating_add(u64::try_from(part).unwrap_or(u64::MAX));
    }
    Ok(())
}

/// Copies `len` bytes through a buffer, so that they get blocks of their own.
pub(crate) fn by_hand(from: &File, to: &File, at: (u64, u64), len: u64) -> io::Result<()> {
    let mut buffer = vec![0; usize::try_from(len.min(BUFFER_BYTES)).unwrap_or_default()];
    let mut done = 0u64;
    while done < len {
        let part = usize::try_from(len.saturating_sub(done)).unwrap_or(usize::MAX).min(buffer.len());
        let part = buffer.get_mut(..part).unwrap_or_default();
        from.read_exact_at(part, at.0.saturating_add(done))?;
        to.write_all_at(part, at.1.saturating_add(done))?;
        done = done.saturating_add(u64::try_from(part.len()).unwrap_or(u64::MAX));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_of_copying_give_the_same_bytes_at_any_offset() {
        let dir = tempfile::tempdir().unwrap();
        let open = |name: &str| {
            File::options().read(true).write(true).create(true).truncate(false).open(dir.path().join(name))
        };
        let content: Vec<u8> = (0..600_000u32).map(|i| (i % 251) as u8).collect();
        std::fs::write(dir.path().join("from"), &content).unwrap();
        let from = open("from").unwrap();
        for (name, kernel) in [("kernel", true), ("hand", false)] {
            let to = open(name).unwrap();
            if kernel {
                assert_eq!(range(&from, &to, (7, 11), 500_000).unwrap(), 500_000);
            } else {
                by_hand(&from, &to, (7, 11), 500_000).unwrap();
            }
            let copied = std::fs::read(dir.path().join(name)).unwrap();
            assert_eq!(copied.get(11..), content.get(7..500_007), "{name}");
        }
        assert_eq!(whole(&from, &open("whole").unwrap(), 600_000, 4096).unwrap(), 600_000);
        assert_eq!(std::fs::read(dir.path().join("whole")).unwrap(), content);
        assert!(range(&from, &open("short").unwrap(), (599_999, 0), 2).is_err());
    }
}
