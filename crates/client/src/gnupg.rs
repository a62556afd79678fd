//! A home of GnuPG, asked through gpg itself: nothing here reads GnuPG's own files. Secrets come over pipes, into memory
//! that is wiped, and passphrases go the same way; neither is ever an argument or in a file of ours.

pub mod listing;

use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use sealwright_proto::limits::IMPORT_BYTES_MAX;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, Command};
use zeroize::Zeroizing;

use crate::error::GnupgFault;
use crate::gnupg::listing::{Reader, SecretKey};

/// For the export of one key: who waits longer waits for a lock that nobody opens, or for a person.
const EXPORT_MAX: Duration = Duration::from_secs(120);

/// For the listing of all keys: gpg asks its agent about each.
const LISTING_MAX: Duration = Duration::from_secs(3600);

/// For a word with the agent.
const AGENT_MAX: Duration = Duration::from_secs(20);

/// Bytes of what gpg says that are kept; the rest is read and dropped.
const SAID_BYTES_MAX: usize = 2 << 10;

/// A home, and the gpg that reads it.
pub struct Home {
    program: PathBuf,
    /// None: the one that the program takes by itself.
    directory: Option<PathBuf>,
    /// Of the directory, where we are root and it is not root's: gpg runs as them, so that what it writes is theirs.
    owner: Option<(u32, u32)>,
    /// Whether an agent that runs at the end was started for us.
    ends_agent: bool,
}

impl Home {
    /// Looks at the directory, and whether an agent runs for it.
    ///
    /// # Errors
    /// [`GnupgFault::Home`].
    pub async fn open(program: &Path, directory: Option<&Path>) -> Result<Self, GnupgFault> {
        let program = program.to_owned();
        let Some(named) = directory else {
            return Ok(Self { program, directory: None, owner: None, ends_agent: false });
        };
        let bad = |source| GnupgFault::Home { path: named.to_owned(), source };
        let directory = named.canonicalize().map_err(bad)?;
        let meta = directory.metadata().map_err(bad)?;
        if !meta.is_dir() {
            return Err(bad(ErrorKind::NotADirectory.into()));
        }
        let switches = rustix::process::geteuid().is_root() && meta.uid() != 0;
        let owner = switches.then(|| (meta.uid(), meta.gid()));
        let mut home = Self { program, directory: Some(directory), owner, ends_agent: false };
        home.ends_agent = home.has_no_agent().await;
        Ok(home)
    }

