//! More time for a key that is held elsewhere: what its newest self-signature says, with another time and end, for the
//! holder to sign (RFC 9580 sections 5.2.3.13 and 5.2.4). The new self-signature takes the place of the old one.
//!
//! ```text
//! certificate --new--> digest --the holder's key--> numbers --finish--> certificate, checked
//! ```

use crate::algorithm::HashAlgorithm;
use crate::digest::{Digest, Hasher};
use crate::error::Error;
use crate::openpgp::certificate::Certificate;
use crate::openpgp::fingerprint::Fingerprint;
use crate::openpgp::framing::{self, RawPacket, tag, write_packet};
use crate::openpgp::packet::SignaturePacket;
use crate::openpgp::packet::subpacket::{each, kind};
use crate::openpgp::signature::push_subpacket;

const WHAT: &str = "certificate";

/// Certifications of a user id (RFC 9580 section 5.2.1).
const CERTIFICATIONS: core::ops::RangeInclusive<u8> = 0x10..=0x13;

/// A certificate whose new self-signature lacks only its value.
#[derive(Clone, Debug)]
pub struct Extension {
    /// Packets in front of the self-signature, and behind it.
    before: Vec<u8>,
    after: Vec<u8>,
    /// Head and hashed area.
    hashed: Vec<u8>,
    digest: Digest,
    fingerprint: Fingerprint,
    expires: u32,
}

impl Extension {
    /// The newest self-signature of the first user id, made anew at `now` for a key that ends at `expires`; both in Unix seconds.
    /// Its hash is SHA-512 if the old one's is, else SHA-256.
    ///
    /// # Errors
    /// [`Error::Malformed`] if the key is not of version 4, has no such self-signature, has no end, or began after `now`.
    pub fn new(certificate: &Certificate, now: u32, expires: u32) -> Result<Self, Error> {
        let fingerprint = certificate.fingerprint();
        if fingerprint.key_version() != 4 {
            return Err(Error::malformed(WHAT, "its key is not of version 4"));
        }
        let lasts = expires.checked_sub(certificate.created()).filter(|seconds| *seconds > 0);
        let lasts = lasts.filter(|_| now >= certificate.created());
        let lasts = lasts.ok_or_else(|| Error::malformed(WHAT, "its key was created in the future"))?;
        let bytes = certificate.to_binary();
        let found = Found::in_packets(&bytes, fingerprint)?;
        let hash = match found.signature.hash() {
            Some(HashAlgorithm::Sha512) => HashAlgorithm::Sha512,
            Some(_) | None => HashAlgorithm::Sha256,
        };
        let mut hashed =
            vec![4, found.signature.signature_type(), found.signature.key_algorithm_id(), hash.openpgp_id()];
        let area = area(&found.packet, now, lasts)?;
        let len = u16::try_from(area.len())
            .map_err(|_| Error::malformed(WHAT, "its self-signature is too long"))?;
        hashed.extend(len.to_be_bytes());
        hashed.extend(area);
        let (key_len, user_len) = (short(found.key.len())?, long(found.user.len()));
        let mut hasher = Hasher::new(hash);
        for part in [&[0x99][..], &key_len, found.key, &[0xb4], &user_len, found.user, &hashed, &[4, 0xff]] {
            hasher.update(part);
        }
        hasher.update(&long(hashed.len()));
        let digest = hasher.finish();
        let (before, after) = (found.before.to_vec(), found.after.to_vec());
        Ok(Self { before, after, hashed, digest, fingerprint, expires })
    }

    /// What the key signs.
    #[must_use]
    pub const fn digest(&self) -> Digest {
        self.digest
    }

    /// The certificate with its new end. `numbers` is the value as OpenPGP writes it: for RSA one number with its length.
    ///
    /// # Errors
    /// [`Error::Malformed`] if the key did not make this value over [`Self::digest`].
    pub fn finish(self, numbers: &[u8]) -> Result<Certificate, Error> {
        let mut unhashed = Vec::new();
        push_subpacket(&mut unhashed, kind::ISSUER_KEY_ID, &[&self.fingerprint.key_id()])?;
        let mut body = self.hashed;
        body.extend(short(unhashed.len())?);
        body.extend(unhashed);
        body.extend(self.digest.as_bytes().iter().take(2));
        body.extend_from_slice(numbers);
        let packet = write_packet(tag::SIGNATURE, &body);
        let value = SignaturePacket::parse(&packet)?.signature_bytes();
        let certificate = Certificate::parse(&[self.before, packet, self.after].concat())?;
        let primary = certificate.find(&self.fingerprint).filter(|primary| primary.is_primary());
        let (hash, digest) = (self.digest.hash(), self.digest.as_bytes());
        let is_made = primary.is_some_and(|primary| primary.verify_digest(hash, digest, &value));
        if !is_made {
            return Err(Error::malformed(WHAT, "its key did not make the new self-signature"));
        }
        // Another one can say more than the first user id's.
        if certificate.expires() != Some(i64::from(self.expires)) {
            return Err(Error::malformed(WHAT, "its end is not that of its first user id"));
        }
        Ok(certificate)
    }
}

