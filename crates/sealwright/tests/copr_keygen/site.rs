//! A server with the API, and a client that says each byte itself. The addresses of the loopback network are the hosts:
//! each is a client of its own, or a stranger.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, TcpStream};

use rustix::net::{AddressFamily, SocketFlags, SocketType};
use sealwright_testkit::server::Server;
use serde_json::{Value, json};

use super::PROGRAM;

/// The backend of Copr: may make keys of its domain.
pub(super) const COPR: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 1);
/// On no list.
pub(super) const STRANGER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);
/// A client without that grant.
pub(super) const BUILDER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 3);
/// A client that may nothing any more.
pub(super) const GONE: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 4);

const CLIENTS: &str = r#"
[[client]]
name = "copr"
create_keys = ["@copr.example.org"]

[[client]]
name = "builder"
keys = ["*"]

[[client]]
name = "gone"
create_keys = ["*"]
disabled = true
"#;

pub(super) const ALLOW: &str = r#"allow = [
    { from = "127.0.0.1", client = "copr" },
    { from = "127.0.0.3", client = "builder" },
    { from = "127.0.0.4/30", client = "gone" },
]
"#;

/// A running server with the API.
pub(super) struct Site {
    pub(super) server: Server,
    port: u16,
}

/// What came back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) status: u16,
    /// In small letters.
    pub(super) head: String,
    pub(super) body: String,
}

impl Site {
    pub(super) fn start() -> Self {
        let mut site = Self::prepare("");
        site.server.start();
        site
    }

    /// Not started; with more lines in the table.
    pub(super) fn prepare(more: &str) -> Self {
        let server = Server::new(PROGRAM);
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        append(&server, "clients.toml", CLIENTS);
        let table = format!("\n[copr_keygen]\naddress = [\"127.0.0.1:{port}\"]\n{more}{ALLOW}");
        append(&server, "server.toml", &table);
        Self { server, port }
    }

    /// A connection from one of the hosts.
    pub(super) fn connect(&self, from: Ipv4Addr) -> TcpStream {
        let socket =
            rustix::net::socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None)
                .unwrap();
        rustix::net::bind(&socket, &SocketAddrV4::new(from, 0)).unwrap();
        rustix::net::connect(&socket, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, self.port)).unwrap();
        TcpStream::from(socket)
    }

    /// Says these bytes and reads to the end; `None`: not a whole answer came.
    pub(super) fn say(&self, from: Ipv4Addr, bytes: &[u8]) -> Option<Answer> {
        let mut stream = self.connect(from);
        // Who is refused early may be cut off while it still writes.
        let _ = stream.write_all(bytes);
        read_answer(&mut stream)
    }

    pub(super) fn request(
        &self,
        from: Ipv4Addr,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Option<Answer> {
        self.say(from, &bytes_of(method, path, headers, body))
    }

    /// As the backend of Copr asks.
    pub(super) fn gen_key(&self, query: &Value) -> Answer {
        self.gen_key_from(COPR, query).expect("an answer")
    }

    pub(super) fn gen_key_from(&self, from: Ipv4Addr, query: &Value) -> Option<Answer> {
        let json = [("Content-Type", "application/json")];
        self.request(from, "POST", "/gen_key", &json, query.to_string().as_bytes())
    }

    /// Name, user id and fingerprint of each key, in order.
    pub(super) fn keys(&self) -> Vec<String> {
        self.server.sql("select name, user_id, hex(fingerprint) from keys order by name")
    }
}

fn append(server: &Server, file: &str, text: &str) {
    let path = server.directory().join(file);
    let old = fs::read_to_string(&path).unwrap();
    fs::write(path, old + text).unwrap();
}

pub(super) fn bytes_of(method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
    let mut head = format!("{method} {path} HTTP/1.1\r\nHost: keygen\r\nContent-Length: {}\r\n", body.len());
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    [head.as_bytes(), b"\r\n", body].concat()
}

/// The query of a project, as the backend sends it.
pub(super) fn project(owner: &str, project: &str) -> Value {
    json!({ "name_real": format!("{owner}_{project}"), "name_email": email(owner, project) })
}

pub(super) fn email(owner: &str, project: &str) -> String {
    format!("{owner}#{project}@copr.example.org")
}

pub(super) fn read_answer(stream: &mut TcpStream) -> Option<Answer> {
    let mut bytes = Vec::new();
    // A peer that is cut off while it still sends sees a reset.
    let _ = stream.read_to_end(&mut bytes);
    let text = String::from_utf8(bytes).unwrap();
    let (head, body) = text.split_once("\r\n\r\n")?;
    let head = head.to_ascii_lowercase();
    let status = head.split(' ').nth(1)?.parse().ok()?;
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    let length: usize = length.expect("a length").parse().unwrap();
    (body.len() == length).then(|| Answer { status, body: body.to_owned(), head })
}
