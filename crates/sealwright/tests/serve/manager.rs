//! As a service manager starts it: with sockets, and a socket for notices.

use std::process::Command;

use sealwright_testkit::fixtures::ED25519;
use sealwright_testkit::server::Server;

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
    let mut server = Server::new(PROGRAM);
    server.start();
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
