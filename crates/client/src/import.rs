//! A secret key on its way into the signer: read from files with limits, encrypted to the signer's own key, so
//! that nobody on the way, front included, sees it.

use std::path::Path;

use hpke::aead::AesGcm256;
use hpke::kdf::HkdfSha256;
use hpke::kem::X25519HkdfSha256;
use hpke::{Deserializable as _, Kem, OpModeS, Serializable as _};
use prost::Message as _;
use sealwright_crypto::usage::Usage;
use sealwright_proto::convert::keys::IMPORT_INFO;
use sealwright_proto::limits;
use sealwright_proto::signer_v1::ImportSecret;
use zeroize::Zeroizing;

use crate::error::Error;
use crate::shown::shown;
use crate::source::whole;

/// A secret key with its passphrase. No `Debug`; the bytes are zeroed when it is dropped.
pub struct Secret {
    key: Zeroizing<Vec<u8>>,
    passphrase: Zeroizing<Vec<u8>>,
    subkey: String,
    usages: Vec<Usage>,
    bare_digests_on_primary: bool,
    warnings: Vec<String>,
}

impl Secret {
    /// As gpg gave it, for the default usage. The signer finds the key that can sign.
    pub(crate) const fn new(key: Zeroizing<Vec<u8>>, passphrase: Zeroizing<Vec<u8>>) -> Self {
        Self {
            key,
            passphrase,
            subkey: String::new(),
            usages: Vec::new(),
            bare_digests_on_primary: false,
            warnings: Vec::new(),
        }
    }

    /// What a user should know about the files it came from.
    #[must_use]
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// To be sealed for these. With one for bare digests, a primary key must be allowed by `bare_digests_on_primary`, as whoever
    /// may have such signed can certify with it.
    #[must_use]
    pub fn with_usages(self, usages: &[Usage], bare_digests_on_primary: bool) -> Self {
        Self { usages: usages.to_vec(), bare_digests_on_primary, ..self }
    }

    pub(crate) fn usages(&self) -> Vec<u32> {
        self.usages.iter().map(|usage| usage.id().into()).collect()
    }
}

/// What travels.
pub(crate) struct Sealed {
    pub(crate) encapsulated_key: Vec<u8>,
    pub(crate) ciphertext: Vec<u8>,
}

/// Reads a secret key file and, if named, the first line of a passphrase file. Neither is parsed here: the signer
/// does that.
///
/// # Errors
/// A file cannot be read, is too long, or the passphrase file is empty.
pub fn read_secret(file: &Path, passphrase: Option<&Path>, subkey: Option<&str>) -> Result<Secret, Error> {
    let mut warnings = Vec::new();
    let key_limit = u64::try_from(limits::IMPORT_BYTES_MAX).unwrap_or(u64::MAX);
    let key = read_private(file, "the key file", key_limit, &mut warnings)?;
    if key.is_empty() {
        return Err(Error::EmptyFile { path: file.to_owned(), what: "secret key" });
    }
    let passphrase = match passphrase {
        None => Zeroizing::new(Vec::new()),
        Some(path) => {
            let line = first_line(path, &mut warnings)?;
            if line.is_empty() {
                return Err(Error::EmptyFile { path: path.to_owned(), what: "passphrase" });
            }
            line
        }
    };
    let subkey = subkey.unwrap_or_default().to_owned();
    Ok(Secret { subkey, warnings, ..Secret::new(key, passphrase) })
}

/// The first line of a passphrase file of signd; an empty one is for a key without a passphrase.
pub(crate) fn read_phrase(path: &Path) -> Result<Zeroizing<Vec<u8>>, Error> {
    first_line(path, &mut Vec::new())
}

fn first_line(path: &Path, warnings: &mut Vec<String>) -> Result<Zeroizing<Vec<u8>>, Error> {
    let limit = u64::try_from(limits::PASSPHRASE_BYTES_MAX).unwrap_or(u64::MAX);
    let text = read_private(path, "the passphrase file", limit, warnings)?;
    let line = text.split(|byte| *byte == b'\n').next().unwrap_or_default();
    Ok(Zeroizing::new(line.strip_suffix(b"\r").unwrap_or(line).to_vec()))
}

fn read_private(
    path: &Path,
    what: &'static str,
    max: u64,
    warnings: &mut Vec<String>,
) -> Result<Zeroizing<Vec<u8>>, Error> {
    let whole = whole::read(path, what, max)?;
    if let Some(mode) = whole.mode.filter(|mode| mode & 0o077 != 0) {
        warnings.push(format!("{} can be read by others (mode {mode:04o}); chmod 600 it", shown(path)));
    }
    Ok(whole.bytes)
}

/// RFC 9180, base mode, X25519-HKDF-SHA256, HKDF-SHA256, AES-256-GCM; the associated data is the name, so that a
/// ciphertext cannot be imported under another one.
pub(crate) fn encrypt(secret: &Secret, name: &str, public_key: &[u8]) -> Result<Sealed, Error> {
    let recipient = <X25519HkdfSha256 as Kem>::PublicKey::from_bytes(public_key)
        .map_err(|_| Error::BadAnswer { what: "an import key that is none" })?;
    let message = ImportSecret {
        key: secret.key.to_vec(),
        passphrase: secret.passphrase.to_vec(),
        subkey: secret.subkey.clone(),
        usages: secret.usages(),
        bare_digests_on_primary: secret.bare_digests_on_primary,
    };
    let plain = Zeroizing::new(message.encode_to_vec());
    drop(message);
    let (encapsulated_key, ciphertext) = hpke::single_shot_seal::<AesGcm256, HkdfSha256, X25519HkdfSha256>(
        &OpModeS::Base,
        &recipient,
        IMPORT_INFO,
        &plain,
        name.as_bytes(),
    )
    .map_err(|_| Error::Encrypt)?;
    Ok(Sealed { encapsulated_key: encapsulated_key.to_bytes().to_vec(), ciphertext })
}
