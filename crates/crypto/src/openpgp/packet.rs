//! Reading one signature packet (RFC 9580 section 5.2; version 3 as in RFC 4880 section 5.2.2). Our own parser,
//! because the hash covers the exact bytes of the hashed area, and because everything that strict verifiers
//! refuse must be refused here by name.
//!
//! ```text
//! version 3:  03 05 type time(4) key-id(8) key-algorithm hash prefix(2) value
//! version 4:  04 type key-algorithm hash len(2) hashed-area len(2) unhashed-area prefix(2) value
//! version 6:  06 type key-algorithm hash len(4) hashed-area len(4) unhashed-area prefix(2) len(1) salt value
//! ```

use pgp::types::{Mpi, SignatureBytes};

use crate::algorithm::{HashAlgorithm, RSA_BITS_MIN};
use crate::digest::to_hex;
use crate::error::Error;
use crate::openpgp::fingerprint::Fingerprint;
use crate::openpgp::framing::{self, Reader, tag};
use subpacket::Areas;

pub(crate) mod subpacket;
#[cfg(test)]
mod tests;

/// Longest signature packet in bytes. An RSA-8192 signature with all usual subpackets has 1.3 KB, a signature of
/// ML-DSA-87 5 KB; gpg embeds user ids and keyserver names, and still stays far below.
pub const PACKET_BYTES_MAX: usize = 64 << 10;

/// Most signature packets in one place (a detached signature file, the tag 278 of one package).
pub const PACKETS_MAX: usize = 64;

/// Longest MPI in bits, as in gpg.
const MPI_BITS_MAX: u16 = 16_384;

/// What this module calls its input in errors.
const WHAT: &str = "signature packet";

/// One signature packet, well formed; nothing in it is trusted yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignaturePacket {
    whole: Vec<u8>,
    version: u8,
    signature_type: u8,
    key_algorithm: u8,
    hash: u8,
    /// What the hash covers of this packet, before the final length.
    hashed: Vec<u8>,
    areas: Areas,
    salt: Option<Vec<u8>>,
    prefix: [u8; 2],
    value: Value,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Value {
    /// Minimal, without leading zeros.
    Mpis(Vec<Vec<u8>>),
    Native(Vec<u8>),
}

impl SignaturePacket {
    /// Reads exactly one packet, with nothing after it.
    ///
    /// # Errors
    /// [`Error::Malformed`] with the rule that is broken; [`Error::Unsupported`] for another version of
    /// signature packets; [`Error::TooLarge`] above [`PACKET_BYTES_MAX`].
    pub fn parse(bytes: &[u8]) -> Result<Self, Error> {
        let (packet, rest) = Self::parse_first(bytes)?;
        if !rest.is_empty() {
            return Err(Error::malformed(WHAT, "something follows the packet"));
        }
        Ok(packet)
    }

    /// Reads one packet after the other, at least one and at most [`PACKETS_MAX`].
    ///
    /// # Errors
    /// As for [`Self::parse`].
    pub fn parse_many(bytes: &[u8]) -> Result<Vec<Self>, Error> {
        let mut packets = Vec::new();
        let mut rest = bytes;
        while !rest.is_empty() || packets.is_empty() {
            if packets.len() == PACKETS_MAX {
                let limit = u64::try_from(PACKETS_MAX).unwrap_or(u64::MAX);
                let size = limit.saturating_add(1);
                return Err(Error::TooLarge { what: "a list of signatures", size, limit, unit: "packets" });
            }
            let (packet, tail) = Self::parse_first(rest)?;
            packets.push(packet);
            rest = tail;
        }
        Ok(packets)
    }

    fn parse_first(bytes: &[u8]) -> Result<(Self, &[u8]), Error> {
        let (packet, rest) = framing::split_first(WHAT, bytes)?;
        if packet.tag != tag::SIGNATURE {
            return Err(Error::malformed(WHAT, "it is a packet of another type"));
        }
        if packet.whole.len() > PACKET_BYTES_MAX {
            return Err(Error::TooLarge {
                what: WHAT,
                size: u64::try_from(packet.whole.len()).unwrap_or(u64::MAX),
                limit: u64::try_from(PACKET_BYTES_MAX).unwrap_or(u64::MAX),
                unit: "bytes",
            });
        }
        Ok((parse_body(packet.whole, packet.body)?, rest))
    }

