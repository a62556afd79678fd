//! Small file systems of known kinds for tests, in files mounted by the loop device. Only root can mount: for
//! anybody else there is none, and the test says so.

use std::io::{Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::process::Command;

use sealwright_testkit::tools;
use tempfile::TempDir;

/// A mounted file system; unmounted when dropped.
pub(crate) struct Disk {
    folder: TempDir,
}

impl Disk {
    /// XFS that can share blocks, of this many MiB (300 at least).
    pub(crate) fn xfs(mib: u64) -> Option<Self> {
        Self::image(mib, Command::new("mkfs.xfs").args(["-q", "-m", "reflink=1"]))
    }

    /// btrfs, of this many MiB (120 at least), which counts what its parts use; none where the kernel does not know it.
    pub(crate) fn btrfs_with_quotas(mib: u64) -> Option<Self> {
        let known = std::fs::read_to_string("/proc/filesystems").unwrap().contains("btrfs");
        if !known {
            eprintln!("no btrfs here: this part of the test is left out");
            return None;
        }
        let disk = Self::image(mib, Command::new("mkfs.btrfs").arg("-q"))?;
        tools::succeed(Command::new("btrfs").args(["quota", "enable"]).arg(disk.path()));
        Some(disk)
    }

    /// ext4, of this many MiB.
    pub(crate) fn ext4(mib: u64) -> Option<Self> {
        Self::image(mib, Command::new("mkfs.ext4").args(["-q", "-m", "0", "-F"]))
    }

    /// tmpfs, of this many KiB.
    pub(crate) fn tmpfs(kib: u64) -> Option<Self> {
        let disk = Self { folder: folder()? };
        let size = format!("size={kib}k");
        tools::succeed(Command::new("mount").args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(disk.path()));
        Some(disk)
    }

    fn image(mib: u64, mkfs: &mut Command) -> Option<Self> {
        let disk = Self { folder: folder()? };
        let image = disk.folder.path().join("image");
        std::fs::File::create(&image).unwrap().set_len(mib << 20).unwrap();
        tools::succeed(mkfs.arg(&image));
        tools::succeed(Command::new("mount").args(["-o", "loop"]).arg(&image).arg(disk.path()));
        Some(disk)
    }

    /// Where it is mounted.
    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().join("disk")
    }

    /// Leaves about this many bytes free, in a file named `filler`.
    pub(crate) fn fill_but(&self, free: u64) {
        let filler = self.path().join("filler");
        drop(std::fs::remove_file(&filler));
        // What was removed is free late on some file systems: it must not come back after this.
        let folder = std::fs::File::open(self.path()).unwrap();
        rustix::fs::syncfs(&folder).unwrap();
        let mut file = std::fs::File::create(filler).unwrap();
        let mut len = 0;
        for chunk in [16 << 20, 1 << 20, 64 << 10, 4 << 10] {
            loop {
                let stat = rustix::fs::statvfs(self.path()).unwrap();
                let full = stat.f_bavail * stat.f_frsize < free + chunk;
                // A file system keeps some for itself: it can be full before it says so.
                let kind = rustix::fs::FallocateFlags::empty();
                if full || rustix::fs::fallocate(&file, kind, len, chunk).is_err() {
                    break;
                }
                len += chunk;
            }
        }
        // Reserving can end a little early, and so can writing: a file system reserves more for that than it needs.
        let mut was_full = free > 0;
        while !was_full {
            file.seek(SeekFrom::End(0)).unwrap();
            was_full = file.write(&[0; 512]).is_err();
            while file.write_all(&[0; 512]).is_ok() {}
            let _ = file.sync_all();
        }
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.path()).status();
    }
}

fn folder() -> Option<TempDir> {
    if !rustix::process::geteuid().is_root() {
        eprintln!("not root: no file system can be mounted, this part of the test is left out");
        return None;
    }
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("disk")).unwrap();
    Some(folder)
}

/// Temporaries of ours below a folder.
pub(crate) fn temporaries(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.filter(|path| path.file_name().unwrap().to_string_lossy().starts_with(".sealwright-")).collect()
}

/// Undo records of a home.
pub(crate) fn records(home: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(home.join("state")) else { return Vec::new() };
    entries.map(|entry| entry.unwrap().path()).filter(|path| !path.ends_with("lock")).collect()
}
