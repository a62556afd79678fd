//! Project keys, which clients keep encrypted to a key of ours: signing with one, and making one.

use std::sync::Arc;

use sealwright_crypto::algorithm::KeyAlgorithm;
use sealwright_crypto::openpgp::armor;
use sealwright_obs::command::{Keygen, NewKey};
use sealwright_obs::packet::{SignaturePacket, Value, version_3};
use sealwright_obs::project_key::ProjectKey;
use sealwright_obs::{DigestArgument, Reply, framing, packet};
use sealwright_proto::convert::batch::SealedKey;
use sealwright_proto::convert::project::MakeProjectKey;
use sealwright_proto::names::{KeyId, KeyReference};
use sealwright_proto::status::Fault;
use tokio::time::Instant;

use super::answer::{Asked, No, internal};
use super::sign;
use crate::clock;
use crate::policy::{self, ObsGrant};

/// How long the signer may take to make a key: RSA-4096 takes seconds, on a busy machine many.
const MAKE_MAX: std::time::Duration = std::time::Duration::from_secs(120);

/// What making a key costs of the measure of digests: about as much of the processor.
const MAKE_COST: usize = 200;

/// Bits of a number in a signature of the longest key that a project can have: what a reply must have room for.
const NUMBER_BYTES_MAX: usize = 512;

const DAY_S: u64 = 86_400;

/// Signatures by the project key, all of them or a refusal.
pub(super) async fn sign(
    asked: &Asked<'_>,
    key: &ProjectKey,
    digests: &[DigestArgument],
) -> Result<Reply, No> {
    if !asked.principal.may_over_obs(ObsGrant::Sign) {
        return Err(asked.not_granted("signing"));
    }
    let ProjectKey::OpenPgp(_) = key else { return Err(No::WrappedKey) };
    Reply::would_fit(
        asked.form,
        digests.len(),
        packet::version_3_len_max(packet::KeyAlgorithm::Rsa, NUMBER_BYTES_MAX),
    )?;
    asked.pace(digests.len()).await?;
    // Which key it is shows only when it is opened, and then it signs: of a probe, something that is of no use to anybody.
    let to_sign =
        digests.iter().map(|digest| if digest.is_probe() { drawn(digest) } else { Ok(digest.clone()) });
    let to_sign = to_sign.collect::<Result<Vec<_>, Fault>>().map_err(No::Fault)?;
    let key: Arc<[u8]> = key.to_bytes().into();
    let packets = sign::digests(asked, &to_sign, Some(&key)).await?;
    let packets = digests
        .iter()
        .zip(packets)
        .map(|(digest, packet)| if digest.is_probe() { probe_answer(digest, &packet) } else { Ok(packet) });
    let packets = packets.collect::<Result<Vec<_>, Fault>>().map_err(No::Fault)?;
    Ok(Reply::ok(asked.form, &packets)?)
}

/// A digest of the same hash that nobody has chosen.
fn drawn(probe: &DigestArgument) -> Result<DigestArgument, Fault> {
    let mut digest = vec![0; probe.digest().len()];
    rustix::rand::getrandom(&mut digest, rustix::rand::GetRandomFlags::empty())
        .map_err(|error| internal(&error))?;
    DigestArgument::new(probe.hash(), &digest, probe.class(), probe.created())
        .map_err(|error| internal(&error))
}

/// The answer of an old `signd` to a probe, which says algorithm and key id, with the number 1 in place of the signature.
fn probe_answer(probe: &DigestArgument, signed: &[u8]) -> Result<Vec<u8>, Fault> {
    let signed = SignaturePacket::parse(signed).map_err(|error| internal(&error))?;
    let one: &[u8] = &[1];
    let value = match signed.algorithm {
        packet::KeyAlgorithm::Rsa => Value::Rsa(one),
        packet::KeyAlgorithm::EdDsaLegacy => Value::EdDsaLegacy { r: one, s: one },
        packet::KeyAlgorithm::Dsa | packet::KeyAlgorithm::Ecdsa => Value::Ecdsa { r: one, s: one },
    };
    version_3(probe, signed.issuer, &value).map_err(|error| internal(&error))
}

/// A new project key: its certificate, certified by the user's key, and its secret half, encrypted to that.
pub(super) async fn make(asked: &Asked<'_>, keygen: &Keygen) -> Result<Reply, No> {
    if !asked.principal.may_over_obs(ObsGrant::Keygen) {
        return Err(asked.not_granted("keygen"));
    }
    let algorithm = algorithm(keygen)?;
    let user_id = user_id(keygen)?;
    let front = &asked.inner.front.inner;
    let reference = KeyReference::Name(asked.name.clone());
    let fault = |fault| No::Fault(asked.caller.reads(fault));
    // As it is now: nothing is checked behind this.
    let key = front.registry.refresh(&reference).await.map_err(fault)?;
    let authorised =
        policy::decide_project_key(asked.principal, &reference, &key.facts, clock::now_s()).map_err(fault)?;
    asked.pace(MAKE_COST).await?;
    let wanted = MakeProjectKey {
        key: SealedKey {
            key_id: KeyId::parse(authorised.key_id().as_bytes()).map_err(fault)?,
            generation: authorised.generation(),
            blob: key.sealed().to_vec(),
        },
        algorithm,
        user_id,
        valid_for_s: (keygen.expire_days > 0).then(|| keygen.expire_days.saturating_mul(DAY_S)),
    };
    let deadline = Instant::now().checked_add(MAKE_MAX).unwrap_or_else(Instant::now);
    let made = front.signer.make_project_key(wanted, deadline).await.map_err(fault)?;
    let certificate = framing::as_gpg(&made.certificate).map_err(|error| No::Fault(internal(&error)))?;
    tracing::info!(key = key.facts.name, user_id = keygen.email, %algorithm, "a project key was made and certified");
    let results = [armor::encode(armor::Kind::PublicKey, &certificate), hex(&made.encrypted)];
    Ok(Reply::ok(asked.form, &results)?)
}

