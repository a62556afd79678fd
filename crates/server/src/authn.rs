//! Who is at the other end: established once for a connection, looked up anew for each call and each group.
//!
//! A certificate was verified in the handshake, or in an earlier one if the session was resumed. What it allows is
//! never remembered: name, revocation and end are checked against the tables of the moment, and the chain once more
//! when the authority or its revocation lists were exchanged since. So a ticket, or a connection that stays open, gains
//! nothing.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use rustls::pki_types::CertificateDer;
use sealwright_proto::limits::GROUPS_IN_FLIGHT_MAX;
use sealwright_proto::status::{Code, Fault};
use sealwright_proto::time::utc;
use tokio::sync::{Semaphore, watch};
use x509_parser::certificate::X509Certificate;
use x509_parser::prelude::FromDer as _;

use crate::clients::Clients;
use crate::clock;
use crate::fault::for_peer;
use crate::policy::{PRINCIPAL_BYTES_MAX, Principal};
use crate::serial::Serial;
use crate::tls::Plane;

/// What is in force; one pointer, so that a call sees the old or the new, never a mix.
pub(crate) struct Tables {
    pub(crate) plane: Arc<Plane>,
    /// Grows with each exchange of the plane; from 1.
    pub(crate) plane_number: u64,
    pub(crate) clients: Arc<Clients>,
}

/// How far a service is on its way to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// It serves.
    Serving,
    /// What is in flight is answered, nothing new is begun.
    Draining,
    /// Whatever is left is cut off.
    Over,
}

/// The other end of one connection; in the extensions of each of its requests.
#[derive(Clone)]
pub(crate) struct Caller {
    inner: Arc<Inner>,
}

struct Inner {
    who: Who,
    places: Arc<Semaphore>,
    phase: watch::Receiver<Phase>,
}

enum Who {
    /// Established by the way of the connection.
    Known(Arc<Principal>),
    /// Of a certificate.
    Peer(Peer, Arc<ArcSwap<Tables>>),
    /// Of an address, by a table of the operator.
    Named(Arc<str>, SocketAddr, Arc<ArcSwap<Tables>>),
}

impl Caller {
    /// Of a stream that only this principal can have.
    pub(crate) fn known(principal: Principal, phase: watch::Receiver<Phase>) -> Self {
        Self::new(Who::Known(Arc::new(principal)), phase)
    }

    /// Of a connection over TLS.
    pub(crate) fn peer(peer: Peer, tables: Arc<ArcSwap<Tables>>, phase: watch::Receiver<Phase>) -> Self {
        Self::new(Who::Peer(peer, tables), phase)
    }

    /// Of a connection from an address that is this client's.
    pub(crate) fn named(
        client: Arc<str>,
        address: SocketAddr,
        tables: Arc<ArcSwap<Tables>>,
        phase: watch::Receiver<Phase>,
    ) -> Self {
        Self::new(Who::Named(client, address, tables), phase)
    }

    fn new(who: Who, phase: watch::Receiver<Phase>) -> Self {
        let places = Arc::new(Semaphore::new(GROUPS_IN_FLIGHT_MAX));
        Self { inner: Arc::new(Inner { who, places, phase }) }
    }

    /// From the request, where the connection put it.
    ///
    /// # Errors
    /// [`Code::Internal`] if it did not: nobody is served by accident.
    pub(crate) fn of<T>(request: &tonic::Request<T>) -> Result<Self, Fault> {
        let caller = request.extensions().get::<Self>().cloned();
        caller.ok_or_else(|| Fault::new(Code::Internal, "a request without a connection"))
    }

    /// Who it is, and what it may do now. Reads two pointers, and takes no lock.
    ///
    /// # Errors
    /// [`Code::UnknownClient`], [`Code::ClientRevoked`], [`Code::ClientCertificateExpired`],
    /// [`Code::ClientCertificateRefused`].
    pub(crate) fn principal(&self) -> Result<Arc<Principal>, Fault> {
        match &self.inner.who {
            Who::Known(principal) => Ok(Arc::clone(principal)),
            Who::Peer(peer, tables) => peer.principal(&tables.load()),
            Who::Named(client, _, tables) => tables.load().clients.named(client).map(Arc::clone),
        }
    }

    /// For messages and logs, whoever it turns out to be.
    pub(crate) fn claimed_name(&self) -> &str {
        match &self.inner.who {
            Who::Known(principal) => principal.name(),
            Who::Peer(peer, _) => peer.identity.as_ref().map_or("?", |identity| identity.name.as_str()),
            Who::Named(client, ..) => client,
        }
    }

    /// A failure as this caller may read it.
    pub(crate) fn reads(&self, fault: Fault) -> Fault {
        match &self.inner.who {
            Who::Known(_) => fault,
            Who::Peer(..) | Who::Named(..) => for_peer(fault),
        }
    }

    /// Where it is, for logs; none for a stream in this process.
    pub(crate) fn address(&self) -> Option<SocketAddr> {
        match &self.inner.who {
            Who::Known(_) => None,
            Who::Peer(peer, _) => Some(peer.address),
            Who::Named(_, address, _) => Some(*address),
        }
    }

