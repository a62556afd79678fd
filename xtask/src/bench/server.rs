//! The real server on a free port of this machine: `sealwright init`, then `sealwright serve`, with TLS, policy, log and
//! the signer's own check of each signature, as an operator starts it.

use std::ffi::OsStr;
use std::fs;
use std::net::{Ipv6Addr, TcpListener};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixDatagram;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::measure;
use crate::error::Error;
use crate::{Result, process};

/// Longest wait for the start.
const START_MAX: Duration = Duration::from_secs(60);
/// Root may not keep network and keys in one user without Landlock; a bench that root starts serves as this one.
const NOBODY: u32 = 65_534;

/// A running server in a folder of its own; it is stopped when this is dropped.
pub(super) struct Server {
    program: PathBuf,
    folder: TempDir,
    port: u16,
    serve: Child,
    front: u32,
    signer: u32,
}

impl Server {
    /// Starts one; `settings` replace lines of `server.toml` that begin like their first half.
    pub(super) fn start(program: &Path, settings: &[(&str, &str)]) -> Result<Self> {
        Self::start_in(folder()?, program, settings)
    }

    /// The same in this folder: of a file system of its own.
    pub(super) fn start_in(folder: TempDir, program: &Path, settings: &[(&str, &str)]) -> Result<Self> {
        Self::start_with(folder, program, settings, &[])
    }

    /// The same; `clients` replace lines of `clients.toml`.
    pub(super) fn start_with(
        folder: TempDir,
        program: &Path,
        settings: &[(&str, &str)],
        clients: &[(&str, &str)],
    ) -> Result<Self> {
        Self::start_prepared(folder, program, |config| {
            configure(&config.join("server.toml"), settings)?;
            configure(&config.join("clients.toml"), clients)
        })
    }

    /// The same, when that was done with the folder of its configuration.
    pub(super) fn start_prepared(
        folder: TempDir,
        program: &Path,
        prepare: impl FnOnce(&Path) -> Result<()>,
    ) -> Result<Self> {
        let uid = user();
        let port = free_port()?;
        open_to(folder.path(), uid)?;
        // Where that user can run it, wherever the build is.
        let copy = folder.path().join("sealwright");
        fs::copy(program, &copy).map_err(Error::file(&copy))?;
        let at = folder.path().join("at");
        fs::create_dir(&at).map_err(Error::file(&at))?;
        open_to(&at, uid)?;
        let config = at.join("server");
        let mut init = as_user(&copy, uid);
        init.arg("init").arg("--directory").arg(&config).args([
            "--port",
            &port.to_string(),
            "--name",
            "localhost",
        ]);
        process::output(&mut init)?;
        prepare(&config)?;
        let (serve, front, signer) = serve(&copy, uid, folder.path(), &config)?;
        Ok(Self { program: copy, folder, port, serve, front, signer })
    }

    /// A command of the program as the client `admin`, who may do everything; as the user who runs the bench.
    pub(super) fn client<A: AsRef<OsStr>>(&self, arguments: &[A]) -> Command {
        let mut command = self.run(&self.program);
        command.args(arguments);
        command
    }

    /// The copy of the program that it runs.
    pub(super) fn program(&self) -> &Path {
        &self.program
    }

    /// Another program, whatever it starts asks as that client.
    pub(super) fn run(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command
            .env_remove("SEALWRIGHT_SERVER")
            .env_remove("SEALWRIGHT_KEY")
            .env("SEALWRIGHT_HOME", self.folder.path().join("home"))
            .env("SEALWRIGHT_CLIENT_CONFIG", self.credentials().join("client.toml"))
            .stdin(Stdio::null());
        command
    }

    /// Certificate, key and configuration of the client `admin`.
    pub(super) fn credentials(&self) -> PathBuf {
        self.folder.path().join("at/server/clients/admin")
    }

    /// Its configuration and certificates.
    pub(super) fn config(&self) -> PathBuf {
        self.folder.path().join("at/server")
    }

    /// The folder of its store.
    pub(super) fn store(&self) -> PathBuf {
        self.config().join("store")
    }

    /// Where it listens, on 127.0.0.1.
    pub(super) const fn port(&self) -> u16 {
        self.port
    }

    /// Imports a key of the fixtures under its name there: `rsa4096`, `ed25519`.
    pub(super) fn import(&self, name: &str) -> Result<()> {
        let secret = process::root().join(format!("fixtures/pgp-key/gen_{name}.sec.asc"));
        process::output(self.client(&["key", "import", name]).arg(secret)).map(|_| ())
    }

    /// The processes of front and signer.
    pub(super) const fn processes(&self) -> [u32; 2] {
        [self.front, self.signer]
    }

    /// The process that has the module of a token, if it runs now; the token's `environment` holds this word.
    pub(super) fn token_worker(&self, word: &str) -> Option<u32> {
        let has_word = |pid: &u32| {
            let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            String::from_utf8_lossy(&environment).contains(word)
        };
        measure::tree(self.signer).into_iter().filter(|pid| is_called(*pid, "token-worker")).find(has_word)
    }

    /// Processor time of front and signer so far, in seconds.
    pub(super) fn cpu(&self) -> f64 {
        self.processes().into_iter().map(measure::cpu).sum()
    }

