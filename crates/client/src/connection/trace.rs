//! One run of a client is one trace: its id goes with each call, and stands in what server and signer log about it.

use sealwright_proto::trace::{METADATA, TraceId, Traceparent};
use tonic::Request;
use tonic::metadata::MetadataValue;
use uuid::Uuid;

/// The trace of a run: that of `surrounding`, a `traceparent` as the caller of the program has it, or else a new one.
#[must_use]
pub fn of_run(surrounding: Option<&str>) -> Traceparent {
    let surrounding = surrounding.and_then(Traceparent::parse);
    let (trace_id, flags) = surrounding.map_or_else(|| (random(), 1), |above| (above.trace_id, above.flags));
    let [_, _, _, _, _, _, _, _, parent_id @ ..] = Uuid::now_v7().into_bytes();
    Traceparent { trace_id, parent_id, flags }
}

/// Random where the specification wants it: to the right. Never zero: a version of UUIDs stands in it.
fn random() -> TraceId {
    loop {
        if let Some(id) = TraceId::new(Uuid::now_v7().into_bytes()) {
            return id;
        }
    }
}

/// A call of this trace.
pub(crate) fn request<T>(trace: Traceparent, message: T) -> Request<T> {
    let mut request = Request::new(message);
    // Digits and dashes are always allowed.
    if let Ok(value) = MetadataValue::try_from(trace.to_string()) {
        request.metadata_mut().insert(METADATA, value);
    }
    request
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_inside_a_trace_is_a_part_of_it_and_else_a_trace_of_its_own() {
        let above = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00";
        let run = of_run(Some(above));
        assert!(run.to_string().starts_with("00-4bf92f3577b34da6a3ce929d0e0e4736-"), "{run}");
        assert!(run.to_string().ends_with("-00") && !run.to_string().contains("00f067aa0ba902b7"), "{run}");
        let (one, two) = (of_run(None), of_run(Some("not a trace")));
        assert_ne!(one.trace_id, two.trace_id);
        assert_eq!(Traceparent::parse(&one.to_string()), Some(one));
    }

    #[test]
    fn a_call_carries_it() {
        let run = of_run(None);
        let request = request(run, ());
        assert_eq!(request.metadata().get(METADATA).unwrap().to_str().unwrap(), run.to_string());
    }
}
