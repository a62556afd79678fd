//! Hash and key algorithms with their numbers in each encoding: one exhaustive table each.

use crate::error::Error;

/// Hash algorithms that a signature of ours can use. SHA-1 and MD5 are absent on purpose: we check
/// digests of packages with them (crate `formats`), and never sign with them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum HashAlgorithm {
    /// FIPS 180-4 SHA-256, the default.
    Sha256,
    /// FIPS 180-4 SHA-384.
    Sha384,
    /// FIPS 180-4 SHA-512.
    Sha512,
}

impl HashAlgorithm {
    /// All of them, for tests and help texts.
    pub const ALL: [Self; 3] = [Self::Sha256, Self::Sha384, Self::Sha512];

    /// The lower-case name used on the command line and in logs.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sha256 => "sha256",
            Self::Sha384 => "sha384",
            Self::Sha512 => "sha512",
        }
    }

    /// Length of the digest in bytes.
    #[must_use]
    pub const fn digest_len(self) -> usize {
        match self {
            Self::Sha256 => 32,
            Self::Sha384 => 48,
            Self::Sha512 => 64,
        }
    }

    /// Length of the salt that a version 6 signature hashes first, in bytes (RFC 9580 section 9.5, table 23).
    #[must_use]
    pub const fn salt_len(self) -> usize {
        match self {
            Self::Sha256 => 16,
            Self::Sha384 => 24,
            Self::Sha512 => 32,
        }
    }

    /// Length of one input block of the compression function in bytes.
    #[must_use]
    pub const fn block_len(self) -> usize {
        match self {
            Self::Sha256 => 64,
            Self::Sha384 | Self::Sha512 => 128,
        }
    }

    /// RFC 9580 section 9.5. Also the number in our wire encodings.
    #[must_use]
    pub const fn openpgp_id(self) -> u8 {
        match self {
            Self::Sha256 => 8,
            Self::Sha384 => 9,
            Self::Sha512 => 10,
        }
    }

    /// The inverse of [`Self::openpgp_id`].
    ///
    /// # Errors
    /// [`Error::Unsupported`] for every other number, SHA-1 (2) and MD5 (1) among them.
    pub fn from_openpgp_id(id: u8) -> Result<Self, Error> {
        Self::ALL
            .into_iter()
            .find(|hash| hash.openpgp_id() == id)
            .ok_or_else(|| Error::Unsupported { what: "hash algorithm", name: format!("OpenPGP id {id}") })
    }

    /// The inverse of [`Self::name`].
    ///
    /// # Errors
    /// [`Error::Unsupported`] for every other name.
    pub fn from_name(name: &str) -> Result<Self, Error> {
        Self::ALL
            .into_iter()
            .find(|hash| hash.name() == name)
            .ok_or_else(|| Error::Unsupported { what: "hash algorithm", name: name.to_owned() })
    }
}

/// Key algorithms that Sealwright can sign with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KeyAlgorithm {
    /// RSA, PKCS#1 v1.5 signatures; the modulus length in bits, [`RSA_BITS_MIN`] to [`RSA_BITS_MAX`].
    Rsa(u16),
    /// Ed25519: in a version 4 key OpenPGP algorithm 22, "EdDSA legacy" (RFC 9580 section 5.5.5.5), which old rpms
    /// and gpg read; in a version 6 key algorithm 27 (section 5.5.5.9), where 22 does not exist.
    Ed25519,
}

/// The version of an OpenPGP key, and so of its signatures (RFC 9580 sections 5.2.3 and 5.5.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum KeyVersion {
    /// RFC 4880; what every verifier reads.
    #[default]
    V4,
    /// RFC 9580; salted signatures, fingerprints of 32 bytes.
    V6,
}

impl KeyVersion {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::V4, Self::V6];

    /// The number in packets and on the wire.
    #[must_use]
    pub const fn number(self) -> u8 {
        match self {
            Self::V4 => 4,
            Self::V6 => 6,
        }
    }

    /// The inverse of [`Self::number`].
    ///
    /// # Errors
    /// [`Error::Unsupported`] for every other number.
    pub fn from_number(number: u32) -> Result<Self, Error> {
        Self::ALL
            .into_iter()
            .find(|version| u32::from(version.number()) == number)
            .ok_or_else(|| Error::Unsupported { what: "key version", name: number.to_string() })
    }
}

