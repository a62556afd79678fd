//! What `verify` and `inspect` say about a file.

use sealwright_crypto::openpgp::certificate::Keyring;
use sealwright_crypto::openpgp::packet::SignaturePacket;
use sealwright_crypto::openpgp::verify::{Outcome, State};

/// What a verification may take into account.
pub struct VerifyContext<'a> {
    /// The certificates that count.
    pub keyring: &'a Keyring,
    /// Unix seconds: a signature dated after it is from the future.
    pub now: i64,
    /// The signature file beside it, for formats without embedded signatures.
    pub sidecar: Option<&'a [u8]>,
}

/// All that was found out about a file.
#[derive(Debug)]
pub struct Verification {
    /// Each signature with its state.
    pub signatures: Vec<SignatureReport>,
    /// Each digest of the file's own.
    pub digests: Vec<DigestReport>,
}

impl Verification {
    /// One state for the file: the worst that is there; a wrong digest counts as bad; no signature at all is
    /// unsigned. Only [`State::Valid`] is success.
    #[must_use]
    pub fn state(&self) -> State {
        if self.digests.iter().any(|digest| digest.state == DigestState::Wrong) {
            return State::Bad;
        }
        self.signatures.iter().map(|signature| signature.state).max().unwrap_or(State::Unsigned)
    }
}

/// One signature of a file.
#[derive(Clone, Debug)]
pub struct SignatureReport {
    /// Where it sits: `RSAHEADER (268)`, `OPENPGP (278) #2`, `detached`.
    pub place: String,
    /// Its state against the keyring; [`State::Unsigned`] never occurs here. For `inspect` it is
    /// [`State::UnknownKey`] unless the packet is malformed or weak by itself.
    pub state: State,
    /// OpenPGP signature version, 0 if it could not be read: then nothing below is known either, and
    /// [`Self::made`] says so.
    pub version: u8,
    /// `RSA`, `EdDSA`, `DSA` ...
    pub key_algorithm: String,
    /// `SHA256`, `SHA1` ...
    pub hash: String,
    /// Issuer fingerprint (or key id where there is no fingerprint) in lower-case hexadecimal.
    pub issuer: String,
    /// Unix seconds.
    pub created: Option<i64>,
    /// First user id of the certificate that matched, if one did.
    pub user_id: Option<String>,
    /// For a person: why the state is what it is.
    pub detail: Option<String>,
}

impl SignatureReport {
    /// What is to be said of a packet that could be read.
    #[must_use]
    pub fn new(place: String, packet: &SignaturePacket, outcome: Outcome) -> Self {
        Self {
            place,
            state: outcome.state,
            version: packet.version(),
            key_algorithm: packet.key_algorithm_name(),
            hash: packet.hash_name(),
            issuer: packet.issuer_hex(),
            created: packet.created().map(i64::from),
            user_id: outcome.user_id,
            detail: outcome.detail,
        }
    }

    /// What a packet says by itself: that it is weak, or nothing; whose it is needs a keyring.
    #[must_use]
    pub fn unchecked(place: String, packet: &SignaturePacket) -> Self {
        let outcome = match packet.is_weak() {
            Some(why) => Outcome::not_valid(State::Weak, why),
            None => Outcome::not_valid(State::UnknownKey, "not checked"),
        };
        Self::new(place, packet, outcome)
    }

    /// For a person: `v4 rsa/sha256 by 0123...`, or `unreadable`.
    #[must_use]
    pub fn made(&self) -> String {
        let Self { version, key_algorithm, hash, issuer, .. } = self;
        match (version, issuer.as_str()) {
            (0, _) => "unreadable".to_owned(),
            (_, "") => format!("v{version} {key_algorithm}/{hash} by a key that it does not name"),
            (_, issuer) => format!("v{version} {key_algorithm}/{hash} by {issuer}"),
        }
    }

    /// What is to be said of something that is no signature packet.
    #[must_use]
    pub const fn unreadable(place: String, reason: String) -> Self {
        Self {
            place,
            state: State::Malformed,
            version: 0,
            key_algorithm: String::new(),
            hash: String::new(),
            issuer: String::new(),
            created: None,
            user_id: None,
            detail: Some(reason),
        }
    }
}

/// One digest or size that a file records about itself.
#[derive(Clone, Debug)]
pub struct DigestReport {
    /// `header SHA-256`, `payload size`.
    pub what: &'static str,
    /// What came out.
    pub state: DigestState,
}

/// What came out of a digest check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DigestState {
    /// As recorded.
    Right,
    /// Differs.
    Wrong,
    /// Recorded but not computed (the payload was not read, or it covers the uncompressed payload).
    NotChecked,
}

/// What a file says about itself.
#[derive(Debug)]
pub struct Inspection {
    /// Facts in order of display: ("name", "hello"), ("rpm format", "4"), ("reserve", "4128").
    pub facts: Vec<(&'static str, String)>,
    /// The signatures.
    pub signatures: Vec<SignatureReport>,
    /// The digests, not checked unless they cover the headers.
    pub digests: Vec<DigestReport>,
}
