//! New keys: made by the backend, certified at once, sealed; with a revocation certificate to lay by.

use std::sync::Arc;

use pgp::packet::SubpacketData;
use pgp::ser::Serialize as _;
use pgp::types::Tag;
use sealwright_crypto::algorithm::{KeyAlgorithm, KeyVersion};
use sealwright_crypto::openpgp::armor::{self, Kind};
use sealwright_crypto::openpgp::certificate::Certificate;
use sealwright_crypto::usage::Usage;
use sealwright_proto::convert::keys::{KeyMaterial, KeySource, KeySpec, SignerCreate};
use sealwright_proto::limits::{CERTIFICATE_BYTES_MAX, SEALED_BYTES_MAX, USER_ID_BYTES_MAX, WARNINGS_MAX};
use sealwright_proto::names::KeyId;
use sealwright_proto::status::{Code, Fault};

use crate::backend::{self, Order};
use crate::certify::{self, Claims};
use crate::clock::openpgp_time;
use crate::opened::{self, Component};
use crate::packets;
use crate::public::PublicHalf;
use crate::root::Sealer;
use crate::seal::{Primary, StoredComponent, StoredKey};
use crate::self_test;
use crate::tokens::Tokens;

/// Makes the key as of `now` (Unix seconds).
///
/// # Errors
/// [`Code::Internal`] if the backend fails, or what its token says; [`Code::Unsupported`] or [`Code::ClockBehind`] for
/// times that OpenPGP cannot say.
pub(crate) fn create(
    sealer: &Sealer,
    tokens: &Tokens,
    wanted: SignerCreate,
    now: i64,
) -> Result<KeyMaterial, Fault> {
    let SignerCreate { key_id, spec, usages, may_wait: _ } = wanted;
    usages_fit(&spec, &usages)?;
    let created = openpgp_time(now)?;
    let expires = end_of_validity(now, spec.valid_for_s)?;
    let mut warnings = Vec::new();
    let mut make = |role| make(tokens, &spec, &Mark { key_id, role }, created, &mut warnings);
    let primary = make(PRIMARY)?;
    let subkey = if spec.signing_subkey { Some(make(SUBKEY)?) } else { None };
    let open_primary = Component::open(tokens, &primary)?;
    let mut certificate = packets::write(Tag::PublicKey, primary.public.body()).map_err(internal)?;
    let mut of_user = vec![SubpacketData::IsPrimary(true)];
    let of_primary = certify::new_primary_claims(subkey.is_none());
    let expires_by_user = match spec.version {
        KeyVersion::V4 => {
            of_user.extend(of_primary);
            expires
        }
        KeyVersion::V6 => {
            let claims = Claims { created, expires, other: of_primary };
            certificate.extend(certify::certify_directly(&open_primary, claims)?);
            None
        }
    };
    let user = certify::user_id(&spec.user_id)?;
    let user_body = user.to_bytes().map_err(internal)?;
    certificate.extend(packets::write(Tag::UserId, &user_body).map_err(internal)?);
    let claims = Claims { created, expires: expires_by_user, other: of_user };
    certificate.extend(certify::certify_user(&open_primary, &user, claims)?);
    if let Some(subkey) = &subkey {
        certificate.extend(packets::write(Tag::PublicSubkey, subkey.public.body()).map_err(internal)?);
        let claims = Claims { created, expires, other: certify::new_subkey_claims() };
        certificate.extend(certify::bind_subkey(&open_primary, &Component::open(tokens, subkey)?, claims)?);
    }
    let revocation = armor::encode(Kind::PublicKey, &certify::revoke(&open_primary, created)?);
    let (signing, primary) = match subkey {
        Some(subkey) => (subkey, Primary::Separate(primary)),
        None => (primary, Primary::Signs),
    };
    let stored = StoredKey { key_id, generation: 1, usages, expires, signing, primary };
    let certificate = checked(&certificate, &stored, now)?;
    Ok(KeyMaterial { revocation: Some(revocation), ..material(sealer, &stored, &certificate, warnings)? })
}

