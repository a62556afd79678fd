//! Private keys on a token, described by their attributes: what they are, and the public half.

use cryptoki::error::Error as Ck;
use cryptoki::object::{Attribute, AttributeType, KeyType, ObjectClass, ObjectHandle};
use cryptoki::session::Session;
use sealwright_proto::token_v1::found_key::Public;
use sealwright_proto::token_v1::{Object, RsaPublic};

use super::module::{Outcome, Trouble, shown, template};

/// Bytes of an attribute that is taken: an RSA-8192 modulus has 1,024.
const ATTRIBUTE_BYTES_MAX: usize = 2048;
/// Ed25519 as an object identifier (RFC 8410 section 3), and as the name that PKCS #11 3.0 also allows (section 2.3.10).
pub(super) const ED25519_OID: &[u8] = &[0x06, 0x03, 0x2b, 0x65, 0x70];
const ED25519_NAME: &[u8] = b"\x13\x0cedwards25519";

/// The attributes of a private key that matter.
#[derive(Default)]
pub(super) struct Described {
    pub(super) id: Vec<u8>,
    pub(super) label: Vec<u8>,
    kind: Option<KeyType>,
    modulus: Vec<u8>,
    exponent: Vec<u8>,
    asks_each_time: bool,
    pub(super) warnings: Vec<String>,
}

impl Described {
    /// # Errors
    /// The module's.
    pub(super) fn read(session: &Session, handle: ObjectHandle) -> Result<Self, Ck> {
        let wanted = [
            AttributeType::Id,
            AttributeType::Label,
            AttributeType::KeyType,
            AttributeType::Modulus,
            AttributeType::PublicExponent,
            AttributeType::AlwaysAuthenticate,
            AttributeType::Extractable,
            AttributeType::Sensitive,
        ];
        let mut key = Self::default();
        for attribute in session.get_attributes(handle, &wanted)? {
            key.take(attribute);
        }
        Ok(key)
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "only what was asked for comes")]
    fn take(&mut self, attribute: Attribute) {
        match attribute {
            Attribute::Id(id) => self.id = bounded(id),
            Attribute::Label(label) => self.label = bounded(label),
            Attribute::KeyType(kind) => self.kind = Some(kind),
            Attribute::Modulus(modulus) => self.modulus = bounded(modulus),
            Attribute::PublicExponent(exponent) => self.exponent = bounded(exponent),
            Attribute::AlwaysAuthenticate(asks) => self.asks_each_time = asks,
            Attribute::Extractable(true) => {
                self.warnings.push("it can be exported from the token".to_owned())
            }
            Attribute::Sensitive(false) => {
                self.warnings.push("it can be read from the token in clear".to_owned())
            }
            _ => {}
        }
    }

    /// Of an RSA key the private object has it; of others the public one with the same id.
    ///
    /// # Errors
    /// [`Trouble`] if it cannot be used; the inner error is the module's.
    pub(super) fn public(&self, session: &Session) -> Outcome<Result<Public, Ck>> {
        if self.asks_each_time {
            return Err(Trouble::refused(
                "the key asks for a PIN at each signature (CKA_ALWAYS_AUTHENTICATE)",
            ));
        }
        match self.kind {
            Some(KeyType::RSA) if !self.modulus.is_empty() && !self.exponent.is_empty() => {
                let rsa = RsaPublic { modulus: self.modulus.clone(), exponent: self.exponent.clone() };
                Ok(Ok(Public::Rsa(rsa)))
            }
            Some(KeyType::RSA) => self.public_object(session, rsa_public),
            Some(KeyType::EC_EDWARDS) => self.public_object(session, ed25519_public),
            _ => Err(Trouble::refused("it is neither an RSA nor an Ed25519 key")),
        }
    }

    fn public_object(
        &self,
        session: &Session,
        read: impl FnOnce(&Session, ObjectHandle) -> Result<Option<Public>, Ck>,
    ) -> Outcome<Result<Public, Ck>> {
        // A pair has one id; without one, one label.
        let label = if self.id.is_empty() { self.label.clone() } else { Vec::new() };
        let same = Object { id: self.id.clone(), label };
        let found = match session.find_objects(&template(ObjectClass::PUBLIC_KEY, &same)) {
            Ok(found) => found,
            Err(error) => return Ok(Err(error)),
        };
        let [handle] = found.as_slice() else {
            let message =
                format!("there is not exactly one public key {} beside the private one", shown(&same));
            return Err(Trouble::refused(message));
        };
        match read(session, *handle) {
            Ok(Some(public)) => Ok(Ok(public)),
            Ok(None) => Err(Trouble::refused("its public key is not one of Ed25519")),
            Err(error) => Ok(Err(error)),
        }
    }
}

fn rsa_public(session: &Session, handle: ObjectHandle) -> Result<Option<Public>, Ck> {
    let mut key = Described::default();
    for attribute in
        session.get_attributes(handle, &[AttributeType::Modulus, AttributeType::PublicExponent])?
    {
        key.take(attribute);
    }
    Ok(Some(Public::Rsa(RsaPublic { modulus: key.modulus, exponent: key.exponent })))
}

fn ed25519_public(session: &Session, handle: ObjectHandle) -> Result<Option<Public>, Ck> {
    let (mut point, mut is_ed25519) = (None, false);
    for attribute in session.get_attributes(handle, &[AttributeType::EcParams, AttributeType::EcPoint])? {
        if let Attribute::EcParams(curve) = &attribute {
            is_ed25519 = curve == ED25519_OID || curve == ED25519_NAME;
        } else if let Attribute::EcPoint(bytes) = &attribute {
            point = ed25519_point(bytes);
        }
    }
    Ok(point.filter(|_| is_ed25519).map(Public::Ed25519))
}

/// Longer ones are those of no key that is used here, and are refused by what they no longer are.
fn bounded(mut bytes: Vec<u8>) -> Vec<u8> {
    bytes.truncate(ATTRIBUTE_BYTES_MAX);
    bytes
}

/// DER: an OCTET STRING (PKCS #11 3.0 section 2.3.5), or the bare point, as some modules have it.
fn ed25519_point(bytes: &[u8]) -> Option<Vec<u8>> {
    let point = bytes.strip_prefix(&[0x04, 0x20]).filter(|point| point.len() == 32).unwrap_or(bytes);
    (point.len() == 32).then(|| point.to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_point_is_taken_wrapped_or_bare_and_in_no_other_length() {
        let point = [7; 32];
        assert_eq!(ed25519_point(&point).unwrap(), point);
        assert_eq!(ed25519_point(&[[4, 32].as_slice(), &point].concat()).unwrap(), point);
        assert!(ed25519_point(&[7; 31]).is_none());
        assert!(ed25519_point(&[[4, 33].as_slice(), &[7; 33]].concat()).is_none());
    }
}
