//! Hashes by their names in this protocol, and the digest argument of `sign` and `privsign`:
//!
//! ```text
//! HEX "@" CC TTTTTTTT     digest, class (00 or 01), creation time in Unix seconds; all hexadecimal
//! ```
//!
//! The digest is of everything that the signature covers: in version 3 the document and the five bytes CC TTTTTTTT, in
//! version 4 the document and what [`crate::hashed`] puts behind it, in raw signatures the document alone.

use crate::bytes::{from_hex, to_hex};
use crate::error::Error;
use crate::refusal::Refusal;

/// Hashes that `signd` knows an OpenPGP number of. SHA-1 is one of them: whether a key still signs it is the server's
/// decision, not the codec's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Hash {
    /// What a request without a name means.
    Sha1,
    /// FIPS 180-4.
    Sha256,
    /// FIPS 180-4.
    Sha512,
}

impl Hash {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Sha1, Self::Sha256, Self::Sha512];

    /// As clients send it, in upper case.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sha1 => "SHA1",
            Self::Sha256 => "SHA256",
            Self::Sha512 => "SHA512",
        }
    }

    /// RFC 9580 section 9.5.
    #[must_use]
    pub const fn openpgp_id(self) -> u8 {
        match self {
            Self::Sha1 => 2,
            Self::Sha256 => 8,
            Self::Sha512 => 10,
        }
    }

    /// In bytes.
    #[must_use]
    pub const fn digest_len(self) -> usize {
        match self {
            Self::Sha1 => 20,
            Self::Sha256 => 32,
            Self::Sha512 => 64,
        }
    }

    /// By its name in a request; names are compared without case, and no name (or an empty one) means SHA-1.
    ///
    /// # Errors
    /// [`Refusal::BadHashAlgorithm`] with the name as it came.
    pub fn from_request(name: Option<&str>) -> Result<Self, Refusal> {
        let name = name.filter(|name| !name.is_empty()).unwrap_or(Self::Sha1.name());
        Self::ALL
            .into_iter()
            .find(|hash| hash.name().eq_ignore_ascii_case(name))
            .ok_or_else(|| Refusal::BadHashAlgorithm { name: name.to_owned() })
    }

    /// By its number in a packet.
    ///
    /// # Errors
    /// [`Error::Unsupported`].
    pub fn from_openpgp_id(id: u8) -> Result<Self, Error> {
        Self::ALL
            .into_iter()
            .find(|hash| hash.openpgp_id() == id)
            .ok_or(Error::Unsupported { what: "hash algorithm", number: id })
    }
}

/// Classes of signatures that `signd` makes with a key of OpenPGP (RFC 9580 section 5.2.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// 00: a binary document.
    Binary,
    /// 01: a text with CRLF line ends.
    Text,
}

impl Class {
    /// The number in packets.
    #[must_use]
    pub const fn number(self) -> u8 {
        match self {
            Self::Binary => 0,
            Self::Text => 1,
        }
    }

    /// The inverse of [`Self::number`].
    #[must_use]
    pub const fn from_number(number: u8) -> Option<Self> {
        match number {
            0 => Some(Self::Binary),
            1 => Some(Self::Text),
            _ => None,
        }
    }
}

/// One thing to be signed. The class limits nothing: it was hashed by the client, and the digest may be of a
/// certification, of a binding of a subkey, or of anything else.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct DigestArgument {
    hash: Hash,
    digest: Vec<u8>,
    class: Class,
    created: u32,
}

impl DigestArgument {
    /// A digest that has the length of its hash.
    ///
    /// # Errors
    /// [`Refusal::DigestLength`].
    pub fn new(hash: Hash, digest: &[u8], class: Class, created: u32) -> Result<Self, Refusal> {
        if digest.len() == hash.digest_len() {
            Ok(Self { hash, digest: digest.to_vec(), class, created })
        } else {
            Err(Refusal::DigestLength)
        }
    }

    /// What a client sends to learn algorithm and fingerprint of a key: 04 in every byte, class and time zero.
    #[must_use]
    pub fn probe(hash: Hash) -> Self {
        Self { hash, digest: vec![4; hash.digest_len()], class: Class::Binary, created: 0 }
    }

    /// Checks in `signd`'s order: the shape, the name of the hash, the length of the digest.
    ///
    /// # Errors
    /// [`Refusal::BadHash`], [`Refusal::BadHashAlgorithm`], [`Refusal::DigestLength`].
    pub fn parse(argument: &str, hash: Option<&str>) -> Result<Self, Refusal> {
        let (digest, class, created) =
            split(argument).ok_or_else(|| Refusal::BadHash { argument: argument.to_owned() })?;
        Self::new(Hash::from_request(hash)?, &digest, class, created)
    }

    /// Is this the digest that asks for the algorithm (`signd`, lines 1091 to 1093)? Class and time do not count there, and do
    /// not here. Nobody may get a usable signature over it.
    #[must_use]
    pub fn is_probe(&self) -> bool {
        self.digest.iter().all(|byte| *byte == 4)
    }

