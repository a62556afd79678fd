//! Digests on THE way of every signature (`crate::sign`): one group, one decision, a log entry each.

use std::sync::Arc;

use sealwright_crypto::bare::{AnyDigest, Bare};
use sealwright_crypto::openpgp::signature::DataKind;
use sealwright_crypto::tbs::ToBeSigned;
use sealwright_obs::{Class, DigestArgument};
use sealwright_proto::convert::group::{Artefact, Group, Priority};
use sealwright_proto::limits::{DEADLINE_MS_DEFAULT, ITEMS_PER_GROUP_MAX};
use sealwright_proto::names::{KeyReference, RequestId};
use sealwright_proto::status::{Code, Fault};
use tokio::sync::mpsc;
use uuid::Uuid;

use super::answer::{Asked, No};
use crate::sign::{self, Course, Gone};

/// The signature packets, in the order of the digests: all of them, or why there is none. By the key of the request, or by
/// a project key that is encrypted to it.
pub(super) async fn digests(
    asked: &Asked<'_>,
    digests: &[DigestArgument],
    project_key: Option<&Arc<[u8]>>,
) -> Result<Vec<Vec<u8>>, No> {
    if digests.len() > ITEMS_PER_GROUP_MAX {
        return Err(No::Digests { count: digests.len(), max: ITEMS_PER_GROUP_MAX });
    }
    let items = digests.iter().map(|digest| {
        let bare = bare(digest)?;
        Ok(project_key.map_or_else(
            || ToBeSigned::bare(bare),
            |project_key| ToBeSigned::by_project_key(bare, Arc::clone(project_key)),
        ))
    });
    let items = items.collect::<Result<_, _>>().map_err(No::Fault)?;
    let request_id = RequestId::parse(Uuid::now_v7().as_bytes()).map_err(No::Fault)?;
    let group = Group {
        request_id,
        key: KeyReference::Name(asked.name.clone()),
        priority: Priority::Interactive,
        deadline_ms: DEADLINE_MS_DEFAULT,
        artefact: Artefact::default(),
        artefacts: Vec::new(),
        items,
        salt: false,
    };
    // Half a connection that was closed cannot be told from one that only has nothing more to say.
    let (waits, _held) = mpsc::channel::<()>(1);
    let (front, course) = (&asked.inner.front.inner, Course::new(None));
    let result = sign::sign(front, asked.principal, group, &Gone::new(waits), &course).await;
    let fault = |fault| No::Answered(asked.caller.reads(fault));
    let outcomes = result.outcome.map_err(fault)?;
    outcomes.into_iter().map(|outcome| outcome.map(|signed| signed.packet).map_err(fault)).collect()
}

fn bare(digest: &DigestArgument) -> Result<Bare, Fault> {
    let malformed = |error| Fault::new(Code::Internal, format!("a digest that was checked is none: {error}"));
    let any = AnyDigest::from_parts(digest.hash().openpgp_id(), digest.digest()).map_err(malformed)?;
    let kind = match digest.class() {
        Class::Binary => DataKind::Binary,
        Class::Text => DataKind::Text,
    };
    Bare::new(any, kind, digest.created()).map_err(malformed)
}
