//! The public half of a component, as it is sealed with the secret: the body of an OpenPGP public-key packet of
//! version 4 or 6 (RFC 9580 sections 5.5.2.2 and 5.5.2.3); its first byte is the version of the key. Composing and self-checks use this one, never the database's.

use aws_lc_rs::signature as aws;
use pgp::packet::{PacketHeader, PublicKey};
use pgp::types::{KeyDetails as _, Tag};
use sealwright_crypto::algorithm::{HashAlgorithm, KeyAlgorithm, KeyVersion, RSA_BITS_MAX, RSA_BITS_MIN};
use sealwright_crypto::digest::Digest;
use sealwright_crypto::error::Error as CryptoError;
use sealwright_crypto::openpgp::fingerprint::Fingerprint;

/// A parsed public half, ready to verify.
pub(crate) struct PublicHalf {
    body: Vec<u8>,
    packet: PublicKey,
    algorithm: KeyAlgorithm,
    fingerprint: Fingerprint,
    created: u32,
    numbers: Numbers,
    verifier: Verifier,
}

/// What the algorithm needs.
pub(crate) enum Numbers {
    /// Modulus and exponent, big-endian without leading zeros.
    Rsa { n: Vec<u8>, e: Vec<u8> },
    /// The point, as RFC 8032 section 5.1.5 writes it.
    Ed25519([u8; 32]),
}

/// aws-lc's parsed keys; one for each hash, as aws-lc binds both.
enum Verifier {
    Rsa { sha256: aws::ParsedPublicKey, sha384: aws::ParsedPublicKey, sha512: aws::ParsedPublicKey },
    Ed25519(aws::ParsedPublicKey),
}

/// A raw signature that verified with the public half: the only thing that is packed and released. RSA: as long as
/// the modulus; Ed25519: R and S.
pub(crate) struct Checked(Vec<u8>);

impl Checked {
    /// The raw signature.
    pub(crate) fn raw(&self) -> &[u8] {
        &self.0
    }
}

/// RFC 9580 section 9.1. Ed25519 is 22 in version 4 keys, which gpg and old rpms read, and 27 in version 6 keys, where
/// 22 does not exist.
const ALGORITHM_RSA: u8 = 1;
const ALGORITHM_EDDSA_LEGACY: u8 = 22;
const ALGORITHM_ED25519: u8 = 27;

/// The object identifier of Ed25519 in an OpenPGP key of algorithm 22, with its length (RFC 9580 section 9.2).
const ED25519_OID: &[u8] = &[9, 0x2b, 0x06, 0x01, 0x04, 0x01, 0xda, 0x47, 0x0f, 0x01];
/// Says that a point is in its native encoding (RFC 9580 section 11.2).
const NATIVE_POINT: u8 = 0x40;

impl PublicHalf {
    /// The body of a new key's packet.
    ///
    /// # Errors
    /// Those of [`Self::parse`].
    pub(crate) fn new(version: KeyVersion, created: u32, numbers: &Numbers) -> Result<Self, CryptoError> {
        let mut material = Vec::new();
        let algorithm = match (numbers, version) {
            (Numbers::Rsa { n, e }, _) => {
                push_mpi(&mut material, n)?;
                push_mpi(&mut material, e)?;
                ALGORITHM_RSA
            }
            (Numbers::Ed25519(point), KeyVersion::V4) => {
                material.extend_from_slice(ED25519_OID);
                push_mpi(&mut material, &[&[NATIVE_POINT], point.as_slice()].concat())?;
                ALGORITHM_EDDSA_LEGACY
            }
            (Numbers::Ed25519(point), KeyVersion::V6) => {
                material.extend_from_slice(point);
                ALGORITHM_ED25519
            }
        };
        let mut body = vec![version.number()];
        body.extend(created.to_be_bytes());
        body.push(algorithm);
        if version == KeyVersion::V6 {
            let len = u32::try_from(material.len());
            body.extend(
                len.map_err(|_| CryptoError::malformed("public key", "it is too long"))?.to_be_bytes(),
            );
        }
        body.extend(material);
        Self::parse(&body)
    }

