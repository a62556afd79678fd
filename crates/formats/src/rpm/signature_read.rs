//! Reading a signature header, with as little memory as the purpose needs: who writes it holds its bytes once,
//! in one buffer that all entries share; who looks at it holds its index, and the data of what is shown.

use std::sync::Arc;

use super::budget::Buffer;
use super::data::Data;
use super::header::{ENTRY_BYTES, Entry, Fields, Index, Intro, Kind, Which, is_trailer, malformed, read};
use super::limits::{LEAD_BYTES, Release, SHOWN_BYTES_MAX, SIGNATURE_DATA_BYTES_MAX, SIGNATURE_ENTRIES_MAX};
use super::signature_header::{Item, SignatureHeader};
use super::tags;
use crate::error::Error;
use crate::source::ReadAt;

pub(super) const WHICH: Which = Which {
    name: "signature header",
    entries_max: SIGNATURE_ENTRIES_MAX,
    data_bytes_max: SIGNATURE_DATA_BYTES_MAX,
    // Its numbers mean other things in a main header.
    typed: false,
};

/// Text is searched for its end in pieces of this many bytes.
const PIECE_BYTES: usize = 64 << 10;

/// What the header is read for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Load {
    /// To be written again, for this release and later ones: all of it, in one buffer.
    Whole(Release),
    /// To be shown or checked: at most [`SHOWN_BYTES_MAX`] of signatures, digests and sizes.
    Look,
}

/// What is wrong with the region, if anything is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RegionFault {
    /// For a person: "entries outside the region".
    pub(super) what: &'static str,
    /// Whether rpm refuses to read such a header (`lib/header.c`, `hdrblobVerifyRegion`).
    pub(super) fatal: bool,
}

/// A header as it is in the file.
pub(super) struct Loaded {
    pub(super) header: SignatureHeader,
    /// Where the main header starts.
    pub(super) main_start: u64,
    /// Its bytes, padding included; none if it was only looked at.
    pub(super) bytes: Arc<Buffer>,
}

/// Reads it.
pub(super) fn load(source: &dyn ReadAt, load: Load) -> Result<Loaded, Error> {
    let intro = Intro::read(source, LEAD_BYTES, WHICH)?;
    if intro.entries == 0 {
        return Err(malformed(WHICH, intro.start, "it has no tags"));
    }
    if let Load::Whole(release) = load {
        release.check_before_loading(intro.data_bytes)?;
    }
    let main_start = intro.end().checked_next_multiple_of(8).unwrap_or(u64::MAX);
    let have = source.len();
    if main_start > have {
        return Err(Error::Truncated { what: WHICH.name, need: main_start, have });
    }
    let mut bytes = match load {
        Load::Whole(_) => Buffer::zeroed(main_start.saturating_sub(LEAD_BYTES))?,
        Load::Look => Buffer::from(Vec::new()),
    };
    if !bytes.is_empty() {
        read(source, LEAD_BYTES, bytes.as_mut())?;
    }
    let index = read_vec(source, intro.index_start(), intro.store_start())?;
    let index = Index::parse(&index, intro, WHICH, tags::HEADER_SIGNATURES)?;
    let tail = read_vec(source, intro.end(), main_start)?;
    let buffer = Arc::new(bytes);
    let mut store = Store { source, buffer: Arc::clone(&buffer), load, intro, shown: 0 };
    let (items, trailer_passed) = items(&index, &mut store)?;
    let (trailer_tag, fault) = check_region(&index, &store, trailer_passed)?;
    let header = SignatureHeader { items, has_region: index.region.is_some(), trailer_tag, tail, fault };
    Ok(Loaded { header, main_start, bytes: buffer })
}

/// The entries with their data, and whether some lie behind the trailer of the region.
fn items(index: &Index, store: &mut Store<'_>) -> Result<(Vec<Item>, bool), Error> {
    let start = store.intro.start;
    let bad = |reason: String| malformed(WHICH, start, reason);
    let trailer_offset = index.region.map(|region| region.trailer_offset);
    let mut items = Vec::with_capacity(index.entries.len());
    let mut cursor = 0;
    let mut trailer_passed = false;
    for entry in &index.entries {
        // A region whose trailer is not last: what comes after it lies outside.
        if !trailer_passed && trailer_offset.is_some_and(|at| at <= entry.offset) {
            cursor = trailer_offset.unwrap_or(cursor).saturating_add(16);
            trailer_passed = true;
        }
        if entry.offset != entry.kind.align(cursor) {
            return Err(bad(format!("data of tag {} do not follow the data before them", entry.tag)));
        }
        let padding = store.read(cursor, entry.offset)?;
        let Some((len, filled)) = store.extent(entry)? else {
            return Err(bad(format!("text of tag {} does not end", entry.tag)));
        };
        cursor = entry.offset.saturating_add(len);
        if !trailer_passed && trailer_offset.is_some_and(|at| cursor > at) {
            return Err(bad(format!("data of tag {} overlap the region trailer", entry.tag)));
        }
        let data = store.data(entry, len, filled)?;
        items.push(Item { tag: entry.tag, kind: entry.kind, count: entry.count, data, padding });
    }
    let end = if trailer_passed { cursor } else { trailer_offset.map_or(cursor, |at| at.saturating_add(16)) };
    if end != u64::from(store.intro.data_bytes)
        || (!trailer_passed && trailer_offset.is_some_and(|at| at != cursor))
    {
        return Err(bad("its data do not fill it".to_owned()));
    }
    Ok((items, trailer_passed))
}

