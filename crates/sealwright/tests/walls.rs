//! The walls between front, store and signer: what the store says is not enough for a signature, and each signature
//! that left is in the log.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    reason = "tests"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write as _;
use std::process::{Command, Stdio};
use std::time::Duration;

use sealwright_testkit::fixtures::{self, ED25519, RSA2048};
use sealwright_testkit::sealwright::{Home, Ran};
use sealwright_testkit::tools;

const PROGRAM: &str = env!("CARGO_BIN_EXE_sealwright");
const PACKAGE: &str = "gen_tiny-reserved4096.rpm";

#[test]
fn each_signature_has_one_log_entry_and_nothing_else_has() {
    let home = Home::with_keys(PROGRAM, &[ED25519]);
    assert_eq!(home.log_size(), 0);
    home.copy(&fixtures::package(PACKAGE));
    home.ok(&["sign", "--key", ED25519.name, PACKAGE]);
    assert_eq!(home.log_size(), 1);
    home.ok(&["sign", "--key", ED25519.name, PACKAGE]);
    assert_eq!(home.log_size(), 1, "the same again is no signature");
    home.ok(&["sign", "--key", ED25519.name, "--force", "--rpm-signature", "both", PACKAGE]);
    assert_eq!(home.log_size(), 3);
    home.ok(&["verify", "--key", ED25519.name, PACKAGE]);
    home.ok(&["strip", PACKAGE]);
    home.ok(&["sign", "--key", ED25519.name, "--dry-run", PACKAGE]);
    assert_eq!(home.log_size(), 3);
}

