//! What a client shows and trusts: its certificate and key, and the one certificate authority that it believes. There
//! are no other roots, no TLS below 1.3, no early data, and no way to leave a check out.

use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::ClientConfig;
use rustls::client::Resumption;
use rustls::crypto::CryptoProvider;
use rustls::sign::CertifiedKey;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use x509_parser::certificate::X509Certificate;
use x509_parser::prelude::FromDer as _;
use zeroize::Zeroizing;

use crate::error::{CredentialFault, Error};
use crate::sign::finish::now;
use crate::source::kept;

/// Longest file of credentials in bytes: a chain of certificates of the usual sizes is a tenth of it.
const FILE_BYTES_MAX: usize = 256 << 10;
/// TLS sessions that are remembered: one each for a few servers.
const SESSIONS_MAX: usize = 16;
/// What is spoken over TLS: HTTP/2 alone.
const ALPN: &[u8] = b"h2";

/// Files of a client, PEM.
#[derive(Clone, Debug)]
pub struct Credentials {
    /// The certificate authority of the servers.
    pub ca: PathBuf,
    /// Our certificate, with what is between it and the authority of clients.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

impl Credentials {
    /// Reads and checks all of them: permissions of the key, dates of the certificate, that they belong together.
    ///
    /// # Errors
    /// [`Error::Credential`] names the file and what is wrong with it.
    pub fn load(&self) -> Result<Arc<ClientConfig>, Error> {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let roots = self.roots()?;
        let chain = certificates("client certificate", &self.certificate)?;
        check_dates(&self.certificate, &chain)?;
        let key = self.certified(chain, &provider)?;
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(|_| Error::Internal("TLS 1.3 is not built in"))?
            .with_root_certificates(roots)
            .with_client_cert_resolver(Arc::new(rustls::sign::SingleCertAndKey::from(key)));
        config.alpn_protocols = vec![ALPN.to_vec()];
        config.resumption = Resumption::in_memory_sessions(SESSIONS_MAX);
        config.enable_early_data = false;
        Ok(Arc::new(config))
    }

    fn roots(&self) -> Result<rustls::RootCertStore, Error> {
        const WHAT: &str = "certificate authority";
        let mut roots = rustls::RootCertStore::empty();
        for certificate in certificates(WHAT, &self.ca)? {
            roots.add(certificate).map_err(|source| {
                let why = CredentialFault::Unusable { what: "certificate", source: Some(source) };
                wrong(WHAT, &self.ca, why)
            })?;
        }
        Ok(roots)
    }

    fn certified(
        &self,
        chain: Vec<CertificateDer<'static>>,
        provider: &CryptoProvider,
    ) -> Result<CertifiedKey, Error> {
        const WHAT: &str = "client key";
        let wrong = |why| wrong(WHAT, &self.key, why);
        let pem = read(WHAT, &self.key, Secrecy::Secret)?;
        let key = PrivateKeyDer::from_pem_slice(&pem)
            .map_err(|_| wrong(CredentialFault::Nothing { what: "private key" }))?;
        CertifiedKey::from_der(chain, key, provider).map_err(|source| {
            wrong(if matches!(source, rustls::Error::InconsistentKeys(_)) {
                CredentialFault::KeyMismatch { certificate: self.certificate.clone() }
            } else {
                CredentialFault::Unusable { what: "private key", source: Some(source) }
            })
        })
    }
}

/// Whether a file is for our eyes alone.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Secrecy {
    Public,
    Secret,
}

fn wrong(what: &'static str, path: &Path, why: CredentialFault) -> Error {
    Error::Credential { what, path: path.to_owned(), why }
}

fn certificates(what: &'static str, path: &Path) -> Result<Vec<CertificateDer<'static>>, Error> {
    let pem = read(what, path, Secrecy::Public)?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
    let found = found.map_err(|_| wrong(what, path, CredentialFault::Nothing { what: "certificate" }))?;
    if found.is_empty() {
        return Err(wrong(what, path, CredentialFault::Nothing { what: "certificate" }));
    }
    Ok(found)
}

fn check_dates(path: &Path, chain: &[CertificateDer<'static>]) -> Result<(), Error> {
    const WHAT: &str = "client certificate";
    for certificate in chain {
        let (_, parsed) = X509Certificate::from_der(certificate).map_err(|_| {
            wrong(WHAT, path, CredentialFault::Unusable { what: "certificate", source: None })
        })?;
        let (now, validity) = (now(), parsed.validity());
        let (not_before_s, not_after_s) = (validity.not_before.timestamp(), validity.not_after.timestamp());
        if now > not_after_s {
            return Err(wrong(WHAT, path, CredentialFault::Expired { not_after_s }));
        }
        if now < not_before_s {
            return Err(wrong(WHAT, path, CredentialFault::NotYetValid { not_before_s }));
        }
    }
    Ok(())
}

fn read(what: &'static str, path: &Path, secrecy: Secrecy) -> Result<Zeroizing<Vec<u8>>, Error> {
    let unreadable = |source| wrong(what, path, CredentialFault::Read(source));
    let file = kept::open(path).map_err(unreadable)?;
    let facts = file.metadata().map_err(unreadable)?;
    let mode = facts.mode() & 0o7777;
    if secrecy == Secrecy::Secret && is_open(mode, facts.uid(), rustix::process::getuid().as_raw()) {
        return Err(wrong(what, path, CredentialFault::OpenToOthers { mode }));
    }
    kept::read(&file, FILE_BYTES_MAX).map_err(|error| {
        if error.kind() == ErrorKind::FileTooLarge {
            return wrong(what, path, CredentialFault::TooLong { limit: FILE_BYTES_MAX });
        }
        unreadable(error)
    })
}

/// As ssh sees it: what is mine is for nobody else. A key that the administrator (root) shares with a group is meant
/// for the group, and nobody's key is for the world.
const fn is_open(mode: u32, owner: u32, me: u32) -> bool {
    let shared_by_root = owner == 0 && me != 0;
    if shared_by_root { mode & 0o007 != 0 } else { mode & 0o077 != 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_regular_file_is_refused_without_waiting() {
        let folder = tempfile::tempdir().unwrap();
        let fifo = folder.path().join("fifo");
        rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, rustix::fs::Mode::RUSR).unwrap();
        for path in [fifo.as_path(), folder.path()] {
            let refused = read("client key", path, Secrecy::Public).unwrap_err();
            let is_kind = |source: &std::io::Error| source.kind() == ErrorKind::InvalidInput;
            let Error::Credential { why: CredentialFault::Read(source), .. } = &refused else { panic!() };
            assert!(is_kind(source), "{refused:?}");
        }
    }

    #[test]
    fn a_key_is_for_its_owner_or_for_a_group_that_root_chose() {
        assert!(!is_open(0o600, 1000, 1000) && !is_open(0o400, 1000, 1000));
        assert!(is_open(0o640, 1000, 1000) && is_open(0o604, 1000, 1000) && is_open(0o640, 0, 0));
        assert!(!is_open(0o640, 0, 1000) && is_open(0o644, 0, 1000));
    }
}
