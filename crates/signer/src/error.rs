//! Why the signer did not start or had to stop. Failures of single requests are [`Fault`]s in their answers.

use std::path::PathBuf;

use sealwright_proto::frame;
use sealwright_proto::status::{Code, Fault};

/// Why the signer did not start, or had to stop. [`Self::code`] says whose fault and what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file of the signer's own cannot be used.
    #[error("cannot {action} {path}", path = path.display())]
    File {
        /// What was tried, as a verb.
        action: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A file that must be private is not.
    #[error("{path} {reason}", path = path.display())]
    NotPrivate {
        /// The file or directory.
        path: PathBuf,
        /// The rule that it breaks.
        reason: &'static str,
    },
    /// A file of the signer's own is not what it wrote there.
    #[error("{path} is damaged: {reason}", path = path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The rule that it breaks.
        reason: &'static str,
    },
    /// There is no root key, and none may be made.
    #[error("there is no root key in {path}", path = path.display())]
    RootKeyMissing {
        /// The directory.
        path: PathBuf,
    },
    /// A file is gone, although others of the signer's are there: a new key would open nothing that was sealed before,
    /// new floors or a new count would deny what was.
    #[error("{missing} is missing in {path}, although {present} is there", path = path.display())]
    FileMissing {
        /// The directory.
        path: PathBuf,
        /// The file that is gone.
        missing: &'static str,
        /// One that is there.
        present: &'static str,
    },
    /// The data key is wrapped by another root key.
    #[error("wrong root key: {path} is for root key {wanted}, the one here is {found}", path = path.display())]
    RootKeyWrong {
        /// The data key file.
        path: PathBuf,
        /// Id of the root key that it is for.
        wanted: String,
        /// Id of the root key that was found.
        found: String,
    },
    /// An algorithm does not work on this machine.
    #[error("the self-test of {algorithm} failed: {reason}")]
    SelfTest {
        /// "rsa4096 with sha512".
        algorithm: String,
        /// What happened.
        reason: &'static str,
    },
    /// The system gave no random bytes.
    #[error("the system gave no random bytes")]
    Random,
    /// The process could not be hardened or could not start a thread.
    #[error("cannot {action}")]
    Process {
        /// What was tried, as a verb.
        action: &'static str,
        /// What the system said.
        source: std::io::Error,
    },
    /// `tokens.toml`, or a file that it names, cannot be used.
    #[error("{path} does not name tokens as it should", path = path.display())]
    Tokens {
        /// The file.
        path: PathBuf,
        /// The rule that it breaks.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The sandbox could not be entered.
    #[error("the signer cannot {action}")]
    Confinement {
        /// What was tried, as a verb.
        action: &'static str,
        /// What the kernel or the library said.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The other end of the socket belongs to a user that is not allowed; it was told nothing.
    #[error("the socket was opened by user {uid}, who is not allowed to use this signer")]
    Stranger {
        /// User id, as the kernel says.
        uid: u32,
    },
    /// The socket to front failed, or front broke the protocol.
    #[error("the connection to front ended")]
    Connection(#[source] frame::Error),
}

impl Error {
    /// The row of the table of failures.
    #[must_use]
    pub const fn code(&self) -> Code {
        match self {
            Self::File { .. } => Code::SignerStateFailed,
            Self::NotPrivate { .. } => Code::RootKeyUnusable,
            Self::Damaged { .. } => Code::SignerFileDamaged,
            Self::RootKeyMissing { .. } | Self::FileMissing { .. } => Code::RootKeyMissing,
            Self::RootKeyWrong { .. } => Code::RootKeyWrong,
            Self::SelfTest { .. } => Code::SelfTestFailed,
            Self::Tokens { .. } => Code::TokenRefused,
            Self::Confinement { .. } => Code::ConfinementFailed,
            Self::Stranger { .. } => Code::PermissionDenied,
            Self::Random | Self::Process { .. } => Code::Internal,
            Self::Connection(_) => Code::SignerGone,
        }
    }

    /// What to do about it.
    #[must_use]
    pub const fn advice(&self) -> &'static str {
        self.code().advice()
    }
}

impl From<&Error> for Fault {
    fn from(error: &Error) -> Self {
        let mut text = error.to_string();
        if let Some(source) = std::error::Error::source(error) {
            text.push_str(": ");
            text.push_str(&source.to_string());
        }
        Self::new(error.code(), text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_damaged_file_is_not_said_to_lack_the_right_mode() {
        let path = PathBuf::from("floors");
        let damaged = Error::Damaged { path: path.clone(), reason: "it is not a list of floors" };
        assert_eq!(damaged.code(), Code::SignerFileDamaged);
        assert!(!damaged.advice().contains("0600"));
        assert!(Error::NotPrivate { path, reason: "can be read by others" }.advice().contains("0600"));
    }
}
