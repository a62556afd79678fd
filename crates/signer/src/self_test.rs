//! Before anything is served: every algorithm signs and verifies on this very processor, with embedded test keys. A
//! library that was right elsewhere was not right everywhere (CVE-2022-2274: OpenSSL 3.0.4 corrupted memory in RSA on
//! processors with AVX-512).

use std::sync::Arc;

use sealwright_crypto::algorithm::HashAlgorithm;
use sealwright_crypto::digest::Hasher;
use sealwright_proto::status::Fault;

use crate::backend::Backend as _;
use crate::backend::software::{Software, public_numbers};
use crate::error::Error;
use crate::opened::Component;
use crate::public::PublicHalf;
use crate::seal::StoredComponent;
use crate::secret::Secret;

/// Keys that sign nothing but the test; `openssl genpkey` made them. RFC 8032 section 7.1, test 1 is the last.
const RSA_TEST_KEYS: &[&[u8]] = &[
    include_bytes!("testkeys/rsa2048.der"),
    include_bytes!("testkeys/rsa3072.der"),
    include_bytes!("testkeys/rsa4096.der"),
];
const ED25519_TEST_SEED: [u8; 32] = [
    0x9d, 0x61, 0xb1, 0x9d, 0xef, 0xfd, 0x5a, 0x60, 0xba, 0x84, 0x4a, 0xf4, 0x92, 0xec, 0x2c, 0xc4, 0x44,
    0x49, 0xc5, 0x69, 0x7b, 0x32, 0x69, 0x19, 0x70, 0x3b, 0xac, 0x03, 0x1c, 0xae, 0x7f, 0x60,
];

/// # Errors
/// [`Error::SelfTest`], naming the algorithm.
pub(crate) fn run() -> Result<(), Error> {
    for key in RSA_TEST_KEYS {
        test("rsa", &Secret::new(key.to_vec()))?;
    }
    test("ed25519", &Secret::new(ED25519_TEST_SEED.to_vec()))
}

fn test(family: &str, secret: &Secret) -> Result<(), Error> {
    let failed = |algorithm: &str, reason| Error::SelfTest { algorithm: algorithm.to_owned(), reason };
    let numbers = public_numbers(secret).map_err(|error| failed(family, error.0))?;
    let public = PublicHalf::new(0, &numbers).map_err(|_| failed(family, "the test key is not readable"))?;
    let algorithm = public.algorithm().to_string();
    let stored =
        StoredComponent { backend: Software.number(), public: Arc::new(public), secret: secret.clone() };
    let component = Component::open(&stored).map_err(|_| failed(&algorithm, "the test key does not open"))?;
    prove(&component).map_err(|_| failed(&algorithm, "a signature does not verify"))
}

/// Signs once with every hash; each signature verifies, or this fails.
///
/// # Errors
/// [`sealwright_proto::status::Code::SignatureSelfCheckFailed`].
pub(crate) fn prove(component: &Component) -> Result<(), Fault> {
    for hash in HashAlgorithm::ALL {
        component.sign(&Hasher::digest(hash, b"sealwright self-test"))?;
    }
    Ok(())
}
