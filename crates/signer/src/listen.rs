//! The way in: one socket that front holds the other end of, or a listening one to which front comes again whenever
//! it was started anew. Fronts are served one after the other; who they are, the kernel says.
//!
//! A listening socket belongs to whoever started us and outlives us: it is never closed for others, and a front that
//! comes while no signer runs waits in it for the next.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::error::Error;
use crate::pulse::{Pulse, Seen};
use crate::service::Service;
use crate::start::Watch;
use crate::{ipc, process};

/// How long a signer that cannot serve stays to tell front why, before it ends and can be started anew.
const REFUSAL_MAX: Duration = Duration::from_secs(5);

/// Where front is, or comes to.
#[derive(Debug)]
#[non_exhaustive]
pub enum Socket {
    /// Front holds the other end.
    Connected(UnixStream),
    /// Front connects; when it has gone, the next one.
    Listening(UnixListener),
}

impl Socket {
    /// A descriptor that this process was started with: the kernel says which of the two it is.
    ///
    /// # Errors
    /// [`Error::Process`] if it is no socket.
    pub fn inherited(descriptor: OwnedFd) -> Result<Self, Error> {
        let listens = rustix::net::sockopt::socket_acceptconn(&descriptor).map_err(|error| {
            Error::Process { action: "use standard input as a socket", source: error.into() }
        })?;
        Ok(if listens { Self::Listening(descriptor.into()) } else { Self::Connected(descriptor.into()) })
    }
}

impl From<UnixStream> for Socket {
    fn from(socket: UnixStream) -> Self {
        Self::Connected(socket)
    }
}

impl From<UnixListener> for Socket {
    fn from(listener: UnixListener) -> Self {
        Self::Listening(listener)
    }
}

/// A socket that is ready to serve; made before the sandbox.
pub(crate) enum Door {
    /// Of a front that may use us.
    Connected(UnixStream),
    /// For all that come.
    Listening(Listening),
}

/// See [`Door`].
pub(crate) struct Listening {
    listener: UnixListener,
    peers: Vec<u32>,
    stop: Stop,
}

impl Door {
    /// Checks who is there, or prepares to: from now on SIGTERM is a stop for a signer that listens.
    ///
    /// # Errors
    /// [`Error::Stranger`], [`Error::Process`].
    pub(crate) fn of(socket: Socket, peers: &[u32]) -> Result<Self, Error> {
        match socket {
            Socket::Connected(socket) => {
                process::check_peer(&socket, peers)?;
                Ok(Self::Connected(socket))
            }
            Socket::Listening(listener) => {
                // Between the poll and the accept a peer can be taken by a signer beside us.
                listener.set_nonblocking(true).map_err(failed("use the listening socket"))?;
                Ok(Self::Listening(Listening { listener, peers: peers.to_vec(), stop: Stop::on_sigterm()? }))
            }
        }
    }

    /// Ends this process if the front that is connected goes before what this returns is dropped.
    ///
    /// # Errors
    /// [`Error::Process`].
    pub(crate) fn watch_start(&self) -> Result<Option<Watch>, Error> {
        match self {
            Self::Connected(socket) => Watch::of(socket).map(Some),
            Self::Listening(_) => Ok(None),
        }
    }

    /// For the sandbox: the one socket from which connections are accepted.
    pub(crate) fn listener(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Self::Connected(_) => None,
            Self::Listening(listening) => Some(listening.listener.as_fd()),
        }
    }

    /// Serves, or says why not.
    ///
    /// # Errors
    /// That of `service`; [`Error::Process`]; of the one connected front, [`Error::Connection`].
    pub(crate) fn serve(
        self,
        service: Result<Service, Error>,
        workers: usize,
        pulse: &Pulse,
    ) -> Result<(), Error> {
        let service = match service {
            Ok(service) => service,
            Err(error) => {
                self.refuse(&error, pulse);
                return Err(error);
            }
        };
        let served = match self {
            Self::Connected(socket) => ipc::serve(socket, &service, workers, None, pulse),
            Self::Listening(listening) => listening.serve(&service, workers, pulse),
        };
        service.close();
        served
    }

    fn refuse(self, error: &Error, pulse: &Pulse) {
        match self {
            Self::Connected(socket) => ipc::refuse(socket, error),
            Self::Listening(listening) => {
                if let Ok(Some(socket)) = listening.next(Instant::now().checked_add(REFUSAL_MAX), pulse) {
                    ipc::refuse(socket, error);
                }
            }
        }
    }
}