fn algorithm(keygen: &Keygen) -> Result<KeyAlgorithm, No> {
    let algorithm = match keygen.algorithm {
        NewKey::Rsa(bits) => Some(KeyAlgorithm::Rsa(bits)),
        NewKey::Ed25519 => Some(KeyAlgorithm::Ed25519),
        NewKey::Dsa(_) | NewKey::NistP256 | NewKey::NistP384 => None,
    };
    let algorithm = algorithm.filter(|algorithm| KeyAlgorithm::CREATABLE.contains(algorithm));
    algorithm.ok_or_else(|| No::NewKey { name: keygen.arguments().into_iter().next().unwrap_or_default() })
}

/// `Name <mail>`, as gpg puts it together, of parts that mean nothing else there.
fn user_id(keygen: &Keygen) -> Result<String, No> {
    let Keygen { real_name, email, .. } = keygen;
    let is_free =
        |text: &str, forbidden: &[char]| !text.contains(forbidden) && text.trim() == text && !text.is_empty();
    let name_is_right = is_free(real_name, &['<', '>', '(', ')']);
    let email_is_right = is_free(email, &['<', '>', '(', ')', ' ', ',', ';', ':', '"', '\\'])
        && email
            .split_once('@')
            .is_some_and(|(user, host)| !user.is_empty() && !host.is_empty() && !host.contains('@'));
    match (name_is_right, email_is_right) {
        (true, true) => Ok(format!("{real_name} <{email}>")),
        (false, _) => Err(No::Name { what: "real name" }),
        (true, false) => Err(No::Name { what: "email" }),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use sealwright_obs::{Class, Hash};

    use super::*;

    fn keygen(algorithm: NewKey, real_name: &str, email: &str) -> Keygen {
        Keygen { algorithm, expire_days: 0, real_name: real_name.to_owned(), email: email.to_owned() }
    }

    #[test]
    fn a_user_id_is_made_of_a_name_and_an_address_that_can_mean_nothing_else() {
        let made = |name: &str, email: &str| {
            user_id(&keygen(NewKey::Ed25519, name, email)).map_err(|no| no.to_string())
        };
        assert_eq!(made("proj key", "a#b@example.org").unwrap(), "proj key <a#b@example.org>");
        assert_eq!(made("J\u{f6}rg", "j@x").unwrap(), "J\u{f6}rg <j@x>");
        for bad in ["", " ", "a <b@x>", "a (b)", " a", "a "] {
            assert_eq!(made(bad, "a@b").unwrap_err(), "bad real name", "{bad:?}");
        }
        for bad in ["", "a", "@", "a@", "@b", "a@b@c", "a b@c", "a@b>", "<a@b", "a@b,c@d", "\"a\"@b"] {
            assert_eq!(made("name", bad).unwrap_err(), "bad email", "{bad:?}");
        }
    }

    #[test]
    fn only_types_that_are_made_here_are_made() {
        let of = |new| algorithm(&keygen(new, "a", "a@b")).map_err(|no| no.to_string());
        assert_eq!(of(NewKey::Rsa(2048)), Ok(KeyAlgorithm::Rsa(2048)));
        assert_eq!(of(NewKey::Ed25519), Ok(KeyAlgorithm::Ed25519));
        assert_eq!(of(NewKey::Rsa(1024)).unwrap_err(), "type rsa@1024 is not made here");
        assert_eq!(of(NewKey::Dsa(2048)).unwrap_err(), "type dsa@2048 is not made here");
        assert_eq!(of(NewKey::NistP256).unwrap_err(), "type nistp256 is not made here");
    }

    #[test]
    fn a_probe_of_a_project_key_is_signed_as_something_else_and_answered_without_its_signature() {
        let probe = DigestArgument::probe(Hash::Sha256);
        let (one, other) = (drawn(&probe).unwrap(), drawn(&probe).unwrap());
        assert!(one != other && !one.is_probe() && one.hash() == Hash::Sha256);
        let digest = DigestArgument::new(Hash::Sha256, &[7; 32], Class::Binary, 9).unwrap();
        let signed = version_3(&digest, [5; 8], &Value::Rsa(&[0xff; 256])).unwrap();
        let answer = SignaturePacket::parse(&probe_answer(&probe, &signed).unwrap()).unwrap();
        assert_eq!((answer.issuer, answer.left, answer.numbers), ([5; 8], [4, 4], vec![0, 1, 1]));
    }
}
