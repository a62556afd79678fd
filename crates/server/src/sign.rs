//! THE use case. [`sign`] reads from top to bottom like the arrow of the design:
//!
//! ```text
//! authenticated -> authorise -> resolve key -> record intent (durable) -> the key process signs and checks itself
//!               -> append log entry (durable, the key checked again in the same transaction) -> reply
//! ```
//!
//! Each step returns a value that the next one demands: [`Authorised`], [`Recorded`], [`Logged`]. Only [`Logged`]
//! can be answered with, so no signature leaves without a durable entry.

use std::sync::Arc;

use sealwright_crypto::tbs::{Content, ToBeSigned};
use sealwright_proto::convert::batch::{Request, SealedKey, SignedItem};
use sealwright_proto::convert::group::{Group, GroupResult, LoggedSignature};
use sealwright_proto::names::KeyId;
use sealwright_proto::status::{Code, Fault};
use sealwright_proto::time::utc;
use sealwright_store::{Concluded, Conclusion, ItemOutcome, ItemResult, Refusal};
use tokio::time::Instant;

use crate::Inner;
use crate::clock;
use crate::fault::from_store;
use crate::policy::{self, Authorised, Principal};
use crate::registry::{Entry, Freshness};
use crate::salts;
use crate::signer_client::{Ask, Job, Signed, Turn};

mod course;
mod entry;
mod gone;
mod intent;

pub(crate) use course::{Course, turned_away, turned_away_of};
pub(crate) use gone::Gone;
use intent::{Asked, Intended, Recorded};

/// Times that a request whose key changed while it was signed is signed again with the key of now.
const STALE_RETRIES: usize = 1;

/// One answer an item, or a refusal of all.
type Outcomes = Result<Vec<Result<LoggedSignature, Fault>>, Fault>;

/// Signs one group for a principal whose identity is established.
pub(crate) async fn sign<T>(
    front: &Inner,
    principal: &Arc<Principal>,
    group: Group,
    gone: &Gone<T>,
    course: &Course,
) -> GroupResult {
    let request_id = group.request_id;
    let _in_flight = front.metrics.requests_in_flight.hold();
    let outcome = answer(front, principal, &group, gone, course).await;
    course.answered(front, &group, &outcome);
    GroupResult { request_id, outcome }
}

async fn answer<T>(
    front: &Inner,
    principal: &Arc<Principal>,
    group: &Group,
    gone: &Gone<T>,
    course: &Course,
) -> Outcomes {
    let deadline = course.deadline(group);
    let authorised = gone.unless(authorise(front, principal, group)).await?;
    let key = gone.unless(front.registry.resolve(&authorised)).await?;
    course.resolved(&key.facts.name);
    // A ticket that is no good refuses only what is new: a retry is answered whatever became of its tickets.
    let tickets = salts::redeem(front, principal, &key, &group.items);
    // Before anything is written: who has to come again costs the store nothing.
    let ask = ask(principal, group, &key, deadline);
    gone.check()?;
    let turn = front.signer.turn(&ask)?;
    let asked = Asked { principal, group, authorised: &authorised, tickets };
    let recorded = intent::record(front, asked, turn, &ask, gone);
    let (recorded, turn) = match course.storing(recorded).await? {
        Intended::New(recorded, turn) => (recorded, turn),
        Intended::Answered(outcomes) => return Ok(from_stored(outcomes)),
    };
    let logged = sign_and_log(front, group, (authorised, key), turn, &recorded, (gone, course)).await;
    finish(front, group, recorded, logged).await
}

/// Whether the principal may, by the key as we remember it; before a refusal by the key as it is.
async fn authorise(front: &Inner, principal: &Principal, group: &Group) -> Result<Authorised, Fault> {
    let found = front.registry.find(&group.key).await;
    let (entry, freshness) = found.map_err(|fault| policy::look_up_failed(principal, &group.key, fault))?;
    let decided = policy::decide(principal, group, &entry.facts, clock::now_s());
    if freshness == Freshness::Fresh {
        front.metrics.key_loads.increment();
    }
    match (decided, freshness) {
        (Err(_), Freshness::Remembered) => authorise_anew(front, principal, group).await,
        (decided, Freshness::Remembered | Freshness::Fresh) => decided,
    }
}

async fn authorise_anew(front: &Inner, principal: &Principal, group: &Group) -> Result<Authorised, Fault> {
    let found = front.registry.refresh(&group.key).await;
    let entry = found.map_err(|fault| policy::look_up_failed(principal, &group.key, fault))?;
    front.metrics.key_loads.increment();
    policy::decide(principal, group, &entry.facts, clock::now_s())
}

