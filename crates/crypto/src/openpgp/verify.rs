//! Checking a signature over data against a keyring (RFC 9580 section 5.2.4). The clock is an argument; whoever
//! calls hashes the content (version 6: the salt first), this module hashes the trailer.
//!
//! The order of the checks is the order of the questions a person asks: whose is it, is it of a kind that counts,
//! was it made at a time when it counts, and only then: does it fit the content.

use crate::digest::{Digest, Hasher};
use crate::openpgp::certificate::{Certificate, Keyring};
use crate::openpgp::component::Component;
use crate::openpgp::fingerprint::Fingerprint;
use crate::openpgp::packet::SignaturePacket;
use crate::openpgp::signature::DataKind;

/// What is to be said of one signature. The order is how bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum State {
    /// It fits the content, and its key was valid and is in the keyring.
    Valid,
    /// There is none.
    Unsigned,
    /// No key of the keyring made it, or the key is not bound to a certificate.
    UnknownKey,
    /// It was made after now: a clock is wrong.
    Future,
    /// The key had expired or was revoked when it was made, or the signature itself has ended.
    Expired,
    /// Its hash or key algorithm is weak, or not one that we check.
    Weak,
    /// The signature packet breaks the rules of its format.
    Malformed,
    /// It does not fit the content, or it is no signature over data.
    Bad,
}

impl State {
    /// All of them, from good to bad.
    pub const ALL: [Self; 8] = [
        Self::Valid,
        Self::Unsigned,
        Self::UnknownKey,
        Self::Future,
        Self::Expired,
        Self::Weak,
        Self::Malformed,
        Self::Bad,
    ];

    /// The name in messages and JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Valid => "valid",
            Self::Unsigned => "unsigned",
            Self::UnknownKey => "unknown-key",
            Self::Future => "future",
            Self::Expired => "expired",
            Self::Weak => "weak",
            Self::Malformed => "malformed",
            Self::Bad => "bad",
        }
    }
}

/// The result of a check, with what a person needs to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// In one word.
    pub state: State,
    /// Why, in a clause; nothing if it is valid.
    pub detail: Option<String>,
    /// The primary user id of the certificate, if the key is known.
    pub user_id: Option<String>,
    /// The proof, exactly if the state is [`State::Valid`].
    pub verified: Option<Verified>,
}

/// Proof that a signature was checked and is good. Only [`verify_kind`] makes one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verified {
    component: Fingerprint,
    certificate: Fingerprint,
    created: u32,
    digest: Digest,
}

impl Verified {
    /// The key that made it.
    #[must_use]
    pub const fn component(&self) -> Fingerprint {
        self.component
    }

    /// The primary key of its certificate.
    #[must_use]
    pub const fn certificate(&self) -> Fingerprint {
        self.certificate
    }

    /// When it was made, Unix seconds.
    #[must_use]
    pub const fn created(&self) -> u32 {
        self.created
    }

    /// What was signed: content and trailer.
    #[must_use]
    pub const fn digest(&self) -> Digest {
        self.digest
    }
}

impl Outcome {
    /// An outcome other than valid.
    #[must_use]
    pub fn not_valid(state: State, detail: impl Into<String>) -> Self {
        let state = if state == State::Valid { State::Bad } else { state };
        Self { state, detail: Some(detail.into()), user_id: None, verified: None }
    }
}

/// Checks `packet` over the content that `content` has hashed (with the packet's hash; version 6: its salt first).
/// `now` is in Unix seconds.
#[must_use]
pub fn verify(packet: &SignaturePacket, content: &Hasher, keyring: &Keyring, now: i64) -> Outcome {
    verify_kind(DataKind::Binary, packet, content, keyring, now)
}

/// As [`verify`], for a signature of the type that fits where it was found: one over text proves nothing of bytes, nor the
/// other way round.
#[must_use]
pub fn verify_kind(
    kind: DataKind,
    packet: &SignaturePacket,
    content: &Hasher,
    keyring: &Keyring,
    now: i64,
) -> Outcome {
    let Candidate { certificate, component, created } = match resolve(kind, packet, keyring, now) {
        Ok(candidate) => candidate,
        Err(refusal) => return refusal.into_outcome(),
    };
    let bad = |detail: &str| Refusal::new(State::Bad, detail).of(certificate).into_outcome();
    if packet.hash() != Some(content.hash()) {
        return bad("the content was hashed with another algorithm than the signature's");
    }
    let mut hasher = content.clone();
    hasher.update(&packet.trailer());
    let digest = hasher.finish();
    if !digest.as_bytes().starts_with(&packet.digest_prefix()) {
        return bad("the content differs from what was signed");
    }
    if !component.verify_digest(content.hash(), digest.as_bytes(), &packet.signature_bytes()) {
        return bad("the key did not make this signature");
    }
    Outcome {
        state: State::Valid,
        detail: None,
        user_id: certificate.primary_user_id().map(str::to_owned),
        verified: Some(Verified {
            component: component.fingerprint(),
            certificate: certificate.fingerprint(),
            created,
            digest,
        }),
    }
}

/// The outcome, if it does not depend on the content; `None` means: hash the content with
/// [`SignaturePacket::hash`], then [`verify`]. `now` is in Unix seconds.
#[must_use]
pub fn preflight(packet: &SignaturePacket, keyring: &Keyring, now: i64) -> Option<Outcome> {
    preflight_kind(DataKind::Binary, packet, keyring, now)
}

/// As [`preflight`], for [`verify_kind`].
#[must_use]
pub fn preflight_kind(
    kind: DataKind,
    packet: &SignaturePacket,
    keyring: &Keyring,
    now: i64,
) -> Option<Outcome> {
    resolve(kind, packet, keyring, now).err().map(Refusal::into_outcome)
}

