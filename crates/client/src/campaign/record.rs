//! The journal of a campaign as bytes: a pure codec, strict, with limits. What is done with it is in `journal.rs`.
//!
//! ```text
//! head:   "SEALCAMP" | version u32 = 1 | campaign id, 16 | digest of what was asked for, 32 | begun, Unix s i64
//!         | first 8 bytes of the SHA-256 of all this
//! record: length u32 | body | first 8 bytes of the SHA-256 of the body
//! body:   kind u8 | fields; a path is its length u16 and its bytes, absolute
//! ```
//!
//! All numbers are big-endian. The file only grows: what a crash or a power cut tore is at its end.

use crate::apply::undo::{CHANGED_BYTES_MAX, PATH_BYTES_MAX, sha256};

/// Bytes of the head.
pub const HEAD_BYTES: usize = 8 + 4 + 16 + 32 + 8 + CHECK_BYTES;
/// Longest body in bytes: what changes in a file, packed, a path and some numbers.
pub const BODY_BYTES_MAX: usize = (CHANGED_BYTES_MAX as usize) * 2 + (16 << 10);
/// Bytes of a record beside its body.
pub const FRAME_BYTES: usize = 4 + CHECK_BYTES;
/// Longest text of a failure that is kept, in bytes.
const WHY_BYTES_MAX: usize = 1024;
const CHECK_BYTES: usize = 8;
/// Numbers of the kinds of records.
const KINDS: std::ops::RangeInclusive<u8> = 1..=6;
/// Bytes that are hashed in a search at most, by the bytes that are searched: each once would be a journal of nothing else.
const SEARCH_TIMES_MAX: usize = 16;
/// The same for few bytes.
const SEARCH_BYTES_MIN: usize = 1 << 20;
const MAGIC: &[u8; 8] = b"SEALCAMP";
const VERSION: u32 = 1;

/// Whose journal it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// Of this campaign alone.
    pub id: [u8; 16],
    /// SHA-256 of what was asked for.
    pub digest: [u8; 32],
    /// Unix seconds.
    pub begun: i64,
}

/// One fact.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// The plan: so many files, and their bytes.
    Planned {
        /// How many.
        files: u64,
        /// All together.
        bytes: u64,
    },
    /// A signature is about to be asked for.
    Asked {
        /// Absolute.
        path: Vec<u8>,
        /// A UUID.
        request_id: [u8; 16],
        /// What is there now.
        before: Before,
    },
    /// The file carries the new signature.
    Applied {
        /// Absolute.
        path: Vec<u8>,
        /// Bytes of the file now.
        size: u64,
        /// Of the signature's entry in the log, if it is known.
        log_index: Option<u64>,
    },
    /// It became another name of a signed file.
    Linked {
        /// Absolute.
        path: Vec<u8>,
        /// The signed file, likewise.
        leader: Vec<u8>,
    },
    /// It failed; `may_be_signed`: a signature may have been made, and its request is asked again.
    Failed {
        /// Absolute.
        path: Vec<u8>,
        /// See above.
        may_be_signed: bool,
        /// For a person.
        why: String,
    },
    /// Nothing was left to do.
    Finished,
}

/// The bytes that a signature may change, as they were.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Before {
    /// Where they begin.
    pub offset: u64,
    /// The bytes.
    pub bytes: Vec<u8>,
    /// Bytes of the whole file then.
    pub size: u64,
}

/// Why bytes are no journal of a campaign.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Malformed {
    /// Of another kind, or of a later release.
    #[error("not the journal of a campaign, version {VERSION}")]
    Version,
    /// A checksum differs: damaged.
    #[error("a checksum is wrong")]
    Checksum,
    /// It ends early, or goes on.
    #[error("a length is wrong")]
    Length,
    /// A number is beyond a limit.
    #[error("{0} is beyond the limit")]
    Limit(&'static str),
    /// A text that is not UTF-8.
    #[error("a text is not UTF-8")]
    Text,
    /// A path that is not absolute or holds a zero byte.
    #[error("a path is not absolute")]
    Path,
    /// A kind of record that this release does not know.
    #[error("a record is of an unknown kind")]
    Kind,
}

