//! Version 4 signatures from a server that answers with version 3 packets: the client writes and hashes the hashed part itself,
//! and puts the server's numbers behind it.
//!
//! ```text
//! digest      document, hashed part, 04 ff len(4)                                 RFC 9580 section 5.2.4
//! hashed part 04 class key-algorithm hash 00 1d  16 21 04 fingerprint(20)  05 02 time(4)     35 bytes
//!             04 class key-algorithm hash 00 06  05 02 time(4)                               12, fingerprint not known
//! signature   hashed part, 00 0a 09 10 key-id(8), left(2), numbers                old packet header
//! ```

use crate::digest::{Class, DigestArgument, Hash};
use crate::error::Error;
use crate::packet::{Fingerprint, KeyAlgorithm, SignaturePacket, key_id, push_key_id, write_packet};

/// What a client says in a signature. Algorithm and fingerprint come from the public key, or from a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HashedPart {
    /// Binary or text.
    pub class: Class,
    /// Of the key.
    pub algorithm: KeyAlgorithm,
    /// That the document is hashed with.
    pub hash: Hash,
    /// Unix seconds.
    pub created: u32,
    /// Of the key, where known.
    pub fingerprint: Option<Fingerprint>,
}

impl HashedPart {
    /// To be hashed after the document: the hashed part and its length.
    #[must_use]
    pub fn trailer(&self) -> Vec<u8> {
        let mut out = self.bytes();
        let len = u32::try_from(out.len()).unwrap_or(u32::MAX);
        out.extend([4, 0xff]);
        out.extend(len.to_be_bytes());
        out
    }

    /// The argument that asks for the signature. `digest` is of the document and [`Self::trailer`].
    ///
    /// # Errors
    /// [`Error::Request`] if it has not the length of its hash.
    pub fn argument(&self, digest: &[u8]) -> Result<DigestArgument, Error> {
        Ok(DigestArgument::new(self.hash, digest, self.class, self.created)?)
    }

    /// The version 4 signature: the result of the server, put behind what was hashed. It is not verified here, and
    /// must be before it goes into a file.
    ///
    /// # Errors
    /// [`Error::OtherThanAsked`] if the server signed with another key or algorithm, or another digest; the errors of
    /// [`SignaturePacket::parse`].
    pub fn transplant(&self, digest: &[u8], result: &[u8]) -> Result<Vec<u8>, Error> {
        let packet = self.parse(digest, result)?;
        let mut body = self.bytes();
        push_key_id(&mut body, packet.issuer);
        body.extend(packet.left);
        body.extend(packet.numbers);
        write_packet(&body)
    }

    /// The numbers alone, for what is no signature of OpenPGP over data: nothing of this part was hashed then.
    ///
    /// # Errors
    /// As [`Self::transplant`].
    pub fn numbers(&self, digest: &[u8], result: &[u8]) -> Result<Vec<u8>, Error> {
        self.parse(digest, result).map(|packet| packet.numbers)
    }

    fn parse(&self, digest: &[u8], result: &[u8]) -> Result<SignaturePacket, Error> {
        let packet = SignaturePacket::parse(result)?;
        self.check(digest, &packet)?;
        Ok(packet)
    }

    fn check(&self, digest: &[u8], packet: &SignaturePacket) -> Result<(), Error> {
        let other = |what| Err(Error::OtherThanAsked { what });
        if packet.algorithm != self.algorithm {
            return other("key algorithm");
        }
        if packet.hash != self.hash {
            return other("hash algorithm");
        }
        if self.fingerprint.is_some_and(|fingerprint| key_id(&fingerprint) != packet.issuer) {
            return other("issuer");
        }
        if digest.len() != self.hash.digest_len() || !digest.starts_with(&packet.left) {
            return other("digest");
        }
        // A version 4 packet says what its server hashed, which is not what we hashed; only its numbers are of use.
        if packet.version == 3 && packet.class != self.class.number() {
            return other("class");
        }
        if packet.version == 3 && packet.created != Some(self.created) {
            return other("time");
        }
        Ok(())
    }

