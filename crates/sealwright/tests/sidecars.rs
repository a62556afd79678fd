//! Signature files with the real program: killed at every step, with every call that fails, on disks that fill.

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
use std::path::Path;
use std::process::{Command, Stdio};

use disk::{Disk, temporaries};
use sealwright_testkit::fixtures::{ED25519, RSA2048};
use sealwright_testkit::sealwright::{Home, Ran};
use sealwright_testkit::tools;

#[allow(dead_code, reason = "each test target uses its part")]
#[path = "splice/disk.rs"]
mod disk;

const PROGRAM: &str = env!("CARGO_BIN_EXE_sealwright");
const FILES: [&str; 3] = ["a.tar", "b.tar", "c.tar"];
/// Of one kind of call in one run at most.
const CALLS_MAX: usize = 40;

fn home() -> Home {
    Home::with_keys(PROGRAM, &[ED25519, RSA2048])
}

fn put(folder: &Path) {
    for name in FILES {
        fs::write(folder.join(name), name).unwrap();
    }
}

/// Signs all files by this key.
fn sign(home: &Home, key: &str) -> Command {
    home.command(&[&["sign", "--format", "detached", "--force", "--key", key], FILES.as_slice()].concat())
}

fn is_signed(folder: &Path, name: &str) -> bool {
    let (data, signature) = (folder.join(name), folder.join(format!("{name}.asc")));
    let certificates = [ED25519.public(), RSA2048.public()];
    signature.exists() && tools::gpgv(&certificates, &signature, &data).status.success()
}

/// The same run under strace, which does this with the call number `when`; returns whether it came to that.
fn tampered(command: &Command, call: &str, how: &str, when: usize) -> (Ran, bool) {
    let log = tempfile::NamedTempFile::new().unwrap();
    let mut strace = Command::new("strace");
    strace.args(["-f", "-qq", "-o"]).arg(log.path()).arg("-e").arg(format!("trace={call}"));
    strace.args(["-e", &format!("inject={call}:{how}:when={when}")]);
    strace.arg(command.get_program()).args(command.get_args());
    strace.current_dir(command.get_current_dir().unwrap()).stdin(Stdio::null());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => strace.env(name, value),
            None => strace.env_remove(name),
        };
    }
    let ran = Ran::from(tools::run(&mut strace));
    let text = fs::read_to_string(log.path()).unwrap();
    (ran, text.contains("(INJECTED)") || text.contains("+++ killed by SIGKILL"))
}

#[test]
fn killed_at_any_step_the_signature_file_is_the_old_or_the_new_one_and_the_next_run_finishes() {
    let home = home();
    put(&home.work());
    tools::succeed(&mut sign(&home, RSA2048.name));
    for call in ["fallocate", "pwrite64", "ftruncate", "fsync", "renameat"] {
        let mut kills = 0;
        for when in 1..CALLS_MAX {
            let key = if when % 2 == 0 { RSA2048.name } else { ED25519.name };
            let (_, killed) = tampered(&sign(&home, key), call, "signal=KILL", when);
            for name in FILES {
                assert!(is_signed(&home.work(), name), "{call} {when}: {name}");
                assert_eq!(fs::read_to_string(home.work().join(name)).unwrap(), name);
            }
            if !killed {
                break;
            }
            kills += 1;
        }
        assert!(kills > 0, "it was never killed at {call}");
    }
    // A new name is not given to a signature file that is there already.
    for when in 1..CALLS_MAX {
        for name in FILES {
            drop(fs::remove_file(home.work().join(format!("{name}.asc"))));
        }
        let (_, killed) = tampered(&sign(&home, ED25519.name), "renameat2", "signal=KILL", when);
        for name in FILES {
            let signature = home.work().join(format!("{name}.asc"));
            assert!(!signature.exists() || is_signed(&home.work(), name), "{when}: {name}");
        }
        if !killed {
            break;
        }
        assert!(when <= FILES.len());
    }
    tools::succeed(&mut sign(&home, ED25519.name));
    assert!(FILES.iter().all(|name| is_signed(&home.work(), name)));
    assert!(temporaries(&home.work()).is_empty(), "{:?}", temporaries(&home.work()));
}

#[test]
fn a_failing_call_leaves_the_old_or_the_new_signature_file_and_nothing_else() {
    let home = home();
    put(&home.work());
    tools::succeed(&mut sign(&home, RSA2048.name));
    for (call, error) in [
        ("fallocate", "EDQUOT"),
        ("pwrite64", "ENOSPC"),
        ("ftruncate", "EIO"),
        ("fsync", "EIO"),
        ("renameat", "ESTALE"),
        ("openat", "EIO"),
    ] {
        let mut failed = 0;
        for when in 1..3 * CALLS_MAX {
            let key = if when % 2 == 0 { RSA2048.name } else { ED25519.name };
            let (ran, injected) = tampered(&sign(&home, key), call, &format!("error={error}"), when);
            for name in FILES {
                assert!(is_signed(&home.work(), name), "{call} {when}: {name}\n{}", ran.text());
            }
            assert!(temporaries(&home.work()).is_empty(), "{call} {when}: {}", ran.text());
            // Without its libraries or its store it says nothing of files, and nothing of them is shown.
            let is_about_ours = call != "openat" || FILES.iter().any(|name| ran.text().contains(name));
            failed += usize::from(ran.code != Some(0) && is_about_ours);
            if !injected {
                break;
            }
        }
        assert!(failed > 0, "{call} never failed");
    }
}

#[test]
fn on_a_full_disk_no_signature_is_asked_for() {
    for disk in [Disk::tmpfs(2048), Disk::ext4(16), Disk::xfs(320)] {
        let Some(disk) = disk else { return };
        let home = home();
        put(&disk.path());
        let paths: Vec<String> =
            FILES.iter().map(|name| disk.path().join(name).to_str().unwrap().to_owned()).collect();
        disk.fill_but(0);
        let arguments: Vec<&str> = ["sign", "--format", "detached", "--key", ED25519.name]
            .into_iter()
            .chain(paths.iter().map(String::as_str))
            .collect();
        let ran = home.run(&arguments);
        ran.failed_saying(&["a.tar", "no space left"]);
        assert_eq!(home.log_size(), 0, "{}", ran.text());
        assert!(temporaries(&disk.path()).is_empty());
        fs::remove_file(disk.path().join("filler")).unwrap();
        home.ok(&arguments);
        assert!(FILES.iter().all(|name| is_signed(&disk.path(), name)));
    }
}