impl Head {
    /// With magic, version and checksum: [`HEAD_BYTES`].
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend(VERSION.to_be_bytes());
        bytes.extend(self.id);
        bytes.extend(self.digest);
        bytes.extend(self.begun.to_be_bytes());
        let check = check(&bytes);
        bytes.extend(check);
        bytes
    }

    /// Reads one of exactly these bytes.
    ///
    /// # Errors
    /// [`Malformed`].
    pub fn parse(bytes: &[u8]) -> Result<Self, Malformed> {
        let (content, sum) = bytes.split_last_chunk::<CHECK_BYTES>().ok_or(Malformed::Length)?;
        let mut cursor = Cursor(content);
        if cursor.array::<8>()? != *MAGIC || u32::from_be_bytes(cursor.array()?) != VERSION {
            return Err(Malformed::Version);
        }
        if check(content) != *sum {
            return Err(Malformed::Checksum);
        }
        let head =
            Self { id: cursor.array()?, digest: cursor.array()?, begun: i64::from_be_bytes(cursor.array()?) };
        cursor.end(head)
    }
}

impl Record {
    /// With its length and checksum.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let body = self.body();
        let mut bytes = u32::try_from(body.len()).unwrap_or(u32::MAX).to_be_bytes().to_vec();
        bytes.extend_from_slice(&body);
        bytes.extend(check(&body));
        bytes
    }

    fn body(&self) -> Vec<u8> {
        let mut body = Vec::new();
        match self {
            Self::Planned { files, bytes } => {
                body.push(1);
                body.extend(files.to_be_bytes());
                body.extend(bytes.to_be_bytes());
            }
            Self::Asked { path, request_id, before } => {
                body.push(2);
                put(&mut body, path);
                body.extend(request_id);
                body.extend(before.size.to_be_bytes());
                body.extend(before.offset.to_be_bytes());
                body.extend(u32::try_from(before.bytes.len()).unwrap_or(u32::MAX).to_be_bytes());
                pack(&before.bytes, &mut body);
            }
            Self::Applied { path, size, log_index } => {
                body.push(3);
                put(&mut body, path);
                body.extend(size.to_be_bytes());
                body.push(log_index.is_some().into());
                body.extend(log_index.unwrap_or_default().to_be_bytes());
            }
            Self::Linked { path, leader } => {
                body.push(4);
                put(&mut body, path);
                put(&mut body, leader);
            }
            Self::Failed { path, may_be_signed, why } => {
                body.push(5);
                put(&mut body, path);
                body.push((*may_be_signed).into());
                put(
                    &mut body,
                    why.get(..why.floor_char_boundary(WHY_BYTES_MAX)).unwrap_or_default().as_bytes(),
                );
            }
            Self::Finished => body.push(6),
        }
        body
    }

    /// Reads a body whose checksum was right.
    ///
    /// # Errors
    /// [`Malformed`].
    pub fn parse(body: &[u8]) -> Result<Self, Malformed> {
        let mut cursor = Cursor(body);
        let [kind] = cursor.array()?;
        let record = match kind {
            1 => Self::Planned { files: cursor.u64()?, bytes: cursor.u64()? },
            2 => {
                let (path, request_id) = (cursor.path()?, cursor.array()?);
                let (size, offset) = (cursor.u64()?, cursor.u64()?);
                let len = u64::from(u32::from_be_bytes(cursor.array()?));
                if len > CHANGED_BYTES_MAX {
                    return Err(Malformed::Limit("the number of bytes that change"));
                }
                let bytes = unpack(&mut cursor, usize::try_from(len).unwrap_or(usize::MAX))?;
                Self::Asked { path, request_id, before: Before { offset, bytes, size } }
            }
            3 => {
                let (path, size) = (cursor.path()?, cursor.u64()?);
                let (known, index) = (cursor.flag()?, cursor.u64()?);
                if !known && index != 0 {
                    return Err(Malformed::Limit("the index of an entry that is not known"));
                }
                Self::Applied { path, size, log_index: known.then_some(index) }
            }
            4 => Self::Linked { path: cursor.path()?, leader: cursor.path()? },
            5 => {
                let (path, may_be_signed) = (cursor.path()?, cursor.flag()?);
                let why = cursor.short("the length of a text", WHY_BYTES_MAX)?;
                let why = core::str::from_utf8(why).map_err(|_| Malformed::Text)?.to_owned();
                Self::Failed { path, may_be_signed, why }
            }
            6 => Self::Finished,
            _ => return Err(Malformed::Kind),
        };
        cursor.end(record)
    }
}

