//! Project keys: secret keys that clients keep, encrypted, and send with each `privsign`. The outer shape alone; what is
//! inside is opened by the process with the keys.
//!
//! ```text
//! first byte 80..ff   an OpenPGP message: session key for the user's encryption key (RFC 9580 section 5.1), encrypted data
//! first byte 01       01 wrapping-key-id(8) len(1) info salt(8) len(2) encrypted
//!   info              empty, or key-algorithm 04 fingerprint(20): lets a client know the key without a probe
//!   encrypted         the body of an encrypted data packet of version 1 (RFC 9580 section 5.13.1) without its version; AES-256,
//!                     from a secret of the wrapping key by iterated and salted S2K with SHA-512
//! inside both         a literal data packet, perhaps compressed, with a secret key packet
//! ```

use core::fmt;

use crate::bytes::{Reader, from_hex, to_hex};
use crate::error::Error;
use crate::limits::PROJECT_KEY_BYTES_MAX;
use crate::packet::{Fingerprint, KeyAlgorithm, new_length, old_length};
use crate::refusal::Refusal;

/// The first byte of a wrapped key.
const WRAPPED: u8 = 1;

/// An encrypted secret key, or the encrypted secret of one-time passwords.
#[derive(Clone, PartialEq, Eq)]
pub enum ProjectKey {
    /// For an OpenPGP key of the server.
    OpenPgp(Message),
    /// For a wrapping key of the server.
    Wrapped(Wrapped),
}

/// An OpenPGP message.
#[derive(Clone, PartialEq, Eq)]
pub struct Message {
    recipient: [u8; 8],
    algorithm: u8,
    bytes: Vec<u8>,
}

/// A key under a wrapping key.
#[derive(Clone, PartialEq, Eq)]
pub struct Wrapped {
    wrapping_key: [u8; 8],
    info: Vec<u8>,
    salt: [u8; 8],
    encrypted: Vec<u8>,
}

impl ProjectKey {
    /// From the bytes of a request, decoded.
    ///
    /// # Errors
    /// What a server says: [`Refusal::ProjectKeyTooLarge`], [`Refusal::BadEncodedData`], [`Refusal::TruncatedEncodedData`],
    /// [`Refusal::NoSessionPacket`], [`Refusal::SessionPacketVersion`].
    pub fn parse(bytes: &[u8]) -> Result<Self, Refusal> {
        if bytes.len() > PROJECT_KEY_BYTES_MAX {
            return Err(Refusal::ProjectKeyTooLarge { size: bytes.len() });
        }
        match bytes.first() {
            Some(0x80..) => Message::parse(bytes).map(Self::OpenPgp),
            _ => Wrapped::parse(bytes).map(Self::Wrapped),
        }
    }

    /// From the file that `sign -g` writes: hexadecimal digits in either case, and perhaps line ends behind them.
    ///
    /// # Errors
    /// [`Error::Request`], saying what a server would say.
    pub fn from_file(text: &str) -> Result<Self, Error> {
        let bytes = from_hex(text.trim_end_matches(['\n', '\r'])).ok_or(Refusal::BadPrivateKey)?;
        Ok(Self::parse(&bytes)?)
    }

    /// The bytes that it was parsed from.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        match self {
            Self::OpenPgp(message) => message.bytes.clone(),
            Self::Wrapped(wrapped) => wrapped.to_bytes(),
        }
    }

    /// As in requests, results and files.
    #[must_use]
    pub fn to_hex(&self) -> String {
        to_hex(&self.to_bytes())
    }
}

impl Message {
    fn parse(bytes: &[u8]) -> Result<Self, Refusal> {
        let mut reader = Reader(bytes);
        let first = reader.u8().ok_or(Refusal::BadEncodedData)?;
        let (tag, len) = if first & 0x40 == 0 {
            ((first >> 2) & 0x0f, old_length(first, &mut reader))
        } else {
            (first & 0x3f, new_length(&mut reader))
        };
        if tag != 1 {
            return Err(Refusal::NoSessionPacket);
        }
        let mut body = Reader(len.and_then(|len| reader.take(len)).ok_or(Refusal::TruncatedEncodedData)?);
        match body.u8() {
            Some(3) => {}
            Some(_) => return Err(Refusal::SessionPacketVersion),
            None => return Err(Refusal::TruncatedEncodedData),
        }
        let recipient = body.array().ok_or(Refusal::TruncatedEncodedData)?;
        let algorithm = body.u8().ok_or(Refusal::TruncatedEncodedData)?;
        if reader.0.is_empty() {
            return Err(Refusal::TruncatedEncodedData);
        }
        Ok(Self { recipient, algorithm, bytes: bytes.to_vec() })
    }

