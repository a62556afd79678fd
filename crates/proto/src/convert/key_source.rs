//! Where a new key comes from: it is made in the signer, made on a token, or taken over from one.

use sealwright_crypto::algorithm::KeyAlgorithm;

use super::{malformed, refused, within};
use crate::limits;
use crate::names::TokenName;
use crate::status::{Code, Fault};

/// Where the key pair of a new key comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeySource {
    /// It is made in the memory of the signer. One of [`KeyAlgorithm::CREATABLE`].
    Software(KeyAlgorithm),
    /// It is made on a token, and never leaves it. One of [`KeyAlgorithm::CREATABLE`].
    Token(TokenName, KeyAlgorithm),
    /// It is on a token already.
    TakenOver(TokenName, TokenObject),
}

/// A key pair on a token: by label, by id, or by both.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenObject {
    label: String,
    id: Vec<u8>,
}

impl TokenObject {
    /// Either may be empty, not both.
    ///
    /// # Errors
    /// [`Code::MalformedRequest`], [`Code::LimitExceeded`].
    pub fn new(label: String, id: Vec<u8>) -> Result<Self, Fault> {
        within("a label on a token", label.len(), limits::TOKEN_OBJECT_BYTES_MAX, "bytes")?;
        within("an id on a token", id.len(), limits::TOKEN_OBJECT_BYTES_MAX, "bytes")?;
        if label.is_empty() && id.is_empty() {
            return Err(malformed("a key on a token without label or id"));
        }
        Ok(Self { label, id })
    }

    /// CKA_LABEL; empty: any.
    #[must_use]
    pub fn label(&self) -> &str {
        &self.label
    }

    /// CKA_ID; empty: any.
    #[must_use]
    pub fn id(&self) -> &[u8] {
        &self.id
    }
}

impl KeySource {
    /// The token, if there is one.
    #[must_use]
    pub const fn token(&self) -> Option<&TokenName> {
        match self {
            Self::Software(_) => None,
            Self::Token(token, _) | Self::TakenOver(token, _) => Some(token),
        }
    }

    /// # Errors
    /// [`Code::MalformedRequest`], [`Code::LimitExceeded`], [`Code::Unsupported`], [`Code::NameNotAllowed`].
    pub(super) fn parse(algorithm: &str, token: &str, label: String, id: Vec<u8>) -> Result<Self, Fault> {
        within("the name of an algorithm", algorithm.len(), limits::ALGORITHM_NAME_BYTES_MAX, "bytes")?;
        let takes_over = !label.is_empty() || !id.is_empty();
        if token.is_empty() {
            if takes_over {
                return Err(malformed("a key on a token is named, but no token"));
            }
            return Ok(Self::Software(creatable(algorithm)?));
        }
        let token = TokenName::parse(token)?;
        if !takes_over {
            return Ok(Self::Token(token, creatable(algorithm)?));
        }
        if !algorithm.is_empty() {
            return Err(malformed("a key that is taken over has its algorithm already"));
        }
        Ok(Self::TakenOver(token, TokenObject::new(label, id)?))
    }

    /// Algorithm, token, label, id, as they travel.
    pub(super) fn into_wire(self) -> (String, String, String, Vec<u8>) {
        match self {
            Self::Software(algorithm) => (algorithm.to_string(), String::new(), String::new(), Vec::new()),
            Self::Token(token, algorithm) => {
                (algorithm.to_string(), token.as_str().to_owned(), String::new(), Vec::new())
            }
            Self::TakenOver(token, object) => {
                (String::new(), token.as_str().to_owned(), object.label, object.id)
            }
        }
    }
}

fn creatable(name: &str) -> Result<KeyAlgorithm, Fault> {
    let algorithm = KeyAlgorithm::from_name(name).map_err(|error| refused(&error))?;
    if KeyAlgorithm::CREATABLE.contains(&algorithm) {
        return Ok(algorithm);
    }
    let message = format!("keys are made with rsa2048, rsa3072, rsa4096 or ed25519, not {algorithm}");
    Err(Fault::new(Code::Unsupported, message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_made_or_taken_over_and_where_is_said_once() {
        let token = TokenName::parse("hsm1").unwrap();
        let object = TokenObject::new("signer".to_owned(), vec![1]).unwrap();
        for source in [
            KeySource::Software(KeyAlgorithm::Ed25519),
            KeySource::Token(token.clone(), KeyAlgorithm::Rsa(4096)),
            KeySource::TakenOver(token, object),
        ] {
            let (algorithm, token, label, id) = source.clone().into_wire();
            assert_eq!(KeySource::parse(&algorithm, &token, label, id).unwrap(), source);
        }
        let wire = |algorithm: &str, token: &str, label: &str, id: &[u8]| {
            KeySource::parse(algorithm, token, label.to_owned(), id.to_vec()).map_err(|fault| fault.code)
        };
        assert_eq!(wire("rsa4096", "", "signer", &[]), Err(Code::MalformedRequest));
        assert_eq!(wire("rsa4096", "hsm1", "signer", &[]), Err(Code::MalformedRequest));
        assert_eq!(wire("", "hsm1", "", &[]), Err(Code::Unsupported));
        assert_eq!(wire("", "..", "signer", &[]), Err(Code::NameNotAllowed));
        assert_eq!(wire("", "hsm1", "", &[0; 256]), Err(Code::LimitExceeded));
    }
}
