//! A key holder for tests: fixture keys, composed as the real one composes, signed by rPGP.

use std::fs;
use std::path::PathBuf;

use pgp::composed::{Deserializable, SignedSecretKey};
use pgp::types::{Password, SignatureBytes, SigningKey as _};
use sealwright_crypto::algorithm::{HashAlgorithm, KeyAlgorithm};
use sealwright_crypto::openpgp::certificate::Certificate;
use sealwright_crypto::openpgp::salt::Salt;
use sealwright_crypto::openpgp::signature::Template;
use sealwright_formats::prepared::Item;

/// 2026-12-01 00:00:00 UTC: after the creation of every fixture key.
pub(crate) const SIGNING_TIME: u32 = 1_796_083_200;

/// A fixture file.
pub(crate) fn fixture(path: &str) -> Vec<u8> {
    fs::read(fixture_path(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Where a fixture is.
pub(crate) fn fixture_path(path: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fixtures").join(path)
}

/// Names of the files in a fixture folder, sorted.
pub(crate) fn fixture_names(folder: &str) -> Vec<String> {
    let entries = fs::read_dir(fixture_path(folder)).unwrap();
    let mut names: Vec<String> = entries
        .map(|entry| format!("{folder}/{}", entry.unwrap().file_name().into_string().unwrap()))
        .collect();
    names.sort();
    names
}

/// A key pair of the fixtures; its primary key signs.
pub(crate) struct Signer {
    pub(crate) certificate: Certificate,
    secret: SignedSecretKey,
    algorithm: KeyAlgorithm,
}

impl Signer {
    pub(crate) fn rsa4096() -> Self {
        Self::load("pgp-key/gen_rsa4096.pub.asc", "pgp-key/gen_rsa4096.sec.asc")
    }

    pub(crate) fn rsa2048() -> Self {
        Self::load("pgp-key/rpmorg_rpm.org-rsa-2048-test.pub", "pgp-key/rpmorg_rpm.org-rsa-2048-test.secret")
    }

    pub(crate) fn ed25519() -> Self {
        Self::load("pgp-key/gen_ed25519.pub.asc", "pgp-key/gen_ed25519.sec.asc")
    }

    /// Of version 6: the sample of RFC 9580, appendix A.4.
    pub(crate) fn ed25519_v6() -> Self {
        let secret = fixture("pgp-key/rpgp_v6-25519-annex-a-4_tsk.asc");
        let secret = SignedSecretKey::from_armor_single(secret.as_slice()).unwrap().0;
        let public = pgp::ser::Serialize::to_bytes(&secret.to_public_key()).unwrap();
        Self::of(Certificate::parse(&public).unwrap(), secret)
    }

    fn load(public: &str, secret: &str) -> Self {
        let certificate = Certificate::parse(&fixture(public)).unwrap();
        let secret = SignedSecretKey::from_armor_single(fixture(secret).as_slice()).unwrap().0;
        Self::of(certificate, secret)
    }

    /// What a server hands out beforehand: as many as formats need, with this hash.
    pub(crate) fn salts(&self, hash: HashAlgorithm) -> Vec<Salt> {
        let is_v6 = self.certificate.fingerprint().key_version() == 6;
        is_v6.then(|| Salt::new(hash, &vec![0x5a; hash.salt_len()]).unwrap()).into_iter().collect()
    }

    fn of(certificate: Certificate, secret: SignedSecretKey) -> Self {
        let algorithm = certificate.components()[0].algorithm().unwrap();
        Self { certificate, secret, algorithm }
    }

    /// One packet for each item, as the key holder makes them.
    pub(crate) fn sign(&self, items: &[Item]) -> Vec<Vec<u8>> {
        items.iter().map(|item| self.sign_one(item, SIGNING_TIME)).collect()
    }

    pub(crate) fn sign_one(&self, item: &Item, created: u32) -> Vec<u8> {
        let template = Template {
            hash: item.content.hash(),
            kind: item.purpose.data_kind(),
            key: self.algorithm,
            issuer: self.certificate.fingerprint(),
            created,
            salt: None,
            first: item.salt,
        };
        let unsigned = template.finish(&item.content.midstate()).unwrap();
        let digest = unsigned.digest();
        let hash = pgp::crypto::hash::HashAlgorithm::from(digest.hash().openpgp_id());
        let password = Password::empty();
        let value = self.secret.primary_key.sign(&password, hash, digest.as_bytes()).unwrap();
        let mpis = match value {
            SignatureBytes::Mpis(mpis) => mpis,
            SignatureBytes::Native(raw) => return unsigned.pack(&raw).unwrap(),
        };
        let part_len = match self.algorithm {
            KeyAlgorithm::Rsa(bits) => usize::from(bits / 8),
            KeyAlgorithm::Ed25519 => 32,
        };
        let mut raw = Vec::new();
        for mpi in &mpis {
            raw.resize(raw.len() + part_len - mpi.as_ref().len(), 0);
            raw.extend_from_slice(mpi.as_ref());
        }
        unsigned.pack(&raw).unwrap()
    }
}
