//! Makes signatures that our signer never would: other versions, types, times and subpackets, by real keys.

use pgp::composed::{Deserializable as _, SignedSecretKey};
use pgp::crypto::hash::HashAlgorithm as PgpHash;
use pgp::packet::{PacketTrait as _, SignatureConfig, SignatureType, Subpacket, SubpacketData, UserId};
use pgp::types::{
    KeyDetails as _, PacketHeaderVersion, Password, SignatureBytes, SigningKey, Tag, Timestamp,
};
use sealwright_crypto::algorithm::{HashAlgorithm, KeyAlgorithm};
use sealwright_crypto::digest::{Digest, Hasher};
use sealwright_crypto::openpgp::armor;
use sealwright_crypto::openpgp::fingerprint::Fingerprint;

pub(crate) struct Forge {
    key: SignedSecretKey,
}

/// One signature to be made. `Default` is a good one.
#[derive(Clone)]
pub(crate) struct Shape {
    pub(crate) version: u8,
    pub(crate) kind: u8,
    pub(crate) created: Option<u32>,
    /// Further subpackets, framed, for the hashed area.
    pub(crate) hashed: Vec<u8>,
    /// All of the unhashed area; nothing gives the issuer's key id.
    pub(crate) unhashed: Option<Vec<u8>>,
    /// The subkey that signs, by its place; nothing is the primary key.
    pub(crate) subkey: Option<usize>,
    pub(crate) hash: HashAlgorithm,
    /// What the packet says; nothing is the truth.
    pub(crate) algorithm: Option<u8>,
}

impl Default for Shape {
    fn default() -> Self {
        Self {
            version: 4,
            kind: 0,
            created: Some(1_797_000_000),
            hashed: Vec::new(),
            unhashed: None,
            subkey: None,
            hash: HashAlgorithm::Sha256,
            algorithm: None,
        }
    }
}

impl Forge {
    pub(crate) fn load(name: &str) -> Self {
        let bytes = armor::decode_or_binary(&crate::fixture(&format!("pgp-key/{name}"))).unwrap();
        Self { key: SignedSecretKey::from_bytes(&bytes[..]).unwrap() }
    }

    /// The fingerprint of the primary key or of a subkey.
    pub(crate) fn fingerprint(&self, subkey: Option<usize>) -> Fingerprint {
        let fingerprint = match subkey {
            None => self.key.primary_key.fingerprint(),
            Some(at) => self.key.secret_subkeys[at].key.fingerprint(),
        };
        Fingerprint::from_bytes(fingerprint.as_bytes()).unwrap()
    }

    /// The certificate in the file of the secret key.
    pub(crate) fn public(&self) -> Vec<u8> {
        pgp::ser::Serialize::to_bytes(&self.key.to_public_key()).unwrap()
    }

    /// A certificate of the primary key and one user id, bound by one self-signature with this hash, time and
    /// further hashed subpackets.
    pub(crate) fn certificate(&self, hash: PgpHash, created: u32, more: Vec<Subpacket>) -> Vec<u8> {
        let key = &self.key.primary_key;
        let mut config = SignatureConfig::v4(SignatureType::CertPositive, key.algorithm(), hash);
        config.hashed_subpackets = vec![
            Subpacket::regular(SubpacketData::SignatureCreationTime(Timestamp::from_secs(created))).unwrap(),
            Subpacket::regular(SubpacketData::IssuerFingerprint(key.fingerprint())).unwrap(),
        ];
        config.hashed_subpackets.extend(more);
        let id = UserId::from_str(PacketHeaderVersion::New, "forged <forged@example.org>").unwrap();
        let public = key.public_key();
        let signature = config.sign_certification(key, public, &Password::empty(), Tag::UserId, &id).unwrap();
        let mut out = Vec::new();
        public.to_writer_with_header(&mut out).unwrap();
        id.to_writer_with_header(&mut out).unwrap();
        signature.to_writer_with_header(&mut out).unwrap();
        out
    }

