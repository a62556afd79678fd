//! Key administration calls, and the key as the client sees it: public facts only.

use std::time::{Duration, Instant};

use sealwright_crypto::algorithm::KeyVersion;
use sealwright_crypto::openpgp::certificate::Certificate;
use sealwright_crypto::openpgp::fingerprint::Fingerprint;
use sealwright_crypto::usage::Usage;
use sealwright_proto::limits;
use sealwright_proto::names::BackendName;
use sealwright_proto::v1;
use sealwright_proto::v1::keys_client::KeysClient;
use tonic::transport::Channel;
use tonic::{Request, Response, Status};

use crate::connection::stream::{from_status, no_answer};
use crate::connection::{Connection, PATIENCE, retry_of, trace};
use crate::error::{Code, Error};
use crate::import::{self, Secret};

/// How long a call may take: making an RSA key takes seconds on a slow machine.
const CALL_MAX: Duration = Duration::from_millis(limits::DEADLINE_MS_MAX as u64);

/// Keys that [`Connection::list`] takes from a server at most: more is not a listing for a person.
const KEYS_MAX: usize = 100_000;

/// Whether a key signs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyState {
    /// It does.
    Enabled,
    /// Switched off by the operator.
    Disabled,
}

impl KeyState {
    /// The word in lists and JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Enabled => "enabled",
            Self::Disabled => "disabled",
        }
    }
}

/// A key as the server describes it. The certificate is what counts; the texts are for display.
#[derive(Clone, Debug)]
pub struct Key {
    /// UUID, 16 bytes.
    pub id: [u8; 16],
    /// Name.
    pub name: String,
    /// Whether it signs.
    pub state: KeyState,
    /// `rsa4096`, `ed25519`: of the component that signs.
    pub algorithm: String,
    /// Fingerprint of the primary key, lower-case hexadecimal.
    pub fingerprint: String,
    /// Fingerprint of the component that signs.
    pub signing_fingerprint: String,
    /// First user id.
    pub user_id: String,
    /// Unix seconds.
    pub created: i64,
    /// Unix seconds; `None`: no expiry.
    pub expires: Option<i64>,
    /// Counts the changes of the sealed key.
    pub generation: u32,
    /// Transferable public key, binary.
    pub certificate: Vec<u8>,
    /// Whether its validity can be extended here.
    pub renewable: bool,
    /// Where its private key is: `software`, `pkcs11:TOKEN`.
    pub backend: String,
    /// What it is sealed for, by name; what this release does not know by number.
    pub usages: Vec<String>,
    /// Armored revocation certificate; only right after creation.
    pub revocation: String,
    /// What a user should know.
    pub warnings: Vec<String>,
}

impl Key {
    fn parse(wire: v1::Key) -> Result<Self, Error> {
        if wire.certificate.len() > limits::CERTIFICATE_BYTES_MAX {
            return Err(Error::BadAnswer { what: "a certificate above the limit" });
        }
        let id =
            wire.id.try_into().map_err(|_| Error::BadAnswer { what: "a key id that has not 16 bytes" })?;
        let state = match v1::KeyState::try_from(wire.state) {
            Ok(v1::KeyState::Enabled) => KeyState::Enabled,
            Ok(v1::KeyState::Disabled) => KeyState::Disabled,
            Ok(v1::KeyState::Unspecified) | Err(_) => {
                return Err(Error::BadAnswer { what: "a key state that this release does not know" });
            }
        };
        Ok(Self {
            id,
            name: wire.name,
            state,
            algorithm: wire.algorithm,
            fingerprint: wire.fingerprint,
            signing_fingerprint: wire.signing_fingerprint,
            user_id: wire.user_id,
            created: wire.created,
            expires: wire.expires,
            generation: wire.generation,
            certificate: wire.certificate,
            renewable: wire.renewable,
            backend: BackendName::parse(&wire.backend)
                .map_err(|_| Error::BadAnswer { what: "a name of a backend that is none" })?
                .as_str()
                .to_owned(),
            usages: wire.usages.into_iter().map(usage_name).collect(),
            revocation: wire.revocation,
            warnings: wire.warnings,
        })
    }

    /// Version of the OpenPGP key, 4 or 6, by the length of its fingerprint (RFC 9580 section 5.5.4); for display.
    #[must_use]
    pub const fn openpgp_version(&self) -> u8 {
        if self.fingerprint.len() == 64 { 6 } else { 4 }
    }

