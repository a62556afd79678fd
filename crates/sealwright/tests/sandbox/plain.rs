//! The program as a plain user, in a home of that user. Tests run by root become another user; run by anybody else
//! they are that user already.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt, chown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use sealwright_testkit::fixtures::{self, KeyFiles};
use sealwright_testkit::tools;

use super::{PACKAGE, until};

const NOBODY: u32 = 65_534;

pub(crate) struct Plain {
    folder: tempfile::TempDir,
    folders: AtomicUsize,
}

impl Plain {
    pub(crate) fn new() -> Self {
        let plain = Self { folder: tempfile::tempdir().unwrap(), folders: AtomicUsize::new(0) };
        fs::set_permissions(plain.folder.path(), PermissionsExt::from_mode(0o755)).unwrap();
        // Where that user can run it, wherever the build is. Copied by another process: a file that a child of a
        // test beside this one still has open to write could not be run.
        tools::succeed(Command::new("cp").arg(env!("CARGO_BIN_EXE_sealwright")).arg(plain.program()));
        fs::create_dir(plain.work()).unwrap();
        fs::create_dir(plain.home()).unwrap();
        for folder in [plain.work(), plain.home()] {
            plain.give(&folder);
        }
        plain
    }

    pub(crate) fn with_keys(keys: &[KeyFiles]) -> Self {
        let plain = Self::new();
        for key in keys {
            let file = plain.work().join("key");
            fs::copy(key.secret(), &file).unwrap();
            plain.give(&file);
            plain.ok(&["key", "import", key.name, file.to_str().unwrap()]);
            fs::remove_file(file).unwrap();
        }
        plain
    }

    pub(crate) fn program(&self) -> PathBuf {
        self.folder.path().join("sealwright")
    }

    pub(crate) fn home(&self) -> PathBuf {
        self.folder.path().join("home")
    }

    pub(crate) fn work(&self) -> PathBuf {
        self.folder.path().join("work")
    }

    /// Whom to become: nobody, or nothing if we are not root.
    pub(crate) fn uid(&self) -> Option<u32> {
        (!self.is_the_runner()).then_some(NOBODY)
    }

    pub(crate) fn is_the_runner(&self) -> bool {
        fs::metadata("/proc/self").unwrap().uid() != 0
    }

    /// A folder of another user.
    pub(crate) fn folder_of(&self, uid: u32) -> PathBuf {
        let folder = self.folder.path().join(uid.to_string());
        fs::create_dir(&folder).unwrap();
        chown(&folder, Some(uid), Some(uid)).unwrap();
        folder
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(self.program());
        self.surround(command.args(arguments));
        command
    }

    pub(crate) fn surround<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        command
            .current_dir(self.work())
            .env("SEALWRIGHT_HOME", self.home())
            .env("SEALWRIGHT_LOG", "warn")
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        as_user(command, self.uid())
    }

    pub(crate) fn ok(&self, arguments: &[&str]) {
        tools::succeed(&mut self.command(arguments));
    }

    /// A run that has started its signer and waits for its content.
    pub(crate) fn waiting(&self, key: &str) -> Child {
        let mut command = self.command(&["sign", "--format", "detached", "--key", key, "-"]);
        let front = command.stdin(Stdio::piped()).spawn().unwrap();
        until(|| !children(front.id()).is_empty());
        // It has become the signer, and hardened itself.
        std::thread::sleep(Duration::from_millis(500));
        front
    }

    /// A new folder with copies of a package, by its name in the folder for files.
    pub(crate) fn packages(&self, count: usize) -> String {
        let name = format!("p{}", self.folders.fetch_add(1, Ordering::SeqCst));
        let folder = self.work().join(&name);
        fs::create_dir(&folder).unwrap();
        self.give(&folder);
        for number in 0..count {
            let file = folder.join(format!("{number}.rpm"));
            fs::copy(fixtures::package(PACKAGE), &file).unwrap();
            self.give(&file);
        }
        name
    }

    pub(crate) fn until_signed(&self, folder: &str, count: usize) {
        let before = fs::read(fixtures::package(PACKAGE)).unwrap();
        let folder = self.work().join(folder);
        until(|| {
            let files =
                fs::read_dir(&folder).unwrap().filter_map(|entry| fs::read(entry.unwrap().path()).ok());
            files.filter(|bytes| *bytes != before).take(count).count() == count
        });
    }

    /// The canonical log entries.
    pub(crate) fn entries(&self) -> Vec<Vec<u8>> {
        const SCRIPT: &str = "import sqlite3, sys\n\
            for row in sqlite3.connect(sys.argv[1]).execute('SELECT hex(entry) FROM log'): print(row[0])";
        let store = self.home().join("store/store.db");
        let printed = tools::succeed(Command::new("python3").args(["-c", SCRIPT]).arg(store));
        let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
        let lines = String::from_utf8(printed).unwrap();
        lines.lines().map(|line| line.as_bytes().chunks(2).map(byte).collect()).collect()
    }

    fn give(&self, path: &Path) {
        if let Some(uid) = self.uid() {
            chown(path, Some(uid), Some(uid)).unwrap();
        }
    }
}

pub(crate) fn as_user(command: &mut Command, uid: Option<u32>) -> &mut Command {
    match uid {
        Some(uid) => command.uid(uid).gid(uid),
        None => command,
    }
}

/// The only child.
pub(crate) fn signer_of(front: u32) -> u32 {
    until(|| !children(front).is_empty());
    children(front)[0]
}

pub(crate) fn children(parent: u32) -> Vec<u32> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").unwrap() {
        let entry = entry.unwrap();
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
