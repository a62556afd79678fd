//! Signature packets of this protocol (RFC 4880 sections 4.2, 5.2.2 and 5.2.3): version 3 in answer to every digest, version 4
//! in answer to a probe. Both have a packet header of the old format.
//!
//! ```text
//! version 3   88 len(1) | 89 len(2)   03 05 class time(4) key-id(8) key-algorithm hash left(2) numbers
//! version 4   88 len(1) | 89 len(2)   04 class key-algorithm hash len(2) hashed len(2) unhashed left(2) numbers
//!   a probe's hashed area             16 21 04 fingerprint(20)  05 02 time(4)
//!   unhashed area                     0a 10 key-id(8), with its length: 09 10
//! numbers     RSA: one; DSA, ECDSA, EdDSA: r and s; each bits(2), big-endian without leading zeros
//! ```
//!
//! Class and time of a version 3 packet are those of the request, and `left` repeats the digest of the request: nothing in
//! the packet is the server's but the key and the numbers.

use crate::bytes::Reader;
use crate::digest::{DigestArgument, Hash};
use crate::error::Error;
use crate::limits::{NUMBER_BITS_MAX, PAIR_NUMBER_BITS_MAX};

const PACKET: &str = "signature packet";
const VALUE: &str = "raw signature";

/// A fingerprint of a version 4 key. This protocol has no room for others.
pub type Fingerprint = [u8; 20];

/// Algorithms of keys, by their OpenPGP numbers (RFC 9580 section 9.1). The private numbers 100 and 101, which `signd` uses for
/// ML-DSA in X.509 signatures, are not among them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KeyAlgorithm {
    /// 1.
    Rsa,
    /// 17. Read, never made.
    Dsa,
    /// 19.
    Ecdsa,
    /// 22: Ed25519 in a version 4 key.
    EdDsaLegacy,
}

impl KeyAlgorithm {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Rsa, Self::Dsa, Self::Ecdsa, Self::EdDsaLegacy];

    /// The number in packets.
    #[must_use]
    pub const fn openpgp_id(self) -> u8 {
        match self {
            Self::Rsa => 1,
            Self::Dsa => 17,
            Self::Ecdsa => 19,
            Self::EdDsaLegacy => 22,
        }
    }

    /// The inverse of [`Self::openpgp_id`].
    ///
    /// # Errors
    /// [`Error::Unsupported`].
    pub fn from_openpgp_id(id: u8) -> Result<Self, Error> {
        Self::ALL
            .into_iter()
            .find(|algorithm| algorithm.openpgp_id() == id)
            .ok_or(Error::Unsupported { what: "key algorithm", number: id })
    }

    /// How many numbers a signature has, and the bits of each at most.
    const fn numbers(self) -> (usize, usize) {
        match self {
            Self::Rsa => (1, NUMBER_BITS_MAX),
            Self::Dsa | Self::Ecdsa | Self::EdDsaLegacy => (2, PAIR_NUMBER_BITS_MAX),
        }
    }
}

/// What a key gave: big-endian numbers, with or without leading zeros. For Ed25519 the two halves of the 64 bytes.
#[derive(Clone, Copy, Debug)]
pub enum Value<'a> {
    /// PKCS#1 v1.5.
    Rsa(&'a [u8]),
    /// On any curve.
    Ecdsa {
        /// First number.
        r: &'a [u8],
        /// Second number.
        s: &'a [u8],
    },
    /// Over the bytes of the digest.
    EdDsaLegacy {
        /// The encoded point.
        r: &'a [u8],
        /// The scalar.
        s: &'a [u8],
    },
}

/// The packet that answers a digest.
///
/// # Errors
/// [`Error::Malformed`] if a number is zero or too long.
pub fn version_3(digest: &DigestArgument, key_id: [u8; 8], value: &Value<'_>) -> Result<Vec<u8>, Error> {
    let (algorithm, numbers) = match value {
        Value::Rsa(number) => (KeyAlgorithm::Rsa, vec![*number]),
        Value::Ecdsa { r, s } => (KeyAlgorithm::Ecdsa, vec![*r, *s]),
        Value::EdDsaLegacy { r, s } => (KeyAlgorithm::EdDsaLegacy, vec![*r, *s]),
    };
    let mut body = vec![3, 5, digest.class().number()];
    body.extend(digest.created().to_be_bytes());
    body.extend(key_id);
    body.extend([algorithm.openpgp_id(), digest.hash().openpgp_id()]);
    body.extend(digest.left());
    for number in numbers {
        push_number(&mut body, number, algorithm)?;
    }
    write_packet(&body)
}

