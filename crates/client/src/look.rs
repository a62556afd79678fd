//! What `verify` and `inspect` have in common: finding the format of a file and the signature files beside it.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use sealwright_formats::Format;
use sealwright_formats::prepared::BesideName;
use sealwright_formats::source::ReadAt as _;

use crate::apply::sidecar::{Beside, SIDECAR_BYTES_MAX};
use crate::detect;
use crate::error::{Content, Error};
use crate::shown::shown;
use crate::source::file::SourceFile;
use crate::source::{Entry, Place};

/// What was found out about one file.
#[derive(Debug)]
pub struct Report<T> {
    /// Position in the call.
    pub index: usize,
    /// As the user named it.
    pub path: PathBuf,
    /// The format, if it came that far.
    pub format: Option<&'static str>,
    /// What was found; `None`: found by `-r`, and of no format with an embedded signature.
    pub outcome: Result<Option<T>, Error>,
    /// What a user should know.
    pub notes: Vec<String>,
    /// Size in bytes; 0 if it could not be opened.
    pub size: u64,
    /// How long it took.
    pub elapsed: Duration,
}

/// A file with its format and the signature files that belong to it.
pub(crate) struct Looked {
    pub(crate) source: SourceFile,
    pub(crate) format: &'static dyn Format,
    pub(crate) sidecars: Vec<Vec<u8>>,
    pub(crate) notes: Vec<String>,
}

/// Opens a file and finds what is needed to look at its signatures; `None` if it is not ours.
pub(crate) fn look(entry: &Entry, named: Option<&'static str>) -> Result<Option<Looked>, Error> {
    let source = SourceFile::open(entry)?;
    source.read_once();
    let embedded = match named {
        Some(name) => Some(detect::format(&source, Some(name))?).filter(|format| format.is_embedded()),
        // What lies in a tree is looked at only if it shows by itself that it is meant.
        None if matches!(entry.place, Place::Found { .. }) => detect::detect(&source)?,
        None => detect::recognise(&source)?,
    };
    if let Some(format) = embedded {
        return Ok(Some(Looked { source, format, sidecars: Vec::new(), notes: Vec::new() }));
    }
    if matches!(entry.place, Place::Found { .. }) && named.is_none() {
        return Ok(None);
    }
    let format = sealwright_formats::by_name(named.unwrap_or("detached"))
        .ok_or(Error::Internal("a format that is not registered"))?;
    match signed_by(entry, &source)? {
        Some(signed) => of_signature_file(&signed, &source, format).map(Some),
        None => with_sidecars(entry, source, format).map(Some),
    }
}

/// Wraps a look with what every report has.
pub(crate) fn report<T>(
    index: usize,
    entry: &Entry,
    named: Option<&'static str>,
    judge: impl FnOnce(&Looked) -> Result<T, Error>,
) -> Report<T> {
    let begun = Instant::now();
    let mut report = Report {
        index,
        path: entry.shown.clone(),
        format: None,
        outcome: Ok(None),
        notes: Vec::new(),
        size: 0,
        elapsed: Duration::ZERO,
    };
    report.outcome = look(entry, named).and_then(|looked| {
        let Some(mut looked) = looked else { return Ok(None) };
        report.format = Some(looked.format.name());
        report.size = looked.source.len();
        report.notes.append(&mut looked.notes);
        judge(&looked).map(Some)
    });
    report.elapsed = begun.elapsed();
    report
}

/// For `NAME.asc`, `NAME.sig` and `NAME.gpg` that hold a signature: `NAME`.
fn signed_by(entry: &Entry, source: &SourceFile) -> Result<Option<Entry>, Error> {
    let name = entry.shown.file_name().unwrap_or_default().as_bytes();
    let stem = [".asc", ".sig", ".gpg"].iter().find_map(|suffix| name.strip_suffix(suffix.as_bytes()));
    let Some(stem) = stem.filter(|stem| !stem.is_empty()) else { return Ok(None) };
    let head = source.head(sealwright_formats::DETECT_BYTES)?;
    // A binary signature packet starts with 0x88..0x8b (old format, tag 2) or 0xc2 (RFC 9580 section 4.2).
    let is_binary = head.first().is_some_and(|first| matches!(first, 0x88..=0x8b | 0xc2));
    if Content::of(&head) != Content::Signature && !is_binary {
        return Ok(None);
    }
    let shown = entry.shown.with_file_name(OsStr::from_bytes(stem));
    Ok(Some(Entry { shown, place: Place::Named }))
}

fn of_signature_file(
    signed: &Entry,
    signature: &SourceFile,
    format: &'static dyn Format,
) -> Result<Looked, Error> {
    let sidecar = signature.read_all("the signature file", SIDECAR_BYTES_MAX)?;
    let source = SourceFile::open(signed)
        .map_err(|source| Error::SignedFile { path: signed.shown.clone(), source: Box::new(source) })?;
    let notes = vec![format!("signature over {}", shown(&signed.shown))];
    Ok(Looked { source, format, sidecars: vec![sidecar], notes })
}

fn with_sidecars(entry: &Entry, source: SourceFile, format: &'static dyn Format) -> Result<Looked, Error> {
    let beside = Beside::of(entry, &source)?;
    let mut sidecars = Vec::new();
    let mut notes = Vec::new();
    let mut names = Vec::new();
    for name in format.beside() {
        let (BesideName::Suffix(shown_name) | BesideName::Whole(shown_name)) = *name;
        names.push(shown_name);
        let Some(bytes) = beside.read(*name)? else { continue };
        let path = shown(&beside.path(*name));
        if *name == BesideName::Suffix(".asc") && sealwright_formats::recognise(&bytes).is_some() {
            notes.push(format!("{path} is a signed document of its own"));
            continue;
        }
        notes.push(format!("signature in {path}"));
        sidecars.push(bytes);
    }
    if sidecars.is_empty() {
        notes.push(format!("no signature in it, and none beside it ({})", names.join(", ")));
    }
    Ok(Looked { source, format, sidecars, notes })
}
