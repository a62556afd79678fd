//! Where requests go: to a server that was named or configured, else to the embedded default. A configuration that is
//! there and wrong is a failure, never a reason to go elsewhere.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use sealwright_client::connection::credentials::Credentials;
use sealwright_client::connection::remote::{Address, Remote};
use sealwright_client::connection::{Connection, trace};
use sealwright_client::source::kept;
use serde::Deserialize;

use crate::config::{self, NO_HOME_ADVICE, Places};
use crate::embedded::Embedded;
use crate::failure::{Exit, Failure};
use crate::mistake;

/// The word for the embedded default in the place of a URL.
const EMBEDDED: &str = "embedded";
/// Longest client.toml in bytes.
const FILE_BYTES_MAX: usize = 64 << 10;

/// Options of every command that needs keys.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct ServerArgs {
    /// Server to ask, as https://HOST:PORT (several with commas), or `embedded` for the keys of this user. Default:
    /// SEALWRIGHT_SERVER, else what client.toml says, else embedded.
    #[arg(long, value_name = "URL", global = true)]
    server: Option<String>,
    /// Configuration of the client: server, certificates. Default: SEALWRIGHT_CLIENT_CONFIG, else
    /// ~/.config/sealwright/client.toml, else /etc/sealwright/client.toml.
    #[arg(long, value_name = "FILE", global = true)]
    config: Option<PathBuf>,
}

/// client.toml.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ClientFile {
    server: Option<Servers>,
    ca: PathBuf,
    certificate: PathBuf,
    key: PathBuf,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Servers {
    One(String),
    Several(Vec<String>),
}

/// Where requests go.
#[derive(Debug)]
pub(crate) enum Way {
    /// To a front in this process.
    Embedded(Places),
    /// To servers, with these credentials.
    Server(Vec<Address>, Credentials),
}

/// An open way.
pub(crate) enum Opened {
    /// Front and signer run.
    Embedded(Embedded),
    /// Nothing is connected before the first call.
    Server(Connection),
}

impl ServerArgs {
    /// Whether the command line names a server or a configuration of the client.
    pub(crate) const fn is_given(&self) -> bool {
        self.server.is_some() || self.config.is_some()
    }

    /// What was named, else what is configured, else embedded.
    ///
    /// # Errors
    /// A configuration that cannot be read or is wrong; a server without a configuration.
    pub(crate) fn choose(&self) -> Result<Way, Failure> {
        let named = self.server.clone().or_else(config::server);
        if named.as_deref() == Some(EMBEDDED) {
            return embedded();
        }
        let Some(path) = self.file()? else {
            return match named {
                None => embedded(),
                Some(url) => Err(no_configuration(&url)),
            };
        };
        let parsed = parse(&path)?;
        let urls = match (named, parsed.server) {
            (Some(named), _) => named.split(',').map(|url| url.trim().to_owned()).collect(),
            (None, Some(Servers::One(url))) if url == EMBEDDED => return embedded(),
            (None, Some(Servers::One(url))) => vec![url],
            (None, Some(Servers::Several(urls))) => urls,
            (None, None) => {
                return Err(Failure::usage(
                    format!("{} names no server", path.display()),
                    "Write server = \"https://HOST:PORT\" into it, or use --server URL.",
                ));
            }
        };
        let addresses: Result<Vec<Address>, _> = urls.iter().map(|url| Address::parse(url)).collect();
        let addresses = addresses.map_err(|error| Failure::usage(error.to_string(), error.advice()))?;
        // Relative names are relative to the file that has them.
        let base = path.parent().unwrap_or(Path::new("."));
        let credentials = Credentials {
            ca: base.join(parsed.ca),
            certificate: base.join(parsed.certificate),
            key: base.join(parsed.key),
        };
        Ok(Way::Server(addresses, credentials))
    }

    /// Whether a server, or the embedded default, was named or is configured.
    ///
    /// # Errors
    /// It cannot be told.
    pub(crate) fn is_configured(&self) -> Result<bool, Failure> {
        Ok(self.server.is_some() || config::server().is_some() || self.file()?.is_some())
    }

