//! Signatures as the key holder makes them, but for the value, which no key made: for a format they are as good.
#![allow(dead_code, reason = "each target uses its part")]

use sealwright_crypto::algorithm::{HashAlgorithm, KeyAlgorithm};
use sealwright_crypto::openpgp::certificate::Certificate;
use sealwright_crypto::openpgp::salt::Salt;
use sealwright_crypto::openpgp::signature::Template;
use sealwright_formats::prepared::Item;

/// 2026-12-01: after every fixture key was made.
pub(crate) const NOW: u32 = 1_796_083_200;

const KEYS: [&[u8]; 4] = [
    include_bytes!("../../fixtures/pgp-key/gen_ed25519.pub.asc"),
    include_bytes!("../../fixtures/pgp-key/gen_rsa4096.pub.asc"),
    include_bytes!("../../fixtures/pgp-key/rpmorg_rpm.org-rsa-2048-test.pub"),
    include_bytes!("../../fixtures/pgp-key/rpmorg_rpm.org-v6-ed25519-test.asc"),
];

/// The certificates to sign with.
pub(crate) fn certificates() -> Vec<Certificate> {
    KEYS.iter().map(|key| Certificate::parse(key).unwrap()).collect()
}

/// What a server would have handed out for this key: none for version 4.
pub(crate) fn salts(certificate: &Certificate, hash: HashAlgorithm, count: usize) -> Vec<Salt> {
    let is_v6 = certificate.fingerprint().key_version() == 6;
    assert_eq!(count > 0, is_v6, "salts are for version 6 keys");
    (0..count).map(|_| Salt::new(hash, &vec![0x5a; hash.salt_len()]).unwrap()).collect()
}

/// One packet for each item, which says that the primary key of `certificate` made it.
pub(crate) fn packets(items: &[Item], certificate: &Certificate, salted: bool) -> Vec<Vec<u8>> {
    items.iter().map(|item| packet(item, certificate, salted)).collect()
}

fn packet(item: &Item, certificate: &Certificate, salted: bool) -> Vec<u8> {
    let key = certificate.components()[0].algorithm().unwrap();
    let raw_len = match key {
        KeyAlgorithm::Rsa(bits) => usize::from(bits / 8),
        KeyAlgorithm::Ed25519 => 64,
    };
    let template = Template {
        hash: item.content.hash(),
        kind: item.purpose.data_kind(),
        key,
        issuer: certificate.fingerprint(),
        created: NOW,
        salt: salted.then_some([0xa5; 32]),
        first: item.salt,
    };
    template.finish(&item.content.midstate()).unwrap().pack(&vec![0x5a; raw_len]).unwrap()
}
