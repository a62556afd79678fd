//! A batch: what front asks of the signer, for any number of requests and keys at once.

use super::group::Priority;
use super::{InlineBudget, hash_algorithm, malformed, midstate, refused, within};
use crate::limits;
use crate::names::KeyId;
use crate::signer_v1 as wire;
use crate::status::{Code, Fault};
use crate::trace::TraceId;
use sealwright_crypto::bare::{AnyDigest, Bare};
use sealwright_crypto::openpgp::fingerprint::Fingerprint;
use sealwright_crypto::openpgp::salt::Salt;
use sealwright_crypto::openpgp::signature::DataKind;
use sealwright_crypto::tbs::{Content, ToBeSigned};
use sealwright_crypto::usage::{Purpose, Usage};

/// A key as the database keeps it, in its blob still sealed: only the signer opens it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SealedKey {
    /// The key.
    pub key_id: KeyId,
    /// From 1; a renewal raises it.
    pub generation: u32,
    /// At most [`limits::SEALED_BYTES_MAX`] bytes.
    pub blob: Vec<u8>,
}

impl SealedKey {
    /// # Errors
    /// [`Code::MalformedRequest`], [`Code::LimitExceeded`].
    pub fn parse(key: wire::SealedKey) -> Result<Self, Fault> {
        within("a sealed key", key.sealed.len(), limits::SEALED_BYTES_MAX, "bytes")?;
        if key.generation == 0 {
            return Err(malformed("a sealed key of generation 0"));
        }
        Ok(Self { key_id: KeyId::parse(&key.key_id)?, generation: key.generation, blob: key.sealed })
    }

    /// The inverse of [`Self::parse`].
    #[must_use]
    pub fn into_wire(self) -> wire::SealedKey {
        wire::SealedKey {
            key_id: self.key_id.as_bytes().to_vec(),
            generation: self.generation,
            sealed: self.blob,
        }
    }
}

/// What front asks to have signed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    /// The keys that [`Request::key`] points to.
    pub keys: Vec<SealedKey>,
    /// At least one, at most [`limits::ITEMS_PER_BATCH_MAX`].
    pub requests: Vec<Request>,
    /// Milliseconds from receipt after which nobody waits; `None`: no end.
    pub deadline_ms: Option<u32>,
    /// Of all of them.
    pub priority: Priority,
}

/// One thing to sign with one of the keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Index into [`Batch::keys`], always within it.
    pub key: usize,
    /// What.
    pub item: ToBeSigned,
    /// Unix seconds of the key's last log entry, 0 for none.
    pub not_before: i64,
    /// The signer draws a salt notation.
    pub salt: bool,
    /// Version 6 keys: what was hashed before the content, of the content's hash. [`ToBeSigned::ticket`] is front's
    /// and does not come here.
    pub first: Option<Salt>,
    /// For log lines.
    pub trace_id: Option<TraceId>,
}

impl Batch {
    /// # Errors
    /// [`Code::MalformedRequest`], [`Code::LimitExceeded`], [`Code::Unsupported`].
    pub fn parse(batch: wire::SignBatch) -> Result<Self, Fault> {
        within("a batch", batch.items.len(), limits::ITEMS_PER_BATCH_MAX, "items")?;
        within("a batch", batch.keys.len(), limits::KEYS_PER_BATCH_MAX, "keys")?;
        if batch.items.is_empty() {
            return Err(malformed("a batch without items"));
        }
        let priority = priority(&batch).ok_or_else(|| malformed("an unknown priority"))?;
        let keys: Vec<_> = batch.keys.into_iter().map(SealedKey::parse).collect::<Result<_, _>>()?;
        let mut budget = InlineBudget::new();
        let mut requests = Vec::with_capacity(batch.items.len());
        for item in batch.items {
            requests.push(Request::parse(item, keys.len(), &mut budget)?);
        }
        let deadline_ms = (batch.deadline_ms > 0).then_some(batch.deadline_ms);
        Ok(Self { keys, requests, deadline_ms, priority })
    }

    /// The inverse of [`Self::parse`].
    #[must_use]
    pub fn into_wire(self) -> wire::SignBatch {
        wire::SignBatch {
            keys: self.keys.into_iter().map(SealedKey::into_wire).collect(),
            items: self.requests.into_iter().map(Request::into_wire).collect(),
            deadline_ms: self.deadline_ms.unwrap_or(0),
            priority: match self.priority {
                Priority::Interactive => INTERACTIVE,
                Priority::Batch => BATCH,
            },
        }
    }
}

