//! Writes headers of packages: index entries sorted by tag, their data, and the region that covers them all (rpm
//! `docs/manual/format_header.md`).

/// Magic number and version of a header, and four reserved bytes.
const MAGIC: [u8; 8] = [0x8e, 0xad, 0xe8, 1, 0, 0, 0, 0];
/// Bytes of one index entry, and of the region's trailer.
const ENTRY_BYTES: usize = 16;
/// Type of the region entry.
const BINARY: u32 = 7;

/// The value of one entry.
pub(super) enum Value {
    Int16(Vec<u16>),
    Int32(Vec<u32>),
    Text(String),
    Texts(Vec<String>),
    /// One language.
    Translated(String),
    Bytes(Vec<u8>),
}

impl Value {
    const fn kind(&self) -> u32 {
        match self {
            Self::Int16(_) => 3,
            Self::Int32(_) => 4,
            Self::Text(_) => 6,
            Self::Bytes(_) => BINARY,
            Self::Texts(_) => 8,
            Self::Translated(_) => 9,
        }
    }

    const fn alignment(&self) -> usize {
        match self {
            Self::Int16(_) => 2,
            Self::Int32(_) => 4,
            Self::Text(_) | Self::Texts(_) | Self::Translated(_) | Self::Bytes(_) => 1,
        }
    }

    const fn count(&self) -> usize {
        match self {
            Self::Int16(values) => values.len(),
            Self::Int32(values) => values.len(),
            Self::Texts(values) => values.len(),
            Self::Bytes(bytes) => bytes.len(),
            Self::Text(_) | Self::Translated(_) => 1,
        }
    }

    fn write(&self, store: &mut Vec<u8>) {
        let text = |store: &mut Vec<u8>, text: &str| {
            store.extend_from_slice(text.as_bytes());
            store.push(0);
        };
        match self {
            Self::Int16(values) => store.extend(values.iter().flat_map(|value| value.to_be_bytes())),
            Self::Int32(values) => store.extend(values.iter().flat_map(|value| value.to_be_bytes())),
            Self::Text(value) | Self::Translated(value) => text(store, value),
            Self::Texts(values) => values.iter().for_each(|value| text(store, value)),
            Self::Bytes(bytes) => store.extend_from_slice(bytes),
        }
    }
}

/// The encoded header; `region` is the tag of its region (62 or 63), `entries` are in order of their tags.
pub(super) fn encode(region: u32, entries: &[(u32, Value)]) -> Vec<u8> {
    let mut index = Vec::new();
    let mut store = Vec::new();
    for (tag, value) in entries {
        store.resize(store.len().next_multiple_of(value.alignment()), 0);
        index.extend(entry(*tag, value.kind(), number(store.len()), value.count()));
        value.write(&mut store);
    }
    let index_bytes = index.len().saturating_add(ENTRY_BYTES);
    let region_entry = entry(region, BINARY, number(store.len()), ENTRY_BYTES);
    // The trailer points back to the start of the index: a negative offset.
    store.extend(entry(region, BINARY, number(index_bytes).wrapping_neg(), ENTRY_BYTES));
    let count = number(entries.len().saturating_add(1));
    let mut header = MAGIC.to_vec();
    header.extend(count.to_be_bytes());
    header.extend(number(store.len()).to_be_bytes());
    header.extend(region_entry);
    header.extend(index);
    header.extend(store);
    header
}

fn entry(tag: u32, kind: u32, offset: u32, count: usize) -> Vec<u8> {
    [tag, kind, offset, number(count)].iter().flat_map(|field| field.to_be_bytes()).collect()
}

/// Headers that are made here are far below 4 GiB.
fn number(value: usize) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}
