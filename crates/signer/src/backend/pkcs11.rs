//! Keys on a token, which never leave it. What is sealed says where the key is, and belongs to one public half:
//!
//! ```text
//! length  field
//! 1       version, 1
//! 1, ..   name of the token (tokens.toml)
//! 1, ..   CKA_ID
//! 1, ..   CKA_LABEL
//! 32      SHA-256 of the public half's numbers
//! ```
//!
//! RSA signs by CKM_RSA_PKCS over a DigestInfo (RFC 8017 section 9.2), Ed25519 by CKM_EDDSA.

use std::sync::Arc;

use sealwright_crypto::algorithm::{HashAlgorithm, KeyAlgorithm};
use sealwright_crypto::digest::{Digest, Hasher};
use sealwright_proto::convert::keys::KeySource;
use sealwright_proto::limits::TOKEN_WARNINGS_MAX;
use sealwright_proto::names::{BackendName, TokenName};
use sealwright_proto::token_v1::found_key::Public;
use sealwright_proto::token_v1::from_worker::Response;
use sealwright_proto::token_v1::to_worker::Request;
use sealwright_proto::token_v1::{Find, FoundKey, Generate, Mechanism, Object, Sign};

use super::{Backend, Failed, Order, Pair, PrivateKey, Trouble};
use crate::public::{Numbers, PublicHalf};
use crate::secret::Secret;
use crate::tokens::{Token, Tokens};

const VERSION: u8 = 1;

/// Reached by PKCS#11 modules, in workers.
pub(crate) struct Pkcs11;

impl Backend for Pkcs11 {
    fn number(&self) -> u8 {
        2
    }

    fn scheme(&self) -> &'static str {
        "pkcs11"
    }

    fn has(&self, source: &KeySource) -> bool {
        source.token().is_some()
    }

    fn make(&self, tokens: &Tokens, order: &Order<'_>) -> Result<Pair, Trouble> {
        let (token, request) = match order.source {
            KeySource::Software(_) => return Err(Failed("it is to be no key on a token").into()),
            KeySource::Token(token, algorithm) => {
                let object = Object { id: order.mark.to_vec(), label: order.label.as_bytes().to_vec() };
                (
                    token,
                    Request::Generate(Generate { object: Some(object), algorithm: algorithm.to_string() }),
                )
            }
            KeySource::TakenOver(token, object) => {
                let object = Object { id: object.id().to_vec(), label: object.label().as_bytes().to_vec() };
                (token, Request::Find(Find { object: Some(object) }))
            }
        };
        let token = tokens.find(token)?;
        pair_of(token.name(), token.call(request)?)
    }

    fn open(
        &self,
        tokens: &Tokens,
        public: &PublicHalf,
        secret: &Secret,
    ) -> Result<Box<dyn PrivateKey>, Trouble> {
        let (place, numbers) = Place::read(secret).ok_or(NOT_A_PLACE)?;
        if numbers != digest_of(public.numbers()) {
            return Err(Failed("it belongs to another public key").into());
        }
        let token = Arc::clone(tokens.find(&place.token)?);
        let object = Object { id: place.id, label: place.label };
        Ok(Box::new(OnToken { token, object, algorithm: public.algorithm() }))
    }

    fn name(&self, secret: &Secret) -> Result<BackendName, Trouble> {
        let (place, _) = Place::read(secret).ok_or(NOT_A_PLACE)?;
        Ok(BackendName::token(self.scheme(), &place.token))
    }
}

const NOT_A_PLACE: Failed = Failed("it does not say where on a token a key is");

/// What a worker found, or made, on its token.
///
/// # Errors
/// [`Trouble`] if that is no key, or one that could not be found again.
pub(crate) fn pair_of(token: &TokenName, found: Response) -> Result<Pair, Trouble> {
    let Response::Key(FoundKey { object, public, warnings }) = found else { return Err(another_answer()) };
    let (Some(object), Some(public)) = (object, public) else { return Err(another_answer()) };
    if warnings.len() > TOKEN_WARNINGS_MAX {
        return Err(Failed("the worker of the token has more warnings than there are").into());
    }
    let numbers = numbers(public)?;
    let place = Place { token: token.clone(), id: object.id, label: object.label };
    let secret = place.write(&numbers)?;
    Ok(Pair {
        numbers,
        secret,
        warnings: warnings.iter().map(|warning| warning_of(token, warning)).collect(),
    })
}

fn another_answer() -> Trouble {
    Failed("the worker of the token answered something else than it was asked").into()
}

