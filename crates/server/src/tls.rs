//! The TLS plane: everything that a handshake needs, decoded once for each reload and shared by all connections.
//!
//! TLS 1.3 alone, HTTP/2 alone, a client certificate of the pinned authority from everyone, no early data. Sessions
//! can be resumed by tickets whose keys rotate and die with the reload; who resumes one is looked up anew at each
//! request (`authn.rs`), so a ticket carries no right of its own.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rustls::crypto::aws_lc_rs as engine;
use rustls::pki_types::pem::{self, PemObject as _};
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::{RootCertStore, ServerConfig};
use sealwright_crypto::algorithm::HashAlgorithm;
use sealwright_crypto::digest::Hasher;
use x509_parser::certificate::X509Certificate;
use x509_parser::prelude::FromDer as _;
use zeroize::Zeroize as _;

use crate::Error;
use crate::clock;

/// Bytes of one PEM file of certificates, or of the key.
pub const PEM_BYTES_MAX: usize = 1 << 20;

/// Bytes of the revocation lists of an outside authority.
pub const CRL_BYTES_MAX: usize = 32 << 20;

/// Certificates of one file.
pub const CERTIFICATES_MAX: usize = 64;

/// The one protocol that is spoken inside.
pub const ALPN: &[u8] = b"h2";

/// What the files say, in PEM. The key is wiped when this is dropped.
pub struct Material {
    /// The server's certificate, and what leads to its authority.
    pub certificate_pem: Vec<u8>,
    /// Its private key.
    pub key_pem: Vec<u8>,
    /// The authority of clients: one or more certificates.
    pub client_ca_pem: Vec<u8>,
    /// Revocation lists of an outside authority.
    pub crl_pem: Option<Vec<u8>>,
}

impl Drop for Material {
    fn drop(&mut self) {
        self.key_pem.zeroize();
    }
}

/// Which of the files a failure is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// [`Material::certificate_pem`].
    Certificate,
    /// [`Material::key_pem`].
    Key,
    /// [`Material::client_ca_pem`].
    ClientCa,
    /// [`Material::crl_pem`].
    Crl,
}

impl core::fmt::Display for Part {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::Certificate => "the server's certificate",
            Self::Key => "the server's key",
            Self::ClientCa => "the authority of clients",
            Self::Crl => "the revocation list",
        })
    }
}

/// What was decoded so far, in this process: flat while connections come and go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counts {
    /// PEM files.
    pub pem_parse_total: u64,
    /// Private keys.
    pub key_decode_total: u64,
    /// Whole configurations.
    pub tls_config_builds_total: u64,
}

static PEM_PARSES: AtomicU64 = AtomicU64::new(0);
static KEY_DECODES: AtomicU64 = AtomicU64::new(0);
static CONFIG_BUILDS: AtomicU64 = AtomicU64::new(0);

/// See [`Counts`].
#[must_use]
pub fn counts() -> Counts {
    Counts {
        pem_parse_total: PEM_PARSES.load(Ordering::Relaxed),
        key_decode_total: KEY_DECODES.load(Ordering::Relaxed),
        tls_config_builds_total: CONFIG_BUILDS.load(Ordering::Relaxed),
    }
}

/// A plane, ready for connections; immutable.
pub struct Plane {
    pub(crate) config: Arc<ServerConfig>,
    /// The same for a protocol without a name: obs-sign's. No tickets: nobody comes back with one.
    pub(crate) without_alpn: Arc<ServerConfig>,
    verifier: Arc<dyn ClientCertVerifier>,
    /// SHA-256 of the material: a reload of the same files changes nothing, and no ticket dies of it.
    fingerprint: [u8; 32],
    not_after_s: i64,
}

/// Decodes and checks everything.
///
/// # Errors
/// [`Error::TlsTooLarge`], [`Error::Pem`], [`Error::NoCertificate`], [`Error::MalformedCertificate`],
/// [`Error::ClientCa`], [`Error::ServerKey`] for a key that does not fit, [`Error::ServerCertificate`] for one that
/// is not valid now or has no server name, [`Error::Tls`].
pub fn server_config(material: &Material) -> Result<Arc<Plane>, Error> {
    let provider = Arc::new(engine::default_provider());
    let chain = certificates(Part::Certificate, &material.certificate_pem)?;
    let not_after_s = own_certificate(&chain)?;
    let key = private_key(&material.key_pem)?;
    let mut roots = RootCertStore::empty();
    for root in certificates(Part::ClientCa, &material.client_ca_pem)? {
        roots.add(root).map_err(Error::ClientCa)?;
    }
    let lists = match &material.crl_pem {
        Some(crl_pem) => revocation_lists(crl_pem)?,
        None => Vec::new(),
    };
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider))
        .with_crls(lists)
        .build()
        .map_err(Error::ClientVerifier)?;
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(Error::Tls)?
        .with_client_cert_verifier(Arc::clone(&verifier))
        .with_single_cert(chain, key)
        .map_err(Error::ServerKey)?;
    config.alpn_protocols = vec![ALPN.to_vec()];
    config.max_early_data_size = 0;
    config.ticketer = engine::Ticketer::new().map_err(Error::Tls)?;
    config.session_storage = Arc::new(rustls::server::NoServerSessionStorage {});
    config.send_tls13_tickets = TICKETS;
    let mut without_alpn = config.clone();
    without_alpn.alpn_protocols.clear();
    without_alpn.send_tls13_tickets = 0;
    CONFIG_BUILDS.fetch_add(1, Ordering::Relaxed);
    let (config, without_alpn, fingerprint) =
        (Arc::new(config), Arc::new(without_alpn), fingerprint(material));
    Ok(Arc::new(Plane { config, without_alpn, verifier, fingerprint, not_after_s }))
}