/// Shorter RSA keys are refused at import (NIST SP 800-131A).
pub const RSA_BITS_MIN: u16 = 2048;
/// The longest RSA modulus that aws-lc signs with.
pub const RSA_BITS_MAX: u16 = 8192;

impl KeyAlgorithm {
    /// The key algorithms that `key create` offers.
    pub const CREATABLE: [Self; 4] = [Self::Rsa(2048), Self::Rsa(3072), Self::Rsa(4096), Self::Ed25519];

    /// RFC 9580 section 9.1.
    #[must_use]
    pub const fn openpgp_id(self, version: KeyVersion) -> u8 {
        match (self, version) {
            (Self::Rsa(_), _) => 1,
            (Self::Ed25519, KeyVersion::V4) => 22,
            (Self::Ed25519, KeyVersion::V6) => 27,
        }
    }

    /// Microseconds of one processor that one signature takes, about, with its check: for shares and estimates, not for
    /// deadlines. Of RSA, private-key operations grow with the third power of the length.
    #[must_use]
    pub fn nominal_us(self) -> u32 {
        match self {
            Self::Rsa(bits) => {
                let kib = u32::from(bits).div_ceil(1024);
                kib.saturating_pow(3).saturating_mul(78)
            }
            Self::Ed25519 => 20,
        }
    }

    /// Parses what [`core::fmt::Display`] writes: `rsa4096`, `ed25519`.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for every other text, or an RSA length outside the limits.
    pub fn from_name(name: &str) -> Result<Self, Error> {
        let unsupported = || Error::Unsupported { what: "key algorithm", name: name.to_owned() };
        if name == "ed25519" {
            return Ok(Self::Ed25519);
        }
        let bits: u16 =
            name.strip_prefix("rsa").and_then(|bits| bits.parse().ok()).ok_or_else(unsupported)?;
        if (RSA_BITS_MIN..=RSA_BITS_MAX).contains(&bits) && name == format!("rsa{bits}") {
            Ok(Self::Rsa(bits))
        } else {
            Err(unsupported())
        }
    }
}

impl core::fmt::Display for KeyAlgorithm {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Rsa(bits) => write!(f, "rsa{bits}"),
            Self::Ed25519 => f.write_str("ed25519"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_longer_rsa_key_costs_more_and_4096_bits_about_5_ms() {
        let costs = [2048, 3072, 4096, 8192].map(|bits| KeyAlgorithm::Rsa(bits).nominal_us());
        assert_eq!(costs, [624, 2_106, 4_992, 39_936]);
    }

    #[test]
    fn every_hash_has_one_number_and_one_name() {
        for hash in HashAlgorithm::ALL {
            assert_eq!(HashAlgorithm::from_openpgp_id(hash.openpgp_id()).unwrap(), hash);
            assert_eq!(HashAlgorithm::from_name(hash.name()).unwrap(), hash);
        }
        for weak in [1, 2, 3, 11] {
            assert!(HashAlgorithm::from_openpgp_id(weak).is_err());
        }
    }

    #[test]
    fn key_versions_are_4_and_6_and_each_has_its_own_number_for_ed25519() {
        for version in KeyVersion::ALL {
            assert_eq!(KeyVersion::from_number(version.number().into()).unwrap(), version);
        }
        for bad in [0, 2, 3, 5, 7, 260] {
            assert!(KeyVersion::from_number(bad).is_err(), "{bad}");
        }
        assert_eq!(KeyAlgorithm::Ed25519.openpgp_id(KeyVersion::V4), 22);
        assert_eq!(KeyAlgorithm::Ed25519.openpgp_id(KeyVersion::V6), 27);
    }

    #[test]
    fn key_algorithm_names_parse_back_and_weak_ones_do_not() {
        for algorithm in KeyAlgorithm::CREATABLE {
            assert_eq!(KeyAlgorithm::from_name(&algorithm.to_string()).unwrap(), algorithm);
        }
        for bad in ["rsa1024", "rsa", "rsa04096", "rsa65535", "dsa1024", "RSA4096", ""] {
            assert!(KeyAlgorithm::from_name(bad).is_err(), "{bad}");
        }
    }
}
