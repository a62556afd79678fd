//! The stage of one case: a fresh folder, a fresh key store, the program.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

use crate::process;

/// Name under which the usual RSA-4096 test key is imported.
pub(super) const RSA: &str = "rsa4096";
/// Name under which the usual Ed25519 test key is imported.
pub(super) const ED: &str = "ed25519";

type Outcome<T> = std::result::Result<T, String>;

/// A fresh folder with the files of a case, and a fresh key store.
pub(super) struct Stage {
    program: PathBuf,
    case: PathBuf,
    folder: TempDir,
}

impl Stage {
    pub(super) fn new(program: &Path, case: &Path) -> Outcome<Self> {
        let folder = tempfile::tempdir().map_err(|error| format!("no temporary folder: {error}"))?;
        std::fs::create_dir(folder.path().join("work")).map_err(|error| error.to_string())?;
        Ok(Self { program: program.to_owned(), case: case.to_owned(), folder })
    }

    /// Where the files of the case are.
    pub(super) fn work(&self) -> PathBuf {
        self.folder.path().join("work")
    }

    /// The value of `SEALWRIGHT_HOME`.
    pub(super) fn home(&self) -> PathBuf {
        self.folder.path().join("home")
    }

    /// A file of the case.
    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.work().join(name)
    }

    /// Makes the files of the case, afresh.
    pub(super) fn setup(&self) -> Outcome<()> {
        std::fs::remove_dir_all(self.work()).map_err(|error| error.to_string())?;
        std::fs::create_dir(self.work()).map_err(|error| error.to_string())?;
        self.script("setup.sh")
    }

    /// Runs the check of the case.
    pub(super) fn check(&self) -> Outcome<()> {
        self.script("check.sh")
    }

    fn script(&self, name: &str) -> Outcome<()> {
        let output = spawn(Command::new(self.case.join(name)).arg(self.work()))?;
        if output.status.success() { Ok(()) } else { Err(format!("{name}: {}", both(&output))) }
    }

    /// The program with arguments, in the folder of the case, with the store of this stage.
    pub(super) fn command<A: AsRef<OsStr>>(&self, arguments: &[A]) -> Command {
        let mut command = Command::new(&self.program);
        self.environment(&mut command);
        command.args(arguments);
        command
    }

    /// The same with the clock at `time` (faketime).
    pub(super) fn at(&self, time: &str, arguments: &[&str]) -> Outcome<Output> {
        let mut command = Command::new("faketime");
        self.environment(&mut command);
        spawn(command.arg(time).arg(&self.program).args(arguments))
    }

    fn environment(&self, command: &mut Command) {
        command
            .current_dir(self.work())
            .env("SEALWRIGHT_HOME", self.home())
            .env_remove("SEALWRIGHT_KEY")
            .env_remove("SEALWRIGHT_SERVER");
    }

    /// Runs the program, whatever it answers.
    pub(super) fn run<A: AsRef<OsStr>>(&self, arguments: &[A]) -> Outcome<Output> {
        spawn(&mut self.command(arguments))
    }

    /// Runs the program; it must succeed.
    pub(super) fn ok<A: AsRef<OsStr>>(&self, arguments: &[A]) -> Outcome<String> {
        let output = self.run(arguments)?;
        succeeded(&output)
    }

    /// Runs the program; it must exit with 1 and say each of `words`.
    pub(super) fn refused<A: AsRef<OsStr>>(&self, arguments: &[A], words: &[&str]) -> Outcome<String> {
        let output = self.run(arguments)?;
        refused(&output, words)
    }

    /// Imports the usual keys.
    pub(super) fn import_usual(&self) -> Outcome<()> {
        self.ok(&[
            OsStr::new("key"),
            "import".as_ref(),
            RSA.as_ref(),
            fixture("pgp-key/gen_rsa4096.sec.asc").as_ref(),
        ])?;
        self.ok(&[
            OsStr::new("key"),
            "import".as_ref(),
            ED.as_ref(),
            fixture("pgp-key/gen_ed25519.sec.asc").as_ref(),
        ])
        .map(drop)
    }
}

/// A file among the fixtures.
pub(super) fn fixture(name: &str) -> PathBuf {
    process::root().join("fixtures").join(name)
}

/// What was printed, if the exit status is 0.
pub(super) fn succeeded(output: &Output) -> Outcome<String> {
    let text = both(output);
    if output.status.success() { Ok(text) } else { Err(format!("{}: {text}", output.status)) }
}

/// What was printed, if the exit status is 1 and every word is in it.
pub(super) fn refused(output: &Output, words: &[&str]) -> Outcome<String> {
    let text = both(output);
    if output.status.code() != Some(1) {
        return Err(format!("exit status 1 expected, {}: {text}", output.status));
    }
    match words.iter().find(|word| !text.contains(**word)) {
        None => Ok(text),
        Some(word) => Err(format!("{word:?} is not in: {text}")),
    }
}

/// Fails with `what` unless `condition` holds.
pub(super) fn ensure(condition: bool, what: impl Into<String>) -> Outcome<()> {
    if condition { Ok(()) } else { Err(what.into()) }
}

/// Runs a tool, whatever it answers.
pub(super) fn spawn(command: &mut Command) -> Outcome<Output> {
    command.output().map_err(|error| format!("cannot run {}: {error}", process::line(command)))
}

/// The bytes of a file.
pub(super) fn bytes(path: &Path) -> Outcome<Vec<u8>> {
    std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))
}

/// stdout and stderr together.
pub(super) fn both(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}
