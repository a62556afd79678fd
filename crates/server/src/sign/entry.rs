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
        Content::Bare(bare) => {
            let ours = signed.issuer.is_none().then_some(key.facts.signing_fingerprint);
            return checked_bare(bare, ours, signed);
        }
        Content::Project(bare, _) => return checked_bare(bare, signed.issuer, signed),
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

/// The packet repeats what was asked, and the digest is that which was asked. The issuer is our key for a bare digest; which
/// project key signed, the signer alone knows. `None`: it names one for what no project key was to sign, or none for what one was.
fn checked_bare(
    bare: &Bare,
    issuer: Option<Fingerprint>,
    signed: &SignedItem,
) -> Result<(AnyDigest, Fingerprint), Fault> {
    let issuer = issuer.ok_or_else(|| wrong("a signature by another kind of key"))?;
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

#[cfg(test)]
mod tests {
    use sealwright_crypto::algorithm::KeyAlgorithm;
    use sealwright_crypto::openpgp::signature::DataKind;
    use sealwright_proto::convert::batch::Operation;

    use super::*;

    const ISSUER: Fingerprint = Fingerprint::v4([9; 20]);

    fn bare(digest: u8, kind: DataKind, created: u32) -> Bare {
        Bare::new(AnyDigest::from_parts(8, &[digest; 32]).unwrap(), kind, created).unwrap()
    }

    fn answer(bare: &Bare, issuer: &Fingerprint) -> SignedItem {
        SignedItem {
            packet: bare.pack(KeyAlgorithm::Ed25519, issuer, &[1; 64]).unwrap(),
            digest: bare.digest().as_bytes().to_vec(),
            created: 5,
            operation: Operation { number: 1, ..Operation::default() },
            issuer: None,
        }
    }

    #[test]
    fn an_answer_to_a_bare_digest_is_recorded_only_if_it_is_one() {
        let asked = bare(7, DataKind::Text, 3);
        let good = answer(&asked, &ISSUER);
        assert_eq!(checked_bare(&asked, Some(ISSUER), &good), Ok((asked.digest(), ISSUER)));
        let other = Fingerprint::v4([8; 20]);
        for bad in [
            answer(&asked, &other),
            answer(&bare(6, DataKind::Text, 3), &ISSUER),
            answer(&bare(7, DataKind::Binary, 3), &ISSUER),
            answer(&bare(7, DataKind::Text, 4), &ISSUER),
            SignedItem { packet: vec![0x88], ..good.clone() },
            SignedItem { digest: vec![6; 32], ..good.clone() },
            SignedItem { digest: vec![7; 31], ..good.clone() },
        ] {
            let fault = checked_bare(&asked, Some(ISSUER), &bad).unwrap_err();
            assert_eq!(fault.code, Code::SignatureSelfCheckFailed, "{bad:?}");
        }
        assert!(checked_bare(&asked, None, &good).is_err());
        assert!(checked_bare(&asked, Some(other), &good).is_err());
    }
}
