//! The signature header: parsed whole (it is bounded), and rebuilt with other signatures and everything else
//! as it was. Stripping is a pure function of the header, and signing is `strip` followed by [`SignatureHeader::with`]; that is
//! why a signed package strips to the original, byte for byte (see `docs/formats/rpm.md`, "The reserve").

use super::data::{Data, emit_zeros};
use super::header::{ENTRY_BYTES, Fields, Kind, MAGIC, malformed, trailer};
use super::limits::LEAD_BYTES;
use super::signature_read::{RegionFault, WHICH};
use super::tags;
use crate::error::Error;

/// The main header starts at a multiple of it.
const ALIGNMENT: usize = 8;

/// Bytes that rpmbuild reserves: `%__gpg_reserved_space` (4096) since 4.12, 32 more since 4.14 (rpm
/// `lib/signature.c`, `rpmGenerateSignature`).
const RESERVES_AS_BUILT: [usize; 2] = [4096, 4128];

/// Ends the data of a reserve that was made longer or shorter so that the header grew by whole blocks; the
/// length that it had before follows, 8 bytes, big-endian. See `docs/adr/0010-in-place-and-undo.md`.
const GROWN_MARK: [u8; 8] = *b"SwGrown1";
/// Bytes of the mark and the number.
const GROWN_MARK_BYTES: usize = 16;
/// The number where there was no reserve at all.
const NO_RESERVE: u64 = u64::MAX;
/// Longest reserve that a mark can give back, in bytes: far above what any rpm makes.
const RESERVE_BYTES_MAX: usize = 64 << 10;
/// What a grown header costs besides its signatures at most: an entry for the reserve, its mark, alignment.
pub(super) const GROWN_BYTES_MAX: usize = ENTRY_BYTES + GROWN_MARK_BYTES + 8;

/// An entry with its data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Item {
    pub(super) tag: u32,
    pub(super) kind: Kind,
    pub(super) count: u32,
    pub(super) data: Data,
    /// The bytes that aligned it in the file that it comes from; zeros but for odd writers.
    pub(super) padding: Vec<u8>,
}

impl Item {
    /// Binary data.
    pub(super) fn binary(tag: u32, data: Vec<u8>) -> Self {
        let count = u32::try_from(data.len()).unwrap_or(u32::MAX);
        Self { tag, kind: Kind::Binary, count, data: data.into(), padding: Vec::new() }
    }

    /// An array of strings without zero bytes.
    pub(super) fn strings(tag: u32, strings: &[Vec<u8>]) -> Self {
        let count = u32::try_from(strings.len()).unwrap_or(u32::MAX);
        let data: Vec<u8> = strings.iter().flat_map(|text| text.iter().copied().chain([0])).collect();
        Self { tag, kind: Kind::StringArray, count, data: data.into(), padding: Vec::new() }
    }

    /// The strings of a string or string array; none for other types, and where the data were left in the file.
    pub(super) fn strings_of(&self) -> impl Iterator<Item = &[u8]> {
        let is_text = self.kind.element_bytes().is_none() && self.data.left_filled().is_none();
        let count = if is_text { usize::try_from(self.count).unwrap_or(usize::MAX) } else { 0 };
        self.data.bytes().split(|byte| *byte == 0).take(count)
    }

    /// How many of its strings are not empty: a file without a signature has an empty one.
    pub(super) fn filled_strings(&self) -> usize {
        self.data.left_filled().unwrap_or_else(|| self.strings_of().filter(|text| !text.is_empty()).count())
    }

    fn is_signature(&self) -> bool {
        tags::SIGNATURES.contains(&self.tag)
    }

    fn is_reserve(&self) -> bool {
        matches!(self.tag, tags::RESERVED | tags::RESERVED_SPACE) && self.kind == Kind::Binary
    }

    /// A reserve of this length, that says how long it was before.
    fn marked_reserve(tag: u32, len: usize, before: Option<usize>) -> Self {
        let number = before.map_or(NO_RESERVE, |len| u64::try_from(len).unwrap_or(NO_RESERVE));
        let mut data = vec![0; len.saturating_sub(GROWN_MARK_BYTES)];
        data.extend_from_slice(&GROWN_MARK);
        data.extend_from_slice(&number.to_be_bytes());
        Self::binary(tag, data)
    }

