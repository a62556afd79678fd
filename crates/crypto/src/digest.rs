//! SHA-2 with a state that can be exported: [`Hasher`] is what the client feeds a file to, and what the key
//! holder resumes. The compression functions are those of the `sha2` crate (they use the processor's SHA
//! instructions); the bookkeeping around them is ours, because the state must have an encoding of our own.

use crate::algorithm::HashAlgorithm;
use crate::error::Error;
use crate::midstate::Midstate;

/// A digest whose length is right for its algorithm by construction.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Digest {
    hash: HashAlgorithm,
    bytes: [u8; 64],
}

impl Digest {
    /// # Errors
    /// [`Error::Malformed`] if the length is not that of the algorithm.
    pub fn from_bytes(hash: HashAlgorithm, bytes: &[u8]) -> Result<Self, Error> {
        let mut all = [0; 64];
        if bytes.len() != hash.digest_len() {
            return Err(Error::malformed("digest", "its length is not that of its algorithm"));
        }
        for (to, from) in all.iter_mut().zip(bytes) {
            *to = *from;
        }
        Ok(Self { hash, bytes: all })
    }

    /// The algorithm that made it.
    #[must_use]
    pub const fn hash(&self) -> HashAlgorithm {
        self.hash
    }

    /// The digest, [`HashAlgorithm::digest_len`] bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..self.hash.digest_len()).unwrap_or_default()
    }

    /// Lower-case hexadecimal.
    #[must_use]
    pub fn to_hex(&self) -> String {
        to_hex(self.as_bytes())
    }
}

/// Lower-case hexadecimal of any bytes.
#[must_use]
pub fn to_hex(bytes: &[u8]) -> String {
    let digit = |value: u8| char::from_digit(u32::from(value), 16).unwrap_or_default();
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

impl core::fmt::Debug for Digest {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{}:{}", self.hash.name(), self.to_hex())
    }
}

/// The chaining value of SHA-256, or of SHA-384 and SHA-512 (FIPS 180-4 section 5.3).
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Chaining {
    /// Eight words of 32 bits.
    Narrow([u32; 8]),
    /// Eight words of 64 bits.
    Wide([u64; 8]),
}

impl Chaining {
    /// FIPS 180-4 section 5.3.3 to 5.3.5.
    pub(crate) const fn initial(hash: HashAlgorithm) -> Self {
        match hash {
            HashAlgorithm::Sha256 => Self::Narrow([
                0x6a09_e667,
                0xbb67_ae85,
                0x3c6e_f372,
                0xa54f_f53a,
                0x510e_527f,
                0x9b05_688c,
                0x1f83_d9ab,
                0x5be0_cd19,
            ]),
            HashAlgorithm::Sha384 => Self::Wide([
                0xcbbb_9d5d_c105_9ed8,
                0x629a_292a_367c_d507,
                0x9159_015a_3070_dd17,
                0x152f_ecd8_f70e_5939,
                0x6733_2667_ffc0_0b31,
                0x8eb4_4a87_6858_1511,
                0xdb0c_2e0d_64f9_8fa7,
                0x47b5_481d_befa_4fa4,
            ]),
            HashAlgorithm::Sha512 => Self::Wide([
                0x6a09_e667_f3bc_c908,
                0xbb67_ae85_84ca_a73b,
                0x3c6e_f372_fe94_f82b,
                0xa54f_f53a_5f1d_36f1,
                0x510e_527f_ade6_82d1,
                0x9b05_688c_2b3e_6c1f,
                0x1f83_d9ab_fb41_bd6b,
                0x5be0_cd19_137e_2179,
            ]),
        }
    }

    /// Compresses all whole blocks at the head of `data`; returns what is left, shorter than a block.
    fn compress<'a>(&mut self, data: &'a [u8]) -> &'a [u8] {
        match self {
            Self::Narrow(words) => {
                let (blocks, rest) = data.as_chunks::<64>();
                sha2::block_api::compress256(words, blocks);
                rest
            }
            Self::Wide(words) => {
                let (blocks, rest) = data.as_chunks::<128>();
                sha2::block_api::compress512(words, blocks);
                rest
            }
        }
    }

    /// The words in order, big-endian: 32 or 64 bytes.
    pub(crate) fn to_bytes(self) -> Vec<u8> {
        match self {
            Self::Narrow(words) => words.iter().flat_map(|word| word.to_be_bytes()).collect(),
            Self::Wide(words) => words.iter().flat_map(|word| word.to_be_bytes()).collect(),
        }
    }
}

/// A SHA-2 computation in progress, over at most [`crate::midstate::CONTENT_BYTES_MAX`] bytes.
#[derive(Clone)]
pub struct Hasher {
    pub(crate) hash: HashAlgorithm,
    pub(crate) chaining: Chaining,
    /// Bytes hashed so far, the tail included.
    pub(crate) total: u64,
    /// The bytes after the last whole block; always shorter than a block.
    pub(crate) tail: Vec<u8>,
}

impl core::fmt::Debug for Hasher {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Hasher").field("hash", &self.hash).field("total", &self.total).finish_non_exhaustive()
    }
}

impl Hasher {
    /// A hash of nothing yet.
    #[must_use]
    pub fn new(hash: HashAlgorithm) -> Self {
        Self { hash, chaining: Chaining::initial(hash), total: 0, tail: Vec::with_capacity(hash.block_len()) }
    }

    /// The algorithm.
    #[must_use]
    pub const fn hash(&self) -> HashAlgorithm {
        self.hash
    }

    /// Bytes hashed so far.
    #[must_use]
    pub const fn total(&self) -> u64 {
        self.total
    }

    /// Appends `data`.
    pub fn update(&mut self, data: &[u8]) {
        let rest = self.fill_block(data);
        self.append_whole(rest);
    }

