//! A crowd of one address that is in nobody's way: an honest client of the same address connects anew for each
//! signature, and each of its calls succeeds at its first attempt.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustls::pki_types::ServerName;
use sealwright_server::Limits;
use sealwright_server::metrics::Closed;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

use crate::bench::{Bench, channel, config, eventually, group, sign, tls};
use crate::peer::Act;

/// Both ends are in this process: a crowd needs twice its number.
fn raise_descriptors() {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum }).unwrap();
    let most = limit.maximum.unwrap_or(u64::MAX);
    assert!(most >= 12_000, "this test needs 12,000 open files, and may have {most} (ulimit -Hn)");
}

/// A number of its own, or what `cargo xtask soak --serve` wants.
#[expect(clippy::disallowed_methods, reason = "the length of a soak test is set from outside")]
fn connections(otherwise: usize) -> usize {
    let wanted = std::env::var("SEALWRIGHT_CROWD").ok();
    wanted.and_then(|wanted| wanted.parse().ok()).unwrap_or(otherwise)
}

/// Connects anew each time.
async fn signs(bench: &Bench, name: &str, times: usize) {
    let config = bench.config(&bench.authority.client(name));
    for number in 0..times {
        let channel = channel(tls(bench.address, &config).await.unwrap()).await;
        assert_eq!(sign(&channel, &group(&number.to_be_bytes())).await, Ok(1), "{name}, {number}");
    }
}

fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("RssAnon:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[expect(clippy::print_stdout, reason = "for who reads what a soak test measured")]
fn figure(text: &str) {
    println!("{text}");
}

/// Connects so often and says this, while the honest client signs, and then again. Nobody leaves because of the time.
async fn crowd_that_says(said: &[u8], count: usize) -> (Bench, Vec<TcpStream>) {
    raise_descriptors();
    let mut limits = Limits::default();
    (limits.first_byte_ms, limits.handshake_ms) = (600_000, 600_000);
    let bench = Bench::start_with(limits, |_, _| Act::Sign).await;
    signs(&bench, "operator", 1).await;
    let before_kib = resident_kib();
    let crowd = async {
        let mut crowd = Vec::new();
        for _ in 0..count {
            let mut socket = TcpStream::connect(bench.address).await.unwrap();
            socket.write_all(said).await.unwrap();
            crowd.push(socket);
        }
        crowd
    };
    let (crowd, ()) = tokio::join!(crowd, signs(&bench, "operator", 40));
    signs(&bench, "operator", 20).await;
    let more_kib = resident_kib().saturating_sub(before_kib);
    figure(&format!("{count} that say {} bytes: {more_kib} KiB, both ends", said.len()));
    let metrics = bench.service.metrics();
    let stay = count.min(usize::try_from(Limits::default().unauthenticated_per_address).unwrap());
    let (stay, left) = (i64::try_from(stay).unwrap(), count.saturating_sub(stay));
    // One of them has left for the honest client, and he is not one of them any more.
    let are_there = || (stay - 1..=stay).contains(&metrics.connections_unauthenticated.value());
    eventually("as many as may be are there", are_there).await;
    assert!(metrics.closings(Closed::Unauthenticated) >= u64::try_from(left).unwrap(), "the oldest left");
    (bench, crowd)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn five_thousand_silent_sockets_are_noticed_by_nobody() {
    let (_bench, crowd) = crowd_that_says(b"", 5_000).await;
    drop(crowd);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_halves_of_a_first_message_are_noticed_by_nobody() {
    let (_bench, crowd) = crowd_that_says(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 1_000).await;
    drop(crowd);
}

/// Each of them has us compute our side of a handshake, and does not go on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_first_messages_that_are_not_followed_up_are_noticed_by_nobody() {
    let authority = crate::certificates::Authority::new();
    let name = ServerName::try_from("localhost").unwrap();
    let mut hello = Vec::new();
    rustls::ClientConnection::new(config(&authority.pem, None), name).unwrap().write_tls(&mut hello).unwrap();
    let (_bench, crowd) = crowd_that_says(&hello, 1_000).await;
    drop(crowd);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn idle_connections_of_one_client_end_at_its_limit_and_another_client_notices_nothing() {
    raise_descriptors();
    let count = connections(1_300);
    let bench = Bench::start().await;
    signs(&bench, "operator", 1).await;
    let before_kib = resident_kib();
    let of_one = bench.config(&bench.authority.client("build"));
    let crowd = async {
        let mut crowd = Vec::new();
        for _ in 0..count {
            crowd.push(tls(bench.address, &of_one).await.unwrap());
        }
        crowd
    };
    let (mut crowd, ()) = tokio::join!(crowd, signs(&bench, "operator", 40));
    let metrics = bench.service.metrics();
    let one_too_many = u64::try_from(count).unwrap() - u64::from(Limits::default().connections_per_client);
    eventually("those over the limit were refused", || metrics.closings(Closed::PerClient) == one_too_many)
        .await;
    eventually("and have left", || metrics.connections_unauthenticated.value() == 0).await;
    signs(&bench, "operator", 20).await;
    let more_kib = resident_kib().saturating_sub(before_kib);
    figure(&format!("{count} idle connections of one client: {more_kib} KiB, both ends"));
    // The first of the crowd is one of those that stay.
    let first = channel(crowd.swap_remove(0)).await;
    assert_eq!(sign(&first, &group(b"still here")).await, Ok(1));
}