    /// The certificate, parsed; the signing component must be in it.
    ///
    /// # Errors
    /// The bytes are no certificate, or have no such component.
    pub fn parse_certificate(&self) -> Result<(Certificate, Fingerprint), Error> {
        let bad = |source| Error::BadAnswerBytes { what: "certificate", source };
        let certificate = Certificate::parse(&self.certificate).map_err(bad)?;
        let issuer = Fingerprint::from_hex(&self.signing_fingerprint).map_err(bad)?;
        if certificate.components().iter().any(|component| component.fingerprint() == issuer) {
            Ok((certificate, issuer))
        } else {
            Err(Error::BadAnswer { what: "a certificate without the key that signs" })
        }
    }
}

fn usage_name(id: u32) -> String {
    Usage::from_id(id).map_or_else(|_| format!("usage {id}"), |usage| usage.name().to_owned())
}

/// What a new key shall be.
#[derive(Clone, Debug)]
pub struct NewKey {
    /// Name, never used before.
    pub name: String,
    /// `rsa2048`, `rsa3072`, `rsa4096`, `ed25519`; empty for a key that is taken over.
    pub algorithm: String,
    /// `Name <mail>`.
    pub user_id: String,
    /// Seconds from now; `None`: no expiry.
    pub valid_for_s: Option<u64>,
    /// A subkey signs, the primary key only certifies.
    pub signing_subkey: bool,
    /// Of the OpenPGP key.
    pub version: KeyVersion,
    /// The token that has, or shall have, its private key.
    pub token: Option<Token>,
    /// What it is sealed for.
    pub usages: Vec<Usage>,
    /// It may be sealed for bare digests though it is a primary key, which can certify.
    pub bare_digests_on_primary: bool,
}

/// A token of the installation, and a key on it.
#[derive(Clone, Debug, Default)]
pub struct Token {
    /// As the installation names it.
    pub name: String,
    /// CKA_LABEL of a key that is taken over; empty with an empty id: a new key is made.
    pub label: String,
    /// CKA_ID, likewise.
    pub id: Vec<u8>,
}

/// Whether a call can be made a second time when nobody knows what became of the first.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Repeat {
    /// It only looks, or sets what it set before.
    Harmless,
    /// The same, and files wait for it.
    ForFiles,
    /// Only if the server said that it did nothing, or was never reached.
    OnlyIfRefused,
}

/// How often a call is made.
const CALLS_MAX: u32 = 4;
/// After this no further one begins, unless files wait for it and a server without room said when to come again: who waits
/// for others is often a person.
const CALLS_WITHIN: Duration = Duration::from_secs(4);

impl Connection {
    /// Makes a key.
    ///
    /// # Errors
    /// The server's refusal, or a lost connection.
    pub async fn create(&self, new: NewKey) -> Result<Key, Error> {
        let token = new.token.unwrap_or_default();
        let request = v1::CreateKeyRequest {
            token: token.name,
            object_label: token.label,
            object_id: token.id,
            name: new.name,
            algorithm: new.algorithm,
            user_id: new.user_id,
            valid_for_s: new.valid_for_s,
            signing_subkey: new.signing_subkey,
            openpgp_version: new.version.number().into(),
            usages: new.usages.iter().map(|usage| usage.id().into()).collect(),
            bare_digests_on_primary: new.bare_digests_on_primary,
        };
        let call = async |channel, request| service(channel).create(request).await;
        Key::parse(self.call(Repeat::OnlyIfRefused, request, call).await?)
    }

    /// All keys, in order of their names.
    ///
    /// # Errors
    /// The server's refusal, or a lost connection.
    pub async fn list(&self) -> Result<Vec<Key>, Error> {
        let mut keys: Vec<Key> = Vec::new();
        loop {
            let after = keys.last().map(|key| key.name.clone()).unwrap_or_default();
            let request = v1::ListKeysRequest { after, limit: 0 };
            let call = async |channel, request| service(channel).list(request).await;
            let page = self.call(Repeat::Harmless, request, call).await?;
            let progress = !page.keys.is_empty();
            for key in page.keys {
                keys.push(Key::parse(key)?);
            }
            if !page.more {
                return Ok(keys);
            }
            if !progress || keys.len() > KEYS_MAX {
                return Err(Error::BadAnswer { what: "a listing of keys without an end" });
            }
        }
    }

    /// One key, by name or fingerprint.
    ///
    /// # Errors
    /// There is none, or a lost connection.
    pub async fn describe(&self, key: &str) -> Result<Key, Error> {
        let request = v1::DescribeKeyRequest { key: key.to_owned() };
        let call = async |channel, request| service(channel).describe(request).await;
        Key::parse(self.call(Repeat::ForFiles, request, call).await?)
    }

