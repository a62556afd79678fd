//! A build farm's tree, and the keys old and new.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use sealwright_testkit::fixtures::{self, ED25519, KeyFiles, RSA2048};
use sealwright_testkit::sealwright::{Home, Ran};
use sealwright_testkit::tools::{self, RpmKeys};

pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_sealwright");
/// 6 KB, unsigned, with a reserve.
pub(crate) const PACKAGE: &str = "gen_tiny-reserved4096.rpm";
/// The same without a reserve: signing moves what follows.
pub(crate) const NO_RESERVE: &str = "gen_tiny-reserved0.rpm";
pub(crate) const OLD: KeyFiles = RSA2048;
pub(crate) const NEW: KeyFiles = ED25519;

/// A home with both keys, and a tree `repo` in its folder for files.
pub(crate) struct Farm {
    pub(crate) home: Home,
}

impl Farm {
    pub(crate) fn new() -> Self {
        let home = Home::with_keys(PROGRAM, &[OLD, NEW]);
        fs::create_dir(home.work().join("repo")).unwrap();
        Self { home }
    }

    pub(crate) fn repo(&self) -> PathBuf {
        self.home.work().join("repo")
    }

    /// A package under this name in the tree.
    pub(crate) fn put(&self, name: &str, package: &str) -> PathBuf {
        let path = self.repo().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::copy(fixtures::package(package), &path).unwrap();
        path
    }

    /// So many packages, named `DIR/000.rpm` and so on.
    pub(crate) fn fill(&self, directory: &str, count: usize) -> Vec<PathBuf> {
        (0..count).map(|number| self.put(&format!("{directory}/{number:03}.rpm"), PACKAGE)).collect()
    }

    pub(crate) fn sign(&self, key: KeyFiles, path: &Path) {
        self.home.ok(&["sign", "--key", key.name, "-r", path.to_str().unwrap()]);
    }

    /// `resign --key NEW`, these, `repo`.
    pub(crate) fn resign(&self, arguments: &[&str]) -> Ran {
        self.home.run(&Self::words(arguments))
    }

    pub(crate) fn resign_ok(&self, arguments: &[&str]) -> Ran {
        self.home.ok(&Self::words(arguments))
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        self.home.command(&Self::words(arguments))
    }

    fn words<'a>(arguments: &[&'a str]) -> Vec<&'a str> {
        [&["resign", "--key", NEW.name], arguments, &["repo"]].concat()
    }

    /// The journals that are there.
    pub(crate) fn journals(&self) -> Vec<PathBuf> {
        let state = fs::read_dir(self.home.home().join("state")).into_iter().flatten().flatten();
        let mut names: Vec<PathBuf> = state.map(|entry| entry.path()).collect();
        names.retain(|path| path.file_name().unwrap().to_str().unwrap().starts_with("campaign-"));
        names.sort();
        names
    }
}

/// By whom each package is signed, as rpm sees it.
pub(crate) struct Judge {
    old: RpmKeys,
    new: RpmKeys,
}

impl Judge {
    pub(crate) fn new() -> Self {
        Self { old: RpmKeys::new(&[OLD.public()]), new: RpmKeys::new(&[NEW.public()]) }
    }

    #[track_caller]
    pub(crate) fn is_new(&self, path: &Path) {
        let said = self.new.check(path);
        assert!(said.is_signed_and_all_ok(), "{}: {:?}", path.display(), said.lines);
    }

    #[track_caller]
    pub(crate) fn is_old(&self, path: &Path) {
        let said = self.old.check(path);
        assert!(said.is_signed_and_all_ok(), "{}: {:?}", path.display(), said.lines);
    }
}

/// rpmkeys with both certificates accepts all of these, and each has a signature.
pub(crate) fn all_signed(folder: &Path, packages: &[PathBuf]) {
    let database = tempfile::tempdir_in(folder).unwrap();
    let rpm = |name: &str| {
        let mut command = Command::new(name);
        command.arg("--dbpath").arg(database.path());
        command
    };
    tools::succeed(rpm("rpmdb").arg("--initdb"));
    tools::succeed(rpm("rpmkeys").arg("--import").args([OLD.public(), NEW.public()]));
    for some in packages.chunks(1000) {
        let output = tools::run(rpm("rpmkeys").arg("-K").args(some));
        let said = tools::text(&output);
        assert!(output.status.success(), "{said}");
        let signed = said.lines().filter(|line| line.ends_with("digests signatures OK")).count();
        assert_eq!(signed, some.len(), "{said}");
    }
}
