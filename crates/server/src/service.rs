//! Connections: who is let in, how much each may cost, how all of them end.
//!
//! ```text
//! accept.rs: a socket --room?--> handshake.rs: first message --place--> TLS --room?--> connection.rs: HTTP/2 until it ends
//!                                                                             `--no--> farewell.rs: one answer, the end
//! ```
//!
//! Every connection costs a descriptor and a task from the start, and more only after a limit was passed. What a peer
//! can make us hold:
//!
//! * without a certificate: one of [`Limits::unauthenticated`] sockets, for [`Limits::first_byte_ms`]; with its first byte
//!   its first message (at most 32 KiB, rarely more than 2), with all of that the state of a handshake (less than
//!   100 KiB), both for [`Limits::handshake_ms`];
//! * with one: [`CONNECTION_WINDOW`] bytes that nobody has read, [`arrivals::SMALL_BYTES_MAX`] of a begun message for
//!   each stream and one whole message ([`arrivals`]), [`HEADER_BYTES_MAX`] of headers and [`SEND_BYTES_MAX`] of answers for
//!   each stream. What it may do with them is `policy.rs`. What is no request has a measure (`flood.rs`).

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use arc_swap::ArcSwap;
use hyper::server::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use sealwright_proto::status::Fault;
use tokio::io::{AsyncRead, AsyncWrite};
use tonic::service::Routes;

use crate::authn::{Caller, Phase, Tables};
use crate::clients::Clients;
use crate::metrics::Metrics;
use crate::policy::Principal;
use crate::tls::Plane;
use crate::{Error, Front, Limits, Readiness, grpc, obs};

pub(crate) mod accept;
mod activity;
pub(crate) mod admission;
mod arrivals;
mod connection;
mod farewell;
mod flood;
mod handler;
mod handshake;
mod shares;
mod stall;
mod typed;

pub(crate) use arrivals::{Total as Arrivals, total as arrivals};

/// Bytes of one stream that may be on their way before we have read them: a few hundred groups.
const STREAM_WINDOW: u32 = 128 << 10;

/// The same for all streams of a connection together.
const CONNECTION_WINDOW: u32 = 256 << 10;

/// Bytes of the headers of one request. Ours take some hundred.
const HEADER_BYTES_MAX: u32 = 16 << 10;

/// Bytes of answers that wait in one stream for a peer that does not read.
const SEND_BYTES_MAX: usize = 64 << 10;

/// Streams that a peer opened and reset at once before we looked at them (rapid reset, CVE-2023-44487).
const RESET_STREAMS_MAX: usize = 32;

/// Streams that we reset because of a peer's mistakes.
const ERROR_STREAMS_MAX: usize = 64;

/// How often a peer is asked whether it is there, and how long it may take to say so.
const PING_EVERY: Duration = Duration::from_secs(30);
const PING_ANSWER_MAX: Duration = Duration::from_secs(20);

/// How long a cut connection is waited for, at the end of a drain.
const CUT_MAX: Duration = Duration::from_secs(2);

/// What serves connections; clones are the same one.
#[derive(Clone)]
pub struct Service {
    inner: Arc<Inner>,
}

struct Inner {
    front: Front,
    routes: Routes,
    limits: Limits,
    tables: Arc<ArcSwap<Tables>>,
    admission: admission::Admission,
    /// Room at the listeners for obs-sign's protocol, where there are any.
    obs_room: OnceLock<Arc<admission::Admission>>,
    shares: Arc<shares::Shares>,
    /// Changes with each reload.
    reloads: tokio::sync::watch::Sender<()>,
}

impl Service {
    /// Over a running front. Must be called, and used, inside its Tokio runtime.
    #[must_use]
    pub fn new(front: Front, limits: Limits, tls: Arc<Plane>, clients: impl Into<Arc<Clients>>) -> Self {
        let tables = Tables { plane: tls, plane_number: 1, clients: clients.into() };
        let inner = Inner {
            routes: grpc::routes(&front),
            front,
            admission: admission::Admission::new(&limits),
            obs_room: OnceLock::new(),
            limits,
            shares: Arc::default(),
            reloads: tokio::sync::watch::Sender::new(()),
            tables: Arc::new(ArcSwap::from_pointee(tables)),
        };
        Self { inner: Arc::new(inner) }
    }

