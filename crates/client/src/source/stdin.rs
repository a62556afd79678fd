//! Standard input as a source: it can be read once, so only formats that stream can take it.

use std::io::{self, Read};

/// What a user writes for standard input.
pub const NAME: &str = "-";

/// Counts what passes, so that the report knows how much was read.
#[derive(Debug)]
pub struct Counted<R> {
    inner: R,
    bytes: u64,
}

impl<R: Read> Counted<R> {
    /// Wraps a reader.
    pub const fn new(inner: R) -> Self {
        Self { inner, bytes: 0 }
    }

    /// Bytes that were read so far.
    pub const fn read_bytes(&self) -> u64 {
        self.bytes
    }
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let n = self.inner.read(buf)?;
        self.bytes = self.bytes.saturating_add(u64::try_from(n).unwrap_or(u64::MAX));
        Ok(n)
    }
}
