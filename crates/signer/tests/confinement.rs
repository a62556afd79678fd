//! The sandbox from inside: children of this program try each thing, first as they are (it succeeds, so the trial is
//! one), then confined (it does not). And the sandbox from outside: strangers at the socket, kernels without Landlock.
//!
//! This file is parent and child: started with the name of a role, it plays it. Started by root, it plays as another
//! user, since much of this does not hold root.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::exit,
    reason = "tests"
)]

#[path = "confinement/trials.rs"]
mod trials;

use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::Path;
use std::process::{Command, ExitStatus, Output, Stdio};

use sealwright_proto::frame;
use sealwright_proto::signer_v1::FromSigner;
use sealwright_proto::signer_v1::from_signer::Response;
use sealwright_proto::status::{Code, Fault};
use sealwright_signer::{Config, Landlock, Socket, Walls, confine};
use trials::{Expected, TRIALS};

/// Exit statuses of the role that connects.
const TOLD_NOTHING: i32 = 50;
const TOLD_SOMETHING: i32 = 51;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments.as_slice() {
        ["as-it-is", trial, directory] => trials::run(trial, Path::new(directory)),
        ["confined", trial, directory] => {
            confine(Path::new(directory), Landlock::Required, None).unwrap();
            trials::run(trial, Path::new(directory));
        }
        ["seccomp-alone", trial, directory] => {
            without_landlock();
            confine(Path::new(directory), Landlock::IfPresent, None).unwrap();
            trials::run(trial, Path::new(directory));
        }
        ["signer", directory] => signer(directory, Landlock::IfPresent, &[]),
        ["signer-for", uid, directory] => signer(directory, Landlock::IfPresent, &[uid.parse().unwrap()]),
        ["signer-without-landlock", landlock, directory] => {
            without_landlock();
            let landlock = if *landlock == "required" { Landlock::Required } else { Landlock::IfPresent };
            signer(directory, landlock, &[]);
        }
        ["connect", path] => {
            let mut socket = UnixStream::connect(path).unwrap();
            socket.shutdown(std::net::Shutdown::Write).unwrap();
            let mut told = Vec::new();
            std::io::Read::read_to_end(&mut socket, &mut told).unwrap();
            std::process::exit(if told.is_empty() { TOLD_NOTHING } else { TOLD_SOMETHING });
        }
        // Arguments of the test runner, or none.
        _ => all_tests(),
    }
}

fn all_tests() {
    each_thing_succeeds_as_it_is_and_not_when_confined();
    a_kernel_without_landlock_leaves_the_system_calls_restricted();
    a_kernel_without_landlock_is_told_of_once_or_refused_if_landlock_is_required();
    a_stranger_at_the_socket_is_told_nothing();
}

fn each_thing_succeeds_as_it_is_and_not_when_confined() {
    let directory = directory();
    for (trial, expected) in TRIALS {
        let control = play(&["as-it-is", trial, path(&directory)]);
        assert_eq!(control.status.code(), Some(trials::SUCCEEDED), "control of {trial}: {control:?}");
        let confined = play(&["confined", trial, path(&directory)]);
        assert_eq!(outcome(confined.status), *expected, "{trial}: {confined:?}");
    }
}

fn a_kernel_without_landlock_leaves_the_system_calls_restricted() {
    let directory = directory();
    for (trial, expected) in [("read-passwd", Expected::Succeeds), ("inet", Expected::Killed)] {
        let played = play(&["seccomp-alone", trial, path(&directory)]);
        assert_eq!(outcome(played.status), expected, "{trial}: {played:?}");
    }
}

fn a_kernel_without_landlock_is_told_of_once_or_refused_if_landlock_is_required() {
    let directory = directory();
    let (greeting, stderr) = greeting_of(&["signer-without-landlock", "if-present", path(&directory)]);
    assert!(matches!(greeting, Some(Response::Ready(_))), "{greeting:?} {stderr}");
    assert_eq!(stderr.matches("no Landlock").count(), 1, "{stderr}");
    let (greeting, _) = greeting_of(&["signer-without-landlock", "required", path(&directory)]);
    let Some(Response::Failure(failure)) = greeting else { panic!("{greeting:?}") };
    let fault = Fault::from(failure);
    assert_eq!(fault.code, Code::ConfinementFailed);
    assert!(fault.message.contains("Landlock"), "{fault}");
    let (greeting, stderr) = greeting_of(&["signer", path(&directory)]);
    assert!(matches!(greeting, Some(Response::Ready(_))), "{greeting:?}");
    assert!(!stderr.contains("Landlock"), "{stderr}");
}

