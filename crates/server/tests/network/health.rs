//! Health: it says SERVING only while a request would be signed.

use sealwright_proto::health_v1::HealthCheckRequest;
use sealwright_proto::health_v1::health_check_response::ServingStatus;
use sealwright_proto::health_v1::health_client::HealthClient;
use sealwright_proto::status::{Code, Fault};
use sealwright_server::Limits;

use crate::bench::{Bench, group, sign};
use crate::peer::Act;

fn about(service: &str) -> HealthCheckRequest {
    HealthCheckRequest { service: service.to_owned() }
}

#[tokio::test]
async fn each_service_and_the_whole_serve_or_none() {
    let bench = Bench::start().await;
    let mut health = HealthClient::new(bench.client("build").await);
    for service in ["", "sealwright.v1.Signing", "sealwright.v1.Keys"] {
        let answer = health.check(about(service)).await.unwrap().into_inner();
        assert_eq!(answer.status(), ServingStatus::Serving, "{service}");
    }
    let unknown = health.check(about("other")).await.unwrap_err();
    assert_eq!(unknown.code(), tonic::Code::NotFound);
    let mut watched = health.watch(about("other")).await.unwrap().into_inner();
    let answer = watched.message().await.unwrap().unwrap();
    assert_eq!(answer.status(), ServingStatus::ServiceUnknown);
    assert!(bench.service.readiness().await.is_ready());
    let stranger = HealthClient::new(bench.client("stranger").await).check(about("")).await.unwrap_err();
    assert_eq!(Fault::from(&stranger).code, Code::UnknownClient);
}

#[tokio::test]
async fn without_a_signer_it_does_not_serve_and_a_watcher_is_told() {
    let bench = Bench::start_with(Limits::default(), |_, _| Act::Die).await;
    let channel = bench.client("build").await;
    let mut health = HealthClient::new(channel.clone());
    let mut watched = health.watch(about("")).await.unwrap().into_inner();
    assert_eq!(watched.message().await.unwrap().unwrap().status(), ServingStatus::Serving);
    assert_eq!(sign(&channel, &group(b"x")).await, Err(Code::SignerGone));
    assert_eq!(watched.message().await.unwrap().unwrap().status(), ServingStatus::NotServing);
    let readiness = bench.service.readiness().await;
    assert!(!readiness.is_ready() && readiness.signer.is_err(), "{readiness:?}");
    assert_eq!(readiness.reasons().map(|(part, _)| part).collect::<Vec<_>>(), ["signer"]);
}

#[tokio::test]
async fn a_drain_ends_the_watch_with_not_serving() {
    let bench = Bench::start().await;
    let mut health = HealthClient::new(bench.client("build").await);
    let mut watched = health.watch(about("")).await.unwrap().into_inner();
    assert_eq!(watched.message().await.unwrap().unwrap().status(), ServingStatus::Serving);
    assert_eq!(bench.service.drain(std::time::Duration::from_secs(60)).await, 0);
    assert_eq!(watched.message().await.unwrap().unwrap().status(), ServingStatus::NotServing);
    assert!(watched.message().await.unwrap().is_none());
}
