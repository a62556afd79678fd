//! A group: one policy decision, one result an item; of one artefact, or of several that are asked for together. Between client and front.

use super::{Canonical, InlineBudget, hash_algorithm, malformed, midstate, refused, within};
use crate::limits;
use crate::names::{KeyReference, RequestId};
use crate::status::Fault;
use crate::v1;
use sealwright_crypto::bare::Bare;
use sealwright_crypto::tbs::{Content, ToBeSigned};
use sealwright_crypto::usage::{Purpose, Usage};

/// A client's request, parsed and within its limits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Drawn by the client; a retry carries the same.
    pub request_id: RequestId,
    /// The key to sign with.
    pub key: KeyReference,
    /// Which queue.
    pub priority: Priority,
    /// Milliseconds that the client is ready to wait; within [`limits::DEADLINE_MS_MAX`].
    pub deadline_ms: u32,
    /// What the client says about the artefact: recorded, never trusted.
    pub artefact: Artefact,
    /// Of a group with several artefacts, that of each item; else empty.
    pub artefacts: Vec<Artefact>,
    /// At least one, at most [`limits::ITEMS_PER_GROUP_MAX`].
    pub items: Vec<ToBeSigned>,
    /// A random salt notation goes into each signature.
    pub salt: bool,
}

/// Two queues: a person waits, or a machine does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Priority {
    /// A person, or one build, waits.
    Interactive,
    /// A mass re-sign.
    Batch,
}

/// A claim about the artefact.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Artefact {
    /// File name without directories; may be empty.
    pub name: String,
    /// Size in bytes.
    pub size: u64,
}

impl Group {
    /// # Errors
    /// [`crate::status::Code::MalformedRequest`], [`crate::status::Code::LimitExceeded`], [`crate::status::Code::Unsupported`] or [`crate::status::Code::KeyNotFound`], naming
    /// the field.
    pub fn parse(wire: v1::SignGroup) -> Result<Self, Fault> {
        let request_id = RequestId::parse(&wire.request_id)?;
        let key = KeyReference::parse(&wire.key)?;
        let priority = match v1::Priority::try_from(wire.priority) {
            Ok(v1::Priority::Interactive) => Priority::Interactive,
            Ok(v1::Priority::Batch) => Priority::Batch,
            Err(_) => return Err(malformed("an unknown priority")),
        };
        let deadline_ms = match wire.deadline_ms {
            0 => limits::DEADLINE_MS_DEFAULT,
            asked => asked.min(limits::DEADLINE_MS_MAX),
        };
        let artefact = Artefact::parse(wire.artefact.unwrap_or_default())?;
        within("a group", wire.items.len(), limits::ITEMS_PER_GROUP_MAX, "items")?;
        if wire.items.is_empty() {
            return Err(malformed("a group without items"));
        }
        let mut wire_items = wire.items;
        let artefacts = artefacts(&artefact, &mut wire_items)?;
        let mut budget = InlineBudget::new();
        let items =
            wire_items.into_iter().map(|item| parse_item(item, &mut budget)).collect::<Result<_, _>>()?;
        Ok(Self { request_id, key, priority, deadline_ms, artefact, artefacts, items, salt: wire.salt })
    }

    /// The inverse of [`Self::parse`].
    #[must_use]
    pub fn to_wire(&self) -> v1::SignGroup {
        let priority = match self.priority {
            Priority::Interactive => v1::Priority::Interactive,
            Priority::Batch => v1::Priority::Batch,
        };
        v1::SignGroup {
            request_id: self.request_id.as_bytes().to_vec(),
            key: self.key.as_str().to_owned(),
            priority: priority.into(),
            deadline_ms: self.deadline_ms,
            artefact: Some(self.artefact.to_wire()),
            items: self
                .items
                .iter()
                .zip(self.claims())
                .map(|(item, claim)| item_to_wire(item, claim))
                .collect(),
            salt: self.salt,
        }
    }

    /// What the client says about the artefact of an item.
    #[must_use]
    pub fn artefact_of(&self, item: usize) -> &Artefact {
        self.artefacts.get(item).unwrap_or(&self.artefact)
    }

