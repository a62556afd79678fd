//! Requests: three forms on the wire, told apart by the first two lengths. All lengths are 16 bits, big-endian.
//!
//! ```text
//! A=0 B=0     old ping, nothing follows
//! B>0         old: A bytes user, B bytes [HASH:]digest or [HASH:]PUBKEY
//! A>0 B=0     new: A bytes: count(2), count lengths (2 each), the arguments without separators
//!             arguments: command, [HASH:]user, then the command's own
//! ```
//!
//! A server decides in this order, which is `signd`'s, so that the same request gets the same text:
//! [`Parser`] (framing, characters, user), [`Verb::Privileged`], the key of [`Request::user`] (`unknown key:`), and
//! only then [`Request::command`] (the command's name, its arguments).

use core::fmt;

use crate::bytes::Reader;
use crate::digest::{DigestArgument, Hash};
use crate::error::Error;
use crate::limits::{ARGUMENTS_MAX, REQUEST_BYTES_MAX, REQUEST_HEAD_BYTES};
use crate::project_key::ProjectKey;
use crate::refusal::Refusal;

/// Puts a request together from the pieces in which it arrives. It never holds more than was received, nor more than
/// [`REQUEST_BYTES_MAX`]; of longer requests it counts the bytes, so that a refusal can be sent after all was read (a close with
/// unread bytes resets the connection, and the client cannot read why).
#[derive(Default)]
pub struct Parser {
    kept: Vec<u8>,
    seen: usize,
}

/// What is known after the bytes so far.
#[derive(Debug, PartialEq, Eq)]
pub enum Progress {
    /// So many bytes are missing, or more: fewer than four are there to tell.
    More(usize),
    /// The request is complete. A refusal can be sent now.
    Done(Result<Request, Refusal>),
}

impl Parser {
    /// Before the first byte.
    #[must_use]
    pub const fn new() -> Self {
        Self { kept: Vec::new(), seen: 0 }
    }

    /// Takes what was received. Bytes after the end of the request are a refusal, in this call and in later ones.
    pub fn push(&mut self, bytes: &[u8]) -> Progress {
        let room = REQUEST_HEAD_BYTES.saturating_add(REQUEST_BYTES_MAX).saturating_sub(self.kept.len());
        self.kept.extend_from_slice(bytes.get(..room).unwrap_or(bytes));
        self.seen = self.seen.saturating_add(bytes.len());
        let Some((&[a, b, c, d], payload)) = self.kept.split_first_chunk::<REQUEST_HEAD_BYTES>() else {
            return Progress::More(REQUEST_HEAD_BYTES.saturating_sub(self.seen));
        };
        let (first, second) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
        let size = usize::from(first).saturating_add(usize::from(second));
        let total = REQUEST_HEAD_BYTES.saturating_add(size);
        if self.seen < total {
            return Progress::More(total.saturating_sub(self.seen));
        }
        Progress::Done(if self.seen > total {
            Err(Refusal::SizeMismatch)
        } else if size > REQUEST_BYTES_MAX {
            Err(Refusal::RequestTooLarge { size })
        } else {
            Request::from_payload(first, second, payload)
        })
    }

    /// What to say when the other end closed, or the time is over, and [`Self::push`] still wants more.
    #[must_use]
    pub fn cut_short(&self) -> Refusal {
        match self.seen {
            0 => Refusal::ZeroSize,
            1..REQUEST_HEAD_BYTES => Refusal::TooSmall,
            REQUEST_HEAD_BYTES.. => Refusal::ReadError,
        }
    }
}

/// The three ways to write a request. A reply has the form of its request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Form {
    /// Four zero bytes.
    OldPing,
    /// One result, bare.
    Old,
    /// Any number of results, with their lengths.
    New,
}

/// Which command a request names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verb {
    /// Is anybody there? Touches no key.
    Ping,
    /// The public key, armored.
    Pubkey,
    /// Signatures over digests with the user's key.
    Sign,
    /// Signatures over digests with a key that the request carries, encrypted.
    Privsign,
    /// A new key, certified by the user's, its secret half encrypted.
    Keygen,
    /// A one-time password from a secret that the request carries, encrypted.
    Privtotp,
    /// An error since the clients make certificates themselves.
    Certgen,
    /// Administers `signd`.
    Privileged,
    /// Anything else.
    Unknown,
}

impl Verb {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::Ping,
        Self::Pubkey,
        Self::Sign,
        Self::Privsign,
        Self::Keygen,
        Self::Privtotp,
        Self::Certgen,
        Self::Privileged,
        Self::Unknown,
    ];

    /// For log lines: the command's own name, and nothing of what came where it is unknown.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ping => "ping",
            Self::Pubkey => "pubkey",
            Self::Sign => "sign",
            Self::Privsign => "privsign",
            Self::Keygen => "keygen",
            Self::Privtotp => "privtotp",
            Self::Certgen => "certgen",
            Self::Privileged => "privileged",
            Self::Unknown => "unknown",
        }
    }
}

/// A request that is whole, readable and names a legal user. Its bytes are kept as they came: [`Self::to_bytes`].
#[derive(Clone, PartialEq, Eq)]
pub struct Request(Spelling);

