//! What a person can do about each error.

use std::io;
use std::sync::Arc;

use rustix::io::Errno;
use sealwright_proto::status::{Code, Fault};

use crate::apply::sidecar::SIGNATURE_FILE;
use crate::error::{Content, Error, FileKind, Kept, Tried};

const OCCUPIED: &str =
    "Move it away, or use another --output DIR: only packages, as of an earlier call, are replaced.";
const SYNC: &str = "Look at the disk and the kernel's log first. Verify the files of the last minutes, then run the same command \
     again.";
const STATE: &str = "Set SEALWRIGHT_HOME to a directory that is yours, or leave out --in-place.";
const OWNER: &str = "Sign as the owner or as root, or use --output DIR.";

/// To the owner: what this user may not give the file back to is its group.
const GROUP: &str = "Sign as a member of the file's group or as root, or use --output DIR.";

impl Error {
    /// What a person can do about it, one or two sentences.
    #[must_use]
    pub fn advice(&self) -> &str {
        match self {
            Self::Missing => "Check the name.",
            Self::DanglingLink { .. } => "Mend or remove the link.",
            Self::NotAFile { kind: FileKind::Directory } => "Name the files in it, or use -r.",
            Self::NotAFile { .. } => "Name a regular file.",
            Self::Io { source, .. } => of_io(source),
            Self::Locked => "Try again when the other one has finished.",
            Self::Changed { .. } => "Try again when nobody else works on the file.",
            Self::DirectoryNotWritable(_) => "Grant access or use --output DIR.",
            Self::ReadOnlyFileSystem { .. } => "Remount it writable or use --output DIR.",
            Self::NoSpace { .. } => "Free some space or use --output DIR on another disk.",
            Self::Quota { .. } => "Raise the quota or use --output DIR on another disk.",
            Self::FileSizeLimit { .. } => "Raise the limit with ulimit -f.",
            Self::NotKept { what: Kept::Owner(owner, _), .. } => of_owner(*owner),
            Self::NotKept { .. } => "Sign as the owner or as root, or use --output DIR, which may lose it.",
            Self::Immutable => "Remove the attribute with chattr, or use --output DIR.",
            Self::Linked { in_place: true, .. } => {
                "Use --hardlinks relink to change all names at once, or break to part this one from the others."
            }
            Self::Linked { in_place: false, .. } => "Use --hardlinks relink or break.",
            Self::NotInPlace { .. } => "Leave out --in-place.",
            Self::HalfWritten { .. } => {
                "Check the disk, then run sealwright sign again: it puts the old bytes back."
            }
            Self::WithOthers => "See the failure of the other file, then try again.",
            Self::StateDirectory { .. } => STATE,
            Self::StateDirectoryOpen { .. } => "Make it yours with mode 0700, or remove it if it is empty.",
            Self::Sync { .. } => SYNC,
            Self::Campaign(fault) => fault.advice(),
            Self::Gnupg(fault) => fault.advice(),
            Self::ReadBack { .. } => "Check the disk. Fetch or rebuild the file, then sign it again.",
            Self::OutputIsSource { .. } => "Use another --output DIR, or none.",
            Self::OutputOccupied { .. } => OCCUPIED,
            Self::OutputNameTaken { .. } => "Sign files of one name in separate calls.",
            Self::TooManyFiles { .. } => "Sign them in several calls.",
            Self::TooDeep { .. } => "Name the deeper directory itself.",
            Self::TooLarge { .. } => "Check that it is the right file.",
            Self::UnknownContent { content } => of_content(*content),
            Self::NothingToStrip { .. } => {
                "Only packages hold signatures to strip; a signature beside a file (.asc, .sig) is removed like any file."
            }
            Self::OutputNotADirectory { .. } => "Name a directory; it is made if it is not there.",
            Self::Format(error) => error.advice(),
            Self::KeyFile { .. } | Self::EmptyFile { .. } => "Check that it is the right file.",
            Self::Server(fault) => fault.code.advice(),
            Self::Signd(fault) => fault.advice(),
            Self::ConnectionLost { .. } => "Try again; see the server's log if it stays.",
            Self::Unreachable { tried } => of_tried(tried),
            Self::NotSealwright => "Check the address and port, and the releases of client and server.",
            Self::Credential { why, .. } => why.advice(),
            Self::BadAddress { .. } => "Name it as https://HOST:PORT.",
            Self::BadAnswer { .. } | Self::AnswerRefused { .. } | Self::BadAnswerBytes { .. } => {
                "Client and server may be of different releases; otherwise report it."
            }
            Self::SignatureRefused { .. } => {
                "The file was not touched. Check the server's clock and key; report it."
            }
            Self::Encrypt => "Restart the server, then try again.",
            Self::NotApplied { source, .. } | Self::SignedFile { source, .. } => source.advice(),
            Self::Beside { what, source, .. } if matches!(**source, Self::NotAFile { .. }) => {
                if *what == SIGNATURE_FILE { "Move it away." } else { "Name the file itself." }
            }
            Self::Beside { source, .. } => source.advice(),
            Self::NotASignature { .. } => {
                "Move it away, or use --output DIR to write the signature elsewhere."
            }
            Self::StreamWithoutFormat => "Use --format detached or cleartext.",
            Self::Stopped => "Run the same command again to go on.",
            Self::Internal(_) => "Nothing was changed.",
        }
    }

