//! The worker of one token: the only process that loads a PKCS#11 module. It has the PIN of this token and nothing else:
//! no key in clear, no root key, no way to the files of signer or store (`walls.rs`). It logs in once, and works with as
//! many sessions as it may have open, a thread each (`pool.rs`). When the token or the module fails for good, it ends, and
//! the keeper starts another; nothing is forked after the module was loaded, which modules do not survive.

mod described;
mod module;
mod pool;
mod walls;

use std::io::Read;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

use sealwright_proto::frame;
use sealwright_proto::token_v1::to_worker::Request;
use sealwright_proto::token_v1::{Failed, Start, Started, ToWorker};

use crate::confine::Landlock;
use crate::error::Error;
use crate::process;
use crate::secret::Secret;
use module::Module;
use pool::{Answers, Pool};

/// Bytes of a PIN, at most.
const PIN_BYTES_MAX: usize = 1024;

/// Serves the signer at the other end of the socket, until it closes it or the token fails for good.
///
/// # Errors
/// [`Error::Process`], [`Error::Confinement`], [`Error::Connection`]. What the token says goes to the signer.
pub fn token_worker(signer: OwnedFd) -> Result<(), Error> {
    process::harden_helper()?;
    if !ends_with_its_keeper(&signer)? {
        return Ok(());
    }
    let mut signer = UnixStream::from(signer);
    let writer = signer.try_clone().map_err(|source| Error::Process { action: "copy a socket", source })?;
    let answers = Answers::new(writer);
    let Some((start, pin)) = first_message(&mut signer)? else { return Ok(()) };
    let landlock = if start.require_sandbox { Landlock::Required } else { Landlock::IfPresent };
    walls::shut_in(&start, landlock)?;
    // From here on code of somebody else runs in this process.
    let opened =
        Module::open(&start, pin).and_then(|module| module.log_in().map(|session| (module, session)));
    let (module, session) = match opened {
        Ok(opened) => opened,
        Err(trouble) => {
            answers.failure(0, &trouble);
            if trouble.kind == Failed::Pin {
                wait_for_end(&mut signer);
            }
            return Ok(());
        }
    };
    answers.started(Started { token: module.describe() });
    let pool = Pool::new(&module, &answers);
    let served = pool.serve(session, start.sessions_max, &mut signer);
    drop(answers);
    module.close();
    served
}

/// The start, with the PIN that follows it; `None` if the signer has gone, or says something else first.
///
/// # Errors
/// Those of [`token_worker`].
pub(super) fn first_message(signer: &mut impl Read) -> Result<Option<(Start, Secret)>, Error> {
    let Some((message, _)) = frame::read::<ToWorker>(signer).map_err(Error::Connection)? else {
        return Ok(None);
    };
    let Some(Request::Start(start)) = message.request else { return Ok(None) };
    let bytes = usize::try_from(start.pin_bytes).unwrap_or(usize::MAX);
    if bytes > PIN_BYTES_MAX {
        return Err(Error::Connection(frame::Error::TooLarge { bytes, limit: PIN_BYTES_MAX }));
    }
    let mut read = Ok(());
    let pin = Secret::filled(bytes, |pin| {
        read = signer.read_exact(pin);
        Some(())
    })?;
    read.map_err(|source| Error::Process { action: "read a PIN", source })?;
    Ok(pin.map(|pin| (start, pin)))
}

/// The next keeper starts another worker for the token, and two of them there must not be: sessions are counted. False if
/// the keeper, which made our socket, has ended already. After the change of privileges, with which the kernel forgets this.
fn ends_with_its_keeper(socket: &OwnedFd) -> Result<bool, Error> {
    let failed =
        |errno: rustix::io::Errno| Error::Process { action: "end with the keeper", source: errno.into() };
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL)).map_err(failed)?;
    let keeper = rustix::net::sockopt::socket_peercred(socket).map_err(failed)?.pid;
    Ok(rustix::process::getppid() == Some(keeper))
}

/// A PIN was refused: who started this one anew would be asked for it again. So it stays, and does nothing.
fn wait_for_end(signer: &mut UnixStream) {
    let mut rest = [0; 512];
    while matches!(signer.read(&mut rest), Ok(1..)) {}
}
