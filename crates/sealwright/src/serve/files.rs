//! The files behind a configuration, as they were read: whole, once, into memory. Whoever read them can hand copies to a
//! process that may not open them itself, and what is in force stays the same whatever becomes of the files. Checked as a
//! whole, so that a reload takes all of them or none.

use std::fs::{File, Metadata};
use std::io::{ErrorKind, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{MemfdFlags, SealFlags};
use rustix::io::Errno;
use sealwright_client::source::kept;
use sealwright_server::Error;
use sealwright_server::allow::AllowList;
use sealwright_server::clients::{CLIENTS_BYTES_MAX, Clients};
use sealwright_server::keygen::{self, Settings, Token};
use sealwright_server::tls::{CRL_BYTES_MAX, Material, PEM_BYTES_MAX, Plane, server_config};
use zeroize::Zeroizing;

use super::config::{BYTES_MAX, Config, refused};
use crate::failure::Failure;
use crate::{mistake, users};

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
    KeygenToken,
}

impl Role {
    const fn bytes_max(self) -> usize {
        match self {
            Self::Server => BYTES_MAX,
            Self::Certificate | Self::Key | Self::ClientCa => PEM_BYTES_MAX,
            Self::Crl => CRL_BYTES_MAX,
            Self::Clients => CLIENTS_BYTES_MAX,
            Self::KeygenToken => keygen::TOKEN_BYTES_MAX,
        }
    }
}

/// One of them.
pub(super) struct Taken {
    pub(super) role: Role,
    /// Where it lay; for messages.
    pub(super) path: PathBuf,
    /// Of then.
    content: Zeroizing<Vec<u8>>,
}

impl Taken {
    /// One that was handed over.
    ///
    /// # Errors
    /// It is not what [`Self::copy`] makes.
    pub(super) fn received(role: Role, path: PathBuf, copy: OwnedFd) -> std::io::Result<Self> {
        let copy = File::from(copy);
        let length = usize::try_from(copy.metadata()?.len()).unwrap_or(usize::MAX);
        if length > role.bytes_max() {
            return Err(ErrorKind::FileTooLarge.into());
        }
        let mut content = Zeroizing::new(vec![0; length]);
        copy.read_exact_at(&mut content, 0)?;
        Ok(Self { role, path, content })
    }

    /// To be handed over: memory with the content, which nobody can change or cut.
    ///
    /// # Errors
    /// What the system says.
    pub(super) fn copy(&self) -> std::io::Result<OwnedFd> {
        const NAME: &str = "sealwright-file";
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let memory = match rustix::fs::memfd_create(NAME, flags | MemfdFlags::NOEXEC_SEAL) {
            // Before Linux 6.3.
            Err(Errno::INVAL) => rustix::fs::memfd_create(NAME, flags),
            made => made,
        };
        let mut memory = File::from(memory?);
        memory.write_all(&self.content)?;
        let seals = SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL;
        rustix::fs::fcntl_add_seals(&memory, seals)?;
        Ok(memory.into())
    }

    fn read(role: Role, path: &Path) -> Result<Self, Failure> {
        let opened = kept::open(path).map_err(|error| unreadable(path, &error))?;
        let metadata = opened.metadata().map_err(|error| unreadable(path, &error))?;
        if matches!(role, Role::Key | Role::KeygenToken) && is_open(metadata.mode(), metadata.uid()) {
            let what = format!("can be read by others (mode {:04o})", metadata.mode() & 0o7777);
            return Err(refused(path, &what, "chmod 600 it, and think about whether somebody has read it."));
        }
        if role == Role::Clients {
            not_foreign(path, &metadata)?;
        }
        let content = kept::read(&opened, role.bytes_max());
        let content = content.map_err(|error| unreadable(path, &error))?;
        Ok(Self { role, path: path.to_owned(), content })
    }

    fn text(&self) -> Result<&str, Failure> {
        std::str::from_utf8(&self.content)
            .map_err(|_| refused(&self.path, "is no text in UTF-8", "Is it the right file?"))
    }
}

