//! The end of a service: what is in flight is answered, nothing new is begun, and it ends.

use std::time::Duration;

use sealwright_proto::status::{Code, Fault};
use sealwright_proto::v1::signing_client::SigningClient;
use sealwright_server::Limits;
use sealwright_server::metrics::Closed;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

use crate::bench::{Bench, describe, eventually, group, outcome};
use crate::peer::Act;

/// A signer that signs when it is told to, and says when it was asked.
async fn bench() -> (Bench, std::sync::mpsc::Sender<()>, mpsc::UnboundedReceiver<()>) {
    let (release, held) = std::sync::mpsc::channel::<()>();
    let (asking, asked) = mpsc::unbounded_channel();
    let bench = Bench::start_with(Limits::default(), move |_, _| {
        let _ = asking.send(());
        let _ = held.recv();
        Act::Sign
    })
    .await;
    (bench, release, asked)
}

#[tokio::test]
async fn in_flight_is_answered_new_groups_are_sent_elsewhere_and_the_stream_ends() {
    let (bench, release, mut asked) = bench().await;
    let (groups, stream) = mpsc::channel(4);
    let channel = bench.client("build").await;
    let mut client = SigningClient::new(channel.clone());
    let mut answers = client.sign(ReceiverStream::new(stream)).await.unwrap().into_inner();
    let first = group(b"first");
    groups.send(first.to_wire()).await.unwrap();
    asked.recv().await.unwrap();
    let draining = {
        let service = bench.service.clone();
        tokio::spawn(async move { service.drain(Duration::from_secs(60)).await })
    };
    bench.serving.await.unwrap();
    let late = group(b"late");
    groups.send(late.to_wire()).await.unwrap();
    let refused = answers.message().await.unwrap().unwrap();
    assert_eq!(refused.request_id, late.request_id.as_bytes());
    assert_eq!(outcome(refused), Err(Code::ShuttingDown));
    release.send(()).unwrap();
    let signed = answers.message().await.unwrap().unwrap();
    assert_eq!(signed.request_id, first.request_id.as_bytes());
    assert_eq!(outcome(signed), Ok(1));
    let end = answers.message().await.unwrap_err();
    assert_eq!(Fault::from(&end).code, Code::ShuttingDown);
    assert!(Fault::from(&end).retry_after_ms.is_some());
    assert_eq!(draining.await.unwrap(), 0);
    assert!(describe(&channel).await.is_err());
    assert!(tokio::net::TcpStream::connect(bench.address).await.is_err(), "nobody listens");
}

#[tokio::test]
async fn idle_connections_do_not_hold_up_the_end() {
    let (bench, _release, _asked) = bench().await;
    let clients = [bench.client("build").await, bench.client("build").await];
    for client in &clients {
        assert!(describe(client).await.is_ok());
    }
    let mut silent = tokio::net::TcpStream::connect(bench.address).await.unwrap();
    assert_eq!(bench.service.drain(Duration::from_secs(60)).await, 0);
    assert!(tokio::io::AsyncReadExt::read_u8(&mut silent).await.is_err());
}

#[tokio::test]
async fn what_does_not_end_in_time_is_cut_off() {
    let (bench, _release, mut asked) = bench().await;
    let (groups, stream) = mpsc::channel(4);
    let mut client = SigningClient::new(bench.client("build").await);
    let mut answers = client.sign(ReceiverStream::new(stream)).await.unwrap().into_inner();
    groups.send(group(b"x").to_wire()).await.unwrap();
    asked.recv().await.unwrap();
    assert_eq!(bench.service.drain(Duration::from_millis(200)).await, 1);
    assert!(answers.message().await.is_err());
    let metrics = bench.service.metrics();
    assert_eq!(metrics.closings(Closed::Drain), 1);
    eventually("all have ended", || metrics.connections_open.value() == 0).await;
}
