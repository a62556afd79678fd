//! What can go wrong in a chore.

use std::path::{Path, PathBuf};

/// The error of every chore. All are the developer's to fix; none is worth a retry.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum Error {
    /// A program could not be started.
    #[error("cannot run `{program}`: is it installed?")]
    Start {
        /// The program.
        program: String,
        /// Why.
        source: std::io::Error,
    },
    /// A program ended with a failure; its own output says why.
    #[error("`{command}` failed")]
    Command {
        /// The command line.
        command: String,
    },
    /// A file could not be read or written.
    #[error("{}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// Output of cargo that is not the JSON it promises.
    #[error("the output of `{command}` is not understood")]
    Json {
        /// The command line.
        command: &'static str,
        /// Why.
        source: serde_json::Error,
    },
    /// A manifest that is not TOML.
    #[error("{}", path.display())]
    Toml {
        /// The manifest.
        path: PathBuf,
        /// Why.
        source: toml::de::Error,
    },
    /// A server cannot be asked.
    #[error("{address}: no reply")]
    Connection {
        /// Of the server.
        address: std::net::SocketAddr,
        /// Why.
        source: std::io::Error,
    },
    /// A check found something; it was printed.
    #[error("{count} {what}; see above")]
    Findings {
        /// How many.
        count: usize,
        /// Of what.
        what: &'static str,
    },
    /// Packages are missing and cannot be installed from here.
    #[error(
        "missing: {missing}. Become root or install sudo, then run this again; or install by hand: apt-get install {packages}"
    )]
    CannotInstall {
        /// Missing programs.
        missing: String,
        /// Debian packages that have them.
        packages: String,
    },
    /// A measurement came out beyond its limit.
    #[error("{what}: {measured}, allowed {allowed}")]
    Beyond {
        /// What was measured.
        what: &'static str,
        /// The value.
        measured: u64,
        /// The limit.
        allowed: u64,
    },
    /// Output of a tool or of the program lacks something that must be there.
    #[error("{what}")]
    Unexpected {
        /// What is missing or wrong, and where.
        what: String,
    },
}

impl Error {
    /// For `map_err` on operations on a file.
    pub(crate) fn file(path: &Path) -> impl FnOnce(std::io::Error) -> Self + '_ {
        move |source| Self::File { path: path.to_owned(), source }
    }

    /// Something that should have been there was not.
    pub(crate) fn unexpected(what: impl Into<String>) -> Self {
        Self::Unexpected { what: what.into() }
    }
}
