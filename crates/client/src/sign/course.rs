//! One file as a part of a campaign: what its journal hears of, and what an earlier run of it has made.

use std::path::PathBuf;
use std::sync::Arc;

use sealwright_crypto::openpgp::salt::Salt;
use sealwright_formats::Format;
use sealwright_formats::prepared::Preparation;

use crate::error::Error;
use crate::sign::{Done, Signer};
use crate::source::file::SourceFile;
use crate::source::{Entry, Place};

impl Signer {
    /// Files for which nothing had to be asked, in a campaign.
    pub(super) async fn note_done(&self, entry: &Entry, done: &Done, size: u64) -> Result<(), Error> {
        let Some(course) = &self.course else { return Ok(()) };
        match done {
            Done::Signed(signed) => match &signed.leader {
                Some(leader) => course.journal.linked(&entry.real_path(), leader).await,
                None => Ok(()),
            },
            Done::Unchanged { .. } => course.seen(&entry.real_path(), size).await,
            Done::WouldSign { .. } | Done::Skipped => Ok(()),
        }
    }

    /// Whether the second tree has the file already, signed as asked for, by a run of this campaign that was killed. What was
    /// asked for and not noted as applied is asked for again: the server remembers it.
    pub(super) fn is_made_before(
        &self,
        entry: &Entry,
        source: &SourceFile,
        format: &dyn Format,
        salts: &[Salt],
    ) -> Result<bool, Error> {
        let Some(course) = &self.course else { return Ok(false) };
        let Some(output) = self.output.as_ref().filter(|output| output.links_unchanged()) else {
            return Ok(false);
        };
        if course.journal.is_open(&entry.real_path()) {
            return Ok(false);
        }
        let target = output.target(entry, source)?;
        let (dir, dir_path) = (Arc::clone(&target.dir), target.dir_path.clone());
        let there = match SourceFile::open_in(dir, dir_path, target.name.clone()) {
            Ok(there) => there,
            Err(Error::Missing) => return Ok(false),
            Err(error) => return Err(error),
        };
        // What is made from a file is newer than the file.
        if there.identity().modified <= source.identity().modified {
            return Ok(false);
        }
        let prepared = format.prepare(&there, &self.request.options, &self.certificate, salts);
        Ok(matches!(prepared, Ok(Preparation::Leave { .. })))
    }
}

impl Entry {
    /// By which a campaign knows a file.
    pub(crate) fn real_path(&self) -> PathBuf {
        match &self.place {
            Place::Named => self.shown.clone(),
            Place::Found { root, relative } => root.path.join(relative),
        }
    }
}
