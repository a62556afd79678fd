//! The serial number of a certificate, as it is compared.

/// An unsigned number without leading zeros, at most [`SERIAL_BYTES_MAX`] bytes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Serial(Vec<u8>);

/// Bytes of a serial number: 20 by RFC 5280 section 4.1.2.2, and some more, because not everybody keeps to it.
const SERIAL_BYTES_MAX: usize = 64;

impl Serial {
    /// From the content of the DER integer, where a leading zero byte keeps the number positive.
    pub(crate) fn from_der(bytes: &[u8]) -> Option<Self> {
        let start = bytes.iter().position(|byte| *byte != 0).unwrap_or(bytes.len());
        let bytes = bytes.get(start..).unwrap_or_default();
        (bytes.len() <= SERIAL_BYTES_MAX).then(|| Self(bytes.to_vec()))
    }

    /// From hexadecimal digits, in either case, also as `openssl x509` prints them, with colons.
    pub(crate) fn from_hex(text: &str) -> Option<Self> {
        let digits: Vec<u8> = text
            .chars()
            .filter(|c| *c != ':')
            .map(|c| c.to_digit(16).and_then(|digit| u8::try_from(digit).ok()))
            .collect::<Option<_>>()?;
        let digits: Vec<u8> = if digits.len() % 2 == 1 { [&[0], digits.as_slice()].concat() } else { digits };
        let (pairs, _) = digits.as_chunks::<2>();
        let bytes: Vec<u8> = pairs.iter().map(|[high, low]| high << 4 | low).collect();
        if bytes.is_empty() { None } else { Self::from_der(&bytes) }
    }
}

impl core::fmt::Display for Serial {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        if self.0.is_empty() {
            return f.write_str("00");
        }
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_the_same_however_it_is_written() {
        let serial = Serial::from_der(&[0, 0x8a, 0x1b]).unwrap();
        for text in ["8a1b", "8A1B", "008a1b", "8a:1b", "0:8a:1b"] {
            assert_eq!(Serial::from_hex(text), Some(serial.clone()), "{text}");
        }
        assert_eq!(serial.to_string(), "8a1b");
        assert_eq!(Serial::from_hex("0").unwrap().to_string(), "00");
        assert_eq!(Serial::from_hex("a1b").unwrap().to_string(), "0a1b");
        for text in ["", ":", "0x1b", "8a1g", "-1", &"f".repeat(129)] {
            assert_eq!(Serial::from_hex(text), None, "{text}");
        }
    }
}
