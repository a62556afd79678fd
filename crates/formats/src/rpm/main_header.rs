//! The main header, which says what the package is and which digest its payload has. It can have 256 MiB and
//! is never held whole: its index (at most 1 MiB) is, its store is hashed and checked in one pass, and only
//! the data of a few small tags are kept.

use super::header::{
    ENTRY_BYTES, Entry, INTRO_BYTES, Index, Intro, Kind, Region, Which, is_trailer, malformed, read,
};
use super::limits::{KEPT_TAG_BYTES_MAX, MAIN_DATA_BYTES_MAX, MAIN_ENTRIES_MAX};
use super::tags;
use crate::error::Error;
use crate::source::{ReadAt, for_each_chunk};

const WHICH: Which = Which {
    name: "main header",
    entries_max: MAIN_ENTRIES_MAX,
    data_bytes_max: MAIN_DATA_BYTES_MAX,
    typed: true,
};

/// A main header that was read once, checked and hashed.
#[derive(Debug)]
pub(super) struct MainHeader {
    /// First byte, and first byte after it: the payload.
    pub(super) start: u64,
    pub(super) end: u64,
    /// Entries, the region included.
    pub(super) entries: u32,
    /// Which of [`tags::MERGED`] it has, and their twins.
    merged: Vec<(u32, Option<u32>)>,
    kept: Vec<Kept>,
}

/// Data of one small tag.
#[derive(Debug)]
struct Kept {
    entry: Entry,
    /// In the store.
    from: u64,
    until: u64,
    bytes: Vec<u8>,
}

impl MainHeader {
    /// Reads it, and hands every byte of it (intro included: what header signatures cover) to `hash`.
    pub(super) fn read(source: &dyn ReadAt, start: u64, hash: &mut dyn FnMut(&[u8])) -> Result<Self, Error> {
        let intro = Intro::read(source, start, WHICH)?;
        let mut head = [0; INTRO_BYTES as usize];
        read(source, start, &mut head)?;
        let mut index = vec![0; usize::try_from(intro.entries).unwrap_or(0).saturating_mul(ENTRY_BYTES)];
        read(source, intro.index_start(), &mut index)?;
        hash(&head);
        hash(&index);
        let index = Index::parse(&index, intro, WHICH, tags::HEADER_IMMUTABLE)?;
        let region = covering_region(&index, intro)?;

        let mut kept = kept(&index, region);
        let mut trailer = Vec::with_capacity(ENTRY_BYTES);
        let mut scan = Scan::new(&index.entries, region.trailer_offset);
        let mut at = 0;
        for_each_chunk(source, intro.store_start(), intro.end(), |chunk| {
            hash(chunk);
            scan.feed(at, chunk);
            for kept in &mut kept {
                copy_overlap(at, chunk, kept.from, kept.until, &mut kept.bytes);
            }
            copy_overlap(at, chunk, region.trailer_offset, u64::MAX, &mut trailer);
            at = at.saturating_add(u64::try_from(chunk.len()).unwrap_or(u64::MAX));
        })
        .map_err(|cause| Error::Read { offset: intro.store_start(), source: cause })?;

        scan.finish().map_err(|reason| malformed(WHICH, intro.start, reason))?;
        if !trailer.first_chunk().is_some_and(|bytes| is_trailer(*bytes, region.tag, intro.entries)) {
            return Err(malformed(WHICH, intro.start, "its region does not cover the index"));
        }
        let has = |(tag, _): &(u32, Option<u32>)| index.entries.iter().any(|entry| entry.tag == *tag);
        let merged = tags::MERGED.into_iter().filter(has).collect();
        Ok(Self { start, end: intro.end(), entries: intro.entries, merged, kept })
    }

    /// Refuses tags that belong into the signature header: rpm does not load such a package.
    ///
    /// # Errors
    /// [`Error::Malformed`].
    pub(super) fn check_merge(&self, in_signature_header: impl Fn(u32) -> bool) -> Result<(), Error> {
        match self.merged.iter().find(|(_, twin)| twin.is_none_or(&in_signature_header)) {
            Some((tag, _)) => {
                let reason = format!("rpm does not take tag {tag} here, or not in both headers");
                Err(malformed(WHICH, self.start, reason))
            }
            None => Ok(()),
        }
    }

    /// Whether it has this tag; only for tags of [`tags::KEPT`].
    pub(super) fn has(&self, tag: u32) -> bool {
        self.find(tag).is_some()
    }

    /// The strings of a string or string array tag, as far as they were kept; none if the type is another.
    pub(super) fn strings(&self, tag: u32) -> Vec<String> {
        let Some(kept) = self.find(tag) else { return Vec::new() };
        if kept.entry.kind.element_bytes().is_some() {
            return Vec::new();
        }
        let count = usize::try_from(kept.entry.count).unwrap_or(usize::MAX);
        kept.bytes
            .split(|byte| *byte == 0)
            .take(count)
            .map(|bytes| String::from_utf8_lossy(bytes).into_owned())
            .collect()
    }

    /// The first string.
    pub(super) fn string(&self, tag: u32) -> Option<String> {
        self.strings(tag).into_iter().next()
    }

    /// The first number of a 32-bit or 64-bit tag.
    pub(super) fn number(&self, tag: u32) -> Option<u64> {
        let kept = self.find(tag)?;
        number(kept.entry.kind, &kept.bytes)
    }

