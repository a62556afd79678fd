//! From a request to its reply: the decisions in `signd`'s order, since a client sees which text comes first.

use std::sync::Arc;
use std::time::Instant;

use sealwright_crypto::algorithm::KeyAlgorithm;
use sealwright_crypto::openpgp::armor;
use sealwright_obs::packet::{self, probe_answer, version_3_len_max};
use sealwright_obs::{Command, DigestArgument, Form, Refusal, Reply, Request, Verb, framing};
use sealwright_proto::names::{KeyName, KeyReference};
use sealwright_proto::status::{Code, Fault};

use super::{Inner, make, project, sign};
use crate::authn::Caller;
use crate::keys;
use crate::policy::{self, ObsGrant, Principal};
use crate::registry::Entry;
use crate::sign::turned_away;

/// Why there is no result. Display is what the client reads.
#[derive(Debug, thiserror::Error)]
pub(super) enum No {
    /// Of the protocol.
    #[error(transparent)]
    Refusal(#[from] Refusal),
    /// Of the front, as the client may read it.
    #[error("{}", text(.0))]
    Fault(Fault),
    /// The same of a request on the way of signatures, where it has got its line.
    #[error("{}", text(.0))]
    Answered(Fault),
    /// A client has no grant for a thing that the protocol has.
    #[error("{client} has no grant for {what} over this protocol")]
    NotGranted {
        /// By name.
        client: String,
        /// `sign`, `keygen`.
        what: &'static str,
    },
    /// More digests than one client may have signed in a while.
    #[error("too many digests: at most {per_s} a second; try again later")]
    Rate {
        /// The limit.
        per_s: u32,
    },
    /// More than one decision is made about.
    #[error("too many digests: {count}, at most {max} at once")]
    Digests {
        /// In the request.
        count: usize,
        /// The limit.
        max: usize,
    },
    /// A project key in the form of `signd --gen-enckey`, whose key encrypting keys are not here.
    #[error("project keys under a wrapping key are not served here; make one anew with keygen")]
    WrappedKey,
    /// A type of key that the protocol knows and that is not made.
    #[error("type {name} is not made here")]
    NewKey {
        /// In the request.
        name: String,
    },
    /// A part of a user id that could mean something else in it.
    #[error("bad {what}")]
    Name {
        /// `real name` or `email`.
        what: &'static str,
    },
    /// There is no room for such a key in the protocol.
    #[error("key {name} is no key of OpenPGP version 4, and this protocol knows no other")]
    KeyVersion {
        /// Of the key.
        name: String,
    },
}

/// What a failure is called here: upstream's clients show it, and nothing more.
fn text(fault: &Fault) -> String {
    if fault.code == Code::SignerGone {
        return "signer unavailable, try again".to_owned();
    }
    let again = if fault.code.is_retryable() { "; try again" } else { "" };
    format!("{}{again}", fault.message)
}

/// The reply. `caller` says why nobody may ask from there, if so.
pub(super) async fn to(
    inner: &Inner,
    caller: Result<Caller, Refusal>,
    request: Result<Request, Refusal>,
) -> Reply {
    match results(inner, caller, request).await {
        Ok(reply) => reply,
        Err(no) => {
            refused(inner, &no);
            Reply::refused(&no)
        }
    }
}

async fn results(
    inner: &Inner,
    caller: Result<Caller, Refusal>,
    request: Result<Request, Refusal>,
) -> Result<Reply, No> {
    let caller = caller?;
    let request = request?;
    let principal = caller.principal().map_err(No::Fault)?;
    if request.verb() == Verb::Privileged {
        return Err(Refusal::Privileged.into());
    }
    // Nobody's key is asked for; signd answers this itself, too.
    if request.verb() == Verb::Ping && request.user().is_empty() {
        return Ok(Reply::ok::<&[u8]>(request.form(), &[])?);
    }
    let name = inner.rules.load().key(request.user())?;
    let asked = Asked { inner, caller: &caller, principal: &principal, name: &name, form: request.form() };
    let key = match asked.key().await {
        Err(No::Refusal(unknown @ Refusal::UnknownKey { .. })) if request.verb() == Verb::Pubkey => {
            make::on_pubkey(&asked, &request, unknown).await?;
            asked.key().await?
        }
        found => found?,
    };
    match request.command()? {
        Command::Ping => Ok(Reply::ok::<&[u8]>(request.form(), &[])?),
        Command::Pubkey => asked.public_key().await,
        Command::Sign { digests } => asked.sign(&key, &digests).await,
        Command::Privsign { key, digests } => project::sign(&asked, &key, &digests).await,
        Command::Keygen(keygen) => project::make(&asked, &keygen).await,
        Command::Privtotp { .. } => Err(Refusal::NotServed { command: "privtotp" }.into()),
    }
}

/// What is known of a request once its user is.
pub(super) struct Asked<'a> {
    pub(super) inner: &'a Inner,
    pub(super) caller: &'a Caller,
    pub(super) principal: &'a Arc<Principal>,
    pub(super) name: &'a KeyName,
    pub(super) form: Form,
}

