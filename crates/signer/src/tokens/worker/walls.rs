//! The walls of a worker, before the module is loaded: it may read libraries and `/etc`, and read and write what
//! `tokens.toml` names for its token; not the signer's directory and what lies beside it, wherever that is. Without `network` it speaks to nobody but
//! services of this machine (the daemon of card readers, for one).

use std::path::{Path, PathBuf};

use landlock::{
    Access as _, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible as _, PathBeneath, PathFd, Ruleset,
    RulesetAttr as _, RulesetCreated, RulesetCreatedAttr as _, RulesetError, RulesetStatus, Scope,
};
use sealwright_proto::token_v1::Start;

use crate::confine::{Landlock, confinement, restrict_worker};
use crate::error::Error;

/// Where libraries, their settings, and what a process knows of itself and the machine are.
const READABLE: &[&str] =
    &["/usr", "/lib", "/lib64", "/etc", "/opt", "/proc/self", "/sys/devices/system", "/sys/bus/usb"];
/// Chance, nothing, readers at USB, and the sockets of daemons.
const WRITABLE: &[&str] =
    &["/dev/null", "/dev/zero", "/dev/random", "/dev/urandom", "/dev/bus/usb", "/run/pcscd"];

/// There is no way back.
///
/// # Errors
/// [`Error::Confinement`].
pub(super) fn shut_in(start: &Start, landlock: Landlock) -> Result<(), Error> {
    let failed = || confinement("shut the worker of a token in");
    let status = files_and_network(start).map_err(failed())?;
    if status == RulesetStatus::NotEnforced {
        if landlock == Landlock::Required {
            let unsupported = std::io::Error::from(std::io::ErrorKind::Unsupported);
            return Err(confinement("use Landlock, which is required but not in this kernel")(unsupported));
        }
        tracing::warn!(
            "this kernel has no Landlock: the module of a token can open files of the signer's user"
        );
    }
    restrict_worker(start.network).map_err(confinement("restrict the system calls of the worker of a token"))
}

fn files_and_network(start: &Start) -> Result<RulesetStatus, RulesetError> {
    let mut ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(landlock::ABI::V5))?;
    if !start.network {
        ruleset = ruleset.handle_access(AccessNet::BindTcp | AccessNet::ConnectTcp)?;
    }
    let mut created = ruleset.scope(Scope::Signal)?.create()?;
    let read = AccessFs::ReadFile | AccessFs::ReadDir;
    let write = AccessFs::from_all(landlock::ABI::V5) & !AccessFs::Execute;
    let closed = closed(&start.closed);
    let module = Path::new(&start.module).parent();
    for path in READABLE.iter().map(Path::new).chain(module) {
        for path in all_but(path, &closed) {
            created = allow(created, &path, read)?;
        }
    }
    for path in WRITABLE.iter().copied().chain(start.paths.iter().map(String::as_str)) {
        for path in all_but(Path::new(path), &closed) {
            created = allow(created, &path, write)?;
        }
    }
    Ok(created.restrict_self()?.ruleset)
}

/// The folder around that of the signer, where store and certificates of an installation lie beside it; but no folder of the
/// system, in which it may lie with others.
fn closed(signer: &str) -> PathBuf {
    let signer = canonical(Path::new(signer));
    let around = signer.parent().filter(|around| around.components().count() > 2 && !is_of_system(around));
    around.map_or_else(|| signer.clone(), Path::to_owned)
}

fn is_of_system(folder: &Path) -> bool {
    READABLE.iter().chain(WRITABLE).any(|system| Path::new(system).starts_with(folder))
        || folder == "/var/lib"
}

/// The path, or what is in it but `closed`: rights to a folder are rights to all that is below.
fn all_but(path: &Path, closed: &Path) -> Vec<PathBuf> {
    let path = canonical(path);
    if path.starts_with(closed) {
        return Vec::new();
    }
    if !closed.starts_with(&path) {
        return vec![path];
    }
    let Ok(entries) = std::fs::read_dir(&path) else { return Vec::new() };
    entries.filter_map(Result::ok).flat_map(|entry| all_but(&entry.path(), closed)).collect()
}

fn canonical(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}

/// What is not there needs no rule.
fn allow(
    created: RulesetCreated,
    path: &Path,
    access: BitFlags<AccessFs>,
) -> Result<RulesetCreated, RulesetError> {
    let Ok(opened) = PathFd::new(path) else { return Ok(created) };
    // Rights to directories are no rights to files; the library takes those away that do not fit.
    created.add_rule(PathBeneath::new(opened, access))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_around_the_closed_folder_is_readable_and_it_is_not_by_any_name() {
        let top = tempfile::tempdir().unwrap();
        let top = canonical(top.path());
        for folder in ["etc/ssl", "etc/sealwright/server/root", "etc/sealwright/other", "usr"] {
            std::fs::create_dir_all(top.join(folder)).unwrap();
        }
        std::fs::write(top.join("etc/passwd"), "").unwrap();
        std::os::unix::fs::symlink(top.join("etc/sealwright/server"), top.join("etc/link")).unwrap();
        std::os::unix::fs::symlink(top.join("etc/sealwright/server/root"), top.join("etc/deep")).unwrap();
        let closed = closed(top.join("etc/sealwright/server/root").to_str().unwrap());
        assert_eq!(closed, top.join("etc/sealwright/server"));
        let mut readable = all_but(&top.join("etc"), &closed);
        readable.sort();
        assert_eq!(readable, ["etc/passwd", "etc/sealwright/other", "etc/ssl"].map(|name| top.join(name)));
        assert_eq!(all_but(&top.join("usr"), &closed), [top.join("usr")]);
        assert!(all_but(&closed.join("root"), &closed).is_empty());
    }

    #[test]
    fn a_folder_of_the_system_around_the_signers_stays_open() {
        assert_eq!(closed("/var/lib/sealwright-signer"), Path::new("/var/lib/sealwright-signer"));
        assert_eq!(closed("/etc/sealwright-none"), Path::new("/etc/sealwright-none"));
        assert_eq!(closed("/etc/sealwright-none/root"), Path::new("/etc/sealwright-none"));
        assert_eq!(closed("/keys"), Path::new("/keys"));
    }
}
