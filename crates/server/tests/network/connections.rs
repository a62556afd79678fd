//! Limits on connections: how many, of whom, for how long without a request.

use sealwright_proto::status::{Code, Fault};
use sealwright_proto::v1::DescribeKeyRequest;
use sealwright_proto::v1::keys_client::KeysClient;
use sealwright_server::Limits;
use sealwright_server::metrics::{Closed, Handshake};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tonic::transport::Channel;

use crate::bench::{Bench, describe, eventually, group, sign};
use crate::peer::Act;

fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("RssAnon:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// Waits until the server has closed it, and returns what it said before.
async fn closed(mut socket: TcpStream) -> Vec<u8> {
    let mut said = Vec::new();
    let _ = socket.read_to_end(&mut said).await;
    said
}

async fn bench(limits: Limits) -> Bench {
    Bench::start_with(limits, |_, _| Act::Sign).await
}

fn limits() -> Limits {
    let mut limits = Limits::default();
    (limits.first_byte_ms, limits.handshake_ms) = (60_000, 60_000);
    limits.connections_per_client = 5_000;
    limits
}

/// Begun while there is room, it says who it is when there is none any more.
async fn latecomer(bench: &Bench, socket: TcpStream, name: &str) -> Fault {
    let config = bench.config(&bench.authority.client(name));
    refusal(&crate::bench::channel(crate::bench::tls_over(socket, &config).await.unwrap()).await).await
}

/// The refusal of a call.
async fn refusal(channel: &Channel) -> Fault {
    let asked = DescribeKeyRequest { key: "release".to_owned() };
    Fault::from(&KeysClient::new(channel.clone()).describe(asked).await.unwrap_err())
}

fn is_told_to_come_again(fault: &Fault) -> bool {
    fault.code == Code::Overloaded && fault.retry_after_ms.is_some()
}

#[tokio::test]
async fn above_the_number_of_connections_one_is_closed_unheard_and_below_it_let_in_again() {
    let mut limits = limits();
    limits.connections = 2;
    let bench = bench(limits).await;
    let metrics = bench.service.metrics();
    eventually("the operator has left", || metrics.connections_open.value() == 0).await;
    let late = TcpStream::connect(bench.address).await.unwrap();
    eventually("it is in", || metrics.connections_open.value() == 1).await;
    let (client, other) = (bench.client("build").await, bench.client("build").await);
    assert!(describe(&client).await.is_ok() && describe(&other).await.is_ok());
    for _ in 0..3 {
        assert!(closed(TcpStream::connect(bench.address).await.unwrap()).await.is_empty());
    }
    assert_eq!(metrics.closings(Closed::Connections), 3);
    let fault = latecomer(&bench, late, "build").await;
    assert!(is_told_to_come_again(&fault), "{fault}");
    assert_eq!(metrics.closings(Closed::Connections), 4);
    assert_eq!(sign(&client, &group(b"x")).await, Ok(1), "who is in stays in");
    drop(other);
    eventually("the others have left", || metrics.connections_open.value() == 1).await;
    assert!(describe(&bench.client("build").await).await.is_ok());
}

#[tokio::test]
async fn one_address_has_a_limit_of_its_own() {
    let mut limits = limits();
    limits.connections_per_address = 1;
    let bench = bench(limits).await;
    let metrics = bench.service.metrics();
    eventually("the operator has left", || metrics.connections_open.value() == 0).await;
    let late = TcpStream::connect(bench.address).await.unwrap();
    eventually("it is in", || metrics.connections_open.value() == 1).await;
    let client = bench.client("build").await;
    assert!(describe(&client).await.is_ok());
    assert!(closed(TcpStream::connect(bench.address).await.unwrap()).await.is_empty());
    let fault = latecomer(&bench, late, "build").await;
    assert!(is_told_to_come_again(&fault), "{fault}");
    assert_eq!((metrics.closings(Closed::PerAddress), metrics.closings(Closed::Connections)), (2, 0));
    let config = bench.config(&bench.authority.client("build"));
    let other = crate::bench::tls_over(from_another_address(&bench).await, &config).await.unwrap();
    let other = crate::bench::channel(other).await;
    assert!(describe(&other).await.is_ok());
}

/// Of this machine.
async fn from_another_address(bench: &Bench) -> TcpStream {
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.2:0".parse().unwrap()).unwrap();
    socket.connect(bench.address).await.unwrap()
}

#[tokio::test]
async fn over_the_connections_of_a_client_its_first_call_is_told_to_come_again_and_the_connection_ends() {
    let mut limits = limits();
    limits.connections_per_client = 2;
    let bench = bench(limits).await;
    let metrics = bench.service.metrics();
    let (first, second) = (bench.client("build").await, bench.client("build").await);
    assert!(describe(&first).await.is_ok() && describe(&second).await.is_ok());
    let third = bench.client("build").await;
    let fault = refusal(&third).await;
    assert!(is_told_to_come_again(&fault), "{fault}");
    assert!(fault.message.contains("the client build has as many connections here as it may (2)"), "{fault}");
    let streamed = bench.client("build").await;
    assert_eq!(sign(&streamed, &group(b"x")).await, Err(Code::Overloaded));
    assert_eq!(metrics.closings(Closed::PerClient), 2);
    // Both are asked to leave, and do, though their clients hold on to them.
    eventually("they have left", || metrics.connections_unauthenticated.value() == 0).await;
    assert_eq!(sign(&first, &group(b"x")).await, Ok(1), "who is in stays in");
    assert!(describe(&bench.client("operator").await).await.is_ok(), "another client is let in");
    drop(second);
    eventually("one has left", || metrics.connections_open.value() == 1).await;
    assert!(describe(&bench.client("build").await).await.is_ok());
}

#[tokio::test]
async fn who_is_one_too_many_and_says_nothing_is_closed_soon() {
    let mut limits = limits();
    limits.connections_per_client = 1;
    let bench = bench(limits).await;
    let config = bench.config(&bench.authority.client("build"));
    let first = bench.channel(&config).await;
    assert!(describe(&first).await.is_ok());
    let mut second = crate::bench::tls(bench.address, &config).await.unwrap();
    let mut said = Vec::new();
    let _ = second.read_to_end(&mut said).await;
    assert_eq!(bench.service.metrics().closings(Closed::PerClient), 1);
}

#[tokio::test]
async fn the_oldest_silent_one_of_an_address_is_closed_for_its_next_and_no_other() {
    let mut limits = limits();
    (limits.unauthenticated_per_address, limits.first_byte_ms) = (2, 600_000);
    let bench = bench(limits).await;
    let metrics = bench.service.metrics();
    let client = bench.client("build").await;
    assert!(describe(&client).await.is_ok());
    let mut other = from_another_address(&bench).await;
    let mut silent = std::collections::VecDeque::new();
    for count in 1..=5 {
        silent.push_back(TcpStream::connect(bench.address).await.unwrap());
        if count > 2 {
            assert!(closed(silent.pop_front().unwrap()).await.is_empty());
            assert_eq!(metrics.closings(Closed::Unauthenticated), count - 2);
        }
    }
    // None of those that are left was closed, and a client finds room beside them.
    assert!(describe(&bench.client("build").await).await.is_ok());
    assert!(closed(silent.pop_front().unwrap()).await.is_empty());
    assert_eq!(metrics.closings(Closed::Unauthenticated), 4);
    for still in [&mut silent[0], &mut other] {
        assert!(still.try_read(&mut [0]).is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock));
    }
    assert_eq!(sign(&client, &group(b"x")).await, Ok(1), "who has authenticated is never closed for another");
}