    /// The hash that made it.
    #[must_use]
    pub const fn hash(&self) -> Hash {
        self.hash
    }

    /// As long as its hash.
    #[must_use]
    pub fn digest(&self) -> &[u8] {
        &self.digest
    }

    /// As the client says; it has hashed it.
    #[must_use]
    pub const fn class(&self) -> Class {
        self.class
    }

    /// Unix seconds, as the client says; it has hashed them.
    #[must_use]
    pub const fn created(&self) -> u32 {
        self.created
    }

    /// As a client sends it: lower-case digits.
    #[must_use]
    pub fn to_text(&self) -> String {
        let [a, b, c, d] = self.created.to_be_bytes();
        format!("{}@{}", to_hex(&self.digest), to_hex(&[self.class.number(), a, b, c, d]))
    }

    /// The first two bytes, which a signature packet repeats.
    pub(crate) fn left(&self) -> [u8; 2] {
        self.digest.first_chunk().copied().unwrap_or_default()
    }
}

fn split(argument: &str) -> Option<(Vec<u8>, Class, u32)> {
    let (digest, trailer) = argument.split_once('@')?;
    let digest = from_hex(digest)?;
    let trailer: [u8; 5] = from_hex(trailer)?.try_into().ok()?;
    let [class, created @ ..] = trailer;
    Some((digest, Class::from_number(class)?, u32::from_be_bytes(created)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "a43c9bd24f792152f6ffdb375910e128c823cffed4a3762337fb6920d442f404@016b0d6c48";

    #[test]
    fn a_good_argument_gives_its_fields_and_its_text() {
        let argument = DigestArgument::parse(GOOD, Some("SHA256")).unwrap();
        assert_eq!(
            (argument.hash(), argument.class(), argument.created()),
            (Hash::Sha256, Class::Text, 0x6b0d_6c48)
        );
        assert_eq!(argument.digest().len(), 32);
        assert_eq!(argument.to_text(), GOOD);
        assert_eq!(DigestArgument::parse(&GOOD.to_uppercase(), Some("sha256")).unwrap(), argument);
        assert!(!argument.is_probe());
    }

    #[test]
    fn every_shape_that_signd_refuses_is_refused_with_its_text() {
        let digest = "a4".repeat(32);
        for bad in [
            String::new(),
            digest.clone(),
            format!("{digest}@"),
            format!("@{digest}"),
            format!("{digest}@436b0d6c48"),
            format!("{digest}@026b0d6c48"),
            format!("{digest}@bc00000000"),
            format!("{digest}@006b0d6c4"),
            format!("{digest}@006b0d6c4800"),
            format!("{digest}@006b0d6cxx"),
            format!("{digest}0@006b0d6c48"),
            format!("{digest}@006b0d6c48@"),
            format!(" {digest}@006b0d6c48"),
            "zz@006b0d6c48".to_owned(),
        ] {
            let refusal = DigestArgument::parse(&bad, Some("SHA256")).unwrap_err();
            assert_eq!(refusal.to_string(), format!("bad hash {bad}"));
        }
    }

    #[test]
    fn the_shape_is_checked_before_the_hash_and_the_hash_before_the_length() {
        assert!(matches!(DigestArgument::parse("zz", Some("MD5")), Err(Refusal::BadHash { .. })));
        assert!(matches!(
            DigestArgument::parse("aabb@0000000000", Some("SHA384")),
            Err(Refusal::BadHashAlgorithm { name }) if name == "SHA384"
        ));
        assert_eq!(DigestArgument::parse("aabb@0000000000", Some("SHA256")), Err(Refusal::DigestLength));
        assert_eq!(DigestArgument::parse(GOOD, None), Err(Refusal::DigestLength));
        assert_eq!(DigestArgument::parse(GOOD, Some("")), Err(Refusal::DigestLength));
    }

    #[test]
    fn the_probe_is_recognised_with_every_hash_class_and_time() {
        for hash in Hash::ALL {
            let probe = DigestArgument::probe(hash);
            assert!(probe.is_probe());
            assert_eq!(DigestArgument::parse(&probe.to_text(), Some(hash.name())).unwrap(), probe);
            let dated = DigestArgument::new(hash, probe.digest(), Class::Text, 7).unwrap();
            assert!(dated.is_probe());
            let mut other = probe.digest().to_vec();
            other[hash.digest_len() - 1] = 5;
            assert!(!DigestArgument::new(hash, &other, Class::Binary, 0).unwrap().is_probe());
        }
    }

    #[test]
    fn hashes_have_one_name_and_one_number_each() {
        for hash in Hash::ALL {
            assert_eq!(Hash::from_request(Some(hash.name())).unwrap(), hash);
            assert_eq!(Hash::from_openpgp_id(hash.openpgp_id()).unwrap(), hash);
        }
        assert_eq!(Hash::from_request(None).unwrap(), Hash::Sha1);
        for id in [0, 1, 3, 9, 11] {
            assert!(Hash::from_openpgp_id(id).is_err(), "{id}");
        }
    }
}