    /// How long the reserve was before its header grew by whole blocks, if it says so: `Some(None)` if there was
    /// none.
    fn grown_from(&self) -> Option<Option<usize>> {
        let last = self.data.last_16()?;
        let (mark, number) = last.split_last_chunk::<8>()?;
        if !self.is_reserve() || mark != GROWN_MARK {
            return None;
        }
        match u64::from_be_bytes(*number) {
            NO_RESERVE => Some(None),
            len => usize::try_from(len).ok().filter(|len| *len <= RESERVE_BYTES_MAX).map(Some),
        }
    }

    fn set_len(&mut self, len: usize) {
        self.data.set_len(len);
        self.count = u32::try_from(len).unwrap_or(u32::MAX);
    }
}

/// A parsed signature header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SignatureHeader {
    /// In index order, without the region.
    pub(super) items: Vec<Item>,
    /// Whether it has a region; only packages older than rpm 4 have none.
    pub(super) has_region: bool,
    /// What stood in the trailer of the region: 62, or 61 in old packages.
    pub(super) trailer_tag: u32,
    /// The bytes between it and the main header.
    pub(super) tail: Vec<u8>,
    /// Why it cannot be written as it was, if so: its region does not cover all entries.
    pub(super) fault: Option<RegionFault>,
}

impl SignatureHeader {
    /// Refuses what rpm cannot read although it can be written again: a region that `hdrblobVerifyRegion` refuses.
    ///
    /// # Errors
    /// [`Error::Malformed`].
    pub(super) fn check_readable(&self) -> Result<(), Error> {
        match self.fault {
            Some(RegionFault { what, fatal: true }) => {
                Err(malformed(WHICH, LEAD_BYTES, format!("it has {what}; rpm does not read it")))
            }
            Some(_) | None => self.check_types(),
        }
    }

    /// Refuses tags whose type or number of elements rpm does not take (`lib/package.c`,
    /// `headerMergeLegacySigs`): installing and querying such a package fails.
    ///
    /// # Errors
    /// [`Error::Malformed`].
    pub(super) fn check_types(&self) -> Result<(), Error> {
        for item in &self.items {
            let Some((_, kind, count)) = tags::TYPES.iter().find(|(tag, ..)| *tag == item.tag) else {
                continue;
            };
            let count_is_right =
                count.is_none_or(|count| count == item.count) && item.count <= tags::MERGED_MAX;
            if item.kind != *kind || !count_is_right {
                let (tag, id, count) = (item.tag, item.kind.id(), item.count);
                let reason = format!("rpm does not take tag {tag} with type {id} and {count} elements");
                return Err(malformed(WHICH, LEAD_BYTES, reason));
            }
        }
        Ok(())
    }

    /// The item with this tag.
    pub(super) fn find(&self, tag: u32) -> Option<&Item> {
        self.items.iter().find(|item| item.tag == tag)
    }

    /// Whether any entry holds OpenPGP signatures.
    pub(super) fn has_signatures(&self) -> bool {
        self.items.iter().any(Item::is_signature)
    }

    /// Bytes that are reserved for signatures.
    pub(super) fn reserve(&self) -> Option<usize> {
        self.items.iter().find(|item| item.is_reserve()).map(|item| item.data.len())
    }

    /// Bytes at the end of the reserve that are zero: only these are given to signatures, as only these come back.
    pub(super) fn reserve_zeros(&self) -> usize {
        self.items.iter().find(|item| item.is_reserve()).map_or(0, |item| item.data.trailing_zeros())
    }

    /// Entries of the index, and bytes of the store, as it will be written.
    pub(super) fn size(&self) -> (usize, usize) {
        let region = usize::from(self.has_region);
        (self.items.len().saturating_add(region), self.store_len())
    }

