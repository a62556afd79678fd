//! A key as rPGP takes it for checking a self-signature, with RSA done by aws-lc: whoever parses a certificate for one
//! signature waits for little else.

use pgp::crypto::hash::HashAlgorithm as PgpHash;
use pgp::crypto::public_key::PublicKeyAlgorithm;
use pgp::ser::Serialize;
use pgp::types::{
    Fingerprint, KeyDetails, KeyId, KeyVersion, PublicParams, SignatureBytes, Timestamp, VerifyingKey,
};

use crate::algorithm::HashAlgorithm;
use crate::openpgp::rsa::RsaVerifier;

/// rPGP's key, and ours of the same numbers if it is an RSA key that aws-lc takes.
#[derive(Debug)]
pub(super) struct Checked<'a, K> {
    pub(super) key: &'a K,
    pub(super) rsa: Option<&'a RsaVerifier>,
}

impl<K: VerifyingKey> VerifyingKey for Checked<'_, K> {
    /// What aws-lc does not find good is rPGP's to refuse, in its own words.
    fn verify(&self, hash: PgpHash, digest: &[u8], value: &SignatureBytes) -> pgp::errors::Result<()> {
        let ours = HashAlgorithm::from_openpgp_id(u8::from(hash)).ok();
        let good = self.rsa.zip(ours).and_then(|(rsa, ours)| rsa.verify(ours, digest, value));
        if good == Some(true) { Ok(()) } else { self.key.verify(hash, digest, value) }
    }
}

impl<K: Serialize> Serialize for Checked<'_, K> {
    fn to_writer<W: std::io::Write>(&self, writer: &mut W) -> pgp::errors::Result<()> {
        self.key.to_writer(writer)
    }

    fn write_len(&self) -> usize {
        self.key.write_len()
    }
}

impl<K: KeyDetails> KeyDetails for Checked<'_, K> {
    fn version(&self) -> KeyVersion {
        self.key.version()
    }

    fn legacy_key_id(&self) -> KeyId {
        self.key.legacy_key_id()
    }

    fn fingerprint(&self) -> Fingerprint {
        self.key.fingerprint()
    }

    fn algorithm(&self) -> PublicKeyAlgorithm {
        self.key.algorithm()
    }

    fn created_at(&self) -> Timestamp {
        self.key.created_at()
    }

    fn legacy_v3_expiration_days(&self) -> Option<u16> {
        self.key.legacy_v3_expiration_days()
    }

    fn public_params(&self) -> &PublicParams {
        self.key.public_params()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::digest::Hasher;
    use crate::openpgp::certificate::Certificate;
    use crate::openpgp::component::Key;
    use crate::openpgp::framing::{RawPacket, split_first, tag};
    use crate::openpgp::packet::SignaturePacket;

    /// The packet with this tag that comes first.
    fn packet(bytes: &[u8], tag: u8) -> RawPacket<'_> {
        let (packet, rest) = split_first("certificate", bytes).unwrap();
        if packet.tag == tag { packet } else { self::packet(rest, tag) }
    }

    #[test]
    fn a_self_signature_by_rsa_is_checked_by_aws_lc_and_a_bad_one_is_refused() {
        let read = |text: &[u8]| Certificate::parse(text).unwrap();
        let signer = read(include_bytes!("../../../../../fixtures/pgp-key/gen_rsa4096.pub.asc"));
        let other = read(include_bytes!("../../../../../fixtures/pgp-key/gen_ed25519.pub.asc"));
        let all = signer.to_binary();
        let (key, id) = (packet(&all, tag::PUBLIC_KEY).body, packet(&all, tag::USER_ID).body);
        let signature = SignaturePacket::parse(packet(&all, tag::SIGNATURE).whole).unwrap();
        let hash = signature.hash().unwrap();
        let mut hasher = Hasher::new(hash);
        for part in [
            &[0x99][..],
            &u16::try_from(key.len()).unwrap().to_be_bytes(),
            key,
            &[0xb4],
            &u32::try_from(id.len()).unwrap().to_be_bytes(),
            id,
            &signature.trailer(),
        ] {
            hasher.update(part);
        }
        let digest = hasher.finish();
        // rPGP would ask a key of another algorithm.
        let Key::Primary(wrong) = &other.components().first().unwrap().key else { panic!("the primary key") };
        let checked = Checked { key: wrong, rsa: signer.components().first().unwrap().rsa.as_ref() };
        let (hash, value) = (PgpHash::from(hash.openpgp_id()), signature.signature_bytes());
        checked.verify(hash, digest.as_bytes(), &value).unwrap();
        let mut changed = digest.as_bytes().to_vec();
        *changed.first_mut().unwrap() ^= 1;
        assert!(checked.verify(hash, &changed, &value).is_err());
        assert!(Checked { key: wrong, rsa: None }.verify(hash, digest.as_bytes(), &value).is_err());
    }
}
