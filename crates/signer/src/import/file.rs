//! A file with one transferable secret key (RFC 9580 section 10.2), cut into its certificate and its secret packets.

use pgp::types::{KeyDetails as _, PublicParams, Tag};
use sealwright_crypto::algorithm::KeyVersion;
use sealwright_crypto::openpgp::armor;
use sealwright_crypto::openpgp::fingerprint::Fingerprint;
use sealwright_proto::status::Fault;
use zeroize::Zeroizing;

use super::{malformed, refused};
use crate::packets::{self, RawPacket};
use crate::secret::Secret;

/// The parts of the file.
pub(super) struct SecretFile {
    certificate: Vec<u8>,
    primary: SecretPacket,
    subkeys: Vec<SecretPacket>,
}

/// One secret-key packet (section 5.5.3).
pub(super) struct SecretPacket {
    is_primary: bool,
    /// Of the whole packet; the secret part may be clear.
    body: Secret,
    public_len: usize,
    fingerprint: Fingerprint,
    protection: Protection,
}

/// How the secret part is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protection {
    /// In the clear.
    Clear,
    /// Behind a passphrase.
    Passphrase,
    /// It is not there: GnuPG's stub for a key kept elsewhere or on a card.
    Stub,
}

/// Secret subkeys of one file, at most; more are no key that somebody uses.
const SUBKEYS_MAX: usize = 128;

impl SecretFile {
    /// # Errors
    /// [`sealwright_proto::status::Code::ImportRefused`], with the reason.
    pub(super) fn parse(bytes: &[u8]) -> Result<Self, Fault> {
        let binary = Zeroizing::new(armor::decode_or_binary(bytes).map_err(|error| malformed(&error))?);
        let packets = packets::split(&binary).map_err(|error| malformed(&error))?;
        let mut certificate = Vec::new();
        let mut primary = None;
        let mut subkeys = Vec::new();
        for packet in &packets {
            let starts_key = packet.tag == Tag::SecretKey || packet.tag == Tag::PublicKey;
            if starts_key && primary.is_some() {
                return Err(several(&packets));
            } else if packet.tag == Tag::PublicKey {
                return Err(refused("it is a public key; there is no secret in it"));
            } else if packet.tag == Tag::SecretKey {
                let secret = SecretPacket::parse(packet)?;
                certificate.extend(public_packet(Tag::PublicKey, &secret)?);
                primary = Some(secret);
            } else if primary.is_none() {
                return Err(refused("it does not start with a secret key"));
            } else if packet.tag == Tag::SecretSubkey {
                let secret = SecretPacket::parse(packet)?;
                certificate.extend(public_packet(Tag::PublicSubkey, &secret)?);
                subkeys.push(secret);
                if subkeys.len() > SUBKEYS_MAX {
                    return Err(refused("it has more than 128 subkeys"));
                }
            } else if packet.tag != Tag::Trust {
                // A trust packet is one keyring's own opinion (section 5.10).
                certificate.extend_from_slice(packet.whole);
            }
        }
        let primary = primary.ok_or_else(|| refused("it is empty"))?;
        Ok(Self { certificate, primary, subkeys })
    }

    /// The transferable public key in it.
    pub(super) fn certificate(&self) -> &[u8] {
        &self.certificate
    }

    /// The primary key's packet; perhaps a stub.
    pub(super) const fn primary(&self) -> &SecretPacket {
        &self.primary
    }

    /// The packet with this fingerprint.
    pub(super) fn find(&self, fingerprint: &Fingerprint) -> Option<&SecretPacket> {
        std::iter::once(&self.primary).chain(&self.subkeys).find(|packet| packet.fingerprint == *fingerprint)
    }
}

impl SecretPacket {
    /// # Errors
    /// [`sealwright_proto::status::Code::ImportRefused`], with the reason.
    pub(super) fn parse(packet: &RawPacket<'_>) -> Result<Self, Fault> {
        let public_len = public_len(packet.body)?;
        let (public, secret) =
            packet.body.split_at_checked(public_len).ok_or_else(|| refused("a secret key is truncated"))?;
        let len = u32::try_from(public.len()).unwrap_or(u32::MAX);
        let header = pgp::packet::PacketHeader::new_fixed(Tag::PublicKey, len);
        let key = pgp::packet::PublicKey::try_from_reader(header, public)
            .map_err(|error| refused(&format!("a public key in it is not readable: {error}")))?;
        if matches!(key.public_params(), PublicParams::Unknown { .. }) {
            return Err(refused(&format!(
                "it has a key of an unknown algorithm ({})",
                u8::from(key.algorithm())
            )));
        }
        let fingerprint =
            Fingerprint::from_bytes(key.fingerprint().as_bytes()).map_err(|error| malformed(&error))?;
        Ok(Self {
            is_primary: packet.tag == Tag::SecretKey,
            body: Secret::joined(&[packet.body]).map_err(|error| Fault::from(&error))?,
            public_len,
            fingerprint,
            protection: protection(fingerprint.version(), secret)
                .ok_or_else(|| refused("a secret key is truncated"))?,
        })
    }

