//! Who hears that the signer works: the supervisor, by standard output, or the service manager whose unit it is. Either
//! kills one that is silent.

use std::time::Duration;

use sealwright_signer::Watcher;

use super::notify;
use crate::config as environment;

/// `watched` are the seconds of a supervisor. Opened before the sandbox.
///
/// # Errors
/// What the system says.
pub(crate) fn watcher(watched: Option<u32>) -> std::io::Result<Option<Watcher>> {
    if let Some(seconds) = watched {
        let heartbeat = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdout(), 3)?;
        let silence_max = Duration::from_secs(u64::from(seconds));
        return Ok(Some(Watcher { heartbeat, silence_max }));
    }
    let (Some(silence_max), Some(socket)) = (environment::watchdog(), environment::notify_socket()) else {
        return Ok(None);
    };
    Ok(Some(Watcher { heartbeat: notify::connect(&socket)?, silence_max }))
}
