//! Several hashes over one stretch of bytes, in one pass: whoever reads a package says first which ones are
//! wanted, and every byte is read once.

use md5::Md5;
use sealwright_crypto::algorithm::HashAlgorithm;
use sealwright_crypto::digest::{Hasher, to_hex};
use sealwright_crypto::openpgp::packet::SignaturePacket;
use sha1::{Digest as _, Sha1};
use sha3::Sha3_256;

/// The hashes that are wanted; each is computed once, however often it was asked for.
#[derive(Clone, Default)]
pub(super) struct Hashes {
    md5: Option<Md5>,
    sha1: Option<Sha1>,
    sha3_256: Option<Sha3_256>,
    sha2: Vec<Hasher>,
    /// OpenPGP version 6: the salt goes first, so each signature has a hash of its own.
    salted: Vec<(Vec<u8>, Hasher)>,
}

/// A digest that packages record about themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Algorithm {
    Md5,
    Sha1,
    Sha2(HashAlgorithm),
    Sha3_256,
}

impl Algorithm {
    pub(super) const SHA256: Self = Self::Sha2(HashAlgorithm::Sha256);
    pub(super) const SHA512: Self = Self::Sha2(HashAlgorithm::Sha512);
}

impl Hashes {
    /// Asks for a digest.
    pub(super) fn want(&mut self, algorithm: Algorithm) {
        match algorithm {
            Algorithm::Md5 => self.md5 = Some(self.md5.take().unwrap_or_default()),
            Algorithm::Sha1 => self.sha1 = Some(self.sha1.take().unwrap_or_default()),
            Algorithm::Sha3_256 => self.sha3_256 = Some(self.sha3_256.take().unwrap_or_default()),
            Algorithm::Sha2(hash) if self.sha2(hash).is_none() => self.sha2.push(Hasher::new(hash)),
            Algorithm::Sha2(_) => {}
        }
    }

    /// Asks for what a signature needs, if it uses a hash that counts.
    pub(super) fn want_for(&mut self, packet: &SignaturePacket) {
        let Some(hash) = packet.hash() else { return };
        let Some(salt) = packet.salt() else { return self.want(Algorithm::Sha2(hash)) };
        self.want_salted(salt, hash);
    }

    /// Asks for a hash that starts with this salt.
    pub(super) fn want_salted(&mut self, salt: &[u8], hash: HashAlgorithm) {
        if self.salted(salt, hash).is_none() {
            let mut hasher = Hasher::new(hash);
            hasher.update(salt);
            self.salted.push((salt.to_vec(), hasher));
        }
    }

    /// Asks for everything that `other` asks for.
    pub(super) fn want_all(&mut self, other: &Self) {
        let wanted = [
            other.md5.as_ref().map(|_| Algorithm::Md5),
            other.sha1.as_ref().map(|_| Algorithm::Sha1),
            other.sha3_256.as_ref().map(|_| Algorithm::Sha3_256),
        ];
        for algorithm in wanted.into_iter().flatten() {
            self.want(algorithm);
        }
        for hasher in &other.sha2 {
            self.want(Algorithm::Sha2(hasher.hash()));
        }
        for (salt, hasher) in &other.salted {
            self.want_salted(salt, hasher.hash());
        }
    }

    /// Of these, in the state in which they are, the ones that `wanted` asks for too.
    pub(super) fn select(&self, wanted: &Self) -> Self {
        let keep = |(salt, hasher): &&(Vec<u8>, Hasher)| {
            wanted.salted.iter().any(|(other, hash)| other == salt && hash.hash() == hasher.hash())
        };
        Self {
            md5: wanted.md5.as_ref().and(self.md5.clone()),
            sha1: wanted.sha1.as_ref().and(self.sha1.clone()),
            sha3_256: wanted.sha3_256.as_ref().and(self.sha3_256.clone()),
            sha2: self.sha2.iter().filter(|hasher| wanted.sha2(hasher.hash()).is_some()).cloned().collect(),
            salted: self.salted.iter().filter(keep).cloned().collect(),
        }
    }

