//! One connection, from the accepted socket to its end.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper_util::rt::TokioIo;
use rustls::HandshakeKind;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::activity::Activity;
use super::stall::Watched;
use super::{Accepted, Inner, arrivals, handler, http2};
use crate::authn::{Caller, Peer, Phase};
use crate::metrics::{Closed, Handshake};
use crate::tls::{self, ALPN};

/// How long a connection waits for a place for its handshake, with the whole of a storm before it.
const WAIT_MAX: Duration = Duration::from_secs(60);

/// How long a connection that was asked to leave may stay without a request.
const LEAVE_MAX: Duration = Duration::from_secs(5);

/// How often it is looked whether the client of a connection may still do something.
const LOOK_EVERY: Duration = Duration::from_secs(30);

const SAID_NOTHING: &str = "it said nothing for too long";
const TOO_SLOW: &str = "it was not done in time";
const NOT_HTTP_2: &str = "it has no certificate, or speaks something else than HTTP/2";

/// Serves it until it ends, in a task of its own.
pub(super) async fn run(inner: Arc<Inner>, accepted: Accepted) {
    let mut phase = inner.front.inner.phase.subscribe();
    let Accepted { socket, address, admitted } = accepted;
    let _counted = inner.front.inner.metrics.connections_open.hold();
    // Answers are small, and somebody waits for each.
    if socket.set_nodelay(true).is_err() {
        return;
    }
    let established = tokio::select! {
        biased;
        // Nothing was asked yet: the peer finds another server, or this one's successor.
        _ = phase.wait_for(|phase| *phase != Phase::Serving) => None,
        established = Box::pin(establish(&inner, socket, address, &admitted)) => established,
    };
    if let Some((stream, peer)) = established {
        tracing::debug!(%address, "connected");
        // On the heap: most connections are not here yet, and a task is as large as its largest state.
        Box::pin(serve(&inner, stream, peer, phase)).await;
    }
    drop(admitted);
}

/// The first byte, a place, the handshake.
async fn establish(
    inner: &Inner,
    socket: tokio::net::TcpStream,
    address: SocketAddr,
    admitted: &super::admission::Admitted,
) -> Option<(TlsStream<Watched>, Peer)> {
    let (limits, metrics) = (&inner.limits, &inner.front.inner.metrics);
    let time = limits.handshake();
    let notices = &inner.front.inner.notices;
    let failed = |reason| notices.handshake_failed(address, reason);
    // Who says nothing takes no place.
    // A new socket counts as readable until somebody has tried to read it, so this looks for the byte itself.
    match timeout(time, socket.peek(&mut [0; 1])).await {
        Ok(Ok(1..)) => (),
        // A balancer that tries the port, or a scanner: counted, and no line but for who looks for it.
        Ok(Ok(0) | Err(_)) => {
            metrics.handshake(Handshake::Failed);
            tracing::debug!(%address, "closed before it said anything");
            return None;
        }
        Err(_) => {
            metrics.handshake(Handshake::TimedOut);
            failed(SAID_NOTHING.to_owned());
            return None;
        }
    }
    let Ok(Some(place)) = timeout(WAIT_MAX, inner.admission.place(admitted)).await else {
        metrics.closed(Closed::Handshakes);
        notices.closed(Closed::Handshakes, address, None);
        return None;
    };
    let (plane, plane_number) = {
        let tables = inner.tables.load();
        (Arc::clone(&tables.plane), tables.plane_number)
    };
    let socket = Watched::new(socket, limits.stall(), inner.front.clone(), address);
    let handshake = TlsAcceptor::from(Arc::clone(&plane.config)).accept(socket);
    let stream = match timeout(time, handshake).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => {
            metrics.handshake(Handshake::Failed);
            failed(tls::failure(&error));
            return None;
        }
        Err(_) => {
            metrics.handshake(Handshake::TimedOut);
            failed(TOO_SLOW.to_owned());
            return None;
        }
    };
    drop(place);
    let (_, session) = stream.get_ref();
    let chain = session.peer_certificates().unwrap_or_default().to_vec();
    if session.alpn_protocol() != Some(ALPN) || chain.is_empty() {
        metrics.handshake(Handshake::Failed);
        failed(NOT_HTTP_2.to_owned());
        return None;
    }
    let is_resumed = session.handshake_kind() == Some(HandshakeKind::Resumed);
    metrics.handshake(if is_resumed { Handshake::Resumed } else { Handshake::Completed });
    let peer = Peer::new(chain, plane_number, address);
    Some((stream, peer))
}

/// Waits until a connection that was asked to leave has had its time, and has no request open.
async fn quiet(activity: &Activity) {
    sleep(LEAVE_MAX).await;
    activity.idle(LEAVE_MAX).await;
}

/// Waits until the client may nothing, and has had a while for its next call, which is told why.
async fn lost(caller: &Caller, mut reloads: watch::Receiver<()>) {
    loop {
        if caller.principal().is_err() {
            sleep(LEAVE_MAX).await;
            if caller.principal().is_err() {
                return;
            }
        }
        // A certificate also ends without a reload. Nobody left to reload leaves the time.
        let _ = timeout(LOOK_EVERY, async {
            if reloads.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        })
        .await;
    }
}

/// HTTP/2 until the peer, idleness or the end of the service ends it.
async fn serve(
    inner: &Arc<Inner>,
    stream: TlsStream<Watched>,
    peer: Peer,
    mut phase: watch::Receiver<Phase>,
) {
    let limits = &inner.limits;
    let caller = Caller::peer(peer, Arc::clone(&inner.tables), phase.clone());
    let Some(share) = inner.shares.take(caller.claimed_name(), limits.connections_per_client) else {
        inner.front.inner.metrics.closed(Closed::Connections);
        let notices = &inner.front.inner.notices;
        let address = caller.address();
        address.into_iter().for_each(|address| {
            notices.closed(Closed::Connections, address, Some(caller.claimed_name()));
        });
        return;
    };
    let activity = Arc::new(Activity::default());
    let budget = arrivals::Budget::new(
        Arc::clone(&share.large),
        Arc::clone(&inner.front.inner.arrivals),
        limits.stall(),
    );
    let handler = handler::Handler::new(
        inner.front.clone(),
        inner.routes.clone(),
        caller.clone(),
        Arc::clone(&activity),
        budget,
    );
    let http = http2(limits).serve_connection(TokioIo::new(stream), handler);
    tokio::pin!(http);
    let reloads = inner.reloads.subscribe();
    let mut is_lost = false;
    let ended = tokio::select! {
        biased;
        ended = http.as_mut() => Some(ended),
        () = lost(&caller, reloads) => {
            is_lost = true;
            None
        }
        _ = phase.wait_for(|phase| *phase != Phase::Serving) => None,
        () = activity.idle(limits.idle()) => {
            inner.front.inner.metrics.closed(Closed::Idle);
            None
        }
    };
    let ended = match ended {
        Some(ended) => ended,
        None => {
            // GOAWAY: no new request; those that are open are answered.
            http.as_mut().graceful_shutdown();
            tokio::select! {
                biased;
                ended = http.as_mut() => ended,
                _ = phase.wait_for(|phase| *phase == Phase::Over) => {
                    inner.front.inner.metrics.closed(Closed::Drain);
                    return;
                }
                () = quiet(&activity) => return,
                // What it has begun is recorded, and ends without it.
                () = sleep(LEAVE_MAX), if is_lost => return,
            }
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection ended");
    }
}
