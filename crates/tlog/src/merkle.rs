//! RFC 6962 section 2.1: leaf and node hashes, and the compact range that is the head of the log.
//!
//! A compact range is the list of roots of the largest whole subtrees from left to right, one for each bit
//! that is set in the size: enough to append and to compute the root, in O(log n) bytes.

use sealwright_crypto::algorithm::HashAlgorithm;
use sealwright_crypto::digest::Hasher;

use crate::error::Error;

/// Length of a hash in bytes: the log is SHA-256 throughout.
pub const HASH_LEN: usize = 32;

/// A SHA-256 hash of a leaf or node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Hash(pub [u8; HASH_LEN]);

impl Hash {
    /// The bytes.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; HASH_LEN] {
        &self.0
    }
}

/// Most entries of a log: indexes are kept as signed 64-bit numbers by databases.
pub const SIZE_MAX: u64 = i64::MAX as u64;

/// `SHA-256(0x00 || leaf)`. The prefix keeps a leaf from being read as a node (RFC 6962 section 2.1).
#[must_use]
pub fn leaf_hash(leaf: &[u8]) -> Hash {
    sha256(&[&[0], leaf])
}

/// `SHA-256(0x01 || left || right)`.
#[must_use]
pub fn node_hash(left: &Hash, right: &Hash) -> Hash {
    sha256(&[&[1], &left.0, &right.0])
}

/// The head of a log: its size and the roots of its whole subtrees, largest (leftmost) first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CompactRange {
    size: u64,
    nodes: Vec<Hash>,
}

impl CompactRange {
    /// The head of the empty log.
    #[must_use]
    pub const fn empty() -> Self {
        Self { size: 0, nodes: Vec::new() }
    }

    /// Number of entries.
    #[must_use]
    pub const fn size(&self) -> u64 {
        self.size
    }

    /// Adds the leaf whose index is the present [`Self::size`], and returns that index.
    ///
    /// # Errors
    /// [`Error::Full`] at [`SIZE_MAX`] entries; the range is then unchanged.
    pub fn append(&mut self, leaf: Hash) -> Result<u64, Error> {
        let index = self.size;
        if index >= SIZE_MAX {
            return Err(Error::Full);
        }
        let mut node = leaf;
        // Each trailing one bit of the size is a whole subtree of the new leaf's own size so far.
        for _ in 0..index.trailing_ones() {
            if let Some(left) = self.nodes.pop() {
                node = node_hash(&left, &node);
            }
        }
        self.nodes.push(node);
        self.size = index.saturating_add(1);
        Ok(index)
    }

    /// The root of the tree (RFC 6962 section 2.1); of the empty log the hash of nothing.
    #[must_use]
    pub fn root(&self) -> Hash {
        let mut nodes = self.nodes.iter().rev();
        let Some(last) = nodes.next() else { return sha256(&[]) };
        nodes.fold(*last, |right, left| node_hash(left, &right))
    }

    /// The node hashes one after the other, for storage beside [`Self::size`].
    #[must_use]
    pub fn encode_nodes(&self) -> Vec<u8> {
        self.nodes.iter().flat_map(|node| node.0).collect()
    }

    /// Reads what [`Self::encode_nodes`] wrote.
    ///
    /// # Errors
    /// [`Error::MalformedHead`] if the number of hashes is not the number of bits set in `size`.
    pub fn decode(size: u64, nodes: &[u8]) -> Result<Self, Error> {
        let bits = usize::try_from(size.count_ones()).unwrap_or(usize::MAX);
        let expected = bits.saturating_mul(HASH_LEN);
        let (chunks, rest) = nodes.as_chunks::<HASH_LEN>();
        if size > SIZE_MAX || chunks.len() != bits || !rest.is_empty() {
            return Err(Error::MalformedHead { size, expected, found: nodes.len() });
        }
        Ok(Self { size, nodes: chunks.iter().map(|chunk| Hash(*chunk)).collect() })
    }
}

