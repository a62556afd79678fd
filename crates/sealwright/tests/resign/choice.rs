//! Which packages are signed, by which key, and which are left alone.

use std::fs;
use std::os::unix::fs::MetadataExt as _;

use sealwright_testkit::fixtures::{self, RSA4096};

use crate::farm::{Farm, Judge, NEW, NO_RESERVE, OLD, PACKAGE};

#[test]
fn with_from_only_packages_of_the_old_key_are_signed_and_all_others_are_left_and_counted() {
    let farm = Farm::new();
    farm.home.import(RSA4096.name, &RSA4096.secret());
    let old = farm.put("a/old.rpm", PACKAGE);
    let moved = farm.put("b/c/old.rpm", NO_RESERVE);
    farm.sign(OLD, &farm.repo());
    let foreign = farm.put("foreign.rpm", PACKAGE);
    farm.sign(RSA4096, &foreign);
    let unsigned = farm.put("unsigned.rpm", PACKAGE);
    let already = farm.put("already.rpm", PACKAGE);
    farm.sign(NEW, &already);
    fs::write(farm.repo().join("readme"), "no package").unwrap();
    let left = [&foreign, &unsigned, &already].map(|path| (path, fs::read(path).unwrap()));
    let before = farm.home.log_size();
    let ran = farm.resign_ok(&["--from", OLD.name]);
    assert!(
        ran.stderr.contains("2 signed, 1 signed before, 1 unsigned (left so), 1 of other keys (left so)"),
        "{}",
        ran.stderr
    );
    assert!(ran.stderr.contains("1 no packages"), "{}", ran.stderr);
    let judge = Judge::new();
    judge.is_new(&old);
    judge.is_new(&moved);
    for (path, bytes) in left {
        assert_eq!(fs::read(path).unwrap(), bytes, "{}", path.display());
    }
    assert_eq!(farm.home.log_size(), before + 2);
}

#[test]
fn the_old_key_can_be_named_by_fingerprint_key_id_or_certificate_after_it_is_gone_from_the_store() {
    let with_old = Farm::new();
    let shown = with_old.home.ok(&["--json", "key", "show", OLD.name]).json();
    let fingerprint = shown[0]["fingerprint"].as_str().unwrap().to_owned();
    let certificate = with_old.home.export(OLD.name);
    for named in [fingerprint.as_str(), &fingerprint[24..], certificate.to_str().unwrap()] {
        // In this home the old key has never been.
        let home = sealwright_testkit::sealwright::Home::with_keys(crate::farm::PROGRAM, &[NEW]);
        fs::create_dir(home.work().join("repo")).unwrap();
        let farm = Farm { home };
        let old = farm.put("old.rpm", PACKAGE);
        with_old.sign(OLD, &old);
        let ran = farm.resign_ok(&["--from", named]);
        assert!(ran.stderr.contains("1 signed"), "{named}: {}", ran.text());
        Judge::new().is_new(&old);
    }
    let unknown = with_old.resign(&["--from", "nobody"]);
    assert_eq!(unknown.code, Some(1), "{}", unknown.text());
    assert!(unknown.stderr.contains("--from: ") && unknown.stderr.contains("nobody"), "{}", unknown.text());
}

#[test]
fn without_from_every_package_gets_the_new_signature_and_a_second_campaign_signs_nothing() {
    let farm = Farm::new();
    let packages = [farm.put("a/old.rpm", PACKAGE), farm.put("b/unsigned.rpm", PACKAGE)];
    farm.sign(OLD, &packages[0]);
    farm.resign_ok(&["--in-place"]);
    let judge = Judge::new();
    packages.iter().for_each(|path| judge.is_new(path));
    let (log, inodes) =
        (farm.home.log_size(), packages.each_ref().map(|path| fs::metadata(path).unwrap().mtime()));
    let ran = farm.resign_ok(&[]);
    assert!(ran.stderr.contains("0 signed, 2 signed before"), "{}", ran.stderr);
    assert_eq!(farm.home.log_size(), log);
    assert_eq!(packages.each_ref().map(|path| fs::metadata(path).unwrap().mtime()), inodes);
    // A campaign in which nothing was asked for leaves no journal; the finished one is kept.
    assert_eq!(farm.journals().len(), 1, "{:?}", farm.journals());
}

