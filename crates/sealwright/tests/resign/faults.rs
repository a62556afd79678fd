//! Disks that fail, handles that go stale, locks that others hold, and a second campaign.

use std::fs;

use nix::libc;
use sealwright_testkit::fixtures;
use sealwright_testkit::trace::{self, Act, Actor, Call, Moment};

use crate::disk::Disk;
use crate::farm::{Farm, Judge, NEW, PACKAGE};

#[test]
fn a_second_campaign_on_an_overlapping_tree_is_refused_by_name() {
    let farm = Farm::new();
    farm.put("el9/a.rpm", PACKAGE);
    let held = fs::File::open(farm.repo()).unwrap();
    rustix::fs::flock(&held, rustix::fs::FlockOperation::LockExclusive).unwrap();
    let log = farm.home.log_size();
    for tree in ["repo", "repo/el9", "."] {
        let ran = farm.home.run(&["resign", "--key", NEW.name, tree]);
        assert_eq!(ran.code, Some(if tree == "." { 0 } else { 1 }), "{tree}: {}", ran.text());
        if tree != "." {
            assert!(
                ran.stderr.contains("another campaign works on") && ran.stderr.contains("repo"),
                "{}",
                ran.stderr
            );
        }
    }
    drop(held);
    // A campaign itself holds the directories above its tree in common.
    let shared = fs::File::open(farm.home.work()).unwrap();
    rustix::fs::flock(&shared, rustix::fs::FlockOperation::LockShared).unwrap();
    let ran = farm.home.run(&["resign", "--key", NEW.name, "."]);
    assert!(ran.stderr.contains("another campaign works on"), "{}", ran.stderr);
    assert_eq!(farm.home.log_size(), log + 1);
}

/// Whether it is about a temporary or a package of the tree.
fn in_tree(farm: &Farm, call: &Call) -> bool {
    let repo = farm.repo().canonicalize().unwrap();
    call.actor == Actor::Front && call.path.starts_with(repo) && call.path.is_absolute()
}

#[test]
fn a_failed_sync_ends_the_campaign_and_says_that_the_state_is_unknown() {
    let farm = Farm::new();
    let packages = farm.fill("a", 12);
    let mut failed = 0;
    let traced = trace::run(&farm.command(&["--jobs", "1"]), &mut |call, moment| {
        if moment == Moment::Before && call.is_sync() && in_tree(&farm, call) && failed == 0 {
            failed += 1;
            return Act::Fail(libc::EIO);
        }
        Act::Go
    });
    let ran = traced.ran;
    assert_eq!((failed, ran.code), (1, Some(1)), "{}", ran.text());
    assert!(ran.stderr.contains("STOPPED at repo/a/"), "{}", ran.stderr);
    assert!(ran.stderr.contains("what is on the disk is not known"), "{}", ran.stderr);
    assert!(ran.stderr.contains("not begun") && ran.stderr.contains("Go on: "), "{}", ran.stderr);
    let ran = farm.resign_ok(&[]);
    assert!(ran.stderr.contains("Going on with the campaign of"), "{}", ran.stderr);
    let judge = Judge::new();
    packages.iter().for_each(|path| judge.is_new(path));
    assert_eq!(farm.home.log_size(), 12, "what was signed and not applied is not signed twice");
}

#[test]
fn a_full_disk_ends_the_campaign_with_what_to_do_and_the_same_command_goes_on() {
    let farm = Farm::new();
    let packages = farm.fill("a", 12);
    let mut failed = 0;
    let traced = trace::run(&farm.command(&["--jobs", "1"]), &mut |call, moment| {
        let is_write = call.name == "copy_file_range" || call.is_write();
        if moment == Moment::Before && is_write && in_tree(&farm, call) && failed < 2 {
            failed += 1;
            return Act::Fail(libc::ENOSPC);
        }
        Act::Go
    });
    let ran = traced.ran;
    assert_eq!(ran.code, Some(1), "{}", ran.text());
    assert!(failed > 0);
    assert!(
        ran.stderr.contains("STOPPED at repo/a/") && ran.stderr.contains("Free some space"),
        "{}",
        ran.stderr
    );
    farm.resign_ok(&[]);
    let judge = Judge::new();
    packages.iter().for_each(|path| judge.is_new(path));
    assert_eq!(farm.home.log_size(), 12);
}