    /// Of each item, the claim that it has of its own.
    fn claims(&self) -> impl Iterator<Item = Option<&Artefact>> {
        self.artefacts.iter().map(Some).chain(std::iter::repeat(None))
    }

    /// SHA-256 over what is asked: key, artefact, items, salt. Two requests with one id must agree in it; how long
    /// and how urgently the client waits is not part of it. Stored with the intent: its bytes are fixed.
    #[must_use]
    pub fn fingerprint(&self) -> [u8; 32] {
        let mut canonical = Canonical::new("sealwright group 1");
        canonical.field(self.key.as_str().as_bytes());
        canonical.field(self.artefact.name.as_bytes());
        canonical.number(self.artefact.size);
        canonical.number(u64::from(self.salt));
        for (item, claim) in self.items.iter().zip(self.claims()) {
            // What the number stands for is told by it alone, with a claim or without.
            let kind = |kind: u64| if claim.is_some() { kind.saturating_add(4) } else { kind };
            canonical.number(u64::from(item.usage.id()));
            canonical.number(u64::from(item.purpose.id()));
            match &item.content {
                Content::Midstate(midstate) => {
                    canonical.number(kind(if item.ticket.is_some() { 3 } else { 1 }));
                    canonical.field(&midstate.encode());
                }
                Content::Inline(hash, bytes) => {
                    canonical.number(kind(if item.ticket.is_some() { 4 } else { 2 }));
                    canonical.number(u64::from(hash.openpgp_id()));
                    canonical.field(bytes);
                }
                Content::Bare(bare) => {
                    canonical.number(kind(BARE));
                    bare_digest(&mut canonical, bare);
                }
                Content::Project(bare, key) => {
                    canonical.number(kind(BY_PROJECT_KEY));
                    bare_digest(&mut canonical, bare);
                    canonical.field(key);
                }
            }
            if let Some(ticket) = &item.ticket {
                canonical.field(ticket);
            }
            if let Some(claim) = claim {
                canonical.field(claim.name.as_bytes());
                canonical.number(claim.size);
            }
        }
        canonical.sha256()
    }
}

/// The kind of a bare digest in a fingerprint: above the others, and those with a claim.
const BARE: u64 = 16;
const BY_PROJECT_KEY: u64 = 24;

fn bare_digest(canonical: &mut Canonical, bare: &Bare) {
    canonical.number(u64::from(bare.digest().openpgp_id()));
    canonical.field(bare.digest().as_bytes());
    canonical.number(u64::from(bare.kind().signature_type()));
    canonical.number(u64::from(bare.created()));
}

impl Artefact {
    fn parse(wire: v1::ArtefactClaim) -> Result<Self, Fault> {
        within("the name of the artefact", wire.name.len(), limits::FILE_NAME_BYTES_MAX, "bytes")?;
        if wire.name.contains(['/', '\0']) {
            return Err(malformed("the name of the artefact has a directory in it"));
        }
        Ok(Self { name: wire.name, size: wire.size })
    }

    fn to_wire(&self) -> v1::ArtefactClaim {
        v1::ArtefactClaim { name: self.name.clone(), size: self.size }
    }
}

/// The claims of the items: of all of them or of none, so that none is taken for another's.
fn artefacts(of_group: &Artefact, items: &mut [v1::SignItem]) -> Result<Vec<Artefact>, Fault> {
    let claims: Vec<_> = items.iter_mut().filter_map(|item| item.artefact.take()).collect();
    if claims.is_empty() {
        return Ok(Vec::new());
    }
    if claims.len() != items.len() {
        return Err(malformed("some items name an artefact, and some do not"));
    }
    if *of_group != Artefact::default() {
        return Err(malformed("both the group and its items name an artefact"));
    }
    claims.into_iter().map(Artefact::parse).collect()
}

