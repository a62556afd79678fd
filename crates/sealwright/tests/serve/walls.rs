//! What front can reach of the signer: nothing, with one user for both and with two.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;

use sealwright_testkit::fixtures::{ED25519, RSA2048};
use sealwright_testkit::server::Server;
use sealwright_testkit::tools;

use super::load::Load;
use super::memory::{Secrets, holds};
use super::{NOBODY, PROGRAM};

/// As a plain user, where root runs the tests.
fn server_of_a_plain_user() -> Server {
    if is_root() { Server::of_user(PROGRAM, NOBODY) } else { Server::new(PROGRAM) }
}

fn is_root() -> bool {
    fs::metadata("/proc/self").unwrap().uid() == 0
}

/// Both keys at work. Only root can look into front at all: it cannot be traced by its own user.
#[test]
fn front_holds_no_private_key_no_root_key_and_no_data_key_while_it_serves() {
    let mut server = server_of_a_plain_user().run_with(&[ED25519, RSA2048]);
    let loads = [("a", ED25519), ("b", RSA2048)].map(|(folder, key)| Load::start(&server, folder, key.name));
    server.until("both keys at work", || loads.iter().all(|load| load.signed() > 0));
    let (front, signer) = (server.child("front"), server.child("signer"));
    if is_root() {
        let root = server.directory().join("root");
        let secrets = Secrets::of(&root, &[ED25519.secret(), RSA2048.secret()]);
        server.signal(front, "STOP");
        let (in_front, in_signer) = (holds(front, &secrets), holds(signer, &secrets));
        server.signal(front, "CONT");
        assert!(in_front.is_empty(), "front holds {in_front:?}");
        for name in ["data key", ED25519.name, RSA2048.name] {
            assert!(in_signer.contains(name), "the search finds nothing: signer holds {in_signer:?}");
        }
    } else {
        assert!(
            fs::File::open(format!("/proc/{front}/mem")).is_err(),
            "its own user can read front's memory"
        );
    }
    for load in loads {
        // While front stood still, requests may have failed, by name.
        load.stop();
    }
    assert!(server.stop().success());
}

#[test]
fn both_processes_are_confined_and_inherit_only_what_is_chosen() {
    let mut server = server_of_a_plain_user().run_with(&[]);
    for name in ["front", "signer"] {
        let pid = server.child(name);
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        for line in ["NoNewPrivs:\t1", "Seccomp:\t2"] {
            assert!(status.lines().any(|found| found == line), "{name}: {line}: {status}");
        }
        let group = tools::succeed(Command::new("ps").args(["-o", "pgid=", "-p", &pid.to_string()]));
        assert_eq!(String::from_utf8(group).unwrap().trim(), pid.to_string(), "{name}: a group of its own");
        // Only root can look.
        let Ok(environment) = fs::read_to_string(format!("/proc/{pid}/environ")) else { continue };
        for entry in environment.split_terminator('\0') {
            let name = entry.split('=').next().unwrap();
            let chosen = ["SEALWRIGHT_LOG", "SEALWRIGHT_LOG_FORMAT", "SQLITE_TMPDIR"];
            assert!(chosen.contains(&name), "{entry}");
        }
        let limits = fs::read_to_string(format!("/proc/{pid}/limits")).unwrap();
        let core = limits.lines().find(|line| line.starts_with("Max core file size")).unwrap();
        assert_eq!(core.split_whitespace().skip(4).take(2).collect::<Vec<_>>(), ["0", "0"], "{core}");
    }
    assert!(server.stop().success());
}

/// As a plain user: neither itself nor anybody else of that user looks into the two, and the socket is private.
#[test]
fn the_same_user_can_neither_trace_the_processes_nor_read_their_memory() {
    let mut server = server_of_a_plain_user().run_with(&[]);
    for name in ["front", "signer"] {
        let pid = server.child(name).to_string();
        for script in ["exec 3</proc/$1/mem", "exec 3</proc/$1/environ", "ls /proc/$1/fd"] {
            assert!(!can(server.uid(), script, Path::new(&pid)), "{name}: {script}");
        }
    }
    let socket = fs::metadata(server.directory().join("run/signer.sock")).unwrap();
    assert_eq!(socket.mode() & 0o777, 0o600);
    assert!(server.stop().success());
    assert!(!server.directory().join("run/signer.sock").exists(), "it goes with the server");
}

/// What an installed service has: two users beside root's supervisor.
#[test]
fn with_two_users_each_process_has_its_own_and_front_s_cannot_open_the_root_key() {
    if !is_root() {
        return;
    }
    let mut server = Server::of_two_users(PROGRAM, "nobody", "daemon").run_with(&[ED25519]);
    server.signs(ED25519);
    let daemon = fs::metadata(server.directory().join("root")).unwrap().uid();
    assert!(daemon != 0 && daemon != NOBODY);
    for (name, uid) in [("front", NOBODY), ("signer", daemon)] {
        let status = fs::read_to_string(format!("/proc/{}/status", server.child(name))).unwrap();
        let line = |begin: &str| status.lines().find(|line| line.starts_with(begin)).unwrap();
        let uids: Vec<&str> = line("Uid:").split_whitespace().skip(1).collect();
        assert!(uids.iter().all(|found| *found == uid.to_string()), "{name}: {uids:?}");
        assert_eq!(line("Groups:").split_whitespace().count(), 1, "{name} has no other groups");
        assert_eq!(line("CapEff:").split_whitespace().nth(1), Some("0000000000000000"), "{name}");
    }
    let root = server.directory().join("root");
    assert!(can(Some(daemon), "cat \"$1\"", &root.join("root.key")), "the control");
    for (script, path) in [("cat \"$1\"", root.join("root.key")), ("ls \"$1\"", root)] {
        assert!(!can(Some(NOBODY), script, &path), "{script}");
    }
    assert!(!can(Some(daemon), "ls \"$1\"", &server.directory().join("store")), "nor the signer the store");
    server.signal(server.child("signer"), "KILL");
    server.signs(ED25519);
    assert!(server.stop().success());
}

fn can(uid: Option<u32>, script: &str, path: &Path) -> bool {
    let mut command = Command::new("sh");
    command.args(["-c", script, "sh"]).arg(path);
    if let Some(uid) = uid {
        command.uid(uid).gid(uid);
    }
    tools::run(&mut command).status.success()
}
