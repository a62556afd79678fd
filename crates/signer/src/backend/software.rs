//! Keys in memory, worked with by aws-lc. The sealed secret is PKCS#8 (RFC 5958) for RSA and the seed (RFC 8032
//! section 5.1.5) for Ed25519.

use aws_lc_rs::encoding::AsDer as _;
use aws_lc_rs::rsa::{KeySize, PrivateDecryptingKey};
use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair as _, RsaEncoding, RsaKeyPair};
use aws_lc_rs::signature::{RSA_PKCS1_SHA256, RSA_PKCS1_SHA384, RSA_PKCS1_SHA512};
use sealwright_crypto::algorithm::{HashAlgorithm, KeyAlgorithm};
use sealwright_crypto::digest::Digest;
use sealwright_proto::convert::keys::KeySource;
use sealwright_proto::names::BackendName;

use super::crt::crt_exponents;
use super::{Backend, Failed, NOT_LOCKED, Order, Pair, PrivateKey, Trouble};

pub(crate) use super::crt::PrivateNumbers;
use crate::public::{Numbers, PublicHalf, imported};
use crate::secret::Secret;
use crate::tokens::Tokens;

/// RFC 8032 section 5.1.5.
const ED25519_SEED_BYTES: usize = 32;

/// Of the processor.
pub(crate) struct Software;

impl Backend for Software {
    fn number(&self) -> u8 {
        1
    }

    fn scheme(&self) -> &'static str {
        "software"
    }

    fn has(&self, source: &KeySource) -> bool {
        matches!(source, KeySource::Software(_))
    }

    fn make(&self, _: &Tokens, order: &Order<'_>) -> Result<Pair, Trouble> {
        match order.source {
            KeySource::Software(algorithm) => {
                let (numbers, secret) = self.generate(*algorithm)?;
                Ok(Pair { numbers, secret, warnings: Vec::new() })
            }
            KeySource::Token(..) | KeySource::TakenOver(..) => {
                Err(Failed("it is to be a key on a token").into())
            }
        }
    }

    fn open(&self, _: &Tokens, public: &PublicHalf, secret: &Secret) -> Result<Box<dyn PrivateKey>, Trouble> {
        Ok(self.open_key(public, secret)?)
    }

    fn name(&self, _: &Secret) -> Result<BackendName, Trouble> {
        Ok(BackendName::software())
    }
}

impl Software {
    /// Public numbers and secret of a new key.
    ///
    /// # Errors
    /// [`Failed`].
    #[expect(clippy::unused_self, reason = "reads as the other backends do")]
    pub(crate) fn generate(&self, algorithm: KeyAlgorithm) -> Result<(Numbers, Secret), Failed> {
        match algorithm {
            KeyAlgorithm::Rsa(bits) => {
                let size = match bits {
                    2048 => KeySize::Rsa2048,
                    3072 => KeySize::Rsa3072,
                    4096 => KeySize::Rsa4096,
                    _ => return Err(Failed("keys of this length are not made")),
                };
                let pair = RsaKeyPair::generate(size).map_err(|_| Failed("aws-lc made no key"))?;
                Ok((rsa_numbers(&pair)?, pkcs8(&pair)?))
            }
            KeyAlgorithm::Ed25519 => {
                let seed = Secret::random(ED25519_SEED_BYTES).map_err(|_| Failed("no random bytes"))?;
                Ok((public_numbers(&seed)?, seed))
            }
        }
    }

    /// # Errors
    /// [`Failed`] if the secret does not belong to the public half.
    #[expect(clippy::unused_self, reason = "reads as the other backends do")]
    pub(crate) fn open_key(
        &self,
        public: &PublicHalf,
        secret: &Secret,
    ) -> Result<Box<dyn PrivateKey>, Failed> {
        match public.numbers() {
            Numbers::Rsa { .. } => {
                let pair =
                    RsaKeyPair::from_pkcs8(secret.expose()).map_err(|_| Failed("it is not an RSA key"))?;
                if !same(&rsa_numbers(&pair)?, public.numbers()) {
                    return Err(Failed("it belongs to another public key"));
                }
                Ok(Box::new(Rsa(pair)))
            }
            Numbers::Ed25519(point) => {
                let pair = Ed25519KeyPair::from_seed_and_public_key(secret.expose(), point)
                    .map_err(|_| Failed("it belongs to another public key"))?;
                Ok(Box::new(Ed25519(pair)))
            }
        }
    }
}

/// The secret of an imported RSA key, from the numbers in an OpenPGP secret key (RFC 9580 section 5.5.5.1). All of
/// them are checked against each other and the public half.
///
/// # Errors
/// [`Failed`] if they do not make a key that aws-lc accepts.
pub(crate) fn import_rsa(public: &PublicHalf, numbers: &PrivateNumbers<'_>) -> Result<Secret, Failed> {
    let Numbers::Rsa { n, e } = public.numbers() else { return Err(Failed("its public key is not RSA")) };
    let inconsistent = Failed("its numbers do not belong together");
    let exponents = crt_exponents(numbers).ok_or(inconsistent)?;
    // OpenPGP has u = p^-1 mod q, PKCS#1 wants the inverse of its second prime modulo its first: exchange them.
    let components = aws_lc_rs::rsa::KeyPairComponents::<&[u8]> {
        public_key: aws_lc_rs::rsa::PublicKeyComponents { n: n.as_slice(), e: e.as_slice() },
        d: numbers.d,
        p: numbers.q,
        q: numbers.p,
        dP: &exponents.mod_q,
        dQ: &exponents.mod_p,
        qInv: numbers.u,
    };
    let pair = RsaKeyPair::from_components(&components).map_err(|_| inconsistent)?;
    pkcs8(&pair)
}

