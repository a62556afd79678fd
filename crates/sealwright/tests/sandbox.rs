//! The walls around the keys, tried from outside on the real program, as a plain user: what front's memory holds, who
//! can look into the signer, what it inherits, what happens when it is killed.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    reason = "tests"
)]

#[path = "sandbox/memory.rs"]
mod memory;
#[path = "sandbox/plain.rs"]
mod plain;

use std::collections::BTreeMap;
use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use memory::{Secrets, holds};
use plain::{Plain, as_user, signer_of};
use sealwright_proto::frame;
use sealwright_proto::signer_v1::FromSigner;
use sealwright_proto::signer_v1::from_signer::Response;
use sealwright_testkit::fixtures::{self, ED25519, RSA2048};
use sealwright_testkit::tools::{self, RpmKeys};

const PACKAGE: &str = "gen_tiny-reserved4096.rpm";

/// While both keys are in use: nothing of them is in the process with the files and the network.
#[test]
fn front_holds_no_private_key_no_root_key_and_no_data_key_and_the_signer_does() {
    let plain = Plain::with_keys(&[ED25519, RSA2048]);
    let secrets = Secrets::of(&plain.home().join("root"), &[ED25519.secret(), RSA2048.secret()]);
    for key in [ED25519, RSA2048] {
        let folder = plain.packages(400);
        let mut front =
            plain.command(&["sign", "--jobs", "1", "--key", key.name, "-r", &folder]).spawn().unwrap();
        plain.until_signed(&folder, 3);
        let signer = signer_of(front.id());
        tools::succeed(Command::new("kill").args(["-STOP", &front.id().to_string()]));
        let (in_front, in_signer) = (holds(front.id(), &secrets), holds(signer, &secrets));
        tools::succeed(Command::new("kill").args(["-CONT", &front.id().to_string()]));
        assert!(front.wait().unwrap().success());
        assert!(in_front.is_empty(), "front holds {in_front:?}");
        for name in ["data key", key.name] {
            assert!(in_signer.contains(name), "the search finds nothing: signer holds {in_signer:?}");
        }
    }
}

const LOOK_INTO: &str = r#"
import ctypes, os, subprocess, sys
libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = [ctypes.c_long] * 4
def attach(pid):
    if libc.ptrace(16, pid, 0, 0) != 0:
        return False
    os.waitpid(pid, 0)
    libc.ptrace(17, pid, 0, 0)
    return True
def read(pid):
    try:
        first = open(f"/proc/{pid}/maps").readline().split("-")[0]
        with open(f"/proc/{pid}/mem", "rb") as memory:
            memory.seek(int(first, 16))
            return len(memory.read(16)) == 16
    except OSError:
        return False
child = subprocess.Popen(["sleep", "60"])
import time; time.sleep(0.3)
print("own child", attach(child.pid), read(child.pid))
child.kill()
signer = int(sys.argv[1])
print("signer", attach(signer), read(signer))
"#;

#[test]
fn the_same_user_can_neither_trace_the_signer_nor_read_its_memory() {
    let plain = Plain::with_keys(&[ED25519]);
    let mut front = plain.waiting(ED25519.name);
    let signer = signer_of(front.id()).to_string();
    let said = tools::succeed(as_user(Command::new("python3").args(["-c", LOOK_INTO, &signer]), plain.uid()));
    let said = String::from_utf8(said).unwrap();
    assert_eq!(said, "own child True True\nsigner False False\n");
    front.kill().unwrap();
    front.wait().unwrap();
}

#[test]
fn the_running_signer_is_filtered_and_inherits_nothing_but_the_log_filter() {
    let plain = Plain::with_keys(&[ED25519]);
    let mut front = plain.waiting(ED25519.name);
    let environment = |pid: u32| fs::read_to_string(format!("/proc/{pid}/environ"));
    let in_front = environment(front.id()).unwrap();
    assert!(in_front.contains("SEALWRIGHT_HOME=") && in_front.contains("PATH="), "{in_front}");
    let status = fs::read_to_string(format!("/proc/{}/status", signer_of(front.id()))).unwrap();
    for line in ["NoNewPrivs:\t1", "Seccomp:\t2", "Seccomp_filters:\t2"] {
        assert!(status.lines().any(|found| found == line), "{line}: {status}");
    }
    match environment(signer_of(front.id())) {
        Ok(of_signer) => assert_eq!(of_signer, "SEALWRIGHT_LOG=warn\0"),
        // Only root can look.
        Err(error) => assert!(plain.is_the_runner(), "{error}"),
    }
    front.kill().unwrap();
    front.wait().unwrap();
}

/// As an installation with two users will have it: the signer's root key is beyond front's user.
#[test]
fn another_user_can_neither_open_the_root_key_nor_look_into_the_signer() {
    let plain = Plain::new();
    if plain.is_the_runner() {
        return;
    }
    let (mut ours, theirs) = UnixStream::pair().unwrap();
    let root = plain.folder_of(65_533).join("root");
    let mut signer =
        as_user(Command::new("setpriv").args(["--reuid=65533", "--regid=65533", "--clear-groups"]), None)
            .arg(plain.program())
            .args(["signer", "--root"])
            .arg(&root)
            .env_clear()
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .spawn()
            .unwrap();
    let (greeting, _) = frame::read::<FromSigner>(&mut ours).unwrap().unwrap();
    assert!(matches!(greeting.response, Some(Response::Ready(_))), "{greeting:?}");
    let key = root.join("root.key");
    let memory = format!("/proc/{}/mem", signer.id());
    let can = |uid: u32, script: &str, path: &Path| {
        let mut command = Command::new("sh");
        tools::run(as_user(command.args(["-c", script, "sh"]).arg(path), Some(uid))).status.success()
    };
    assert!(can(65_533, "cat \"$1\"", &key), "the control");
    assert!(!can(65_534, "cat \"$1\"", &key));
    assert!(!can(65_534, "ls \"$1\"", &root));
    assert!(!can(65_534, "cat \"$1\"", &root.join("data.key")));
    assert!(!can(65_534, "exec 3<\"$1\"", Path::new(&memory)));
    drop(ours);
    assert!(signer.wait().unwrap().success());
}

