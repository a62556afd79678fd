//! Many processes on one store, and clocks that are wrong.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    reason = "tests"
)]

use std::fs;
use std::process::{Child, Stdio};

use sealwright_testkit::fixtures::{self, ED25519, RSA2048};
use sealwright_testkit::sealwright::Home;
use sealwright_testkit::tools::{self, RpmKeys};

const PROGRAM: &str = env!("CARGO_BIN_EXE_sealwright");
const PACKAGE: &str = "gen_tiny-reserved4096.rpm";

#[test]
fn eight_processes_sign_from_one_store_at_once() {
    let home = Home::with_keys(PROGRAM, &[ED25519, RSA2048]);
    let package = fixtures::package(PACKAGE);
    let children: Vec<Child> = (0..8)
        .map(|process| {
            let folder = format!("p{process}");
            fs::create_dir(home.work().join(&folder)).unwrap();
            for file in 0..10 {
                fs::copy(&package, home.work().join(&folder).join(format!("{file}.rpm"))).unwrap();
            }
            let key = if process % 2 == 0 { ED25519.name } else { RSA2048.name };
            home.command(&["sign", "--key", key, "-r", &folder])
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap()
        })
        .collect();
    for child in children {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", tools::text(&output));
    }
    let rpm = RpmKeys::new(&[ED25519.public(), RSA2048.public()]);
    for process in 0..8 {
        for file in 0..10 {
            let said = rpm.check(&home.work().join(format!("p{process}/{file}.rpm")));
            assert!(said.is_signed_and_all_ok(), "p{process}/{file}: {:?}", said.lines);
        }
    }
}

#[test]
fn two_processes_that_make_the_store_at_once_agree_on_it() {
    let home = Home::new(PROGRAM);
    let children: Vec<Child> = (0..6)
        .map(|number| {
            home.command(&["key", "create", &format!("k{number}"), "--algorithm", "ed25519"])
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap()
        })
        .collect();
    for child in children {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", tools::text(&output));
    }
    home.copy(&fixtures::package(PACKAGE));
    for number in 0..6 {
        home.ok(&["sign", "--key", &format!("k{number}"), PACKAGE]);
    }
}

#[test]
fn one_file_signed_by_many_processes_at_once_is_whole() {
    let home = Home::with_keys(PROGRAM, &[ED25519, RSA2048]);
    let file = home.copy(&fixtures::package(PACKAGE));
    let children: Vec<Child> = (0..8)
        .map(|process| {
            let key = if process % 2 == 0 { ED25519.name } else { RSA2048.name };
            home.command(&["sign", "--force", "--key", key, PACKAGE])
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap()
        })
        .collect();
    let mut signed = 0;
    for child in children {
        let output = child.wait_with_output().unwrap();
        match output.status.code() {
            Some(0) => signed += 1,
            // Another process has it in hand, or changed it meanwhile: named, and nothing else.
            Some(1) => assert!(tools::text(&output).contains(PACKAGE), "{}", tools::text(&output)),
            _ => panic!("{}", tools::text(&output)),
        }
    }
    assert!(signed >= 1);
    let said = RpmKeys::new(&[ED25519.public(), RSA2048.public()]).check(&file);
    assert!(said.is_signed_and_all_ok(), "{:?}", said.lines);
    assert_eq!(fs::read_dir(home.work()).unwrap().count(), 1, "something was left beside the file");
}

#[test]
fn a_clock_before_the_key_was_made_gives_no_signature() {
    let home = Home::with_keys(PROGRAM, &[ED25519]);
    let file = home.copy(&fixtures::package(PACKAGE));
    home.run_at("2019-01-01", &["sign", "--key", ED25519.name, PACKAGE]).failed_saying(&["2019"]);
    assert_eq!(fs::read(file).unwrap(), fs::read(fixtures::package(PACKAGE)).unwrap());
}

#[test]
fn a_clock_far_ahead_dates_the_signature_so_and_no_earlier_one_follows() {
    let home = Home::with_keys(PROGRAM, &[ED25519]);
    home.copy(&fixtures::package(PACKAGE));
    let ran = home.run_at("2040-01-01", &["sign", "--key", ED25519.name, PACKAGE]);
    assert_eq!(ran.code, Some(0), "{}", ran.text());
    let signed = fs::read(home.work().join(PACKAGE)).unwrap();
    home.run(&["sign", "--force", "--key", ED25519.name, PACKAGE]).failed_saying(&["2040"]);
    assert_eq!(fs::read(home.work().join(PACKAGE)).unwrap(), signed);
}