fn parse_item(wire: v1::SignItem, budget: &mut InlineBudget) -> Result<ToBeSigned, Fault> {
    let usage = Usage::from_id(wire.usage).map_err(|error| refused(&error))?;
    let purpose = Purpose::from_id(wire.purpose).map_err(|error| refused(&error))?;
    let content = match wire.content {
        None => return Err(malformed("an item without content, or with content of an unknown kind")),
        Some(v1::sign_item::Content::Midstate(bytes)) => Content::Midstate(midstate(&bytes)?),
        Some(v1::sign_item::Content::Inline(inline)) => {
            budget.take(inline.bytes.len())?;
            Content::Inline(hash_algorithm(inline.hash)?, inline.bytes)
        }
    };
    within("a ticket", wire.ticket.len(), limits::TICKET_BYTES_MAX, "bytes")?;
    let ticket = (!wire.ticket.is_empty()).then_some(wire.ticket);
    let item = ToBeSigned { usage, purpose, content, ticket };
    if item.is_of_one_kind() {
        Ok(item)
    } else {
        Err(malformed("an item of a usage or purpose for bare digests"))
    }
}

fn item_to_wire(item: &ToBeSigned, claim: Option<&Artefact>) -> v1::SignItem {
    let content = match &item.content {
        Content::Midstate(midstate) => Some(v1::sign_item::Content::Midstate(midstate.encode())),
        Content::Inline(hash, bytes) => Some(v1::sign_item::Content::Inline(v1::InlineContent {
            hash: hash.openpgp_id().into(),
            bytes: bytes.clone(),
        })),
        // There is no message for it, and shall be none: whoever is sent this refuses it.
        Content::Bare(_) | Content::Project(..) => None,
    };
    let ticket = item.ticket.clone().unwrap_or_default();
    let (usage, purpose) = (item.usage.id().into(), item.purpose.id().into());
    v1::SignItem { usage, purpose, content, ticket, artefact: claim.map(Artefact::to_wire) }
}

/// The answer to a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupResult {
    /// Of the group.
    pub request_id: RequestId,
    /// One outcome an item, in their order; or the reason why the whole group was refused.
    pub outcome: Result<Vec<Result<LoggedSignature, Fault>>, Fault>,
}

/// A signature and where the log records it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoggedSignature {
    /// One OpenPGP signature packet, at most [`limits::SIGNATURE_BYTES_MAX`] bytes.
    pub packet: Vec<u8>,
    /// Index of the log entry.
    pub log_index: u64,
    /// RFC 6962 leaf hash of the log entry.
    pub leaf_hash: [u8; 32],
}

impl GroupResult {
    /// For the client: the caller finds the group by [`Self::request_id`] and compares the number of outcomes.
    ///
    /// # Errors
    /// [`crate::status::Code::MalformedRequest`] or [`crate::status::Code::LimitExceeded`]: the server's answer breaks a rule.
    pub fn parse(wire: v1::SignGroupResult) -> Result<Self, Fault> {
        let request_id = RequestId::parse(&wire.request_id)?;
        if let Some(failure) = wire.failure {
            return Ok(Self { request_id, outcome: Err(failure.into()) });
        }
        within("an answer", wire.items.len(), limits::ITEMS_PER_GROUP_MAX, "items")?;
        let items = wire.items.into_iter().map(parse_outcome).collect::<Result<_, _>>()?;
        Ok(Self { request_id, outcome: Ok(items) })
    }

    /// The inverse of [`Self::parse`].
    #[must_use]
    pub fn into_wire(self) -> v1::SignGroupResult {
        let request_id = self.request_id.as_bytes().to_vec();
        match self.outcome {
            Err(fault) => v1::SignGroupResult { request_id, items: Vec::new(), failure: Some(fault.into()) },
            Ok(items) => {
                let items = items.into_iter().map(outcome_to_wire).collect();
                v1::SignGroupResult { request_id, items, failure: None }
            }
        }
    }
}

fn parse_outcome(wire: v1::SignItemResult) -> Result<Result<LoggedSignature, Fault>, Fault> {
    match wire.outcome {
        None => Err(malformed("an item of the answer without outcome")),
        Some(v1::sign_item_result::Outcome::Failure(failure)) => Ok(Err(failure.into())),
        Some(v1::sign_item_result::Outcome::Signature(signature)) => {
            within("a signature", signature.packet.len(), limits::SIGNATURE_BYTES_MAX, "bytes")?;
            if signature.packet.is_empty() {
                return Err(malformed("an empty signature"));
            }
            let leaf_hash = <[u8; 32]>::try_from(signature.leaf_hash.as_slice())
                .map_err(|_| malformed("a leaf hash that is not 32 bytes"))?;
            let log_index = signature.log_index;
            Ok(Ok(LoggedSignature { packet: signature.packet, log_index, leaf_hash }))
        }
    }
}

