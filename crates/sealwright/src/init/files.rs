//! Files of a server's directory: each made new with its mode from the first moment, synced, and a file that changes
//! exchanged in one step.

use std::fs::{DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

use crate::failure::Failure;

/// For its owner alone.
pub(crate) const SECRET: u32 = 0o600;
/// For everybody to read.
pub(crate) const PUBLIC: u32 = 0o644;
/// For its owner and a group.
pub(crate) const GROUP: u32 = 0o640;
/// A directory for its owner alone.
pub(crate) const PRIVATE_DIRECTORY: u32 = 0o700;

/// Who owns a file: user and group number.
pub(crate) type Owner = (u32, u32);

/// A new file; one that is there is never touched.
pub(crate) fn write_new(path: &Path, bytes: &[u8], mode: u32) -> Result<(), Failure> {
    let write = || {
        let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(path)?;
        // Whatever the umask is.
        file.set_permissions(Permissions::from_mode(mode))?;
        file.write_all(bytes)?;
        file.sync_all()
    };
    write().map_err(|error| cannot("write", path, &error))
}

/// A new directory.
pub(crate) fn make_directory(path: &Path, mode: u32) -> Result<(), Failure> {
    let make = || {
        DirBuilder::new().mode(mode).create(path)?;
        std::fs::set_permissions(path, Permissions::from_mode(mode))
    };
    make().map_err(|error| cannot("make", path, &error))
}

/// Exchanges the content of a file in one step; mode and owner stay.
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    let replace = || {
        let before = path.metadata()?;
        let folder = path.parent().unwrap_or(Path::new("."));
        let mut new = tempfile::Builder::new().prefix(".sealwright-").tempfile_in(folder)?;
        new.write_all(bytes)?;
        let file = new.as_file();
        if (before.uid(), before.gid()) != {
            let now = file.metadata()?;
            (now.uid(), now.gid())
        } {
            std::os::unix::fs::fchown(file, Some(before.uid()), Some(before.gid()))?;
        }
        file.set_permissions(Permissions::from_mode(before.mode() & 0o7777))?;
        file.sync_all()?;
        new.persist(path).map_err(|error| error.error)?;
        sync(folder)
    };
    replace().map_err(|error| cannot("write", path, &error))
}

/// A rename is durable when its directory is.
pub(crate) fn sync(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

/// A directory and everything in it; links are not followed.
pub(crate) fn give(path: &Path, owner: Owner) -> Result<(), Failure> {
    let cannot = |error: &io::Error| cannot("change the owner of", path, error);
    std::os::unix::fs::lchown(path, Some(owner.0), Some(owner.1)).map_err(|error| cannot(&error))?;
    if !path.symlink_metadata().map_err(|error| cannot(&error))?.is_dir() {
        return Ok(());
    }
    for entry in path.read_dir().map_err(|error| cannot(&error))? {
        give(&entry.map_err(|error| cannot(&error))?.path(), owner)?;
    }
    Ok(())
}

/// What could not be done, and where.
pub(crate) fn cannot(action: &str, path: &Path, error: &io::Error) -> Failure {
    let advice = if error.kind() == io::ErrorKind::PermissionDenied {
        "Grant access to this user, or use --directory DIR."
    } else {
        "See what the operating system says, then try again."
    };
    Failure::failed(format!("cannot {action} {}: {error}", path.display()), advice)
}
