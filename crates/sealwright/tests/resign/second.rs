//! `--output`: a second tree to switch to.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use sealwright_testkit::fixtures;

use crate::farm::{Farm, Judge, NEW, OLD, PACKAGE};

fn tree(root: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![PathBuf::new()];
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(root.join(&directory)).unwrap() {
            let relative = directory.join(entry.unwrap().file_name());
            if root.join(&relative).symlink_metadata().unwrap().is_dir() {
                open.push(relative.clone());
            }
            found.push(relative);
        }
    }
    found.sort();
    found
}

#[test]
fn the_second_tree_has_signed_packages_and_links_to_all_else_and_the_first_is_as_it_was() {
    let farm = Farm::new();
    let repo = farm.repo();
    let old = farm.put("el9/a.rpm", PACKAGE);
    farm.sign(OLD, &repo);
    let already = farm.put("el9/already.rpm", PACKAGE);
    farm.sign(NEW, &already);
    let unsigned = farm.put("el9/unsigned.rpm", PACKAGE);
    fs::create_dir_all(repo.join("el9/empty")).unwrap();
    fs::write(repo.join("el9/comps.xml"), "<comps/>").unwrap();
    symlink("el9", repo.join("latest")).unwrap();
    symlink("/etc/passwd", repo.join("outside")).unwrap();
    fs::set_permissions(repo.join("el9"), fs::Permissions::from_mode(0o750)).unwrap();
    let long_ago =
        fs::FileTimes::new().set_modified(std::time::UNIX_EPOCH + std::time::Duration::from_secs(86_400));
    fs::File::open(repo.join("el9/empty")).unwrap().set_times(long_ago).unwrap();
    let before: Vec<_> = [&old, &already, &unsigned].iter().map(|path| fs::read(path).unwrap()).collect();
    let ran = farm.resign_ok(&["--from", OLD.name, "--output", "new", "--purge-list", "purge"]);
    let new = farm.home.work().join("new");
    assert_eq!(tree(&new), tree(&repo));
    Judge::new().is_new(&new.join("el9/a.rpm"));
    for name in ["el9/already.rpm", "el9/unsigned.rpm", "el9/comps.xml"] {
        let inode = |root: &Path| fs::metadata(root.join(name)).unwrap().ino();
        assert_eq!(inode(&new), inode(&repo), "{name} is a link");
    }
    assert_eq!(fs::read_link(new.join("latest")).unwrap(), Path::new("el9"));
    assert_eq!(fs::read_link(new.join("outside")).unwrap(), Path::new("/etc/passwd"));
    let facts = |root: &Path, name: &str| {
        let meta = fs::metadata(root.join(name)).unwrap();
        (meta.mode(), meta.mtime(), meta.uid())
    };
    for name in ["", "el9", "el9/empty"] {
        assert_eq!(facts(&new, name), facts(&repo, name), "{name}");
    }
    let after: Vec<_> = [&old, &already, &unsigned].iter().map(|path| fs::read(path).unwrap()).collect();
    assert_eq!(before, after);
    assert_eq!(fs::read_to_string(farm.home.work().join("purge")).unwrap(), "el9/a.rpm\n");
    assert!(ran.stderr.contains("ln -sfn ") && ran.stderr.contains("mv -T"), "{}", ran.stderr);
}

#[test]
fn the_command_that_switches_the_link_works_and_names_the_link_that_was_named() {
    let farm = Farm::new();
    farm.put("a.rpm", PACKAGE);
    symlink("repo", farm.home.work().join("current")).unwrap();
    let ran = farm.home.ok(&["resign", "--key", NEW.name, "--output", "new", "current"]);
    let command = ran.stderr.lines().find(|line| line.contains("ln -sfn")).unwrap().trim();
    let mut shell = std::process::Command::new("sh");
    sealwright_testkit::tools::succeed(shell.arg("-ec").arg(command).current_dir(farm.home.work()));
    assert!(fs::read_link(farm.home.work().join("current")).unwrap().ends_with("new"));
    Judge::new().is_new(&farm.home.work().join("current/a.rpm"));
}

#[test]
fn a_directory_that_this_campaign_did_not_begin_or_that_lies_in_the_tree_is_refused_each_time() {
    let farm = Farm::new();
    let package = farm.put("a.rpm", PACKAGE);
    fs::create_dir(farm.home.work().join("taken")).unwrap();
    fs::write(farm.home.work().join("taken/file"), "mine").unwrap();
    for _ in 0..2 {
        let ran = farm.resign(&["--output", "taken"]);
        assert_eq!(ran.code, Some(1), "{}", ran.text());
        assert!(ran.stderr.contains("is not empty"), "{}", ran.stderr);
    }
    let inside = farm.resign(&["--output", "repo/new"]);
    assert!(inside.stderr.contains("lies in the tree"), "{}", inside.stderr);
    assert!(!farm.repo().join("new").exists());
    assert_eq!(fs::read(package).unwrap(), fs::read(fixtures::package(PACKAGE)).unwrap());
    assert_eq!(farm.home.log_size(), 0);
}

#[test]
fn a_second_tree_that_is_complete_is_said_to_be_each_time_and_is_built_anew_when_it_is_empty() {
    let farm = Farm::new();
    let already = farm.put("a.rpm", PACKAGE);
    let new = farm.home.work().join("new");
    // With something to sign, and with nothing.
    for signed in [1, 0] {
        farm.resign_ok(&["--output", "new"]);
        for _ in 0..2 {
            let ran = farm.resign(&["--output", "new"]);
            assert_eq!(ran.code, Some(1), "{}", ran.text());
            assert!(
                ran.stderr.contains("is complete") && !ran.stderr.contains("not empty"),
                "{}",
                ran.text()
            );
            assert!(ran.stderr.contains("Switch the symbolic link"), "{}", ran.text());
        }
        Judge::new().is_new(&new.join("a.rpm"));
        assert_eq!(farm.home.log_size(), 1, "{signed}");
        fs::copy(new.join("a.rpm"), &already).unwrap();
        fs::remove_file(new.join("a.rpm")).unwrap();
    }
}
