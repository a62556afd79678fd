//! sign.conf of a signd, and the folders that it names: what goes into `[obs]` of `server.toml`, and what does not.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use sealwright_client::source::kept;
use sealwright_obs::config::{Allowed, Config, MapEntry};
use sealwright_obs::limits::CONFIG_BYTES_MAX;
use sealwright_proto::names::KeyName;
use toml_edit::{Array, DocumentMut, InlineTable, Item, Table, Value};

use crate::cli::import::report::Report;
use crate::failure::Failure;

/// Bytes of an alias file; more is no name.
const ALIAS_BYTES_MAX: usize = 4 << 10;
/// Files of a folder of aliases or wrapping keys, at most.
const FILES_MAX: usize = 10_000;
/// The client that hosts are said to be, until somebody gives it its own name.
const CLIENT: &str = "obs";

/// What the old service was told.
pub(super) struct Old {
    pub(super) config: Config,
}

impl Old {
    /// # Errors
    /// The file cannot be read, or signd would not take it.
    pub(super) fn read(path: &Path) -> Result<Self, Failure> {
        let failed = |why: String| {
            let what = format!("{}: {why}", path.display());
            Failure::failed(what, "Name the sign.conf of the signd host with --sign-conf FILE.")
        };
        let file = kept::open(path).map_err(|error| failed(error.to_string()))?;
        let bytes = kept::read(&file, CONFIG_BYTES_MAX).map_err(|error| failed(error.to_string()))?;
        let config = Config::parse(&bytes).map_err(|error| failed(error.to_string()))?;
        Ok(Self { config })
    }

    /// Says what has no place, and gives the text for what has.
    pub(super) fn report(&self, report: &mut Report) {
        let config = &self.config;
        for remark in &config.remarks {
            report.ignored(&format!("{} (line {})", remark.key, remark.line), remark.reason);
        }
        if config.phrases.is_none() {
            report.setting("phrases", "there is none: this signd has no keys, and only forwards to another");
        }
        if config.openssl_keys.is_some() {
            report
                .setting("opensslkeys", "keys of the openssl module sign what is no OpenPGP; none is taken");
        }
        if !config.allow_subjects.is_empty() {
            let why = "with TLS the certificate of a client says who it is: make one with sealwright init --client NAME";
            report.setting("allow_subject", why);
        }
        if let Some(folder) = &config.encryption_keys {
            for (name, _) in names_in(folder, "encryptionkeys", report) {
                let why = "a wrapping key; project keys in this form are not served, only those that are encrypted to the user's own key";
                report.setting(&format!("encryptionkeys/{name}"), why);
            }
        }
        let aliases = self.aliases(report);
        let table = self.table(aliases, report);
        report.server_toml(&table.to_string());
    }

    /// Users that are other keys: the map comes first, then the alias of what it says.
    fn aliases(&self, report: &mut Report) -> BTreeMap<String, String> {
        let mut aliases = BTreeMap::new();
        if let Some(folder) = &self.config.aliases {
            for (name, path) in names_in(folder, "aliases", report) {
                let text = kept::read_text(&path, ALIAS_BYTES_MAX);
                let key = match &text {
                    Ok(text) => text.lines().next().unwrap_or_default().trim(),
                    Err(error) => {
                        report.setting(&format!("aliases/{name}"), &error.to_string());
                        continue;
                    }
                };
                if name.starts_with(':') {
                    report.setting(&format!("aliases/{name}"), "it names a wrapping key, not a user");
                } else if let Err(fault) = KeyName::parse(key) {
                    report.setting(&format!("aliases/{name}"), &fault.message);
                } else {
                    aliases.insert(name, key.to_owned());
                }
            }
        }
        let mut mapped = BTreeMap::new();
        for MapEntry { hash, from, to } in &self.config.map {
            let to = if to.is_empty() { self.config.user.as_deref().unwrap_or_default() } else { to };
            let key = aliases.get(to).map_or(to, String::as_str);
            if hash.is_some() {
                report.setting(&format!("map {from}"), "a key for one hash alone: a user is one key here");
            } else if let Err(fault) = KeyName::parse(key) {
                report.setting(&format!("map {from}"), &fault.message);
            } else {
                // signd takes the first that fits.
                mapped.entry(from.clone()).or_insert_with(|| key.to_owned());
            }
        }
        aliases.extend(mapped);
        aliases
    }

    fn table(&self, aliases: BTreeMap<String, String>, report: &mut Report) -> DocumentMut {
        let mut obs = Table::new();
        let (port, _) = self.config.listener();
        obs.insert("listen", value(array([format!("0.0.0.0:{port}").into()])));
        let mut allow = Array::new();
        for allowed in &self.config.allow {
            match allowed {
                Allowed::Network { address, prefix_bits } => {
                    if *prefix_bits == 0 {
                        let why = "it allows every host there is: name those that may ask";
                        report.setting(&format!("allow {address}/0"), why);
                        continue;
                    }
                    let bits = if address.is_ipv4() { 32 } else { 128 };
                    let from = if *prefix_bits == bits {
                        address.to_string()
                    } else {
                        network(*address, *prefix_bits)
                    };
                    let mut line = InlineTable::new();
                    line.insert("from", from.into());
                    line.insert("client", CLIENT.into());
                    allow.push(Value::InlineTable(line));
                }
                Allowed::Host(name) => {
                    let why =
                        "whoever serves the reverse zone of an address decides its name: name the address";
                    report.setting(&format!("allow {name}"), why);
                }
            }
        }
        obs.insert("allow", value(allow));
        if !self.config.allow_unprivileged_ports {
            obs.insert("reserved_ports", value(true));
        }
        if let Some(user) = &self.config.user {
            obs.insert("user", value(user.as_str()));
        }
        if !aliases.is_empty() {
            let pairs = aliases.into_iter().map(|(user, key)| (user, Value::from(key)));
            obs.insert("aliases", value(InlineTable::from_iter(pairs)));
        }
        let mut document = DocumentMut::new();
        document.insert("obs", Item::Table(obs));
        document
    }
}

fn value(of: impl Into<Value>) -> Item {
    Item::Value(of.into())
}

fn array<const N: usize>(of: [Value; N]) -> Array {
    of.into_iter().collect()
}

/// With the bits behind the prefix cleared: our list refuses an entry that has some.
fn network(address: IpAddr, prefix_bits: u8) -> String {
    let address = match address {
        IpAddr::V4(address) => {
            let free = 32_u32.saturating_sub(prefix_bits.into());
            IpAddr::V4((u32::from(address) & u32::MAX.checked_shl(free).unwrap_or_default()).into())
        }
        IpAddr::V6(address) => {
            let free = 128_u32.saturating_sub(prefix_bits.into());
            IpAddr::V6((u128::from(address) & u128::MAX.checked_shl(free).unwrap_or_default()).into())
        }
    };
    format!("{address}/{prefix_bits}")
}

/// Files of a folder, in order of their names; a folder that cannot be read is reported.
fn names_in(folder: &str, setting: &'static str, report: &mut Report) -> Vec<(String, PathBuf)> {
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) => {
            report.setting(setting, &format!("{folder}: {error}"));
            return Vec::new();
        }
    };
    let files = entries.take(FILES_MAX).flatten();
    let files = files.map(|entry| (entry.file_name().to_string_lossy().into_owned(), entry.path()));
    let mut files: Vec<_> = files.filter(|(name, _)| !name.starts_with('.')).collect();
    files.sort();
    files
}