#[derive(Clone, PartialEq, Eq)]
enum Spelling {
    OldPing,
    Old { user: String, argument: String },
    New { arguments: Vec<String> },
}

/// The argument of the old form that asks for the public key.
const PUBKEY: &str = "PUBKEY";

impl Request {
    /// The old ping.
    #[must_use]
    pub const fn ping() -> Self {
        Self(Spelling::OldPing)
    }

    /// The public key of `user`, in the old form as upstream's client asks.
    ///
    /// # Errors
    /// [`Error::Request`] for a user that cannot be sent.
    pub fn pubkey(user: &str, hash: Hash) -> Result<Self, Error> {
        Self::old(user, hash, PUBKEY)
    }

    /// One digest in the old form, several in the new one, as upstream's client asks. All have the hash of the first.
    ///
    /// # Errors
    /// [`Error::Request`] if there is none, one has another hash, or they do not fit.
    pub fn sign(user: &str, digests: &[DigestArgument]) -> Result<Self, Error> {
        match digests {
            [] => Err(Refusal::SignArguments.into()),
            [one] => Self::old(user, one.hash(), &one.to_text()),
            [first, ..] => Self::new_form("sign", user, first.hash(), texts(first.hash(), digests)?),
        }
    }

    /// Signatures with a project key.
    ///
    /// # Errors
    /// As [`Self::sign`].
    pub fn privsign(user: &str, key: &ProjectKey, digests: &[DigestArgument]) -> Result<Self, Error> {
        let [first, ..] = digests else { return Err(Refusal::PrivsignArguments.into()) };
        let mut arguments = vec![key.to_hex()];
        arguments.extend(texts(first.hash(), digests)?);
        Self::new_form("privsign", user, first.hash(), arguments)
    }

    /// Any command in the new form. `sign -g` is `keygen` with type, days, real name and email.
    ///
    /// # Errors
    /// [`Error::Request`] if it does not fit, or has characters that no server takes.
    pub fn new_form(command: &str, user: &str, hash: Hash, arguments: Vec<String>) -> Result<Self, Error> {
        let mut all = vec![command.to_owned(), prefixed(hash, user, user.contains(':'))];
        all.extend(arguments);
        Ok(Self::checked(Spelling::New { arguments: all })?)
    }

    fn old(user: &str, hash: Hash, argument: &str) -> Result<Self, Error> {
        let argument = prefixed(hash, argument, user.contains(':'));
        Ok(Self::checked(Spelling::Old { user: user.to_owned(), argument })?)
    }

    /// Which of the three forms.
    #[must_use]
    pub const fn form(&self) -> Form {
        match &self.0 {
            Spelling::OldPing => Form::OldPing,
            Spelling::Old { .. } => Form::Old,
            Spelling::New { .. } => Form::New,
        }
    }

    /// Which command.
    #[must_use]
    pub fn verb(&self) -> Verb {
        match self.command_name() {
            "ping" => Verb::Ping,
            "pubkey" => Verb::Pubkey,
            "sign" => Verb::Sign,
            "privsign" => Verb::Privsign,
            "keygen" => Verb::Keygen,
            "privtotp" => Verb::Privtotp,
            "certgen" => Verb::Certgen,
            "privileged" => Verb::Privileged,
            _ => Verb::Unknown,
        }
    }

    /// The name of the command; empty when there is no argument at all.
    #[must_use]
    pub fn command_name(&self) -> &str {
        match &self.0 {
            Spelling::OldPing => "ping",
            Spelling::Old { argument, .. } if split_hash(argument).1 == PUBKEY => "pubkey",
            Spelling::Old { .. } => "sign",
            Spelling::New { arguments } => arguments.first().map_or("", String::as_str),
        }
    }

    /// The user without a hash before it; empty asks for the server's default.
    #[must_use]
    pub fn user(&self) -> &str {
        self.hash_and_user().1
    }

    /// The name of the hash as it came, for [`Hash::from_request`] and for maps of users; empty is as none.
    #[must_use]
    pub fn hash_name(&self) -> Option<&str> {
        self.hash_and_user().0
    }

    /// The command's own arguments.
    #[must_use]
    pub fn arguments(&self) -> Vec<&str> {
        match &self.0 {
            Spelling::OldPing => Vec::new(),
            Spelling::Old { argument, .. } => {
                Some(split_hash(argument).1).filter(|argument| *argument != PUBKEY).into_iter().collect()
            }
            Spelling::New { arguments } => arguments.iter().skip(2).map(String::as_str).collect(),
        }
    }