    /// Signs a digest; the numbers come without padding.
    pub(crate) fn sign_digest(&self, subkey: Option<usize>, digest: &Digest) -> Vec<Vec<u8>> {
        let hash = PgpHash::from(digest.hash().openpgp_id());
        let none = Password::empty();
        let value = match subkey {
            None => SigningKey::sign(&self.key.primary_key, &none, hash, digest.as_bytes()),
            Some(at) => SigningKey::sign(&self.key.secret_subkeys[at].key, &none, hash, digest.as_bytes()),
        };
        match value.unwrap() {
            SignatureBytes::Mpis(mpis) => mpis.iter().map(|mpi| mpi.as_ref().to_vec()).collect(),
            SignatureBytes::Native(bytes) => vec![bytes.to_vec()],
        }
    }

    /// What a key operation of the signer process gives: padded to the full length.
    pub(crate) fn sign_raw(&self, key: KeyAlgorithm, digest: &Digest) -> Vec<u8> {
        let len = match key {
            KeyAlgorithm::Rsa(bits) => usize::from(bits) / 8,
            KeyAlgorithm::Ed25519 => 32,
        };
        let numbers = self.sign_digest(None, digest);
        // Version 6 has both halves of an Ed25519 signature in one string.
        if numbers.iter().map(Vec::len).max() > Some(len) {
            numbers.concat()
        } else {
            numbers.concat_padded(len)
        }
    }

    pub(crate) fn sign(&self, shape: &Shape, content: &[u8]) -> Vec<u8> {
        let issuer = self.fingerprint(shape.subkey);
        let algorithm = match shape.subkey {
            None => u8::from(self.key.primary_key.algorithm()),
            Some(at) => u8::from(self.key.secret_subkeys[at].key.algorithm()),
        };
        let algorithm = shape.algorithm.unwrap_or(algorithm);
        let created = shape.created.unwrap_or_default().to_be_bytes();
        let mut hasher = Hasher::new(shape.hash);
        hasher.update(content);
        let (mut body, tail) = if shape.version == 3 {
            hasher.update(&[shape.kind]);
            hasher.update(&created);
            let head = [&[3, 5, shape.kind][..], &created, &issuer.key_id()].concat();
            ([&head[..], &[algorithm, shape.hash.openpgp_id()]].concat(), Vec::new())
        } else {
            let mut area = shape.hashed.clone();
            if shape.created.is_some() {
                area.extend([&[5, 2][..], &created].concat());
            }
            area.extend([&[22, 33, 4][..], issuer.as_bytes()].concat());
            let mut body = vec![4, shape.kind, algorithm, shape.hash.openpgp_id()];
            body.extend(u16::try_from(area.len()).unwrap().to_be_bytes());
            body.extend(area);
            hasher.update(&body);
            hasher.update(&[4, 0xff]);
            hasher.update(&u32::try_from(body.len()).unwrap().to_be_bytes());
            let key_id = || [&[9, 16][..], &issuer.key_id()].concat();
            let unhashed = shape.unhashed.clone().unwrap_or_else(key_id);
            let len = u16::try_from(unhashed.len()).unwrap().to_be_bytes();
            (body, [&len[..], &unhashed].concat())
        };
        let digest = hasher.finish();
        body.extend(tail);
        body.extend(&digest.as_bytes()[..2]);
        for number in self.sign_digest(shape.subkey, &digest) {
            body.extend(mpi(&number));
        }
        packet(&body)
    }
}

pub(crate) trait ConcatPadded {
    fn concat_padded(&self, len: usize) -> Vec<u8>;
}

impl ConcatPadded for Vec<Vec<u8>> {
    fn concat_padded(&self, len: usize) -> Vec<u8> {
        self.iter().flat_map(|number| [vec![0; len - number.len()], number.clone()].concat()).collect()
    }
}

pub(crate) fn mpi(number: &[u8]) -> Vec<u8> {
    let bits = u16::try_from(number.len() * 8).unwrap() - u16::try_from(number[0].leading_zeros()).unwrap();
    [&bits.to_be_bytes()[..], number].concat()
}

/// A signature packet with an old header, as gpg writes it.
pub(crate) fn packet(body: &[u8]) -> Vec<u8> {
    [&[0x89][..], &u16::try_from(body.len()).unwrap().to_be_bytes(), body].concat()
}