/// The configuration alone.
///
/// # Errors
/// It cannot be read, or is wrong.
pub(super) fn config(server: &Path) -> Result<Config, Failure> {
    let server = Taken::read(Role::Server, server)?;
    Config::parse(&server.path, server.text()?)
}

/// As the client sees its key: what is the user's is for nobody else, and what root shares with a group is meant for it.
const fn is_open(mode: u32, owner: u32) -> bool {
    let others = if owner == 0 { 0o007 } else { 0o077 };
    mode & others != 0
}

/// Whoever can write it says who may sign: root and the user of this process alone, and a group that root shares it with.
fn not_foreign(path: &Path, metadata: &Metadata) -> Result<(), Failure> {
    let (mode, owner) = (metadata.mode(), metadata.uid());
    let us = rustix::process::geteuid().as_raw();
    if owner != 0 && owner != us {
        let what = format!("belongs to {}, who could let anybody in", users::name_of(owner));
        return Err(refused(
            path,
            &what,
            &format!("chown {} it, after a look at what it says.", users::name_of(us)),
        ));
    }
    let others = if owner == 0 { 0o002 } else { 0o022 };
    if mode & others != 0 {
        let what = format!("can be written by others (mode {:04o})", mode & 0o7777);
        return Err(refused(path, &what, "chmod go-w it, after a look at what it says."));
    }
    Ok(())
}

fn unreadable(path: &Path, error: &std::io::Error) -> Failure {
    refused(
        path,
        &format!("cannot be read: {error}"),
        "See that it is there, a regular file, and its owner the user of the server.",
    )
}

/// A whole set.
pub(super) struct Files(Vec<Taken>);

impl Files {
    /// Reads `server.toml` and everything that it names. `first` learns what `server.toml` says before the others are
    /// read: how to say what is wrong with them.
    ///
    /// # Errors
    /// Which file, and why.
    pub(super) fn read(server: &Path, first: impl FnOnce(&Config)) -> Result<Self, Failure> {
        let server = Taken::read(Role::Server, server)?;
        let config = Config::parse(&server.path, server.text()?)?;
        first(&config);
        let mut taken = vec![server];
        for (role, path) in named(&config) {
            taken.push(Taken::read(role, path)?);
        }
        Ok(Self(taken))
    }

    /// Those that were handed over.
    pub(super) const fn received(taken: Vec<Taken>) -> Self {
        Self(taken)
    }

    /// None at all: the word that a reload was refused before anything was handed over.
    pub(super) const fn none() -> Self {
        Self(Vec::new())
    }

