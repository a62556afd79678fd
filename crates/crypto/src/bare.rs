//! Bare digests: hashes that a client finished alone, class, time and everything else that is signed being in them already.
//! Whoever signs one knows nothing of what it says, so a key must be sealed for it ([`Usage::ObsDigest`]). They exist
//! for the protocol of obs-sign alone (docs/adr/0019), whose answer to each is a version 3 packet (RFC 4880 section 5.2.2):
//!
//! ```text
//! 88 len(1) | 89 len(2)    03 05 class time(4) key-id(8) key-algorithm hash left(2) numbers
//! ```
//!
//! Class and time repeat the request; a client that asked for a version 4 signature takes the numbers out. SHA-1 exists here,
//! and nowhere else among the hashes of signatures.

use crate::algorithm::{HashAlgorithm, KeyAlgorithm, KeyVersion};
use crate::digest::{Digest, to_hex};
use crate::error::Error;
use crate::openpgp::fingerprint::Fingerprint;
use crate::openpgp::signature::{DataKind, push_numbers};
use crate::usage::Usage;

/// RFC 9580 section 9.5.
const SHA1_OPENPGP_ID: u8 = 2;
const SHA1_BYTES: usize = 20;

/// A digest that can stand in a log entry: of SHA-2, or of SHA-1.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub enum AnyDigest {
    /// FIPS 180-4, broken for collisions: for keys that are sealed for it.
    Sha1([u8; SHA1_BYTES]),
    /// Every other.
    Sha2(Digest),
}

impl AnyDigest {
    /// # Errors
    /// [`Error::Unsupported`] for another hash; [`Error::Malformed`] if the length is not that of the hash.
    pub fn from_parts(openpgp_id: u8, bytes: &[u8]) -> Result<Self, Error> {
        if openpgp_id != SHA1_OPENPGP_ID {
            return Digest::from_bytes(HashAlgorithm::from_openpgp_id(openpgp_id)?, bytes).map(Self::Sha2);
        }
        let bytes = bytes.try_into();
        bytes
            .map(Self::Sha1)
            .map_err(|_| Error::malformed("digest", "its length is not that of its algorithm"))
    }

    /// Length of the digests of a hash, in bytes.
    ///
    /// # Errors
    /// [`Error::Unsupported`].
    pub fn len_of(openpgp_id: u8) -> Result<usize, Error> {
        if openpgp_id == SHA1_OPENPGP_ID {
            return Ok(SHA1_BYTES);
        }
        HashAlgorithm::from_openpgp_id(openpgp_id).map(HashAlgorithm::digest_len)
    }

    /// The hash (RFC 9580 section 9.5).
    #[must_use]
    pub const fn openpgp_id(&self) -> u8 {
        match self {
            Self::Sha1(_) => SHA1_OPENPGP_ID,
            Self::Sha2(digest) => digest.hash().openpgp_id(),
        }
    }

    /// The digest.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        match self {
            Self::Sha1(bytes) => bytes,
            Self::Sha2(digest) => digest.as_bytes(),
        }
    }
}

impl From<Digest> for AnyDigest {
    fn from(digest: Digest) -> Self {
        Self::Sha2(digest)
    }
}

impl core::fmt::Debug for AnyDigest {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Sha1(bytes) => write!(f, "sha1:{}", to_hex(bytes)),
            Self::Sha2(digest) => digest.fmt(f),
        }
    }
}

/// One digest to sign, with what the client says of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Bare {
    digest: AnyDigest,
    kind: DataKind,
    created: u32,
}

impl Bare {
    /// `kind` and `created` (Unix seconds) go into the packet; what they are in the digest, the client alone knows.
    ///
    /// # Errors
    /// [`Error::Malformed`] for the one digest that everybody asks for, 04 in every byte: a signature over it would be
    /// for everybody to use.
    pub fn new(digest: AnyDigest, kind: DataKind, created: u32) -> Result<Self, Error> {
        if digest.as_bytes().iter().all(|byte| *byte == 4) {
            return Err(Error::malformed("digest", "it is that of a probe, which no key signs"));
        }
        Ok(Self { digest, kind, created })
    }

