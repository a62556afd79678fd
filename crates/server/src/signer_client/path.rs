//! A signer that somebody else starts, and whose socket listens at a path.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, sockopt};

use super::Launcher;

/// How long a full queue of connections is waited for. The signer's greeting has a time of its own.
const CONNECT_MAX: Duration = Duration::from_secs(5);

/// Connects to the signer at `path`, whenever one is wanted. Who listens there must be the user of this process, root,
/// or `owner` (a user number), by the word of the kernel: whoever else got hold of the path is told nothing.
#[must_use]
pub fn connecting(path: PathBuf, owner: Option<u32>) -> Launcher {
    Arc::new(move || connect(&path, owner))
}

fn connect(path: &Path, owner: Option<u32>) -> io::Result<UnixStream> {
    let socket =
        rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    sockopt::set_socket_timeout(&socket, sockopt::Timeout::Send, Some(CONNECT_MAX))?;
    rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)?;
    sockopt::set_socket_timeout(&socket, sockopt::Timeout::Send, None)?;
    check_owner(&socket, owner)?;
    Ok(socket.into())
}

fn check_owner(socket: &OwnedFd, owner: Option<u32>) -> io::Result<()> {
    let listens = sockopt::socket_peercred(socket)?.uid.as_raw();
    if listens == 0 || listens == rustix::process::geteuid().as_raw() || owner == Some(listens) {
        return Ok(());
    }
    let what = format!("user {listens} listens at the signer's socket, who is not allowed to");
    Err(io::Error::new(io::ErrorKind::PermissionDenied, what))
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn each_call_is_a_new_connection_to_whoever_listens_by_then() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let launcher = connecting(path.clone(), None);
        assert_eq!(launcher().unwrap_err().kind(), io::ErrorKind::NotFound);
        for _ in 0..2 {
            let listener = UnixListener::bind(&path).unwrap();
            let _connected = launcher().unwrap();
            listener.accept().unwrap();
            std::fs::remove_file(&path).unwrap();
        }
    }

    #[test]
    fn a_full_queue_is_not_waited_for_for_ever() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let listener = rustix::net::socket(AddressFamily::UNIX, SocketType::STREAM, None).unwrap();
        rustix::net::bind(&listener, &SocketAddrUnix::new(&path).unwrap()).unwrap();
        rustix::net::listen(&listener, 0).unwrap();
        let launcher = connecting(path, None);
        let _queued = launcher().unwrap();
        assert_eq!(launcher().unwrap_err().kind(), io::ErrorKind::WouldBlock);
    }
}
