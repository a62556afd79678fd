//! How keys and requests are named: restricted ASCII names, fingerprints, and UUIDs of version 7.

use crate::limits::{KEY_NAME_BYTES_MAX, KEY_REFERENCE_BYTES_MAX, TOKEN_NAME_BYTES_MAX};
use crate::status::{Code, Fault};

/// The name of a key: 1 to 255 of `A-Z a-z 0-9 @ # . _ + -`, and nothing that [`KeyReference`] would read as a
/// fingerprint, so that a name can never stand in for another key's.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct KeyName(String);

impl KeyName {
    /// # Errors
    /// [`Code::NameNotAllowed`].
    pub fn parse(text: &str) -> Result<Self, Fault> {
        let refused = |reason: &str| {
            let shown: String = text.chars().take(64).collect();
            Err(Fault::new(Code::NameNotAllowed, format!("the name {shown:?} {reason}")))
        };
        if text.is_empty() {
            return refused("is empty");
        }
        if text.len() > KEY_NAME_BYTES_MAX {
            return refused("is longer than 255 characters");
        }
        if !text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"@#._+-".contains(&byte)) {
            return refused("has a character that is not allowed");
        }
        if text.bytes().all(|byte| byte == b'.') {
            return refused("consists of dots");
        }
        if fingerprint(text).is_some() {
            return refused("looks like a fingerprint");
        }
        Ok(Self(text.to_owned()))
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl core::fmt::Display for KeyName {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(&self.0)
    }
}

/// The name that an installation gives to a token: 1 to 64 of `A-Z a-z 0-9 . _ -`, not only dots.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TokenName(String);

impl TokenName {
    /// # Errors
    /// [`Code::NameNotAllowed`].
    pub fn parse(text: &str) -> Result<Self, Fault> {
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        let fits = (1..=TOKEN_NAME_BYTES_MAX).contains(&text.len());
        if fits && text.bytes().all(allowed) && text.bytes().any(|byte| byte != b'.') {
            return Ok(Self(text.to_owned()));
        }
        let shown: String = text.chars().take(64).collect();
        let message = format!("{shown:?} is no name of a token: 1 to 64 letters, digits and ._-");
        Err(Fault::new(Code::NameNotAllowed, message))
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl core::fmt::Display for TokenName {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(&self.0)
    }
}

/// Where a private key is: `software`, or the scheme of a kind of token and its name, `pkcs11:hsm1`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BackendName(String);

impl BackendName {
    /// Keys in the memory of the signer.
    #[must_use]
    pub fn software() -> Self {
        Self("software".to_owned())
    }

    /// A token that is spoken to by `scheme`.
    #[must_use]
    pub fn token(scheme: &str, token: &TokenName) -> Self {
        Self(format!("{scheme}:{token}"))
    }

    /// Peers that know only software keys send nothing: software.
    ///
    /// # Errors
    /// [`Code::NameNotAllowed`].
    pub fn parse(text: &str) -> Result<Self, Fault> {
        if text.is_empty() {
            return Ok(Self::software());
        }
        let (scheme, token) =
            text.split_once(':').map_or((text, None), |(scheme, token)| (scheme, Some(token)));
        let fits = (1..=16).contains(&scheme.len())
            && scheme.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
        if !fits {
            let shown: String = text.chars().take(64).collect();
            return Err(Fault::new(Code::NameNotAllowed, format!("{shown:?} is no name of a backend")));
        }
        token.map(TokenName::parse).transpose()?;
        Ok(Self(text.to_owned()))
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl core::fmt::Display for BackendName {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(&self.0)
    }
}

/// How a request names a key.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum KeyReference {
    /// By name.
    Name(KeyName),
    /// By the fingerprint of its primary key or of the component that signs: 40 or 64 lower-case hexadecimal
    /// digits.
    Fingerprint(String),
}

impl KeyReference {
    /// A fingerprint may have upper-case digits, spaces and a leading `0x`.
    ///
    /// # Errors
    /// [`Code::KeyNotFound`] for a text that cannot name a key; [`Code::LimitExceeded`].
    pub fn parse(text: &str) -> Result<Self, Fault> {
        if text.len() > KEY_REFERENCE_BYTES_MAX {
            return Err(Fault::new(Code::LimitExceeded, "the name of the key is longer than 255 characters"));
        }
        if let Some(fingerprint) = fingerprint(text) {
            return Ok(Self::Fingerprint(fingerprint));
        }
        match KeyName::parse(text) {
            Ok(name) => Ok(Self::Name(name)),
            Err(_) => Err(Fault::new(Code::KeyNotFound, format!("no key can have the name {text:?}"))),
        }
    }

    /// The name, or the fingerprint in hexadecimal.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            Self::Name(name) => name.as_str(),
            Self::Fingerprint(hex) => hex,
        }
    }
}

