//! What is asked of a PKCS#11 module (PKCS #11 version 2.40 and later): one token, one login, private keys that are found
//! once. Errors become one of three kinds: the PIN was refused, the token is gone, or it does not do this.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use cryptoki::context::{CInitializeArgs, CInitializeFlags, Pkcs11};
use cryptoki::error::{Error as Ck, RvError};
use cryptoki::mechanism::Mechanism;
use cryptoki::mechanism::eddsa::{EddsaParams, EddsaSignatureScheme};
use cryptoki::object::{Attribute, AttributeType, KeyType, ObjectClass, ObjectHandle};
use cryptoki::session::{Session, UserType};
use cryptoki::slot::{Slot, TokenInfo};
use cryptoki::types::RawAuthPin;
use sealwright_proto::token_v1::found_key::Public;
use sealwright_proto::token_v1::from_worker::Response;
use sealwright_proto::token_v1::to_worker::Request;
use sealwright_proto::token_v1::{
    Failed, FoundKey, Generate, Mechanism as Asked, Object, RsaPublic, Sign, Start,
};

use crate::secret::Secret;

/// Handles of keys that are kept; more are found anew.
const HANDLES_MAX: usize = 1024;
/// Bytes of an attribute that is taken: an RSA-8192 modulus has 1,024.
const ATTRIBUTE_BYTES_MAX: usize = 2048;
/// Ed25519 as an object identifier (RFC 8410 section 3), and as the name that PKCS #11 3.0 also allows (section 2.3.10).
const ED25519_OID: &[u8] = &[0x06, 0x03, 0x2b, 0x65, 0x70];
const ED25519_NAME: &[u8] = b"\x13\x0cedwards25519";
/// 65537.
const PUBLIC_EXPONENT: [u8; 3] = [1, 0, 1];

/// Why there is no answer.
pub(super) struct Trouble {
    pub(super) kind: Failed,
    pub(super) message: String,
    /// No more sessions can be opened.
    pub(super) no_session: bool,
    /// The module does not say what is wrong: it may pass, or not.
    pub(super) unclear: bool,
}

impl Trouble {
    pub(super) fn gone(message: impl Into<String>) -> Self {
        Self { kind: Failed::Gone, message: message.into(), no_session: false, unclear: false }
    }

    fn refused(message: impl Into<String>) -> Self {
        Self { kind: Failed::Refused, ..Self::gone(message) }
    }

    /// PKCS #11 version 2.40 section 5.1.
    fn of(error: &Ck) -> Self {
        let Ck::Pkcs11(code, function) = error else { return Self::refused(error.to_string()) };
        let message = format!("{function}: {code:?}");
        match code {
            RvError::PinIncorrect
            | RvError::PinInvalid
            | RvError::PinLenRange
            | RvError::PinExpired
            | RvError::PinLocked
            | RvError::UserPinNotInitialized => Self { kind: Failed::Pin, ..Self::gone(message) },
            RvError::DeviceRemoved
            | RvError::DeviceError
            | RvError::DeviceMemory
            | RvError::HostMemory
            | RvError::TokenNotPresent
            | RvError::TokenNotRecognized
            | RvError::SlotIdInvalid
            | RvError::CryptokiNotInitialized
            | RvError::SessionHandleInvalid
            | RvError::SessionClosed
            | RvError::UserNotLoggedIn => Self::gone(message),
            RvError::SessionCount => Self { no_session: true, ..Self::gone(message) },
            RvError::GeneralError | RvError::FunctionFailed => Self { unclear: true, ..Self::gone(message) },
            _ => Self::refused(message),
        }
    }
}

/// What can be mended at once.
enum Mend {
    LogIn,
    OpenSession,
    FindKey,
}

impl Mend {
    fn of(error: &Ck) -> Option<Self> {
        let Ck::Pkcs11(code, _) = error else { return None };
        match code {
            RvError::UserNotLoggedIn => Some(Self::LogIn),
            RvError::SessionHandleInvalid | RvError::SessionClosed => Some(Self::OpenSession),
            RvError::KeyHandleInvalid | RvError::ObjectHandleInvalid => Some(Self::FindKey),
            _ => None,
        }
    }
}

type Outcome<T> = Result<T, Trouble>;

/// A loaded module with its token.
pub(super) struct Module {
    context: Pkcs11,
    slot: Slot,
    info: TokenInfo,
    pin: Secret,
    /// All sessions of a process share one login (PKCS #11 section 5.6.8).
    logged_in: Mutex<bool>,
    handles: Mutex<HashMap<(Vec<u8>, Vec<u8>), ObjectHandle>>,
    open: AtomicUsize,
}

