//! Where things lie. The only file that reads the environment.

use std::path::{Path, PathBuf};
use std::time::Duration;

/// Directories of the embedded default.
#[derive(Clone, Debug)]
pub(crate) struct Places {
    /// The SQLite store: keys (sealed), intents, log. `SEALWRIGHT_HOME/store`, or
    /// `$XDG_DATA_HOME/sealwright/store` (default `~/.local/share/sealwright/store`).
    pub(crate) store: PathBuf,
    /// The root key, the data key and the floors, for the signer process alone. `SEALWRIGHT_HOME/root`, or
    /// `$XDG_CONFIG_HOME/sealwright/root` (default `~/.config/sealwright/root`).
    pub(crate) root: PathBuf,
    /// Revocation certificates made at key creation, for a safe place. Beside the store.
    pub(crate) revocations: PathBuf,
    /// Undo records of files that are written in place. `SEALWRIGHT_HOME/state`, or `$XDG_STATE_HOME/sealwright`
    /// (default `~/.local/state/sealwright`).
    pub(crate) state: PathBuf,
}

impl Places {
    /// Everything below one directory.
    pub(crate) fn under(home: &Path) -> Self {
        Self {
            store: home.join("store"),
            root: home.join("root"),
            revocations: home.join("revocations"),
            state: home.join("state"),
        }
    }

    /// From `SEALWRIGHT_HOME`, else the XDG directories.
    ///
    /// # Errors
    /// [`NoHome`] if neither is set, nor `HOME`.
    pub(crate) fn from_environment() -> Result<Self, NoHome> {
        if let Some(home) = variable("SEALWRIGHT_HOME") {
            let home = std::path::absolute(&home).unwrap_or(home);
            return Ok(Self::under(&home));
        }
        let home = variable("HOME");
        let base = |xdg: &str, below_home: &str| {
            variable(xdg)
                .filter(|path| path.is_absolute())
                .or_else(|| home.as_ref().map(|home| home.join(below_home)))
                .map(|base| base.join("sealwright"))
                .ok_or(NoHome)
        };
        let data = base("XDG_DATA_HOME", ".local/share")?;
        let config = base("XDG_CONFIG_HOME", ".config")?;
        Ok(Self {
            store: data.join("store"),
            root: config.join("root"),
            revocations: data.join("revocations"),
            state: base("XDG_STATE_HOME", ".local/state")?,
        })
    }
}

/// What to do about [`NoHome`].
pub(crate) const NO_HOME_ADVICE: &str = "Set SEALWRIGHT_HOME to a directory that is yours.";

/// Where a client's configuration is looked for when none is named, first come first used. With `SEALWRIGHT_HOME`
/// set, `SEALWRIGHT_HOME/client.toml` alone; else `$XDG_CONFIG_HOME/sealwright/client.toml` (default
/// `~/.config/sealwright/client.toml`) and `/etc/sealwright/client.toml`.
pub(crate) fn client_files() -> Vec<PathBuf> {
    const NAME: &str = "client.toml";
    if let Some(home) = variable("SEALWRIGHT_HOME") {
        return vec![home.join(NAME)];
    }
    let of_user = config_directory().ok().map(|config| config.join(NAME));
    of_user.into_iter().chain([Path::new(SYSTEM_DIRECTORY).join(NAME)]).collect()
}

/// Where a server of the whole machine is configured.
pub(crate) const SYSTEM_DIRECTORY: &str = "/etc/sealwright";

/// `$XDG_CONFIG_HOME/sealwright`, default `~/.config/sealwright`.
///
/// # Errors
/// [`NoHome`] if neither is set.
pub(crate) fn config_directory() -> Result<PathBuf, NoHome> {
    let home = || variable("HOME").map(|home| home.join(".config"));
    let base = variable("XDG_CONFIG_HOME").filter(|path| path.is_absolute()).or_else(home);
    base.map(|base| base.join("sealwright")).ok_or(NoHome)
}

/// Directory of a server that is not named: of the whole machine for root, else of the user.
///
/// # Errors
/// [`NoHome`].
pub(crate) fn server_directory() -> Result<PathBuf, NoHome> {
    if rustix::process::geteuid().is_root() {
        return Ok(SYSTEM_DIRECTORY.into());
    }
    config_directory().map(|config| config.join("server"))
}