/// The body of the first record of `bytes`, and how many bytes the record has.
///
/// # Errors
/// [`Malformed::Length`] if it does not end here; [`Malformed::Checksum`].
pub fn first(bytes: &[u8]) -> Result<(&[u8], usize), Malformed> {
    let mut cursor = Cursor(bytes);
    let len = usize::try_from(u32::from_be_bytes(cursor.array()?)).unwrap_or(usize::MAX);
    if len > BODY_BYTES_MAX {
        return Err(Malformed::Limit("the length of a record"));
    }
    let body = cursor.take(len)?;
    if check(body) != cursor.array::<CHECK_BYTES>()? {
        return Err(Malformed::Checksum);
    }
    Ok((body, len.saturating_add(FRAME_BYTES)))
}

/// Where the next whole record begins behind a place that is none, which is the first byte of `bytes`.
///
/// # Errors
/// [`Malformed::Limit`] if there is so much that could be one that looking on would take long: these are no bytes of a
/// journal, torn or damaged.
pub fn next(bytes: &[u8]) -> Result<Option<usize>, Malformed> {
    let work_max = bytes.len().saturating_mul(SEARCH_TIMES_MAX).max(SEARCH_BYTES_MIN);
    let mut work = 0usize;
    for from in 1..bytes.len() {
        let rest = bytes.get(from..).unwrap_or_default();
        let Some((len, body)) = rest.split_first_chunk::<4>() else { break };
        let len = usize::try_from(u32::from_be_bytes(*len)).unwrap_or(usize::MAX);
        let fits = len <= BODY_BYTES_MAX && len.saturating_add(CHECK_BYTES) <= body.len();
        if len == 0 || !fits || !body.first().is_some_and(|kind| KINDS.contains(kind)) {
            continue;
        }
        work = work.saturating_add(len);
        if work > work_max {
            return Err(Malformed::Limit("what could be a record behind a damaged place"));
        }
        if first(rest).is_ok_and(|(body, _)| Record::parse(body).is_ok()) {
            return Ok(Some(from));
        }
    }
    Ok(None)
}

fn check(bytes: &[u8]) -> [u8; CHECK_BYTES] {
    sha256(bytes).first_chunk().copied().unwrap_or_default()
}

fn put(body: &mut Vec<u8>, bytes: &[u8]) {
    body.extend(u16::try_from(bytes.len()).unwrap_or(u16::MAX).to_be_bytes());
    body.extend_from_slice(bytes.get(..usize::from(u16::MAX)).unwrap_or(bytes));
}

/// Shortest run of zeros that is not written out.
const RUN_BYTES_MIN: usize = 8;

/// Pieces: length u16 of bytes as they are, the bytes, length u16 of zeros after them. Reserves are zeros.
fn pack(mut bytes: &[u8], to: &mut Vec<u8>) {
    while !bytes.is_empty() {
        let plain = run_start(bytes).min(usize::from(u16::MAX));
        let (head, rest) = bytes.split_at_checked(plain).unwrap_or((bytes, &[]));
        put(to, head);
        let zeros = rest.iter().take(usize::from(u16::MAX)).take_while(|byte| **byte == 0).count();
        to.extend(u16::try_from(zeros).unwrap_or(u16::MAX).to_be_bytes());
        bytes = rest.get(zeros..).unwrap_or_default();
    }
}

