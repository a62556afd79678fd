//! The sockets that outlive the processes behind them, and the locks that keep two servers from one store.

use std::fs::{DirBuilder, File, Metadata, OpenOptions, Permissions};
use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::{
    DirBuilderExt as _, FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _,
};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::FlockOperation;

use super::config::Config;
use super::inherit::{Listeners, Name};
use crate::failure::Failure;
use crate::users::{self, User};

/// How long an address may still be taken by the processes of a server that was killed a moment ago.
const ADDRESS_WAIT_MAX: Duration = Duration::from_secs(5);
const ADDRESS_LOOK_AGAIN: Duration = Duration::from_millis(100);

/// Adds to what was inherited the network sockets that the configuration names.
///
/// # Errors
/// Which address, and why.
pub(super) fn bind_missing(config: &Config, listeners: &mut Listeners) -> Result<(), Failure> {
    if !listeners.has(Name::Grpc) {
        for address in &config.addresses {
            listeners.add(Name::Grpc, bind(*address, "[listen]")?.into());
        }
    }
    if let Some(address) = config.metrics.filter(|_| !listeners.has(Name::Metrics)) {
        listeners.add(Name::Metrics, bind(address, "[listen]")?.into());
    }
    for address in config.copr_keygen.iter().flat_map(|keygen| &keygen.addresses) {
        listeners.add(Name::Keygen, bind(*address, "[copr_keygen]")?.into());
    }
    if let Some(obs) = &config.obs {
        for (name, addresses) in [(Name::Obs, &obs.listen), (Name::ObsTls, &obs.listen_tls)] {
            if !listeners.has(name) {
                for address in addresses {
                    listeners.add(name, bind(*address, "[obs]")?.into());
                }
            }
        }
    }
    if listeners.has(Name::Grpc) {
        return Ok(());
    }
    Err(Failure::failed("[listen] address names no address", "Set for example address = [\"[::]:7443\"]."))
}

fn bind(address: SocketAddr, table: &str) -> Result<TcpListener, Failure> {
    let deadline = Instant::now().checked_add(ADDRESS_WAIT_MAX);
    loop {
        match TcpListener::bind(address) {
            Ok(listener) => {
                if let Ok(address) = listener.local_addr() {
                    tracing::info!(%address, "listening");
                }
                return Ok(listener);
            }
            Err(error) if error.kind() == ErrorKind::AddrInUse && !is_past(deadline) => {
                std::thread::sleep(ADDRESS_LOOK_AGAIN);
            }
            Err(error) => {
                return Err(Failure::failed(
                    format!("cannot listen on {address}: {error}"),
                    format!(
                        "Choose another address in {table}, or end what uses this one (ss -ltnp shows it)."
                    ),
                ));
            }
        }
    }
}

fn is_past(deadline: Option<Instant>) -> bool {
    deadline.is_none_or(|deadline| Instant::now() >= deadline)
}

/// The signer's listening socket at its path, which goes with it.
pub(super) struct SignerSocket {
    listener: UnixListener,
    /// Of ours; not of a service manager's.
    path: Option<PathBuf>,
    _lock: Option<Lock>,
}

impl SignerSocket {
    /// One of a service manager.
    pub(super) const fn inherited(listener: UnixListener) -> Self {
        Self { listener, path: None, _lock: None }
    }

