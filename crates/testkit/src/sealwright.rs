//! The real program with a fresh home.

use std::ffi::OsStr;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

use crate::fixtures::KeyFiles;
use crate::tools;

/// A fresh home (key store, root key) and a fresh folder for files.
pub struct Home {
    program: PathBuf,
    folder: TempDir,
}

impl Home {
    /// `program` is `env!("CARGO_BIN_EXE_sealwright")` of the test.
    ///
    /// # Panics
    /// No folder can be made.
    #[must_use]
    pub fn new(program: &str) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        fs::create_dir(folder.path().join("work")).expect("a temporary folder");
        Self { program: program.into(), folder }
    }

    /// The same with these keys imported under their names.
    #[must_use]
    pub fn with_keys(program: &str, keys: &[KeyFiles]) -> Self {
        let home = Self::new(program);
        for key in keys {
            home.import(key.name, &key.secret());
        }
        home
    }

    /// Another home with the same keys and the same past, and a fresh folder for files.
    ///
    /// # Panics
    /// It cannot be copied.
    #[must_use]
    pub fn twin(&self) -> Self {
        let program = self.program.to_str().expect("a path of ours");
        let twin = Self::new(program);
        tools::succeed(Command::new("cp").arg("-a").arg(self.home()).arg(twin.home()));
        twin
    }

    /// The value of `SEALWRIGHT_HOME`.
    #[must_use]
    pub fn home(&self) -> PathBuf {
        self.folder.path().join("home")
    }

    /// The folder for files; commands run in it.
    #[must_use]
    pub fn work(&self) -> PathBuf {
        self.folder.path().join("work")
    }

    /// A command of the program, in this home, in the folder for files.
    #[must_use]
    pub fn command(&self, arguments: &[impl AsRef<OsStr>]) -> Command {
        let mut command = Command::new(&self.program);
        command.args(arguments);
        self.surround(&mut command);
        command
    }

    /// The same command with the clock at `time` (faketime).
    #[must_use]
    pub fn command_at(&self, time: &str, arguments: &[impl AsRef<OsStr>]) -> Command {
        let mut command = Command::new("faketime");
        command.arg(time).arg(&self.program).args(arguments);
        self.surround(&mut command);
        command
    }

    fn surround(&self, command: &mut Command) {
        command
            .current_dir(self.work())
            .env("SEALWRIGHT_HOME", self.home())
            .env_remove("SEALWRIGHT_KEY")
            // Whatever server this machine is configured for.
            .env("SEALWRIGHT_SERVER", "embedded")
            .env_remove("SEALWRIGHT_CLIENT_CONFIG")
            .stdin(Stdio::null());
    }

    /// Runs the program, whatever it answers.
    #[must_use]
    pub fn run(&self, arguments: &[impl AsRef<OsStr>]) -> Ran {
        Ran::from(tools::run(&mut self.command(arguments)))
    }

    /// Runs the program with the clock at `time`.
    #[must_use]
    pub fn run_at(&self, time: &str, arguments: &[impl AsRef<OsStr>]) -> Ran {
        Ran::from(tools::run(&mut self.command_at(time, arguments)))
    }

    /// Runs the program; it must exit with 0.
    pub fn ok(&self, arguments: &[impl AsRef<OsStr>]) -> Ran {
        let ran = self.run(arguments);
        assert_eq!(ran.code, Some(0), "{:?}\n{}", shown(arguments), ran.text());
        ran
    }

    /// Runs the program with this on standard input.
    ///
    /// # Panics
    /// It cannot be started.
    #[must_use]
    pub fn run_with_input(&self, arguments: &[impl AsRef<OsStr>], input: &[u8]) -> Ran {
        let mut child = self
            .command(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let mut stdin = child.stdin.take().expect("a pipe");
        let input = input.to_vec();
        // A program that refuses its arguments closes the pipe early.
        let writer = std::thread::spawn(move || drop(stdin.write_all(&input)));
        let output = child.wait_with_output().expect("the program ends");
        writer.join().expect("a thread that ends");
        Ran::from(output)
    }

    /// Imports a secret key.
    pub fn import(&self, name: &str, file: &Path) {
        self.ok(&[OsStr::new("key"), "import".as_ref(), name.as_ref(), file.as_ref()]);
    }

    /// The armored certificate of a key, in a file.
    ///
    /// # Panics
    /// There is no such key.
    #[must_use]
    pub fn export(&self, name: &str) -> PathBuf {
        let certificate = self.ok(&["key", "export", name]);
        let file = self.folder.path().join(format!("{name}.asc"));
        fs::write(&file, certificate.stdout).expect("a temporary file");
        file
    }

    /// Runs one SQL statement on the store, by a library of its own, and returns the rows, a line each.
    pub fn sql(&self, statement: &str) -> Vec<String> {
        const SCRIPT: &str = r#"
import sqlite3, sys
database = sqlite3.connect(sys.argv[1])
for row in database.execute(sys.argv[2]):
    print("|".join(str(cell) for cell in row))
database.commit()
"#;
        let store = self.home().join("store/store.db");
        let printed = tools::succeed(Command::new("python3").args(["-c", SCRIPT]).arg(store).arg(statement));
        String::from_utf8_lossy(&printed).lines().map(str::to_owned).collect()
    }

    /// How many signatures are in the log.
    ///
    /// # Panics
    /// The log is not whole.
    #[must_use]
    pub fn log_size(&self) -> u64 {
        let counts = self.sql("SELECT (SELECT COUNT(*) FROM log), (SELECT size FROM log_head)");
        let (rows, head) = counts[0].split_once('|').expect("two columns");
        assert_eq!(rows, head, "rows of the log against its head");
        rows.parse().expect("a count")
    }

    /// Copies a file into the folder for files, and returns the copy.
    pub fn copy(&self, file: &Path) -> PathBuf {
        crate::fixtures::copy_into(&self.work(), file)
    }
}

/// What a run of the program gave.
#[derive(Debug)]
pub struct Ran {
    /// Exit status; `None` if a signal ended it.
    pub code: Option<i32>,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
    /// Standard output as it is.
    pub bytes: Vec<u8>,
}

impl From<Output> for Ran {
    fn from(output: Output) -> Self {
        let ran = Self {
            code: output.status.code(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
            bytes: output.stdout,
        };
        assert!(!ran.stderr.contains("panicked at"), "a panic: {}", ran.stderr);
        ran
    }
}

impl Ran {
    /// Both outputs.
    #[must_use]
    pub fn text(&self) -> String {
        format!("{}{}", self.stdout, self.stderr)
    }

    /// The objects of `--json`, one a line.
    ///
    /// # Panics
    /// A line is not JSON.
    #[must_use]
    pub fn json(&self) -> Vec<Value> {
        self.stdout
            .lines()
            .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
            .collect()
    }

    /// Exit status 1, and the outputs hold each of these words (in any case of letters).
    ///
    /// # Panics
    /// Otherwise.
    pub fn failed_saying(&self, words: &[&str]) {
        assert_eq!(self.code, Some(1), "{}", self.text());
        let text = self.text().to_lowercase();
        for word in words {
            assert!(text.contains(&word.to_lowercase()), "{word:?} is not in {}", self.text());
        }
    }
}

fn shown(arguments: &[impl AsRef<OsStr>]) -> Vec<String> {
    arguments.iter().map(|argument| argument.as_ref().to_string_lossy().into_owned()).collect()
}