impl Module {
    /// Loads the module and finds the token.
    ///
    /// # Errors
    /// [`Trouble`].
    pub(super) fn open(start: &Start, pin: Secret) -> Outcome<Self> {
        let context = Pkcs11::new(&start.module)
            .map_err(|error| Trouble::refused(format!("module {} does not load: {error}", start.module)))?;
        let initialised = context.initialize(CInitializeArgs::new(CInitializeFlags::OS_LOCKING_OK));
        initialised.map_err(|error| Trouble { kind: Failed::Refused, ..Trouble::of(&error) })?;
        let (slot, info) = find_token(&context, start)?;
        // Another wrong PIN would lock it, and that is not ours to risk.
        if info.user_pin_locked() || info.user_pin_final_try() {
            let message =
                "the token says that its PIN is locked, or that one more wrong one locks it; unlock it first";
            return Err(Trouble::refused(message));
        }
        Ok(Self {
            context,
            slot,
            info,
            pin,
            logged_in: Mutex::new(false),
            handles: Mutex::default(),
            open: AtomicUsize::new(0),
        })
    }

    /// What the token says of itself.
    pub(super) fn describe(&self) -> String {
        format!("{} ({} {})", self.info.label(), self.info.model(), self.info.serial_number())
    }

    /// Sessions that are open.
    pub(super) fn open_sessions(&self) -> usize {
        self.open.load(Ordering::Acquire)
    }

    /// The first session, logged in.
    ///
    /// # Errors
    /// [`Trouble`].
    pub(super) fn log_in(&self) -> Outcome<Session> {
        let session = self.open_session()?;
        self.log_in_with(&session)?;
        Ok(session)
    }

    /// Answers one request with the session of this thread, which is opened if there is none, and opened anew or logged in
    /// once more if the token has forgotten it.
    ///
    /// # Errors
    /// [`Trouble`].
    pub(super) fn answer(&self, session: &mut Option<Session>, request: &Request) -> Outcome<Response> {
        let mut mended = false;
        loop {
            let current = match session.take() {
                Some(current) => current,
                None => self.log_in()?,
            };
            let done = self.perform(&current, request);
            let error = match done {
                Ok(done) => {
                    *session = Some(current);
                    return done;
                }
                Err(error) => error,
            };
            let mend = Mend::of(&error).filter(|_| !mended);
            mended = true;
            match mend {
                Some(Mend::LogIn) => {
                    self.set_logged_in(false);
                    self.log_in_with(&current)?;
                    *session = Some(current);
                }
                Some(Mend::OpenSession) => {
                    self.set_logged_in(false);
                    self.close_session(current);
                }
                Some(Mend::FindKey) => {
                    self.handles.lock().unwrap_or_else(PoisonError::into_inner).clear();
                    *session = Some(current);
                }
                None => {
                    *session = Some(current);
                    return Err(Trouble::of(&error));
                }
            }
        }
    }

    /// Sessions are closed by now.
    pub(super) fn close(self) {
        // The process ends anyway.
        let _ = self.context.finalize();
    }

    fn open_session(&self) -> Outcome<Session> {
        let opened = if self.info.write_protected() {
            self.context.open_ro_session(self.slot)
        } else {
            self.context.open_rw_session(self.slot)
        };
        let session = opened.map_err(|error| Trouble::of(&error))?;
        self.open.fetch_add(1, Ordering::AcqRel);
        Ok(session)
    }

    fn close_session(&self, session: Session) {
        drop(session);
        self.open.fetch_sub(1, Ordering::AcqRel);
    }

    /// Once for all sessions; whoever comes meanwhile waits for that one.
    fn log_in_with(&self, session: &Session) -> Outcome<()> {
        let mut logged_in = self.logged_in.lock().unwrap_or_else(PoisonError::into_inner);
        if *logged_in || !self.info.login_required() {
            return Ok(());
        }
        let pin = RawAuthPin::new(Box::new(self.pin.expose().to_vec()));
        match session.login_with_raw(UserType::User, &pin) {
            Ok(()) | Err(Ck::Pkcs11(RvError::UserAlreadyLoggedIn, _)) => {
                *logged_in = true;
                Ok(())
            }
            Err(error) => Err(Trouble::of(&error)),
        }
    }

    fn set_logged_in(&self, value: bool) {
        *self.logged_in.lock().unwrap_or_else(PoisonError::into_inner) = value;
    }

