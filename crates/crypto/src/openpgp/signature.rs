//! Composing version 4 signatures over data (RFC 9580 section 5.2.3, RFC 4880 section 5.2.3) from a midstate.
//! The key holder writes every byte that is hashed after the content, so nobody else can choose time, type or
//! issuer.
//!
//! ```text
//! part             bytes                                                    hashed
//! head             04 00 key-algorithm hash-algorithm                       yes
//! hashed area      len(2)                                                   yes
//!   created        05 02 time(4)                             5.2.3.11       yes
//!   issuer         16 21 04 fingerprint(20)                  5.2.3.35       yes
//!   salt, if any   46 14 00000000 001d 0020 name(29) salt(32)  5.2.3.24     yes
//! final            04 ff length of head and hashed area(4)   5.2.4          yes, and not in the packet
//! unhashed area    000a 09 10 key-id(8)                      5.2.3.12       no
//! prefix           the first two bytes of the digest                        no
//! value            RSA: m^d mod n; Ed25519: R, S; as MPIs    3.2            no
//! ```
//!
//! No subpacket is critical: old rpms refuse critical ones that they do not know. The key id is unhashed, as
//! gpg does it; who changes it changes nothing that is believed.

use crate::algorithm::{HashAlgorithm, KeyAlgorithm};
use crate::digest::Digest;
use crate::error::Error;
use crate::midstate::Midstate;
use crate::openpgp::fingerprint::Fingerprint;
use crate::openpgp::framing::{tag, write_packet};

/// The name of the notation with a random salt, which makes two signatures of one file in one second differ.
pub const SALT_NOTATION: &str = "salt@notations.sealwright.org";

const WHAT: &str = "signature to be made";

/// Everything in a signature that the key holder decides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    /// Must be that of the content.
    pub hash: HashAlgorithm,
    /// The algorithm of the signing component.
    pub key: KeyAlgorithm,
    /// The signing component, a version 4 key.
    pub issuer: Fingerprint,
    /// Signing time, Unix seconds.
    pub created: u32,
    /// Random bytes for [`SALT_NOTATION`].
    pub salt: Option<[u8; 32]>,
}

/// A signature that lacks only its value.
#[derive(Clone, Debug)]
pub struct Unsigned {
    key: KeyAlgorithm,
    /// Head and hashed area.
    hashed: Vec<u8>,
    key_id: [u8; 8],
    digest: Digest,
}

impl Template {
    /// Appends head, hashed area and final bytes to the content, and finishes the hash.
    ///
    /// # Errors
    /// [`Error::Malformed`] if the content was hashed with another algorithm; [`Error::Unsupported`] for an
    /// issuer that is no version 4 key.
    pub fn finish(&self, content: &Midstate) -> Result<Unsigned, Error> {
        if content.hash() != self.hash {
            return Err(Error::malformed(WHAT, "the content was hashed with another algorithm"));
        }
        if self.issuer.key_version() != 4 {
            return Err(Error::Unsupported {
                what: "issuer of a version 4 signature",
                name: format!("key version {}", self.issuer.key_version()),
            });
        }
        let hashed = self.hashed()?;
        let mut hasher = content.resume();
        hasher.update(&hashed);
        hasher.update(&[4, 0xff]);
        hasher.update(&u32::try_from(hashed.len()).unwrap_or(u32::MAX).to_be_bytes());
        Ok(Unsigned { key: self.key, hashed, key_id: self.issuer.key_id(), digest: hasher.finish() })
    }

    fn hashed(&self) -> Result<Vec<u8>, Error> {
        let mut area = Vec::with_capacity(128);
        push_subpacket(&mut area, 2, &[&self.created.to_be_bytes()])?;
        push_subpacket(&mut area, 33, &[&[4], self.issuer.as_bytes()])?;
        if let Some(salt) = &self.salt {
            let name_len = u16::try_from(SALT_NOTATION.len()).unwrap_or(u16::MAX).to_be_bytes();
            let salt_len = u16::try_from(salt.len()).unwrap_or(u16::MAX).to_be_bytes();
            // The flags are zero: not human-readable.
            push_subpacket(&mut area, 20, &[&[0; 4], &name_len, &salt_len, SALT_NOTATION.as_bytes(), salt])?;
        }
        let mut out = vec![4, 0, self.key.openpgp_id(), self.hash.openpgp_id()];
        push_area(&mut out, &area)?;
        Ok(out)
    }
}

impl Unsigned {
    /// What the key signs.
    #[must_use]
    pub const fn digest(&self) -> Digest {
        self.digest
    }

    /// Adds the value and returns one whole packet. `raw` is what the key operation gave: for RSA a big-endian
    /// number as long as the modulus, for Ed25519 the 64 bytes R and S.
    ///
    /// # Errors
    /// [`Error::Malformed`] if `raw` has another length or a number in it is zero.
    pub fn pack(self, raw: &[u8]) -> Result<Vec<u8>, Error> {
        let wrong_length = || Error::malformed("raw signature", "its length is not that of its key");
        let mut body = self.hashed;
        let mut unhashed = Vec::with_capacity(10);
        push_subpacket(&mut unhashed, 16, &[&self.key_id])?;
        push_area(&mut body, &unhashed)?;
        body.extend(self.digest.as_bytes().iter().take(2));
        match self.key {
            KeyAlgorithm::Rsa(bits) => {
                if raw.len() != usize::from(bits.div_ceil(8)) {
                    return Err(wrong_length());
                }
                push_mpi(&mut body, raw)?;
            }
            KeyAlgorithm::Ed25519 => {
                let (r, s) = raw.split_first_chunk::<32>().ok_or_else(wrong_length)?;
                if s.len() != 32 {
                    return Err(wrong_length());
                }
                push_mpi(&mut body, r)?;
                push_mpi(&mut body, s)?;
            }
        }
        Ok(write_packet(tag::SIGNATURE, &body))
    }
}

