//! From an accepted socket to a peer with a verified certificate.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use rustls::HandshakeKind;
use rustls::server::Acceptor;
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};
use tokio_rustls::server::TlsStream;
use tokio_rustls::{LazyConfigAcceptor, StartHandshake};

use super::Inner;
use super::admission::{Admitted, LATE_AFTER, PLACE_MAX, Place, Standing};
use super::stall::Watched;
use crate::authn::Peer;
use crate::metrics::{Closed, Handshake};
use crate::tls::ALPN;

/// How long a connection waits for a place for its handshake, with the whole of a storm before it.
const WAIT_MAX: Duration = Duration::from_secs(60);

/// Bytes of a peer's first message. With a ticket, a client's certificates are in it.
const HELLO_BYTES_MAX: usize = 32 << 10;

/// Bytes from there to the end of the handshake; what follows it may have come with it.
const HANDSHAKE_BYTES_MAX: usize = 64 << 10;

/// The first byte, the first message, a place, the rest.
pub(super) async fn run(
    inner: &Inner,
    socket: TcpStream,
    address: SocketAddr,
    admitted: &Admitted,
) -> Option<(TlsStream<Watched>, Peer)> {
    let (limits, metrics) = (&inner.limits, &inner.front.inner.metrics);
    // A new socket counts as readable until somebody has tried to read it, so this looks for the byte itself.
    let spoke = timeout(limits.first_byte(), socket.peek(&mut [0; 1])).await;
    counted(inner, spoke.map(|spoke| spoke.and_then(no_end)))?;
    let begun = Instant::now();
    let mut socket = Watched::new(socket, limits.stall(), inner.front.clone());
    socket.may_send(HELLO_BYTES_MAX);
    // Nothing is computed yet, and who never ends his first message takes no place.
    let hello = timeout(limits.handshake(), LazyConfigAcceptor::new(Acceptor::default(), socket)).await;
    let mut hello: StartHandshake<Watched> = counted(inner, hello)?;
    hello.io.may_send(HANDSHAKE_BYTES_MAX);
    let left = limits.handshake().saturating_sub(begun.elapsed());
    admitted.stands(Standing::Working);
    let Ok(Some(place)) = timeout(WAIT_MAX, inner.admission.place(admitted)).await else {
        metrics.closed(Closed::Handshakes);
        return None;
    };
    let (plane, plane_number) = {
        let tables = inner.tables.load();
        (Arc::clone(&tables.plane), tables.plane_number)
    };
    let handshake = hello.into_stream(Arc::clone(&plane.config));
    let mut stream = counted(inner, paced(handshake, place, admitted, left).await)?;
    stream.get_mut().0.may_send_on();
    let (_, session) = stream.get_ref();
    let chain = session.peer_certificates().unwrap_or_default().to_vec();
    if session.alpn_protocol() != Some(ALPN) || chain.is_empty() {
        metrics.handshake(Handshake::Failed);
        return None;
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
) -> Result<F::Output, tokio::time::error::Elapsed> {
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

/// What a step gave, if it did; otherwise it is counted as the end of a handshake.
fn counted<T>(inner: &Inner, outcome: Result<std::io::Result<T>, tokio::time::error::Elapsed>) -> Option<T> {
    let metrics = &inner.front.inner.metrics;
    match outcome {
        Ok(Ok(value)) => return Some(value),
        Ok(Err(error)) => {
            metrics.handshake(Handshake::Failed);
            tracing::debug!(%error, "a handshake failed");
        }
        Err(_) => metrics.handshake(Handshake::TimedOut),
    }
    None
}

fn no_end(bytes: usize) -> std::io::Result<()> {
    if bytes == 0 { Err(std::io::ErrorKind::UnexpectedEof.into()) } else { Ok(()) }
}
