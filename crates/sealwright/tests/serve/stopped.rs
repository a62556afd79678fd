//! A signer that stands still: requests fail by name at their deadlines, more than can wait are refused early, memory
//! stays as it is, and afterwards all goes on.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use sealwright_proto::status::{Code, Fault};
use sealwright_testkit::fixtures::ED25519;
use sealwright_testkit::server::{Server, anonymous_kib};

use super::caller::Caller;
use super::load::{Load, each_signature_is_logged_once};
use super::{PROGRAM, times};

/// Connections, and groups on each: more than the queue to the signer has places for.
const CONNECTIONS: usize = 8;
const GROUPS: usize = 300;

/// Milliseconds until a group is of no use any more.
const DEADLINE_MS: u32 = 2_500;

/// Growth of front's memory that says nothing: buffers of these connections.
const GROWTH_KIB_MAX: u64 = 16 << 10;

#[tokio::test(flavor = "multi_thread")]
async fn requests_to_a_signer_that_stands_still_fail_typed_and_memory_stays_flat() {
    let mut server = Server::running(PROGRAM, &[ED25519]);
    let mut callers = Vec::new();
    for _ in 0..CONNECTIONS {
        callers.push(Caller::connect(&server).await);
    }
    for caller in &mut callers {
        assert!(caller.sign(ED25519.name, GROUPS, 60_000).await.iter().all(Result::is_ok));
    }
    let load = Load::start(&server, "a", ED25519.name);
    server.until("signatures", || load.signed() > 0);
    let (front, signer) = (server.child("front"), server.child("signer"));
    server.signal(signer, "STOP");
    let begun = Instant::now();
    let stopped = Duration::from_secs(u64::try_from(times("SEALWRIGHT_SERVE_STOPPED_S", 8)).unwrap());
    // Some wait, until it is known that nothing moves; what was in its socket is answered by nobody, but was sent before.
    let mut counts = refused(&mut callers).await;
    let before = anonymous_kib(front);
    let mut peak = before;
    while begun.elapsed() < stopped {
        for (code, count) in refused(&mut callers).await {
            *counts.entry(code).or_default() += count;
        }
        peak = peak.max(anonymous_kib(front));
    }
    let stood_s = begun.elapsed().as_secs();
    let signed = load.signed();
    server.signal(signer, "CONT");
    for caller in &mut callers {
        let outcomes = caller.sign(ED25519.name, 10, 60_000).await;
        assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
    }
    server.until("the clients go on", || load.signed() > signed);
    let failed = load.stop().len();
    println!(
        "the signer stood still for {stood_s} s: {counts:?}; a client beside it: {failed} files failed by name; \
         front {before} KiB, at most {peak} KiB"
    );
    assert!(counts.values().all(|count| *count > 0) && counts.len() == 2, "all waited, or none: {counts:?}");
    assert!(peak < before + GROWTH_KIB_MAX, "{before} KiB, then {peak} KiB");
    assert_eq!(server.child("signer"), signer, "it was not replaced");
    assert_eq!(server.child("front"), front, "it was not replaced");
    each_signature_is_logged_once(&server, &["a"]);
    assert!(server.stop().success(), "{}", server.log());
}

/// A round of requests of all callers, each of which fails in the way it should: how many of each code.
async fn refused(callers: &mut [Caller]) -> BTreeMap<&'static str, usize> {
    let begun = Instant::now();
    let asked = callers.iter_mut().map(|caller| caller.sign(ED25519.name, GROUPS, DEADLINE_MS));
    let outcomes: Vec<_> = futures_util::future::join_all(asked).await.into_iter().flatten().collect();
    assert_eq!(outcomes.len(), CONNECTIONS * GROUPS, "one answer each");
    let mut counts = BTreeMap::new();
    for outcome in outcomes {
        let fault = outcome.expect_err("a signature of a signer that stands still");
        *counts.entry(check(&fault)).or_default() += 1;
    }
    // Far above the deadline, far below for ever: they were not answered by the signer going on.
    assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
    counts
}

fn check(fault: &Fault) -> &'static str {
    if fault.code == Code::Overloaded {
        assert!(fault.retry_after_ms.is_some(), "{fault}");
        return "refused early";
    }
    assert_eq!(fault.code, Code::DeadlineExceeded, "{fault}");
    "failed at its deadline"
}
