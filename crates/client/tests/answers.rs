//! What a server that is none of ours, an older one, or whatever stands between can answer, and what the client makes of
//! it: a failure of the server only where the server said so.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::panic,
    reason = "tests"
)]

use std::error::Error as _;
use std::io;

use bytes::Bytes;
use http::{HeaderMap, Response};
use hyper_util::rt::TokioIo;
use sealwright_client::connection::Connection;
use sealwright_client::error::{Code, Error};
use sealwright_proto::limits::GRPC_MESSAGE_BYTES_MAX;
use sealwright_proto::status::Fault;
use tonic::Status;
use tonic::transport::{Endpoint, Uri};

/// How one call is answered.
enum Answer {
    /// In the head: HTTP status, and headers.
    Head(u16, HeaderMap),
    /// A head, these bytes, and these trailers.
    Body(Vec<u8>, HeaderMap),
    /// The stream is reset.
    Reset(h2::Reason),
}

/// What the client says of a key when its server answers like this.
async fn described(answer: Answer) -> Error {
    let (ours, theirs) = tokio::io::duplex(1 << 20);
    tokio::spawn(async move {
        let mut connection = h2::server::handshake(theirs).await.unwrap();
        let mut answer = Some(answer);
        while let Some(Ok((_request, mut respond))) = connection.accept().await {
            match answer.take().expect("one call") {
                Answer::Head(status, headers) => {
                    let mut response = Response::builder().status(status).body(()).unwrap();
                    response.headers_mut().extend(headers);
                    respond.send_response(response, true).unwrap();
                }
                Answer::Body(bytes, trailers) => {
                    let head = Response::builder().header("content-type", "application/grpc");
                    let mut body = respond.send_response(head.body(()).unwrap(), false).unwrap();
                    body.send_data(Bytes::from(bytes), false).unwrap();
                    body.send_trailers(trailers).unwrap();
                }
                Answer::Reset(reason) => respond.send_reset(reason),
            }
        }
    });
    let mut ours = Some(TokioIo::new(ours));
    let connector = tower::service_fn(move |_: Uri| {
        let ours = ours.take();
        async move { ours.ok_or_else(|| io::Error::other("connected already")) }
    });
    let channel = Endpoint::from_static("http://localhost").connect_with_connector(connector).await.unwrap();
    Connection::new(channel).describe("release").await.unwrap_err()
}

fn headers(status: &Status) -> HeaderMap {
    let mut headers = HeaderMap::new();
    status.add_header(&mut headers).unwrap();
    headers
}

fn message(flag: u8, len: usize, content: &[u8]) -> Vec<u8> {
    [&[flag], u32::try_from(len).unwrap().to_be_bytes().as_slice(), content].concat()
}

#[tokio::test]
async fn a_failure_of_the_table_is_the_servers_word_in_the_head_and_after_a_body() {
    for code in [Code::NotImplemented, Code::LimitExceeded, Code::MalformedRequest, Code::Internal] {
        let status = Status::from(Fault::new(code, "so it is"));
        for answer in [Answer::Head(200, headers(&status)), Answer::Body(Vec::new(), headers(&status))] {
            let error = described(answer).await;
            assert_eq!(error.server_code(), Some(code), "{error:?}");
        }
    }
}

#[tokio::test]
async fn a_server_that_knows_none_of_our_calls_is_no_server_of_ours() {
    let error = described(Answer::Head(200, headers(&Status::unimplemented("")))).await;
    assert!(matches!(error, Error::NotSealwright), "{error:?}");
    // A server of the web.
    let error = described(Answer::Head(404, HeaderMap::new())).await;
    assert!(matches!(error, Error::NotSealwright), "{error:?}");
}

#[tokio::test]
async fn an_answer_above_the_limit_is_a_wrong_answer_and_not_a_request_that_is_too_large() {
    let long = message(0, GRPC_MESSAGE_BYTES_MAX + 1, b"x");
    let error = described(Answer::Body(long, headers(&Status::ok("")))).await;
    assert!(matches!(error, Error::BadAnswer { .. }), "{error:?}");
}

#[tokio::test]
async fn what_breaks_off_or_is_no_message_is_a_lost_connection_that_says_why() {
    let ok = || headers(&Status::ok(""));
    for answer in [
        Answer::Body(message(0, 4, &[0xff; 4]), ok()),
        Answer::Body(message(0, 9, b"half"), ok()),
        Answer::Body(message(7, 4, b"flag"), ok()),
        Answer::Body(Vec::new(), HeaderMap::new()),
        Answer::Head(503, HeaderMap::new()),
        Answer::Head(200, headers(&Status::internal("of a proxy"))),
        Answer::Reset(h2::Reason::ENHANCE_YOUR_CALM),
        Answer::Reset(h2::Reason::INADEQUATE_SECURITY),
        Answer::Reset(h2::Reason::REFUSED_STREAM),
    ] {
        let error = described(answer).await;
        assert!(matches!(error, Error::ConnectionLost { .. }), "{error:?}");
        assert!(error.source().is_some_and(|source| !source.to_string().is_empty()), "{error:?}");
    }
}
