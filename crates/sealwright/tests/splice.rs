//! How files are written, with the real program: bytes that reach the disk, full disks, failing system calls,
//! leftovers, two signers on one file, lists of files.

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
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use disk::{Disk, records, temporaries};
use sealwright_testkit::fixtures::{self, ED25519, RSA2048};
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
    Home::with_keys(PROGRAM, &[ED25519, RSA2048])
}

fn put(folder: &Path, package: &str, name: &str) -> PathBuf {
    let path = folder.join(name);
    fs::copy(fixtures::package(package), &path).unwrap();
    path
}

fn is_signed(path: &Path) -> bool {
    // Under a name that rpmkeys prints on one line.
    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path().join("copy.rpm");
    fs::copy(path, &copy).unwrap();
    RpmKeys::new(&[ED25519.public(), RSA2048.public()]).check(&copy).is_signed_and_all_ok()
}

/// A package of this many MB whose payload is random: made from one of rpmbuild's, by rpmbuild.
fn large(folder: &Path, megabytes: usize, reserve: usize) -> PathBuf {
    let spec = "Name: large\nVersion: 1\nRelease: 1\nSummary: Large\nLicense: CC0-1.0\nBuildArch: noarch\n\
        %description\nLarge.\n%install\nmkdir -p %{buildroot}/usr/share/large\n\
        head -c %{bytes} /dev/urandom > %{buildroot}/usr/share/large/content\n%files\n/usr/share/large/content\n";
    let build = tempfile::tempdir_in(folder).unwrap();
    let spec_file = build.path().join("large.spec");
    fs::write(&spec_file, spec).unwrap();
    let define = |name: &str, value: &str| ["--define".to_owned(), format!("{name} {value}")];
    let mut command = Command::new("rpmbuild");
    command.args(define("_topdir", build.path().to_str().unwrap()));
    command.args(define("bytes", &format!("{}", megabytes * 1_000_000)));
    command.args(define("_binary_payload", "w0.ufdio"));
    command.args(define("__gpg_reserved_space", &reserve.to_string()));
    tools::succeed(command.arg("-bb").arg(&spec_file));
    let package = folder.join("large.rpm");
    fs::rename(build.path().join("RPMS/noarch/large-1-1.noarch.rpm"), &package).unwrap();
    package
}

/// Runs a command under strace and returns what it wrote: bytes by write calls to files in this folder, and bytes
/// that the kernel was asked to bring over.
fn written(command: &Command, folder: &Path) -> (u64, u64) {
    let log = tempfile::NamedTempFile::new().unwrap();
    let calls = "trace=write,pwrite64,copy_file_range,sendfile,ioctl";
    let mut strace = Command::new("strace");
    strace.args(["-f", "-y", "-qq", "-e", calls, "-o"]).arg(log.path());
    strace.arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => strace.env(name, value),
            None => strace.env_remove(name),
        };
    }
    tools::succeed(strace.current_dir(command.get_current_dir().unwrap()));
    let folder = folder.to_str().unwrap();
    let text = fs::read_to_string(log.path()).unwrap();
    let (mut wrote, mut brought) = (0, 0);
    for line in text.lines().filter(|line| line.contains(folder)) {
        let Some(count) = line.rsplit(" = ").next().and_then(|count| count.parse::<u64>().ok()) else {
            continue;
        };
        if line.contains("write(") || line.contains("pwrite64(") {
            wrote += count;
        } else if line.contains("copy_file_range(") || line.contains("sendfile(") {
            brought += count;
        }
    }
    (wrote, brought)
}

/// Bytes that really lie on the disk for this folder's file system.
fn used(disk: &Disk) -> u64 {
    tools::succeed(Command::new("sync").arg("-f").arg(disk.path()));
    let stat = rustix::fs::statvfs(disk.path()).unwrap();
    (stat.f_blocks - stat.f_bfree) * stat.f_frsize
}

#[test]
fn a_header_that_fits_is_signed_by_reflink_with_under_16_kb_written() {
    let Some(disk) = Disk::xfs(320) else { return };
    let home = home();
    let package = large(&disk.path(), 60, 4096);
    let before = used(&disk);
    // The old content, held by another name, shares its blocks with the new.
    fs::hard_link(&package, disk.path().join("old")).unwrap();
    let sign = home.command(&["sign", "--key", RSA2048.name, package.to_str().unwrap()]);
    let (wrote, brought) = written(&sign, &disk.path());
    assert!(wrote < 16_000 && brought == 0, "{wrote} {brought}");
    assert!(used(&disk) - before < 1 << 20, "the payload is there once");
    assert!(is_signed(&package));
}

