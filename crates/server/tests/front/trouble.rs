//! The signer refuses, lies, is slow, dies: what is answered, stored and logged then.

use std::collections::BTreeSet;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use sealwright_proto::convert::batch::SignedItem;
use sealwright_proto::convert::group::Group;
use sealwright_proto::signer_v1::from_signer::Response;
use sealwright_proto::status::{Code, Fault};
use sealwright_proto::v1::SignGroup;
use sealwright_proto::v1::signing_client::SigningClient;
use sealwright_server::{Config, Error, Front, Grants, Principal};

use crate::bench::{Bench, group};
use crate::peer::{self, Act};
use crate::sign::{failure, signatures};

#[tokio::test]
async fn a_final_refusal_is_stored_logged_nowhere_and_answered_again() {
    for act in [|_| Act::Refuse(Code::UsageNotAllowed), |_| Act::RefuseAll(Code::UsageNotAllowed)] {
        let bench = Bench::start(move |number, _| act(number)).await;
        bench.create("release").await;
        let group = group("release", &[b"first", b"second"]);
        let first = bench.sign(&group).await;
        assert_eq!(failure(&first).code, Code::UsageNotAllowed);
        assert_eq!(bench.sign(&group).await, first, "a retry gets the same");
        assert_eq!((bench.signer.batches(), bench.log_size().await), (1, 0));
    }
}

#[tokio::test]
async fn a_refusal_that_can_pass_is_not_stored_and_a_retry_signs() {
    for act in [|| Act::Refuse(Code::Overloaded), || Act::RefuseAll(Code::Overloaded)] {
        let bench = Bench::start(move |number, _| if number == 0 { act() } else { Act::Sign }).await;
        bench.create("release").await;
        let group = group("release", &[b"x"]);
        let refused = failure(&bench.sign(&group).await);
        assert_eq!(refused.code, Code::Overloaded);
        assert!(refused.retry_after_ms.is_some());
        assert_eq!(bench.log_size().await, 0);
        assert_eq!(signatures(&bench.sign(&group).await).len(), 1);
    }
}

#[tokio::test]
async fn an_answer_that_is_not_what_was_asked_for_is_never_logged() {
    let spoils: [fn(&mut SignedItem); 6] = [
        |item| item.packet.truncate(10),
        |item| item.packet = b"not a packet".to_vec(),
        |item| item.packet.extend(item.packet.clone()),
        |item| item.created += 1,
        |item| item.digest.push(0),
        |item| item.digest.truncate(31),
    ];
    for (number, spoil) in spoils.into_iter().enumerate() {
        let bench = Bench::start(move |_, _| Act::Spoil(spoil)).await;
        bench.create("release").await;
        let fault = failure(&bench.sign(&group("release", &[b"first", b"second"])).await);
        let caught = matches!(fault.code, Code::SignatureSelfCheckFailed | Code::Internal);
        assert!(caught, "{number}: {fault:?}");
        assert_eq!(bench.log_size().await, 0, "{number}");
    }
    let bench = Bench::start(|_, _| Act::AnswerOneLess).await;
    bench.create("release").await;
    assert_eq!(failure(&bench.sign(&group("release", &[b"first", b"second"])).await).code, Code::Internal);
    assert_eq!(bench.log_size().await, 0);
}

#[tokio::test]
async fn a_signature_by_another_key_is_never_logged() {
    let bench = Bench::start(|_, _| Act::Sign).await;
    bench.create("fixture").await;
    // Its fingerprint is made up, so the fixture's signature is not its own.
    bench.create("other").await;
    let fault = failure(&bench.sign(&group("other", &[b"x"])).await);
    assert_eq!(fault.code, Code::SignatureSelfCheckFailed);
    assert!(fault.message.contains("another key"), "{fault}");
    assert_eq!(bench.log_size().await, 0);
}