/// The self-signature that is made anew, and where it is.
struct Found<'a> {
    key: &'a [u8],
    user: &'a [u8],
    packet: RawPacket<'a>,
    signature: SignaturePacket,
    before: &'a [u8],
    after: &'a [u8],
}

impl<'a> Found<'a> {
    fn in_packets(bytes: &'a [u8], own: Fingerprint) -> Result<Self, Error> {
        let (key, mut rest) = framing::split_first(WHAT, bytes)?;
        let mut user = None;
        let mut newest: Option<Self> = None;
        while !rest.is_empty() {
            let at = bytes.len().saturating_sub(rest.len());
            let (packet, after) = framing::split_first(WHAT, rest)?;
            rest = after;
            match (packet.tag, user) {
                (tag::USER_ID, None) => user = Some(packet.body),
                (tag::SIGNATURE, Some(user)) => {
                    let Ok(signature) = SignaturePacket::parse(packet.whole) else { continue };
                    let is_own = signature.issuer_key_id() == Some(own.key_id())
                        && CERTIFICATIONS.contains(&signature.signature_type())
                        && signature.version() == 4;
                    let is_newer = |old: &Self| old.signature.created() < signature.created();
                    if is_own && newest.as_ref().is_none_or(is_newer) {
                        let before = bytes.get(..at).unwrap_or_default();
                        newest = Some(Self { key: key.body, user, packet, signature, before, after });
                    }
                }
                (_, None) => {}
                (_, Some(_)) => break,
            }
        }
        newest.ok_or_else(|| Error::malformed(WHAT, "its first user id has no self-signature"))
    }
}

/// The hashed area of the old self-signature, with this time and life in the place of its own.
fn area(old: &RawPacket<'_>, now: u32, lasts: u32) -> Result<Vec<u8>, Error> {
    let mut reader = framing::Reader(old.body);
    let area = reader.take(4).and_then(|_| reader.u16()).and_then(|len| reader.take(usize::from(len)));
    let mut out = Vec::new();
    push_subpacket(&mut out, kind::CREATED, &[&now.to_be_bytes()])?;
    push_subpacket(&mut out, kind::KEY_EXPIRES, &[&lasts.to_be_bytes()])?;
    let mut ends = false;
    each(area.ok_or_else(|| Error::malformed(WHAT, "its self-signature is truncated"))?, |subpacket| {
        match subpacket.kind {
            kind::KEY_EXPIRES => ends = true,
            kind::CREATED | kind::EXPIRES => {}
            _ => out.extend_from_slice(subpacket.whole),
        }
        Ok(())
    })?;
    if ends { Ok(out) } else { Err(Error::malformed(WHAT, "its self-signature does not expire")) }
}

fn short(len: usize) -> Result<[u8; 2], Error> {
    u16::try_from(len).map(u16::to_be_bytes).map_err(|_| Error::malformed(WHAT, "a part of it is too long"))
}

fn long(len: usize) -> [u8; 4] {
    u32::try_from(len).unwrap_or(u32::MAX).to_be_bytes()
}

#[cfg(test)]
mod tests {
    use pgp::composed::{Deserializable as _, SignedSecretKey};
    use pgp::crypto::hash::HashAlgorithm as PgpHash;
    use pgp::packet::{KeyFlags, SignatureConfig, SignatureType, Subpacket, SubpacketData};
    use pgp::ser::Serialize as _;
    use pgp::types::{Duration, KeyDetails as _, Password, SignatureBytes, SigningKey as _, Tag, Timestamp};

    use super::*;

    const SECRET: &[u8] = include_bytes!("../../../../fixtures/obs/keys/rsa2048.sec.asc");
    const PUBLIC: &[u8] = include_bytes!("../../../../fixtures/obs/keys/rsa2048.pub.asc");
    const DAY: u32 = 86_400;

    fn secret() -> SignedSecretKey {
        SignedSecretKey::from_armor_single(SECRET).unwrap().0
    }