/// Bytes of a version 3 packet at most, for a key whose numbers have up to that many bytes each.
#[must_use]
pub const fn version_3_len_max(algorithm: KeyAlgorithm, number_bytes: usize) -> usize {
    let (count, _) = algorithm.numbers();
    number_bytes.saturating_add(2).saturating_mul(count).saturating_add(22)
}

/// The packet that answers a probe: what the client wants to know, and the number 1 where the signature would be. No key was
/// used, and no key verifies it: a server must never sign a digest that everybody may choose.
///
/// # Errors
/// [`Error::Malformed`] if the digest is not a probe's.
pub fn probe_answer(
    probe: &DigestArgument,
    algorithm: KeyAlgorithm,
    fingerprint: &Fingerprint,
) -> Result<Vec<u8>, Error> {
    if !probe.is_probe() {
        return Err(Error::malformed("probe", "its digest is not 04 in every byte"));
    }
    let mut body = vec![4, probe.class().number(), algorithm.openpgp_id(), probe.hash().openpgp_id(), 0, 29];
    body.extend([22, 33, 4]);
    body.extend(fingerprint);
    body.extend([5, 2]);
    body.extend(probe.created().to_be_bytes());
    push_key_id(&mut body, key_id(fingerprint));
    body.extend(probe.left());
    for _ in 0..algorithm.numbers().0 {
        push_number(&mut body, &[1], algorithm)?;
    }
    write_packet(&body)
}

/// The key id of a version 4 key (RFC 9580 section 5.5.4.2).
#[must_use]
pub fn key_id(fingerprint: &Fingerprint) -> [u8; 8] {
    fingerprint.last_chunk().copied().unwrap_or_default()
}

/// A signature packet from a server, taken apart. Nothing of it is verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignaturePacket {
    /// 3 or 4.
    pub version: u8,
    /// RFC 9580 section 5.2.1.
    pub class: u8,
    /// Unix seconds; in version 4 from the hashed area, if there.
    pub created: Option<u32>,
    /// Of the key.
    pub algorithm: KeyAlgorithm,
    /// Of the digest.
    pub hash: Hash,
    /// The key; in version 4 from the hashed fingerprint, or else the first key id.
    pub issuer: [u8; 8],
    /// In version 4, where the hashed area has it.
    pub fingerprint: Option<Fingerprint>,
    /// The first two bytes of the digest.
    pub left: [u8; 2],
    /// The numbers with their lengths, canonical and right in number.
    pub numbers: Vec<u8>,
}

impl SignaturePacket {
    /// Exactly one packet.
    ///
    /// # Errors
    /// [`Error::Malformed`], [`Error::Unsupported`].
    pub fn parse(bytes: &[u8]) -> Result<Self, Error> {
        let mut reader = Reader(read_packet(bytes)?);
        match reader.u8() {
            Some(3) => parse_3(reader),
            Some(4) => parse_4(reader),
            Some(number) => Err(Error::Unsupported { what: "signature version", number }),
            None => Err(truncated()),
        }
    }
}

fn parse_3(mut reader: Reader<'_>) -> Result<SignaturePacket, Error> {
    if reader.u8() != Some(5) {
        return Err(Error::malformed(PACKET, "version 3 does not hash five bytes"));
    }
    let class = reader.u8().ok_or_else(truncated)?;
    let created = reader.u32().ok_or_else(truncated)?;
    let issuer = reader.array().ok_or_else(truncated)?;
    let (algorithm, hash) = algorithms(&mut reader)?;
    let left = reader.array().ok_or_else(truncated)?;
    let numbers = numbers(reader.0, algorithm)?;
    let (created, fingerprint) = (Some(created), None);
    Ok(SignaturePacket { version: 3, class, created, algorithm, hash, issuer, fingerprint, left, numbers })
}