/// Where the first long run of zeros begins, or the end; looked for as far as one piece goes.
fn run_start(bytes: &[u8]) -> usize {
    let mut run = 0usize;
    let farthest = usize::from(u16::MAX).saturating_add(RUN_BYTES_MIN);
    for (at, byte) in bytes.iter().take(farthest).enumerate() {
        run = if *byte == 0 { run.saturating_add(1) } else { 0 };
        if run == RUN_BYTES_MIN {
            return at.saturating_add(1).saturating_sub(RUN_BYTES_MIN);
        }
    }
    bytes.len()
}

fn unpack(cursor: &mut Cursor<'_>, len: usize) -> Result<Vec<u8>, Malformed> {
    let mut bytes = Vec::with_capacity(len);
    while bytes.len() < len {
        let plain = cursor.short("the length of a piece", usize::from(u16::MAX))?;
        let zeros = usize::from(u16::from_be_bytes(cursor.array()?));
        if (plain.is_empty() && zeros == 0)
            || bytes.len().saturating_add(plain.len()).saturating_add(zeros) > len
        {
            return Err(Malformed::Length);
        }
        bytes.extend_from_slice(plain);
        bytes.resize(bytes.len().saturating_add(zeros), 0);
    }
    Ok(bytes)
}

struct Cursor<'a>(&'a [u8]);

impl<'a> Cursor<'a> {
    fn take(&mut self, len: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.0.split_at_checked(len).ok_or(Malformed::Length)?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (taken, rest) = self.0.split_first_chunk::<N>().ok_or(Malformed::Length)?;
        self.0 = rest;
        Ok(*taken)
    }

    fn u64(&mut self) -> Result<u64, Malformed> {
        self.array().map(u64::from_be_bytes)
    }

    fn flag(&mut self) -> Result<bool, Malformed> {
        match self.array()? {
            [0] => Ok(false),
            [1] => Ok(true),
            [_] => Err(Malformed::Limit("a flag")),
        }
    }