    /// Milliseconds after which the server wants to be asked again, if it is one that has no room.
    #[must_use]
    pub const fn come_again_ms(&self) -> Option<u32> {
        if let Self::Server(Fault { code: Code::Overloaded, retry_after_ms, .. }) = self {
            *retry_after_ms
        } else {
            None
        }
    }

    /// The same for another file that was asked for in the same request.
    pub(crate) fn of_another(&self) -> Self {
        if let Self::Server(fault) = self {
            Self::Server(fault.clone())
        } else if let Self::AnswerRefused { source } = self {
            Self::AnswerRefused { source: source.clone() }
        } else if let Self::Unreachable { tried } = self {
            Self::Unreachable { tried: Arc::clone(tried) }
        } else if let Self::BadAnswer { what } = self {
            Self::BadAnswer { what }
        } else if let Self::ConnectionLost { .. } = self {
            // The transport's reason stands with the first of them.
            Self::ConnectionLost { source: None }
        } else if let Self::NotSealwright = self {
            Self::NotSealwright
        } else if let Self::Stopped = self {
            Self::Stopped
        } else {
            Self::WithOthers
        }
    }

    /// The same, with that time in the text: it is given up here, and a person may repeat it.
    pub(crate) fn with_time(self) -> Self {
        match (self.come_again_ms(), self) {
            (Some(after_ms), Self::Server(mut fault)) => {
                fault.message.push_str(&format!("; it says to come again in {} s", after_ms.div_ceil(1_000)));
                Self::Server(fault)
            }
            (_, other) => other,
        }
    }
}

/// What is most worth mending: a fault that does not pass by itself.
fn of_tried(tried: &[Tried]) -> &'static str {
    let lasting = tried.iter().find(|tried| !tried.why.passes());
    lasting.or_else(|| tried.first()).map_or("Name a server.", |tried| tried.why.advice())
}

/// `owner` is that of the file.
fn of_owner(owner: u32) -> &'static str {
    if owner == rustix::process::geteuid().as_raw() { GROUP } else { OWNER }
}

fn of_io(error: &io::Error) -> &'static str {
    let code = error.raw_os_error();
    // This process, or the whole machine, has as many open files as it may.
    let too_many_open = [Errno::MFILE, Errno::NFILE].iter().any(|errno| code == Some(errno.raw_os_error()));
    if too_many_open {
        "Raise the limit of open files with ulimit -n, or use fewer --jobs."
    } else if error.kind() == io::ErrorKind::PermissionDenied {
        "Grant access to this user."
    } else {
        "See what the operating system says, then try again."
    }
}

const fn of_content(content: Content) -> &'static str {
    match content {
        Content::WebPage => "Fetch the file again; the server sent an error page.",
        Content::Signature => "Name the file that it signs.",
        Content::Empty | Content::Other => "For a signature in a file of its own, use --format detached.",
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn who_gives_up_on_a_server_without_room_reads_when_to_come_again() {
        let told = Error::Server(Fault::new(Code::Overloaded, "too many").retry_after(2_001)).with_time();
        assert_eq!(
            (told.to_string().as_str(), told.come_again_ms()),
            ("too many; it says to come again in 3 s", Some(2_001))
        );
        let other = Error::Server(Fault::new(Code::SignerGone, "gone")).with_time();
        assert_eq!((other.to_string().as_str(), other.come_again_ms()), ("gone", None));
    }

    #[test]
    fn the_owner_of_a_file_is_told_of_its_group_and_anybody_else_of_its_owner() {
        let me = rustix::process::geteuid().as_raw();
        let advice = |owner| {
            let source = io::ErrorKind::PermissionDenied.into();
            Error::NotKept { what: Kept::Owner(owner, 7), source }.advice().to_owned()
        };
        assert_eq!((advice(me).as_str(), advice(me + 1).as_str()), (GROUP, OWNER));
    }

    #[test]
    fn too_many_open_files_are_told_from_other_failures() {
        let advice = |errno: Errno| {
            let error = io::Error::from_raw_os_error(errno.raw_os_error());
            Error::io("read", Path::new("x"), error).advice().to_owned()
        };
        assert!(advice(Errno::MFILE).contains("ulimit -n"));
        assert!(advice(Errno::ACCESS).contains("access"));
        assert!(!advice(Errno::IO).contains("ulimit"));
    }
}
