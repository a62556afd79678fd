//! Why front does not start, or does not take a new configuration. Failures of requests are [`Fault`]s.

use rustls::pki_types::pem;
use sealwright_proto::status::Fault;

use crate::tls::Part;

/// Why front does not start, or does not take a new configuration; all of these are the operator's to mend.
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
    /// A TLS file is larger than any that is meant.
    #[error("{part} has more than {limit} bytes")]
    TlsTooLarge {
        /// Which file.
        part: Part,
        /// Bytes.
        limit: usize,
    },
    /// A TLS file is no PEM.
    #[error("{part} is not readable PEM")]
    Pem {
        /// Which file.
        part: Part,
        /// Why.
        source: pem::Error,
    },
    /// A TLS file is PEM without what should be in it.
    #[error("{part}: the file holds none")]
    NoCertificate {
        /// Which file.
        part: Part,
    },
    /// The DER inside is malformed.
    #[error("{part} is malformed")]
    MalformedCertificate {
        /// Which file.
        part: Part,
    },
    /// No server can show this certificate.
    #[error("the server's certificate {what}")]
    ServerCertificate {
        /// What is wrong with it.
        what: &'static str,
    },
    /// The key is not the certificate's, or of a kind that is not taken.
    #[error("the server's key does not fit its certificate")]
    ServerKey(#[source] rustls::Error),
    /// The authority of clients is not one.
    #[error("the authority of clients cannot be used")]
    ClientCa(#[source] rustls::Error),
    /// The authority or the revocation list cannot be used to check clients.
    #[error("the authority of clients or the revocation list cannot be used")]
    ClientVerifier(#[source] rustls::server::VerifierBuilderError),
    /// TLS cannot be set up.
    #[error("TLS cannot be set up")]
    Tls(#[source] rustls::Error),
    /// The file of clients is larger than any that is meant.
    #[error("the file of clients has more than {limit} {what}")]
    ClientsTooLarge {
        /// What there is too much of.
        what: &'static str,
        /// The limit.
        limit: usize,
    },
    /// The file of clients is not what it should be.
    #[error("the file of clients cannot be read")]
    ClientsSyntax(#[source] Box<toml::de::Error>),
    /// An entry of the file of clients breaks a rule.
    #[error("the file of clients: {name} {what}")]
    Client {
        /// Name of the client.
        name: String,
        /// What is wrong with it.
        what: &'static str,
    },
    /// A socket to listen on cannot be used.
    #[error("the listening socket cannot be used")]
    Listener(#[source] std::io::Error),
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
            Self::Store(Store::CannotGrow) => {
                "Raise the limit of file sizes (ulimit -f), or free some space on the disk that holds the store, and try again."
            }
            Self::Store(Store::OtherOwner { .. }) => {
                "Run it as the owner of the store, or choose another place with SEALWRIGHT_HOME; chown it only if you know why it is theirs."
            }
            Self::Store(Store::CannotOpen { .. }) => {
                "Allow more open files (ulimit -n), and see that the folder of the store is yours."
            }
            Self::Store(Store::Overloaded) => "Try again in a moment.",
            Self::Store(Store::Damaged { .. } | Store::NotAStore { .. }) => {
                "Restore the store from a backup, or choose another place with SEALWRIGHT_HOME."
            }
            Self::Store(_) => "See that the folder of the store exists, is yours, and can be written.",
            Self::Tls(_) => "Please report it.",
            Self::Listener(_) => "See that it is a listening TCP socket, and that its address is free.",
            Self::TlsTooLarge { .. }
            | Self::Pem { .. }
            | Self::NoCertificate { .. }
            | Self::MalformedCertificate { .. }
            | Self::ServerCertificate { .. }
            | Self::ServerKey(_)
            | Self::ClientCa(_)
            | Self::ClientVerifier(_) => {
                "Put the right file there; `sealwright init` makes a set that fits together."
            }
            Self::ClientsTooLarge { .. } | Self::ClientsSyntax(_) | Self::Client { .. } => {
                "Mend the file of clients, and reload."
            }
        }
    }
}
