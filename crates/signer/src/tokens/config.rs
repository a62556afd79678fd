//! `tokens.toml`, beside the root key: which tokens this installation has, and how they are spoken to. Whoever can write
//! it can load code into a worker, so it must be as private as the root key.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use sealwright_crypto::algorithm::HashAlgorithm;
use sealwright_crypto::digest::{Digest, Hasher};
use sealwright_proto::names::TokenName;
use serde::Deserialize;

use crate::error::Error;
use crate::files;
use crate::secret::Secret;

/// Its name.
pub(crate) const TOKENS_FILE: &str = "tokens.toml";

/// Bytes of it, at most.
const FILE_BYTES_MAX: u64 = 64 << 10;
/// Bytes of a PIN's file: PINs have at most 255 (CK_TOKEN_INFO, `ulMaxPinLen`), and a line end.
const PIN_FILE_BYTES_MAX: u64 = 1024;
/// Tokens of one installation: each has a process and threads of its own.
const TOKENS_MAX: usize = 16;
/// Sessions of one token at once; each is a thread here and one in the worker.
const SESSIONS_MAX: u32 = 64;
/// Without `sessions_max`.
const SESSIONS_DEFAULT: u32 = 4;
/// Milliseconds for one key operation. Front gives up a signer that answers nobody for 40 s.
const DEADLINE_MS: std::ops::RangeInclusive<u64> = 100..=30_000;
/// Without `deadline_ms`.
const DEADLINE_MS_DEFAULT: u64 = 10_000;
/// Paths and variables of one token.
const EXTRAS_MAX: usize = 32;

/// One token, as it is to be used.
pub(crate) struct Settings {
    pub(crate) name: TokenName,
    pub(crate) module: PathBuf,
    /// Empty: any.
    pub(crate) label: String,
    /// Empty: any.
    pub(crate) serial: String,
    pub(crate) pin: Secret,
    pub(crate) sessions_max: u32,
    /// For one key operation.
    pub(crate) deadline: Duration,
    /// What the module may read and write beside libraries.
    pub(crate) paths: Vec<PathBuf>,
    pub(crate) network: bool,
    /// Of its worker.
    pub(crate) environment: BTreeMap<String, String>,
    /// Of this entry and the identity of its PIN's file: after a refusal the same is not tried again.
    pub(crate) state: Digest,
}