    /// The outer error is the module's, and may be mended.
    fn perform(&self, session: &Session, request: &Request) -> Result<Outcome<Response>, Ck> {
        match request {
            Request::Sign(sign) => self.sign(session, sign),
            Request::Generate(generate) => self.generate(session, generate),
            Request::Find(find) => match &find.object {
                Some(object) => self.describe_key(session, object),
                None => Ok(Err(Trouble::refused("a key without a name"))),
            },
            Request::Start(_) => Ok(Err(Trouble::refused("it has started already"))),
        }
    }

    fn sign(&self, session: &Session, sign: &Sign) -> Result<Outcome<Response>, Ck> {
        let mechanism = match sign.mechanism() {
            Asked::RsaPkcs => Mechanism::RsaPkcs,
            Asked::Eddsa => Mechanism::Eddsa(EddsaParams::new(EddsaSignatureScheme::Pure)),
            Asked::Unspecified => return Ok(Err(Trouble::refused("an unknown mechanism"))),
        };
        let Some(object) = &sign.object else { return Ok(Err(Trouble::refused("a key without a name"))) };
        let key = match self.private_key(session, object)? {
            Ok(key) => key,
            Err(trouble) => return Ok(Err(trouble)),
        };
        Ok(Ok(Response::Signature(session.sign(&mechanism, key, &sign.data)?)))
    }

    /// The one private key of this id and label; looked for once.
    fn private_key(&self, session: &Session, object: &Object) -> Result<Outcome<ObjectHandle>, Ck> {
        let name = (object.id.clone(), object.label.clone());
        let known = self.handles.lock().unwrap_or_else(PoisonError::into_inner).get(&name).copied();
        if let Some(handle) = known {
            return Ok(Ok(handle));
        }
        let found = session.find_objects(&template(ObjectClass::PRIVATE_KEY, object))?;
        let shown = shown(object);
        let handle = match found.as_slice() {
            [handle] => *handle,
            [] => return Ok(Err(Trouble::refused(format!("there is no private key {shown}")))),
            [..] => {
                return Ok(Err(Trouble::refused(format!(
                    "there are several private keys {shown}; name one by its id"
                ))));
            }
        };
        let mut handles = self.handles.lock().unwrap_or_else(PoisonError::into_inner);
        if handles.len() >= HANDLES_MAX {
            handles.clear();
        }
        handles.insert(name, handle);
        Ok(Ok(handle))
    }

    fn generate(&self, session: &Session, generate: &Generate) -> Result<Outcome<Response>, Ck> {
        let Some(object) = &generate.object else { return Ok(Err(Trouble::refused("a key without a name"))) };
        let (mechanism, kind) = match generate.algorithm.strip_prefix("rsa").map(str::parse::<u16>) {
            Some(Ok(bits)) => {
                let kind = vec![
                    Attribute::ModulusBits(u64::from(bits).into()),
                    Attribute::PublicExponent(PUBLIC_EXPONENT.to_vec()),
                ];
                (Mechanism::RsaPkcsKeyPairGen, kind)
            }
            None if generate.algorithm == "ed25519" => {
                (Mechanism::EccEdwardsKeyPairGen, vec![Attribute::EcParams(ED25519_OID.to_vec())])
            }
            Some(Err(_)) | None => return Ok(Err(Trouble::refused("an unknown algorithm"))),
        };
        let named = || {
            vec![
                Attribute::Token(true),
                Attribute::Id(object.id.clone()),
                Attribute::Label(object.label.clone()),
            ]
        };
        let public = [
            named(),
            kind,
            vec![
                Attribute::Private(false),
                Attribute::Verify(true),
                Attribute::Encrypt(false),
                Attribute::Wrap(false),
            ],
        ]
        .concat();
        let private = [
            named(),
            vec![
                Attribute::Private(true),
                Attribute::Sensitive(true),
                Attribute::Extractable(false),
                Attribute::Sign(true),
                Attribute::Decrypt(false),
                Attribute::Unwrap(false),
            ],
        ];
        session.generate_key_pair(&mechanism, &public, &private.concat())?;
        self.describe_key(session, object)
    }

    fn describe_key(&self, session: &Session, object: &Object) -> Result<Outcome<Response>, Ck> {
        let handle = match self.private_key(session, object)? {
            Ok(handle) => handle,
            Err(trouble) => return Ok(Err(trouble)),
        };
        let key = Described::read(session, handle)?;
        let public = match key.public(session) {
            Ok(public) => public?,
            Err(trouble) => return Ok(Err(trouble)),
        };
        let found = Object { id: key.id, label: key.label };
        let warnings = key.warnings;
        Ok(Ok(Response::Key(FoundKey { object: Some(found), public: Some(public), warnings })))
    }
}