#[test]
fn a_header_that_must_grow_grows_by_a_block_and_the_payload_is_shared_all_the_same() {
    let Some(disk) = Disk::xfs(320) else { return };
    let home = home();
    let package = large(&disk.path(), 60, 0);
    let original = fs::read(&package).unwrap();
    let before = used(&disk);
    fs::hard_link(&package, disk.path().join("old")).unwrap();
    let sign = home.command(&["sign", "--key", RSA2048.name, package.to_str().unwrap()]);
    let (wrote, _) = written(&sign, &disk.path());
    assert!(wrote < 40_000, "{wrote}");
    assert!(used(&disk) - before < 1 << 20, "the payload is there once");
    assert_eq!(fs::metadata(&package).unwrap().len(), original.len() as u64 + 4096);
    assert!(is_signed(&package));
    home.ok(&["sign", "--key", ED25519.name, package.to_str().unwrap()]);
    assert!(is_signed(&package));
    assert_eq!(fs::metadata(&package).unwrap().len(), original.len() as u64 + 4096, "in the same space");
    home.ok(&["sign", "--key", RSA2048.name, "--in-place", package.to_str().unwrap()]);
    assert!(is_signed(&package));
    home.ok(&["strip", package.to_str().unwrap()]);
    assert!(fs::read(&package).unwrap() == original, "strip gives back the original");
    assert!(used(&disk) - before < 1 << 20);
}

#[test]
fn in_place_writes_the_changed_bytes_and_an_undo_record_and_nothing_else() {
    let home = home();
    let package = large(&home.work(), 20, 4096);
    let inode = fs::metadata(&package).unwrap().ino();
    let sign = home.command(&["sign", "--key", RSA2048.name, "--in-place", package.to_str().unwrap()]);
    let (wrote, brought) = written(&sign, &home.work());
    assert!(wrote < 5_000 && brought == 0, "{wrote} {brought}");
    let sign = home.command(&["sign", "--key", ED25519.name, "--in-place", package.to_str().unwrap()]);
    let (undo, _) = written(&sign, &home.home().join("state"));
    assert!(undo > 500 && undo < 16_000, "{undo}");
    assert_eq!(fs::metadata(&package).unwrap().ino(), inode);
    assert!(is_signed(&package));
    assert!(records(&home.home()).is_empty());
    let no_room = put(&home.work(), "gen_tiny-reserved0.rpm", "none.rpm");
    let ran = home.run(&["sign", "--key", ED25519.name, "--in-place", "none.rpm"]);
    ran.failed_saying(&["none.rpm", "in place", "move", "Leave out --in-place"]);
    assert_eq!(fs::read(no_room).unwrap(), fs::read(fixtures::package("gen_tiny-reserved0.rpm")).unwrap());
}

/// Whatever is free: signed, or unchanged with the cause named; no temporary, no record.
fn sweep(disk: &Disk, home: &Home, package: &str, how: &[&str], step: u64, until: u64) {
    let original = fs::read(fixtures::package(package)).unwrap();
    let path = disk.path().join("in.rpm");
    let mut failures = 0;
    for free in (0..=until).step_by(usize::try_from(step).unwrap()) {
        drop(fs::remove_file(disk.path().join("filler")));
        put(&disk.path(), package, "in.rpm");
        tools::succeed(Command::new("sync").arg("-f").arg(disk.path()));
        disk.fill_but(free);
        let ran = home.run(&[&["sign", "--key", ED25519.name, path.to_str().unwrap()], how].concat());
        assert!(temporaries(&disk.path()).is_empty(), "{free} bytes free: {:?}", temporaries(&disk.path()));
        assert!(records(&home.home()).is_empty());
        if ran.code == Some(0) {
            assert!(is_signed(&path), "{free} bytes free");
            // What is above needs no less.
            if free > 0 && failures > 0 {
                return;
            }
        } else {
            failures += 1;
            ran.failed_saying(&["in.rpm", "space"]);
            assert!(!ran.text().contains("not applied"), "space was not reserved: {}", ran.text());
            assert!(fs::read(&path).unwrap() == original, "{free} bytes free: it changed");
        }
    }
    assert!(failures > 0 || !how.is_empty(), "the disk was never full");
}

