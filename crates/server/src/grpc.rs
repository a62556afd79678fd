//! The gRPC services: parse, call the use case, map the failure. No decision is made here.

use std::sync::Arc;

use sealwright_proto::limits::GRPC_MESSAGE_BYTES_MAX;
use sealwright_proto::v1::keys_server::KeysServer;
use sealwright_proto::v1::signing_server::SigningServer;
use tonic::service::Routes;

use crate::Front;
use crate::policy::Principal;

mod keys;
mod sign;

/// Both services for one principal.
pub(crate) fn routes(front: &Front, principal: Arc<Principal>) -> Routes {
    let signing = sign::Service { front: front.clone(), principal: Arc::clone(&principal) };
    let keys = keys::Service { front: front.clone(), principal };
    let signing = SigningServer::new(signing)
        .max_decoding_message_size(GRPC_MESSAGE_BYTES_MAX)
        .max_encoding_message_size(GRPC_MESSAGE_BYTES_MAX);
    let keys = KeysServer::new(keys)
        .max_decoding_message_size(GRPC_MESSAGE_BYTES_MAX)
        .max_encoding_message_size(GRPC_MESSAGE_BYTES_MAX);
    Routes::new(signing).add_service(keys)
}
