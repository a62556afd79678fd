//! Importing a secret key: it comes encrypted to this process (HPKE, RFC 9180), so that front sees ciphertext only.
//! What cannot sign safely, now, is refused by name; nothing is repaired silently.

mod file;
mod message;
mod unlock;

use std::sync::Arc;

use hpke::aead::{AeadTag, AesGcm256};
use hpke::kdf::HkdfSha256;
use hpke::kem::X25519HkdfSha256;
use hpke::{Deserializable as _, Kem, OpModeR, Serializable as _};
use pgp::types::Tag;
use sealwright_crypto::error::Error as CryptoError;
use sealwright_crypto::openpgp::certificate::{Certificate, Component as Listed};
use sealwright_crypto::openpgp::fingerprint::Fingerprint;
use sealwright_crypto::usage::Usage;
use sealwright_proto::convert::keys::{IMPORT_INFO, ImportKey, KeyMaterial, SignerImport};
use sealwright_proto::limits::{IMPORT_BYTES_MAX, PASSPHRASE_BYTES_MAX};
use sealwright_proto::names::KeyName;
use sealwright_proto::status::{Code, Fault};

use crate::backend::{Backend as _, software::Software};
use crate::clock::utc;
use crate::create;
use crate::error::Error;
use crate::opened::Component;
use crate::packets::RawPacket;
use crate::public::PublicHalf;
use crate::renew::RENEW_ADVICE;
use crate::root::Sealer;
use crate::seal::{Primary, StoredComponent, StoredKey};
use crate::secret::Secret;
use crate::tokens::Tokens;
use file::{Protection, SecretFile, SecretPacket};
use message::Message;

type HpkeKem = X25519HkdfSha256;

/// The HPKE key pair of this process: new at each start, so that a recorded import opens nowhere later.
///
/// The private key is derived from its seed, in locked memory, for each import.
pub(crate) struct ImportKeys {
    seed: Secret,
    public: <HpkeKem as Kem>::PublicKey,
}

impl ImportKeys {
    /// # Errors
    /// [`Error::Random`].
    pub(crate) fn new() -> Result<Self, Error> {
        let seed = Secret::random(32)?;
        let (_, public) = HpkeKem::derive_keypair(seed.expose());
        Ok(Self { seed, public })
    }

    /// The public key, 32 bytes.
    pub(crate) fn public_key(&self) -> Vec<u8> {
        self.public.to_bytes().to_vec()
    }

    /// Decrypts; the name must be the one that it was encrypted for.
    fn open(&self, import: &ImportKey) -> Result<Secret, Fault> {
        let refused = || {
            let reason = "the key could not be decrypted: it was encrypted for another name, or the signer was \
                          restarted meanwhile. Import it again";
            Fault::new(Code::ImportRefused, reason)
        };
        let encapsulated = <HpkeKem as Kem>::EncappedKey::from_bytes(&import.encapsulated_key);
        let encapsulated = encapsulated.map_err(|_| refused())?;
        let (sealed, tag) = import.ciphertext.split_last_chunk::<16>().ok_or_else(refused)?;
        let tag = AeadTag::<AesGcm256>::from_bytes(tag).map_err(|_| refused())?;
        let plain = Secret::filled(sealed.len(), |buffer| {
            buffer.copy_from_slice(sealed);
            let (private, _) = HpkeKem::derive_keypair(self.seed.expose());
            hpke::single_shot_open_inout_detached::<AesGcm256, HkdfSha256, HpkeKem>(
                &OpModeR::Base,
                &private,
                &encapsulated,
                IMPORT_INFO,
                buffer.into(),
                import.name.as_str().as_bytes(),
                &tag,
            )
            .ok()
        });
        plain.map_err(|error| Fault::from(&error))?.ok_or_else(refused)
    }
}

