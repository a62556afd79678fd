//! The header structure that an RPM package has twice (rpm `docs/manual/format_header.md`): an intro of 16
//! bytes, an index of 16 bytes an entry, and a store with the data of the entries. Everything here was checked
//! against the rules of rpm's `lib/header.c` (`hdrblobVerifyInfo`, `hdrblobVerifyRegion`, `hdrblobImport`):
//! what rpm refuses to read is refused by name.

use std::collections::HashSet;

use super::limits::ARRAY_COUNT_MAX;
use super::{tag_types, tags};
use crate::error::Error;
use crate::source::ReadAt;

/// First eight bytes of every header.
pub(super) const MAGIC: [u8; 8] = [0x8e, 0xad, 0xe8, 0x01, 0, 0, 0, 0];
/// Bytes of the intro.
pub(super) const INTRO_BYTES: u64 = 16;
/// Bytes of one entry of the index, and of the trailer of a region.
pub(super) const ENTRY_BYTES: usize = 16;

/// Which of the two headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Which {
    /// In messages.
    pub(super) name: &'static str,
    /// Largest number of entries.
    pub(super) entries_max: u32,
    /// Largest store in bytes.
    pub(super) data_bytes_max: u32,
    /// Whether rpm demands the right type of the tags that it knows.
    pub(super) typed: bool,
}

/// How large a header is, from its intro; both numbers are within the limits and inside the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Intro {
    /// Where it starts in the file.
    pub(super) start: u64,
    /// Entries of the index.
    pub(super) entries: u32,
    /// Bytes of the store.
    pub(super) data_bytes: u32,
}

impl Intro {
    /// Reads 16 bytes and compares what they claim with the limits and with the length of the file, so that
    /// nothing larger than the file is ever allocated.
    pub(super) fn read(source: &dyn ReadAt, start: u64, which: Which) -> Result<Self, Error> {
        let have = source.len();
        let intro_end = start.saturating_add(INTRO_BYTES);
        if intro_end > have {
            return Err(Error::Truncated { what: which.name, need: intro_end, have });
        }
        let mut magic = [0; 8];
        let mut numbers = [0; 8];
        read(source, start, &mut magic)?;
        read(source, start.saturating_add(8), &mut numbers)?;
        if magic != MAGIC {
            return Err(malformed(which, start, "it does not start with the header magic"));
        }
        let [a, b, c, d, e, f, g, h] = numbers;
        let entries = u32::from_be_bytes([a, b, c, d]);
        let data_bytes = u32::from_be_bytes([e, f, g, h]);
        let claims = [("tags", entries, which.entries_max), ("bytes", data_bytes, which.data_bytes_max)];
        for (unit, claimed, limit) in claims {
            if claimed > limit {
                let reason = format!("it claims {claimed} {unit}; the limit of rpm is {limit}");
                return Err(malformed(which, start, reason));
            }
        }
        let intro = Self { start, entries, data_bytes };
        if intro.end() > have {
            return Err(Error::Truncated { what: which.name, need: intro.end(), have });
        }
        Ok(intro)
    }

    /// First byte of the index.
    pub(super) const fn index_start(&self) -> u64 {
        self.start.saturating_add(INTRO_BYTES)
    }

    /// First byte of the store.
    pub(super) fn store_start(&self) -> u64 {
        self.index_start().saturating_add(u64::from(self.entries).saturating_mul(16))
    }

    /// First byte after the store.
    pub(super) fn end(&self) -> u64 {
        self.store_start().saturating_add(u64::from(self.data_bytes))
    }
}

/// Type of the data of an entry. `NULL` (0) is absent: rpm refuses it, having no length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Char,
    Int8,
    Int16,
    Int32,
    Int64,
    String,
    Binary,
    StringArray,
    I18nString,
}

