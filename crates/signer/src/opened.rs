//! A key that is open: its component that signs, with the private key in its backend.

use std::sync::Arc;

use aws_lc_rs::rsa::PrivateDecryptingKey;
use sealwright_crypto::digest::Digest;
use sealwright_crypto::usage::Usage;
use sealwright_proto::names::{BackendName, KeyId};
use sealwright_proto::status::{Code, Fault};

use crate::backend::{self, Backend, Failed, PrivateKey, Trouble};
use crate::public::{Checked, PublicHalf};
use crate::seal::{StoredComponent, StoredKey};
use crate::tokens::Tokens;
use crate::usage::Terms;

/// What signing needs of a key; the primary key's secret is not in it unless that signs.
pub(crate) struct OpenKey {
    key_id: KeyId,
    usages: Vec<Usage>,
    expires: Option<i64>,
    signing: Component,
}

/// One key pair at work.
pub(crate) struct Component {
    public: Arc<PublicHalf>,
    private: Box<dyn PrivateKey>,
}

const DOES_NOT_VERIFY: Failed = Failed("what it made does not verify");

impl OpenKey {
    /// # Errors
    /// [`Code::SealBroken`] if the secret does not belong to the public half; [`Code::TokenRefused`] if it is on a token
    /// that this installation has not.
    pub(crate) fn open(tokens: &Tokens, stored: &StoredKey) -> Result<Self, Fault> {
        let signing = Component::open(tokens, &stored.signing)?;
        Ok(Self { key_id: stored.key_id, usages: stored.usages.clone(), expires: stored.expires, signing })
    }

    /// The key, as it was sealed.
    pub(crate) const fn key_id(&self) -> KeyId {
        self.key_id
    }

    /// The component that signs.
    pub(crate) const fn signing(&self) -> &Component {
        &self.signing
    }

    /// The number of the token that it waits for.
    pub(crate) fn lane(&self) -> Option<usize> {
        self.signing.lane()
    }

    /// What it may sign, and when.
    pub(crate) fn terms(&self) -> Terms<'_> {
        let created = i64::from(self.signing.public.created());
        Terms { usages: &self.usages, created, expires: self.expires }
    }

    #[cfg(test)]
    pub(crate) fn for_test(signing: Component, expires: Option<i64>) -> Self {
        let key_id = KeyId::parse(&crate::seal::tests::ID).unwrap();
        Self { key_id, usages: vec![Usage::OpenPgp], expires, signing }
    }

    #[cfg(test)]
    pub(crate) fn with_usages(self, usages: &[Usage]) -> Self {
        Self { usages: usages.to_vec(), ..self }
    }
}

impl Component {
    /// # Errors
    /// [`Code::SealBroken`] if the secret does not belong to the public half; [`Code::Unsupported`] if this release
    /// has not its backend; [`Code::TokenRefused`].
    pub(crate) fn open(tokens: &Tokens, stored: &StoredComponent) -> Result<Self, Fault> {
        let public = Arc::clone(&stored.public);
        let backend = backend_of(stored)?;
        let private = backend.open(tokens, &public, &stored.secret).map_err(|trouble| {
            let say = |reason: &str| format!("{} key {}: {reason}", backend.scheme(), public.fingerprint());
            trouble.into_fault(Code::SealBroken, say)
        })?;
        Ok(Self { public, private })
    }

    /// The number of the token that it waits for.
    pub(crate) fn lane(&self) -> Option<usize> {
        self.private.lane()
    }

    #[cfg(test)]
    pub(crate) fn for_test(public: Arc<PublicHalf>, private: Box<dyn PrivateKey>) -> Self {
        Self { public, private }
    }

    /// The public half.
    pub(crate) fn public(&self) -> &PublicHalf {
        &self.public
    }

    /// Signs, and verifies what came out with the sealed public half. There is no other way to a [`Checked`].
    ///
    /// # Errors
    /// [`Code::SignatureSelfCheckFailed`]; of a token, [`Code::TokenGone`], [`Code::TokenSilent`], [`Code::TokenRefused`].
    pub(crate) fn sign(&self, digest: &Digest) -> Result<Checked, Fault> {
        let raw = self.private.sign(digest).map_err(|trouble| self.failed(trouble))?;
        self.public.check(digest, raw).ok_or_else(|| self.failed(DOES_NOT_VERIFY.into()))
    }

    /// The same for a digest of SHA-1; who calls it has seen that the key was sealed for that.
    ///
    /// # Errors
    /// As for [`Self::sign`]; [`Code::Unsupported`] for a key on a token.
    pub(crate) fn sign_sha1(&self, digest: &[u8; 20]) -> Result<Checked, Fault> {
        let raw = self.private.sign_sha1(digest).map_err(|trouble| self.failed(trouble))?;
        self.public.check_sha1(digest, raw).ok_or_else(|| self.failed(DOES_NOT_VERIFY.into()))
    }

    /// The key as one that opens what was encrypted to it, or encrypts to it; for project keys alone.
    ///
    /// # Errors
    /// [`Code::Unsupported`] for a key on a token, or of another algorithm than RSA.
    pub(crate) fn decrypting(&self) -> Result<PrivateDecryptingKey, Fault> {
        self.private.decrypting().map_err(|trouble| {
            trouble
                .into_fault(Code::SealBroken, |reason| format!("key {}: {reason}", self.public.fingerprint()))
        })
    }

    fn failed(&self, trouble: Trouble) -> Fault {
        trouble.into_fault(Code::SignatureSelfCheckFailed, |reason| {
            format!("key {}: {reason}; nothing was released", self.public.fingerprint())
        })
    }
}

/// Where the private key of a component is.
///
/// # Errors
/// Those of [`Component::open`].
pub(crate) fn place_of(stored: &StoredComponent) -> Result<BackendName, Fault> {
    let backend = backend_of(stored)?;
    backend.name(&stored.secret).map_err(|trouble| trouble.into_fault(Code::SealBroken, str::to_owned))
}

fn backend_of(stored: &StoredComponent) -> Result<&'static dyn Backend, Fault> {
    let number = stored.backend;
    backend::by_number(number)
        .ok_or_else(|| Fault::new(Code::Unsupported, format!("key backend {number} is not in this release")))
}