/// Only ours: what the token says is a word of somebody else.
fn warning_of(token: &TokenName, warning: &str) -> String {
    let text: String = warning.chars().filter(|c| !c.is_control()).take(120).collect();
    format!("the key on token {token}: {text}")
}

fn numbers(public: Public) -> Result<Numbers, Trouble> {
    match public {
        Public::Rsa(rsa) => {
            Ok(Numbers::Rsa { n: without_zeros(&rsa.modulus), e: without_zeros(&rsa.exponent) })
        }
        Public::Ed25519(point) => {
            let point = point.try_into().map_err(|_| Failed("its public key is not one of Ed25519"))?;
            Ok(Numbers::Ed25519(point))
        }
    }
}

fn without_zeros(number: &[u8]) -> Vec<u8> {
    number.iter().copied().skip_while(|byte| *byte == 0).collect()
}

/// Where a key is.
pub(crate) struct Place {
    pub(crate) token: TokenName,
    pub(crate) id: Vec<u8>,
    pub(crate) label: Vec<u8>,
}

impl Place {
    fn write(&self, numbers: &Numbers) -> Result<Secret, Trouble> {
        let out = self.encode(&digest_of(numbers))?;
        Secret::joined(&[&out]).map_err(|_| Failed(super::NOT_LOCKED).into())
    }

    /// The bytes that are sealed, for the key whose numbers have this digest.
    ///
    /// # Errors
    /// [`Trouble`] if it could not be read again.
    pub(crate) fn encode(&self, numbers: &Digest) -> Result<Vec<u8>, Trouble> {
        if self.id.is_empty() && self.label.is_empty() {
            return Err(Failed("it has neither id nor label on the token").into());
        }
        let mut out = vec![VERSION];
        for field in [self.token.as_str().as_bytes(), &self.id, &self.label] {
            let len =
                u8::try_from(field.len()).map_err(|_| Failed("its id or label has more than 255 bytes"))?;
            out.push(len);
            out.extend_from_slice(field);
        }
        out.extend_from_slice(numbers.as_bytes());
        Ok(out)
    }

    /// The place, and the digest of the numbers of its key; `None` if these bytes are none.
    pub(crate) fn read(secret: &Secret) -> Option<(Self, Digest)> {
        let (version, mut rest) = secret.expose().split_first()?;
        if *version != VERSION {
            return None;
        }
        let mut field = || {
            let (len, after) = rest.split_first()?;
            let (field, after) = after.split_at_checked(usize::from(*len))?;
            rest = after;
            Some(field.to_vec())
        };
        let (token, id, label) = (field()?, field()?, field()?);
        let token = TokenName::parse(core::str::from_utf8(&token).ok()?).ok()?;
        let numbers = Digest::from_bytes(HashAlgorithm::Sha256, rest).ok()?;
        (!id.is_empty() || !label.is_empty()).then_some((Self { token, id, label }, numbers))
    }
}

fn digest_of(numbers: &Numbers) -> Digest {
    let mut hasher = Hasher::new(HashAlgorithm::Sha256);
    match numbers {
        Numbers::Rsa { n, e } => {
            hasher.update(b"rsa");
            hasher.update(&u32::try_from(n.len()).unwrap_or(u32::MAX).to_be_bytes());
            hasher.update(n);
            hasher.update(e);
        }
        Numbers::Ed25519(point) => {
            hasher.update(b"ed25519");
            hasher.update(point);
        }
    }
    hasher.finish()
}

struct OnToken {
    token: Arc<Token>,
    object: Object,
    algorithm: KeyAlgorithm,
}

impl PrivateKey for OnToken {
    fn sign(&self, digest: &Digest) -> Result<Vec<u8>, Trouble> {
        let (mechanism, data) = match self.algorithm {
            KeyAlgorithm::Rsa(_) => (Mechanism::RsaPkcs, digest_info(digest)),
            KeyAlgorithm::Ed25519 => (Mechanism::Eddsa, digest.as_bytes().to_vec()),
        };
        let sign = Sign { object: Some(self.object.clone()), mechanism: mechanism.into(), data };
        let Response::Signature(raw) = self.token.call(Request::Sign(sign))? else {
            return Err(another_answer());
        };
        Ok(match self.algorithm {
            KeyAlgorithm::Rsa(bits) => padded(raw, usize::from(bits).div_ceil(8)),
            KeyAlgorithm::Ed25519 => raw,
        })
    }

    fn lane(&self) -> Option<usize> {
        Some(self.token.index())
    }
}

/// Some modules leave out leading zeros; what is not right then does not verify.
fn padded(raw: Vec<u8>, len: usize) -> Vec<u8> {
    let missing = len.saturating_sub(raw.len());
    if missing == 0 { raw } else { [vec![0; missing], raw].concat() }
}