    /// Sum of their peaks of resident memory, in bytes.
    pub(super) fn peak(&self) -> u64 {
        self.processes().into_iter().filter_map(measure::peak).sum()
    }

    /// From now on [`Self::peak`] is of what comes.
    pub(super) fn forget_peak(&self) {
        for pid in self.processes() {
            // Refused to another user without root: then the peak is that since the start.
            let _ = fs::write(format!("/proc/{pid}/clear_refs"), "5");
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = Command::new("kill").arg("-TERM").arg(self.serve.id().to_string()).status();
        let _ = self.serve.wait();
    }
}

/// Starts `serve` and waits until it says that it is ready.
fn serve(program: &Path, uid: Option<u32>, folder: &Path, config: &Path) -> Result<(Child, u32, u32)> {
    let socket = folder.join("notify");
    let notices = UnixDatagram::bind(&socket).map_err(Error::file(&socket))?;
    notices.set_read_timeout(Some(START_MAX)).map_err(Error::file(&socket))?;
    fs::set_permissions(&socket, fs::Permissions::from_mode(0o777)).map_err(Error::file(&socket))?;
    let log = folder.join("log");
    let log_file = fs::File::create(&log).map_err(Error::file(&log))?;
    let mut command = as_user(program, uid);
    command.arg("serve").arg("--config").arg(config.join("server.toml"));
    command.env("NOTIFY_SOCKET", &socket).stdin(Stdio::null()).stdout(Stdio::null()).stderr(log_file);
    let child = command.spawn().map_err(|source| process::start(&command, source))?;
    let begun = Instant::now();
    let mut notice = [0; 8_192];
    let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).lines().any(|line| line == "READY=1");
    loop {
        let length = notices.recv(&mut notice).map_err(|_| not_ready(&log))?;
        if said(notice.get(..length).unwrap_or_default()) {
            break;
        }
        if begun.elapsed() > START_MAX {
            return Err(not_ready(&log));
        }
    }
    let named = |name: &str| {
        measure::tree(child.id()).into_iter().find(|pid| is_called(*pid, name)).ok_or_else(|| not_ready(&log))
    };
    let (front, signer) = (named("front")?, named("signer")?);
    // The first look at its own readiness is over.
    sleep(Duration::from_millis(200));
    Ok((child, front, signer))
}

fn not_ready(log: &Path) -> Error {
    let text = fs::read_to_string(log).unwrap_or_default();
    Error::unexpected(format!("the server does not become ready; its log:\n{text}"))
}

/// Whether the process was started with this command of the program.
fn is_called(pid: u32, command: &str) -> bool {
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    line.split(|byte| *byte == 0).nth(1) == Some(command.as_bytes())
}

fn as_user(program: &Path, uid: Option<u32>) -> Command {
    let mut command = Command::new(program);
    command.env_remove("SEALWRIGHT_HOME").current_dir("/");
    if let Some(uid) = uid {
        command.uid(uid).gid(uid);
    }
    command
}

/// Makes a file, or a folder with all that is in it, that of the user who serves.
pub(super) fn give(path: &Path) -> Result<()> {
    let Some(uid) = user() else { return Ok(()) };
    process::output(Command::new("chown").arg("-R").arg(format!("{uid}:{uid}")).arg(path)).map(|_| ())
}

/// The user who serves, where it is another than who runs the bench.
fn user() -> Option<u32> {
    nix::unistd::Uid::effective().is_root().then_some(NOBODY)
}

fn open_to(folder: &Path, uid: Option<u32>) -> Result<()> {
    let mode = fs::Permissions::from_mode(0o755);
    fs::set_permissions(folder, mode).map_err(Error::file(folder))?;
    std::os::unix::fs::chown(folder, uid, uid).map_err(Error::file(folder))
}

fn configure(file: &Path, settings: &[(&str, &str)]) -> Result<()> {
    let mut text = fs::read_to_string(file).map_err(Error::file(file))?;
    for (begin, line) in settings {
        let is_it = |found: &&str| found.trim_start_matches(['#', ' ']).starts_with(begin);
        let Some(found) = text.lines().find(is_it).map(str::to_owned) else {
            return Err(Error::unexpected(format!("no line of {} begins with {begin}", file.display())));
        };
        text = text.replacen(&found, line, 1);
    }
    fs::write(file, text).map_err(Error::file(file))
}

/// A new folder for a server.
pub(super) fn folder() -> Result<TempDir> {
    folder_in(&std::env::temp_dir())
}

/// The same below `place`.
pub(super) fn folder_in(place: &Path) -> Result<TempDir> {
    tempfile::Builder::new().prefix("bench-").tempdir_in(place).map_err(Error::file(place))
}

/// A port that nobody has, and that no client is given for its own end of a connection: below 32768, where Linux begins.
pub(super) fn free_port() -> Result<u16> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let begin = std::process::id();
    let port = || {
        let step = NEXT.fetch_add(1, Ordering::Relaxed);
        let port =
            u16::try_from(begin.wrapping_add(step) % 10_000).unwrap_or_default().saturating_add(20_000);
        TcpListener::bind((Ipv6Addr::UNSPECIFIED, port)).is_ok().then_some(port)
    };
    let found = (0..10_000).find_map(|_| port());
    found.ok_or_else(|| Error::unexpected("no port is free".to_owned()))
}
