//! Whether store and signer belong together, and a signer that cannot be started again.

use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use sealwright_proto::convert::group::Group;
use sealwright_proto::signer_v1::from_signer::Response;
use sealwright_proto::status::Code;
use sealwright_server::{Config, Error, Front};

use crate::bench::{Bench, group};
use crate::peer::{self, Act};
use crate::sign::failure;

async fn refused(store: &Path, greeting: Response) -> Error {
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    peer::greet(&mut theirs, greeting);
    match Front::start(Config::default(), store, ours).await {
        Ok(_) => panic!("started"),
        Err(error) => error,
    }
}

#[tokio::test]
async fn a_root_key_that_is_not_the_stores_is_refused_at_the_start() {
    let bench = Bench::start(|_, _| Act::Sign).await;
    bench.create("release").await;
    let error = refused(&bench.store_folder(), peer::ready_with(1, "c3", false)).await;
    assert!(matches!(error, Error::OtherRootKey { .. }), "{error:?}");
    for text in ["root key", "release", "b2", "c3"] {
        assert!(error.to_string().contains(text), "{text}: {error}");
    }
    assert!(error.advice().contains("Restore root.key"));
}

#[tokio::test]
async fn an_empty_store_beside_a_root_key_that_has_signed_is_refused_at_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store");
    let error = refused(&store, peer::ready_with(1, "b2", true)).await;
    assert!(matches!(error, Error::StoreLost), "{error:?}");
    assert!(error.advice().contains("Restore the store"));
    // A fresh installation is none of this.
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    peer::greet(&mut theirs, peer::ready_with(1, "b2", false));
    Front::start(Config::default(), &store, ours).await.unwrap();
}

/// The first signer dies over the first batch; after that `start` decides.
async fn bench_that_restarts(start: fn(usize) -> std::io::Result<UnixStream>) -> Bench {
    let started = Arc::new(AtomicUsize::new(0));
    let launcher = Arc::new(move || {
        let number = started.fetch_add(1, Ordering::SeqCst);
        if number > 0 {
            return start(number);
        }
        let (ours, theirs) = UnixStream::pair()?;
        peer::start(theirs, Box::new(|_, _| Act::Die));
        Ok(ours)
    });
    let bench = Bench::start_with(launcher).await;
    bench.create("release").await;
    bench
}

#[tokio::test]
async fn when_the_signer_cannot_be_started_again_all_who_wait_and_come_are_told_at_once() {
    let bench = bench_that_restarts(|_| Err(std::io::Error::other("no process numbers left"))).await;
    let groups: Vec<Group> = (0..20_u8).map(|n| group("release", &[&[n]])).collect();
    let begun = Instant::now();
    let mut answers = bench.sign_all(&groups).await;
    assert!(begun.elapsed() < Duration::from_secs(10), "those who waited: {:?}", begun.elapsed());
    let begun = Instant::now();
    for number in 0..10_u8 {
        answers.push(bench.sign(&group("release", &[b"late", &[number]])).await);
    }
    assert!(begun.elapsed() < Duration::from_secs(3), "those who came: {:?}", begun.elapsed());
    for answer in &answers {
        let fault = failure(answer);
        assert_eq!((fault.code, fault.retry_after_ms), (Code::SignerGone, Some(30_000)), "{fault}");
        assert!(fault.message.contains("no process numbers left"), "{fault}");
        assert!(!fault.code.advice().contains("log"), "embedded, there is none");
    }
    assert_eq!(bench.log_size().await, 0);
}

#[tokio::test]
async fn a_signer_that_comes_back_with_another_root_key_is_refused() {
    let bench = bench_that_restarts(|_| {
        let (ours, mut theirs) = UnixStream::pair()?;
        peer::greet(&mut theirs, peer::ready_with(1, "c3", true));
        Ok(ours)
    })
    .await;
    let fault = failure(&bench.sign(&group("release", &[b"x"])).await);
    assert_eq!(fault.code, Code::StoreMismatch, "{fault}");
}

#[tokio::test]
async fn a_refusal_by_the_signer_names_the_key_as_people_know_it() {
    let bench = Bench::start(|_, batch| Act::RefuseNaming(batch.keys[0].key_id)).await;
    let key = bench.create("release").await;
    let fault = failure(&bench.sign(&group("release", &[b"x"])).await);
    assert_eq!(fault.code, Code::GenerationSuperseded);
    let fingerprint = &key.signing_fingerprint;
    assert_eq!(fault.message, format!("key release ({fingerprint}): generation 2 was in use already"));
}
