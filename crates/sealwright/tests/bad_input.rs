//! What bad input gets: exit status 1, the file and the reason named, what to do, the file as it was, nothing
//! recorded as signed, and the others of the same call done.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    reason = "tests"
)]

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::process::Command;

use sealwright_testkit::fixtures::{self, ED25519};
use sealwright_testkit::sealwright::{Home, Ran};
use sealwright_testkit::tools;

const PROGRAM: &str = env!("CARGO_BIN_EXE_sealwright");

fn home() -> Home {
    Home::with_keys(PROGRAM, &[ED25519])
}

/// Signs one file that must be refused for a reason with these words, and stay as it is.
fn refused(home: &Home, name: &str, content: &[u8], words: &[&str]) {
    let file = home.work().join(name);
    fs::write(&file, content).unwrap();
    let mut all = vec![name];
    all.extend(words);
    home.run(&["sign", "--key", ED25519.name, "--check-payload", name]).failed_saying(&all);
    assert_eq!(fs::read(&file).unwrap(), content, "{name} was changed");
    assert_eq!(home.log_size(), 0, "{name} was logged as signed");
    nothing_left(home, &[name]);
    fs::remove_file(&file).unwrap();
}

/// No temporary file or lock is left beside the files.
fn nothing_left(home: &Home, expected: &[&str]) {
    let mut names: Vec<String> = fs::read_dir(home.work())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    let mut expected: Vec<&str> = expected.to_vec();
    expected.sort_unstable();
    assert_eq!(names, expected);
}

fn good() -> Vec<u8> {
    fs::read(fixtures::package("gen_tiny-reserved4096.rpm")).unwrap()
}

#[test]
fn what_is_no_package_is_refused_and_the_way_to_sign_it_named() {
    let home = home();
    refused(&home, "empty.rpm", b"", &["empty"]);
    refused(&home, "random.rpm", &[0x5a; 5000], &["--format detached"]);
    refused(&home, "page.rpm", b"<html>404 Not Found</html>", &["web page"]);
}

#[test]
fn a_package_cut_anywhere_is_refused() {
    let home = home();
    let good = good();
    for length in [1, 50, 96, 100, 112, 300, 4000, 5000, good.len() / 2, good.len() - 1] {
        refused(&home, "cut.rpm", &good[..length], &[]);
    }
}

#[test]
fn bytes_after_the_payload_are_refused() {
    let home = home();
    let mut longer = good();
    longer.extend(b"trailing");
    refused(&home, "longer.rpm", &longer, &[]);
}

#[test]
fn a_header_that_claims_256_mib_is_refused_at_once() {
    let home = home();
    let mut huge = good();
    huge[96 + 12..96 + 16].copy_from_slice(&(256_u32 << 20).to_be_bytes());
    refused(&home, "huge.rpm", &huge, &[]);
    let mut many = good();
    many[96 + 8..96 + 12].copy_from_slice(&0x00ff_ffff_u32.to_be_bytes());
    refused(&home, "many.rpm", &many, &[]);
}

#[test]
fn a_wrong_digest_is_refused_and_named() {
    let home = home();
    let mut payload = good();
    let last = payload.len() - 10;
    payload[last] ^= 0xff;
    refused(&home, "payload.rpm", &payload, &["payload"]);
    let mut header = good();
    let start = sealwright_testkit::rpm::Package::read(&good()).header_and_payload.len();
    let in_header = header.len() - start + 900;
    header[in_header] ^= 0x01;
    refused(&home, "header.rpm", &header, &[]);
}

#[test]
fn what_is_no_regular_file_is_refused_without_waiting() {
    let home = home();
    fs::create_dir(home.work().join("dir.rpm")).unwrap();
    symlink("nowhere", home.work().join("dangling.rpm")).unwrap();
    tools::succeed(Command::new("mkfifo").arg(home.work().join("fifo.rpm")));
    fs::write(home.work().join("good.rpm"), good()).unwrap();
    let names = ["dir.rpm", "dangling.rpm", "fifo.rpm", "missing.rpm", "/dev/null"];
    let mut arguments = vec!["sign", "--key", ED25519.name];
    arguments.extend(names);
    arguments.push("good.rpm");
    home.run(&arguments).failed_saying(&names);
    assert_ne!(
        fs::read(home.work().join("good.rpm")).unwrap(),
        good(),
        "the good file of the call is not signed"
    );
    nothing_left(&home, &["dir.rpm", "dangling.rpm", "fifo.rpm", "good.rpm"]);
}

#[test]
fn a_directory_that_cannot_be_written_is_refused_and_another_output_works() {
    let home = home();
    let folder = home.work().join("ro");
    fs::create_dir(&folder).unwrap();
    let file = fixtures::copy_into(&folder, &fixtures::package("gen_tiny-reserved4096.rpm"));
    let name = "ro/gen_tiny-reserved4096.rpm";
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o555)).unwrap();
    fs::create_dir(home.work().join("out")).unwrap();
    let run = |arguments: &[&str]| Ran::from(tools::run(&mut without_power(&home, arguments)));
    run(&["sign", "--key", ED25519.name, name]).failed_saying(&[name, "--output"]);
    assert_eq!(fs::read(&file).unwrap(), good());
    let ran = run(&["sign", "--key", ED25519.name, "--output", "out", name]);
    assert_eq!(ran.code, Some(0), "{}", ran.text());
    assert_eq!(fs::read(&file).unwrap(), good());
    assert_ne!(fs::read(home.work().join("out/gen_tiny-reserved4096.rpm")).unwrap(), good());
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).unwrap();
}

