//! Tickets in reserve: one request for salts serves many files. What is not used goes back; what is old is thrown away.

use std::time::{Duration, Instant};

use sealwright_crypto::algorithm::{HashAlgorithm, KeyVersion};
use sealwright_crypto::openpgp::salt::Salt;
use sealwright_formats::prepared::Item;
use sealwright_formats::{FORMATS, Format};
use sealwright_proto::convert::salts::SaltTicket;
use sealwright_proto::limits::SALTS_MAX;
use tokio::sync::Mutex;

use crate::error::Error;
use crate::sign::Signer;

/// Salts in the first request; each later one asks for twice as many as the one before.
const FIRST: usize = 4;
/// Salts in one request at most: at a few thousand files a second one request in a tenth of a second.
const MOST: usize = 256;

/// The tickets of one key and hash that were fetched and not yet used.
#[derive(Default)]
pub(crate) struct Reserve(Mutex<Kept>);

#[derive(Default)]
struct Kept {
    tickets: Vec<Ticket>,
    /// Of the last request.
    asked: usize,
}

/// One ticket, and until when it is worth using.
#[derive(Clone, Debug)]
pub(crate) struct Ticket {
    inner: SaltTicket,
    until: Instant,
}

impl Ticket {
    /// What is to be hashed first.
    pub(crate) const fn salt(&self) -> Salt {
        self.inner.salt
    }
}

/// The ticket that belongs to the salt of an item.
pub(crate) fn ticket_of(tickets: &[Ticket], item: &Item) -> Option<Vec<u8>> {
    let salt = item.salt?;
    tickets.iter().find(|ticket| ticket.inner.salt == salt).map(|ticket| ticket.inner.ticket.clone())
}

impl Reserve {
    /// Throws all of them away: the server knows them no more.
    pub(crate) async fn clear(&self) {
        self.0.lock().await.tickets.clear();
    }

    /// Takes back what no request has named.
    pub(crate) async fn give_back(&self, tickets: Vec<Ticket>) {
        if !tickets.is_empty() {
            self.0.lock().await.tickets.extend(tickets);
        }
    }
}

impl Signer {
    /// As many tickets as one file can need; none for a version 4 key.
    ///
    /// # Errors
    /// Those of [`crate::connection::Connection::begin_salts`].
    pub(crate) async fn take_tickets(&self) -> Result<Vec<Ticket>, Error> {
        if self.certificate.fingerprint().version() == KeyVersion::V4 {
            return Ok(Vec::new());
        }
        let options = &self.request.options;
        let named = self.request.format.and_then(sealwright_formats::by_name);
        let can_be =
            |format: &&&dyn Format| named.map_or(format.is_embedded(), |named| named.name() == format.name());
        let needs =
            FORMATS.iter().filter(can_be).map(|format| format.salts_needed(options, &self.certificate));
        let count = needs.max().unwrap_or(0).min(SALTS_MAX);
        // Held while asking: others wait for what comes, instead of asking too.
        let mut kept = self.reserve.0.lock().await;
        kept.tickets.retain(|ticket| ticket.until > Instant::now());
        if kept.tickets.len() < count {
            let asked = kept.asked.saturating_mul(2).clamp(FIRST, MOST).max(count);
            let new = self.fetch(options.hash, asked).await?;
            kept.tickets.extend(new);
            kept.asked = asked;
        }
        let rest = kept.tickets.len().saturating_sub(count);
        Ok(kept.tickets.split_off(rest))
    }

    async fn fetch(&self, hash: HashAlgorithm, count: usize) -> Result<Vec<Ticket>, Error> {
        let begun = Instant::now();
        let salts = self.way.connection()?.begin_salts(&self.key.name, hash, count).await?;
        // The other half is for hashing.
        let half = Duration::from_secs(u64::from(salts.valid_for_s / 2));
        let until = begun.checked_add(half).unwrap_or(begun);
        Ok(salts.tickets.into_iter().map(|inner| Ticket { inner, until }).collect())
    }
}
