//! What is said at the end: failures by reason, the check, metadata, paths to purge; and that the same command goes on.

use std::fs;

use sealwright_testkit::fixtures;

use crate::farm::{Farm, Judge, NEW, OLD, PACKAGE};

#[test]
fn failures_are_counted_by_reason_and_the_same_command_goes_on_with_what_is_left() {
    let farm = Farm::new();
    let good = farm.fill("good", 3);
    let bytes = fs::read(fixtures::package(PACKAGE)).unwrap();
    for number in 0..5 {
        fs::write(farm.repo().join(format!("bad{number}.rpm")), &bytes[..300]).unwrap();
    }
    let ran = farm.resign(&["--json"]);
    assert_eq!(ran.code, Some(1), "{}", ran.text());
    assert!(ran.stderr.contains("3 signed, 5 failed (unchanged)"), "{}", ran.stderr);
    assert!(ran.stderr.contains("5 failed: "), "{}", ran.stderr);
    assert!(ran.stderr.contains("Go on: sealwright resign --key ed25519 repo"), "{}", ran.stderr);
    let objects = ran.json();
    assert_eq!(objects.iter().filter(|object| object["status"] == "signed").count(), 3);
    assert_eq!(objects.iter().filter(|object| object["status"] == "failed").count(), 5);
    let summary = objects.last().unwrap();
    assert_eq!(summary["status"], "summary");
    assert_eq!(summary["finished"], false);
    assert_eq!(summary["reasons"][0]["files"], 5, "{summary}");
    assert_eq!(summary["check"]["unreadable"], 5, "{summary}");
    for number in 0..5 {
        fs::write(farm.repo().join(format!("bad{number}.rpm")), &bytes).unwrap();
    }
    let log = farm.home.log_size();
    let ran = farm.resign_ok(&["--json"]);
    assert!(
        ran.stderr.contains("Going on with the campaign of")
            && ran.stderr.contains("5 signed, 3 signed before")
    );
    assert_eq!(ran.json().last().unwrap()["finished"], true);
    assert_eq!(farm.home.log_size(), log + 5);
    good.iter().for_each(|path| Judge::new().is_new(path));
}

#[test]
fn a_package_that_still_carries_the_old_key_is_found_by_the_check_and_fails_the_campaign() {
    let farm = Farm::new();
    let fine = farm.put("fine.rpm", PACKAGE);
    let held = farm.put("held.rpm", PACKAGE);
    farm.sign(OLD, &farm.repo());
    // In use by another signer for the whole time.
    let file = fs::File::open(&held).unwrap();
    rustix::fs::flock(&file, rustix::fs::FlockOperation::LockExclusive).unwrap();
    let ran = farm.resign(&["--from", OLD.name]);
    assert_eq!(ran.code, Some(1), "{}", ran.text());
    assert!(ran.stderr.contains("in use by another signer"), "{}", ran.stderr);
    assert!(
        ran.stderr.contains(&format!("1 package still carries the old key {}:", OLD.name)),
        "{}",
        ran.stderr
    );
    assert!(ran.stderr.contains("repo/held.rpm"), "{}", ran.stderr);
    drop(file);
    farm.resign_ok(&["--from", OLD.name]);
    let judge = Judge::new();
    judge.is_new(&fine);
    judge.is_new(&held);
}

#[test]
fn a_package_with_two_signatures_of_one_key_is_counted_once() {
    let farm = Farm::new();
    farm.put("a.rpm", PACKAGE);
    farm.put("b.rpm", PACKAGE);
    // Over the header, and over header and payload.
    let ran = farm.resign_ok(&["--rpm-signature", "both"]);
    let line = ran.stderr.lines().find(|line| line.starts_with("Check: ")).unwrap();
    assert!(line.starts_with("Check: 2 packages: 2 by ") && !line.contains(','), "{line}");
}

#[test]
fn metadata_to_be_made_anew_and_changed_paths_to_purge_are_said() {
    let farm = Farm::new();
    for directory in ["el8", "el9", "el10"] {
        fs::create_dir_all(farm.repo().join(directory).join("repodata")).unwrap();
        fs::write(farm.repo().join(directory).join("repodata/repomd.xml"), "<repomd/>").unwrap();
    }
    let changed = farm.put("el8/Packages/a/a.rpm", PACKAGE);
    farm.put("el9/b.rpm", PACKAGE);
    let already = farm.put("el10/c.rpm", PACKAGE);
    farm.sign(NEW, &already);
    let ran = farm.resign_ok(&["--purge-list", "purge"]);
    let repo = farm.repo().canonicalize().unwrap();
    for directory in ["el8", "el9"] {
        let command = format!("createrepo_c --update {}\n", repo.join(directory).display());
        assert!(ran.stderr.contains(&command), "{command}: {}", ran.stderr);
    }
    assert!(!ran.stderr.contains("el10"), "nothing changed there: {}", ran.stderr);
    let list = fs::read_to_string(farm.home.work().join("purge")).unwrap();
    let mut paths: Vec<&str> = list.lines().collect();
    paths.sort_unstable();
    assert_eq!(paths, ["el8/Packages/a/a.rpm", "el9/b.rpm"]);
    Judge::new().is_new(&changed);
}

#[test]
fn the_rate_is_never_exceeded() {
    let farm = Farm::new();
    farm.fill("a", 11);
    let begun = std::time::Instant::now();
    farm.resign_ok(&["--rate", "5"]);
    // Ten gaps of 200 ms; it may take longer, never shorter.
    assert!(begun.elapsed() >= std::time::Duration::from_secs(2), "{:?}", begun.elapsed());
    assert_eq!(farm.home.log_size(), 11);
}

#[test]
fn a_campaign_over_a_server_signs_all_over_one_connection() {
    let mut server = sealwright_testkit::server::Server::new(crate::farm::PROGRAM);
    server.start();
    server.import(NEW);
    fs::create_dir(server.work().join("repo")).unwrap();
    let packages: Vec<_> = (0..30)
        .map(|number| {
            let path = server.work().join(format!("repo/{number}.rpm"));
            fs::copy(fixtures::package(PACKAGE), &path).unwrap();
            path
        })
        .collect();
    let ran = server.ok(&["resign", "--key", NEW.name, "repo"]);
    assert!(ran.stderr.contains("30 signed"), "{}", ran.stderr);
    let judge = Judge::new();
    packages.iter().for_each(|path| judge.is_new(path));
}
