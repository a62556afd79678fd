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
use crate::metrics::KeyCall;

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

/// Around a call: what all lines that are written in it have in common.
fn span(call: &str, caller: &Caller, metadata: &MetadataMap) -> (tracing::Span, Option<TraceId>) {
    let trace_id = trace_id(metadata.as_ref());
    (span_of(call, caller, trace_id), trace_id)
}

/// The same from the head of a call alone.
pub(crate) fn span_of(path: &str, caller: &Caller, trace_id: Option<TraceId>) -> tracing::Span {
    // At the level of errors, so that those have it, whatever else is logged.
    tracing::error_span!(
        "call",
        call = name(path),
        principal = caller.claimed_name(),
        peer = caller.address().map(tracing::field::display),
        trace_id = trace_id.map(tracing::field::display),
    )
}

/// Of the client's run, by its own word.
pub(crate) fn trace_id(headers: &http::HeaderMap) -> Option<TraceId> {
    let header = headers.get(trace::METADATA).and_then(|header| header.to_str().ok());
    header.and_then(Traceparent::parse).map(|parent| parent.trace_id)
}

/// As lines name a call; any other by its path.
fn name(path: &str) -> &str {
    match path {
        "/sealwright.v1.Signing/Sign" => "sign",
        "/sealwright.v1.Signing/BeginSalts" => "begin-salts",
        "/sealwright.v1.Keys/Create" => KeyCall::Create.label(),
        "/sealwright.v1.Keys/List" => KeyCall::List.label(),
        "/sealwright.v1.Keys/Describe" => KeyCall::Describe.label(),
        "/sealwright.v1.Keys/BeginImport" => KeyCall::BeginImport.label(),
        "/sealwright.v1.Keys/Import" => KeyCall::Import.label(),
        "/sealwright.v1.Keys/Renew" => KeyCall::Renew.label(),
        "/sealwright.v1.Keys/SetState" => KeyCall::SetState.label(),
        other => other,
    }
}
