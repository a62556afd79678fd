//! Sockets that this process was started with: by a service manager (`LISTEN_FDS`, sd_listen_fds(3)), or handed over by
//! the supervisor.

use std::net::TcpListener;
use std::os::fd::{AsFd as _, BorrowedFd, FromRawFd as _, OwnedFd, RawFd};
use std::os::unix::net::UnixListener;

use rustix::io::FdFlags;
use rustix::net::{AddressFamily, SocketType};
use serde::{Deserialize, Serialize};

use crate::config;
use crate::failure::Failure;

/// What a socket is for; the names in `FileDescriptorName=` of a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Name {
    Grpc,
    Metrics,
    Obs,
    ObsTls,
    Signer,
    /// Never of a service manager: who may be reached from where is checked with the address that is bound.
    Keygen,
}

impl Name {
    fn of(text: &str) -> Option<Self> {
        match text {
            "grpc" => Some(Self::Grpc),
            "metrics" => Some(Self::Metrics),
            "obs" => Some(Self::Obs),
            "obs-tls" => Some(Self::ObsTls),
            "signer" => Some(Self::Signer),
            _ => None,
        }
    }
}

/// Listening sockets by name.
#[derive(Debug, Default)]
pub(super) struct Listeners(Vec<(Name, OwnedFd)>);

/// Where inherited descriptors begin.
const FIRST: RawFd = 3;
/// Sockets of a service manager.
const COUNT_MAX: RawFd = 32;

impl Listeners {
    /// Takes those of a service manager. Must be the first that opens or closes a descriptor in this process.
    ///
    /// # Errors
    /// A name that is not known, a descriptor that is no listening socket.
    pub(super) fn from_service_manager() -> Result<Self, Failure> {
        let mut listeners = Self::default();
        let Some((count, names)) = config::listen_fds() else { return Ok(listeners) };
        let names: Vec<&str> = names.split(':').collect();
        for number in FIRST..FIRST.saturating_add(count.min(COUNT_MAX)) {
            let place = usize::try_from(number.saturating_sub(FIRST)).unwrap_or_default();
            let name = names.get(place).copied().unwrap_or_default();
            let refused = |what: &str| {
                Failure::failed(
                    format!("the socket {number} ({name:?}) of the service manager {what}"),
                    "Name sockets grpc, metrics, obs, obs-tls or signer (FileDescriptorName=), as packaging/systemd does.",
                )
            };
            let known = Name::of(name).ok_or_else(|| refused("has no name that is known"))?;
            let descriptor = take(number).ok_or_else(|| refused("is not open"))?;
            if !fits(known, &descriptor) {
                return Err(refused("does not listen, or is of another family"));
            }
            listeners.add(known, descriptor);
        }
        Ok(listeners)
    }

    pub(super) fn add(&mut self, name: Name, descriptor: OwnedFd) {
        self.0.push((name, descriptor));
    }

    pub(super) fn has(&self, name: Name) -> bool {
        self.0.iter().any(|(known, _)| *known == name)
    }

    pub(super) fn each(&self) -> impl Iterator<Item = (Name, BorrowedFd<'_>)> {
        self.0.iter().map(|(name, descriptor)| (*name, descriptor.as_fd()))
    }

    /// All of a name, for TCP.
    pub(super) fn take_tcp(&mut self, name: Name) -> Vec<TcpListener> {
        self.take(name).into_iter().map(TcpListener::from).collect()
    }

    /// The one of the signer.
    pub(super) fn take_signer(&mut self) -> Option<UnixListener> {
        self.take(Name::Signer).pop().map(UnixListener::from)
    }

    fn take(&mut self, name: Name) -> Vec<OwnedFd> {
        let (taken, left) = std::mem::take(&mut self.0).into_iter().partition(|(known, _)| *known == name);
        self.0 = left;
        let taken: Vec<(Name, OwnedFd)> = taken;
        taken.into_iter().map(|(_, descriptor)| descriptor).collect()
    }
}

fn fits(name: Name, descriptor: &OwnedFd) -> bool {
    use rustix::net::sockopt::{socket_acceptconn, socket_domain, socket_type};
    let families: &[AddressFamily] = match name {
        Name::Grpc | Name::Metrics | Name::Obs | Name::ObsTls | Name::Keygen => {
            &[AddressFamily::INET, AddressFamily::INET6]
        }
        Name::Signer => &[AddressFamily::UNIX],
    };
    socket_domain(descriptor).is_ok_and(|family| families.contains(&family))
        && socket_type(descriptor).is_ok_and(|kind| kind == SocketType::STREAM)
        && socket_acceptconn(descriptor).unwrap_or_default()
}

/// The descriptor of a number, if one is open; not for further children by itself.
#[expect(unsafe_code, reason = "what a service manager passes has no other form than numbers")]
fn take(number: RawFd) -> Option<OwnedFd> {
    std::fs::symlink_metadata(format!("/proc/self/fd/{number}")).ok()?;
    // SAFETY: it is open, and by the protocol ours alone: the number was passed to this process (LISTEN_PID), each is
    // taken once, and nothing was opened here before that could have got it.
    let descriptor = unsafe { OwnedFd::from_raw_fd(number) };
    rustix::io::fcntl_setfd(&descriptor, FdFlags::CLOEXEC).ok()?;
    Some(descriptor)
}
