//! Why a signd of obs-sign gave no signature. Its own words are kept as they are: programs look for some of them.

use sealwright_proto::status::Blame;

use crate::error::Unreached;

/// What failed between us and a signd.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SigndFault {
    /// No connection, or one that ended before the answer.
    #[error("signd at {server}: {why}")]
    Unreached {
        /// `HOST:PORT`.
        server: String,
        /// What happened.
        why: Unreached,
    },
    /// Its refusal, in its own words; or an answer that breaks a rule.
    #[error("{}", answer_text(.source))]
    Answer {
        /// What is wrong, or what it said.
        source: sealwright_obs::Error,
    },
    /// What it sent as a public key is none.
    #[error("signd: what it sent is no public key: {why}")]
    PublicKey {
        /// Why not.
        why: &'static str,
    },
    /// Its certificate has no component that it could sign with, or we could check.
    #[error("the key of {user} cannot be used: {why}")]
    Key {
        /// As named.
        user: String,
        /// What is wrong with it.
        why: String,
    },
}

/// The refusal alone: nothing before it, since clients look for it at the beginning of a line.
fn answer_text(error: &sealwright_obs::Error) -> String {
    if matches!(error, sealwright_obs::Error::Refused { .. }) {
        error.to_string()
    } else {
        format!("signd: {error}")
    }
}

impl SigndFault {
    pub(super) const fn blame(&self) -> Blame {
        match self {
            Self::Unreached { .. } => Blame::Operator,
            Self::Answer {
                source: sealwright_obs::Error::Refused { .. } | sealwright_obs::Error::Request { .. },
            }
            | Self::Key { .. } => Blame::Caller,
            Self::Answer { .. } | Self::PublicKey { .. } => Blame::Operator,
        }
    }

    /// Whether the same call can succeed later with nothing changed by a person.
    pub(super) const fn passes(&self) -> bool {
        match self {
            Self::Unreached { why, .. } => why.passes(),
            Self::Answer { source } => {
                matches!(source, sealwright_obs::Error::EmptyReply | sealwright_obs::Error::ReplySize { .. })
            }
            Self::PublicKey { .. } | Self::Key { .. } => false,
        }
    }

    pub(super) const fn advice(&self) -> &'static str {
        match self {
            Self::Unreached { why: Unreached::Refused, .. } => {
                "Start signd, or check `server:` and `port:` in sign.conf."
            }
            Self::Unreached { why: Unreached::Closed, .. } => {
                "See whether its `allow:` has this host, and whether it wants a reserved port (below 1024): run as root, or \
                 set `allow-unprivileged-ports: true` there."
            }
            Self::Unreached { why: Unreached::Silent { .. }, .. } => {
                "It may be busy: try again. A dozen idle connections stop signd."
            }
            Self::Unreached { .. } => "Check `server:`, `port:` and `proto:` in sign.conf.",
            Self::Answer { source: sealwright_obs::Error::Refused { .. } } => "See the log of signd.",
            Self::Answer { source: sealwright_obs::Error::Request { .. } } => {
                "Nothing was sent. Name a user that signd can have: -u USER."
            }
            Self::Answer { .. } | Self::PublicKey { .. } => {
                "Nothing was written. Try again; if it stays, check what answers on that port."
            }
            Self::Key { .. } => "Use another key: -u USER.",
        }
    }
}
