//! The data of one entry of a signature header, without a copy where there can be one: a part of the one buffer
//! that holds the header, or only how long it is, where nobody looks at the bytes.

use std::ops::Range;
use std::sync::Arc;

use super::budget::Buffer;

/// Zero bytes are written in pieces of this length.
const ZEROS: [u8; 4096] = [0; 4096];

/// Data of an entry. A clone costs nothing that grows with the file.
#[derive(Clone, Debug)]
pub(super) struct Data {
    bytes: Bytes,
    /// Zero bytes that follow: a reserve that grew.
    zeros: usize,
}

#[derive(Clone, Debug)]
enum Bytes {
    /// Small, or made by us.
    Own(Vec<u8>),
    /// In the buffer that holds the header.
    Part(Arc<Buffer>, Range<usize>),
    /// Left in the file: its length, and how many of its strings are not empty.
    Left { len: usize, filled: usize },
}

impl Data {
    /// These bytes of the buffer of a header.
    pub(super) const fn part(buffer: Arc<Buffer>, range: Range<usize>) -> Self {
        Self { bytes: Bytes::Part(buffer, range), zeros: 0 }
    }

    /// Data that nobody looks at.
    pub(super) const fn left(len: usize, filled: usize) -> Self {
        Self { bytes: Bytes::Left { len, filled }, zeros: 0 }
    }

    /// So many zero bytes.
    pub(super) const fn zeros(len: usize) -> Self {
        Self { bytes: Bytes::Own(Vec::new()), zeros: len }
    }

    /// The bytes but for zeros that were added; none if they were left in the file.
    pub(super) fn bytes(&self) -> &[u8] {
        match &self.bytes {
            Bytes::Own(bytes) => bytes,
            Bytes::Part(buffer, range) => buffer.get(range.clone()).unwrap_or_default(),
            Bytes::Left { .. } => &[],
        }
    }

    /// Whether the bytes were left in the file, and then how many of its strings are not empty.
    pub(super) const fn left_filled(&self) -> Option<usize> {
        match self.bytes {
            Bytes::Left { filled, .. } => Some(filled),
            Bytes::Own(_) | Bytes::Part(..) => None,
        }
    }

    /// Bytes in all.
    pub(super) fn len(&self) -> usize {
        let len = match self.bytes {
            Bytes::Left { len, .. } => len,
            Bytes::Own(_) | Bytes::Part(..) => self.bytes().len(),
        };
        len.saturating_add(self.zeros)
    }

    /// How many bytes at the end are zero.
    pub(super) fn trailing_zeros(&self) -> usize {
        self.zeros.saturating_add(self.bytes().iter().rev().take_while(|byte| **byte == 0).count())
    }

    /// The last 16 bytes.
    pub(super) fn last_16(&self) -> Option<[u8; 16]> {
        let zeros = core::iter::repeat_n(&0, self.zeros);
        let mut last: Vec<u8> = zeros.chain(self.bytes().iter().rev()).take(16).copied().collect();
        last.reverse();
        last.try_into().ok()
    }

    /// Cuts off at the end, or appends zeros.
    pub(super) fn set_len(&mut self, len: usize) {
        let have = self.bytes().len();
        match &mut self.bytes {
            Bytes::Own(bytes) if len < have => bytes.truncate(len),
            Bytes::Part(_, range) if len < have => range.end = range.start.saturating_add(len),
            Bytes::Own(_) | Bytes::Part(..) | Bytes::Left { .. } => {}
        }
        self.zeros = len.saturating_sub(self.bytes().len());
    }

    /// Hands all of it to `each`, in order.
    pub(super) fn emit(&self, each: &mut dyn FnMut(&[u8])) {
        each(self.bytes());
        emit_zeros(self.zeros, each);
    }
}

/// Hands so many zero bytes to `each`.
pub(super) fn emit_zeros(len: usize, each: &mut dyn FnMut(&[u8])) {
    let mut rest = len;
    while rest > 0 {
        let piece = ZEROS.get(..rest).unwrap_or(&ZEROS);
        each(piece);
        rest = rest.saturating_sub(piece.len());
    }
}

impl From<Vec<u8>> for Data {
    fn from(bytes: Vec<u8>) -> Self {
        Self { bytes: Bytes::Own(bytes), zeros: 0 }
    }
}

/// The same bytes, however they are held; what was left in the file equals nothing but the same length left.
impl PartialEq for Data {
    fn eq(&self, other: &Self) -> bool {
        let (short, long) = if self.bytes().len() <= other.bytes().len() {
            (self.bytes(), other.bytes())
        } else {
            (other.bytes(), self.bytes())
        };
        self.len() == other.len()
            && self.left_filled() == other.left_filled()
            && long.strip_prefix(short).is_some_and(|rest| rest.iter().all(|byte| *byte == 0))
    }
}

impl Eq for Data {}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(data: &Data) -> Vec<u8> {
        let mut bytes = Vec::new();
        data.emit(&mut |piece| bytes.extend_from_slice(piece));
        bytes
    }

    #[test]
    fn data_are_the_same_however_they_are_held() {
        let buffer = Arc::new(vec![9, 1, 2, 0, 0, 0, 9].into());
        let part = Data::part(Arc::clone(&buffer), 1..6);
        assert_eq!(part, Data::from(vec![1, 2, 0, 0, 0]));
        assert_ne!(part, Data::from(vec![1, 2, 0, 0, 1]));
        assert_ne!(part, Data::from(vec![1, 2, 0, 0]));
        assert_ne!(part, Data::left(5, 0));
        assert_eq!((part.len(), part.trailing_zeros()), (5, 3));
    }

    #[test]
    fn cutting_and_growing_gives_zeros_back() {
        for mut data in [Data::part(Arc::new(vec![7; 20].into()), 0..20), Data::from(vec![7; 20])] {
            data.set_len(10);
            assert_eq!(all(&data), [7; 10]);
            data.set_len(9000);
            assert_eq!((data.len(), data.trailing_zeros()), (9000, 8990));
            assert_eq!(all(&data), [vec![7; 10], vec![0; 8990]].concat());
            assert_eq!(data.last_16(), Some([0; 16]));
            data.set_len(12);
            assert_eq!(data.last_16(), None);
            assert_eq!(all(&data), [7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 0, 0]);
        }
    }
}
