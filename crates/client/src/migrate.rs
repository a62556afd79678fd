//! Keys of a signd or a keygen service taken over: the passphrase files say which keys it serves and by which names, gpg
//! gives the secrets, and each travels to the signer as an import does. What cannot be taken is named with its reason;
//! what is there already is left alone, so that the same run goes on where an earlier one ended.
//!
//! ```text
//! phrases/NAME --plan.rs--> the key of that name in gpg's listing --> is it there? --> gpg --export --> import
//! ```

pub mod plan;

use std::collections::BTreeSet;

use futures_util::StreamExt as _;
use sealwright_crypto::usage::Usage;
use sealwright_proto::time::utc;

use crate::batch::Stop;
use crate::connection::{Connection, Key};
use crate::error::{Code, Error};
use crate::gnupg::Home;
use crate::import::{self, Secret};
use crate::migrate::plan::{Candidate, Work};

/// Keys in hand at once, if nobody says another number: gpg's agent does one after another.
pub const JOBS_DEFAULT: usize = 8;
/// Keys in hand at once, at most: each has a gpg and up to a few MiB.
pub const JOBS_MAX: usize = 64;

/// How keys are taken.
#[derive(Clone, Debug)]
pub struct Options {
    /// What each is sealed for.
    pub usages: Vec<Usage>,
    /// They may be sealed for bare digests, though they are primary keys that can certify.
    pub bare_digests_on_primary: bool,
    /// Keys in hand at once, from 1 to [`JOBS_MAX`].
    pub jobs: usize,
    /// Say what would be done.
    pub dry_run: bool,
}

/// What became of one name.
#[derive(Debug)]
pub struct Outcome {
    /// Of the passphrase file, or of the key where there is none.
    pub name: String,
    /// Of the primary key, where one was found.
    pub fingerprint: Option<String>,
    /// What became of it.
    pub state: State,
}

/// See [`Outcome`].
#[derive(Debug)]
pub enum State {
    /// It was taken.
    Imported {
        /// What a user should know of it.
        warnings: Vec<String>,
    },
    /// The same key is there by this name.
    There {
        /// What a user should know of it.
        warnings: Vec<String>,
    },
    /// Nothing is known that speaks against it.
    WouldImport,
    /// It was not, and why.
    NotTaken(NotTaken),
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// Names that nothing was done about, since a stop was asked for.
    pub not_begun: usize,
}

/// Takes the keys, several at once, and hands on what became of each as soon as it is known. Without a connection nothing
/// is there yet, and nothing can be taken: for a dry run.
///
/// # Errors
/// The server is away, or gives no access: what is left has no outcome.
pub async fn run(
    home: &Home,
    connection: Option<&Connection>,
    candidates: Vec<Candidate>,
    options: &Options,
    stop: &Stop,
    mut report: impl FnMut(Outcome),
) -> Result<Ended, Error> {
    let mut left = candidates.len();
    let run = Run { home, connection, options };
    let begun = candidates.into_iter().take_while(|_| !stop.is_asked());
    let mut outcomes = futures_util::stream::iter(begun.map(|candidate| run.one(candidate)))
        .buffer_unordered(options.jobs.clamp(1, JOBS_MAX));
    while let Some(outcome) = outcomes.next().await {
        report(outcome?);
        left = left.saturating_sub(1);
    }
    Ok(Ended { not_begun: left })
}

struct Run<'a> {
    home: &'a Home,
    connection: Option<&'a Connection>,
    options: &'a Options,
}

impl Run<'_> {
    /// # Errors
    /// What is about the server, not about this key.
    async fn one(&self, candidate: Candidate) -> Result<Outcome, Error> {
        let Candidate { name, fingerprint, work } = candidate;
        let state = match work {
            Err(why) => Ok(State::NotTaken(why)),
            Ok(work) => self.work(&work).await,
        };
        let state = match state {
            Ok(state) => state,
            Err(error) if error.nothing_was_attempted() => return Err(error),
            Err(error) => State::NotTaken(NotTaken::Failed(error)),
        };
        Ok(Outcome { name, fingerprint, state })
    }

    async fn work(&self, work: &Work) -> Result<State, Error> {
        if let Some(connection) = self.connection
            && let Some(state) = self.is_there(connection, work).await?
        {
            return Ok(state);
        }
        let Some(connection) = self.connection.filter(|_| !self.options.dry_run) else {
            return Ok(State::WouldImport);
        };
        let phrase = import::read_phrase(&work.phrase)?;
        let key = self.home.export(&work.fingerprint, &phrase).await?;
        let secret = Secret::new(key, phrase);
        let secret = secret.with_usages(&self.options.usages, self.options.bare_digests_on_primary);
        let key = connection.import(work.name.as_str(), secret).await?;
        if key.fingerprint != work.fingerprint {
            return Err(Error::BadAnswer { what: "another key than the one that was sent" });
        }
        Ok(State::Imported { warnings: key.warnings })
    }

    /// Whether something has the name, or the key.
    async fn is_there(&self, connection: &Connection, work: &Work) -> Result<Option<State>, Error> {
        if let Some(key) = described(connection, work.name.as_str()).await? {
            let state = if key.fingerprint == work.fingerprint {
                State::There { warnings: self.unlike(&key) }
            } else {
                State::NotTaken(NotTaken::NameTaken { fingerprint: key.fingerprint })
            };
            return Ok(Some(state));
        }
        let key = described(connection, &work.fingerprint).await?;
        Ok(key.map(|key| State::NotTaken(NotTaken::OtherName { name: key.name })))
    }

    /// What an earlier import made otherwise than this one would.
    fn unlike(&self, key: &Key) -> Vec<String> {
        let wanted: BTreeSet<&str> = self.options.usages.iter().map(|usage| usage.name()).collect();
        let there: BTreeSet<&str> = key.usages.iter().map(String::as_str).collect();
        if wanted == there {
            return Vec::new();
        }
        let list = |of: BTreeSet<&str>| of.into_iter().collect::<Vec<_>>().join(", ");
        vec![format!(
            "it is there, sealed for {}, and not for {}: that is for ever",
            list(there),
            list(wanted)
        )]
    }
}