    /// What is signed.
    #[must_use]
    pub const fn digest(&self) -> AnyDigest {
        self.digest
    }

    /// The class, as the client says.
    #[must_use]
    pub const fn kind(&self) -> DataKind {
        self.kind
    }

    /// Unix seconds, as the client says.
    #[must_use]
    pub const fn created(&self) -> u32 {
        self.created
    }

    /// The usage that a key must have been sealed for.
    #[must_use]
    pub const fn usage(&self) -> Usage {
        match self.digest {
            AnyDigest::Sha1(_) => Usage::ObsDigestSha1,
            AnyDigest::Sha2(_) => Usage::ObsDigest,
        }
    }

    /// The version 3 packet. `raw` is what the key operation gave: for RSA a big-endian number as long as the modulus, for
    /// Ed25519 the 64 bytes R and S.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for a key that is not of version 4; [`Error::Malformed`] if `raw` has another length or a
    /// number in it is zero.
    pub fn pack(&self, key: KeyAlgorithm, issuer: &Fingerprint, raw: &[u8]) -> Result<Vec<u8>, Error> {
        if issuer.version() != KeyVersion::V4 {
            let name = format!("{} for a bare digest", issuer.version().number());
            return Err(Error::Unsupported { what: "key version", name });
        }
        let [before, after] = self.parts(issuer);
        let mut body = before;
        body.push(key.openpgp_id(KeyVersion::V4));
        body.extend(after);
        push_numbers(&mut body, key, raw)?;
        let len = u16::try_from(body.len()).map_err(|_| Error::malformed("signature", "it is too long"))?;
        let header = match len.to_be_bytes() {
            [0, low] => vec![0x88, low],
            [high, low] => vec![0x89, high, low],
        };
        Ok([header, body].concat())
    }

    /// Whether `packet` is what [`Self::pack`] writes for a key with this fingerprint, whatever its numbers are.
    #[must_use]
    pub fn is_answered_by(&self, packet: &[u8], issuer: &Fingerprint) -> bool {
        let body = match packet {
            [0x88, len, body @ ..] if usize::from(*len) == body.len() => body,
            [0x89, high, low, body @ ..]
                if *high > 0 && usize::from(u16::from_be_bytes([*high, *low])) == body.len() =>
            {
                body
            }
            _ => return false,
        };
        let [before, after] = self.parts(issuer);
        let rest = body.strip_prefix(before.as_slice()).and_then(|rest| rest.split_first());
        rest.is_some_and(|(_, rest)| rest.starts_with(&after))
    }