    fn short(&mut self, what: &'static str, max: usize) -> Result<&'a [u8], Malformed> {
        let len = usize::from(u16::from_be_bytes(self.array()?));
        if len > max { Err(Malformed::Limit(what)) } else { self.take(len) }
    }

    fn path(&mut self) -> Result<Vec<u8>, Malformed> {
        let path = self.short("the length of a path", PATH_BYTES_MAX)?;
        if !path.starts_with(b"/") || path.contains(&0) {
            return Err(Malformed::Path);
        }
        Ok(path.to_vec())
    }

    fn end<T>(self, value: T) -> Result<T, Malformed> {
        if self.0.is_empty() { Ok(value) } else { Err(Malformed::Length) }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn path() -> impl Strategy<Value = Vec<u8>> {
        proptest::collection::vec(1u8.., 0..200).prop_map(|tail| [b"/".as_slice(), &tail].concat())
    }

    fn before() -> impl Strategy<Value = Before> {
        let piece = prop_oneof![
            proptest::collection::vec(any::<u8>(), 0..200),
            (0usize..70_000).prop_map(|len| vec![0; len]),
        ];
        (any::<u64>(), any::<u64>(), proptest::collection::vec(piece, 0..4))
            .prop_map(|(offset, size, pieces)| Before { offset, size, bytes: pieces.concat() })
    }

    fn record() -> impl Strategy<Value = Record> {
        prop_oneof![
            (any::<u64>(), any::<u64>()).prop_map(|(files, bytes)| Record::Planned { files, bytes }),
            (path(), any::<[u8; 16]>(), before()).prop_map(|(path, request_id, before)| Record::Asked {
                path,
                request_id,
                before
            }),
            (path(), any::<u64>(), any::<Option<u64>>())
                .prop_map(|(path, size, log_index)| Record::Applied { path, size, log_index }),
            (path(), path()).prop_map(|(path, leader)| Record::Linked { path, leader }),
            (path(), any::<bool>(), ".{0,200}").prop_map(|(path, may_be_signed, why)| Record::Failed {
                path,
                may_be_signed,
                why
            }),
            Just(Record::Finished),
        ]
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_again(record in record()) {
            let bytes = record.encode();
            let (body, len) = first(&bytes).unwrap();
            prop_assert_eq!(len, bytes.len());
            prop_assert_eq!(Record::parse(body).unwrap(), record);
        }

        #[test]
        fn a_record_that_is_cut_or_changed_anywhere_is_refused(record in record(), at: proptest::sample::Index) {
            let bytes = record.encode();
            let at = at.index(bytes.len());
            prop_assert!(first(&bytes[..at]).is_err());
            let mut changed = bytes;
            changed[at] ^= 1;
            prop_assert!(first(&changed).is_err());
        }

        #[test]
        fn any_bytes_are_read_or_refused_and_never_grow_beyond_what_they_say(bytes: Vec<u8>) {
            let _ = Record::parse(&bytes);
            let _ = Head::parse(&bytes);
            let _ = first(&bytes);
        }
    }

    #[test]
    fn a_text_that_is_not_utf_8_and_an_index_that_is_not_known_are_refused() {
        let path = [0, 2, b'/', b'a'];
        let failed = |why: &[u8]| Record::parse(&[&[5], path.as_slice(), &[0, 0, 2], why].concat());
        assert!(failed(b"ab").is_ok());
        assert_eq!(failed(b"\xffa"), Err(Malformed::Text));
        let applied = |known: u8| {
            Record::parse(&[&[3], path.as_slice(), &[0; 8], &[known], &7u64.to_be_bytes()].concat())
        };
        assert!(applied(1).is_ok());
        assert!(matches!(applied(0), Err(Malformed::Limit(_))));
    }

    #[test]
    fn the_next_whole_record_is_found_behind_any_bytes_and_a_search_without_end_is_given_up() {
        let record = Record::Linked { path: b"/a".to_vec(), leader: b"/b".to_vec() }.encode();
        for junk in [vec![0; 50], vec![0xff; 3], record[..record.len() - 1].to_vec()] {
            let bytes = [junk.as_slice(), &record, &[1; 9]].concat();
            assert_eq!(next(&bytes), Ok(Some(junk.len())));
        }
        assert_eq!(next(&record), Ok(None), "the first byte is that of the damaged place");
        // Each fifth byte begins what could be a record of 65,535 bytes.
        let hostile = [0, 0, 0xff, 0xff, 1].repeat(100_000);
        assert!(matches!(next(&hostile), Err(Malformed::Limit(_))));
    }

    #[test]
    fn bytes_without_zeros_are_packed_in_time_that_grows_with_their_number() {
        let before = Before { offset: 0, bytes: vec![7; 300_000], size: 300_000 };
        let bytes = Record::Asked { path: b"/a".to_vec(), request_id: [0; 16], before }.encode();
        assert!(bytes.len() < 300_100);
        // A run that is in no piece that begins here is not looked for.
        let far = [vec![7; 70_000], vec![0; 100]].concat();
        assert_eq!(run_start(&far), far.len());
    }

    #[test]
    fn a_reserve_of_zeros_costs_a_few_bytes() {
        let bytes = [vec![7; 400], vec![0; 4128], vec![9; 16]].concat();
        let before = Before { offset: 96, bytes, size: 1 << 20 };
        let record = Record::Asked { path: b"/a".to_vec(), request_id: [0; 16], before };
        assert!(record.encode().len() < 500);
    }

    #[test]
    fn the_head_is_read_again_and_refused_when_it_is_damaged_or_of_another_kind() {
        let head = Head { id: [1; 16], digest: [2; 32], begun: 3 };
        let bytes = head.encode();
        assert_eq!(bytes.len(), HEAD_BYTES);
        assert_eq!(Head::parse(&bytes), Ok(head));
        let mut damaged = bytes.clone();
        damaged[20] ^= 1;
        assert_eq!(Head::parse(&damaged), Err(Malformed::Checksum));
        let mut other = bytes;
        other[0] = b'X';
        assert_eq!(Head::parse(&other), Err(Malformed::Version));
    }
}