    /// Its certificate with an end, ten days after its beginning.
    fn ending() -> Certificate {
        let key = secret();
        let mut flags = KeyFlags::default();
        flags.set_sign(true);
        let created = Timestamp::from_secs(key.primary_key.created_at().as_secs());
        let said = [
            SubpacketData::SignatureCreationTime(created),
            SubpacketData::KeyFlags(flags),
            SubpacketData::KeyExpirationTime(Duration::from_secs(10 * DAY)),
            SubpacketData::IssuerFingerprint(key.primary_key.fingerprint()),
        ];
        let mut config =
            SignatureConfig::v4(SignatureType::CertPositive, key.primary_key.algorithm(), PgpHash::Sha256);
        config.hashed_subpackets = said.into_iter().map(|data| Subpacket::regular(data).unwrap()).collect();
        let public = key.primary_key.public_key();
        let user = &key.details.users[0].id;
        let signature = config
            .sign_certification(&key.primary_key, &public, &Password::empty(), Tag::UserId, user)
            .unwrap();
        let parts = [
            (tag::PUBLIC_KEY, public.to_bytes().unwrap()),
            (tag::USER_ID, user.to_bytes().unwrap()),
            (tag::SIGNATURE, signature.to_bytes().unwrap()),
        ];
        let packets: Vec<u8> = parts.iter().flat_map(|(tag, body)| write_packet(*tag, body)).collect();
        Certificate::parse(&packets).unwrap()
    }

    /// As the holder answers.
    fn numbers(digest: &Digest) -> Vec<u8> {
        let key = secret();
        let value = key.primary_key.sign(
            &Password::empty(),
            PgpHash::from(digest.hash().openpgp_id()),
            digest.as_bytes(),
        );
        let SignatureBytes::Mpis(mpis) = value.unwrap() else { panic!("RSA has numbers") };
        mpis.iter()
            .flat_map(|mpi| {
                let bytes = mpi.as_ref();
                let zeros = usize::try_from(bytes[0].leading_zeros()).unwrap();
                let bits = u16::try_from(bytes.len().saturating_mul(8).saturating_sub(zeros)).unwrap();
                [&bits.to_be_bytes()[..], bytes].concat()
            })
            .collect()
    }

    #[test]
    fn the_new_self_signature_takes_the_place_of_the_old_one_and_says_the_rest_of_it() {
        let old = ending();
        let now = old.created() + DAY;
        let extension = Extension::new(&old, now, now + 800 * DAY).unwrap();
        let value = numbers(&extension.digest());
        let new = extension.finish(&value).unwrap();
        assert_eq!(new.expires(), Some(i64::from(now + 800 * DAY)));
        assert_eq!((new.fingerprint(), new.user_ids()), (old.fingerprint(), old.user_ids()));
        let (is_new, was_old) = (&new.components()[0], &old.components()[0]);
        assert_eq!((is_new.can_sign(), is_new.binding_problem()), (was_old.can_sign(), None));
        // Five more bytes of a header in the new format at most, and no second signature.
        assert!(new.to_binary().len() <= old.to_binary().len() + 48, "it has more packets");
    }

    #[test]
    fn a_value_that_the_key_did_not_make_gives_no_certificate() {
        let old = ending();
        let now = old.created() + DAY;
        let extension = Extension::new(&old, now, now + DAY).unwrap();
        let other = numbers(&Hasher::digest(HashAlgorithm::Sha256, b"other"));
        for value in [&other[..], &[], &[0, 1, 1], &[0xff; 300]] {
            assert!(extension.clone().finish(value).is_err(), "{} bytes", value.len());
        }
    }

    #[test]
    fn an_end_before_the_beginning_and_a_key_without_an_end_are_refused() {
        let old = ending();
        assert!(Extension::new(&old, old.created() + 1, old.created()).is_err());
        assert!(Extension::new(&old, old.created() - 1, old.created() + DAY).is_err());
        let endless =
            Certificate::parse(include_bytes!("../../../../fixtures/pgp-key/gen_rsa4096.pub.asc")).unwrap();
        assert_eq!(endless.expires(), None, "the fixture has no end");
        assert!(Extension::new(&endless, endless.created() + 1, endless.created() + DAY).is_err());
    }

    #[test]
    fn pkcs1_has_as_many_bytes_as_the_modulus_and_is_of_this_key_and_digest_alone() {
        let certificate = Certificate::parse(PUBLIC).unwrap();
        let component = &certificate.components()[0];
        let digest = Hasher::digest(HashAlgorithm::Sha256, b"content");
        let value = numbers(&digest);
        assert_eq!(component.pkcs1_signature(&digest, &value).unwrap().len(), 256);
        let other = Hasher::digest(HashAlgorithm::Sha256, b"other");
        assert_eq!(component.pkcs1_signature(&other, &value), None);
        assert_eq!(component.pkcs1_signature(&digest, &[&value[..], &[0]].concat()), None);
        assert_eq!(component.pkcs1_signature(&digest, value.get(..9).unwrap()), None);
        // SEQUENCE of 266 bytes, then an INTEGER of 257.
        assert!(component.rsa_public_key().unwrap().starts_with(&[0x30, 0x82, 1, 10, 2, 0x82, 1, 1, 0]));
    }
}
