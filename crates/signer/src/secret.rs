//! Secret bytes: in locked memory (`memory.rs`), zeroed when dropped, without Debug, Display or comparison, so that
//! they reach no log line. Copies share the bytes.

use std::ops::Range;
use std::sync::Arc;

use crate::error::Error;
use crate::memory::Locked;

/// Secret bytes of any length.
#[derive(Clone)]
pub(crate) struct Secret {
    bytes: Arc<Locked>,
    range: Range<usize>,
}

impl Secret {
    /// The parts in a row.
    ///
    /// # Errors
    /// [`Error::Confinement`] if no memory can be locked for them; likewise below.
    pub(crate) fn joined(parts: &[&[u8]]) -> Result<Self, Error> {
        let len = parts.iter().fold(0_usize, |len, part| len.saturating_add(part.len()));
        Self::filled(len, |mut rest| {
            for part in parts {
                let (head, tail) = rest.split_at_mut_checked(part.len())?;
                head.copy_from_slice(part);
                rest = tail;
            }
            Some(())
        })?
        .ok_or(Error::Random)
    }

    /// `len` bytes that `fill` writes; `None` if it does not.
    pub(crate) fn filled(
        len: usize,
        fill: impl FnOnce(&mut [u8]) -> Option<()>,
    ) -> Result<Option<Self>, Error> {
        let mut bytes = Locked::zeroed(len)?;
        Ok(fill(bytes.bytes_mut()).map(|()| Self { bytes: Arc::new(bytes), range: 0..len }))
    }

    #[cfg(test)]
    pub(crate) fn new(bytes: Vec<u8>) -> Result<Self, Error> {
        Self::joined(&[&zeroize::Zeroizing::new(bytes)])
    }

    /// `len` random bytes.
    ///
    /// # Errors
    /// [`Error::Random`] also.
    pub(crate) fn random(len: usize) -> Result<Self, Error> {
        Self::filled(len, |bytes| fill_random(bytes).ok())?.ok_or(Error::Random)
    }

    /// The bytes. Copies of them are the caller's to zero.
    pub(crate) fn expose(&self) -> &[u8] {
        self.bytes.bytes().get(self.range.clone()).unwrap_or_default()
    }

    /// Some of the bytes, shared; `None` if there are not so many.
    pub(crate) fn part(&self, range: Range<usize>) -> Option<Self> {
        let start = self.range.start.checked_add(range.start)?;
        let end = self.range.start.checked_add(range.end)?;
        let within = start <= end && end <= self.range.end;
        within.then(|| Self { bytes: Arc::clone(&self.bytes), range: start..end })
    }
}

/// Random bytes of the system's generator, secret or not.
///
/// # Errors
/// [`Error::Random`].
pub(crate) fn fill_random(bytes: &mut [u8]) -> Result<(), Error> {
    aws_lc_rs::rand::fill(bytes).map_err(|_| Error::Random)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_within_the_whole() {
        let secret = Secret::joined(&[b"ab", b"", b"cdef"]).unwrap();
        assert_eq!(secret.expose(), b"abcdef");
        let part = secret.part(1..4).unwrap();
        assert_eq!(part.expose(), b"bcd");
        assert_eq!(part.part(1..3).unwrap().expose(), b"cd");
        assert!(part.part(1..4).is_none() && secret.part(3..7).is_none());
        assert_eq!(secret.part(6..6).unwrap().expose(), b"");
    }
}
