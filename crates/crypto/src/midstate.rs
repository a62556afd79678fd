//! The state of a SHA-2 computation on the wire, in an encoding of our own (the `sha2` crate promises its
//! own layout within one minor series only). `docs/WIRE.md` has the byte table.
//!
//! ```text
//! offset  length  field
//! 0       1       version, 1
//! 1       1       hash algorithm, the OpenPGP number (8, 9, 10)
//! 2       32/64   chaining value, eight words, big-endian (64 for SHA-384 and SHA-512)
//! 34/66   8       bytes hashed so far, big-endian; at most CONTENT_BYTES_MAX
//! 42/74   0..     the bytes after the last whole block: exactly (bytes so far) mod (block length)
//! ```
//!
//! Who hashes: the sender everything up to here; the key holder appends its own part and finishes.

use crate::algorithm::HashAlgorithm;
use crate::digest::{Chaining, Hasher};
use crate::error::Error;

/// The only version so far.
pub const VERSION: u8 = 1;

/// Most bytes that a midstate may stand for: 2^60, an exbibyte. The key holder appends a few hundred bytes
/// and multiplies by eight, so no length can overflow from here.
pub const CONTENT_BYTES_MAX: u64 = 1 << 60;

/// Longest encoding in bytes: SHA-512 with a full tail.
pub const ENCODED_BYTES_MAX: usize = 1 + 1 + 64 + 8 + 127;

/// A checked hash state. It hides what was hashed: whoever resumes it signs blind.
#[derive(Clone)]
pub struct Midstate {
    hasher: Hasher,
}

impl core::fmt::Debug for Midstate {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Midstate({}, {} bytes)", self.hasher.hash.name(), self.hasher.total)
    }
}

impl PartialEq for Midstate {
    fn eq(&self, other: &Self) -> bool {
        self.encode() == other.encode()
    }
}

impl Eq for Midstate {}

impl Midstate {
    pub(crate) fn of(hasher: &Hasher) -> Self {
        Self { hasher: hasher.clone() }
    }

    /// The algorithm.
    #[must_use]
    pub const fn hash(&self) -> HashAlgorithm {
        self.hasher.hash
    }

    /// How many bytes it stands for, as its maker says.
    #[must_use]
    pub const fn content_len(&self) -> u64 {
        self.hasher.total
    }

    /// A hasher that goes on where the maker stopped.
    #[must_use]
    pub fn resume(&self) -> Hasher {
        self.hasher.clone()
    }

    /// The encoding described above, at most [`ENCODED_BYTES_MAX`] bytes.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![VERSION, self.hasher.hash.openpgp_id()];
        out.extend(self.hasher.chaining.to_bytes());
        out.extend(self.hasher.total.to_be_bytes());
        out.extend(&self.hasher.tail);
        out
    }

    /// Reads one, strictly: `decode(encode(x)) == x`, and nothing else is accepted.
    ///
    /// # Errors
    /// [`Error::Malformed`] for a wrong version or length, more than [`CONTENT_BYTES_MAX`] bytes, or a state
    /// that no content of its length can have; [`Error::Unsupported`] for another hash algorithm.
    pub fn decode(bytes: &[u8]) -> Result<Self, Error> {
        let bad = |reason| Error::malformed("midstate", reason);
        let (&version, rest) = bytes.split_first().ok_or_else(|| bad("empty"))?;
        if version != VERSION {
            return Err(Error::Unsupported { what: "midstate version", name: version.to_string() });
        }
        let (&hash, rest) = rest.split_first().ok_or_else(|| bad("truncated before the algorithm"))?;
        let hash = HashAlgorithm::from_openpgp_id(hash)?;
        let (chaining, rest) = take_chaining(hash, rest).ok_or_else(|| bad("truncated chaining value"))?;
        let (total, tail) = rest.split_first_chunk::<8>().ok_or_else(|| bad("truncated length"))?;
        let total = u64::from_be_bytes(*total);
        if total > CONTENT_BYTES_MAX {
            return Err(bad("it stands for more than 2^60 bytes"));
        }
        let block = u64::try_from(hash.block_len()).unwrap_or(u64::MAX);
        if total.checked_rem(block) != u64::try_from(tail.len()).ok() {
            return Err(bad("the tail's length is not the length modulo the block"));
        }
        if total < block && chaining != Chaining::initial(hash) {
            return Err(bad("less than one block was hashed, yet the state is not the initial one"));
        }
        Ok(Self { hasher: Hasher { hash, chaining, total, tail: tail.to_vec() } })
    }
}