    /// The configuration that was named, or the first that is there.
    fn file(&self) -> Result<Option<PathBuf>, Failure> {
        if let Some(named) = self.config.clone().or_else(config::client_config) {
            return Ok(Some(named));
        }
        for path in config::client_files() {
            if is_there(&path)? {
                return Ok(Some(path));
            }
        }
        Ok(None)
    }

    /// The words of these arguments.
    pub(crate) fn words(&self) -> Vec<String> {
        let server = self.server.as_ref().map(|server| ["--server".to_owned(), server.clone()]);
        let config = self.config.as_ref().map(|path| ["--config".to_owned(), path.display().to_string()]);
        server.into_iter().chain(config).flatten().collect()
    }
}

/// Whether a client is configured by this file. One in a directory that this user may not enter is skipped on purpose:
/// `/etc/sealwright` of a machine that is a server is closed to all others, and they work with their own keys. A file
/// that is there is used or is a failure, also if it may not be read.
fn is_there(path: &Path) -> Result<bool, Failure> {
    match path.metadata() {
        Ok(_) => Ok(true),
        // HOME=/dev/null is how users without a home are given none.
        Err(error)
            if matches!(
                error.kind(),
                ErrorKind::NotFound | ErrorKind::PermissionDenied | ErrorKind::NotADirectory
            ) =>
        {
            Ok(false)
        }
        Err(error) => Err(unusable(path, &error.to_string())),
    }
}

fn unusable(path: &Path, why: &str) -> Failure {
    let what = format!("the client configuration {}: {why}", path.display());
    Failure {
        exit: Exit::Unreachable,
        ..Failure::failed(what, "See docs/howto/network.md for what is in it.")
    }
}

fn embedded() -> Result<Way, Failure> {
    let places =
        Places::from_environment().map_err(|error| Failure::failed(error.to_string(), NO_HOME_ADVICE))?;
    Ok(Way::Embedded(places))
}

fn no_configuration(url: &str) -> Failure {
    let looked: Vec<String> = config::client_files().iter().map(|path| path.display().to_string()).collect();
    Failure::usage(
        format!("no certificate to show to {url}: there is no {}", looked.join(" and no ")),
        "Ask the operator for a client directory (sealwright init --client NAME), or use --config FILE.",
    )
}

fn parse(path: &Path) -> Result<ClientFile, Failure> {
    let wrong = |why: String| unusable(path, &why);
    let text = kept::read_text(path, FILE_BYTES_MAX).map_err(|error| wrong(error.to_string()))?;
    toml::from_str(&text).map_err(|error| wrong(mistake::of(&text, &error)))
}

impl Way {
    /// Of the embedded default.
    pub(crate) const fn places(&self) -> Option<&Places> {
        match self {
            Self::Embedded(places) => Some(places),
            Self::Server(..) => None,
        }
    }

    /// Whether it is a server that is found without a thread that waits for a name.
    pub(crate) fn is_found_at_once(&self) -> bool {
        match self {
            Self::Embedded(_) => false,
            Self::Server(addresses, _) => addresses.iter().all(Address::is_found_at_once),
        }
    }

    /// The places of the embedded default, if nothing was ever stored there.
    ///
    /// # Errors
    /// It cannot be told: somebody else's directory, a file in the place of one, a disk that does not answer.
    pub(crate) fn nothing_stored(&self) -> Result<Option<&Places>, Failure> {
        let Self::Embedded(places) = self else { return Ok(None) };
        match places.store.try_exists() {
            Ok(there) => Ok(Some(places).filter(|_| !there)),
            Err(error) => Err(Failure::failed(
                format!("cannot look at the store {}: {error}", places.store.display()),
                "Set SEALWRIGHT_HOME to a directory that is yours, or run this as the user whose keys these are.",
            )),
        }
    }

    /// Where undo records go, on this machine in either case; none without a home.
    pub(crate) fn state_directory(&self) -> Option<PathBuf> {
        self.local().map(|places| places.state)
    }

    /// Where revocation certificates go, on this machine in either case.
    pub(crate) fn revocations(&self) -> Option<PathBuf> {
        self.local().map(|places| places.revocations)
    }