    /// Waits until its certificate is over; for ever if there is none. A clock that is set shifts that; each call looks
    /// for itself.
    pub(crate) async fn certificate_ended(&self) {
        let identity = match &self.inner.who {
            Who::Known(_) | Who::Named(..) => None,
            Who::Peer(peer, _) => peer.identity.as_ref().ok(),
        };
        let Some(identity) = identity else { return std::future::pending().await };
        tokio::time::sleep(until_after(identity.not_after_s, clock::now_s())).await;
    }

    /// The groups that one connection may have in flight.
    pub(crate) fn places(&self) -> Arc<Semaphore> {
        Arc::clone(&self.inner.places)
    }

    /// Whether nothing new may begin.
    pub(crate) fn is_draining(&self) -> bool {
        *self.inner.phase.borrow() != Phase::Serving
    }

    /// Waits until nothing new may begin.
    pub(crate) async fn draining(&self) {
        let mut phase = self.inner.phase.clone();
        // Whoever could say it is gone, so it will not be said any more.
        if phase.wait_for(|phase| *phase != Phase::Serving).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

/// A peer with a verified certificate.
pub(crate) struct Peer {
    /// What the certificate says, or why that is of no use.
    identity: Result<Identity, Fault>,
    /// End entity first.
    chain: Vec<CertificateDer<'static>>,
    address: SocketAddr,
    /// Number of the last plane that accepted the chain.
    accepted_by: AtomicU64,
}

struct Identity {
    name: String,
    serial: Serial,
    not_after_s: i64,
}

impl Peer {
    /// Of the chain that the plane of this number has verified; parsed here, once for the connection.
    pub(crate) fn new(chain: Vec<CertificateDer<'static>>, plane_number: u64, address: SocketAddr) -> Self {
        let identity = chain.first().map_or_else(|| Err(refused("is missing")), |own| identity(own));
        Self { identity, chain, address, accepted_by: AtomicU64::new(plane_number) }
    }

    fn principal(&self, tables: &Tables) -> Result<Arc<Principal>, Fault> {
        let identity = self.identity.as_ref().map_err(Fault::clone)?;
        let principal = tables.clients.principal(&identity.name, &identity.serial)?;
        if identity.not_after_s < clock::now_s() {
            let message =
                format!("the certificate of {} expired {}", identity.name, utc(identity.not_after_s));
            return Err(Fault::new(Code::ClientCertificateExpired, message));
        }
        self.chain_counts(tables)?;
        Ok(Arc::clone(principal))
    }

    /// Verified again once for each plane: the authority may be another, or have revoked it.
    fn chain_counts(&self, tables: &Tables) -> Result<(), Fault> {
        if self.accepted_by.load(Ordering::Relaxed) == tables.plane_number {
            return Ok(());
        }
        if let Err(error) = tables.plane.accepts(&self.chain) {
            // The refusal has a line of its own, of which there are not too many.
            tracing::debug!(%error, "a certificate does not count any more");
            return Err(refused("does not count any more with the authority of now"));
        }
        self.accepted_by.store(tables.plane_number, Ordering::Relaxed);
        Ok(())
    }
}

/// A certificate counts through its last second.
fn until_after(not_after_s: i64, now_s: i64) -> Duration {
    let left_s = not_after_s.saturating_sub(now_s).saturating_add(1);
    Duration::from_secs(u64::try_from(left_s).unwrap_or(0))
}

fn refused(what: &str) -> Fault {
    Fault::new(Code::ClientCertificateRefused, format!("the client's certificate {what}"))
}

fn identity(own: &CertificateDer<'_>) -> Result<Identity, Fault> {
    let (_, own) = X509Certificate::from_der(own).map_err(|_| refused("is malformed"))?;
    let usage = own.extended_key_usage().map_err(|_| refused("is malformed"))?;
    // The handshake takes a certificate without usages; that is not enough to tell clients from servers.
    if !usage.is_some_and(|usage| usage.value.client_auth) {
        return Err(refused("is not for clients (extended key usage clientAuth)"));
    }
    let mut names = own.subject().iter_common_name();
    let (Some(name), None) = (names.next(), names.next()) else {
        return Err(refused("has not exactly one common name"));
    };
    let name = name.as_str().map_err(|_| refused("has a common name that is no text"))?;
    if name.is_empty() || name.len() > PRINCIPAL_BYTES_MAX || name.chars().any(char::is_control) {
        return Err(refused("has a common name that no client can have"));
    }
    let serial = Serial::from_der(own.raw_serial()).ok_or_else(|| refused("has too long a serial number"))?;
    Ok(Identity { name: name.to_owned(), serial, not_after_s: own.validity().not_after.timestamp() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_counts_through_its_last_second_and_is_looked_at_right_after() {
        for (not_after_s, now_s, want_s) in
            [(100, 99, 2), (100, 100, 1), (100, 101, 0), (100, 102, 0), (i64::MAX, i64::MIN, i64::MAX)]
        {
            let want = Duration::from_secs(u64::try_from(want_s).unwrap());
            assert_eq!(until_after(not_after_s, now_s), want, "{not_after_s} {now_s}");
        }
    }
}