fn parse_4(mut reader: Reader<'_>) -> Result<SignaturePacket, Error> {
    let class = reader.u8().ok_or_else(truncated)?;
    let (algorithm, hash) = algorithms(&mut reader)?;
    let hashed = Area::parse(reader.counted().ok_or_else(truncated)?)?;
    let unhashed = Area::parse(reader.counted().ok_or_else(truncated)?)?;
    let left = reader.array().ok_or_else(truncated)?;
    let numbers = numbers(reader.0, algorithm)?;
    let (created, fingerprint) = (hashed.created, hashed.fingerprint);
    let issuer = fingerprint.as_ref().map(key_id).or(hashed.key_id).or(unhashed.key_id);
    let issuer = issuer.ok_or_else(|| Error::malformed(PACKET, "it names no issuer"))?;
    Ok(SignaturePacket { version: 4, class, created, algorithm, hash, issuer, fingerprint, left, numbers })
}

fn algorithms(reader: &mut Reader<'_>) -> Result<(KeyAlgorithm, Hash), Error> {
    let (key, hash) = (reader.u8().ok_or_else(truncated)?, reader.u8().ok_or_else(truncated)?);
    Ok((KeyAlgorithm::from_openpgp_id(key)?, Hash::from_openpgp_id(hash)?))
}

/// What we look at in a subpacket area; the first of each kind counts.
#[derive(Default)]
struct Area {
    created: Option<u32>,
    key_id: Option<[u8; 8]>,
    fingerprint: Option<Fingerprint>,
}

impl Area {
    fn parse(bytes: &[u8]) -> Result<Self, Error> {
        let mut area = Self::default();
        let mut reader = Reader(bytes);
        while !reader.0.is_empty() {
            let body = subpacket(&mut reader).ok_or_else(truncated)?;
            match body {
                [2, rest @ ..] => {
                    area.created = area.created.or(rest.try_into().ok().map(u32::from_be_bytes))
                }
                [16, rest @ ..] => area.key_id = area.key_id.or(rest.try_into().ok()),
                [33, 4, rest @ ..] => area.fingerprint = area.fingerprint.or(rest.try_into().ok()),
                _ => {}
            }
        }
        Ok(area)
    }
}

/// Kind and body (RFC 9580 section 5.2.3.7). The bit that makes it critical stays in the kind: none of those that
/// we look at is critical.
fn subpacket<'a>(reader: &mut Reader<'a>) -> Option<&'a [u8]> {
    let len = match reader.u8()? {
        short @ 0..192 => usize::from(short),
        high @ 192..255 => two_octets(high, reader.u8()?),
        255 => usize::try_from(reader.u32()?).ok()?,
    };
    reader.take(len)
}

fn two_octets(high: u8, low: u8) -> usize {
    (usize::from(high.saturating_sub(192)) << 8).saturating_add(192).saturating_add(usize::from(low))
}

/// The body of the one packet in `bytes`.
fn read_packet(bytes: &[u8]) -> Result<&[u8], Error> {
    let mut reader = Reader(bytes);
    let first = reader.u8().ok_or_else(truncated)?;
    let (tag, len) = if first & 0xc0 == 0xc0 {
        (first & 0x3f, new_length(&mut reader))
    } else {
        ((first >> 2) & 0x0f, old_length(first, &mut reader))
    };
    if first & 0x80 == 0 || tag != 2 {
        return Err(Error::malformed(PACKET, "it is no signature packet"));
    }
    let len = len.ok_or_else(|| Error::malformed(PACKET, "it is truncated, or its length is not known"))?;
    if reader.0.len() == len {
        Ok(reader.0)
    } else {
        Err(Error::malformed(PACKET, "its length is not that of the result"))
    }
}

/// RFC 9580 section 4.2.2.
pub(crate) fn old_length(first: u8, reader: &mut Reader<'_>) -> Option<usize> {
    match first & 3 {
        0 => reader.u8().map(usize::from),
        1 => reader.u16().map(usize::from),
        2 => reader.u32().and_then(|len| usize::try_from(len).ok()),
        _ => None,
    }
}

