//! A signer that stands still: requests fail by name at their deadlines, more than can wait are refused early, memory
//! stays as it is, and afterwards all goes on.

use sealwright_proto::status::Code;
use sealwright_testkit::fixtures::ED25519;
use sealwright_testkit::server::Server;

use super::PROGRAM;
use super::caller::Caller;

/// Connections, and groups on each: more than the queue to the signer has places for.
const CONNECTIONS: usize = 8;
const GROUPS: usize = 300;

/// Growth of front's memory that says nothing: buffers of these connections.
const GROWTH_KIB_MAX: u64 = 64 << 10;

#[tokio::test(flavor = "multi_thread")]
async fn requests_to_a_signer_that_stands_still_fail_typed_and_memory_stays_flat() {
    let mut server = Server::new(PROGRAM);
    server.start();
    server.import(ED25519);
    let mut callers = Vec::new();
    for _ in 0..CONNECTIONS {
        callers.push(Caller::connect(&server).await);
    }
    for caller in &mut callers {
        assert!(caller.sign(ED25519.name, GROUPS, 60_000).await.iter().all(Result::is_ok));
    }
    let (front, signer) = (server.child("front"), server.child("signer"));
    let before = resident_kib(front);
    server.signal(signer, "STOP");
    let mut refused_early = 0;
    for _ in 0..3 {
        let asked = callers.iter_mut().map(|caller| caller.sign(ED25519.name, GROUPS, 2_500));
        let outcomes: Vec<_> = futures_util::future::join_all(asked).await.into_iter().flatten().collect();
        assert_eq!(outcomes.len(), CONNECTIONS * GROUPS, "one answer each");
        for outcome in outcomes {
            let fault = outcome.expect_err("a signature of a signer that stands still");
            if fault.code == Code::Overloaded {
                assert!(fault.retry_after_ms.is_some(), "{fault}");
                refused_early += 1;
            } else {
                assert_eq!(fault.code, Code::DeadlineExceeded, "{fault}");
            }
        }
    }
    assert!(refused_early > 0, "all waited");
    let after = resident_kib(front);
    assert!(after < before + GROWTH_KIB_MAX, "{before} KiB, then {after} KiB");
    server.signal(signer, "CONT");
    for caller in &mut callers {
        let outcomes = caller.sign(ED25519.name, 10, 60_000).await;
        assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
    }
    assert_eq!(server.child("signer"), signer, "it was not replaced");
    assert!(server.stop().success(), "{}", server.log());
}

fn resident_kib(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}
