//! Why a campaign cannot begin, or go on. Failures of single files are not here.

use std::path::PathBuf;

use crate::campaign::record::Malformed;
use crate::shown::shown;

/// What is wrong with the trees, the journal, or the place of the second tree.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CampaignFault {
    /// Another campaign holds this directory, or one above or below it.
    #[error("another campaign works on {}, or on a part of it", shown(path))]
    TreeBusy {
        /// The directory whose lock is held.
        path: PathBuf,
    },
    /// Its process lives.
    #[error("another campaign writes the journal {}", shown(path))]
    JournalBusy {
        /// The journal.
        path: PathBuf,
    },
    /// It belongs to other trees, keys or choices.
    #[error("the journal {} is of another campaign", shown(path))]
    JournalOfAnother {
        /// The journal.
        path: PathBuf,
    },
    /// It is damaged, or of a later release.
    #[error("the journal {} cannot be used", shown(path))]
    JournalDamaged {
        /// The journal.
        path: PathBuf,
        /// The rule that it breaks.
        source: Malformed,
    },
    /// The directory of the second tree holds what this campaign did not make.
    #[error("{} is not empty, and this campaign did not begin it", shown(path))]
    OutputNotEmpty {
        /// The directory.
        path: PathBuf,
    },
    /// This campaign has built the second tree, and has finished.
    #[error("the second tree {} is complete: this campaign has built it and has finished", shown(path))]
    OutputComplete {
        /// The directory.
        path: PathBuf,
    },
    /// A tree inside itself would never end.
    #[error("{} lies in the tree that is to be signed, or the tree in it", shown(path))]
    OutputInTree {
        /// The directory of the second tree.
        path: PathBuf,
    },
    /// A directory of the key map, or a key of it, is not usable.
    #[error("no key is given for the files in {}", shown(path))]
    NoKey {
        /// The tree.
        path: PathBuf,
    },
}

impl CampaignFault {
    /// What a person can do about it.
    #[must_use]
    pub(crate) const fn advice(&self) -> &'static str {
        match self {
            Self::TreeBusy { .. } => "Wait for it to end, or end it: it can be resumed.",
            Self::JournalBusy { .. } => "Wait for it to end, or name another --journal FILE.",
            Self::JournalOfAnother { .. } => {
                "Name another --journal FILE, or run that campaign's own command again."
            }
            Self::JournalDamaged { .. } => {
                "With --undo, what is whole in it is put back all the same. To go on, move it away: a new campaign sees by their content which packages are signed."
            }
            Self::OutputNotEmpty { .. } => "Name a directory that is not there yet.",
            Self::OutputComplete { .. } => {
                "Switch the symbolic link that readers use to it. To build it anew, name a directory that is not there yet, or empty this one."
            }
            Self::OutputInTree { .. } => "Name a directory beside the tree.",
            Self::NoKey { .. } => "Add a line for it to the key map, or leave the tree out.",
        }
    }
}