/// Priorities on the wire.
const INTERACTIVE: u32 = 0;
const BATCH: u32 = 1;

/// The priority of a batch that is not parsed yet; `None`: unknown, it will be refused.
#[must_use]
pub const fn priority(batch: &wire::SignBatch) -> Option<Priority> {
    match batch.priority {
        INTERACTIVE => Some(Priority::Interactive),
        BATCH => Some(Priority::Batch),
        _ => None,
    }
}

impl Request {
    fn parse(request: wire::SignRequest, keys: usize, budget: &mut InlineBudget) -> Result<Self, Fault> {
        let key = usize::try_from(request.key).ok().filter(|index| *index < keys);
        let key = key.ok_or_else(|| malformed("an item of a batch points to no key of it"))?;
        let usage = Usage::from_id(request.usage).map_err(|error| refused(&error))?;
        let purpose = Purpose::from_id(request.purpose).map_err(|error| refused(&error))?;
        let content = match request.content {
            None => return Err(malformed("an item without content, or with content of an unknown kind")),
            Some(wire::sign_request::Content::Midstate(bytes)) => Content::Midstate(midstate(&bytes)?),
            Some(wire::sign_request::Content::Inline(inline)) => {
                budget.take(inline.bytes.len())?;
                Content::Inline(hash_algorithm(inline.hash)?, inline.bytes)
            }
            Some(wire::sign_request::Content::Bare(bare)) if bare.project_key.is_empty() => {
                Content::Bare(parse_bare(&bare)?)
            }
            Some(wire::sign_request::Content::Bare(bare)) => {
                within("a project key", bare.project_key.len(), limits::PROJECT_KEY_BYTES_MAX, "bytes")?;
                budget.take(bare.project_key.len())?;
                Content::Project(parse_bare(&bare)?, bare.project_key.into())
            }
        };
        let first = match content.hash() {
            _ if request.first.is_empty() => None,
            None => return Err(malformed("a bare digest with a salt")),
            Some(hash) => Some(Salt::new(hash, &request.first).map_err(|error| refused(&error))?),
        };
        let item = ToBeSigned { usage, purpose, content, ticket: None };
        if !item.is_of_one_kind() {
            return Err(malformed("an item whose usage and purpose are not those of its content"));
        }
        let trace_id = TraceId::parse(&request.trace_id)?;
        Ok(Self { key, item, not_before: request.not_before, salt: request.salt, first, trace_id })
    }

    fn into_wire(self) -> wire::SignRequest {
        let content = match self.item.content {
            Content::Midstate(midstate) => wire::sign_request::Content::Midstate(midstate.encode()),
            Content::Inline(hash, bytes) => wire::sign_request::Content::Inline(wire::SignerInline {
                hash: hash.openpgp_id().into(),
                bytes,
            }),
            Content::Bare(bare) => wire::sign_request::Content::Bare(bare_to_wire(&bare, &[])),
            Content::Project(bare, key) => wire::sign_request::Content::Bare(bare_to_wire(&bare, &key)),
        };
        wire::SignRequest {
            key: u32::try_from(self.key).unwrap_or(u32::MAX),
            usage: self.item.usage.id().into(),
            purpose: self.item.purpose.id().into(),
            content: Some(content),
            not_before: self.not_before,
            salt: self.salt,
            first: self.first.map(|salt| salt.as_bytes().to_vec()).unwrap_or_default(),
            trace_id: self.trace_id.map(|id| id.as_bytes().to_vec()).unwrap_or_default(),
        }
    }
}

fn parse_bare(wire: &wire::BareDigest) -> Result<Bare, Fault> {
    let hash =
        u8::try_from(wire.hash).map_err(|_| malformed("the number of a hash algorithm is over 255"))?;
    let digest = AnyDigest::from_parts(hash, &wire.digest).map_err(|error| refused(&error))?;
    let kinds = [DataKind::Binary, DataKind::Text];
    let kind = kinds.into_iter().find(|kind| u32::from(kind.signature_type()) == wire.class);
    let kind = kind.ok_or_else(|| malformed("a bare digest of an unknown class"))?;
    Bare::new(digest, kind, wire.created).map_err(|error| refused(&error))
}

fn bare_to_wire(bare: &Bare, project_key: &[u8]) -> wire::BareDigest {
    wire::BareDigest {
        hash: bare.digest().openpgp_id().into(),
        digest: bare.digest().as_bytes().to_vec(),
        class: bare.kind().signature_type().into(),
        created: bare.created(),
        project_key: project_key.to_vec(),
    }
}

