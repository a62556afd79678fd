//! Options that let a new key do what the protocol of obs-sign asks of one.

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
    /// Let it open project keys, which clients keep encrypted to it, and sign with them; and make such keys, certifying user ids of the
    /// client's choice. For RSA keys.
    #[arg(long)]
    obs_project_keys: bool,
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
        let mut usages = match self.obs_digest {
            None => vec![Usage::OpenPgp],
            Some(Hashes::Sha2) => vec![Usage::OpenPgp, Usage::ObsDigest],
            Some(Hashes::Sha1) => vec![Usage::OpenPgp, Usage::ObsDigest, Usage::ObsDigestSha1],
        };
        usages.extend(self.obs_project_keys.then_some(Usage::ObsProjectKeys));
        usages
    }

    /// Whether a key that is made needs a subkey for them.
    pub(crate) const fn wants_subkey(self) -> bool {
        self.obs_digest.is_some() && !self.obs_digest_on_primary
    }
}
