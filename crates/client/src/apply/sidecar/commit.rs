//! Signature files of one file on their way to the disk. All get their names or none: where the file system can exchange two
//! names, what had the name before is kept until the last file has its own. Killed in between, the first is new and the
//! second as before: each reads by itself, and the next run makes the rest.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use sealwright_crypto::algorithm::HashAlgorithm;
use sealwright_crypto::digest::{Digest, Hasher};
use sealwright_formats::prepared::{BesideName, NewContent};
use sealwright_formats::source::ReadAt as _;

use crate::apply::sidecar::{Beside, SIGNATURE_FILE, StagedSidecar, StagedSidecars, length_of};
use crate::apply::temporary::Switched;
use crate::apply::{Method, Written};
use crate::error::Error;
use crate::source::file::SourceFile;

impl StagedSidecars {
    /// With their content they can be committed.
    ///
    /// # Errors
    /// There is not one content for each.
    pub fn filled(self, contents: Vec<NewContent>) -> Result<Sidecars, Error> {
        if contents.is_empty() || self.files.len() != contents.len() {
            return Err(Error::Internal("not one content for each signature file"));
        }
        let filled = |(staged, content)| Filled { staged, content, written: None };
        let files = self.files.into_iter().zip(contents).map(filled).collect();
        Ok(Sidecars { beside: self.beside, source: self.source, files })
    }
}

/// Signature files that only wait for the disk. [`crate::apply::group`] calls the steps, in their order.
#[derive(Debug)]
pub struct Sidecars {
    beside: Beside,
    source: std::sync::Arc<SourceFile>,
    files: Vec<Filled>,
}

#[derive(Debug)]
struct Filled {
    staged: StagedSidecar,
    content: NewContent,
    /// Length and SHA-256 of what was written.
    written: Option<(u64, Digest)>,
}

impl Sidecars {
    pub(in crate::apply) fn write(&mut self) -> Result<(), Error> {
        for filled in &mut self.files {
            let written = filled.write(&self.source);
            let len = filled.len();
            filled.written = Some(written.map_err(|error| Error::write(self.beside.dir_path(), len, error))?);
        }
        Ok(())
    }

    /// One of those that are to be synced: all are on one file system.
    pub(crate) fn file(&self) -> Option<&File> {
        self.files.first().map(|filled| filled.staged.temporary.file())
    }

    pub(in crate::apply) fn sync(&self) -> Result<(), Error> {
        for filled in &self.files {
            rustix::fs::fsync(filled.staged.temporary.file())
                .map_err(|error| Error::write(self.beside.dir_path(), filled.len(), error.into()))?;
        }
        Ok(())
    }

    /// From here on a reader sees the new signatures. What they are over, and what they replace, must be what was read when
    /// they were asked for: nobody else's signature is lost.
    pub(in crate::apply) fn rename(&mut self) -> Result<(), Error> {
        self.source.check_unchanged()?;
        for filled in &self.files {
            if self.beside.digest(&filled.staged.file)? != filled.staged.before {
                return Err(self.beside.changed(filled.staged.file.name));
            }
        }
        self.switch_all()
    }

    /// One after the other; if one fails, those before it are put back.
    fn switch_all(&mut self) -> Result<(), Error> {
        let last = self.files.len().saturating_sub(1);
        let mut switched = Vec::new();
        let mut failed = None;
        for (number, filled) in self.files.iter_mut().enumerate() {
            match filled.switch(&self.beside, number == last) {
                Ok(how) => switched.push(how),
                Err(error) => {
                    failed = Some(error);
                    break;
                }
            }
        }
        let Some(error) = failed else { return Ok(()) };
        for (filled, how) in self.files.iter_mut().zip(switched).rev() {
            let name = self.beside.with(filled.staged.file.name);
            filled.staged.temporary.switch_back(&name, how)?;
        }
        Err(error)
    }

    pub(in crate::apply) fn directory(&self) -> (&OwnedFd, &Path) {
        (&self.beside.dir, &self.beside.dir_path)
    }

    pub(in crate::apply) fn read_back(&self) -> Result<(), Error> {
        for filled in &self.files {
            let name = filled.staged.file.name;
            let there = self.beside.open(name)?.ok_or(Error::ReadBack { offset: 0 })?;
            let digest = self.beside.digest_of(name, &there)?;
            if filled.written != Some((there.len(), digest)) {
                return Err(Error::ReadBack { offset: 0 });
            }
        }
        Ok(())
    }

    /// Of several, the last stands for all.
    pub(in crate::apply) fn written(&self) -> Written {
        let main = self.files.last();
        Written {
            path: main.map(|filled| self.beside.path(filled.staged.file.name)).unwrap_or_default(),
            size: main.map_or(0, Filled::len),
            bytes: self.files.iter().map(Filled::len).fold(0, u64::saturating_add),
            method: Method::Copy,
            other_links: 0,
            replaced: None,
            notes: Vec::new(),
        }
    }

    /// Bytes in memory.
    pub(in crate::apply) fn held(&self) -> u64 {
        let held = |filled: &Filled| match &filled.content {
            NewContent::Bytes(bytes) => length_of(bytes.len()),
            NewContent::Framed(_) => 0,
        };
        self.files.iter().map(held).fold(0, u64::saturating_add)
    }
}

