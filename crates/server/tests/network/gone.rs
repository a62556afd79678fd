//! Clients that go away: before anything of their request has left for the signer nothing is signed for them; then it runs
//! to its end.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use sealwright_proto::status::Code;
use sealwright_proto::v1::signing_client::SigningClient;
use sealwright_server::Limits;
use sealwright_server::metrics::listener::Source as _;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;

use crate::bench::{Bench, eventually, group, sign};
use crate::peer::Act;

/// A signer that waits for each batch until it is told what to do.
async fn bench() -> (Bench, std::sync::mpsc::Sender<Act>, Arc<AtomicUsize>) {
    let (tell, told) = std::sync::mpsc::channel();
    let batches = Arc::new(AtomicUsize::new(0));
    let counting = Arc::clone(&batches);
    let bench = Bench::start_with(Limits::default(), move |_, _| {
        counting.fetch_add(1, Ordering::SeqCst);
        told.recv().unwrap_or(Act::Sign)
    })
    .await;
    (bench, tell, batches)
}

/// Sends a group on a stream that stays open, and does not wait for the answer.
async fn send(channel: Channel, group: &sealwright_proto::convert::group::Group) -> Box<dyn std::any::Any> {
    let (groups, asked) = mpsc::channel(1);
    groups.send(group.to_wire()).await.unwrap();
    let mut client = SigningClient::new(channel);
    let answers = client.sign(ReceiverStream::new(asked)).await.unwrap().into_inner();
    Box::new((groups, client, answers))
}

#[tokio::test]
async fn nothing_is_signed_for_who_went_away_before_its_request_was_recorded() {
    let (bench, tell, batches) = bench().await;
    let metrics = bench.service.metrics();
    let group = group(b"x");
    let first = bench.client("build").await;
    let first = sign(&first, &group);
    tokio::pin!(first);
    tokio::select! {
        answer = &mut first => panic!("{answer:?}"),
        () = eventually("with the signer", || batches.load(Ordering::SeqCst) == 1) => (),
    }
    // The same request once more: it waits for the first attempt, and would take over when that one fails.
    let second = send(bench.client("build").await, &group).await;
    eventually("it waits", || metrics.requests_in_flight.value() == 2).await;
    drop(second);
    eventually("it is gone", || metrics.requests_in_flight.value() == 1).await;
    tell.send(Act::Refuse(Code::Overloaded)).unwrap();
    assert_eq!(first.await, Err(Code::Overloaded));
    assert_eq!(metrics.requests_in_flight.value(), 0);
    assert_eq!(batches.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn what_was_recorded_is_signed_and_kept_for_the_retry_of_who_went_away() {
    let (bench, tell, batches) = bench().await;
    let metrics = bench.service.metrics();
    let group = group(b"x");
    let first = send(bench.client("build").await, &group).await;
    eventually("with the signer", || batches.load(Ordering::SeqCst) == 1).await;
    drop(first);
    eventually("the connection has ended", || metrics.connections_open.value() == 0).await;
    tell.send(Act::Sign).unwrap();
    eventually("it was signed", || metrics.requests_in_flight.value() == 0).await;
    assert_eq!(sign(&bench.client("build").await, &group).await, Ok(1));
    assert_eq!(batches.load(Ordering::SeqCst), 1, "the answer was kept");
}

#[tokio::test]
async fn who_went_away_leaves_the_queue_and_its_retry_begins_anew() {
    let (bench, tell, batches) = bench().await;
    let metrics = bench.service.metrics();
    let client = bench.client("build").await;
    let commits = async || {
        let page = bench.service.page().await;
        let commits = page.lines().find_map(|line| line.strip_prefix("sealwright_store_commits_total "));
        commits.unwrap().parse::<u64>().unwrap()
    };
    // More than the signer may have: some of them wait, and nothing is committed any more.
    let groups: Vec<_> = (0..64_u8).map(|number| group(&[number])).collect();
    let mut sent = Vec::new();
    for group in &groups {
        sent.push(send(client.clone(), group).await);
    }
    let mut before = commits().await;
    loop {
        let queued = "sealwright_queue_groups{backend=\"software\",priority=\"interactive\"} 0";
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        let now = commits().await;
        if metrics.requests_in_flight.value() == 64 && now == before {
            assert!(!bench.service.page().await.lines().any(|line| line == queued), "some wait");
            break;
        }
        before = now;
    }
    let last = group(b"last");
    let leaving = send(bench.client("build").await, &last).await;
    loop {
        if commits().await > before {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    drop(leaving);
    eventually("it has left", || metrics.requests_in_flight.value() == 64).await;
    assert_eq!(batches.load(Ordering::SeqCst), 1, "the signer is still at the first");
    drop(tell);
    eventually("all others are signed", || metrics.requests_in_flight.value() == 0).await;
    let log = bench.service.readiness().await;
    assert!(log.log.is_ok());
    assert_eq!(sign(&bench.client("build").await, &last).await, Ok(1));
}
