//! What a client can find wrong: with a reply, a packet, a file of ours, or its own request.

use crate::refusal::Refusal;

/// Why bytes from a server or from a file were not accepted. What a *server* says to a request is a [`Refusal`]; it is in here
/// when our own side would not have sent it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The server closed without a word: it died, refused the handshake, or has no room. Retry later.
    #[error("empty reply from server")]
    EmptyReply,
    /// The reply is not as long as its own lengths say: cut on the way (retry), or a server that sends more than 65,535
    /// bytes of results (ask for fewer at once).
    #[error("the reply has {have} bytes, its head says {results} of results and {text} of text")]
    ReplySize {
        /// Bytes that came.
        have: usize,
        /// First length.
        results: usize,
        /// Second length.
        text: usize,
    },
    /// The server refused. Its text says whose fault it is.
    #[error("{}", .text.trim_end())]
    Refused {
        /// Never 0; upstream's client exits with it.
        status: u16,
        /// What the server said, without control characters.
        text: String,
    },
    /// A structure breaks a rule: the sender's fault.
    #[error("malformed {what}: {reason}")]
    Malformed {
        /// The structure ("reply", "signature packet").
        what: &'static str,
        /// The rule that it breaks.
        reason: &'static str,
    },
    /// The server signed something else than was asked: its fault, and the signature must not be used.
    #[error("the server's signature has another {what} than was asked for")]
    OtherThanAsked {
        /// The field that differs.
        what: &'static str,
    },
    /// A number that this release does not know.
    #[error("{what} {number} is not supported")]
    Unsupported {
        /// The kind of the number ("key algorithm", "signature version").
        what: &'static str,
        /// The number.
        number: u8,
    },
    /// A request that cannot be sent: the caller's fault.
    #[error("this request cannot be sent")]
    Request {
        /// What a server would say to it.
        source: Refusal,
    },
    /// A line of sign.conf that cannot be meant: mend the file.
    #[error("sign.conf line {line}: {key}: {reason}")]
    Config {
        /// From 1.
        line: usize,
        /// The key word, without its colon.
        key: String,
        /// The rule that its value breaks.
        reason: &'static str,
    },
    /// A file above its limit.
    #[error("{what} has {size} bytes, at most {limit} are read")]
    TooLarge {
        /// The file.
        what: &'static str,
        /// In bytes.
        size: usize,
        /// In bytes.
        limit: usize,
    },
}

impl Error {
    pub(crate) const fn malformed(what: &'static str, reason: &'static str) -> Self {
        Self::Malformed { what, reason }
    }
}

impl From<Refusal> for Error {
    fn from(source: Refusal) -> Self {
        Self::Request { source }
    }
}