/// The attributes of a private key that matter.
#[derive(Default)]
struct Described {
    id: Vec<u8>,
    label: Vec<u8>,
    kind: Option<KeyType>,
    modulus: Vec<u8>,
    exponent: Vec<u8>,
    asks_each_time: bool,
    warnings: Vec<String>,
}

impl Described {
    fn read(session: &Session, handle: ObjectHandle) -> Result<Self, Ck> {
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
            match attribute {
                Attribute::Id(id) => key.id = bounded(id),
                Attribute::Label(label) => key.label = bounded(label),
                Attribute::KeyType(kind) => key.kind = Some(kind),
                Attribute::Modulus(modulus) => key.modulus = bounded(modulus),
                Attribute::PublicExponent(exponent) => key.exponent = bounded(exponent),
                Attribute::AlwaysAuthenticate(asks) => key.asks_each_time = asks,
                Attribute::Extractable(true) => {
                    key.warnings.push("it can be exported from the token".to_owned())
                }
                Attribute::Sensitive(false) => {
                    key.warnings.push("it can be read from the token in clear".to_owned())
                }
                _ => {}
            }
        }
        Ok(key)
    }

    /// Of an RSA key the private object has it; of others the public one with the same id.
    fn public(&self, session: &Session) -> Outcome<Result<Public, Ck>> {
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
            Some(KeyType::RSA) => self.public_object(session, |session, handle| {
                let wanted = [AttributeType::Modulus, AttributeType::PublicExponent];
                let mut rsa = RsaPublic::default();
                for attribute in session.get_attributes(handle, &wanted)? {
                    match attribute {
                        Attribute::Modulus(modulus) => rsa.modulus = bounded(modulus),
                        Attribute::PublicExponent(exponent) => rsa.exponent = bounded(exponent),
                        _ => {}
                    }
                }
                Ok(Some(Public::Rsa(rsa)))
            }),
            Some(KeyType::EC_EDWARDS) => self.public_object(session, |session, handle| {
                let mut point = None;
                let mut is_ed25519 = false;
                for attribute in
                    session.get_attributes(handle, &[AttributeType::EcParams, AttributeType::EcPoint])?
                {
                    match attribute {
                        Attribute::EcParams(curve) => {
                            is_ed25519 = curve == ED25519_OID || curve == ED25519_NAME;
                        }
                        Attribute::EcPoint(bytes) => point = ed25519_point(&bytes),
                        _ => {}
                    }
                }
                Ok(point.filter(|_| is_ed25519).map(Public::Ed25519))
            }),
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

fn find_token(context: &Pkcs11, start: &Start) -> Outcome<(Slot, TokenInfo)> {
    let slots = context.get_slots_with_token().map_err(|error| Trouble::of(&error))?;
    let mut found = Vec::new();
    for slot in slots {
        // A reader without a readable card is no reason to give up the others.
        let Ok(info) = context.get_token_info(slot) else { continue };
        let label = start.label.is_empty() || info.label() == start.label;
        let serial = start.serial.is_empty() || info.serial_number() == start.serial;
        if label && serial && info.token_initialized() {
            found.push((slot, info));
        }
    }
    let named = format!("label {:?}, serial {:?}", start.label, start.serial);
    match found.len() {
        0 => Err(Trouble::gone(format!("no token is there with {named}"))),
        1 => found.pop().ok_or_else(|| Trouble::gone("no token is there")),
        _ => Err(Trouble::refused(format!("several tokens are there with {named}; name one by its serial"))),
    }
}

fn template(class: ObjectClass, object: &Object) -> Vec<Attribute> {
    let mut template = vec![Attribute::Class(class), Attribute::Token(true)];
    if !object.id.is_empty() {
        template.push(Attribute::Id(object.id.clone()));
    }
    if !object.label.is_empty() {
        template.push(Attribute::Label(object.label.clone()));
    }
    template
}

fn shown(object: &Object) -> String {
    let id = sealwright_crypto::digest::to_hex(&object.id);
    format!("(label {:?}, id {id})", String::from_utf8_lossy(&object.label))
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

    #[test]
    fn a_refused_pin_is_told_from_a_token_that_is_gone_and_from_one_that_does_not_do_this() {
        use cryptoki::context::Function;
        let kind = |code| Trouble::of(&Ck::Pkcs11(code, Function::Login));
        for code in [RvError::PinIncorrect, RvError::PinLocked, RvError::PinExpired] {
            assert_eq!(kind(code).kind, Failed::Pin);
        }
        assert_eq!(kind(RvError::DeviceRemoved).kind, Failed::Gone);
        assert_eq!(kind(RvError::MechanismInvalid).kind, Failed::Refused);
        assert!(kind(RvError::SessionCount).no_session && kind(RvError::GeneralError).unclear);
    }
}
