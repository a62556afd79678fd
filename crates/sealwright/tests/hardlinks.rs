//! Files with several names: what becomes of the others, in the call and outside it.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    reason = "tests"
)]

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;

use sealwright_testkit::fixtures::{self, ED25519};
use sealwright_testkit::sealwright::{Home, Ran};
use sealwright_testkit::tools::RpmKeys;

const PROGRAM: &str = env!("CARGO_BIN_EXE_sealwright");
const PACKAGE: &str = "gen_tiny-reserved4096.rpm";

/// One package under three names in two directories.
struct Linked {
    home: Home,
    names: [PathBuf; 3],
}

impl Linked {
    fn new() -> Self {
        let home = Home::with_keys(PROGRAM, &[ED25519]);
        let names = ["el7/a.rpm", "el8/a.rpm", "el8/b.rpm"].map(|name| home.work().join(name));
        fs::create_dir(home.work().join("el7")).unwrap();
        fs::create_dir(home.work().join("el8")).unwrap();
        fs::copy(fixtures::package(PACKAGE), &names[0]).unwrap();
        fs::hard_link(&names[0], &names[1]).unwrap();
        fs::hard_link(&names[0], &names[2]).unwrap();
        Self { home, names }
    }

    fn sign(&self, arguments: &[&str]) -> Ran {
        self.home.run(&[&["sign", "--key", ED25519.name], arguments].concat())
    }

    fn inodes(&self) -> [u64; 3] {
        self.names.each_ref().map(|name| fs::metadata(name).unwrap().ino())
    }

    fn signed(&self) -> [bool; 3] {
        let rpm = RpmKeys::new(&[ED25519.public()]);
        self.names.each_ref().map(|name| rpm.check(name).is_signed_and_all_ok())
    }
}

#[test]
fn names_in_the_call_become_names_of_the_signed_file_with_one_signature() {
    for how in [&[][..], &["--hardlinks", "relink"]] {
        let linked = Linked::new();
        let before = linked.inodes();
        let ran = linked.sign(&[&["-r", "el7", "el8"], how].concat());
        assert_eq!(ran.code, Some(0), "{}", ran.text());
        assert!(!ran.text().contains("Warning"), "{}", ran.text());
        let after = linked.inodes();
        assert!(after[0] != before[0] && after[0] == after[1] && after[1] == after[2], "{after:?}");
        assert_eq!(linked.signed(), [true; 3]);
        assert_eq!(linked.home.log_size(), 1, "signed once");
        assert!(ran.text().contains("3 signed"), "{}", ran.text());
        assert_eq!(fs::read_dir(linked.home.work().join("el8")).unwrap().count(), 2);
    }
}

#[test]
fn a_name_outside_the_call_keeps_the_old_content_and_is_reported() {
    let linked = Linked::new();
    let ran = linked.sign(&["el7/a.rpm", "el8/b.rpm"]);
    assert_eq!(ran.code, Some(0), "{}", ran.text());
    assert!(
        ran.stderr.contains("hard link broken: 1 other name of this file keeps the old content"),
        "{}",
        ran.text()
    );
    assert_eq!(linked.signed(), [true, false, true]);
    let inodes = linked.inodes();
    assert!(inodes[0] == inodes[2] && inodes[0] != inodes[1]);
}

#[test]
fn break_gives_each_name_a_file_of_its_own() {
    let linked = Linked::new();
    let ran = linked.sign(&["--hardlinks", "break", "-r", "."]);
    assert_eq!(ran.code, Some(0), "{}", ran.text());
    let inodes = linked.inodes();
    assert!(inodes[0] != inodes[1] && inodes[1] != inodes[2] && inodes[0] != inodes[2]);
    assert_eq!(linked.signed(), [true; 3]);
    assert_eq!(linked.home.log_size(), 3);
}

#[test]
fn refuse_touches_nothing_and_says_what_to_do() {
    for how in [&["--hardlinks", "refuse"][..], &["--in-place"], &["--in-place", "--hardlinks", "refuse"]] {
        let linked = Linked::new();
        let before = linked.inodes();
        let ran = linked.sign(&[&["el7/a.rpm"], how].concat());
        ran.failed_saying(&["el7/a.rpm", "2 other names", "--hardlinks"]);
        assert_eq!(linked.inodes(), before);
        assert_eq!(linked.signed(), [false; 3]);
        assert_eq!(linked.home.log_size(), 0, "refused before a signature was asked for");
    }
}

#[test]
fn in_place_with_relink_changes_the_one_file_under_all_names_and_says_so() {
    let linked = Linked::new();
    let before = linked.inodes();
    let ran = linked.sign(&["--in-place", "--hardlinks", "relink", "el7/a.rpm", "el8/a.rpm"]);
    assert_eq!(ran.code, Some(0), "{}", ran.text());
    assert_eq!(linked.inodes(), before);
    assert_eq!(linked.signed(), [true; 3]);
    assert_eq!(linked.home.log_size(), 1);
    assert!(ran.stderr.contains("1 other name of this file changed with it"), "{}", ran.text());
}

#[test]
fn a_copy_in_another_directory_leaves_the_names_alone() {
    let linked = Linked::new();
    let before = linked.inodes();
    let ran = linked.sign(&["--output", "out", "-r", "el7", "el8/b.rpm"]);
    assert_eq!(ran.code, Some(0), "{}", ran.text());
    assert_eq!(linked.inodes(), before);
    assert_eq!(linked.signed(), [false; 3]);
    assert_eq!(fs::read_dir(linked.home.work().join("out")).unwrap().count(), 2);
}
