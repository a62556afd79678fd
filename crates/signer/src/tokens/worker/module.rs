//! What is asked of a PKCS#11 module (PKCS #11 version 2.40 and later): one token, one login, private keys that are found
//! once. Errors become one of three kinds: the PIN was refused, the token is gone, or it does not do this.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use cryptoki::context::{CInitializeArgs, CInitializeFlags, Pkcs11};
use cryptoki::error::{Error as Ck, RvError};
use cryptoki::mechanism::Mechanism;
use cryptoki::mechanism::eddsa::{EddsaParams, EddsaSignatureScheme};
use cryptoki::object::{Attribute, ObjectClass, ObjectHandle};
use cryptoki::session::{Session, UserType};
use cryptoki::slot::{Slot, TokenInfo};
use cryptoki::types::RawAuthPin;
use sealwright_proto::token_v1::from_worker::Response;
use sealwright_proto::token_v1::to_worker::Request;
use sealwright_proto::token_v1::{Failed, FoundKey, Generate, Mechanism as Asked, Object, Sign, Start};

use super::described::{Described, ED25519_OID};
use crate::secret::Secret;

/// Handles of keys that are kept; more are found anew.
const HANDLES_MAX: usize = 1024;
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

    pub(super) fn refused(message: impl Into<String>) -> Self {
        Self { kind: Failed::Refused, ..Self::gone(message) }
    }

    /// PKCS #11 version 2.40 section 5.1.
    #[expect(clippy::wildcard_enum_match_arm, reason = "a hundred codes of others; new ones are refusals")]
    fn of(error: &Ck) -> Self {
        let Ck::Pkcs11(code, function) = error else { return Self::refused(error.to_string()) };
        let message = format!("{function}: {code:?}");
        if PIN_REFUSED.contains(code) {
            return Self { kind: Failed::Pin, ..Self::gone(message) };
        }
        match code {
            RvError::SessionCount => Self { no_session: true, ..Self::gone(message) },
            RvError::GeneralError | RvError::FunctionFailed => Self { unclear: true, ..Self::gone(message) },
            code if GONE.contains(code) => Self::gone(message),
            _ => Self::refused(message),
        }
    }
}

/// The token refuses the PIN, and counts.
const PIN_REFUSED: [RvError; 6] = [
    RvError::PinIncorrect,
    RvError::PinInvalid,
    RvError::PinLenRange,
    RvError::PinExpired,
    RvError::PinLocked,
    RvError::UserPinNotInitialized,
];

/// Nothing can be done in this process any more.
const GONE: [RvError; 11] = [
    RvError::DeviceRemoved,
    RvError::DeviceError,
    RvError::DeviceMemory,
    RvError::HostMemory,
    RvError::TokenNotPresent,
    RvError::TokenNotRecognized,
    RvError::SlotIdInvalid,
    RvError::CryptokiNotInitialized,
    RvError::SessionHandleInvalid,
    RvError::SessionClosed,
    RvError::UserNotLoggedIn,
];

/// What can be mended at once.
enum Mend {
    LogIn,
    OpenSession,
    FindKey,
}

impl Mend {
    #[expect(clippy::wildcard_enum_match_arm, reason = "of a hundred codes, these")]
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

pub(super) type Outcome<T> = Result<T, Trouble>;

/// CKA_ID and CKA_LABEL.
type Name = (Vec<u8>, Vec<u8>);

/// A loaded module with its token.
pub(super) struct Module {
    context: Pkcs11,
    slot: Slot,
    info: TokenInfo,
    pin: Secret,
    /// All sessions of a process share one login (PKCS #11 section 5.6.8).
    logged_in: Mutex<bool>,
    handles: Mutex<HashMap<Name, ObjectHandle>>,
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

pub(super) fn template(class: ObjectClass, object: &Object) -> Vec<Attribute> {
    let mut template = vec![Attribute::Class(class), Attribute::Token(true)];
    if !object.id.is_empty() {
        template.push(Attribute::Id(object.id.clone()));
    }
    if !object.label.is_empty() {
        template.push(Attribute::Label(object.label.clone()));
    }
    template
}

pub(super) fn shown(object: &Object) -> String {
    let id = sealwright_crypto::digest::to_hex(&object.id);
    format!("(label {:?}, id {id})", String::from_utf8_lossy(&object.label))
}

#[cfg(test)]
mod tests {
    use super::*;

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
