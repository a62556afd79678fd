//! Where things lie. The only file that reads the environment.

use std::path::{Path, PathBuf};

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