    /// The same without signatures: the header that [`Self::with`] was given, if this one is its result.
    pub(super) fn stripped(&self) -> Self {
        let mut base = self.clone();
        base.items.retain(|item| !item.is_signature());
        let Some(first_signature) = self.items.iter().position(Item::is_signature) else { return base };
        let reserve = self.items.iter().position(Item::is_reserve);
        let Some((at, reserve)) = reserve.and_then(|at| self.items.get(at).map(|item| (at, item))) else {
            return base;
        };
        if let Some(before) = reserve.grown_from() {
            if first_signature > at {
                // A mark that another tool left when it took the signatures away says nothing.
                return base;
            }
            let tag = reserve.tag;
            match (before, base.items.iter_mut().find(|item| item.is_reserve())) {
                (Some(len), Some(item)) => {
                    item.data = Data::zeros(len);
                    item.count = u32::try_from(len).unwrap_or(u32::MAX);
                }
                (_, _) => base.items.retain(|item| !item.is_reserve() || item.tag != tag),
            }
            return base;
        }
        let after = first_signature > at;
        let as_built = RESERVES_AS_BUILT.contains(&reserve.data.len());
        if after == as_built {
            let given_back = self.len().saturating_sub(base.len());
            base.resize_reserve(reserve.data.len().saturating_add(given_back));
        }
        base
    }

    /// This header, which has no signatures, with these. Where they fit into the reserve, at least one byte of
    /// it is left and the length does not change; else the reserve stays and the length grows.
    ///
    /// Which of the two happened must show, or nobody could strip it: signatures stand before the reserve if it
    /// shrank, and after it if it did not; the other way round if the reserve is now of a length that rpmbuild
    /// makes. So in every usual package they stand in tag order, as rpm writes them.
    pub(super) fn with(&self, signatures: &[Item]) -> Self {
        let Some(reserve) = self.items.iter().find(|item| item.is_reserve()) else {
            return self.inserted(signatures, false);
        };
        let len = reserve.data.len();
        let needed = self.inserted(signatures, false).len().saturating_sub(self.len());
        let left = len.saturating_sub(needed);
        let gives_zeros = reserve.data.trailing_zeros() >= needed;
        if left >= 1 && gives_zeros {
            let mut shrunk = self.inserted(signatures, RESERVES_AS_BUILT.contains(&left));
            shrunk.resize_reserve(left);
            if shrunk.stripped() == *self {
                return shrunk;
            }
        }
        // With a mark that is not ours to read, they stand after it in any case.
        self.inserted(signatures, reserve.grown_from().is_some() || !RESERVES_AS_BUILT.contains(&len))
    }

    /// This header, which has no signatures, with these, in the least length that differs from `old_len` by a
    /// multiple of `block` (bytes, padding up to the main header included). The reserve takes up what is too
    /// much, is made where there is none, and says at its end what it was. `None` where that could not be
    /// stripped to this header again.
    pub(super) fn grown(&self, signatures: &[Item], old_len: usize, block: usize) -> Option<Self> {
        let at = self.items.iter().position(Item::is_reserve);
        let reserve = at.and_then(|at| self.items.get(at));
        let before = reserve.map(|item| item.data.len());
        let mut header = self.clone();
        match (at, reserve) {
            (Some(at), Some(reserve)) => {
                if reserve.data.trailing_zeros() != reserve.data.len() {
                    return None;
                }
                let item = header.items.get_mut(at)?;
                let made = Item::marked_reserve(item.tag, GROWN_MARK_BYTES, before);
                *item = Item { padding: item.padding.clone(), ..made };
            }
            (_, _) => {
                // A v6 header has its digests and nothing of the range of old tags (rpm `lib/signature.c`).
                let v6 = header.find(tags::SHA3_256_HEADER).is_some();
                let tag = if v6 { tags::RESERVED } else { tags::RESERVED_SPACE };
                if header.find(tag).is_some() {
                    // Of another type, so no reserve; and what has a tag twice is refused when it is read again.
                    return None;
                }
                let at = header.items.iter().position(|item| item.tag > tag).unwrap_or(header.items.len());
                header.items.insert(at, Item::marked_reserve(tag, GROWN_MARK_BYTES, None));
            }
        }
        let mut header = header.inserted(signatures, false);
        let least = header.encoded_len();
        let target = if least <= old_len {
            old_len.saturating_sub(old_len.saturating_sub(least).checked_div(block)?.checked_mul(block)?)
        } else {
            old_len.checked_add(least.saturating_sub(old_len).checked_next_multiple_of(block)?)?
        };
        let len = GROWN_MARK_BYTES.checked_add(target.saturating_sub(header.len()))?;
        let item = header.items.iter_mut().find(|item| item.is_reserve())?;
        let made = Item::marked_reserve(item.tag, len, before);
        *item = Item { padding: item.padding.clone(), ..made };
        (header.encoded_len() == target && header.stripped() == *self).then_some(header)
    }