/// What the signer made: one packet that verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignedItem {
    /// One OpenPGP signature packet; of version 3 for a bare digest.
    pub packet: Vec<u8>,
    /// The digest that was signed; goes into the log entry.
    pub digest: Vec<u8>,
    /// Unix seconds in the signature; of a bare digest, when it was signed.
    pub created: i64,
    /// Its number.
    pub operation: Operation,
    /// Of the project key that signed, if one did.
    pub issuer: Option<Fingerprint>,
}

/// The number of a signature among all that the signer has made with its key (`docs/WIRE.md`, "Operations").
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Operation {
    /// From 1.
    pub number: u64,
    /// How many numbers before this block were reserved, and declared as not, or perhaps not, used.
    pub skipped: u64,
    /// The chain of hashes up to this signature.
    pub chain: [u8; 32],
}

/// The outcomes of a batch, one an item in their order.
///
/// # Errors
/// [`Code::Internal`] when the signer's answer breaks a rule or has not `items` outcomes.
pub fn parse_outcomes(
    result: wire::SignBatchResult,
    items: usize,
) -> Result<Vec<Result<SignedItem, Fault>>, Fault> {
    if result.items.len() != items {
        return Err(broken("the signer answered another number of items than it was asked"));
    }
    result.items.into_iter().map(parse_outcome).collect()
}

/// The inverse of [`parse_outcomes`].
#[must_use]
pub fn outcomes_to_wire(outcomes: Vec<Result<SignedItem, Fault>>) -> wire::SignBatchResult {
    let items = outcomes.into_iter().map(|outcome| match outcome {
        Ok(SignedItem { packet, digest, created, operation, issuer }) => {
            let Operation { number, skipped, chain } = operation;
            let operation = Some(wire::SignerOperation { number, skipped, chain: chain.to_vec() });
            wire::sign_outcome::Outcome::Signature(wire::SignerSignature {
                packet,
                digest,
                created,
                operation,
                issuer: issuer.map(|issuer| issuer.as_bytes().to_vec()).unwrap_or_default(),
            })
        }
        Err(fault) => wire::sign_outcome::Outcome::Failure(fault.into()),
    });
    wire::SignBatchResult {
        items: items.map(|outcome| wire::SignOutcome { outcome: Some(outcome) }).collect(),
        worked_us: 0,
    }
}

fn parse_outcome(outcome: wire::SignOutcome) -> Result<Result<SignedItem, Fault>, Fault> {
    match outcome.outcome {
        None => Err(broken("the signer left an outcome empty")),
        Some(wire::sign_outcome::Outcome::Failure(failure)) => Ok(Err(failure.into())),
        Some(wire::sign_outcome::Outcome::Signature(signature)) => {
            let wire::SignerSignature { packet, digest, created, operation, issuer } = signature;
            let packet_fits = (1..=limits::SIGNATURE_BYTES_MAX).contains(&packet.len());
            if !packet_fits || !matches!(digest.len(), 20 | 32 | 48 | 64) {
                return Err(broken("the signer's signature or digest has an impossible length"));
            }
            let operation = parse_operation(operation)?;
            let issuer = if issuer.is_empty() {
                None
            } else {
                let bad = |_| broken("the signer names a project key by what is no fingerprint");
                Some(Fingerprint::from_bytes(&issuer).map_err(bad)?)
            };
            Ok(Ok(SignedItem { packet, digest, created, operation, issuer }))
        }
    }
}

fn parse_operation(operation: Option<wire::SignerOperation>) -> Result<Operation, Fault> {
    let missing = || broken("the signer's signature has no number, or an impossible one");
    let wire::SignerOperation { number, skipped, chain } = operation.ok_or_else(missing)?;
    let chain = <[u8; 32]>::try_from(chain.as_slice()).map_err(|_| missing())?;
    if number == 0 { Err(missing()) } else { Ok(Operation { number, skipped, chain }) }
}