    /// Makes it: 0600, in a directory that nobody else can change. What a server that was killed left at the path goes
    /// first; the lock says that there is no such server any more.
    ///
    /// # Errors
    /// Another server uses it; something else is there; the directory is not private.
    pub(super) fn make(path: &Path, front: Option<&User>) -> Result<Self, Failure> {
        let failed = |what: &str, error: &dyn std::fmt::Display| {
            Failure::failed(
                format!("cannot {what} {}: {error}", path.display()),
                "Choose another place for [signer] socket: a directory of its own, and at most 100 bytes in all.",
            )
        };
        let directory = path.parent().unwrap_or(Path::new("/"));
        // With two users it stays ours, and front passes through: whoever owns it could lead us elsewhere.
        make_directory(directory, if front.is_some() { 0o711 } else { 0o700 }, None)?;
        let metadata =
            std::fs::metadata(directory).map_err(|error| failed("look at the directory of", &error))?;
        let owner = metadata.uid();
        if metadata.mode() & 0o022 != 0 || (owner != 0 && owner != rustix::process::geteuid().as_raw()) {
            let us = users::name_of(rustix::process::geteuid().as_raw());
            return Err(Failure::failed(
                format!(
                    "others could lead front to another signer: the directory {} {}",
                    directory.display(),
                    described(&metadata)
                ),
                format!(
                    "chown {us}: {0} && chmod go-w {0}, or choose another place for [signer] socket.",
                    directory.display()
                ),
            ));
        }
        let_front_pass(directory, &metadata, front)?;
        let lock = Lock::of_file(&path.with_extension("lock"), "the signer's socket", path)?;
        match std::fs::symlink_metadata(path) {
            Ok(found) if found.file_type().is_socket() => {
                std::fs::remove_file(path).map_err(|error| failed("remove the old", &error))?;
            }
            Ok(_) => return Err(failed("use", &"something else than a socket is there")),
            Err(error) if error.kind() == ErrorKind::NotFound => (),
            Err(error) => return Err(failed("look at", &error)),
        }
        let listener = UnixListener::bind(path).map_err(|error| failed("listen at", &error))?;
        let ready =
            std::fs::set_permissions(path, Permissions::from_mode(0o600)).and_then(|()| give(path, front));
        ready.map_err(|error| failed("give front", &error))?;
        Ok(Self { listener, path: Some(path.to_owned()), _lock: Some(lock) })
    }

    /// A copy for a signer's standard input.
    ///
    /// # Errors
    /// No descriptor is left.
    pub(super) fn copy(&self) -> std::io::Result<UnixListener> {
        self.listener.try_clone()
    }
}