#[test]
fn a_disk_that_fills_at_any_point_leaves_the_file_unchanged_and_nothing_behind() {
    let home = home();
    for (disk, step) in
        [(Disk::tmpfs(2048), 64 << 10), (Disk::ext4(16), 64 << 10), (Disk::xfs(320), 64 << 10)]
    {
        let Some(disk) = disk else { return };
        sweep(&disk, &home, NO_RESERVE, &[], step, 2 << 20);
        sweep(&disk, &home, PACKAGE, &[], 4096, 64 << 10);
        sweep(&disk, &home, PACKAGE, &["--in-place"], 16 << 10, 32 << 10);
    }
}

#[test]
fn a_home_on_a_full_disk_gives_no_signature_and_changes_no_file() {
    let Some(disk) = Disk::tmpfs(4096) else { return };
    let home = home();
    let package = put(&home.work(), PACKAGE, "in.rpm");
    tools::succeed(Command::new("cp").arg("-a").arg(home.home()).arg(disk.path().join("home")));
    let mut done = false;
    for free in (0..1024u64).step_by(32) {
        disk.fill_but(free << 10);
        let mut command = home.command(&["sign", "--key", ED25519.name, "--in-place", "--force", "in.rpm"]);
        command.env("SEALWRIGHT_HOME", disk.path().join("home"));
        let before = fs::read(&package).unwrap();
        let ran = Ran::from(tools::run(&mut command));
        if ran.code == Some(0) {
            assert!(is_signed(&package));
            done = true;
        } else {
            assert!(fs::read(&package).unwrap() == before, "{free} KiB free: it changed");
        }
        assert!(temporaries(&home.work()).is_empty());
        assert!(records(&disk.path().join("home")).is_empty());
    }
    assert!(done);
}

/// Each system call of the run fails once, the first, the second ...: the file is old or new, and nothing is left.
fn fail_each(call: &str, error: &str, how: &[&str]) {
    const TIMES_MAX: usize = 60;
    let home = home();
    let package = if how.is_empty() { NO_RESERVE } else { PACKAGE };
    let mut failed = 0;
    for when in 1..TIMES_MAX {
        let path = put(&home.work(), package, "in.rpm");
        let sign = home.command(&[&["sign", "--key", ED25519.name, "in.rpm"], how].concat());
        let mut strace = Command::new("strace");
        let log = tempfile::NamedTempFile::new().unwrap();
        strace.args(["-f", "-qq", "-o"]).arg(log.path()).arg("-e").arg(format!("trace={call}"));
        strace.args(["-e", &format!("inject={call}:error={error}:when={when}")]);
        strace.arg(sign.get_program()).args(sign.get_args()).current_dir(home.work());
        strace.env("SEALWRIGHT_HOME", home.home()).env_remove("SEALWRIGHT_KEY").stdin(Stdio::null());
        let ran = Ran::from(tools::run(&mut strace));
        let injected = fs::read_to_string(log.path()).unwrap().contains("(INJECTED)");
        let now = fs::read(&path).unwrap();
        let is_old = now == fs::read(fixtures::package(package)).unwrap();
        assert!(is_old || is_signed(&path), "{call} {error} {when}: neither old nor new\n{}", ran.text());
        assert!(ran.code != Some(0) || !is_old, "{call} {error} {when}: said to be done\n{}", ran.text());
        assert!(temporaries(&home.work()).is_empty(), "{call} {error} {when}: {}", ran.text());
        assert!(records(&home.home()).is_empty(), "{call} {error} {when}: {}", ran.text());
        failed += usize::from(ran.code != Some(0));
        if !injected {
            assert!(failed > 0, "{call} never failed");
            return;
        }
    }
    assert!(failed > 0, "{call} never failed");
}

#[test]
fn a_failing_write_sync_rename_or_reservation_leaves_the_old_or_the_new_file_and_nothing_else() {
    for (call, error) in [
        ("pwrite64", "ENOSPC"),
        ("fsync", "EIO"),
        ("renameat", "ESTALE"),
        ("copy_file_range", "EIO"),
        ("ftruncate", "EDQUOT"),
    ] {
        fail_each(call, error, &[]);
    }
}

#[test]
fn a_failing_write_or_sync_in_place_leaves_the_old_or_the_new_file_and_no_record() {
    for (call, error) in [("pwrite64", "EIO"), ("fsync", "EIO"), ("utimensat", "EPERM")] {
        fail_each(call, error, &["--in-place"]);
    }
}

