//! A file system that shares extents (XFS), in a file mounted by the loop device, for benches that root runs.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::Error;
use crate::{Result, process};

/// A mounted XFS; unmounted when this is dropped. Its image stays for the next run.
pub(super) struct Xfs {
    mounted: PathBuf,
}

impl Xfs {
    /// Of so many MiB below `place`; made once. `None` without root or without the tools of XFS.
    pub(super) fn mount(place: &Path, name: &str, mib: u64) -> Result<Option<Self>> {
        if !nix::unistd::Uid::effective().is_root() || !process::is_there("mkfs.xfs") {
            println!("xtask: no XFS here (it takes root and xfsprogs): its rows are left out");
            return Ok(None);
        }
        let image = place.join(format!("{name}.xfs"));
        let mounted = place.join(format!("{name}.mounted"));
        if !image.is_file() {
            let file = fs::File::create(&image).map_err(Error::file(&image))?;
            file.set_len(mib << 20).map_err(Error::file(&image))?;
            process::run(Command::new("mkfs.xfs").args(["-q", "-m", "reflink=1"]).arg(&image))?;
        }
        fs::create_dir_all(&mounted).map_err(Error::file(&mounted))?;
        // Of a run that was killed.
        let _ =
            Command::new("umount").arg("--quiet").arg(&mounted).stderr(std::process::Stdio::null()).status();
        process::run(Command::new("mount").args(["-o", "loop"]).arg(&image).arg(&mounted))?;
        Ok(Some(Self { mounted }))
    }

    /// Where it is mounted.
    pub(super) fn path(&self) -> &Path {
        &self.mounted
    }
}

impl Drop for Xfs {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.mounted).status();
    }
}