/// Why it cannot be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum Wrong {
    #[error("{}", one_line(.0))]
    Syntax(#[from] toml::de::Error),
    #[error("it is not UTF-8")]
    NotText,
    #[error("{0}")]
    Name(String),
    #[error("two tokens have the name {0}")]
    Twice(String),
    #[error("it has {0} tokens; the limit is {TOKENS_MAX}")]
    TooMany(usize),
    #[error("token {token}: {rule}")]
    Rule { token: String, rule: &'static str },
}

fn one_line(error: &toml::de::Error) -> String {
    error.message().replace(char::is_control, " ")
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    token: Vec<Entry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Entry {
    pub(super) name: String,
    pub(super) module: PathBuf,
    #[serde(default)]
    pub(super) label: String,
    #[serde(default)]
    pub(super) serial: String,
    pub(super) pin_file: PathBuf,
    pub(super) sessions_max: Option<u32>,
    pub(super) deadline_ms: Option<u64>,
    #[serde(default)]
    pub(super) paths: Vec<PathBuf>,
    #[serde(default)]
    pub(super) network: bool,
    #[serde(default)]
    pub(super) environment: BTreeMap<String, String>,
}

/// The tokens that the directory of the root key names; none without the file.
///
/// # Errors
/// [`Error::Tokens`], [`Error::NotPrivate`], [`Error::File`], [`Error::Damaged`], [`Error::Confinement`].
pub(crate) fn read(directory: &Path) -> Result<Vec<Settings>, Error> {
    let path = directory.join(TOKENS_FILE);
    let Some(bytes) = files::read_private(&path, FILE_BYTES_MAX)? else { return Ok(Vec::new()) };
    let wrong = |wrong: Wrong| Error::Tokens { path: path.clone(), source: Box::new(wrong) };
    let entries = parse(&bytes).map_err(wrong)?;
    files::check_private_directory(directory)?;
    entries.into_iter().map(|(name, entry)| complete(directory, name, entry)).collect()
}

pub(super) fn parse(bytes: &[u8]) -> Result<Vec<(TokenName, Entry)>, Wrong> {
    let text = core::str::from_utf8(bytes).map_err(|_| Wrong::NotText)?;
    let file: File = toml::from_str(text)?;
    if file.token.len() > TOKENS_MAX {
        return Err(Wrong::TooMany(file.token.len()));
    }
    let mut entries: Vec<(TokenName, Entry)> = Vec::new();
    for entry in file.token {
        let name = TokenName::parse(&entry.name).map_err(|fault| Wrong::Name(fault.message))?;
        if entries.iter().any(|(other, _)| *other == name) {
            return Err(Wrong::Twice(entry.name));
        }
        if let Some(rule) = broken_rule(&entry) {
            return Err(Wrong::Rule { token: entry.name, rule });
        }
        entries.push((name, entry));
    }
    Ok(entries)
}

fn broken_rule(entry: &Entry) -> Option<&'static str> {
    let odd_variable = |name: &String, value: &String| {
        name.is_empty() || name.contains(['=', '\0']) || name.starts_with("LD_") || value.contains('\0')
    };
    let rules = [
        (!entry.module.is_absolute(), "module is not an absolute path"),
        (
            entry.label.is_empty() && entry.serial.is_empty(),
            "neither label nor serial says which token it is",
        ),
        (entry.pin_file.as_os_str().is_empty(), "pin_file is empty"),
        (
            entry.sessions_max.is_some_and(|sessions| !(1..=SESSIONS_MAX).contains(&sessions)),
            "sessions_max is not 1 to 64",
        ),
        (
            entry.deadline_ms.is_some_and(|deadline| !DEADLINE_MS.contains(&deadline)),
            "deadline_ms is not 100 to 30000",
        ),
        (entry.paths.iter().any(|path| !path.is_absolute()), "one of paths is not absolute"),
        (
            entry.paths.len() > EXTRAS_MAX || entry.environment.len() > EXTRAS_MAX,
            "it has more than 32 paths, or variables of the environment",
        ),
        (
            entry.environment.iter().any(|(name, value)| odd_variable(name, value)),
            "environment has a name that cannot be one, or that loads code (LD_...)",
        ),
    ];
    rules.into_iter().find(|(broken, _)| *broken).map(|(_, rule)| rule)
}

fn complete(directory: &Path, name: TokenName, entry: Entry) -> Result<Settings, Error> {
    let path = directory.join(&entry.pin_file);
    let missing = || Error::Tokens {
        path: directory.join(TOKENS_FILE),
        source: Box::new(Wrong::Rule {
            token: name.as_str().to_owned(),
            rule: "its pin_file is not there, or is empty",
        }),
    };
    let pin = files::read_secret(&path, PIN_FILE_BYTES_MAX)?.ok_or_else(missing)?;
    let end =
        pin.expose().iter().position(|byte| matches!(byte, b'\n' | b'\r')).unwrap_or(pin.expose().len());
    let pin = pin.part(0..end).filter(|_| end > 0).ok_or_else(missing)?;
    let state = state_of(&entry, &path)?;
    Ok(Settings {
        name,
        module: entry.module,
        label: entry.label,
        serial: entry.serial,
        pin,
        sessions_max: entry.sessions_max.unwrap_or(SESSIONS_DEFAULT),
        deadline: Duration::from_millis(entry.deadline_ms.unwrap_or(DEADLINE_MS_DEFAULT)),
        paths: entry.paths,
        network: entry.network,
        environment: entry.environment,
        state,
    })
}

/// Which token is tried with which file. No hash of the PIN: it has few digits, and could be found from it.
fn state_of(entry: &Entry, pin_file: &Path) -> Result<Digest, Error> {
    let metadata = std::fs::metadata(pin_file).map_err(files::failed("look at", pin_file))?;
    let mut hasher = Hasher::new(HashAlgorithm::Sha256);
    let module = entry.module.to_string_lossy();
    for text in [entry.name.as_str(), &module, &entry.label, &entry.serial, &pin_file.to_string_lossy()] {
        hasher.update(text.as_bytes());
        hasher.update(&[0]);
    }
    for (name, value) in &entry.environment {
        hasher.update(format!("{name}={value}\0").as_bytes());
    }
    for number in [metadata.dev(), metadata.ino(), metadata.size()] {
        hasher.update(&number.to_be_bytes());
    }
    for time in [metadata.mtime(), metadata.mtime_nsec(), metadata.ctime(), metadata.ctime_nsec()] {
        hasher.update(&time.to_be_bytes());
    }
    Ok(hasher.finish())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    const GOOD: &str = "[[token]]\nname = \"hsm1\"\nmodule = \"/usr/lib/x.so\"\nlabel = \"corpus\"\npin_file = \"hsm1.pin\"\n";

    fn folder(toml: &str, pin: &str) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in [(TOKENS_FILE, toml), ("hsm1.pin", pin)] {
            std::fs::write(folder.path().join(name), text).unwrap();
            let mode = std::fs::Permissions::from_mode(0o600);
            std::fs::set_permissions(folder.path().join(name), mode).unwrap();
        }
        folder
    }

    #[test]
    fn without_the_file_there_are_no_tokens_and_with_it_what_it_says() {
        assert!(read(tempfile::tempdir().unwrap().path()).unwrap().is_empty());
        let folder = folder(GOOD, "1234\n");
        let settings = read(folder.path()).unwrap();
        let [token] = settings.as_slice() else { panic!("one token") };
        assert_eq!(token.pin.expose(), b"1234");
        assert_eq!((token.sessions_max, token.deadline.as_secs()), (4, 10));
    }

    #[test]
    fn what_breaks_a_rule_is_refused_by_name() {
        for (extra, said) in [
            ("sessions_max = 0\n", "sessions_max"),
            ("sessions_max = 65\n", "sessions_max"),
            ("deadline_ms = 30001\n", "deadline_ms"),
            ("paths = [\"here\"]\n", "absolute"),
            ("pin = \"1234\"\n", "unknown field"),
            ("environment = { LD_PRELOAD = \"/x.so\" }\n", "LD_"),
            (GOOD, "hsm1"),
        ] {
            let folder = folder(&format!("{GOOD}{extra}"), "1234");
            let error = read(folder.path()).err().unwrap();
            let fault = sealwright_proto::status::Fault::from(&error);
            assert!(fault.message.contains(said), "{extra}: {fault}");
        }
        let no_token = GOOD.replace("label", "serial").replace("corpus", "");
        assert!(read(folder(&no_token, "1234").path()).is_err());
        assert!(read(folder(&GOOD.replace("/usr", "usr"), "1234").path()).is_err());
        assert!(read(folder(GOOD, "\n").path()).is_err(), "an empty PIN");
    }

    #[test]
    fn what_others_can_read_is_refused() {
        for name in [TOKENS_FILE, "hsm1.pin"] {
            let folder = folder(GOOD, "1234");
            let mode = std::fs::Permissions::from_mode(0o640);
            std::fs::set_permissions(folder.path().join(name), mode).unwrap();
            assert!(matches!(read(folder.path()), Err(Error::NotPrivate { .. })), "{name}");
        }
    }

    #[test]
    fn a_pin_that_is_written_anew_is_another_state() {
        let folder = folder(GOOD, "1234");
        let state = |folder: &tempfile::TempDir| read(folder.path()).unwrap().pop().unwrap().state;
        let before = state(&folder);
        assert_eq!(state(&folder), before);
        let path = folder.path().join("hsm1.pin");
        let written = std::fs::metadata(&path).unwrap().modified().unwrap();
        std::fs::write(&path, "4321").unwrap();
        let file = std::fs::File::options().write(true).open(&path).unwrap();
        file.set_modified(written + Duration::from_secs(1)).unwrap();
        assert_ne!(state(&folder), before);
    }
}