/// Imports the key as of `now` (Unix seconds).
///
/// # Errors
/// [`Code::ImportRefused`], [`Code::PassphraseWrong`], [`Code::LimitExceeded`], each with its reason.
pub(crate) fn import(
    keys: &ImportKeys,
    sealer: &Sealer,
    wanted: SignerImport,
    now: i64,
) -> Result<KeyMaterial, Fault> {
    let SignerImport { key_id, import } = wanted;
    let message = Message::parse(&keys.open(&import)?)
        .ok_or_else(|| refused("what was encrypted is no key with its passphrase"))?;
    let usages = usages(&message, &import.usages)?;
    let (key, passphrase) = (message.key.expose(), message.passphrase.expose());
    if key.len() > IMPORT_BYTES_MAX || passphrase.len() > PASSPHRASE_BYTES_MAX {
        return Err(Fault::new(Code::LimitExceeded, "the key file or the passphrase is too large"));
    }
    let file = SecretFile::parse(key)?;
    let certificate = Certificate::parse(file.certificate()).map_err(|error| malformed(&error))?;
    let chosen = choose(&certificate, &file, &message.subkey, now)?;
    let signing = take(chosen, passphrase)?;
    let primary = match file.primary() {
        primary if primary.fingerprint() == chosen.fingerprint() => Primary::Signs,
        primary if primary.protection() == Protection::Stub => Primary::Absent,
        primary => Primary::Separate(take(primary, passphrase)?),
    };
    create::usages_allowed(&usages, &signing, &primary, message.bare_digests_on_primary)?;
    let expires = create::end_of(&certificate, &signing);
    let stored = StoredKey { key_id, generation: 1, usages, expires, signing, primary };
    let warnings = warnings(&certificate, &import.name, &stored, now);
    create::material(sealer, &stored, &certificate, warnings)
}

/// What the client encrypted for the signer alone, and what front was told: the same.
fn usages(message: &Message, told: &[Usage]) -> Result<Vec<Usage>, Fault> {
    let named: Result<Vec<_>, _> = message.usages.iter().map(|id| Usage::from_id(*id)).collect();
    let mut named = named.map_err(|error| malformed(&error))?;
    if named.is_empty() {
        named.push(Usage::OpenPgp);
    }
    if named == told {
        return Ok(named);
    }
    Err(refused("it was encrypted to be sealed for other usages than were asked for"))
}

/// The one packet to sign with: the one that was named, else the only subkey that can sign now, else the primary
/// key if it can.
fn choose<'a>(
    certificate: &Certificate,
    file: &'a SecretFile,
    named: &str,
    now: i64,
) -> Result<&'a SecretPacket, Fault> {
    if !named.is_empty() {
        return choose_named(certificate, file, named, now);
    }
    let fit: Vec<_> =
        certificate.signing_components(now).into_iter().filter(|listed| has_secret(file, listed)).collect();
    let subkeys: Vec<_> = fit.iter().filter(|listed| !listed.is_primary()).collect();
    let chosen = match (subkeys.as_slice(), fit.first()) {
        ([subkey], _) => subkey.fingerprint(),
        ([], Some(primary)) => primary.fingerprint(),
        ([], None) => return Err(none_can_sign(certificate, file, now)),
        (several, _) => {
            let names: Vec<_> = several.iter().map(|listed| listed.fingerprint().to_string()).collect();
            let message = format!("several subkeys can sign; name one with --subkey: {}", names.join(", "));
            return Err(refused(&message));
        }
    };
    file.find(&chosen).ok_or_else(|| none_can_sign(certificate, file, now))
}

fn choose_named<'a>(
    certificate: &Certificate,
    file: &'a SecretFile,
    named: &str,
    now: i64,
) -> Result<&'a SecretPacket, Fault> {
    let fingerprint = Fingerprint::from_hex(named)
        .map_err(|_| refused("the key to sign with is named by something that is no fingerprint"))?;
    let listed = certificate.find(&fingerprint).ok_or_else(|| {
        refused(&format!("the file has no key {fingerprint}; it has {}", listing(certificate, file, now)))
    })?;
    if let Some(reason) = why_unfit(listed, now) {
        return Err(refused(&format!("key {fingerprint} cannot sign: {reason}")));
    }
    file.find(&fingerprint)
        .filter(|packet| packet.protection() != Protection::Stub)
        .ok_or_else(|| refused(&format!("the secret of key {fingerprint} is not in the file")))
}

