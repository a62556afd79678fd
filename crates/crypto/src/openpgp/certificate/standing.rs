//! What the self-signatures of a certificate say, taken together. Every signature that counts is verified here.

use pgp::crypto::hash::HashAlgorithm as PgpHash;
use pgp::packet::{PublicKey, PublicSubkey, RevocationCode, Signature, SignatureType, SubpacketData, UserId};
use pgp::types::Tag;

use super::checked::Checked;
use super::parts::Parts;
use crate::error::Error;
use crate::openpgp::component::{Component, Key, Revocation, Standing};

/// A user id that the key vouches for.
#[derive(Clone, Debug)]
pub(super) struct Identity {
    /// Printable.
    pub(super) text: String,
    /// Its newest self-signature uses SHA-1.
    pub(super) sha1: bool,
}

/// All components, the primary one first, and the valid user ids, the primary one first.
pub(super) fn evaluate(parts: Parts) -> Result<(Vec<Component>, Vec<Identity>), Error> {
    let Parts { primary: key, direct, users, subkeys } = parts;
    let mut primary = Component::new(Key::Primary(key.clone()))?;
    let checked = Checked { key: &key, rsa: primary.rsa.as_ref() };
    let mut users: Vec<_> = users.iter().filter_map(|(id, list)| identify(&checked, id, list)).collect();
    users.sort_by_key(|(_, newest)| core::cmp::Reverse((newest.primary_user_id, newest.created)));
    primary.standing = primary_standing(&checked, &primary, &direct, &users);
    let checked = Checked { key: &key, rsa: primary.rsa.as_ref() };
    let mut components = Vec::with_capacity(subkeys.len().saturating_add(1));
    for (subkey, signatures) in subkeys {
        let mut component = Component::new(Key::Subkey(subkey.clone()))?;
        component.standing = subkey_standing(&checked, &component, &subkey, &signatures);
        component.inherit(&primary);
        components.push(component);
    }
    components.insert(0, primary);
    Ok((components, users.into_iter().map(|(identity, _)| identity).collect()))
}

/// The fields of a self-signature that matter here, from its hashed area.
#[derive(Clone, Copy)]
struct SelfSignature {
    created: u32,
    /// Seconds after the creation of the key.
    key_expires_after: Option<u32>,
    /// Seconds after the creation of the signature.
    expires_after: Option<u32>,
    /// Whether the key flags, if there are any, allow signing data.
    may_sign: Option<bool>,
    primary_user_id: bool,
    sha1: bool,
}

impl SelfSignature {
    /// `None` for what cannot count: no creation time, MD5, or a critical subpacket that nobody understands.
    fn read(signature: &Signature) -> Option<Self> {
        let hash = signature.hash_alg().filter(|hash| *hash != PgpHash::Md5)?;
        let config = signature.config()?;
        let unknown = |data: &SubpacketData| {
            matches!(
                data,
                SubpacketData::Other(..) | SubpacketData::Experimental(..) | SubpacketData::Notation(_)
            )
        };
        if config.hashed_subpackets().any(|subpacket| subpacket.is_critical && unknown(&subpacket.data)) {
            return None;
        }
        let has_flags =
            config.hashed_subpackets().any(|subpacket| matches!(subpacket.data, SubpacketData::KeyFlags(_)));
        Some(Self {
            created: signature.created()?.as_secs(),
            key_expires_after: signature.key_expiration_time().map(|after| after.as_secs()),
            expires_after: signature.signature_expiration_time().map(|after| after.as_secs()),
            may_sign: has_flags.then(|| signature.key_flags().sign()),
            primary_user_id: signature.is_primary(),
            sha1: hash == PgpHash::Sha1,
        })
    }

    /// End of the key that was made at `key_created`: the key's own, or that of this signature if it ends first.
    /// `key_expires_after` may be that of another self-signature.
    fn end(&self, key_created: u32, key_expires_after: Option<u32>) -> Option<i64> {
        let end = |from: u32, after: Option<u32>| {
            let after = after.filter(|after| *after != 0)?;
            Some(i64::from(from).saturating_add(i64::from(after)))
        };
        earliest(end(key_created, key_expires_after), end(self.created, self.expires_after))
    }
}

impl Standing {
    /// End, revocation and faults of the primary key are its subkeys' too.
    pub(crate) fn inherit(&mut self, primary: &Self) {
        self.expires = earliest(self.expires, primary.expires);
        self.revocations.extend_from_slice(&primary.revocations);
        if primary.problem.is_some() {
            self.problem = primary.problem;
            self.may_sign = false;
        }
    }
}

fn earliest(a: Option<i64>, b: Option<i64>) -> Option<i64> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

/// The newest; of two in one second the one that comes later in the certificate.
fn newest(signatures: impl Iterator<Item = SelfSignature>) -> Option<SelfSignature> {
    signatures.max_by_key(|signature| signature.created)
}