    /// The body around the algorithm of the key, up to the numbers.
    fn parts(&self, issuer: &Fingerprint) -> [Vec<u8>; 2] {
        let mut before = vec![3, 5, self.kind.signature_type()];
        before.extend(self.created.to_be_bytes());
        before.extend(issuer.key_id());
        let mut after = vec![self.digest.openpgp_id()];
        after.extend(self.digest.as_bytes().iter().take(2));
        [before, after]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ISSUER: Fingerprint = Fingerprint::v4([9; 20]);

    fn bare(digest: AnyDigest) -> Bare {
        Bare::new(digest, DataKind::Text, 0x6b0d_6baa).unwrap()
    }

    fn sha256() -> AnyDigest {
        AnyDigest::from_parts(8, &[0xab; 32]).unwrap()
    }

    #[test]
    fn a_digest_has_the_length_of_its_hash_and_sha1_is_one_of_them() {
        for (id, len) in [(2, 20), (8, 32), (9, 48), (10, 64)] {
            let digest = AnyDigest::from_parts(id, &vec![7; len]).unwrap();
            assert_eq!((digest.openpgp_id(), digest.as_bytes().len()), (id, len));
            assert_eq!(AnyDigest::len_of(id).unwrap(), len);
            for wrong in [0, len - 1, len + 1] {
                assert!(AnyDigest::from_parts(id, &vec![7; wrong]).is_err(), "{id} {wrong}");
            }
        }
        for id in [0, 1, 3, 11, 12, 255] {
            assert!(AnyDigest::from_parts(id, &[7; 32]).is_err(), "{id}");
            assert!(AnyDigest::len_of(id).is_err(), "{id}");
        }
    }

    #[test]
    fn the_digest_of_a_probe_is_none_that_can_be_signed() {
        for (id, len) in [(2, 20), (8, 32), (9, 48), (10, 64)] {
            let mut digest = vec![4; len];
            assert!(Bare::new(AnyDigest::from_parts(id, &digest).unwrap(), DataKind::Binary, 0).is_err());
            digest[len - 1] = 5;
            assert!(Bare::new(AnyDigest::from_parts(id, &digest).unwrap(), DataKind::Binary, 0).is_ok());
        }
    }

    #[test]
    fn each_hash_needs_its_usage() {
        assert_eq!(bare(sha256()).usage(), Usage::ObsDigest);
        assert_eq!(bare(AnyDigest::Sha1([1; 20])).usage(), Usage::ObsDigestSha1);
    }

    #[test]
    fn the_packet_repeats_the_request_and_has_the_numbers() {
        let mut raw = vec![0; 256];
        raw[255] = 1;
        let packet = bare(sha256()).pack(KeyAlgorithm::Rsa(2048), &ISSUER, &raw).unwrap();
        let head = [&[0x88, 22, 3, 5, 1, 0x6b, 0x0d, 0x6b, 0xaa][..], &[9; 8], &[1, 8, 0xab, 0xab]].concat();
        assert_eq!(packet, [&head[..], &[0, 1, 1]].concat());
        let long = bare(sha256()).pack(KeyAlgorithm::Rsa(2048), &ISSUER, &[0xff; 256]).unwrap();
        assert_eq!(long[..3], [0x89, 1, 21]);
        let edwards =
            bare(AnyDigest::Sha1([1; 20])).pack(KeyAlgorithm::Ed25519, &ISSUER, &[0x7f; 64]).unwrap();
        assert_eq!(edwards[17..23], [22, 2, 1, 1, 0, 255]);
    }

    #[test]
    fn version_6_keys_and_raw_signatures_of_another_length_are_refused() {
        let bare = bare(sha256());
        assert!(matches!(
            bare.pack(KeyAlgorithm::Ed25519, &Fingerprint::v6([9; 32]), &[1; 64]),
            Err(Error::Unsupported { .. })
        ));
        for (key, good) in [(KeyAlgorithm::Rsa(2048), 256), (KeyAlgorithm::Ed25519, 64)] {
            assert!(bare.pack(key, &ISSUER, &vec![1; good]).is_ok());
            for bad in [0, 31, 32, 63, 65, good - 1, good + 1] {
                assert!(bare.pack(key, &ISSUER, &vec![1; bad]).is_err(), "{key} {bad}");
            }
            assert!(bare.pack(key, &ISSUER, &vec![0; good]).is_err(), "{key} zero");
        }
    }

    #[test]
    fn a_packet_answers_its_own_request_and_no_other() {
        let asked = bare(sha256());
        for raw in [[0xff; 256], [1; 256]] {
            let packet = asked.pack(KeyAlgorithm::Rsa(2048), &ISSUER, &raw).unwrap();
            assert!(asked.is_answered_by(&packet, &ISSUER));
            assert!(!asked.is_answered_by(&packet, &Fingerprint::v4([8; 20])));
            for other in [
                Bare::new(sha256(), DataKind::Binary, 0x6b0d_6baa).unwrap(),
                Bare::new(sha256(), DataKind::Text, 7).unwrap(),
                bare(AnyDigest::from_parts(8, &[0xac; 32]).unwrap()),
                bare(AnyDigest::from_parts(10, &[0xab; 64]).unwrap()),
            ] {
                assert!(!other.is_answered_by(&packet, &ISSUER), "{other:?}");
            }
            for len in 0..packet.len() {
                assert!(!asked.is_answered_by(&packet[..len], &ISSUER), "{len}");
            }
            assert!(!asked.is_answered_by(&[&packet[..], &[0]].concat(), &ISSUER));
        }
    }
}
