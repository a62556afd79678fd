//! The signer's own files: private, small, replaced as a whole, and durable before anything relies on them.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use rustix::fs::OFlags;

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
    let Some((file, len)) = open_private(path, Links::Refused)? else { return Ok(None) };
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
    secret_of(open_private(path, Links::Refused)?, path, limit)
}

/// The same of a file that somebody else has placed, which may be a link.
///
/// # Errors
/// Those of [`read_secret`].
pub(crate) fn read_placed_secret(path: &Path, limit: u64) -> Result<Option<Secret>, Error> {
    secret_of(open_private(path, Links::Followed)?, path, limit)
}

fn secret_of(opened: Option<(File, u64)>, path: &Path, limit: u64) -> Result<Option<Secret>, Error> {
    let Some((mut file, len)) = opened else { return Ok(None) };
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

/// The file and its length; `None` if there is none.
fn open_private(path: &Path, links: Links) -> Result<Option<(File, u64)>, Error> {
    open(path, OpenOptions::new().read(true), links)
}

/// A file of the signer's that is changed in its place; `None` if there is none.
///
/// # Errors
/// [`Error::NotPrivate`], [`Error::File`].
pub(crate) fn open_to_append(path: &Path) -> Result<Option<File>, Error> {
    let opened = open(path, OpenOptions::new().read(true).write(true), Links::Refused)?;
    Ok(opened.map(|(file, _)| file))
}

/// An empty file that is locked, made where it is missing.
///
/// # Errors
/// [`Error::NotPrivate`], [`Error::File`].
pub(crate) fn open_to_lock(path: &Path) -> Result<File, Error> {
    let mut options = OpenOptions::new();
    // Reading, too: a FIFO that is opened for writing alone waits for a reader, or fails without saying why.
    options.read(true).write(true).create(true).truncate(false).mode(0o600);
    let opened = open(path, &mut options, Links::Refused)?;
    opened.map(|(file, _)| file).ok_or_else(|| failed("open", path)(ErrorKind::NotFound.into()))
}

/// Whether the name of a file may be a link.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Links {
    /// As a service manager or an operator places a root key.
    Followed,
    /// In our own directory there are none.
    Refused,
}

/// The one way in which the signer opens a file that was there before: whatever lies in its place, it does not wait
/// for it, and uses nothing but a private regular file.
fn open(path: &Path, options: &mut OpenOptions, links: Links) -> Result<Option<(File, u64)>, Error> {
    let mut flags = OFlags::NONBLOCK | OFlags::CLOEXEC;
    if links == Links::Refused {
        flags |= OFlags::NOFOLLOW;
    }
    let flags = flags.bits().cast_signed();
    let not_private = |reason| Err(Error::NotPrivate { path: path.to_owned(), reason });
    let file = match options.custom_flags(flags).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(_) if is_of_another_kind(path, links) => return not_private("is not a regular file"),
        Err(error) => return Err(failed("open", path)(error)),
    };
    let metadata = file.metadata().map_err(failed("look at", path))?;
    if !metadata.is_file() {
        return not_private("is not a regular file");
    }
    check_owner(path, &metadata)?;
    if !is_private(metadata.mode(), metadata.uid(), metadata.gid(), rustix::process::geteuid().as_raw()) {
        return not_private("can be read by others; it may have been copied. Use chmod 0600");
    }
    Ok(Some((file, metadata.len())))
}

/// A link, a socket or a directory does not open at all: the reason is its kind, not what the system says then.
fn is_of_another_kind(path: &Path, links: Links) -> bool {
    let metadata = match links {
        Links::Followed => std::fs::metadata(path),
        Links::Refused => std::fs::symlink_metadata(path),
    };
    metadata.is_ok_and(|metadata| !metadata.is_file())
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
    /// [`Error::NotPrivate`], [`Error::File`].
    pub(crate) fn take(directory: &Path) -> Result<Self, Error> {
        let path = directory.join("lock");
        let file = open_to_lock(&path)?;
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

    fn fifo(path: &Path) {
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    }

    #[test]
    fn what_is_no_regular_file_is_refused_however_it_is_opened_and_does_not_block() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        fifo(&path("fifo"));
        std::fs::create_dir(path("folder")).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(path("socket")).unwrap();
        std::fs::write(path("file"), b"x").unwrap();
        std::fs::set_permissions(path("file"), PermissionsExt::from_mode(0o600)).unwrap();
        std::os::unix::fs::symlink(path("file"), path("link")).unwrap();
        std::os::unix::fs::symlink(path("absent"), path("dangling")).unwrap();
        for name in ["fifo", "folder", "socket", "link", "dangling"] {
            let path = path(name);
            let refusals = [
                read_private(&path, 9).err(),
                read_secret(&path, 9).err(),
                open_to_append(&path).err(),
                open_to_lock(&path).err(),
            ];
            for refusal in refusals {
                assert!(matches!(&refusal, Some(Error::NotPrivate { .. })), "{name}: {refusal:?}");
            }
        }
        assert!(!path("absent").exists(), "made through a link");
        assert!(
            read_placed_secret(&path("link"), 9).unwrap().is_some(),
            "a root key elsewhere may be a link"
        );
        assert!(matches!(read_placed_secret(&path("fifo"), 9), Err(Error::NotPrivate { .. })));
    }

    #[test]
    fn a_fifo_in_place_of_any_file_of_the_signer_is_refused_by_name() {
        for name in ["lock", "running", "operations", "floors", "data.key", "root.key"] {
            let directory = tempfile::tempdir().unwrap();
            let start = || {
                crate::root::Root::open(directory.path(), None, true)?;
                crate::floor::Floors::open(directory.path())?;
                crate::count::Counts::open(directory.path()).map(drop)
            };
            start().unwrap();
            let path = directory.path().join(name);
            remove(&path).unwrap();
            fifo(&path);
            let error = start().unwrap_err();
            assert!(error.to_string().contains(path.to_str().unwrap()), "{error}");
            assert!(matches!(error, Error::NotPrivate { .. }), "{error}");
        }
    }

    #[test]
    fn a_directory_that_others_can_change_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        check_private_directory(directory.path()).unwrap();
        std::fs::set_permissions(directory.path(), PermissionsExt::from_mode(0o770)).unwrap();
        assert!(matches!(check_private_directory(directory.path()), Err(Error::NotPrivate { .. })));
    }
}
