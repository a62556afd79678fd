//! The OpenPGP message around a project key (RFC 9580 sections 5.1 and 5.13.1), both ways. aws-lc does all that is secret.
//!
//! ```text
//! session key packet  03 key-id(8) 01 number: PKCS#1 v1.5 of  cipher key(16..32) sum(2)
//! encrypted data      01, then in CFB with a zero IV:
//!   random(16), its last two bytes again, packets, d3 14 SHA-1 of all before(20)
//! packets             literal data, perhaps compressed: a secret key packet
//! ```
//!
//! What PKCS#1 does not open goes on with a random session key (RFC 8017 section 7.2.2 warns of saying so): it fails where every
//! damaged message fails, at the hash over all of it.

use std::io::Read as _;

use aws_lc_rs::cipher::{
    AES_128, AES_192, AES_256, Algorithm, DecryptingKey, DecryptionContext, EncryptingKey, EncryptionContext,
    UnboundCipherKey,
};
use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use aws_lc_rs::iv::FixedLength;
use aws_lc_rs::rsa::{Pkcs1PrivateDecryptingKey, Pkcs1PublicEncryptingKey};
use pgp::packet::{CompressedData, PacketHeader};
use pgp::types::Tag;
use sealwright_proto::status::{Code, Fault};
use zeroize::Zeroizing;

use crate::opened::Component;
use crate::packets;
use crate::public::{push_mpi, take_mpi};
use crate::secret::{Secret, fill_random};

/// Bytes of what is inside, decompressed: RSA-8192 takes about 4 KiB.
const PLAIN_BYTES_MAX: usize = 16 << 10;

/// Packets within packets, and one after the other, at most: a message has two or three.
const NESTED_MAX: usize = 4;

const SESSION_KEY: u8 = 1;
const SECRET_KEY: u8 = 5;
const COMPRESSED: u8 = 8;
const LITERAL: u8 = 11;
const ENCRYPTED: u8 = 18;

const RSA: u8 = 1;
const AES_256_ID: u8 = 9;
/// Random bytes at the start, the last two of them twice.
const PREFIX_BYTES: usize = 18;
const HASH_BYTES: usize = 20;
/// Header of the packet with the hash.
const HASH_HEADER: [u8; 2] = [0xd3, 0x14];

/// The body of the secret key packet in the message; `None` if it is not one for `recipient`, or damaged.
///
/// # Errors
/// [`Code::Unsupported`] if `recipient` opens no messages; what keeps us from locking memory.
pub(super) fn decrypt(recipient: &Component, message: &[u8]) -> Result<Option<Secret>, Fault> {
    let key = recipient.decrypting()?;
    let key = Pkcs1PrivateDecryptingKey::new(key).map_err(|_| internal("a key does not decrypt"))?;
    let Some((number, encrypted)) = parse(recipient, message) else { return Ok(None) };
    let mut padded = vec![0; key.key_size_bytes().saturating_sub(number.len())];
    padded.extend(number);
    let mut opened = Zeroizing::new(vec![0; key.min_output_size()]);
    let session = key.decrypt(&padded, &mut opened).ok().and_then(|opened| Session::parse(opened));
    let session = match session {
        Some(session) => session,
        None => Session::random()?,
    };
    let plain = Secret::filled(encrypted.len(), |buffer| {
        buffer.copy_from_slice(&encrypted);
        session.decrypt(buffer)
    });
    let Some(plain) = plain.map_err(|error| Fault::from(&error))? else { return Ok(None) };
    let Some(content) = checked(plain.expose()) else { return Ok(None) };
    match secret_key(content) {
        Some(body) => Secret::joined(&[&body]).map(Some).map_err(|error| Fault::from(&error)),
        None => Ok(None),
    }
}

