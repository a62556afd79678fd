//! Who may nothing is answered at the head of a call: what the call would bring is not read, and nobody else waits.

use bytes::Bytes;
use http::Request;
use sealwright_proto::status::{Code, Fault};
use tonic::Status;
use tonic::transport::Channel;

use crate::bench::{Bench, group, sign, tls};

/// What a peer may send of a call before it has an answer (`STREAM_WINDOW` of the service).
const WINDOW: usize = 128 << 10;

/// Bytes of each message.
const LARGE: usize = 4_000_000;

type Send = h2::client::SendRequest<Bytes>;

async fn connect(bench: &Bench, name: &str) -> Send {
    let config = bench.config(&bench.authority.client(name));
    let (send, connection) = h2::client::handshake(tls(bench.address, &config).await.unwrap()).await.unwrap();
    tokio::spawn(connection);
    send
}

/// Begins a call with a large message, sends of it what the server takes until it answers, and never ends it: the
/// answer and the bytes that were taken. None once the server has closed the connection.
async fn begin(send: &Send) -> Option<(Status, usize)> {
    let request = Request::post("http://localhost/sealwright.v1.Signing/Sign")
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .body(())
        .unwrap();
    let mut send = send.clone().ready().await.ok()?;
    let (response, mut body) = send.send_request(request, false).ok()?;
    let mut message = vec![0];
    message.extend(u32::try_from(LARGE).unwrap().to_be_bytes());
    message.resize(5 + LARGE, 7);
    let mut message = Bytes::from(message);
    let mut taken = 0;
    let sending = async {
        while !message.is_empty() {
            body.reserve_capacity(message.len().min(16 << 10));
            let Some(Ok(capacity)) = std::future::poll_fn(|context| body.poll_capacity(context)).await else {
                break;
            };
            let part = message.split_to(capacity.min(message.len()));
            taken += part.len();
            if body.send_data(part, false).is_err() {
                break;
            }
        }
        std::future::pending::<()>().await;
    };
    let response = tokio::select! {
        response = response => response.ok()?,
        () = sending => return None,
    };
    Some((Status::from_header_map(response.headers()).expect("an answer in the head"), taken))
}

/// Many such calls, with signatures for somebody else between them.
async fn assert_unread(bench: &Bench, send: &Send, code: Code, others: &Channel) {
    let metrics = bench.service.metrics();
    let mut answered = 0_u8;
    for number in 0..16 {
        let before = metrics.request_bytes.value();
        let Some((status, taken)) = begin(send).await else { break };
        assert_eq!(Fault::from(&status).code, code, "{status:?}");
        assert!(taken <= WINDOW, "{taken} bytes of {LARGE} were taken");
        assert_eq!(metrics.request_bytes.value(), before, "nothing of it was read");
        assert_eq!(sign(others, &group(&[number])).await, Ok(1), "others sign");
        assert!(metrics.request_bytes.value() > before, "what others send is counted");
        answered += 1;
    }
    assert!(answered >= 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_a_client_that_is_revoked_nothing_is_read_and_others_do_not_wait() {
    let bench = Bench::start().await;
    let others = bench.client("operator").await;
    let send = connect(&bench, "build").await;
    // It may sign, and its messages are taken.
    let config = bench.config(&bench.authority.client("build"));
    assert_eq!(sign(&bench.channel(&config).await, &group(b"x")).await, Ok(1));
    bench.reload_clients(
        "[[client]]\nname = \"build\"\nkeys = [\"release\"]\nrevoked = [\"0A1B\"]\n\
         [[client]]\nname = \"operator\"\nkeys = [\"*\"]\n",
    );
    // All certificates of these tests have one number: only the entry tells clients apart.
    assert_unread(&bench, &send, Code::ClientRevoked, &others).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_a_client_that_is_unknown_nothing_is_read_and_others_do_not_wait() {
    let bench = Bench::start().await;
    let others = bench.client("build").await;
    let send = connect(&bench, "stranger").await;
    assert_unread(&bench, &send, Code::UnknownClient, &others).await;
}