impl Kind {
    const ALL: [Self; 9] = [
        Self::Char,
        Self::Int8,
        Self::Int16,
        Self::Int32,
        Self::Int64,
        Self::String,
        Self::Binary,
        Self::StringArray,
        Self::I18nString,
    ];

    pub(super) const fn id(self) -> u32 {
        match self {
            Self::Char => 1,
            Self::Int8 => 2,
            Self::Int16 => 3,
            Self::Int32 => 4,
            Self::Int64 => 5,
            Self::String => 6,
            Self::Binary => 7,
            Self::StringArray => 8,
            Self::I18nString => 9,
        }
    }

    fn from_id(id: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.id() == id)
    }

    /// Bytes of one element; `None` for strings, which end with a zero byte.
    pub(super) const fn element_bytes(self) -> Option<u64> {
        match self {
            Self::Char | Self::Int8 | Self::Binary => Some(1),
            Self::Int16 => Some(2),
            Self::Int32 => Some(4),
            Self::Int64 => Some(8),
            Self::String | Self::StringArray | Self::I18nString => None,
        }
    }

    /// `offset`, moved up to where data of this type may start.
    pub(super) fn align(self, offset: u64) -> u64 {
        offset.checked_next_multiple_of(self.element_bytes().unwrap_or(1)).unwrap_or(u64::MAX)
    }
}

/// One entry of an index, with a known type and a count and an offset that are plausible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) tag: u32,
    pub(super) kind: Kind,
    /// In the store, in bytes.
    pub(super) offset: u64,
    pub(super) count: u32,
}

impl Entry {
    /// Length of its data in bytes; `None` for strings.
    pub(super) fn fixed_bytes(&self) -> Option<u64> {
        self.kind.element_bytes().map(|bytes| bytes.saturating_mul(u64::from(self.count)))
    }
}

/// The region that the first entry of an index announces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Region {
    /// 62 or 63.
    pub(super) tag: u32,
    /// Where its trailer is in the store.
    pub(super) trailer_offset: u64,
}

/// A parsed index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Index {
    /// The region, if the first entry is one.
    pub(super) region: Option<Region>,
    /// The other entries, in order: tags unique, offsets ascending.
    pub(super) entries: Vec<Entry>,
}

impl Index {
    /// Parses `bytes` (16 an entry). `region_tag` is the one that may stand first.
    pub(super) fn parse(bytes: &[u8], intro: Intro, which: Which, region_tag: u32) -> Result<Self, Error> {
        let (raw, _) = bytes.as_chunks::<ENTRY_BYTES>();
        let data_bytes = u64::from(intro.data_bytes);
        let mut region = None;
        let mut entries = Vec::with_capacity(raw.len());
        let mut seen = HashSet::with_capacity(raw.len());
        let mut offset_min = 0;
        for (number, raw) in raw.iter().enumerate() {
            let fields = Fields::from_bytes(*raw);
            let at =
                intro.index_start().saturating_add(u64::try_from(number).unwrap_or(0).saturating_mul(16));
            if number == 0 && fields.tag == region_tag {
                let fits = u64::from(fields.offset).saturating_add(16) <= data_bytes;
                if fields.kind != Kind::Binary.id() || fields.count != 16 || !fits {
                    return Err(malformed(which, at, format!("bad region entry ({fields})")));
                }
                region = Some(Region { tag: region_tag, trailer_offset: u64::from(fields.offset) });
                continue;
            }
            let entry =
                fields.check(data_bytes, offset_min).map_err(|reason| malformed(which, at, reason))?;
            offset_min = entry.offset.saturating_add(entry.fixed_bytes().unwrap_or(u64::from(entry.count)));
            if which.typed && !tag_types::fits(entry.tag, entry.kind) {
                return Err(malformed(which, at, format!("not the type of its tag ({fields})")));
            }
            if !seen.insert(entry.tag) {
                return Err(malformed(which, at, format!("tag {} occurs twice", entry.tag)));
            }
            entries.push(entry);
        }
        Ok(Self { region, entries })
    }
}

