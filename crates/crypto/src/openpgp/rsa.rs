//! Checking RSA signatures with aws-lc: the public-key operation, a tenth of the time that rPGP's takes. What a client
//! checks after each signature is most of its work beside hashing (docs/benchmarks.md, `mixed`).

use aws_lc_rs::digest::{self, Digest};
use aws_lc_rs::rsa::PublicKeyComponents;
use aws_lc_rs::signature::{
    ParsedPublicKey, RSA_PKCS1_2048_8192_SHA256, RSA_PKCS1_2048_8192_SHA384, RSA_PKCS1_2048_8192_SHA512,
    RsaParameters,
};
use pgp::types::SignatureBytes;

use crate::algorithm::HashAlgorithm;

/// Moduli that aws-lc checks with, in bytes. Others are left to rPGP.
const MODULUS_BYTES: core::ops::RangeInclusive<usize> = 256..=1024;
/// Longest exponent that is taken, in bytes: aws-lc refuses those beyond 33 bits.
const EXPONENT_BYTES_MAX: usize = 4;

/// A public key, decoded once for each hash.
#[derive(Clone, Debug)]
pub(crate) struct RsaVerifier {
    modulus_bytes: usize,
    keys: [ParsedPublicKey; 3],
}

impl RsaVerifier {
    /// From the two numbers of an OpenPGP key (RFC 9580 section 5.5.5.1); `None` if aws-lc does not take them.
    pub(crate) fn new(encoded: &[u8]) -> Option<Self> {
        let (n, rest) = split_mpi(encoded)?;
        let (e, _) = split_mpi(rest)?;
        if !MODULUS_BYTES.contains(&n.len()) || e.len() > EXPONENT_BYTES_MAX {
            return None;
        }
        let key = |parameters: &'static RsaParameters| {
            PublicKeyComponents { n, e }.to_parsed_public_key(parameters).ok()
        };
        let keys = [
            key(&RSA_PKCS1_2048_8192_SHA256)?,
            key(&RSA_PKCS1_2048_8192_SHA384)?,
            key(&RSA_PKCS1_2048_8192_SHA512)?,
        ];
        Some(Self { modulus_bytes: n.len(), keys })
    }

    /// Whether `value` is this key's signature over `digest`; `None` if that is for others to say.
    pub(crate) fn verify(&self, hash: HashAlgorithm, digest: &[u8], value: &SignatureBytes) -> Option<bool> {
        let SignatureBytes::Mpis(numbers) = value else { return None };
        let [number] = numbers.as_slice() else { return None };
        let padded = self.padded(number.as_ref())?;
        let [sha256, sha384, sha512] = &self.keys;
        let (key, algorithm) = match hash {
            HashAlgorithm::Sha256 => (sha256, &digest::SHA256),
            HashAlgorithm::Sha384 => (sha384, &digest::SHA384),
            HashAlgorithm::Sha512 => (sha512, &digest::SHA512),
        };
        let digest = Digest::import_less_safe(digest, algorithm).ok()?;
        Some(key.verify_digest_sig(&digest, &padded).is_ok())
    }

    /// A number has no leading zeros in OpenPGP, and as many bytes as the modulus in PKCS#1.
    pub(crate) fn padded(&self, number: &[u8]) -> Option<Vec<u8>> {
        let zeros = self.modulus_bytes.checked_sub(number.len())?;
        let mut padded = vec![0; zeros];
        padded.extend_from_slice(number);
        Some(padded)
    }
}

/// A number at the head of `bytes`: its length in bits, then itself (RFC 9580 section 3.2).
pub(crate) fn split_mpi(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (bits, rest) = bytes.split_first_chunk::<2>()?;
    rest.split_at_checked(usize::from(u16::from_be_bytes(*bits)).div_ceil(8))
}

#[cfg(test)]
mod tests {
    use pgp::types::Mpi;

    use super::*;
    use crate::openpgp::certificate::Certificate;

    /// The public half of a test key, and whether rPGP finds this value good over this digest.
    fn both_say(value: &[u8], digest: &[u8]) -> (Option<bool>, bool) {
        use pgp::crypto::hash::HashAlgorithm as PgpHash;
        use pgp::ser::Serialize as _;
        use pgp::types::{KeyDetails as _, VerifyingKey as _};
        let armored = include_bytes!("../../../../fixtures/pgp-key/gen_rsa4096.pub.asc");
        let certificate = Certificate::parse(armored).unwrap();
        let component = certificate.components().first().unwrap();
        let crate::openpgp::component::Key::Primary(key) = &component.key else { panic!("the primary key") };
        let verifier = RsaVerifier::new(&key.public_params().to_bytes().unwrap()).unwrap();
        let value = SignatureBytes::Mpis(vec![Mpi::from_slice(value)]);
        let theirs = key.verify(PgpHash::Sha256, digest, &value).is_ok();
        (verifier.verify(HashAlgorithm::Sha256, digest, &value), theirs)
    }

    #[test]
    fn what_rpgp_refuses_aws_lc_refuses_too() {
        let digest = [5; 32];
        for value in [&[0x7f; 512][..], &[1; 511], &[9], &[0xff; 512]] {
            assert_eq!(both_say(value, &digest), (Some(false), false), "{} bytes", value.len());
        }
        // Longer than the modulus: left to rPGP.
        assert_eq!(both_say(&[0x7f; 513], &digest), (None, false));
    }

    #[test]
    fn numbers_that_are_cut_or_odd_make_no_verifier() {
        assert!(RsaVerifier::new(&[]).is_none());
        assert!(RsaVerifier::new(&[8, 0, 1, 2, 3]).is_none());
        let short: Vec<u8> = [&[4, 0][..], &[0xff; 128], &[0, 17, 1, 0, 1]].concat();
        assert!(RsaVerifier::new(&short).is_none(), "1024 bits");
        let long_exponent: Vec<u8> = [&[8, 0][..], &[0xff; 256], &[0, 40, 0xff, 0, 1, 0, 1]].concat();
        assert!(RsaVerifier::new(&long_exponent).is_none());
    }
}
