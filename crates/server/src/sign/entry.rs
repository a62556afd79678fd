//! Log entries from what the signer made. Its answer is checked once more before it is recorded: it must be a
//! signature of the key, hash and time that it says it is.

use sealwright_crypto::bare::{AnyDigest, Bare};
use sealwright_crypto::digest::Digest;
use sealwright_crypto::openpgp::fingerprint::Fingerprint;
use sealwright_crypto::openpgp::packet::SignaturePacket;
use sealwright_crypto::openpgp::salt::Salt;
use sealwright_crypto::tbs::{Content, ToBeSigned};
use sealwright_proto::convert::group::Group;
use sealwright_proto::status::{Code, Fault};
use sealwright_store::ItemResult;
use sealwright_tlog::entry::packet_hash;
use sealwright_tlog::{Artefact, Entry as LogEntry, Operation};

use super::{Authorised, Entry, Recorded, Signed, SignedItem};

/// What the store is to record, one an item.
pub(super) fn item_results(
    group: &Group,
    authorised: &Authorised,
    key: &Entry,
    recorded: &Recorded,
    signed: Signed,
) -> Vec<ItemResult> {
    let items = group.items.iter().zip(recorded.salts()).zip(signed).zip(0_u32..);
    let results = items.map(|(((item, first), outcome), position)| {
        let logged = outcome.and_then(|signed| {
            let (digest, signing_fingerprint) = checked(item, first.as_ref(), key, &signed)?;
            let sealwright_proto::convert::batch::Operation { number, skipped, chain } = signed.operation;
            let entry = LogEntry {
                signed_at_s: signed.created,
                principal: recorded.id().principal.clone(),
                request_id: *group.request_id.as_bytes(),
                item: position,
                key_id: *authorised.key_id().as_bytes(),
                key_version: key.facts.version,
                key_generation: authorised.generation(),
                signing_fingerprint,
                usage: item.usage,
                purpose: item.purpose,
                digest,
                packet_sha256: packet_hash(&signed.packet),
                artefact: claim(group.artefact_of(usize::try_from(position).unwrap_or(usize::MAX))),
                decision: authorised.decision().to_owned(),
                claimed_time_s: claimed_time_s(item),
                operation: Operation { number, skipped, chain },
            };
            Ok(ItemResult::Signed { entry: Box::new(entry), packet: signed.packet })
        });
        logged
            .unwrap_or_else(|fault| ItemResult::Failed { code: fault.code.number(), message: fault.message })
    });
    results.collect()
}

/// Of a bare digest the client chose it; of all else the signer.
fn claimed_time_s(item: &ToBeSigned) -> Option<i64> {
    match &item.content {
        Content::Bare(bare) | Content::Project(bare, _) => Some(bare.created().into()),
        Content::Midstate(_) | Content::Inline(..) => None,
    }
}

fn claim(artefact: &sealwright_proto::convert::group::Artefact) -> Option<Artefact> {
    let (name, size) = (&artefact.name, artefact.size);
    let claimed = !name.is_empty() || size > 0;
    claimed.then(|| Artefact { name: name.clone(), size })
}

/// The digest that was signed, of the right length; and the packet is one of this key, hash, salt and time.
fn checked(
    item: &ToBeSigned,
    first: Option<&Salt>,
    key: &Entry,
    signed: &SignedItem,
) -> Result<(AnyDigest, Fingerprint), Fault> {
    let hash = match &item.content {
        Content::Bare(bare) | Content::Project(bare, _) => return checked_bare(bare, item, key, signed),
        Content::Midstate(midstate) => midstate.hash(),
        Content::Inline(hash, _) => *hash,
    };
    let packet = SignaturePacket::parse(&signed.packet).map_err(|_| wrong("not one signature packet"))?;
    if packet.hash() != Some(hash) {
        return Err(wrong("a signature with another hash algorithm"));
    }
    if packet.issuer_fingerprint() != Some(key.facts.signing_fingerprint) {
        return Err(wrong("a signature by another key"));
    }
    if packet.salt() != first.map(Salt::as_bytes) {
        return Err(wrong("a signature with another salt"));
    }
    if packet.created().map(i64::from) != Some(signed.created) {
        return Err(wrong("a signature of another time"));
    }
    let digest = Digest::from_bytes(hash, &signed.digest);
    let digest = digest.map_err(|_| wrong("a digest of the wrong length"))?;
    Ok((digest.into(), key.facts.signing_fingerprint))
}

/// The packet repeats what was asked, and the digest is that which was asked. Which project key signed, the signer alone knows.
fn checked_bare(
    bare: &Bare,
    item: &ToBeSigned,
    key: &Entry,
    signed: &SignedItem,
) -> Result<(AnyDigest, Fingerprint), Fault> {
    let issuer = match (&item.content, signed.issuer) {
        (Content::Project(..), Some(issuer)) => issuer,
        (Content::Project(..), None) => return Err(wrong("a signature by no project key")),
        (Content::Midstate(_) | Content::Inline(..) | Content::Bare(_), None) => {
            key.facts.signing_fingerprint
        }
        (Content::Midstate(_) | Content::Inline(..) | Content::Bare(_), Some(_)) => {
            return Err(wrong("a signature by a project key"));
        }
    };
    if !bare.is_answered_by(&signed.packet, &issuer) {
        return Err(wrong("a signature of another digest, or by another key"));
    }
    if bare.digest().as_bytes() != signed.digest {
        return Err(wrong("another digest than it was asked to sign"));
    }
    Ok((bare.digest(), issuer))
}

fn wrong(what: &str) -> Fault {
    Fault::new(Code::SignatureSelfCheckFailed, format!("the signer's answer: {what}"))
}
