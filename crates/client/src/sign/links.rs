//! Names of one file in one call: the first is signed, the others become names of the signed file.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use crate::apply::relink::relink;
use crate::apply::{Method, Policy, Target, Written};
use crate::error::Error;
use crate::sign::Signed;
use crate::source::file::SourceFile;

/// Files with other names that were signed, by device and inode of the old file.
#[derive(Debug, Default)]
pub(super) struct Links(Mutex<HashMap<(u64, u64), Leader>>);

#[derive(Clone, Debug)]
struct Leader {
    target: Target,
    signed: Signed,
    format: Option<&'static str>,
}

/// What was signed, with the name of the first.
type Relinked = ((Signed, PathBuf), Option<&'static str>);

impl Links {
    /// Keeps what the other names need, if there are any.
    pub(super) fn remember(&self, target: Target, signed: &Signed, format: Option<&'static str>) {
        let Some(old) = signed.written.replaced.filter(|_| signed.written.other_links > 0) else { return };
        let leader = Leader { target, signed: signed.clone(), format };
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert((old.device, old.inode), leader);
    }

    /// Gives a name of an old file to the new one; `None` if its file is not one of those.
    ///
    /// # Errors
    /// As [`relink`].
    pub(super) fn relink(&self, source: &SourceFile) -> Result<Option<Relinked>, Error> {
        let id = (source.identity().device, source.identity().inode);
        let leader = self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&id).cloned();
        let Some(Leader { target, signed, format }) = leader else { return Ok(None) };
        let written = relink(source, &target, &signed.written)?;
        let first = signed.written.path.clone();
        Ok(Some(((Signed { written, ..signed }, first), format)))
    }
}

/// What a user must know of names that are not in the call (`in_call` are).
pub(super) fn note(policy: &Policy, written: &Written, in_call: u64) -> Option<String> {
    let kept = if policy.keeps_links() { in_call } else { 0 };
    let outside = written.other_links.saturating_sub(kept);
    if outside == 0 {
        return None;
    }
    Some(match written.method {
        Method::InPlace => format!("{} of this file changed with it", names(outside)),
        Method::Clone | Method::Copy | Method::Link => broken(outside),
    })
}

/// For names that keep the old content.
pub(crate) fn broken(others: u64) -> String {
    let keep = if others == 1 { "keeps" } else { "keep" };
    format!("hard link broken: {} of this file {keep} the old content", names(others))
}

fn names(count: u64) -> String {
    if count == 1 { "1 other name".to_owned() } else { format!("{count} other names") }
}
