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
use toml::Spanned;

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

/// What the file says.
pub(super) struct Configured {
    pub(super) tokens: Vec<Settings>,
    /// Entries that name a token, and are wrong: nobody else's business.
    pub(super) wrong: Vec<Wrong>,
}

/// A token that cannot be used.
pub(super) struct Wrong {
    pub(super) name: TokenName,
    pub(super) error: Error,
}

/// Which line, and what is wrong with it.
#[derive(Debug, thiserror::Error)]
#[error("line {line}: {rule}")]
pub(super) struct Broken {
    line: usize,
    rule: Rule,
}

/// What the file breaks.
#[derive(Debug, thiserror::Error)]
pub(super) enum Rule {
    #[error("{0}")]
    Syntax(String),
    #[error("it is not UTF-8")]
    NotText,
    #[error("this entry has no name (name = \"...\")")]
    Nameless,
    #[error("{0}")]
    Name(String),
    #[error("a second token has the name {0}")]
    Twice(String),
    #[error("this is token {0}; the limit is {TOKENS_MAX}")]
    TooMany(usize),
    #[error("{0}")]
    Entry(&'static str),
    #[error("pin_file {path} is not there, or is empty", path = .0.display())]
    NoPin(PathBuf),
}

impl Rule {
    const fn at(self, line: usize) -> Broken {
        Broken { line, rule: self }
    }
}

fn one_line(error: &toml::de::Error) -> String {
    error.message().replace(char::is_control, " ")
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    token: Vec<Spanned<toml::Table>>,
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

/// The tokens that the directory of the root key names; none without the file. What is wrong with the file as a whole, or with
/// an entry that does not say of which token it is, is an error; what is wrong with a token is said of that token.
///
/// # Errors
/// [`Error::Tokens`], [`Error::NotPrivate`], [`Error::File`], [`Error::Damaged`].
pub(super) fn read(directory: &Path) -> Result<Configured, Error> {
    let path = directory.join(TOKENS_FILE);
    let mut configured = Configured { tokens: Vec::new(), wrong: Vec::new() };
    let Some(bytes) = files::read_private(&path, FILE_BYTES_MAX)? else { return Ok(configured) };
    let wrong = |broken: Broken| Error::Tokens { path: path.clone(), source: Box::new(broken) };
    let named = named(&bytes).map_err(wrong)?;
    files::check_private_directory(directory)?;
    for Named { name, line, table } in named {
        let entry = entry(table).map_err(|rule| wrong(rule.at(line)));
        match entry.and_then(|entry| complete(directory, name.clone(), entry, |rule| wrong(rule.at(line)))) {
            Ok(settings) => configured.tokens.push(settings),
            Err(error) => configured.wrong.push(Wrong { name, error }),
        }
    }
    Ok(configured)
}

/// An entry, of which only the name is known.
pub(super) struct Named {
    pub(super) name: TokenName,
    /// Of the file.
    line: usize,
    pub(super) table: toml::Table,
}

pub(super) fn named(bytes: &[u8]) -> Result<Vec<Named>, Broken> {
    let text =
        core::str::from_utf8(bytes).map_err(|error| Rule::NotText.at(line_of(bytes, error.valid_up_to())))?;
    let file: File = toml::from_str(text).map_err(|error| {
        let begin = error.span().map_or(0, |span| span.start);
        Rule::Syntax(one_line(&error)).at(line_of(bytes, begin))
    })?;
    let mut all: Vec<Named> = Vec::new();
    for (index, entry) in file.token.into_iter().enumerate() {
        let line = line_of(bytes, entry.span().start);
        let table = entry.into_inner();
        if index >= TOKENS_MAX {
            return Err(Rule::TooMany(index.saturating_add(1)).at(line));
        }
        let name = table.get("name").and_then(toml::Value::as_str).ok_or_else(|| Rule::Nameless.at(line))?;
        let name = TokenName::parse(name).map_err(|fault| Rule::Name(fault.message).at(line))?;
        if all.iter().any(|other| other.name == name) {
            return Err(Rule::Twice(name.to_string()).at(line));
        }
        all.push(Named { name, line, table });
    }
    Ok(all)
}

/// From 1.
fn line_of(bytes: &[u8], place: usize) -> usize {
    bytes.iter().take(place).filter(|byte| **byte == b'\n').count().saturating_add(1)
}

pub(super) fn entry(table: toml::Table) -> Result<Entry, Rule> {
    let entry: Entry = table.try_into().map_err(|error| Rule::Syntax(one_line(&error)))?;
    broken_rule(&entry).map_or(Ok(entry), |rule| Err(Rule::Entry(rule)))
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

fn complete(
    directory: &Path,
    name: TokenName,
    entry: Entry,
    wrong: impl Fn(Rule) -> Error,
) -> Result<Settings, Error> {
    let path = directory.join(&entry.pin_file);
    let missing = || wrong(Rule::NoPin(path.clone()));
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
        assert!(read(tempfile::tempdir().unwrap().path()).unwrap().tokens.is_empty());
        let folder = folder(GOOD, "1234\n");
        let configured = read(folder.path()).unwrap();
        let [token] = configured.tokens.as_slice() else { panic!("one token") };
        assert_eq!(token.pin.expose(), b"1234");
        assert_eq!((token.sessions_max, token.deadline.as_secs()), (4, 10));
    }

    fn message(error: &Error) -> String {
        sealwright_proto::status::Fault::from(error).message
    }

    /// A second token, which is right.
    const OTHER: &str =
        "\n[[token]]\nname = \"hsm2\"\nmodule = \"/usr/lib/y.so\"\nserial = \"1\"\npin_file = \"hsm1.pin\"\n";

    /// The one token that is wrong, of two.
    fn wrong(toml: &str, pin: &str) -> (tempfile::TempDir, String) {
        let folder = folder(&format!("{toml}{OTHER}"), pin);
        let configured = read(folder.path()).unwrap();
        let [wrong] = configured.wrong.as_slice() else { panic!("{toml}") };
        assert_eq!(wrong.name.as_str(), "hsm1");
        (folder, message(&wrong.error))
    }

    #[test]
    fn what_is_wrong_with_a_token_is_said_of_that_token_by_file_and_line_and_the_others_are_used() {
        for (extra, said) in [
            ("sessions_max = 0\n", "sessions_max"),
            ("sessions_max = 65\n", "sessions_max"),
            ("sessions_max = \"many\"\n", "many"),
            ("deadline_ms = 30001\n", "deadline_ms"),
            ("paths = [\"here\"]\n", "absolute"),
            ("pin = \"1234\"\n", "unknown field"),
            ("environment = { LD_PRELOAD = \"/x.so\" }\n", "LD_"),
        ] {
            let (folder, message) = wrong(&format!("# tokens\n\n{GOOD}{extra}"), "1234");
            assert!(message.contains(said) && message.contains("tokens.toml"), "{extra}: {message}");
            assert!(message.contains("line 3: "), "{extra}: {message}");
            let tokens = read(folder.path()).unwrap().tokens;
            assert_eq!(tokens.iter().map(|token| token.name.as_str()).collect::<Vec<_>>(), ["hsm2"]);
        }
        wrong(&GOOD.replace("label", "serial").replace("corpus", ""), "1234");
        wrong(&GOOD.replace("/usr", "usr"), "1234");
        wrong(&GOOD.replace("module", "modul"), "1234");
        let (_folder, message) = wrong(&GOOD.replace("hsm1.pin", "none.pin"), "1234");
        assert!(message.contains("none.pin") && message.contains("line 1: "), "{message}");
        let empty = read(folder(GOOD, "\n").path()).unwrap();
        assert!(empty.tokens.is_empty() && empty.wrong.len() == 1, "an empty PIN");
    }

    /// Nobody could say whose keys such an entry is about.
    #[test]
    fn what_is_wrong_with_the_file_is_refused_by_file_and_line() {
        let nameless = GOOD.replace("name = \"hsm1\"\n", "");
        let many: String =
            (0..=TOKENS_MAX).map(|number| GOOD.replace("hsm1\"", &format!("t{number}\""))).collect();
        for (text, line, said) in [
            (format!("{GOOD}{GOOD}"), 6, "hsm1"),
            (format!("{GOOD}{nameless}"), 6, "no name"),
            (GOOD.replace("hsm1\"", "h s m\""), 1, "h s m"),
            (format!("{GOOD}deadline_ms = \n"), 6, ""),
            (format!("{GOOD}[token2]\n"), 6, "token2"),
            (many, 5 * TOKENS_MAX + 1, "17"),
        ] {
            let error = read(folder(&text, "1234").path()).err().unwrap();
            let message = message(&error);
            assert!(message.contains(&format!("line {line}: ")), "{message}");
            assert!(message.contains(said) && message.contains("tokens.toml"), "{message}");
        }
    }

    #[test]
    fn what_others_can_read_is_refused() {
        let opened = |name: &str| {
            let folder = folder(GOOD, "1234");
            let mode = std::fs::Permissions::from_mode(0o640);
            std::fs::set_permissions(folder.path().join(name), mode).unwrap();
            read(folder.path())
        };
        assert!(matches!(opened(TOKENS_FILE), Err(Error::NotPrivate { .. })));
        let configured = opened("hsm1.pin").unwrap();
        assert!(configured.tokens.is_empty());
        assert!(matches!(configured.wrong[0].error, Error::NotPrivate { .. }));
    }

    #[test]
    fn a_pin_that_is_written_anew_is_another_state() {
        let folder = folder(GOOD, "1234");
        let state = |folder: &tempfile::TempDir| read(folder.path()).unwrap().tokens.pop().unwrap().state;
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
