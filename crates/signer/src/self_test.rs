//! Before anything is served: every algorithm signs and verifies on this very processor, with embedded test keys. A
//! library that was right elsewhere was not right everywhere (CVE-2022-2274: OpenSSL 3.0.4 corrupted memory in RSA on
//! processors with AVX-512).

use std::sync::Arc;

use sealwright_crypto::algorithm::{HashAlgorithm, KeyVersion};
use sealwright_crypto::digest::Hasher;
use sealwright_proto::status::Fault;

use crate::backend::Backend as _;
use crate::backend::software::{Software, public_numbers};
use crate::error::Error;
use crate::opened::Component;
use crate::public::PublicHalf;
use crate::seal::StoredComponent;
use crate::secret::Secret;
use crate::tokens::Tokens;

/// Keys that sign nothing but the test (PKCS#8, made by `openssl genpkey`), each with the hash that it signs with:
/// every size and every hash once, since each start waits for them.
const RSA_TEST_KEYS: &[(&[u8], HashAlgorithm)] = &[
    (include_bytes!("testkeys/rsa2048.der"), HashAlgorithm::Sha256),
    (include_bytes!("testkeys/rsa3072.der"), HashAlgorithm::Sha384),
    (include_bytes!("testkeys/rsa4096.der"), HashAlgorithm::Sha512),
];

/// RFC 8032 section 7.1, test 1.
const ED25519_TEST_SEED: [u8; 32] = [
    0x9d, 0x61, 0xb1, 0x9d, 0xef, 0xfd, 0x5a, 0x60, 0xba, 0x84, 0x4a, 0xf4, 0x92, 0xec, 0x2c, 0xc4, 0x44,
    0x49, 0xc5, 0x69, 0x7b, 0x32, 0x69, 0x19, 0x70, 0x3b, 0xac, 0x03, 0x1c, 0xae, 0x7f, 0x60,
];

const TEST_CONTENT: &[u8] = b"sealwright self-test";

/// Proof that every algorithm works on this processor; nothing opens a key without. Only [`run`] makes one.
pub(crate) struct Passed(());

/// # Errors
/// [`Error::SelfTest`], naming the algorithm.
pub(crate) fn run() -> Result<Passed, Error> {
    for (key, hash) in RSA_TEST_KEYS {
        test("rsa", &Secret::joined(&[key])?, *hash)?;
    }
    test("ed25519", &Secret::joined(&[&ED25519_TEST_SEED])?, HashAlgorithm::Sha256)?;
    Ok(Passed(()))
}

fn test(family: &str, secret: &Secret, hash: HashAlgorithm) -> Result<(), Error> {
    let failed = |algorithm: &str, reason| Error::SelfTest { algorithm: algorithm.to_owned(), reason };
    let numbers = public_numbers(secret).map_err(|error| failed(family, error.0))?;
    let public = PublicHalf::new(KeyVersion::V4, 0, &numbers)
        .map_err(|_| failed(family, "the test key is not readable"))?;
    let algorithm = format!("{} with {}", public.algorithm(), hash.name());
    let stored =
        StoredComponent { backend: Software.number(), public: Arc::new(public), secret: secret.clone() };
    let component = Component::open(&Tokens::none(), &stored)
        .map_err(|_| failed(&algorithm, "the test key does not open"))?;
    let signed = component.sign(&Hasher::digest(hash, TEST_CONTENT));
    signed.map(drop).map_err(|_| failed(&algorithm, "a signature does not verify"))
}

/// Signs once with every hash; each signature verifies, or this fails.
///
/// # Errors
/// [`sealwright_proto::status::Code::SignatureSelfCheckFailed`].
pub(crate) fn prove(component: &Component) -> Result<(), Fault> {
    for hash in HashAlgorithm::ALL {
        component.sign(&Hasher::digest(hash, TEST_CONTENT))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use sealwright_crypto::algorithm::KeyAlgorithm;

    #[test]
    fn every_algorithm_that_keys_are_made_with_is_tested() {
        run().unwrap();
        let sizes: Vec<_> = RSA_TEST_KEYS
            .iter()
            .map(|(key, _)| {
                let numbers = public_numbers(&Secret::new(key.to_vec()).unwrap()).unwrap();
                PublicHalf::new(KeyVersion::V4, 0, &numbers).unwrap().algorithm()
            })
            .chain([KeyAlgorithm::Ed25519])
            .collect();
        assert_eq!(sizes, KeyAlgorithm::CREATABLE);
        let hashes: Vec<_> = RSA_TEST_KEYS.iter().map(|(_, hash)| *hash).collect();
        assert_eq!(hashes, HashAlgorithm::ALL);
    }

    #[test]
    fn a_test_key_that_does_not_work_stops_the_signer() {
        let mut broken = RSA_TEST_KEYS[0].0.to_vec();
        broken[600] ^= 1;
        let error = test("rsa", &Secret::new(broken).unwrap(), HashAlgorithm::Sha256).unwrap_err();
        assert!(matches!(error, Error::SelfTest { .. }));
    }
}
