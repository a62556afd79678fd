//! What went wrong with gpg, or between it and us.

use std::io;
use std::path::PathBuf;
use std::process::ExitStatus;

use crate::gnupg::listing::Malformed;
use crate::shown::shown;

/// A home of GnuPG, or the gpg that was asked about it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GnupgFault {
    /// The directory is not there, or none.
    #[error("the home of GnuPG {} cannot be used", shown(path))]
    Home {
        /// As it was named.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// Not installed, or not to be started.
    #[error("cannot run {}", shown(program))]
    NotRun {
        /// gpg, by the name that it was called.
        program: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// It gave no answer.
    #[error("gpg did not end within {seconds} s")]
    Hangs {
        /// That it had.
        seconds: u64,
    },
    /// It said that it failed.
    #[error("gpg ended with {status}: {said}")]
    Failed {
        /// How it ended.
        status: ExitStatus,
        /// Its own words.
        said: String,
    },
    /// It succeeded, and gave nothing.
    #[error("gpg exported nothing: {said}")]
    NothingExported {
        /// Its own words.
        said: String,
    },
    /// More than a key has.
    #[error("gpg exported more than {limit} bytes")]
    TooLarge {
        /// In bytes.
        limit: usize,
    },
    /// Its listing is none.
    #[error("gpg's listing is not one")]
    Listing {
        /// The rule that it breaks.
        #[source]
        why: Malformed,
    },
    /// The pipe between us broke.
    #[error("cannot read what gpg says")]
    Pipe {
        /// What the operating system said.
        source: io::Error,
    },
}

impl GnupgFault {
    /// What a person can do about it.
    #[must_use]
    pub(crate) const fn advice(&self) -> &'static str {
        match self {
            Self::Home { .. } => {
                "Name the GNUPGHOME with --gnupghome, and run this as a user who may read it."
            }
            Self::NotRun { .. } => "Install GnuPG 2, or name the program with --gpg.",
            Self::Hangs { .. } => {
                "Look for a lock that nobody holds (*.lock in the home), then run the same command again."
            }
            Self::Failed { .. } | Self::NothingExported { .. } => {
                "Try the export by hand (gpg --homedir ... --export-secret-keys FINGERPRINT): the key or its passphrase is damaged."
            }
            Self::TooLarge { .. } => "Remove what is not the key's own from it (gpg --edit-key ... clean).",
            Self::Listing { .. } => "Check that --gpg names GnuPG 2.",
            Self::Pipe { .. } => "Run the same command again.",
        }
    }
}
