//! Front shuts itself out of everything but its own files before it serves, the signer's root key first of all: also
//! where one user runs both. Nothing in front needs more once its sockets and configuration are open.
//!
//! Landlock says which files and which TCP (none: it accepts, and connects to nobody); seccomp says no to other
//! sockets than Unix ones, to other programs, and to looking into processes. Entered before any thread is started.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use landlock::{
    Access as _, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible as _, PathBeneath, PathFd, Ruleset,
    RulesetAttr as _, RulesetCreatedAttr as _, RulesetStatus, Scope,
};
use rustix::process::{DumpableBehavior, Resource, Rlimit};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
};

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
        let failed = |error: rustix::io::Errno| failure(&error);
        rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable).map_err(failed)?;
        rustix::process::setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) })
            .map_err(failed)?;
        rustix::thread::set_no_new_privs(true).map_err(failed)?;
        let landlock = self.landlock().map_err(|error| failure(&error))?;
        restrict_calls().map_err(|error| failure(&error))?;
        self.check_walls(landlock != RulesetStatus::NotEnforced)
    }

    /// Tries the one door that matters.
    fn check_walls(&self, has_landlock: bool) -> Result<(), Failure> {
        let is_shut = File::open(self.root.join(ROOT_KEY)).is_err();
        match (has_landlock, is_shut) {
            (true, true) => Ok(()),
            (true, false) => Err(Failure::failed(
                "front can open the root key in spite of its sandbox",
                "Please report it.",
            )),
            (false, _) if self.required => Err(Failure::failed(
                "this kernel has no Landlock, and require_sandbox is set",
                "Use Linux 5.13 or newer with Landlock, or take require_sandbox out of server.toml.",
            )),
            (false, true) => {
                tracing::warn!("this kernel has no Landlock: front can open all files of its user");
                Ok(())
            }
            (false, false) => {
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

    /// As much of it as the kernel knows.
    fn landlock(&self) -> Result<RulesetStatus, Box<dyn std::error::Error + Send + Sync>> {
        let mut created = Ruleset::default()
            .set_compatibility(CompatLevel::BestEffort)
            .handle_access(AccessFs::from_all(landlock::ABI::V5))?
            .handle_access(AccessNet::BindTcp | AccessNet::ConnectTcp)?
            .scope(Scope::AbstractUnixSocket | Scope::Signal)?
            .create()?
            .add_rule(PathBeneath::new(PathFd::new(self.store)?, own_files()))?;
        let itself = Path::new("/proc/self");
        for path in self.readable.iter().map(PathBuf::as_path).chain([itself]) {
            created = created
                .add_rule(PathBeneath::new(PathFd::new(path)?, AccessFs::ReadFile | AccessFs::ReadDir))?;
        }
        // SQLite seeds the names of its temporary files with it.
        created = created.add_rule(PathBeneath::new(PathFd::new("/dev/urandom")?, AccessFs::ReadFile))?;
        Ok(created.restrict_self()?.ruleset)
    }
}

/// Whether this kernel has Landlock, so that one user can run front and signer and yet not have both.
pub(super) fn has_landlock() -> bool {
    Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(landlock::ABI::V1))
        .and_then(|ruleset| ruleset.create())
        .is_ok()
}

fn own_files() -> BitFlags<AccessFs> {
    AccessFs::ReadFile
        | AccessFs::ReadDir
        | AccessFs::WriteFile
        | AccessFs::Truncate
        | AccessFs::MakeReg
        | AccessFs::RemoveFile
}

fn failure(error: &dyn std::fmt::Display) -> Failure {
    Failure::failed(
        format!("front cannot shut itself in: {error}"),
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

/// Front makes none of these calls: its connections come to it, and the signer is reached by a Unix socket. (It does call
/// listen, to lengthen the queue of a socket that is bound.)
const REFUSED: &[i64] = &[
    libc::SYS_execve,
    libc::SYS_execveat,
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    libc::SYS_bind,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_io_uring_setup,
    libc::SYS_open_by_handle_at,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_kexec_load,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_unshare,
    libc::SYS_setns,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    libc::SYS_setuid,
    libc::SYS_setgid,
    libc::SYS_setresuid,
    libc::SYS_setresgid,
    libc::SYS_personality,
];

fn restrict_calls() -> Result<(), seccompiler::Error> {
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> =
        REFUSED.iter().map(|number| (*number, Vec::new())).collect();
    let other_family = SeccompCondition::new(
        0,
        SeccompCmpArgLen::Dword,
        SeccompCmpOp::Ne,
        u64::from(libc::AF_UNIX.cast_unsigned()),
    )?;
    rules.insert(libc::SYS_socket, vec![SeccompRule::new(vec![other_family])?]);
    let refused = SeccompAction::Errno(libc::EPERM.cast_unsigned());
    let architecture = std::env::consts::ARCH.try_into()?;
    let filter: BpfProgram =
        SeccompFilter::new(rules, SeccompAction::Allow, refused, architecture)?.try_into()?;
    seccompiler::apply_filter_all_threads(&filter)
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
