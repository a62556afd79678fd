//! Surroundings that are against us, with the real program and the real file systems: quotas, stale handles, a home that
//! cannot be written, disks that fill while a signature is made. Others are beside the mechanism that they strike:
//!
//! * little or no lockable memory, other users: `sandbox.rs`; no Landlock: the signer's `tests/confinement.rs`
//! * few descriptors, full disks, failing calls, links that appear, two signers on one file: `splice.rs`
//! * a file that grows or shrinks, a signature file that changes: the client's `tests/signing.rs`
//! * clocks that are behind or ahead: `concurrency.rs`

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::print_stderr,
    reason = "tests"
)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use disk::{Disk, temporaries};
use sealwright_client::apply::journal::StateDirectory;
use sealwright_client::apply::sidecar::{Beside, Keep};
use sealwright_client::apply::{HardLinks, Policy, Staged, Target, Writing, group};
use sealwright_client::error::Error;
use sealwright_client::source::file::SourceFile;
use sealwright_client::source::{Entry, Place};
use sealwright_formats::prepared::{BesideFile, BesideKind, BesideName, NewContent, Room};
use sealwright_formats::splice::{Edit, Edits};
use sealwright_testkit::fixtures::{self, ED25519};
use sealwright_testkit::sealwright::{Home, Ran};
use sealwright_testkit::tools::{self, RpmKeys};

#[allow(dead_code, reason = "each test target uses its part")]
#[path = "splice/disk.rs"]
mod disk;

const PROGRAM: &str = env!("CARGO_BIN_EXE_sealwright");
const PACKAGE: &str = "gen_tiny-reserved4096.rpm";
/// 748 KB, without a reserve: signing moves all of it.
const NO_RESERVE: &str = "rpmlint_mc-4.8.15-10.3.1.x86_64.rpm";

fn home() -> Home {
    Home::with_keys(PROGRAM, &[ED25519])
}

fn unchanged(path: &Path, package: &str) -> bool {
    fs::read(path).unwrap() == fs::read(fixtures::package(package)).unwrap()
}

#[test]
fn a_quota_that_is_used_up_is_refused_by_name_before_a_signature_and_leaves_nothing() {
    let Some(disk) = Disk::btrfs_with_quotas(256) else { return };
    let home = home();
    let folder = disk.path().join("part");
    tools::succeed(Command::new("btrfs").args(["subvolume", "create"]).arg(&folder));
    let limit = |bytes: &str| {
        tools::succeed(Command::new("btrfs").args(["qgroup", "limit", bytes]).arg(&folder));
    };
    let path = folder.join("in.rpm");
    fs::copy(fixtures::package(NO_RESERVE), &path).unwrap();
    tools::succeed(Command::new("sync").arg("-f").arg(&path));
    for (format, left) in [("rpm", vec!["in.rpm"]), ("detached", vec!["in.rpm"])] {
        limit("900K");
        let arguments = ["sign", "--key", ED25519.name, "--format", format, path.to_str().unwrap()];
        let filler = fs::File::create(folder.join("filler")).unwrap();
        fill(&filler);
        let ran = home.run(&arguments);
        ran.failed_saying(&["in.rpm", "quota used up", "Raise the quota"]);
        assert_eq!(home.log_size(), 0, "{}", ran.text());
        fs::remove_file(folder.join("filler")).unwrap();
        let names = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name());
        assert!(names.eq(left), "{format}: something was left behind");
        assert!(unchanged(&path, NO_RESERVE));
    }
    limit("none");
    home.ok(&["sign", "--key", ED25519.name, path.to_str().unwrap()]);
}

/// Until nothing more goes in.
fn fill(file: &fs::File) {
    let mut len = 0;
    for chunk in [64 << 10, 4 << 10] {
        while rustix::fs::fallocate(file, rustix::fs::FallocateFlags::empty(), len, chunk).is_ok() {
            len += chunk;
        }
    }
}

#[test]
fn a_quota_that_is_used_up_where_undo_records_lie_is_refused_by_name() {
    let home = home();
    let path = home.copy(&fixtures::package(PACKAGE));
    let sign = home.command(&["sign", "--key", ED25519.name, "--in-place", path.to_str().unwrap()]);
    let mut strace = Command::new("strace");
    strace.args(["-f", "-qq", "-o", "/dev/null", "-e", "trace=fallocate", "-e"]);
    // Space is taken in a large step, and where there is none, exactly.
    strace.arg("inject=fallocate:error=EDQUOT:when=1..2").arg(sign.get_program()).args(sign.get_args());
    strace.current_dir(home.work()).env("SEALWRIGHT_HOME", home.home()).stdin(Stdio::null());
    let ran = Ran::from(tools::run(&mut strace));
    ran.failed_saying(&["quota used up", "state"]);
    assert_eq!(home.log_size(), 0, "{}", ran.text());
    assert!(unchanged(&path, PACKAGE) && disk::records(&home.home()).is_empty());
}