/// A message with this secret key packet's body, for `recipient`.
///
/// # Errors
/// [`Code::Unsupported`] if `recipient` opens no messages; [`Code::Internal`].
pub(super) fn encrypt(recipient: &Component, body: &[u8]) -> Result<Vec<u8>, Fault> {
    let failed = |_| internal("a project key could not be encrypted");
    let write = |tag, body: &[u8]| packets::write(tag, body).map_err(|_| internal("a packet is too long"));
    let key = recipient.decrypting()?.public_key();
    let key = Pkcs1PublicEncryptingKey::new(key).map_err(failed)?;
    let session = Session::random()?;
    let mut number = vec![0; key.ciphertext_size()];
    let number = key.encrypt(&session.encode(), &mut number).map_err(failed)?;
    let mut to_recipient = vec![3];
    to_recipient.extend(recipient.public().fingerprint().key_id());
    to_recipient.push(RSA);
    push_mpi(&mut to_recipient, number).map_err(|_| internal("an encrypted session key is zero"))?;
    let key_packet = Zeroizing::new(write(Tag::SecretKey, body)?);
    // Binary, without a name and a date.
    let literal = Zeroizing::new([&[b'b', 0, 0, 0, 0, 0][..], &key_packet].concat());
    let mut plain = Zeroizing::new(vec![0; PREFIX_BYTES]);
    let (random, again) = plain.split_at_mut(16);
    fill_random(random).map_err(|error| Fault::from(&error))?;
    again.copy_from_slice(random.get(14..).unwrap_or_default());
    plain.extend_from_slice(&Zeroizing::new(write(Tag::LiteralData, &literal)?));
    plain.extend(HASH_HEADER);
    let hash = digest(&SHA1_FOR_LEGACY_USE_ONLY, &plain);
    plain.extend_from_slice(hash.as_ref());
    session.encrypt(&mut plain).ok_or_else(|| internal("a project key could not be encrypted"))?;
    let data = [&[1][..], &plain].concat();
    let packets = [
        write(Tag::PublicKeyEncryptedSessionKey, &to_recipient)?,
        write(Tag::SymEncryptedProtectedData, &data)?,
    ];
    Ok(packets.concat())
}

/// The encrypted session key, and the encrypted data without its version.
fn parse(recipient: &Component, message: &[u8]) -> Option<(Vec<u8>, Vec<u8>)> {
    let Packet { tag: SESSION_KEY, body: session, rest } = take_packet(message)? else { return None };
    let Packet { tag: ENCRYPTED, body: data, rest: &[] } = take_packet(rest)? else { return None };
    let [3, session @ ..] = session.as_slice() else { return None };
    let (key_id, session) = session.split_first_chunk::<8>()?;
    let is_for_us = *key_id == recipient.public().fingerprint().key_id() || *key_id == [0; 8];
    let [RSA, number @ ..] = session else { return None };
    let (number, _, rest) = take_mpi(number).ok()?;
    let [1, encrypted @ ..] = data.as_slice() else { return None };
    (is_for_us && rest.is_empty()).then(|| (number.to_vec(), encrypted.to_vec()))
}

/// A session key and its cipher.
struct Session {
    cipher: &'static Algorithm,
    key: Zeroizing<Vec<u8>>,
}

impl Session {
    /// Section 5.1.3.
    fn parse(opened: &[u8]) -> Option<Self> {
        let (&cipher, rest) = opened.split_first()?;
        let (key, sum) = rest.split_last_chunk::<2>()?;
        let (cipher, len) = match cipher {
            7 => (&AES_128, 16),
            8 => (&AES_192, 24),
            AES_256_ID => (&AES_256, 32),
            _ => return None,
        };
        let fits = key.len() == len && sum_of(key).to_be_bytes() == *sum;
        fits.then(|| Self { cipher, key: Zeroizing::new(key.to_vec()) })
    }

    fn random() -> Result<Self, Fault> {
        let mut key = Zeroizing::new(vec![0; 32]);
        fill_random(&mut key).map_err(|error| Fault::from(&error))?;
        Ok(Self { cipher: &AES_256, key })
    }

    /// The inverse of [`Self::parse`], of a random one.
    fn encode(&self) -> Zeroizing<Vec<u8>> {
        Zeroizing::new([&[AES_256_ID][..], &self.key, &sum_of(&self.key).to_be_bytes()].concat())
    }

    fn cipher_key(&self) -> Option<UnboundCipherKey> {
        UnboundCipherKey::new(self.cipher, &self.key).ok()
    }

    fn decrypt(&self, bytes: &mut [u8]) -> Option<()> {
        let key = DecryptingKey::cfb128(self.cipher_key()?).ok()?;
        let zero = DecryptionContext::Iv128(FixedLength::from(&[0; 16]));
        key.decrypt(bytes, zero).ok().map(|_| ())
    }

    /// The zero IV is the format's: 16 random bytes come first.
    fn encrypt(&self, bytes: &mut [u8]) -> Option<()> {
        let key = EncryptingKey::cfb128(self.cipher_key()?).ok()?;
        let zero = EncryptionContext::Iv128(FixedLength::from(&[0; 16]));
        key.less_safe_encrypt(bytes, zero).ok().map(|_| ())
    }
}