/// Refused before the key is made: what [`usages_allowed`] would refuse of an import, and SHA-1 on a token.
fn usages_fit(spec: &KeySpec, usages: &[Usage]) -> Result<(), Fault> {
    if usages == [Usage::OpenPgp] {
        return Ok(());
    }
    if spec.version != KeyVersion::V4 {
        return Err(only_version_4());
    }
    if usages.contains(&Usage::ObsDigestSha1) && spec.source.token().is_some() {
        let message = "a key on a token signs no SHA-1 digests; leave out the usage obs-digest-sha1";
        return Err(Fault::new(Code::Unsupported, message));
    }
    let opens = matches!(spec.source, KeySource::Software(KeyAlgorithm::Rsa(_)));
    if usages.contains(&Usage::ObsProjectKeys) && !opens {
        return Err(opens_nothing());
    }
    let is_bare = usages.iter().any(|usage| usage.is_bare());
    if !is_bare || spec.signing_subkey || spec.bare_digests_on_primary { Ok(()) } else { Err(can_certify()) }
}

/// A key that is sealed for bare digests signs whatever somebody says that it is: if it is a primary key, that can be a user id
/// or a subkey of theirs. So a primary key must have been meant.
///
/// # Errors
/// [`Code::UsageNotAllowed`]; [`Code::Unsupported`] for a key of another version than 4, or one that cannot open project keys.
pub(crate) fn usages_allowed(
    usages: &[Usage],
    signing: &StoredComponent,
    primary: &Primary,
    on_primary: bool,
) -> Result<(), Fault> {
    if usages == [Usage::OpenPgp] {
        return Ok(());
    }
    if signing.public.version() != KeyVersion::V4 {
        return Err(only_version_4());
    }
    if usages.contains(&Usage::ObsProjectKeys) && signing.public.algorithm() == KeyAlgorithm::Ed25519 {
        return Err(opens_nothing());
    }
    match primary {
        Primary::Signs if !on_primary && usages.iter().any(|usage| usage.is_bare()) => Err(can_certify()),
        Primary::Signs | Primary::Separate(_) | Primary::Absent => Ok(()),
    }
}

fn only_version_4() -> Fault {
    Fault::new(
        Code::Unsupported,
        "only keys of version 4 serve obs-sign's protocol: it has no room for others",
    )
}

fn opens_nothing() -> Fault {
    Fault::new(Code::Unsupported, "only RSA keys that are on no token open project keys")
}

fn can_certify() -> Fault {
    let message = "a primary key that signs bare digests certifies whatever the client wants: user ids, subkeys. Use a signing \
                   subkey, or say --obs-digest-on-primary if every client is to have that power";
    Fault::new(Code::UsageNotAllowed, message)
}

/// Unix seconds at which something valid from `now` ends.
///
/// # Errors
/// [`Code::LimitExceeded`].
pub(crate) fn end_of_validity(now: i64, valid_for_s: Option<u64>) -> Result<Option<i64>, Fault> {
    let Some(seconds) = valid_for_s else { return Ok(None) };
    let end = i64::try_from(seconds).ok().and_then(|seconds| now.checked_add(seconds));
    end.map(Some).ok_or_else(|| Fault::new(Code::LimitExceeded, "the key would expire too far ahead"))
}

/// The certificate, if it says what was sealed: read like a stranger would, it lets exactly this component sign,
/// to exactly this end.
///
/// # Errors
/// [`Code::Internal`].
pub(crate) fn checked(bytes: &[u8], stored: &StoredKey, now: i64) -> Result<Certificate, Fault> {
    let wrong = |reason: &str| Fault::new(Code::Internal, format!("the certificate just written {reason}"));
    let certificate =
        Certificate::parse(bytes).map_err(|error| wrong(&format!("is not readable: {error}")))?;
    let fingerprint = stored.signing.public.fingerprint();
    let component = certificate.find(&fingerprint).ok_or_else(|| wrong("lacks the key that signs"))?;
    if let Some(reason) = component.unfit_to_sign(now) {
        return Err(wrong(&format!("does not let its key sign: {reason}")));
    }
    if end_of(&certificate, &stored.signing) != stored.expires {
        return Err(wrong("ends at another time than asked"));
    }
    Ok(certificate)
}

