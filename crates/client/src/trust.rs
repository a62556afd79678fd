//! Which certificates count in a verification: those of files, or that of a key of the server.

use std::path::{Path, PathBuf};

use sealwright_crypto::openpgp::certificate::{Certificate, Keyring};

use crate::connection::Connection;
use crate::error::Error;
use crate::source::whole;

/// Longest keyring file in bytes: distributions' keyrings with hundreds of certificates have some MiB.
pub const KEYRING_BYTES_MAX: u64 = 64 << 20;

/// A keyring of all certificates in all files, armored or binary.
///
/// # Errors
/// A file cannot be read, is too long, or holds no certificate.
pub fn from_files(paths: &[PathBuf]) -> Result<Keyring, Error> {
    let mut all = Keyring::default();
    for path in paths {
        for certificate in read(path)?.certificates() {
            all.push(certificate.clone());
        }
    }
    Ok(all)
}

/// The certificate of one key of the server, by name or fingerprint.
///
/// # Errors
/// There is none, or the connection was lost.
pub async fn from_server(connection: &Connection, key: &str) -> Result<Keyring, Error> {
    let key = connection.describe(key).await?;
    Ok(of(key.parse_certificate()?.0))
}

/// The certificates of all keys of the server.
///
/// # Errors
/// The connection was lost, or a certificate cannot be parsed.
pub async fn all_of_server(connection: &Connection) -> Result<Keyring, Error> {
    let mut all = Keyring::default();
    for key in connection.list().await? {
        all.push(key.parse_certificate()?.0);
    }
    Ok(all)
}

/// A keyring of one certificate.
#[must_use]
pub fn of(certificate: Certificate) -> Keyring {
    let mut keyring = Keyring::default();
    keyring.push(certificate);
    keyring
}

fn read(path: &Path) -> Result<Keyring, Error> {
    let bytes = whole::read(path, "the keyring", KEYRING_BYTES_MAX)?.bytes;
    let keyring =
        Keyring::parse_many(&bytes).map_err(|source| Error::KeyFile { path: path.to_owned(), source })?;
    if keyring.is_empty() {
        return Err(Error::EmptyFile { path: path.to_owned(), what: "certificate" });
    }
    Ok(keyring)
}
