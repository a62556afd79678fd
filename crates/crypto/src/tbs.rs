//! What a client asks to have signed: one item of a group. The key holder finishes the hash itself.

use crate::algorithm::HashAlgorithm;
use crate::midstate::Midstate;
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
}

/// The content, in the form in which it travels. Who hashes is said by each variant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// The client hashed it; the key holder appends its own part and finishes.
    Midstate(Midstate),
    /// Small content that a policy wants to see: the key holder hashes all of it, with this algorithm.
    Inline(HashAlgorithm, Vec<u8>),
}

/// Largest inline content in bytes: a large RPM header is a few MiB, and policy looks at headers.
pub const INLINE_BYTES_MAX: usize = 4 << 20;

impl Content {
    /// The hash algorithm of the signature.
    #[must_use]
    pub const fn hash(&self) -> HashAlgorithm {
        match self {
            Self::Midstate(midstate) => midstate.hash(),
            Self::Inline(hash, _) => *hash,
        }
    }

    /// The hash over the content, ready for what the key holder appends.
    #[must_use]
    pub fn to_midstate(&self) -> Midstate {
        match self {
            Self::Midstate(midstate) => midstate.clone(),
            Self::Inline(hash, bytes) => {
                let mut hasher = crate::digest::Hasher::new(*hash);
                hasher.update(bytes);
                hasher.midstate()
            }
        }
    }
}
