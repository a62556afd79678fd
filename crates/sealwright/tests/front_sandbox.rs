//! The sandbox of front from inside: children of this program try each thing, first as they are (it succeeds, so the trial
//! is one), then shut in (it does not). The trials are those of somebody who runs code in front, as the user whom front and
//! signer share.
//!
//! This file is parent and child: started with the name of a role, it plays it. Started by root, it plays as another user.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::exit,
    clippy::print_stdout,
    clippy::arithmetic_side_effects,
    clippy::indexing_slicing,
    dead_code,
    unused_imports,
    unreachable_pub,
    reason = "tests"
)]

#[path = "../src/failure.rs"]
mod failure;
#[path = "../src/serve/sandbox.rs"]
mod sandbox;

use std::fs;
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use sandbox::Sandbox;
use sealwright_testkit::server::Server;

/// Exit statuses: not ones that a panic gives.
const SUCCEEDED: i32 = 42;
const REFUSED: i32 = 43;

/// What front has to do, and what it has not.
const NEEDED: &[&str] = &["own-store", "signer-socket", "accept", "threads", "time-and-chance", "read-again"];
const NOT_NEEDED: &[&str] = &[
    "root-key",
    "list-root",
    "replace-root-key",
    "link-root-key",
    "passwd",
    "write-elsewhere",
    "inet",
    "inet6",
    "udp",
    "exec",
    "signer-memory",
    "trace-signer",
    "signal-signer",
    "abstract-socket",
];

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments.as_slice() {
        ["as-it-is", trial, place, signer] => end(&attempt(trial, &Trial::new(place, signer))),
        ["shut-in", trial, place, signer] => {
            let trial_place = Trial::new(place, signer);
            let (store, root) = (trial_place.store(), trial_place.root());
            let readable = [trial_place.place.join("config")];
            Sandbox { store: &store, readable: &readable, root: &root, required: true }.enter().unwrap();
            end(&attempt(trial, &trial_place));
        }
        ["signer", place] => {
            // Stands for a process of the same user that is not hardened: only front's own walls are tried.
            let listener = UnixListener::bind(Path::new(place).join("signer.sock")).unwrap();
            loop {
                drop(listener.accept());
            }
        }
        ["without-landlock", program, arguments @ ..] => {
            without_landlock();
            panic!("{}", Command::new(program).args(arguments).exec());
        }
        // Arguments of the test runner, or none.
        _ => {
            each_thing_that_front_needs_succeeds_and_everything_else_is_refused();
            passed("each_thing_that_front_needs_succeeds_and_everything_else_is_refused");
            on_a_kernel_without_landlock_root_alone_and_require_sandbox_are_refused_and_others_are_told();
            passed(
                "on_a_kernel_without_landlock_root_alone_and_require_sandbox_are_refused_and_others_are_told",
            );
        }
    }
}

/// As the runner of other tests says it; what fails ends with a panic.
fn passed(name: &str) {
    println!("test {name} ... ok");
}

fn on_a_kernel_without_landlock_root_alone_and_require_sandbox_are_refused_and_others_are_told() {
    let is_root = rustix::process::geteuid().is_root();
    let program = env!("CARGO_BIN_EXE_sealwright");
    let mut server = if is_root { Server::of_user(program, 65_534) } else { Server::new(program) };
    let serve = |server: &Server, uid: Option<u32>| {
        let serve = server.serve();
        let mut command = Command::new("/proc/self/exe");
        command.arg("without-landlock").arg(serve.get_program()).args(serve.get_args());
        command.current_dir(server.work()).stdin(Stdio::null()).stdout(Stdio::null());
        server.watch(&mut command);
        if let Some(uid) = uid {
            command.uid(uid).gid(uid);
        }
        command
    };
    if is_root {
        // A list of clients that another user could change is refused before.
        let clients = server.directory().join("clients.toml");
        std::os::unix::fs::chown(&clients, Some(0), Some(0)).unwrap();
        let refused = serve(&server, None).status().unwrap();
        std::os::unix::fs::chown(&clients, server.uid(), server.uid()).unwrap();
        assert_eq!(refused.code(), Some(1));
        assert!(server.log().contains("without [users], on a kernel without Landlock"), "{}", server.log());
    }
    let plain = serve(&server, server.uid());
    server.start_by(plain);
    assert!(server.log().contains("it can open the root key"), "{}", server.log());
    assert!(server.stop().success());
    server.configure("require_sandbox =", "require_sandbox = true");
    let refused = serve(&server, server.uid()).status().unwrap();
    assert_eq!(refused.code(), Some(1));
    assert!(server.log().contains("require_sandbox is set"), "{}", server.log());
}

