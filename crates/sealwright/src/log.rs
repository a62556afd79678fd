//! Lines about what happens, on standard error: for a person, or one JSON object a line for a collector.
//!
//! Whatever a peer, a file or an error puts into a line, it stays one line, of a bounded length, without what
//! `log/never.rs` lists. Other people's crates are heard at `info` at most: what they say below that holds what they
//! carry (headers, frames, SQL).

mod line;
mod never;
mod value;

use std::io::Write as _;
use std::str::FromStr;
use std::sync::{Arc, OnceLock};

use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Registry, reload};

use line::{Lines, Shape};

/// How lines look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Format {
    /// `TIME LEVEL PROCESS TARGET: MESSAGE name=value ...`
    #[default]
    Text,
    /// One object a line.
    Json,
}

impl FromStr for Format {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        match text {
            "text" => Ok(Self::Text),
            "json" => Ok(Self::Json),
            other => Err(Invalid::Format(other.to_owned())),
        }
    }
}

/// Which process writes: it is in each line.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Process {
    /// A command of a user, with the front of the embedded default in it.
    Command,
    /// `serve`.
    Supervisor,
    /// The process with the network.
    Front,
    /// The process with the keys.
    Signer,
    /// Keeps the next ones running.
    TokenKeeper,
    /// The process with the module of a token.
    TokenWorker,
}

impl Process {
    const fn name(self) -> &'static str {
        match self {
            Self::Command => "sealwright",
            Self::Supervisor => "supervisor",
            Self::Front => "front",
            Self::Signer => "signer",
            Self::TokenKeeper => "token-keeper",
            Self::TokenWorker => "token-worker",
        }
    }

    /// Without a filter from anywhere. What front reports of the store, a command says to its user as the failure of
    /// the file or key: once is enough.
    const fn filter(self) -> &'static str {
        match self {
            Self::Command => "warn,sealwright_server::fault=off",
            Self::Supervisor | Self::Front | Self::Signer | Self::TokenKeeper | Self::TokenWorker => "warn",
        }
    }
}

/// What an operator can set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Settings {
    /// How lines look.
    pub(crate) format: Format,
    /// As of `tracing_subscriber::EnvFilter`: `info`, `warn,sealwright_server=debug`.
    pub(crate) filter: String,
}

/// A setting that cannot be used; what was in force stays.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum Invalid {
    /// Neither format.
    #[error("the log format {0:?} is neither \"text\" nor \"json\"")]
    Format(String),
    /// Not a filter.
    #[error("the log filter {filter:?} cannot be read")]
    Filter {
        /// As it was given.
        filter: String,
        /// What is wrong with it.
        source: tracing_subscriber::filter::ParseError,
    },
    /// The log was not started by this program.
    #[error("there is no log to change")]
    NotStarted,
}

struct Started {
    filter: reload::Handle<EnvFilter, Registry>,
    shape: Arc<Shape>,
}

static STARTED: OnceLock<Started> = OnceLock::new();

/// Starts the log of this process; called once, first. A filter or format in the environment that cannot be used is
/// said in the first line, and does not keep the program from its work.
pub(crate) fn start(process: Process, filter: Option<&str>, format: Option<&str>) {
    let parsed = parse_filter(filter.unwrap_or(process.filter()));
    let (filter, unusable) = match parsed {
        Ok(filter) => (filter, None),
        Err(invalid) => (EnvFilter::new(process.filter()), Some(invalid)),
    };
    let (format, unknown) = match format.map(Format::from_str) {
        None => (Format::default(), None),
        Some(Ok(format)) => (format, None),
        Some(Err(invalid)) => (Format::default(), Some(invalid)),
    };
    let shape = Arc::new(Shape::new(format));
    let (filter, handle) = reload::Layer::new(filter);
    let lines = Lines::new(process.name(), Arc::clone(&shape), |line| {
        // Nowhere to say it, if standard error is gone.
        let _ = std::io::stderr().lock().write_all(line);
    });
    // A second subscriber is impossible here: this runs once, first.
    let _ = tracing_subscriber::registry().with(filter).with(lines).try_init();
    let _ = STARTED.set(Started { filter: handle, shape });
    for invalid in unusable.into_iter().chain(unknown) {
        tracing::warn!(error = &invalid as &dyn std::error::Error, "a setting of the log is not used");
    }
}

/// Whether lines are for a collector, and errors are among them.
pub(crate) fn is_json() -> bool {
    STARTED.get().is_some_and(|started| started.shape.is_json()) && tracing::enabled!(tracing::Level::ERROR)
}

/// Other settings from now on, as a reload brings them; all of them or none.
///
/// # Errors
/// [`Invalid`], with nothing changed.
pub(crate) fn change(settings: &Settings) -> Result<(), Invalid> {
    let filter = parse_filter(&settings.filter)?;
    let started = STARTED.get().ok_or(Invalid::NotStarted)?;
    started.filter.reload(filter).map_err(|_| Invalid::NotStarted)?;
    started.shape.set(settings.format);
    Ok(())
}

/// Whether these could be used.
///
/// # Errors
/// [`Invalid`].
pub(crate) fn check(settings: &Settings) -> Result<(), Invalid> {
    parse_filter(&settings.filter).map(|_| ())
}

/// A peer can make these warn once for each of its connections; what it did is counted and noted by us.
const QUIET: &str = "h2=error,hyper=error";

fn parse_filter(filter: &str) -> Result<EnvFilter, Invalid> {
    // What the filter says of them itself comes later, and counts.
    let is_for_all = !matches!(filter.trim(), "" | "off");
    let with = if is_for_all { format!("{QUIET},{filter}") } else { filter.to_owned() };
    EnvFilter::try_new(with).map_err(|source| Invalid::Filter { filter: filter.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_that_cannot_be_used_are_refused_with_their_text() {
        let settings = Settings { format: Format::Json, filter: "sealwright=loud".to_owned() };
        let invalid = check(&settings).unwrap_err();
        assert!(invalid.to_string().contains("sealwright=loud"), "{invalid}");
        assert!(Format::from_str("xml").unwrap_err().to_string().contains("xml"));
        let heard = |filter: &str| parse_filter(filter).unwrap().to_string();
        assert!(heard("info").contains("h2=error") && !heard("off").contains("h2"));
        assert!(heard("info,h2=debug").contains("h2=debug") && !heard("info,h2=debug").contains("h2=error"));
        check(&Settings { filter: "warn,sealwright_server=debug".to_owned(), ..settings }).unwrap();
    }
}
