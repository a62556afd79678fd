//! The intent of a request: recorded before the key process is asked, answered from when it is a retry.

use std::sync::Arc;
use std::time::Duration;

use sealwright_crypto::openpgp::salt::Salt;
use sealwright_proto::convert::group::Group;
use sealwright_proto::status::{Code, Fault};
use sealwright_store::{Conclusion, Intent, IntentId, ItemOutcome, ItemResult, Tickets};
use tokio::time::Instant;
use uuid::Uuid;

use crate::Inner;
use crate::clock;
use crate::fault::from_store;
use crate::policy::{Authorised, Principal};
use crate::salts::Redeemed;
use crate::sign::gone::Gone;
use crate::signer_client::{Ask, Turn};

/// How long after a request's own deadline its intent stays ours, milliseconds: an append that began in time may
/// wait for the store. After that a retry takes over.
const LEASE_MARGIN_MS: i64 = 30_000;

/// First and longest pause between two looks at a request that another attempt works on.
const WAIT_FIRST: Duration = Duration::from_millis(10);
const WAIT_MAX: Duration = Duration::from_millis(400);

/// Proof that the intent is durable and ours. Only [`record`] makes one.
pub(super) struct Recorded {
    id: IntentId,
    key_id: Uuid,
    generation: u32,
    principal: Arc<Principal>,
    salts: Vec<Option<Salt>>,
}

impl Recorded {
    /// For each item: what was hashed first. The tickets are used up.
    pub(super) fn salts(&self) -> &[Option<Salt>] {
        &self.salts
    }

    pub(super) const fn id(&self) -> &IntentId {
        &self.id
    }

    pub(super) const fn principal(&self) -> &Arc<Principal> {
        &self.principal
    }
}

/// A request is new, or has its answer.
pub(super) enum Intended {
    /// With a place in the queue to the signer.
    New(Recorded, Turn),
    Answered(Vec<ItemOutcome>),
}

/// What is recorded: a request that was decided about.
pub(super) struct Asked<'a> {
    pub(super) principal: &'a Arc<Principal>,
    pub(super) group: &'a Group,
    pub(super) authorised: &'a Authorised,
    /// Opened, or why not.
    pub(super) tickets: Result<Redeemed, Fault>,
}

/// Records the intent. A retry waits for the answer of the attempt that works on the same request.
///
/// # Errors
/// [`Code::TicketRefused`] if it is new, and its tickets are no good or used; [`Code::RequestConflict`] for other
/// content under the same id; [`Code::DeadlineExceeded`] while another attempt still works on it;
/// [`Code::Overloaded`]; those of the store.
pub(super) async fn record<T>(
    front: &Inner,
    asked: Asked<'_>,
    turn: Turn,
    ask: &Ask,
    gone: &Gone<T>,
) -> Result<Intended, Fault> {
    let Asked { principal, group, authorised, tickets } = asked;
    let deadline = ask.deadline;
    let id = IntentId {
        principal: principal.name().to_owned(),
        request_id: Uuid::from_bytes(*group.request_id.as_bytes()),
        attempt: Uuid::now_v7(),
    };
    let (key_id, generation) = (authorised.key_id(), authorised.generation());
    let digest = group.fingerprint();
    let spend = match &tickets {
        Ok(redeemed) => Tickets::Spend(redeemed.spend.clone()),
        Err(_) => Tickets::Refused,
    };
    let mut pause = WAIT_FIRST;
    let mut first_turn = Some(turn);
    loop {
        gone.check()?;
        in_time(deadline)?;
        let turn = match first_turn.take() {
            Some(turn) => turn,
            None => front.signer.turn(ask)?,
        };
        let now_ms = clock::now_ms();
        let left_ms = milliseconds(deadline.saturating_duration_since(Instant::now()));
        let lease_until_ms = now_ms.saturating_add(left_ms).saturating_add(LEASE_MARGIN_MS);
        let intent =
            Intent { id: id.clone(), digest, key_id, now_ms, lease_until_ms, tickets: spend.clone() };
        match front.store.record_intent(intent).await.map_err(from_store)? {
            sealwright_store::Recorded::New => {
                let recorded = Recorded {
                    id,
                    key_id,
                    generation,
                    principal: Arc::clone(principal),
                    salts: tickets?.salts,
                };
                return Ok(Intended::New(recorded, turn));
            }
            sealwright_store::Recorded::Replayed(outcomes) => return Ok(Intended::Answered(outcomes)),
            sealwright_store::Recorded::Conflict => {
                let message = format!("the request id {} was used for other content", group.request_id);
                return Err(Fault::new(Code::RequestConflict, message));
            }
            sealwright_store::Recorded::TicketUsed => {
                return Err(Fault::new(Code::TicketRefused, "a ticket was used before"));
            }
            sealwright_store::Recorded::TicketsRefused => {
                let fault = tickets.err();
                return Err(fault.unwrap_or_else(|| Fault::new(Code::TicketRefused, "a ticket is no good")));
            }
            // Who waits for another attempt keeps no place from others.
            sealwright_store::Recorded::InFlight => drop(turn),
        }
        let wake = Instant::now().checked_add(pause).unwrap_or(deadline);
        if wake >= deadline {
            let message = format!("another attempt still works on the request {}", group.request_id);
            return Err(Fault::new(Code::DeadlineExceeded, message));
        }
        gone.unless(async {
            tokio::time::sleep_until(wake).await;
            Ok(())
        })
        .await?;
        pause = pause.saturating_mul(2).min(WAIT_MAX);
    }
}

fn in_time(deadline: Instant) -> Result<(), Fault> {
    if Instant::now() < deadline {
        return Ok(());
    }
    Err(Fault::new(Code::DeadlineExceeded, "the request's time was over before its turn came"))
}

/// Gives the intent back, so that a retry can have another try at once. If that fails, the lease ends it.
pub(super) async fn release(front: &Inner, recorded: Recorded) {
    if let Err(error) = front.store.release_intent(recorded.id).await {
        // The store has reported it.
        tracing::debug!(error = &error as &dyn std::error::Error, "an intent stays until its lease ends");
    }
}

/// Writes down that all items failed for good.
///
/// # Errors
/// Those of the store: the failure is then not the final answer.
pub(super) async fn fail(
    front: &Inner,
    recorded: Recorded,
    fault: &Fault,
    items: usize,
) -> Result<(), Fault> {
    let failed = ItemResult::Failed { code: fault.code.number(), message: fault.message.clone() };
    let conclusion = Conclusion {
        id: recorded.id,
        key_id: recorded.key_id,
        generation: recorded.generation,
        now_s: clock::now_s(),
        items: vec![failed; items],
    };
    front.store.conclude(conclusion).await.map(|_| ()).map_err(from_store)
}

fn milliseconds(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}
