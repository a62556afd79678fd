//! A signer whose socket listens: fronts come one after the other, a stranger gets nothing, SIGTERM is an end in good
//! order, and of the whole of sockets only that one gives connections. This file is parent and child: started with the
//! name of a role, it plays it.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::exit,
    clippy::arithmetic_side_effects,
    clippy::print_stdout,
    reason = "tests"
)]

use std::io::PipeReader;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use sealwright_proto::frame;
use sealwright_proto::signer_v1::from_signer::Response;
use sealwright_proto::signer_v1::to_signer::Request as Asked;
use sealwright_proto::signer_v1::{BeginImport, FromSigner, ToSigner};
use sealwright_signer::{Config, Landlock, Socket, Walls, Watcher, confine};

/// Exit statuses of the roles.
const DONE: i32 = 42;
const REFUSED: i32 = 43;
const TOLD_NOTHING: i32 = 50;
const TOLD_SOMETHING: i32 = 51;

/// Of a signer that is watched.
const SILENCE_MAX: Duration = Duration::from_secs(1);

/// The user of the children, where we are root.
const USER: u32 = 65_534;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments.as_slice() {
        ["signer", directory, watched @ ..] => {
            let watcher = watched.first().map(|_| {
                let heartbeat = rustix::io::dup(rustix::stdio::stdout()).unwrap();
                Watcher { heartbeat, silence_max: SILENCE_MAX }
            });
            let socket = Socket::inherited(rustix::io::dup(rustix::stdio::stdin()).unwrap()).unwrap();
            let config = Config { root: directory.into(), root_key: None, create: true, socket, watcher };
            let walls = Walls { landlock: Landlock::IfPresent, peers: Vec::new() };
            sealwright_signer::run(config, &walls).unwrap();
        }
        ["accept", which, directory] => accept(which, Path::new(directory)),
        ["connect", path] => {
            let mut socket = UnixStream::connect(path).unwrap();
            socket.shutdown(std::net::Shutdown::Write).unwrap();
            let mut told = Vec::new();
            std::io::Read::read_to_end(&mut socket, &mut told).unwrap();
            std::process::exit(if told.is_empty() { TOLD_NOTHING } else { TOLD_SOMETHING });
        }
        // Arguments of the test runner, or none.
        _ => {
            fronts_are_served_one_after_the_other_and_sigterm_ends_it_with_answers_given();
            a_front_that_breaks_the_framing_costs_nobody_else();
            a_stranger_is_told_nothing_and_the_next_is_served();
            connections_are_accepted_from_the_one_listening_socket_alone();
            a_signer_says_that_it_works_while_it_does_whatever_front_does();
        }
    }
}

fn fronts_are_served_one_after_the_other_and_sigterm_ends_it_with_answers_given() {
    let place = Place::new();
    let mut signer = place.signer();
    let mut first = place.front();
    ask(&mut first, 1);
    // The second waits in the socket until the first has gone.
    let mut second = UnixStream::connect(&place.path).unwrap();
    ask(&mut first, 2);
    drop(first);
    assert_ready(&mut second);
    ask(&mut second, 3);
    drop(second);
    let mut third = place.front();
    ask(&mut third, 4);
    terminate(&signer);
    assert!(signer.wait().unwrap().success(), "it ends well at SIGTERM");
    assert!(matches!(frame::read::<FromSigner>(&mut third), Ok(None)), "the end, between two frames");
    // The socket is still there for the next signer.
    let mut waiting = UnixStream::connect(&place.path).unwrap();
    let mut next = place.signer();
    assert_ready(&mut waiting);
    terminate(&next);
    assert!(next.wait().unwrap().success());
}

fn a_front_that_breaks_the_framing_costs_nobody_else() {
    let place = Place::new();
    let mut signer = place.signer();
    let mut broken = place.front();
    std::io::Write::write_all(&mut broken, &[0xff; 64]).unwrap();
    let mut next = place.front();
    ask(&mut next, 1);
    // Half a frame and a stop.
    std::io::Write::write_all(&mut next, &[0, 0, 1]).unwrap();
    terminate(&signer);
    assert!(signer.wait().unwrap().success());
}

fn a_stranger_is_told_nothing_and_the_next_is_served() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let place = Place::new();
    let mut signer = place.signer();
    for (uid, status) in [(65_533, TOLD_NOTHING), (USER, TOLD_SOMETHING), (65_533, TOLD_NOTHING)] {
        let mut front = Command::new("/proc/self/exe");
        let told = front.arg("connect").arg(&place.path).uid(uid).gid(uid).status().unwrap().code();
        assert_eq!(told, Some(status), "{uid}");
    }
    terminate(&signer);
    assert!(signer.wait().unwrap().success());
}

fn connections_are_accepted_from_the_one_listening_socket_alone() {
    let place = Place::new();
    for (which, expected) in [("its-own", Ok(DONE)), ("another", Ok(REFUSED)), ("of-none", Err(libc::SIGSYS))]
    {
        let mut command = place.child();
        let status = command.args(["accept", which]).arg(place.root.path()).status().unwrap();
        assert_eq!(status.code().ok_or_else(|| status.signal().unwrap()), expected, "{which}");
    }
}

