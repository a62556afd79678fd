//! Why front does not start. Failures of requests are [`Fault`]s.

use sealwright_proto::status::Fault;

/// Why front does not start; all of these are the operator's to mend.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The signer does not serve; it says why.
    #[error("the signer does not serve: {0}")]
    Signer(Fault),
    /// The signer cannot be started, or the socket to it cannot be used.
    #[error("the signer cannot be started or spoken to")]
    SignerSocket(#[source] std::io::Error),
    /// The keys in the store were sealed by a signer with other keys: those were lost and made anew, or the store or
    /// the folder of the root key is another installation's.
    #[error(
        "the root key here is not the one of this store: key {key} is sealed under data key {wanted}, and the signer has data key {found}"
    )]
    OtherRootKey {
        /// Name of a key in the store.
        key: String,
        /// Id of the data key it needs.
        wanted: String,
        /// Id of the signer's.
        found: String,
    },
    /// Keys have signed under this root key, and the store has none.
    #[error("the store is missing or empty, while keys have signed under this root key before")]
    StoreLost,
    /// The store does not open.
    #[error("the store does not open")]
    Store(#[from] sealwright_store::Error),
}

impl Error {
    /// What to do, one plain sentence.
    #[must_use]
    pub const fn advice(&self) -> &'static str {
        use sealwright_store::Error as Store;
        match self {
            Self::Signer(fault) => fault.code.advice(),
            Self::OtherRootKey { .. } => {
                "Restore root.key and data.key of this store from a backup, or choose another place with SEALWRIGHT_HOME."
            }
            Self::StoreLost => {
                "Restore the store from a backup, or choose another place for new keys with SEALWRIGHT_HOME."
            }
            Self::SignerSocket(_) => "Try again; if it stays, report it.",
            Self::Store(Store::NewerStore { .. }) => "Use the release that wrote it, or a newer one.",
            Self::Store(Store::Permissions { .. }) => "Take the permissions of others away with chmod.",
            Self::Store(Store::Busy) => "Wait until the other process has finished, and try again.",
            Self::Store(Store::Full) => "Free some space on the disk that holds the store, and try again.",
            Self::Store(Store::CannotOpen { .. }) => {
                "Allow more open files (ulimit -n), and see that the folder of the store is yours."
            }
            Self::Store(Store::Overloaded) => "Try again in a moment.",
            Self::Store(Store::Damaged { .. } | Store::NotAStore { .. }) => {
                "Restore the store from a backup, or choose another place with SEALWRIGHT_HOME."
            }
            Self::Store(_) => "See that the folder of the store exists, is yours, and can be written.",
        }
    }
}
