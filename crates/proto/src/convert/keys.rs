//! Key administration: requests of a client, and of front to the signer.

use super::batch::SealedKey;
use super::{malformed, refused, usages, within};
use crate::limits;
use crate::names::{BackendName, KeyId, KeyName, KeyReference};
use crate::status::{Code, Fault};
use crate::{signer_v1, v1};
use sealwright_crypto::algorithm::{KeyAlgorithm, KeyVersion};
use sealwright_crypto::usage::Usage;

pub use super::key_source::{KeySource, TokenObject};

/// What a new key shall be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeySpec {
    /// Of the OpenPGP key, for ever.
    pub version: KeyVersion,
    /// What it is made of, and where.
    pub source: KeySource,
    /// One line of text, `Name <mail>`.
    pub user_id: String,
    /// Seconds of validity from now; `None`: no expiry.
    pub valid_for_s: Option<u64>,
    /// A subkey signs, the primary key only certifies.
    pub signing_subkey: bool,
    /// Without a signing subkey, it may be sealed for bare digests all the same: whoever may have one signed can certify with it.
    pub bare_digests_on_primary: bool,
}

/// A client's request for a new key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateKey {
    /// Its name.
    pub name: KeyName,
    /// What it shall be.
    pub spec: KeySpec,
    /// Sealed with it, rising.
    pub usages: Vec<Usage>,
}

impl CreateKey {
    /// # Errors
    /// [`Code::NameNotAllowed`], [`Code::Unsupported`], [`Code::MalformedRequest`], [`Code::LimitExceeded`].
    pub fn parse(wire: v1::CreateKeyRequest) -> Result<Self, Fault> {
        let name = KeyName::parse(&wire.name)?;
        let version = parse_version(wire.openpgp_version)?;
        let source = KeySource::parse(&wire.algorithm, &wire.token, wire.object_label, wire.object_id)?;
        let spec = parse_spec(source, wire.user_id, wire.valid_for_s, wire.signing_subkey)?;
        let spec = KeySpec { version, bare_digests_on_primary: wire.bare_digests_on_primary, ..spec };
        Ok(Self { name, spec, usages: usages_or_openpgp(&wire.usages)? })
    }

    /// The inverse of [`Self::parse`].
    #[must_use]
    pub fn into_wire(self) -> v1::CreateKeyRequest {
        let (algorithm, token, object_label, object_id) = self.spec.source.into_wire();
        v1::CreateKeyRequest {
            name: self.name.as_str().to_owned(),
            algorithm,
            token,
            object_label,
            object_id,
            user_id: self.spec.user_id,
            valid_for_s: self.spec.valid_for_s,
            signing_subkey: self.spec.signing_subkey,
            openpgp_version: self.spec.version.number().into(),
            usages: usages_to_wire(&self.usages),
            bare_digests_on_primary: self.spec.bare_digests_on_primary,
        }
    }
}

/// Peers that know no other usage do not name it.
fn usages_or_openpgp(numbers: &[u32]) -> Result<Vec<Usage>, Fault> {
    if numbers.is_empty() { Ok(vec![Usage::OpenPgp]) } else { usages(numbers) }
}

/// Peers that know only version 4 do not say so.
fn parse_version(number: u32) -> Result<KeyVersion, Fault> {
    match number {
        0 => Ok(KeyVersion::V4),
        number => KeyVersion::from_number(number).map_err(|error| refused(&error)),
    }
}

/// All but the version, and what it may be sealed for.
fn parse_spec(
    source: KeySource,
    user_id: String,
    valid_for_s: Option<u64>,
    signing_subkey: bool,
) -> Result<KeySpec, Fault> {
    if signing_subkey && matches!(source, KeySource::TakenOver(..)) {
        return Err(malformed("one key on a token cannot be primary key and subkey"));
    }
    check_user_id(&user_id)?;
    let valid_for_s = parse_validity(valid_for_s)?;
    let (version, bare_digests_on_primary) = (KeyVersion::default(), false);
    Ok(KeySpec { version, source, user_id, valid_for_s, signing_subkey, bare_digests_on_primary })
}

/// One line of text.
pub(super) fn check_user_id(user_id: &str) -> Result<(), Fault> {
    within("the user id", user_id.len(), limits::USER_ID_BYTES_MAX, "bytes")?;
    if user_id.trim().is_empty() {
        return Err(malformed("the user id is empty"));
    }
    if user_id.chars().any(char::is_control) {
        return Err(malformed("the user id has a control character in it"));
    }
    Ok(())
}