#[test]
fn a_journal_that_cannot_be_synced_ends_the_campaign_before_anything_is_asked_for() {
    let farm = Farm::new();
    let package = farm.put("a.rpm", PACKAGE);
    let traced = trace::run(&farm.command(&[]), &mut |call, moment| {
        let is_journal = call.path.to_string_lossy().contains("/campaign-");
        if moment == Moment::Before && call.name == "fdatasync" && is_journal {
            return Act::Fail(libc::EIO);
        }
        Act::Go
    });
    assert_eq!(traced.ran.code, Some(1), "{}", traced.ran.text());
    assert_eq!(farm.home.log_size(), 0);
    assert_eq!(fs::read(&package).unwrap(), fs::read(fixtures::package(PACKAGE)).unwrap());
    farm.resign_ok(&[]);
    assert_eq!(farm.home.log_size(), 1);
}

#[test]
fn a_stale_handle_is_met_by_opening_the_file_again() {
    let farm = Farm::new();
    let package = farm.put("a.rpm", PACKAGE);
    let (mut locked, mut failed) = (false, 0);
    let traced = trace::run(&farm.command(&[]), &mut |call, moment| {
        let is_package = call.path.ends_with("repo/a.rpm");
        // Only signing locks a file: the plan is behind us.
        locked |= is_package && call.name == "flock";
        if moment == Moment::Before && locked && is_package && call.name == "pread64" && failed < 2 {
            failed += 1;
            return Act::Fail(libc::ESTALE);
        }
        Act::Go
    });
    assert_eq!((failed, traced.ran.code), (2, Some(0)), "{}", traced.ran.text());
    Judge::new().is_new(&package);
    assert_eq!(farm.home.log_size(), 1);
}

#[test]
fn what_was_not_begun_counts_packages_that_are_to_be_signed_and_nothing_else() {
    let farm = Farm::new();
    farm.fill("a", 12);
    farm.sign(NEW, &farm.repo().join("a/003.rpm"));
    for number in 0..30 {
        fs::write(farm.repo().join(format!("a/readme{number}")), "no package").unwrap();
    }
    let mut failed = 0;
    let traced = trace::run(&farm.command(&["--jobs", "1", "--json"]), &mut |call, moment| {
        if moment == Moment::Before && call.is_sync() && in_tree(&farm, call) && failed == 0 {
            failed += 1;
            return Act::Fail(libc::EIO);
        }
        Act::Go
    });
    let json = traced.ran.json();
    let summary = json.last().unwrap();
    let count = |name: &str| summary[name].as_u64().unwrap();
    assert!(traced.ran.stderr.contains("STOPPED at repo/a/"), "{}", traced.ran.text());
    assert_eq!(count("signed") + count("failed") + count("not_begun"), 11, "{summary}");
}

#[test]
fn a_full_disk_under_the_journal_stops_the_campaign_with_the_command_that_goes_on_once_there_is_space() {
    for disk in [Disk::tmpfs(1024), Disk::ext4(16)] {
        let Some(disk) = disk else { return };
        let farm = Farm::new();
        let packages = farm.fill("a", 60);
        let journal = disk.path().join("journal");
        let arguments = ["--journal", journal.to_str().unwrap(), "--jobs", "4"];
        disk.fill_but(0);
        let ran = farm.resign(&arguments);
        assert_eq!(ran.code, Some(1), "{}", ran.text());
        assert!(ran.stderr.contains("Free some space") && !ran.stderr.contains("STOPPED"), "{}", ran.text());
        assert_eq!((farm.home.log_size(), journal.exists()), (0, false), "nothing was begun");
        // Room for some records.
        disk.fill_but(8 << 10);
        for _ in 0..2 {
            let ran = farm.resign(&arguments);
            assert_eq!(ran.code, Some(1), "{}", ran.text());
            assert!(
                ran.stderr.contains("STOPPED at ") && ran.stderr.contains("Free some space"),
                "{}",
                ran.text()
            );
            let again = format!("Go on: sealwright resign --key ed25519 --journal {}", journal.display());
            assert!(ran.stderr.contains(&again) && ran.stderr.contains("not begun"), "{}", ran.text());
        }
        assert!((1..60).contains(&farm.home.log_size()), "{}", farm.home.log_size());
        fs::remove_file(disk.path().join("filler")).unwrap();
        let ran = farm.resign_ok(&arguments);
        assert!(ran.stderr.contains("Going on with the campaign of"), "{}", ran.text());
        let judge = Judge::new();
        packages.iter().for_each(|path| judge.is_new(path));
        assert_eq!(farm.home.log_size(), 60, "nothing is signed twice");
    }
}
