//! Files committed as one group: how many syncs that takes, counted by strace, and that none is saved where a result
//! would not last.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "tests"
)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use sealwright_client::apply::group::{self, Job};
use sealwright_client::apply::journal::StateDirectory;
use sealwright_client::apply::sidecar::{Beside, Keep};
use sealwright_client::apply::{HardLinks, Policy, Staged, Target, Writing};
use sealwright_client::source::file::SourceFile;
use sealwright_client::source::{Entry, Place};
use sealwright_formats::prepared::{BesideFile, BesideKind, BesideName, NewContent, Room};
use sealwright_formats::splice::{Edit, Edits};

/// Names the folder, in the process that strace watches.
const FOLDER: &str = "SEALWRIGHT_TEST_FOLDER";
/// What is committed there: a word below.
const WHAT: &str = "SEALWRIGHT_TEST_WHAT";
const REPLACED: &str = "replaced";
const IN_PLACE: &str = "in place";
const IN_SPARE: &str = "in place, without space but the reserved";
const SIGNATURE_FILES: &str = "signature files";

/// Calls of one kind in order, each with the path that it is about.
fn traced(what: &str) -> (tempfile::TempDir, Vec<(String, PathBuf)>) {
    let folder = tempfile::tempdir().unwrap();
    for dir in ["work/a", "work/b"] {
        fs::create_dir_all(folder.path().join(dir)).unwrap();
        for file in 0..32 {
            fs::write(folder.path().join(dir).join(format!("{file}.rpm")), vec![7; 9000]).unwrap();
        }
    }
    let log = folder.path().join("log");
    let mut strace = Command::new("strace");
    strace
        .args([
            "-f",
            "-y",
            "-qq",
            "-e",
            "trace=fsync,fdatasync,syncfs,fallocate,renameat,renameat2,pwrite64,unlinkat",
            "-o",
        ])
        .arg(&log);
    if what == IN_SPARE {
        // The record's own file is refused its name.
        strace.args(["-e", "inject=renameat:error=ENOSPC"]);
    }
    strace.arg(std::env::current_exe().unwrap()).args(["--exact", "the_group_that_strace_watches"]);
    strace.env(FOLDER, folder.path()).env(WHAT, what);
    assert!(strace.output().unwrap().status.success());
    let text = fs::read_to_string(log).unwrap();
    let calls = text
        .lines()
        .filter_map(|line| {
            let (_, call) = line.split_once(' ')?;
            let (call, rest) = call.trim_start().split_once('(')?;
            let path = rest.split_once('<')?.1.split_once('>')?.0;
            path.starts_with(folder.path().to_str()?).then(|| (call.to_owned(), PathBuf::from(path)))
        })
        .collect();
    (folder, calls)
}

#[test]
fn the_group_that_strace_watches() {
    let Some(folder) = std::env::var_os(FOLDER) else { return };
    let folder = Path::new(&folder);
    let what = std::env::var(WHAT).unwrap();
    let writing = if [IN_PLACE, IN_SPARE].contains(&what.as_str()) {
        Writing::InPlace(Arc::new(StateDirectory::open(&folder.join("state")).unwrap()))
    } else {
        Writing::Replace
    };
    let policy = Policy { writing, hard_links: HardLinks::Careful };
    let mut jobs = Vec::new();
    for dir in ["work/a", "work/b"] {
        for file in 0..32 {
            let shown = folder.join(dir).join(format!("{file}.rpm"));
            let entry = Entry { shown, place: Place::Named };
            let source = Arc::new(SourceFile::open_locked(&entry).unwrap());
            if what == SIGNATURE_FILES {
                let beside = Beside::of(&entry, &source).unwrap();
                let (name, kind) = (BesideName::Suffix(".sig"), BesideKind::Signatures);
                let file = BesideFile { name, kind, item: 0, len_max: 0 };
                let staged = beside.stage(source, vec![file], Keep::Nothing, 100).unwrap();
                let content = vec![NewContent::Bytes(vec![9; 100])];
                jobs.push(Job::Sidecars(Box::new(staged.filled(content).unwrap())));
                continue;
            }
            let target = Target::replacing(&source);
            let room = Room { from: 100, until: 104, growth_max: 0, keeps_len: true, shares: true };
            let staged = Staged::stage(source, target, &policy, &|_| room).unwrap();
            let edit = Edit { offset: 100, remove: 4, insert: b"abcd".to_vec() };
            jobs.push(Job::from((staged, Edits::new(vec![edit], 9000).unwrap())));
        }
    }
    assert!(group::commit(jobs).iter().all(Result::is_ok));
}

fn positions(calls: &[(String, PathBuf)], is: impl Fn(&str, &Path) -> bool) -> Vec<usize> {
    let of = |(at, (call, path)): (usize, &(String, PathBuf))| is(call, path).then_some(at);
    calls.iter().enumerate().filter_map(of).collect()
}

