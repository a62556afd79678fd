//! Composing signatures over data (RFC 9580 section 5.2.3; version 4 as in RFC 4880 section 5.2.3 too) from a midstate.
//! The key holder writes every byte that is hashed after the content, so nobody else can choose time, type or
//! issuer. A version 6 key makes version 6 signatures, a version 4 key version 4 ones.
//!
//! ```text
//! part             version 4                        version 6                              hashed
//! salt             -                                16, 24 or 32 bytes, before the content   first
//! head             04 type key-algorithm hash       06 type key-algorithm hash               yes
//! hashed area      len(2)                           len(4)                                   yes
//!   created        05 02 time(4)                    the same                     5.2.3.11    yes
//!   issuer         16 21 04 fingerprint(20)         22 21 06 fingerprint(32)     5.2.3.35    yes
//!   notation       46 14 00000000 001d 0020 name(29) value(32), if asked         5.2.3.24    yes
//! final            04 ff length(4)                  06 ff length(4)              5.2.4       yes, not in the packet
//! unhashed area    000a 09 10 key-id(8)             00000000                     5.2.3.12    no
//! prefix           the first two bytes of the digest                                         no
//! salt             -                                length(1), salt              5.2.3       (see above)
//! value            RSA: MPI; Ed25519: R, S as MPIs  RSA: MPI; Ed25519: 64 bytes  5.2.3.1     no
//! ```
//!
//! The type is 00 over data as it is and 01 over canonical text (section 5.2.1); there is no other.
//! No subpacket is critical: old rpms refuse critical ones that they do not know. The key id is unhashed, as
//! gpg does it; who changes it changes nothing that is believed. Version 6 has none (section 5.2.3.12).

use crate::algorithm::{HashAlgorithm, KeyAlgorithm, KeyVersion};
use crate::digest::Digest;
use crate::error::Error;
use crate::midstate::Midstate;
use crate::openpgp::fingerprint::Fingerprint;
use crate::openpgp::framing::{tag, write_packet};
use crate::openpgp::salt::Salt;

/// The name of the notation with a random salt, which makes two signatures of one file in one second differ.
pub const SALT_NOTATION: &str = "salt@notations.sealwright.org";

const WHAT: &str = "signature to be made";

/// What a signature over data is over (RFC 9580 section 5.2.1). Who hashes the content brings text into its canonical
/// form: lines end with CR LF.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum DataKind {
    /// Type 0x00: bytes as they are.
    #[default]
    Binary,
    /// Type 0x01: canonical text.
    Text,
}

impl DataKind {
    /// The octet in the packet.
    #[must_use]
    pub const fn signature_type(self) -> u8 {
        match self {
            Self::Binary => 0x00,
            Self::Text => 0x01,
        }
    }
}

/// Everything in a signature that the key holder decides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    /// Must be that of the content.
    pub hash: HashAlgorithm,
    /// Which type of signature.
    pub kind: DataKind,
    /// The algorithm of the signing component.
    pub key: KeyAlgorithm,
    /// The signing component; its version is the signature's.
    pub issuer: Fingerprint,
    /// Signing time, Unix seconds.
    pub created: u32,
    /// Random bytes for [`SALT_NOTATION`].
    pub salt: Option<[u8; 32]>,
    /// Version 6, and only there: what was hashed before the content.
    pub first: Option<Salt>,
}

/// A signature that lacks only its value.
#[derive(Clone, Debug)]
pub struct Unsigned {
    key: KeyAlgorithm,
    /// Head and hashed area.
    hashed: Vec<u8>,
    tail: Tail,
    digest: Digest,
}

/// What of the packet is not hashed after the content, and depends on the version.
#[derive(Clone, Copy, Debug)]
enum Tail {
    V4 { key_id: [u8; 8] },
    V6 { salt: Salt },
}

impl Template {
    /// Appends head, hashed area and final bytes to the content, and finishes the hash. In version 6 the content was
    /// hashed after the salt; that it was this salt shows only when the signature is verified.
    ///
    /// # Errors
    /// [`Error::Malformed`] if content or salt are of another hash, if a version 6 issuer has no salt, or a
    /// version 4 one has.
    pub fn finish(&self, content: &Midstate) -> Result<Unsigned, Error> {
        if content.hash() != self.hash {
            return Err(Error::malformed(WHAT, "the content was hashed with another algorithm"));
        }
        let tail = self.tail()?;
        let hashed = self.hashed()?;
        let mut hasher = content.resume();
        hasher.update(&hashed);
        hasher.update(&[self.version().number(), 0xff]);
        hasher.update(&u32::try_from(hashed.len()).unwrap_or(u32::MAX).to_be_bytes());
        Ok(Unsigned { key: self.key, hashed, tail, digest: hasher.finish() })
    }

    const fn version(&self) -> KeyVersion {
        self.issuer.version()
    }