fn has_secret(file: &SecretFile, listed: &Listed) -> bool {
    file.find(&listed.fingerprint()).is_some_and(|packet| packet.protection() != Protection::Stub)
}

/// Says of each key in the file why it cannot sign.
fn none_can_sign(certificate: &Certificate, file: &SecretFile, now: i64) -> Fault {
    refused(&format!("no key in the file can sign now. {}", listing(certificate, file, now)))
}

/// Each key in the file, and whether it can sign.
fn listing(certificate: &Certificate, file: &SecretFile, now: i64) -> String {
    let listed = certificate.components().iter().map(|listed| {
        let role = if listed.is_primary() { "primary key" } else { "subkey" };
        let state = why_unfit(listed, now).unwrap_or_else(|| {
            if has_secret(file, listed) { "it can sign" } else { "its secret is not in the file" }.to_owned()
        });
        format!("{role} {} ({}): {state}", listed.fingerprint(), listed.algorithm_name())
    });
    listed.collect::<Vec<_>>().join("; ")
}

/// [`Listed::unfit_to_sign`], with the end of validity as a date.
fn why_unfit(listed: &Listed, now: i64) -> Option<String> {
    let reason = listed.unfit_to_sign(now)?;
    match listed.expires() {
        // It would be fit a moment earlier: the end is the only reason.
        Some(end) if listed.unfit_to_sign(end.saturating_sub(1)).is_none() => {
            Some(format!("it expired {}", utc(end)))
        }
        Some(_) | None => Some(reason),
    }
}

/// Unlocks one secret and proves that it belongs to its public half by a signature.
fn take(packet: &SecretPacket, passphrase: &[u8]) -> Result<StoredComponent, Fault> {
    let public = Arc::new(PublicHalf::parse(packet.public_body()).map_err(|error| malformed(&error))?);
    let secret = unlock::unlock(packet, &public, passphrase)?;
    let stored = StoredComponent { backend: Software.number(), public, secret };
    crate::self_test::prove(&Component::open(&Tokens::none(), &stored)?)?;
    Ok(stored)
}

/// The key in the body of a secret key packet that is in the clear.
///
/// # Errors
/// [`Code::ImportRefused`].
pub(crate) fn clear_secret(body: &[u8]) -> Result<StoredComponent, Fault> {
    let packet = RawPacket { tag: Tag::SecretKey, body, whole: body };
    let packet = SecretPacket::parse(&packet)?;
    if packet.protection() != Protection::Clear {
        return Err(refused("it is not in the clear"));
    }
    let public = Arc::new(PublicHalf::parse(packet.public_body()).map_err(|error| malformed(&error))?);
    let secret = unlock::unlock(&packet, &public, &[])?;
    Ok(StoredComponent { backend: Software.number(), public, secret })
}

/// What the certificate should be warned of, with what can be done about it here.
fn warnings(certificate: &Certificate, name: &KeyName, stored: &StoredKey, now: i64) -> Vec<String> {
    let advice = match stored.primary {
        Primary::Signs | Primary::Separate(_) => format!("`sealwright key renew {name}`"),
        Primary::Absent => "where its primary secret key is kept".to_owned(),
    };
    let kept: Vec<_> = certificate
        .components()
        .iter()
        .filter(|listed| !listed.is_primary() && listed.fingerprint() != stored.signing.public.fingerprint())
        .map(|listed| format!("subkey {}:", listed.fingerprint()))
        .collect();
    let warnings = certificate.warnings_at(now).into_iter().map(|warning| {
        if kept.iter().any(|subkey| warning.starts_with(subkey)) {
            return warning.replace(RENEW_ADVICE, "It is not used to sign here.");
        }
        warning.replace("`sealwright key renew`", &advice)
    });
    warnings.collect()
}

fn refused(reason: &str) -> Fault {
    Fault::new(Code::ImportRefused, reason)
}

fn malformed(error: &CryptoError) -> Fault {
    refused(&error.to_string())
}