fn of_type(signatures: &[Signature], wanted: SignatureType) -> impl Iterator<Item = &Signature> {
    signatures.iter().filter(move |signature| signature.typ() == Some(wanted))
}

/// A user id with its newest valid self-signature, unless it was revoked since.
fn identify(
    key: &Checked<'_, PublicKey>,
    id: &UserId,
    signatures: &[Signature],
) -> Option<(Identity, SelfSignature)> {
    let valid = |signature: &&Signature| signature.verify_certification(key, Tag::UserId, id).is_ok();
    let is_revocation = |signature: &&Signature| signature.typ() == Some(SignatureType::CertRevocation);
    let certifications = signatures.iter().filter(|signature| !is_revocation(signature)).filter(valid);
    let newest = newest(certifications.filter_map(SelfSignature::read))?;
    let mut revocations =
        signatures.iter().filter(is_revocation).filter(valid).filter_map(Signature::created);
    if revocations.any(|revoked| revoked.as_secs() >= newest.created) {
        return None;
    }
    Some((Identity { text: printable(id.id()), sha1: newest.sha1 }, newest))
}

/// User ids come from strangers and end on terminals.
fn printable(bytes: &[u8]) -> String {
    let replace = |c: char| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c };
    String::from_utf8_lossy(bytes).chars().map(replace).collect()
}

fn primary_standing(
    key: &Checked<'_, PublicKey>,
    component: &Component,
    direct: &[Signature],
    users: &[(Identity, SelfSignature)],
) -> Standing {
    let valid = |signature: &&Signature| signature.verify_key(key).is_ok();
    let revocations =
        of_type(direct, SignatureType::KeyRevocation).filter(valid).filter_map(revocation).collect();
    let by_user = newest(users.iter().map(|(_, signature)| *signature));
    let by_key = newest(of_type(direct, SignatureType::Key).filter(valid).filter_map(SelfSignature::read));
    let (first, second) = match (by_user, by_key) {
        (Some(user), Some(key)) if key.created > user.created => (key, Some(user)),
        (Some(user), key) => (user, key),
        (None, Some(key)) => (key, None),
        (None, None) => {
            let problem = Some(component.unchecked().unwrap_or("no valid self-signature binds it"));
            return Standing { revocations, problem, ..Standing::default() };
        }
    };
    let key_expires_after = first.key_expires_after.or_else(|| second?.key_expires_after);
    // Keys older than key flags may do what their algorithm can.
    let may_sign = first.may_sign.or_else(|| second?.may_sign).unwrap_or(true);
    Standing {
        expires: first.end(component.created(), key_expires_after),
        revocations,
        may_sign: may_sign && component.is_signing_algorithm(),
        problem: None,
        bound_by_sha1: first.sha1,
    }
}

fn subkey_standing(
    primary: &Checked<'_, PublicKey>,
    component: &Component,
    subkey: &PublicSubkey,
    signatures: &[Signature],
) -> Standing {
    let valid = |signature: &&Signature| signature.verify_subkey_binding(primary, subkey).is_ok();
    let revocations =
        of_type(signatures, SignatureType::SubkeyRevocation).filter(valid).filter_map(revocation).collect();
    let bindings = of_type(signatures, SignatureType::SubkeyBinding).filter(valid);
    let bindings = bindings.filter_map(|signature| Some((SelfSignature::read(signature)?, signature)));
    let Some((binding, signature)) = bindings.max_by_key(|(read, _)| read.created) else {
        let problem = Some("no valid binding signature of the primary key binds it");
        return Standing { revocations, problem, ..Standing::default() };
    };
    let flagged = binding.may_sign.unwrap_or(true) && component.is_signing_algorithm();
    let itself = Checked { key: subkey, rsa: component.rsa.as_ref() };
    let signed_back = flagged
        && signature.embedded_signature().is_some_and(|back| {
            SelfSignature::read(back).is_some() && back.verify_primary_key_binding(&itself, primary).is_ok()
        });
    let lacks_back_signature = flagged && binding.may_sign.is_some() && !signed_back;
    Standing {
        expires: binding.end(component.created(), binding.key_expires_after),
        revocations,
        may_sign: signed_back,
        problem: lacks_back_signature
            .then_some("it is meant for signing, but has not signed that it belongs to the primary key"),
        bound_by_sha1: binding.sha1,
    }
}

/// Section 5.2.3.31: without a reason the worst is assumed.
fn revocation(signature: &Signature) -> Option<Revocation> {
    let soft = [RevocationCode::KeySuperseded, RevocationCode::KeyRetired];
    let hard = signature.revocation_reason_code().is_none_or(|code| !soft.contains(code));
    Some(Revocation { created: signature.created()?.as_secs(), hard })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_ids_cannot_steer_a_terminal() {
        assert_eq!(printable(b"a\x1b[2Jb\n\xff \xc3\xa9"), "a\u{fffd}[2Jb\u{fffd}\u{fffd} \u{e9}");
    }
}
