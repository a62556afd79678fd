//! Many certificates, to verify against.

use super::{Certificate, Component, WHAT, parts};
use crate::error::Error;
use crate::openpgp::armor;
use crate::openpgp::fingerprint::Fingerprint;
use crate::openpgp::packet::SignaturePacket;

/// Most certificates in one keyring file; the keys of all Debian developers are about a thousand.
pub const CERTIFICATES_MAX: usize = 4096;

/// The certificates that are trusted, whole.
#[derive(Clone, Debug, Default)]
pub struct Keyring {
    certificates: Vec<Certificate>,
}

impl Keyring {
    /// No certificate yet.
    #[must_use]
    pub const fn new() -> Self {
        Self { certificates: Vec::new() }
    }

    /// Reads one or more certificates: binary, or any number of armor blocks, each with one or more. Certificates
    /// with keys that we cannot read (version 3, say) are left out if there are others.
    ///
    /// # Errors
    /// As for [`Certificate::parse`]; that of the first certificate if none can be read; [`Error::TooLarge`]
    /// above [`CERTIFICATES_MAX`].
    pub fn parse_many(bytes: &[u8]) -> Result<Self, Error> {
        let packets = armor::decode_or_binary(bytes)?;
        let all = parts::split(&packets)?;
        if all.len() > CERTIFICATES_MAX {
            return Err(Error::TooLarge {
                what: "keyring",
                size: u64::try_from(all.len()).unwrap_or(u64::MAX),
                limit: u64::try_from(CERTIFICATES_MAX).unwrap_or(u64::MAX),
                unit: "certificates",
            });
        }
        let mut keyring = Self::new();
        let mut first_error = None;
        for one in all {
            match Certificate::from_packets(&one) {
                Ok(certificate) => keyring.push(certificate),
                Err(error) => {
                    first_error.get_or_insert(error);
                }
            }
        }
        match first_error {
            Some(error) if keyring.is_empty() => Err(error),
            None if keyring.is_empty() => Err(Error::malformed(WHAT, "there is none")),
            _ => Ok(keyring),
        }
    }

    /// Adds one. Several copies of a certificate, older and newer, may be held at once.
    pub fn push(&mut self, certificate: Certificate) {
        self.certificates.push(certificate);
    }

    /// Whether there is none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.certificates.is_empty()
    }

    /// All of them, in the order in which they came.
    #[must_use]
    pub fn certificates(&self) -> &[Certificate] {
        &self.certificates
    }

    /// The first certificate that has this component.
    #[must_use]
    pub fn find(&self, fingerprint: &Fingerprint) -> Option<(&Certificate, &Component)> {
        self.certificates.iter().find_map(|certificate| Some((certificate, certificate.find(fingerprint)?)))
    }

    /// Every component that may have made `packet`: by fingerprint if it names one, else by key id.
    pub(crate) fn candidates(
        &self,
        packet: &SignaturePacket,
    ) -> impl Iterator<Item = (&Certificate, &Component)> {
        let fingerprint = packet.issuer_fingerprint();
        let key_id = packet.issuer_key_id();
        let matches = move |component: &Component| match fingerprint {
            Some(fingerprint) => component.fingerprint() == fingerprint,
            None => key_id == Some(component.fingerprint().key_id()),
        };
        self.certificates.iter().flat_map(move |certificate| {
            let matching = certificate.components().iter().filter(move |component| matches(component));
            matching.map(move |component| (certificate, component))
        })
    }
}
