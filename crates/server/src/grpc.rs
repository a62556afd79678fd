//! The gRPC services: parse, call the use case, map the failure. No decision is made here. Who asks is in the
//! extensions of each request ([`Caller`]), put there by the connection.

use sealwright_proto::health_v1::health_server::HealthServer;
use sealwright_proto::limits::GRPC_MESSAGE_BYTES_MAX;
use sealwright_proto::v1::keys_server::KeysServer;
use sealwright_proto::v1::signing_server::SigningServer;
use tonic::service::Routes;

use crate::Front;

mod health;
mod keys;
mod sign;

/// All services; built once, shared by all connections.
pub(crate) fn routes(front: &Front) -> Routes {
    let signing = SigningServer::new(sign::Service { front: front.clone() })
        .max_decoding_message_size(GRPC_MESSAGE_BYTES_MAX)
        .max_encoding_message_size(GRPC_MESSAGE_BYTES_MAX);
    let keys = KeysServer::new(keys::Service { front: front.clone() })
        .max_decoding_message_size(GRPC_MESSAGE_BYTES_MAX)
        .max_encoding_message_size(GRPC_MESSAGE_BYTES_MAX);
    let health = HealthServer::new(health::Service { front: front.clone() })
        .max_decoding_message_size(health::MESSAGE_BYTES_MAX);
    Routes::new(signing).add_service(keys).add_service(health).prepare()
}
