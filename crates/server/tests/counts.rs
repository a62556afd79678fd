//! What is decoded is decoded at a reload: nothing of it for a connection. Alone in its process, because the counts are
//! the process's.

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

use bench::{Bench, describe};
use sealwright_server::metrics::Handshake;
use sealwright_server::tls;

/// Optimised, as many as a server may have at once.
const CONNECTIONS: u64 = if cfg!(debug_assertions) { 1_000 } else { 10_000 };

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn thousands_of_connections_decode_nothing() {
    let bench = Bench::start().await;
    let counts = tls::counts();
    assert_eq!((counts.key_decode_total, counts.tls_config_builds_total), (1, 1));
    let certified = bench.authority.client("build");
    let config = bench.config(&certified);
    for number in 0..CONNECTIONS {
        // Nine in ten are resumed.
        let config = if number % 10 == 0 { bench.config(&certified) } else { config.clone() };
        let stream = bench::tls(bench.address, &config).await.unwrap();
        if number % 50 == 0 {
            assert_eq!(describe(&bench::channel(stream).await).await.unwrap(), "release");
        } else {
            drop(stream);
        }
    }
    let metrics = bench.service.metrics();
    bench::eventually("all are counted", || {
        metrics.handshakes(Handshake::Completed)
            + metrics.handshakes(Handshake::Resumed)
            + metrics.handshakes(Handshake::Failed)
            > CONNECTIONS
    })
    .await;
    assert_eq!(tls::counts(), counts);
    tls::server_config(&bench.authority.material()).unwrap();
    assert_eq!(tls::counts().tls_config_builds_total, 2, "the control");
}
