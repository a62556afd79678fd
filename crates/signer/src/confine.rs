//! The sandbox, entered once the signer's files are open and before the first byte of front is read: what an
//! attacker who runs code here could still ask of the kernel is the short list in `confine/syscalls.rs`, and of the
//! file system the signer's own directory.
//!
//! Both walls are for the calling thread and all that it starts later, so this comes before any worker.
//! `docs/adr/0008-sandbox.md` has the reasons.

mod syscalls;

pub(crate) use syscalls::restrict_worker;

use std::os::fd::BorrowedFd;
use std::path::Path;

use landlock::{
    Access as _, AccessFs, AccessNet, CompatLevel, Compatible as _, PathBeneath, PathFd, Ruleset,
    RulesetAttr as _, RulesetCreatedAttr as _, RulesetStatus, Scope,
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
    confine_with(directory, landlock, Openings { listener, keeper: None })
}

/// What the walls let through beside what is open already.
#[derive(Clone, Copy)]
pub(crate) struct Openings<'a> {
    /// Connections are accepted from this one.
    pub(crate) listener: Option<BorrowedFd<'a>>,
    /// Sockets of new workers are taken from this one.
    pub(crate) keeper: Option<BorrowedFd<'a>>,
}

/// See [`confine`].
///
/// # Errors
/// [`Error::Confinement`].
pub(crate) fn confine_with(
    directory: &Path,
    landlock: Landlock,
    openings: Openings<'_>,
) -> Result<(), Error> {
    rustix::thread::set_no_new_privs(true)
        .map_err(|errno| confinement("give up new privileges")(std::io::Error::from(errno)))?;
    match (shut_into(directory)?, landlock) {
        (RulesetStatus::FullyEnforced | RulesetStatus::PartiallyEnforced, _) => {}
        (RulesetStatus::NotEnforced, Landlock::Required) => {
            return Err(confinement("use Landlock, which is required but not in this kernel")(
                std::io::Error::from(std::io::ErrorKind::Unsupported),
            ));
        }
        (RulesetStatus::NotEnforced, Landlock::IfPresent) => {
            tracing::warn!(
                "this kernel has no Landlock: the signer can open files of its user outside its directory"
            );
        }
    }
    syscalls::restrict(openings).map_err(confinement("restrict its system calls"))
}

pub(crate) fn confinement<E>(action: &'static str) -> impl FnOnce(E) -> Error
where
    E: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    move |source| Error::Confinement { action, source: source.into() }
}

/// As much of it as the kernel knows: files since 5.13, TCP since 6.7, signals and abstract sockets since 6.12.
fn shut_into(directory: &Path) -> Result<RulesetStatus, Error> {
    let failed = "shut itself into its directory";
    let path = PathFd::new(directory).map_err(confinement(failed))?;
    let status = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(landlock::ABI::V5))
        .and_then(|ruleset| ruleset.handle_access(AccessNet::BindTcp | AccessNet::ConnectTcp))
        .and_then(|ruleset| ruleset.scope(Scope::AbstractUnixSocket | Scope::Signal))
        .and_then(|ruleset| ruleset.create())
        .and_then(|created| created.add_rule(PathBeneath::new(path, own_files())))
        .and_then(|created| created.restrict_self())
        .map_err(confinement(failed))?;
    Ok(status.ruleset)
}

/// To read, replace and sync regular files in the directory; nothing to run, no links, no devices.
fn own_files() -> landlock::BitFlags<AccessFs> {
    AccessFs::ReadFile
        | AccessFs::ReadDir
        | AccessFs::WriteFile
        | AccessFs::Truncate
        | AccessFs::MakeReg
        | AccessFs::RemoveFile
}
