//! Unlocking a secret packet with rPGP, and handing its numbers to aws-lc. rPGP never signs with them.

use std::panic::{AssertUnwindSafe, catch_unwind};

use pgp::errors::Error as PgpError;
use pgp::packet::{PacketHeader, SecretKey, SecretSubkey};
use pgp::types::{Password, PlainSecretParams, Tag};
use sealwright_proto::status::{Code, Fault};
use zeroize::Zeroizing;

use super::file::{Protection, SecretPacket};
use super::refused;
use crate::backend::Failed;
use crate::backend::software::{PrivateNumbers, import_ed25519, import_rsa};
use crate::public::PublicHalf;
use crate::secret::Secret;

/// Memory that the passphrase of a key may cost, as a power of 2 in KiB: 64 MiB, the second recommended choice of RFC
/// 9106 section 4. rPGP alone would lend 2 GiB, for minutes.
const ARGON2_MEMORY_POWER_MAX: u8 = 16;

/// The secret as the software backend wants it.
///
/// # Errors
/// [`Code::PassphraseWrong`] if a passphrase is missing or wrong; [`Code::ImportRefused`] otherwise.
pub(super) fn unlock(packet: &SecretPacket, public: &PublicHalf, passphrase: &[u8]) -> Result<Secret, Fault> {
    let fingerprint = packet.fingerprint();
    match packet.protection() {
        Protection::Stub => {
            return Err(refused(&format!("the secret of key {fingerprint} is not in the file")));
        }
        Protection::Passphrase if passphrase.is_empty() => {
            let message = format!("key {fingerprint} is protected by a passphrase, and none was given");
            return Err(Fault::new(Code::PassphraseWrong, message));
        }
        Protection::Passphrase | Protection::Clear => {}
    }
    if packet.argon2_memory_power().is_some_and(|power| power > ARGON2_MEMORY_POWER_MAX) {
        return Err(refused(&format!(
            "the passphrase of key {fingerprint} costs more than 64 MiB of memory (Argon2); set it anew with less"
        )));
    }
    // rPGP and the big numbers under it assert what a hostile key need not fulfil (equal primes, say).
    let unlocked = catch_unwind(AssertUnwindSafe(|| take_numbers(packet, public, passphrase)));
    let unlocked =
        unlocked.map_err(|_| refused(&format!("the numbers of key {fingerprint} are not those of a key")))?;
    match (unlocked, packet.protection()) {
        (Ok(Ok(secret)), _) => Ok(secret),
        (Ok(Err(failed)), _) => Err(refused(&format!("key {fingerprint}: {}", failed.0))),
        (Err(PgpError::Unsupported { message, .. }), _) => {
            Err(refused(&format!("key {fingerprint} is protected in an unsupported way: {message}")))
        }
        (Err(_), Protection::Passphrase) => {
            Err(Fault::new(Code::PassphraseWrong, format!("the passphrase does not open key {fingerprint}")))
        }
        (Err(error), Protection::Clear | Protection::Stub) => {
            Err(refused(&format!("the secret of key {fingerprint} is damaged: {error}")))
        }
    }
}

type Unlocked = Result<Result<Secret, Failed>, PgpError>;

fn take_numbers(packet: &SecretPacket, public: &PublicHalf, passphrase: &[u8]) -> Unlocked {
    let password = Password::from(passphrase);
    let len = u32::try_from(packet.body().len()).unwrap_or(u32::MAX);
    let convert = |secret: &PlainSecretParams| Ok(convert(secret, public));
    if packet.is_primary() {
        let header = PacketHeader::new_fixed(Tag::SecretKey, len);
        SecretKey::try_from_reader(header, packet.body())?.unlock(&password, |_, secret| convert(secret))?
    } else {
        let header = PacketHeader::new_fixed(Tag::SecretSubkey, len);
        SecretSubkey::try_from_reader(header, packet.body())?
            .unlock(&password, |_, secret| convert(secret))?
    }
}

fn convert(secret: &PlainSecretParams, public: &PublicHalf) -> Result<Secret, Failed> {
    if let PlainSecretParams::RSA(secret) = secret {
        let (d, p, q, u) = secret.to_bytes();
        let [d, p, q, u] = [d, p, q, u].map(Zeroizing::new);
        return import_rsa(public, &PrivateNumbers { d: &d, p: &p, q: &q, u: &u });
    }
    if let PlainSecretParams::EdDSALegacy(pgp::crypto::eddsa_legacy::SecretKey::Ed25519(secret)) = secret {
        return import_ed25519(public, secret.as_bytes());
    }
    if let PlainSecretParams::Ed25519(secret) = secret {
        return import_ed25519(public, secret.as_bytes());
    }
    Err(Failed("it is neither an RSA nor an Ed25519 key"))
}
