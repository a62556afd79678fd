//! Why a file was not signed, verified, stripped or inspected, or a key call failed. Display says what happened,
//! without the name of the file it happened to: reports put that in front. [`Error::advice`] says what to do.

mod advice;
mod campaign;
mod content;
mod file;
mod gnupg;
mod reach;
mod signd;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::shown::shown;
use sealwright_formats::error::Error as FormatError;
use sealwright_proto::status::Fault;

pub use sealwright_proto::status::{Blame, Code, Retry};

pub use crate::error::campaign::CampaignFault;
pub use crate::error::content::Content;
pub use crate::error::file::{FileKind, Kept, NotInPlace};
pub use crate::error::gnupg::GnupgFault;
pub use crate::error::reach::{CredentialFault, Tried, Unreached};
pub use crate::error::signd::SigndFault;

/// A directory in which this user may not make or replace a file.
#[derive(Debug, thiserror::Error)]
#[error("cannot write in {} (uid {uid}; directory {} {mode:04o})", shown(dir), owner_name(*owner))]
pub struct DirectoryNotWritable {
    /// The directory.
    pub dir: PathBuf,
    /// Who we are.
    pub uid: u32,
    /// Who owns the directory.
    pub owner: u32,
    /// Its permission bits.
    pub mode: u32,
    /// What the operating system said.
    pub source: io::Error,
}

fn owner_name(uid: u32) -> String {
    if uid == 0 { "root".to_owned() } else { format!("uid {uid}") }
}

fn linked(others: u64) -> String {
    let names = if others == 1 { "another name".to_owned() } else { format!("{others} other names") };
    format!("the file has {names} (hard links)")
}