fn take_chaining(hash: HashAlgorithm, bytes: &[u8]) -> Option<(Chaining, &[u8])> {
    match hash {
        HashAlgorithm::Sha256 => {
            let (head, rest) = bytes.split_first_chunk::<32>()?;
            let mut words = [0; 8];
            for (word, chunk) in words.iter_mut().zip(head.as_chunks::<4>().0) {
                *word = u32::from_be_bytes(*chunk);
            }
            Some((Chaining::Narrow(words), rest))
        }
        HashAlgorithm::Sha384 | HashAlgorithm::Sha512 => {
            let (head, rest) = bytes.split_first_chunk::<64>()?;
            let mut words = [0; 8];
            for (word, chunk) in words.iter_mut().zip(head.as_chunks::<8>().0) {
                *word = u64::from_be_bytes(*chunk);
            }
            Some((Chaining::Wide(words), rest))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(hash: HashAlgorithm, data: &[u8]) -> Vec<u8> {
        let mut hasher = Hasher::new(hash);
        hasher.update(data);
        hasher.midstate().encode()
    }

    /// The bytes on the wire may never change for version 1. First the state after "abc" (initial chaining
    /// value, length, tail), then SHA-256 after one whole block of zeros.
    #[test]
    fn golden_vectors() {
        let hex = |bytes: &[u8]| crate::digest::to_hex(bytes);
        assert_eq!(
            hex(&encoded(HashAlgorithm::Sha256, b"abc")),
            "01086a09e667bb67ae853c6ef372a54ff53a510e527f9b05688c1f83d9ab5be0cd190000000000000003616263"
        );
        assert_eq!(
            hex(&encoded(HashAlgorithm::Sha384, b"abc")),
            "0109cbbb9d5dc1059ed8629a292a367cd5079159015a3070dd17152fecd8f70e593967332667ffc00b318eb44a8768581511db0c2e0d64f98fa747b5481dbefa4fa40000000000000003616263"
        );
        assert_eq!(
            hex(&encoded(HashAlgorithm::Sha512, b"abc")),
            "010a6a09e667f3bcc908bb67ae8584caa73b3c6ef372fe94f82ba54ff53a5f1d36f1510e527fade682d19b05688c2b3e6c1f1f83d9abfb41bd6b5be0cd19137e21790000000000000003616263"
        );
        assert_eq!(
            hex(&encoded(HashAlgorithm::Sha256, &[0; 64])),
            "0108da5698be17b9b46962335799779fbeca8ce5d491c0d26243bafef9ea1837a9d80000000000000040"
        );
    }

    #[test]
    fn what_is_decoded_encodes_to_the_same_bytes() {
        for hash in HashAlgorithm::ALL {
            for len in [0, 1, 63, 64, 65, 127, 128, 129, 300] {
                let bytes = encoded(hash, &vec![7; len]);
                assert_eq!(Midstate::decode(&bytes).unwrap().encode(), bytes);
                assert!(bytes.len() <= ENCODED_BYTES_MAX);
            }
        }
    }

    #[test]
    fn midstate_wrong_version() {
        let mut bytes = encoded(HashAlgorithm::Sha256, b"abc");
        bytes[0] = 2;
        assert!(matches!(Midstate::decode(&bytes), Err(Error::Unsupported { .. })));
    }

    #[test]
    fn midstate_sha1_is_unsupported() {
        let mut bytes = encoded(HashAlgorithm::Sha256, b"abc");
        bytes[1] = 2;
        assert!(matches!(Midstate::decode(&bytes), Err(Error::Unsupported { .. })));
    }

    #[test]
    fn midstate_length_over_limit() {
        let mut bytes = encoded(HashAlgorithm::Sha256, &[0; 64]);
        bytes[34..42].copy_from_slice(&(CONTENT_BYTES_MAX + 64).to_be_bytes());
        assert!(Midstate::decode(&bytes).is_err());
        bytes[34..42].copy_from_slice(&u64::MAX.to_be_bytes());
        assert!(Midstate::decode(&bytes).is_err());
        bytes[34..42].copy_from_slice(&CONTENT_BYTES_MAX.to_be_bytes());
        let hasher = Midstate::decode(&bytes).unwrap().resume();
        let _ = hasher.finish();
    }

    #[test]
    fn midstate_tail_is_not_length_mod_block() {
        let mut bytes = encoded(HashAlgorithm::Sha512, &[0; 200]);
        bytes.push(0);
        assert!(Midstate::decode(&bytes).is_err());
        bytes.truncate(bytes.len() - 2);
        assert!(Midstate::decode(&bytes).is_err());
    }

    #[test]
    fn midstate_short_content_with_foreign_chaining_value() {
        let mut bytes = encoded(HashAlgorithm::Sha256, b"abc");
        bytes[2] ^= 1;
        assert!(Midstate::decode(&bytes).is_err());
    }

    #[test]
    fn midstate_truncated_anywhere_is_refused_not_a_panic() {
        for hash in HashAlgorithm::ALL {
            let bytes = encoded(hash, &[9; 100]);
            for len in 0..bytes.len() {
                assert!(Midstate::decode(&bytes[..len]).is_err(), "{len}");
            }
        }
    }
}
