//! `kill -9` at random moments while many packages are signed, replaced and in place, on the file system of the
//! tests and on XFS: every file is the old or the new one after recovery, the next run finishes the rest, and, where
//! files are replaced, `rpm -qp` reads all of them at every moment. `SEALWRIGHT_CRASH_KILLS` sets the number of kills
//! in each of the four; `cargo xtask soak` sets it to 200.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::print_stderr,
    clippy::disallowed_methods,
    reason = "tests"
)]

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use disk::{Disk, records, temporaries};
use sealwright_testkit::fixtures::{self, ED25519, RSA2048};
use sealwright_testkit::sealwright::Home;
use sealwright_testkit::tools;

#[allow(dead_code, reason = "each test target uses its part")]
#[path = "splice/disk.rs"]
mod disk;

const PROGRAM: &str = env!("CARGO_BIN_EXE_sealwright");
const PACKAGES: usize = 50;
const KILLS: u64 = 20;

#[test]
fn killed_while_it_replaces_files_it_leaves_each_old_or_new_and_readable_at_every_moment() {
    let home = home();
    crash(&home, &home.work().join("p"), &[]);
}

#[test]
fn killed_while_it_replaces_files_on_xfs_it_leaves_each_old_or_new_and_readable_at_every_moment() {
    if let Some(disk) = Disk::xfs(320) {
        crash(&home(), &disk.path().join("p"), &[]);
    }
}

#[test]
fn killed_while_it_writes_in_place_it_leaves_each_old_or_new_after_recovery() {
    let home = home();
    crash(&home, &home.work().join("p"), &["--in-place"]);
}

#[test]
fn killed_while_it_writes_in_place_on_xfs_it_leaves_each_old_or_new_after_recovery() {
    if let Some(disk) = Disk::xfs(320) {
        crash(&home(), &disk.path().join("p"), &["--in-place"]);
    }
}

fn home() -> Home {
    Home::with_keys(PROGRAM, &[ED25519, RSA2048])
}

fn crash(home: &Home, folder: &Path, how: &[&str]) {
    std::fs::create_dir(folder).unwrap();
    for number in 0..PACKAGES {
        let package = fixtures::package("gen_tiny-reserved4096.rpm");
        std::fs::copy(package, folder.join(format!("{number:02}.rpm"))).unwrap();
    }
    let rpm = Judge::new();
    let sign = |key: &str| sign(home, folder, key, how);
    run_to_the_end(&mut sign(ED25519.name));
    let begun = Instant::now();
    run_to_the_end(&mut sign(RSA2048.name));
    let usual = begun.elapsed();
    let stop = AtomicBool::new(false);
    let watched = how.is_empty();
    let (reads, settled) = std::thread::scope(|scope| {
        let reader = scope.spawn(|| if watched { read_until(&stop, folder) } else { 0 });
        let settled = kill_again_and_again(home, folder, &sign, usual, &rpm);
        stop.store(true, Ordering::Relaxed);
        (reader.join().unwrap(), settled)
    });
    // The next run finishes the rest, and removes what is left.
    run_to_the_end(&mut sign(ED25519.name));
    rpm.all_signed(folder);
    home.ok(&["verify", "--key", ED25519.name, "-r", folder.to_str().unwrap()]);
    assert!(temporaries(folder).is_empty(), "{:?}", temporaries(folder));
    assert!(records(&home.home()).is_empty());
    assert!(reads > 0 || !watched);
    eprintln!("{}: {} rounds read, {settled} killed runs left records", folder.display(), reads);
}

/// Returns after how many kills there was something to settle.
fn kill_again_and_again(
    home: &Home,
    folder: &Path,
    sign: &dyn Fn(&str) -> Command,
    usual: Duration,
    rpm: &Judge,
) -> usize {
    let kills =
        std::env::var("SEALWRIGHT_CRASH_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(KILLS);
    let mut settled = 0;
    for kill in 0..kills {
        let key = if kill % 2 == 0 { ED25519.name } else { RSA2048.name };
        let mut child = sign(key).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        std::thread::sleep(usual.mul_f64(random()));
        child.kill().unwrap();
        child.wait().unwrap();
        settled += usize::from(!records(&home.home()).is_empty());
        // Recovery alone: there is no file to strip.
        let recovered = home.run(&["strip", "--files-from", "/dev/null"]);
        assert_eq!(recovered.code, Some(0), "{}", recovered.text());
        assert!(!recovered.text().contains("Warning"), "{}", recovered.text());
        assert!(records(&home.home()).is_empty());
        rpm.all_signed(folder);
    }
    settled
}

fn sign(home: &Home, folder: &Path, key: &str, how: &[&str]) -> Command {
    let mut command = home.command(&["sign", "--key", key, "--force", "--jobs", "8", "-r"]);
    command.arg(folder).args(how);
    command
}

fn run_to_the_end(command: &mut Command) {
    let output = tools::run(command);
    assert!(output.status.success(), "{}", tools::text(&output));
}

fn packages(folder: &Path) -> Vec<PathBuf> {
    (0..PACKAGES).map(|number| folder.join(format!("{number:02}.rpm"))).collect()
}

/// Reads all packages over and over; returns how often.
fn read_until(stop: &AtomicBool, folder: &Path) -> usize {
    let mut rounds = 0;
    while !stop.load(Ordering::Relaxed) {
        let output = tools::run(Command::new("rpm").args(["-qp", "--nosignature"]).args(packages(folder)));
        assert!(output.status.success(), "{}", tools::text(&output));
        rounds += 1;
    }
    rounds
}

/// Between 0 and 1.
fn random() -> f64 {
    let mut bytes = [0; 4];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty()).unwrap();
    f64::from(u32::from_ne_bytes(bytes)) / f64::from(u32::MAX)
}

/// rpmkeys with both certificates: a package that is half old and half new has a bad digest or a bad signature.
struct Judge(tempfile::TempDir);

impl Judge {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let judge = Self(folder);
        tools::succeed(Command::new("rpmdb").arg("--dbpath").arg(judge.0.path()).arg("--initdb"));
        tools::succeed(judge.rpmkeys().arg("--import").args([ED25519.public(), RSA2048.public()]));
        judge
    }

    fn rpmkeys(&self) -> Command {
        let mut command = Command::new("rpmkeys");
        command.arg("--dbpath").arg(self.0.path());
        command
    }

    fn all_signed(&self, folder: &Path) {
        let output = tools::run(self.rpmkeys().arg("-K").args(packages(folder)));
        let said = tools::text(&output);
        assert!(output.status.success(), "{said}");
        assert_eq!(
            said.lines().filter(|line| line.ends_with("digests signatures OK")).count(),
            PACKAGES,
            "{said}"
        );
    }
}
