//! From an accepted socket to a peer with a verified certificate.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use rustls::HandshakeKind;
use rustls::server::Acceptor;
use tokio::net::TcpStream;
use tokio::time::error::Elapsed;
use tokio::time::{Instant, timeout};
use tokio_rustls::server::TlsStream;
use tokio_rustls::{LazyConfigAcceptor, StartHandshake};

use super::Inner;
use super::admission::{Admitted, LATE_AFTER, PLACE_MAX, Place, Standing};
use super::stall::Watched;
use crate::authn::Peer;
use crate::metrics::{Closed, Handshake};
use crate::tls::{self, ALPN};

/// How long a connection waits for a place for its handshake, with the whole of a storm before it.
const WAIT_MAX: Duration = Duration::from_secs(60);

/// Bytes of a peer's first message. With a ticket, a client's certificates are in it.
const HELLO_BYTES_MAX: usize = 32 << 10;

/// Bytes from there to the end of the handshake; what follows it may have come with it.
const HANDSHAKE_BYTES_MAX: usize = 64 << 10;

const SAID_NOTHING: &str = "it said nothing for too long";
const TOO_SLOW: &str = "it was not done in time";
const NOT_HTTP_2: &str = "it has no certificate, or speaks something else than HTTP/2";

/// The first byte, the first message, a place, the rest.
pub(super) async fn run(
    inner: &Inner,
    socket: TcpStream,
    address: SocketAddr,
    admitted: &Admitted,
) -> Option<(TlsStream<Watched>, Peer)> {
    let (limits, metrics) = (&inner.limits, &inner.front.inner.metrics);
    let failures = Failures { inner, address };
    // A new socket counts as readable until somebody has tried to read it, so this looks for the byte itself.
    match timeout(limits.first_byte(), socket.peek(&mut [0; 1])).await {
        Ok(Ok(1..)) => (),
        // A balancer that tries the port, or a scanner: counted, and no line but for who looks for it.
        Ok(Ok(0) | Err(_)) => {
            metrics.handshake(Handshake::Failed);
            tracing::debug!(%address, "closed before it said anything");
            return None;
        }
        Err(_) => return failures.count(Handshake::TimedOut, SAID_NOTHING.to_owned()),
    }
    let begun = Instant::now();
    let mut socket = Watched::new(socket, limits.stall(), inner.front.clone(), address);
    socket.may_send(HELLO_BYTES_MAX);
    // Nothing is computed yet, and who never ends his first message takes no place.
    let hello = timeout(limits.handshake(), LazyConfigAcceptor::new(Acceptor::default(), socket)).await;
    let mut hello: StartHandshake<Watched> = failures.of(hello)?;
    hello.io.may_send(HANDSHAKE_BYTES_MAX);
    let left = limits.handshake().saturating_sub(begun.elapsed());
    admitted.stands(Standing::Working);
    let Ok(Some(place)) = timeout(WAIT_MAX, inner.admission.place(admitted)).await else {
        metrics.closed(Closed::Handshakes);
        inner.front.inner.notices.closed(Closed::Handshakes, address, None);
        return None;
    };
    let (plane, plane_number) = {
        let tables = inner.tables.load();
        (Arc::clone(&tables.plane), tables.plane_number)
    };
    let handshake = hello.into_stream(Arc::clone(&plane.config));
    let mut stream = failures.of(paced(handshake, place, admitted, left).await)?;
    stream.get_mut().0.may_send_on();
    let (_, session) = stream.get_ref();
    let chain = session.peer_certificates().unwrap_or_default().to_vec();
    if session.alpn_protocol() != Some(ALPN) || chain.is_empty() {
        return failures.count(Handshake::Failed, NOT_HTTP_2.to_owned());
    }
    let is_resumed = session.handshake_kind() == Some(HandshakeKind::Resumed);
    metrics.handshake(if is_resumed { Handshake::Resumed } else { Handshake::Completed });
    let peer = Peer::new(chain, plane_number, address);
    Some((stream, peer))
}

/// The rest of a handshake, at most `left`: at first with its place; without when the peer takes longer, who then is one
/// of those that may have to leave.
async fn paced<F: Future>(
    handshake: F,
    place: Place,
    admitted: &Admitted,
    left: Duration,
) -> Result<F::Output, Elapsed> {
    tokio::pin!(handshake);
    let begun = Instant::now();
    let left = || left.saturating_sub(begun.elapsed());
    if let Ok(ended) = timeout(PLACE_MAX.min(left()), handshake.as_mut()).await {
        return Ok(ended);
    }
    drop(place);
    if let Ok(ended) = timeout(LATE_AFTER.min(left()), handshake.as_mut()).await {
        return Ok(ended);
    }
    admitted.stands(Standing::Late);
    timeout(left(), handshake).await
}

/// Of one peer.
struct Failures<'a> {
    inner: &'a Inner,
    address: SocketAddr,
}

impl Failures<'_> {
    /// What a step gave, if it did; otherwise it is the end of the handshake.
    fn of<T>(&self, outcome: Result<std::io::Result<T>, Elapsed>) -> Option<T> {
        match outcome {
            Ok(Ok(value)) => Some(value),
            Ok(Err(error)) => self.count(Handshake::Failed, tls::failure(&error)),
            Err(_) => self.count(Handshake::TimedOut, TOO_SLOW.to_owned()),
        }
    }

    fn count<T>(&self, outcome: Handshake, reason: String) -> Option<T> {
        self.inner.front.inner.metrics.handshake(outcome);
        self.inner.front.inner.notices.handshake_failed(self.address, reason);
        None
    }
}
