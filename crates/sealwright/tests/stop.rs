//! Signals: before a signature is asked for nothing is at risk, and the program ends at once.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    reason = "tests"
)]

use std::fs::{self, File};
use std::io::Read as _;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use sealwright_testkit::fixtures::{self, ED25519};
use sealwright_testkit::sealwright::Home;
use sealwright_testkit::tools;

const PROGRAM: &str = env!("CARGO_BIN_EXE_sealwright");
/// Bytes of a file, all zero and sparse, that takes a test build minutes to hash.
const LONG: u64 = 200 << 30;

fn home() -> Home {
    Home::with_keys(PROGRAM, &[ED25519])
}

fn start(command: &mut Command) -> Child {
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn signal(child: &Child, name: &str) {
    tools::succeed(Command::new("kill").arg(format!("-{name}")).arg(child.id().to_string()));
}

/// The exit status and what was said; it must end within seconds.
fn ended(mut child: Child) -> (Option<i32>, String) {
    let deadline = Instant::now() + Duration::from_secs(20);
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if Instant::now() > deadline {
            child.kill().unwrap();
            panic!("still running");
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    let mut said = String::new();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    (status.code(), said)
}

/// Waits until the process has this file open, so that the signal comes while it is in hand.
fn wait_for_open(child: &Child, name: &str) {
    let deadline = Instant::now() + Duration::from_secs(60);
    let fds = format!("/proc/{}/fd", child.id());
    while Instant::now() < deadline {
        let has = fs::read_dir(&fds)
            .into_iter()
            .flatten()
            .flatten()
            .any(|fd| fs::read_link(fd.path()).is_ok_and(|to| to.to_string_lossy().contains(name)));
        if has {
            return;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    panic!("{name} was never opened");
}

/// Milliseconds: less than the signer is waited for before it is killed.
const AT_ONCE_MS: u128 = 1900;

/// A busy machine can delay one of them as long as the wait that there must not be; if it were there, it would delay each.
const RUNS_MAX: usize = 10;

#[test]
fn a_signal_ends_a_wait_for_standard_input_at_once() {
    let home = home();
    for name in ["INT", "TERM"] {
        let quick = (0..RUNS_MAX).any(|_| ms_to_end_a_wait_for_standard_input(&home, name) < AT_ONCE_MS);
        assert!(quick, "the signer was waited for");
    }
    assert_eq!(home.log_size(), 0);
}

fn ms_to_end_a_wait_for_standard_input(home: &Home, name: &str) -> u128 {
    let mut command = home.command(&["sign", "--format", "detached", "--key", ED25519.name, "-"]);
    let child = start(command.stdin(Stdio::piped()));
    // The store is open: the key is looked up, and standard input is next.
    wait_for_open(&child, "store.db");
    std::thread::sleep(Duration::from_millis(500));
    let begun = Instant::now();
    signal(&child, name);
    let (code, said) = ended(child);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("stopped") && !said.contains("WARN"), "{said}");
    begun.elapsed().as_millis()
}

#[test]
fn a_signal_ends_the_hashing_of_a_long_file_at_once_and_nothing_is_left() {
    let home = home();
    File::create(home.work().join("long")).unwrap().set_len(LONG).unwrap();
    let sign = ["sign", "--format", "detached", "--key", ED25519.name, "long"];
    for (more, go_on) in
        [(&[][..], "the same command again"), (&["--force"], "the same command without --force")]
    {
        let child = start(&mut home.command(&[&sign[..], more].concat()));
        wait_for_open(&child, "work/long");
        signal(&child, "INT");
        let (code, said) = ended(child);
        assert_eq!(code, Some(1), "{said}");
        assert!(said.contains("Stopped") && said.contains(go_on), "{said}");
    }
    assert_eq!(fs::read_dir(home.work()).unwrap().count(), 1);
    assert_eq!(home.log_size(), 0);
}

#[test]
fn a_signal_ends_a_verification_at_once() {
    let home = home();
    home.copy(&fixtures::package("gen_tiny-reserved4096.rpm"));
    fs::write(home.work().join("long"), "x").unwrap();
    home.ok(&["sign", "--format", "detached", "--key", ED25519.name, "long"]);
    File::create(home.work().join("long")).unwrap().set_len(LONG).unwrap();
    let child = start(&mut home.command(&["verify", "long"]));
    wait_for_open(&child, "work/long");
    signal(&child, "TERM");
    let (code, said) = ended(child);
    assert_eq!(code, Some(1), "{said}");
}