/// The socket was connected by one user; the signer of another user serves it only if that user is named.
fn a_stranger_at_the_socket_is_told_nothing() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let directory = directory();
    for (arguments, served) in [
        (vec!["signer", path(&directory)], false),
        (vec!["signer-for", "65533", path(&directory)], true),
        (vec!["signer-for", "65532", path(&directory)], false),
    ] {
        let place = tempfile::tempdir().unwrap();
        give_to_all(place.path());
        let path = place.path().join("socket");
        let listener = UnixListener::bind(&path).unwrap();
        give_to_all(&path);
        let mut front = Command::new("/proc/self/exe");
        let mut front = front.args(["connect", path.to_str().unwrap()]).uid(65_533).spawn().unwrap();
        let (accepted, _) = listener.accept().unwrap();
        let signer = command(&arguments).stdin(Stdio::from(OwnedFd::from(accepted))).output().unwrap();
        let told = front.wait().unwrap().code();
        assert_eq!(told, Some(if served { TOLD_SOMETHING } else { TOLD_NOTHING }));
        let stderr = String::from_utf8_lossy(&signer.stderr).into_owned();
        assert_eq!(signer.status.success(), served, "{arguments:?}: {stderr}");
        assert_eq!(stderr.contains("65533"), !served, "{stderr}");
    }
}

/// The role of a signer: standard input is its socket.
fn signer(directory: &str, landlock: Landlock, peers: &[u32]) {
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    let socket = UnixStream::from(rustix::io::dup(rustix::stdio::stdin()).unwrap());
    let config = Config {
        watcher: None,
        root: directory.into(),
        create: true,
        root_key: None,
        socket: Socket::inherited(socket.into()).unwrap(),
    };
    if let Err(error) = sealwright_signer::run(config, &Walls { landlock, peers: peers.to_vec() }) {
        tracing::error!(%error, "the signer ends");
        std::process::exit(1);
    }
}

/// As on a kernel before 5.13: the calls of Landlock are not there.
fn without_landlock() {
    use seccompiler::{BpfProgram, SeccompAction, SeccompFilter};
    let rules = [libc::SYS_landlock_create_ruleset, libc::SYS_landlock_restrict_self];
    let filter = SeccompFilter::new(
        rules.into_iter().map(|number| (number, Vec::new())).collect(),
        SeccompAction::Allow,
        SeccompAction::Errno(u32::try_from(libc::ENOSYS).unwrap()),
        std::env::consts::ARCH.try_into().unwrap(),
    );
    let program: BpfProgram = filter.unwrap().try_into().unwrap();
    seccompiler::apply_filter(&program).unwrap();
}

fn greeting_of(arguments: &[&str]) -> (Option<Response>, String) {
    let (mut ours, theirs) = UnixStream::pair().unwrap();
    let mut command = command(arguments);
    let child = command.stdin(Stdio::from(OwnedFd::from(theirs))).spawn().unwrap();
    drop(command);
    let greeting = frame::read::<FromSigner>(&mut ours).unwrap().and_then(|(message, _)| message.response);
    drop(ours);
    let output = child.wait_with_output().unwrap();
    (greeting, String::from_utf8_lossy(&output.stderr).into_owned())
}

fn play(arguments: &[&str]) -> Output {
    command(arguments).stdin(Stdio::null()).output().unwrap()
}

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new("/proc/self/exe");
    command.args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped());
    if rustix::process::geteuid().is_root() {
        command.uid(65_534).gid(65_534);
    }
    command
}

fn outcome(status: ExitStatus) -> Expected {
    match (status.code(), status.signal()) {
        (Some(trials::SUCCEEDED), _) => Expected::Succeeds,
        (Some(trials::REFUSED), _) => Expected::Refused,
        (None, Some(libc::SIGSYS)) => Expected::Killed,
        _ => panic!("{status:?}"),
    }
}

/// One that belongs to whoever the children are, with a file beside it that is not the signer's business.
fn directory() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::chown(directory.path(), Some(65_534), Some(65_534)).unwrap();
    }
    directory
}

fn give_to_all(path: &Path) {
    std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
}

fn path(directory: &tempfile::TempDir) -> &str {
    directory.path().to_str().unwrap()
}