/// One subpacket, shorter than 192 bytes as all of ours are.
fn push_subpacket(area: &mut Vec<u8>, kind: u8, body: &[&[u8]]) -> Result<(), Error> {
    let len = body.iter().map(|part| part.len()).sum::<usize>().saturating_add(1);
    let len = u8::try_from(len).ok().filter(|len| *len < 192);
    area.push(len.ok_or_else(|| Error::malformed(WHAT, "a subpacket is longer than 191 bytes"))?);
    area.push(kind);
    for part in body {
        area.extend_from_slice(part);
    }
    Ok(())
}

fn push_area(out: &mut Vec<u8>, area: &[u8]) -> Result<(), Error> {
    let len = u16::try_from(area.len())
        .map_err(|_| Error::malformed(WHAT, "a subpacket area is longer than 65535 bytes"))?;
    out.extend(len.to_be_bytes());
    out.extend_from_slice(area);
    Ok(())
}

/// Section 3.2. One RSA signature in 256 starts with a zero byte, which strict verifiers do not accept in an MPI.
fn push_mpi(out: &mut Vec<u8>, number: &[u8]) -> Result<(), Error> {
    let zeros = number.iter().take_while(|byte| **byte == 0).count();
    let number = number.get(zeros..).unwrap_or_default();
    let first = number.first().ok_or_else(|| Error::malformed("raw signature", "a number in it is zero"))?;
    let bits = u32::try_from(number.len()).ok().and_then(|len| len.checked_mul(8));
    let bits = bits.and_then(|bits| bits.checked_sub(first.leading_zeros()));
    let bits = bits.and_then(|bits| u16::try_from(bits).ok());
    let bits = bits.ok_or_else(|| Error::malformed("raw signature", "a number in it is too long"))?;
    out.extend(bits.to_be_bytes());
    out.extend_from_slice(number);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::digest::Hasher;

    fn template(key: KeyAlgorithm) -> Template {
        Template {
            hash: HashAlgorithm::Sha256,
            key,
            issuer: Fingerprint::v4([9; 20]),
            created: 1,
            salt: None,
        }
    }

    fn unsigned(key: KeyAlgorithm) -> Unsigned {
        template(key).finish(&Hasher::new(HashAlgorithm::Sha256).midstate()).unwrap()
    }

    #[test]
    fn content_of_another_hash_and_issuers_of_version_6_are_refused() {
        let other = Hasher::new(HashAlgorithm::Sha512).midstate();
        assert!(matches!(template(KeyAlgorithm::Ed25519).finish(&other), Err(Error::Malformed { .. })));
        let template = Template { issuer: Fingerprint::v6([9; 32]), ..template(KeyAlgorithm::Ed25519) };
        let content = Hasher::new(HashAlgorithm::Sha256).midstate();
        assert!(matches!(template.finish(&content), Err(Error::Unsupported { .. })));
    }

    #[test]
    fn raw_signatures_of_another_length_or_value_are_refused() {
        for (key, good) in
            [(KeyAlgorithm::Rsa(2048), 256), (KeyAlgorithm::Rsa(3072), 384), (KeyAlgorithm::Ed25519, 64)]
        {
            assert!(unsigned(key).pack(&vec![1; good]).is_ok());
            for bad in [0, 31, 32, 63, 65, good - 1, good + 1] {
                assert!(unsigned(key).pack(&vec![1; bad]).is_err(), "{key} {bad}");
            }
            assert!(unsigned(key).pack(&vec![0; good]).is_err(), "{key} zero");
        }
    }

    #[test]
    fn numbers_lose_their_leading_zeros_and_no_more() {
        for (number, want) in [
            (&[0x80, 0][..], &[0, 16, 0x80, 0][..]),
            (&[0x01, 0xff], &[0, 9, 0x01, 0xff]),
            (&[0, 0, 0x01], &[0, 1, 0x01]),
            (&[0, 0x7f, 0], &[0, 15, 0x7f, 0]),
        ] {
            let mut out = Vec::new();
            push_mpi(&mut out, number).unwrap();
            assert_eq!(out, want);
        }
        assert!(push_mpi(&mut Vec::new(), &[0, 0]).is_err());
        assert!(push_mpi(&mut Vec::new(), &vec![0xff; 9000]).is_err());
    }

    #[test]
    fn the_trailer_is_hashed_after_the_content() {
        let mut content = Hasher::new(HashAlgorithm::Sha256);
        content.update(b"content");
        let unsigned = template(KeyAlgorithm::Ed25519).finish(&content.midstate()).unwrap();
        let hashed = [
            &b"content"[..],
            &[4, 0, 22, 8, 0, 29, 5, 2, 0, 0, 0, 1, 22, 33, 4],
            &[9; 20],
            &[4, 0xff, 0, 0, 0, 35],
        ];
        assert_eq!(unsigned.digest(), Hasher::digest(HashAlgorithm::Sha256, &hashed.concat()));
    }
}
