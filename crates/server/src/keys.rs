//! Key administration: the use cases behind the Keys service. Secrets are the signer's; what is kept here is sealed.

use std::collections::BTreeSet;
use std::ops::Bound;
use std::time::Duration;

use sealwright_crypto::openpgp::fingerprint::Fingerprint;
use sealwright_crypto::usage::Usage;
use sealwright_proto::convert::batch::SealedKey;
use sealwright_proto::convert::keys::{
    ImportKey, KeyMaterial, RenewKey, SignerCreate, SignerImport, SignerRenew,
};
use sealwright_proto::names::{KeyId, KeyName, KeyReference};
use sealwright_proto::status::{Code, Fault};
use sealwright_store::{Key, KeyState, Material, NewKey};
use tokio::time::Instant;
use uuid::Uuid;

use crate::Inner;
use crate::fault::from_store;
use crate::policy::{self, Administrator, MayCreate, Principal};
use crate::registry;

mod looks;
mod once;

pub(crate) use looks::Looks;
pub(crate) use once::{Making, Once, make_once};

/// How long the signer may take for one key: RSA-4096 takes seconds to make, on a busy machine many.
const KEY_DEADLINE: Duration = Duration::from_secs(120);

/// A key that was made or imported, with what is told once.
pub(crate) struct Made {
    pub(crate) key: Key,
    pub(crate) revocation: Option<String>,
    pub(crate) warnings: Vec<String>,
}

/// Whether somebody waits for a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    /// It is made at once.
    AtOnce,
    /// It is made with the time of the processors that signing leaves.
    MayWait,
}

/// Makes a key.
///
/// # Errors
/// [`Code::KeyExists`]; what the signer says; those of the store.
pub(crate) async fn create(front: &Inner, may: MayCreate, wait: Wait) -> Result<Made, Fault> {
    let create = may.into_inner();
    name_is_free(front, &create.name).await?;
    let (id, key_id) = new_id()?;
    let (usages, may_wait) = (create.usages, wait == Wait::MayWait);
    let asked = SignerCreate { key_id, spec: create.spec, usages: usages.clone(), may_wait };
    let material = front.signer.create(asked, deadline()).await?;
    insert(front, id, &create.name, usages, material).await
}

/// The signer's public key, to which an import is encrypted.
///
/// # Errors
/// What the signer says; [`Code::Internal`] if its key has not 32 bytes.
pub(crate) async fn begin_import(front: &Inner, _: Administrator) -> Result<Vec<u8>, Fault> {
    let key = front.signer.begin_import(deadline()).await?;
    if key.len() != 32 {
        return Err(Fault::new(Code::Internal, "the signer's import key has not 32 bytes"));
    }
    Ok(key)
}

/// Takes in a key that the client encrypted to the signer.
///
/// # Errors
/// [`Code::KeyExists`]; what the signer says; those of the store.
pub(crate) async fn import(front: &Inner, _: Administrator, import: ImportKey) -> Result<Made, Fault> {
    name_is_free(front, &import.name).await?;
    let (id, key_id) = new_id()?;
    let (name, usages) = (import.name.clone(), import.usages.clone());
    let material = front.signer.import(SignerImport { key_id, import }, deadline()).await?;
    insert(front, id, &name, usages, material).await
}

/// Extends the validity of a certificate: a new generation of the same key.
///
/// # Errors
/// [`Code::KeyNotFound`], [`Code::NotRenewable`], [`Code::KeyChanged`]; what the signer says; those of the store.
pub(crate) async fn renew(front: &Inner, _: Administrator, renew: &RenewKey) -> Result<Made, Fault> {
    let old = registry::load(&front.store, &renew.key).await?;
    if !old.material.renewable {
        let message = format!("the primary secret key of {} is not here", old.name);
        return Err(Fault::new(Code::NotRenewable, message));
    }
    let expected = old.material.generation;
    let generation = expected.checked_add(1);
    let generation =
        generation.ok_or_else(|| Fault::new(Code::LimitExceeded, "the key was renewed too often"))?;
    let asked = SignerRenew {
        key: SealedKey {
            key_id: KeyId::parse(old.id.as_bytes())?,
            generation: expected,
            blob: old.material.sealed,
        },
        valid_for_s: renew.valid_for_s,
        certificate: old.material.certificate,
        generation,
    };
    let made = front.signer.renew(asked, deadline()).await?;
    if made.generation != generation {
        return Err(Fault::new(Code::Internal, "the signer renewed the key to another generation"));
    }
    let (material, revocation, warnings) = taken_apart(front, made)?;
    let key = front.store.replace_material(old.id, expected, material).await.map_err(from_store)?;
    front.registry.put(key.clone());
    tracing::info!(key = key.name, generation, "renewed");
    Ok(Made { key, revocation, warnings })
}

/// Switches a key on or off. When this has returned, a key that is off gives no signature, in no process.
///
/// # Errors
/// [`Code::KeyNotFound`]; those of the store.
pub(crate) async fn set_state(
    front: &Inner,
    _: Administrator,
    reference: &KeyReference,
    state: KeyState,
) -> Result<Key, Fault> {
    let old = registry::load(&front.store, reference).await?;
    let key = front.store.set_key_state(old.id, state).await.map_err(from_store)?;
    front.registry.put(key.clone());
    tracing::info!(key = key.name, ?state, "the state of a key was set");
    Ok(key)
}