/// The secret of an imported Ed25519 key.
///
/// # Errors
/// [`Failed`] if the seed is not that of the public half.
pub(crate) fn import_ed25519(public: &PublicHalf, seed: &[u8; 32]) -> Result<Secret, Failed> {
    let secret = Secret::joined(&[seed]).map_err(|_| Failed(NOT_LOCKED))?;
    Software.open_key(public, &secret)?;
    Ok(secret)
}

/// The public numbers of a sealed secret: a seed is 32 bytes long, PKCS#8 never.
///
/// # Errors
/// [`Failed`] if it is no key.
pub(crate) fn public_numbers(secret: &Secret) -> Result<Numbers, Failed> {
    if secret.expose().len() != ED25519_SEED_BYTES {
        let pair = RsaKeyPair::from_pkcs8(secret.expose()).map_err(|_| Failed("it is not an RSA key"))?;
        return rsa_numbers(&pair);
    }
    let failed = Failed("it is not an Ed25519 key");
    let pair = Ed25519KeyPair::from_seed_unchecked(secret.expose()).map_err(|_| failed)?;
    pair.public_key().as_ref().try_into().map(Numbers::Ed25519).map_err(|_| failed)
}

/// The secret numbers as OpenPGP writes them (RFC 9580 section 5.5.5): d, p, q, u of RSA, the seed of Ed25519.
pub(crate) fn openpgp_numbers(secret: &Secret) -> Option<Vec<&[u8]>> {
    if secret.expose().len() == ED25519_SEED_BYTES {
        return Some(vec![secret.expose()]);
    }
    let numbers = super::crt::parse_pkcs8(secret.expose())?;
    Some(vec![numbers.d, numbers.p, numbers.q, numbers.u])
}

fn pkcs8(pair: &RsaKeyPair) -> Result<Secret, Failed> {
    let der = pair.as_der().map_err(|_| Failed("aws-lc does not write the key"))?;
    Secret::joined(&[der.as_ref()]).map_err(|_| Failed(NOT_LOCKED))
}

fn rsa_numbers(pair: &RsaKeyPair) -> Result<Numbers, Failed> {
    let failed = Failed("aws-lc does not write the public key");
    let (n, e) = super::crt::parse_pkcs1_public(pair.public_key().as_ref()).ok_or(failed)?;
    Ok(Numbers::Rsa { n: n.to_vec(), e: e.to_vec() })
}

fn same(one: &Numbers, other: &Numbers) -> bool {
    match (one, other) {
        (Numbers::Rsa { n, e }, Numbers::Rsa { n: other_n, e: other_e }) => n == other_n && e == other_e,
        (Numbers::Ed25519(one), Numbers::Ed25519(other)) => one == other,
        (Numbers::Rsa { .. }, Numbers::Ed25519(_)) | (Numbers::Ed25519(_), Numbers::Rsa { .. }) => false,
    }
}

struct Rsa(RsaKeyPair);

impl PrivateKey for Rsa {
    fn sign(&self, digest: &Digest) -> Result<Vec<u8>, Trouble> {
        let padding: &'static dyn RsaEncoding = match digest.hash() {
            HashAlgorithm::Sha256 => &RSA_PKCS1_SHA256,
            HashAlgorithm::Sha384 => &RSA_PKCS1_SHA384,
            HashAlgorithm::Sha512 => &RSA_PKCS1_SHA512,
        };
        let digest = imported(digest).ok_or(Failed("aws-lc does not take the digest"))?;
        let mut raw = vec![0; self.0.public_modulus_len()];
        self.0.sign_digest(padding, &digest, &mut raw).map_err(|_| Failed("aws-lc did not sign"))?;
        Ok(raw)
    }

    fn sign_sha1(&self, digest: &[u8; 20]) -> Result<Vec<u8>, Trouble> {
        let key = pkcs8(&self.0)?;
        let raw = super::sha1::sign(key.expose(), digest, self.0.public_modulus_len());
        Ok(raw.ok_or(Failed("aws-lc did not sign"))?)
    }

    fn decrypting(&self) -> Result<PrivateDecryptingKey, Trouble> {
        let key = pkcs8(&self.0)?;
        Ok(PrivateDecryptingKey::from_pkcs8(key.expose())
            .map_err(|_| Failed("it is no key that decrypts"))?)
    }
}

struct Ed25519(Ed25519KeyPair);

impl Ed25519 {
    fn sign_bytes(&self, digest: &[u8]) -> Result<Vec<u8>, Trouble> {
        let signature = self.0.try_sign(digest).map_err(|_| Failed("aws-lc did not sign"))?;
        Ok(signature.as_ref().to_vec())
    }
}

impl PrivateKey for Ed25519 {
    fn sign(&self, digest: &Digest) -> Result<Vec<u8>, Trouble> {
        self.sign_bytes(digest.as_bytes())
    }

    fn sign_sha1(&self, digest: &[u8; 20]) -> Result<Vec<u8>, Trouble> {
        self.sign_bytes(digest)
    }
}
