//! As a service manager starts it: with sockets, and a socket for notices.

use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::os::unix::net::{UnixDatagram, UnixListener};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use sealwright_testkit::fixtures::ED25519;
use sealwright_testkit::server::Server;
use sealwright_testkit::tools;

use super::PROGRAM;

/// Makes the sockets of sd_listen_fds(3) and becomes the program.
const LAUNCHER: &str = r#"
import os, socket, sys
port, metrics, program, arguments = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[3:]
names = []
def put(name, listening):
    number = 3 + len(names)
    names.append(name)
    if listening.fileno() != number:
        os.dup2(listening.fileno(), number)
    os.set_inheritable(number, True)
    kept.append(listening)
kept = []
for name, at in (("grpc", port), ("metrics", metrics)):
    one = socket.socket()
    one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    one.bind(("127.0.0.1", at))
    one.listen()
    put(name, one)
os.environ["LISTEN_FDS"] = str(len(names))
os.environ["LISTEN_FDNAMES"] = ":".join(names)
os.environ["LISTEN_PID"] = str(os.getpid())
os.execv(program, arguments)
"#;

#[test]
fn sockets_of_a_service_manager_are_served_instead_of_the_configured_ones() {
    let mut server = Server::new(PROGRAM);
    let port = server.port();
    // Not an address of this machine: it must not be needed.
    server.configure("address =", "address = [\"192.0.2.1:1\"]");
    let serve = server.serve();
    let metrics = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut launcher = Command::new("python3");
    launcher.args(["-c", LAUNCHER, &port.to_string(), &metrics.to_string()]);
    launcher.arg(server.program()).args(serve.get_args()).current_dir(server.work());
    server.watch(&mut launcher);
    server.start_by(launcher);
    server.import(ED25519);
    let readyz = ask(metrics, "/readyz");
    assert!(readyz.starts_with("HTTP/1.1 200"), "{readyz}");
    assert!(ask(metrics, "/metrics").contains("sealwright_"));
    assert!(server.stop().success(), "{}", server.log());
}

fn ask(port: u16, path: &str) -> String {
    use std::io::{Read as _, Write as _};
    let mut stream = std::net::TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn the_service_manager_hears_of_readiness_life_and_end() {
    let mut server = Server::running(PROGRAM, &[]);
    server.await_notice("WATCHDOG=1");
    // A front that ends is said, and the next one is ready again.
    server.signal(server.child("front"), "KILL");
    server.await_notice("STATUS=front ended");
    server.await_notice("STATUS=ready");
    // Not ready is said with a reason; the watchdog is still fed, as the event loop and the checks run.
    server.signal(server.child("signer"), "STOP");
    let status = server.await_notice("STATUS=not ready");
    assert!(status.contains("signer"), "{status}");
    server.await_notice("WATCHDOG=1");
    server.signal(server.child("signer"), "CONT");
    server.await_notice("STATUS=ready");
    server.signal(server.supervisor(), "TERM");
    server.await_notice("STOPPING=1");
    assert!(server.ended().success());
}

/// As the units of packaging/systemd do: no supervisor, a listening socket as the signer's standard input, and the root key
/// as a credential beside a directory of state that is empty at first.
#[test]
fn front_and_signer_are_units_of_their_own() {
    let mut server = Server::new(PROGRAM);
    let [credentials, state] = ["credentials", "state"].map(|name| server.directory().with_file_name(name));
    fs::rename(server.directory().join("root"), &credentials).unwrap();
    for made in ["data.key", "lock"] {
        fs::remove_file(credentials.join(made)).unwrap();
    }
    server.configure("root =", &format!("root = {:?}", state.to_str().unwrap()));
    let run = server.directory().join("run");
    fs::DirBuilder::new().mode(0o700).recursive(true).create(&run).unwrap();
    let listener = UnixListener::bind(run.join("signer.sock")).unwrap();
    fs::set_permissions(run.join("signer.sock"), fs::Permissions::from_mode(0o600)).unwrap();
    let program = server.program().to_owned();
    let watchdog = UnixDatagram::bind(state.with_file_name("watchdog")).unwrap();
    watchdog.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let start_signer = || -> Child {
        let mut command = Command::new(&program);
        command.env("NOTIFY_SOCKET", state.with_file_name("watchdog")).env("WATCHDOG_USEC", "2000000");
        command.args(["signer", "--root"]).arg(&state).arg("--root-key").arg(credentials.join("root.key"));
        command.stdin(OwnedFd::from(listener.try_clone().unwrap())).stdout(Stdio::null()).spawn().unwrap()
    };
    let mut signer = start_signer();
    let config = server.directory().join("server.toml");
    let mut front = server.command(&["front", "--config", config.to_str().unwrap()]);
    server.watch(&mut front);
    server.start_by(front);
    server.import(ED25519);
    server.signs(ED25519);
    for _ in 0..3 {
        let mut word = [0; 64];
        let length = watchdog.recv(&mut word).expect("the signer says that it works");
        assert_eq!(&word[..length], b"WATCHDOG=1");
    }
    assert!(state.join("data.key").exists() && !state.join("root.key").exists());
    // The signer ends in order, and the next one takes over.
    tools::succeed(Command::new("kill").args(["-TERM", &signer.id().to_string()]));
    assert!(signer.wait().unwrap().success());
    signer = start_signer();
    server.signs(ED25519);
    // A reload reads from the disk, also files that were replaced; a wrong one changes nothing.
    let clients = server.directory().join("clients.toml");
    for (text, status) in [
        ("nonsense".to_owned(), "STATUS=not reloaded"),
        (fs::read_to_string(&clients).unwrap(), "STATUS=reloaded"),
    ] {
        fs::write(server.directory().join("next"), text).unwrap();
        fs::rename(server.directory().join("next"), &clients).unwrap();
        server.reload();
        assert!(server.await_notice("RELOADING=1").contains("MONOTONIC_USEC="));
        let notice = server.await_notice(status);
        assert!(notice.lines().any(|line| line == "READY=1"), "a reload has an end: {notice}");
        server.signs(ED25519);
    }
    assert!(server.stop().success(), "{}", server.log());
    tools::succeed(Command::new("kill").args(["-TERM", &signer.id().to_string()]));
    assert!(signer.wait().unwrap().success());
}