    /// Each hash in a set of its own; [`Self::append`] puts them together again.
    pub(super) fn split(&self) -> Vec<Self> {
        let mut sets = Vec::new();
        if self.md5.is_some() {
            sets.push(Self { md5: self.md5.clone(), ..Self::default() });
        }
        if self.sha1.is_some() {
            sets.push(Self { sha1: self.sha1.clone(), ..Self::default() });
        }
        if self.sha3_256.is_some() {
            sets.push(Self { sha3_256: self.sha3_256.clone(), ..Self::default() });
        }
        sets.extend(self.sha2.iter().map(|hasher| Self { sha2: vec![hasher.clone()], ..Self::default() }));
        sets.extend(
            self.salted.iter().map(|salted| Self { salted: vec![salted.clone()], ..Self::default() }),
        );
        sets
    }

    /// Takes SHA-256 out, into a set of its own, if it is wanted.
    pub(super) fn take_sha256(&mut self) -> Option<Self> {
        let at = self.sha2.iter().position(|hasher| hasher.hash() == HashAlgorithm::Sha256)?;
        Some(Self { sha2: vec![self.sha2.swap_remove(at)], ..Self::default() })
    }

    /// Takes over the hashes of `other`, which are not among these.
    pub(super) fn append(&mut self, mut other: Self) {
        self.md5 = self.md5.take().or(other.md5);
        self.sha1 = self.sha1.take().or(other.sha1);
        self.sha3_256 = self.sha3_256.take().or(other.sha3_256);
        self.sha2.append(&mut other.sha2);
        self.salted.append(&mut other.salted);
    }

    /// Whether nothing is wanted.
    pub(super) fn is_empty(&self) -> bool {
        let none = self.md5.is_none() && self.sha1.is_none() && self.sha3_256.is_none();
        none && self.sha2.is_empty() && self.salted.is_empty()
    }

    /// Appends `data` to all of them.
    pub(super) fn update(&mut self, data: &[u8]) {
        if let Some(md5) = &mut self.md5 {
            md5.update(data);
        }
        if let Some(sha1) = &mut self.sha1 {
            sha1.update(data);
        }
        if let Some(sha3) = &mut self.sha3_256 {
            sha3.update(data);
        }
        let salted = self.salted.iter_mut().map(|(_, hasher)| hasher);
        for hasher in self.sha2.iter_mut().chain(salted) {
            hasher.update(data);
        }
    }

    /// Appends `data` to both sets. SHA-256 without a salt, where both want it, is computed two at once.
    pub(super) fn update_both(one: &mut Self, other: &mut Self, data: &[u8]) {
        let is_sha256 = |hasher: &Hasher| hasher.hash() == HashAlgorithm::Sha256;
        let place = |set: &Self| set.sha2.iter().position(is_sha256);
        let (Some(one_at), Some(other_at)) = (place(one), place(other)) else {
            one.update(data);
            other.update(data);
            return;
        };
        let (mut one_sha256, mut other_sha256) =
            (one.sha2.swap_remove(one_at), other.sha2.swap_remove(other_at));
        Hasher::update_two(&mut one_sha256, &mut other_sha256, data);
        one.update(data);
        other.update(data);
        one.sha2.push(one_sha256);
        other.sha2.push(other_sha256);
    }

    /// The state of a SHA-2 hash that was wanted.
    pub(super) fn sha2(&self, hash: HashAlgorithm) -> Option<&Hasher> {
        self.sha2.iter().find(|hasher| hasher.hash() == hash)
    }

    /// The state that this signature is checked with, if it was wanted.
    pub(super) fn for_packet(&self, packet: &SignaturePacket) -> Option<&Hasher> {
        let hash = packet.hash()?;
        let Some(salt) = packet.salt() else { return self.sha2(hash) };
        self.salted(salt, hash)
    }

    /// The state of a salted hash that was wanted.
    pub(super) fn salted(&self, salt: &[u8], hash: HashAlgorithm) -> Option<&Hasher> {
        let fits = |(known, hasher): &&(Vec<u8>, Hasher)| known == salt && hasher.hash() == hash;
        self.salted.iter().find(fits).map(|(_, hasher)| hasher)
    }

    /// The digest so far in lower-case hexadecimal, if it was wanted.
    pub(super) fn hex(&self, algorithm: Algorithm) -> Option<String> {
        match algorithm {
            Algorithm::Md5 => self.md5.clone().map(|hash| to_hex(&hash.finalize())),
            Algorithm::Sha1 => self.sha1.clone().map(|hash| to_hex(&hash.finalize())),
            Algorithm::Sha3_256 => self.sha3_256.clone().map(|hash| to_hex(&hash.finalize())),
            Algorithm::Sha2(hash) => self.sha2(hash).map(|hasher| hasher.clone().finish().to_hex()),
        }
    }
}