/// Tickets after a handshake: a client that comes back uses one, and gets the next.
const TICKETS: usize = 1;

impl Plane {
    /// Whether it was made of the same files.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.fingerprint == other.fingerprint
    }

    /// End of the server's own certificate in Unix seconds, for metrics and warnings.
    #[must_use]
    pub const fn not_after_s(&self) -> i64 {
        self.not_after_s
    }

    /// Whether the authority and the revocation lists of now still accept a chain that an earlier plane accepted.
    pub(crate) fn accepts(&self, chain: &[CertificateDer<'static>]) -> Result<(), rustls::Error> {
        let (end, intermediates) = chain.split_first().ok_or(rustls::Error::NoCertificatesPresented)?;
        self.verifier.verify_client_cert(end, intermediates, UnixTime::now()).map(|_| ())
    }
}

fn sized(part: Part, bytes: &[u8], limit: usize) -> Result<(), Error> {
    PEM_PARSES.fetch_add(1, Ordering::Relaxed);
    if bytes.len() > limit { Err(Error::TlsTooLarge { part, limit }) } else { Ok(()) }
}

fn certificates(part: Part, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, Error> {
    sized(part, pem, PEM_BYTES_MAX)?;
    let found: Result<Vec<_>, pem::Error> =
        CertificateDer::pem_slice_iter(pem).take(CERTIFICATES_MAX).collect();
    let found = found.map_err(|source| Error::Pem { part, source })?;
    if found.is_empty() { Err(Error::NoCertificate { part }) } else { Ok(found) }
}

fn revocation_lists(pem: &[u8]) -> Result<Vec<CertificateRevocationListDer<'static>>, Error> {
    let part = Part::Crl;
    sized(part, pem, CRL_BYTES_MAX)?;
    let found: Result<Vec<_>, pem::Error> =
        CertificateRevocationListDer::pem_slice_iter(pem).take(CERTIFICATES_MAX).collect();
    let found = found.map_err(|source| Error::Pem { part, source })?;
    if found.is_empty() { Err(Error::NoCertificate { part }) } else { Ok(found) }
}

fn private_key(pem: &[u8]) -> Result<PrivateKeyDer<'static>, Error> {
    sized(Part::Key, pem, PEM_BYTES_MAX)?;
    KEY_DECODES.fetch_add(1, Ordering::Relaxed);
    PrivateKeyDer::from_pem_slice(pem).map_err(|source| Error::Pem { part: Part::Key, source })
}

/// Valid now, for servers, and with a name that a client can check. Returns its end in Unix seconds.
fn own_certificate(chain: &[CertificateDer<'static>]) -> Result<i64, Error> {
    let malformed = Error::MalformedCertificate { part: Part::Certificate };
    let Some(own) = chain.first() else { return Err(Error::NoCertificate { part: Part::Certificate }) };
    let Ok((_, own)) = X509Certificate::from_der(own) else { return Err(malformed) };
    let refuse = |what| Err(Error::ServerCertificate { what });
    let now_s = clock::now_s();
    if own.validity().not_after.timestamp() < now_s {
        return refuse("has expired");
    }
    if own.validity().not_before.timestamp() > now_s {
        return refuse("is not valid yet");
    }
    let Ok(usage) = own.extended_key_usage() else { return Err(malformed) };
    if usage.is_some_and(|usage| !usage.value.server_auth) {
        return refuse("is not for servers (extended key usage serverAuth)");
    }
    let Ok(names) = own.subject_alternative_name() else { return Err(malformed) };
    if names.is_none_or(|names| names.value.general_names.is_empty()) {
        return refuse("has no server name (subject alternative name)");
    }
    Ok(own.validity().not_after.timestamp())
}

fn fingerprint(material: &Material) -> [u8; 32] {
    let Material { certificate_pem, key_pem, client_ca_pem, crl_pem } = material;
    let mut hasher = Hasher::new(HashAlgorithm::Sha256);
    let crl_pem = crl_pem.as_deref().unwrap_or_default();
    let parts = [certificate_pem.as_slice(), key_pem, client_ca_pem, crl_pem];
    for part in parts {
        hasher.update(&u64::try_from(part.len()).unwrap_or(u64::MAX).to_be_bytes());
        hasher.update(part);
    }
    <[u8; 32]>::try_from(hasher.finish().as_bytes()).unwrap_or_default()
}

/// Why a handshake failed, for the operator: what TLS says, and what that means here.
pub(crate) fn failure(error: &io::Error) -> String {
    use rustls::{AlertDescription as Alert, CertificateError, Error};
    let tls = error.get_ref().and_then(|inner| inner.downcast_ref::<Error>());
    let meaning = match tls {
        Some(Error::AlertReceived(Alert::UnknownCA | Alert::BadCertificate | Alert::CertificateUnknown)) => {
            "the client does not trust this server's certificate: it has another ca.pem"
        }
        Some(Error::AlertReceived(Alert::CertificateExpired)) => {
            "this server's certificate has ended, by the client's clock"
        }
        Some(Error::InvalidCertificate(CertificateError::UnknownIssuer)) => {
            "the client's certificate is of another authority than client_ca"
        }
        Some(Error::NoCertificatesPresented) => "the client has no certificate",
        _ => return error.to_string(),
    };
    format!("{meaning} ({error})")
}
