//! How `sign` and `strip` write: `--in-place`, `--hardlinks`, and what a killed run left behind.

use std::path::Path;
use std::sync::Arc;

use clap::ValueEnum;
use sealwright_client::apply::journal::StateDirectory;
use sealwright_client::apply::recovery::{self, Outcome, Recovered};
use sealwright_client::apply::{HardLinks, Policy, Writing};

use crate::config::{NO_HOME_ADVICE, NoHome};
use crate::failure::Failure;
use crate::output::shown;
use crate::terminal;

/// Options about writing.
#[derive(Debug, clap::Args)]
pub(crate) struct WritingArgs {
    /// Write the changed bytes into the files themselves, for trees that nobody reads meanwhile.
    #[arg(long, conflicts_with = "output")]
    in_place: bool,
    /// What becomes of a file's other names; default: relink, but with --in-place refuse.
    #[arg(long, value_enum, value_name = "WHAT")]
    hardlinks: Option<HardLinksArg>,
}

/// `--hardlinks`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum HardLinksArg {
    /// Names in this call stay names of one file.
    Relink,
    /// Each name becomes a file of its own.
    Break,
    /// Leave files with other names alone, and say so.
    Refuse,
}

impl WritingArgs {
    /// The policy; `state` is where undo records go.
    ///
    /// # Errors
    /// There is no place for undo records.
    pub(crate) fn policy(&self, state: Option<&Path>) -> Result<Policy, Failure> {
        let writing = if self.in_place {
            let state = state.ok_or_else(|| Failure::failed(NoHome.to_string(), NO_HOME_ADVICE))?;
            let state = StateDirectory::open(state)
                .map_err(|error| Failure::failed(Failure::chain(&error), error.advice()))?;
            Writing::InPlace(Arc::new(state))
        } else {
            Writing::Replace
        };
        let hard_links = match self.hardlinks {
            None => HardLinks::Careful,
            Some(HardLinksArg::Relink) => HardLinks::Relink,
            Some(HardLinksArg::Break) => HardLinks::Break,
            Some(HardLinksArg::Refuse) => HardLinks::Refuse,
        };
        Ok(Policy { writing, hard_links })
    }

    /// The words of these arguments.
    pub(crate) fn words(&self) -> Vec<String> {
        let mut words = Vec::new();
        if self.in_place {
            words.push("--in-place".to_owned());
        }
        if let Some(value) = self.hardlinks.and_then(|choice| choice.to_possible_value()) {
            words.extend(["--hardlinks".to_owned(), value.get_name().to_owned()]);
        }
        words
    }
}

/// Settles what a killed run left half written, and says so. It comes before any file is looked at. Where the state
/// directory cannot be used nothing is settled; that stops only those who need it, and a half-written package is
/// refused by its digests.
pub(crate) fn recover(state: &Path) {
    match recovery::recover(state) {
        Ok(report) => report.iter().for_each(|recovered| terminal::err(&line(recovered))),
        Err(error) => {
            let what = terminal::safe(&Failure::chain(&error));
            terminal::err(&format!("Warning: nothing was recovered: {what}. {}", error.advice()));
        }
    }
}

fn line(recovered: &Recovered) -> String {
    let path = shown(&recovered.path);
    match &recovered.outcome {
        Outcome::RolledBack => {
            format!("Recovered {path}: an earlier run was killed; its old content is back")
        }
        Outcome::Completed => format!("Recovered {path}: an earlier run was killed after it had written all"),
        Outcome::Untouched => format!("Recovered {path}: an earlier run was killed before it wrote"),
        Outcome::Left { why, record } => format!(
            "Warning: {path}: an earlier run was killed while it wrote, and it was left as it is now: {}. \
             Look at the file; then remove the record {}.",
            terminal::safe(&Failure::chain(why)),
            shown(record)
        ),
    }
}
