//! obs-sign's command line: with a server of ours, judged by rpm and gpg, and with a signd, judged by what obs-sign's own
//! client wrote (fixtures/obs).

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    reason = "tests"
)]

#[path = "obs_sign/both_ends.rs"]
mod both_ends;
#[path = "obs_sign/copr.rs"]
mod copr;
#[path = "obs_sign/files.rs"]
mod files;
#[path = "obs_sign/project.rs"]
mod project_keys;
#[allow(dead_code, reason = "shared with the tests of the listener")]
#[path = "obs/serving.rs"]
mod serving;
#[path = "obs_sign/signd.rs"]
mod signd;
#[path = "obs_sign/through_signd.rs"]
mod through_signd;

use std::path::PathBuf;
use std::process::{Command, Stdio};

use sealwright_testkit::fixtures::{self, ED25519, KeyFiles};
use sealwright_testkit::sealwright::Ran;
use sealwright_testkit::server::Server;
use sealwright_testkit::tools::{self, Gpg, RpmKeys};

const PROGRAM: &str = env!("CARGO_BIN_EXE_sealwright");
/// As Copr names the keys of its projects.
const USER: &str = "@group#proj@copr.example.org";
const KEY: KeyFiles = ED25519;
/// A small package without a signature.
const PACKAGE: &str = "gen_tiny-reserved4096.rpm";

/// A server with the key of a project.
fn project() -> Server {
    let server = Server::running(PROGRAM, &[]);
    let secret = KEY.secret();
    server.ok(&["key", "import", USER, secret.to_str().unwrap()]);
    server
}

/// `sealwright obs-sign WORDS` as a client of the server.
fn sign(server: &Server, words: &[&str]) -> Ran {
    let mut command = server.command(&[&["obs-sign"], words].concat());
    Ran::from(tools::run(command.stdout(Stdio::piped())))
}

/// The same; it must be silent and exit with 0.
fn signs(server: &Server, words: &[&str]) -> Ran {
    let ran = sign(server, words);
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "{words:?}: {}", ran.text());
    ran
}

/// The program by the name `sign`, with the same surroundings.
fn called_sign(server: &Server, words: &[&str]) -> Command {
    let link = server.work().join("sign");
    if !link.exists() {
        std::os::unix::fs::symlink(server.program(), &link).unwrap();
    }
    let ours = server.command(&[]);
    let mut command = Command::new(link);
    command.args(words).current_dir(server.work()).stdin(Stdio::null());
    for (name, value) in ours.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command
}

fn rpm() -> RpmKeys {
    RpmKeys::new(&[KEY.public()])
}

fn gpg_accepts(arguments: &[PathBuf]) -> bool {
    let gpg = Gpg::new();
    gpg.import(&KEY.public());
    tools::run(gpg.command().arg("--verify").args(arguments)).status.success()
}

fn package() -> Vec<u8> {
    std::fs::read(fixtures::package(PACKAGE)).unwrap()
}
