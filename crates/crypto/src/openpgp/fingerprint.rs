//! Fingerprints of OpenPGP keys (RFC 9580 section 5.5.4).

use crate::algorithm::KeyVersion;
use crate::digest::to_hex;
use crate::error::Error;

/// The fingerprint of a version 4 key (SHA-1, 20 bytes) or of a version 6 key (SHA-256, 32 bytes).
/// It displays as lower-case hexadecimal.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Fingerprint(Bytes);

#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Bytes {
    V4([u8; 20]),
    V6([u8; 32]),
}

impl Fingerprint {
    /// The fingerprint of a version 4 key.
    #[must_use]
    pub const fn v4(bytes: [u8; 20]) -> Self {
        Self(Bytes::V4(bytes))
    }

    /// The fingerprint of a version 6 key.
    #[must_use]
    pub const fn v6(bytes: [u8; 32]) -> Self {
        Self(Bytes::V6(bytes))
    }

    /// Reads the 20 or 32 bytes.
    ///
    /// # Errors
    /// [`Error::Malformed`] for every other length.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, Error> {
        if let Ok(v4) = bytes.try_into() {
            Ok(Self::v4(v4))
        } else if let Ok(v6) = bytes.try_into() {
            Ok(Self::v6(v6))
        } else {
            Err(Error::malformed("fingerprint", "it has neither 20 nor 32 bytes"))
        }
    }

    /// Reads what people paste: upper or lower case, blanks anywhere, `0x` in front.
    ///
    /// # Errors
    /// [`Error::Malformed`] if it is not 40 or 64 hexadecimal digits.
    pub fn from_hex(text: &str) -> Result<Self, Error> {
        let text = text.trim();
        let text = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")).unwrap_or(text);
        let mut bytes = Vec::with_capacity(32);
        let mut high = None;
        for digit in text.chars().filter(|c| !c.is_ascii_whitespace()) {
            let value = digit
                .to_digit(16)
                .and_then(|value| u8::try_from(value).ok())
                .ok_or_else(|| Error::malformed("fingerprint", "a character is not a hexadecimal digit"))?;
            if let Some(first) = high.take() {
                bytes.push((first << 4) | value);
            } else if bytes.len() == 32 {
                return Err(Error::malformed("fingerprint", "it has more than 64 digits"));
            } else {
                high = Some(value);
            }
        }
        if high.is_some() {
            return Err(Error::malformed("fingerprint", "it has an odd number of digits"));
        }
        Self::from_bytes(&bytes)
    }

    /// The 20 or 32 bytes.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8] {
        match &self.0 {
            Bytes::V4(bytes) => bytes,
            Bytes::V6(bytes) => bytes,
        }
    }

    /// The version of the key.
    #[must_use]
    pub const fn version(&self) -> KeyVersion {
        match self.0 {
            Bytes::V4(_) => KeyVersion::V4,
            Bytes::V6(_) => KeyVersion::V6,
        }
    }

    /// The version of the key: 4 or 6.
    #[must_use]
    pub const fn key_version(&self) -> u8 {
        self.version().number()
    }

    /// The key id: the last eight bytes of a version 4 fingerprint, the first eight of a version 6 one.
    #[must_use]
    pub fn key_id(&self) -> [u8; 8] {
        let id = match &self.0 {
            Bytes::V4(bytes) => bytes.last_chunk::<8>(),
            Bytes::V6(bytes) => bytes.first_chunk::<8>(),
        };
        id.copied().unwrap_or_default()
    }

    /// [`Self::key_id`] as 16 lower-case digits.
    #[must_use]
    pub fn key_id_hex(&self) -> String {
        to_hex(&self.key_id())
    }
}

impl core::fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(&to_hex(self.as_bytes()))
    }
}

impl core::fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Fingerprint({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_displayed_parses_back() {
        for fingerprint in [Fingerprint::v4([0xa5; 20]), Fingerprint::v6([0x01; 32])] {
            assert_eq!(Fingerprint::from_hex(&fingerprint.to_string()).unwrap(), fingerprint);
        }
    }

    #[test]
    fn blanks_upper_case_and_prefix_are_accepted() {
        let want = Fingerprint::v4([0xab; 20]);
        assert_eq!(Fingerprint::from_hex(&format!(" 0x{} ", "AB ".repeat(20))).unwrap(), want);
    }

    #[test]
    fn other_lengths_and_letters_are_refused() {
        for bad in ["", "ab", &"ab".repeat(19), &"ab".repeat(33), &"a".repeat(41), &"zz".repeat(20)] {
            assert!(Fingerprint::from_hex(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn the_key_id_is_the_tail_in_version_4_and_the_head_in_version_6() {
        let mut v4 = [0; 20];
        v4[12..].copy_from_slice(&[1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(Fingerprint::v4(v4).key_id_hex(), "0102030405060708");
        let mut v6 = [0; 32];
        v6[..8].copy_from_slice(&[1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(Fingerprint::v6(v6).key_id_hex(), "0102030405060708");
    }
}
