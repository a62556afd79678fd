//! Front shuts itself out of everything but its own files before it serves, the signer's root key first of all: also
//! where one user runs both. Nothing in front needs more once its sockets and configuration are open.
//!
//! Landlock says which files and which TCP (none: it accepts, and connects to nobody); seccomp says no to other
//! sockets than Unix ones, to other programs, and to looking into processes: the walls are the signer's
//! (`crates/signer/src/confine.rs`), less tight. Entered before any thread is started.

use std::fs::File;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use sealwright_signer::Enforced;

use crate::failure::Failure;

/// The file in the signer's directory that must stay shut.
const ROOT_KEY: &str = "root.key";

/// What is left to front.
pub(super) struct Sandbox<'a> {
    /// To read and write.
    pub(super) store: &'a Path,
    /// To read again at a reload; none, where the supervisor hands the files over.
    pub(super) readable: &'a [PathBuf],
    /// The signer's directory: not to be reached.
    pub(super) root: &'a Path,
    /// No kernel without Landlock.
    pub(super) required: bool,
}

impl Sandbox<'_> {
    /// Enters; there is no way back.
    ///
    /// # Errors
    /// The root key lies where front must read; Landlock is required and not there; the kernel refuses.
    pub(super) fn enter(&self) -> Result<(), Failure> {
        self.check_places()?;
        sealwright_signer::give_up_dumps_and_privileges("forbid dumps of front's memory")
            .map_err(|error| no_walls(&error))?;
        let landlock = self.shut().map_err(|error| no_walls(&error))?;
        sealwright_signer::refuse_attacks().map_err(|error| no_walls(&error))?;
        self.check_walls(landlock)
    }

    /// Tries the one door that matters.
    fn check_walls(&self, landlock: Enforced) -> Result<(), Failure> {
        let is_shut = File::open(self.root.join(ROOT_KEY)).is_err();
        match (landlock, is_shut) {
            (Enforced::Yes, true) => Ok(()),
            (Enforced::Yes, false) => Err(Failure::failed(
                "front can open the root key in spite of its sandbox",
                "Please report it.",
            )),
            (Enforced::No, _) if self.required => Err(Failure::failed(
                "this kernel has no Landlock, and require_sandbox is set",
                "Use Linux 5.13 or newer with Landlock, or take require_sandbox out of server.toml.",
            )),
            (Enforced::No, true) => {
                tracing::warn!("this kernel has no Landlock: front can open all files of its user");
                Ok(())
            }
            (Enforced::No, false) => {
                tracing::warn!(
                    "this kernel has no Landlock, and front runs as the user of the signer: it can open the root key"
                );
                Ok(())
            }
        }
    }

    /// Landlock allows by directory: what lies inside one that is allowed cannot be taken out of it. That is no matter
    /// where the root key is another user's, whom the kernel keeps us from anyway.
    fn check_places(&self) -> Result<(), Failure> {
        let root = real(self.root);
        let allowed = self.readable.iter().map(PathBuf::as_path).chain([self.store]);
        match allowed.map(real).find(|allowed| root.starts_with(allowed)) {
            Some(allowed) if !is_closed_to_us(&root) => Err(Failure::failed(
                format!(
                    "the root key of the signer ({}) lies inside {}, which front must read",
                    root.display(),
                    allowed.display()
                ),
                "Move [signer] root elsewhere, or start `sealwright serve`, which hands front its files.",
            )),
            Some(_) | None => Ok(()),
        }
    }

    /// What is left of the file system.
    fn shut(&self) -> Result<Enforced, sealwright_signer::Error> {
        let readable = self.readable.iter().map(PathBuf::as_path);
        // SQLite seeds the names of its temporary files with the last one.
        let readable: Vec<&Path> = readable.chain(["/proc/self", "/dev/urandom"].map(Path::new)).collect();
        sealwright_signer::shut_into(self.store, &readable)
    }
}

/// What the signer's code says of the signer is said of front.
fn no_walls(error: &sealwright_signer::Error) -> Failure {
    let why = std::error::Error::source(error).map_or_else(|| error.to_string(), Failure::chain);
    Failure::failed(
        format!("front cannot shut itself in: {why}"),
        "Please report it, with the version of the kernel.",
    )
}

/// Whether the directory is another user's, and shut.
fn is_closed_to_us(directory: &Path) -> bool {
    let denied = |error: &std::io::Error| error.kind() == std::io::ErrorKind::PermissionDenied;
    match std::fs::metadata(directory) {
        Ok(metadata) if metadata.uid() == rustix::process::geteuid().as_raw() => false,
        Ok(_) => File::open(directory).is_err_and(|error| denied(&error)),
        Err(error) => denied(&error),
    }
}

/// The path without links, as far as it is there and may be looked at.
fn real(path: &Path) -> PathBuf {
    let mut missing = Vec::new();
    let mut at = path;
    loop {
        if let Ok(real) = at.canonicalize() {
            return missing.iter().rev().fold(real, |real, name| real.join(name));
        }
        let (Some(parent), Some(name)) = (at.parent(), at.file_name()) else { return path.to_owned() };
        missing.push(name);
        at = parent;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_root_key_inside_what_front_must_read_is_refused_also_behind_a_link() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        std::fs::create_dir_all(path("etc/root")).unwrap();
        std::fs::create_dir(path("store")).unwrap();
        std::os::unix::fs::symlink(path("etc"), path("link")).unwrap();
        let (store, readable) = (path("store"), [path("etc")]);
        for root in ["etc/root", "etc/absent/root", "link/root", "store/root", "store"] {
            let root = path(root);
            let sandbox = Sandbox { store: &store, readable: &readable, root: &root, required: false };
            assert!(sandbox.check_places().is_err(), "{}", root.display());
        }
        let root = path("root");
        let sandbox = Sandbox { store: &store, readable: &readable, root: &root, required: false };
        sandbox.check_places().unwrap();
    }
}