pub(super) fn parse_validity(valid_for_s: Option<u64>) -> Result<Option<u64>, Fault> {
    match valid_for_s {
        Some(0) => Err(malformed("a validity of no time at all")),
        Some(seconds) if seconds > limits::VALIDITY_S_MAX => {
            let message = format!("a validity of {seconds} s; the limit is {}", limits::VALIDITY_S_MAX);
            Err(Fault::new(Code::LimitExceeded, message))
        }
        Some(_) | None => Ok(valid_for_s),
    }
}

/// A client's import: the secret is encrypted to the signer, front sees ciphertext.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImportKey {
    /// Its name; associated data of the encryption.
    pub name: KeyName,
    /// HPKE encapsulated key, 32 bytes.
    pub encapsulated_key: [u8; 32],
    /// HPKE ciphertext of an encoded `ImportSecret`.
    pub ciphertext: Vec<u8>,
    /// Sealed with it, rising; the `ImportSecret` says the same.
    pub usages: Vec<Usage>,
}

/// HPKE info string of an import (RFC 9180 section 5): binds the ciphertext to this use.
pub const IMPORT_INFO: &[u8] = b"sealwright import 1";

impl ImportKey {
    /// # Errors
    /// [`Code::NameNotAllowed`], [`Code::MalformedRequest`], [`Code::LimitExceeded`].
    pub fn parse(wire: v1::ImportKeyRequest) -> Result<Self, Fault> {
        let usages = usages_or_openpgp(&wire.usages)?;
        Self::checked(&wire.name, &wire.encapsulated_key, wire.ciphertext, usages)
    }

    /// The inverse of [`Self::parse`].
    #[must_use]
    pub fn into_wire(self) -> v1::ImportKeyRequest {
        v1::ImportKeyRequest {
            name: self.name.as_str().to_owned(),
            encapsulated_key: self.encapsulated_key.to_vec(),
            ciphertext: self.ciphertext,
            usages: usages_to_wire(&self.usages),
        }
    }

    fn checked(
        name: &str,
        encapsulated_key: &[u8],
        ciphertext: Vec<u8>,
        usages: Vec<Usage>,
    ) -> Result<Self, Fault> {
        // The key, the passphrase, the fields around them, the authentication tag.
        let limit =
            limits::IMPORT_BYTES_MAX.saturating_add(limits::PASSPHRASE_BYTES_MAX).saturating_add(1024);
        within("the import", ciphertext.len(), limit, "bytes")?;
        let encapsulated_key = <[u8; 32]>::try_from(encapsulated_key)
            .map_err(|_| malformed("the encapsulated key of an import is not 32 bytes"))?;
        Ok(Self { name: KeyName::parse(name)?, encapsulated_key, ciphertext, usages })
    }
}

/// A client's request to renew a certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RenewKey {
    /// Which key.
    pub key: KeyReference,
    /// Seconds of validity from now; `None`: no expiry.
    pub valid_for_s: Option<u64>,
}

impl RenewKey {
    /// # Errors
    /// [`Code::KeyNotFound`], [`Code::MalformedRequest`], [`Code::LimitExceeded`].
    pub fn parse(wire: &v1::RenewKeyRequest) -> Result<Self, Fault> {
        let valid_for_s = parse_validity(wire.valid_for_s)?;
        Ok(Self { key: KeyReference::parse(&wire.key)?, valid_for_s })
    }
}

/// A client's page of keys: after this name, at most so many.
///
/// # Errors
/// [`Code::NameNotAllowed`].
pub fn parse_list(wire: &v1::ListKeysRequest) -> Result<(Option<KeyName>, u32), Fault> {
    let after = if wire.after.is_empty() { None } else { Some(KeyName::parse(&wire.after)?) };
    let limit = match wire.limit {
        0 => limits::KEYS_PER_PAGE_MAX,
        asked => asked.min(limits::KEYS_PER_PAGE_MAX),
    };
    Ok((after, limit))
}

/// The signer's side of creation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignerCreate {
    /// The key's id, drawn by front.
    pub key_id: KeyId,
    /// What it shall be.
    pub spec: KeySpec,
    /// Sealed with it.
    pub usages: Vec<Usage>,
    /// Made with the time of the processors that is left over: one of many, for which nobody waits.
    pub may_wait: bool,
}

