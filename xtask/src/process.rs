//! Running programs, and where the repository is.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::Result;
use crate::error::Error;

/// The root of the repository.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().map_or_else(|| PathBuf::from("."), Path::to_path_buf)
}

/// Where cargo builds into: this program lies in `debug` or `release` of it.
pub(crate) fn target_folder() -> PathBuf {
    let program = std::env::current_exe().ok();
    let folder = program.as_deref().and_then(|program| program.ancestors().nth(2));
    folder.map_or_else(|| root().join("target"), Path::to_path_buf)
}

/// `cargo` in the root of the repository, with arguments.
pub(crate) fn cargo<A: AsRef<OsStr>>(arguments: &[A]) -> Command {
    let mut command = Command::new(env!("CARGO"));
    command.args(arguments).current_dir(root());
    command
}

/// Words of a command that are shown; a bench names hundreds of files.
const WORDS_MAX: usize = 30;

/// The command as a person would type it; of a long one, its beginning.
pub(crate) fn line(command: &Command) -> String {
    let words = || std::iter::once(command.get_program()).chain(command.get_args());
    let mut line: Vec<_> = words().take(WORDS_MAX).map(OsStr::to_string_lossy).collect();
    if words().nth(WORDS_MAX).is_some() {
        line.push("...".into());
    }
    line.join(" ")
}

/// Runs to the end with our own output; a failure of the program is an error.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let status = command.status().map_err(|source| start(command, source))?;
    if status.success() { Ok(()) } else { Err(Error::Command { command: line(command) }) }
}

/// Runs to the end and returns what it printed on stdout; a failure of the program is an error.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let output = command.stderr(Stdio::inherit()).output().map_err(|source| start(command, source))?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        Err(Error::Command { command: line(command) })
    }
}

/// Two runs at once would change each other's files in this folder; the lock goes with the value.
pub(crate) fn alone(folder: &Path, what: &str) -> Result<File> {
    fs::create_dir_all(folder).map_err(Error::file(folder))?;
    let path = folder.join("lock");
    let file = File::create(&path).map_err(Error::file(&path))?;
    file.try_lock()
        .map_err(|_| Error::unexpected(format!("another {what} is running in {}", folder.display())))?;
    Ok(file)
}

/// Whether a program of this name is found.
pub(crate) fn is_there(program: &str) -> bool {
    Command::new("sh")
        .args(["-c", "command -v \"$1\" >/dev/null 2>&1", "sh", program])
        .status()
        .is_ok_and(|status| status.success())
}

/// Builds the program and returns its path.
pub(crate) fn build_sealwright(release: bool) -> Result<PathBuf> {
    let mut arguments = vec!["build", "--locked", "--package", "sealwright", "--message-format", "json"];
    if release {
        arguments.push("--release");
    }
    let messages = output(&mut cargo(&arguments))?;
    messages
        .lines()
        .filter_map(|message| serde_json::from_str::<serde_json::Value>(message).ok())
        .filter(|message| {
            message.pointer("/target/name").and_then(serde_json::Value::as_str) == Some("sealwright")
        })
        .filter_map(|message| message.get("executable")?.as_str().map(PathBuf::from))
        .next_back()
        .ok_or_else(|| Error::unexpected("cargo built no program named sealwright"))
}

pub(crate) fn start(command: &Command, source: std::io::Error) -> Error {
    Error::Start { program: command.get_program().to_string_lossy().into_owned(), source }
}