    /// 3, 4 or 6.
    #[must_use]
    pub const fn version(&self) -> u8 {
        self.version
    }

    /// Section 5.2.1; 0x00 is a signature over binary data.
    #[must_use]
    pub const fn signature_type(&self) -> u8 {
        self.signature_type
    }

    /// Section 9.5.
    #[must_use]
    pub const fn hash_id(&self) -> u8 {
        self.hash
    }

    /// The hash algorithm, if we compute it.
    #[must_use]
    pub fn hash(&self) -> Option<HashAlgorithm> {
        HashAlgorithm::from_openpgp_id(self.hash).ok()
    }

    /// The hash algorithm's name in lower case, or its number.
    #[must_use]
    pub fn hash_name(&self) -> String {
        match self.hash {
            1 => "md5".to_owned(),
            2 => "sha1".to_owned(),
            3 => "ripemd160".to_owned(),
            8 => "sha256".to_owned(),
            9 => "sha384".to_owned(),
            10 => "sha512".to_owned(),
            11 => "sha224".to_owned(),
            12 => "sha3-256".to_owned(),
            14 => "sha3-512".to_owned(),
            other => format!("hash algorithm {other}"),
        }
    }

    /// Section 9.1.
    #[must_use]
    pub const fn key_algorithm_id(&self) -> u8 {
        self.key_algorithm
    }

    /// The key algorithm's name in lower case, or its number.
    #[must_use]
    pub fn key_algorithm_name(&self) -> String {
        key_algorithm_name(self.key_algorithm)
    }

    /// Creation time, Unix seconds, from the hashed area.
    #[must_use]
    pub const fn created(&self) -> Option<u32> {
        self.areas.created
    }

    /// When the signature itself ends, Unix seconds; `None` if it never does (section 5.2.3.18).
    #[must_use]
    pub fn expires(&self) -> Option<i64> {
        let after = self.areas.expires_after.filter(|after| *after != 0)?;
        Some(i64::from(self.areas.created?).saturating_add(i64::from(after)))
    }

    /// Who claims to have made it, by fingerprint.
    #[must_use]
    pub const fn issuer_fingerprint(&self) -> Option<Fingerprint> {
        self.areas.issuer_fingerprint
    }

    /// Who claims to have made it, by key id: the packet's own, or that of its fingerprint.
    #[must_use]
    pub fn issuer_key_id(&self) -> Option<[u8; 8]> {
        self.areas.issuer_fingerprint.map(|fingerprint| fingerprint.key_id()).or(self.areas.issuer_key_id)
    }

    /// The fingerprint, else the key id, else nothing, in lower-case hexadecimal.
    #[must_use]
    pub fn issuer_hex(&self) -> String {
        match (self.areas.issuer_fingerprint, self.areas.issuer_key_id) {
            (Some(fingerprint), _) => fingerprint.to_string(),
            (None, Some(id)) => to_hex(&id),
            (None, None) => String::new(),
        }
    }

    /// Version 6: what is hashed before the content.
    #[must_use]
    pub fn salt(&self) -> Option<&[u8]> {
        self.salt.as_deref()
    }