/// Durable: log entries and the answer beside the intent. Only [`append`] makes one.
struct Logged {
    outcomes: Vec<ItemOutcome>,
}

/// Why nothing was logged.
enum NotLogged {
    /// Not final: the same request can succeed later. The intent is given back.
    Transient(Fault),
    /// Final: the answer is written beside the intent.
    Final(Fault),
}

/// Signs and appends; once more with the key of now if it changed in between.
async fn sign_and_log<T>(
    front: &Inner,
    group: &Group,
    (mut authorised, mut key): (Authorised, Arc<Entry>),
    mut turn: Turn,
    recorded: &Recorded,
    (gone, course): (&Gone<T>, &Course),
) -> Result<Logged, NotLogged> {
    let mut retries_left = STALE_RETRIES;
    loop {
        let signed = ask_signer(front, group, &key, recorded, turn, (gone, course)).await;
        let signed = signed.map_err(NotLogged::of)?;
        let refusal = append(front, group, &authorised, &key, recorded, signed);
        let refusal = match course.storing(refusal).await? {
            Ok(logged) => return Ok(logged),
            Err(refusal) => refusal,
        };
        // What was signed is thrown away here: it was not logged, so it does not leave.
        let Some(left) = retries_left.checked_sub(1) else {
            return Err(NotLogged::of(refused(&key, refusal)));
        };
        retries_left = left;
        authorised = authorise_anew(front, recorded.principal(), group).await.map_err(NotLogged::of)?;
        key = front.registry.resolve(&authorised).await.map_err(NotLogged::of)?;
        let ask = ask(recorded.principal(), group, &key, course.deadline(group));
        turn = front.signer.turn(&ask).map_err(NotLogged::of)?;
    }
}

/// What the queue to the signer wants to know.
fn ask(principal: &Principal, group: &Group, key: &Entry, deadline: Instant) -> Ask {
    let inline = group.items.iter().map(|item| match &item.content {
        Content::Midstate(_) | Content::Bare(_) => 0,
        Content::Inline(_, bytes) => bytes.len(),
        Content::Project(_, key) => key.len(),
    });
    Ask {
        backend: Arc::clone(&key.facts.backend),
        client: principal.shared_name(),
        weight: principal.weight(),
        priority: group.priority,
        algorithm: key.algorithm,
        key: (key.facts.id, key.facts.generation),
        items: group.items.len(),
        inline_bytes: inline.clone().fold(0, usize::saturating_add),
        inline_bytes_max: inline.max().unwrap_or(0),
        deadline,
    }
}

/// The key process composes, finishes the hash, signs and verifies its own signature.
async fn ask_signer<T>(
    front: &Inner,
    group: &Group,
    key: &Entry,
    recorded: &Recorded,
    turn: Turn,
    (gone, course): (&Gone<T>, &Course),
) -> Result<Signed, Fault> {
    let key_id = KeyId::parse(key.facts.id.as_bytes())?;
    let sealed = SealedKey { key_id, generation: key.facts.generation, blob: key.sealed().to_vec() };
    let not_before = key.not_before_s();
    let requests = group.items.iter().zip(recorded.salts()).map(|(item, first)| {
        // The ticket was front's; the signer gets the salt that was in it.
        let item = ToBeSigned { ticket: None, ..item.clone() };
        Request { key: 0, item, not_before, salt: group.salt, first: *first, trace_id: course.trace_id }
    });
    let requests: Vec<_> = requests.collect();
    let items = requests.len();
    let named = |fault| named(&key_id, key, fault);
    let (asked, left) = (Instant::now(), Arc::default());
    let job = Job { key: sealed, requests, deadline: course.deadline(group), left: Arc::clone(&left) };
    let signed = front.signer.sign(turn, job, gone.wait()).await;
    course.signed(asked, left.get().copied());
    let signed = signed.map_err(named)?;
    if signed.len() != items {
        return Err(Fault::new(
            Code::Internal,
            "the signer answered another number of items than it was asked",
        ));
    }
    // One failure that can pass makes the whole group one that can: a retry of all of it is simple and exact.
    match signed.iter().find_map(|item| item.as_ref().err().filter(|fault| fault.code.is_retryable())) {
        Some(fault) => Err(fault.clone()),
        None => Ok(signed.into_iter().map(|item| item.map_err(named)).collect()),
    }
}