/// As on a kernel before 5.13: the calls of Landlock are not there. Stays when another program is run.
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
    rustix::thread::set_no_new_privs(true).unwrap();
    seccompiler::apply_filter(&program).unwrap();
}

fn each_thing_that_front_needs_succeeds_and_everything_else_is_refused() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().to_str().unwrap().to_owned();
    for name in ["store", "root", "config"] {
        fs::create_dir(place.path().join(name)).unwrap();
    }
    fs::write(place.path().join("root/root.key"), "secret").unwrap();
    fs::write(place.path().join("config/clients.toml"), "").unwrap();
    give_all(place.path());
    let mut signer = command(&["signer", &path]).spawn().unwrap();
    while !place.path().join("signer.sock").exists() {
        std::thread::yield_now();
    }
    let pid = signer.id().to_string();
    let played = |how: &str, trial: &str| {
        let output = command(&[how, trial, &path, &pid]).output().unwrap();
        (
            output.status.code(),
            String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr),
        )
    };
    for trial in NEEDED.iter().chain(NOT_NEEDED) {
        let (control, said) = played("as-it-is", trial);
        assert_eq!(control, Some(SUCCEEDED), "control of {trial}: {said}");
        passed(&format!("as-it-is::{trial} succeeds"));
    }
    for trial in NEEDED {
        let (shut_in, said) = played("shut-in", trial);
        assert_eq!(shut_in, Some(SUCCEEDED), "{trial}: {said}");
        passed(&format!("shut-in::{trial} succeeds"));
    }
    for trial in NOT_NEEDED {
        let (shut_in, said) = played("shut-in", trial);
        assert_eq!(shut_in, Some(REFUSED), "{trial}: {said}");
        passed(&format!("shut-in::{trial} is refused ({})", said.trim()));
    }
    end_of(&mut signer);
}

struct Trial {
    place: PathBuf,
    signer: i32,
    /// Made before the walls, as front's is.
    listener: TcpListener,
    abstract_name: String,
    _abstract: UnixListener,
}

impl Trial {
    fn new(place: &str, signer: &str) -> Self {
        use std::os::linux::net::SocketAddrExt as _;
        let abstract_name = format!("sealwright-front-trial-{}", std::process::id());
        // Of another process it would be refused; made by this one before, it is outside as well.
        let address = std::os::unix::net::SocketAddr::from_abstract_name(&abstract_name).unwrap();
        Self {
            place: place.into(),
            signer: signer.parse().unwrap(),
            listener: TcpListener::bind("127.0.0.1:0").unwrap(),
            abstract_name,
            _abstract: UnixListener::bind_addr(&address).unwrap(),
        }
    }

    fn store(&self) -> PathBuf {
        self.place.join("store")
    }

    fn root(&self) -> PathBuf {
        self.place.join("root")
    }
}

