//! A connection that cannot stay, of somebody who has said who he is: his first call is answered with why and when to
//! come again, then he is asked to leave.
//!
//! It is counted with those who have not said who they are, and may have to leave for one of them.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use sealwright_proto::status::{Code, Fault};
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};
use tokio_rustls::server::TlsStream;

use super::admission::Refused;
use super::flood::Measured;
use super::handler::refused_unread;
use super::stall::Watched;
use super::{Inner, http2};
use crate::authn::{Caller, Phase};
use crate::metrics::Closed;

/// How long the first call is waited for. A client connects because it has one.
const CALL_MAX: Duration = Duration::from_secs(2);

/// How long the answer may take to be fetched.
const LEAVE_MAX: Duration = Duration::from_secs(1);

/// When a connection may be free: those that are idle end by themselves, those of short runs soon.
const COME_AGAIN_MS: u32 = 2_000;

/// Calls at once.
const STREAMS_MAX: u32 = 4;

/// Counts it, and says why it cannot stay.
pub(super) fn of_client(inner: &Inner, caller: &Caller) -> Fault {
    let (name, limit) = (caller.claimed_name(), inner.limits.connections_per_client.max(1));
    closed(inner, caller, Closed::PerClient);
    why(format!("the client {name} has as many connections here as it may ({limit})"))
}

/// The same, if that is for lack of room; else nothing can be said.
pub(super) fn of_all(inner: &Inner, caller: &Caller, refused: Refused) -> Option<Fault> {
    match refused {
        Refused::Connections => {
            closed(inner, caller, Closed::Connections);
            Some(why("the server has as many connections as it may".to_owned()))
        }
        Refused::Address => {
            closed(inner, caller, Closed::PerAddress);
            Some(why("the server has as many connections of this address as it may".to_owned()))
        }
        Refused::NotNow => None,
    }
}

fn closed(inner: &Inner, caller: &Caller, limit: Closed) {
    inner.front.inner.metrics.closed(limit);
    if let Some(address) = caller.address() {
        inner.front.inner.notices.closed(limit, address, Some(caller.claimed_name()));
    }
}

fn why(message: String) -> Fault {
    Fault::new(Code::Overloaded, message).retry_after(COME_AGAIN_MS)
}

/// Until the first call was answered, and for a few seconds at most.
pub(super) async fn run(
    inner: &Arc<Inner>,
    stream: Measured<TlsStream<Watched>>,
    caller: &Caller,
    fault: Fault,
) {
    let mut phase = inner.front.inner.phase.subscribe();
    let told = Notify::new();
    let fault = caller.reads(fault);
    let handler = service_fn(|request: Request<Incoming>| {
        refused_unread(&inner.front, caller, &request, &fault);
        let answer: Response<tonic::body::Body> = tonic::Status::from(fault.clone()).into_http();
        told.notify_one();
        std::future::ready(Ok::<_, Infallible>(answer))
    });
    let mut http = http2(&inner.limits);
    http.max_concurrent_streams(STREAMS_MAX);
    let http = http.serve_connection(TokioIo::new(stream), handler);
    tokio::pin!(http);
    tokio::select! {
        biased;
        _ = http.as_mut() => return,
        _ = phase.wait_for(|phase| *phase != Phase::Serving) => (),
        () = told.notified() => (),
        () = sleep(CALL_MAX) => (),
    }
    // GOAWAY; the answer is on its way before it.
    http.as_mut().graceful_shutdown();
    let _ = timeout(LEAVE_MAX, http).await;
}
