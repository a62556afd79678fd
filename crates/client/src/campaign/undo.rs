//! The way back: the bytes that a campaign replaced are put back from its journal, where a file is still the one that it left.

use std::collections::HashMap;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sealwright_formats::source::ReadAt as _;
use sealwright_formats::splice::{Edit, Edits};

use crate::apply::{Policy, Staged, Target, Written, room_of};
use crate::batch::Stop;
use crate::campaign::journal::Journal;
use crate::campaign::record::{Before, Record};
use crate::detect;
use crate::error::Error;
use crate::source::file::SourceFile;
use crate::source::{Entry, Place};

/// Files that one undoing takes at most: each costs about 100 bytes and its path.
const FILES_MAX: usize = 4_000_000;

/// What became of one file.
#[derive(Debug)]
pub struct Undone {
    /// Which.
    pub path: PathBuf,
    /// Put back; or left as it is (`None`), since it has the old content; or why not.
    pub outcome: Result<Option<Written>, Error>,
}

/// Puts everything back that this journal's campaign has replaced. Runs on a thread that may block.
///
/// # Errors
/// The journal cannot be read; or it is damaged, and everything was put back that is whole in it.
pub fn undo(journal: &Journal, stop: &Stop, take: &mut dyn FnMut(Undone)) -> Result<bool, Error> {
    // First what became of each file, then the old bytes, one file at a time.
    let mut replaced: HashMap<Vec<u8>, Replaced> = HashMap::new();
    let mut linked: HashMap<Vec<u8>, Vec<Vec<u8>>> = HashMap::new();
    let (_, damage) = journal.whole_records(&mut |record| {
        match record {
            Record::Asked { path, .. } => {
                let asked = &mut replaced.entry(path).or_default().asked;
                *asked = asked.saturating_add(1);
            }
            Record::Applied { path, size, .. } => {
                let file = replaced.entry(path).or_default();
                // Without what was asked for, in a damaged journal, it is not known what was there.
                if file.asked > 0 {
                    (file.applied, file.size) = (file.asked, Some(size));
                }
            }
            Record::Linked { path, leader } => linked.entry(leader).or_default().push(path),
            Record::Planned { .. } | Record::Failed { .. } | Record::Finished => {}
        }
        let limit = crate::campaign::record::Malformed::Limit("the number of files");
        if replaced.len() > FILES_MAX { Err(limit) } else { Ok(()) }
    })?;
    let mut is_stopped = false;
    journal.whole_records(&mut |record| {
        let Record::Asked { path, before, .. } = record else { return Ok(()) };
        let Some(file) = replaced.get_mut(&path) else { return Ok(()) };
        file.applied = file.applied.saturating_sub(1);
        let Some(size) = file.size.filter(|_| file.applied == 0) else { return Ok(()) };
        replaced.remove(&path);
        let names = linked.remove(&path).unwrap_or_default();
        for name in std::iter::once(path).chain(names) {
            if stop.is_asked() {
                is_stopped = true;
                return Ok(());
            }
            let path = PathBuf::from(OsString::from_vec(name));
            let outcome = put_back(&path, size, &before);
            take(Undone { path, outcome });
        }
        Ok(())
    })?;
    damage.map_or(Ok(!is_stopped), Err)
}

/// What the journal says of a file.
#[derive(Default)]
struct Replaced {
    /// How often a signature was asked for; how often until the last one that was applied.
    asked: u32,
    applied: u32,
    /// Its size after that.
    size: Option<u64>,
}

fn put_back(path: &Path, size: u64, before: &Before) -> Result<Option<Written>, Error> {
    let entry = Entry { shown: path.to_owned(), place: Place::Named };
    let source = Arc::new(SourceFile::open_locked(&entry)?);
    let until = before.offset.saturating_add(u64::try_from(before.bytes.len()).unwrap_or(u64::MAX));
    if source.len() == before.size && is_there(&source, before)? {
        return Ok(None);
    }
    // The file may only have changed its length by what changed in it.
    let tail = before.size.saturating_sub(until);
    let remove = source.len().checked_sub(before.offset).and_then(|rest| rest.checked_sub(tail));
    let Some(remove) = remove.filter(|_| source.len() == size) else {
        return Err(Error::Changed { what: "it is not the file any more that the campaign left" });
    };
    let edit = Edit { offset: before.offset, remove, insert: before.bytes.clone() };
    let edits = Edits::new(vec![edit], source.len())?;
    check(&source, &edits)?;
    let room = |layout| room_of(&edits, layout);
    let staged = Staged::stage(Arc::clone(&source), Target::replacing(&source), &Policy::default(), &room)?;
    staged.commit(edits).map(Some)
}