#[test]
fn eight_signers_on_one_file_sign_it_once_whole_and_leave_nothing() {
    for how in [&[][..], &["--in-place"]] {
        let home = home();
        let path = put(&home.work(), PACKAGE, "in.rpm");
        let children: Vec<_> = (0..8)
            .map(|number| {
                let key = if number % 2 == 0 { ED25519.name } else { RSA2048.name };
                let mut command = home.command(&[&["sign", "--key", key, "in.rpm"], how].concat());
                command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
            })
            .collect();
        let mut done = 0;
        for child in children {
            let ran = Ran::from(child.wait_with_output().unwrap());
            done += usize::from(ran.code == Some(0));
            let text = ran.text();
            assert!(
                ran.code == Some(0) || text.contains("in use by another signer") || text.contains("changed"),
                "{text}"
            );
        }
        assert!(done > 0);
        assert!(is_signed(&path));
        let said = RpmKeys::new(&[ED25519.public(), RSA2048.public()]).check(&path);
        assert_eq!(said.signatures().len(), 1, "{:?}", said.lines);
        assert_eq!(fs::read_dir(home.work()).unwrap().count(), 1);
    }
}

#[test]
fn a_leftover_of_a_dead_run_goes_with_the_next_and_one_of_a_live_run_stays() {
    let home = home();
    let path = put(&home.work(), NO_RESERVE, "in.rpm");
    // Stopped in the middle: a temporary is there.
    let pause = |how: &str| {
        let sign = home.command(&["sign", "--key", ED25519.name, "--force", "in.rpm"]);
        let mut strace = Command::new("strace");
        strace
            .args(["-f", "-qq", "-o", "/dev/null", "-e", "trace=renameat", "-e"])
            .arg(format!("inject=renameat:{how}:when=1"));
        strace.arg(sign.get_program()).args(sign.get_args()).current_dir(home.work());
        strace
            .env("SEALWRIGHT_HOME", home.home())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .stdin(Stdio::null());
        strace
    };
    drop(tools::run(&mut pause("signal=KILL")));
    assert_eq!(temporaries(&home.work()).len(), 1, "killed before its rename");
    let foreign = home.work().join(".sealwright-notes");
    fs::write(&foreign, "mine").unwrap();
    home.ok(&["sign", "--key", ED25519.name, "in.rpm"]);
    assert_eq!(temporaries(&home.work()).as_slice(), std::slice::from_ref(&foreign));
    fs::remove_file(foreign).unwrap();

    // On a busy machine the other run can take longer than the pause: then with a longer one.
    let was_there = [3, 15, 60].into_iter().any(|seconds| {
        let mut live = pause(&format!("delay_enter={seconds}000000")).spawn().unwrap();
        while temporaries(&home.work()).is_empty() && live.try_wait().unwrap().is_none() {
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        put(&home.work(), PACKAGE, "other.rpm");
        home.ok(&["sign", "--key", ED25519.name, "other.rpm"]);
        let there = temporaries(&home.work()).len() == 1;
        // It would fail without its temporary.
        assert!(live.wait().unwrap().success(), "the other process lives");
        there
    });
    assert!(was_there, "the other process lives");
    assert!(temporaries(&home.work()).is_empty());
    assert!(is_signed(&path));
}

#[test]
fn a_name_that_becomes_a_link_during_signing_never_leads_the_write_elsewhere() {
    let home = home();
    let (dir, victims) = (home.work().join("open"), home.work().join("victims"));
    fs::create_dir(&dir).unwrap();
    fs::create_dir(&victims).unwrap();
    fs::set_permissions(&dir, fs::Permissions::from_mode(0o777)).unwrap();
    let secret = put(&victims, PACKAGE, "secret.rpm");
    let before = (fs::read(&secret).unwrap(), fs::metadata(&secret).unwrap().ino());
    let path = dir.join("in.rpm");
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // Another user of the directory: file and link take turns.
            while !stop.load(Ordering::Relaxed) {
                put(&dir, PACKAGE, "next");
                fs::rename(dir.join("next"), &path).unwrap();
                std::thread::sleep(std::time::Duration::from_millis(3));
                std::os::unix::fs::symlink(&secret, dir.join("link")).unwrap();
                fs::rename(dir.join("link"), &path).unwrap();
                std::thread::sleep(std::time::Duration::from_millis(3));
            }
        });
        for round in 0..16 {
            let how: &[&str] = if round % 2 == 0 { &[] } else { &["--in-place"] };
            // Found by -r: links are not followed, whenever they appear.
            let ran = home.run(
                &[&["sign", "--key", ED25519.name, "--force", "-r", dir.to_str().unwrap()], how].concat(),
            );
            assert!(matches!(ran.code, Some(0 | 1)), "{}", ran.text());
            assert_eq!(
                (fs::read(&secret).unwrap(), fs::metadata(&secret).unwrap().ino()),
                before,
                "round {round}"
            );
        }
        stop.store(true, Ordering::Relaxed);
    });
}

