//! Facts of a file that a failure names: what it is, and what of it must be kept.

/// What a path is instead of a regular file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// A directory.
    Directory,
    /// A symbolic link, met where none is followed.
    Link,
    /// A named pipe.
    Fifo,
    /// A socket.
    Socket,
    /// A block or character device.
    Device,
    /// A regular file that is no package.
    Other,
    /// None of these.
    Unknown,
}

impl core::fmt::Display for FileKind {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::Directory => "directory",
            Self::Link => "symbolic link",
            Self::Fifo => "FIFO (named pipe)",
            Self::Socket => "socket",
            Self::Device => "device",
            Self::Other => "file that is no package",
            Self::Unknown => "special file",
        })
    }
}

/// A piece of metadata that a file must keep.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kept {
    /// User and group number.
    Owner(u32, u32),
    /// Permission bits.
    Mode(u32),
    /// An extended attribute, by name; ACLs and SELinux labels are some.
    Attribute(String),
    /// Modification time.
    Times,
}

impl core::fmt::Display for Kept {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Owner(uid, gid) => write!(f, "owner (user {uid}, group {gid})"),
            Self::Mode(mode) => write!(f, "mode ({mode:04o})"),
            Self::Attribute(name) => write!(f, "extended attribute {}", name.escape_debug()),
            Self::Times => f.write_str("times"),
        }
    }
}

/// Why a file cannot be written in place.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NotInPlace {
    /// The signature does not fit where the old one is, or where space is reserved.
    #[error("there is no room for the signature, so the rest of the file would move")]
    Moves,
    /// Beyond [`crate::apply::undo::CHANGED_BYTES_MAX`].
    #[error("more than {limit} bytes can change")]
    TooMuch {
        /// The limit, in bytes.
        limit: u64,
    },
    /// Its path does not fit into an undo record.
    #[error("its path is longer than {limit} bytes")]
    LongPath {
        /// The limit, in bytes.
        limit: usize,
    },
    /// An attribute vouches for the old content.
    #[error("its attribute {name} vouches for the content that it has now")]
    Sealed {
        /// The attribute.
        name: String,
    },
}
