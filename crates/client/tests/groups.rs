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

use sealwright_client::apply::journal::StateDirectory;
use sealwright_client::apply::{HardLinks, Policy, Staged, Target, Writing, group};
use sealwright_client::source::file::SourceFile;
use sealwright_client::source::{Entry, Place};
use sealwright_formats::prepared::Room;
use sealwright_formats::splice::{Edit, Edits};

/// Names the folder, in the process that strace watches.
const FOLDER: &str = "SEALWRIGHT_TEST_FOLDER";
const IN_PLACE: &str = "SEALWRIGHT_TEST_IN_PLACE";

/// Calls of one kind in order, each with the path that it is about.
fn traced(in_place: bool) -> (tempfile::TempDir, Vec<(String, PathBuf)>) {
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
        .args(["-f", "-y", "-qq", "-e", "trace=fsync,fdatasync,renameat,pwrite64,unlinkat", "-o"])
        .arg(&log);
    strace.arg(std::env::current_exe().unwrap()).args(["--exact", "the_group_that_strace_watches"]);
    strace.env(FOLDER, folder.path());
    if in_place {
        strace.env(IN_PLACE, "1");
    }
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
    let writing = match std::env::var_os(IN_PLACE) {
        Some(_) => Writing::InPlace(Arc::new(StateDirectory::open(&folder.join("state")).unwrap())),
        None => Writing::Replace,
    };
    let policy = Policy { writing, hard_links: HardLinks::Careful };
    let mut files = Vec::new();
    for dir in ["work/a", "work/b"] {
        for file in 0..32 {
            let shown = folder.join(dir).join(format!("{file}.rpm"));
            let source = Arc::new(SourceFile::open_locked(&Entry { shown, place: Place::Named }).unwrap());
            let target = Target::replacing(&source);
            let room = Room { from: 100, until: 104, growth_max: 0, keeps_len: true, shares: true };
            let staged = Staged::stage(source, target, &policy, &|_| room).unwrap();
            let edit = Edit { offset: 100, remove: 4, insert: b"abcd".to_vec() };
            files.push((staged, Edits::new(vec![edit], 9000).unwrap()));
        }
    }
    assert!(group::commit(files).iter().all(Result::is_ok));
}

fn positions(calls: &[(String, PathBuf)], is: impl Fn(&str, &Path) -> bool) -> Vec<usize> {
    let of = |(at, (call, path)): (usize, &(String, PathBuf))| is(call, path).then_some(at);
    calls.iter().enumerate().filter_map(of).collect()
}

#[test]
fn sixty_four_files_in_two_directories_take_64_syncs_of_files_and_2_of_directories_in_the_right_order() {
    let (folder, calls) = traced(false);
    let work = folder.path().join("work");
    let is_dir = |path: &Path| path == work.join("a") || path == work.join("b");
    let files = positions(&calls, |call, path| call == "fsync" && !is_dir(path));
    let renames = positions(&calls, |call, _| call == "renameat");
    let dirs = positions(&calls, |call, path| call == "fsync" && is_dir(path));
    assert_eq!((files.len(), renames.len(), dirs.len()), (64, 64, 2));
    assert!(files.last() < renames.first(), "no name before all content is on the disk");
    assert!(renames.last() < dirs.first());
}

#[test]
fn in_place_one_record_is_synced_for_all_before_the_first_write_and_goes_after_the_last_sync() {
    let (folder, calls) = traced(true);
    let (work, state) = (folder.path().join("work"), folder.path().join("state"));
    let writes = positions(&calls, |call, path| call == "pwrite64" && path.starts_with(&work));
    let files = positions(&calls, |call, path| call == "fsync" && path.starts_with(&work));
    let record = positions(&calls, |call, path| call == "fsync" && path.starts_with(&state));
    let gone = positions(&calls, |call, path| call == "unlinkat" && path == state);
    assert_eq!((writes.len(), files.len(), record.len(), gone.len()), (64, 64, 2, 1), "{calls:?}");
    assert!(
        record.last() < writes.first(),
        "nothing is written before its record and the record's name are synced"
    );
    assert!(files.last() < gone.first());
}
