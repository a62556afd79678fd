//! Archives of cpio in its "newc" form, as obs-sign's `--bulk-cpio` reads and writes them (cpio(5)):
//!
//! ```text
//! head, 110 bytes    070701, then 13 numbers of 8 hexadecimal digits: mode is the 2nd, size the 7th, size of the name the 12th
//! name, 00           padded so that head and name are a multiple of 4
//! content            padded to a multiple of 4
//! ```
//!
//! The entry `TRAILER!!!` is the last.

use std::io::{self, Read, Take};

const HEAD_BYTES: usize = 110;
const MAGIC: &[u8] = b"070701";
/// Where the numbers are that are looked at.
const MODE_AT: usize = 14;
const SIZE_AT: usize = 54;
const NAME_SIZE_AT: usize = 94;
const NUMBER_BYTES: usize = 8;
/// obs-sign's limit.
const NAME_BYTES_MAX: u32 = 8_192;
const TRAILER: &[u8] = b"TRAILER!!!";
/// `S_IFMT` and `S_IFREG` of stat(2).
const KIND_MASK: u32 = 0o170_000;
const REGULAR: u32 = 0o100_000;
const ENDING: &[u8] = b".sig";

/// The head of an entry, and its name.
#[derive(Debug)]
pub(super) struct Entry {
    head: [u8; HEAD_BYTES],
    name: Vec<u8>,
    mode: u32,
    size: u32,
}

impl Entry {
    /// # Errors
    /// The archive ends, or this is no entry of the form.
    pub(super) fn read(archive: &mut impl Read) -> io::Result<Self> {
        let mut head = [0; HEAD_BYTES];
        archive.read_exact(&mut head)?;
        if !head.starts_with(MAGIC) {
            return Err(bad("it is no cpio archive of the form newc"));
        }
        let number = |at| number(&head, at).ok_or_else(|| bad("a number in a head of cpio is none"));
        let (mode, size, name_size) = (number(MODE_AT)?, number(SIZE_AT)?, number(NAME_SIZE_AT)?);
        if name_size > NAME_BYTES_MAX {
            return Err(bad("a name has more than 8192 bytes"));
        }
        let name_len = usize::try_from(name_size).unwrap_or(usize::MAX);
        let mut name = vec![0; name_len.saturating_add(padding(HEAD_BYTES.saturating_add(name_len)))];
        archive.read_exact(&mut name)?;
        name.truncate(name_len);
        match name.pop() {
            Some(0) if !name.contains(&0) => Ok(Self { head, name, mode, size }),
            Some(_) | None => Err(bad("a name does not end with its one zero byte")),
        }
    }

    /// Nothing follows it.
    pub(super) fn is_trailer(&self) -> bool {
        self.size == 0 && self.name == TRAILER
    }

    pub(super) const fn is_file(&self) -> bool {
        self.mode & KIND_MASK == REGULAR
    }

    /// What follows it in the archive; to be read to its end.
    pub(super) fn content<R: Read>(&self, archive: R) -> Content<R> {
        let size = u64::from(self.size);
        let pad = padding(usize::try_from(self.size).unwrap_or(usize::MAX));
        Content { left: archive.take(size), pad: u64::try_from(pad).unwrap_or(u64::MAX) }
    }

    /// Head and name, as they came.
    pub(super) fn head(&self) -> Vec<u8> {
        written(&self.head, &self.name)
    }

    /// An entry of the same kind, with its name and an ending, that has this content.
    pub(super) fn signature(&self, content: &[u8]) -> Vec<u8> {
        let name = [&self.name[..], ENDING].concat();
        let mut head = self.head;
        put(&mut head, SIZE_AT, content.len());
        put(&mut head, NAME_SIZE_AT, name.len().saturating_add(1));
        let mut out = written(&head, &name);
        out.extend_from_slice(content);
        pad(&mut out);
        out
    }
}

/// The content of an entry.
pub(super) struct Content<R> {
    left: Take<R>,
    pad: u64,
}

impl<R: Read> Read for Content<R> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let wanted = self.left.limit();
        match self.left.read(bytes)? {
            0 if wanted > 0 && !bytes.is_empty() => Err(io::ErrorKind::UnexpectedEof.into()),
            len => Ok(len),
        }
    }
}

impl<R: Read> Content<R> {
    /// Takes what is between it and the next entry.
    pub(super) fn finish(self) -> io::Result<()> {
        let mut archive = self.left.into_inner();
        let mut pad = vec![0; usize::try_from(self.pad).unwrap_or_default()];
        archive.read_exact(&mut pad)
    }
}

