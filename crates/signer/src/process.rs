//! What the process gives up first of all, before it has opened a key: core dumps, being traced, the terminal's
//! signals, new privileges, and talking to strangers. `confine.rs` has the rest.

use std::os::unix::net::UnixStream;

use rustix::process::{DumpableBehavior, Resource, Rlimit};

use crate::error::Error;

/// Open files, at most: the standard three, the socket and its copies, and a few of the signer's directory.
const OPEN_FILES_MAX: u64 = 64;

/// No core dump and no ptrace by processes of the same user, set after exec as exec resets it; no new privileges;
/// few open files; and a process group of its own, so that Ctrl-C in a terminal reaches the client, which finishes
/// the file in hand, and not us.
///
/// The number of processes is not limited here (`RLIMIT_NPROC` counts all of the user, whoever started them): the
/// filter of system calls starts none at all.
///
/// # Errors
/// [`Error::Process`].
pub(crate) fn harden() -> Result<(), Error> {
    give_up_dumps_and_privileges("forbid dumps of the signer's memory")?;
    let files = rustix::process::getrlimit(Resource::Nofile).current;
    let files = Some(files.map_or(OPEN_FILES_MAX, |files| files.min(OPEN_FILES_MAX)));
    rustix::process::setrlimit(Resource::Nofile, Rlimit { current: files, maximum: files })
        .map_err(failed("limit its open files"))?;
    leave_terminal()
}

fn failed(action: &'static str) -> impl FnOnce(rustix::io::Errno) -> Error {
    move |error| Error::Process { action, source: error.into() }
}

/// No core dump, no ptrace by processes of the same user, no new privileges; set after exec, as exec resets it. `dumps`
/// names the first of these in messages.
///
/// # Errors
/// [`Error::Process`].
pub fn give_up_dumps_and_privileges(dumps: &'static str) -> Result<(), Error> {
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable).map_err(failed(dumps))?;
    rustix::process::setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) })
        .map_err(failed("forbid core dumps"))?;
    rustix::thread::set_no_new_privs(true).map_err(failed("give up new privileges"))
}

fn leave_terminal() -> Result<(), Error> {
    match rustix::process::setpgid(None, None) {
        // A session leader (a service manager's child) has a group of its own already.
        Ok(()) | Err(rustix::io::Errno::PERM) => Ok(()),
        Err(error) => Err(failed("leave the terminal's process group")(error)),
    }
}

/// What the keeper of the tokens and their workers give up: core dumps, being traced, the terminal's signals, new
/// privileges.
///
/// # Errors
/// [`Error::Process`].
pub(crate) fn harden_helper() -> Result<(), Error> {
    give_up_dumps_and_privileges("forbid dumps of the memory of a helper of the signer")?;
    leave_terminal()
}

/// Whether the other end of the socket was opened by us, by root (who could read our memory anyway), or by one of
/// `allowed` (user ids). The kernel says who: of a pair, whoever made it; of a path, whoever connected.
///
/// # Errors
/// [`Error::Stranger`]; [`Error::Process`] if it is no Unix socket.
pub(crate) fn check_peer(socket: &UnixStream, allowed: &[u32]) -> Result<(), Error> {
    let peer = rustix::net::sockopt::socket_peercred(socket).map_err(|error| Error::Process {
        action: "ask who is at the other end of the socket",
        source: error.into(),
    })?;
    let uid = peer.uid.as_raw();
    if uid == rustix::process::geteuid().as_raw() || uid == 0 || allowed.contains(&uid) {
        return Ok(());
    }
    Err(Error::Stranger { uid })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_made_the_pair_is_the_peer() {
        let (ours, _theirs) = UnixStream::pair().unwrap();
        check_peer(&ours, &[]).unwrap();
    }
}