impl core::fmt::Display for KeyReference {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The digits of a version 4 (40) or version 6 (64) fingerprint, in lower case.
fn fingerprint(text: &str) -> Option<String> {
    let text = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")).unwrap_or(text);
    let digits: String = text.chars().filter(|c| *c != ' ').map(|c| c.to_ascii_lowercase()).collect();
    let is_hex = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    (is_hex && matches!(digits.len(), 40 | 64)).then_some(digits)
}

/// Defines a UUIDv7 (RFC 9562 section 5.7) with a type of its own.
macro_rules! uuid {
    ($(#[$doc:meta])* $name:ident, $what:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name([u8; 16]);

        impl $name {
            /// # Errors
            /// [`Code::MalformedRequest`] unless it is 16 bytes with version 7 and the RFC's variant.
            pub fn parse(bytes: &[u8]) -> Result<Self, Fault> {
                uuid_v7(bytes).map(Self).ok_or_else(|| {
                    Fault::new(Code::MalformedRequest, concat!("the ", $what, " is not a UUID of version 7"))
                })
            }

            /// The 16 bytes.
            #[must_use]
            pub const fn as_bytes(&self) -> &[u8; 16] {
                &self.0
            }
        }

        impl core::fmt::Display for $name {
            /// `xxxxxxxx-xxxx-7xxx-xxxx-xxxxxxxxxxxx`
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                for (index, byte) in self.0.iter().enumerate() {
                    if matches!(index, 4 | 6 | 8 | 10) {
                        f.write_str("-")?;
                    }
                    write!(f, "{byte:02x}")?;
                }
                Ok(())
            }
        }
    };
}

uuid!(
    /// Names one group of one client; a retry carries the same.
    RequestId, "request id"
);
uuid!(
    /// Names a key for ever; grants and sealed blobs are bound to it.
    KeyId, "key id"
);

fn uuid_v7(bytes: &[u8]) -> Option<[u8; 16]> {
    let id = <[u8; 16]>::try_from(bytes).ok()?;
    let [_, _, _, _, _, _, version, _, variant, ..] = id;
    (version >> 4 == 7 && variant >> 6 == 0b10).then_some(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_restricted_ascii_and_no_fingerprints() {
        for good in ["a", "release", "Fedora-44@rpm#1.x_y+z", "-", "a..b", &"n".repeat(255), &"ab".repeat(19)]
        {
            assert_eq!(KeyName::parse(good).unwrap().as_str(), good);
        }
        let fingerprint = "4F2A".repeat(10);
        for bad in
            ["", "..", ".", "a b", "a/b", "ä", "a\n", "a\0", &"n".repeat(256), &fingerprint, &"0".repeat(64)]
        {
            assert_eq!(KeyName::parse(bad).unwrap_err().code, Code::NameNotAllowed, "{bad:?}");
        }
    }

    #[test]
    fn references_are_names_or_fingerprints() {
        let spaced = "4F2A 0000 1111 2222 3333  4444 5555 6666 7777 91C0";
        let hex = "4f2a0000111122223333444455556666777791c0";
        assert_eq!(KeyReference::parse(spaced).unwrap(), KeyReference::Fingerprint(hex.to_owned()));
        assert_eq!(KeyReference::parse(&format!("0x{hex}")).unwrap().as_str(), hex);
        assert!(matches!(KeyReference::parse("release").unwrap(), KeyReference::Name(_)));
        assert_eq!(KeyReference::parse("a/b").unwrap_err().code, Code::KeyNotFound);
        assert_eq!(KeyReference::parse(&"x".repeat(256)).unwrap_err().code, Code::LimitExceeded);
    }

    #[test]
    fn backends_are_a_scheme_and_perhaps_a_token() {
        for good in ["software", "pkcs11:hsm1", "pkcs11:a.b_c-D", &format!("pkcs11:{}", "t".repeat(64))] {
            assert_eq!(BackendName::parse(good).unwrap().as_str(), good);
        }
        assert_eq!(BackendName::parse("").unwrap(), BackendName::software());
        let token = TokenName::parse("hsm1").unwrap();
        assert_eq!(BackendName::token("pkcs11", &token), BackendName::parse("pkcs11:hsm1").unwrap());
        for bad in [
            ":",
            ":a",
            "pkcs11:",
            "PKCS11:a",
            "pkcs11:..",
            "pkcs11:a/b",
            "a b",
            "pkcs11:a:b",
            &"s".repeat(17),
        ] {
            assert_eq!(BackendName::parse(bad).unwrap_err().code, Code::NameNotAllowed, "{bad}");
        }
        assert!(TokenName::parse(&"t".repeat(65)).is_err());
    }

    #[test]
    fn ids_are_uuids_of_version_7() {
        let mut bytes = [0x01, 0x98, 0xf3, 0, 0, 1, 0x7a, 0xbc, 0x9d, 0xef, 1, 2, 3, 4, 5, 6];
        let id = RequestId::parse(&bytes).unwrap();
        assert_eq!(id.to_string(), "0198f300-0001-7abc-9def-010203040506");
        assert!(RequestId::parse(&bytes[..15]).is_err());
        bytes[6] = 0x4a;
        assert!(RequestId::parse(&bytes).is_err());
        bytes[6] = 0x7a;
        bytes[8] = 0x1d;
        assert!(RequestId::parse(&bytes).is_err());
    }
}
