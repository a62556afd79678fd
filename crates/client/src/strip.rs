//! Removes signatures, with the same care as signing.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::apply::{OutputDirectory, Policy, Staged, Target, Written, room_of};
use crate::detect;
use crate::error::Error;
use crate::sign::{Effect, links};
use crate::source::file::SourceFile;
use crate::source::{Entry, Place};

/// What became of one file.
#[derive(Debug)]
pub struct StripReport {
    /// Position in the call.
    pub index: usize,
    /// As the user named it.
    pub path: PathBuf,
    /// The format, if it came that far.
    pub format: Option<&'static str>,
    /// What was done, or why not.
    pub outcome: Result<Stripped, Error>,
    /// What a user must know.
    pub warnings: Vec<String>,
    /// How long it took.
    pub elapsed: Duration,
}

impl StripReport {
    /// Of a file that could not even be listed.
    #[must_use]
    pub const fn failed(path: PathBuf, error: Error) -> Self {
        Self {
            index: 0,
            path,
            format: None,
            outcome: Err(error),
            warnings: Vec::new(),
            elapsed: Duration::ZERO,
        }
    }
}

/// What was done with one file.
#[derive(Debug)]
pub enum Stripped {
    /// Signatures were removed.
    Written(Written),
    /// `--dry-run`: they would be.
    Would,
    /// There was none.
    NotSigned,
    /// Found by `-r`, and of no format with an embedded signature.
    Skipped,
}

/// Strips one file. Runs on a thread that may block.
#[must_use]
pub fn strip(index: usize, entry: &Entry, effect: Effect, output: Option<&OutputDirectory>) -> StripReport {
    let begun = Instant::now();
    let mut report = StripReport {
        index,
        path: entry.shown.clone(),
        format: None,
        outcome: Ok(Stripped::Skipped),
        warnings: Vec::new(),
        elapsed: Duration::ZERO,
    };
    let outcome = run(entry, effect, output, &mut report);
    report.outcome = outcome;
    report.elapsed = begun.elapsed();
    report
}

fn run(
    entry: &Entry,
    effect: Effect,
    output: Option<&OutputDirectory>,
    report: &mut StripReport,
) -> Result<Stripped, Error> {
    if matches!(entry.place, Place::Found { .. }) && detect::detect(&SourceFile::open(entry)?)?.is_none() {
        return Ok(Stripped::Skipped);
    }
    let source = Arc::new(SourceFile::open_locked(entry)?);
    let format = match detect::format(&source, None) {
        Err(Error::UnknownContent { content }) => return Err(Error::NothingToStrip { content }),
        found => found?,
    };
    report.format = Some(format.name());
    let Some(edits) = format.strip(&*source)? else { return Ok(Stripped::NotSigned) };
    let target = match output {
        Some(output) => output.target(entry, &source)?,
        None => Target::replacing(&source),
    };
    if effect == Effect::DryRun {
        target.check_writable(&source)?;
        return Ok(Stripped::Would);
    }
    let room = |layout| room_of(&edits, layout);
    let written = Staged::stage(source, target, &Policy::default(), &room)?.commit(edits)?;
    if written.other_links > 0 {
        report.warnings.push(links::broken(written.other_links));
    }
    report.warnings.extend(written.notes.iter().map(|note| (*note).to_owned()));
    Ok(Stripped::Written(written))
}
