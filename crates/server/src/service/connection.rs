//! One connection, from the accepted socket to its end.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper_util::rt::TokioIo;
use sealwright_proto::status::Fault;
use tokio::sync::watch;
use tokio::time::sleep;
use tokio_rustls::server::TlsStream;

use super::activity::Activity;
use super::admission::{Admitted, Standing};
use super::flood::{Measured, Worth};
use super::shares::Share;
use super::stall::Watched;
use super::{Accepted, Inner, arrivals, farewell, handler, handshake, http2};
use crate::authn::{Caller, Phase};
use crate::metrics::Closed;

/// How long a connection that was asked to leave may stay without a request.
const LEAVE_MAX: Duration = Duration::from_secs(5);

/// Serves it until it ends, in a task of its own.
pub(super) async fn run(inner: Arc<Inner>, accepted: Accepted) {
    let mut phase = inner.front.inner.phase.subscribe();
    let Accepted { socket, address, mut admitted, mut stay } = accepted;
    let metrics = &inner.front.inner.metrics;
    let _counted = metrics.connections_open.hold();
    let unknown = metrics.connections_unauthenticated.hold();
    // Answers are small, and somebody waits for each.
    if socket.set_nodelay(true).is_err() {
        return;
    }
    let established = tokio::select! {
        biased;
        // Nothing was asked yet: the peer finds another server, or this one's successor.
        _ = phase.wait_for(|phase| *phase != Phase::Serving) => None,
        _ = &mut stay => {
            makes_room(&inner, address);
            None
        }
        established = Box::pin(handshake::run(&inner, socket, address, &admitted)) => established,
    };
    let Some((stream, peer)) = established else { return };
    tracing::debug!(%address, "connected");
    let worth = Arc::<Worth>::default();
    let stream = Measured::new(stream, Arc::clone(&worth), inner.front.clone(), address);
    let caller = Caller::peer(peer, Arc::clone(&inner.tables), phase.clone());
    // On the heap: most connections are not here yet, and a task is as large as its largest state.
    match stays(&inner, &caller, &mut admitted) {
        Ok(share) => {
            drop(unknown);
            Box::pin(serve(&inner, (stream, worth), caller, share, phase)).await;
        }
        Err(Some(fault)) => {
            admitted.stands(Standing::Late);
            tokio::select! {
                biased;
                _ = &mut stay => makes_room(&inner, address),
                () = Box::pin(farewell::run(&inner, stream, &caller, fault)) => (),
            }
        }
        Err(None) => (),
    }
}

/// It leaves for another.
fn makes_room(inner: &Inner, address: SocketAddr) {
    inner.front.inner.metrics.closed(Closed::Unauthenticated);
    inner.front.inner.notices.closed(Closed::Unauthenticated, address, None);
}

/// Whether there is room for it among those who have said who they are; or what to tell it, if anything.
fn stays(inner: &Inner, caller: &Caller, admitted: &mut Admitted) -> Result<Share, Option<Fault>> {
    let share = inner.shares.take(caller.claimed_name(), inner.limits.connections_per_client);
    let share = share.ok_or_else(|| Some(farewell::of_client(inner, caller)))?;
    admitted.authenticate(&inner.limits).map_err(|refused| farewell::of_all(inner, caller, refused))?;
    Ok(share)
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
        let reloaded = async {
            // Nobody left to reload leaves the end of the certificate.
            if reloads.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        };
        tokio::select! {
            () = reloaded => (),
            () = caller.certificate_ended() => (),
        }
    }
}

/// HTTP/2 until the peer, idleness or the end of the service ends it.
async fn serve(
    inner: &Arc<Inner>,
    (stream, worth): (Measured<TlsStream<Watched>>, Arc<Worth>),
    caller: Caller,
    share: Share,
    mut phase: watch::Receiver<Phase>,
) {
    let limits = &inner.limits;
    let activity = Arc::new(Activity::default());
    let budget = arrivals::Budget::new(
        Arc::clone(&share.large),
        Arc::clone(&inner.front.inner.arrivals),
        limits.stall(),
        worth,
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
