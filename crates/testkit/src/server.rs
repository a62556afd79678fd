//! The real server on a free port of this machine: `sealwright init`, then `sealwright serve`, with a client that may do
//! everything.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixDatagram;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::fixtures::{self, KeyFiles};
use crate::sealwright::Ran;
use crate::tools;

/// Longest wait for anything that a server does by itself. Nothing is measured by it.
const WAIT_MAX: Duration = Duration::from_secs(120);

/// A server in a folder of its own, running or not. It is killed when this is dropped.
pub struct Server {
    program: PathBuf,
    folder: TempDir,
    uid: Option<u32>,
    port: u16,
    notices: UnixDatagram,
    supervisor: Option<Child>,
}

impl Server {
    /// `program` is `env!("CARGO_BIN_EXE_sealwright")` of the test. Not started.
    ///
    /// # Panics
    /// `init` fails.
    #[must_use]
    pub fn new(program: &str) -> Self {
        Self::of(program, None, &[])
    }

    /// The same, started, with these keys.
    #[must_use]
    pub fn running(program: &str, keys: &[KeyFiles]) -> Self {
        Self::new(program).run_with(keys)
    }

    /// Starts it, and imports these keys.
    #[must_use]
    pub fn run_with(mut self, keys: &[KeyFiles]) -> Self {
        self.start();
        for key in keys {
            self.import(*key);
        }
        self
    }

    /// The same as another user, for tests that root runs.
    ///
    /// # Panics
    /// `init` fails.
    #[must_use]
    pub fn of_user(program: &str, uid: u32) -> Self {
        Self::of(program, Some(uid), &[])
    }

    /// The same, of root, whose parts run as these two users.
    ///
    /// # Panics
    /// `init` fails.
    #[must_use]
    pub fn of_two_users(program: &str, front: &str, signer: &str) -> Self {
        Self::of(program, None, &["--user-front", front, "--user-signer", signer])
    }

    fn of(program: &str, uid: Option<u32>, more: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let open_to_all = |path: &Path| {
            fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("a folder of ours");
        };
        open_to_all(folder.path());
        // Where that user can run it, wherever the build is. Copied by another process: a file that a child of a test
        // beside this one still has open to write could not be run.
        let copy = folder.path().join("sealwright");
        tools::succeed(Command::new("cp").arg(program).arg(&copy));
        let notices = UnixDatagram::bind(folder.path().join("notify")).expect("a socket");
        fs::set_permissions(folder.path().join("notify"), fs::Permissions::from_mode(0o777)).expect("ours");
        for name in ["work", "at"] {
            fs::create_dir(folder.path().join(name)).expect("a temporary folder");
            if let Some(uid) = uid {
                std::os::unix::fs::chown(folder.path().join(name), Some(uid), Some(uid)).expect("as root");
            }
        }
        open_to_all(&folder.path().join("at"));
        let port = free_port();
        let server = Self { program: copy, folder, uid, port, notices, supervisor: None };
        let directory = server.directory();
        let directory = directory.to_str().expect("text");
        let port = port.to_string();
        let mut arguments = vec!["init", "--directory", directory, "--port", &port, "--name", "localhost"];
        arguments.extend(more);
        tools::succeed(&mut server.command(&arguments));
        server
    }

    /// Where `init` put everything.
    #[must_use]
    pub fn directory(&self) -> PathBuf {
        self.folder.path().join("at/server")
    }

    /// The folder for files; commands run in it.
    #[must_use]
    pub fn work(&self) -> PathBuf {
        self.folder.path().join("work")
    }

    /// The program that runs.
    #[must_use]
    pub fn program(&self) -> &Path {
        &self.program
    }

    /// Where it listens.
    #[must_use]
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// Whom it runs as, where that is not the test's own user.
    #[must_use]
    pub const fn uid(&self) -> Option<u32> {
        self.uid
    }

    /// The folder of the client `admin`.
    #[must_use]
    pub fn admin(&self) -> PathBuf {
        self.directory().join("clients/admin")
    }

    /// Replaces the line of `server.toml` that begins like this.
    ///
    /// # Panics
    /// There is none.
    pub fn configure(&self, begin: &str, line: &str) {
        let file = self.directory().join("server.toml");
        let old = fs::read_to_string(&file).expect("server.toml");
        assert!(old.lines().any(|found| found.starts_with(begin)), "{begin:?} begins no line of {old}");
        let new = old.lines().map(|found| if found.starts_with(begin) { line } else { found });
        fs::write(file, new.map(|line| format!("{line}\n")).collect::<String>()).expect("server.toml");
    }

