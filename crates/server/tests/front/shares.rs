//! The signer's time is shared: between backends, priorities and clients.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

use sealwright_proto::convert::group::{Group, GroupResult, Priority};
use sealwright_proto::names::KeyName;
use sealwright_proto::status::Code;
use sealwright_proto::v1::CreateKeyRequest;
use sealwright_proto::v1::signing_client::SigningClient;
use sealwright_server::{Grants, Principal};

use crate::bench::{Bench, create_request, group};
use crate::peer::Act;
use crate::sign::{failure, signatures};

/// Batches that one token may have with the signer.
const OF_TOKEN: usize = 16;

#[tokio::test]
async fn a_backend_that_stands_still_delays_no_other_also_when_nobody_waits_for_it_any_more() {
    let stuck = Arc::new(Mutex::new(0));
    let counting = Arc::clone(&stuck);
    let bench = Bench::start(move |_, batch| {
        // The second key that was made.
        if batch.keys.iter().any(|key| key.blob == b"sealed 2 1") {
            *counting.lock().unwrap() += 1;
            return Act::Forget;
        }
        Act::Sign
    })
    .await;
    bench.create("software").await;
    let on_token = CreateKeyRequest { token: "hsm1".to_owned(), ..create_request("token") };
    bench.keys().await.create(on_token).await.unwrap();
    let groups = |key: &str, deadline_ms| -> Vec<Group> {
        (0..60_u8).map(|n| Group { deadline_ms, ..group(key, &[&[n]]) }).collect()
    };
    // In the second round it has stood still for longer than they have time: they are told at once.
    let rounds: [(u32, &[Code]); 2] =
        [(1_500, &[Code::DeadlineExceeded, Code::Overloaded]), (1_000, &[Code::Overloaded])];
    for (deadline_ms, codes) in rounds {
        let (token, software) = (groups("token", deadline_ms), groups("software", 20_000));
        let begun = Instant::now();
        let (token, software) = tokio::join!(bench.sign_all(&token), bench.sign_all(&software));
        for answer in &token {
            assert!(codes.contains(&failure(answer).code), "{answer:?}");
        }
        assert!(software.iter().all(|answer| signatures(answer).len() == 1));
        assert!(begun.elapsed() < Duration::from_secs(15), "{:?}", begun.elapsed());
    }
    assert_eq!(*stuck.lock().unwrap(), OF_TOKEN, "its places are taken until the signer answers");
}

#[tokio::test]
async fn the_priority_crosses_to_the_signer_and_batches_are_of_one_priority() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let noting = Arc::clone(&seen);
    let bench = Bench::start(move |_, batch| {
        noting.lock().unwrap().push((batch.priority, batch.requests.len()));
        Act::Sign
    })
    .await;
    bench.create("release").await;
    let groups: Vec<Group> = (0..100_u8)
        .map(|n| {
            let priority = if n % 4 == 0 { Priority::Interactive } else { Priority::Batch };
            Group { priority, ..group("release", &[&[n]]) }
        })
        .collect();
    assert!(bench.sign_all(&groups).await.iter().all(|answer| signatures(answer).len() == 1));
    let items = |priority| {
        let seen = seen.lock().unwrap();
        seen.iter().filter(|(of, _)| *of == priority).map(|(_, items)| items).sum::<usize>()
    };
    assert_eq!((items(Priority::Interactive), items(Priority::Batch)), (25, 75));
}

/// Groups of one client over as many connections as they need.
async fn flood(bench: &Bench, groups: &[Group]) -> Vec<GroupResult> {
    let connections = groups.chunks(200).map(async |groups| bench.sign_all(groups).await);
    let mut answers = Vec::new();
    let mut running: Vec<_> = connections.map(Box::pin).collect();
    let all = std::future::poll_fn(|context| {
        running.retain_mut(|one| match one.as_mut().poll(context) {
            std::task::Poll::Ready(some) => {
                answers.extend(some);
                false
            }
            std::task::Poll::Pending => true,
        });
        if running.is_empty() { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    });
    all.await;
    answers
}

#[tokio::test]
async fn a_client_that_takes_all_it_can_is_refused_at_once_and_another_is_served() {
    let (release, released) = mpsc::channel::<()>();
    let bench = Bench::start_patient(Box::new(move |number, _| {
        if number == 0 {
            released.recv().unwrap();
        }
        Act::Sign
    }))
    .await;
    bench.create("release").await;
    let patient = |group| Group { deadline_ms: 300_000, ..group };
    let groups = (0..1400_u32).map(|n| patient(group("release", &[&n.to_be_bytes()])));
    let groups: Vec<Group> = groups.collect();
    let other = async {
        // As long as the first client has all places that it can have.
        while bench.front.metrics().requests_in_flight.value() < 1000 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let granted = BTreeSet::from([KeyName::parse("release").unwrap()]);
        let other = Principal::new("other", Grants::keys(granted)).unwrap();
        let mut client = SigningClient::new(bench.connect(other).await);
        let asked = tokio_stream::once(patient(group("release", &[b"other"])).to_wire());
        let mut stream = client.sign(asked).await.unwrap().into_inner();
        tokio::time::sleep(Duration::from_millis(300)).await;
        release.send(()).unwrap();
        GroupResult::parse(stream.message().await.unwrap().unwrap()).unwrap()
    };
    let (answers, other) = tokio::join!(flood(&bench, &groups), other);
    assert_eq!(signatures(&other).len(), 1);
    let (signed, refused): (Vec<_>, Vec<_>) = answers.iter().partition(|answer| answer.outcome.is_ok());
    assert!(signed.len() >= 1024, "{}", signed.len());
    assert!(!refused.is_empty());
    for answer in refused {
        let fault = failure(answer);
        assert!(fault.retry_after_ms.is_some_and(|ms| (100..=30_000).contains(&ms)), "{fault:?}");
        assert_eq!(fault.code, Code::Overloaded);
    }
}

#[tokio::test]
async fn a_front_that_ends_closes_the_socket_also_when_a_batch_was_never_answered() {
    let (alive, ended) = mpsc::channel::<()>();
    let bench = Bench::start_patient(Box::new(move |_, _| {
        let _held_by_the_signer = &alive;
        Act::Forget
    }))
    .await;
    bench.create("release").await;
    let quick = Group { deadline_ms: 200, ..group("release", &[b"x"]) };
    assert_eq!(failure(&bench.sign(&quick).await).code, Code::DeadlineExceeded);
    drop(bench);
    let waited = tokio::task::spawn_blocking(move || ended.recv_timeout(Duration::from_secs(60))).await;
    assert_eq!(waited.unwrap(), Err(mpsc::RecvTimeoutError::Disconnected), "the signer saw the end");
}