#[test]
fn little_lockable_memory_is_enough_and_none_is_refused_by_name() {
    let plain = Plain::with_keys(&[ED25519]);
    let with = |limit: &str, arguments: &[&str]| {
        let mut command = Command::new("prlimit");
        command.arg(format!("--memlock={limit}:{limit}")).arg("--").arg(plain.program()).args(arguments);
        tools::run(plain.surround(&mut command))
    };
    for limit in ["16384", "65536"] {
        let folder = plain.packages(1);
        let output = with(limit, &["sign", "--key", ED25519.name, "-r", &folder]);
        assert!(output.status.success(), "{limit}: {}", tools::text(&output));
    }
    let folder = plain.packages(1);
    let output = with("0", &["sign", "--key", ED25519.name, "-r", &folder]);
    assert_eq!(output.status.code(), Some(1));
    let text = tools::text(&output);
    assert!(text.contains("lock memory for secrets") && text.contains("ulimit -l"), "{text}");
    let package = fs::read(fixtures::package(PACKAGE)).unwrap();
    assert_eq!(fs::read(plain.work().join(folder).join("0.rpm")).unwrap(), package);
}

const KILLS: usize = 20;
const FILES: usize = 200;

/// Each request gets a signature or a typed error, nothing hangs, and the next run finishes the rest.
#[test]
fn a_signer_killed_twenty_times_under_load_costs_no_file() {
    let plain = Plain::with_keys(&[RSA2048]);
    let folder = plain.packages(FILES);
    let original = fs::read(fixtures::package(PACKAGE)).unwrap();
    let begun = Instant::now();
    let (mut killed, mut last) = (0, 0);
    // As many rounds as the kills need: a fast machine signs all files between a few of them.
    while killed < KILLS {
        let mut sign = plain.command(&[
            "sign",
            "--force",
            "--jobs",
            "4",
            "--key",
            RSA2048.name,
            "-r",
            &folder,
            "--json",
        ]);
        // Into files: a pipe that nobody reads would fill, and hold the program up.
        let said = ["said", "complained"].map(|name| plain.work().join(name));
        let [out, err] = [&said[0], &said[1]].map(|path| fs::File::create(path).unwrap());
        let mut front = sign.stdout(out).stderr(err).spawn().unwrap();
        while killed < KILLS && front.try_wait().unwrap().is_none() {
            assert!(begun.elapsed() < Duration::from_secs(300), "it hangs after {killed} kills");
            if let Some(signer) = plain::children(front.id()).into_iter().find(|pid| *pid != last) {
                // From before it is ready to well into its work.
                std::thread::sleep(Duration::from_millis([150, 10, 300, 60, 220][killed % 5]));
                let killing = tools::run(Command::new("kill").args(["-KILL", &signer.to_string()]));
                (last, killed) = (signer, killed + usize::from(killing.status.success()));
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        let status = front.wait().unwrap();
        let [stdout, stderr] = said.map(|path| fs::read(path).unwrap());
        let output = std::process::Output { status, stdout, stderr };
        let stdout = String::from_utf8_lossy(&output.stdout);
        let failed = stdout.lines().filter(|line| line.contains("signer-gone")).count();
        let signed = stdout.lines().filter(|line| line.contains("\"status\":\"signed\"")).count();
        assert_eq!(signed + failed, FILES, "{}", tools::text(&output));
        assert_eq!(output.status.code(), Some(i32::from(failed > 0)), "{}", tools::text(&output));
    }
    let rpm = RpmKeys::new(&[RSA2048.public()]);
    for number in 0..FILES {
        let file = plain.work().join(&folder).join(format!("{number}.rpm"));
        let untouched = fs::read(&file).unwrap() == original;
        assert!(untouched || rpm.check(&file).is_signed_and_all_ok(), "{number}");
    }
    plain.ok(&["sign", "--key", RSA2048.name, "-r", &folder]);
    numbers_are_unique_and_gaps_declared(&plain);
}

/// What a monitor of the log does.
fn numbers_are_unique_and_gaps_declared(plain: &Plain) {
    let mut seen = BTreeMap::new();
    for entry in plain.entries() {
        let operation = &entry[entry.len() - 48..];
        let number = u64::from_be_bytes(operation[..8].try_into().unwrap());
        let skipped = u64::from_be_bytes(operation[8..16].try_into().unwrap());
        assert!(seen.insert(number, skipped).is_none(), "number {number} twice");
    }
    assert!(seen.len() >= FILES);
    let (newest, skipped) = seen.last_key_value().unwrap();
    let missing = newest - u64::try_from(seen.len()).unwrap();
    assert!(missing > 0 && missing <= *skipped, "{missing} are missing, {skipped} are declared");
}

fn until(condition: impl Fn() -> bool) {
    let begun = Instant::now();
    while !condition() {
        assert!(begun.elapsed() < Duration::from_secs(60), "it does not happen");
        std::thread::sleep(Duration::from_millis(5));
    }
}