    /// Hands intro, index, store, and padding up to the main header to `each`, in order and in pieces: the whole
    /// can have 64 MiB.
    pub(super) fn emit(&self, each: &mut dyn FnMut(&[u8])) {
        let (entries, data_bytes) = self.size();
        let number = |value: usize| u32::try_from(value).unwrap_or(u32::MAX);
        let mut head = MAGIC.to_vec();
        head.extend_from_slice(&number(entries).to_be_bytes());
        head.extend_from_slice(&number(data_bytes).to_be_bytes());
        if self.has_region {
            let offset = number(data_bytes.saturating_sub(ENTRY_BYTES));
            let region = Fields { tag: tags::HEADER_SIGNATURES, kind: Kind::Binary.id(), offset, count: 16 };
            head.extend_from_slice(&region.to_bytes());
        }
        let mut at = 0usize;
        for item in &self.items {
            at = at.saturating_add(item.padding_len(at));
            let fields =
                Fields { tag: item.tag, kind: item.kind.id(), offset: number(at), count: item.count };
            head.extend_from_slice(&fields.to_bytes());
            at = at.saturating_add(item.data.len());
        }
        each(&head);
        let mut at = 0usize;
        for item in &self.items {
            let padding = item.padding_at(at);
            each(&padding);
            item.data.emit(each);
            at = at.saturating_add(padding.len()).saturating_add(item.data.len());
        }
        if self.has_region {
            each(&trailer(self.trailer_tag, number(entries)));
        }
        let tail = self.encoded_len().saturating_sub(self.len());
        if self.tail.len() == tail { each(&self.tail) } else { emit_zeros(tail, each) }
    }

    /// Length with the padding up to the main header.
    pub(super) fn encoded_len(&self) -> usize {
        self.len().next_multiple_of(ALIGNMENT)
    }

    /// Length without the padding up to the main header.
    fn len(&self) -> usize {
        let (entries, data_bytes) = self.size();
        ENTRY_BYTES.saturating_add(entries.saturating_mul(ENTRY_BYTES)).saturating_add(data_bytes)
    }

    fn store_len(&self) -> usize {
        let items = self.items.iter().fold(0usize, |len, item| {
            len.saturating_add(item.padding_len(len)).saturating_add(item.data.len())
        });
        if self.has_region { items.saturating_add(ENTRY_BYTES) } else { items }
    }

    /// With these signatures before the reserve, each in front of the first larger tag; or right after it.
    fn inserted(&self, signatures: &[Item], after_reserve: bool) -> Self {
        let mut header = self.clone();
        let reserve = header.items.iter().position(Item::is_reserve);
        let (mut from, mut until) = match reserve {
            Some(at) if after_reserve => (at.saturating_add(1), at.saturating_add(1)),
            Some(at) => (0, at),
            None => (0, header.items.len()),
        };
        let mut sorted: Vec<&Item> = signatures.iter().collect();
        sorted.sort_by_key(|item| item.tag);
        for item in sorted {
            let between = header.items.get(from..until).unwrap_or_default();
            let ahead = between.iter().position(|other| other.tag > item.tag).unwrap_or(between.len());
            let at = from.saturating_add(ahead).min(header.items.len());
            header.items.insert(at, item.clone());
            from = at.saturating_add(1);
            until = until.saturating_add(1);
        }
        header
    }

    fn resize_reserve(&mut self, len: usize) {
        if let Some(reserve) = self.items.iter_mut().find(|item| item.is_reserve()) {
            reserve.set_len(len);
        }
    }
}

impl Item {
    fn padding_len(&self, at: usize) -> usize {
        let at = u64::try_from(at).unwrap_or(u64::MAX);
        usize::try_from(self.kind.align(at).saturating_sub(at)).unwrap_or(0)
    }

