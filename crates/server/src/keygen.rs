//! copr-keygen's HTTP API: `GET /ping`, `POST /gen_key`, over plain HTTP/1.1 on a listener of its own, off by default.
//!
//! ```text
//! a socket --address on the list?--> head, body --token?--> query.rs --grant?--> keys/once.rs --> 201, 200
//! ```
//!
//! The address of a peer says which client of `clients.toml` it is ([`AllowList`]), and that client needs the grant
//! `create_keys`. A peer that is on no list reads why, and costs little: few at once, the others are closed.
//! `docs/howto/copr.md` is the manual.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use http::{HeaderMap, Method, Request, StatusCode};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use hyper::body::{Bytes, Incoming};
use sealwright_proto::names::KeyReference;
use sealwright_proto::status::{Code, Fault};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;
use tracing::Instrument as _;

use crate::allow::AllowList;
use crate::authn::Phase;
use crate::http1;
use crate::keys::{Once, make_once};
use crate::metrics::{Closed, KeyCall};
use crate::policy::{self, Principal};
use crate::{Error, Front, Service};

mod answer;
mod query;
mod token;

use answer::{Answer, Refusal};
pub use query::{Bad, ObsDigest, Query, Shape};
pub use token::{NotAToken, TOKEN_BYTES_MAX, Token};

/// Connections at once, of peers that are on the list; further ones wait in the backlog. Each waits for one key.
pub const CONNECTIONS_MAX: u32 = 1_024;
/// The same of all others.
const STRANGERS_MAX: usize = 16;
/// Connections that the kernel keeps for us meanwhile; it takes less if `net.core.somaxconn` is.
const BACKLOG: i32 = 4_096;

/// For the body, from the end of the headers.
const BODY_TIME_MAX: Duration = Duration::from_secs(5);
/// For the key, from there. The client of Copr gives up after 30 s and comes again; a key that was begun is made meanwhile.
const KEY_TIME_MAX: Duration = Duration::from_secs(20);
/// One connection, from its start to its end.
const CONNECTION_TIME_MAX: Duration = Duration::from_secs(40);

/// Bytes of a body: the longest fields take a tenth of it.
const BODY_BYTES_MAX: usize = 16 << 10;

/// When a client is told to come again for a key that is still being made, in milliseconds.
const COME_AGAIN_MS: u32 = 5_000;

/// After an error of the listener itself (no descriptor is left).
const PAUSE: Duration = Duration::from_millis(200);

/// What an operator sets.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Who may ask at all.
    pub allow: AllowList,
    /// Each request for a key has to carry it.
    pub token: Option<Token>,
    /// What keys are like.
    pub shape: Shape,
}

/// The API over a running front; clones are the same one.
#[derive(Clone)]
pub struct Keygen {
    inner: Arc<Inner>,
}

struct Inner {
    service: Service,
    settings: ArcSwap<Settings>,
    places: Arc<Semaphore>,
    strangers: Arc<Semaphore>,
}

impl Keygen {
    /// Over a service, whose clients are also these.
    #[must_use]
    pub fn new(service: &Service, settings: Settings) -> Self {
        let places = usize::try_from(CONNECTIONS_MAX).unwrap_or(usize::MAX);
        let inner = Inner {
            service: service.clone(),
            settings: ArcSwap::from_pointee(settings),
            places: Arc::new(Semaphore::new(places)),
            strangers: Arc::new(Semaphore::new(STRANGERS_MAX)),
        };
        Self { inner: Arc::new(inner) }
    }

    /// In force from the next request on.
    pub fn reload(&self, settings: Settings) {
        self.inner.settings.store(Arc::new(settings));
    }

    /// Accepts connections until the service is drained. Several listeners may be served at once.
    ///
    /// # Errors
    /// [`Error::Listener`] if it cannot be listened on.
    pub async fn serve(&self, listener: std::net::TcpListener) -> Result<(), Error> {
        listener.set_nonblocking(true).map_err(Error::Listener)?;
        rustix::net::listen(&listener, BACKLOG).map_err(|error| Error::Listener(error.into()))?;
        let listener = TcpListener::from_std(listener).map_err(Error::Listener)?;
        let mut phase = self.inner.front().inner.phase.subscribe();
        tokio::select! {
            biased;
            _ = phase.wait_for(|phase| *phase != Phase::Serving) => Ok(()),
            () = self.accept(&listener) => Ok(()),
        }
    }

