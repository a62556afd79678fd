//! What the process gives up at its start: core dumps, being traced, and the terminal's signals.

use crate::error::Error;

/// No core dump and no ptrace by processes of the same user, set after exec as exec resets it; and a process group
/// of its own, so that Ctrl-C in a terminal reaches the client, which finishes the file in hand, and not us.
///
/// # Errors
/// [`Error::Process`].
pub(crate) fn harden() -> Result<(), Error> {
    use rustix::process::{DumpableBehavior, Resource, Rlimit};

    let failed = |action| move |error: rustix::io::Errno| Error::Process { action, source: error.into() };
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)
        .map_err(failed("forbid dumps of the signer's memory"))?;
    rustix::process::setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) })
        .map_err(failed("forbid core dumps"))?;
    match rustix::process::setpgid(None, None) {
        // A session leader (a service manager's child) has a group of its own already.
        Ok(()) | Err(rustix::io::Errno::PERM) => Ok(()),
        Err(error) => Err(failed("leave the terminal's process group")(error)),
    }
}
