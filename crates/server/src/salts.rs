//! Salts before, tickets after: the use case of BeginSalts, and the tickets of a group that is to be signed.

use sealwright_crypto::algorithm::KeyVersion;
use sealwright_crypto::openpgp::salt::Salt;
use sealwright_crypto::tbs::ToBeSigned;
use sealwright_proto::convert::salts::{Salts, SaltsRequest};
use sealwright_proto::names::KeyId;
use sealwright_proto::status::{Code, Fault};
use sealwright_store::Ticket;

use crate::clock;
use crate::policy::{self, Principal};
use crate::registry::{Facts, Freshness};
use crate::tickets::{Holder, VALID_FOR_S};
use crate::{Inner, registry};

/// Hands out salts to a principal who may sign with the key.
///
/// # Errors
/// Those of [`policy::decide_salts`]; [`Code::Unsupported`] for a key whose signatures have no salt.
pub(crate) async fn begin(
    front: &Inner,
    principal: &Principal,
    request: &SaltsRequest,
) -> Result<Salts, Fault> {
    let unseen = |fault| policy::look_up_failed(principal, &request.key, fault);
    let (entry, freshness) = front.registry.find(&request.key).await.map_err(unseen)?;
    let decide = |facts: &Facts| policy::decide_salts(principal, &request.key, facts, clock::now_s());
    let entry = match (decide(&entry.facts), freshness) {
        (Ok(_), _) => entry,
        (Err(_), Freshness::Remembered) => {
            let entry = front.registry.refresh(&request.key).await.map_err(unseen)?;
            decide(&entry.facts)?;
            entry
        }
        (Err(fault), Freshness::Fresh) => return Err(fault),
    };
    let holder = holder(principal, &entry, request.hash)?;
    if entry.facts.signing_fingerprint.version() == KeyVersion::V4 {
        let message = format!("key {} is of version 4: its signatures have no salt", entry.facts.name);
        return Err(Fault::new(Code::Unsupported, message));
    }
    let tickets = front.tickets.issue(&holder, request.count, clock::now_ms())?;
    Ok(Salts { tickets, valid_for_s: VALID_FOR_S })
}

/// The tickets of a group, opened: one for each item, or none for a version 4 key.
pub(crate) struct Redeemed {
    /// For each item.
    pub(crate) salts: Vec<Option<Salt>>,
    /// To be used up with the intent.
    pub(crate) spend: Vec<Ticket>,
}

/// Opens the tickets of a group. Nothing is used up yet.
///
/// # Errors
/// [`Code::TicketRefused`]: one is missing, one too many, or does not fit.
pub(crate) fn redeem(
    front: &Inner,
    principal: &Principal,
    key: &registry::Entry,
    items: &[ToBeSigned],
) -> Result<Redeemed, Fault> {
    let now_ms = clock::now_ms();
    let mut redeemed = Redeemed { salts: Vec::with_capacity(items.len()), spend: Vec::new() };
    let refused =
        |reason: &str| Err(Fault::new(Code::TicketRefused, format!("key {} {reason}", key.facts.name)));
    for item in items {
        match (key.facts.signing_fingerprint.version(), &item.ticket) {
            (KeyVersion::V4, None) => redeemed.salts.push(None),
            (KeyVersion::V4, Some(_)) => return refused("is of version 4: its signatures have no salt"),
            (KeyVersion::V6, None) => {
                return refused("is of version 6: each item needs the ticket of its salt");
            }
            (KeyVersion::V6, Some(ticket)) => {
                let Some(hash) = item.content.hash() else { return refused("has no salts for bare digests") };
                let holder = holder(principal, key, hash)?;
                let opened = front.tickets.open(ticket, &holder, now_ms)?;
                redeemed.salts.push(Some(opened.salt));
                redeemed.spend.push(Ticket { id: opened.id, expires_ms: opened.expires_ms });
            }
        }
    }
    Ok(redeemed)
}

fn holder<'a>(
    principal: &'a Principal,
    key: &registry::Entry,
    hash: sealwright_crypto::algorithm::HashAlgorithm,
) -> Result<Holder<'a>, Fault> {
    Ok(Holder { principal: principal.name(), key_id: KeyId::parse(key.facts.id.as_bytes())?, hash })
}