/// Syncs of what was written: of single files, or of their whole file system by one of them.
fn syncs_of_files(calls: &[(String, PathBuf)], is: &dyn Fn(&Path) -> bool) -> Vec<usize> {
    positions(calls, |call, path| (call == "fsync" && is(path)) || call == "syncfs")
}

#[test]
fn sixty_four_files_in_two_directories_take_one_sync_of_all_files_and_2_of_directories_in_the_right_order() {
    let (folder, calls) = traced(REPLACED);
    let work = folder.path().join("work");
    let is_dir = |path: &Path| path == work.join("a") || path == work.join("b");
    let files = syncs_of_files(&calls, &|path| !is_dir(path));
    let renames = positions(&calls, |call, _| call == "renameat");
    let dirs = positions(&calls, |call, path| call == "fsync" && is_dir(path));
    assert_eq!((files.len(), renames.len(), dirs.len()), (1, 64, 2));
    assert!(files.last() < renames.first(), "no name before all content is on the disk");
    assert!(renames.last() < dirs.first());
}

#[test]
fn in_place_one_record_is_synced_for_all_before_the_first_write_and_goes_after_the_last_sync() {
    let (folder, calls) = traced(IN_PLACE);
    let (work, state) = (folder.path().join("work"), folder.path().join("state"));
    let writes = positions(&calls, |call, path| call == "pwrite64" && path.starts_with(&work));
    let files = syncs_of_files(&calls, &|path| path.starts_with(&work));
    let record = positions(&calls, |call, path| call == "fsync" && path.starts_with(&state));
    let gone = positions(&calls, |call, path| call == "unlinkat" && path == state);
    let reserved = positions(&calls, |call, path| call == "fallocate" && path.starts_with(&state));
    // The file that reserved space goes when the record is safe elsewhere; the record goes at the end.
    assert_eq!((writes.len(), files.len(), record.len(), gone.len()), (64, 1, 2, 2), "{calls:?}");
    assert!((1..=4).contains(&reserved.len()), "in steps for many");
    assert!(reserved.last() < record.first() && record.last() < gone.first());
    assert!(
        record.last() < writes.first(),
        "nothing is written before its record and the record's name are synced"
    );
    assert!(writes.last() < files.first() && files.last() < gone.last());
}

#[test]
fn in_reserved_space_a_record_is_synced_before_its_header_and_both_before_the_first_write() {
    let (folder, calls) = traced(IN_SPARE);
    let (work, state) = (folder.path().join("work"), folder.path().join("state"));
    let is_spare = |path: &Path| path.parent() == Some(&state) && path.to_str().unwrap().contains("/spare-");
    let steps: Vec<&str> = calls
        .iter()
        .filter_map(|(call, path)| match call.as_str() {
            "pwrite64" if is_spare(path) => Some("into the space"),
            "fsync" if is_spare(path) => Some("space synced"),
            "fsync" if *path == state => Some("name synced"),
            "pwrite64" if path.starts_with(&work) => Some("files"),
            "fsync" | "syncfs" if path.starts_with(&work) => Some("files synced"),
            _ => None,
        })
        .collect();
    let mut shown = steps.clone();
    shown.dedup();
    let expected = [
        "into the space",
        "space synced",
        "into the space",
        "space synced",
        "name synced",
        "files",
        "files synced",
        "into the space",
    ];
    assert_eq!(shown, expected, "journal, header, files, no header");
    assert_eq!(steps.iter().filter(|step| **step == "files").count(), 64);
}

#[test]
fn signature_files_share_syncs_as_files_do_and_have_their_space_before_all() {
    let (folder, calls) = traced(SIGNATURE_FILES);
    let work = folder.path().join("work");
    let is_dir = |path: &Path| path == work.join("a") || path == work.join("b");
    let reserved = positions(&calls, |call, path| call == "fallocate" && path.starts_with(&work));
    let writes = positions(&calls, |call, path| call == "pwrite64" && path.starts_with(&work));
    let files = syncs_of_files(&calls, &|path| !is_dir(path));
    let renames = positions(&calls, |call, _| call == "renameat2");
    let dirs = positions(&calls, |call, path| call == "fsync" && is_dir(path));
    let counts = (reserved.len(), writes.len(), files.len(), renames.len(), dirs.len());
    assert_eq!(counts, (64, 64, 1, 64, 2), "{calls:?}");
    assert!(reserved.last() < writes.first() && writes.last() < files.first());
    assert!(files.last() < renames.first(), "no name before all content is on the disk");
    assert!(renames.last() < dirs.first());
    assert_eq!(fs::read(work.join("a/0.rpm.sig")).unwrap(), vec![9; 100]);
}