    fn tail(&self) -> Result<Tail, Error> {
        match (self.version(), self.first) {
            (KeyVersion::V4, None) => Ok(Tail::V4 { key_id: self.issuer.key_id() }),
            (KeyVersion::V6, Some(salt)) if salt.hash() == self.hash => Ok(Tail::V6 { salt }),
            (KeyVersion::V4, Some(_)) => Err(Error::malformed(WHAT, "version 4 hashes no salt first")),
            (KeyVersion::V6, Some(_)) => Err(Error::malformed(WHAT, "its salt is for another hash")),
            (KeyVersion::V6, None) => Err(Error::malformed(WHAT, "version 6 needs a salt")),
        }
    }

    fn hashed(&self) -> Result<Vec<u8>, Error> {
        let mut area = Vec::with_capacity(128);
        push_subpacket(&mut area, 2, &[&self.created.to_be_bytes()])?;
        push_subpacket(&mut area, 33, &[&[self.version().number()], self.issuer.as_bytes()])?;
        if let Some(salt) = &self.salt {
            let name_len = u16::try_from(SALT_NOTATION.len()).unwrap_or(u16::MAX).to_be_bytes();
            let salt_len = u16::try_from(salt.len()).unwrap_or(u16::MAX).to_be_bytes();
            // The flags are zero: not human-readable.
            push_subpacket(&mut area, 20, &[&[0; 4], &name_len, &salt_len, SALT_NOTATION.as_bytes(), salt])?;
        }
        let version = self.version();
        let mut out = vec![
            version.number(),
            self.kind.signature_type(),
            self.key.openpgp_id(version),
            self.hash.openpgp_id(),
        ];
        push_area(&mut out, version, &area)?;
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
        let mut body = self.hashed;
        let prefix = self.digest.as_bytes().iter().take(2);
        match self.tail {
            Tail::V4 { key_id } => {
                let mut unhashed = Vec::with_capacity(10);
                push_subpacket(&mut unhashed, 16, &[&key_id])?;
                push_area(&mut body, KeyVersion::V4, &unhashed)?;
                body.extend(prefix);
            }
            Tail::V6 { salt } => {
                push_area(&mut body, KeyVersion::V6, &[])?;
                body.extend(prefix);
                body.extend(u8::try_from(salt.as_bytes().len()));
                body.extend_from_slice(salt.as_bytes());
            }
        }
        match (self.key, self.tail) {
            (KeyAlgorithm::Ed25519, Tail::V6 { .. }) => push_native_ed25519(&mut body, raw)?,
            (key, Tail::V4 { .. } | Tail::V6 { .. }) => push_numbers(&mut body, key, raw)?,
        }
        Ok(write_packet(tag::SIGNATURE, &body))
    }
}

/// One subpacket, shorter than 192 bytes as all of ours are.
pub(crate) fn push_subpacket(area: &mut Vec<u8>, kind: u8, body: &[&[u8]]) -> Result<(), Error> {
    let len = body.iter().map(|part| part.len()).sum::<usize>().saturating_add(1);
    let len = u8::try_from(len).ok().filter(|len| *len < 192);
    area.push(len.ok_or_else(|| Error::malformed(WHAT, "a subpacket is longer than 191 bytes"))?);
    area.push(kind);
    for part in body {
        area.extend_from_slice(part);
    }
    Ok(())
}

/// The length of an area has two bytes in version 4 and four in version 6.
fn push_area(out: &mut Vec<u8>, version: KeyVersion, area: &[u8]) -> Result<(), Error> {
    let len = u16::try_from(area.len())
        .map_err(|_| Error::malformed(WHAT, "a subpacket area is longer than 65535 bytes"))?;
    match version {
        KeyVersion::V4 => out.extend(len.to_be_bytes()),
        KeyVersion::V6 => out.extend(u32::from(len).to_be_bytes()),
    }
    out.extend_from_slice(area);
    Ok(())
}

/// A raw signature as MPIs: one of RSA (section 5.2.3.1), R and S of Ed25519 (section 5.2.3.3).
pub(crate) fn push_numbers(out: &mut Vec<u8>, key: KeyAlgorithm, raw: &[u8]) -> Result<(), Error> {
    match key {
        KeyAlgorithm::Rsa(bits) if raw.len() == usize::from(bits.div_ceil(8)) => push_mpi(out, raw),
        KeyAlgorithm::Rsa(_) => Err(wrong_length()),
        KeyAlgorithm::Ed25519 => {
            let [r, s] = halves(raw)?;
            push_mpi(out, r)?;
            push_mpi(out, s)
        }
    }
}

/// Section 5.2.3.4.
fn push_native_ed25519(out: &mut Vec<u8>, raw: &[u8]) -> Result<(), Error> {
    if halves(raw)?.iter().any(|half| half.iter().all(|byte| *byte == 0)) {
        return Err(Error::malformed("raw signature", "a number in it is zero"));
    }
    out.extend_from_slice(raw);
    Ok(())
}

/// R and S.
fn halves(raw: &[u8]) -> Result<[&[u8]; 2], Error> {
    let (r, s) = raw.split_at_checked(32).filter(|(_, s)| s.len() == 32).ok_or_else(wrong_length)?;
    Ok([r, s])
}