/// As on a network file system whose server was set up anew: each call on the file, its temporary or its directory
/// fails so once, the first of a kind, the second ...
#[test]
fn a_stale_handle_at_any_call_is_named_and_leaves_the_old_or_the_new_file() {
    const CALLS: [&str; 16] = [
        "openat",
        "openat2",
        "newfstatat",
        "statx",
        "flock",
        "pread64",
        "fallocate",
        "copy_file_range",
        "pwrite64",
        "ftruncate",
        "fchmod",
        "flistxattr",
        "utimensat",
        "fsync",
        "renameat",
        "getdents64",
    ];
    const TIMES_MAX: usize = 30;
    let home = home();
    let path = home.work().join("in.rpm");
    for (how, package) in [(None, NO_RESERVE), (Some("--in-place"), PACKAGE)] {
        let mut stale = 0;
        for call in CALLS {
            for when in 1..=TIMES_MAX {
                fs::copy(fixtures::package(package), &path).unwrap();
                let sign = home.command(&["sign", "--key", ED25519.name, path.to_str().unwrap()]);
                let log = tempfile::NamedTempFile::new().unwrap();
                let mut strace = Command::new("strace");
                strace
                    .args(["-f", "-qq", "-P"])
                    .arg(&path)
                    .arg("-P")
                    .arg(home.work())
                    .arg("-o")
                    .arg(log.path());
                strace.args(["-e", &format!("trace={call}")]);
                strace.args(["-e", &format!("inject={call}:error=ESTALE:when={when}")]);
                strace.arg(sign.get_program()).args(sign.get_args()).args(how);
                strace.current_dir("/").env("SEALWRIGHT_HOME", home.home()).stdin(Stdio::null());
                let ran = Ran::from(tools::run(&mut strace));
                let is_old = unchanged(&path, package);
                let case = format!("{call} {when} {how:?}: {}", ran.text());
                assert!(is_old || is_signed(&path), "neither old nor new: {case}");
                assert!(ran.code != Some(0) || !is_old, "said to be done: {case}");
                assert!(ran.code == Some(0) || ran.text().contains("Stale file handle"), "not named: {case}");
                assert!(temporaries(&home.work()).is_empty(), "{case}");
                assert!(disk::records(&home.home()).is_empty(), "{case}");
                stale += usize::from(ran.code != Some(0));
                if !fs::read_to_string(log.path()).unwrap().contains("(INJECTED)") {
                    break;
                }
                assert!(when < TIMES_MAX, "more calls than are tried: {case}");
            }
        }
        assert!(stale > 10, "only {stale} calls failed");
    }
}

fn is_signed(path: &Path) -> bool {
    RpmKeys::new(&[ED25519.public()]).check(path).is_signed_and_all_ok()
}

#[test]
fn a_home_that_is_read_only_is_refused_by_name_and_no_file_is_touched() {
    let Some(disk) = Disk::ext4(64) else { return };
    let home = home();
    let path = home.copy(&fixtures::package(PACKAGE));
    let moved = disk.path().join("home");
    tools::succeed(Command::new("cp").arg("-a").arg(home.home()).arg(&moved));
    tools::succeed(Command::new("mount").args(["-o", "remount,ro"]).arg(disk.path()));
    for how in [&[][..], &["--in-place"]] {
        let mut command =
            home.command(&[&["sign", "--key", ED25519.name, path.to_str().unwrap()], how].concat());
        let ran = Ran::from(tools::run(command.env("SEALWRIGHT_HOME", &moved)));
        assert_eq!(ran.code, Some(1), "{}", ran.text());
        let text = ran.text().to_lowercase();
        assert!(text.contains("read-only"), "{text}");
        assert!(unchanged(&path, PACKAGE) && temporaries(&home.work()).is_empty());
    }
}

/// Of the first sector that both the old and the new content have.
const LEN: usize = 10_000;

fn edits() -> Edits {
    Edits::new(vec![Edit { offset: 500, remove: 3000, insert: vec![9; 3000] }], LEN as u64).unwrap()
}

fn file(folder: &Path, name: &str) -> (PathBuf, Entry, Arc<SourceFile>) {
    let path = folder.join(name);
    fs::write(&path, vec![7; LEN]).unwrap();
    let entry = Entry { shown: path.clone(), place: Place::Named };
    let source = Arc::new(SourceFile::open_locked(&entry).unwrap());
    (path, entry, source)
}