    pub(super) const fn is_none(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn each(&self) -> impl Iterator<Item = &Taken> {
        self.0.iter()
    }

    /// The directories that must be readable to read them again.
    pub(super) fn directories(&self) -> Vec<PathBuf> {
        let mut found: Vec<PathBuf> = Vec::new();
        for directory in self.0.iter().filter_map(|taken| taken.path.parent()) {
            if !found.iter().any(|known| known == directory) {
                found.push(directory.to_owned());
            }
        }
        found
    }

    /// Parses and checks all of them.
    ///
    /// # Errors
    /// The first that is wrong: file, line where there is one, what to do.
    pub(super) fn load(&self) -> Result<Loaded, Failure> {
        let server = self.of(Role::Server)?;
        let config = Config::parse(&server.path, server.text()?)?;
        let crl = self.0.iter().find(|taken| taken.role == Role::Crl);
        let material = Material {
            certificate_pem: self.of(Role::Certificate)?.content.to_vec(),
            key_pem: self.of(Role::Key)?.content.to_vec(),
            client_ca_pem: self.of(Role::ClientCa)?.content.to_vec(),
            crl_pem: crl.map(|taken| taken.content.to_vec()),
        };
        let of_server = |error: Error| {
            refused(&server.path, &format!("[tls] {}", Failure::chain(&error)), error.advice())
        };
        let tls = server_config(&material).map_err(of_server)?;
        let clients = self.of(Role::Clients)?;
        let text = clients.text()?;
        let parsed = Clients::parse(text).map_err(|error| {
            let what = if let Error::ClientsSyntax(source) = &error {
                mistake::of(text, source)
            } else {
                Failure::chain(&error)
            };
            refused(&clients.path, &what, error.advice())
        })?;
        if parsed.is_empty() {
            return Err(refused(
                &clients.path,
                "names no client: nobody could do anything",
                "Is it the right file, and whole? `sealwright init --client NAME --key KEY` adds one; `disabled = true` shuts one out.",
            ));
        }
        if let Some(mistake) = config.obs.as_ref().and_then(|obs| obs.check_clients(&parsed).err()) {
            return Err(refused(&server.path, &format!("[obs] {mistake}"), mistake.advice()));
        }
        let keygen = self.keygen(&server.path, &config, &parsed)?;
        Ok(Loaded { config, tls, clients: Arc::new(parsed), keygen })
    }

    /// What `[copr_keygen]` is made of, if there is one.
    fn keygen(&self, file: &Path, config: &Config, clients: &Clients) -> Result<Option<Settings>, Failure> {
        let Some(keygen) = &config.copr_keygen else { return Ok(None) };
        if let Some(line) = keygen.allow.iter().find(|line| !clients.has(&line.client)) {
            let what = format!(
                "[copr_keygen] allow names the client {:?}, whom clients.toml does not have",
                line.client
            );
            let advice = "Add it there: [[client]], name, and create_keys = [\"@the.sign.domain\"].";
            return Err(refused(file, &what, advice));
        }
        let token = match &keygen.token_file {
            None => None,
            Some(_) => {
                let taken = self.of(Role::KeygenToken)?;
                let token = Token::parse(taken.text()?).map_err(|error| {
                    refused(&taken.path, &error.to_string(), "Make one with: openssl rand -hex 32")
                })?;
                Some(token)
            }
        };
        let allow = AllowList::new(keygen.allow.clone());
        Ok(Some(Settings { allow, token, shape: keygen.shape() }))
    }

    fn of(&self, role: Role) -> Result<&Taken, Failure> {
        let found = self.0.iter().find(|taken| taken.role == role);
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
    pub(super) keygen: Option<Settings>,
}

fn named(config: &Config) -> impl Iterator<Item = (Role, &Path)> {
    let tls = &config.tls;
    let always = [
        (Role::Certificate, tls.certificate.as_path()),
        (Role::Key, tls.key.as_path()),
        (Role::ClientCa, tls.client_ca.as_path()),
        (Role::Clients, config.clients.as_path()),
    ];
    let token = config.copr_keygen.as_ref().and_then(|keygen| keygen.token_file.as_deref());
    let may_be = [(Role::Crl, tls.crl.as_deref()), (Role::KeygenToken, token)];
    always.into_iter().chain(may_be.into_iter().filter_map(|(role, path)| Some((role, path?))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_taken_stays_the_same_whatever_becomes_of_the_file_and_nobody_can_write_to_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("clients.toml");
        std::fs::write(&path, "before").unwrap();
        let taken = Taken::read(Role::Clients, &path).unwrap();
        std::fs::write(&path, "after!").unwrap();
        assert_eq!(taken.text().unwrap(), "before");
        let copy = File::from(taken.copy().unwrap());
        assert!(copy.write_at(b"x", 0).is_err() && copy.set_len(1).is_err() && copy.set_len(9).is_err());
        let received = Taken::received(Role::Clients, path, copy.into()).unwrap();
        assert_eq!(received.text().unwrap(), "before");
    }

    #[test]
    fn a_key_that_others_can_read_is_refused_unless_root_shares_it_with_a_group() {
        for (mode, owner, is_refused) in [
            (0o600, 1000, false),
            (0o640, 1000, true),
            (0o604, 1000, true),
            (0o640, 0, false),
            (0o644, 0, true),
        ] {
            assert_eq!(is_open(mode, owner), is_refused, "{mode:o} {owner}");
        }
    }
}
