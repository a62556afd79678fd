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

use std::collections::BTreeMap;
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
    home.sql("UPDATE keys SET generation = generation + 1");
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
    strace
        .args(["-f", "-ff", "-qq", "-e", "trace=openat,openat2,open,socket,execve,clone,clone3", "-o"])
        .arg(&trace);
    strace
        .arg(sign.get_program())
        .args(sign.get_args())
        .current_dir(home.work())
        .env("SEALWRIGHT_HOME", home.home());
    tools::succeed(&mut strace);
    let root = home.home().join("root");
    // One file a thread, by its number.
    let mut threads: BTreeMap<String, String> = BTreeMap::new();
    for entry in fs::read_dir(home.work()).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if let Some(thread) = name.strip_prefix("trace.") {
            threads.insert(thread.to_owned(), fs::read_to_string(path).unwrap());
        }
    }
    let first = threads.iter().find(|(_, text)| text.contains("\"signer\"")).unwrap().0.clone();
    let mut signer = threads.remove(&first).unwrap();
    let calls = signer.lines().filter(|line| line.starts_with("clone"));
    let started: Vec<String> =
        calls.filter_map(|line| line.rsplit_once("= ")).map(|(_, thread)| thread.to_owned()).collect();
    assert!(!started.is_empty(), "the signer works in threads of its own: {signer}");
    for thread in started {
        signer.push_str(&threads.remove(&thread).unwrap_or_default());
    }
    let front: String = threads.into_values().collect();
    assert!(signer.contains(root.to_str().unwrap()), "the signer reads its root key: {signer}");
    assert!(!front.contains(root.to_str().unwrap()), "front opened the folder of the root key");
    assert!(!signer.contains("AF_INET"), "the signer made a network socket");
}