impl Asked<'_> {
    /// The key, if the client may know of it: one that it may not is not there.
    async fn key(&self) -> Result<Arc<Entry>, No> {
        let reference = KeyReference::Name(self.name.clone());
        let found = self.inner.front.inner.registry.find(&reference).await;
        let key = found.map_err(|fault| self.hidden(fault))?.0;
        policy::see(self.principal, &reference, &key.facts.name).map_err(|fault| self.hidden(fault))?;
        Ok(key)
    }

    async fn public_key(&self) -> Result<Reply, No> {
        let reference = KeyReference::Name(self.name.clone());
        let key = keys::describe(&self.inner.front.inner, self.principal, &reference).await;
        let key = key.map_err(|fault| self.hidden(fault))?;
        let certificate = framing::as_gpg(&key.material.certificate);
        let certificate = certificate.map_err(|error| No::Fault(internal(&error)))?;
        let armored = armor::encode(armor::Kind::PublicKey, &certificate);
        Ok(Reply::ok(self.form, &[armored])?)
    }

    /// All of them, or a refusal: of a probe what it asks for, of every other digest a signature.
    async fn sign(&self, key: &Entry, digests: &[DigestArgument]) -> Result<Reply, No> {
        let (algorithm, number_bytes) = algorithm(key.algorithm);
        let fingerprint = key.facts.signing_fingerprint;
        let Ok(fingerprint) = <[u8; 20]>::try_from(fingerprint.as_bytes()) else {
            return Err(No::KeyVersion { name: key.facts.name.clone() });
        };
        if !self.principal.may_over_obs(ObsGrant::Sign) {
            return Err(self.not_granted("signing"));
        }
        Reply::would_fit(self.form, digests.len(), version_3_len_max(algorithm, number_bytes))?;
        let to_sign: Vec<_> = digests.iter().filter(|digest| !digest.is_probe()).cloned().collect();
        let mut signed = if to_sign.is_empty() {
            Vec::new()
        } else {
            self.pace(to_sign.len()).await?;
            sign::digests(self, &to_sign, None).await?
        }
        .into_iter();
        let packets = digests.iter().map(|digest| {
            if digest.is_probe() {
                return probe_answer(digest, algorithm, &fingerprint).map_err(|error| internal(&error));
            }
            signed.next().ok_or_else(|| internal(&"a digest without an answer"))
        });
        let packets = packets.collect::<Result<Vec<_>, Fault>>().map_err(No::Fault)?;
        Ok(Reply::ok(self.form, &packets)?)
    }

    /// Waits until the client may have so many digests signed.
    pub(super) async fn pace(&self, digests: usize) -> Result<(), No> {
        let per_s = self.inner.rules.load().digests_per_s;
        let wait = self.inner.rate.wait(self.principal.name(), digests, per_s, Instant::now());
        let wait = wait.ok_or(No::Rate { per_s })?;
        if !wait.is_zero() {
            tokio::time::sleep(wait).await;
        }
        Ok(())
    }

    pub(super) fn not_granted(&self, what: &'static str) -> No {
        No::NotGranted { client: self.principal.name().to_owned(), what }
    }

    /// The same words whether there is no such key, or none for this client.
    fn hidden(&self, fault: Fault) -> No {
        if [Code::KeyNotFound, Code::PermissionDenied].contains(&fault.code) {
            return Refusal::UnknownKey { user: self.name.as_str().to_owned() }.into();
        }
        No::Fault(self.caller.reads(fault))
    }
}

/// As the protocol names it, and bytes of a number in its signatures.
fn algorithm(key: KeyAlgorithm) -> (packet::KeyAlgorithm, usize) {
    match key {
        KeyAlgorithm::Rsa(bits) => (packet::KeyAlgorithm::Rsa, usize::from(bits.div_ceil(8))),
        KeyAlgorithm::Ed25519 => (packet::KeyAlgorithm::EdDsaLegacy, 32),
    }
}

pub(super) fn internal(what: &impl core::fmt::Display) -> Fault {
    Fault::new(Code::Internal, what.to_string())
}

/// The line of a refusal, held to a measure: anybody can be refused without end. What was refused behind the decision to
/// sign has a line of its own.
fn refused(inner: &Inner, no: &No) {
    let front = &inner.front.inner;
    match no {
        No::Fault(fault) => turned_away(front, fault),
        No::Answered(_) => (),
        No::Refusal(_)
        | No::NotGranted { .. }
        | No::Rate { .. }
        | No::Digests { .. }
        | No::WrappedKey
        | No::NewKey { .. }
        | No::Name { .. }
        | No::KeyVersion { .. } => {
            let (span, reason) = (tracing::Span::current(), no.to_string());
            front.notices.refused(move |left_out| {
                span.in_scope(|| tracing::info!(outcome = "refused", reason, left_out, "turned away"));
            });
        }
    }
}