fn is_there(source: &SourceFile, before: &Before) -> Result<bool, Error> {
    let mut there = vec![0; before.bytes.len()];
    source
        .read_exact_at(&mut there, before.offset)
        .map_err(|error| Error::io("read", &source.path(), error))?;
    Ok(there == before.bytes)
}

/// What will be there must be a package whose headers belong together: the old signature header has digests of the main
/// header, so bytes of another file are found out.
fn check(source: &Arc<SourceFile>, edits: &Edits) -> Result<(), Error> {
    let format = detect::format(source, None)?;
    let spliced = Spliced { source, edits };
    let inspection = format.inspect(&spliced, None)?;
    let is_wrong = |digest: &sealwright_formats::report::DigestReport| {
        digest.state == sealwright_formats::report::DigestState::Wrong
    };
    if inspection.digests.iter().any(is_wrong) {
        return Err(Error::Changed { what: "the old signature belongs to another content" });
    }
    Ok(())
}

/// A file as it will be with one edit.
struct Spliced<'a> {
    source: &'a SourceFile,
    edits: &'a Edits,
}

impl sealwright_formats::source::ReadAt for Spliced<'_> {
    fn len(&self) -> u64 {
        self.edits.new_len()
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> std::io::Result<()> {
        let Some(edit) = self.edits.as_slice().first() else {
            return self.source.read_exact_at(buf, offset);
        };
        let inserted = u64::try_from(edit.insert.len()).unwrap_or(u64::MAX);
        let mut at = offset;
        let mut rest = buf;
        while !rest.is_empty() {
            let until_edit = edit.offset.saturating_sub(at);
            let in_edit = edit.offset.saturating_add(inserted).saturating_sub(at);
            let part = if until_edit > 0 {
                until_edit
            } else if in_edit > 0 {
                in_edit
            } else {
                u64::MAX
            };
            let len = usize::try_from(part).unwrap_or(usize::MAX).min(rest.len());
            let Some((piece, more)) = rest.split_at_mut_checked(len) else { break };
            if until_edit > 0 {
                self.source.read_exact_at(piece, at)?;
            } else if in_edit > 0 {
                let from = usize::try_from(at.saturating_sub(edit.offset)).unwrap_or(usize::MAX);
                let bytes = edit.insert.get(from..).and_then(|bytes| bytes.get(..len));
                piece.copy_from_slice(bytes.ok_or(std::io::ErrorKind::UnexpectedEof)?);
            } else {
                let old = at.saturating_sub(inserted).saturating_add(edit.remove);
                self.source.read_exact_at(piece, old)?;
            }
            at = at.saturating_add(u64::try_from(len).unwrap_or(u64::MAX));
            rest = more;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt as _;

    use super::*;
    use crate::campaign::record::Head;

    /// What a later request found is not what was there before the campaign.
    #[test]
    fn a_file_whose_old_bytes_are_lost_in_a_damaged_journal_is_not_put_back_to_later_ones() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.rpm").as_os_str().as_bytes().to_vec();
        let asked = |id: u8| {
            let before = Before { offset: 0, bytes: vec![id], size: 1 };
            Record::Asked { path: path.clone(), request_id: [id; 16], before }.encode()
        };
        let mut lost = asked(1);
        *lost.last_mut().unwrap() ^= 1;
        let applied = Record::Applied { path: path.clone(), size: 1, log_index: None }.encode();
        let head = Head { id: [1; 16], digest: [2; 32], begun: 3 }.encode();
        let undone = |first: &[u8]| {
            let file = folder.path().join("journal");
            std::fs::write(&file, [head.as_slice(), first, &applied, &asked(2)].concat()).unwrap();
            std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
            let (_level, stop) = tokio::sync::watch::channel(0);
            let mut undone = 0;
            let journal = Journal::open_existing(&file).unwrap();
            let ended = undo(&journal, &Stop::from_level(stop), &mut |_| undone += 1);
            (undone, ended.is_ok())
        };
        assert_eq!(undone(&asked(1)), (1, true));
        assert_eq!(undone(&lost), (0, false));
    }
}
