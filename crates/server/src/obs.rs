//! obs-sign's protocol, served: the listener that build services speak to as to `signd` (docs/adr/0019).
//!
//! ```text
//! accept --room?--> connection.rs: TLS or the table of addresses --> the whole request --> answer.rs --> the whole reply --> close
//!                                                                                           |
//!        rules.rs: who asks, which key a user is                sign.rs: THE way of every signature
//! ```
//!
//! The bytes are `sealwright-obs`'s. What a client may do stands in `clients.toml`, as for everybody; who it is says its
//! address ([`Settings::allow`]), or with TLS its certificate. Off unless it is configured.
//!
//! A connection is one request and costs a task and what it has sent, at most 64 KiB. Nothing is waited for without an
//! end ([`REQUEST_MAX`], [`REPLY_MAX`], [`LINGER_MAX`]); a client that has not sent all of its request leaves for one
//! that comes when there is no room. A reply is put together whole before its first byte leaves.
//!
//! What this module refuses to do: know a client by a name of DNS, sign a probe, answer with a part of what was asked.

use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;

use crate::authn::Tables;
use crate::service::accept;
use crate::service::admission::Admission;
use crate::{Error, Front, Limits};

mod answer;
mod connection;
mod make;
mod project;
mod rate;
mod rules;
mod settings;
mod sign;
mod stream;

pub use settings::{ALLOW_MAX, LISTENERS_MAX, MakeOnPubkey, Mistake, Settings};

use rules::Rules;

/// For a whole request, from the moment that the connection is there; with TLS from the end of the handshake, which has
/// as long for itself. Who has sent less by then is told so.
pub const REQUEST_MAX: Duration = Duration::from_millis(5_000);

/// For a reply to be taken.
pub const REPLY_MAX: Duration = Duration::from_millis(5_000);

/// How long the other end may take to close, after the reply: what it still sends must not cost it the reply.
pub const LINGER_MAX: Duration = Duration::from_millis(1_000);

/// Who is at the other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// Whoever has the address: plain TCP.
    Address,
    /// Whoever the certificate says: TLS.
    Certificate,
}

/// What serves the protocol; clones are the same one.
#[derive(Clone)]
pub struct Gateway {
    inner: Arc<Inner>,
}

struct Inner {
    front: Front,
    tables: Arc<ArcSwap<Tables>>,
    room: Arc<Admission>,
    rules: ArcSwap<Rules>,
    rate: rate::Rate,
}

impl Gateway {
    pub(crate) fn new(
        front: Front,
        tables: Arc<ArcSwap<Tables>>,
        room: Arc<Admission>,
        settings: &Settings,
    ) -> Self {
        let rules = ArcSwap::from_pointee(Rules::new(settings));
        Self { inner: Arc::new(Inner { front, tables, room, rules, rate: rate::Rate::default() }) }
    }

    /// Other rules from the next request on. Listeners and numbers of connections stay as they are.
    pub fn reload(&self, settings: &Settings) {
        self.inner.rules.store(Arc::new(Rules::new(settings)));
    }

    /// Accepts connections until the service that this belongs to is drained. Several listeners may be served at once.
    ///
    /// # Errors
    /// [`Error::Listener`] if it cannot be listened on; failures to accept are counted, and do not end it.
    pub async fn serve(&self, listener: TcpListener, by: By) -> Result<(), Error> {
        let begin = |accepted| drop(tokio::spawn(connection::run(Arc::clone(&self.inner), accepted, by)));
        accept::run(&self.inner.front, &self.inner.room, listener, begin).await
    }
}

/// Room for connections. Until it has sent its whole request, each is one that may have to leave for another: what says
/// who somebody is elsewhere.
pub(crate) fn room(settings: &Settings) -> Admission {
    Admission::new(&Limits {
        unauthenticated: settings.connections,
        unauthenticated_per_address: settings.connections_per_address,
        ..Limits::default()
    })
}
