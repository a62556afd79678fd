//! The Keys service.

use std::sync::Arc;

use prost::Message as _;
use sealwright_proto::convert::keys::{CreateKey, ImportKey, RenewKey, parse_list};
use sealwright_proto::limits::GRPC_MESSAGE_BYTES_MAX;
use sealwright_proto::names::KeyReference;
use sealwright_proto::status::{Code, Fault};
use sealwright_proto::v1::keys_server::Keys;
use sealwright_proto::v1::{
    BeginImportRequest, BeginImportResponse, CreateKeyRequest, DescribeKeyRequest, ImportKeyRequest,
    ImportKeyResponse, Key, KeyState, ListKeysRequest, ListKeysResponse, RenewKeyRequest, SetKeyStateRequest,
};
use tokio::time::Instant;
use tonic::{Request, Response, Status};
use tracing::Instrument as _;

use crate::authn::Caller;
use crate::keys::{self, Wait};
use crate::metrics::KeyCall;
use crate::policy::{Administrator, Principal, administer};
use crate::{Front, Inner};

/// Of a name or fingerprint in a log line; none that is a name is longer.
const NAME_CHARS_MAX: usize = 255;

pub(super) struct Service {
    pub(super) front: Front,
}

/// One call, from its arrival to the line that is logged about it.
struct Call {
    front: Front,
    what: KeyCall,
    caller: Result<Caller, Fault>,
    /// As the client says it, cut.
    key: String,
    arrived: Instant,
    span: tracing::Span,
}

impl Service {
    fn call<T>(&self, what: KeyCall, key: &str, request: &Request<T>) -> Call {
        let caller = Caller::of(request);
        let span = match &caller {
            Ok(caller) => super::span(what.label(), caller, request.metadata()).0,
            Err(_) => tracing::Span::none(),
        };
        let key = key.chars().take(NAME_CHARS_MAX).collect();
        Call { front: self.front.clone(), what, caller, key, arrived: Instant::now(), span }
    }
}

impl Call {
    /// Who asks, unless the server is about to end. Before anything of the request is read.
    fn principal(&self) -> Result<Arc<Principal>, Fault> {
        let caller = self.caller.as_ref().map_err(Fault::clone)?;
        if caller.is_draining() {
            return Err(Fault::new(Code::ShuttingDown, "the server is stopping"));
        }
        caller.principal()
    }

    fn administrator(&self) -> Result<Administrator, Fault> {
        administer(&*self.principal()?)
    }

    fn front(&self) -> &Inner {
        &self.front.inner
    }

    /// Does the work, counts it, and logs what came of it.
    async fn answer<A>(&self, work: impl Future<Output = Result<A, Fault>>) -> Result<Response<A>, Status> {
        let done = work.instrument(self.span.clone()).await;
        let failure = done.as_ref().err().map(|fault| fault.code);
        self.front().metrics.key_call(self.what, failure);
        let (outcome, total) = (failure.map_or("success", Code::name), self.arrived.elapsed());
        let total_ms = u64::try_from(total.as_millis()).unwrap_or(u64::MAX);
        let (key, fault) = (self.key.clone(), done.as_ref().err().cloned());
        let line = move |left_out: Option<u64>| {
            let reason = fault.as_ref().map(tracing::field::display);
            tracing::info!(key, outcome, reason, total_ms, left_out, "answered");
        };
        if failure == Some(Code::PermissionDenied) {
            let span = self.span.clone();
            self.front().notices.not_granted(move |left_out| span.in_scope(|| line(Some(left_out))));
        } else {
            self.span.in_scope(|| line(None));
        }
        let reads = |fault| self.caller.as_ref().map_or_else(Fault::clone, |caller| caller.reads(fault));
        done.map(Response::new).map_err(|fault| reads(fault).into())
    }
}

#[tonic::async_trait]
impl Keys for Service {
    async fn create(&self, request: Request<CreateKeyRequest>) -> Result<Response<Key>, Status> {
        let call = self.call(KeyCall::Create, &request.get_ref().name, &request);
        let work = async {
            let administrator = call.administrator()?;
            let create = CreateKey::parse(request.into_inner())?;
            let may = administrator.may_create(create);
            keys::create(call.front(), may, Wait::AtOnce).await.map(made_to_wire)
        };
        call.answer(work).await
    }

    async fn list(&self, request: Request<ListKeysRequest>) -> Result<Response<ListKeysResponse>, Status> {
        let call = self.call(KeyCall::List, "", &request);
        let work = async {
            let principal = call.principal()?;
            let (after, limit) = parse_list(request.get_ref())?;
            let (keys, more) = keys::list(call.front(), &principal, after.as_ref(), limit).await?;
            Ok(page(keys, more))
        };
        call.answer(work).await
    }

