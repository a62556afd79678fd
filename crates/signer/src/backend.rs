//! Where private keys live and work. A backend is one file in `backend/` and one line in [`BACKENDS`]; the
//! conformance test walks the list. Sealed keys name their backend by number.

mod crt;
pub(crate) mod pkcs11;
mod sha1;
pub(crate) mod software;

use aws_lc_rs::rsa::PrivateDecryptingKey;
use sealwright_crypto::digest::Digest;
use sealwright_proto::convert::keys::KeySource;
use sealwright_proto::names::BackendName;
use sealwright_proto::status::{Code, Fault};

use crate::public::{Numbers, PublicHalf};
use crate::secret::Secret;
use crate::tokens::Tokens;

/// All of them.
pub(crate) const BACKENDS: &[&dyn Backend] = &[&software::Software, &pkcs11::Pkcs11];

/// A kind of place for private keys.
pub(crate) trait Backend: Sync {
    /// The number in sealed blobs; never reused.
    fn number(&self) -> u8;

    /// The scheme of its key URIs, in messages.
    fn scheme(&self) -> &'static str;

    /// Whether keys of this source are its own.
    fn has(&self, source: &KeySource) -> bool;

    /// Makes a key, or takes over one that is there: its public numbers and the secret that is sealed: for software keys
    /// the key itself, for tokens what is needed to find it.
    ///
    /// # Errors
    /// [`Trouble`].
    fn make(&self, tokens: &Tokens, order: &Order<'_>) -> Result<Pair, Trouble>;

    /// Opens a key from what was sealed, without asking a token. The secret must belong to `public`.
    ///
    /// # Errors
    /// [`Trouble`].
    fn open(
        &self,
        tokens: &Tokens,
        public: &PublicHalf,
        secret: &Secret,
    ) -> Result<Box<dyn PrivateKey>, Trouble>;

    /// Where the key of a sealed secret is, for people and for queues.
    ///
    /// # Errors
    /// [`Trouble`].
    fn name(&self, secret: &Secret) -> Result<BackendName, Trouble>;
}

/// A key that is to be made.
pub(crate) struct Order<'a> {
    pub(crate) source: &'a KeySource,
    /// Of this key alone: CKA_ID of a new one on a token.
    pub(crate) mark: &'a [u8],
    /// For a person who looks at the token.
    pub(crate) label: &'a str,
}

/// A key that was made.
pub(crate) struct Pair {
    pub(crate) numbers: Numbers,
    pub(crate) secret: Secret,
    /// What a user should know of it.
    pub(crate) warnings: Vec<String>,
}

/// A private key, ready to sign. Whoever calls [`Self::sign`] passes the result to [`PublicHalf::check`]; nothing
/// else makes a [`crate::public::Checked`], and nothing else is released.
pub(crate) trait PrivateKey: Send + Sync {
    /// The raw signature over a digest that the caller finished: RSA PKCS#1 v1.5, as long as the modulus;
    /// Ed25519 with the digest as its message, R and S.
    ///
    /// # Errors
    /// [`Trouble`].
    fn sign(&self, digest: &Digest) -> Result<Vec<u8>, Trouble>;

    /// The same over a digest of SHA-1, for keys that were sealed for it (docs/adr/0021).
    ///
    /// # Errors
    /// [`Trouble`]; [`Code::Unsupported`] where the backend has no such operation.
    fn sign_sha1(&self, _: &[u8; 20]) -> Result<Vec<u8>, Trouble> {
        Err(Fault::new(Code::Unsupported, "a key on a token signs no SHA-1 digests").into())
    }

    /// The key as one that decrypts, for project keys.
    ///
    /// # Errors
    /// [`Trouble`]; [`Code::Unsupported`] where there is no such operation.
    fn decrypting(&self) -> Result<PrivateDecryptingKey, Trouble> {
        Err(Fault::new(Code::Unsupported, "only RSA keys that are no keys of tokens open project keys")
            .into())
    }

    /// The number of the token that it waits for; `None`: it computes, and waits for nobody.
    fn lane(&self) -> Option<usize> {
        None
    }
}

/// A key operation failed. The text is for a person and holds nothing secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Failed(pub(crate) &'static str);

/// Why a backend did not do it.
#[derive(Clone, Debug)]
pub(crate) enum Trouble {
    /// The key or the operation is wrong; what it means depends on who asked.
    Failed(Failed),
    /// A token is not there, does not answer, or refuses: as it is, for whoever asked.
    Fault(Fault),
}