impl Drop for SignerSocket {
    fn drop(&mut self) {
        if let Some(path) = &self.path {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Makes a directory and what leads to it, and gives it to a user. Leaves one that is there as it is.
///
/// # Errors
/// Which, and why.
pub(super) fn make_directory(directory: &Path, mode: u32, user: Option<&User>) -> Result<(), Failure> {
    if directory.is_dir() {
        return Ok(());
    }
    let made =
        DirBuilder::new().recursive(true).mode(mode).create(directory).and_then(|()| give(directory, user));
    made.map_err(|error| {
        let us = users::name_of(user.map_or_else(|| rustix::process::geteuid().as_raw(), |user| user.uid));
        // It may be there, behind one that this process may not pass.
        let found = directory.ancestors().find_map(|found| Some((found, std::fs::metadata(found).ok()?)));
        let behind = found.map_or_else(String::new, |(found, metadata)| {
            format!("; {} {}", found.display(), described(&metadata))
        });
        Failure::failed(
            format!("cannot use or make the directory {} as {us}: {error}{behind}", directory.display()),
            format!("As root: mkdir -p {0} && chown -R {us}: {0}, with a way to it for {us}; or name another in server.toml.", directory.display()),
        )
    })
}

/// `belongs to root (mode 0700)`.
fn described(metadata: &Metadata) -> String {
    format!("belongs to {} (mode {:04o})", users::name_of(metadata.uid()), metadata.mode() & 0o7777)
}

/// Whether a directory that is there can be used by the user whose it is to be.
///
/// # Errors
/// Whose it is, and the command that changes it.
pub(super) fn check_directory(directory: &Path, user: &User) -> Result<(), Failure> {
    let Ok(metadata) = std::fs::metadata(directory) else { return Ok(()) };
    let is_of_group = metadata.gid() == user.gid && metadata.mode() & 0o070 == 0o070;
    if metadata.uid() == user.uid || is_of_group {
        return Ok(());
    }
    let name = users::name_of(user.uid);
    Err(Failure::failed(
        format!(
            "the directory {} {}, and is to be used by {name}",
            directory.display(),
            described(&metadata)
        ),
        format!(
            "chown -R {name}: {}, if it is what this server used before; else name another in server.toml.",
            directory.display()
        ),
    ))
}

/// A directory that was made for one user is opened for front to pass, if nothing of anybody else is in it.
fn let_front_pass(directory: &Path, metadata: &Metadata, front: Option<&User>) -> Result<(), Failure> {
    let Some(front) = front else { return Ok(()) };
    if passes(metadata, front) {
        return Ok(());
    }
    let mended = is_ours_alone(directory)
        && std::fs::set_permissions(directory, Permissions::from_mode(metadata.mode() & 0o7777 | 0o011))
            .is_ok();
    if mended { Ok(()) } else { Err(no_way(directory, metadata, front)) }
}

/// The same, without a change.
///
/// # Errors
/// As for [`SignerSocket::make`].
pub(super) fn check_way(directory: &Path, front: &User) -> Result<(), Failure> {
    let Ok(metadata) = std::fs::metadata(directory) else { return Ok(()) };
    if passes(&metadata, front) || is_ours_alone(directory) {
        return Ok(());
    }
    Err(no_way(directory, &metadata, front))
}

fn no_way(directory: &Path, metadata: &Metadata, front: &User) -> Failure {
    Failure::failed(
        format!(
            "{} cannot reach the signer's socket: the directory {} {}",
            users::name_of(front.uid),
            directory.display(),
            described(metadata)
        ),
        format!("chmod 711 {}, or choose another place for [signer] socket.", directory.display()),
    )
}

fn passes(metadata: &Metadata, user: &User) -> bool {
    let needed = match metadata {
        metadata if metadata.uid() == user.uid => 0o100,
        metadata if metadata.gid() == user.gid => 0o010,
        _ => 0o001,
    };
    metadata.mode() & needed != 0
}

/// Whether there is nothing but a signer's socket and its lock.
fn is_ours_alone(directory: &Path) -> bool {
    let Ok(mut entries) = std::fs::read_dir(directory) else { return false };
    entries.all(|entry| {
        entry.is_ok_and(|entry| {
            let is_socket = entry.file_type().is_ok_and(|kind| kind.is_socket());
            is_socket || entry.path().extension().is_some_and(|extension| extension == "lock")
        })
    })
}

fn give(path: &Path, user: Option<&User>) -> std::io::Result<()> {
    user.map_or(Ok(()), |user| std::os::unix::fs::chown(path, Some(user.uid), Some(user.gid)))
}

/// Held as long as this process lives; a killed one lets go.
pub(super) struct Lock {
    _file: File,
}

impl Lock {
    /// Of a directory, by itself: nothing is written into it.
    ///
    /// # Errors
    /// Another process holds it.
    pub(super) fn of_directory(directory: &Path, of: &str) -> Result<Self, Failure> {
        let flags = rustix::fs::OFlags::DIRECTORY.bits().cast_signed();
        Self::take(OpenOptions::new().read(true).custom_flags(flags), directory, of, directory)
    }

    /// Of a file made for it, in a directory of ours.
    fn of_file(path: &Path, of: &str, named: &Path) -> Result<Self, Failure> {
        let flags = rustix::fs::OFlags::NOFOLLOW.bits().cast_signed();
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false).mode(0o600).custom_flags(flags);
        Self::take(&options, path, of, named)
    }

    fn take(options: &OpenOptions, path: &Path, of: &str, named: &Path) -> Result<Self, Failure> {
        let unusable = |error: &dyn std::fmt::Display| {
            Failure::failed(
                format!("cannot lock {of} {}: {error}", named.display()),
                "See that it exists, and can be used by the user of the server.",
            )
        };
        let file = options.open(path).map_err(|error| unusable(&error))?;
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Self { _file: file }),
            Err(rustix::io::Errno::WOULDBLOCK) => Err(Failure::failed(
                format!("{of} {} is in use by another `sealwright serve`", named.display()),
                "Stop that one first, or use another configuration.",
            )),
            Err(error) => Err(unusable(&error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_that_a_killed_server_left_is_replaced_and_a_living_ones_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run/signer.socket");
        make_directory(path.parent().unwrap(), 0o700, None).unwrap();
        drop(UnixListener::bind(&path).unwrap());
        let socket = SignerSocket::make(&path, None).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        assert_eq!(std::fs::metadata(path.parent().unwrap()).unwrap().mode() & 0o777, 0o700);
        let refused = SignerSocket::make(&path, None).err().unwrap();
        assert!(refused.what.contains("in use by another"), "{}", refused.what);
        drop(socket);
        assert!(!path.exists());
    }

    #[test]
    fn two_do_not_have_one_directory() {
        let folder = tempfile::tempdir().unwrap();
        let first = Lock::of_directory(folder.path(), "the store").unwrap();
        let refused = Lock::of_directory(folder.path(), "the store").err().unwrap();
        assert!(refused.what.contains("the store") && refused.what.contains("another"), "{}", refused.what);
        drop(first);
        Lock::of_directory(folder.path(), "the store").unwrap();
    }

    #[test]
    fn a_file_in_the_place_of_the_socket_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("signer.socket");
        std::fs::write(&path, "mine").unwrap();
        assert!(SignerSocket::make(&path, None).is_err());
        assert_eq!(std::fs::read(&path).unwrap(), b"mine");
    }

    #[test]
    fn a_directory_that_others_can_change_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::set_permissions(folder.path(), Permissions::from_mode(0o770)).unwrap();
        let refused = SignerSocket::make(&folder.path().join("signer.socket"), None).err().unwrap();
        assert!(refused.what.contains("others"), "{}", refused.what);
    }

    fn user_of(path: &Path, more: u32) -> User {
        let metadata = std::fs::metadata(path).unwrap();
        User { uid: metadata.uid().saturating_add(more), gid: metadata.gid().saturating_add(more) }
    }

    #[test]
    fn a_directory_that_was_made_for_one_user_is_opened_for_front_if_nothing_else_is_in_it() {
        let folder = tempfile::tempdir().unwrap();
        let run = folder.path().join("run");
        drop(SignerSocket::make(&run.join("signer.socket"), None).unwrap());
        let front = user_of(&run, 1);
        assert!(!passes(&std::fs::metadata(&run).unwrap(), &front));
        check_way(&run, &front).unwrap();
        let_front_pass(&run, &std::fs::metadata(&run).unwrap(), Some(&front)).unwrap();
        assert_eq!(std::fs::metadata(&run).unwrap().mode() & 0o777, 0o711);
    }

    #[test]
    fn a_directory_with_other_things_in_it_is_not_opened_and_the_command_is_named() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("other"), "").unwrap();
        std::fs::set_permissions(folder.path(), Permissions::from_mode(0o700)).unwrap();
        let metadata = std::fs::metadata(folder.path()).unwrap();
        let front = user_of(folder.path(), 1);
        for refused in
            [let_front_pass(folder.path(), &metadata, Some(&front)), check_way(folder.path(), &front)]
        {
            let refused = refused.unwrap_err();
            assert!(refused.what.contains(folder.path().to_str().unwrap()), "{}", refused.what);
            assert!(
                refused.what.contains("mode 0700") && refused.advice.contains("chmod 711"),
                "{}",
                refused.what
            );
        }
        assert_eq!(std::fs::metadata(folder.path()).unwrap().mode() & 0o777, 0o700);
    }

    #[test]
    fn a_directory_of_another_owner_is_named_with_its_owner_and_the_command() {
        let folder = tempfile::tempdir().unwrap();
        check_directory(folder.path(), &user_of(folder.path(), 0)).unwrap();
        check_directory(&folder.path().join("none"), &user_of(folder.path(), 1)).unwrap();
        let refused = check_directory(folder.path(), &user_of(folder.path(), 1)).unwrap_err();
        assert!(
            refused.what.contains("belongs to") && refused.advice.contains("chown -R"),
            "{}",
            refused.what
        );
    }
}
