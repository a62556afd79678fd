//! A server as an operator has it: made by `sealwright init`, run by `sealwright serve`, on a port of its own; and
//! users with the directories that `init` made for them.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use sealwright_testkit::sealwright::Ran;
use sealwright_testkit::tools;
use tempfile::TempDir;

/// How long a slow machine may take to start a server.
const START_MAX: Duration = Duration::from_secs(60);

pub(crate) struct Site {
    folder: TempDir,
    port: u16,
    serve: Option<Child>,
}

impl Drop for Site {
    fn drop(&mut self) {
        self.kill();
    }
}

impl Site {
    /// Made, not running.
    pub(crate) fn new(init: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        // Other users pass through to what is theirs.
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        fs::create_dir(folder.path().join("work")).unwrap();
        let site = Self { folder, port: free_port(), serve: None };
        let port = site.port.to_string();
        let made = site.init(&[&["--port", &port], init].concat());
        assert_eq!(made.code, Some(0), "{}", made.text());
        site
    }

    /// Running, with the key `release` (Ed25519).
    pub(crate) fn with_key() -> Self {
        let mut site = Self::new(&["--name", "localhost"]);
        site.start();
        site.ok("admin", &["key", "create", "release", "--algorithm", "ed25519"]);
        site
    }

    pub(crate) fn directory(&self) -> PathBuf {
        self.folder.path().join("server")
    }

    pub(crate) fn work(&self) -> PathBuf {
        self.folder.path().join("work")
    }

    pub(crate) const fn port(&self) -> u16 {
        self.port
    }

    /// `sealwright init` on this directory.
    pub(crate) fn init(&self, arguments: &[&str]) -> Ran {
        let mut command = self.command(&["init", "--directory"]);
        Ran::from(tools::run(command.arg(self.directory()).args(arguments)))
    }

    /// The program, with a home of its own and no server.
    pub(crate) fn command(&self, arguments: &[impl AsRef<OsStr>]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sealwright"));
        command
            .args(arguments)
            .current_dir(self.work())
            .env("SEALWRIGHT_HOME", self.folder.path().join("home"))
            .env_remove("SEALWRIGHT_KEY")
            .env_remove("SEALWRIGHT_SERVER")
            .env_remove("SEALWRIGHT_CLIENT_CONFIG")
            .stdin(Stdio::null());
        command
    }

    /// The program as a user of the server.
    pub(crate) fn command_of(&self, client: &str, arguments: &[impl AsRef<OsStr>]) -> Command {
        let mut command = self.command(arguments);
        command.env("SEALWRIGHT_CLIENT_CONFIG", self.client_file(client));
        command
    }

    pub(crate) fn client_file(&self, client: &str) -> PathBuf {
        self.directory().join("clients").join(client).join("client.toml")
    }

    pub(crate) fn run(&self, client: &str, arguments: &[impl AsRef<OsStr>]) -> Ran {
        Ran::from(tools::run(&mut self.command_of(client, arguments)))
    }

    pub(crate) fn ok(&self, client: &str, arguments: &[impl AsRef<OsStr>]) -> Ran {
        let ran = self.run(client, arguments);
        assert_eq!(ran.code, Some(0), "{}\n{}", ran.text(), self.log());
        ran
    }

    /// Starts it, and waits until it accepts connections.
    pub(crate) fn start(&mut self) {
        let log = File::options().create(true).append(true).open(self.log_file()).unwrap();
        let mut command = self.command(&["serve", "--config"]);
        command.arg(self.directory().join("server.toml")).stdout(Stdio::null()).stderr(log);
        let mut serve = command.spawn().unwrap();
        let begun = Instant::now();
        while TcpStream::connect(("127.0.0.1", self.port)).is_err() {
            assert_eq!(serve.try_wait().unwrap(), None, "{}", self.log());
            assert!(begun.elapsed() < START_MAX, "{}", self.log());
            std::thread::sleep(Duration::from_millis(20));
        }
        self.serve = Some(serve);
    }

    /// SIGHUP, and waits until the log says that it was done.
    pub(crate) fn reload(&self) {
        let before = self.log().matches("reloaded").count();
        self.signal("HUP");
        let begun = Instant::now();
        while self.log().matches("reloaded").count() == before {
            assert!(begun.elapsed() < START_MAX, "{}", self.log());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn signal(&self, name: &str) {
        let pid = self.serve.as_ref().unwrap().id().to_string();
        tools::succeed(Command::new("kill").args(["-s", name, &pid]));
    }

    /// SIGTERM, and its exit status.
    pub(crate) fn stop(&mut self) -> Option<i32> {
        self.signal("TERM");
        self.serve.take().unwrap().wait().unwrap().code()
    }

    /// SIGKILL of the supervisor; the others follow it.
    pub(crate) fn kill(&mut self) {
        if let Some(mut serve) = self.serve.take() {
            let _ = serve.kill();
            let _ = serve.wait();
        }
    }

    fn log_file(&self) -> PathBuf {
        self.folder.path().join("serve.log")
    }

    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.log_file()).unwrap_or_default()
    }

    /// Copies of a small package, under as many names.
    pub(crate) fn packages(&self, count: usize) -> Vec<PathBuf> {
        let package = sealwright_testkit::fixtures::package("gen_tiny-reserved4096.rpm");
        let copy = |number: usize| {
            let path = self.work().join(format!("{number}.rpm"));
            fs::copy(&package, &path).unwrap();
            path
        };
        (0..count).map(copy).collect()
    }

    /// Signatures in the log of the server, by a library of its own.
    pub(crate) fn logged(&self) -> usize {
        const SCRIPT: &str = "
import sqlite3, sys
print(sqlite3.connect(sys.argv[1]).execute('SELECT COUNT(*) FROM log').fetchone()[0])
";
        let store = self.directory().join("store/store.db");
        let printed = tools::succeed(Command::new("python3").args(["-c", SCRIPT]).arg(store));
        String::from_utf8(printed).unwrap().trim().parse().unwrap()
    }
}

/// A port that was free a moment ago.
pub(crate) fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

pub(crate) fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap_or_else(|error| panic!("{}: {error}", path.display())).permissions().mode()
        & 0o7777
}