/// The sockets that a service manager passed to this very process: how many, and their names (sd_listen_fds(3)).
pub(crate) fn listen_fds() -> Option<(i32, String)> {
    let is_ours = text_variable("LISTEN_PID")?.parse() == Ok(std::process::id());
    let count = text_variable("LISTEN_FDS")?.parse().ok().filter(|count| *count > 0)?;
    is_ours.then(|| (count, text_variable("LISTEN_FDNAMES").unwrap_or_default()))
}

/// `NOTIFY_SOCKET`: where a service manager hears of our state (sd_notify(3)).
pub(crate) fn notify_socket() -> Option<PathBuf> {
    variable("NOTIFY_SOCKET")
}

/// `WATCHDOG_USEC`: after how long without a word a service manager kills this very process (sd_watchdog_enabled(3)).
pub(crate) fn watchdog() -> Option<Duration> {
    let is_other = text_variable("WATCHDOG_PID").is_some_and(|pid| pid.parse() != Ok(std::process::id()));
    let silence_max = Duration::from_micros(text_variable("WATCHDOG_USEC")?.parse().ok()?);
    (!is_other && !silence_max.is_zero()).then_some(silence_max)
}

/// `SEALWRIGHT_SERVER`: servers, or `embedded`.
pub(crate) fn server() -> Option<String> {
    text_variable("SEALWRIGHT_SERVER")
}

/// `SEALWRIGHT_CLIENT_CONFIG`: the client's configuration.
pub(crate) fn client_config() -> Option<PathBuf> {
    variable("SEALWRIGHT_CLIENT_CONFIG")
}

/// There is no place for the store.
#[derive(Debug, thiserror::Error)]
#[error("neither SEALWRIGHT_HOME nor HOME is set")]
pub(crate) struct NoHome;

/// `SEALWRIGHT_KEY`: the key of `sign` when `--key` is not given.
pub(crate) const KEY_VARIABLE: &str = "SEALWRIGHT_KEY";

/// `SEALWRIGHT_REQUIRE_SANDBOX`: if set (and not empty), nothing is signed on a kernel without Landlock.
pub(crate) fn require_sandbox() -> bool {
    variable("SEALWRIGHT_REQUIRE_SANDBOX").is_some()
}

/// What of our environment the signer gets: filter and format of its log. Nothing else that somebody has put there
/// reaches the process with the keys; only test builds let the false clock of faketime through.
pub(crate) fn signer_environment() -> Vec<(&'static str, std::ffi::OsString)> {
    const LOG: &[&str] = &["SEALWRIGHT_LOG", "SEALWRIGHT_LOG_FORMAT"];
    const CLOCK: &[&str] = &["LD_PRELOAD", "FAKETIME", "FAKETIME_SHARED"];
    let passed = if cfg!(debug_assertions) { [LOG, CLOCK].concat() } else { LOG.to_vec() };
    passed.into_iter().filter_map(|name| variable(name).map(|value| (name, value.into_os_string()))).collect()
}

#[expect(clippy::disallowed_methods, reason = "this is the file that reads the environment")]
fn variable(name: &str) -> Option<PathBuf> {
    std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from)
}

/// What is logged to standard error, `SEALWRIGHT_LOG`.
pub(crate) fn log_filter() -> Option<String> {
    text_variable("SEALWRIGHT_LOG")
}

/// How it looks, `SEALWRIGHT_LOG_FORMAT`.
pub(crate) fn log_format() -> Option<String> {
    text_variable("SEALWRIGHT_LOG_FORMAT")
}

/// The trace that this run is a part of (W3C traceparent): `SEALWRIGHT_TRACEPARENT`, else `TRACEPARENT`.
pub(crate) fn traceparent() -> Option<String> {
    text_variable("SEALWRIGHT_TRACEPARENT").or_else(|| text_variable("TRACEPARENT"))
}

/// What is no text is as if it were not set.
fn text_variable(name: &str) -> Option<String> {
    variable(name).and_then(|value| value.into_os_string().into_string().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_root_key_lies_in_a_folder_of_its_own_beside_the_store() {
        let places = Places::under(Path::new("/srv/sealwright"));
        assert_eq!(places.store.parent(), places.root.parent());
        assert!(!places.root.starts_with(&places.store));
        assert!(!places.store.starts_with(&places.root));
    }
}
