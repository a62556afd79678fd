//! Peers that begin something and do not go on. Each costs a bounded amount for a bounded time, and nobody else notices.

use std::time::Duration;

use bytes::Bytes;
use http::Request;
use sealwright_crypto::algorithm::HashAlgorithm;
use sealwright_crypto::tbs::Content;
use sealwright_proto::status::Code;
use sealwright_server::Limits;
use sealwright_server::metrics::{Closed, Handshake};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};

use crate::bench::{Bench, config, describe, eventually, group, group_of, sign};
use crate::peer::Act;

/// The client's greeting of HTTP/2 (RFC 9113 section 3.4), with empty settings.
const GREETING: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

async fn bench(limits: Limits) -> Bench {
    Bench::start_with(limits, |_, _| Act::Sign).await
}

#[tokio::test]
async fn silence_and_half_a_tls_record_are_cut_off_and_others_sign_meanwhile() {
    let mut limits = Limits::default();
    (limits.handshakes, limits.handshake_ms) = (4, 2_000);
    let bench = bench(limits).await;
    let mut slow = Vec::new();
    for part in [b"".as_slice(), b"\x16", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"] {
        let mut socket = TcpStream::connect(bench.address).await.unwrap();
        socket.write_all(part).await.unwrap();
        slow.push(socket);
    }
    let metrics = bench.service.metrics();
    assert_eq!(sign(&bench.client("build").await, &group(b"x")).await, Ok(1));
    for mut socket in slow {
        let mut said = Vec::new();
        let _ = socket.read_to_end(&mut said).await;
        assert!(said.len() <= 7, "{said:?}");
    }
    assert_eq!(metrics.handshakes(Handshake::TimedOut), 3);
}

#[tokio::test]
async fn one_address_that_never_ends_its_handshakes_does_not_hold_up_others() {
    let mut limits = Limits::default();
    (limits.handshakes, limits.handshake_ms) = (8, 600_000);
    let bench = bench(limits).await;
    let mut hostile = Vec::new();
    for _ in 0..50 {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind("127.0.0.9:0".parse().unwrap()).unwrap();
        let mut socket = socket.connect(bench.address).await.unwrap();
        socket.write_all(b"\x16\x03\x01").await.unwrap();
        hostile.push(socket);
    }
    let metrics = bench.service.metrics();
    eventually("all are in", || metrics.connections_open.value() >= 50).await;
    assert_eq!(sign(&bench.client("build").await, &group(b"x")).await, Ok(1));
    assert!(metrics.connections_open.value() >= 51, "they were there all the time");
}

#[tokio::test]
async fn half_a_frame_and_silence_is_cut_off_when_it_is_idle() {
    let mut limits = Limits::default();
    limits.idle_s = 1;
    let bench = bench(limits).await;
    let config = bench.config(&bench.authority.client("build"));
    let mut stream = crate::bench::tls(bench.address, &config).await.unwrap();
    // The head of a frame of 100 bytes, and two of them.
    stream.write_all(&[GREETING, b"\0\0\x64\x01\x04\0\0\0\x01\x82\x86"].concat()).await.unwrap();
    let mut said = Vec::new();
    let _ = stream.read_to_end(&mut said).await;
    assert!(!said.is_empty());
    let metrics = bench.service.metrics();
    eventually("it was closed", || metrics.connections_open.value() == 0).await;
    assert!(metrics.closings(Closed::Idle) >= 1);
}

#[tokio::test]
async fn a_peer_that_takes_nothing_is_cut_off() {
    let mut limits = Limits::default();
    limits.write_stall_s = 1;
    let bench = bench(limits).await;
    let config = bench.config(&bench.authority.client("build"));
    // The kernel keeps little for it, so that it takes nothing long before it sends too much.
    let listener = TcpSocket::new_v4().unwrap();
    listener.set_send_buffer_size(4096).unwrap();
    listener.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let listener = listener.listen(16).unwrap().into_std().unwrap();
    let address = listener.local_addr().unwrap();
    let service = bench.service.clone();
    tokio::spawn(async move { service.serve(listener).await });
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    let socket = socket.connect(address).await.unwrap();
    let name = rustls::pki_types::ServerName::try_from("localhost").unwrap();
    let mut stream = tokio_rustls::TlsConnector::from(config).connect(name, socket).await.unwrap();
    stream.write_all(GREETING).await.unwrap();
    // Each ping is answered by one of the same size, and none of them is read.
    let pings = b"\0\0\x08\x06\0\0\0\0\0abcdefgh".repeat(1000);
    let flood = async { while stream.write_all(&pings).await.is_ok() {} };
    let metrics = bench.service.metrics();
    tokio::select! {
        () = flood => (),
        () = eventually("it was cut off", || metrics.closings(Closed::WriteStall) == 1) => (),
    }
    eventually("it was cut off", || metrics.closings(Closed::WriteStall) == 1).await;
    assert_eq!(sign(&bench.client("build").await, &group(b"x")).await, Ok(1));
}

fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("RssAnon:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// Begins large messages on many streams at once, as far as the server takes them, and returns how many bytes it took.
async fn half_messages(bench: &Bench, streams: usize) -> (h2::client::SendRequest<Bytes>, usize, Vec<Held>) {
    let config = bench.config(&bench.authority.client("build"));
    let tls = crate::bench::tls(bench.address, &config).await.unwrap();
    let (send, connection) = h2::client::handshake(tls).await.unwrap();
    tokio::spawn(connection);
    let mut taken = 0;
    let mut held = Vec::new();
    for _ in 0..streams {
        let mut send = send.clone().ready().await.unwrap();
        let request = Request::post("http://localhost/sealwright.v1.Signing/Sign")
            .header("content-type", "application/grpc")
            .header("te", "trailers")
            .body(())
            .unwrap();
        let (response, mut body) = send.send_request(request, false).unwrap();
        // Five million bytes are announced, four are ready to come.
        let mut message = vec![0, 0, 0x4c, 0x4b, 0x40];
        message.resize(4_000_000, 0);
        let mut message = Bytes::from(message);
        while !message.is_empty() {
            body.reserve_capacity(message.len().min(64 << 10));
            let capacity = std::future::poll_fn(|context| body.poll_capacity(context));
            let Ok(Some(Ok(capacity))) = tokio::time::timeout(Duration::from_millis(300), capacity).await
            else {
                break;
            };
            let part = message.split_to(capacity.min(message.len()));
            taken += part.len();
            body.send_data(part, false).unwrap();
        }
        held.push((response, body));
    }
    (send, taken, held)
}

type Held = (h2::client::ResponseFuture, h2::SendStream<Bytes>);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_that_are_begun_and_never_ended_cost_a_bounded_number_of_bytes() {
    let mut limits = Limits::default();
    limits.write_stall_s = 3;
    let bench = bench(limits).await;
    let before_kib = resident_kib();
    let (_send, taken, held) = half_messages(&bench, 16).await;
    // One whole message, and the window of the connection.
    assert!(taken < 5_000_000, "{taken} bytes of 64,000,000 were taken");
    let grown_kib = resident_kib().saturating_sub(before_kib);
    // Both ends are in this process; a decoder may have grown by doubling.
    assert!(grown_kib < 40 << 10, "{grown_kib} KiB");
    assert_eq!(sign(&bench.client("build").await, &group(b"x")).await, Ok(1), "others sign");
    // The one that held the place loses its stream in time.
    let (response, _body) = held.into_iter().next().unwrap();
    let mut answers = response.await.unwrap().into_body();
    let trailers = loop {
        match answers.data().await {
            Some(Ok(_)) => (),
            Some(Err(_)) | None => break answers.trailers().await,
        }
    };
    assert!(!matches!(trailers, Ok(Some(trailers)) if trailers["grpc-status"] == "0"));
}

#[tokio::test]
async fn a_large_message_that_is_sent_whole_is_taken() {
    let bench = bench(Limits::default()).await;
    let content = Content::Inline(HashAlgorithm::Sha256, vec![7; 3 << 20]);
    let client = bench.client("build").await;
    for _ in 0..2 {
        let signed = sign(&client, &group_of("release", content.clone())).await;
        assert_eq!(signed, Ok(1));
    }
}

#[tokio::test]
async fn who_finds_no_room_for_a_moment_is_told_when_to_come_again() {
    let (release, held) = std::sync::mpsc::channel::<()>();
    let mut limits = Limits::default();
    limits.request_bytes_in_work = 1;
    let bench = Bench::start_with(limits, move |_, _| {
        let _ = held.recv();
        Act::Sign
    })
    .await;
    // Room for one message of the largest size: these two fill it.
    let large = || group_of("release", Content::Inline(HashAlgorithm::Sha256, vec![7; 3 << 20]));
    let clients = [bench.client("build").await, bench.client("build").await, bench.client("build").await];
    let (first, second) =
        (large(), group_of("release", Content::Inline(HashAlgorithm::Sha256, vec![7; 2_900_000])));
    let working = async { tokio::join!(sign(&clients[0], &first), sign(&clients[1], &second)) };
    tokio::pin!(working);
    let metrics = bench.service.metrics();
    tokio::select! {
        both = &mut working => panic!("{both:?}"),
        () = eventually("both are in work", || metrics.requests_in_flight.value() == 2) => (),
    }
    assert_eq!(sign(&clients[2], &large()).await, Err(Code::Overloaded));
    drop(release);
    let (first, second) = working.await;
    assert_eq!((first, second), (Ok(1), Ok(1)));
}

#[tokio::test]
async fn a_client_without_a_certificate_that_is_never_done_is_no_client() {
    let mut limits = Limits::default();
    limits.handshake_ms = 500;
    let bench = bench(limits).await;
    let nobody = config(&bench.authority.pem, None);
    for _ in 0..10 {
        if let Ok(mut stream) = crate::bench::tls(bench.address, &nobody).await {
            assert!(stream.read_u8().await.is_err());
        }
    }
    assert!(describe(&bench.client("build").await).await.is_ok());
}

async fn raw(
    bench: &Bench,
) -> (h2::client::SendRequest<Bytes>, tokio::task::JoinHandle<Result<(), h2::Error>>) {
    let config = bench.config(&bench.authority.client("build"));
    let tls = crate::bench::tls(bench.address, &config).await.unwrap();
    let (send, connection) = h2::client::handshake(tls).await.unwrap();
    (send, tokio::spawn(connection))
}

fn request() -> http::request::Builder {
    Request::post("http://localhost/sealwright.v1.Signing/Sign")
        .header("content-type", "application/grpc")
        .header("te", "trailers")
}

#[tokio::test]
async fn streams_that_are_opened_and_reset_at_once_leave_nothing_behind() {
    let bench = bench(Limits::default()).await;
    let (mut send, connection) = raw(&bench).await;
    for _ in 0..5_000 {
        let Ok(ready) = send.clone().ready().await else { break };
        send = ready;
        let Ok((_response, mut body)) = send.send_request(request().body(()).unwrap(), false) else { break };
        body.send_reset(h2::Reason::CANCEL);
    }
    assert_eq!(sign(&bench.client("build").await, &group(b"x")).await, Ok(1));
    assert_eq!(bench.service.metrics().requests_in_flight.value(), 0);
    drop(send);
    let _ = connection.await;
    let metrics = bench.service.metrics();
    eventually("it has left", || metrics.connections_open.value() == 0).await;
}

#[tokio::test]
async fn headers_over_the_limit_end_the_request_and_nothing_else() {
    let bench = bench(Limits::default()).await;
    let (send, _connection) = raw(&bench).await;
    let mut send = send.ready().await.unwrap();
    let long = request().header("x", "a".repeat(20 << 10)).body(()).unwrap();
    let (response, _body) = send.send_request(long, true).unwrap();
    let refused = match response.await {
        Ok(response) => response.status() == http::StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
        Err(_) => true,
    };
    assert!(refused);
    assert_eq!(sign(&bench.client("build").await, &group(b"x")).await, Ok(1));
}

#[tokio::test]
async fn a_connection_has_so_many_requests_at_once() {
    let mut limits = Limits::default();
    limits.streams_per_connection = 2;
    let bench = bench(limits).await;
    let (mut send, _connection) = raw(&bench).await;
    let mut open = Vec::new();
    for _ in 0..2 {
        send = send.ready().await.unwrap();
        let (response, body) = send.send_request(request().body(()).unwrap(), false).unwrap();
        open.push((response.await.unwrap(), body));
    }
    assert_eq!(send.current_max_send_streams(), 2);
    send = send.ready().await.unwrap();
    let (mut third, _body) = send.send_request(request().body(()).unwrap(), false).unwrap();
    let waits = tokio::time::timeout(Duration::from_millis(200), &mut third).await;
    assert!(waits.is_err(), "it waits on the client's side");
    open.clear();
    assert_eq!(third.await.unwrap().status(), 200);
}
