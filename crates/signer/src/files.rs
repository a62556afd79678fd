//! The signer's own files: private, small, replaced as a whole, and durable before anything relies on them.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use crate::error::Error;
use crate::secret::Secret;

/// A failure of the system with a file, for `map_err`.
pub(crate) fn failed(action: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Error + use<> {
    let path = path.to_owned();
    move |source| Error::File { action, path, source }
}

/// Makes the directory and its parents, each 0700; leaves an existing one as it is.
///
/// # Errors
/// [`Error::File`].
pub(crate) fn create_private_directory(path: &Path) -> Result<(), Error> {
    DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(failed("create directory", path))
}

/// Whether the directory is one that nobody else can change.
///
/// # Errors
/// [`Error::NotPrivate`], [`Error::File`].
pub(crate) fn check_private_directory(path: &Path) -> Result<(), Error> {
    let metadata = std::fs::metadata(path).map_err(failed("look at", path))?;
    if !metadata.is_dir() {
        return Err(Error::NotPrivate { path: path.to_owned(), reason: "is not a directory" });
    }
    check_owner(path, &metadata)?;
    if metadata.mode() & 0o022 != 0 {
        return Err(Error::NotPrivate {
            path: path.to_owned(),
            reason: "can be changed by others; use chmod 0700",
        });
    }
    Ok(())
}

/// The content of a private file of at most `limit` bytes; `None` if there is no such file.
///
/// # Errors
/// [`Error::NotPrivate`] if others can read it or own it, or if it is no regular file; [`Error::Damaged`] if it is
/// larger; [`Error::File`].
pub(crate) fn read_private(path: &Path, limit: u64) -> Result<Option<Vec<u8>>, Error> {
    let Some((file, len)) = open_private(path)? else { return Ok(None) };
    let capacity = usize::try_from(len.min(limit)).unwrap_or_default().saturating_add(1);
    let mut bytes = Vec::with_capacity(capacity);
    let mut bounded = file.take(limit.saturating_add(1));
    bounded.read_to_end(&mut bytes).map_err(failed("read", path))?;
    if u64::try_from(bytes.len()).unwrap_or(u64::MAX) > limit {
        return Err(Error::Damaged { path: path.to_owned(), reason: "it is too large" });
    }
    Ok(Some(bytes))
}

/// The same into locked memory, and nowhere else.
///
/// # Errors
/// Those of [`read_private`]; [`Error::Confinement`].
pub(crate) fn read_secret(path: &Path, limit: u64) -> Result<Option<Secret>, Error> {
    let Some((mut file, len)) = open_private(path)? else { return Ok(None) };
    let too_large = || Error::Damaged { path: path.to_owned(), reason: "it is too large" };
    let len = usize::try_from(len).ok().filter(|_| len <= limit).ok_or_else(too_large)?;
    let mut read = Ok(());
    let secret = Secret::filled(len, |bytes| {
        read = file.read_exact(bytes);
        Some(())
    })?;
    read.map_err(failed("read", path))?;
    Ok(secret)
}

/// The file and its length.
fn open_private(path: &Path) -> Result<Option<(File, u64)>, Error> {
    // Not blocking: a FIFO in its place must not hold us.
    let flags = i32::try_from(rustix::fs::OFlags::NONBLOCK.bits()).unwrap_or_default();
    let file = match OpenOptions::new().read(true).custom_flags(flags).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed("open", path)(error)),
    };
    let metadata = file.metadata().map_err(failed("look at", path))?;
    let not_private = |reason| Err(Error::NotPrivate { path: path.to_owned(), reason });
    if !metadata.is_file() {
        return not_private("is not a regular file");
    }
    check_owner(path, &metadata)?;
    if !is_private(metadata.mode(), metadata.uid(), metadata.gid(), rustix::process::geteuid().as_raw()) {
        return not_private("can be read by others; it may have been copied. Use chmod 0600");
    }
    Ok(Some((file, metadata.len())))
}

/// Readable by nobody but its owner. To a user other than root, a credential that a service manager gives by an access
/// list belongs to root, and shows the mask of the list as the rights of root's group.
const fn is_private(mode: u32, uid: u32, gid: u32, user: u32) -> bool {
    let credential = user != 0 && uid == 0 && gid == 0 && mode & 0o037 == 0;
    mode & 0o077 == 0 || credential
}

/// Ours, or root's, who can read everything anyway.
fn check_owner(path: &Path, metadata: &std::fs::Metadata) -> Result<(), Error> {
    let ours = rustix::process::geteuid().as_raw();
    if metadata.uid() == ours || metadata.uid() == 0 {
        return Ok(());
    }
    Err(Error::NotPrivate { path: path.to_owned(), reason: "is owned by another user" })
}

