//! Writing certificates (RFC 9580 section 10.1): rPGP composes the packets, our keys make the signatures, so that
//! rPGP never holds a private key. All self-signatures use SHA-256.

use std::sync::OnceLock;

use pgp::crypto::hash::HashAlgorithm as PgpHash;
use pgp::crypto::public_key::PublicKeyAlgorithm;
use pgp::errors::Error as PgpError;
use pgp::packet::{
    Features, KeyFlags, PublicSubkey, RevocationCode, Signature, SignatureConfig, SignatureType, Subpacket,
    SubpacketData, UserId,
};
use pgp::ser::Serialize as _;
use pgp::types::{
    Duration, Fingerprint as PgpFingerprint, KeyDetails, KeyId as PgpKeyId, KeyVersion as PgpKeyVersion, Mpi,
    Password, PublicParams, SignatureBytes, SigningKey, Tag, Timestamp,
};
use sealwright_crypto::algorithm::{HashAlgorithm, KeyAlgorithm, KeyVersion};
use sealwright_crypto::digest::Digest;
use sealwright_proto::status::{Code, Fault};

use crate::opened::Component;
use crate::packets;
use crate::secret::fill_random;

/// A component as rPGP wants a key that signs.
struct Signer<'a> {
    component: &'a Component,
    /// Why it did not sign: rPGP's errors cannot carry it.
    refused: OnceLock<Fault>,
}

impl<'a> Signer<'a> {
    const fn new(component: &'a Component) -> Self {
        Self { component, refused: OnceLock::new() }
    }

    /// The signature, written; else why not.
    fn finish(self, signature: Result<Signature, PgpError>) -> Result<Vec<u8>, Fault> {
        let written = signature.and_then(|signature| write(&signature));
        written.map_err(|error| self.refused.into_inner().unwrap_or_else(|| failed(&error)))
    }
}

impl core::fmt::Debug for Signer<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Signer({})", self.component.public().fingerprint())
    }
}

impl KeyDetails for Signer<'_> {
    fn version(&self) -> PgpKeyVersion {
        self.component.public().packet().version()
    }

    fn legacy_key_id(&self) -> PgpKeyId {
        self.component.public().packet().legacy_key_id()
    }

    fn fingerprint(&self) -> PgpFingerprint {
        self.component.public().packet().fingerprint()
    }

    fn algorithm(&self) -> PublicKeyAlgorithm {
        self.component.public().packet().algorithm()
    }

    fn created_at(&self) -> Timestamp {
        self.component.public().packet().created_at()
    }

    fn legacy_v3_expiration_days(&self) -> Option<u16> {
        None
    }

    fn public_params(&self) -> &PublicParams {
        self.component.public().packet().public_params()
    }
}

impl SigningKey for Signer<'_> {
    fn sign(&self, _: &Password, hash: PgpHash, digest: &[u8]) -> Result<SignatureBytes, PgpError> {
        let refused = |text: String| PgpError::from(std::io::Error::other(text));
        let hash =
            HashAlgorithm::from_openpgp_id(u8::from(hash)).map_err(|error| refused(error.to_string()))?;
        let digest = Digest::from_bytes(hash, digest).map_err(|error| refused(error.to_string()))?;
        let checked = self.component.sign(&digest).map_err(|fault| {
            let text = fault.message.clone();
            // The first one counts.
            let _ = self.refused.set(fault);
            refused(text)
        })?;
        let numbers = match (self.component.public().algorithm(), self.component.public().version()) {
            (KeyAlgorithm::Rsa(_), _) => vec![Mpi::from_slice(checked.raw())],
            (KeyAlgorithm::Ed25519, KeyVersion::V4) => {
                checked.raw().chunks(32).map(Mpi::from_slice).collect()
            }
            (KeyAlgorithm::Ed25519, KeyVersion::V6) => {
                return Ok(SignatureBytes::Native(checked.raw().to_vec().into()));
            }
        };
        Ok(SignatureBytes::Mpis(numbers))
    }

    fn hash_alg(&self) -> PgpHash {
        PgpHash::Sha256
    }
}