/// RFC 8017 section 9.2, note 1.
fn digest_info(digest: &Digest) -> Vec<u8> {
    const SHA256: &[u8] = &[
        0x30, 0x31, 0x30, 0x0d, 0x06, 0x09, 0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02, 0x01, 0x05, 0x00,
        0x04, 0x20,
    ];
    const SHA384: &[u8] = &[
        0x30, 0x41, 0x30, 0x0d, 0x06, 0x09, 0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02, 0x02, 0x05, 0x00,
        0x04, 0x30,
    ];
    const SHA512: &[u8] = &[
        0x30, 0x51, 0x30, 0x0d, 0x06, 0x09, 0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02, 0x03, 0x05, 0x00,
        0x04, 0x40,
    ];
    let prefix = match digest.hash() {
        HashAlgorithm::Sha256 => SHA256,
        HashAlgorithm::Sha384 => SHA384,
        HashAlgorithm::Sha512 => SHA512,
    };
    [prefix, digest.as_bytes()].concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use sealwright_crypto::algorithm::KeyVersion;

    fn place() -> Place {
        Place { token: TokenName::parse("hsm1").unwrap(), id: vec![1, 2], label: b"signer".to_vec() }
    }

    #[test]
    fn a_place_is_read_as_it_was_written_and_a_cut_or_changed_one_is_none_or_another() {
        let numbers = Numbers::Ed25519([7; 32]);
        let secret = place().write(&numbers).unwrap();
        let (read, digest) = Place::read(&secret).unwrap();
        assert_eq!((read.token, read.id, read.label), (place().token, place().id, place().label));
        assert!(digest == digest_of(&numbers));
        for len in 0..secret.expose().len() {
            assert!(Place::read(&Secret::joined(&[&secret.expose()[..len]]).unwrap()).is_none(), "{len}");
        }
        assert!(Place { id: Vec::new(), label: Vec::new(), ..place() }.write(&numbers).is_err());
        let nameless = [b"\x01\x04hsm1\0\0".as_slice(), digest.as_bytes()].concat();
        assert!(Place::read(&Secret::new(nameless).unwrap()).is_none());
        assert!(Place { id: vec![0; 256], ..place() }.write(&numbers).is_err());
        assert_eq!(Pkcs11.name(&secret).unwrap().as_str(), "pkcs11:hsm1");
    }

    /// The numbers of an Ed25519 key of RFC 8032 section 7.1, test 1: a point that libraries accept.
    #[test]
    fn a_place_opens_with_its_own_public_half_alone_and_only_where_its_token_is_configured() {
        let numbers = |text: &str| {
            let bytes = crate::root::from_hex(text).unwrap();
            Numbers::Ed25519(bytes.try_into().unwrap())
        };
        let own = numbers("d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a");
        let other = numbers("3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c");
        let secret = place().write(&own).unwrap();
        let open = |numbers: &Numbers| {
            let public = PublicHalf::new(KeyVersion::V4, 1, numbers).unwrap();
            Pkcs11.open(&Tokens::none(), &public, &secret).err().unwrap()
        };
        assert!(matches!(open(&other), Trouble::Failed(_)));
        let Trouble::Fault(fault) = open(&own) else { panic!("no such token") };
        assert_eq!(fault.code, sealwright_proto::status::Code::TokenRefused);
    }

    #[test]
    fn a_worker_that_has_more_warnings_than_there_are_or_a_key_without_a_name_is_not_believed() {
        let pair = |warnings: usize, id: &[u8]| {
            let object = Some(Object { id: id.to_vec(), label: Vec::new() });
            let public = Some(Public::Ed25519(vec![7; 32]));
            let key = FoundKey { object, public, warnings: vec!["w\n".to_owned(); warnings] };
            pair_of(&place().token, Response::Key(key))
        };
        let good = pair(TOKEN_WARNINGS_MAX, &[1]).ok().unwrap();
        assert_eq!(good.warnings, vec!["the key on token hsm1: w"; TOKEN_WARNINGS_MAX]);
        assert!(pair(TOKEN_WARNINGS_MAX + 1, &[1]).is_err());
        assert!(pair(0, &[]).is_err());
    }

    #[test]
    fn a_signature_has_the_length_of_the_modulus() {
        assert_eq!(padded(vec![1, 2], 4), [0, 0, 1, 2]);
        assert_eq!(padded(vec![1, 2], 2), [1, 2]);
        assert_eq!(without_zeros(&[0, 0, 1, 0]), [1, 0]);
    }
}
