//! Failures that the libraries under us make (a message above its limit, bytes that are none, a call that there is not)
//! leave as failures of ours: each answer passes here on its way out. docs/WIRE.md, "Failures", has the table.

use http::HeaderMap;
use sealwright_proto::status::{Code, Fault};
use tonic::Status;

/// Headers or trailers that end a call with a failure without a code of ours get one; which it is, is returned.
pub(super) fn make_typed(headers: &mut HeaderMap, path: &str) -> Option<Fault> {
    let status = Status::from_header_map(headers).filter(|status| status.details().is_empty())?;
    let code = code(&status)?;
    let message = match (code, status.message()) {
        (Code::NotImplemented, "") => format!("this server has no call {path}"),
        (_, message) => message.to_owned(),
    };
    let fault = Fault::new(code, message);
    // Nothing in it is not a header: the text is encoded, the failure is base64.
    Status::from(fault.clone()).add_header(headers).ok()?;
    Some(fault)
}

/// None for what is no failure of the table.
fn code(status: &Status) -> Option<Code> {
    match status.code() {
        // Health says so of a service that there is not (grpc/grpc, `doc/health-checking.md`); nobody reads the last.
        tonic::Code::Ok | tonic::Code::NotFound | tonic::Code::Cancelled => None,
        tonic::Code::OutOfRange | tonic::Code::ResourceExhausted => Some(Code::LimitExceeded),
        tonic::Code::Unimplemented => Some(Code::NotImplemented),
        // Whatever of ours is wrong inside has its code: without one, it is about what was read.
        tonic::Code::Internal | tonic::Code::InvalidArgument => Some(Code::MalformedRequest),
        tonic::Code::DeadlineExceeded => Some(Code::DeadlineExceeded),
        tonic::Code::Unavailable => Some(Code::ShuttingDown),
        tonic::Code::Unknown
        | tonic::Code::AlreadyExists
        | tonic::Code::PermissionDenied
        | tonic::Code::FailedPrecondition
        | tonic::Code::Aborted
        | tonic::Code::DataLoss
        | tonic::Code::Unauthenticated => Some(Code::Internal),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(status: &Status) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert("grpc-accept-encoding", http::HeaderValue::from_static("identity"));
        status.add_header(&mut headers).unwrap();
        headers
    }

    #[test]
    fn every_failure_without_a_code_of_ours_gets_one_and_keeps_its_text_and_headers() {
        for number in 1..=16 {
            let status = Status::new(tonic::Code::from_i32(number), "about it: %");
            let mut headers = headers(&status);
            let fault = make_typed(&mut headers, "/a/b");
            if matches!(status.code(), tonic::Code::NotFound | tonic::Code::Cancelled) {
                assert_eq!(fault, None, "{number}");
                continue;
            }
            let fault = fault.unwrap();
            let sent = Status::from_header_map(&headers).unwrap();
            assert_eq!(Fault::from(&sent), fault, "{number}");
            assert_eq!(sent.code() as i32, fault.code.row().grpc as i32, "{number}");
            assert_eq!(sent.message(), "about it: %");
            assert_eq!(headers["grpc-accept-encoding"], "identity");
        }
    }

    #[test]
    fn what_is_typed_or_no_failure_stays_as_it_is() {
        let typed = Status::from(Fault::new(Code::Internal, "x"));
        for status in [Status::ok(""), typed] {
            let before = headers(&status);
            let mut after = before.clone();
            assert_eq!(make_typed(&mut after, "/a/b"), None);
            assert_eq!(after, before);
        }
        assert_eq!(make_typed(&mut HeaderMap::new(), "/a/b"), None);
    }

    #[test]
    fn a_call_that_there_is_not_is_named() {
        let mut headers = headers(&Status::unimplemented(""));
        let fault = make_typed(&mut headers, "/other.Service/Call").unwrap();
        assert!(fault.message.ends_with("no call /other.Service/Call"), "{fault}");
    }
}