fn wrong_length() -> Error {
    Error::malformed("raw signature", "its length is not that of its key")
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
            kind: DataKind::Binary,
            key,
            issuer: Fingerprint::v4([9; 20]),
            created: 1,
            salt: None,
            first: None,
        }
    }

    fn v6(key: KeyAlgorithm) -> Template {
        let first = Salt::new(HashAlgorithm::Sha256, &[3; 16]).unwrap();
        Template { issuer: Fingerprint::v6([9; 32]), first: Some(first), ..template(key) }
    }

    fn unsigned(key: KeyAlgorithm) -> Unsigned {
        template(key).finish(&Hasher::new(HashAlgorithm::Sha256).midstate()).unwrap()
    }

    fn unsigned_v6(key: KeyAlgorithm) -> Unsigned {
        let template = v6(key);
        template.finish(&template.first.unwrap().hasher().midstate()).unwrap()
    }

    #[test]
    fn content_of_another_hash_is_refused() {
        let other = Hasher::new(HashAlgorithm::Sha512).midstate();
        assert!(matches!(template(KeyAlgorithm::Ed25519).finish(&other), Err(Error::Malformed { .. })));
    }

    #[test]
    fn a_version_6_signature_has_a_salt_of_its_hash_and_a_version_4_one_has_none() {
        let content = Hasher::new(HashAlgorithm::Sha256).midstate();
        let good = v6(KeyAlgorithm::Ed25519);
        assert!(good.finish(&content).is_ok());
        let without = Template { first: None, ..good.clone() };
        assert!(without.finish(&content).is_err());
        let other = Salt::new(HashAlgorithm::Sha512, &[3; 32]).unwrap();
        assert!(Template { first: Some(other), ..good.clone() }.finish(&content).is_err());
        assert!(Template { first: good.first, ..template(KeyAlgorithm::Ed25519) }.finish(&content).is_err());
    }

    /// RFC 9580 sections 5.2.3 and 5.2.4, byte by byte.
    #[test]
    fn a_version_6_signature_has_long_areas_its_salt_in_the_packet_and_no_key_id() {
        let first = v6(KeyAlgorithm::Ed25519).first.unwrap();
        let mut content = first.hasher();
        content.update(b"content");
        let unsigned = v6(KeyAlgorithm::Ed25519).finish(&content.midstate()).unwrap();
        let head = [&[6, 0, 27, 8, 0, 0, 0, 41, 5, 2, 0, 0, 0, 1, 34, 33, 6][..], &[9; 32]].concat();
        let hashed = [&[3; 16][..], b"content", &head, &[6, 0xff, 0, 0, 0, 49]].concat();
        let digest = Hasher::digest(HashAlgorithm::Sha256, &hashed);
        assert_eq!(unsigned.digest(), digest);
        let packet = unsigned.pack(&[1; 64]).unwrap();
        let tail = [&[0, 0, 0, 0][..], &digest.as_bytes()[..2], &[16], &[3; 16], &[1; 64]].concat();
        let body = [head, tail].concat();
        assert_eq!(packet, write_packet(tag::SIGNATURE, &body));
        let read = crate::openpgp::packet::SignaturePacket::parse(&packet).unwrap();
        assert_eq!((read.version(), read.key_algorithm_id()), (6, 27));
        assert_eq!(read.salt(), Some(&[3; 16][..]));
        assert_eq!(read.issuer_fingerprint(), Some(Fingerprint::v6([9; 32])));
    }

    #[test]
    fn raw_signatures_of_another_length_or_value_are_refused() {
        for (key, good) in
            [(KeyAlgorithm::Rsa(2048), 256), (KeyAlgorithm::Rsa(3072), 384), (KeyAlgorithm::Ed25519, 64)]
        {
            for unsigned in [unsigned(key), unsigned_v6(key)] {
                assert!(unsigned.clone().pack(&vec![1; good]).is_ok());
                for bad in [0, 31, 32, 63, 65, good - 1, good + 1] {
                    assert!(unsigned.clone().pack(&vec![1; bad]).is_err(), "{key} {bad}");
                }
                assert!(unsigned.pack(&vec![0; good]).is_err(), "{key} zero");
            }
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
    fn a_signature_over_text_differs_in_its_type_alone() {
        let content = Hasher::new(HashAlgorithm::Sha256).midstate();
        let made = |kind| {
            let template = Template { kind, ..template(KeyAlgorithm::Ed25519) };
            template.finish(&content).unwrap()
        };
        let (binary, text) = (made(DataKind::Binary), made(DataKind::Text));
        let differs = |at: &usize| binary.hashed.get(*at) != text.hashed.get(*at);
        assert_eq!((0..binary.hashed.len()).filter(differs).collect::<Vec<_>>(), [1]);
        assert_eq!((binary.hashed[1], text.hashed[1]), (0, 1));
        assert_ne!(binary.digest(), text.digest());
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