    /// Reads exactly one body.
    ///
    /// # Errors
    /// [`CryptoError::Unsupported`] for other versions and algorithms, [`CryptoError::Malformed`] otherwise.
    pub(crate) fn parse(body: &[u8]) -> Result<Self, CryptoError> {
        let bad = |reason| CryptoError::malformed("public key", reason);
        let short = || bad("it is truncated");
        let (&version, rest) = body.split_first().ok_or_else(short)?;
        let version = KeyVersion::from_number(version.into())?;
        let (created, rest) = rest.split_first_chunk::<4>().ok_or_else(short)?;
        let (&algorithm, rest) = rest.split_first().ok_or_else(short)?;
        let material = match version {
            KeyVersion::V4 => rest,
            KeyVersion::V6 => {
                let (len, rest) = rest.split_first_chunk::<4>().ok_or_else(short)?;
                let is_all = usize::try_from(u32::from_be_bytes(*len)).is_ok_and(|len| len == rest.len());
                if is_all { rest } else { return Err(bad("its material has not the length that it says")) }
            }
        };
        let (numbers, algorithm) = match (algorithm, version) {
            (ALGORITHM_RSA, _) => parse_rsa(material)?,
            (ALGORITHM_EDDSA_LEGACY, KeyVersion::V4) => {
                (Numbers::Ed25519(parse_ed25519_legacy(material)?), KeyAlgorithm::Ed25519)
            }
            (ALGORITHM_ED25519, KeyVersion::V6) => {
                let point = material.try_into().map_err(|_| bad("it is not a point of Ed25519"))?;
                (Numbers::Ed25519(point), KeyAlgorithm::Ed25519)
            }
            (other, _) => {
                let name = format!("OpenPGP algorithm {other} in a version {} key", version.number());
                return Err(CryptoError::Unsupported { what: "key algorithm", name });
            }
        };
        let verifier = Verifier::new(&numbers).ok_or_else(|| bad("aws-lc does not accept it"))?;
        let len = u32::try_from(body.len()).map_err(|_| bad("it is too long"))?;
        let header = PacketHeader::new_fixed(Tag::PublicKey, len);
        let packet = PublicKey::try_from_reader(header, body)
            .map_err(|error| CryptoError::packet("public key", error))?;
        let fingerprint = Fingerprint::from_bytes(packet.fingerprint().as_bytes())?;
        let created = u32::from_be_bytes(*created);
        Ok(Self { body: body.to_vec(), packet, algorithm, fingerprint, created, numbers, verifier })
    }

    /// The body of the packet.
    pub(crate) fn body(&self) -> &[u8] {
        &self.body
    }

    /// The packet, for rPGP.
    pub(crate) const fn packet(&self) -> &PublicKey {
        &self.packet
    }

    /// The version of the key.
    pub(crate) const fn version(&self) -> KeyVersion {
        self.fingerprint.version()
    }

    /// The algorithm.
    pub(crate) const fn algorithm(&self) -> KeyAlgorithm {
        self.algorithm
    }

    /// The fingerprint.
    pub(crate) const fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }

    /// Creation time, Unix seconds.
    pub(crate) const fn created(&self) -> u32 {
        self.created
    }

    /// The numbers of the algorithm.
    pub(crate) const fn numbers(&self) -> &Numbers {
        &self.numbers
    }

    /// Verifies a raw signature over `digest`; `None` if it is empty, of a wrong length, or does not verify.
    pub(crate) fn check(&self, digest: &Digest, raw: Vec<u8>) -> Option<Checked> {
        if raw.len() != self.raw_len() {
            return None;
        }
        match &self.verifier {
            Verifier::Rsa { sha256, sha384, sha512 } => {
                let verifier = match digest.hash() {
                    HashAlgorithm::Sha256 => sha256,
                    HashAlgorithm::Sha384 => sha384,
                    HashAlgorithm::Sha512 => sha512,
                };
                verifier.verify_digest_sig(&imported(digest)?, &raw).ok()?;
            }
            // RFC 9580 sections 5.2.3.3 and 5.2.3.4: the digest is the message.
            Verifier::Ed25519(verifier) => verifier.verify_sig(digest.as_bytes(), &raw).ok()?,
        }
        Some(Checked(raw))
    }

    /// The same over a digest of SHA-1. Its verifier is made when it is wanted: few keys ever sign one.
    pub(crate) fn check_sha1(&self, digest: &[u8; 20], raw: Vec<u8>) -> Option<Checked> {
        if raw.len() != self.raw_len() {
            return None;
        }
        match (&self.numbers, &self.verifier) {
            (Numbers::Rsa { n, e }, _) => {
                let components = aws::RsaPublicKeyComponents { n: n.as_slice(), e: e.as_slice() };
                let parameters = &aws::RSA_PKCS1_2048_8192_SHA1_FOR_LEGACY_USE_ONLY;
                let verifier = components.to_parsed_public_key(parameters).ok()?;
                verifier.verify_digest_sig(&imported_sha1(digest)?, &raw).ok()?;
            }
            (Numbers::Ed25519(_), Verifier::Ed25519(verifier)) => verifier.verify_sig(digest, &raw).ok()?,
            (Numbers::Ed25519(_), Verifier::Rsa { .. }) => return None,
        }
        Some(Checked(raw))
    }

    /// Bytes of a raw signature.
    const fn raw_len(&self) -> usize {
        match &self.numbers {
            Numbers::Rsa { n, .. } => n.len(),
            Numbers::Ed25519(_) => 64,
        }
    }
}