/// The program without the power of root to write anywhere.
fn without_power(home: &Home, arguments: &[&str]) -> Command {
    let mut command = home.command(arguments);
    if tools::succeed(Command::new("id").arg("-u")).trim_ascii() == b"0" {
        let ours = command;
        command = Command::new("setpriv");
        command.args(["--bounding-set", "-all", "--inh-caps", "-all", "--ambient-caps", "-all"]);
        command.arg(ours.get_program()).args(ours.get_args());
        command.current_dir(home.work()).env("SEALWRIGHT_HOME", home.home());
    }
    command
}

#[test]
fn an_unknown_key_is_refused_by_name() {
    let home = home();
    let file = home.copy(&fixtures::package("gen_tiny-reserved4096.rpm"));
    let ran = home.run(&["sign", "--key", "nobody", "gen_tiny-reserved4096.rpm"]);
    assert_eq!(ran.code, Some(1), "{}", ran.text());
    assert!(ran.text().contains("nobody"), "{}", ran.text());
    assert_eq!(fs::read(file).unwrap(), good());
}

#[test]
fn a_wrong_command_line_is_exit_status_2() {
    let home = home();
    assert_eq!(home.run(&["sign", "--nonsense"]).code, Some(2));
    assert_eq!(home.run(&["sign", "--key", ED25519.name]).code, Some(2), "no path");
    assert_eq!(
        home.run(&["sign", "--key", ED25519.name, "--rpm-signature", "nonsense", "x.rpm"]).code,
        Some(2)
    );
}

#[test]
fn a_dry_run_changes_nothing() {
    let home = home();
    let file = home.copy(&fixtures::package("gen_tiny-reserved4096.rpm"));
    home.ok(&["sign", "--key", ED25519.name, "--dry-run", "gen_tiny-reserved4096.rpm"]);
    assert_eq!(fs::read(file).unwrap(), good());
    nothing_left(&home, &["gen_tiny-reserved4096.rpm"]);
}

#[test]
fn a_file_of_the_signer_that_is_lost_or_no_file_is_refused_by_name_and_nothing_is_signed() {
    let home = Home::with_keys(PROGRAM, &[ED25519]);
    let file = home.copy(&fixtures::package("gen_tiny-reserved4096.rpm"));
    let before = fs::read(&file).unwrap();
    for name in ["lock", "running", "floors", "operations"] {
        let path = home.home().join("root").join(name);
        let aside = home.home().join("aside");
        fs::rename(&path, &aside).unwrap();
        let kept_as_lock = ["lock", "running"].contains(&name);
        if !kept_as_lock {
            home.run(&["sign", "--key", ED25519.name, "gen_tiny-reserved4096.rpm"])
                .failed_saying(&[name, "backup"]);
            assert!(!path.exists(), "{name} was made anew");
        }
        let fifo = rustix::fs::FileType::Fifo;
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        rustix::fs::mknodat(rustix::fs::CWD, &path, fifo, mode, 0).unwrap();
        home.run(&["sign", "--key", ED25519.name, "gen_tiny-reserved4096.rpm"])
            .failed_saying(&[path.to_str().unwrap(), "is not a regular file"]);
        fs::rename(&aside, &path).unwrap();
    }
    assert_eq!(fs::read(&file).unwrap(), before);
    home.ok(&["sign", "--key", ED25519.name, "gen_tiny-reserved4096.rpm"]);
}

#[test]
fn a_damaged_store_is_one_message() {
    let home = Home::with_keys(PROGRAM, &[ED25519]);
    home.copy(&fixtures::package("gen_tiny-reserved4096.rpm"));
    let store = home.home().join("store/store.db");
    // The page on which the table of intents begins: the store opens, and the first commit finds it.
    let page: usize =
        home.sql("SELECT rootpage FROM sqlite_master WHERE name = 'intents'")[0].parse().unwrap();
    let mut bytes = fs::read(&store).unwrap();
    bytes[(page - 1) * 4096..page * 4096].fill(0xff);
    fs::write(&store, bytes).unwrap();
    let ran = home.run(&["sign", "--key", ED25519.name, "gen_tiny-reserved4096.rpm"]);
    ran.failed_saying(&["the store is damaged"]);
    assert_eq!(ran.text().matches("the store is damaged").count(), 1, "{}", ran.text());
}

#[test]
fn another_root_key_opens_nothing_and_says_so() {
    let home = home();
    let other = Home::with_keys(PROGRAM, &[ED25519]);
    let file = home.copy(&fixtures::package("gen_tiny-reserved4096.rpm"));
    fs::remove_dir_all(home.home().join("root")).unwrap();
    copy_folder(&other.home().join("root"), &home.home().join("root"));
    let ran = home.run(&["sign", "--key", ED25519.name, "gen_tiny-reserved4096.rpm"]);
    assert_eq!(ran.code, Some(1), "{}", ran.text());
    assert!(ran.text().contains("root key"), "{}", ran.text());
    assert_eq!(fs::read(file).unwrap(), good());
}

#[test]
fn a_store_of_a_newer_version_is_refused() {
    let home = home();
    let file = home.copy(&fixtures::package("gen_tiny-reserved4096.rpm"));
    // What a later program would have done: one more migration than this one knows.
    home.sql(
        "INSERT INTO _sqlx_migrations (version, description, installed_on, success, checksum, execution_time) \
         VALUES (99990101000000, 'of a later program', CURRENT_TIMESTAMP, 1, x'00', 0)",
    );
    let ran = home.run(&["sign", "--key", ED25519.name, "gen_tiny-reserved4096.rpm"]);
    assert_eq!(ran.code, Some(1), "{}", ran.text());
    assert!(ran.text().contains("newer"), "{}", ran.text());
    assert_eq!(fs::read(file).unwrap(), good());
}

fn copy_folder(from: &Path, to: &Path) {
    tools::succeed(Command::new("cp").arg("-a").arg(from).arg(to));
}
