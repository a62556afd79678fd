//! What the server says instead of a result: one variant a reason, with the text that goes over the wire.

use crate::limits::{
    ARGUMENTS_MAX, NAME_BYTES_MAX, PROJECT_KEY_BYTES_MAX, REPLY_PART_BYTES_MAX, REQUEST_BYTES_MAX,
};

/// Why a request is refused. Display is the text without the line end that [`crate::Reply::refused`] adds.
///
/// All of these are the sender's fault, and the same request is refused again; only [`Self::ReadError`] can be the
/// network's. Texts are `signd`'s where its own clients, Copr, or captured connections depend on them; the line of `signd`
/// that has the text is given. Where it has none, the text is ours and says more.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// Nothing came before the end. Line 1128.
    #[error("zero size packet")]
    ZeroSize,
    /// It ended, or no more came in time, within the four bytes of the head; or a new request is shorter than its own
    /// table of lengths. Lines 1129, 1138, 1140.
    #[error("packet too small")]
    TooSmall,
    /// It ended, or no more came in time, before the length that its head gives. Line 1132.
    #[error("packet read error")]
    ReadError,
    /// More came than the head says. Line 1134; `signd` sees it only if it came in the same read.
    #[error("packet size mismatch")]
    SizeMismatch,
    /// The lengths of the arguments do not add up to what is there. Ours: `signd` cuts or pads silently.
    #[error(
        "packet size mismatch: its arguments have {claimed} bytes by their lengths, and {there} are there"
    )]
    ArgumentSizes {
        /// Sum of the lengths.
        claimed: usize,
        /// Bytes behind the table of lengths.
        there: usize,
    },
    /// Ours: the old form can say more, but nobody needs it.
    #[error("packet too big: {size} bytes, at most {REQUEST_BYTES_MAX}")]
    RequestTooLarge {
        /// Bytes after the head.
        size: usize,
    },
    /// Ours.
    #[error("too many arguments: {count}, at most {ARGUMENTS_MAX}")]
    TooManyArguments {
        /// Command and user included.
        count: usize,
    },
    /// An argument has a control character or is not UTF-8. Line 1718.
    #[error("malformed argument")]
    MalformedArgument,
    /// A user with `/`, or with a dot at its head. Lines 1750, 1764.
    #[error("illegal user {user}")]
    IllegalUser {
        /// As it came, without the hash.
        user: String,
    },
    /// No key of this name, or none that this client may know of. Line 1769. Copr looks for `unknown key:` and makes the key.
    #[error("unknown key: {user}")]
    UnknownKey {
        /// After maps, default and aliases.
        user: String,
    },
    /// Line 1776.
    #[error("unknown command: {command}")]
    UnknownCommand {
        /// As it came.
        command: String,
    },
    /// The module that administers `signd` over its own port. Line 1753. Never served.
    #[error("privileged module is not loaded")]
    Privileged,
    /// Line 1597.
    #[error("certgen: no longer supported, please update your sign client")]
    Certgen,
    /// Ours: a command that `signd` has, and this server has not.
    #[error("{command}: not served here")]
    NotServed {
        /// Its name.
        command: &'static str,
    },
    /// Line 1602.
    #[error("pubkey: no argument expected")]
    PubkeyArguments,
    /// Line 1637.
    #[error("sign: at least one arguments required")]
    SignArguments,
    /// Line 1613.
    #[error("privsign: at least two arguments expected")]
    PrivsignArguments,
    /// Line 1643.
    #[error("privtotp: two arguments expected")]
    PrivtotpArguments,
    /// Line 1513.
    #[error("keygen: four arguments expected")]
    KeygenArguments,
    /// A digest argument that is not hexadecimal digits, `@`, class 00 or 01, time. Line 1034.
    #[error("bad hash {argument}")]
    BadHash {
        /// As it came.
        argument: String,
    },
    /// A hash that is not SHA-1, SHA-256 or SHA-512. Line 1038.
    #[error("sign_with_agent: bad hashalgo {name}")]
    BadHashAlgorithm {
        /// As it came.
        name: String,
    },
    /// A digest that has not the length of its hash. Line 543, with what gpg-agent 2.2 says.
    #[error("gpg-agent: 67109144 IPC parameter error <GPG Agent> - unsupported length of hash")]
    DigestLength,
    /// A project key that is not hexadecimal digits. Lines 1614, 1644.
    #[error("bad private key")]
    BadPrivateKey,
    /// A wrapped project key whose fields are not there. Lines 938, 940.
    #[error("bad encoded data")]
    BadEncodedData,
    /// A wrapped project key that is not as long as it says. Line 947.
    #[error("truncated encoded data")]
    TruncatedEncodedData,
    /// An OpenPGP-encrypted project key that does not start with a session key for a public key. Line 389.
    #[error("encrypted data does not start with a session packet")]
    NoSessionPacket,
    /// Line 392.
    #[error("unsupported session packet version")]
    SessionPacketVersion,
    /// Ours.
    #[error("project key too big: {size} bytes, at most {PROJECT_KEY_BYTES_MAX}")]
    ProjectKeyTooLarge {
        /// Bytes, decoded.
        size: usize,
    },
    /// Line 1645.
    #[error("bad time argument")]
    BadTime,
    /// Line 1518.
    #[error("bad expire format")]
    BadExpire,
    /// Line 1507.
    #[error("bad type: {name}")]
    BadType {
        /// As it came.
        name: String,
    },
    /// Ours: a name or an email that no certificate should carry.
    #[error("{what} too long: {size} bytes, at most {NAME_BYTES_MAX}")]
    NameTooLong {
        /// `real name` or `email`.
        what: &'static str,
        /// In bytes.
        size: usize,
    },
    /// An address that is not on the list. Line 1488.
    #[error("illegal host {address}")]
    IllegalHost {
        /// Of the other end.
        address: core::net::IpAddr,
    },
    /// Line 1478.
    #[error("not coming from a reserved port")]
    NotReservedPort,
    /// Ours: `signd` sends a length modulo 65,536 and all bytes.
    #[error(
        "{results} results have up to {bytes} bytes, and one reply holds {REPLY_PART_BYTES_MAX}; ask for fewer at once"
    )]
    ReplyTooLarge {
        /// Number of results.
        results: usize,
        /// With their table of lengths.
        bytes: usize,
    },
    /// Ours: the old form has room for exactly one result, the new form counts them in 16 bits.
    #[error("{results} results do not fit the form of the request")]
    ResultCount {
        /// Number of results.
        results: usize,
    },
}