fn sum_of(key: &[u8]) -> u16 {
    key.iter().fold(0, |sum, byte| sum.wrapping_add(u16::from(*byte)))
}

/// The packets between the random bytes and the hash, which must be right. The repeated bytes are not looked at: who can ask whether
/// they are, asks about the plain text.
fn checked(plain: &[u8]) -> Option<&[u8]> {
    let (hashed, hash) = plain.split_at_checked(plain.len().checked_sub(HASH_BYTES)?)?;
    let content = hashed.get(PREFIX_BYTES..)?.strip_suffix(&HASH_HEADER)?;
    let wanted = digest(&SHA1_FOR_LEGACY_USE_ONLY, hashed);
    verify_slices_are_equal(wanted.as_ref(), hash).ok()?;
    Some(content)
}

/// The body of the secret key packet, out of literal data and compression.
fn secret_key(content: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
    let mut content = Zeroizing::new(content.to_vec());
    for _ in 0..NESTED_MAX {
        let Packet { tag, body, .. } = take_packet(&content)?;
        let inner = match tag {
            SECRET_KEY => return Some(body),
            COMPRESSED => decompress(&body)?,
            LITERAL => Zeroizing::new(literal(&body)?.to_vec()),
            _ => return None,
        };
        content = inner;
    }
    None
}

/// Section 5.9: format, name, date.
fn literal(body: &[u8]) -> Option<&[u8]> {
    let (_, rest) = body.split_first()?;
    let (&len, rest) = rest.split_first()?;
    rest.get(usize::from(len).checked_add(4)?..)
}

/// ZIP, ZLIB, or nothing; at most [`PLAIN_BYTES_MAX`].
fn decompress(body: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
    let len = u32::try_from(body.len()).ok()?;
    let packet =
        CompressedData::try_from_reader(PacketHeader::new_fixed(Tag::CompressedData, len), body).ok()?;
    let limit = PLAIN_BYTES_MAX.checked_add(1)?;
    let mut out = Zeroizing::new(Vec::with_capacity(limit));
    packet.decompress().ok()?.take(u64::try_from(limit).ok()?).read_to_end(&mut out).ok()?;
    (out.len() < limit).then_some(out)
}

/// One packet, and what follows it.
struct Packet<'a> {
    tag: u8,
    body: Zeroizing<Vec<u8>>,
    rest: &'a [u8],
}

/// Tag and body of the first packet, in either format and in parts (section 4.2), and what follows. In the old format a packet may
/// go on to the end.
fn take_packet(bytes: &[u8]) -> Option<Packet<'_>> {
    let (&first, rest) = bytes.split_first()?;
    let (tag, body, rest) = match first {
        0xc0.. => {
            let (body, rest) = take_parts(rest)?;
            (first & 0x3f, body, rest)
        }
        0x80..0xc0 => {
            let (len, rest) = match first & 3 {
                0 => rest.split_first().map(|(len, rest)| (usize::from(*len), rest))?,
                1 => rest
                    .split_first_chunk()
                    .map(|(len, rest)| (usize::from(u16::from_be_bytes(*len)), rest))?,
                2 => long_length(rest)?,
                _ => (rest.len(), rest),
            };
            let (body, rest) = rest.split_at_checked(len)?;
            ((first >> 2) & 0x0f, Zeroizing::new(body.to_vec()), rest)
        }
        _ => return None,
    };
    Some(Packet { tag, body, rest })
}

fn long_length(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let (len, rest) = bytes.split_first_chunk()?;
    Some((usize::try_from(u32::from_be_bytes(*len)).ok()?, rest))
}

/// Section 4.2.1.
fn take_parts(mut bytes: &[u8]) -> Option<(Zeroizing<Vec<u8>>, &[u8])> {
    // As long as all of it, so that nothing secret stays behind in memory that was outgrown.
    let mut body = Zeroizing::new(Vec::with_capacity(bytes.len()));
    loop {
        let (&first, rest) = bytes.split_first()?;
        let (len, rest) = match first {
            0..192 => (usize::from(first), rest),
            192..224 => {
                let (&low, rest) = rest.split_first()?;
                let high = usize::from(first.saturating_sub(192)) << 8;
                (high.saturating_add(192).saturating_add(usize::from(low)), rest)
            }
            224..255 => (1_usize.checked_shl(u32::from(first & 31))?, rest),
            255 => long_length(rest)?,
        };
        let (part, rest) = rest.split_at_checked(len)?;
        body.extend_from_slice(part);
        bytes = rest;
        if !(224..255).contains(&first) {
            return Some((body, bytes));
        }
    }
}