    /// The whole packet as it came, header included.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.whole
    }

    /// Why this signature is worth nothing whoever made it, if that shows in the packet alone: its hash, its
    /// key algorithm, or the size of its RSA value.
    #[must_use]
    pub fn is_weak(&self) -> Option<String> {
        match self.hash {
            1 => return Some("it uses MD5".to_owned()),
            2 => return Some("it uses SHA-1".to_owned()),
            3 => return Some("it uses RIPEMD-160".to_owned()),
            _ => {}
        }
        match (self.key_algorithm, &self.value) {
            (17, _) => Some("it was made with a DSA key".to_owned()),
            (20, _) => Some("it was made with an Elgamal key".to_owned()),
            (1 | 3, Value::Mpis(mpis)) => {
                // A value is shorter than its modulus by 64 bits once in 2^64 signatures.
                let bits = mpis.iter().map(Vec::len).max().unwrap_or_default().saturating_mul(8);
                let least = usize::from(RSA_BITS_MIN).saturating_sub(64);
                (bits < least).then(|| format!("it was made with an RSA key of about {bits} bits"))
            }
            _ => None,
        }
    }

    /// The first critical subpacket that we do not understand (section 5.2.3.7).
    pub(crate) const fn critical_unknown(&self) -> Option<u8> {
        self.areas.critical_unknown
    }

    /// The first two bytes of the digest, as the packet claims.
    pub(crate) const fn digest_prefix(&self) -> [u8; 2] {
        self.prefix
    }

    /// What is hashed after the content (section 5.2.4).
    pub(crate) fn trailer(&self) -> Vec<u8> {
        let mut out = self.hashed.clone();
        if self.version >= 4 {
            let len = u32::try_from(self.hashed.len()).unwrap_or(u32::MAX);
            out.extend([self.version, 0xff]);
            out.extend(len.to_be_bytes());
        }
        out
    }

    /// The value, for rPGP.
    pub(crate) fn signature_bytes(&self) -> SignatureBytes {
        match &self.value {
            Value::Mpis(mpis) => SignatureBytes::Mpis(mpis.iter().map(|mpi| Mpi::from_slice(mpi)).collect()),
            Value::Native(bytes) => SignatureBytes::Native(bytes.clone().into()),
        }
    }
}

/// Names of section 9.1, and of RFC 9980 for the post-quantum ones.
pub(crate) fn key_algorithm_name(id: u8) -> String {
    match id {
        1..=3 => "rsa".to_owned(),
        16 | 20 => "elgamal".to_owned(),
        17 => "dsa".to_owned(),
        18 => "ecdh".to_owned(),
        19 => "ecdsa".to_owned(),
        22 => "eddsa".to_owned(),
        25 => "x25519".to_owned(),
        26 => "x448".to_owned(),
        27 => "ed25519".to_owned(),
        28 => "ed448".to_owned(),
        30 => "ml-dsa-65+ed25519".to_owned(),
        31 => "ml-dsa-87+ed448".to_owned(),
        other => format!("key algorithm {other}"),
    }
}

fn parse_body(whole: &[u8], body: &[u8]) -> Result<SignaturePacket, Error> {
    let mut reader = Reader(body);
    match reader.u8().ok_or_else(truncated)? {
        3 => parse_v3(whole, reader),
        version @ (4 | 6) => parse_v4_v6(whole, body, version, reader),
        other => Err(Error::Unsupported { what: "signature version", name: other.to_string() }),
    }
}

fn parse_v3(whole: &[u8], mut reader: Reader<'_>) -> Result<SignaturePacket, Error> {
    if reader.u8().ok_or_else(truncated)? != 5 {
        return Err(Error::malformed(WHAT, "the hashed part of a version 3 signature has not five bytes"));
    }
    let hashed = reader.array::<5>().ok_or_else(truncated)?;
    let [signature_type, time @ ..] = hashed;
    let id = reader.array::<8>().ok_or_else(truncated)?;
    let [key_algorithm, hash] = reader.array().ok_or_else(truncated)?;
    let prefix = reader.array().ok_or_else(truncated)?;
    let created = Some(u32::from_be_bytes(time));
    Ok(SignaturePacket {
        whole: whole.to_vec(),
        version: 3,
        signature_type,
        key_algorithm,
        hash,
        hashed: hashed.to_vec(),
        areas: Areas { created, issuer_key_id: Some(id), ..Areas::default() },
        salt: None,
        prefix,
        value: parse_value(key_algorithm, reader)?,
    })
}