fn broken(message: &str) -> Fault {
    Fault::new(Code::Internal, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use sealwright_crypto::algorithm::HashAlgorithm;
    use sealwright_crypto::digest::Hasher;

    fn batch() -> Batch {
        let key_id =
            KeyId::parse(&[0x01, 0x98, 0xf3, 0, 0, 1, 0x7a, 0xbc, 0x9d, 0, 1, 2, 3, 4, 5, 6]).unwrap();
        let request = |content: Content| Request {
            first: content.hash().map(|hash| Salt::new(hash, &[8; 32][..hash.salt_len()]).unwrap()),
            key: 0,
            item: ToBeSigned { usage: Usage::OpenPgp, purpose: Purpose::Detached, content, ticket: None },
            not_before: 17,
            salt: true,
            trace_id: TraceId::new([9; 16]),
        };
        Batch {
            keys: vec![SealedKey { key_id, generation: 3, blob: vec![1, 2, 3] }],
            requests: vec![
                request(Content::Midstate(Hasher::new(HashAlgorithm::Sha256).midstate())),
                request(Content::Inline(HashAlgorithm::Sha384, vec![5; 10])),
                bare(AnyDigest::from_parts(8, &[6; 32]).unwrap()),
                bare(AnyDigest::Sha1([7; 20])),
                Request {
                    item: ToBeSigned::by_project_key(
                        Bare::new(AnyDigest::Sha1([7; 20]), DataKind::Binary, 9).unwrap(),
                        [0x85; 9].as_slice().into(),
                    ),
                    ..bare(AnyDigest::Sha1([7; 20]))
                },
            ],
            deadline_ms: Some(100),
            priority: Priority::Batch,
        }
    }

    fn bare(digest: AnyDigest) -> Request {
        let item = ToBeSigned::bare(Bare::new(digest, DataKind::Text, 9).unwrap());
        Request { key: 0, item, not_before: 17, salt: false, first: None, trace_id: None }
    }

    #[test]
    fn a_bare_digest_and_its_usage_belong_together_and_to_nothing_else() {
        let refused_as = |item: usize, change: fn(&mut wire::SignRequest)| {
            let mut wire = batch().into_wire();
            change(&mut wire.items[item]);
            Batch::parse(wire).unwrap_err().code
        };
        let bare_of = |request: &mut wire::SignRequest, change: fn(&mut wire::BareDigest)| {
            let Some(wire::sign_request::Content::Bare(bare)) = &mut request.content else { panic!() };
            change(bare);
        };
        let cases = [(0, &[2, 3, 4][..]), (1, &[2, 3, 4]), (2, &[1, 3, 4]), (3, &[1, 2, 4]), (4, &[1, 2, 3])];
        for (item, usages) in cases {
            for usage in usages {
                let mut wire = batch().into_wire();
                wire.items[item].usage = *usage;
                assert_eq!(Batch::parse(wire).unwrap_err().code, Code::MalformedRequest, "{item} {usage}");
            }
        }
        assert_eq!(refused_as(0, |r| r.purpose = 5), Code::MalformedRequest);
        assert_eq!(refused_as(2, |r| r.purpose = 3), Code::MalformedRequest);
        assert_eq!(refused_as(2, |r| r.first = vec![8; 16]), Code::MalformedRequest);
        let of_digest = |change: fn(&mut wire::BareDigest)| {
            let mut wire = batch().into_wire();
            bare_of(&mut wire.items[2], change);
            Batch::parse(wire).unwrap_err().code
        };
        assert_eq!(of_digest(|bare| bare.class = 2), Code::MalformedRequest);
        assert_eq!(of_digest(|bare| bare.hash = 1), Code::Unsupported);
        assert_eq!(of_digest(|bare| bare.hash = 264), Code::MalformedRequest);
        assert_eq!(of_digest(|bare| bare.hash = 10), Code::MalformedRequest);
        assert_eq!(of_digest(|bare| bare.digest = vec![4; 32]), Code::MalformedRequest);
        assert_eq!(of_digest(|bare| bare.digest.push(0)), Code::MalformedRequest);
        assert_eq!(of_digest(|bare| bare.project_key = vec![0x85]), Code::MalformedRequest);
        let long =
            |bare: &mut wire::BareDigest| bare.project_key = vec![0x85; limits::PROJECT_KEY_BYTES_MAX + 1];
        assert_eq!(of_digest(long), Code::LimitExceeded);
    }

    #[test]
    fn a_batch_survives_the_wire() {
        assert_eq!(Batch::parse(batch().into_wire()).unwrap(), batch());
        let endless = Batch { deadline_ms: None, priority: Priority::Interactive, ..batch() };
        assert_eq!(Batch::parse(endless.clone().into_wire()).unwrap(), endless);
    }

    #[test]
    fn what_breaks_a_rule_is_refused_by_name() {
        let refused_as = |change: fn(&mut wire::SignBatch)| {
            let mut wire = batch().into_wire();
            change(&mut wire);
            Batch::parse(wire).unwrap_err().code
        };
        assert_eq!(refused_as(|b| b.items.clear()), Code::MalformedRequest);
        assert_eq!(refused_as(|b| b.priority = 2), Code::MalformedRequest);
        assert_eq!(refused_as(|b| b.items[0].key = 1), Code::MalformedRequest);
        assert_eq!(refused_as(|b| b.items[0].usage = 0), Code::Unsupported);
        assert_eq!(refused_as(|b| b.items[0].content = None), Code::MalformedRequest);
        assert_eq!(refused_as(|b| b.items[0].first.truncate(8)), Code::MalformedRequest);
        assert_eq!(refused_as(|b| b.items[1].first.push(0)), Code::MalformedRequest);
        assert_eq!(refused_as(|b| b.items[0].trace_id = vec![1; 15]), Code::MalformedRequest);
        assert_eq!(refused_as(|b| b.keys[0].generation = 0), Code::MalformedRequest);
        assert_eq!(refused_as(|b| b.keys[0].key_id.clear()), Code::MalformedRequest);
        assert_eq!(
            refused_as(|b| b.keys[0].sealed = vec![0; limits::SEALED_BYTES_MAX + 1]),
            Code::LimitExceeded
        );
        assert_eq!(
            refused_as(|b| b.keys = vec![b.keys[0].clone(); limits::KEYS_PER_BATCH_MAX + 1]),
            Code::LimitExceeded
        );
        assert_eq!(
            refused_as(|b| b.items = vec![b.items[0].clone(); limits::ITEMS_PER_BATCH_MAX + 1]),
            Code::LimitExceeded
        );
    }

    #[test]
    fn outcomes_survive_the_wire_and_must_be_as_many_as_items() {
        let signed = SignedItem { packet: vec![1], ..SIGNED };
        let by_project = SignedItem { issuer: Some(Fingerprint::v4([3; 20])), ..signed.clone() };
        let signed = SignedItem { digest: vec![0; 32], ..signed };
        let by_project = SignedItem { digest: vec![0; 20], ..by_project };
        let outcomes = vec![Ok(signed), Ok(by_project), Err(Fault::new(Code::KeyExpired, "old"))];
        let wire = outcomes_to_wire(outcomes.clone());
        assert_eq!(parse_outcomes(wire.clone(), 3).unwrap(), outcomes);
        assert_eq!(parse_outcomes(wire, 2).unwrap_err().code, Code::Internal);
    }

    const OPERATION: Operation = Operation { number: 7, skipped: 1024, chain: [9; 32] };
    const SIGNED: SignedItem =
        SignedItem { packet: Vec::new(), digest: Vec::new(), created: 5, operation: OPERATION, issuer: None };

    #[test]
    fn a_signature_without_a_number_is_no_success() {
        let bad: [fn(&mut wire::SignerSignature); 5] = [
            |signature| signature.issuer = vec![7; 19],
            |signature| signature.operation = None,
            |signature| signature.operation.as_mut().unwrap().number = 0,
            |signature| signature.operation.as_mut().unwrap().chain = vec![0; 31],
            |signature| signature.operation.as_mut().unwrap().chain = Vec::new(),
        ];
        for change in bad {
            let signed = SignedItem { packet: vec![1], digest: vec![0; 32], ..SIGNED };
            let mut wire = outcomes_to_wire(vec![Ok(signed)]);
            let Some(wire::sign_outcome::Outcome::Signature(signature)) = &mut wire.items[0].outcome else {
                panic!("{wire:?}")
            };
            change(signature);
            assert_eq!(parse_outcomes(wire, 1).unwrap_err().code, Code::Internal);
        }
    }

    #[test]
    fn an_empty_signature_from_the_signer_is_no_success() {
        for (packet, digest) in [(vec![], vec![0; 32]), (vec![1], vec![]), (vec![1], vec![0; 21])] {
            let wire = outcomes_to_wire(vec![Ok(SignedItem { packet, digest, ..SIGNED })]);
            assert_eq!(parse_outcomes(wire, 1).unwrap_err().code, Code::Internal);
        }
        let wire = wire::SignBatchResult { items: vec![wire::SignOutcome { outcome: None }], worked_us: 0 };
        assert_eq!(parse_outcomes(wire, 1).unwrap_err().code, Code::Internal);
    }
}