/// When signatures of this component end to be made: with it or with its primary key.
pub(crate) fn end_of(certificate: &Certificate, signing: &StoredComponent) -> Option<i64> {
    let component = certificate.find(&signing.public.fingerprint());
    [certificate.expires(), component.and_then(|component| component.expires())].into_iter().flatten().min()
}

/// Seals the key and describes it for the database.
///
/// # Errors
/// [`Code::LimitExceeded`], naming what is too long for the database; those of [`StoredKey::seal`].
pub(crate) fn material(
    sealer: &Sealer,
    stored: &StoredKey,
    certificate: &Certificate,
    mut warnings: Vec<String>,
) -> Result<KeyMaterial, Fault> {
    warnings.truncate(WARNINGS_MAX);
    let user_id = certificate.primary_user_id().unwrap_or_default();
    let binary = certificate.to_binary();
    within("the first user id", user_id.len(), USER_ID_BYTES_MAX)?;
    within("the certificate", binary.len(), CERTIFICATE_BYTES_MAX)?;
    let sealed = stored.seal(sealer)?;
    within("the sealed key", sealed.len(), SEALED_BYTES_MAX)?;
    Ok(KeyMaterial {
        sealed,
        generation: stored.generation,
        algorithm: stored.signing.public.algorithm(),
        fingerprint: certificate.fingerprint().to_string(),
        signing_fingerprint: stored.signing.public.fingerprint().to_string(),
        user_id: user_id.to_owned(),
        created: i64::from(certificate.created()),
        expires: stored.expires,
        certificate: binary,
        renewable: !matches!(stored.primary, Primary::Absent),
        backend: opened::place_of(&stored.signing)?,
        revocation: None,
        warnings,
    })
}

fn within(what: &str, bytes: usize, limit: usize) -> Result<(), Fault> {
    if bytes <= limit {
        return Ok(());
    }
    Err(Fault::new(Code::LimitExceeded, format!("{what} has {bytes} bytes; the limit is {limit}")))
}

/// Which of the keys of a certificate.
const PRIMARY: u8 = 1;
const SUBKEY: u8 = 2;

/// What names one key pair, on a token that can hold many.
struct Mark {
    key_id: KeyId,
    role: u8,
}

fn make(
    tokens: &Tokens,
    spec: &KeySpec,
    mark: &Mark,
    created: u32,
    warnings: &mut Vec<String>,
) -> Result<StoredComponent, Fault> {
    let backend = backend::for_source(&spec.source)?;
    let id = [mark.key_id.as_bytes().as_slice(), &[mark.role]].concat();
    let role = if mark.role == PRIMARY { "" } else { " subkey" };
    let label = format!("sealwright {}{role}", mark.key_id);
    let order = Order { source: &spec.source, mark: &id, label: &label };
    let made = backend.make(tokens, &order).map_err(|trouble| {
        trouble.into_fault(Code::Internal, |reason| format!("no {} key was made: {reason}", backend.scheme()))
    })?;
    let public = PublicHalf::new(spec.version, created, &made.numbers)
        .map_err(|error| Fault::new(Code::Unsupported, format!("the key cannot be used: {error}")))?;
    warnings.extend(made.warnings);
    let stored = StoredComponent { backend: backend.number(), public: Arc::new(public), secret: made.secret };
    if spec.source.token().is_some() {
        // Whoever made it, and whenever: it signs, and with every hash, or is not taken.
        self_test::prove(&Component::open(tokens, &stored)?)?;
    }
    Ok(stored)
}

fn internal(error: impl core::fmt::Display) -> Fault {
    Fault::new(Code::Internal, format!("a new key could not be written: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_too_long_is_named_with_its_limit() {
        within("the first user id", USER_ID_BYTES_MAX, USER_ID_BYTES_MAX).unwrap();
        let fault = within("the first user id", 1025, USER_ID_BYTES_MAX).unwrap_err();
        assert_eq!(fault.code, Code::LimitExceeded);
        assert_eq!(fault.message, "the first user id has 1025 bytes; the limit is 1024");
    }
}
