//! The walls of a worker, before the module is loaded: it may read libraries and `/etc`, and read and write what
//! `tokens.toml` names for its token; not the signer's directory, not the store. Without `network` it speaks to nobody but
//! services of this machine (the daemon of card readers, for one).

use std::path::Path;

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
    let module = Path::new(&start.module).parent().and_then(Path::to_str);
    for path in READABLE.iter().copied().chain(module) {
        created = allow(created, path, read)?;
    }
    for path in WRITABLE.iter().copied().chain(start.paths.iter().map(String::as_str)) {
        created = allow(created, path, write)?;
    }
    Ok(created.restrict_self()?.ruleset)
}

/// What is not there needs no rule.
fn allow(
    created: RulesetCreated,
    path: &str,
    access: BitFlags<AccessFs>,
) -> Result<RulesetCreated, RulesetError> {
    let Ok(opened) = PathFd::new(path) else { return Ok(created) };
    // Rights to directories are no rights to files; the library takes those away that do not fit.
    created.add_rule(PathBeneath::new(opened, access))
}