/// What a self-signature says beside time and issuer.
pub(crate) struct Claims {
    /// Made then, Unix seconds.
    pub(crate) created: u32,
    /// End of the key that it is about, Unix seconds.
    pub(crate) expires: Option<i64>,
    /// Flags, preferences and everything else.
    pub(crate) other: Vec<SubpacketData>,
}

/// What a new primary key says of itself: in version 4 with its user id, in version 6 in its direct-key signature (RFC
/// 9580 section 10.1.1). Hash preferences and features as gpg writes them; nothing about ciphers, as nobody encrypts
/// to it.
pub(crate) fn new_primary_claims(sign: bool) -> Vec<SubpacketData> {
    let mut flags = KeyFlags::default();
    flags.set_certify(true);
    flags.set_sign(sign);
    let mut features = Features::default();
    features.set_seipd_v1(true);
    vec![
        SubpacketData::KeyFlags(flags),
        SubpacketData::PreferredHashAlgorithms([PgpHash::Sha256, PgpHash::Sha512].into_iter().collect()),
        SubpacketData::Features(features),
    ]
}

/// What a new signing subkey is for.
pub(crate) fn new_subkey_claims() -> Vec<SubpacketData> {
    let mut flags = KeyFlags::default();
    flags.set_sign(true);
    vec![SubpacketData::KeyFlags(flags)]
}

/// A positive certification (type 0x13) of a user id by its own key.
///
/// # Errors
/// [`Code::Internal`]; the key may have failed its self-check.
pub(crate) fn certify_user(primary: &Component, user: &UserId, claims: Claims) -> Result<Vec<u8>, Fault> {
    let config = configure(SignatureType::CertPositive, primary, primary, claims)?;
    let signer = Signer::new(primary);
    let packet = primary.public().packet();
    let signature = config.sign_certification(&signer, packet, &Password::empty(), Tag::UserId, user);
    signer.finish(signature)
}

/// A positive certification of a user id of another key.
///
/// # Errors
/// [`Code::Internal`]; the key may have failed its self-check.
pub(crate) fn certify_other(
    primary: &Component,
    other: &Component,
    user: &UserId,
    created: u32,
) -> Result<Vec<u8>, Fault> {
    let claims = Claims { created, expires: None, other: Vec::new() };
    let config = configure(SignatureType::CertPositive, primary, other, claims)?;
    let signer = Signer::new(primary);
    let packet = other.public().packet();
    let signature =
        config.sign_certification_third_party(&signer, &Password::empty(), packet, Tag::UserId, user);
    signer.finish(signature)
}

/// A direct-key signature (type 0x1f).
///
/// # Errors
/// [`Code::Internal`]; the key may have failed its self-check.
pub(crate) fn certify_directly(primary: &Component, claims: Claims) -> Result<Vec<u8>, Fault> {
    let config = configure(SignatureType::Key, primary, primary, claims)?;
    let signer = Signer::new(primary);
    let signature = config.sign_key(&signer, &Password::empty(), primary.public().packet());
    signer.finish(signature)
}

/// A subkey binding (type 0x18) with the subkey's signature back (type 0x19) in it.
///
/// # Errors
/// [`Code::Internal`]; a key may have failed its self-check.
pub(crate) fn bind_subkey(
    primary: &Component,
    subkey: &Component,
    mut claims: Claims,
) -> Result<Vec<u8>, Fault> {
    let packet = subkey_packet(subkey)?;
    let back = Claims { created: claims.created, expires: None, other: Vec::new() };
    let signer = Signer::new(subkey);
    let back = configure(SignatureType::KeyBinding, subkey, subkey, back)?
        .sign_primary_key_binding(&signer, &packet, &Password::empty(), primary.public().packet())
        .map_err(|error| signer.refused.into_inner().unwrap_or_else(|| failed(&error)))?;
    claims.other.push(SubpacketData::EmbeddedSignature(Box::new(back)));
    let signer = Signer::new(primary);
    let signature = configure(SignatureType::SubkeyBinding, primary, subkey, claims)?.sign_subkey_binding(
        &signer,
        primary.public().packet(),
        &Password::empty(),
        &packet,
    );
    signer.finish(signature)
}