    /// Whether it is the primary key.
    pub(super) const fn is_primary(&self) -> bool {
        self.is_primary
    }

    /// The whole body.
    pub(super) fn body(&self) -> &[u8] {
        self.body.expose()
    }

    /// The public part of the body.
    pub(super) fn public_body(&self) -> &[u8] {
        self.body().get(..self.public_len).unwrap_or_default()
    }

    /// The fingerprint.
    pub(super) const fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }

    /// How the secret part is kept.
    pub(super) const fn protection(&self) -> Protection {
        self.protection
    }

    /// Memory that its passphrase costs by Argon2, as a power of 2 in KiB (section 3.7.1.4).
    pub(super) fn argon2_memory_power(&self) -> Option<u8> {
        argon2_memory_power(self.fingerprint.version(), self.body().get(self.public_len..)?)
    }
}

/// Names them, so that each can be exported by its fingerprint.
fn several(packets: &[RawPacket<'_>]) -> Fault {
    let primaries =
        packets.iter().filter(|packet| packet.tag == Tag::SecretKey || packet.tag == Tag::PublicKey);
    let names: Vec<_> = primaries
        .take(SUBKEYS_MAX)
        .map(|packet| match SecretPacket::parse(packet) {
            Ok(secret) => secret.fingerprint.to_string(),
            Err(_) => "one that is not readable".to_owned(),
        })
        .collect();
    refused(&format!(
        "there are several keys in the file; import each from a file of its own: {}",
        names.join(", ")
    ))
}

fn public_packet(tag: Tag, secret: &SecretPacket) -> Result<Vec<u8>, Fault> {
    packets::write(tag, secret.public_body()).map_err(|error| malformed(&error))
}

/// Where the public part ends (sections 5.5.2.2 and 5.5.5). Counted here, not left to a parser that takes what it does not
/// know to the end: the rest is secret, and the public part is published.
fn public_len(body: &[u8]) -> Result<usize, Fault> {
    let truncated = || refused("a secret key is truncated");
    let (&version, rest) = body.split_first().ok_or_else(truncated)?;
    let Ok(version) = KeyVersion::from_number(version.into()) else {
        let message = format!("it is a version {version} key; Sealwright signs with keys of version 4 and 6");
        return Err(refused(&message));
    };
    let (_, rest) = rest.split_first_chunk::<4>().ok_or_else(truncated)?;
    let (&algorithm, rest) = rest.split_first().ok_or_else(truncated)?;
    let (said, rest) = match version {
        KeyVersion::V4 => (None, rest),
        KeyVersion::V6 => {
            let (len, rest) = rest.split_first_chunk::<4>().ok_or_else(truncated)?;
            (Some(usize::try_from(u32::from_be_bytes(*len)).unwrap_or(usize::MAX)), rest)
        }
    };
    let skipped = match algorithm {
        1..=3 => skip_mpis(rest, 2),
        16 => skip_mpis(rest, 3),
        17 => skip_mpis(rest, 4),
        18 => skip_counted(rest).and_then(|rest| skip_mpis(rest, 1)).and_then(skip_counted),
        19 | 22 => skip_counted(rest).and_then(|rest| skip_mpis(rest, 1)),
        25 | 27 => rest.get(32..),
        26 => rest.get(56..),
        28 => rest.get(57..),
        other => return Err(refused(&format!("it has a key of an unknown algorithm ({other})"))),
    };
    let left = skipped.ok_or_else(truncated)?;
    // Version 6 says how long the material is: it must be what it is, or readers would differ in where the secret starts.
    if said.is_some_and(|said| said != rest.len().saturating_sub(left.len())) {
        return Err(refused("the public part of a key has not the length that it says"));
    }
    Ok(body.len().saturating_sub(left.len()))
}

fn skip_mpis(mut bytes: &[u8], count: usize) -> Option<&[u8]> {
    for _ in 0..count {
        let (bits, rest) = bytes.split_first_chunk::<2>()?;
        bytes = rest.get(usize::from(u16::from_be_bytes(*bits).div_ceil(8))..)?;
    }
    Some(bytes)
}

/// A length of one byte, then as many.
fn skip_counted(bytes: &[u8]) -> Option<&[u8]> {
    let (&len, rest) = bytes.split_first()?;
    rest.get(usize::from(len)..)
}

/// Section 3.7.2: the first byte says whether and how it is encrypted. GnuPG's stubs have string-to-key type 101
/// (GnuPG, doc/DETAILS, "GNU extensions to the S2K algorithm").
fn protection(version: KeyVersion, secret: &[u8]) -> Option<Protection> {
    match secret.first()? {
        0 => Some(Protection::Clear),
        _ if string_to_key(version, secret).and_then(<[u8]>::first) == Some(&101) => Some(Protection::Stub),
        _ => Some(Protection::Passphrase),
    }
}

/// Type, then salt (16), passes, parallelism, memory.
fn argon2_memory_power(version: KeyVersion, secret: &[u8]) -> Option<u8> {
    let string_to_key = string_to_key(version, secret).filter(|bytes| bytes.first() == Some(&4))?;
    // What ends before its memory asks for any.
    Some(string_to_key.get(19).copied().unwrap_or(u8::MAX))
}

/// How a passphrase becomes a key: the type, and what belongs to it (section 3.7.1). Version 6 has the length of all
/// parameters before the cipher, and that of this one before it (section 5.5.3).
fn string_to_key(version: KeyVersion, secret: &[u8]) -> Option<&[u8]> {
    let lengths = match version {
        KeyVersion::V4 => 0,
        KeyVersion::V6 => 2,
    };
    match secret.first()? {
        253 => secret.get(3..)?.get(lengths..),
        254 | 255 => secret.get(2..)?.get(lengths..),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_public_part_ends_where_its_algorithm_says() {
        let head = |algorithm: u8| vec![4, 0, 0, 0, 1, algorithm];
        for (algorithm, public) in [
            (1, vec![0, 8, 0xff, 0, 9, 1, 1]),
            (17, vec![0, 1, 1, 0, 1, 1, 0, 1, 1, 0, 1, 1]),
            (18, vec![1, 0xaa, 0, 8, 0xff, 2, 1, 1]),
            (22, vec![2, 0xaa, 0xbb, 0, 8, 0xff]),
            (27, vec![0; 32]),
        ] {
            let public = [head(algorithm), public].concat();
            let body = [public.as_slice(), &[0, 1, 2, 3]].concat();
            assert_eq!(public_len(&body).unwrap(), public.len(), "{algorithm}");
            for len in 0..public.len() {
                assert!(public_len(&body[..len]).is_err(), "{algorithm} {len}");
            }
        }
    }

    #[test]
    fn unknown_algorithms_and_versions_are_refused_by_name() {
        assert!(public_len(&[4, 0, 0, 0, 1, 99, 0]).unwrap_err().message.contains("99"));
        for version in [3, 5, 7] {
            let refused = public_len(&[version, 0]).unwrap_err();
            assert!(refused.message.contains(&format!("version {version}")), "{}", refused.message);
        }
    }

    #[test]
    fn the_public_part_of_a_version_6_key_has_the_length_that_it_says() {
        let head = |len: u8| vec![6, 0, 0, 0, 1, 27, 0, 0, 0, len];
        let body = |len: u8| [head(len), vec![7; 32], vec![0, 1, 2, 3]].concat();
        assert_eq!(public_len(&body(32)).unwrap(), 42);
        for bad in [0, 31, 33, 36, 255] {
            assert!(public_len(&body(bad)).is_err(), "{bad}");
        }
        for len in 0..42 {
            assert!(public_len(&body(32)[..len]).is_err(), "{len}");
        }
    }

    #[test]
    fn protection_is_told_from_the_first_bytes() {
        assert_eq!(protection(KeyVersion::V4, &[0, 1]), Some(Protection::Clear));
        assert_eq!(
            protection(KeyVersion::V4, &[255, 0, 101, 0, b'G', b'N', b'U', 1]),
            Some(Protection::Stub)
        );
        assert_eq!(protection(KeyVersion::V4, &[254, 9, 3, 8]), Some(Protection::Passphrase));
        assert_eq!(protection(KeyVersion::V4, &[253, 9, 2, 4]), Some(Protection::Passphrase));
        assert_eq!(protection(KeyVersion::V4, &[7, 101]), Some(Protection::Passphrase));
        assert_eq!(protection(KeyVersion::V4, &[]), None);
    }

    #[test]
    fn the_memory_of_argon2_is_read_where_the_kind_of_protection_puts_it() {
        let argon2 = [[4].as_slice(), &[7; 16], &[3, 4, 16]].concat();
        for head in [&[253, 9, 2][..], &[254, 9], &[255, 9]] {
            let secret = [head, &argon2].concat();
            assert_eq!(argon2_memory_power(KeyVersion::V4, &secret), Some(16));
            assert_eq!(argon2_memory_power(KeyVersion::V4, &secret[..secret.len() - 1]), Some(255));
            assert_eq!(protection(KeyVersion::V4, &secret), Some(Protection::Passphrase));
        }
        // Version 6 has two lengths more.
        for head in [&[253, 38, 9, 2, 20][..], &[254, 37, 9, 20]] {
            let secret = [head, &argon2].concat();
            assert_eq!(argon2_memory_power(KeyVersion::V6, &secret), Some(16));
            assert_eq!(argon2_memory_power(KeyVersion::V6, &secret[..secret.len() - 1]), Some(255));
        }
        assert_eq!(argon2_memory_power(KeyVersion::V4, &[254, 9, 3, 8]), None);
        assert_eq!(argon2_memory_power(KeyVersion::V4, &[0, 1]), None);
        assert_eq!(argon2_memory_power(KeyVersion::V6, &[253, 1]), None);
    }
}
