//! Space that is taken before a signature is asked for: a disk that is full, or a quota that is used up, shows while
//! nothing was signed yet.

use std::fs::File;
use std::io;

use rustix::fs::FallocateFlags;
use rustix::io::Errno;

use crate::apply::copy;

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
