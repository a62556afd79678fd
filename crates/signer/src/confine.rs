//! The sandbox, entered once the signer's files are open and before the first byte of front is read: what an
//! attacker who runs code here could still ask of the kernel is the short list in `confine/syscalls.rs`, and of the
//! file system the signer's own directory. Front shuts itself in by the same means, less tightly.
//!
//! Both walls are for the calling thread and all that it starts later, so this comes before any worker.
//! `docs/adr/0008-sandbox.md` has the reasons.

mod syscalls;

use std::os::fd::BorrowedFd;
use std::path::Path;

use landlock::{
    Access as _, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible as _, PathBeneath, PathFd, Ruleset,
    RulesetAttr as _, RulesetCreatedAttr as _, RulesetError, RulesetStatus, Scope,
};

use crate::error::Error;

/// What to do on a kernel without Landlock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Landlock {
    /// Goes on with seccomp alone, and says so in the log.
    IfPresent,
    /// Does not start.
    Required,
}

/// Shuts the calling thread, and all threads that it starts, into `directory`, without network, without other
/// programs, and with few system calls. There is no way back. If it serves a `listener`, it can accept connections
/// from that one.
///
/// # Errors
/// [`Error::Confinement`].
pub fn confine(directory: &Path, landlock: Landlock, listener: Option<BorrowedFd<'_>>) -> Result<(), Error> {
    rustix::thread::set_no_new_privs(true)
        .map_err(|errno| confinement("give up new privileges")(std::io::Error::from(errno)))?;
    match (shut_into(directory, &[])?, landlock) {
        (Enforced::Yes, _) => {}
        (Enforced::No, Landlock::Required) => {
            return Err(confinement("use Landlock, which is required but not in this kernel")(
                std::io::Error::from(std::io::ErrorKind::Unsupported),
            ));
        }
        (Enforced::No, Landlock::IfPresent) => {
            tracing::warn!(
                "this kernel has no Landlock: the signer can open files of its user outside its directory"
            );
        }
    }
    syscalls::restrict(listener).map_err(confinement("restrict its system calls"))
}

pub(crate) fn confinement<E>(action: &'static str) -> impl FnOnce(E) -> Error
where
    E: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    move |source| Error::Confinement { action, source: source.into() }
}

/// Whether the kernel has Landlock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Enforced {
    /// Files at least.
    Yes,
    /// Nothing is shut.
    No,
}

/// Leaves the calling thread, and all threads that it starts, the files in `directory`, and what is `readable` (files, or
/// directories with all that is in them) to read; no TCP, no signals to others, no abstract sockets. As much of it as
/// the kernel knows: files since 5.13, TCP since 6.7, the rest since 6.12. New privileges must be given up before.
///
/// # Errors
/// [`Error::Confinement`].
pub fn shut_into(directory: &Path, readable: &[&Path]) -> Result<Enforced, Error> {
    let failed = "shut itself into its directory";
    let beneath = |path: &Path, access| {
        PathFd::new(path).map(|path| PathBeneath::new(path, access)).map_err(confinement(failed))
    };
    let mut rules = vec![beneath(directory, own_files())?];
    for path in readable {
        let listing = if path.is_dir() { AccessFs::ReadDir.into() } else { BitFlags::<AccessFs>::EMPTY };
        rules.push(beneath(path, listing | AccessFs::ReadFile)?);
    }
    let status = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(landlock::ABI::V5))
        .and_then(|ruleset| ruleset.handle_access(AccessNet::BindTcp | AccessNet::ConnectTcp))
        .and_then(|ruleset| ruleset.scope(Scope::AbstractUnixSocket | Scope::Signal))
        .and_then(|ruleset| ruleset.create())
        .and_then(|created| created.add_rules(rules.into_iter().map(Ok::<_, RulesetError>)))
        .and_then(|created| created.restrict_self())
        .map_err(confinement(failed))?;
    Ok(match status.ruleset {
        RulesetStatus::FullyEnforced | RulesetStatus::PartiallyEnforced => Enforced::Yes,
        RulesetStatus::NotEnforced => Enforced::No,
    })
}

/// Refuses this process, all its threads, the calls that only an attacker makes, and sockets other than Unix ones ("not
/// permitted"). New privileges must be given up before.
///
/// # Errors
/// [`Error::Confinement`].
pub fn refuse_attacks() -> Result<(), Error> {
    syscalls::refuse_attacks().map_err(confinement("restrict its system calls"))
}

/// Whether this kernel has Landlock, so that one user can run front and signer and yet not have both.
#[must_use]
pub fn has_landlock() -> bool {
    Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(landlock::ABI::V1))
        .and_then(|ruleset| ruleset.create())
        .is_ok()
}

/// To read, replace and sync regular files in the directory; nothing to run, no links, no devices.
fn own_files() -> BitFlags<AccessFs> {
    AccessFs::ReadFile
        | AccessFs::ReadDir
        | AccessFs::WriteFile
        | AccessFs::Truncate
        | AccessFs::MakeReg
        | AccessFs::RemoveFile
}