    /// The key id of the encryption key; zeros if the sender hid it.
    #[must_use]
    pub const fn recipient(&self) -> [u8; 8] {
        self.recipient
    }

    /// The OpenPGP number of the encryption key's algorithm.
    #[must_use]
    pub const fn algorithm(&self) -> u8 {
        self.algorithm
    }
}

impl Wrapped {
    /// For a key that was just encrypted.
    ///
    /// # Errors
    /// [`Error::Malformed`] if there are more than 65,535 encrypted bytes; [`Error::Request`] if the whole is above its limit.
    pub fn new(
        wrapping_key: [u8; 8],
        (algorithm, fingerprint): (KeyAlgorithm, Fingerprint),
        salt: [u8; 8],
        encrypted: Vec<u8>,
    ) -> Result<Self, Error> {
        if u16::try_from(encrypted.len()).is_err() {
            return Err(Error::malformed("project key", "it has more than 65535 encrypted bytes"));
        }
        let info = [&[algorithm.openpgp_id(), 4][..], &fingerprint].concat();
        let wrapped = Self { wrapping_key, info, salt, encrypted };
        let size = wrapped.to_bytes().len();
        if size > PROJECT_KEY_BYTES_MAX {
            return Err(Refusal::ProjectKeyTooLarge { size }.into());
        }
        Ok(wrapped)
    }

    fn parse(bytes: &[u8]) -> Result<Self, Refusal> {
        let mut reader = Reader(bytes);
        let fields = (|| {
            let version = reader.u8()?;
            let wrapping_key = reader.array()?;
            let info_len = reader.u8()?;
            let info = reader.take(usize::from(info_len))?;
            Some((version, wrapping_key, info, reader.array()?, reader.u16()?))
        })();
        let Some((WRAPPED, wrapping_key, info, salt, len)) = fields else {
            return Err(Refusal::BadEncodedData);
        };
        if reader.0.len() != usize::from(len) {
            return Err(Refusal::TruncatedEncodedData);
        }
        Ok(Self { wrapping_key, info: info.to_vec(), salt, encrypted: reader.0.to_vec() })
    }

    fn to_bytes(&self) -> Vec<u8> {
        let info_len = u8::try_from(self.info.len()).unwrap_or(u8::MAX);
        let len = u16::try_from(self.encrypted.len()).unwrap_or(u16::MAX).to_be_bytes();
        [&[WRAPPED][..], &self.wrapping_key, &[info_len], &self.info, &self.salt, &len, &self.encrypted]
            .concat()
    }

    /// The id of the wrapping key.
    #[must_use]
    pub const fn wrapping_key(&self) -> [u8; 8] {
        self.wrapping_key
    }

    /// Algorithm and fingerprint, where they are said. Nothing protects them: good for composing a signature that is verified
    /// afterwards, and for nothing else.
    #[must_use]
    pub fn claimed(&self) -> Option<(KeyAlgorithm, Fingerprint)> {
        let [algorithm, 4, fingerprint @ ..] = self.info.as_slice() else { return None };
        Some((KeyAlgorithm::from_openpgp_id(*algorithm).ok()?, fingerprint.try_into().ok()?))
    }

    /// For the S2K.
    #[must_use]
    pub const fn salt(&self) -> [u8; 8] {
        self.salt
    }

    /// The encrypted bytes.
    #[must_use]
    pub fn encrypted(&self) -> &[u8] {
        &self.encrypted
    }
}

/// Which key opens it, and how long it is: no more.
impl fmt::Debug for ProjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, id) = match self {
            Self::OpenPgp(message) => ("OpenPgp", message.recipient),
            Self::Wrapped(wrapped) => ("Wrapped", wrapped.wrapping_key),
        };
        f.debug_struct(name).field("key_id", &to_hex(&id)).field("bytes", &self.to_bytes().len()).finish()
    }
}

impl fmt::Debug for Wrapped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wrapped").field("key_id", &to_hex(&self.wrapping_key)).finish_non_exhaustive()
    }
}