    fn bytes(&self) -> Vec<u8> {
        let mut out = vec![4, self.class.number(), self.algorithm.openpgp_id(), self.hash.openpgp_id(), 0];
        match &self.fingerprint {
            Some(fingerprint) => {
                out.extend([29, 22, 33, 4]);
                out.extend(fingerprint);
            }
            None => out.push(6),
        }
        out.extend([5, 2]);
        out.extend(self.created.to_be_bytes());
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::{Value, probe_answer, version_3};

    const PART: HashedPart = HashedPart {
        class: Class::Text,
        algorithm: KeyAlgorithm::Rsa,
        hash: Hash::Sha256,
        created: 7,
        fingerprint: Some([9; 20]),
    };

    fn result(part: &HashedPart, key_id: [u8; 8]) -> Vec<u8> {
        version_3(&part.argument(&[0xab; 32]).unwrap(), key_id, &Value::Rsa(&[5])).unwrap()
    }

    #[test]
    fn the_trailer_has_35_bytes_with_a_fingerprint_and_12_without() {
        let head = [&[4, 1, 1, 8, 0, 29, 22, 33, 4][..], &[9; 20], &[5, 2, 0, 0, 0, 7]].concat();
        assert_eq!(PART.trailer(), [&head[..], &[4, 0xff, 0, 0, 0, 35]].concat());
        let unknown = HashedPart { fingerprint: None, ..PART };
        assert_eq!(unknown.trailer(), [4, 1, 1, 8, 0, 6, 5, 2, 0, 0, 0, 7, 4, 0xff, 0, 0, 0, 12]);
    }

    #[test]
    fn numbers_of_a_version_3_packet_go_behind_what_was_hashed() {
        for part in [PART, HashedPart { fingerprint: None, ..PART }] {
            let signature = part.transplant(&[0xab; 32], &result(&part, [9; 8])).unwrap();
            let tail = [&[0, 10, 9, 16][..], &[9; 8], &[0xab, 0xab, 0, 3, 5]].concat();
            assert_eq!(signature[2..], [part.bytes(), tail].concat());
            let read = SignaturePacket::parse(&signature).unwrap();
            assert_eq!((read.issuer, read.fingerprint), ([9; 8], part.fingerprint));
            // What came out goes in again: a version 4 answer is accepted too.
            assert_eq!(part.transplant(&[0xab; 32], &signature).unwrap(), signature);
        }
    }

    #[test]
    fn a_signature_of_something_else_is_refused_by_what_differs() {
        let other = |part: HashedPart, id: [u8; 8]| match PART.transplant(&[0xab; 32], &result(&part, id)) {
            Err(Error::OtherThanAsked { what }) => what,
            other => panic!("{other:?}"),
        };
        assert_eq!(other(PART, [8; 8]), "issuer");
        assert_eq!(other(HashedPart { class: Class::Binary, ..PART }, [9; 8]), "class");
        assert_eq!(other(HashedPart { created: 8, ..PART }, [9; 8]), "time");
        let good = result(&PART, [9; 8]);
        for (digest, part, what) in [
            (&[0xac; 32][..], PART, "digest"),
            (&[0xab; 31], PART, "digest"),
            (&[0xab; 64], HashedPart { hash: Hash::Sha512, ..PART }, "hash algorithm"),
            (&[0xab; 32], HashedPart { algorithm: KeyAlgorithm::Ecdsa, ..PART }, "key algorithm"),
        ] {
            assert_eq!(part.transplant(digest, &good), Err(Error::OtherThanAsked { what }));
        }
    }

    #[test]
    fn an_answer_to_a_probe_is_no_signature_of_a_document() {
        let probe = probe_answer(&DigestArgument::probe(Hash::Sha256), KeyAlgorithm::Rsa, &[9; 20]).unwrap();
        assert_eq!(PART.transplant(&[0xab; 32], &probe), Err(Error::OtherThanAsked { what: "digest" }));
    }
}