    fn padding_at(&self, at: usize) -> Vec<u8> {
        let len = self.padding_len(at);
        if self.padding.len() == len { self.padding.clone() } else { vec![0; len] }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(reserve: Option<usize>) -> SignatureHeader {
        let mut items = vec![Item::binary(tags::MD5, vec![5; 16])];
        items.extend(reserve.map(|len| Item::binary(tags::RESERVED_SPACE, vec![0; len])));
        let trailer_tag = tags::HEADER_SIGNATURES;
        SignatureHeader { items, has_region: true, trailer_tag, tail: Vec::new(), fault: None }
    }

    /// As long as one of ML-DSA-87 with Ed448; no key of ours makes such signatures yet.
    fn signature() -> [Item; 1] {
        [Item::binary(tags::DSA_HEADER, vec![0x88; 5000])]
    }

    #[test]
    fn a_signature_of_5_kb_grows_the_header_by_one_block_and_takes_the_reserve_into_use() {
        let base = header(Some(4128));
        let old = base.encoded_len();
        let grown = base.grown(&signature(), old, 4096).unwrap();
        assert_eq!(grown.encoded_len(), old + 4096);
        assert_eq!(grown.stripped(), base);
        // Without blocks the reserve stays and the header grows by the signature.
        assert_eq!(base.with(&signature()).encoded_len(), old + 5016);
    }

    #[test]
    fn a_header_without_reserve_gets_one_that_strip_takes_away_again() {
        let base = header(None);
        let old = base.encoded_len();
        let grown = base.grown(&signature(), old, 4096).unwrap();
        assert_eq!(grown.encoded_len(), old + 8192);
        assert_eq!(grown.stripped(), base);
        // A shorter one in its place, at the same length or by whole blocks shorter.
        let small = [Item::binary(tags::DSA_HEADER, vec![0x88; 100])];
        let again = grown.stripped().grown(&small, grown.encoded_len(), 4096).unwrap();
        assert_eq!(again.encoded_len(), old + 4096);
        assert_eq!(again.stripped(), base);
    }

    #[test]
    fn a_reserve_with_something_in_it_is_never_taken_into_use() {
        let mut base = header(Some(100));
        base.items.iter_mut().filter(|item| item.is_reserve()).for_each(|item| {
            item.data = [vec![0; 99], vec![1]].concat().into();
        });
        assert!(base.grown(&signature(), base.encoded_len(), 4096).is_none());
    }

    #[test]
    fn a_reserve_is_not_made_where_its_tag_is_there_with_another_type() {
        for (digest, tag) in [(tags::MD5, 1008), (tags::SHA3_256_HEADER, 999)] {
            let mut base = header(None);
            base.items = vec![Item::binary(digest, vec![5; 16])];
            let old = base.encoded_len();
            assert!(base.grown(&signature(), old, 4096).unwrap().find(tag).is_some());
            base.items.push(Item { kind: Kind::Int32, count: 1, ..Item::binary(tag, vec![0; 4]) });
            assert!(base.grown(&signature(), base.encoded_len(), 4096).is_none());
        }
    }

    #[test]
    fn a_mark_that_another_tool_left_is_kept_and_means_nothing() {
        let mut left = header(None).grown(&signature(), 4304, 4096).unwrap();
        left.items.retain(|item| !item.is_signature());
        assert_eq!(left.stripped(), left, "it has no signatures");
        for (len, reserve) in [(100, 3000), (5000, 3000), (100, 4128), (100, 4096)] {
            let end = left.items.iter_mut().find(|item| item.is_reserve()).unwrap();
            *end = Item::marked_reserve(end.tag, reserve, None);
            let signed = left.with(&[Item::binary(tags::DSA_HEADER, vec![0x88; len])]);
            assert_eq!(signed.stripped(), left);
            assert!(left.grown(&signature(), 4304, 4096).is_none());
        }
    }

    #[test]
    fn a_mark_with_a_length_beyond_the_limit_is_none() {
        let mut signed = header(Some(4128)).grown(&signature(), 4304, 4096).unwrap();
        let last = signed.items.iter_mut().find(|item| item.is_reserve()).unwrap();
        let mut data = last.data.bytes().to_vec();
        let end = data.len();
        data[end - 8..].copy_from_slice(&(1u64 << 40).to_be_bytes());
        last.data = data.into();
        assert!(signed.stripped().reserve().unwrap() < RESERVE_BYTES_MAX);
    }
}