/// A digest of SHA-1 in aws-lc's type.
fn imported_sha1(digest: &[u8; 20]) -> Option<aws_lc_rs::digest::Digest> {
    let algorithm = &aws_lc_rs::digest::SHA1_FOR_LEGACY_USE_ONLY;
    aws_lc_rs::digest::Digest::import_less_safe(digest, algorithm).ok()
}

/// The digest in aws-lc's type. We finished it ourselves ("less safe" is a foreign one).
pub(crate) fn imported(digest: &Digest) -> Option<aws_lc_rs::digest::Digest> {
    let algorithm = match digest.hash() {
        HashAlgorithm::Sha256 => &aws_lc_rs::digest::SHA256,
        HashAlgorithm::Sha384 => &aws_lc_rs::digest::SHA384,
        HashAlgorithm::Sha512 => &aws_lc_rs::digest::SHA512,
    };
    aws_lc_rs::digest::Digest::import_less_safe(digest.as_bytes(), algorithm).ok()
}

impl Verifier {
    fn new(numbers: &Numbers) -> Option<Self> {
        match numbers {
            Numbers::Rsa { n, e } => {
                let components = aws::RsaPublicKeyComponents { n: n.as_slice(), e: e.as_slice() };
                let parsed = |parameters| components.to_parsed_public_key(parameters).ok();
                Some(Self::Rsa {
                    sha256: parsed(&aws::RSA_PKCS1_2048_8192_SHA256)?,
                    sha384: parsed(&aws::RSA_PKCS1_2048_8192_SHA384)?,
                    sha512: parsed(&aws::RSA_PKCS1_2048_8192_SHA512)?,
                })
            }
            Numbers::Ed25519(point) => {
                Some(Self::Ed25519(aws::ParsedPublicKey::new(&aws::ED25519, point).ok()?))
            }
        }
    }
}

fn parse_rsa(bytes: &[u8]) -> Result<(Numbers, KeyAlgorithm), CryptoError> {
    let (n, bits, rest) = take_mpi(bytes)?;
    let (e, _, rest) = take_mpi(rest)?;
    if !rest.is_empty() {
        return Err(CryptoError::malformed("public key", "it has bytes after its end"));
    }
    if !(RSA_BITS_MIN..=RSA_BITS_MAX).contains(&bits) {
        return Err(CryptoError::Unsupported { what: "key algorithm", name: format!("rsa{bits}") });
    }
    Ok((Numbers::Rsa { n: n.to_vec(), e: e.to_vec() }, KeyAlgorithm::Rsa(bits)))
}

fn parse_ed25519_legacy(bytes: &[u8]) -> Result<[u8; 32], CryptoError> {
    let bad = || CryptoError::malformed("public key", "it is not a point of Ed25519");
    let (point, _, rest) = take_mpi(bytes.strip_prefix(ED25519_OID).ok_or_else(|| {
        CryptoError::Unsupported { what: "curve", name: "another than Ed25519".to_owned() }
    })?)?;
    let (&prefix, point) = point.split_first().ok_or_else(bad)?;
    if prefix != NATIVE_POINT || !rest.is_empty() {
        return Err(bad());
    }
    point.try_into().map_err(|_| bad())
}

/// RFC 9580 section 3.2, minimal: the number, its length in bits, the rest.
pub(crate) fn take_mpi(bytes: &[u8]) -> Result<(&[u8], u16, &[u8]), CryptoError> {
    let bad = |reason| CryptoError::malformed("number", reason);
    let (bits, rest) = bytes.split_first_chunk::<2>().ok_or_else(|| bad("it is truncated"))?;
    let bits = u16::from_be_bytes(*bits);
    let (number, rest) =
        rest.split_at_checked(usize::from(bits.div_ceil(8))).ok_or_else(|| bad("it is truncated"))?;
    let first = number.first().ok_or_else(|| bad("it is zero"))?;
    // 1 to 8 significant bits in the first byte, as many as the length says.
    let significant = 8_u32.saturating_sub(first.leading_zeros());
    let said = u32::from(bits.wrapping_sub(1) % 8).saturating_add(1);
    if significant != said {
        return Err(bad("its length in bits is wrong"));
    }
    Ok((number, bits, rest))
}