impl Listening {
    /// Until a stop is asked.
    fn serve(&self, service: &Service, workers: usize, pulse: &Pulse) -> Result<(), Error> {
        while let Some(socket) = self.next(None, pulse)? {
            tracing::info!("front is here");
            match ipc::serve(socket, service, workers, Some(&self.stop), pulse) {
                Ok(()) => tracing::info!("front has gone"),
                // The next one may do better.
                Err(error @ Error::Connection(_)) => {
                    tracing::warn!(error = &error as &dyn std::error::Error, "the connection to front ended");
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// The next front that may use us; `None` at a stop or at the deadline.
    fn next(&self, deadline: Option<Instant>, pulse: &Pulse) -> Result<Option<UnixStream>, Error> {
        let accept = failed("accept a connection of front");
        pulse.begin(1);
        let mut seen = Seen::default();
        loop {
            pulse.come_by(&mut seen);
            let look = Instant::now().checked_add(pulse.look());
            let until = deadline.into_iter().chain(look).min();
            if !self.stop.is_readable_before(&self.listener, until).map_err(&accept)? {
                if self.stop.is_asked() || deadline.is_some_and(|deadline| deadline <= Instant::now()) {
                    return Ok(None);
                }
                continue;
            }
            let socket = match self.listener.accept() {
                Ok((socket, _)) => socket,
                // Another signer was quicker, or front has gone again.
                Err(error) if is_passing(&error) => continue,
                Err(error) => return Err(accept(error)),
            };
            match process::check_peer(&socket, &self.peers) {
                Ok(()) => return Ok(Some(socket)),
                Err(error) => {
                    tracing::warn!(error = &error as &dyn std::error::Error, "a stranger is told nothing")
                }
            }
        }
    }
}

fn is_passing(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::ConnectionAborted | io::ErrorKind::Interrupted
    )
}

/// A stop that SIGTERM asks for: a socket becomes readable, and stays so.
pub(crate) struct Stop {
    asked: UnixStream,
}

impl Stop {
    fn on_sigterm() -> Result<Self, Error> {
        let hear = failed("hear SIGTERM");
        let (asked, signal) = UnixStream::pair().map_err(&hear)?;
        signal_hook::low_level::pipe::register(signal_hook::consts::SIGTERM, signal).map_err(&hear)?;
        Ok(Self { asked })
    }

    /// Waits until the socket has something to read. `false` at a stop, which goes before, or at the deadline.
    pub(crate) fn is_readable_before(
        &self,
        socket: &impl AsFd,
        deadline: Option<Instant>,
    ) -> io::Result<bool> {
        loop {
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            let timeout = left.and_then(|left| Timespec::try_from(left).ok());
            let mut both = [PollFd::new(&self.asked, PollFlags::IN), PollFd::new(socket, PollFlags::IN)];
            match poll(&mut both, timeout.as_ref()) {
                Ok(0) => return Ok(false),
                Ok(_) => (),
                Err(rustix::io::Errno::INTR) => continue,
                Err(error) => return Err(error.into()),
            }
            let [asked, socket] = both.map(|one| !one.revents().is_empty());
            if asked || socket {
                return Ok(!asked);
            }
        }
    }

    /// Whether a stop was asked for.
    pub(crate) fn is_asked(&self) -> bool {
        let mut asked = [PollFd::new(&self.asked, PollFlags::IN)];
        matches!(poll(&mut asked, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })), Ok(1))
    }
}

fn failed(action: &'static str) -> impl Fn(io::Error) -> Error {
    move |source| Error::Process { action, source }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sealwright_proto::frame;
    use sealwright_proto::signer_v1::from_signer::Response;
    use sealwright_proto::signer_v1::to_signer::Request as Asked;
    use sealwright_proto::signer_v1::{BeginImport, FromSigner, ToSigner};
    use sealwright_proto::status::{Code, Fault};

    fn broken() -> Error {
        Error::SelfTest { algorithm: "rsa4096 with sha512".to_owned(), reason: "a signature does not verify" }
    }

    fn refusal(front: &mut UnixStream) -> Fault {
        let (greeting, _) = frame::read::<FromSigner>(front).unwrap().unwrap();
        let Some(Response::Failure(failure)) = greeting.response else { panic!("{greeting:?}") };
        assert_eq!(greeting.id, 0);
        failure.into()
    }

    /// Whatever kept it from opening, the self-test first of all.
    #[test]
    fn a_signer_that_did_not_open_says_why_and_answers_nothing() {
        let (mut front, socket) = UnixStream::pair().unwrap();
        let asked = ToSigner { id: 1, request: Some(Asked::BeginImport(BeginImport {})) };
        frame::write(&mut front, &asked).unwrap();
        let served = Door::of(socket.into(), &[]).unwrap().serve(Err(broken()), 1, &Pulse::new(None));
        assert!(matches!(served, Err(Error::SelfTest { .. })));
        let fault = refusal(&mut front);
        assert_eq!(fault.code, Code::SelfTestFailed);
        assert!(fault.message.contains("rsa4096 with sha512"), "{fault}");
        assert!(!matches!(frame::read::<FromSigner>(&mut front), Ok(Some(_))), "an answer");
    }

    #[test]
    fn a_signer_that_did_not_open_says_why_to_a_front_that_comes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let listener = UnixListener::bind(&path).unwrap();
        let door = Door::of(listener.into(), &[]).unwrap();
        let mut front = UnixStream::connect(path).unwrap();
        assert!(matches!(door.serve(Err(broken()), 1, &Pulse::new(None)), Err(Error::SelfTest { .. })));
        assert_eq!(refusal(&mut front).code, Code::SelfTestFailed);
    }

    #[test]
    fn the_kernel_says_which_socket_listens() {
        let folder = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(folder.path().join("socket")).unwrap();
        assert!(matches!(Socket::inherited(listener.into()), Ok(Socket::Listening(_))));
        let (one, _other) = UnixStream::pair().unwrap();
        assert!(matches!(Socket::inherited(one.into()), Ok(Socket::Connected(_))));
        let file = tempfile::tempfile().unwrap();
        assert!(matches!(Socket::inherited(file.into()), Err(Error::Process { .. })));
    }
}