/// Who to check with, if only the content is missing for an answer.
struct Candidate<'a> {
    certificate: &'a Certificate,
    component: &'a Component,
    created: u32,
}

/// An answer that needs no content.
struct Refusal<'a> {
    state: State,
    detail: String,
    certificate: Option<&'a Certificate>,
    /// A keyring may hold several copies of one certificate, older and newer: a renewal in another copy may undo an
    /// expiry, but nothing undoes a revocation.
    is_final: bool,
}

impl<'a> Refusal<'a> {
    fn new(state: State, detail: impl Into<String>) -> Self {
        Self { state, detail: detail.into(), certificate: None, is_final: false }
    }

    const fn of(mut self, certificate: &'a Certificate) -> Self {
        self.certificate = Some(certificate);
        self
    }

    fn into_outcome(self) -> Outcome {
        let user_id = self.certificate.and_then(Certificate::primary_user_id).map(str::to_owned);
        Outcome { user_id, ..Outcome::not_valid(self.state, self.detail) }
    }
}

/// The least bad of what all matching components say.
fn resolve<'a>(
    kind: DataKind,
    packet: &SignaturePacket,
    keyring: &'a Keyring,
    now: i64,
) -> Result<Candidate<'a>, Refusal<'a>> {
    let mut best = None;
    let mut least: Option<Refusal<'a>> = None;
    for (certificate, component) in keyring.candidates(packet) {
        match judge(kind, packet, component, now) {
            Ok(created) => best = best.or(Some(Candidate { certificate, component, created })),
            Err(refusal) if refusal.is_final => return Err(refusal.of(certificate)),
            Err(refusal) if least.as_ref().is_none_or(|old| refusal.state < old.state) => {
                least = Some(refusal.of(certificate));
            }
            Err(_) => {}
        }
    }
    best.ok_or_else(|| least.unwrap_or_else(|| unknown_key(packet)))
}

fn unknown_key(packet: &SignaturePacket) -> Refusal<'static> {
    let issuer = packet.issuer_hex();
    if issuer.is_empty() {
        Refusal::new(State::UnknownKey, "the signature does not say which key made it")
    } else {
        Refusal::new(State::UnknownKey, format!("key {issuer} is not in the keyring"))
    }
}

/// What can be said of `packet` if `component` made it; the creation time if nothing is against it.
fn judge(
    kind: DataKind,
    packet: &SignaturePacket,
    component: &Component,
    now: i64,
) -> Result<u32, Refusal<'static>> {
    let refuse = |state, detail: String| Err(Refusal::new(state, detail));
    let key = component.fingerprint();
    if let Some(weak) = packet.is_weak().or_else(|| component.weak().map(str::to_owned)) {
        return refuse(State::Weak, weak);
    }
    if packet.hash().is_none() {
        return refuse(State::Weak, format!("{} is not a hash that Sealwright checks", packet.hash_name()));
    }
    if let Some(unchecked) = component.unchecked() {
        return refuse(State::Weak, format!("{} key {key}: {unchecked}", component.algorithm_name()));
    }
    if let Some(problem) = component.binding_problem() {
        return refuse(State::UnknownKey, format!("key {key}: {problem}"));
    }
    if packet.signature_type() != kind.signature_type() {
        return refuse(State::Bad, wrong_type(kind, packet.signature_type()));
    }
    if !component.can_have_made(packet) {
        let (version, its) = (packet.version(), packet.key_algorithm_name());
        let own = component.algorithm_name();
        return refuse(
            State::Bad,
            format!("{own} key {key} cannot have made a version {version} {its} signature"),
        );
    }
    if let Some(kind) = packet.critical_unknown() {
        return refuse(State::Bad, format!("its critical subpacket {kind} is not understood"));
    }
    if !component.can_sign() {
        return refuse(State::Bad, format!("key {key} is not meant for signing data"));
    }
    judge_time(packet, component, now)
}

fn wrong_type(kind: DataKind, found: u8) -> String {
    let wanted = match kind {
        DataKind::Binary => "one over data (0x00)",
        DataKind::Text => "one over text (0x01)",
    };
    format!("it is a signature of type {found:#04x}, not {wanted}")
}

fn judge_time(packet: &SignaturePacket, component: &Component, now: i64) -> Result<u32, Refusal<'static>> {
    let refuse = |state, detail: String| Err(Refusal::new(state, detail));
    let Some(created) = packet.created() else {
        return refuse(State::Malformed, "it has no creation time".to_owned());
    };
    let at = i64::from(created);
    let key = component.fingerprint();
    if at > now {
        let ahead = at.saturating_sub(now);
        return refuse(State::Future, format!("it was made {ahead} seconds after this machine's clock"));
    }
    if let Some(revocation) = component.revoked_at(at) {
        let revoked = revocation.created;
        let detail = if revocation.hard {
            format!("key {key} was revoked at {revoked}: nothing that it signed counts")
        } else {
            format!("key {key} was revoked at {revoked}, and signed this at {at}")
        };
        return Err(Refusal { is_final: true, ..Refusal::new(State::Expired, detail) });
    }
    if component.expired_at(at) {
        let end = component.expires().unwrap_or_default();
        return refuse(State::Expired, format!("key {key} expired at {end}, and signed this at {at}"));
    }
    if at < i64::from(component.created()) {
        let born = component.created();
        return refuse(State::Bad, format!("it was made at {at}, before its key {key} (created {born})"));
    }
    if let Some(end) = packet.expires().filter(|end| *end <= now) {
        return refuse(State::Expired, format!("the signature itself ended at {end}"));
    }
    Ok(created)
}