/// One key by name or fingerprint, as the store has it now, for those who may see it.
///
/// # Errors
/// [`Code::KeyNotFound`], [`Code::PermissionDenied`]; those of the store.
pub(crate) async fn describe(
    front: &Inner,
    principal: &Principal,
    reference: &KeyReference,
) -> Result<Key, Fault> {
    let found = front.looks.look(reference).await;
    let key = found.map_err(|fault| policy::look_up_failed(principal, reference, fault))?;
    policy::see(principal, reference, &key.name)?;
    Ok(key)
}

/// The keys after a name that the principal may see, at most `limit`, and whether there are more.
///
/// # Errors
/// Those of the store.
pub(crate) async fn list(
    front: &Inner,
    principal: &Principal,
    after: Option<&KeyName>,
    limit: u32,
) -> Result<(Vec<Key>, bool), Fault> {
    if let Some(names) = principal.sees_only() {
        return list_names(front, names, after, limit).await;
    }
    let after = after.map_or("", KeyName::as_str);
    let keys = front.store.keys_after(after, limit).await.map_err(from_store)?;
    let last = keys.last().map(|key| key.name.clone());
    let more = match last.filter(|_| u32::try_from(keys.len()).is_ok_and(|len| len >= limit)) {
        Some(last) => !front.store.keys_after(&last, 1).await.map_err(from_store)?.is_empty(),
        None => false,
    };
    Ok((keys, more))
}

/// Of the granted names, those for which there is a key. Grants are few, and bounded (`clients.rs`).
async fn list_names(
    front: &Inner,
    names: &BTreeSet<KeyName>,
    after: Option<&KeyName>,
    limit: u32,
) -> Result<(Vec<Key>, bool), Fault> {
    let start = after.map_or(Bound::Unbounded, Bound::Excluded);
    let mut keys = Vec::new();
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    for name in names.range::<KeyName, _>((start, Bound::Unbounded)) {
        if keys.len() >= limit {
            return Ok((keys, true));
        }
        keys.extend(front.store.key_by_name(name.as_str()).await.map_err(from_store)?);
    }
    Ok((keys, false))
}

/// Asked before the signer works for seconds; the insert itself is what decides.
async fn name_is_free(front: &Inner, name: &KeyName) -> Result<(), Fault> {
    match front.store.key_by_name(name.as_str()).await.map_err(from_store)? {
        Some(_) => {
            Err(Fault::new(Code::KeyExists, format!("the name {name} is taken; names are never reused")))
        }
        None => Ok(()),
    }
}

fn new_id() -> Result<(Uuid, KeyId), Fault> {
    let id = Uuid::now_v7();
    Ok((id, KeyId::parse(id.as_bytes())?))
}

fn deadline() -> Instant {
    let now = Instant::now();
    now.checked_add(KEY_DEADLINE).unwrap_or(now)
}

async fn insert(
    front: &Inner,
    id: Uuid,
    name: &KeyName,
    usages: Vec<Usage>,
    made: KeyMaterial,
) -> Result<Made, Fault> {
    let (material, revocation, warnings) = taken_apart(front, made)?;
    let new = NewKey { id, name: name.as_str().to_owned(), usages, material };
    let key = front.store.insert_key(new).await.map_err(from_store)?;
    front.registry.put(key.clone());
    let (fingerprint, usages) = (key.material.fingerprint, names(&key.usages));
    tracing::info!(key = key.name, %fingerprint, usages, "a new key");
    if key.usages.iter().any(|usage| usage.is_bare()) {
        let can_certify = key.material.fingerprint == key.material.signing_fingerprint;
        tracing::warn!(key = key.name, %fingerprint, usages, can_certify, "a key that signs bare digests");
    }
    Ok(Made { key, revocation, warnings })
}

/// For a log line.
fn names(usages: &[Usage]) -> String {
    usages.iter().map(|usage| usage.name()).collect::<Vec<_>>().join(",")
}

fn taken_apart(front: &Inner, made: KeyMaterial) -> Result<(Material, Option<String>, Vec<String>), Fault> {
    let fingerprint = |hex: &str| {
        Fingerprint::from_hex(hex)
            .map_err(|_| Fault::new(Code::Internal, "the signer sent a fingerprint that is none"))
    };
    let material = Material {
        generation: made.generation,
        algorithm: made.algorithm,
        fingerprint: fingerprint(&made.fingerprint)?,
        signing_fingerprint: fingerprint(&made.signing_fingerprint)?,
        user_id: made.user_id,
        created_s: made.created,
        expires_s: made.expires,
        certificate: made.certificate,
        sealed: made.sealed,
        data_key_id: front.signer.data_key_id().to_owned(),
        renewable: made.renewable,
        backend: made.backend.as_str().to_owned(),
    };
    Ok((material, made.revocation, made.warnings))
}