/// The inverse of [`take_mpi`]; leading zeros are left out.
pub(crate) fn push_mpi(body: &mut Vec<u8>, number: &[u8]) -> Result<(), CryptoError> {
    let bad = |reason| CryptoError::malformed("number", reason);
    let zeros = number.iter().take_while(|byte| **byte == 0).count();
    let number = number.get(zeros..).unwrap_or_default();
    let first = number.first().ok_or_else(|| bad("it is zero"))?;
    let bits = u32::try_from(number.len()).ok().and_then(|len| len.checked_mul(8));
    let bits = bits.and_then(|bits| bits.checked_sub(first.leading_zeros()));
    let bits = bits.and_then(|bits| u16::try_from(bits).ok()).ok_or_else(|| bad("it is too long"))?;
    body.extend(bits.to_be_bytes());
    body.extend_from_slice(number);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_become_a_body_and_come_back() {
        let mut n = vec![0xff; 256];
        n[255] = 0x0d;
        let numbers = Numbers::Rsa { n: n.clone(), e: vec![1, 0, 1] };
        for version in KeyVersion::ALL {
            let half = PublicHalf::new(version, 7, &numbers).unwrap();
            assert_eq!((half.algorithm(), half.created()), (KeyAlgorithm::Rsa(2048), 7));
            assert_eq!((half.version(), half.body()[0]), (version, version.number()));
            let again = PublicHalf::parse(half.body()).unwrap();
            assert_eq!(again.fingerprint(), half.fingerprint());
            assert!(matches!(again.numbers(), Numbers::Rsa { n: same, .. } if *same == n));
        }
    }

    #[test]
    fn bodies_that_are_cut_or_longer_are_refused() {
        let point = [
            0xd7, 0x5a, 0x98, 0x01, 0x82, 0xb1, 0x0a, 0xb7, 0xd5, 0x4b, 0xfe, 0xd3, 0xc9, 0x64, 0x07, 0x3a,
            0x0e, 0xe1, 0x72, 0xf3, 0xda, 0xa6, 0x23, 0x25, 0xaf, 0x02, 0x1a, 0x68, 0xf7, 0x07, 0x51, 0x1a,
        ];
        for version in KeyVersion::ALL {
            let half = PublicHalf::new(version, 7, &Numbers::Ed25519(point)).unwrap();
            for len in 0..half.body().len() {
                assert!(PublicHalf::parse(&half.body()[..len]).is_err(), "{len}");
            }
            assert!(PublicHalf::parse(&[half.body(), &[0]].concat()).is_err());
        }
    }

    #[test]
    fn a_number_has_exactly_the_bits_that_it_says() {
        assert_eq!(take_mpi(&[0, 9, 1, 0xff, 5]).unwrap(), (&[1, 0xff][..], 9, &[5][..]));
        for bad in [&[0, 0][..], &[0, 8, 0x7f], &[0, 9, 3, 0], &[0, 16, 0, 1], &[0, 8], &[1]] {
            assert!(take_mpi(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn short_rsa_keys_and_other_versions_are_unsupported_by_name() {
        let short =
            PublicHalf::new(KeyVersion::V4, 7, &Numbers::Rsa { n: vec![0xff; 128], e: vec![1, 0, 1] });
        assert!(matches!(short, Err(CryptoError::Unsupported { name, .. }) if name == "rsa1024"));
        for version in [0, 3, 5, 7] {
            let parsed = PublicHalf::parse(&[version, 0]);
            assert!(
                matches!(parsed, Err(CryptoError::Unsupported { name, .. }) if name == version.to_string())
            );
        }
    }

    #[test]
    fn each_version_has_its_own_number_for_ed25519_and_not_the_others() {
        let point = [
            0xd7, 0x5a, 0x98, 0x01, 0x82, 0xb1, 0x0a, 0xb7, 0xd5, 0x4b, 0xfe, 0xd3, 0xc9, 0x64, 0x07, 0x3a,
            0x0e, 0xe1, 0x72, 0xf3, 0xda, 0xa6, 0x23, 0x25, 0xaf, 0x02, 0x1a, 0x68, 0xf7, 0x07, 0x51, 0x1a,
        ];
        for (version, own, other) in [(KeyVersion::V4, 22, 27), (KeyVersion::V6, 27, 22)] {
            let mut body = PublicHalf::new(version, 7, &Numbers::Ed25519(point)).unwrap().body().to_vec();
            assert_eq!(body[5], own);
            body[5] = other;
            assert!(matches!(PublicHalf::parse(&body), Err(CryptoError::Unsupported { .. })));
        }
    }
}