/// Staged in place, with the undo record to come on this disk.
fn in_place(state: &Arc<StateDirectory>, source: Arc<SourceFile>) -> Result<Staged, Error> {
    let policy = Policy { writing: Writing::InPlace(Arc::clone(state)), hard_links: HardLinks::Careful };
    let room = Room { from: 100, until: 5000, growth_max: 0, keeps_len: true, shares: true };
    let target = Target::replacing(&source);
    Staged::stage(source, target, &policy, &|_| room)
}

#[test]
fn a_disk_that_fills_while_signatures_are_made_has_room_for_the_undo_record_and_for_signature_files() {
    let work = tempfile::tempdir().unwrap();
    for disk in [Disk::tmpfs(2048), Disk::ext4(16), Disk::xfs(320)] {
        let Some(disk) = disk else { return };
        let state = Arc::new(StateDirectory::open(&disk.path().join("state")).unwrap());
        let files: Vec<_> = (0..6).map(|number| file(work.path(), &number.to_string())).collect();
        let staged: Vec<_> =
            files.iter().map(|file| in_place(&state, Arc::clone(&file.2)).unwrap()).collect();
        let (data, entry, source) = file(&disk.path(), "data");
        let beside = Beside::of(&entry, &source).unwrap();
        let (name, kind) = (BesideName::Suffix(".sig"), BesideKind::Signatures);
        let wanted = BesideFile { name, kind, item: 0, len_max: 0 };
        let sidecars = beside.stage(source, vec![wanted], Keep::Nothing, 3000).unwrap();
        disk.fill_but(0);
        let mut staged = staged.into_iter();
        // One by one and several at once: each gets what was reserved for it.
        staged.next().unwrap().commit(edits()).unwrap();
        disk.fill_but(0);
        let group = staged.by_ref().take(3).map(|staged| (staged, edits())).collect();
        let outcomes = group::commit(group);
        assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
        // Two that come at once: one has the space after the other.
        let outcomes: Vec<_> = std::thread::scope(|scope| {
            let threads: Vec<_> =
                staged.map(|staged| scope.spawn(move || staged.commit(edits()).map(drop))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert_eq!(outcomes.len(), 2);
        assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
        let expected = edits().apply(&vec![7; LEN]);
        assert!(files.iter().all(|(path, ..)| fs::read(path).unwrap() == expected));
        let content = vec![NewContent::Bytes(vec![1; 3000])];
        let written = group::commit(vec![group::Job::Sidecars(Box::new(sidecars.filled(content).unwrap()))]);
        assert!(written[0].is_ok(), "{written:?}");
        assert_eq!(fs::read(data.with_file_name("data.sig")).unwrap(), vec![1; 3000]);
        // Nobody is asked for a signature whose undo record would have no space.
        drop(files);
        disk.fill_but(0);
        let (path, _, source) = file(work.path(), "late");
        let refused = in_place(&state, source).unwrap_err();
        assert!(matches!(refused, Error::NoSpace { .. }), "{refused}");
        assert_eq!(fs::read(path).unwrap(), vec![7; LEN]);
        let left = fs::read_dir(disk.path().join("state")).unwrap();
        assert!(left.map(|entry| entry.unwrap().file_name()).all(|name| name == "lock"));
    }
}

#[test]
fn a_disk_that_fills_between_two_writes_in_place_gives_back_the_old_file_although_its_blocks_are_shared() {
    let Some(disk) = Disk::xfs(320) else { return };
    let home = tempfile::tempdir().unwrap();
    let state = Arc::new(StateDirectory::open(&home.path().join("state")).unwrap());
    let (original, path) = (disk.path().join("original"), disk.path().join("shared"));
    let old = vec![7; 4 << 20];
    fs::write(&original, &old).unwrap();
    let edit = |number: u64| Edit { offset: number << 20, remove: 100, insert: vec![9; 100] };
    let edits = || Edits::new((0..4).map(edit).collect(), old.len() as u64).unwrap();
    let mut torn = 0;
    for free in (0..2048u64).step_by(64) {
        drop(fs::remove_file(disk.path().join("filler")));
        tools::succeed(Command::new("cp").arg("--reflink=always").arg(&original).arg(&path));
        tools::succeed(Command::new("sync").arg("-f").arg(&path));
        let entry = Entry { shown: path.clone(), place: Place::Named };
        let source = Arc::new(SourceFile::open_locked(&entry).unwrap());
        let staged = in_place(&state, source).unwrap();
        disk.fill_but(free << 10);
        match staged.commit(edits()) {
            Ok(_) => assert!(fs::read(&path).unwrap() == edits().apply(&old)),
            Err(error) => {
                assert!(matches!(error, Error::NoSpace { .. }), "{free} KiB free: {error}");
                assert!(fs::read(&path).unwrap() == old, "{free} KiB free");
                torn += 1;
            }
        }
        assert!(disk::records(home.path()).is_empty(), "{free} KiB free");
    }
    assert!(torn > 0, "the disk was never full");
}