    /// A command of the program as the client `admin`, in the folder for files.
    #[must_use]
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.args(arguments);
        self.surround(&mut command);
        command
    }

    fn surround(&self, command: &mut Command) {
        command
            .current_dir(self.work())
            .env_remove("SEALWRIGHT_SERVER")
            .env_remove("SEALWRIGHT_KEY")
            .env("SEALWRIGHT_HOME", self.work().join("home"))
            .env("SEALWRIGHT_CLIENT_CONFIG", self.admin().join("client.toml"))
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        if let Some(uid) = self.uid {
            command.uid(uid).gid(uid);
        }
    }

    /// Runs a command of the client, whatever it answers.
    #[must_use]
    pub fn run(&self, arguments: &[&str]) -> Ran {
        Ran::from(tools::run(&mut self.command(arguments)))
    }

    /// The same; it must exit with 0.
    pub fn ok(&self, arguments: &[&str]) -> Ran {
        let ran = self.run(arguments);
        assert_eq!(ran.code, Some(0), "{arguments:?}\n{}\n{}", ran.text(), self.log());
        ran
    }

    /// Signs a small file anew, whatever comes of it.
    ///
    /// # Panics
    /// The file cannot be made.
    #[must_use]
    pub fn sign(&self, key: KeyFiles) -> Ran {
        if !self.work().join("signed").exists() {
            let _ = self.files("signed", 1);
        }
        self.run(&["sign", "--format", "detached", "--force", "--key", key.name, "signed/0.txt"])
    }

    /// The same; it must exit with 0.
    ///
    /// # Panics
    /// It does not.
    pub fn signs(&self, key: KeyFiles) {
        let ran = self.sign(key);
        assert_eq!(ran.code, Some(0), "{}\n{}", ran.text(), self.log());
    }

    /// Asks for a reload; what it says to that is heard afterwards.
    pub fn reload(&self) {
        self.forget_notices();
        self.signal(self.supervisor(), "HUP");
    }

    /// Imports a key of the fixtures under its name.
    ///
    /// # Panics
    /// It is not taken.
    pub fn import(&self, key: KeyFiles) {
        let copy = self.work().join("key");
        fs::copy(key.secret(), &copy).expect("a fixture");
        self.give(&copy);
        self.ok(&["key", "import", key.name, copy.to_str().expect("text")]);
        fs::remove_file(copy).expect("a file of ours");
    }

    /// A new folder, by this name in the folder for files, with so many small files; their names from there.
    ///
    /// # Panics
    /// It is there already.
    #[must_use]
    pub fn files(&self, name: &str, count: usize) -> Vec<String> {
        let folder = self.work().join(name);
        fs::create_dir(&folder).expect("a new folder");
        self.give(&folder);
        let write = |number| {
            let file = folder.join(format!("{number}.txt"));
            fs::write(&file, format!("content of {number}")).expect("a new file");
            self.give(&file);
            format!("{name}/{number}.txt")
        };
        (0..count).map(write).collect()
    }

    /// A copy of a package in the folder for files.
    pub fn copy(&self, package: &str) -> PathBuf {
        let copy = fixtures::copy_into(&self.work(), &fixtures::package(package));
        self.give(&copy);
        copy
    }

    fn give(&self, path: &Path) {
        if let Some(uid) = self.uid {
            std::os::unix::fs::chown(path, Some(uid), Some(uid)).expect("as root");
        }
    }

    /// `serve`, not yet started: with the socket for its notices, and its log in a file.
    ///
    /// # Panics
    /// The file cannot be made.
    #[must_use]
    pub fn serve(&self) -> Command {
        let config = self.directory().join("server.toml");
        let mut command = self.command(&["serve", "--config", config.to_str().expect("text")]);
        self.watch(&mut command);
        command
    }

    /// Adds to a command the socket for notices and the log.
    ///
    /// # Panics
    /// The file cannot be made.
    pub fn watch(&self, command: &mut Command) {
        let log = fs::OpenOptions::new().append(true).create(true).open(self.folder.path().join("log"));
        command.stderr(log.expect("a log")).env("NOTIFY_SOCKET", self.folder.path().join("notify"));
    }

    /// Starts it, and waits until it is ready.
    ///
    /// # Panics
    /// It does not become ready.
    pub fn start(&mut self) {
        self.start_by(self.serve());
    }

    /// The same by a command that becomes `serve`.
    ///
    /// # Panics
    /// It does not become ready.
    pub fn start_by(&mut self, mut serve: Command) {
        self.forget_notices();
        self.supervisor = Some(serve.spawn().expect("the program starts"));
        self.await_notice("READY=1");
    }

    /// Everything that it wrote to its log so far.
    #[must_use]
    pub fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }

    /// Forgets notices that nobody has read.
    pub fn forget_notices(&self) {
        self.notices.set_nonblocking(true).expect("a socket");
        while self.notices.recv(&mut [0; 8192]).is_ok() {}
    }

    /// Waits for a datagram that has this line, and returns it.
    ///
    /// # Panics
    /// None comes, or the server has ended.
    pub fn await_notice(&mut self, line: &str) -> String {
        self.notices.set_nonblocking(false).expect("a socket");
        self.notices.set_read_timeout(Some(Duration::from_millis(200))).expect("a socket");
        let begun = Instant::now();
        let mut bytes = [0; 8192];
        loop {
            if let Ok(length) = self.notices.recv(&mut bytes) {
                let notice = String::from_utf8_lossy(&bytes[..length]).into_owned();
                if notice.lines().any(|found| found.starts_with(line)) {
                    return notice;
                }
            }
            let ended = self.supervisor.as_mut().and_then(|child| child.try_wait().expect("a child"));
            assert!(ended.is_none(), "it has ended: {ended:?}\n{}", self.log());
            assert!(begun.elapsed() < WAIT_MAX, "no notice {line}\n{}", self.log());
        }
    }

    /// The process of `serve`.
    ///
    /// # Panics
    /// It is not running.
    #[must_use]
    pub fn supervisor(&self) -> u32 {
        self.supervisor.as_ref().expect("a running server").id()
    }

    /// The process of its front or signer, once there is one.
    ///
    /// # Panics
    /// There is none.
    #[must_use]
    pub fn child(&self, name: &str) -> u32 {
        let mut found = None;
        self.until(&format!("{name} runs"), || {
            found = children(self.supervisor()).into_iter().find(|pid| is_called(*pid, name));
            found.is_some()
        });
        found.expect("found")
    }

    /// Sends a signal to one of its processes, or to the supervisor; whether that was there.
    pub fn signal(&self, pid: u32, signal: &str) -> bool {
        tools::run(Command::new("kill").args([&format!("-{signal}"), &pid.to_string()])).status.success()
    }

    /// Waits for the end of `serve`.
    ///
    /// # Panics
    /// It does not end.
    pub fn ended(&mut self) -> ExitStatus {
        let mut child = self.supervisor.take().expect("a running server");
        let begun = Instant::now();
        loop {
            if let Some(status) = child.try_wait().expect("a child") {
                return status;
            }
            assert!(begun.elapsed() < WAIT_MAX, "it does not end\n{}", self.log());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// SIGTERM, and how it ended.
    pub fn stop(&mut self) -> ExitStatus {
        self.signal(self.supervisor(), "TERM");
        self.ended()
    }

    /// Waits until something has happened.
    ///
    /// # Panics
    /// It does not.
    pub fn until(&self, what: &str, mut condition: impl FnMut() -> bool) {
        let begun = Instant::now();
        while !condition() {
            assert!(begun.elapsed() < WAIT_MAX, "it does not happen: {what}\n{}", self.log());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Runs one SQL statement on the store, by a library of its own, and returns the rows, a line each.
    pub fn sql(&self, statement: &str) -> Vec<String> {
        const SCRIPT: &str = "
import sqlite3, sys
for row in sqlite3.connect(sys.argv[1]).execute(sys.argv[2]):
    print('|'.join(str(cell) for cell in row))
";
        let store = self.directory().join("store/store.db");
        let mut command = Command::new("python3");
        command.args(["-c", SCRIPT]).arg(store).arg(statement);
        if let Some(uid) = self.uid {
            command.uid(uid).gid(uid);
        }
        String::from_utf8_lossy(&tools::succeed(&mut command)).lines().map(str::to_owned).collect()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(child) = &mut self.supervisor {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Living children of a process.
///
/// # Panics
/// There is no `/proc`.
#[must_use]
pub fn children(parent: u32) -> Vec<u32> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").expect("/proc") {
        let Ok(entry) = entry else { continue };
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        let Ok(stat) = fs::read_to_string(entry.path().join("stat")) else { continue };
        let Some((_, fields)) = stat.rsplit_once(')') else { continue };
        let mut fields = fields.split_whitespace();
        let (state, of) = (fields.next(), fields.next().and_then(|of| of.parse::<u32>().ok()));
        if of == Some(parent) && state != Some("Z") {
            found.push(pid);
        }
    }
    found
}

/// Memory of a process that is its own, in KiB (`RssAnon`).
///
/// # Panics
/// It is gone.
#[must_use]
pub fn anonymous_kib(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("a process");
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).expect("RssAnon");
    line.split_whitespace().next().and_then(|kib| kib.parse().ok()).expect("a number")
}

/// Whether the process was started with this command of the program.
fn is_called(pid: u32, command: &str) -> bool {
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    line.split(|byte| *byte == 0).nth(1) == Some(command.as_bytes())
}

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("an address").port()
}