impl SignerCreate {
    /// # Errors
    /// Those of [`CreateKey::parse`].
    pub fn parse(wire: signer_v1::CreateKey) -> Result<Self, Fault> {
        let version = parse_version(wire.openpgp_version)?;
        let source = KeySource::parse(&wire.algorithm, &wire.token, wire.object_label, wire.object_id)?;
        let spec = parse_spec(source, wire.user_id, wire.valid_for_s, wire.signing_subkey)?;
        let spec = KeySpec { version, bare_digests_on_primary: wire.bare_digests_on_primary, ..spec };
        let key_id = KeyId::parse(&wire.key_id)?;
        Ok(Self { key_id, spec, usages: usages(&wire.usages)?, may_wait: wire.may_wait })
    }

    /// The inverse of [`Self::parse`].
    #[must_use]
    pub fn into_wire(self) -> signer_v1::CreateKey {
        let (algorithm, token, object_label, object_id) = self.spec.source.into_wire();
        signer_v1::CreateKey {
            key_id: self.key_id.as_bytes().to_vec(),
            algorithm,
            token,
            object_label,
            object_id,
            user_id: self.spec.user_id,
            valid_for_s: self.spec.valid_for_s,
            signing_subkey: self.spec.signing_subkey,
            usages: usages_to_wire(&self.usages),
            openpgp_version: self.spec.version.number().into(),
            may_wait: self.may_wait,
            bare_digests_on_primary: self.spec.bare_digests_on_primary,
        }
    }
}

/// The signer's side of an import.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignerImport {
    /// The key's id, drawn by front.
    pub key_id: KeyId,
    /// What the client sent.
    pub import: ImportKey,
}

impl SignerImport {
    /// # Errors
    /// Those of [`ImportKey::parse`].
    pub fn parse(wire: signer_v1::ImportKey) -> Result<Self, Fault> {
        let usages = usages(&wire.usages)?;
        let import = ImportKey::checked(&wire.name, &wire.encapsulated_key, wire.ciphertext, usages)?;
        Ok(Self { key_id: KeyId::parse(&wire.key_id)?, import })
    }

    /// The inverse of [`Self::parse`].
    #[must_use]
    pub fn into_wire(self) -> signer_v1::ImportKey {
        signer_v1::ImportKey {
            key_id: self.key_id.as_bytes().to_vec(),
            name: self.import.name.as_str().to_owned(),
            encapsulated_key: self.import.encapsulated_key.to_vec(),
            usages: usages_to_wire(&self.import.usages),
            ciphertext: self.import.ciphertext,
        }
    }
}

/// The signer's side of a renewal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignerRenew {
    /// The key in force.
    pub key: SealedKey,
    /// Seconds of validity from now; `None`: no expiry.
    pub valid_for_s: Option<u64>,
    /// The transferable public key in force.
    pub certificate: Vec<u8>,
    /// Of the new blob; above that of [`Self::key`].
    pub generation: u32,
}

impl SignerRenew {
    /// # Errors
    /// [`Code::MalformedRequest`], [`Code::LimitExceeded`].
    pub fn parse(wire: signer_v1::RenewKey) -> Result<Self, Fault> {
        let key = SealedKey::parse(wire.key.ok_or_else(|| malformed("a renewal without a key"))?)?;
        within("the certificate", wire.certificate.len(), limits::CERTIFICATE_BYTES_MAX, "bytes")?;
        if wire.generation <= key.generation {
            return Err(malformed("a renewal that does not raise the generation"));
        }
        let valid_for_s = parse_validity(wire.valid_for_s)?;
        Ok(Self { key, valid_for_s, certificate: wire.certificate, generation: wire.generation })
    }

    /// The inverse of [`Self::parse`].
    #[must_use]
    pub fn into_wire(self) -> signer_v1::RenewKey {
        signer_v1::RenewKey {
            key: Some(self.key.into_wire()),
            valid_for_s: self.valid_for_s,
            certificate: self.certificate,
            generation: self.generation,
        }
    }
}

/// What the signer made of a creation, import or renewal: everything that the database keeps of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyMaterial {
    /// The sealed blob.
    pub sealed: Vec<u8>,
    /// From 1.
    pub generation: u32,
    /// Of the component that signs.
    pub algorithm: KeyAlgorithm,
    /// Of the primary key, lower-case hexadecimal.
    pub fingerprint: String,
    /// Of the component that signs.
    pub signing_fingerprint: String,
    /// First user id.
    pub user_id: String,
    /// Unix seconds.
    pub created: i64,
    /// Unix seconds; `None`: no expiry.
    pub expires: Option<i64>,
    /// Transferable public key, binary.
    pub certificate: Vec<u8>,
    /// The primary secret is sealed with it.
    pub renewable: bool,
    /// Where the private key of the component that signs is.
    pub backend: BackendName,
    /// Armored revocation certificate; only of a creation.
    pub revocation: Option<String>,
    /// What a user should know.
    pub warnings: Vec<String>,
}

