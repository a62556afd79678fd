//! Limits on connections: how many, of whom, for how long without a request.

use sealwright_server::Limits;
use sealwright_server::metrics::{Closed, Handshake};
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;

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
    limits.handshake_ms = 60_000;
    limits.connections_per_client = 5_000;
    limits
}

#[tokio::test]
async fn above_the_number_of_connections_one_is_closed_unheard_and_below_it_let_in_again() {
    let mut limits = limits();
    limits.connections = 3;
    let bench = bench(limits).await;
    let metrics = bench.service.metrics();
    eventually("the operator has left", || metrics.connections_open.value() == 0).await;
    let client = bench.client("build").await;
    let mut silent = Vec::new();
    for open in [2, 3] {
        silent.push(TcpStream::connect(bench.address).await.unwrap());
        eventually("accepted", || metrics.connections_open.value() == open).await;
    }
    for _ in 0..3 {
        assert!(closed(TcpStream::connect(bench.address).await.unwrap()).await.is_empty());
    }
    assert_eq!(metrics.closings(Closed::Connections), 3);
    assert_eq!(sign(&client, &group(b"x")).await, Ok(1), "who is in stays in");
    drop(silent);
    eventually("the silent ones have left", || metrics.connections_open.value() == 1).await;
    assert!(describe(&bench.client("build").await).await.is_ok());
}

#[tokio::test]
async fn one_address_has_a_limit_of_its_own() {
    let mut limits = limits();
    limits.connections_per_address = 2;
    let bench = bench(limits).await;
    let metrics = bench.service.metrics();
    eventually("the operator has left", || metrics.connections_open.value() == 0).await;
    let _first = TcpStream::connect(bench.address).await.unwrap();
    let _second = TcpStream::connect(bench.address).await.unwrap();
    assert!(closed(TcpStream::connect(bench.address).await.unwrap()).await.is_empty());
    assert_eq!((metrics.closings(Closed::PerAddress), metrics.closings(Closed::Connections)), (1, 0));
    // Another address of this machine.
    let other = tokio::net::TcpSocket::new_v4().unwrap();
    other.bind("127.0.0.2:0".parse().unwrap()).unwrap();
    let _other = other.connect(bench.address).await.unwrap();
    eventually("let in", || metrics.connections_open.value() == 3).await;
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_storm_of_clients_is_served_whole() {
    let mut limits = limits();
    limits.handshakes = 8;
    let bench = bench(limits).await;
    let config = bench.config(&bench.authority.client("build"));
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..300 {
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
}

#[tokio::test]
async fn who_connects_and_says_nothing_takes_no_place_of_a_handshake() {
    let mut limits = limits();
    limits.handshakes = 4;
    limits.handshake_ms = 600_000;
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