    /// The bytes on the wire: for a request that was parsed, those that came.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        match &self.0 {
            Spelling::OldPing => vec![0; REQUEST_HEAD_BYTES],
            Spelling::Old { user, argument } => {
                [&length(user.len()), &length(argument.len()), user.as_bytes(), argument.as_bytes()].concat()
            }
            Spelling::New { arguments } => {
                let mut out = [length(new_size(arguments)), [0, 0], length(arguments.len())].concat();
                out.extend(arguments.iter().flat_map(|argument| length(argument.len())));
                out.extend(arguments.iter().flat_map(|argument| argument.bytes()));
                out
            }
        }
    }

    fn from_payload(first: u16, second: u16, payload: &[u8]) -> Result<Self, Refusal> {
        Self::checked(match (first, second) {
            (0, 0) => Spelling::OldPing,
            (1.., 0) => Spelling::New { arguments: new_arguments(payload)? },
            (_, 1..) => {
                let (user, argument) =
                    payload.split_at_checked(usize::from(first)).ok_or(Refusal::SizeMismatch)?;
                Spelling::Old { user: readable(user)?, argument: readable(argument)? }
            }
        })
    }

    /// The one place where a request comes into being, from either side.
    fn checked(spelling: Spelling) -> Result<Self, Refusal> {
        let size = match &spelling {
            Spelling::OldPing => 0,
            Spelling::Old { user, argument } => user.len().saturating_add(argument.len()),
            Spelling::New { arguments } if arguments.len() > ARGUMENTS_MAX => {
                return Err(Refusal::TooManyArguments { count: arguments.len() });
            }
            Spelling::New { arguments } => new_size(arguments),
        };
        if size > REQUEST_BYTES_MAX {
            return Err(Refusal::RequestTooLarge { size });
        }
        let has_control = match &spelling {
            Spelling::OldPing => false,
            Spelling::Old { user, argument } => [user, argument].into_iter().any(|text| unprintable(text)),
            Spelling::New { arguments } => arguments.iter().any(|text| unprintable(text)),
        };
        if has_control {
            return Err(Refusal::MalformedArgument);
        }
        let request = Self(spelling);
        let user = request.user();
        if user.contains('/') || user.starts_with('.') {
            return Err(Refusal::IllegalUser { user: user.to_owned() });
        }
        Ok(request)
    }

    /// In the old form the hash stands before the argument, and else before the user.
    fn hash_and_user(&self) -> (Option<&str>, &str) {
        match &self.0 {
            Spelling::OldPing => (None, ""),
            Spelling::Old { user, argument } => match split_hash(argument) {
                (Some(hash), _) => (Some(hash), user),
                (None, _) => split_hash(user),
            },
            Spelling::New { arguments } => arguments.get(1).map_or((None, ""), |user| split_hash(user)),
        }
    }
}

/// Without arguments: they can hold an encrypted key, and a digest says nothing.
impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Request")
            .field("form", &self.form())
            .field("command", &self.command_name())
            .field("hash", &self.hash_name())
            .field("user", &self.user())
            .field("arguments", &self.arguments().len())
            .finish()
    }
}

fn texts(hash: Hash, digests: &[DigestArgument]) -> Result<Vec<String>, Refusal> {
    digests
        .iter()
        .map(|digest| (digest.hash() == hash).then(|| digest.to_text()).ok_or(Refusal::DigestLength))
        .collect()
}

/// Upstream's client leaves SHA-1 out. With a colon in the user that would make a hash of what stands before it.
fn prefixed(hash: Hash, text: &str, always: bool) -> String {
    if hash == Hash::Sha1 && !always { text.to_owned() } else { format!("{}:{text}", hash.name()) }
}

fn split_hash(text: &str) -> (Option<&str>, &str) {
    text.split_once(':').map_or((None, text), |(hash, rest)| (Some(hash), rest))
}

/// Table of lengths and bytes of a new request.
fn new_size(arguments: &[String]) -> usize {
    arguments.iter().fold(2_usize, |sum, argument| sum.saturating_add(2).saturating_add(argument.len()))
}

fn new_arguments(payload: &[u8]) -> Result<Vec<String>, Refusal> {
    let mut reader = Reader(payload);
    let count = usize::from(reader.u16().ok_or(Refusal::TooSmall)?);
    let table = reader.take(count.saturating_mul(2)).ok_or(Refusal::TooSmall)?;
    if count > ARGUMENTS_MAX {
        return Err(Refusal::TooManyArguments { count });
    }
    let lengths = || table.as_chunks::<2>().0.iter().map(|pair| usize::from(u16::from_be_bytes(*pair)));
    let claimed = lengths().fold(0_usize, usize::saturating_add);
    let there = reader.0.len();
    if claimed != there {
        return Err(Refusal::ArgumentSizes { claimed, there });
    }
    lengths()
        .map(|len| reader.take(len).ok_or(Refusal::ArgumentSizes { claimed, there }).and_then(readable))
        .collect()
}

fn readable(bytes: &[u8]) -> Result<String, Refusal> {
    core::str::from_utf8(bytes).map(str::to_owned).map_err(|_| Refusal::MalformedArgument)
}

/// ASCII control characters, as `signd` refuses them (line 1714).
fn unprintable(text: &str) -> bool {
    text.bytes().any(|byte| byte.is_ascii_control())
}

/// A length that was checked against [`REQUEST_BYTES_MAX`].
fn length(len: usize) -> [u8; 2] {
    u16::try_from(len).unwrap_or(u16::MAX).to_be_bytes()
}

#[cfg(test)]
mod tests;