#[tokio::test]
async fn the_oldest_silent_one_of_all_is_closed_when_there_is_no_room_for_another() {
    let mut limits = limits();
    (limits.unauthenticated, limits.first_byte_ms) = (2, 600_000);
    let bench = bench(limits).await;
    let other = from_another_address(&bench).await;
    let _first = TcpStream::connect(bench.address).await.unwrap();
    let _second = TcpStream::connect(bench.address).await.unwrap();
    assert!(closed(other).await.is_empty());
    assert_eq!(bench.service.metrics().closings(Closed::Unauthenticated), 1);
}

#[tokio::test]
async fn who_says_nothing_has_less_time_than_who_has_begun() {
    let mut limits = limits();
    (limits.first_byte_ms, limits.handshake_ms) = (200, 600_000);
    let bench = bench(limits).await;
    let metrics = bench.service.metrics();
    let mut begun = TcpStream::connect(bench.address).await.unwrap();
    begun.write_all(b"\x16").await.unwrap();
    assert!(closed(TcpStream::connect(bench.address).await.unwrap()).await.is_empty());
    assert_eq!(metrics.handshakes(Handshake::TimedOut), 1);
    assert!(begun.try_read(&mut [0]).is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock));
}

#[tokio::test]
async fn a_first_message_over_the_limit_ends_the_connection() {
    let mut limits = limits();
    limits.handshake_ms = 600_000;
    let bench = bench(limits).await;
    let mut socket = TcpStream::connect(bench.address).await.unwrap();
    // A ClientHello of 65,000 bytes in records of 16,000 (RFC 8446 sections 4 and 5.1).
    let mut hello = vec![1, 0, 0xfd, 0xe8];
    hello.resize(64_000, 0);
    for record in hello.chunks(16_000) {
        let header = [0x16, 3, 1, 0x3e, 0x80];
        if socket.write_all(&[&header, record].concat()).await.is_err() {
            break;
        }
    }
    let said = closed(socket).await;
    assert!(said.len() <= 7, "{said:?}");
    assert_eq!(bench.service.metrics().handshakes(Handshake::Failed), 1);
}