    /// Every key with a secret, listed once.
    ///
    /// # Errors
    /// gpg cannot be run, fails, or says what no gpg says.
    pub async fn secret_keys(&self) -> Result<Vec<SecretKey>, GnupgFault> {
        let mut command = self.gpg();
        command.args(["--with-colons", "--fixed-list-mode", "--list-secret-keys"]);
        let mut child = self.spawn(command)?;
        let (mut stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let work = async {
            let (keys, said) = tokio::join!(listed(&mut stdout), said(stderr));
            (keys, said, child.wait().await)
        };
        let (keys, said, status) = self.in_time(LISTING_MAX, work).await?;
        let keys = keys?.map_err(|why| GnupgFault::Listing { why })?;
        self.ended(status, said)?;
        Ok(keys)
    }

    /// The transferable secret key, unlocked or under the passphrase as GnuPG keeps it.
    ///
    /// # Errors
    /// gpg cannot be run, or does not give it.
    pub async fn export(
        &self,
        fingerprint: &str,
        passphrase: &[u8],
    ) -> Result<Zeroizing<Vec<u8>>, GnupgFault> {
        let mut command = self.gpg();
        command.args(["--pinentry-mode", "loopback", "--passphrase-fd", "0", "--export-secret-keys"]);
        command.arg(fingerprint).stdin(Stdio::piped());
        let mut child = self.spawn(command)?;
        let (stdin, mut stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let work = async {
            let answer = async {
                if let Some(mut stdin) = stdin {
                    // A gpg that needs no passphrase may have ended.
                    let _ = stdin.write_all(&[passphrase, b"\n"].concat()).await;
                }
                secret(&mut stdout).await
            };
            let (key, said) = tokio::join!(answer, said(stderr));
            (key, said, child.wait().await)
        };
        let (key, said, status) = self.in_time(EXPORT_MAX, work).await?;
        let key = key?;
        self.ended(status, said.clone())?;
        if key.is_empty() {
            return Err(GnupgFault::NothingExported { said });
        }
        Ok(key)
    }

    /// Whether the home has the secret of this key.
    ///
    /// # Errors
    /// gpg cannot be run.
    pub async fn has_secret(&self, fingerprint: &str) -> Result<bool, GnupgFault> {
        let mut command = self.gpg();
        command.args(["--with-colons", "--list-secret-keys"]).arg(fingerprint);
        let not_run = |source| GnupgFault::NotRun { program: self.program.clone(), source };
        let output = self.in_time(EXPORT_MAX, command.output()).await?.map_err(not_run)?;
        Ok(output.status.success())
    }

    /// Takes a transferable secret key in, which is under its passphrase already, by a pipe.
    ///
    /// # Errors
    /// gpg cannot be run, or does not take it.
    pub async fn import(&self, key: &[u8]) -> Result<(), GnupgFault> {
        let mut command = self.gpg();
        command.arg("--import").stdin(Stdio::piped()).stdout(Stdio::null());
        let mut child = self.spawn(command)?;
        let (stdin, stderr) = (child.stdin.take(), child.stderr.take());
        let work = async {
            let give = async {
                if let Some(mut stdin) = stdin {
                    // One that ended says why.
                    let _ = stdin.write_all(key).await;
                }
            };
            let ((), said) = tokio::join!(give, said(stderr));
            (said, child.wait().await)
        };
        let (said, status) = self.in_time(EXPORT_MAX, work).await?;
        self.ended(status, said)
    }

    /// Ends the agent that was started for us; one that ran before goes on.
    pub async fn close(self) {
        if self.ends_agent {
            let mut command = self.tool("gpgconf");
            command.args(["--kill", "gpg-agent"]);
            // One that is gone already, or does not listen, is left alone.
            let _ = tokio::time::timeout(AGENT_MAX, command.output()).await;
        }
    }

    async fn has_no_agent(&self) -> bool {
        let mut command = self.tool("gpg-connect-agent");
        command.args(["--no-autostart", "GETINFO pid", "/bye"]);
        match tokio::time::timeout(AGENT_MAX, command.output()).await {
            // `D <pid>` is the answer of one that runs.
            Ok(Ok(output)) => !output.stdout.split(|byte| *byte == b'\n').any(|line| line.starts_with(b"D ")),
            Ok(Err(_)) | Err(_) => false,
        }
    }

    fn gpg(&self) -> Command {
        let mut command = self.tool(&self.program);
        command.args(["--batch", "--no-tty", "--no-auto-check-trustdb"]);
        command
    }

    fn tool(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        if let Some(directory) = &self.directory {
            command.arg("--homedir").arg(directory);
        }
        if let Some((uid, gid)) = self.owner {
            // Where its owner may be, whoever we are.
            command.uid(uid).gid(gid).current_dir("/");
        }
        command.env("LC_ALL", "C").kill_on_drop(true);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn spawn(&self, mut command: Command) -> Result<Child, GnupgFault> {
        command.spawn().map_err(|source| GnupgFault::NotRun { program: self.program.clone(), source })
    }

    async fn in_time<T>(&self, most: Duration, work: impl Future<Output = T>) -> Result<T, GnupgFault> {
        tokio::time::timeout(most, work).await.map_err(|_| GnupgFault::Hangs { seconds: most.as_secs() })
    }

    fn ended(&self, status: std::io::Result<ExitStatus>, said: String) -> Result<(), GnupgFault> {
        let status = status.map_err(|source| GnupgFault::NotRun { program: self.program.clone(), source })?;
        if status.success() { Ok(()) } else { Err(GnupgFault::Failed { status, said }) }
    }
}

/// All of a secret, in memory that does not move.
async fn secret(stdout: &mut Option<impl AsyncRead + Unpin>) -> Result<Zeroizing<Vec<u8>>, GnupgFault> {
    // Read to the end: room for one byte too many, and for the look after the last.
    let mut key = Zeroizing::new(Vec::with_capacity(IMPORT_BYTES_MAX.saturating_add(64)));
    let limit = u64::try_from(IMPORT_BYTES_MAX).unwrap_or(u64::MAX).saturating_add(1);
    if let Some(stdout) = stdout {
        stdout.take(limit).read_to_end(&mut key).await.map_err(|source| GnupgFault::Pipe { source })?;
    }
    if key.len() > IMPORT_BYTES_MAX { Err(GnupgFault::TooLarge { limit: IMPORT_BYTES_MAX }) } else { Ok(key) }
}

type Listed = Result<Vec<SecretKey>, listing::Malformed>;

async fn listed(stdout: &mut Option<impl AsyncRead + Unpin>) -> Result<Listed, GnupgFault> {
    let mut reader = Reader::default();
    let mut chunk = vec![0; 64 << 10];
    while let Some(stdout) = stdout.as_mut() {
        let len = stdout.read(&mut chunk).await.map_err(|source| GnupgFault::Pipe { source })?;
        if len == 0 {
            break;
        }
        if let Err(why) = reader.push(chunk.get(..len).unwrap_or_default()) {
            return Ok(Err(why));
        }
    }
    Ok(reader.finish())
}

/// What it says, for people: the end of it, in one line.
async fn said(stderr: Option<impl AsyncRead + Unpin>) -> String {
    let mut kept = Vec::new();
    let mut chunk = [0; 1024];
    if let Some(mut stderr) = stderr {
        while let Ok(len @ 1..) = stderr.read(&mut chunk).await {
            kept.extend_from_slice(chunk.get(..len).unwrap_or_default());
            let over = kept.len().saturating_sub(SAID_BYTES_MAX);
            kept.drain(..over);
        }
    }
    let text = String::from_utf8_lossy(&kept);
    let lines: Vec<&str> =
        text.lines().map(|line| line.strip_prefix("gpg: ").unwrap_or(line).trim()).collect();
    lines.join("; ")
}