async fn described(connection: &Connection, key: &str) -> Result<Option<Key>, Error> {
    match connection.describe(key).await {
        Ok(key) => Ok(Some(key)),
        Err(error) if error.server_code() == Some(Code::KeyNotFound) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Why a key was not taken.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NotTaken {
    /// A passphrase file without a key.
    #[error("there is a passphrase file, and no secret key with this address")]
    NoKey,
    /// A folder, a pipe, a link that leads nowhere.
    #[error("what has the name of a passphrase file is no file")]
    NoFile,
    /// Which of them the service would take depends on its gpg.
    #[error("several secret keys have this address: {}", fingerprints.join(", "))]
    SeveralKeys {
        /// Of all of them.
        fingerprints: Vec<String>,
    },
    /// A key without a passphrase file.
    #[error("no passphrase file has the name of this key: the old service did not serve it")]
    NoPhrase,
    /// No key can have the name.
    #[error("no key can have this name: {reason}")]
    NoName {
        /// Which rule it breaks.
        reason: String,
    },
    /// All that could sign.
    #[error("it expired {}", utc(*at))]
    Expired {
        /// Unix seconds.
        at: i64,
    },
    /// Its owner took it back.
    #[error("it is revoked")]
    Revoked,
    /// `gpg --edit-key disable`.
    #[error("it is disabled in the home")]
    Disabled,
    /// Somewhere else, on a card, or unreadable.
    #[error("its secret is not in the home, or the file of it is damaged")]
    NoSecret,
    /// gpg does not take its self-signature.
    #[error("gpg takes its self-signature for invalid")]
    Invalid,
    /// Only certifies or encrypts.
    #[error("it has no key that may sign")]
    CannotSign,
    /// By what this release can use.
    #[error("it signs with {algorithm}, and Sealwright signs with RSA (2048 bits or more) and Ed25519")]
    Algorithm {
        /// Its name.
        algorithm: String,
    },
    /// By a key that is not this one.
    #[error("another key has this name: {fingerprint}")]
    NameTaken {
        /// Of that key.
        fingerprint: String,
    },
    /// The key was imported before, under another name.
    #[error("the key is there by the name {name}")]
    OtherName {
        /// Which.
        name: String,
    },
    /// On the way.
    #[error(transparent)]
    Failed(#[from] Error),
}

impl NotTaken {
    /// What a person can do about it, one or two sentences.
    #[must_use]
    pub fn advice(&self) -> &str {
        match self {
            Self::NoFile => "Remove it, or put the passphrase file there, and run the same command again.",
            Self::NoKey => "Remove the file, or look for the key in a backup of the home.",
            Self::SeveralKeys { .. } => {
                "Import the right one by hand: gpg --export-secret-keys FINGERPRINT, then sealwright key import NAME FILE."
            }
            Self::NoPhrase => {
                "If it is wanted, make a passphrase file for it, and run the same command again."
            }
            Self::NoName { .. } => {
                "Import it by hand under another name; an alias of [obs] can lead the old name to it."
            }
            Self::Expired { .. } => {
                "Prolong it in the old home if it is wanted (gpg --quick-set-expire FINGERPRINT 5y), and run the same command again."
            }
            Self::Revoked | Self::CannotSign => "Make a new key for this name.",
            Self::Disabled => "Enable it in the old home if it is wanted (gpg --edit-key, enable).",
            Self::NoSecret => "Restore its file in private-keys-v1.d from a backup.",
            Self::Invalid => "Look at it with gpg --check-signatures.",
            Self::Algorithm { .. } => "Make a new key for this name, and sign its packages anew.",
            Self::NameTaken { .. } => "Names are never reused: import it by hand under another name.",
            Self::OtherName { .. } => "An alias of [obs] can lead this name to it.",
            Self::Failed(error) => error.advice(),
        }
    }
}
