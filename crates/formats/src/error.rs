//! What can be wrong with a file. Each variant is the file's fault unless it says otherwise.

use std::io;

/// Why a file cannot be signed, stripped, inspected or verified. Display says what is wrong; [`Error::advice`]
/// says what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Reading failed: the file system's fault; a retry can help.
    #[error("cannot read at byte {offset}")]
    Read {
        /// Where.
        offset: u64,
        /// What the operating system said.
        source: io::Error,
    },
    /// It is not a file of this format.
    #[error("not {format}: {reason}")]
    NotThisFormat {
        /// Name of the format.
        format: &'static str,
        /// What is missing.
        reason: &'static str,
    },
    /// It breaks a rule of its format.
    #[error("malformed {what} at byte {offset}: {reason}")]
    Malformed {
        /// The structure ("signature header", "main header").
        what: &'static str,
        /// Where in the file.
        offset: u64,
        /// The rule that it breaks.
        reason: String,
    },
    /// It ends before its own headers say.
    #[error("truncated: the {what} needs {need} bytes, the file has {have}")]
    Truncated {
        /// The part that is not whole.
        what: &'static str,
        /// Bytes needed.
        need: u64,
        /// Bytes there.
        have: u64,
    },
    /// A digest or a size in the file is not what its bytes give: damaged after it was built.
    #[error("{what} differs from the package's own (recorded {recorded}, computed {computed})")]
    Damaged {
        /// Which digest or size ("header SHA-256", "payload size").
        what: &'static str,
        /// As the file says.
        recorded: String,
        /// As its bytes give.
        computed: String,
    },
    /// A limit of ours, or of the oldest rpm that must read the result.
    #[error("{what} is {size}; {limit_of} reads at most {limit}")]
    TooLarge {
        /// The thing that is too large.
        what: &'static str,
        /// Its size.
        size: u64,
        /// The limit.
        limit: u64,
        /// Whose limit ("rpm 4.14", "sealwright").
        limit_of: String,
    },
    /// Other files that are being signed fill the memory for large signature headers, for a minute: nobody's fault; a
    /// retry helps.
    #[error("no room for its signature header: those of other files fill {limit} bytes")]
    Busy {
        /// Bytes for all at once.
        limit: u64,
    },
    /// Already signed, and `--if-signed refuse`.
    #[error("already signed ({by})")]
    AlreadySigned {
        /// The issuers that are there.
        by: String,
    },
    /// What was asked for does not go with this file.
    #[error("{reason}")]
    Refused {
        /// What and why.
        reason: String,
        /// What to do instead.
        advice: &'static str,
    },
    /// The format reads at offsets; a pipe cannot.
    #[error("format {format} needs a file; standard input cannot be read twice")]
    NeedsSeek {
        /// Name of the format.
        format: &'static str,
    },
    /// An OpenPGP structure could not be read or made.
    #[error(transparent)]
    Crypto(#[from] sealwright_crypto::error::Error),
    /// A fault of Sealwright itself.
    #[error("internal fault: {0}; please report it")]
    Internal(&'static str),
}

impl Error {
    pub(crate) const fn internal(what: &'static str) -> Self {
        Self::Internal(what)
    }

    /// What a person can do about it: one sentence.
    #[must_use]
    pub const fn advice(&self) -> &'static str {
        match self {
            Self::Read { .. } => "Check the disk or the network file system, then try again.",
            Self::NotThisFormat { .. } => "Check that the download is complete and of the right kind.",
            Self::Malformed { .. } => "Rebuild the file, or report it to whoever made it.",
            Self::Truncated { .. } | Self::Damaged { .. } => {
                "Damaged after it was built. Fetch or rebuild it."
            }
            Self::TooLarge { .. } => "Raise --min-rpm if no older rpm has to read it.",
            Self::Busy { .. } => "Try again, with fewer --jobs.",
            Self::AlreadySigned { .. } => "Use --if-signed replace, add or skip.",
            Self::Refused { advice, .. } => advice,
            Self::NeedsSeek { .. } => "Save it to a file first.",
            Self::Crypto(_) => "Rebuild the file, or report it to whoever made it.",
            Self::Internal(_) => "Nothing was changed.",
        }
    }
}