    /// Exchanges certificates and clients, both at once. Connections that are open stay, with the new tables in force
    /// from their next call or group on; those of clients that may nothing any more are closed within seconds. If the files of TLS are the same as before, tickets stay good.
    #[expect(
        clippy::needless_pass_by_value,
        reason = "the service keeps it; whoever made it is done with it"
    )]
    pub fn reload(&self, tls: Arc<Plane>, clients: impl Into<Arc<Clients>>) {
        let clients = clients.into();
        self.inner.tables.rcu(|old| {
            let (plane, plane_number) = if old.plane.is_same(&tls) {
                (Arc::clone(&old.plane), old.plane_number)
            } else {
                (Arc::clone(&tls), old.plane_number.saturating_add(1))
            };
            Arc::new(Tables { plane, plane_number, clients: Arc::clone(&clients) })
        });
        self.inner.reloads.send_replace(());
    }

    /// Accepts connections until [`Self::drain`] is called. Several listeners may be served at once.
    ///
    /// # Errors
    /// [`Error::Listener`] if it cannot be listened on; failures to accept are counted, and do not end it.
    pub async fn serve(&self, listener: std::net::TcpListener) -> Result<(), Error> {
        let Inner { front, admission, .. } = &*self.inner;
        let begin = |accepted| drop(tokio::spawn(connection::run(Arc::clone(&self.inner), accepted)));
        accept::run(front, admission, listener, begin).await
    }

    /// What serves obs-sign's protocol beside this, to the same clients, with the same certificates, until the same end.
    #[must_use]
    pub fn obs(&self, settings: &obs::Settings) -> obs::Gateway {
        let room = Arc::clone(self.inner.obs_room.get_or_init(|| Arc::new(obs::room(settings))));
        obs::Gateway::new(self.inner.front.clone(), Arc::clone(&self.inner.tables), room, settings)
    }

    /// Ends: nothing is accepted any more, clients are told to go elsewhere (GOAWAY), groups that come on open streams get
    /// `shutting-down`, and what is in flight is answered. What is left after `time` is cut off; returns how many
    /// connections that were.
    pub async fn drain(&self, time: Duration) -> u64 {
        let phase = &self.inner.front.inner.phase;
        phase.send_replace(Phase::Draining);
        if tokio::time::timeout(time, self.empty()).await.is_ok() {
            return 0;
        }
        let rooms = std::iter::once(&self.inner.admission).chain(self.inner.obs_room.get().map(Arc::as_ref));
        let cut = rooms.map(admission::Admission::open).fold(0, u64::saturating_add);
        phase.send_replace(Phase::Over);
        let _ = tokio::time::timeout(CUT_MAX, self.empty()).await;
        cut
    }

    /// Waits until no connection is left.
    async fn empty(&self) {
        self.inner.admission.empty().await;
        if let Some(room) = self.inner.obs_room.get() {
            room.empty().await;
        }
    }

    /// Whether a request would be signed now. Asked for real, at most once a second.
    pub async fn readiness(&self) -> Arc<Readiness> {
        self.inner.front.readiness().await
    }

    pub(crate) fn front(&self) -> &Front {
        &self.inner.front
    }

    /// What a client of `clients.toml` may do now that is known by other means than a certificate.
    ///
    /// # Errors
    /// [`Code::UnknownClient`](sealwright_proto::status::Code), `ClientRevoked`.
    pub(crate) fn client_named(&self, name: &str) -> Result<Arc<Principal>, Fault> {
        self.inner.tables.load().clients.named(name).map(Arc::clone)
    }

    /// End of the certificate in force, Unix seconds.
    pub(crate) fn certificate_end_s(&self) -> i64 {
        self.inner.tables.load().plane.not_after_s()
    }

    /// What is counted; connections and handshakes among it.
    #[must_use]
    pub fn metrics(&self) -> &Metrics {
        &self.inner.front.inner.metrics
    }
}

/// See [`Front::serve_stream`].
pub(crate) async fn serve_stream<S>(front: &Front, stream: S, principal: Principal)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let caller = Caller::known(principal, front.inner.phase.subscribe());
    let activity = Arc::default();
    let budget = arrivals::Budget::new(
        arrivals::of_client(),
        Arc::clone(&front.inner.arrivals),
        Limits::default().stall(),
        Arc::default(),
    );
    let handler = handler::Handler::new(front.clone(), grpc::routes(front), caller, activity, budget);
    let mut http = http2(&Limits::default());
    // Both ends may have stood still together (Ctrl-Z): that is no peer that is gone.
    http.keep_alive_interval(None);
    let served = http.serve_connection(TokioIo::new(stream), handler).await;
    if let Err(error) = served {
        tracing::debug!(%error, "a stream in this process ended");
    }
}

/// The one place where HTTP/2 is set up.
fn http2(limits: &Limits) -> http2::Builder<TokioExecutor> {
    let mut http = http2::Builder::new(TokioExecutor::new());
    http.timer(TokioTimer::new())
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_concurrent_streams(limits.streams_per_connection.max(1))
        .max_header_list_size(HEADER_BYTES_MAX)
        .max_send_buf_size(SEND_BYTES_MAX)
        .max_pending_accept_reset_streams(RESET_STREAMS_MAX)
        .max_local_error_reset_streams(ERROR_STREAMS_MAX)
        .keep_alive_interval(PING_EVERY)
        .keep_alive_timeout(PING_ANSWER_MAX);
    http
}

/// One accepted socket, on its way.
pub(crate) struct Accepted {
    pub(crate) socket: tokio::net::TcpStream,
    pub(crate) address: SocketAddr,
    pub(crate) admitted: admission::Admitted,
    pub(crate) stay: admission::Stay,
}