/// RFC 9580 section 4.2.1; partial lengths are for streams.
pub(crate) fn new_length(reader: &mut Reader<'_>) -> Option<usize> {
    match reader.u8()? {
        short @ 0..192 => Some(usize::from(short)),
        high @ 192..224 => Some(two_octets(high, reader.u8()?)),
        224..255 => None,
        255 => reader.u32().and_then(|len| usize::try_from(len).ok()),
    }
}

fn numbers(bytes: &[u8], algorithm: KeyAlgorithm) -> Result<Vec<u8>, Error> {
    let (count, bits_max) = algorithm.numbers();
    let mut reader = Reader(bytes);
    for _ in 0..count {
        let bits = usize::from(reader.u16().ok_or_else(truncated)?);
        let number = reader.take(bits.div_ceil(8)).ok_or_else(truncated)?;
        if bits > bits_max {
            return Err(Error::malformed(PACKET, "a number is longer than its algorithm allows"));
        }
        if bit_length(number) != Some(bits) {
            return Err(Error::malformed(PACKET, "a number is zero, or not as long as it says"));
        }
    }
    if reader.0.is_empty() {
        Ok(bytes.to_vec())
    } else {
        Err(Error::malformed(PACKET, "bytes follow its numbers"))
    }
}

/// Of a number without leading zeros; `None` for others.
fn bit_length(number: &[u8]) -> Option<usize> {
    let first = number.first().filter(|first| **first != 0)?;
    let zeros = usize::try_from(first.leading_zeros()).ok()?;
    number.len().checked_mul(8)?.checked_sub(zeros)
}

fn push_number(body: &mut Vec<u8>, number: &[u8], algorithm: KeyAlgorithm) -> Result<(), Error> {
    let zeros = number.iter().take_while(|byte| **byte == 0).count();
    let number = number.get(zeros..).unwrap_or_default();
    let bits = bit_length(number).ok_or_else(|| Error::malformed(VALUE, "a number in it is zero"))?;
    let fits = u16::try_from(bits).ok().filter(|_| bits <= algorithm.numbers().1);
    body.extend(fits.ok_or_else(|| Error::malformed(VALUE, "a number in it is too long"))?.to_be_bytes());
    body.extend(number);
    Ok(())
}

/// The unhashed area with the key id alone.
pub(crate) fn push_key_id(body: &mut Vec<u8>, key_id: [u8; 8]) {
    body.extend([0, 10, 9, 16]);
    body.extend(key_id);
}

/// A signature packet with an old header of the shortest length.
pub(crate) fn write_packet(body: &[u8]) -> Result<Vec<u8>, Error> {
    let len = u16::try_from(body.len())
        .map_err(|_| Error::malformed(PACKET, "it is longer than 65535 bytes"))?
        .to_be_bytes();
    let mut out = match len {
        [0, low] => vec![0x88, low],
        [high, low] => vec![0x89, high, low],
    };
    out.extend_from_slice(body);
    Ok(out)
}