impl fmt::Debug for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Message").field("recipient", &to_hex(&self.recipient)).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrapped() -> Vec<u8> {
        let info = (KeyAlgorithm::EdDsaLegacy, [9; 20]);
        ProjectKey::Wrapped(Wrapped::new([1; 8], info, [2; 8], vec![3; 40]).unwrap()).to_bytes()
    }

    #[test]
    fn a_wrapped_key_gives_its_fields_and_its_bytes_back() {
        let bytes = wrapped();
        let Ok(ProjectKey::Wrapped(key)) = ProjectKey::parse(&bytes) else { panic!("not wrapped") };
        assert_eq!(key.wrapping_key(), [1; 8]);
        assert_eq!(key.claimed(), Some((KeyAlgorithm::EdDsaLegacy, [9; 20])));
        assert_eq!((key.salt(), key.encrypted()), ([2; 8], &[3; 40][..]));
        assert_eq!(key.to_bytes(), bytes);
    }

    #[test]
    fn a_wrapped_key_without_info_or_with_unknown_info_claims_nothing() {
        for info in [
            &[][..],
            &[22],
            &[22, 4, 1],
            &[100, 4, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9],
        ] {
            let len = u8::try_from(info.len()).unwrap();
            let bytes = [&[1; 9][..], &[len], info, &[2; 8], &[0, 1, 7]].concat();
            let Ok(ProjectKey::Wrapped(key)) = ProjectKey::parse(&bytes) else { panic!("not wrapped") };
            assert_eq!(key.claimed(), None);
            assert_eq!(key.to_bytes(), bytes);
        }
    }

    #[test]
    fn wrapped_keys_whose_lengths_lie_are_refused_with_signds_texts() {
        let good = wrapped();
        for len in 0..good.len() {
            let want = if len < 42 { Refusal::BadEncodedData } else { Refusal::TruncatedEncodedData };
            assert_eq!(ProjectKey::parse(&good[..len]), Err(want), "{len}");
        }
        assert_eq!(ProjectKey::parse(&[&good[..], &[0]].concat()), Err(Refusal::TruncatedEncodedData));
        for first in [0, 2, 0x7f] {
            let mut bad = good.clone();
            bad[0] = first;
            assert_eq!(ProjectKey::parse(&bad), Err(Refusal::BadEncodedData));
        }
        let size = PROJECT_KEY_BYTES_MAX + 1;
        assert_eq!(ProjectKey::parse(&vec![0x85; size]), Err(Refusal::ProjectKeyTooLarge { size }));
    }

    #[test]
    fn a_message_names_its_recipient_and_other_packets_are_refused() {
        let packet = [&[3][..], &[5; 8], &[1, 0, 1, 1]].concat();
        for header in [&[0x84, 13][..], &[0x85, 0, 13], &[0x86, 0, 0, 0, 13], &[0xc1, 13]] {
            let bytes = [header, &packet, &[0xd2, 1, 1]].concat();
            let Ok(ProjectKey::OpenPgp(message)) = ProjectKey::parse(&bytes) else { panic!("no message") };
            assert_eq!((message.recipient(), message.algorithm()), ([5; 8], 1));
        }
        let refused = |bytes: &[u8]| ProjectKey::parse(bytes).unwrap_err();
        assert_eq!(refused(&[&[0x88, 13][..], &packet].concat()), Refusal::NoSessionPacket);
        assert_eq!(refused(&[0xd2, 1, 1]), Refusal::NoSessionPacket);
        assert_eq!(refused(&[&[0x84, 13][..], &packet].concat()), Refusal::TruncatedEncodedData);
        assert_eq!(refused(&[&[0x84, 14][..], &packet].concat()), Refusal::TruncatedEncodedData);
        assert_eq!(refused(&[0x84, 1, 3, 0xd2]), Refusal::TruncatedEncodedData);
        assert_eq!(refused(&[0x84, 0, 0xd2]), Refusal::TruncatedEncodedData);
        assert_eq!(refused(&[0x87, 3]), Refusal::TruncatedEncodedData);
        assert_eq!(refused(&[0x84, 1, 6, 0xd2]), Refusal::SessionPacketVersion);
    }

    #[test]
    fn a_file_may_end_in_line_ends_and_in_nothing_else() {
        let hex = to_hex(&wrapped());
        assert!(ProjectKey::from_file(&format!("{hex}\r\n\n")).is_ok());
        assert_eq!(ProjectKey::from_file(&hex.to_uppercase()).unwrap().to_hex(), hex);
        for bad in [String::new(), format!(" {hex}"), format!("{hex} "), format!("{hex}0")] {
            assert_eq!(ProjectKey::from_file(&bad), Err(Refusal::BadPrivateKey.into()));
        }
    }
}
