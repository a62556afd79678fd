//! A signer as a process of its own, seen from outside: what `run` gives up at its start. This file is parent and
//! child: started with an argument, it is the signer.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::arithmetic_side_effects,
    reason = "tests"
)]

use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use sealwright_proto::frame;
use sealwright_proto::signer_v1::FromSigner;
use sealwright_proto::signer_v1::from_signer::Response;
use sealwright_signer::{Config, Landlock, Walls};

fn main() {
    match std::env::args_os().nth(1) {
        Some(root) if root.as_encoded_bytes().starts_with(b"/") => {
            let socket = UnixStream::from(rustix::io::dup(rustix::stdio::stdin()).unwrap());
            let walls = Walls { landlock: Landlock::IfPresent, peers: Vec::new() };
            sealwright_signer::run(
                Config {
                    root: root.into(),
                    create: true,
                    root_key: None,
                    socket: socket.into(),
                    watcher: None,
                },
                &walls,
            )
            .unwrap();
        }
        // Arguments of the test runner, or none.
        Some(_) | None => {
            the_signer_cannot_be_dumped_traced_or_interrupted_from_the_terminal();
            a_signer_that_waits_at_its_start_ends_with_its_front();
        }
    }
}

fn a_signer_that_waits_at_its_start_ends_with_its_front() {
    let directory = tempfile::tempdir().unwrap();
    let mut options = std::fs::OpenOptions::new();
    let lock = options.write(true).create_new(true).mode(0o600).open(directory.path().join("lock")).unwrap();
    rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive).unwrap();
    let (ours, theirs) = UnixStream::pair().unwrap();
    let mut command = Command::new("/proc/self/exe");
    command.arg(directory.path()).stdin(Stdio::from(OwnedFd::from(theirs)));
    let mut child = command.spawn().unwrap();
    drop((command, ours));
    let deadline = Instant::now() + Duration::from_secs(60);
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if Instant::now() > deadline {
            child.kill().unwrap();
            panic!("it waits for the lock, although nobody wants it any more");
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    assert!(!status.success(), "{status}");
    drop(lock);
}

fn the_signer_cannot_be_dumped_traced_or_interrupted_from_the_terminal() {
    let directory = tempfile::tempdir().unwrap();
    let (mut ours, theirs) = UnixStream::pair().unwrap();
    let mut command = Command::new("/proc/self/exe");
    command.arg(directory.path()).stdin(Stdio::from(OwnedFd::from(theirs)));
    let mut user = rustix::process::getuid().as_raw();
    if user == 0 {
        // What root sees of a process does not depend on whether it can be dumped: take another user.
        user = 65_534;
        std::os::unix::fs::chown(directory.path(), Some(user), None).unwrap();
        command.uid(user);
    }
    let mut child = command.spawn().unwrap();
    drop(command);
    let (greeting, _) = frame::read::<FromSigner>(&mut ours).unwrap().expect("a greeting");
    assert!(matches!(greeting.response, Some(Response::Ready(_))), "{greeting:?}");

    let proc = std::path::Path::new("/proc").join(child.id().to_string());
    // proc(5): the files of a process that cannot be dumped belong to root; ptrace is refused likewise.
    assert_eq!(std::fs::metadata(proc.join("environ")).unwrap().uid(), 0, "dumpable");
    let limits = std::fs::read_to_string(proc.join("limits"));
    if let Ok(limits) = limits {
        let core = limits.lines().find(|line| line.starts_with("Max core file size")).unwrap();
        assert_eq!(core.split_whitespace().skip(4).take(2).collect::<Vec<_>>(), ["0", "0"], "{core}");
    }
    let stat = std::fs::read_to_string(proc.join("stat")).unwrap();
    let group = stat.rsplit_once(')').unwrap().1.split_whitespace().nth(2).unwrap();
    assert_eq!(group, child.id().to_string(), "in the process group of whoever started it");

    drop(ours);
    assert!(child.wait().unwrap().success(), "it ends well when front closes");
}