    async fn accept(&self, listener: &TcpListener) {
        // Closed by nobody.
        while let Ok(place) = Arc::clone(&self.inner.places).acquire_owned().await {
            match listener.accept().await {
                Ok((stream, mut peer)) => {
                    peer.set_ip(peer.ip().to_canonical());
                    self.admit(stream, peer, place);
                }
                Err(error) => {
                    self.inner.front().inner.notices.cannot_accept(error);
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }

    /// Gives the connection its place; a stranger one of few.
    fn admit(&self, stream: TcpStream, peer: SocketAddr, place: OwnedSemaphorePermit) {
        let client = self.inner.settings.load().allow.client_at(peer.ip()).map(str::to_owned);
        let place = match client {
            Some(_) => place,
            None => match Arc::clone(&self.inner.strangers).try_acquire_owned() {
                Ok(place) => place,
                Err(_) => {
                    let front = self.inner.front();
                    front.inner.metrics.closed(Closed::Connections);
                    return front.inner.notices.closed(Closed::Connections, peer, None);
                }
            },
        };
        let inner = Arc::clone(&self.inner);
        tokio::spawn(async move {
            // Whoever is slower than this has had its time.
            let _ = tokio::time::timeout(CONNECTION_TIME_MAX, inner.serve_one(stream, peer)).await;
            drop(place);
        });
    }

    /// Answers what is in flight, for at most this time. Keys that wait for their turn are not begun any more, and their
    /// requests told to come again. To be called with the service's own drain.
    pub async fn drain(&self, time: Duration) {
        self.inner.front().inner.making.close();
        let all = self.inner.places.acquire_many(CONNECTIONS_MAX);
        // What is left ends with the process.
        let _ = tokio::time::timeout(time, all).await;
    }
}

impl Inner {
    fn front(&self) -> &Front {
        self.service.front()
    }

    async fn serve_one(self: Arc<Self>, stream: TcpStream, peer: SocketAddr) {
        let _ = stream.set_nodelay(true);
        http1::serve_one(stream, peer, |request| self.answer(request, peer)).await;
    }

    async fn answer(&self, request: Request<Incoming>, peer: SocketAddr) -> Answer {
        let settings = self.settings.load_full();
        let (head, body) = request.into_parts();
        match (head.uri.path(), &head.method) {
            ("/ping", &(Method::GET | Method::HEAD)) => match self.principal(&settings, peer) {
                Ok(_) => answer::pong(),
                Err(fault) => Refusal::Fault(fault).answer(),
            },
            ("/ping", _) => answer::not_allowed("GET, HEAD"),
            ("/gen_key", &Method::POST) => self.gen_key(&settings, &head.headers, body, peer).await,
            ("/gen_key", _) => answer::not_allowed("POST"),
            _ => answer::not_found(),
        }
    }

    /// The whole request is read before it is refused: who still writes would not read why.
    async fn gen_key(
        &self,
        settings: &Settings,
        headers: &HeaderMap,
        body: Incoming,
        peer: SocketAddr,
    ) -> Answer {
        let body = read(body).await;
        let principal = match self.principal(settings, peer) {
            Ok(principal) => principal,
            Err(fault) => return self.turned_away(&fault.into(), peer, None),
        };
        if settings.token.as_ref().is_some_and(|token| !token.is_in(headers)) {
            return self.turned_away(&Refusal::Token, peer, Some(&principal));
        }
        let span = tracing::error_span!(
            "call",
            call = KeyCall::Create.label(),
            principal = principal.name(),
            peer = tracing::field::display(peer),
        );
        let begun = Instant::now();
        let work = async {
            let query = Query::parse(headers, &body?)?;
            let name = query.name().to_string();
            let made = self.make(settings, &principal, &query).await;
            Ok::<_, Refusal>((name, made))
        };
        let (name, made) = match work.instrument(span.clone()).await {
            Ok((name, made)) => (Some(name), made),
            Err(refusal) => (None, Err(refusal)),
        };
        self.tell(&span, name, &made, begun);
        match made {
            Ok(Once::Made) => answer::done(StatusCode::CREATED),
            Ok(Once::There) => answer::done(StatusCode::OK),
            Err(refusal) => refusal.answer(),
        }
    }

    async fn make(&self, settings: &Settings, principal: &Principal, query: &Query) -> Result<Once, Refusal> {
        let front = self.front();
        policy::may_name(principal, query.name())?;
        let create = match query.create(&settings.shape) {
            Ok(create) => create,
            // A key that is there is an answer, whatever else is asked.
            Err(bad) => return if self.is_there(query).await? { Ok(Once::There) } else { Err(bad.into()) },
        };
        let may = policy::may_create(principal, create)?;
        let made = tokio::time::timeout(KEY_TIME_MAX, make_once(front, may)).await;
        made.unwrap_or_else(|_| {
            let fault = Fault::new(Code::DeadlineExceeded, "the key is still being made");
            Err(fault.retry_after(COME_AGAIN_MS))
        })
        .map_err(Refusal::Fault)
    }

    async fn is_there(&self, query: &Query) -> Result<bool, Fault> {
        match self.front().inner.looks.look(&KeyReference::Name(query.name().clone())).await {
            Ok(_) => Ok(true),
            Err(fault) if fault.code == Code::KeyNotFound => Ok(false),
            Err(fault) => Err(fault),
        }
    }

    /// Which client it is, by the lists of now.
    fn principal(&self, settings: &Settings, peer: SocketAddr) -> Result<Arc<Principal>, Fault> {
        if *self.front().inner.phase.borrow() != Phase::Serving {
            return Err(Fault::new(Code::ShuttingDown, "the server is stopping"));
        }
        let stranger = || Fault::new(Code::UnknownClient, format!("{} is no address of a client", peer.ip()));
        self.service.client_named(settings.allow.client_at(peer.ip()).ok_or_else(stranger)?)
    }

    /// Counted and, once a second, written.
    fn turned_away(&self, refusal: &Refusal, peer: SocketAddr, principal: Option<&Principal>) -> Answer {
        let front = &self.front().inner;
        front.metrics.key_call(KeyCall::Create, Some(refusal.code()));
        let (outcome, reason) = (refusal.code().name(), refusal.reason());
        let principal = principal.map(|principal| principal.name().to_owned());
        let call = KeyCall::Create.label();
        front.notices.refused(move |left_out| {
            tracing::info!(call, principal, %peer, outcome, reason, left_out, "turned away");
        });
        refusal.answer()
    }

    /// The line and the count of a request, as of any other that makes a key.
    fn tell(&self, span: &tracing::Span, key: Option<String>, made: &Result<Once, Refusal>, begun: Instant) {
        let front = &self.front().inner;
        let failure = made.as_ref().err().map(Refusal::code);
        front.metrics.key_call(KeyCall::Create, failure);
        let (outcome, reason) =
            (failure.map_or("success", Code::name), made.as_ref().err().map(Refusal::reason));
        let is_new = made.as_ref().ok().map(|once| *once == Once::Made);
        let total_ms = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        let of_call = span.clone();
        let line = move |left_out: Option<u64>| {
            of_call.in_scope(|| {
                tracing::info!(key, outcome, is_new, reason, total_ms, left_out, "answered");
            });
        };
        if failure == Some(Code::PermissionDenied) {
            front.notices.not_granted(move |left_out| line(Some(left_out)));
        } else {
            line(None);
        }
    }
}

async fn read(body: Incoming) -> Result<Bytes, Refusal> {
    let slow = || Refusal::Body(StatusCode::REQUEST_TIMEOUT, "the body of the request did not come in time");
    let read = tokio::time::timeout(BODY_TIME_MAX, Limited::new(body, BODY_BYTES_MAX).collect());
    match read.await.map_err(|_| slow())? {
        Ok(body) => Ok(body.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => {
            let what = "the body of the request has more than 16 KiB";
            Err(Refusal::Body(StatusCode::PAYLOAD_TOO_LARGE, what))
        }
        Err(_) => Err(Refusal::Body(StatusCode::BAD_REQUEST, "the body of the request is cut off")),
    }
}