    /// Imports a secret key; it travels encrypted to the signer process.
    ///
    /// # Errors
    /// The signer refuses the key, or a lost connection.
    pub async fn import(&self, name: &str, secret: Secret) -> Result<Key, Error> {
        let call = async |channel, request| service(channel).begin_import(request).await;
        let begun = self.call(Repeat::Harmless, v1::BeginImportRequest {}, call).await?;
        let sealed = import::encrypt(&secret, name, &begun.hpke_public_key)?;
        let usages = secret.usages();
        drop(secret);
        let request = v1::ImportKeyRequest {
            name: name.to_owned(),
            encapsulated_key: sealed.encapsulated_key,
            ciphertext: sealed.ciphertext,
            usages,
        };
        let call = async |channel, request| service(channel).import(request).await;
        let answer = self.call(Repeat::OnlyIfRefused, request, call).await?;
        Key::parse(answer.key.ok_or(Error::BadAnswer { what: "an import without a key" })?)
    }

    /// Gives a key a new period of validity.
    ///
    /// # Errors
    /// The primary secret is not there, or a lost connection.
    pub async fn renew(&self, key: &str, valid_for_s: Option<u64>) -> Result<Key, Error> {
        let request = v1::RenewKeyRequest { key: key.to_owned(), valid_for_s };
        let call = async |channel, request| service(channel).renew(request).await;
        Key::parse(self.call(Repeat::OnlyIfRefused, request, call).await?)
    }

    /// Switches a key on or off.
    ///
    /// # Errors
    /// There is none, or a lost connection.
    pub async fn set_state(&self, key: &str, state: KeyState) -> Result<Key, Error> {
        let state = match state {
            KeyState::Enabled => v1::KeyState::Enabled,
            KeyState::Disabled => v1::KeyState::Disabled,
        };
        let request = v1::SetKeyStateRequest { key: key.to_owned(), state: state.into() };
        let call = async |channel, request| service(channel).set_state(request).await;
        Key::parse(self.call(Repeat::Harmless, request, call).await?)
    }

    /// One call of any service, and again where that can help and does no harm.
    pub(super) async fn call<Q: Clone, A>(
        &self,
        repeat: Repeat,
        message: Q,
        call: impl AsyncFn(Channel, Request<Q>) -> Result<Response<A>, Status>,
    ) -> Result<A, Error> {
        let mut attempt = 1;
        let begun = Instant::now();
        loop {
            let error = match self.call_once(message.clone(), &call).await {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            let unknown = matches!(error, Error::ConnectionLost { .. })
                || error
                    .server_code()
                    .is_some_and(|code| !matches!(code, Code::ShuttingDown | Code::Overloaded));
            // It was told when to come again: that is waited for as long as for a file.
            let is_told = repeat == Repeat::ForFiles && error.server_code() == Some(Code::Overloaded);
            let in_time = if is_told {
                begun.elapsed() < PATIENCE
            } else {
                attempt < CALLS_MAX && begun.elapsed() < CALLS_WITHIN
            };
            let again = retry_of(&error).filter(|_| {
                self.lines.is_remote() && in_time && (repeat != Repeat::OnlyIfRefused || !unknown)
            });
            let Some(again) = again else { return Err(error.with_time()) };
            tokio::time::sleep(again.wait(attempt)).await;
            attempt = attempt.saturating_add(1);
        }
    }

    async fn call_once<Q, A>(
        &self,
        message: Q,
        call: &impl AsyncFn(Channel, Request<Q>) -> Result<Response<A>, Status>,
    ) -> Result<A, Error> {
        let line = self.lines.line().await?;
        let request = trace::request(line.trace, message);
        let outcome = match tokio::time::timeout(CALL_MAX, call(line.channel.clone(), request)).await {
            Ok(outcome) => outcome.map(Response::into_inner).map_err(from_status),
            Err(_) => Err(no_answer(CALL_MAX)),
        };
        if let Err(error) = &outcome {
            self.lines.learn(&line, error).await;
        }
        outcome
    }
}

fn service(channel: Channel) -> KeysClient<Channel> {
    KeysClient::new(channel)
        .max_decoding_message_size(limits::GRPC_MESSAGE_BYTES_MAX)
        .max_encoding_message_size(limits::GRPC_MESSAGE_BYTES_MAX)
}