impl KeyMaterial {
    /// For front.
    ///
    /// # Errors
    /// [`Code::Internal`]: the signer's answer breaks a rule.
    pub fn parse(wire: signer_v1::KeyMaterial) -> Result<Self, Fault> {
        let broken = |_| Fault::new(Code::Internal, "the signer's answer about a key breaks a rule");
        Self::checked(wire).map_err(broken)
    }

    fn checked(wire: signer_v1::KeyMaterial) -> Result<Self, Fault> {
        within("a sealed key", wire.sealed.len(), limits::SEALED_BYTES_MAX, "bytes")?;
        within("the certificate", wire.certificate.len(), limits::CERTIFICATE_BYTES_MAX, "bytes")?;
        within("a key", wire.warnings.len(), limits::WARNINGS_MAX, "warnings")?;
        if wire.sealed.is_empty() || wire.certificate.is_empty() || wire.generation == 0 {
            return Err(malformed("a key without blob, certificate or generation"));
        }
        let fingerprint = |text: &str| match KeyReference::parse(text)? {
            KeyReference::Fingerprint(hex) => Ok(hex),
            KeyReference::Name(_) => Err(malformed("a fingerprint that is none")),
        };
        Ok(Self {
            algorithm: KeyAlgorithm::from_name(&wire.algorithm).map_err(|error| refused(&error))?,
            fingerprint: fingerprint(&wire.fingerprint)?,
            signing_fingerprint: fingerprint(&wire.signing_fingerprint)?,
            sealed: wire.sealed,
            generation: wire.generation,
            user_id: wire.user_id,
            created: wire.created,
            expires: wire.expires,
            certificate: wire.certificate,
            renewable: wire.renewable,
            backend: BackendName::parse(&wire.backend)?,
            revocation: (!wire.revocation.is_empty()).then_some(wire.revocation),
            warnings: wire.warnings,
        })
    }

    /// The inverse of [`Self::parse`].
    #[must_use]
    pub fn into_wire(self) -> signer_v1::KeyMaterial {
        signer_v1::KeyMaterial {
            sealed: self.sealed,
            generation: self.generation,
            algorithm: self.algorithm.to_string(),
            fingerprint: self.fingerprint,
            signing_fingerprint: self.signing_fingerprint,
            user_id: self.user_id,
            created: self.created,
            expires: self.expires,
            certificate: self.certificate,
            renewable: self.renewable,
            revocation: self.revocation.unwrap_or_default(),
            warnings: self.warnings,
            backend: self.backend.as_str().to_owned(),
        }
    }
}