#[tokio::test]
async fn when_the_signer_dies_everyone_in_flight_and_after_is_told_to_retry() {
    // Two groups are in flight, in a batch each, when the third kills it.
    let bench = Bench::start(|number, _| if number == 2 { Act::Die } else { Act::Forget }).await;
    bench.create("release").await;
    let groups: Vec<Group> = (0..3_u8).map(|n| group("release", &[&[n]])).collect();
    let one = async |number: usize| {
        while bench.signer.batches() < number {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        bench.sign(&groups[number]).await
    };
    let answers = tokio::join!(one(0), one(1), one(2));
    for answer in [answers.0, answers.1, answers.2] {
        let fault = failure(&answer);
        assert_eq!(fault.code, Code::SignerGone);
        assert!(fault.retry_after_ms.is_some());
    }
    assert_eq!(bench.signer.batches(), 3);
    assert_eq!(failure(&bench.sign(&group("release", &[b"late"])).await).code, Code::SignerGone);
    assert_eq!(bench.log_size().await, 0);
}

#[tokio::test]
async fn a_silent_signer_costs_the_deadline_and_a_retry_signs() {
    let bench = Bench::start(|number, _| if number == 0 { Act::Forget } else { Act::Sign }).await;
    bench.create("release").await;
    let quick = Group { deadline_ms: 300, ..group("release", &[b"x"]) };
    let start = Instant::now();
    assert_eq!(failure(&bench.sign(&quick).await).code, Code::DeadlineExceeded);
    assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
    assert_eq!(bench.log_size().await, 0);
    let patient = Group { deadline_ms: 20_000, ..quick };
    assert_eq!(signatures(&bench.sign(&patient).await).len(), 1);
}

#[tokio::test]
async fn a_group_that_breaks_a_rule_is_refused_by_its_id_and_the_stream_goes_on() {
    let bench = Bench::start(|_, _| Act::Sign).await;
    bench.create("release").await;
    let good = group("release", &[b"x"]);
    let mut empty = group("release", &[b"x"]).to_wire();
    empty.items.clear();
    let groups = [SignGroup::default(), empty.clone(), good.to_wire()];
    let mut client = SigningClient::new(bench.connect(Principal::local()).await);
    let mut stream = client.sign(tokio_stream::iter(groups)).await.unwrap().into_inner();
    let mut codes = Vec::new();
    while let Some(answer) = stream.message().await.unwrap() {
        codes.push((answer.request_id, answer.failure.map(|failure| Fault::from(failure).code)));
    }
    codes.sort_by_key(|(id, _)| id.clone());
    let mut want = vec![
        (Vec::new(), Some(Code::MalformedRequest)),
        (empty.request_id, Some(Code::MalformedRequest)),
        (good.request_id.as_bytes().to_vec(), None),
    ];
    want.sort_by_key(|(id, _)| id.clone());
    assert_eq!(codes, want);
}

#[tokio::test]
async fn a_principal_without_a_grant_is_refused_before_anything_is_recorded() {
    let bench = Bench::start(|_, _| Act::Sign).await;
    bench.create("release").await;
    let commits = bench.front.store_commits();
    let stranger = Principal::new("stranger", Grants::keys(BTreeSet::new())).unwrap();
    let mut client = SigningClient::new(bench.connect(stranger).await);
    let asked = tokio_stream::once(group("release", &[b"x"]).to_wire());
    let mut stream = client.sign(asked).await.unwrap().into_inner();
    let answer = stream.message().await.unwrap().unwrap();
    assert_eq!(Fault::from(answer.failure.unwrap()).code, Code::PermissionDenied);
    assert_eq!((bench.signer.batches(), bench.front.store_commits()), (0, commits));
}

#[tokio::test]
async fn a_signer_that_does_not_serve_says_why_and_front_does_not_start() {
    let refusals = [
        (Response::Failure(Fault::new(Code::RootKeyWrong, "another root key").into()), "another root key"),
        (peer::ready(2), "version 2"),
    ];
    for (greeting, text) in refusals {
        let folder = tempfile::tempdir().unwrap();
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        peer::greet(&mut theirs, greeting);
        let Err(error) = Front::start(Config::default(), folder.path(), ours).await else {
            panic!("started")
        };
        assert!(matches!(error, Error::Signer(_)), "{error:?}");
        assert!(error.to_string().contains(text), "{error}");
        assert!(!error.advice().is_empty());
    }
    let folder = tempfile::tempdir().unwrap();
    let (ours, theirs) = UnixStream::pair().unwrap();
    drop(theirs);
    let Err(Error::Signer(fault)) = Front::start(Config::default(), folder.path(), ours).await else {
        panic!("started")
    };
    assert_eq!(fault.code, Code::SignerGone);
}

/// Signers made by a launcher: the number of the signer, from 0, decides what it does.
fn launcher(on_sign: fn(usize) -> Act) -> (sealwright_server::Launcher, Arc<AtomicUsize>) {
    let started = Arc::new(AtomicUsize::new(0));
    let counting = Arc::clone(&started);
    let launcher = Arc::new(move || {
        let number = counting.fetch_add(1, Ordering::SeqCst);
        let (ours, theirs) = UnixStream::pair()?;
        peer::start(theirs, Box::new(move |_, _| on_sign(number)));
        Ok(ours)
    });
    (launcher, started)
}

#[tokio::test]
async fn a_signer_that_dies_is_started_again_and_the_request_in_its_hands_is_signed() {
    let (launcher, started) = launcher(|number| if number < 2 { Act::Die } else { Act::Sign });
    let bench = Bench::start_with(launcher).await;
    bench.create("release").await;
    // The first dies over the request, and so does the second: front asks twice, the third time is the client's.
    let group = group("release", &[b"x"]);
    assert_eq!(failure(&bench.sign(&group).await).code, Code::SignerGone);
    assert_eq!(signatures(&bench.sign(&group).await).len(), 1);
    assert_eq!((started.load(Ordering::SeqCst), bench.log_size().await), (3, 1));
}

#[tokio::test]
async fn a_signer_that_hangs_is_replaced_and_the_request_in_its_hands_is_signed() {
    let (launcher, started) = launcher(|number| if number == 0 { Act::Forget } else { Act::Sign });
    let bench = Bench::start_with(launcher).await;
    bench.create("release").await;
    let groups: Vec<Group> = (0..20_u8).map(|n| group("release", &[&[n]])).collect();
    let begun = Instant::now();
    for answer in bench.sign_all(&groups).await {
        assert_eq!(signatures(&answer).len(), 1);
    }
    assert!(begun.elapsed() < Duration::from_secs(18), "{:?}", begun.elapsed());
    assert_eq!((started.load(Ordering::SeqCst), bench.log_size().await), (2, 20));
}

#[tokio::test]
async fn a_request_outlives_one_death_of_the_signer() {
    let (launcher, started) = launcher(|number| if number == 0 { Act::Die } else { Act::Sign });
    let bench = Bench::start_with(launcher).await;
    bench.create("release").await;
    assert_eq!(signatures(&bench.sign(&group("release", &[b"x"])).await).len(), 1);
    assert_eq!((started.load(Ordering::SeqCst), bench.log_size().await), (2, 1));
}

#[tokio::test]
async fn a_signer_that_does_not_start_again_is_refused_by_its_reason() {
    let started = Arc::new(AtomicUsize::new(0));
    let launcher = Arc::new(move || {
        let (ours, mut theirs) = UnixStream::pair()?;
        if started.fetch_add(1, Ordering::SeqCst) == 0 {
            peer::start(theirs, Box::new(|_, _| Act::Die));
        } else {
            let fault = Fault::new(Code::RootKeyWrong, "another root key");
            peer::greet(&mut theirs, Response::Failure(fault.into()));
        }
        Ok(ours)
    });
    let bench = Bench::start_with(launcher).await;
    bench.create("release").await;
    let begun = Instant::now();
    assert_eq!(failure(&bench.sign(&group("release", &[b"x"])).await).code, Code::RootKeyWrong);
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
}