fn attempt(trial: &str, at: &Trial) -> io::Result<()> {
    let key = at.root().join("root.key");
    let pid = || rustix::process::Pid::from_raw(at.signer).unwrap();
    match trial {
        "own-store" => own_store(&at.store()),
        "signer-socket" => UnixStream::connect(at.place.join("signer.sock")).map(drop),
        "accept" => accept(&at.listener),
        "threads" => std::thread::Builder::new().spawn(|| ()).map(|thread| thread.join().unwrap()),
        "time-and-chance" => {
            assert!(std::time::SystemTime::now().elapsed().is_ok());
            fs::File::open("/dev/urandom").map(drop)
        }
        "read-again" => fs::read(at.place.join("config/clients.toml")).map(drop),
        "root-key" => fs::read(key).map(drop),
        "list-root" => fs::read_dir(at.root()).map(drop),
        "replace-root-key" => fs::write(at.root().join("new"), "mine"),
        "link-root-key" => fs::hard_link(key, at.store().join(format!("link-{}", std::process::id()))),
        "passwd" => fs::read("/etc/passwd").map(drop),
        "write-elsewhere" => fs::write(at.place.join("config").join(std::process::id().to_string()), ""),
        "inet" => TcpStream::connect(at.listener.local_addr()?).map(drop),
        "inet6" => socket(rustix::net::AddressFamily::INET6),
        "udp" => UdpSocket::bind(SocketAddr::from(([127, 0, 0, 1], 0))).map(drop),
        // Ends with the status of a success, as it becomes another program.
        "exec" => Err(Command::new("/bin/sh").args(["-c", &format!("exit {SUCCEEDED}")]).exec()),
        "signer-memory" => fs::File::open(format!("/proc/{}/mem", at.signer)).map(drop),
        "trace-signer" => trace(at.signer),
        "signal-signer" => rustix::process::test_kill_process(pid()).map_err(io::Error::from),
        "abstract-socket" => abstract_socket(&at.abstract_name),
        other => panic!("no trial {other}"),
    }
}

/// What SQLite does.
fn own_store(store: &Path) -> io::Result<()> {
    let file = store.join(std::process::id().to_string());
    let opened = fs::OpenOptions::new().read(true).write(true).create_new(true).open(&file)?;
    opened.set_len(4096)?;
    opened.sync_all()?;
    fs::File::open(store)?.sync_all()?;
    fs::remove_file(file)
}

fn accept(listener: &TcpListener) -> io::Result<()> {
    // The front of now lengthens the queue of its sockets.
    rustix::net::listen(listener, 4096)?;
    listener.set_nonblocking(true)?;
    match listener.accept() {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
        other => other.map(drop),
    }
}

fn socket(family: rustix::net::AddressFamily) -> io::Result<()> {
    Ok(rustix::net::socket(family, rustix::net::SocketType::STREAM, None).map(drop)?)
}

fn abstract_socket(name: &str) -> io::Result<()> {
    use std::os::linux::net::SocketAddrExt as _;
    UnixStream::connect_addr(&std::os::unix::net::SocketAddr::from_abstract_name(name)?).map(drop)
}

#[expect(unsafe_code, reason = "there is no safe way to trace a process")]
fn trace(pid: i32) -> io::Result<()> {
    // SAFETY: PTRACE_SEIZE takes no pointer, and stops nothing.
    let result = unsafe { libc::ptrace(libc::PTRACE_SEIZE, pid, 0, 0) };
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn end(result: &io::Result<()>) {
    if let Err(error) = result {
        println!("{error}");
    }
    std::process::exit(if result.is_ok() { SUCCEEDED } else { REFUSED });
}

fn end_of(child: &mut Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new("/proc/self/exe");
    command.args(arguments).stdin(Stdio::null());
    if rustix::process::geteuid().is_root() {
        command.uid(65_534).gid(65_534);
    }
    command
}

/// To whoever the children are.
fn give_all(place: &Path) {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    std::os::unix::fs::chown(place, Some(65_534), Some(65_534)).unwrap();
    for entry in fs::read_dir(place).unwrap() {
        let path = entry.unwrap().path();
        std::os::unix::fs::chown(&path, Some(65_534), Some(65_534)).unwrap();
        if path.is_dir() {
            give_all(&path);
        }
    }
}
