//! A process without a descriptor left: it stays calm, tells its peers, and goes on when there are some. Alone in its
//! process, because the limit is the process's.

#![allow(
    dead_code,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::expect_used,
    clippy::panic,
    reason = "tests"
)]

#[path = "network/bench.rs"]
mod bench;
#[path = "network/certificates.rs"]
mod certificates;
#[path = "front/peer.rs"]
mod peer;

use bench::{Bench, describe, group, sign};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use sealwright_server::metrics::Closed;
use tokio::io::AsyncReadExt as _;

#[tokio::test]
async fn without_descriptors_peers_are_turned_away_and_afterwards_served() {
    let bench = Bench::start().await;
    let client = bench.client("build").await;
    assert_eq!(sign(&client, &group(b"before")).await, Ok(1));
    // The sockets of the other side exist beforehand; then there is no descriptor for ours.
    let sockets: Vec<_> = (0..20).map(|_| tokio::net::TcpSocket::new_v4().unwrap()).collect();
    let usual = getrlimit(Resource::Nofile);
    // The lowest number that is free is the first that may not be had.
    let lowest = std::fs::File::open("/dev/null").unwrap();
    let lowest_free = u64::try_from(std::os::fd::AsRawFd::as_raw_fd(&lowest)).unwrap();
    drop(lowest);
    setrlimit(Resource::Nofile, Rlimit { current: Some(lowest_free), maximum: usual.maximum }).unwrap();
    let mut turned_away = 0;
    // Kept: one that is closed would leave its descriptor to the server.
    let mut kept = Vec::new();
    for socket in sockets {
        let mut socket = socket.connect(bench.address).await.unwrap();
        // Closed by the server, which had nothing to read from it.
        if socket.read_u8().await.is_err() {
            turned_away += 1;
        }
        kept.push(socket);
    }
    assert_eq!(turned_away, 20);
    let failures = bench.service.metrics().closings(Closed::Descriptors);
    // Each was accepted once, and perhaps found nobody there once: no loop that spins.
    assert!((20..200).contains(&failures), "{failures}");
    assert_eq!(sign(&client, &group(b"meanwhile")).await, Ok(1), "who is in is served");
    drop(kept);
    setrlimit(Resource::Nofile, usual).unwrap();
    assert!(describe(&bench.client("build").await).await.is_ok());
}