/// The four numbers of an entry, unchecked.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fields {
    pub(super) tag: u32,
    pub(super) kind: u32,
    pub(super) offset: u32,
    pub(super) count: u32,
}

impl Fields {
    pub(super) const fn from_bytes(bytes: [u8; ENTRY_BYTES]) -> Self {
        let [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p] = bytes;
        Self {
            tag: u32::from_be_bytes([a, b, c, d]),
            kind: u32::from_be_bytes([e, f, g, h]),
            offset: u32::from_be_bytes([i, j, k, l]),
            count: u32::from_be_bytes([m, n, o, p]),
        }
    }

    pub(super) fn to_bytes(self) -> [u8; ENTRY_BYTES] {
        let mut bytes = [0; ENTRY_BYTES];
        let words = [self.tag, self.kind, self.offset, self.count];
        for (to, word) in bytes.as_chunks_mut::<4>().0.iter_mut().zip(words) {
            *to = word.to_be_bytes();
        }
        bytes
    }

    /// The checks of rpm's `hdrblobVerifyInfo` that need no data.
    fn check(self, data_bytes: u64, offset_min: u64) -> Result<Entry, String> {
        let offset = u64::from(self.offset);
        let problem = match Kind::from_id(self.kind) {
            None => "unknown type",
            Some(_) if self.tag < tags::TAG_MIN => "reserved tag number",
            Some(_) if self.tag > tags::TAG_MAX => "tag number out of range",
            Some(_) if self.count == 0 => "no elements",
            Some(_) if u64::from(self.count) > data_bytes => "more elements than the header has bytes",
            Some(kind) if kind != Kind::Binary && self.count > ARRAY_COUNT_MAX => {
                "more elements than rpm reads"
            }
            Some(Kind::String) if self.count != 1 => "a string that is not one",
            Some(kind) if kind.align(offset) != offset => "data not aligned",
            Some(_) if offset > data_bytes => "offset out of range",
            Some(_) if offset < offset_min => "data overlaps the data before it",
            Some(kind) => {
                let entry = Entry { tag: self.tag, kind, offset, count: self.count };
                let bytes = entry.fixed_bytes().unwrap_or(u64::from(self.count));
                if offset.saturating_add(bytes) <= data_bytes {
                    return Ok(entry);
                }
                "data reaches past the header"
            }
        };
        Err(format!("{problem} ({self})"))
    }
}

impl core::fmt::Display for Fields {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let Self { tag, kind, offset, count } = self;
        write!(f, "tag {tag}, type {kind}, offset {offset}, count {count}")
    }
}

/// Whether `bytes` are the trailer of a region with this tag over `entries` entries: the offset is negative
/// and counts back over the index.
pub(super) fn is_trailer(bytes: [u8; ENTRY_BYTES], tag: u32, entries: u32) -> bool {
    let trailer = Fields::from_bytes(bytes);
    let index_bytes = entries.wrapping_mul(16);
    trailer.tag == tag
        && trailer.kind == Kind::Binary.id()
        && trailer.count == 16
        && trailer.offset == index_bytes.wrapping_neg()
}

/// The trailer of a region with this tag over `entries` entries.
pub(super) fn trailer(tag: u32, entries: u32) -> [u8; ENTRY_BYTES] {
    let offset = entries.wrapping_mul(16).wrapping_neg();
    Fields { tag, kind: Kind::Binary.id(), offset, count: 16 }.to_bytes()
}

pub(super) fn malformed(which: Which, offset: u64, reason: impl Into<String>) -> Error {
    Error::Malformed { what: which.name, offset, reason: reason.into() }
}

pub(super) fn read(source: &dyn ReadAt, offset: u64, buf: &mut [u8]) -> Result<(), Error> {
    source.read_exact_at(buf, offset).map_err(|cause| Error::Read { offset, source: cause })
}
