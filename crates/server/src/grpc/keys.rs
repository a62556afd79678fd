//! The Keys service.

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
use tonic::{Request, Response, Status};

use crate::authn::Caller;
use crate::policy::{Administrator, administer};
use crate::{Front, keys};

pub(super) struct Service {
    pub(super) front: Front,
}

/// Before anything of the request is read.
fn administrator<T>(request: &Request<T>) -> Result<Administrator, Fault> {
    administer(&*open(request)?.principal()?)
}

/// The caller, unless the server is about to end.
fn open<T>(request: &Request<T>) -> Result<Caller, Fault> {
    let caller = Caller::of(request)?;
    if caller.is_draining() {
        return Err(Fault::new(Code::ShuttingDown, "the server is stopping"));
    }
    Ok(caller)
}

#[tonic::async_trait]
impl Keys for Service {
    async fn create(&self, request: Request<CreateKeyRequest>) -> Result<Response<Key>, Status> {
        let administrator = administrator(&request)?;
        let create = CreateKey::parse(request.into_inner())?;
        let made = keys::create(&self.front.inner, administrator, create).await?;
        Ok(Response::new(made_to_wire(made)))
    }

    async fn list(&self, request: Request<ListKeysRequest>) -> Result<Response<ListKeysResponse>, Status> {
        let principal = open(&request)?.principal()?;
        let (after, limit) = parse_list(request.get_ref())?;
        let (keys, more) = keys::list(&self.front.inner, &principal, after.as_ref(), limit).await?;
        Ok(Response::new(page(keys, more)))
    }

    async fn describe(&self, request: Request<DescribeKeyRequest>) -> Result<Response<Key>, Status> {
        let principal = open(&request)?.principal()?;
        let reference = KeyReference::parse(&request.get_ref().key)?;
        let key = keys::describe(&self.front.inner, &principal, &reference).await?;
        Ok(Response::new(to_wire(key)))
    }

    async fn begin_import(
        &self,
        request: Request<BeginImportRequest>,
    ) -> Result<Response<BeginImportResponse>, Status> {
        let hpke_public_key = keys::begin_import(&self.front.inner, administrator(&request)?).await?;
        Ok(Response::new(BeginImportResponse { hpke_public_key }))
    }

    async fn import(
        &self,
        request: Request<ImportKeyRequest>,
    ) -> Result<Response<ImportKeyResponse>, Status> {
        let administrator = administrator(&request)?;
        let import = ImportKey::parse(request.into_inner())?;
        let made = keys::import(&self.front.inner, administrator, import).await?;
        Ok(Response::new(ImportKeyResponse { key: Some(made_to_wire(made)) }))
    }

    async fn renew(&self, request: Request<RenewKeyRequest>) -> Result<Response<Key>, Status> {
        let administrator = administrator(&request)?;
        let renew = RenewKey::parse(request.get_ref())?;
        let made = keys::renew(&self.front.inner, administrator, &renew).await?;
        Ok(Response::new(made_to_wire(made)))
    }

    async fn set_state(&self, request: Request<SetKeyStateRequest>) -> Result<Response<Key>, Status> {
        let administrator = administrator(&request)?;
        let reference = KeyReference::parse(&request.get_ref().key)?;
        let state = match KeyState::try_from(request.get_ref().state) {
            Ok(KeyState::Enabled) => sealwright_store::KeyState::Enabled,
            Ok(KeyState::Disabled) => sealwright_store::KeyState::Disabled,
            Ok(KeyState::Unspecified) | Err(_) => {
                return Err(Fault::new(Code::MalformedRequest, "an unknown state for a key").into());
            }
        };
        let key = keys::set_state(&self.front.inner, administrator, &reference, state).await?;
        Ok(Response::new(to_wire(key)))
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
    }
}
