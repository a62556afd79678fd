//! RSA signatures over digests of SHA-1, which aws-lc-rs verifies and does not make: the same library's own operation, called
//! directly (docs/adr/0021). With [`crate::memory`] the only file of this crate with `unsafe` code.

use std::ptr::NonNull;

use aws_lc_sys::{
    CBS, CBS_init, EVP_PKEY, EVP_PKEY_free, EVP_PKEY_get0_RSA, EVP_parse_private_key, NID_sha1, RSA_sign,
};

/// PKCS#1 v1.5 with the digest as it is, as long as the modulus. The key is read anew each time: that is slower, and nothing has
/// to be shared between threads. `None` if it is no RSA key of this modulus, or was not signed.
pub(super) fn sign(pkcs8: &[u8], digest: &[u8; 20], modulus_len: usize) -> Option<Vec<u8>> {
    let key = Key::parse(pkcs8)?;
    let mut raw = vec![0; modulus_len];
    let len = key.sign(digest, &mut raw)?;
    (len == modulus_len).then_some(raw)
}

/// Freed, and by that zeroed, when it is dropped.
struct Key(NonNull<EVP_PKEY>);

impl Key {
    /// Exactly one key (RFC 5958).
    fn parse(pkcs8: &[u8]) -> Option<Self> {
        let mut rest = CBS { data: std::ptr::null(), len: 0 };
        #[expect(unsafe_code, reason = "aws-lc-rs has no SHA-1 signatures")]
        // SAFETY: `rest` points into `pkcs8`, which outlives it, and the parser reads within its length; what it returns is
        // null or a key that is ours alone.
        let key = unsafe {
            CBS_init(&raw mut rest, pkcs8.as_ptr(), pkcs8.len());
            EVP_parse_private_key(&raw mut rest)
        };
        let key = NonNull::new(key).map(Self)?;
        (rest.len == 0).then_some(key)
    }

    /// Bytes written.
    fn sign(&self, digest: &[u8; 20], raw: &mut [u8]) -> Option<usize> {
        let mut len = 0;
        #[expect(unsafe_code, reason = "as above")]
        // SAFETY: the key lives; its RSA key is borrowed from it. `RSA_sign` writes `RSA_size` bytes at most, which is checked
        // to be what `raw` has before.
        let signed = unsafe {
            let rsa = EVP_PKEY_get0_RSA(self.0.as_ptr());
            if rsa.is_null() || usize::try_from(aws_lc_sys::RSA_size(rsa)).ok()? != raw.len() {
                return None;
            }
            RSA_sign(NID_sha1, digest.as_ptr(), digest.len(), raw.as_mut_ptr(), &raw mut len, rsa)
        };
        if signed == 1 { usize::try_from(len).ok() } else { None }
    }
}

impl Drop for Key {
    fn drop(&mut self) {
        #[expect(unsafe_code, reason = "as above")]
        // SAFETY: it was given to us, is not shared, and is not used afterwards.
        unsafe {
            EVP_PKEY_free(self.0.as_ptr());
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RSA: &[u8] = include_bytes!("../testkeys/rsa2048.der");

    #[test]
    fn what_is_no_key_of_this_modulus_signs_nothing() {
        assert_eq!(sign(RSA, &[7; 20], 256).unwrap().len(), 256);
        for wrong in [0, 255, 257, 384] {
            assert!(sign(RSA, &[7; 20], wrong).is_none(), "{wrong}");
        }
        for len in [0, 1, 100, RSA.len() - 1] {
            assert!(sign(&RSA[..len], &[7; 20], 256).is_none(), "{len}");
        }
        assert!(sign(&[RSA, &[0]].concat(), &[7; 20], 256).is_none());
    }
}