    /// Version of the package format, as rpm sees it (`lib/tagexts.cc`, `rpmformatTag`; packages without an
    /// immutable region, 3 there, were refused on reading).
    pub(super) fn format(&self) -> u64 {
        self.number(tags::RPM_FORMAT).unwrap_or(4)
    }

    fn find(&self, tag: u32) -> Option<&Kept> {
        self.kept.iter().find(|kept| kept.entry.tag == tag)
    }
}

/// The first number in the data of an entry of this type.
pub(super) fn number(kind: Kind, data: &[u8]) -> Option<u64> {
    match kind {
        Kind::Int32 => data.first_chunk().map(|bytes| u64::from(u32::from_be_bytes(*bytes))),
        Kind::Int64 => data.first_chunk().map(|bytes| u64::from_be_bytes(*bytes)),
        Kind::Char
        | Kind::Int8
        | Kind::Int16
        | Kind::String
        | Kind::Binary
        | Kind::StringArray
        | Kind::I18nString => None,
    }
}

/// The region must reach from the first entry to the last byte: a header signature covers all of it, and rpm
/// takes nothing from outside (`hdrblobRead` with `exact_size`).
fn covering_region(index: &Index, intro: Intro) -> Result<Region, Error> {
    let Some(region) = index.region else {
        return Err(Error::Refused {
            reason: "its main header has no immutable region: a package for rpm 3".to_owned(),
            advice: "Rebuild it with rpm 4 or later; rpmsign does not sign it either.",
        });
    };
    if region.trailer_offset.saturating_add(16) != u64::from(intro.data_bytes) {
        return Err(malformed(WHICH, intro.start, "its region does not cover the index"));
    }
    Ok(region)
}

/// What to keep: data end where the next entry's begin.
fn kept(index: &Index, region: Region) -> Vec<Kept> {
    let ends = index.entries.iter().skip(1).map(|entry| entry.offset).chain([region.trailer_offset]);
    let wanted = index.entries.iter().zip(ends).filter(|(entry, _)| tags::KEPT.contains(&entry.tag));
    let keep = |(entry, end): (&Entry, u64)| Kept {
        entry: *entry,
        from: entry.offset,
        until: end.min(entry.offset.saturating_add(KEPT_TAG_BYTES_MAX)),
        bytes: Vec::new(),
    };
    wanted.map(keep).collect()
}

/// Appends the part of `chunk` (which starts at `at`) that lies in `from..until`.
fn copy_overlap(at: u64, chunk: &[u8], from: u64, until: u64, to: &mut Vec<u8>) {
    let index =
        |offset: u64| usize::try_from(offset.saturating_sub(at)).unwrap_or(usize::MAX).min(chunk.len());
    to.extend_from_slice(chunk.get(index(from)..index(until)).unwrap_or_default());
}

/// Checks, while the store passes by, that the data of the entries follow each other without a gap but for
/// alignment, and end where the region's trailer begins (rpm `lib/header.c`, `regionSwab`, `hdrblobImport`).
struct Scan<'a> {
    entries: core::slice::Iter<'a, Entry>,
    /// Where the data must end.
    end: u64,
    /// End of the data seen so far.
    cursor: u64,
    /// The string entry that is being read, and how many zero bytes it still needs.
    open: Option<(&'a Entry, u32)>,
    problem: Option<String>,
}

impl<'a> Scan<'a> {
    fn new(entries: &'a [Entry], end: u64) -> Self {
        Self { entries: entries.iter(), end, cursor: 0, open: None, problem: None }
    }

    fn feed(&mut self, at: u64, chunk: &[u8]) {
        let chunk_end = at.saturating_add(u64::try_from(chunk.len()).unwrap_or(u64::MAX));
        while self.problem.is_none() {
            let Some((entry, missing)) = self.open else {
                if self.begin().is_none() {
                    return;
                }
                continue;
            };
            if self.cursor >= chunk_end {
                return;
            }
            let from = usize::try_from(self.cursor.saturating_sub(at)).unwrap_or(usize::MAX);
            let rest = chunk.get(from..).unwrap_or_default();
            let Some(len) = rest.iter().position(|byte| *byte == 0) else {
                self.cursor = chunk_end;
                return;
            };
            let len = u64::try_from(len).unwrap_or(u64::MAX).saturating_add(1);
            self.cursor = self.cursor.saturating_add(len);
            self.open = (missing > 1).then_some((entry, missing.saturating_sub(1)));
        }
    }

    /// Opens the next entry of strings, stepping over the entries of fixed length before it.
    fn begin(&mut self) -> Option<()> {
        loop {
            let entry = self.entries.next()?;
            if entry.offset != entry.kind.align(self.cursor) {
                let reason = format!("data of tag {} do not follow the data before them", entry.tag);
                self.problem = Some(reason);
                return None;
            }
            self.cursor = entry.offset;
            if let Some(bytes) = entry.fixed_bytes() {
                self.cursor = entry.offset.saturating_add(bytes);
            } else {
                self.open = Some((entry, entry.count));
                return Some(());
            }
        }
    }

    fn finish(mut self) -> Result<(), String> {
        if self.open.is_none() && self.problem.is_none() {
            let _ = self.begin();
        }
        if let Some(problem) = self.problem {
            return Err(problem);
        }
        if let Some((entry, _)) = self.open {
            return Err(format!("text of tag {} does not end", entry.tag));
        }
        if self.cursor != self.end {
            return Err("its region does not end where its data end".to_owned());
        }
        Ok(())
    }
}
