//! The gRPC services: parse, call the use case, map the failure. No decision is made here. Who asks is in the
//! extensions of each request ([`Caller`]), put there by the connection.

use sealwright_proto::health_v1::health_server::HealthServer;
use sealwright_proto::limits::GRPC_MESSAGE_BYTES_MAX;
use sealwright_proto::trace::{self, TraceId, Traceparent};
use sealwright_proto::v1::keys_server::KeysServer;
use sealwright_proto::v1::signing_server::SigningServer;
use tonic::metadata::MetadataMap;
use tonic::service::Routes;

use crate::Front;
use crate::authn::Caller;

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

/// Around a call: what all lines that are written in it have in common. The trace is the client's word.
fn span(call: &'static str, caller: &Caller, metadata: &MetadataMap) -> (tracing::Span, Option<TraceId>) {
    let header = metadata.get(trace::METADATA).and_then(|header| header.to_str().ok());
    let trace_id = header.and_then(Traceparent::parse).map(|parent| parent.trace_id);
    // At the level of errors, so that those have it, whatever else is logged.
    let span = tracing::error_span!(
        "call",
        call,
        principal = caller.claimed_name(),
        peer = caller.address().map(tracing::field::display),
        trace_id = trace_id.map(tracing::field::display),
    );
    (span, trace_id)
}