/// Writes the whole file, 0600, under its final name only once it is complete and durable. Replaces what is there.
/// The caller holds the lock, so the temporary name is ours.
///
/// # Errors
/// [`Error::File`], with the old file untouched.
pub(crate) fn replace_private(directory: &Path, name: &str, bytes: &[u8]) -> Result<(), Error> {
    let path = directory.join(name);
    let temporary = directory.join(format!(".sealwright-{name}.new"));
    remove(&temporary)?;
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&temporary)
        .map_err(failed("create", &temporary))?;
    file.write_all(bytes).and_then(|()| file.sync_all()).map_err(failed("write", &temporary))?;
    std::fs::rename(&temporary, &path).map_err(failed("replace", &path))?;
    sync_directory(directory)
}

/// Removes the file, if it is there. Durable with [`sync_directory`].
///
/// # Errors
/// [`Error::File`].
pub(crate) fn remove(path: &Path) -> Result<(), Error> {
    match std::fs::remove_file(path) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(failed("remove", path)(error)),
    }
}

/// Makes names in the directory durable.
///
/// # Errors
/// [`Error::File`].
pub(crate) fn sync_directory(directory: &Path) -> Result<(), Error> {
    File::open(directory).and_then(|file| file.sync_all()).map_err(failed("sync", directory))
}

/// Held while the signer's files are changed; several embedded signers share them.
pub(crate) struct Lock {
    /// The lock goes with its file descriptor.
    _file: File,
}

impl Lock {
    /// Waits for the lock.
    ///
    /// # Errors
    /// [`Error::File`].
    pub(crate) fn take(directory: &Path) -> Result<Self, Error> {
        let path = directory.join("lock");
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&path)
            .map_err(failed("open", &path))?;
        rustix::fs::flock(&file, rustix::fs::FlockOperation::LockExclusive)
            .map_err(|error| failed("lock", &path)(error.into()))?;
        Ok(Self { _file: file })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn what_is_written_is_private_and_reads_back() {
        let directory = tempfile::tempdir().unwrap();
        let nested = directory.path().join("a/b");
        create_private_directory(&nested).unwrap();
        assert_eq!(std::fs::metadata(&nested).unwrap().mode() & 0o777, 0o700);
        replace_private(&nested, "f", b"one").unwrap();
        replace_private(&nested, "f", b"two").unwrap();
        let path = nested.join("f");
        assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        assert_eq!(read_private(&path, 3).unwrap().unwrap().as_slice(), b"two");
        assert!(matches!(read_private(&path, 2), Err(Error::Damaged { .. })));
        assert!(read_private(&nested.join("absent"), 3).unwrap().is_none());
    }

    #[test]
    fn a_file_that_others_can_read_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("f");
        std::fs::write(&path, b"x").unwrap();
        for mode in [0o640, 0o604, 0o660, 0o644] {
            std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
            assert!(matches!(read_private(&path, 9), Err(Error::NotPrivate { .. })), "{mode:o}");
        }
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o400)).unwrap();
        assert!(read_private(&path, 9).is_ok());
    }

    #[test]
    fn of_what_others_can_read_only_a_credential_of_root_and_its_group_is_private() {
        assert!(is_private(0o100_600, 1000, 1000, 1000) && is_private(0o100_440, 0, 0, 1000));
        assert!(!is_private(0o100_440, 1000, 0, 1000) && !is_private(0o100_440, 0, 1000, 1000));
        assert!(!is_private(0o100_444, 0, 0, 1000) && !is_private(0o100_460, 0, 0, 1000));
        assert!(!is_private(0o100_440, 0, 0, 0), "root needs no list");
    }

    #[test]
    fn a_directory_or_fifo_in_place_of_a_file_is_refused_and_does_not_block() {
        let directory = tempfile::tempdir().unwrap();
        assert!(matches!(read_private(directory.path(), 9), Err(Error::NotPrivate { .. })));
        let fifo = directory.path().join("fifo");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &fifo,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::from_raw_mode(0o600),
            0,
        )
        .unwrap();
        assert!(matches!(read_private(&fifo, 9), Err(Error::NotPrivate { .. })));
    }

    #[test]
    fn a_directory_that_others_can_change_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        check_private_directory(directory.path()).unwrap();
        std::fs::set_permissions(directory.path(), PermissionsExt::from_mode(0o770)).unwrap();
        assert!(matches!(check_private_directory(directory.path()), Err(Error::NotPrivate { .. })));
    }
}