fn parse_v4_v6(
    whole: &[u8],
    body: &[u8],
    version: u8,
    mut reader: Reader<'_>,
) -> Result<SignaturePacket, Error> {
    let [signature_type, key_algorithm, hash] = reader.array().ok_or_else(truncated)?;
    let mut areas = Areas::default();
    areas.read_hashed(take_area(version, &mut reader)?)?;
    let hashed = body.get(..body.len().saturating_sub(reader.0.len())).unwrap_or_default();
    areas.read_unhashed(take_area(version, &mut reader)?)?;
    let prefix = reader.array().ok_or_else(truncated)?;
    let salt = if version == 6 { Some(take_salt(hash, &mut reader)?) } else { None };
    Ok(SignaturePacket {
        whole: whole.to_vec(),
        version,
        signature_type,
        key_algorithm,
        hash,
        hashed: hashed.to_vec(),
        areas,
        salt,
        prefix,
        value: parse_value(key_algorithm, reader)?,
    })
}

fn take_area<'a>(version: u8, reader: &mut Reader<'a>) -> Result<&'a [u8], Error> {
    let len = if version == 4 { reader.u16().map(u32::from) } else { reader.u32() };
    let len = usize::try_from(len.ok_or_else(truncated)?).unwrap_or(usize::MAX);
    reader.take(len).ok_or_else(|| Error::malformed(WHAT, "a subpacket area is longer than the packet"))
}

/// Section 5.2.3: the salt's length belongs to the hash algorithm (table 23).
fn take_salt(hash: u8, reader: &mut Reader<'_>) -> Result<Vec<u8>, Error> {
    let len = reader.u8().ok_or_else(truncated)?;
    let want = match hash {
        8 | 11 | 12 => Some(16),
        9 => Some(24),
        10 | 14 => Some(32),
        _ => None,
    };
    if want.is_some_and(|want| want != len) {
        return Err(Error::malformed(WHAT, "the salt has not the length of its hash algorithm"));
    }
    reader.take(usize::from(len)).map(<[u8]>::to_vec).ok_or_else(truncated)
}

/// Section 5.2.3.1 to 5.2.3.5.
fn parse_value(key_algorithm: u8, mut reader: Reader<'_>) -> Result<Value, Error> {
    let mpis = match key_algorithm {
        1 | 3 => 1,
        17 | 19 | 20 | 22 => 2,
        27 => return native(&reader, Some(64)),
        28 => return native(&reader, Some(114)),
        2 | 16 | 18 | 21 | 25 | 26 => {
            return Err(Error::malformed(WHAT, "keys of its algorithm cannot sign"));
        }
        _ => return native(&reader, None),
    };
    let value = (0..mpis).map(|_| take_mpi(&mut reader)).collect::<Result<_, _>>()?;
    if reader.0.is_empty() {
        Ok(Value::Mpis(value))
    } else {
        Err(Error::malformed(WHAT, "something follows the signature value"))
    }
}

fn native(reader: &Reader<'_>, len: Option<usize>) -> Result<Value, Error> {
    if len.is_some_and(|len| len != reader.0.len()) {
        return Err(Error::malformed(WHAT, "the signature value has not the length of its algorithm"));
    }
    Ok(Value::Native(reader.0.to_vec()))
}

/// Section 3.2: the bit count is exact, so the first byte is not zero and has no bit above the count.
fn take_mpi(reader: &mut Reader<'_>) -> Result<Vec<u8>, Error> {
    let bits = reader.u16().ok_or_else(truncated)?;
    if bits > MPI_BITS_MAX {
        return Err(Error::malformed(WHAT, "an MPI has more than 16384 bits"));
    }
    let value = reader.take(usize::from(bits.div_ceil(8))).ok_or_else(truncated)?;
    let first = value.first().ok_or_else(|| Error::malformed(WHAT, "an MPI is zero"))?;
    let unused = u32::from(bits.wrapping_neg() & 7);
    if first.leading_zeros() > unused {
        return Err(Error::malformed(WHAT, "an MPI has leading zeros: its bit count is too large"));
    }
    if first.leading_zeros() < unused {
        return Err(Error::malformed(WHAT, "an MPI has more bits than its bit count says"));
    }
    Ok(value.to_vec())
}

const fn truncated() -> Error {
    Error::malformed(WHAT, "it is truncated")
}
