//! Whom to ask: a server of ours if one is configured, else the signd of sign.conf, else the keys of this user.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sealwright_client::connection::credentials::Credentials;
use sealwright_client::signd::{Peer, Signd, SourcePort};
use sealwright_client::source::kept;
use sealwright_obs::config::{Config, Protocol};

use super::words::{Hash, Words};
use crate::failure::Failure;
use crate::remote::{self, Opened as OpenedServer, ServerArgs};
use crate::terminal;

/// Where obs-sign has its configuration.
const SIGN_CONF: &str = "/etc/sign.conf";
/// Whom its client asks if nothing is said.
const HOST_DEFAULT: &str = "127.0.0.1";

/// sign.conf, or none.
#[derive(Debug, Default)]
pub(super) struct SignConf {
    path: PathBuf,
    config: Option<Config>,
}

impl SignConf {
    /// The one that was named must be there; the other may not be.
    ///
    /// # Errors
    /// It cannot be read, or a line of it cannot be meant.
    pub(super) fn read(named: Option<&Path>) -> Result<Self, Failure> {
        let path = named.unwrap_or(Path::new(SIGN_CONF));
        let file = match kept::open(path) {
            Err(error) if error.kind() == ErrorKind::NotFound && named.is_none() => {
                return Ok(Self::default());
            }
            other => other,
        };
        let bytes = file
            .and_then(|file| kept::read(&file, sealwright_obs::limits::CONFIG_BYTES_MAX))
            .map_err(|error| unusable(path, &error.to_string()))?;
        let config = Config::parse(&bytes).map_err(|error| unusable(path, &error.to_string()))?;
        Ok(Self { path: path.to_owned(), config: Some(config) })
    }

    /// The user of `-u`, else of sign.conf; empty where neither says one.
    pub(super) fn user(&self, words: &Words) -> String {
        let configured = self.config.as_ref().and_then(|config| config.user.clone());
        words.user.clone().or(configured).unwrap_or_default()
    }

    /// `hash:`.
    pub(super) fn hash(&self) -> Option<Hash> {
        let name = self.config.as_ref()?.hash?.name();
        Hash::parse(name).ok()
    }

    fn signd(&self, config: &Config) -> Result<Signd, Failure> {
        let tls = match config.protocol {
            Protocol::Plain => None,
            Protocol::Tls => Some(self.credentials(config)?),
        };
        let source =
            if config.use_unprivileged_ports { SourcePort::Any } else { SourcePort::ReservedIfAllowed };
        let host = config.server.as_deref().unwrap_or(HOST_DEFAULT);
        let peer = Peer::new(host, config.port_or_default(), source, tls);
        peer.map(Signd::new).map_err(|error| unusable(&self.path, &error.to_string()))
    }

    /// Client certificate and authority are both needed: obs-sign's client would do without, and then talk to anybody.
    fn credentials(&self, config: &Config) -> Result<Arc<rustls::ClientConfig>, Failure> {
        let missing = |what| unusable(&self.path, &format!("proto: ssl needs {what}"));
        let named =
            |file: &Option<String>, what| file.clone().map(PathBuf::from).ok_or_else(|| missing(what));
        let tls = &config.tls;
        let credentials = Credentials {
            ca: named(&tls.verify_file, "ssl_verifyfile (the authorities of the server, in one file)")?,
            certificate: named(&tls.certificate_file, "ssl_certfile")?,
            key: named(&tls.key_file, "ssl_keyfile")?,
        };
        credentials.load().map_err(|error| Failure::failed(Failure::chain(&error), error.advice()))
    }
}

fn unusable(path: &Path, why: &str) -> Failure {
    Failure::failed(
        format!("{}: {why}", path.display()),
        "Mend the file, or name another: sign --config FILE ...",
    )
}

/// Whom to ask, before anything is opened.
#[derive(Debug)]
pub(super) enum Way {
    Ours(remote::Way),
    Signd(Arc<Signd>),
}

/// An open way.
pub(super) enum Opened {
    Ours(OpenedServer),
    Signd(Arc<Signd>),
}

impl Way {
    /// # Errors
    /// A configuration that cannot be used; nothing goes elsewhere because of it.
    pub(super) fn choose(conf: &SignConf) -> Result<Self, Failure> {
        let server = ServerArgs::default();
        match &conf.config {
            Some(config) if !server.is_configured()? => {
                conf.signd(config).map(|signd| Self::Signd(Arc::new(signd)))
            }
            Some(_) | None => server.choose().map(Self::Ours),
        }
    }

    pub(super) const fn is_signd(&self) -> bool {
        matches!(self, Self::Signd(_))
    }

    pub(super) const fn is_embedded(&self) -> bool {
        matches!(self, Self::Ours(way) if way.places().is_some())
    }

    /// Whether no thread has to wait for a name.
    pub(super) fn is_found_at_once(&self) -> bool {
        matches!(self, Self::Ours(way) if way.is_found_at_once())
    }

    /// # Errors
    /// What [`remote::Way::open`] says. Where nothing was ever stored there is no key either, and looking makes no store.
    pub(super) async fn open(self) -> Result<Opened, Failure> {
        match self {
            Self::Ours(way) => match way.nothing_stored()? {
                Some(places) => Err(Failure::failed(
                    format!("no server is configured, and no key is stored in {}", places.store.display()),
                    "Configure a server: client.toml for one of Sealwright, sign.conf for a signd.",
                )),
                None => way.open().await.map(Opened::Ours),
            },
            Self::Signd(signd) => Ok(Opened::Signd(signd)),
        }
    }
}

impl Opened {
    /// The signd, for what a server of ours is not asked in this way.
    ///
    /// # Errors
    /// It is a server of ours.
    pub(super) fn signd(&self, option: &str) -> Result<&Arc<Signd>, Failure> {
        match self {
            Self::Signd(signd) => Ok(signd),
            Self::Ours(_) => Err(Failure::failed(
                format!("sign: {option} is asked over obs-sign's protocol alone"),
                "Name the server's [obs] listener, or a signd, in sign.conf, where no client.toml is. Keys of the server's own: \
                 sealwright key create, key renew.",
            )),
        }
    }

    /// Whether somebody answers.
    ///
    /// # Errors
    /// Nobody does.
    pub(super) async fn ping(&self) -> Result<(), Failure> {
        let answered = match self {
            Self::Ours(opened) => opened.connection().server().await.map(|_| ()),
            Self::Signd(signd) => signd.ping().await,
        };
        answered.map_err(|error| Failure::failed(Failure::chain(&error), error.advice()))
    }

    pub(super) async fn close(self) {
        match self {
            Self::Ours(opened) => opened.close().await,
            Self::Signd(signd) => drop(signd),
        }
    }
}

/// A line of progress that obs-sign prints: to standard output, or beside what goes there.
pub(super) fn told(line: &str, is_filter: bool) {
    if is_filter {
        terminal::err(line);
    } else {
        terminal::out(line);
    }
}