/// A revocation of the whole key (type 0x20) that gives no reason (RFC 9580 section 5.2.3.31).
///
/// # Errors
/// [`Code::Internal`]; the key may have failed its self-check.
pub(crate) fn revoke(primary: &Component, created: u32) -> Result<Vec<u8>, Fault> {
    let reason = SubpacketData::RevocationReason(RevocationCode::NoReason, Vec::new().into());
    let claims = Claims { created, expires: None, other: vec![reason] };
    let signer = Signer::new(primary);
    let signature = configure(SignatureType::KeyRevocation, primary, primary, claims)?.sign_key(
        &signer,
        &Password::empty(),
        primary.public().packet(),
    );
    signer.finish(signature)
}

/// A user-id packet.
///
/// # Errors
/// [`Code::Internal`].
pub(crate) fn user_id(text: &str) -> Result<UserId, Fault> {
    UserId::from_str(pgp::types::PacketHeaderVersion::New, text).map_err(|error| failed(&error))
}

/// A component as a public subkey.
fn subkey_packet(subkey: &Component) -> Result<PublicSubkey, Fault> {
    let body = subkey.public().body();
    let len = u32::try_from(body.len()).unwrap_or(u32::MAX);
    let header = pgp::packet::PacketHeader::new_fixed(Tag::PublicSubkey, len);
    PublicSubkey::try_from_reader(header, body).map_err(|error| failed(&error))
}

/// The signature by `issuer`, about `subject`, that lacks only its value.
fn configure(
    kind: SignatureType,
    issuer: &Component,
    subject: &Component,
    claims: Claims,
) -> Result<SignatureConfig, Fault> {
    let signer = Signer::new(issuer);
    let mut config = match issuer.public().version() {
        KeyVersion::V4 => SignatureConfig::v4(kind, signer.algorithm(), PgpHash::Sha256),
        KeyVersion::V6 => {
            let mut salt = vec![0; HashAlgorithm::Sha256.salt_len()];
            fill_random(&mut salt).map_err(|error| Fault::from(&error))?;
            SignatureConfig::v6_with_salt(kind, signer.algorithm(), PgpHash::Sha256, salt)
        }
    };
    let mut hashed = vec![
        SubpacketData::SignatureCreationTime(Timestamp::from_secs(claims.created)),
        SubpacketData::IssuerFingerprint(signer.fingerprint()),
    ];
    if let Some(expires) = claims.expires {
        let seconds = expires.saturating_sub(i64::from(subject.public().created()));
        // 0 would mean "never" (RFC 9580 section 5.2.3.13).
        let seconds = u32::try_from(seconds).ok().filter(|seconds| *seconds > 0);
        let seconds = seconds.ok_or_else(|| {
            Fault::new(Code::LimitExceeded, "the key would expire before it was created, or after 136 years")
        })?;
        hashed.push(SubpacketData::KeyExpirationTime(Duration::from_secs(seconds)));
    }
    hashed.extend(claims.other);
    config.hashed_subpackets = hashed
        .into_iter()
        .map(Subpacket::regular)
        .collect::<Result<_, _>>()
        .map_err(|error| failed(&error))?;
    // Version 6 has none (section 5.2.3.12).
    if issuer.public().version() == KeyVersion::V4 {
        let key_id = SubpacketData::IssuerKeyId(signer.legacy_key_id());
        config.unhashed_subpackets = vec![Subpacket::regular(key_id).map_err(|error| failed(&error))?];
    }
    Ok(config)
}

fn write(signature: &Signature) -> Result<Vec<u8>, PgpError> {
    let body = signature.to_bytes()?;
    packets::write(Tag::Signature, &body)
        .map_err(|error| PgpError::from(std::io::Error::other(error.to_string())))
}

fn failed(error: &PgpError) -> Fault {
    Fault::new(Code::Internal, format!("a certificate could not be written: {error}"))
}