/// Without a front, with one, with one that takes no answers; not, while it stands still.
fn a_signer_says_that_it_works_while_it_does_whatever_front_does() {
    let place = Place::new();
    let (heard, theirs) = std::io::pipe().unwrap();
    rustix::io::ioctl_fionbio(&theirs, true).unwrap();
    let mut signer = place.signer_with(|command| {
        command.arg("watched").stdout(theirs);
    });
    words(&heard);
    let mut front = place.front();
    ask(&mut front, 1);
    words(&heard);
    let asked = ToSigner { id: 2, request: Some(Asked::BeginImport(BeginImport {})) };
    let asked = frame::encode(&asked).unwrap();
    front.set_nonblocking(true).unwrap();
    // Until the signer, which waits for us to take its answers, takes no more.
    let mut full = 0;
    while full < 20 {
        match std::io::Write::write(&mut front, &asked) {
            Ok(_) => full = 0,
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                full += 1;
                std::thread::sleep(Duration::from_millis(5));
            }
            Err(_) => break,
        }
    }
    let mut next = place.front();
    ask(&mut next, 3);
    words(&heard);
    let pid = rustix::process::Pid::from_child(&signer);
    rustix::process::kill_process(pid, rustix::process::Signal::STOP).unwrap();
    let state = || std::fs::read_to_string(format!("/proc/{}/stat", signer.id())).unwrap();
    while !state().contains(") T ") {
        std::thread::yield_now();
    }
    while is_heard(&heard, Duration::ZERO) {}
    assert!(!is_heard(&heard, SILENCE_MAX), "it stands still");
    rustix::process::kill_process(pid, rustix::process::Signal::CONT).unwrap();
    words(&heard);
    terminate(&signer);
    assert!(signer.wait().unwrap().success());
}

/// Waits for several signs of life, one after the other.
fn words(heard: &PipeReader) {
    while is_heard(heard, Duration::ZERO) {}
    for _ in 0..3 {
        assert!(is_heard(heard, Duration::from_secs(60)), "no sign of life");
    }
}

/// Whether something comes in this time; it is taken.
fn is_heard(mut heard: &PipeReader, within: Duration) -> bool {
    let within = rustix::event::Timespec::try_from(within).unwrap();
    let mut poll = [rustix::event::PollFd::new(heard, rustix::event::PollFlags::IN)];
    if rustix::event::poll(&mut poll, Some(&within)).unwrap() == 0 {
        return false;
    }
    std::io::Read::read(&mut heard, &mut [0; 256]).unwrap() > 0
}

/// The role that accepts, confined with a listener or without one.
fn accept(which: &str, directory: &Path) {
    let place = tempfile::tempdir().unwrap();
    let listen = |name: &str| {
        let path = place.path().join(name);
        let listener = UnixListener::bind(&path).unwrap();
        (listener, UnixStream::connect(path).unwrap())
    };
    let (own, _one) = listen("own");
    let (other, _two) = listen("other");
    let confined_for = (which != "of-none").then(|| own.as_fd());
    confine(directory, Landlock::IfPresent, confined_for).unwrap();
    let accepted = if which == "another" { other.accept() } else { own.accept() };
    std::process::exit(if accepted.is_ok() { DONE } else { REFUSED });
}

/// A listening socket, as whoever starts signers keeps it, and the signer's directory.
struct Place {
    _folder: tempfile::TempDir,
    root: tempfile::TempDir,
    path: std::path::PathBuf,
    listener: UnixListener,
}

impl Place {
    fn new() -> Self {
        let (folder, root) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let path = folder.path().join("socket");
        let listener = UnixListener::bind(&path).unwrap();
        for path in [folder.path(), &path] {
            std::fs::set_permissions(path, PermissionsExt::from_mode(0o777)).unwrap();
        }
        if rustix::process::geteuid().is_root() {
            std::os::unix::fs::chown(root.path(), Some(USER), Some(USER)).unwrap();
        }
        Self { _folder: folder, root, path, listener }
    }

    fn child(&self) -> Command {
        let mut command = Command::new("/proc/self/exe");
        if rustix::process::geteuid().is_root() {
            command.uid(USER).gid(USER);
        }
        command
    }

    fn signer(&self) -> Child {
        self.signer_with(|_| ())
    }

    fn signer_with(&self, change: impl FnOnce(&mut Command)) -> Child {
        let listener = OwnedFd::from(self.listener.try_clone().unwrap());
        let mut command = self.child();
        command.arg("signer").arg(self.root.path()).stdin(Stdio::from(listener));
        change(&mut command);
        command.spawn().unwrap()
    }

    fn front(&self) -> UnixStream {
        let mut front = UnixStream::connect(&self.path).unwrap();
        assert_ready(&mut front);
        front
    }
}

fn assert_ready(front: &mut UnixStream) {
    let greeting = frame::read::<FromSigner>(front).unwrap().expect("a greeting").0;
    assert!(matches!(greeting.response, Some(Response::Ready(_))), "{greeting:?}");
}

fn ask(front: &mut UnixStream, id: u64) {
    frame::write(front, &ToSigner { id, request: Some(Asked::BeginImport(BeginImport {})) }).unwrap();
    let answer = frame::read::<FromSigner>(front).unwrap().expect("an answer").0;
    assert!(answer.id == id && matches!(answer.response, Some(Response::ImportKey(_))), "{answer:?}");
}

fn terminate(child: &Child) {
    let pid = rustix::process::Pid::from_child(child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
}
