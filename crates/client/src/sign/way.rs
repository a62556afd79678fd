//! Who makes the signatures: a server of ours, which finishes hashes, or a signd, which signs digests.

use std::sync::Arc;

use crate::batch::Stop;
use crate::connection::{Answer, Connection, Group};
use crate::error::Error;
use crate::sign::gather::Gather;
use crate::signd::KeyOfSignd;

/// Where groups are sent.
pub(super) enum Way {
    /// Files that are ready at the same moment go together.
    Server(Connection, Arc<Gather>),
    /// Each file in a request of its own.
    Signd(KeyOfSignd),
}

impl Way {
    pub(super) fn server(connection: Connection) -> Self {
        let gather = Gather::new(connection.clone());
        Self::Server(connection, gather)
    }

    /// The server, for what signd cannot do: version 6, campaigns.
    ///
    /// # Errors
    /// [`Error::Internal`]: it is a signd.
    pub(super) const fn connection(&self) -> Result<&Connection, Error> {
        match self {
            Self::Server(connection, _) => Ok(connection),
            Self::Signd(_) => Err(Error::Internal("signd was asked for what only a server of ours can do")),
        }
    }

    /// The signatures of one file, with those of others if others wait. A stop ends it as long as nobody was asked.
    pub(super) async fn ask(&self, group: Group, stop: Option<&Stop>) -> Result<Answer, Error> {
        match (self, stop) {
            (Self::Server(_, gather), Some(stop)) => gather.ask(group, stop.clone()).await,
            (Self::Server(connection, _), None) => connection.sign(&group).await,
            (Self::Signd(_), Some(stop)) if stop.is_asked() => Err(Error::Stopped),
            (Self::Signd(key), _) => key.sign(&group).await,
        }
    }

    /// The same for what is signed alone.
    pub(super) async fn ask_alone(&self, group: &Group, stop: &Stop) -> Result<Answer, Error> {
        match self {
            Self::Server(connection, _) => connection.sign_unless_stopped(group, Some(stop)).await,
            Self::Signd(_) if stop.is_asked() => Err(Error::Stopped),
            Self::Signd(key) => key.sign(group).await,
        }
    }
}
