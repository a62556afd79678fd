//! Which key signs what: one for all, or one for each directory; and whose signatures are to go.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use sealwright_crypto::openpgp::certificate::{Certificate, Keyring};
use sealwright_crypto::openpgp::fingerprint::Fingerprint;
use sealwright_formats::report::SignatureReport;

use crate::connection::Connection;
use crate::error::{Code, Error};
use crate::sign::Signer;
use crate::trust;

/// Digits of a key id.
const KEY_ID_DIGITS: usize = 16;

/// The signer of each directory.
pub struct Keys {
    /// Real directories; the longest that a file is beneath counts.
    rules: Vec<(PathBuf, Arc<Signer>)>,
}

impl Keys {
    /// One for each of these real directories.
    #[must_use]
    pub const fn by_directory(rules: Vec<(PathBuf, Arc<Signer>)>) -> Self {
        Self { rules }
    }

    /// The signer of a file or directory, by its real path.
    #[must_use]
    pub fn of(&self, path: &Path) -> Option<&Arc<Signer>> {
        let beneath = self.rules.iter().filter(|(directory, _)| path.starts_with(directory));
        beneath.max_by_key(|(directory, _)| directory.components().count()).map(|(_, signer)| signer)
    }

    /// All of them, each once, by the fingerprint of its certificate.
    #[must_use]
    pub fn signers(&self) -> Vec<&Arc<Signer>> {
        let mut all: Vec<&Arc<Signer>> = Vec::new();
        for (_, signer) in &self.rules {
            let fingerprint = signer.certificate().fingerprint();
            if !all.iter().any(|known| known.certificate().fingerprint() == fingerprint) {
                all.push(signer);
            }
        }
        all
    }
}

/// A key whose signatures are to be replaced.
#[derive(Clone, Debug)]
pub struct OldKey {
    shown: String,
    certificates: Keyring,
    /// Fingerprint or key id, lower case, where there is no certificate.
    digits: Option<String>,
}

impl OldKey {
    /// By name or fingerprint of a key of the server; else a fingerprint or key id; else the file of a certificate. The old
    /// key need not be here any more.
    ///
    /// # Errors
    /// It is none of these; the connection was lost.
    pub async fn find(connection: &Connection, named: &str) -> Result<Self, Error> {
        let shown = named.to_owned();
        let unknown = match trust::from_server(connection, named).await {
            Ok(certificates) => return Ok(Self { shown, certificates, digits: None }),
            Err(error) if is_unknown(&error) => error,
            Err(error) => return Err(error),
        };
        let digits: String = named.trim().trim_start_matches("0x").to_ascii_lowercase();
        let is_key_id = digits.len() == KEY_ID_DIGITS && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        if is_key_id || Fingerprint::from_hex(named).is_ok() {
            let digits: String = digits.chars().filter(|c| !c.is_ascii_whitespace()).collect();
            return Ok(Self { shown, certificates: Keyring::default(), digits: Some(digits) });
        }
        let file = PathBuf::from(named);
        if !file.is_file() {
            return Err(unknown);
        }
        let certificates = tokio::task::spawn_blocking(move || trust::from_files(&[file]))
            .await
            .map_err(|_| Error::Internal("a worker thread ended"))??;
        Ok(Self { shown, certificates, digits: None })
    }

    /// As the user named it.
    #[must_use]
    pub fn shown(&self) -> &str {
        &self.shown
    }

    /// Whether it made this signature, by the signature's own word.
    #[must_use]
    pub fn made(&self, report: &SignatureReport) -> bool {
        let by_digits = self.digits.as_deref().is_some_and(|digits| is_same(digits, &report.issuer));
        by_digits || self.certificates.certificates().iter().any(|certificate| claims(certificate, report))
    }
}

fn is_unknown(error: &Error) -> bool {
    matches!(
        error.server_code(),
        Some(Code::KeyNotFound | Code::NameNotAllowed | Code::PermissionDenied | Code::MalformedRequest)
    )
}

/// Whether the signature says that a key of this certificate made it.
pub(crate) fn claims(certificate: &Certificate, report: &SignatureReport) -> bool {
    let made = |fingerprint: Fingerprint| is_same(&fingerprint.to_string(), &report.issuer);
    certificate.components().iter().any(|component| made(component.fingerprint()))
}

/// Of two fingerprints or key ids: one may be the other's key id.
pub(crate) fn is_same(one: &str, other: &str) -> bool {
    if one.len() == other.len() {
        return !one.is_empty() && one == other;
    }
    let (long, short) = if one.len() > other.len() { (one, other) } else { (other, one) };
    short.len() == KEY_ID_DIGITS
        && Fingerprint::from_hex(long).is_ok_and(|fingerprint| fingerprint.key_id_hex() == short)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_id_stands_for_the_end_of_a_version_4_fingerprint_and_the_start_of_a_version_6_one() {
        let v4 = "0123456789abcdef0123456789abcdef01234567";
        assert!(is_same(v4, "89abcdef01234567"));
        assert!(!is_same(v4, "0123456789abcdef"));
        let v6 = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdee";
        assert!(is_same("0123456789abcdef", v6));
        assert!(!is_same(v4, v6) && !is_same("", "") && is_same(v4, v4));
    }
}
