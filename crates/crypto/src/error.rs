//! The one error type of this crate: each variant says what is wrong with the bytes it was given.

/// Why bytes were not accepted. None of these can be mended by a retry: the sender's bytes are at fault.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An armor block, packet or field is not well formed. The text names the field.
    #[error("malformed {what}: {reason}")]
    Malformed {
        /// The thing that was parsed, in the field's own words ("signature packet", "midstate").
        what: &'static str,
        /// The rule that it breaks.
        reason: &'static str,
    },
    /// rPGP refused a packet or a certificate; its reason is the source.
    #[error("malformed {what}")]
    Packet {
        /// The thing that was parsed.
        what: &'static str,
        /// What rPGP said.
        source: Box<pgp::errors::Error>,
    },
    /// A well-formed value that this release does not support, by name.
    #[error("{what} is not supported: {name}")]
    Unsupported {
        /// The kind of the value ("hash algorithm", "key algorithm", "signature version").
        what: &'static str,
        /// Its name or number.
        name: String,
    },
    /// A value above its named limit.
    #[error("{what} has {size} {unit}; the limit is {limit}")]
    TooLarge {
        /// The thing that is too large.
        what: &'static str,
        /// Its size.
        size: u64,
        /// The limit it breaks.
        limit: u64,
        /// The unit of both.
        unit: &'static str,
    },
}

impl Error {
    /// A field that breaks a rule.
    #[must_use]
    pub const fn malformed(what: &'static str, reason: &'static str) -> Self {
        Self::Malformed { what, reason }
    }

    /// Keeps what rPGP said, with the name of the thing that was parsed.
    #[must_use]
    pub fn packet(what: &'static str, source: pgp::errors::Error) -> Self {
        Self::Packet { what, source: Box::new(source) }
    }
}