#[test]
fn a_key_disabled_after_it_was_resolved_gives_no_signature() {
    let home = Home::with_keys(PROGRAM, &[ED25519]);
    let mut sign = home
        .command(&["sign", "--format", "detached", "--key", ED25519.name, "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = sign.stdin.take().unwrap();
    stdin.write_all(&vec![1; 100_000]).unwrap();
    // More than the pipe holds was taken: the key was looked up before that.
    std::thread::sleep(Duration::from_millis(200));
    home.ok(&["key", "disable", ED25519.name]);
    drop(stdin);
    let ran = Ran::from(sign.wait_with_output().unwrap());
    ran.failed_saying(&["disabled"]);
    assert!(ran.bytes.is_empty(), "a signature came out");
    assert_eq!(home.log_size(), 0);
}

#[test]
fn the_sealed_blob_of_one_key_does_not_open_as_another() {
    let home = Home::with_keys(PROGRAM, &[ED25519, RSA2048]);
    let other = Home::with_keys(PROGRAM, &[ED25519]);
    home.copy(&fixtures::package(PACKAGE));
    // Whoever can write to the database gives one key the secret of the other.
    home.sql(
        "UPDATE keys SET sealed = (SELECT sealed FROM keys WHERE name = 'rsa2048') WHERE name = 'ed25519'",
    );
    let ran = home.run(&["sign", "--key", ED25519.name, PACKAGE]);
    assert_eq!(ran.code, Some(1), "{}", ran.text());
    assert_eq!(fs::read(home.work().join(PACKAGE)).unwrap(), fs::read(fixtures::package(PACKAGE)).unwrap());
    assert_eq!(home.log_size(), 0);
    // Nor does a blob of another installation, for the very same key.
    let blob = other.sql("SELECT hex(sealed) FROM keys")[0].clone();
    home.sql(&format!("UPDATE keys SET sealed = x'{blob}' WHERE name = 'ed25519'"));
    assert_eq!(home.run(&["sign", "--key", ED25519.name, PACKAGE]).code, Some(1));
    assert_eq!(home.log_size(), 0);
    home.ok(&["sign", "--key", RSA2048.name, PACKAGE]);
}

#[test]
fn a_key_relabelled_in_the_database_gives_no_signature() {
    let home = Home::with_keys(PROGRAM, &[ED25519]);
    home.copy(&fixtures::package(PACKAGE));
    home.sql("UPDATE key_states SET generation = generation + 1");
    assert_eq!(home.run(&["sign", "--key", ED25519.name, PACKAGE]).code, Some(1));
    assert_eq!(home.log_size(), 0);
}

#[test]
fn a_restored_older_store_does_not_bring_back_a_superseded_generation() {
    let home = Home::new(PROGRAM);
    home.ok(&["key", "create", "release", "--algorithm", "ed25519", "--expires", "90d"]);
    home.copy(&fixtures::package(PACKAGE));
    let (store, saved) = (home.home().join("store"), home.home().join("saved"));
    tools::succeed(Command::new("cp").arg("-a").arg(&store).arg(&saved));
    home.ok(&["key", "renew", "release", "--expires", "3y"]);
    // The first use of the newer generation is what the signer remembers.
    home.ok(&["sign", "--key", "release", PACKAGE]);
    home.copy(&fixtures::package(PACKAGE));
    fs::remove_dir_all(&store).unwrap();
    fs::rename(&saved, &store).unwrap();
    let ran = home.run(&["sign", "--key", "release", PACKAGE]);
    assert_eq!(ran.code, Some(1), "{}", ran.text());
    assert_eq!(home.log_size(), 0);
    assert_eq!(fs::read(home.work().join(PACKAGE)).unwrap(), fs::read(fixtures::package(PACKAGE)).unwrap());
}

#[test]
fn the_signer_opens_no_network_socket_and_front_reads_no_root_key() {
    let home = Home::with_keys(PROGRAM, &[ED25519]);
    home.copy(&fixtures::package(PACKAGE));
    let trace = home.work().join("trace");
    let sign = home.command(&["sign", "--key", ED25519.name, PACKAGE]);
    let mut strace = Command::new("strace");
    strace.args(["-f", "-qq", "-s", "4096", "-e", CALLS, "-o"]).arg(&trace);
    strace.arg(sign.get_program()).args(sign.get_args()).current_dir(home.work());
    strace.env("SEALWRIGHT_HOME", home.home());
    tools::succeed(&mut strace);
    let trace = fs::read_to_string(trace).unwrap();
    let (signer, front): (Vec<&str>, Vec<&str>) = by_process(&trace);
    let root = home.home().join("root");
    let names_root = |line: &&&str| line.contains(root.to_str().unwrap()) && !line.contains("exec");
    assert!(signer.iter().find(names_root).is_some(), "the signer does not read its root key: {signer:#?}");
    assert_eq!(front.iter().find(names_root), None, "front opened the folder of the root key");
    assert_eq!(signer.iter().find(|line| line.contains("AF_INET")), None, "the signer made a network socket");
}

const CALLS: &str = "trace=open,openat,openat2,socket,connect,execve,clone,clone3,fork,vfork";

/// Lines of the signer and its threads, and lines of all others. The signer is what was started as `signer`.
fn by_process(trace: &str) -> (Vec<&str>, Vec<&str>) {
    let pid =
        |line: &str| line.split_once(' ').and_then(|(pid, _)| pid.parse::<u32>().ok()).unwrap_or_default();
    let started =
        trace.lines().filter(|line| line.contains("clone") || line.contains("fork")).filter_map(|line| {
            let child = line.rsplit_once("= ")?.1.split(' ').next()?.parse::<u32>().ok()?;
            Some((child, pid(line)))
        });
    let parents: BTreeMap<u32, u32> = started.collect();
    let signers: BTreeSet<u32> = trace
        .lines()
        .filter(|line| line.contains("execve(") && line.contains("\"signer\""))
        .map(pid)
        .collect();
    assert!(!signers.is_empty(), "no signer was started: {trace}");
    trace.lines().partition(|line| {
        let mut of = Some(pid(line));
        while let Some(pid) = of.filter(|pid| !signers.contains(pid)) {
            of = parents.get(&pid).copied();
        }
        of.is_some()
    })
}
