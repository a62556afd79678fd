//! Results that nobody got are no success; what cannot be looked at is not "nothing there".

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    reason = "tests"
)]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use sealwright_testkit::fixtures::{self, ED25519};
use sealwright_testkit::sealwright::{Home, Ran};
use sealwright_testkit::tools;

const PROGRAM: &str = env!("CARGO_BIN_EXE_sealwright");
const PACKAGE: &str = "gen_tiny-reserved4096.rpm";
const SAID: &str = "cannot write the results: ";
/// A user who owns nothing here.
const NOBODY: &str = "65534";

/// A line for a shell, in which `$S` is the program.
fn shell(home: &Home, line: &str) -> Ran {
    let mut command = Command::new("bash");
    command.args(["-c", line]).current_dir(home.work());
    command.env("S", PROGRAM).env("SEALWRIGHT_HOME", home.home()).env("SEALWRIGHT_KEY", ED25519.name);
    command.env("SEALWRIGHT_SERVER", "embedded").env_remove("SEALWRIGHT_CLIENT_CONFIG");
    Ran::from(tools::run(&mut command))
}

/// A home with a key and a signed package, `release.asc` beside it.
fn home() -> Home {
    let home = Home::with_keys(PROGRAM, &[ED25519]);
    home.copy(&fixtures::package(PACKAGE));
    home.ok(&["sign", "--key", ED25519.name, PACKAGE]);
    let certificate = home.ok(&["key", "export", ED25519.name]).stdout;
    fs::write(home.work().join("release.asc"), certificate).unwrap();
    home
}

#[test]
fn results_that_cannot_be_written_are_a_failure_of_every_command() {
    let home = home();
    let key = ED25519.name;
    let commands = [
        format!("verify --keyring release.asc {PACKAGE}"),
        format!("verify --json --keyring release.asc {PACKAGE}"),
        format!("inspect {PACKAGE}"),
        format!("inspect --json {PACKAGE}"),
        "key list".to_owned(),
        "key list --json".to_owned(),
        format!("key show {key}"),
        format!("key export {key}"),
        format!("sign --force {PACKAGE}"),
        format!("sign --json --force {PACKAGE}"),
        "sign --format detached - < release.asc".to_owned(),
        format!("strip --json --dry-run {PACKAGE}"),
        "--help".to_owned(),
        "key --help".to_owned(),
        "--version".to_owned(),
    ];
    for command in commands {
        for (to, why) in [(">/dev/full", "No space left on device"), ("1</dev/null", "Bad file descriptor")] {
            let ran = shell(&home, &format!("$S {command} {to}"));
            assert_eq!(ran.code, Some(1), "{command} {to}\n{}", ran.text());
            assert!(ran.stderr.contains(&format!("{SAID}{why}")), "{command} {to}\n{}", ran.text());
        }
        // Who closed it wants none.
        for to in [">/dev/null", ">&-"] {
            let ran = shell(&home, &format!("$S {command} {to}"));
            assert_eq!(ran.code, Some(0), "{command} {to}\n{}", ran.text());
        }
    }
}

#[test]
fn files_are_signed_whole_whoever_reads_the_results() {
    let home = home();
    let names: Vec<String> = (0..8).map(|number| format!("{number}.rpm")).collect();
    for (line, why) in [
        ("$S sign --json *.rpm >/dev/full", "No space left"),
        // The reader is gone before the first result.
        ("exec 3> >(exec true); wait $!; $S sign --json *.rpm >&3", "Broken pipe"),
    ] {
        for name in &names {
            fs::copy(fixtures::package(PACKAGE), home.work().join(name)).unwrap();
        }
        let ran = shell(&home, line);
        assert_eq!(ran.code, Some(1), "{line}\n{}", ran.text());
        assert_eq!(ran.stderr.matches(SAID).count(), 1, "{line}\n{}", ran.text());
        assert!(ran.stderr.contains(why), "{line}\n{}", ran.text());
        home.ok(&[
            &["verify", "--key", ED25519.name][..],
            &names.iter().map(String::as_str).collect::<Vec<_>>(),
        ]
        .concat());
    }
}

/// The first file that is opened would get the number of standard output, and lines and signatures would be written into
/// it.
#[test]
fn no_file_gets_the_results_of_a_run_whose_descriptors_are_closed() {
    let home = home();
    let key = home.ok(&["key", "export", ED25519.name]).stdout;
    for line in [
        "$S sign --force --in-place x.rpm",
        "$S sign --force --json x.rpm",
        "$S sign --format detached --force x.rpm",
        "$S verify --json --keyring release.asc x.rpm",
    ] {
        fs::copy(home.work().join(PACKAGE), home.work().join("x.rpm")).unwrap();
        let ran = shell(&home, &format!("exec {line} <&- >&- 2>&-"));
        assert_eq!(ran.code, Some(0), "{line}");
        home.ok(&["verify", "--key", ED25519.name, "x.rpm"]);
        home.ok(&["verify", "--keyring", "release.asc", PACKAGE]);
        assert_eq!(fs::read_to_string(home.work().join("release.asc")).unwrap(), key, "{line}");
    }
    let [signature, data] = ["x.rpm.asc", "x.rpm"].map(|name| home.work().join(name));
    let gpgv = tools::gpgv(&[ED25519.public()], &signature, &data);
    assert!(gpgv.status.success(), "{}", tools::text(&gpgv));
}

#[test]
fn a_failure_keeps_its_exit_status_when_the_results_are_lost_too() {
    let home = home();
    let ran = shell(&home, "$S verify --json --keyring release.asc - >/dev/full; $S frobnicate >/dev/full");
    assert_eq!(ran.code, Some(2), "{}", ran.text());
}

#[test]
fn a_store_that_cannot_be_looked_at_is_not_an_empty_one() {
    let home = home();
    let file = home.work().join("file");
    fs::write(&file, "").unwrap();
    fs::set_permissions(home.home(), fs::Permissions::from_mode(0o700)).unwrap();
    let looking = [
        vec!["key", "list"],
        vec!["key", "show", "release"],
        vec!["key", "export", "release"],
        vec!["sign", "--key", "release", PACKAGE],
        vec!["verify", PACKAGE],
    ];
    let mut ways: Vec<(&Path, bool, &str)> = vec![(&file, false, "Not a directory")];
    let homes = home.home();
    if rustix::process::geteuid().is_root() {
        ways.push((&homes, true, "Permission denied"));
    }
    for arguments in looking {
        for (place, as_nobody, why) in &ways {
            let mut command = if *as_nobody {
                let mut command = Command::new("setpriv");
                command.args(["--reuid", NOBODY, "--clear-groups"]).arg(PROGRAM);
                command
            } else {
                Command::new(PROGRAM)
            };
            command.args(&arguments).current_dir(home.work());
            command.env("SEALWRIGHT_HOME", place).env("SEALWRIGHT_SERVER", "embedded");
            let ran = Ran::from(tools::run(&mut command));
            assert_eq!(ran.code, Some(1), "{arguments:?}\n{}", ran.text());
            assert!(ran.stderr.contains("cannot look at the store"), "{arguments:?}\n{}", ran.text());
            assert!(ran.stderr.contains(why), "{arguments:?}\n{}", ran.text());
            assert!(ran.stderr.contains("SEALWRIGHT_HOME"), "{arguments:?}\n{}", ran.text());
        }
    }
}