fn internal(message: &str) -> Fault {
    Fault::new(Code::Internal, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_are_taken_in_both_formats_and_in_parts() {
        for (bytes, tag, body) in [
            (&[0x94, 2, 7, 8, 9][..], 5, &[7, 8][..]),
            (&[0x95, 0, 2, 7, 8, 9], 5, &[7, 8]),
            (&[0x96, 0, 0, 0, 2, 7, 8, 9], 5, &[7, 8]),
            (&[0xc5, 2, 7, 8, 9], 5, &[7, 8]),
            (&[0xc5, 255, 0, 0, 0, 2, 7, 8, 9], 5, &[7, 8]),
            (&[0xd2, 0xe1, 7, 8, 0xe0, 5, 1, 6, 9], 18, &[7, 8, 5, 6]),
        ] {
            let read = take_packet(bytes).unwrap();
            assert_eq!((read.tag, read.body.as_slice(), read.rest), (tag, body, &[9][..]));
            for len in 0..bytes.len() - 1 {
                assert!(take_packet(&bytes[..len]).is_none(), "{bytes:?} {len}");
            }
        }
        let read = take_packet(&[0x97, 7, 8, 9]).unwrap();
        assert_eq!((read.tag, read.body.as_slice(), read.rest), (5, &[7, 8, 9][..], &[][..]));
        assert!(take_packet(&[0x14, 2, 7, 8]).is_none());
    }

    #[test]
    fn what_grows_above_its_limit_is_not_taken() {
        let stored = |len: usize| [&[0][..], &vec![7; len]].concat();
        assert_eq!(decompress(&stored(PLAIN_BYTES_MAX)).unwrap().len(), PLAIN_BYTES_MAX);
        assert!(decompress(&stored(PLAIN_BYTES_MAX + 1)).is_none());
        // 200,000 zeros.
        let bomb = include_bytes!("bomb.zlib");
        assert!(decompress(&[&[2][..], bomb].concat()).is_none());
        for bad in [&[][..], &[2], &[2, 1, 2, 3], &[99, 1]] {
            assert!(decompress(bad).is_none_or(|out| out.is_empty()), "{bad:?}");
        }
    }

    #[test]
    fn a_session_key_has_a_known_cipher_its_length_and_its_sum() {
        for (cipher, len) in [(7, 16), (8, 24), (9, 32)] {
            let key = vec![0xff; len];
            let good = [&[cipher][..], &key, &sum_of(&key).to_be_bytes()].concat();
            assert_eq!(*Session::parse(&good).unwrap().key, key);
            for at in [0, 1, good.len() - 1] {
                let mut bad = good.clone();
                bad[at] ^= 1;
                assert!(Session::parse(&bad).is_none(), "{cipher} {at}");
            }
            assert!(Session::parse(&good[..good.len() - 1]).is_none());
        }
        assert!(Session::parse(&[2, 0, 0]).is_none());
    }

    /// Whoever has the public key writes what is inside.
    #[test]
    fn what_is_inside_may_be_anything() {
        let key = crate::packets::write(Tag::SecretKey, &[4; 300]).unwrap();
        let literal = [&[b'b', 3, b'k', b'e', b'y', 0, 0, 0, 0][..], &key].concat();
        let literal = crate::packets::write(Tag::LiteralData, &literal).unwrap();
        let all = crate::packets::write(Tag::CompressedData, &[&[0][..], &literal].concat()).unwrap();
        assert_eq!(secret_key(&all).unwrap().as_slice(), [4; 300]);
        for at in 0..all.len() {
            assert!(secret_key(&all[..at]).is_none(), "{at}");
            for bit in 0..8 {
                let mut changed = all.clone();
                changed[at] ^= 1 << bit;
                // Some are keys still; none is longer than all, and none a panic.
                assert!(secret_key(&changed).is_none_or(|body| body.len() <= all.len()), "{at} {bit}");
            }
        }
    }

    #[test]
    fn packets_that_hide_each_other_without_end_are_not_followed() {
        let mut nested = vec![0xc5, 1, 4];
        for _ in 0..NESTED_MAX - 1 {
            nested = [&[0xa3, 0][..], &nested].concat();
        }
        assert_eq!(secret_key(&nested).unwrap().as_slice(), [4]);
        assert!(secret_key(&[&[0xa3, 0][..], &nested].concat()).is_none());
    }
}