fn bad(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

fn number(head: &[u8; HEAD_BYTES], at: usize) -> Option<u32> {
    let digits = head.get(at..at.saturating_add(NUMBER_BYTES))?;
    // from_str_radix takes a sign, too.
    let digits = digits.iter().all(u8::is_ascii_hexdigit).then(|| core::str::from_utf8(digits).ok())??;
    u32::from_str_radix(digits, 16).ok()
}

fn put(head: &mut [u8; HEAD_BYTES], at: usize, number: usize) {
    let digits = format!("{:08X}", u32::try_from(number).unwrap_or(u32::MAX));
    if let Some(place) = head.get_mut(at..at.saturating_add(NUMBER_BYTES)) {
        place.copy_from_slice(digits.as_bytes());
    }
}

fn written(head: &[u8; HEAD_BYTES], name: &[u8]) -> Vec<u8> {
    let mut out = [&head[..], name, &[0]].concat();
    pad(&mut out);
    out
}

fn pad(out: &mut Vec<u8>) {
    out.resize(out.len().saturating_add(padding(out.len())), 0);
}

/// To a multiple of four.
const fn padding(len: usize) -> usize {
    len.wrapping_neg() & 3
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(mode: u32, name: &str, content: &[u8]) -> Vec<u8> {
        let mut head = [b'0'; HEAD_BYTES];
        head[..6].copy_from_slice(MAGIC);
        head[MODE_AT..SIZE_AT][..8].copy_from_slice(format!("{mode:08X}").as_bytes());
        put(&mut head, SIZE_AT, content.len());
        put(&mut head, NAME_SIZE_AT, name.len().saturating_add(1));
        let mut out = written(&head, name.as_bytes());
        out.extend_from_slice(content);
        pad(&mut out);
        out
    }

    #[test]
    fn entries_are_read_one_after_the_other_whatever_their_length() {
        let archive = [
            entry(0o100_644, "a", b"12345"),
            entry(0o40_755, "folder", b""),
            entry(0o100_600, "long-name", b"1234"),
            entry(0, "TRAILER!!!", b""),
        ]
        .concat();
        let mut left = archive.as_slice();
        let mut seen = Vec::new();
        loop {
            let entry = Entry::read(&mut left).unwrap();
            if entry.is_trailer() {
                break;
            }
            let mut content = entry.content(&mut left);
            let mut bytes = Vec::new();
            content.read_to_end(&mut bytes).unwrap();
            content.finish().unwrap();
            seen.push((String::from_utf8(entry.name.clone()).unwrap(), entry.is_file(), bytes));
        }
        let expected = [("a", true, &b"12345"[..]), ("folder", false, b""), ("long-name", true, b"1234")];
        assert_eq!(seen, expected.map(|(name, is_file, bytes)| (name.to_owned(), is_file, bytes.to_vec())));
        assert!(left.is_empty());
    }

    #[test]
    fn a_signature_has_the_name_of_its_file_and_its_own_size() {
        let bytes = entry(0o100_644, "ab", b"content");
        let signed = Entry::read(&mut bytes.as_slice()).unwrap().signature(&[7; 5]);
        let mut left = signed.as_slice();
        let read = Entry::read(&mut left).unwrap();
        assert_eq!((read.name.as_slice(), read.size, read.mode), (&b"ab.sig"[..], 5, 0o100_644));
        assert_eq!(left, [7, 7, 7, 7, 7, 0, 0, 0]);
    }

    #[test]
    fn what_is_no_entry_is_refused_and_takes_no_memory() {
        let good = entry(0o100_644, "ab", b"content");
        let with = |at: usize, bytes: &[u8]| {
            let mut bad = good.clone();
            bad[at..at + bytes.len()].copy_from_slice(bytes);
            Entry::read(&mut bad.as_slice()).unwrap_err().to_string()
        };
        assert!(with(0, b"070702").contains("newc"));
        assert!(with(NAME_SIZE_AT, b"FFFFFFFF").contains("8192"));
        assert!(with(SIZE_AT, b"+0000001").contains("number"));
        assert!(with(NAME_SIZE_AT, b"00000000").contains("zero byte"));
        assert!(with(HEAD_BYTES, &[0]).contains("zero byte"));
        assert!(Entry::read(&mut &good[..100]).is_err());
        let mut content = Vec::new();
        let mut left = &good[..good.len() - 4];
        let read = Entry::read(&mut left).unwrap();
        assert!(read.content(&mut left).read_to_end(&mut content).is_err(), "it is cut short");
    }
}
