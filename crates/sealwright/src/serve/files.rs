//! The files behind a configuration, as open descriptors: whoever opened them can hand them to a process that may not
//! open them itself. Read and checked as a whole, so that a reload takes all of them or none.

use std::fs::File;
use std::io::{Read as _, Seek as _};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sealwright_server::clients::{CLIENTS_BYTES_MAX, Clients};
use sealwright_server::tls::{CRL_BYTES_MAX, Material, PEM_BYTES_MAX, Plane, server_config};

use super::config::{BYTES_MAX, Config, refused};
use crate::failure::Failure;

/// What a file is for; in this order they are handed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Role {
    Server,
    Certificate,
    Key,
    ClientCa,
    Crl,
    Clients,
}

impl Role {
    const fn bytes_max(self) -> usize {
        match self {
            Self::Server => BYTES_MAX,
            Self::Certificate | Self::Key | Self::ClientCa => PEM_BYTES_MAX,
            Self::Crl => CRL_BYTES_MAX,
            Self::Clients => CLIENTS_BYTES_MAX,
        }
    }
}

/// One of them.
pub(super) struct Opened {
    pub(super) role: Role,
    /// As it was opened; for messages.
    pub(super) path: PathBuf,
    file: File,
}

impl Opened {
    /// One that was handed over.
    pub(super) fn received(role: Role, path: PathBuf, descriptor: OwnedFd) -> Self {
        Self { role, path, file: descriptor.into() }
    }

    pub(super) fn descriptor(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    fn open(role: Role, path: &Path) -> Result<Self, Failure> {
        let file = File::open(path).map_err(|error| unreadable(path, &error))?;
        if file.metadata().is_ok_and(|metadata| metadata.is_file()) {
            return Ok(Self { role, path: path.to_owned(), file });
        }
        Err(refused(path, "is not a regular file", "Name a file in server.toml."))
    }

    /// From its start, whoever has read in it.
    fn read(&self) -> Result<Vec<u8>, Failure> {
        let limit = self.role.bytes_max();
        let mut file = &self.file;
        let mut bytes = Vec::new();
        // One more than the limit: the parsers refuse it, by the name of their limit.
        let bounded = u64::try_from(limit).unwrap_or(u64::MAX).saturating_add(1);
        let read = file.rewind().and_then(|()| file.take(bounded).read_to_end(&mut bytes));
        read.map_err(|error| unreadable(&self.path, &error))?;
        Ok(bytes)
    }

    fn text(&self) -> Result<String, Failure> {
        let bytes = self.read()?;
        if bytes.len() > self.role.bytes_max() {
            let what = format!("has more than {} bytes", self.role.bytes_max());
            return Err(refused(&self.path, &what, "Is it the right file?"));
        }
        String::from_utf8(bytes)
            .map_err(|_| refused(&self.path, "is no text in UTF-8", "Is it the right file?"))
    }
}

fn unreadable(path: &Path, error: &std::io::Error) -> Failure {
    refused(
        path,
        &format!("cannot be read: {error}"),
        "See that it exists and that its owner is the user of the server.",
    )
}

/// A whole set.
pub(super) struct Files(Vec<Opened>);

impl Files {
    /// Opens `server.toml` and everything that it names.
    ///
    /// # Errors
    /// Which file, and why.
    pub(super) fn open(server: &Path) -> Result<(Config, Self), Failure> {
        let server = Opened::open(Role::Server, server)?;
        let config = Config::parse(&server.path, &server.text()?)?;
        let mut opened = vec![server];
        for (role, path) in named(&config) {
            opened.push(Opened::open(role, path)?);
        }
        Ok((config, Self(opened)))
    }

    /// Those that were handed over.
    pub(super) const fn received(opened: Vec<Opened>) -> Self {
        Self(opened)
    }

    pub(super) fn each(&self) -> impl Iterator<Item = &Opened> {
        self.0.iter()
    }

    /// The directories that must be readable to open them again.
    pub(super) fn directories(&self) -> Vec<PathBuf> {
        let mut found: Vec<PathBuf> = Vec::new();
        for directory in self.0.iter().filter_map(|opened| opened.path.parent()) {
            if !found.iter().any(|known| known == directory) {
                found.push(directory.to_owned());
            }
        }
        found
    }

    /// Reads and checks all of them.
    ///
    /// # Errors
    /// The first that is wrong: file, line where there is one, what to do.
    pub(super) fn load(&self) -> Result<Loaded, Failure> {
        let server = self.of(Role::Server)?;
        let config = Config::parse(&server.path, &server.text()?)?;
        let crl_pem = match self.0.iter().find(|opened| opened.role == Role::Crl) {
            Some(opened) => Some(opened.read()?),
            None => None,
        };
        let certificate = self.of(Role::Certificate)?;
        let material = Material {
            certificate_pem: certificate.read()?,
            key_pem: self.of(Role::Key)?.read()?,
            client_ca_pem: self.of(Role::ClientCa)?.read()?,
            crl_pem,
        };
        let of_server = |error: sealwright_server::Error| {
            refused(&server.path, &format!("[tls] {}", Failure::chain(&error)), error.advice())
        };
        let tls = server_config(&material).map_err(of_server)?;
        let clients = self.of(Role::Clients)?;
        let parsed = Clients::parse(&clients.text()?);
        let parsed =
            parsed.map_err(|error| refused(&clients.path, &Failure::chain(&error), error.advice()))?;
        Ok(Loaded { config, tls, clients: Arc::new(parsed) })
    }

    fn of(&self, role: Role) -> Result<&Opened, Failure> {
        let found = self.0.iter().find(|opened| opened.role == role);
        found.ok_or_else(|| {
            Failure::failed(format!("the file for {role:?} was not handed over"), "Please report it.")
        })
    }
}

/// What front works with.
pub(super) struct Loaded {
    pub(super) config: Config,
    pub(super) tls: Arc<Plane>,
    pub(super) clients: Arc<Clients>,
}

fn named(config: &Config) -> impl Iterator<Item = (Role, &Path)> {
    let tls = &config.tls;
    let always = [
        (Role::Certificate, tls.certificate.as_path()),
        (Role::Key, tls.key.as_path()),
        (Role::ClientCa, tls.client_ca.as_path()),
        (Role::Clients, config.clients.as_path()),
    ];
    always.into_iter().chain(tls.crl.as_deref().map(|crl| (Role::Crl, crl)))
}
