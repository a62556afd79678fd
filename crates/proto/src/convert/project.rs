//! Project keys, which clients of obs-sign keep, encrypted to a key of ours: making one. What signs with one is an item of a batch.

use sealwright_crypto::algorithm::KeyAlgorithm;

use super::batch::SealedKey;
use super::keys::{check_user_id, parse_validity};
use super::{malformed, refused, within};
use crate::limits;
use crate::signer_v1 as wire;
use crate::status::{Code, Fault};

/// What front asks of the signer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MakeProjectKey {
    /// Certifies the new key, and opens it later.
    pub key: SealedKey,
    /// Of the new key.
    pub algorithm: KeyAlgorithm,
    /// One line of text, `Name <mail>`.
    pub user_id: String,
    /// Seconds of validity from now; `None`: no expiry.
    pub valid_for_s: Option<u64>,
}

impl MakeProjectKey {
    /// # Errors
    /// [`Code::MalformedRequest`], [`Code::LimitExceeded`], [`Code::Unsupported`].
    pub fn parse(wire: wire::MakeProjectKey) -> Result<Self, Fault> {
        let key = SealedKey::parse(wire.key.ok_or_else(|| malformed("a project key of no key"))?)?;
        let algorithm = KeyAlgorithm::from_name(&wire.algorithm).map_err(|error| refused(&error))?;
        if !KeyAlgorithm::CREATABLE.contains(&algorithm) {
            return Err(Fault::new(Code::Unsupported, format!("keys of {algorithm} are not made")));
        }
        check_user_id(&wire.user_id)?;
        let valid_for_s = parse_validity(wire.valid_for_s)?;
        Ok(Self { key, algorithm, user_id: wire.user_id, valid_for_s })
    }

    /// The inverse of [`Self::parse`].
    #[must_use]
    pub fn into_wire(self) -> wire::MakeProjectKey {
        wire::MakeProjectKey {
            key: Some(self.key.into_wire()),
            algorithm: self.algorithm.to_string(),
            user_id: self.user_id,
            valid_for_s: self.valid_for_s,
        }
    }
}

/// What the signer made, and kept nothing of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProjectKeyMade {
    /// Transferable public key, binary.
    pub certificate: Vec<u8>,
    /// OpenPGP message with the secret key.
    pub encrypted: Vec<u8>,
}

impl ProjectKeyMade {
    /// For front.
    ///
    /// # Errors
    /// [`Code::Internal`]: the signer's answer breaks a rule.
    pub fn parse(wire: wire::ProjectKeyMade) -> Result<Self, Fault> {
        let wire::ProjectKeyMade { certificate, encrypted } = wire;
        let fits = within("the certificate", certificate.len(), limits::CERTIFICATE_BYTES_MAX, "bytes")
            .and_then(|()| within("a project key", encrypted.len(), limits::PROJECT_KEY_BYTES_MAX, "bytes"));
        if fits.is_err() || certificate.is_empty() || encrypted.is_empty() {
            return Err(Fault::new(Code::Internal, "the signer's answer about a project key breaks a rule"));
        }
        Ok(Self { certificate, encrypted })
    }

    /// The inverse of [`Self::parse`].
    #[must_use]
    pub fn into_wire(self) -> wire::ProjectKeyMade {
        wire::ProjectKeyMade { certificate: self.certificate, encrypted: self.encrypted }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::KeyId;

    fn asked() -> MakeProjectKey {
        let id = [0x01, 0x98, 0xf3, 0, 0, 1, 0x7a, 0xbc, 0x9d, 0, 1, 2, 3, 4, 5, 6];
        let key = SealedKey { key_id: KeyId::parse(&id).unwrap(), generation: 3, blob: vec![1, 2, 3] };
        let user_id = "Project <project@example.org>".to_owned();
        MakeProjectKey { key, algorithm: KeyAlgorithm::Rsa(2048), user_id, valid_for_s: Some(86_400) }
    }

    #[test]
    fn questions_and_answers_survive_the_wire() {
        assert_eq!(MakeProjectKey::parse(asked().into_wire()).unwrap(), asked());
        let made = ProjectKeyMade { certificate: vec![1], encrypted: vec![2] };
        assert_eq!(ProjectKeyMade::parse(made.clone().into_wire()).unwrap(), made);
    }

    #[test]
    fn what_breaks_a_rule_is_refused_by_name() {
        let refused_as = |change: fn(&mut wire::MakeProjectKey)| {
            let mut wire = asked().into_wire();
            change(&mut wire);
            MakeProjectKey::parse(wire).unwrap_err().code
        };
        assert_eq!(refused_as(|make| make.key = None), Code::MalformedRequest);
        assert_eq!(refused_as(|make| make.user_id = "a\nb".to_owned()), Code::MalformedRequest);
        assert_eq!(refused_as(|make| make.user_id = "x".repeat(1025)), Code::LimitExceeded);
        assert_eq!(refused_as(|make| make.valid_for_s = Some(0)), Code::MalformedRequest);
        for weak in ["rsa1024", "rsa8192", "dsa2048", "nistp256", ""] {
            let wire = wire::MakeProjectKey { algorithm: weak.to_owned(), ..asked().into_wire() };
            assert_eq!(MakeProjectKey::parse(wire).unwrap_err().code, Code::Unsupported, "{weak}");
        }
    }

    #[test]
    fn an_answer_that_is_empty_or_too_long_is_none() {
        for (certificate, encrypted) in
            [(0, 1), (1, 0), (limits::CERTIFICATE_BYTES_MAX + 1, 1), (1, limits::PROJECT_KEY_BYTES_MAX + 1)]
        {
            let wire =
                wire::ProjectKeyMade { certificate: vec![1; certificate], encrypted: vec![1; encrypted] };
            assert_eq!(ProjectKeyMade::parse(wire).unwrap_err().code, Code::Internal);
        }
    }
}