fn outcome_to_wire(outcome: Result<LoggedSignature, Fault>) -> v1::SignItemResult {
    let outcome = match outcome {
        Ok(signature) => v1::sign_item_result::Outcome::Signature(v1::Signature {
            packet: signature.packet,
            log_index: signature.log_index,
            leaf_hash: signature.leaf_hash.to_vec(),
        }),
        Err(fault) => v1::sign_item_result::Outcome::Failure(fault.into()),
    };
    v1::SignItemResult { outcome: Some(outcome) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::Code;
    use sealwright_crypto::algorithm::HashAlgorithm;
    use sealwright_crypto::digest::Hasher;

    fn group() -> Group {
        let mut hasher = Hasher::new(HashAlgorithm::Sha512);
        hasher.update(b"content");
        let item = |content| ToBeSigned {
            usage: Usage::OpenPgp,
            purpose: Purpose::RpmHeader,
            content,
            ticket: None,
        };
        Group {
            request_id: RequestId::parse(&[0x01, 0x98, 0xf3, 0, 0, 1, 0x7a, 0xbc, 0x9d, 0, 1, 2, 3, 4, 5, 6])
                .unwrap(),
            key: KeyReference::parse("release").unwrap(),
            priority: Priority::Batch,
            deadline_ms: 1000,
            artefact: Artefact { name: "a.rpm".to_owned(), size: 3 << 30 },
            artefacts: Vec::new(),
            items: vec![
                item(Content::Midstate(hasher.midstate())),
                item(Content::Inline(HashAlgorithm::Sha256, b"small".to_vec())),
            ],
            salt: true,
        }
    }

    #[test]
    fn a_group_survives_the_wire() {
        assert_eq!(Group::parse(group().to_wire()).unwrap(), group());
        let mut salted = group();
        salted.items[0].ticket = Some(vec![7; limits::TICKET_BYTES_MAX]);
        assert_eq!(Group::parse(salted.to_wire()).unwrap(), salted);
        salted.items[0].ticket = Some(vec![7; limits::TICKET_BYTES_MAX + 1]);
        assert_eq!(Group::parse(salted.to_wire()).unwrap_err().code, Code::LimitExceeded);
    }

    #[test]
    fn no_client_can_ask_for_a_bare_digest_or_under_its_usage() {
        use sealwright_crypto::bare::AnyDigest;
        use sealwright_crypto::openpgp::signature::DataKind;
        let bare = |created| Bare::new(AnyDigest::Sha1([7; 20]), DataKind::Binary, created).unwrap();
        let mut asked = group();
        asked.items[0] = ToBeSigned::bare(bare(1));
        assert_eq!(Group::parse(asked.to_wire()).unwrap_err().code, Code::MalformedRequest);
        let first = asked.fingerprint();
        asked.items[0] = ToBeSigned::bare(bare(2));
        assert_ne!(asked.fingerprint(), first);
        let of_project = |key: &[u8]| ToBeSigned::by_project_key(bare(2), key.into());
        asked.items[0] = of_project(b"key");
        assert_eq!(Group::parse(asked.to_wire()).unwrap_err().code, Code::MalformedRequest);
        let by_key = asked.fingerprint();
        asked.items[0] = of_project(b"other");
        assert_ne!(asked.fingerprint(), by_key);
        for (usage, purpose) in [(2, 1), (3, 1), (4, 1), (1, 5), (2, 5), (3, 5), (4, 5)] {
            let mut wire = group().to_wire();
            (wire.items[1].usage, wire.items[1].purpose) = (usage, purpose);
            assert_eq!(Group::parse(wire).unwrap_err().code, Code::MalformedRequest, "{usage} {purpose}");
        }
    }

    #[test]
    fn the_fingerprint_covers_what_is_asked_and_not_how_long_one_waits() {
        let base = group().fingerprint();
        let changed = |change: fn(&mut Group)| {
            let mut group = group();
            change(&mut group);
            group.fingerprint() != base
        };
        assert!(changed(|g| g.key = KeyReference::parse("other").unwrap()));
        assert!(changed(|g| g.artefact.name.push('x')));
        assert!(changed(|g| g.artefact.size += 1));
        assert!(changed(|g| g.salt = false));
        assert!(changed(|g| g.items.truncate(1)));
        assert!(changed(|g| g.items.swap(0, 1)));
        assert!(changed(|g| g.items[0].purpose = Purpose::Detached));
        assert!(changed(|g| g.items[1].content = Content::Inline(HashAlgorithm::Sha512, b"small".to_vec())));
        assert!(changed(|g| g.items[0].ticket = Some(vec![1])));
        assert!(changed(|g| g.items[1].ticket = Some(vec![1])));
        assert!(changed(|g| g.artefacts = vec![Artefact::default(); 2]));
        assert!(!changed(|g| g.deadline_ms = 9));
        assert!(!changed(|g| g.priority = Priority::Interactive));
    }

    fn of_two() -> Group {
        let claim = |name: &str, size| Artefact { name: name.to_owned(), size };
        Group {
            artefact: Artefact::default(),
            artefacts: vec![claim("a.rpm", 7), claim("b.rpm", 8)],
            ..group()
        }
    }

    #[test]
    fn each_item_of_a_group_of_several_artefacts_has_its_own() {
        let several = of_two();
        assert_eq!(Group::parse(several.to_wire()).unwrap(), several);
        assert_eq!((several.artefact_of(1).size, group().artefact_of(1).size), (8, 3 << 30));
        let base = several.fingerprint();
        let changed = |change: fn(&mut Group)| {
            let mut group = of_two();
            change(&mut group);
            group.fingerprint() != base
        };
        assert!(changed(|g| g.artefacts.swap(0, 1)));
        assert!(changed(|g| g.artefacts[1].size += 1));
        assert!(changed(|g| g.artefacts[0].name.push('x')));
        assert!(changed(|g| g.artefacts.clear()));
    }

    #[test]
    fn claims_of_some_items_or_of_group_and_items_are_refused() {
        let refused = |change: fn(&mut v1::SignGroup)| {
            let mut wire = of_two().to_wire();
            change(&mut wire);
            Group::parse(wire).unwrap_err().code
        };
        assert_eq!(refused(|g| g.items[0].artefact = None), Code::MalformedRequest);
        assert_eq!(refused(|g| g.artefact.as_mut().unwrap().size = 1), Code::MalformedRequest);
        let slash = |g: &mut v1::SignGroup| g.items[1].artefact.as_mut().unwrap().name = "a/b".to_owned();
        assert_eq!(refused(slash), Code::MalformedRequest);
        let long = |g: &mut v1::SignGroup| {
            g.items[1].artefact.as_mut().unwrap().name = "a".repeat(limits::FILE_NAME_BYTES_MAX + 1);
        };
        assert_eq!(refused(long), Code::LimitExceeded);
    }

    /// Stored with intents: a release that computes another value would take a retry for a conflict.
    #[test]
    fn the_fingerprint_is_fixed() {
        assert_eq!(
            sealwright_crypto::digest::to_hex(&group().fingerprint()),
            "4e482bb3dc7cc8a00909ed864d87382a150965df1b379022d1f8db9ff9e7722e"
        );
    }

    fn refused_as(change: fn(&mut v1::SignGroup)) -> Code {
        let mut wire = group().to_wire();
        change(&mut wire);
        Group::parse(wire).unwrap_err().code
    }

    #[test]
    fn what_breaks_a_rule_is_refused_by_name() {
        assert_eq!(refused_as(|g| g.request_id.clear()), Code::MalformedRequest);
        assert_eq!(refused_as(|g| g.key = "a/b".to_owned()), Code::KeyNotFound);
        assert_eq!(refused_as(|g| g.priority = 7), Code::MalformedRequest);
        assert_eq!(refused_as(|g| g.items.clear()), Code::MalformedRequest);
        assert_eq!(refused_as(|g| g.items[0].usage = 99), Code::Unsupported);
        assert_eq!(refused_as(|g| g.items[0].purpose = 0), Code::Unsupported);
        assert_eq!(refused_as(|g| g.items[0].content = None), Code::MalformedRequest);
        let bad_midstate = |g: &mut v1::SignGroup| {
            g.items[0].content = Some(v1::sign_item::Content::Midstate(vec![1, 8, 0]));
        };
        assert_eq!(refused_as(bad_midstate), Code::MalformedRequest);
        let sha1 = |g: &mut v1::SignGroup| {
            g.items[0].content = Some(v1::sign_item::Content::Midstate(vec![1, 2, 0]));
        };
        assert_eq!(refused_as(sha1), Code::Unsupported);
        let slash = |g: &mut v1::SignGroup| g.artefact.as_mut().unwrap().name = "a/b".to_owned();
        assert_eq!(refused_as(slash), Code::MalformedRequest);
    }

    #[test]
    fn limits_are_exact() {
        let with_items = |count| {
            let mut wire = group().to_wire();
            wire.items = vec![wire.items[0].clone(); count];
            Group::parse(wire)
        };
        assert!(with_items(limits::ITEMS_PER_GROUP_MAX).is_ok());
        assert_eq!(with_items(limits::ITEMS_PER_GROUP_MAX + 1).unwrap_err().code, Code::LimitExceeded);
        let with_inline = |sizes: &[usize]| {
            let inline = |size: usize| v1::SignItem {
                usage: 1,
                purpose: 1,
                content: Some(v1::sign_item::Content::Inline(v1::InlineContent {
                    hash: 8,
                    bytes: vec![0; size],
                })),
                ticket: Vec::new(),
                artefact: None,
            };
            let mut wire = group().to_wire();
            wire.items = sizes.iter().copied().map(inline).collect();
            Group::parse(wire)
        };
        let half = limits::INLINE_BYTES_MAX / 2;
        assert!(with_inline(&[half, half]).is_ok());
        assert_eq!(with_inline(&[half, half, 1]).unwrap_err().code, Code::LimitExceeded);
        let mut wire = group().to_wire();
        wire.deadline_ms = u32::MAX;
        assert_eq!(Group::parse(wire.clone()).unwrap().deadline_ms, limits::DEADLINE_MS_MAX);
        wire.deadline_ms = 0;
        assert_eq!(Group::parse(wire).unwrap().deadline_ms, limits::DEADLINE_MS_DEFAULT);
    }

    #[test]
    fn an_answer_survives_the_wire() {
        let signature = LoggedSignature { packet: vec![1, 2, 3], log_index: 9, leaf_hash: [7; 32] };
        let outcome = Ok(vec![Ok(signature), Err(Fault::new(Code::KeyDisabled, "off"))]);
        for outcome in [outcome, Err(Fault::new(Code::Overloaded, "full"))] {
            let answer = GroupResult { request_id: group().request_id, outcome };
            assert_eq!(GroupResult::parse(answer.clone().into_wire()).unwrap(), answer);
        }
    }

    #[test]
    fn an_answer_that_breaks_a_rule_is_refused() {
        let signature = LoggedSignature { packet: vec![1, 2, 3], log_index: 9, leaf_hash: [7; 32] };
        let answer = GroupResult { request_id: group().request_id, outcome: Ok(vec![Ok(signature)]) };
        let refused = |change: fn(&mut v1::Signature)| {
            let mut wire = answer.clone().into_wire();
            let Some(v1::sign_item_result::Outcome::Signature(signature)) = &mut wire.items[0].outcome else {
                panic!("a signature")
            };
            change(signature);
            GroupResult::parse(wire).is_err()
        };
        assert!(refused(|s| s.packet.clear()));
        assert!(refused(|s| s.packet = vec![0; limits::SIGNATURE_BYTES_MAX + 1]));
        assert!(refused(|s| s.leaf_hash.push(0)));
        let mut wire = answer.clone().into_wire();
        wire.items[0].outcome = None;
        assert!(GroupResult::parse(wire).is_err());
    }
}