#[tokio::test]
async fn a_connection_without_requests_is_asked_to_leave() {
    let mut limits = limits();
    limits.idle_s = 1;
    let bench = bench(limits).await;
    let metrics = bench.service.metrics();
    let client = bench.client("build").await;
    assert!(describe(&client).await.is_ok());
    eventually("it has left", || metrics.connections_open.value() == 0).await;
    assert!(metrics.closings(Closed::Idle) >= 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_thousand_idle_connections_cost_little_and_nobody_notices_them() {
    const IDLE: u64 = 2_000;
    let bench = bench(limits()).await;
    let config = bench.config(&bench.authority.client("build"));
    let client = bench.client("build").await;
    assert_eq!(sign(&client, &group(b"before")).await, Ok(1));
    let before_kib = resident_kib();
    let mut idle = Vec::new();
    for _ in 0..IDLE {
        idle.push(crate::bench::tls(bench.address, &config).await.unwrap());
    }
    let metrics = bench.service.metrics();
    eventually("all are in", || {
        metrics.handshakes(Handshake::Completed) + metrics.handshakes(Handshake::Resumed) >= IDLE + 2
    })
    .await;
    // Both ends are in this process.
    let each_kib = resident_kib().saturating_sub(before_kib) / IDLE;
    assert!(each_kib < 100, "{each_kib} KiB a connection");
    for number in 0..50_u8 {
        assert_eq!(sign(&client, &group(&[number])).await, Ok(1));
    }
    assert!(describe(&bench.client("build").await).await.is_ok());
    assert!(metrics.connections_open.value() >= 2_000, "all of them were there all the time");
}

/// Of more clients than may be in without having said who they are: the others wait in the kernel's backlog.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_storm_of_clients_is_served_whole() {
    let mut limits = limits();
    (limits.handshakes, limits.unauthenticated) = (8, 30);
    let bench = bench(limits).await;
    let config = bench.config(&bench.authority.client("build"));
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..150 {
        let (config, address) = (std::sync::Arc::clone(&config), bench.address);
        tasks.spawn(async move {
            let stream = crate::bench::tls(address, &config).await.unwrap();
            describe(&crate::bench::channel(stream).await).await
        });
    }
    for described in tasks.join_all().await {
        assert_eq!(described.unwrap(), "release");
    }
    let metrics = bench.service.metrics();
    assert_eq!(metrics.closings(Closed::Handshakes) + metrics.handshakes(Handshake::TimedOut), 0);
    assert_eq!(metrics.closings(Closed::Unauthenticated), 0);
}

#[tokio::test]
async fn who_connects_and_says_nothing_takes_no_place_of_a_handshake() {
    let mut limits = limits();
    limits.handshakes = 4;
    (limits.first_byte_ms, limits.handshake_ms) = (600_000, 600_000);
    let bench = bench(limits).await;
    let metrics = bench.service.metrics();
    let mut silent = Vec::new();
    for _ in 0..200 {
        silent.push(TcpStream::connect(bench.address).await.unwrap());
    }
    eventually("all are in", || metrics.connections_open.value() >= 200).await;
    // Of the same address, whose lane has one place.
    assert_eq!(sign(&bench.client("build").await, &group(b"x")).await, Ok(1));
    assert!(metrics.connections_open.value() >= 200, "they were there all the time");
}
