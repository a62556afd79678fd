//! Lines that a client can cause. In a process of its own: what is logged belongs to the whole of one.

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

use sealwright_proto::status::{Code, Fault};

use crate::bench::{Bench, sign};

/// What is logged, as text.
#[derive(Clone, Default)]
struct Logged(std::sync::Arc<std::sync::Mutex<Vec<u8>>>);

impl std::io::Write for Logged {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// How many lines there are of refusals for want of a grant, and of how many refusals they tell.
fn told_of(logged: &Logged) -> (u64, u64) {
    let logged = String::from_utf8(logged.0.lock().unwrap().clone()).unwrap();
    let lines = logged.lines().filter(|line| line.contains("permission-denied"));
    let left_out = lines.map(|line| {
        let (_, left_out) = line.split_once("left_out=").unwrap();
        left_out.split(' ').next().unwrap().parse::<u64>().unwrap()
    });
    left_out.fold((0, 0), |(lines, told), left_out| (lines + 1, told + left_out + 1))
}

#[tokio::test]
async fn a_storm_of_groups_and_calls_without_a_grant_writes_a_line_a_second_and_counts_the_others() {
    const STORM: u64 = 400;
    let logged = Logged::default();
    let writer = logged.clone();
    let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone()).finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    let bench = Bench::start().await;
    let client = bench.client("build").await;
    let begun = std::time::Instant::now();
    let content = sealwright_crypto::tbs::Content::Midstate(crate::bench::hasher(b"x").midstate());
    let group = crate::bench::group_of("other", content);
    for _ in 0..STORM / 2 {
        assert_eq!(sign(&client, &group).await, Err(Code::PermissionDenied));
        let asked = sealwright_proto::v1::DescribeKeyRequest { key: "other".to_owned() };
        let mut keys = sealwright_proto::v1::keys_client::KeysClient::new(client.clone());
        let fault = Fault::from(&keys.describe(asked).await.unwrap_err());
        assert_eq!(fault.code, Code::PermissionDenied);
    }
    crate::bench::eventually("all are told of", || told_of(&logged).1 == STORM).await;
    let (lines, _) = told_of(&logged);
    assert!(lines <= begun.elapsed().as_secs() + 2, "{lines} lines");
}