    async fn describe(&self, request: Request<DescribeKeyRequest>) -> Result<Response<Key>, Status> {
        let call = self.call(KeyCall::Describe, &request.get_ref().key, &request);
        let work = async {
            let principal = call.principal()?;
            let reference = KeyReference::parse(&request.get_ref().key)?;
            keys::describe(call.front(), &principal, &reference).await.map(to_wire)
        };
        call.answer(work).await
    }

    async fn begin_import(
        &self,
        request: Request<BeginImportRequest>,
    ) -> Result<Response<BeginImportResponse>, Status> {
        let call = self.call(KeyCall::BeginImport, "", &request);
        let work = async {
            let hpke_public_key = keys::begin_import(call.front(), call.administrator()?).await?;
            Ok(BeginImportResponse { hpke_public_key })
        };
        call.answer(work).await
    }

    async fn import(
        &self,
        request: Request<ImportKeyRequest>,
    ) -> Result<Response<ImportKeyResponse>, Status> {
        let call = self.call(KeyCall::Import, &request.get_ref().name, &request);
        let work = async {
            let administrator = call.administrator()?;
            let import = ImportKey::parse(request.into_inner())?;
            let made = keys::import(call.front(), administrator, import).await?;
            Ok(ImportKeyResponse { key: Some(made_to_wire(made)) })
        };
        call.answer(work).await
    }

    async fn renew(&self, request: Request<RenewKeyRequest>) -> Result<Response<Key>, Status> {
        let call = self.call(KeyCall::Renew, &request.get_ref().key, &request);
        let work = async {
            let administrator = call.administrator()?;
            let renew = RenewKey::parse(request.get_ref())?;
            keys::renew(call.front(), administrator, &renew).await.map(made_to_wire)
        };
        call.answer(work).await
    }

    async fn set_state(&self, request: Request<SetKeyStateRequest>) -> Result<Response<Key>, Status> {
        let call = self.call(KeyCall::SetState, &request.get_ref().key, &request);
        let work = async {
            let administrator = call.administrator()?;
            let reference = KeyReference::parse(&request.get_ref().key)?;
            let state = match KeyState::try_from(request.get_ref().state) {
                Ok(KeyState::Enabled) => sealwright_store::KeyState::Enabled,
                Ok(KeyState::Disabled) => sealwright_store::KeyState::Disabled,
                Ok(KeyState::Unspecified) | Err(_) => {
                    return Err(Fault::new(Code::MalformedRequest, "an unknown state for a key"));
                }
            };
            keys::set_state(call.front(), administrator, &reference, state).await.map(to_wire)
        };
        call.answer(work).await
    }
}

/// As many keys as fit one message, at least one; `more` if some are left.
fn page(keys: Vec<sealwright_store::Key>, more: bool) -> ListKeysResponse {
    let mut response = ListKeysResponse { keys: Vec::with_capacity(keys.len()), more };
    // Half a message: room for the framing, and pages that arrive quickly.
    let mut room = GRPC_MESSAGE_BYTES_MAX / 2;
    for key in keys.into_iter().map(to_wire) {
        match room.checked_sub(key.encoded_len()) {
            Some(left) => room = left,
            None if response.keys.is_empty() => room = 0,
            None => {
                response.more = true;
                break;
            }
        }
        response.keys.push(key);
    }
    response
}

fn made_to_wire(made: keys::Made) -> Key {
    Key { revocation: made.revocation.unwrap_or_default(), warnings: made.warnings, ..to_wire(made.key) }
}

fn to_wire(key: sealwright_store::Key) -> Key {
    let state = match key.state {
        sealwright_store::KeyState::Enabled => KeyState::Enabled,
        sealwright_store::KeyState::Disabled => KeyState::Disabled,
    };
    Key {
        id: key.id.as_bytes().to_vec(),
        name: key.name,
        state: state.into(),
        algorithm: key.material.algorithm.to_string(),
        fingerprint: key.material.fingerprint.to_string(),
        signing_fingerprint: key.material.signing_fingerprint.to_string(),
        user_id: key.material.user_id,
        created: key.material.created_s,
        expires: key.material.expires_s,
        generation: key.material.generation,
        usages: key.usages.iter().map(|usage| usage.id().into()).collect(),
        certificate: key.material.certificate,
        renewable: key.material.renewable,
        revocation: String::new(),
        warnings: Vec::new(),
        backend: key.material.backend,
    }
}