/// SHA-256 over the parts one after the other.
pub(crate) fn sha256(parts: &[&[u8]]) -> Hash {
    let mut hasher = Hasher::new(HashAlgorithm::Sha256);
    for part in parts {
        hasher.update(part);
    }
    let mut hash = [0; HASH_LEN];
    for (to, from) in hash.iter_mut().zip(hasher.finish().as_bytes()) {
        *to = *from;
    }
    Hash(hash)
}

#[cfg(test)]
mod tests {
    use sealwright_crypto::digest::to_hex;

    use super::*;

    /// The definition of RFC 6962 section 2.1, word for word.
    fn naive_root(leaves: &[Vec<u8>]) -> Hash {
        match leaves {
            [] => sha256(&[]),
            [leaf] => leaf_hash(leaf),
            _ => {
                let split = leaves.len().next_power_of_two() / 2;
                node_hash(&naive_root(&leaves[..split]), &naive_root(&leaves[split..]))
            }
        }
    }

    fn range_of(leaves: &[Vec<u8>]) -> CompactRange {
        let mut range = CompactRange::empty();
        for (index, leaf) in leaves.iter().enumerate() {
            assert_eq!(range.append(leaf_hash(leaf)).unwrap(), index as u64);
        }
        range
    }

    #[test]
    fn every_size_up_to_300_has_the_root_of_the_naive_tree() {
        let leaves: Vec<Vec<u8>> = (0..300_u16).map(|n| n.to_be_bytes().repeat(1 + n as usize % 5)).collect();
        let mut range = CompactRange::empty();
        assert_eq!(range.root(), naive_root(&[]));
        for size in 1..=leaves.len() {
            range.append(leaf_hash(&leaves[size - 1])).unwrap();
            assert_eq!(range.size(), size as u64);
            assert_eq!(range.root(), naive_root(&leaves[..size]), "size {size}");
        }
    }

    /// The eight leaves and roots of Certificate Transparency's reference implementation (RFC 6962 trees).
    #[test]
    fn certificate_transparency_vectors() {
        let leaves: [&[u8]; 8] = [
            b"",
            b"\x00",
            b"\x10",
            b"\x20\x21",
            b"\x30\x31",
            b"\x40\x41\x42\x43",
            b"\x50\x51\x52\x53\x54\x55\x56\x57",
            b"\x60\x61\x62\x63\x64\x65\x66\x67\x68\x69\x6a\x6b\x6c\x6d\x6e\x6f",
        ];
        let roots = [
            "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
            "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
            "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
            "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
            "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
            "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
            "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
            "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
        ];
        let mut range = CompactRange::empty();
        assert_eq!(
            to_hex(&range.root().0),
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
        );
        for (leaf, root) in leaves.into_iter().zip(roots) {
            range.append(leaf_hash(leaf)).unwrap();
            assert_eq!(to_hex(&range.root().0), root);
        }
    }

    #[test]
    fn a_stored_head_goes_on_where_it_stopped() {
        let leaves: Vec<Vec<u8>> = (0..70_u8).map(|n| vec![n]).collect();
        for stop in 0..leaves.len() {
            let first = range_of(&leaves[..stop]);
            let mut second = CompactRange::decode(first.size(), &first.encode_nodes()).unwrap();
            assert_eq!(second, first);
            for leaf in &leaves[stop..] {
                second.append(leaf_hash(leaf)).unwrap();
            }
            assert_eq!(second, range_of(&leaves));
        }
    }

    #[test]
    fn a_head_with_the_wrong_number_of_hashes_is_refused() {
        assert!(CompactRange::decode(3, &[0; 64]).is_ok());
        for (size, len) in [(3, 32), (3, 96), (3, 63), (0, 32), (4, 0), (u64::MAX, 64 * 32)] {
            assert!(matches!(CompactRange::decode(size, &vec![0; len]), Err(Error::MalformedHead { .. })));
        }
    }

    #[test]
    fn a_full_log_refuses_and_stays_as_it_was() {
        let nodes = vec![0; 63 * HASH_LEN];
        let mut range = CompactRange::decode(SIZE_MAX, &nodes).unwrap();
        assert!(matches!(range.append(Hash([0; 32])), Err(Error::Full)));
        assert_eq!(range.size(), SIZE_MAX);
        assert_eq!(range.encode_nodes(), nodes);
    }
}