fn truncated() -> Error {
    Error::malformed(PACKET, "it is truncated")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::digest::Class;

    const KEY_ID: [u8; 8] = [1, 2, 3, 4, 5, 6, 7, 8];

    fn digest() -> DigestArgument {
        DigestArgument::new(Hash::Sha256, &[0xab; 32], Class::Text, 0x6b0d_6baa).unwrap()
    }

    #[test]
    fn a_version_3_packet_reads_back_as_it_was_written() {
        for (value, algorithm, numbers) in [
            (Value::Rsa(&[0, 0x7f, 0xff]), KeyAlgorithm::Rsa, &[0, 15, 0x7f, 0xff][..]),
            (Value::Ecdsa { r: &[1], s: &[0, 2] }, KeyAlgorithm::Ecdsa, &[0, 1, 1, 0, 2, 2]),
            (Value::EdDsaLegacy { r: &[0x80], s: &[3] }, KeyAlgorithm::EdDsaLegacy, &[0, 8, 0x80, 0, 2, 3]),
        ] {
            let packet = version_3(&digest(), KEY_ID, &value).unwrap();
            assert!(packet.len() <= version_3_len_max(algorithm, 3));
            let read = SignaturePacket::parse(&packet).unwrap();
            assert_eq!(
                read,
                SignaturePacket {
                    version: 3,
                    class: 1,
                    created: Some(0x6b0d_6baa),
                    algorithm,
                    hash: Hash::Sha256,
                    issuer: KEY_ID,
                    fingerprint: None,
                    left: [0xab, 0xab],
                    numbers: numbers.to_vec(),
                }
            );
        }
    }

    #[test]
    fn a_packet_above_255_bytes_has_the_longer_header_and_the_length_that_was_foretold() {
        let short = version_3(&digest(), KEY_ID, &Value::Rsa(&[0xff; 232])).unwrap();
        assert_eq!(short[..2], [0x88, 253]);
        let long = version_3(&digest(), KEY_ID, &Value::Rsa(&[0xff; 256])).unwrap();
        assert_eq!(long[..3], [0x89, 1, 21]);
        assert_eq!(long.len(), version_3_len_max(KeyAlgorithm::Rsa, 256));
    }

    #[test]
    fn numbers_that_are_zero_or_too_long_are_not_written() {
        let long = vec![1; NUMBER_BITS_MAX / 8 + 1];
        for value in [
            Value::Rsa(&[]),
            Value::Rsa(&[0, 0]),
            Value::Rsa(&long),
            Value::Ecdsa { r: &[1], s: &[0] },
            Value::EdDsaLegacy { r: &[0xff; 67], s: &[1] },
        ] {
            assert!(version_3(&digest(), KEY_ID, &value).is_err(), "{value:?}");
        }
    }

    #[test]
    fn an_answer_to_a_probe_says_algorithm_and_fingerprint_and_has_no_signature() {
        let fingerprint = [9; 20];
        for algorithm in KeyAlgorithm::ALL {
            let probe = DigestArgument::probe(Hash::Sha256);
            let read =
                SignaturePacket::parse(&probe_answer(&probe, algorithm, &fingerprint).unwrap()).unwrap();
            assert_eq!((read.version, read.algorithm, read.fingerprint), (4, algorithm, Some(fingerprint)));
            assert_eq!((read.issuer, read.left, read.created), ([9; 8], [4, 4], Some(0)));
            assert_eq!(read.numbers, [0, 1, 1].repeat(algorithm.numbers().0));
            assert!(probe_answer(&digest(), algorithm, &fingerprint).is_err());
        }
    }

    #[test]
    fn both_packet_headers_are_read_and_a_version_4_issuer_may_be_unhashed() {
        let body =
            [&[4, 0, 1, 8, 0, 6, 5, 2, 0, 0, 0, 7, 0, 10, 9, 16][..], &KEY_ID, &[1, 2, 0, 1, 1]].concat();
        for header in
            [&[0x88, 29][..], &[0x89, 0, 29], &[0x8a, 0, 0, 0, 29], &[0xc2, 29], &[0xc2, 255, 0, 0, 0, 29]]
        {
            let read = SignaturePacket::parse(&[header, &body].concat()).unwrap();
            assert_eq!((read.issuer, read.created, read.fingerprint), (KEY_ID, Some(7), None));
        }
    }

    #[test]
    fn damaged_packets_are_refused() {
        let good = version_3(&digest(), KEY_ID, &Value::Ecdsa { r: &[0x80; 32], s: &[0x7f; 32] }).unwrap();
        let probe = probe_answer(&DigestArgument::probe(Hash::Sha1), KeyAlgorithm::Rsa, &[9; 20]).unwrap();
        for packet in [&good, &probe] {
            for len in 0..packet.len() {
                let mut cut = packet[..len].to_vec();
                assert!(SignaturePacket::parse(&cut).is_err(), "{len}");
                if let Some(length) = cut.get_mut(1).filter(|_| len > 2) {
                    *length = u8::try_from(len - 2).unwrap();
                    assert!(SignaturePacket::parse(&cut).is_err(), "{len} with its length");
                }
            }
            assert!(SignaturePacket::parse(&[&packet[..], &[0]].concat()).is_err());
        }
        for (at, byte) in
            [(0, 0x8c), (0, 0x08), (0, 0x8b), (2, 5), (3, 4), (17, 100), (18, 9), (21, 0), (22, 1)]
        {
            let mut bad = good.clone();
            bad[at] = byte;
            assert!(SignaturePacket::parse(&bad).is_err(), "byte {at} = {byte:#x}");
        }
    }
}
