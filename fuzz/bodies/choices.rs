//! Decisions that a fuzzer makes: taken from the head of its input, so that what follows stays whole. An input that
//! has ended gives zeros, which are always the plain choice.
#![allow(dead_code, reason = "each target uses its part")]

/// What is left of the input.
pub(crate) struct Choices<'a>(&'a [u8]);

impl<'a> Choices<'a> {
    pub(crate) const fn new(data: &'a [u8]) -> Self {
        Self(data)
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn byte(&mut self) -> u8 {
        let Some((&first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        first
    }

    pub(crate) fn flag(&mut self) -> bool {
        self.byte() & 1 == 1
    }

    pub(crate) fn number(&mut self) -> u16 {
        u16::from_be_bytes([self.byte(), self.byte()])
    }

    /// One of `all`.
    pub(crate) fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[usize::from(self.byte()) % all.len()]
    }

    /// That many bytes, the missing ones zero.
    pub(crate) fn bytes(&mut self, len: usize) -> Vec<u8> {
        let (head, rest) = self.0.split_at(len.min(self.0.len()));
        self.0 = rest;
        let mut bytes = head.to_vec();
        bytes.resize(len, 0);
        bytes
    }

    /// Everything else.
    pub(crate) fn rest(self) -> &'a [u8] {
        self.0
    }
}