fn usages_to_wire(usages: &[Usage]) -> Vec<u32> {
    usages.iter().map(|usage| usage.id().into()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: [u8; 16] = [0x01, 0x98, 0xf3, 0, 0, 1, 0x7a, 0xbc, 0x9d, 0, 1, 2, 3, 4, 5, 6];

    fn spec() -> KeySpec {
        KeySpec {
            version: KeyVersion::V6,
            source: KeySource::Software(KeyAlgorithm::Rsa(4096)),
            user_id: "Release <release@example.org>".to_owned(),
            valid_for_s: Some(86_400),
            signing_subkey: true,
            bare_digests_on_primary: true,
        }
    }

    #[test]
    fn requests_survive_the_wire() {
        let usages = vec![Usage::OpenPgp, Usage::ObsDigest];
        let name = KeyName::parse("release").unwrap();
        let create = CreateKey { name: name.clone(), spec: spec(), usages: usages.clone() };
        assert_eq!(CreateKey::parse(create.clone().into_wire()).unwrap(), create);
        for may_wait in [false, true] {
            let key_id = KeyId::parse(&ID).unwrap();
            let create = SignerCreate { key_id, spec: spec(), usages: usages.clone(), may_wait };
            assert_eq!(SignerCreate::parse(create.clone().into_wire()).unwrap(), create);
        }
        let import = ImportKey { name, encapsulated_key: [7; 32], ciphertext: vec![1, 2], usages };
        assert_eq!(ImportKey::parse(import.clone().into_wire()).unwrap(), import);
        let import = SignerImport { key_id: KeyId::parse(&ID).unwrap(), import };
        assert_eq!(SignerImport::parse(import.clone().into_wire()).unwrap(), import);
        let key = SealedKey { key_id: KeyId::parse(&ID).unwrap(), generation: 1, blob: vec![3] };
        let renew = SignerRenew { key, valid_for_s: None, certificate: vec![4], generation: 2 };
        assert_eq!(SignerRenew::parse(renew.clone().into_wire()).unwrap(), renew);
    }

    fn create_refused_as(change: fn(&mut v1::CreateKeyRequest)) -> Code {
        let (name, usages) = (KeyName::parse("release").unwrap(), vec![Usage::OpenPgp]);
        let mut wire = CreateKey { name, spec: spec(), usages }.into_wire();
        change(&mut wire);
        CreateKey::parse(wire).unwrap_err().code
    }

    #[test]
    fn a_creation_that_breaks_a_rule_is_refused_by_name() {
        assert_eq!(create_refused_as(|c| c.name = "a b".to_owned()), Code::NameNotAllowed);
        for weak in ["rsa1024", "dsa2048", "rsa8192", ""] {
            let wire = v1::CreateKeyRequest {
                name: "n".to_owned(),
                algorithm: weak.to_owned(),
                user_id: "u".to_owned(),
                valid_for_s: None,
                signing_subkey: false,
                openpgp_version: 0,
                ..Default::default()
            };
            assert_eq!(CreateKey::parse(wire).unwrap_err().code, Code::Unsupported, "{weak}");
        }
        assert_eq!(create_refused_as(|c| c.user_id = " ".to_owned()), Code::MalformedRequest);
        assert_eq!(create_refused_as(|c| c.user_id = "a\nb".to_owned()), Code::MalformedRequest);
        assert_eq!(create_refused_as(|c| c.user_id = "x".repeat(1025)), Code::LimitExceeded);
        assert_eq!(create_refused_as(|c| c.openpgp_version = 5), Code::Unsupported);
        assert_eq!(create_refused_as(|c| c.usages = vec![1, 5]), Code::Unsupported);
        assert_eq!(create_refused_as(|c| c.usages = vec![2, 2]), Code::MalformedRequest);
        assert_eq!(create_refused_as(|c| c.valid_for_s = Some(0)), Code::MalformedRequest);
        assert_eq!(create_refused_as(|c| c.valid_for_s = Some(u64::MAX)), Code::LimitExceeded);
    }

    #[test]
    fn usages_are_known_and_each_there_once() {
        assert!(usages(&[1]).is_ok());
        for bad in [&[] as &[u32], &[1, 1], &[0], &[77]] {
            assert!(usages(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_renewal_raises_the_generation() {
        let key = SealedKey { key_id: KeyId::parse(&ID).unwrap(), generation: 5, blob: vec![3] };
        for (generation, good) in [(4, false), (5, false), (6, true)] {
            let renew = SignerRenew { key: key.clone(), valid_for_s: None, certificate: vec![4], generation };
            assert_eq!(SignerRenew::parse(renew.into_wire()).is_ok(), good);
        }
    }

    #[test]
    fn pages_have_a_limit() {
        let list = |after: &str, limit| parse_list(&v1::ListKeysRequest { after: after.to_owned(), limit });
        assert_eq!(list("", 0).unwrap(), (None, limits::KEYS_PER_PAGE_MAX));
        assert_eq!(list("", u32::MAX).unwrap().1, limits::KEYS_PER_PAGE_MAX);
        assert_eq!(list("a", 5).unwrap(), (Some(KeyName::parse("a").unwrap()), 5));
        assert!(list("a b", 5).is_err());
    }

    #[test]
    fn the_signers_answer_about_a_key_is_checked() {
        let material = KeyMaterial {
            sealed: vec![1],
            generation: 1,
            algorithm: KeyAlgorithm::Ed25519,
            fingerprint: "ab".repeat(20),
            signing_fingerprint: "cd".repeat(20),
            user_id: "u".to_owned(),
            created: 5,
            expires: None,
            certificate: vec![2],
            renewable: true,
            backend: BackendName::parse("pkcs11:hsm1").unwrap(),
            revocation: None,
            warnings: vec!["w".to_owned()],
        };
        assert_eq!(KeyMaterial::parse(material.clone().into_wire()).unwrap(), material);
        for change in [
            (|m| m.sealed.clear()) as fn(&mut signer_v1::KeyMaterial),
            |m| m.certificate.clear(),
            |m| m.generation = 0,
            |m| m.fingerprint = "zz".to_owned(),
            |m| m.algorithm = "none".to_owned(),
            |m| m.backend = "a b".to_owned(),
        ] {
            let mut wire = material.clone().into_wire();
            change(&mut wire);
            assert_eq!(KeyMaterial::parse(wire).unwrap_err().code, Code::Internal);
        }
    }
}
