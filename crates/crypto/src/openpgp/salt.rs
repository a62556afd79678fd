//! What a version 6 signature hashes before the content (RFC 9580 section 5.2.4): random bytes, as many as belong to the
//! hash. They are drawn by the server and stand in the packet; whoever hashes the content hashes them first.

use crate::algorithm::HashAlgorithm;
use crate::digest::Hasher;
use crate::error::Error;

/// A salt of the length that belongs to its hash, by construction. It is public: the signature packet has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Salt {
    hash: HashAlgorithm,
    bytes: [u8; SALT_BYTES_MAX],
}

/// The longest salt, that of SHA-512, in bytes.
pub const SALT_BYTES_MAX: usize = 32;

impl Salt {
    /// # Errors
    /// [`Error::Malformed`] unless there are [`HashAlgorithm::salt_len`] bytes.
    pub fn new(hash: HashAlgorithm, bytes: &[u8]) -> Result<Self, Error> {
        if bytes.len() != hash.salt_len() {
            return Err(Error::malformed("salt", "it has not the length of its hash algorithm"));
        }
        let mut all = [0; SALT_BYTES_MAX];
        for (to, from) in all.iter_mut().zip(bytes) {
            *to = *from;
        }
        Ok(Self { hash, bytes: all })
    }

    /// The hash that it is for.
    #[must_use]
    pub const fn hash(&self) -> HashAlgorithm {
        self.hash
    }

    /// 16, 24 or 32 bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..self.hash.salt_len()).unwrap_or_default()
    }

    /// The hash over content to come: nothing but the salt is in it yet.
    #[must_use]
    pub fn hasher(&self) -> Hasher {
        let mut hasher = Hasher::new(self.hash);
        hasher.update(self.as_bytes());
        hasher
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_salt_has_the_length_of_its_hash() {
        for (hash, len) in
            [(HashAlgorithm::Sha256, 16), (HashAlgorithm::Sha384, 24), (HashAlgorithm::Sha512, 32)]
        {
            assert_eq!(Salt::new(hash, &vec![7; len]).unwrap().as_bytes(), vec![7; len]);
            for bad in [0, 8, len - 1, len + 1, 64] {
                assert!(Salt::new(hash, &vec![7; bad]).is_err(), "{hash:?} {bad}");
            }
        }
    }

    #[test]
    fn the_salt_is_hashed_before_the_content() {
        let mut hasher = Salt::new(HashAlgorithm::Sha256, &[9; 16]).unwrap().hasher();
        hasher.update(b"content");
        let both = [&[9; 16][..], b"content"].concat();
        assert_eq!(hasher.finish(), Hasher::digest(HashAlgorithm::Sha256, &both));
    }
}
