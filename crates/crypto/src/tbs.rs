//! What a client asks to have signed: one item of a group. The key holder finishes the hash itself.

use std::sync::Arc;

use crate::algorithm::HashAlgorithm;
use crate::bare::Bare;
use crate::midstate::Midstate;
use crate::openpgp::salt::Salt;
use crate::usage::{Purpose, Usage};

/// One thing to sign.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToBeSigned {
    /// The signature encoding asked for; the key's sealed usages must allow it.
    pub usage: Usage,
    /// What the client says it is (a claim).
    pub purpose: Purpose,
    /// The content.
    pub content: Content,
    /// For a version 6 key: the server's ticket for the salt that was hashed first, as it came. Only front opens it;
    /// the signer gets the salt.
    pub ticket: Option<Vec<u8>>,
}

impl ToBeSigned {
    /// A bare digest, with the usage and the purpose that it must have.
    #[must_use]
    pub const fn bare(bare: Bare) -> Self {
        let (usage, purpose) = (bare.usage(), Purpose::ObsDigest);
        Self { usage, purpose, content: Content::Bare(bare), ticket: None }
    }

    /// A bare digest that a project key signs, which is encrypted to the key of the request.
    #[must_use]
    pub const fn by_project_key(bare: Bare, project_key: Arc<[u8]>) -> Self {
        let content = Content::Project(bare, project_key);
        Self { usage: Usage::ObsProjectKeys, purpose: Purpose::ObsDigest, content, ticket: None }
    }

    /// Whether usage and purpose are those of the content: whoever may have content signed must not get a bare digest signed
    /// under that name, or the other way round.
    #[must_use]
    pub const fn is_of_one_kind(&self) -> bool {
        let purpose_is_bare = matches!(self.purpose, Purpose::ObsDigest);
        match &self.content {
            Content::Midstate(_) | Content::Inline(..) => {
                matches!(self.usage, Usage::OpenPgp) && !purpose_is_bare
            }
            Content::Project(..) => {
                matches!(self.usage, Usage::ObsProjectKeys) && purpose_is_bare && self.ticket.is_none()
            }
            Content::Bare(bare) => {
                self.usage.id() == bare.usage().id() && purpose_is_bare && self.ticket.is_none()
            }
        }
    }
}

/// The content, in the form in which it travels. Who hashes is said by each variant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// The client hashed it, after the salt of its ticket if there is one; the key holder appends its own part and
    /// finishes.
    Midstate(Midstate),
    /// Small content that a policy wants to see: the key holder hashes all of it, with this algorithm, after the salt.
    Inline(HashAlgorithm, Vec<u8>),
    /// The client hashed everything; nothing is appended. Only front says this to the signer, for the protocol of
    /// obs-sign: there is no such thing between client and front.
    Bare(Bare),
    /// The same, to be signed by a secret key that comes along, in an OpenPGP message encrypted to the key of the request.
    Project(Bare, Arc<[u8]>),
}

/// Largest inline content in bytes: a large RPM header is a few MiB, and policy looks at headers.
pub const INLINE_BYTES_MAX: usize = 4 << 20;

impl Content {
    /// The hash algorithm of the signature; `None` for a bare digest, which is hashed already.
    #[must_use]
    pub const fn hash(&self) -> Option<HashAlgorithm> {
        match self {
            Self::Midstate(midstate) => Some(midstate.hash()),
            Self::Inline(hash, _) => Some(*hash),
            Self::Bare(_) | Self::Project(..) => None,
        }
    }

    /// The hash over salt (version 6) and content, ready for what the key holder appends. Who hashed the content
    /// hashed the salt too; that it was this one shows when the signature is verified. `None` for a bare digest.
    #[must_use]
    pub fn to_midstate(&self, salt: Option<&Salt>) -> Option<Midstate> {
        match self {
            Self::Midstate(midstate) => Some(midstate.clone()),
            Self::Inline(hash, bytes) => {
                let unsalted = || crate::digest::Hasher::new(*hash);
                let mut hasher = salt.map_or_else(unsalted, Salt::hasher);
                hasher.update(bytes);
                Some(hasher.midstate())
            }
            Self::Bare(_) | Self::Project(..) => None,
        }
    }
}
