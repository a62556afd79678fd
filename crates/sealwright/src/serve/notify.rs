//! The state of this process, told to whoever started it: datagrams of `sd_notify`(3), to the socket of a service manager
//! or to the supervisor.

use std::os::fd::OwnedFd;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::Path;
use std::time::Duration;

use rustix::net::SendFlags;

/// Characters of a status line.
const STATUS_CHARS_MAX: usize = 400;

/// Who is told; nobody, where nobody asked.
pub(super) struct Notify(Option<OwnedFd>);

impl Notify {
    /// The service manager that `NOTIFY_SOCKET` names. Connected now: later it may be out of reach.
    pub(super) fn service_manager(socket: Option<&Path>) -> Self {
        Self(socket.and_then(|path| {
            connect(path)
                .inspect_err(|error| tracing::warn!(%error, "the service manager cannot be told anything"))
                .ok()
        }))
    }

    /// The supervisor, by this end of the channel to it.
    pub(super) const fn supervisor(channel: OwnedFd) -> Self {
        Self(Some(channel))
    }

    /// One datagram. One that cannot be sent is lost: the work matters more.
    pub(super) fn tell(&self, lines: &str) {
        if let Some(socket) = &self.0 {
            let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
            if let Err(error) = rustix::net::send(socket, lines.as_bytes(), flags) {
                tracing::debug!(%error, "a notice was not taken");
            }
        }
    }

    /// A line for people.
    pub(super) fn status(&self, text: &str) {
        self.tell(&format!("STATUS={}", line(text)));
    }

    /// A reload begins. The time lets a service manager tell it from an earlier one.
    pub(super) fn reloading(&self) {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        let now = Duration::try_from(now).unwrap_or_default();
        self.tell(&format!("RELOADING=1\nMONOTONIC_USEC={}", now.as_micros()));
    }
}

/// A socket that is connected to a service manager's, and never waits for it.
///
/// # Errors
/// What the system says.
pub(super) fn connect(path: &Path) -> std::io::Result<OwnedFd> {
    let address = match path.as_os_str().as_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(path)?,
    };
    let socket = UnixDatagram::unbound()?;
    socket.connect_addr(&address)?;
    socket.set_nonblocking(true)?;
    Ok(socket.into())
}

/// One line, not too long, whatever was put into it.
pub(super) fn line(text: &str) -> String {
    text.chars().map(|found| if found.is_control() { ' ' } else { found }).take(STATUS_CHARS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(socket: &UnixDatagram) -> String {
        let mut bytes = [0; 1024];
        let length = socket.recv(&mut bytes).unwrap();
        String::from_utf8(bytes[..length].to_vec()).unwrap()
    }

    #[test]
    fn a_manager_is_told_by_path_or_by_abstract_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let socket = UnixDatagram::bind(&path).unwrap();
        Notify::service_manager(Some(&path)).tell("READY=1");
        assert_eq!(told(&socket), "READY=1");
        let name = format!("sealwright-test-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        let socket = UnixDatagram::bind_addr(&address).unwrap();
        Notify::service_manager(Some(Path::new(&format!("@{name}")))).reloading();
        assert!(told(&socket).starts_with("RELOADING=1\nMONOTONIC_USEC="));
    }

    #[test]
    fn a_status_is_one_line_of_bounded_length() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let socket = UnixDatagram::bind(&path).unwrap();
        Notify::service_manager(Some(&path)).status(&format!("a\nREADY=1{}", "x".repeat(1000)));
        let told = told(&socket);
        assert!(told.starts_with("STATUS=a READY=1x") && told.len() < 500, "{told}");
    }

    #[test]
    fn nobody_to_tell_is_no_failure() {
        Notify::service_manager(None).tell("READY=1");
        Notify::service_manager(Some(Path::new("/nonexistent/notify"))).tell("READY=1");
    }
}