impl Trouble {
    /// As a failure; what is not one yet becomes `code` with what `say` makes of the reason.
    pub(crate) fn into_fault(self, code: Code, say: impl FnOnce(&str) -> String) -> Fault {
        match self {
            Self::Failed(failed) => Fault::new(code, say(failed.0)),
            Self::Fault(fault) => fault,
        }
    }
}

impl From<Failed> for Trouble {
    fn from(failed: Failed) -> Self {
        Self::Failed(failed)
    }
}

impl From<Fault> for Trouble {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

/// Why there is no secret.
const NOT_LOCKED: &str = "no memory can be locked for it; raise the limit (ulimit -l)";

/// The backend that makes keys of this source.
///
/// # Errors
/// [`Code::Unsupported`].
pub(crate) fn for_source(source: &KeySource) -> Result<&'static dyn Backend, Fault> {
    let found = BACKENDS.iter().copied().find(|backend| backend.has(source));
    found.ok_or_else(|| Fault::new(Code::Unsupported, "this release makes no such keys"))
}

/// The backend with this number.
pub(crate) fn by_number(number: u8) -> Option<&'static dyn Backend> {
    BACKENDS.iter().copied().find(|backend| backend.number() == number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use sealwright_crypto::algorithm::{HashAlgorithm, KeyAlgorithm, KeyVersion};
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

    /// Those that need no token; the others are tested with a real one (`crates/sealwright/tests/tokens.rs`). RSA-4096 is
    /// tested with fixture keys elsewhere: making one takes seconds.
    fn each(test: impl Fn(&dyn Backend, &Pair, &Pair, KeyAlgorithm)) {
        let mut tested = Vec::new();
        for algorithm in [KeyAlgorithm::Rsa(2048), KeyAlgorithm::Ed25519] {
            let source = KeySource::Software(algorithm);
            let order = Order { source: &source, mark: b"mark", label: "label" };
            for backend in BACKENDS.iter().copied().filter(|backend| backend.has(&source)) {
                let [one, two] = [(); 2].map(|()| backend.make(&Tokens::none(), &order).ok().unwrap());
                test(backend, &one, &two, algorithm);
                tested.push(algorithm);
            }
        }
        assert_eq!(tested, [KeyAlgorithm::Rsa(2048), KeyAlgorithm::Ed25519], "one backend has software keys");
    }

    #[test]
    fn every_source_has_exactly_one_backend() {
        let token = sealwright_proto::names::TokenName::parse("hsm1").unwrap();
        for source in
            [KeySource::Software(KeyAlgorithm::Ed25519), KeySource::Token(token, KeyAlgorithm::Ed25519)]
        {
            assert_eq!(BACKENDS.iter().filter(|backend| backend.has(&source)).count(), 1);
            assert!(for_source(&source).unwrap().has(&source));
        }
    }

    #[test]
    fn a_backend_makes_opens_signs_and_checks_with_every_algorithm_and_hash() {
        each(|backend, pair, other, algorithm| {
            let public = PublicHalf::new(KeyVersion::V4, 1, &pair.numbers).unwrap();
            let other = PublicHalf::new(KeyVersion::V4, 1, &other.numbers).unwrap();
            assert_eq!(public.algorithm(), algorithm);
            let private = backend.open(&Tokens::none(), &public, &pair.secret).ok().unwrap();
            assert!(
                backend.open(&Tokens::none(), &other, &pair.secret).is_err(),
                "a secret of another public half"
            );
            for hash in HashAlgorithm::ALL {
                let digest = Hasher::digest(hash, b"content");
                let raw = private.sign(&digest).unwrap();
                assert!(public.check(&digest, raw.clone()).is_some());
                assert!(other.check(&digest, raw.clone()).is_none());
                assert!(public.check(&Hasher::digest(hash, b"other"), raw).is_none());
            }
        });
    }

    #[test]
    fn a_secret_that_is_cut_or_changed_does_not_open() {
        each(|backend, pair, _, _| {
            let public = PublicHalf::new(KeyVersion::V4, 1, &pair.numbers).unwrap();
            let opens =
                |bytes: Vec<u8>| backend.open(&Tokens::none(), &public, &Secret::new(bytes).unwrap()).is_ok();
            let bytes = pair.secret.expose();
            assert!(opens(bytes.to_vec()));
            assert!(!opens(bytes[..bytes.len() - 1].to_vec()));
            assert!(!opens(Vec::new()));
            let mut changed = bytes.to_vec();
            *changed.last_mut().unwrap() ^= 1;
            assert!(!opens(changed));
        });
    }
}
