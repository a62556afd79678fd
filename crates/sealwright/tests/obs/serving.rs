//! A server with the keys of the transcripts and a listener for obs-sign's clients.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};

use sealwright_obs::{DigestArgument, Form, Hash, Reply, Request};
use sealwright_testkit::fixtures;
use sealwright_testkit::server::Server;

use super::PROGRAM;

/// The user with the RSA-2048 key.
pub(crate) const RSA2048: &str = "bench#rsa2048@copr.example.org";

/// Keys of the transcripts, by their files.
pub(crate) const KEYS: [(&str, &str); 3] = [
    (RSA2048, "rsa2048"),
    ("bench#rsa4096@copr.example.org", "rsa4096"),
    ("bench#ed25519@copr.example.org", "ed25519"),
];

/// How a key is imported for this protocol, SHA-1 too.
pub(crate) const SEALED: [&str; 2] = ["--obs-digest=sha1", "--obs-digest-on-primary"];

/// The same for a key that opens project keys.
const WITH_PROJECT_KEYS: [&str; 3] = [SEALED[0], SEALED[1], "--obs-project-keys"];

pub(crate) struct Obs {
    pub(crate) server: Server,
    pub(crate) port: u16,
}

impl Obs {
    /// Not started; this machine is the client `copr`, who may use all of [`KEYS`]. `table` has more lines of `[obs]`.
    pub(crate) fn new(table: &str) -> Self {
        let server = Server::new(PROGRAM);
        let port = free_port();
        let obs = format!(
            "\n[obs]\nlisten = [\"127.0.0.1:{port}\"]\nallow = [{{ from = \"127.0.0.1\", client = \"copr\" }}]\n{table}\n"
        );
        append(&server, "server.toml", &obs);
        let keys: Vec<_> = KEYS.iter().map(|(name, _)| format!("{name:?}")).collect();
        let copr = format!(
            "\n[[client]]\nname = \"copr\"\nkeys = [{}]\nobs = [\"keygen\", \"sign\"]\n",
            keys.join(", ")
        );
        append(&server, "clients.toml", &copr);
        Self { server, port }
    }

    /// Started, with the keys of these places in [`KEYS`].
    pub(crate) fn with(table: &str, keys: &[usize]) -> Self {
        let mut obs = Self::new(table);
        obs.server.start();
        for key in keys {
            let (name, file) = KEYS[*key];
            let sealed = if name == RSA2048 { &WITH_PROJECT_KEYS[..] } else { &SEALED };
            obs.import(name, file, sealed);
        }
        obs
    }

    /// Imports a key of the transcripts.
    pub(crate) fn import(&self, name: &str, file: &str, more: &[&str]) {
        let secret = fixtures::path(&format!("obs/keys/{file}.sec.asc"));
        let mut arguments = vec!["key", "import", name, secret.to_str().unwrap()];
        arguments.extend(more);
        self.server.ok(&arguments);
    }

    pub(crate) fn address(&self) -> SocketAddr {
        ([127, 0, 0, 1], self.port).into()
    }

    /// Sends these bytes as upstream's client does, and everything that comes until the end.
    pub(crate) fn ask(&self, request: &[u8]) -> Vec<u8> {
        ask(TcpStream::connect(self.address()).unwrap(), request)
    }

    /// The text of a refusal.
    pub(crate) fn refusal(&self, request: &[u8]) -> String {
        refusal(&self.ask(request))
    }

    /// Asks for a signature over one digest, which it must get.
    pub(crate) fn signs(&self) {
        let reply = self.ask(&sign(RSA2048, 7).to_bytes());
        let reply = Reply::parse(&reply).unwrap();
        assert_eq!(
            reply
                .results(Form::Old, 1)
                .unwrap_or_else(|error| panic!("{error}\n{}", self.server.log()))
                .len(),
            1
        );
    }
}

/// A request for a signature over one digest of SHA-256.
pub(crate) fn sign(user: &str, byte: u8) -> Request {
    Request::sign(user, &[digest(byte)]).unwrap()
}

pub(crate) fn digest(byte: u8) -> DigestArgument {
    DigestArgument::new(Hash::Sha256, &[byte; 32], sealwright_obs::Class::Binary, 1_700_000_000).unwrap()
}

pub(crate) fn ask(mut stream: TcpStream, request: &[u8]) -> Vec<u8> {
    stream.write_all(request).unwrap();
    rest(stream)
}

/// Everything that comes until the end.
pub(crate) fn rest(mut stream: TcpStream) -> Vec<u8> {
    let mut reply = Vec::new();
    stream.read_to_end(&mut reply).unwrap();
    reply
}

/// The same by one that says at once that nothing more will come.
pub(crate) fn ask_half(mut stream: TcpStream, request: &[u8]) -> Vec<u8> {
    stream.write_all(request).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    rest(stream)
}

pub(crate) fn refusal(reply: &[u8]) -> String {
    let reply = Reply::parse(reply).unwrap();
    assert_eq!(reply.status(), 1, "{reply:?}");
    let text = reply.text();
    text.strip_suffix('\n').expect("a line").to_owned()
}

/// Adds text to a file of the server's configuration.
pub(crate) fn append(server: &Server, file: &str, text: &str) {
    let path = server.directory().join(file);
    let old = fs::read_to_string(&path).unwrap();
    fs::write(path, old + text).unwrap();
}

pub(crate) fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}
