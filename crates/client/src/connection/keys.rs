//! Key administration calls, and the key as the client sees it: public facts only.

use sealwright_crypto::algorithm::KeyVersion;
use sealwright_crypto::openpgp::certificate::Certificate;
use sealwright_crypto::openpgp::fingerprint::Fingerprint;
use sealwright_proto::limits;
use sealwright_proto::v1;
use sealwright_proto::v1::keys_client::KeysClient;
use tonic::transport::Channel;

use crate::connection::Connection;
use crate::connection::stream::from_status;
use crate::error::Error;
use crate::import::{self, Secret};

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

/// What a new key shall be.
#[derive(Clone, Debug)]
pub struct NewKey {
    /// Name, never used before.
    pub name: String,
    /// `rsa2048`, `rsa3072`, `rsa4096`, `ed25519`.
    pub algorithm: String,
    /// `Name <mail>`.
    pub user_id: String,
    /// Seconds from now; `None`: no expiry.
    pub valid_for_s: Option<u64>,
    /// A subkey signs, the primary key only certifies.
    pub signing_subkey: bool,
    /// Of the OpenPGP key.
    pub version: KeyVersion,
}

impl Connection {
    /// Makes a key.
    ///
    /// # Errors
    /// The server's refusal, or a lost connection.
    pub async fn create(&self, new: NewKey) -> Result<Key, Error> {
        let request = v1::CreateKeyRequest {
            name: new.name,
            algorithm: new.algorithm,
            user_id: new.user_id,
            valid_for_s: new.valid_for_s,
            signing_subkey: new.signing_subkey,
            openpgp_version: new.version.number().into(),
        };
        Key::parse(self.keys().create(request).await.map_err(from_status)?.into_inner())
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
            let page = self.keys().list(request).await.map_err(from_status)?.into_inner();
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
        Key::parse(self.keys().describe(request).await.map_err(from_status)?.into_inner())
    }

    /// Imports a secret key; it travels encrypted to the signer process.
    ///
    /// # Errors
    /// The signer refuses the key, or a lost connection.
    pub async fn import(&self, name: &str, secret: Secret) -> Result<Key, Error> {
        let begun = self.keys().begin_import(v1::BeginImportRequest {}).await.map_err(from_status)?;
        let sealed = import::encrypt(&secret, name, &begun.into_inner().hpke_public_key)?;
        drop(secret);
        let request = v1::ImportKeyRequest {
            name: name.to_owned(),
            encapsulated_key: sealed.encapsulated_key,
            ciphertext: sealed.ciphertext,
        };
        let answer = self.keys().import(request).await.map_err(from_status)?.into_inner();
        Key::parse(answer.key.ok_or(Error::BadAnswer { what: "an import without a key" })?)
    }

    /// Gives a key a new period of validity.
    ///
    /// # Errors
    /// The primary secret is not there, or a lost connection.
    pub async fn renew(&self, key: &str, valid_for_s: Option<u64>) -> Result<Key, Error> {
        let request = v1::RenewKeyRequest { key: key.to_owned(), valid_for_s };
        Key::parse(self.keys().renew(request).await.map_err(from_status)?.into_inner())
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
        Key::parse(self.keys().set_state(request).await.map_err(from_status)?.into_inner())
    }

    fn keys(&self) -> KeysClient<Channel> {
        KeysClient::new(self.channel.clone())
            .max_decoding_message_size(limits::GRPC_MESSAGE_BYTES_MAX)
            .max_encoding_message_size(limits::GRPC_MESSAGE_BYTES_MAX)
    }
}
