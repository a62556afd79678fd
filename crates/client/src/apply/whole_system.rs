//! One sync for many files: `syncfs` writes all that is dirty on a file system. Used only where it promises what the sync
//! of each file does: a failed write is reported, and the device has everything when it returns.

use std::fs::File;

use rustix::fs::{FsWord, fstatfs};

/// File systems of this machine whose `syncfs` writes data and metadata and flushes the device (`f_type` in statfs(2)):
/// ext4 (and ext2, ext3), XFS, btrfs, tmpfs. Not those of a network, FUSE or overlays, which hand it on only in part.
const KNOWN: &[FsWord] = &[0xef53, 0x5846_5342, 0x9123_683e, 0x0102_1994];
/// From this kernel on `syncfs` reports writes that failed since the file was opened (syncfs(2)).
const KERNEL_MIN: (u32, u32) = (5, 8);

/// Syncs the file system of an open file; whether it did. If not, each file must be synced alone, which also says for
/// which of them a write failed.
pub(crate) fn sync(file: &File) -> bool {
    let known = fstatfs(file).is_ok_and(|system| KNOWN.contains(&system.f_type));
    known
        && reports_errors(&rustix::system::uname().release().to_string_lossy())
        && rustix::fs::syncfs(file).is_ok()
}

/// Of a release like `6.1.0-13-amd64`.
fn reports_errors(release: &str) -> bool {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(major)), Some(Ok(minor))) => (major, minor) >= KERNEL_MIN,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_that_forget_failed_writes_are_told_by_their_release() {
        for old in ["5.7.19", "4.18.0-553.el8", "3.10.0", "", "x.y", "5"] {
            assert!(!reports_errors(old), "{old}");
        }
        for new in ["5.8", "5.10.0-28-amd64", "6.18.44-fc-v669", "10.0"] {
            assert!(reports_errors(new), "{new}");
        }
    }
}
