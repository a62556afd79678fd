//! Hexadecimal digits, and fields at the head of a slice.

/// Lower-case digits, two a byte.
pub(crate) fn to_hex(bytes: &[u8]) -> String {
    let digit = |value: u8| char::from_digit(u32::from(value), 16).unwrap_or('0');
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

/// The bytes; `None` if there is an odd number of digits, none, or something that is no digit.
pub(crate) fn from_hex(text: &str) -> Option<Vec<u8>> {
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    if pairs.is_empty() || !rest.is_empty() {
        return None;
    }
    pairs.iter().map(|[high, low]| Some((nibble(*high)? << 4) | nibble(*low)?)).collect()
}

fn nibble(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok())
}

/// Takes fields from the head of a slice; `None` when it is too short.
pub(crate) struct Reader<'a>(pub(crate) &'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(head)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*head)
    }

    pub(crate) fn u8(&mut self) -> Option<u8> {
        self.array::<1>().map(|[byte]| byte)
    }

    pub(crate) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_be_bytes)
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }

    /// Takes a field whose length stands before it in 16 bits.
    pub(crate) fn counted(&mut self) -> Option<&'a [u8]> {
        let len = self.u16()?;
        self.take(usize::from(len))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_read_in_both_cases_and_written_in_lower_case() {
        assert_eq!(from_hex("00aBFf7e").unwrap(), [0, 0xab, 0xff, 0x7e]);
        assert_eq!(to_hex(&[0, 0xab, 0xff, 0x7e]), "00abff7e");
        for bad in ["", "0", "000", "0g", "+1", " 1", "\u{e9}"] {
            assert!(from_hex(bad).is_none(), "{bad:?}");
        }
    }
}
