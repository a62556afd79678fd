//! What a key may be used for. Sealed with the key; one usage unless an override was logged.

use crate::error::Error;
use crate::openpgp::signature::DataKind;

/// A sealed usage of a key (design: they are disjoint because an OpenPGP RSA signature is also a valid bare
/// PKCS#1 signature over content plus trailer). The number is part of what is sealed and logged: never reuse one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Usage {
    /// OpenPGP signatures over data, type 0x00 or 0x01 ([`Purpose::data_kind`]), trailer composed by the signer process.
    OpenPgp,
    /// Bare SHA-2 digests ([`crate::bare`]): full power over what the key can do, as nobody sees what a digest says.
    ObsDigest,
    /// Bare SHA-1 digests: the same, and where collisions can be computed. Wanted by clients of old build services.
    ObsDigestSha1,
    /// Opens project keys, which clients of obs-sign keep encrypted to this key, and signs bare digests with what is inside; makes
    /// such keys, certifying user ids of the client's choice.
    ObsProjectKeys,
}

impl Usage {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::OpenPgp, Self::ObsDigest, Self::ObsDigestSha1, Self::ObsProjectKeys];

    /// The number on the wire, in sealed blobs and log entries.
    #[must_use]
    pub const fn id(self) -> u8 {
        match self {
            Self::OpenPgp => 1,
            Self::ObsDigest => 2,
            Self::ObsDigestSha1 => 3,
            Self::ObsProjectKeys => 4,
        }
    }

    /// The name in messages, configuration and JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::OpenPgp => "openpgp",
            Self::ObsDigest => "obs-digest",
            Self::ObsDigestSha1 => "obs-digest-sha1",
            Self::ObsProjectKeys => "obs-project-keys",
        }
    }

    /// Whether a key that has it signs bare digests itself.
    #[must_use]
    pub const fn is_bare(self) -> bool {
        match self {
            Self::OpenPgp | Self::ObsProjectKeys => false,
            Self::ObsDigest | Self::ObsDigestSha1 => true,
        }
    }

    /// The inverse of [`Self::id`].
    ///
    /// # Errors
    /// [`Error::Unsupported`] for every other number.
    pub fn from_id(id: u32) -> Result<Self, Error> {
        Self::ALL
            .into_iter()
            .find(|usage| u32::from(usage.id()) == id)
            .ok_or_else(|| Error::Unsupported { what: "usage", name: format!("number {id}") })
    }
}

/// What the client says that it signs: a claim, recorded in the log, never trusted. The number is part of the
/// log entry: never reuse one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Purpose {
    /// The main header of an RPM package (tags 267, 268, 278).
    RpmHeader,
    /// The main header and the payload of an RPM package (tags 1002, 1005).
    RpmHeaderPayload,
    /// A whole file, signature beside it.
    Detached,
    /// A text with its signature in one file (RFC 9580 section 7).
    Cleartext,
    /// Nobody knows: a digest came over the protocol of obs-sign. What it is signed as stands in the digest itself.
    ObsDigest,
}

impl Purpose {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::RpmHeader, Self::RpmHeaderPayload, Self::Detached, Self::Cleartext, Self::ObsDigest];

    /// The number on the wire and in log entries.
    #[must_use]
    pub const fn id(self) -> u8 {
        match self {
            Self::RpmHeader => 1,
            Self::RpmHeaderPayload => 2,
            Self::Detached => 3,
            Self::Cleartext => 4,
            Self::ObsDigest => 5,
        }
    }

    /// The type of signature that is made for it, both over data: which one is all that the claim decides.
    #[must_use]
    pub const fn data_kind(self) -> DataKind {
        match self {
            // Of a bare digest: what is composed for it is none of ours.
            Self::RpmHeader | Self::RpmHeaderPayload | Self::Detached | Self::ObsDigest => DataKind::Binary,
            Self::Cleartext => DataKind::Text,
        }
    }

    /// The name in messages and JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::RpmHeader => "rpm-header",
            Self::RpmHeaderPayload => "rpm-header-payload",
            Self::Detached => "detached",
            Self::Cleartext => "cleartext",
            Self::ObsDigest => "obs-digest",
        }
    }

    /// The inverse of [`Self::id`].
    ///
    /// # Errors
    /// [`Error::Unsupported`] for every other number.
    pub fn from_id(id: u32) -> Result<Self, Error> {
        Self::ALL
            .into_iter()
            .find(|purpose| u32::from(purpose.id()) == id)
            .ok_or_else(|| Error::Unsupported { what: "purpose", name: format!("number {id}") })
    }
}