/// What failed. Blame and retry of each: [`Error::blame`], [`Error::retry`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Nothing has that name.
    #[error("no such file")]
    Missing,
    /// A link that leads nowhere.
    #[error("a symbolic link to {}, which does not exist", shown(target))]
    DanglingLink {
        /// Where it points to.
        target: PathBuf,
    },
    /// Only regular files are signed.
    #[error("a {kind}, not a file")]
    NotAFile {
        /// What it is.
        kind: FileKind,
    },
    /// The operating system refused something that has no variant of its own.
    #[error("cannot {action} {}", shown(path))]
    Io {
        /// "read", "open the directory".
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// What it said.
        source: io::Error,
    },
    /// Another process holds the lock.
    #[error("in use by another signer")]
    Locked,
    /// It is not the file any more that was read and hashed.
    #[error("changed while it was in hand: {what}")]
    Changed {
        /// The difference.
        what: &'static str,
    },
    /// Neither a temporary nor a result can be made there.
    #[error(transparent)]
    DirectoryNotWritable(Box<DirectoryNotWritable>),
    /// Mounted read-only.
    #[error("cannot write in {}: the file system is read-only", shown(dir))]
    ReadOnlyFileSystem {
        /// The directory.
        dir: PathBuf,
    },
    /// The disk is full.
    #[error("no space left in {} (up to {need} bytes needed)", shown(dir))]
    NoSpace {
        /// The directory.
        dir: PathBuf,
        /// Bytes of the result.
        need: u64,
        /// What the operating system said.
        source: io::Error,
    },
    /// The user's quota is used up.
    #[error("disk quota used up in {} (up to {need} bytes needed)", shown(dir))]
    Quota {
        /// The directory.
        dir: PathBuf,
        /// Bytes of the result.
        need: u64,
        /// What the operating system said.
        source: io::Error,
    },
    /// Longer than this process or file system may write.
    #[error(
        "file too large for the process limit (ulimit -f) or the file system in {} ({need} bytes)",
        shown(dir)
    )]
    FileSizeLimit {
        /// The directory.
        dir: PathBuf,
        /// Bytes of the result.
        need: u64,
        /// What the operating system said.
        source: io::Error,
    },
    /// Owner, mode or an attribute would be lost.
    #[error("cannot keep its {what}")]
    NotKept {
        /// Which.
        what: Kept,
        /// What the operating system said.
        source: io::Error,
    },
    /// `chattr +i` or `+a`.
    #[error("the file is immutable or append-only (lsattr shows it)")]
    Immutable,
    /// It has other names, which would change or part with it.
    #[error("{}", linked(*others))]
    Linked {
        /// How many.
        others: u64,
        /// Whether it was to be written in place.
        in_place: bool,
    },
    /// `--in-place` is not possible for this file.
    #[error("cannot be written in place: {why}")]
    NotInPlace {
        /// Why.
        why: NotInPlace,
    },
    /// Writing in place failed, and so did putting the old bytes back: its undo record stays.
    #[error("half written, and the old bytes could not be put back yet")]
    HalfWritten {
        /// What failed first.
        source: Box<Self>,
    },
    /// A step that is done once for several files failed, and is reported with the first of them.
    #[error("not written: what failed for another file of the group failed for this one too")]
    WithOthers,
    /// There is no place for undo records.
    #[error("cannot keep undo records in {}", shown(path))]
    StateDirectory {
        /// The directory.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// Others could plant undo records, or read what is in them.
    #[error("{} is not for its user alone (owner uid {owner}, mode {mode:04o})", shown(path))]
    StateDirectoryOpen {
        /// The directory.
        path: PathBuf,
        /// Who owns it.
        owner: u32,
        /// Its permission bits.
        mode: u32,
    },
    /// The kernel could not write what it had taken: what is on the disk now is not known, and asking again would not tell.
    #[error("cannot sync {}: what is on the disk is not known", shown(path))]
    Sync {
        /// The file or directory.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// A campaign cannot begin or go on.
    #[error(transparent)]
    Campaign(#[from] CampaignFault),
    /// gpg, asked about a home of GnuPG.
    #[error(transparent)]
    Gnupg(#[from] GnupgFault),
    /// The disk gave back something else than what was written.
    #[error("read back from the disk, byte {offset} is not what was written")]
    ReadBack {
        /// Where.
        offset: u64,
    },
    /// `--output` would overwrite its own source.
    #[error("the output {} is the file itself", shown(path))]
    OutputIsSource {
        /// The output.
        path: PathBuf,
    },
    /// What has the name of the result in `--output` is nothing that an earlier call wrote.
    #[error("the output {} is there already, a {kind}; it was not touched", shown(path))]
    OutputOccupied {
        /// The output.
        path: PathBuf,
        /// What it is.
        kind: FileKind,
    },
    /// Two sources have the same name in `--output`.
    #[error("another file of this call is written to {} in the output directory", shown(name))]
    OutputNameTaken {
        /// The name.
        name: PathBuf,
    },
    /// Beyond [`crate::source::FILES_MAX`].
    #[error("more than {limit} files in one call")]
    TooManyFiles {
        /// The limit.
        limit: usize,
    },
    /// Beyond [`crate::source::DEPTH_MAX`].
    #[error("more than {limit} directories deep")]
    TooDeep {
        /// The limit.
        limit: usize,
    },
    /// A file that is read whole is too long.
    #[error("{what} has at least {size} bytes; the limit is {limit}")]
    TooLarge {
        /// Its role.
        what: &'static str,
        /// Its size.
        size: u64,
        /// The limit.
        limit: u64,
    },
    /// No format with an embedded signature recognises the content.
    #[error("no known package or binary ({})", content.description())]
    UnknownContent {
        /// What it looks like.
        content: Content,
    },
    /// Only what is in a file can be removed from it.
    #[error("no known package or binary ({})", content.description())]
    NothingToStrip {
        /// What it looks like.
        content: Content,
    },
    /// `--output` names something else.
    #[error("{} is a file, not a directory", shown(path))]
    OutputNotADirectory {
        /// What was named.
        path: PathBuf,
    },
    /// What the format says about the file.
    #[error(transparent)]
    Format(#[from] sealwright_formats::error::Error),
    /// A certificate, signature or passphrase file of the user is not usable.
    #[error("{} is not usable", shown(path))]
    KeyFile {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: sealwright_crypto::error::Error,
    },
    /// A file that should hold a text has none.
    #[error("{} holds no {what}", shown(path))]
    EmptyFile {
        /// Which file.
        path: PathBuf,
        /// "passphrase", "certificate".
        what: &'static str,
    },
    /// The server refused or failed, in its own words.
    #[error(transparent)]
    Server(#[from] Fault),
    /// The connection ended before the answer.
    #[error("the connection to the server was lost")]
    ConnectionLost {
        /// The transport's reason, if it gave one.
        source: Option<Box<tonic::Status>>,
    },
    /// None of the servers serves.
    #[error("no server can be reached: {}", reach::tried_text(tried))]
    Unreachable {
        /// Every address that was tried.
        tried: Arc<[Tried]>,
    },
    /// What answers speaks gRPC, and knows none of our calls.
    #[error("what answers is no Sealwright server, or one of another release")]
    NotSealwright,
    /// A signd of obs-sign was not reached, refused, or answered wrongly.
    #[error(transparent)]
    Signd(#[from] SigndFault),
    /// A file of our own credentials.
    #[error("the {what} {}", shown(path))]
    Credential {
        /// "client key".
        what: &'static str,
        /// Which file.
        path: PathBuf,
        /// What is wrong with it.
        #[source]
        why: CredentialFault,
    },
    /// The URL of a server.
    #[error("{text:?} does not name a server: {why}")]
    BadAddress {
        /// What was given.
        text: String,
        /// What is wrong.
        why: &'static str,
    },
    /// The server answered something that no server of ours answers.
    #[error("the server's answer is wrong: {what}")]
    BadAnswer {
        /// The rule that it breaks.
        what: &'static str,
    },
    /// A field of the answer breaks a rule.
    #[error("the server's answer is wrong")]
    AnswerRefused {
        /// Which rule.
        source: Fault,
    },
    /// The server's certificate, key or signature bytes cannot be parsed.
    #[error("the server's {what} cannot be read")]
    BadAnswerBytes {
        /// Which.
        what: &'static str,
        /// Why.
        source: sealwright_crypto::error::Error,
    },
    /// The returned signature does not verify over the client's own hash.
    #[error("the returned signature does not verify ({state})")]
    SignatureRefused {
        /// The state of the verification, with its reason.
        state: String,
    },
    /// The secret could not be encrypted to the signer.
    #[error("the key cannot be encrypted to the signer's key")]
    Encrypt,
    /// A signature was made and logged, the file could not be written.
    #[error("signed, not applied (log entry {log_index})")]
    NotApplied {
        /// Index of the log entry of the first signature.
        log_index: u64,
        /// Why.
        source: Box<Self>,
    },
    /// A file that belongs to the one in hand, or to the call, cannot be used; it is not the one that the report names.
    #[error("{what} {} cannot be used", shown(path))]
    Beside {
        /// Its role: "the signature file", "the key file".
        what: &'static str,
        /// Which file.
        path: PathBuf,
        /// Why.
        source: Box<Self>,
    },
    /// The name of the signature file is taken by something that nobody could make again.
    #[error("{} is there and is no OpenPGP signature; it was not touched", shown(path))]
    NotASignature {
        /// Which file.
        path: PathBuf,
    },
    /// A signature file was named, and the file that it signs cannot be opened.
    #[error("the file that it signs, {}, cannot be read", shown(path))]
    SignedFile {
        /// The signed file.
        path: PathBuf,
        /// Why.
        source: Box<Self>,
    },
    /// Standard input was named without a format that signs streams.
    #[error("standard input can only be signed with a signature of its own")]
    StreamWithoutFormat,
    /// A stop was asked for before a signature was.
    #[error("stopped by a signal; nothing was signed")]
    Stopped,
    /// A fault of Sealwright itself.
    #[error("internal fault: {0}; please report it")]
    Internal(&'static str),
}

impl Error {
    pub(crate) fn io(action: &'static str, path: &Path, source: io::Error) -> Self {
        Self::Io { action, path: path.to_owned(), source }
    }

    /// Names the causes of a failed write that a person can mend.
    pub(crate) fn write(dir: &Path, need: u64, source: io::Error) -> Self {
        let dir = dir.to_owned();
        let is = |kind| source.kind() == kind;
        if is(io::ErrorKind::StorageFull) {
            Self::NoSpace { dir, need, source }
        } else if is(io::ErrorKind::QuotaExceeded) {
            Self::Quota { dir, need, source }
        } else if is(io::ErrorKind::FileTooLarge) {
            Self::FileSizeLimit { dir, need, source }
        } else if is(io::ErrorKind::ReadOnlyFilesystem) {
            Self::ReadOnlyFileSystem { dir }
        } else if is(io::ErrorKind::UnexpectedEof) {
            // A source that is shorter than it was.
            Self::Changed { what: "it became shorter" }
        } else {
            Self::Io { action: "write in", path: dir, source }
        }
    }

    /// As [`Self::write`], of a sync: what a person can mend has its name, all else is [`Self::Sync`].
    pub(crate) fn sync(path: &Path, need: u64, source: io::Error) -> Self {
        let named = Self::write(path, need, source);
        if let Self::Io { path, source, .. } = named { Self::Sync { path, source } } else { named }
    }

    /// Whose fault it is.
    #[must_use]
    pub fn blame(&self) -> Blame {
        match self {
            Self::Server(fault) => fault.code.row().blame,
            Self::Signd(fault) => fault.blame(),
            Self::NotApplied { source, .. }
            | Self::SignedFile { source, .. }
            | Self::Beside { source, .. } => source.blame(),
            Self::Format(FormatError::Internal(_)) | Self::Internal(_) => Blame::Us,
            Self::BadAnswer { .. }
            | Self::AnswerRefused { .. }
            | Self::BadAnswerBytes { .. }
            | Self::SignatureRefused { .. } => Blame::Us,
            Self::Io { .. }
            | Self::Format(FormatError::Busy { .. } | FormatError::Read { .. })
            | Self::DirectoryNotWritable(_)
            | Self::ReadOnlyFileSystem { .. }
            | Self::NoSpace { .. }
            | Self::Quota { .. }
            | Self::FileSizeLimit { .. }
            | Self::ReadBack { .. }
            | Self::HalfWritten { .. }
            | Self::WithOthers
            | Self::Sync { .. }
            | Self::StateDirectory { .. }
            | Self::StateDirectoryOpen { .. }
            | Self::ConnectionLost { .. }
            | Self::Unreachable { .. }
            | Self::NotSealwright
            | Self::Encrypt => Blame::Operator,
            Self::Missing
            | Self::Campaign(_)
            | Self::Gnupg(_)
            | Self::DanglingLink { .. }
            | Self::NotAFile { .. }
            | Self::Locked
            | Self::Changed { .. }
            | Self::NotKept { .. }
            | Self::Immutable
            | Self::Linked { .. }
            | Self::NotInPlace { .. }
            | Self::OutputIsSource { .. }
            | Self::OutputNameTaken { .. }
            | Self::OutputOccupied { .. }
            | Self::TooManyFiles { .. }
            | Self::TooDeep { .. }
            | Self::TooLarge { .. }
            | Self::UnknownContent { .. }
            | Self::NothingToStrip { .. }
            | Self::OutputNotADirectory { .. }
            | Self::Format(_)
            | Self::KeyFile { .. }
            | Self::EmptyFile { .. }
            | Self::NotASignature { .. }
            | Self::StreamWithoutFormat
            | Self::Credential { .. }
            | Self::BadAddress { .. }
            | Self::Stopped => Blame::Caller,
        }
    }

    /// Whether the same call can succeed later with nothing changed by a person.
    #[must_use]
    pub fn retry(&self) -> Retry {
        if let Self::NotApplied { source, .. }
        | Self::SignedFile { source, .. }
        | Self::Beside { source, .. } = self
        {
            return source.retry();
        }
        if let Self::Unreachable { tried } = self {
            let passes = tried.iter().any(|tried| tried.why.passes());
            return if passes { Retry::Yes } else { Retry::No };
        }
        if let Self::Signd(fault) = self {
            return if fault.passes() { Retry::Yes } else { Retry::No };
        }
        let is_stale =
            matches!(self, Self::Io { source, .. } if source.kind() == io::ErrorKind::StaleNetworkFileHandle);
        let can = match self.server_code() {
            Some(code) => code.is_retryable(),
            None => {
                is_stale
                    || matches!(
                        self,
                        Self::Locked
                            | Self::Changed { .. }
                            | Self::ConnectionLost { .. }
                            | Self::Stopped
                            | Self::Format(FormatError::Busy { .. } | FormatError::Read { .. })
                    )
            }
        };
        if can { Retry::Yes } else { Retry::No }
    }

    /// Whether the server could not be reached or gave no access at all: with no file attempted, exit status 3.
    #[must_use]
    pub fn nothing_was_attempted(&self) -> bool {
        match self.server_code() {
            Some(code) => code.row().exit == 3,
            None => matches!(
                self,
                Self::ConnectionLost { .. }
                    | Self::Unreachable { .. }
                    | Self::NotSealwright
                    | Self::Credential { .. }
            ),
        }
    }

    /// The addresses that were tried, if none served.
    #[must_use]
    pub fn reach(&self) -> Option<&[Tried]> {
        if let Self::Unreachable { tried } = self { Some(tried) } else { None }
    }

    /// The server's code, if the server said it.
    #[must_use]
    pub const fn server_code(&self) -> Option<Code> {
        if let Self::Server(fault) = self { Some(fault.code) } else { None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_read_and_a_full_budget_are_no_fault_of_the_file_and_can_be_tried_again() {
        let read = FormatError::Read { offset: 0, source: io::ErrorKind::StaleNetworkFileHandle.into() };
        for error in [read, FormatError::Busy { limit: 1 }] {
            let error = Error::from(error);
            assert_eq!((error.blame(), error.retry()), (Blame::Operator, Retry::Yes), "{error}");
        }
    }

    #[test]
    fn a_directory_that_cannot_be_written_is_named_with_who_and_mode() {
        let error = DirectoryNotWritable {
            dir: PathBuf::from("/srv/ro"),
            uid: 991,
            owner: 0,
            mode: 0o755,
            source: io::ErrorKind::PermissionDenied.into(),
        };
        assert_eq!(error.to_string(), "cannot write in /srv/ro (uid 991; directory root 0755)");
    }

    #[test]
    fn full_disk_quota_and_size_limit_are_told_apart() {
        let of = |errno| Error::write(Path::new("/d"), 7, io::Error::from_raw_os_error(errno));
        assert!(matches!(of(rustix::io::Errno::NOSPC.raw_os_error()), Error::NoSpace { need: 7, .. }));
        assert!(matches!(of(rustix::io::Errno::DQUOT.raw_os_error()), Error::Quota { .. }));
        assert!(matches!(of(rustix::io::Errno::FBIG.raw_os_error()), Error::FileSizeLimit { .. }));
        assert!(matches!(of(rustix::io::Errno::ROFS.raw_os_error()), Error::ReadOnlyFileSystem { .. }));
        assert!(matches!(of(rustix::io::Errno::IO.raw_os_error()), Error::Io { .. }));
    }
}