#[test]
fn few_descriptors_make_smaller_groups_and_every_file_is_signed() {
    let home = home();
    fs::create_dir(home.work().join("p")).unwrap();
    for number in 0..40 {
        put(&home.work().join("p"), PACKAGE, &format!("{number}.rpm"));
    }
    let sign = home.command(&["sign", "--key", ED25519.name, "--jobs", "64", "-r", "p"]);
    let mut limited = Command::new("sh");
    limited.args(["-c", "ulimit -n 64; exec \"$@\"", "sh"]).arg(sign.get_program()).args(sign.get_args());
    limited.current_dir(home.work()).env("SEALWRIGHT_HOME", home.home()).stdin(Stdio::null());
    let ran = Ran::from(tools::run(&mut limited));
    assert_eq!(ran.code, Some(0), "{}", ran.text());
    assert!(ran.text().contains("40 signed"));
}

#[test]
fn without_a_place_for_undo_records_in_place_is_refused_by_name_and_replacing_works() {
    let home = home();
    let path = put(&home.work(), PACKAGE, "in.rpm");
    fs::write(home.home().join("state"), "in the way").unwrap();
    let ran = home.run(&["sign", "--key", ED25519.name, "--in-place", "in.rpm"]);
    ran.failed_saying(&["cannot keep undo records", "state"]);
    assert_eq!(fs::read(&path).unwrap(), fs::read(fixtures::package(PACKAGE)).unwrap());
    fs::remove_file(home.home().join("state")).unwrap();
    fs::create_dir(home.home().join("state")).unwrap();
    fs::set_permissions(home.home().join("state"), fs::Permissions::from_mode(0o755)).unwrap();
    let ran = home.run(&["sign", "--key", ED25519.name, "--in-place", "in.rpm"]);
    ran.failed_saying(&["not for its user alone", "0755"]);
    let ran = home.ok(&["sign", "--key", ED25519.name, "in.rpm"]);
    assert!(ran.stderr.contains("nothing was recovered"), "{}", ran.text());
    assert!(is_signed(&path));
}

#[test]
fn lists_of_files_follow_the_rules_of_the_command_line() {
    let home = home();
    for name in ["a b.rpm", "new\nline.rpm", "c.rpm"] {
        put(&home.work(), PACKAGE, name);
    }
    fs::write(home.work().join("list"), "a b.rpm\n\nnone.rpm\n").unwrap();
    let ran = home.run(&["sign", "--key", ED25519.name, "--files-from", "list", "c.rpm"]);
    ran.failed_saying(&[
        "2 signed, 1 failed",
        "none.rpm",
        "no such file",
        "Retry: sealwright sign --key ed25519 none.rpm",
    ]);
    let ran = home.run_with_input(
        &["sign", "--key", RSA2048.name, "--files-from", "-", "-0"],
        b"new\nline.rpm\0a b.rpm\0",
    );
    assert_eq!(ran.code, Some(0), "{}", ran.text());
    assert!(["a b.rpm", "new\nline.rpm", "c.rpm"].iter().all(|name| is_signed(&home.work().join(name))));
    assert_eq!(home.run(&["sign", "--key", ED25519.name]).code, Some(2), "neither path nor list");
    assert_eq!(home.run(&["sign", "--key", ED25519.name, "--files-from", "absent"]).code, Some(2));
    assert_eq!(
        home.run(&["sign", "--key", ED25519.name, "--in-place", "--output", "o", "c.rpm"]).code,
        Some(2)
    );
    fs::write(home.work().join("list"), "a b.rpm\n").unwrap();
    home.ok(&["strip", "--files-from", "list", "c.rpm"]);
    assert!(!is_signed(&home.work().join("a b.rpm")) && !is_signed(&home.work().join("c.rpm")));
}
