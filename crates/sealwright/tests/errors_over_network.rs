//! Every failure of the table, produced over the network: the real front behind mTLS, the real store, and the real
//! signer, except for what only broken hardware does (`errors/stand.rs`). Each is what the table says it is: gRPC status, HTTP
//! status, retry hint, advice, and the exit status of the real program where a command can meet it.
//!
//! [`scenarios::meet`] has one arm for each code and none for the rest: a new code without a scenario does not compile.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::too_many_lines,
    clippy::print_stderr,
    dead_code,
    reason = "tests"
)]

#[path = "errors/bench.rs"]
mod bench;
#[path = "../../server/tests/network/certificates.rs"]
mod certificates;
#[path = "splice/disk.rs"]
mod disk;
#[path = "errors/readiness.rs"]
mod readiness;
#[path = "errors/scenarios.rs"]
mod scenarios;
#[path = "errors/stand.rs"]
mod stand;

use std::collections::BTreeMap;
use std::sync::Arc;

use sealwright_proto::status::{Code, Fault};
use sealwright_testkit::sealwright::Ran;
use tokio::sync::Semaphore;
use tonic::Status;

/// Scenarios that run at once.
const AT_ONCE: usize = 6;

/// What came of a scenario.
pub(crate) struct Met {
    /// As it arrived.
    fault: Fault,
    /// Of the call, if it is what failed; the failure of a group arrives in a message.
    status: Option<Status>,
    command: Command,
}

/// The same from the command.
pub(crate) enum Command {
    /// What it gave.
    Ran(Ran),
    /// Why no command meets this.
    CannotMeet(&'static str),
}

#[tokio::test(flavor = "multi_thread")]
async fn every_code_is_met_over_the_network_and_is_what_the_table_says() {
    let (mut unmet, mut wrong) = (Vec::new(), Vec::new());
    // Each in a task, so that one that is wrong does not hide the others, and a few at once: some only wait.
    let places = Arc::new(Semaphore::new(AT_ONCE));
    let scenario = |code: Code| {
        let places = Arc::clone(&places);
        tokio::spawn(async move {
            let _place = places.acquire().await.unwrap();
            scenarios::meet(code).await.map(|met| check(code, &met))
        })
    };
    let begun: Vec<_> = Code::ALL.iter().map(|code| (code, scenario(*code))).collect();
    for (code, checked) in begun {
        match checked.await {
            Ok(Ok(())) => {}
            Ok(Err(why)) => unmet.push(format!("{code}: {why}")),
            Err(_) => wrong.push(code.name()),
        }
    }
    for why in &unmet {
        eprintln!("not met here: {why}");
    }
    assert!(wrong.is_empty(), "{wrong:?}: see above");
    // Only what needs a privilege may be left out, and with the privilege nothing is.
    assert!(unmet.len() <= 1 && (unmet.is_empty() || !rustix::process::geteuid().is_root()), "{unmet:?}");
}

fn check(code: Code, met: &Met) {
    let row = code.row();
    assert_eq!(met.fault.code, code, "{}", met.fault);
    assert!(!met.fault.message.is_empty(), "{code} says nothing");
    let here = std::env::temp_dir();
    assert!(!met.fault.message.contains(here.to_str().unwrap()), "{code} tells a path: {}", met.fault);
    assert_eq!(met.fault.retry_after_ms.is_some(), code.is_retryable(), "{code}: {:?}", met.fault);
    let grpc = tonic::Code::from_i32(row.grpc as i32);
    let status = met.status.clone().unwrap_or_else(|| Status::from(met.fault.clone()));
    assert_eq!(status.code(), grpc, "{code}: {status:?}");
    assert_eq!(Fault::from(&status), met.fault, "{code}: the details of the status");
    let documented = &documented()[&row.number];
    let of_table =
        [row.name.to_owned(), (row.grpc as i32).to_string(), row.http.to_string(), row.exit.to_string()];
    let columns = [1, 4, 5, 6].map(|column| documented[column].clone());
    assert_eq!(columns, of_table, "{code}: docs/WIRE.md");
    match &met.command {
        Command::CannotMeet(why) => assert!(why.len() > 10, "{code}"),
        Command::Ran(ran) => check_command(code, ran),
    }
}

fn check_command(code: Code, ran: &Ran) {
    let row = code.row();
    assert_eq!(ran.code, Some(i32::from(row.exit)), "{code}: {}", ran.text());
    assert!(ran.text().contains(row.advice), "{code}: {}", ran.text());
    // A file that failed has an object with the code.
    let objects = ran.stdout.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    for object in objects.filter(|object| object.get("file").is_some()) {
        assert_eq!(object["code"], row.name, "{object}");
        assert_eq!(object["retry"], code.is_retryable(), "{object}");
    }
}

/// The table of docs/WIRE.md by number.
fn documented() -> BTreeMap<u32, Vec<String>> {
    let text = include_str!("../../../docs/WIRE.md");
    let (_, failures) = text.split_once("## Failures").expect("the section");
    let rows = failures.lines().filter_map(|line| {
        let cells: Vec<String> =
            line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect();
        let number = cells.first()?.parse().ok()?;
        Some((number, cells))
    });
    rows.collect()
}
