//! What the libraries under the server refuse: each with a failure of the table, whatever the call, and nothing else of
//! the connection is lost.

use bytes::Bytes;
use http::{HeaderMap, Request};
use sealwright_proto::limits::GRPC_MESSAGE_BYTES_MAX;
use sealwright_proto::status::{Code, Fault};
use sealwright_server::Limits;
use sealwright_server::metrics::Now;
use tonic::Status;

use crate::bench::{Bench, describe, group, sign, tls};
use crate::peer::Act;

const SIGN: &str = "/sealwright.v1.Signing/Sign";
const DESCRIBE: &str = "/sealwright.v1.Keys/Describe";
const HEALTH: &str = "/grpc.health.v1.Health/Check";

/// A connection of `build` on which anything can be sent.
struct Raw(h2::client::SendRequest<Bytes>);

impl Raw {
    async fn connect(bench: &Bench) -> Self {
        let config = bench.config(&bench.authority.client("build"));
        let (send, connection) =
            h2::client::handshake(tls(bench.address, &config).await.unwrap()).await.unwrap();
        tokio::spawn(connection);
        Self(send)
    }

    /// The status that a call ends with, after these bytes, and the end of the stream if `is_whole`.
    async fn call(&self, path: &str, encoding: Option<&str>, body: &[u8], is_whole: bool) -> Status {
        let mut request = Request::post(format!("http://localhost{path}"))
            .header("content-type", "application/grpc")
            .header("te", "trailers");
        if let Some(encoding) = encoding {
            request = request.header("grpc-encoding", encoding);
        }
        let mut send = self.0.clone().ready().await.unwrap();
        let (response, mut stream) = send.send_request(request.body(()).unwrap(), false).unwrap();
        stream.send_data(Bytes::copy_from_slice(body), is_whole).unwrap();
        let response = response.await.unwrap();
        let (head, mut answers) = response.into_parts();
        if let Some(status) = status(&head.headers) {
            return status;
        }
        while let Some(data) = answers.data().await {
            data.unwrap();
        }
        status(&answers.trailers().await.unwrap().expect("trailers")).expect("a status")
    }
}

fn status(headers: &HeaderMap) -> Option<Status> {
    Status::from_header_map(headers)
}

fn message(flag: u8, len: usize, content: &[u8]) -> Vec<u8> {
    [&[flag], u32::try_from(len).unwrap().to_be_bytes().as_slice(), content].concat()
}

fn assert_is(status: &Status, code: Code, what: &str) {
    let fault = Fault::from(status);
    assert_eq!(fault.code, code, "{what}: {status:?}");
    assert!(!status.details().is_empty(), "{what}: {status:?}");
    assert_eq!(status.code() as i32, code.row().grpc as i32, "{what}: {status:?}");
    assert!(!fault.message.is_empty(), "{what}");
}

#[tokio::test]
async fn what_is_no_message_of_ours_is_refused_with_a_code_and_the_connection_stays() {
    let bench = Bench::start().await;
    let raw = Raw::connect(&bench).await;
    let too_long = GRPC_MESSAGE_BYTES_MAX + 1;
    let cases = [
        (SIGN, None, message(0, too_long, b"x"), Code::LimitExceeded),
        (DESCRIBE, None, message(0, too_long, b"x"), Code::LimitExceeded),
        (HEALTH, None, message(0, 1025, b"x"), Code::LimitExceeded),
        (SIGN, None, message(0, 4, &[0xff; 4]), Code::MalformedRequest),
        (DESCRIBE, None, message(0, 4, &[0xff; 4]), Code::MalformedRequest),
        (SIGN, None, message(0, 9, b"half"), Code::MalformedRequest),
        (DESCRIBE, None, message(0, 9, b"half"), Code::MalformedRequest),
        (SIGN, None, vec![0, 0], Code::MalformedRequest),
        (DESCRIBE, None, Vec::new(), Code::MalformedRequest),
        (SIGN, None, message(1, 4, &[0x1f; 4]), Code::MalformedRequest),
        (DESCRIBE, None, message(7, 4, &[0x1f; 4]), Code::MalformedRequest),
        (SIGN, Some("gzip"), message(1, 4, &[0x1f; 4]), Code::NotImplemented),
        (DESCRIBE, Some("gzip"), message(1, 4, &[0x1f; 4]), Code::NotImplemented),
        ("/sealwright.v1.Signing/Other", None, Vec::new(), Code::NotImplemented),
        ("/sealwright.v9.Other/Sign", None, message(0, 0, b""), Code::NotImplemented),
        ("/", None, Vec::new(), Code::NotImplemented),
    ];
    for (path, encoding, body, code) in &cases {
        let what = format!("{path} {encoding:?} {:?}", &body[..body.len().min(12)]);
        assert_is(&raw.call(path, *encoding, body, true).await, *code, &what);
    }
    let page = bench.service.metrics().page(&Now::default());
    for code in [Code::LimitExceeded, Code::MalformedRequest, Code::NotImplemented] {
        let count = cases.iter().filter(|case| case.3 == code).count();
        let line = format!("sealwright_requests_total{{outcome=\"{code}\"}} {count}\n");
        assert!(page.contains(&line), "{line}{page}");
    }
    // On the same connection a good call is answered, with no status in its head and an empty one in its trailers.
    let good = message(0, 9, b"\x0a\x07release");
    assert_eq!(raw.call(DESCRIBE, None, &good, true).await.code(), tonic::Code::Ok);
    assert_eq!(sign(&bench.client("build").await, &group(b"x")).await, Ok(1));
}

#[tokio::test]
async fn a_message_that_has_begun_and_does_not_end_is_refused_with_a_code() {
    let mut limits = Limits::default();
    limits.write_stall_s = 1;
    let bench = Bench::start_with(limits, |_, _| Act::Sign).await;
    let raw = Raw::connect(&bench).await;
    for path in [SIGN, DESCRIBE] {
        let status = raw.call(path, None, &message(0, 100, b"half"), false).await;
        assert_is(&status, Code::DeadlineExceeded, path);
    }
    assert!(describe(&bench.client("build").await).await.is_ok());
}

#[tokio::test]
async fn a_service_that_health_does_not_know_has_the_status_of_its_own_specification() {
    let bench = Bench::start().await;
    let status = Raw::connect(&bench).await.call(HEALTH, None, &message(0, 3, b"\x0a\x01x"), true).await;
    assert_eq!((status.code(), status.details()), (tonic::Code::NotFound, b"".as_slice()));
}