    /// Counts `data`, and takes of it what completes a block that was begun; returns the rest, for
    /// [`Self::append_whole`].
    fn fill_block<'a>(&mut self, data: &'a [u8]) -> &'a [u8] {
        self.total = self.total.saturating_add(u64::try_from(data.len()).unwrap_or(u64::MAX));
        if self.tail.is_empty() {
            return data;
        }
        let missing = self.hash.block_len().saturating_sub(self.tail.len());
        let Some((head, rest)) = data.split_at_checked(missing) else {
            self.tail.extend_from_slice(data);
            return &[];
        };
        self.tail.extend_from_slice(head);
        self.chaining.compress(&self.tail);
        self.tail.clear();
        rest
    }

    /// No block is begun, or there is nothing to append.
    fn append_whole(&mut self, data: &[u8]) {
        let rest = self.chaining.compress(data);
        self.tail.extend_from_slice(rest);
    }

    /// Appends `data` to two hashes. Two SHA-256 take hardly more time than one where the processor can do both at once.
    pub fn update_two(one: &mut Self, other: &mut Self, data: &[u8]) {
        let (one_rest, other_rest) = (one.fill_block(data), other.fill_block(data));
        let mut done = 0usize;
        if let (Chaining::Narrow(one_words), Chaining::Narrow(other_words)) =
            (&mut one.chaining, &mut other.chaining)
        {
            let (one_blocks, _) = one_rest.as_chunks::<64>();
            let (other_blocks, _) = other_rest.as_chunks::<64>();
            done = sealwright_lanes::compress_two(one_words, one_blocks, other_words, other_blocks);
        }
        let bytes = done.saturating_mul(64);
        one.append_whole(one_rest.get(bytes..).unwrap_or_default());
        other.append_whole(other_rest.get(bytes..).unwrap_or_default());
    }

    /// Pads, finishes and returns the digest (FIPS 180-4 section 5.1).
    #[must_use]
    pub fn finish(mut self) -> Digest {
        let bits = u128::from(self.total).saturating_mul(8);
        let block = self.hash.block_len();
        // SHA-256 ends in a 64-bit length, the others in a 128-bit one: an eighth of the block each.
        let length_len = block / 8;
        self.tail.push(0x80);
        let short = self.tail.len().saturating_add(length_len) <= block;
        let padded = if short { block } else { block.saturating_mul(2) };
        self.tail.resize(padded.saturating_sub(length_len), 0);
        let length = bits.to_be_bytes();
        self.tail
            .extend_from_slice(length.get(length.len().saturating_sub(length_len)..).unwrap_or_default());
        let tail = core::mem::take(&mut self.tail);
        self.chaining.compress(&tail);
        let mut bytes = [0; 64];
        for (to, from) in bytes.iter_mut().zip(self.chaining.to_bytes()).take(self.hash.digest_len()) {
            *to = from;
        }
        Digest { hash: self.hash, bytes }
    }

    /// The state so far, ready for the wire.
    #[must_use]
    pub fn midstate(&self) -> Midstate {
        Midstate::of(self)
    }

    /// The digest of `data` in one call.
    #[must_use]
    pub fn digest(hash: HashAlgorithm, data: &[u8]) -> Digest {
        let mut hasher = Self::new(hash);
        hasher.update(data);
        hasher.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// FIPS 180-4 example values ("abc", and the empty message).
    #[test]
    fn fips_examples() {
        let cases = [
            (
                HashAlgorithm::Sha256,
                "abc",
                "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
            ),
            (HashAlgorithm::Sha256, "", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"),
            (
                HashAlgorithm::Sha384,
                "abc",
                "cb00753f45a35e8bb5a03d699ac65007272c32ab0eded1631a8b605a43ff5bed8086072ba1e7cc2358baeca134c825a7",
            ),
            (
                HashAlgorithm::Sha512,
                "abc",
                "ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2a9ac94fa54ca49f",
            ),
        ];
        for (hash, text, want) in cases {
            assert_eq!(Hasher::digest(hash, text.as_bytes()).to_hex(), want);
        }
    }

    #[test]
    fn two_hashes_updated_together_are_what_each_is_alone() {
        let bytes: Vec<u8> = (0..2_000_u32).map(|at| (at % 251) as u8).collect();
        for (one_hash, other_hash) in [
            (HashAlgorithm::Sha256, HashAlgorithm::Sha256),
            (HashAlgorithm::Sha256, HashAlgorithm::Sha512),
            (HashAlgorithm::Sha384, HashAlgorithm::Sha256),
        ] {
            for before in [0, 1, 37, 63, 64, 100] {
                for (first, second) in [(0, 0), (10, 20), (27, 1), (64, 64), (500, 1_400)] {
                    let (mut one, mut other) = (Hasher::new(one_hash), Hasher::new(other_hash));
                    one.update(&bytes[..before]);
                    Hasher::update_two(&mut one, &mut other, &bytes[..first]);
                    Hasher::update_two(&mut one, &mut other, &bytes[first..first + second]);
                    let all = &bytes[..first + second];
                    let alone = Hasher::digest(one_hash, &[&bytes[..before], all].concat());
                    assert_eq!(one.finish(), alone, "{before} {first} {second}");
                    assert_eq!(other.finish(), Hasher::digest(other_hash, all), "{before} {first} {second}");
                }
            }
        }
    }

    #[test]
    fn a_digest_has_the_length_of_its_algorithm() {
        for hash in HashAlgorithm::ALL {
            assert!(Digest::from_bytes(hash, &vec![0; hash.digest_len()]).is_ok());
            assert!(Digest::from_bytes(hash, &vec![0; hash.digest_len() - 1]).is_err());
            assert!(Digest::from_bytes(hash, &[0; 65]).is_err());
        }
    }
}