/// The signer knows a key by its id; people know it by name and fingerprint.
fn named(key_id: &KeyId, key: &Entry, fault: Fault) -> Fault {
    let Fault { code, message, retry_after_ms } = fault;
    let name = format!("{} ({})", key.facts.name, key.facts.signing_fingerprint);
    let replaced = message.replace(&key_id.to_string(), &name);
    let is_about_key = matches!(
        code,
        Code::KeyExpired
            | Code::UsageNotAllowed
            | Code::ClockBehind
            | Code::SealBroken
            | Code::GenerationSuperseded
    );
    let message =
        if is_about_key && replaced == message { format!("key {name}: {message}") } else { replaced };
    Fault { code, message, retry_after_ms }
}

/// Appends the entries and writes the answer, in one transaction that checks the key once more.
async fn append(
    front: &Inner,
    group: &Group,
    authorised: &Authorised,
    key: &Entry,
    recorded: &Recorded,
    signed: Signed,
) -> Result<Result<Logged, Refusal>, NotLogged> {
    let items = entry::item_results(group, authorised, key, recorded, signed);
    let latest_s = items.iter().filter_map(signed_at_s).max();
    let conclusion = Conclusion {
        id: recorded.id().clone(),
        key_id: authorised.key_id(),
        generation: authorised.generation(),
        now_s: clock::now_s(),
        items,
    };
    match front.store.conclude(conclusion).await {
        Ok(Concluded::Done(outcomes)) => {
            if let Some(latest_s) = latest_s {
                key.signed(latest_s);
            }
            let signed = outcomes.iter().filter(|outcome| matches!(outcome, ItemOutcome::Signed { .. }));
            signed.for_each(|_| front.metrics.signed(key.algorithm.into()));
            Ok(Ok(Logged { outcomes }))
        }
        Ok(Concluded::Refused(refusal)) => Ok(Err(refusal)),
        Ok(Concluded::Superseded) => Err(NotLogged::Transient(Fault::new(
            Code::DeadlineExceeded,
            "the request took so long that a retry of it has taken over",
        ))),
        Err(error) => Err(NotLogged::Transient(from_store(error))),
    }
}

fn signed_at_s(item: &ItemResult) -> Option<i64> {
    match item {
        ItemResult::Signed { entry, .. } => Some(entry.signed_at_s),
        ItemResult::Failed { .. } => None,
    }
}

/// The reply; what is final is written down first, so that a retry gets the same.
async fn finish(
    front: &Inner,
    group: &Group,
    recorded: Recorded,
    logged: Result<Logged, NotLogged>,
) -> Outcomes {
    match logged {
        Ok(Logged { outcomes }) => Ok(from_stored(outcomes)),
        Err(NotLogged::Transient(fault)) => {
            intent::release(front, recorded).await;
            Err(fault)
        }
        Err(NotLogged::Final(fault)) => {
            intent::fail(front, recorded, &fault, group.items.len()).await?;
            Ok(group.items.iter().map(|_| Err(fault.clone())).collect())
        }
    }
}

impl NotLogged {
    fn of(fault: Fault) -> Self {
        // With space, the same request succeeds; nothing could be written down now anyway.
        let can_pass = fault.code.is_retryable() || fault.code == Code::StoreFull;
        if can_pass { Self::Transient(fault) } else { Self::Final(fault) }
    }
}

fn from_stored(outcomes: Vec<ItemOutcome>) -> Vec<Result<LoggedSignature, Fault>> {
    let outcomes = outcomes.into_iter().map(|outcome| match outcome {
        ItemOutcome::Signed { packet, log_index, leaf_hash } => {
            Ok(LoggedSignature { packet, log_index, leaf_hash: leaf_hash.0 })
        }
        ItemOutcome::Failed { code, message } => Err(Fault::new(Code::from_number(code), message)),
    });
    outcomes.collect()
}

/// A key that was resolved, and is not what it was when its entry was to be appended.
fn refused(key: &Entry, refusal: Refusal) -> Fault {
    let name = &key.facts.name;
    match refusal {
        Refusal::Gone => Fault::new(Code::KeyNotFound, format!("key {name} is gone")),
        Refusal::Disabled => Fault::new(Code::KeyDisabled, format!("key {name} is disabled")),
        Refusal::GenerationChanged { .. } => Fault::new(Code::KeyChanged, format!("key {name} was renewed")),
        Refusal::Expired { at_s } => {
            Fault::new(Code::KeyExpired, format!("key {name} expired {}", utc(at_s)))
        }
        Refusal::ClockBehind { signed_at_s, last_s } => Fault::new(
            Code::ClockBehind,
            format!(
                "the signer's clock says {}, but the newest signature of key {name} is dated {}; the key signs again \
                 from then on. If the clock is right now, it was wrong when that signature was made: use another key \
                 until then",
                utc(signed_at_s),
                utc(last_s)
            ),
        ),
    }
}