/// The tag of the trailer, and why the region cannot stay as it is.
fn check_region(
    index: &Index,
    store: &Store<'_>,
    trailer_passed: bool,
) -> Result<(u32, Option<RegionFault>), Error> {
    let sound = tags::HEADER_SIGNATURES;
    let Some(at) = index.region.map(|region| region.trailer_offset) else { return Ok((sound, None)) };
    let mut bytes = [0; ENTRY_BYTES];
    read(store.source, store.intro.store_start().saturating_add(at), &mut bytes)?;
    let fatal = !is_readable_trailer(bytes, store.intro.entries);
    if trailer_passed {
        return Ok((sound, Some(RegionFault { what: "entries outside the region", fatal })));
    }
    let tag = [tags::HEADER_SIGNATURES, tags::HEADER_IMAGE]
        .into_iter()
        .find(|tag| is_trailer(bytes, *tag, store.intro.entries));
    let fault = RegionFault { what: "a region trailer that does not cover the index", fatal };
    Ok(tag.map_or((sound, Some(fault)), |tag| (tag, None)))
}

/// Whether rpm reads a signature header with this trailer (`hdrblobVerifyRegion`; `hdrblobImport` for a region of
/// no entry): its offset counts back over at least one entry and over no more than there are.
fn is_readable_trailer(bytes: [u8; ENTRY_BYTES], entries: u32) -> bool {
    let trailer = Fields::from_bytes(bytes);
    let covered = trailer.offset.wrapping_neg();
    [tags::HEADER_SIGNATURES, tags::HEADER_IMAGE].contains(&trailer.tag)
        && trailer.kind == Kind::Binary.id()
        && trailer.count == 16
        && covered.is_multiple_of(16)
        && (1..=entries).contains(&covered.checked_div(16).unwrap_or(0))
}

/// The data area of the header.
struct Store<'a> {
    source: &'a dyn ReadAt,
    buffer: Arc<Buffer>,
    load: Load,
    intro: Intro,
    /// Bytes held under [`Load::Look`].
    shown: u64,
}

impl Store<'_> {
    /// Length of the data of an entry, and how many of its strings are not empty; `None` if its text does not
    /// end.
    fn extent(&self, entry: &Entry) -> Result<Option<(u64, usize)>, Error> {
        if let Some(bytes) = entry.fixed_bytes() {
            return Ok(Some((bytes, 0)));
        }
        let end = u64::from(self.intro.data_bytes);
        let (mut at, mut missing, mut filled, mut string_bytes) = (entry.offset, entry.count, 0usize, 0usize);
        let mut piece = vec![0; PIECE_BYTES];
        while at < end {
            let want = usize::try_from(end.saturating_sub(at)).unwrap_or(PIECE_BYTES).min(PIECE_BYTES);
            let piece = piece.get_mut(..want).unwrap_or_default();
            self.fill(at, piece)?;
            let mut rest: &[u8] = piece;
            while let Some(len) = rest.iter().position(|byte| *byte == 0) {
                let next = len.saturating_add(1);
                filled = filled.saturating_add(usize::from(string_bytes.saturating_add(len) > 0));
                string_bytes = 0;
                at = at.saturating_add(u64::try_from(next).unwrap_or(u64::MAX));
                missing = missing.saturating_sub(1);
                if missing == 0 {
                    return Ok(Some((at.saturating_sub(entry.offset), filled)));
                }
                rest = rest.get(next..).unwrap_or_default();
            }
            string_bytes = string_bytes.saturating_add(rest.len());
            at = at.saturating_add(u64::try_from(rest.len()).unwrap_or(u64::MAX));
        }
        Ok(None)
    }

    fn data(&mut self, entry: &Entry, len: u64, filled: usize) -> Result<Data, Error> {
        let len_usize = usize::try_from(len).unwrap_or(usize::MAX);
        let until = entry.offset.saturating_add(len);
        match self.load {
            Load::Whole(_) => {
                let from = self.in_buffer(entry.offset);
                Ok(Data::part(Arc::clone(&self.buffer), from..from.saturating_add(len_usize)))
            }
            Load::Look => {
                let shown = self.shown.saturating_add(len);
                if !tags::SHOWN.contains(&entry.tag) || shown > SHOWN_BYTES_MAX {
                    return Ok(Data::left(len_usize, filled));
                }
                self.shown = shown;
                Ok(Data::from(self.read(entry.offset, until)?))
            }
        }
    }

    fn read(&self, from: u64, until: u64) -> Result<Vec<u8>, Error> {
        let len = usize::try_from(until.saturating_sub(from)).unwrap_or(0);
        let mut bytes = vec![0; len];
        self.fill(from, &mut bytes)?;
        Ok(bytes)
    }

    fn fill(&self, offset: u64, to: &mut [u8]) -> Result<(), Error> {
        if to.is_empty() {
            return Ok(());
        }
        match self.load {
            Load::Whole(_) => {
                let at = u64::try_from(self.in_buffer(offset)).unwrap_or(u64::MAX);
                read(&**self.buffer, at, to)
            }
            Load::Look => read(self.source, self.intro.store_start().saturating_add(offset), to),
        }
    }

    /// Where in the buffer, which starts with the header, this byte of the store is.
    fn in_buffer(&self, offset: u64) -> usize {
        let at = self.intro.store_start().saturating_sub(self.intro.start).saturating_add(offset);
        usize::try_from(at).unwrap_or(usize::MAX)
    }
}

fn read_vec(source: &dyn ReadAt, from: u64, until: u64) -> Result<Vec<u8>, Error> {
    let mut bytes = vec![0; usize::try_from(until.saturating_sub(from)).unwrap_or(0)];
    if !bytes.is_empty() {
        read(source, from, &mut bytes)?;
    }
    Ok(bytes)
}
