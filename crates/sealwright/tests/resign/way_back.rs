//! `--undo`: the old signatures come back, byte for byte.

use std::fs;

use crate::farm::{Farm, Judge, NO_RESERVE, OLD, PACKAGE};

#[test]
fn undo_puts_back_every_byte_and_leaves_what_was_changed_since() {
    let farm = Farm::new();
    let mut packages = farm.fill("a", 5);
    packages.push(farm.put("moved.rpm", NO_RESERVE));
    farm.sign(OLD, &farm.repo());
    packages.push(farm.put("unsigned.rpm", PACKAGE));
    let before: Vec<Vec<u8>> = packages.iter().map(|path| fs::read(path).unwrap()).collect();
    let ran = farm.resign_ok(&["--journal", "journal"]);
    assert!(
        ran.stderr.contains("The way back: sealwright resign --undo --journal journal"),
        "{}",
        ran.stderr
    );
    let judge = Judge::new();
    packages.iter().for_each(|path| judge.is_new(path));
    // Somebody has put another package there meanwhile.
    fs::copy(sealwright_testkit::fixtures::package(NO_RESERVE), &packages[0]).unwrap();
    let undone = farm.home.run(&["--json", "resign", "--undo", "--journal", "journal"]);
    assert_eq!(undone.code, Some(1), "{}", undone.text());
    assert!(undone.stderr.contains("6 put back, 1 failed (unchanged)"), "{}", undone.stderr);
    assert_eq!(undone.json().iter().filter(|object| object["status"] == "restored").count(), 6);
    let after: Vec<Vec<u8>> = packages.iter().map(|path| fs::read(path).unwrap()).collect();
    assert!(after[1..] == before[1..], "not every byte came back");
    assert_eq!(after[0], fs::read(sealwright_testkit::fixtures::package(NO_RESERVE)).unwrap());
    // Once more, there is nothing to do.
    fs::remove_file(&packages[0]).unwrap();
    fs::write(&packages[0], &before[0]).unwrap();
    let again = farm.home.ok(&["resign", "--undo", "--journal", "journal"]);
    assert!(again.stderr.contains("0 put back, 7 had the old signature"), "{}", again.stderr);
}

#[test]
fn another_campaign_does_not_use_this_journal_and_undo_needs_one() {
    let farm = Farm::new();
    farm.put("a.rpm", PACKAGE);
    farm.resign_ok(&["--journal", "journal"]);
    let other = farm.home.run(&["resign", "--key", OLD.name, "--journal", "journal", "repo"]);
    assert_eq!(other.code, Some(1), "{}", other.text());
    assert!(other.stderr.contains("is of another campaign"), "{}", other.stderr);
    assert_eq!(farm.home.run(&["resign", "--undo"]).code, Some(2));
}
