//! Options that let a new key sign bare digests, as the protocol of obs-sign sends them.

use clap::ValueEnum;
use sealwright_crypto::usage::Usage;

/// What a key is sealed for, beside content that the signer hashes to its end.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct BareDigests {
    /// Let it also sign digests that clients finished, as obs-sign's protocol sends them; =sha1 allows digests of SHA-1 too. It is full
    /// power over what the key can do, since nobody sees what a digest says; it is sealed with the key, and cannot be added later.
    #[arg(long, value_name = "HASHES", num_args = 0..=1, require_equals = true, default_missing_value = "sha2", value_enum)]
    obs_digest: Option<Hashes>,
    /// Let a primary key sign them, not a subkey: every client that may have a digest signed can then certify user ids and bind subkeys
    /// of its own. For keys whose verifiers know no subkeys.
    #[arg(long, requires = "obs_digest")]
    pub(crate) obs_digest_on_primary: bool,
}

/// Of bare digests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Hashes {
    /// SHA-256, SHA-384, SHA-512.
    Sha2,
    /// The same, and SHA-1, for which collisions can be computed.
    Sha1,
}

impl BareDigests {
    /// What the key is to be sealed for.
    pub(crate) fn usages(self) -> Vec<Usage> {
        match self.obs_digest {
            None => vec![Usage::OpenPgp],
            Some(Hashes::Sha2) => vec![Usage::OpenPgp, Usage::ObsDigest],
            Some(Hashes::Sha1) => vec![Usage::OpenPgp, Usage::ObsDigest, Usage::ObsDigestSha1],
        }
    }

    /// Whether a key that is made needs a subkey for them.
    pub(crate) const fn wants_subkey(self) -> bool {
        self.obs_digest.is_some() && !self.obs_digest_on_primary
    }
}
