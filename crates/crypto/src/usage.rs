//! What a key may be used for. Sealed with the key; one usage unless an override was logged.

use crate::error::Error;
use crate::openpgp::signature::DataKind;

/// A sealed usage of a key (design: they are disjoint because an OpenPGP RSA signature is also a valid bare
/// PKCS#1 signature over content plus trailer). The number is part of what is sealed and logged: never reuse one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Usage {
    /// OpenPGP signatures over data, type 0x00 or 0x01 ([`Purpose::data_kind`]), trailer composed by the signer process.
    OpenPgp,
}

impl Usage {
    /// All of them.
    pub const ALL: [Self; 1] = [Self::OpenPgp];

    /// The number on the wire, in sealed blobs and log entries.
    #[must_use]
    pub const fn id(self) -> u8 {
        match self {
            Self::OpenPgp => 1,
        }
    }

    /// The name in messages, configuration and JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::OpenPgp => "openpgp",
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
}

impl Purpose {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::RpmHeader, Self::RpmHeaderPayload, Self::Detached, Self::Cleartext];

    /// The number on the wire and in log entries.
    #[must_use]
    pub const fn id(self) -> u8 {
        match self {
            Self::RpmHeader => 1,
            Self::RpmHeaderPayload => 2,
            Self::Detached => 3,
            Self::Cleartext => 4,
        }
    }

    /// The type of signature that is made for it, both over data: which one is all that the claim decides.
    #[must_use]
    pub const fn data_kind(self) -> DataKind {
        match self {
            Self::RpmHeader | Self::RpmHeaderPayload | Self::Detached => DataKind::Binary,
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