impl Filled {
    fn len(&self) -> u64 {
        self.written.map_or(0, |(len, _)| len)
    }

    fn write(&self, source: &SourceFile) -> io::Result<(u64, Digest)> {
        let file = self.staged.temporary.file();
        let mut hasher = Hasher::new(HashAlgorithm::Sha256);
        let mut put = |bytes: &[u8]| {
            file.write_all_at(bytes, hasher.total())?;
            hasher.update(bytes);
            Ok(())
        };
        match &self.content {
            NewContent::Bytes(bytes) => put(bytes)?,
            NewContent::Framed(framed) => framed.write(source, &mut put)?,
        }
        let len = hasher.total();
        rustix::fs::ftruncate(file, len)?;
        Ok((len, hasher.finish()))
    }

    /// Gives it its name. What has the name of the last one goes at once, that of the others when all have theirs.
    fn switch(&mut self, beside: &Beside, is_last: bool) -> Result<Switched, Error> {
        let name = beside.with(self.staged.file.name);
        let temporary = &mut self.staged.temporary;
        if self.staged.before.is_none() {
            let is_free = temporary.rename_to_new(&name)?;
            return if is_free { Ok(Switched::New) } else { Err(beside.changed(self.staged.file.name)) };
        }
        if is_last {
            return temporary.rename(&name).map(|()| Switched::Over);
        }
        temporary.exchange(&name)
    }
}

impl Beside {
    fn dir_path(&self) -> &Path {
        &self.dir_path
    }

    fn changed(&self, name: BesideName) -> Error {
        let source = Error::Changed { what: "it is another than when the signature was asked for" };
        Error::Beside { what: SIGNATURE_FILE, path: self.path(name), source: Box::new(source) }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::Arc;

    use sealwright_formats::prepared::{BesideFile, BesideKind};

    use super::*;
    use crate::apply::sidecar::Keep;
    use crate::source::{Entry, Place};

    /// A detached signature: of a version 3 key, the shortest.
    fn old() -> Vec<u8> {
        let mut body = vec![3, 5, 0, 0, 0, 0, 1];
        body.extend([7; 8]);
        body.extend([1, 8, 0xaa, 0xbb, 0, 1, 1]);
        [vec![0x88, u8::try_from(body.len()).unwrap()], body].concat()
    }

    fn staged(dir: &Path) -> Sidecars {
        let shown = dir.join("Release");
        fs::write(&shown, "text\n").unwrap();
        let entry = Entry { shown, place: Place::Named };
        let source = Arc::new(SourceFile::open(&entry).unwrap());
        let file = |name| BesideFile { name, kind: BesideKind::Signatures, item: 0, len_max: 0 };
        let files = vec![file(BesideName::Suffix(".gpg")), file(BesideName::Whole("InRelease"))];
        let beside = Beside::of(&entry, &source).unwrap();
        let contents = vec![NewContent::Bytes(b"one".to_vec()), NewContent::Bytes(b"two".to_vec())];
        let mut made = beside.stage(source, files, Keep::Nothing, 100).unwrap().filled(contents).unwrap();
        made.write().unwrap();
        made
    }

    fn names(dir: &Path) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(dir)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn if_the_second_name_is_taken_the_first_is_as_before() {
        for before in [Some(old()), None] {
            let dir = tempfile::tempdir().unwrap();
            let first = dir.path().join("Release.gpg");
            if let Some(bytes) = &before {
                fs::write(&first, bytes).unwrap();
            }
            let mut made = staged(dir.path());
            // After the last look, so that only the rename can notice.
            fs::write(dir.path().join("InRelease"), "another's").unwrap();
            assert!(made.switch_all().is_err());
            drop(made);
            assert_eq!(fs::read(&first).ok(), before);
            assert_eq!(fs::read(dir.path().join("InRelease")).unwrap(), b"another's");
            let left = if before.is_some() { 3 } else { 2 };
            assert_eq!(names(dir.path()).len(), left, "{:?}", names(dir.path()));
        }
    }

    #[test]
    fn both_get_their_names_and_nothing_else_stays() {
        for before in [Some(old()), None] {
            let dir = tempfile::tempdir().unwrap();
            for name in ["Release.gpg", "InRelease"] {
                if let Some(bytes) = &before {
                    fs::write(dir.path().join(name), bytes).unwrap();
                }
            }
            let mut made = staged(dir.path());
            made.rename().unwrap();
            made.read_back().unwrap();
            drop(made);
            assert_eq!(names(dir.path()), ["InRelease", "Release", "Release.gpg"]);
            assert_eq!(fs::read(dir.path().join("InRelease")).unwrap(), b"two");
        }
    }

    #[test]
    fn a_signature_file_that_changed_meanwhile_stops_all() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("InRelease"), old()).unwrap();
        let mut made = staged(dir.path());
        fs::write(dir.path().join("InRelease"), [old(), old()].concat()).unwrap();
        assert!(made.rename().is_err());
        drop(made);
        assert_eq!(names(dir.path()), ["InRelease", "Release"]);
        assert_eq!(fs::read(dir.path().join("InRelease")).unwrap(), [old(), old()].concat());
    }
}