#[test]
fn a_dry_run_says_what_would_be_done_and_changes_nothing() {
    let farm = Farm::new();
    let old = farm.put("old.rpm", PACKAGE);
    farm.sign(OLD, &old);
    farm.put("unsigned.rpm", PACKAGE);
    let damaged = farm.repo().join("damaged.rpm");
    fs::write(&damaged, &fs::read(fixtures::package(PACKAGE)).unwrap()[..200]).unwrap();
    let (log, bytes) = (farm.home.log_size(), fs::read(&old).unwrap());
    let ran = farm.resign(&["--json", "--from", OLD.name, "--dry-run"]);
    assert_eq!(ran.code, Some(1), "{}", ran.text());
    let objects = ran.json();
    let statuses: Vec<&str> = objects.iter().map(|object| object["status"].as_str().unwrap()).collect();
    assert_eq!(statuses.iter().filter(|status| **status == "would-sign").count(), 1);
    assert_eq!(statuses.iter().filter(|status| **status == "failed").count(), 1);
    let plan = objects.last().unwrap();
    assert_eq!((plan["status"].as_str(), plan["sign"].as_u64()), (Some("plan"), Some(1)), "{plan}");
    assert_eq!((plan["unsigned"].as_u64(), plan["failed"].as_u64()), (Some(1), Some(1)), "{plan}");
    assert!(ran.stderr.contains("FAILED repo/damaged.rpm"), "{}", ran.stderr);
    assert_eq!((farm.home.log_size(), fs::read(&old).unwrap()), (log, bytes));
    assert!(farm.journals().is_empty());
}

#[test]
fn names_of_one_file_in_two_directories_get_one_signature_and_stay_one_file() {
    let farm = Farm::new();
    let names = ["el8/a.rpm", "el9/a.rpm", "el9/b.rpm"].map(|name| farm.repo().join(name));
    farm.put("el8/a.rpm", PACKAGE);
    fs::create_dir(farm.repo().join("el9")).unwrap();
    fs::hard_link(&names[0], &names[1]).unwrap();
    fs::hard_link(&names[0], &names[2]).unwrap();
    farm.fill("el7", 20);
    let ran = farm.resign_ok(&[]);
    assert!(!ran.stderr.contains("hard link broken"), "{}", ran.stderr);
    assert_eq!(farm.home.log_size(), 21);
    let inodes = names.each_ref().map(|name| fs::metadata(name).unwrap().ino());
    assert!(inodes.iter().all(|inode| *inode == inodes[0]), "{inodes:?}");
    Judge::new().is_new(&names[2]);
}

#[test]
fn the_key_of_the_longest_directory_of_the_map_signs_and_a_directory_without_a_key_is_left() {
    let farm = Farm::new();
    let (el8, el9, beta) = (
        farm.put("el8/a.rpm", PACKAGE),
        farm.put("el9/a.rpm", PACKAGE),
        farm.put("el9/beta/x/a.rpm", PACKAGE),
    );
    let map = farm.home.work().join("keys");
    let run = |text: &str| {
        fs::write(&map, text).unwrap();
        farm.home.run(&["resign", "--key-map", "keys", "repo"])
    };
    let refused = run("repo/el9 = rsa2048\nrepo/el10 = ed25519\n");
    assert_eq!(refused.code, Some(2), "{}", refused.text());
    assert!(refused.stderr.contains("line 2: repo/el10"), "{}", refused.stderr);
    let ran = run("repo/el9 = rsa2048\nrepo/el9/beta = ed25519\n");
    assert!(ran.stderr.contains("2 signed, 1 without a key (left as they are)"), "{}", ran.text());
    assert!(ran.code == Some(0) && !ran.stderr.contains("the new key"), "none is given: {}", ran.text());
    let judge = Judge::new();
    judge.is_old(&el9);
    judge.is_new(&beta);
    assert_eq!(fs::read(el8).unwrap(), fs::read(fixtures::package(PACKAGE)).unwrap());
}

#[test]
fn an_unknown_key_is_said_with_the_option_or_the_line_of_the_map_that_named_it() {
    let farm = Farm::new();
    farm.put("el8/a.rpm", PACKAGE);
    farm.put("el9/a.rpm", PACKAGE);
    fs::write(farm.home.work().join("keys"), "# two\nrepo/el8 = ed25519\nrepo/el9 = lost\n").unwrap();
    for (arguments, named) in [
        (&["--key", "lost"][..], "--key: "),
        (&["--key", NEW.name, "--from", "lost"], "--from: "),
        (&["--key-map", "keys"], "the key map keys, line 3: "),
    ] {
        let ran = farm.home.run(&[&["resign"], arguments, &["repo"]].concat());
        assert_eq!(ran.code, Some(1), "{}", ran.text());
        assert!(ran.stderr.contains(named) && ran.stderr.contains("lost"), "{named}: {}", ran.text());
    }
    assert!(farm.journals().is_empty() && farm.home.log_size() == 0);
}
