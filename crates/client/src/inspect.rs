//! What is signed, by whom, how: syntax alone, nothing is trusted or checked.

use sealwright_formats::report::Inspection;

use crate::error::Error;
use crate::look::{Looked, Report, report};
use crate::source::Entry;

/// What one file says about itself.
pub type InspectReport = Report<Inspection>;

/// Inspects one file. Runs on a thread that may block.
#[must_use]
pub fn inspect(index: usize, entry: &Entry, format: Option<&'static str>) -> InspectReport {
    report(index, entry, format, judge)
}

fn judge(looked: &Looked) -> Result<Inspection, Error> {
    let mut sidecars = looked.sidecars.iter();
    let first = sidecars.next().map(Vec::as_slice);
    let mut all = looked.format.inspect(&looked.source, first)?;
    for sidecar in sidecars {
        all.signatures.extend(looked.format.inspect(&looked.source, Some(sidecar))?.signatures);
    }
    Ok(all)
}
