//! One connection, from the accepted socket to its end.

use std::net::SocketAddr;
use std::sync::Arc;

use sealwright_obs::{Refusal, Reply, Request, Verb};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tracing::Instrument as _;

use super::{By, Inner, REPLY_MAX, REQUEST_MAX, answer, stream};
use crate::authn::{Caller, Peer, Phase};
use crate::metrics::{Closed, Handshake};
use crate::service::Accepted;
use crate::service::admission::{Admitted, Standing, Stay};
use crate::tls;

/// Serves it until it ends, in a task of its own.
pub(super) async fn run(inner: Arc<Inner>, accepted: Accepted, by: By) {
    let Accepted { socket, address, admitted, stay } = accepted;
    let metrics = &inner.front.inner.metrics;
    let _counted = metrics.connections_open.hold();
    if socket.set_nodelay(true).is_err() {
        return;
    }
    let connection = Connection { inner: &inner, address, admitted, stay };
    match by {
        By::Address => connection.plain(socket).await,
        // On the heap: a task is as large as its largest state, and most connections are not over TLS.
        By::Certificate => Box::pin(connection.tls(socket)).await,
    }
}

struct Connection<'a> {
    inner: &'a Inner,
    address: SocketAddr,
    admitted: Admitted,
    stay: Stay,
}

impl Connection<'_> {
    async fn plain(self, mut socket: TcpStream) {
        let rules = self.inner.rules.load_full();
        let caller = rules.client(self.address).map(|client| {
            let phase = self.inner.front.inner.phase.subscribe();
            Caller::named(client, self.address, Arc::clone(&self.inner.tables), phase)
        });
        self.serve(&mut socket, caller).await;
    }

    async fn tls(mut self, socket: TcpStream) {
        let mut phase = self.inner.front.inner.phase.subscribe();
        let shaken = tokio::select! {
            biased;
            _ = phase.wait_for(|phase| *phase != Phase::Serving) => return,
            _ = &mut self.stay => return makes_room(self.inner, self.address),
            shaken = handshake(self.inner, socket, self.address) => shaken,
        };
        let Some((mut socket, peer)) = shaken else { return };
        let rules = self.inner.rules.load_full();
        let caller = rules
            .port_is_right(self.address)
            .map(|()| Caller::peer(peer, Arc::clone(&self.inner.tables), phase.clone()));
        self.serve(&mut socket, caller).await;
    }

    /// Reads, answers, writes. Who may not ask at all is read to the end of his request all the same.
    async fn serve<S>(self, socket: &mut S, caller: Result<Caller, Refusal>)
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let Self { inner, address, admitted, mut stay } = self;
        let mut phase = inner.front.inner.phase.subscribe();
        let request: Option<Result<Request, Refusal>> = tokio::select! {
            biased;
            _ = phase.wait_for(|phase| *phase != Phase::Serving) => return,
            _ = &mut stay => return makes_room(inner, address),
            request = stream::request(socket, REQUEST_MAX) => request,
        };
        let Some(request) = request else { return };
        // From here on it is we who are waited for.
        admitted.stands(Standing::Working);
        let reply = tokio::select! {
            biased;
            _ = phase.wait_for(|phase| *phase == Phase::Over) => {
                inner.front.inner.metrics.closed(Closed::Drain);
                return;
            }
            reply = answered(inner, address, caller, request) => reply,
        };
        admitted.stands(Standing::Late);
        tokio::select! {
            biased;
            _ = &mut stay => makes_room(inner, address),
            sent = stream::reply(socket, &reply, REPLY_MAX) => if let Err(error) = sent {
                tracing::debug!(%address, %error, "a reply was not taken");
            },
        }
    }
}

/// With what all lines that are written for it have in common.
async fn answered(
    inner: &Inner,
    address: SocketAddr,
    caller: Result<Caller, Refusal>,
    request: Result<Request, Refusal>,
) -> Reply {
    let verb = request.as_ref().map_or(Verb::Unknown, Request::verb);
    let command = verb.name();
    let principal = caller.as_ref().ok().map(|caller| caller.claimed_name().to_owned());
    let span = tracing::error_span!("call", call = "obs", command, principal, peer = %address);
    let reply = answer::to(inner, caller, request).instrument(span).await;
    inner.front.inner.metrics.obs(verb, reply.status() != 0);
    reply
}

async fn handshake(
    inner: &Inner,
    socket: TcpStream,
    address: SocketAddr,
) -> Option<(TlsStream<TcpStream>, Peer)> {
    let (plane, plane_number) = {
        let tables = inner.tables.load();
        (Arc::clone(&tables.plane), tables.plane_number)
    };
    let acceptor = TlsAcceptor::from(Arc::clone(&plane.without_alpn));
    let front = &inner.front.inner;
    let (outcome, reason) = match timeout(REQUEST_MAX, acceptor.accept(socket)).await {
        Ok(Ok(stream)) => {
            let chain = stream.get_ref().1.peer_certificates().unwrap_or_default().to_vec();
            front.metrics.handshake(Handshake::Completed);
            return Some((stream, Peer::new(chain, plane_number, address)));
        }
        Ok(Err(error)) => (Handshake::Failed, tls::failure(&error)),
        Err(_) => (Handshake::TimedOut, "it was not done in time".to_owned()),
    };
    front.metrics.handshake(outcome);
    front.notices.handshake_failed(address, reason);
    None
}

/// It leaves for another.
fn makes_room(inner: &Inner, address: SocketAddr) {
    inner.front.inner.metrics.closed(Closed::Unauthenticated);
    inner.front.inner.notices.closed(Closed::Unauthenticated, address, None);
}
