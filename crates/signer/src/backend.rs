//! Where private keys live and work. A backend is one file in `backend/` and one line in [`BACKENDS`]; the
//! conformance test walks the list. Sealed keys name their backend by number.

mod crt;
pub(crate) mod software;

use sealwright_crypto::algorithm::KeyAlgorithm;
use sealwright_crypto::digest::Digest;

use crate::public::{Numbers, PublicHalf};
use crate::secret::Secret;

/// All of them.
pub(crate) const BACKENDS: &[&dyn Backend] = &[&software::Software];

/// A kind of place for private keys.
pub(crate) trait Backend: Sync {
    /// The number in sealed blobs; never reused.
    fn number(&self) -> u8;

    /// The scheme of its key URIs, in messages.
    fn scheme(&self) -> &'static str;

    /// Makes a key, and returns its public numbers and the secret that is sealed: for software keys the key
    /// itself, for tokens what is needed to find it.
    ///
    /// # Errors
    /// [`Failed`], saying what.
    fn generate(&self, algorithm: KeyAlgorithm) -> Result<(Numbers, Secret), Failed>;

    /// Opens a key from what was sealed. The secret must belong to `public`.
    ///
    /// # Errors
    /// [`Failed`], saying what.
    fn open(&self, public: &PublicHalf, secret: &Secret) -> Result<Box<dyn PrivateKey>, Failed>;
}

/// A private key, ready to sign. Whoever calls [`Self::sign`] passes the result to [`PublicHalf::check`]; nothing
/// else makes a [`crate::public::Checked`], and nothing else is released.
pub(crate) trait PrivateKey: Send + Sync {
    /// The raw signature over a digest that the caller finished: RSA PKCS#1 v1.5, as long as the modulus;
    /// Ed25519 with the digest as its message, R and S.
    ///
    /// # Errors
    /// [`Failed`], saying what.
    fn sign(&self, digest: &Digest) -> Result<Vec<u8>, Failed>;
}

/// A key operation failed. The text is for a person and holds nothing secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Failed(pub(crate) &'static str);

/// The backend with this number.
pub(crate) fn by_number(number: u8) -> Option<&'static dyn Backend> {
    BACKENDS.iter().copied().find(|backend| backend.number() == number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use sealwright_crypto::algorithm::{HashAlgorithm, KeyVersion};
    use sealwright_crypto::digest::Hasher;

    #[test]
    fn numbers_and_schemes_are_unique() {
        for (index, backend) in BACKENDS.iter().enumerate() {
            for other in &BACKENDS[index + 1..] {
                assert_ne!(backend.number(), other.number());
                assert_ne!(backend.scheme(), other.scheme());
            }
            assert!(by_number(backend.number()).is_some());
        }
    }

    /// RSA-4096 is tested with fixture keys elsewhere: making one takes seconds.
    #[test]
    fn every_backend_makes_opens_signs_and_checks_with_every_algorithm_and_hash() {
        for backend in BACKENDS {
            for algorithm in [KeyAlgorithm::Rsa(2048), KeyAlgorithm::Ed25519] {
                let (numbers, secret) = backend.generate(algorithm).unwrap();
                let public = PublicHalf::new(KeyVersion::V4, 1, &numbers).unwrap();
                assert_eq!(public.algorithm(), algorithm);
                let private = backend.open(&public, &secret).unwrap();
                let (other, _) = backend.generate(algorithm).unwrap();
                let other = PublicHalf::new(KeyVersion::V4, 1, &other).unwrap();
                assert!(backend.open(&other, &secret).is_err(), "a secret of another public half");
                for hash in HashAlgorithm::ALL {
                    let digest = Hasher::digest(hash, b"content");
                    let raw = private.sign(&digest).unwrap();
                    assert!(public.check(&digest, raw.clone()).is_some());
                    assert!(other.check(&digest, raw.clone()).is_none());
                    assert!(public.check(&Hasher::digest(hash, b"other"), raw).is_none());
                }
            }
        }
    }

    #[test]
    fn a_secret_that_is_cut_or_changed_does_not_open() {
        for backend in BACKENDS {
            for algorithm in [KeyAlgorithm::Rsa(2048), KeyAlgorithm::Ed25519] {
                let (numbers, secret) = backend.generate(algorithm).unwrap();
                let public = PublicHalf::new(KeyVersion::V4, 1, &numbers).unwrap();
                let cut = secret.expose()[..secret.expose().len() - 1].to_vec();
                assert!(backend.open(&public, &Secret::new(cut).unwrap()).is_err());
                assert!(backend.open(&public, &Secret::new(Vec::new()).unwrap()).is_err());
                let mut changed = secret.expose().to_vec();
                *changed.last_mut().unwrap() ^= 1;
                assert!(backend.open(&public, &Secret::new(changed).unwrap()).is_err());
            }
        }
    }
}
