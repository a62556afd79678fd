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
pub(crate) const HEAD_BYTES: usize = 8 + 4 + 16 + 32 + 8 + CHECK_BYTES;
/// Longest body in bytes: what changes in a file, packed, a path and some numbers.
pub(crate) const BODY_BYTES_MAX: usize = (CHANGED_BYTES_MAX as usize) * 2 + (16 << 10);
/// Bytes of a record beside its body.
pub(crate) const FRAME_BYTES: usize = 4 + CHECK_BYTES;
/// Longest text of a failure that is kept, in bytes.
const WHY_BYTES_MAX: usize = 1024;
const CHECK_BYTES: usize = 8;
const MAGIC: &[u8; 8] = b"SEALCAMP";
const VERSION: u32 = 1;

/// Whose journal it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    /// Of this campaign alone.
    pub(crate) id: [u8; 16],
    /// SHA-256 of what was asked for.
    pub(crate) digest: [u8; 32],
    /// Unix seconds.
    pub(crate) begun: i64,
}

/// One fact.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Record {
    /// The plan: so many files, and their bytes.
    Planned { files: u64, bytes: u64 },
    /// A signature is about to be asked for.
    Asked { path: Vec<u8>, request_id: [u8; 16], before: Before },
    /// The file carries the new signature.
    Applied { path: Vec<u8>, size: u64, log_index: Option<u64> },
    /// It became another name of a signed file.
    Linked { path: Vec<u8>, leader: Vec<u8> },
    /// It failed; `may_be_signed`: a signature may have been made, and its request is asked again.
    Failed { path: Vec<u8>, may_be_signed: bool, why: String },
    /// Nothing was left to do.
    Finished,
}

/// The bytes that a signature may change, as they were.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Before {
    /// Where they begin.
    pub(crate) offset: u64,
    /// The bytes.
    pub(crate) bytes: Vec<u8>,
    /// Bytes of the whole file then.
    pub(crate) size: u64,
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
    /// A path that is not absolute or holds a zero byte.
    #[error("a path is not absolute")]
    Path,
    /// A kind of record that this release does not know.
    #[error("a record is of an unknown kind")]
    Kind,
}

impl Head {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend(VERSION.to_be_bytes());
        bytes.extend(self.id);
        bytes.extend(self.digest);
        bytes.extend(self.begun.to_be_bytes());
        let check = check(&bytes);
        bytes.extend(check);
        bytes
    }

    /// # Errors
    /// [`Malformed`].
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, Malformed> {
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
    pub(crate) fn encode(&self) -> Vec<u8> {
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
    pub(crate) fn parse(body: &[u8]) -> Result<Self, Malformed> {
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
                Self::Applied { path, size, log_index: known.then_some(index) }
            }
            4 => Self::Linked { path: cursor.path()?, leader: cursor.path()? },
            5 => {
                let (path, may_be_signed) = (cursor.path()?, cursor.flag()?);
                let why = cursor.short("the length of a text", WHY_BYTES_MAX)?;
                Self::Failed { path, may_be_signed, why: String::from_utf8_lossy(why).into_owned() }
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
pub(crate) fn first(bytes: &[u8]) -> Result<(&[u8], usize), Malformed> {
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

/// Where the first long run of zeros begins, or the end.
fn run_start(bytes: &[u8]) -> usize {
    let mut run = 0usize;
    for (at, byte) in bytes.iter().enumerate() {
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
