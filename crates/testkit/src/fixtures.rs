//! The fixtures: real packages and keys. fixtures/ORIGIN.tsv says what each is.

use std::fs;
use std::path::{Path, PathBuf};

/// The RSA-2048 key: file of the secret key and of the certificate.
pub const RSA2048: KeyFiles = KeyFiles {
    name: "rsa2048",
    secret: "rpmorg_rpm.org-rsa-2048-test.secret",
    public: "rpmorg_rpm.org-rsa-2048-test.pub",
};
/// The RSA-4096 key.
pub const RSA4096: KeyFiles =
    KeyFiles { name: "rsa4096", secret: "gen_rsa4096.sec.asc", public: "gen_rsa4096.pub.asc" };
/// The Ed25519 key.
pub const ED25519: KeyFiles =
    KeyFiles { name: "ed25519", secret: "gen_ed25519.sec.asc", public: "gen_ed25519.pub.asc" };

/// A key among the fixtures.
#[derive(Clone, Copy, Debug)]
pub struct KeyFiles {
    /// Name under which tests import it.
    pub name: &'static str,
    secret: &'static str,
    public: &'static str,
}

impl KeyFiles {
    /// The file of the secret key.
    #[must_use]
    pub fn secret(&self) -> PathBuf {
        key(self.secret)
    }

    /// The file of the certificate.
    #[must_use]
    pub fn public(&self) -> PathBuf {
        key(self.public)
    }
}

/// The folder of all fixtures.
#[must_use]
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../fixtures")
        .canonicalize()
        .expect("fixtures are in the repository")
}

/// One fixture, by its path below the folder.
///
/// # Panics
/// It is not there.
#[must_use]
pub fn path(name: &str) -> PathBuf {
    let path = root().join(name);
    assert!(path.exists(), "no fixture {name}");
    path
}

/// A file of fixtures/pgp-key.
#[must_use]
pub fn key(name: &str) -> PathBuf {
    path("pgp-key").join(name)
}

/// A package of fixtures/rpm.
#[must_use]
pub fn package(name: &str) -> PathBuf {
    path(&format!("rpm/{name}"))
}

/// Every package that tools read, in order of name.
#[must_use]
pub fn packages() -> Vec<PathBuf> {
    files("rpm")
}

/// Every damaged package, in order of name.
#[must_use]
pub fn malformed() -> Vec<PathBuf> {
    files("rpm-malformed")
}

/// Copies a file into a folder under its own name, and returns the copy.
///
/// # Panics
/// It cannot be copied.
pub fn copy_into(folder: &Path, file: &Path) -> PathBuf {
    let copy = folder.join(file.file_name().expect("a file has a name"));
    fs::copy(file, &copy).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    copy
}

fn files(folder: &str) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> =
        fs::read_dir(path(folder)).expect("a folder").map(|entry| entry.expect("an entry").path()).collect();
    files.sort();
    assert!(!files.is_empty(), "fixtures/{folder} is empty");
    files
}
