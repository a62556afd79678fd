//! The loop that accepts, and what it does when the process has no descriptor left.

use std::fs::File;
use std::io;
use std::time::Duration;

use tokio::net::TcpListener;

use super::Accepted;
use super::admission::{Admission, Newcomer, Refused};
use crate::authn::Phase;
use crate::metrics::Closed;
use crate::{Error, Front};

/// Connections that the kernel keeps for us while we are busy; it takes less if `net.core.somaxconn` is.
const BACKLOG: i32 = 4096;

/// Pause when there is no descriptor or memory for a connection: nobody gains from asking the kernel again at once.
const PAUSE: Duration = Duration::from_millis(50);

/// Until nothing new may begin. `begin` gets each connection for which `admission` has room, and must not wait.
pub(crate) async fn run(
    front: &Front,
    admission: &Admission,
    listener: std::net::TcpListener,
    begin: impl Fn(Accepted),
) -> Result<(), Error> {
    listener.set_nonblocking(true).map_err(Error::Listener)?;
    // Whoever opened it may have asked for a short one; asking again changes it.
    rustix::net::listen(&listener, BACKLOG).map_err(|error| Error::Listener(error.into()))?;
    let listener = TcpListener::from_std(listener).map_err(Error::Listener)?;
    let mut phase = front.inner.phase.subscribe();
    let mut spare = Spare::open();
    loop {
        let accepted = tokio::select! {
            biased;
            _ = phase.wait_for(|phase| *phase != Phase::Serving) => return Ok(()),
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((socket, address)) => tokio::select! {
                biased;
                _ = phase.wait_for(|phase| *phase != Phase::Serving) => return Ok(()),
                admitted = admit(front, admission, socket, address) => admitted.into_iter().for_each(&begin),
            },
            Err(error) if is_the_peers(&error) => (),
            Err(error) => {
                front.inner.metrics.closed(Closed::Descriptors);
                front.inner.notices.cannot_accept(error);
                spare = spare.close_one(&listener).await;
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

/// Lets it in, or closes it. As long as all that have not said who they are wait for us, the others wait where they are:
/// in the kernel's backlog.
async fn admit(
    front: &Front,
    admission: &Admission,
    socket: tokio::net::TcpStream,
    mut address: std::net::SocketAddr,
) -> Option<Accepted> {
    // A socket for both families has IPv4 in IPv6; lines and limits are about the peer as everybody writes it.
    address.set_ip(address.ip().to_canonical());
    let refuse = |limit| {
        front.inner.metrics.closed(limit);
        front.inner.notices.closed(limit, address, None);
        None
    };
    match admission.admit_soon(address.ip()).await {
        Ok(Newcomer { admitted, stay }) => {
            front.inner.metrics.connections.increment();
            Some(Accepted { socket, address, admitted, stay })
        }
        // Dropped, and with it closed.
        Err(Refused::Address) => refuse(Closed::PerAddress),
        Err(Refused::Connections | Refused::NotNow) => refuse(Closed::Connections),
    }
}

/// Failures of the one connection, not of accepting (accept(2), "Error handling").
fn is_the_peers(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::NetworkDown
            | io::ErrorKind::NetworkUnreachable
            | io::ErrorKind::HostUnreachable
            | io::ErrorKind::Interrupted
    )
}

/// A descriptor kept for the time when there is none: given up, it lets the next connection be accepted and closed, so
/// that its peer learns of it.
struct Spare(#[expect(dead_code, reason = "held")] Option<File>);

impl Spare {
    fn open() -> Self {
        Self(File::open("/dev/null").ok())
    }

    async fn close_one(self, listener: &TcpListener) -> Self {
        drop(self);
        // One that is there, not one that comes: the wait would keep the descriptor given up.
        let _ = tokio::time::timeout(Duration::from_millis(1), listener.accept()).await;
        Self::open()
    }
}
