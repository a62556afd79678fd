//! Ready is what a request would find: a disk that is full and a store that somebody else holds are told by their
//! names, in health and for people, and so is their end.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use sealwright_proto::health_v1::HealthCheckRequest;
use sealwright_proto::health_v1::health_check_response::ServingStatus;
use sealwright_proto::health_v1::health_client::HealthClient;
use sealwright_proto::status::Code;

use crate::bench::{Bench, failure, group};
use crate::disk::Disk;

/// The parts that are not ready, once they are these; what was true in between does not count.
async fn await_unready(bench: &Bench, want: &[&str]) -> Vec<String> {
    let mut seen = Vec::new();
    for _ in 0..120 {
        let readiness = bench.service.readiness().await;
        let parts: Vec<&str> = readiness.reasons().map(|(part, _)| part).collect();
        if parts == want {
            return readiness.reasons().map(|(_, why)| why.to_owned()).collect();
        }
        seen.push(readiness.reasons().map(|(part, why)| format!("{part}: {why}")).collect::<Vec<_>>());
        tokio::time::sleep(Duration::from_millis(250)).await;
    }
    panic!("never {want:?}: {seen:?}");
}

async fn health(bench: &Bench) -> ServingStatus {
    let mut health = HealthClient::new(bench.channel(&bench.client("admin")).await);
    health.check(HealthCheckRequest { service: String::new() }).await.unwrap().into_inner().status()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disk_that_is_full_is_not_ready_by_that_name_and_is_ready_again_with_room() {
    let Some(disk) = Disk::tmpfs(160 << 10) else { return };
    let bench = Bench::start_in(tempfile::tempdir().unwrap(), disk.path().join("store")).await;
    await_unready(&bench, &[]).await;
    assert_eq!(health(&bench).await, ServingStatus::Serving);
    // Room for requests, and less than an operator should have.
    disk.fill_but(16 << 20);
    let why = await_unready(&bench, &["disk"]).await;
    assert!(why[0].contains("64 are needed"), "{why:?}");
    assert_eq!(health(&bench).await, ServingStatus::NotServing);
    assert!(bench.sign(group("release").to_wire()).await.unwrap().failure.is_none(), "what fits is signed");
    // None at all: requests fail with the same reason.
    disk.fill_but(0);
    let fault = loop {
        let answer = bench.sign(group("release").to_wire()).await.unwrap();
        let is_refused = answer.failure.is_some()
            || answer.items.iter().any(|item| {
                matches!(item.outcome, Some(sealwright_proto::v1::sign_item_result::Outcome::Failure(_)))
            });
        if is_refused {
            break failure(answer);
        }
    };
    assert_eq!(fault.code, Code::StoreFull, "{fault}");
    std::fs::remove_file(disk.path().join("filler")).unwrap();
    await_unready(&bench, &[]).await;
    assert_eq!(health(&bench).await, ServingStatus::Serving);
    bench.end().await;
}

/// Another process with a transaction of its own on the database, as long as this lives.
struct Holder(Child);

impl Holder {
    fn of(database: &Path) -> Self {
        const SCRIPT: &str = "
import sqlite3, sys
database = sqlite3.connect(sys.argv[1], isolation_level=None)
database.execute('BEGIN EXCLUSIVE')
print('held', flush=True)
sys.stdin.read()
";
        let mut command = Command::new("python3");
        command.args(["-c", SCRIPT]).arg(database).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut said = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut said).unwrap();
        assert_eq!(said, "held\n");
        Self(child)
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_takes_no_commit_is_not_ready_by_that_name_and_is_ready_again_when_it_does() {
    let bench = Bench::start().await;
    await_unready(&bench, &[]).await;
    let holder = Holder::of(&bench.store().join("store.db"));
    // It does not wait with the one who holds it: the answer comes while that one is still there.
    let why = await_unready(&bench, &["store"]).await;
    assert!(!why[0].is_empty() && !why[0].contains('/'), "{why:?}");
    assert_eq!(health(&bench).await, ServingStatus::NotServing);
    drop(holder);
    await_unready(&bench, &[]).await;
    assert_eq!(health(&bench).await, ServingStatus::Serving);
    assert!(bench.sign(group("release").to_wire()).await.unwrap().failure.is_none());
}