    fn local(&self) -> Option<Places> {
        self.places().cloned().or_else(|| Places::from_environment().ok())
    }

    /// Starts front and signer, or reads the credentials.
    ///
    /// # Errors
    /// What [`Embedded::start`] and [`Credentials::load`] say.
    pub(crate) async fn open(self) -> Result<Opened, Failure> {
        let (addresses, credentials) = match self {
            Self::Embedded(places) => return Embedded::start(&places).await.map(Opened::Embedded),
            Self::Server(addresses, credentials) => (addresses, credentials),
        };
        let remote = credentials.load().and_then(|tls| Remote::new(addresses, tls));
        let remote = remote.map_err(|error| {
            let exit = if error.nothing_was_attempted() { Exit::Unreachable } else { Exit::Usage };
            Failure::of(&error, exit)
        })?;
        Ok(Opened::Server(Connection::remote_traced(remote, trace::of_run(config::traceparent().as_deref()))))
    }
}

impl Opened {
    /// What to ask.
    pub(crate) const fn connection(&self) -> &Connection {
        match self {
            Self::Embedded(embedded) => &embedded.connection,
            Self::Server(connection) => connection,
        }
    }

    /// For requests of a client that is dead: a server goes on without it, a front of its own died with it.
    ///
    /// # Errors
    /// The store fails.
    pub(crate) async fn take_over(&self, request_ids: Vec<uuid::Uuid>) -> Result<(), Failure> {
        match self {
            Self::Embedded(embedded) if !request_ids.is_empty() => embedded.take_over(request_ids).await,
            Self::Embedded(_) | Self::Server(_) => Ok(()),
        }
    }

    /// Ends what was started.
    pub(crate) async fn close(self) {
        match self {
            Self::Embedded(embedded) => embedded.stop().await,
            Self::Server(connection) => drop(connection),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choose(folder: &Path, text: &str, server: Option<&str>) -> Result<Way, Failure> {
        let path = folder.join("client.toml");
        std::fs::write(&path, text).unwrap();
        ServerArgs { server: server.map(str::to_owned), config: Some(path) }.choose()
    }

    const FILES: &str = "ca = \"ca.pem\"\ncertificate = \"client.pem\"\nkey = \"/k/client.key\"\n";

    #[test]
    fn one_or_several_servers_and_files_beside_the_configuration() {
        let folder = tempfile::tempdir().unwrap();
        let text = format!("server = [\"https://a.example\", \"https://b.example:1\"]\n{FILES}");
        let Ok(Way::Server(addresses, credentials)) = choose(folder.path(), &text, None) else { panic!() };
        assert_eq!(addresses.len(), 2);
        assert_eq!(credentials.ca, folder.path().join("ca.pem"));
        assert_eq!(credentials.key, Path::new("/k/client.key"));
        let named = choose(folder.path(), &text, Some("https://c.example"));
        assert!(matches!(named, Ok(Way::Server(addresses, _)) if addresses.len() == 1));
    }

    #[test]
    fn a_wrong_configuration_is_a_failure_and_never_leads_elsewhere() {
        let folder = tempfile::tempdir().unwrap();
        for (text, server, exit) in [
            (format!("servers = \"https://a\"\n{FILES}"), None, Exit::Unreachable),
            ("server = \"https://a\"".to_owned(), None, Exit::Unreachable),
            (FILES.to_owned(), None, Exit::Usage),
            (format!("server = \"http://a\"\n{FILES}"), None, Exit::Usage),
            (FILES.to_owned(), Some("a b"), Exit::Usage),
        ] {
            let failure = choose(folder.path(), &text, server).unwrap_err();
            assert_eq!(failure.exit, exit, "{text}: {failure:?}");
        }
        let fifo = folder.path().join("fifo");
        rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, rustix::fs::Mode::RWXU).unwrap();
        let fifo = ServerArgs { server: None, config: Some(fifo) }.choose().unwrap_err();
        assert!(fifo.what.contains("not a regular file"), "{fifo:?}");
        let gone = ServerArgs { server: None, config: Some(folder.path().join("none.toml")) };
        assert_eq!(gone.choose().unwrap_err().exit, Exit::Unreachable);
    }
}
