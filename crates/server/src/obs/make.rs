//! Policy of an operator: a request for the public key of a project that has none makes it. Copr asks for it first of all, and
//! would else be told `unknown key:`, have the key made elsewhere, and sleep.

use std::time::Duration;

use sealwright_obs::{Refusal, Request};
use sealwright_proto::names::KeyReference;
use sealwright_proto::status::{Code, Fault};
use tokio::time::timeout;

use super::answer::{Asked, No};
use crate::keygen::Query;
use crate::keys::make_once;
use crate::policy;

/// How long the key is waited for. One that was begun is made also when nobody waits any more.
const KEY_TIME_MAX: Duration = Duration::from_secs(60);

/// Makes the key, if that is the policy, the client has a grant for such a key and may see it afterwards, and its name is
/// that of a project.
///
/// # Errors
/// `unknown` where it may not; why it was not made.
pub(super) async fn on_pubkey(asked: &Asked<'_>, request: &Request, unknown: Refusal) -> Result<(), No> {
    let Some(shape) = asked.inner.rules.load().makes.clone() else { return Err(unknown.into()) };
    // One with wrong arguments is refused all the same, and makes nothing.
    request.command()?;
    let reference = KeyReference::Name(asked.name.clone());
    let may_see = policy::see(asked.principal, &reference, asked.name.as_str());
    if may_see.and_then(|()| policy::may_name(asked.principal, asked.name)).is_err() {
        return Err(unknown.into());
    }
    let create = Query::of_project(asked.name).and_then(|query| query.create(&shape));
    let Ok(create) = create else { return Err(unknown.into()) };
    let fault = |fault| No::Fault(asked.caller.reads(fault));
    let may = policy::may_create(asked.principal, create).map_err(fault)?;
    let made = timeout(KEY_TIME_MAX, make_once(&asked.inner.front, may)).await;
    let late = |_| Err(Fault::new(Code::DeadlineExceeded, "the key is still being made"));
    made.unwrap_or_else(late).map(|_| ()).map_err(fault)
}
