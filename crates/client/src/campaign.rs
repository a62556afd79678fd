//! A campaign: every package of whole trees gets the signature of a new key. It can be stopped at any moment and goes on
//! where it was; the tree says what is done, the journal what was on its way. Why it is so:
//! `docs/adr/0016-campaigns.md`.
//!
//! ```text
//! trees --tree.rs--> files --look.rs--> plan (counts)
//!       --tree.rs--> files --look.rs--> sign.rs, batch.rs (the way of every file; ids from journal.rs) --> report
//!       --tree.rs--> files --check.rs--> who signed what is there now
//! ```
//!
//! Reading order: [`tree`], [`keys`], `look.rs`, `record.rs`, [`journal`], `course.rs`, `run.rs`, `second.rs`, [`check`],
//! [`undo`].

pub mod check;
pub(crate) mod course;
pub mod journal;
pub mod key_map;
pub mod keys;
mod look;
pub mod plan;
pub mod record;
pub mod run;
pub mod second;
pub mod tree;
pub mod undo;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use sealwright_crypto::algorithm::HashAlgorithm;
use sealwright_crypto::digest::Hasher;

use crate::campaign::course::Course;
use crate::campaign::journal::{Journal, Past, Place, Start};
use crate::campaign::keys::{Keys, OldKey};
use crate::campaign::second::Second;
use crate::campaign::tree::Tree;
use crate::error::{CampaignFault, Error};
use crate::sign::Signer;

pub use crate::campaign::look::Verdict;
pub use crate::campaign::record::Malformed;

/// What a user asks for.
pub struct Wish {
    /// What to go through.
    pub trees: Vec<Tree>,
    /// The keys, with the choices about signing and the directory of results in each.
    pub signers: Vec<Signer>,
    /// Real directories, and the number of the signer for what is beneath.
    pub rules: Vec<(PathBuf, usize)>,
    /// Only packages that this key has signed.
    pub from: Option<OldKey>,
    /// Leave the trees alone and build another.
    pub second: Option<Second>,
    /// Files in hand at once.
    pub jobs: usize,
}

/// A campaign that was begun, or a look at what it would do.
pub struct Campaign {
    trees: Arc<Vec<Tree>>,
    keys: Arc<Keys>,
    from: Option<Arc<OldKey>>,
    second: Option<Arc<Second>>,
    journal: Option<Arc<Journal>>,
    jobs: usize,
}

impl Campaign {
    /// Takes hold of the trees and of the journal. `choices` are what else makes it this campaign and no other: options about
    /// signing. `per_second` bounds how many signatures are asked for.
    ///
    /// # Errors
    /// Another campaign has a tree or the journal; the second tree is not of this campaign.
    pub fn begin(
        mut wish: Wish,
        place: &Place,
        choices: &[String],
        per_second: Option<u32>,
    ) -> Result<(Self, Past), Error> {
        for tree in &mut wish.trees {
            tree.lock()?;
        }
        let may_begin = |start: Start| {
            let Some(second) = wish.second.as_ref().filter(|second| !second.was_empty()) else {
                return Ok(());
            };
            let path = second.path().to_owned();
            Err(match start {
                Start::First => CampaignFault::OutputNotEmpty { path },
                Start::Again => CampaignFault::OutputComplete { path },
            }
            .into())
        };
        let (journal, past) = Journal::open(place, digest(&wish, choices), &may_begin)?;
        let journal = Arc::new(journal);
        let course = Arc::new(Course::new(Arc::clone(&journal), per_second));
        let in_campaign = |signer: Signer| signer.in_campaign(Arc::clone(&course));
        wish.signers = wish.signers.into_iter().map(in_campaign).collect();
        Ok((Self::of(wish, Some(journal))?, past))
    }

    /// For a look at what would be done: nothing is locked, written or asked for.
    ///
    /// # Errors
    /// A rule without a signer: a fault of the caller.
    pub fn preview(wish: Wish) -> Result<Self, Error> {
        Self::of(wish, None)
    }

    fn of(wish: Wish, journal: Option<Arc<Journal>>) -> Result<Self, Error> {
        let signers: Vec<Arc<Signer>> = wish.signers.into_iter().map(Arc::new).collect();
        let signer =
            |number: usize| signers.get(number).cloned().ok_or(Error::Internal("a rule without a key"));
        let rules: Result<Vec<_>, Error> =
            wish.rules.into_iter().map(|(path, number)| Ok((path, signer(number)?))).collect();
        Ok(Self {
            trees: Arc::new(wish.trees),
            keys: Arc::new(Keys::by_directory(rules?)),
            from: wish.from.map(Arc::new),
            second: wish.second.map(Arc::new),
            journal,
            jobs: wish.jobs,
        })
    }

    /// Its journal; none in a preview.
    #[must_use]
    pub const fn journal(&self) -> Option<&Arc<Journal>> {
        self.journal.as_ref()
    }

    /// Whose signature each file gets.
    #[must_use]
    pub fn keys(&self) -> &Keys {
        &self.keys
    }

    /// The real paths of the trees.
    pub fn trees(&self) -> impl Iterator<Item = &Path> {
        self.trees.iter().map(Tree::path)
    }

    /// The tree that is built beside the first.
    #[must_use]
    pub fn second(&self) -> Option<&Second> {
        self.second.as_deref()
    }
}

/// SHA-256 of what makes a campaign this one: trees, keys, whose signatures go, where results go, options about signing. Not
/// of it: jobs, rate, how it is shown.
fn digest(wish: &Wish, choices: &[String]) -> [u8; 32] {
    let mut hasher = Hasher::new(HashAlgorithm::Sha256);
    let mut field = |kind: u8, bytes: &[u8]| {
        hasher.update(&[kind]);
        hasher.update(&u64::try_from(bytes.len()).unwrap_or(u64::MAX).to_be_bytes());
        hasher.update(bytes);
    };
    let path = |path: &Path| std::os::unix::ffi::OsStrExt::as_bytes(path.as_os_str()).to_vec();
    for tree in &wish.trees {
        field(1, &path(tree.path()));
    }
    for (directory, number) in &wish.rules {
        field(2, &path(directory));
        if let Some(signer) = wish.signers.get(*number) {
            field(3, signer.certificate().fingerprint().as_bytes());
        }
    }
    if let Some(from) = &wish.from {
        field(4, from.shown().as_bytes());
    }
    if let Some(second) = &wish.second {
        field(5, &path(second.path()));
    }
    for choice in choices {
        field(6, choice.as_bytes());
    }
    hasher.finish().as_bytes().first_chunk().copied().unwrap_or_default()
}
