//! Who may sign what: pure functions from facts to [`Authorised`] or a refusal. No input or output, no clock.

use std::collections::BTreeSet;
use std::sync::Arc;

use sealwright_crypto::usage::Usage;
use sealwright_proto::convert::group::Group;
use sealwright_proto::convert::keys::{CreateKey, KeySource};
use sealwright_proto::names::{KeyName, KeyReference};
use sealwright_proto::status::{Code, Fault};
use sealwright_proto::time::utc;
use sealwright_store::KeyState;
use serde::Deserialize;
use uuid::Uuid;

use crate::registry::Facts;

/// Someone whose identity was established, with what was granted to them.
#[derive(Clone, Debug)]
pub struct Principal {
    name: Arc<str>,
    grants: Grants,
    weight: u32,
}

/// What a principal may do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grants {
    /// May make, import, renew, enable and disable keys, and see all of them. Signing is granted apart.
    pub administrator: bool,
    /// The keys it may see and sign with.
    pub keys: Keys,
    /// May make software keys whose names end like one of these, and nothing else with them: who has no grant for a
    /// key that he had made can neither see it nor sign with it. An empty one: of any name.
    pub makes: Vec<Box<str>>,
    /// What it may do with them over obs-sign's protocol, where a server speaks it.
    pub obs: BTreeSet<ObsGrant>,
}

/// What obs-sign's protocol has and no other way of asking has. Public keys are told to whoever may see the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum ObsGrant {
    /// To have digests signed: with a key that was sealed for them, full power over what it can do. Also with project
    /// keys.
    Sign,
    /// To have project keys made, with user ids of the client's choice, which a key that was sealed for that certifies.
    Keygen,
}

/// A set of keys by name. Names are never reused, so a name is one key for ever, also one that is made later.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Keys {
    /// Every key.
    All,
    /// Those of these names.
    Names(BTreeSet<KeyName>),
}

impl Grants {
    /// Everything: the owner of an embedded store.
    pub const OWNER: Self =
        Self { administrator: true, keys: Keys::All, makes: Vec::new(), obs: BTreeSet::new() };

    /// Signing with the keys of these names, and no more.
    #[must_use]
    pub const fn keys(names: BTreeSet<KeyName>) -> Self {
        Self { administrator: false, keys: Keys::Names(names), makes: Vec::new(), obs: BTreeSet::new() }
    }
}

impl Keys {
    fn contains(&self, name: &str) -> bool {
        match self {
            Self::All => true,
            // Few names: no index is kept for a look-up by text.
            Self::Names(names) => names.iter().any(|granted| granted.as_str() == name),
        }
    }
}

/// Longest name of a principal in bytes: the log entry has one length byte.
pub const PRINCIPAL_BYTES_MAX: usize = 255;

/// Largest share of one principal.
pub const WEIGHT_MAX: u32 = 100;

/// Name of the user of an embedded store; no client over the network may have it.
pub const LOCAL: &str = "local";

impl Principal {
    /// The user of an embedded store: who can open its files owns it.
    #[must_use]
    pub fn local() -> Self {
        Self { name: LOCAL.into(), grants: Grants::OWNER, weight: 1 }
    }

    /// A principal that an authenticator has established.
    ///
    /// # Errors
    /// [`Code::LimitExceeded`] for a name longer than [`PRINCIPAL_BYTES_MAX`].
    pub fn new(name: &str, grants: Grants) -> Result<Self, Fault> {
        if name.len() > PRINCIPAL_BYTES_MAX {
            return Err(Fault::new(
                Code::LimitExceeded,
                format!("the principal's name has {} bytes; the limit is {PRINCIPAL_BYTES_MAX}", name.len()),
            ));
        }
        Ok(Self { name: name.into(), grants, weight: 1 })
    }

    /// With this share of the signer's time, where others want it too; from 1 to [`WEIGHT_MAX`].
    #[must_use]
    pub fn with_weight(self, weight: u32) -> Self {
        Self { weight: weight.clamp(1, WEIGHT_MAX), ..self }
    }

    /// Its share.
    pub(crate) const fn weight(&self) -> u32 {
        self.weight
    }

    /// Its name, for those who keep it.
    pub(crate) fn shared_name(&self) -> Arc<str> {
        Arc::clone(&self.name)
    }

    /// As it stands in the log.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether it may do this over obs-sign's protocol.
    pub(crate) fn may_over_obs(&self, grant: ObsGrant) -> bool {
        self.grants.obs.contains(&grant)
    }

    /// The names of keys it may see; `None`: all.
    pub(crate) const fn sees_only(&self) -> Option<&BTreeSet<KeyName>> {
        match &self.grants {
            Grants { administrator: true, .. } | Grants { keys: Keys::All, .. } => None,
            Grants { keys: Keys::Names(names), .. } => Some(names),
        }
    }
}

/// What is said about a key that a principal may not see, whether there is such a key or not.
pub(crate) fn no_grant(principal: &Principal, reference: &KeyReference) -> Fault {
    Fault::new(Code::PermissionDenied, format!("{} has no grant for the key {reference}", principal.name))
}

/// What a look-up of a key may say to this principal: "there is no such key" only to those who could see it.
pub(crate) fn look_up_failed(principal: &Principal, reference: &KeyReference, fault: Fault) -> Fault {
    let could_see = match (principal.sees_only(), reference) {
        (None, _) => true,
        (Some(names), KeyReference::Name(name)) => names.contains(name),
        (Some(_), KeyReference::Fingerprint(_)) => false,
    };
    if could_see || fault.code != Code::KeyNotFound { fault } else { no_grant(principal, reference) }
}

/// Whether the principal may see the key of this name, which was found under `reference`.
///
/// # Errors
/// [`Code::PermissionDenied`].
pub(crate) fn see(principal: &Principal, reference: &KeyReference, name: &str) -> Result<(), Fault> {
    let is_seen = principal.grants.administrator || principal.grants.keys.contains(name);
    if is_seen { Ok(()) } else { Err(no_grant(principal, reference)) }
}

/// Proof that this request may be signed with this key. Only [`decide`] makes one.
#[derive(Clone, Debug)]
pub struct Authorised {
    key_id: Uuid,
    generation: u32,
    decision: &'static str,
}

impl Authorised {
    /// The key that was decided about.
    #[must_use]
    pub const fn key_id(&self) -> Uuid {
        self.key_id
    }

    /// The generation that was decided about.
    #[must_use]
    pub const fn generation(&self) -> u32 {
        self.generation
    }

    /// The decision, as the log keeps it.
    #[must_use]
    pub const fn decision(&self) -> &'static str {
        self.decision
    }
}

/// Decides about one group: first whether the principal may use the key at all, and only then is anything said
/// about the key; then its state, expiry and usages. `now_s` is in Unix seconds.
///
/// # Errors
/// [`Code::PermissionDenied`], [`Code::KeyDisabled`], [`Code::KeyExpired`], [`Code::UsageNotAllowed`].
pub fn decide(principal: &Principal, group: &Group, facts: &Facts, now_s: i64) -> Result<Authorised, Fault> {
    let is_of_obs = |usage: Usage| usage.is_bare() || usage == Usage::ObsProjectKeys;
    if group.items.iter().any(|item| is_of_obs(item.usage)) && !principal.may_over_obs(ObsGrant::Sign) {
        let message = format!("{} has no grant for signing bare digests", principal.name);
        return Err(Fault::new(Code::PermissionDenied, message));
    }
    decide_usages(principal, &group.key, group.items.iter().map(|item| item.usage), facts, now_s)
}

/// Decides about a request for salts: who may sign with the key may have them.
///
/// # Errors
/// Those of [`decide`].
pub fn decide_salts(
    principal: &Principal,
    key: &KeyReference,
    facts: &Facts,
    now_s: i64,
) -> Result<Authorised, Fault> {
    decide_usages(principal, key, std::iter::once(Usage::OpenPgp), facts, now_s)
}

/// Decides about a new project key, which the key certifies.
///
/// # Errors
/// Those of [`decide`].
pub fn decide_project_key(
    principal: &Principal,
    key: &KeyReference,
    facts: &Facts,
    now_s: i64,
) -> Result<Authorised, Fault> {
    if !principal.may_over_obs(ObsGrant::Keygen) {
        let message = format!("{} has no grant for making project keys", principal.name);
        return Err(Fault::new(Code::PermissionDenied, message));
    }
    decide_usages(principal, key, std::iter::once(Usage::ObsProjectKeys), facts, now_s)
}

fn decide_usages(
    principal: &Principal,
    key: &KeyReference,
    mut usages: impl Iterator<Item = Usage>,
    facts: &Facts,
    now_s: i64,
) -> Result<Authorised, Fault> {
    let decision = granted(principal, key, facts)?;
    let refuse = |code, what: String| Err(Fault::new(code, format!("key {} {what}", facts.name)));
    match facts.state {
        KeyState::Enabled => (),
        KeyState::Disabled => return refuse(Code::KeyDisabled, "is disabled".to_owned()),
    }
    if let Some(expires_s) = facts.expires_s.filter(|expires_s| *expires_s <= now_s) {
        return refuse(Code::KeyExpired, format!("expired {}", utc(expires_s)));
    }
    if let Some(usage) = usages.find(|usage| !facts.usages.contains(usage)) {
        return refuse(Code::UsageNotAllowed, format!("is not for the usage {}", usage.name()));
    }
    Ok(Authorised { key_id: facts.id, generation: facts.generation, decision })
}

fn granted(principal: &Principal, key: &KeyReference, facts: &Facts) -> Result<&'static str, Fault> {
    if principal.grants == Grants::OWNER {
        return Ok("owner");
    }
    if principal.grants.keys.contains(&facts.name) {
        return Ok("grant");
    }
    Err(no_grant(principal, key))
}

/// Proof that a principal may administer keys. Only [`administer`] makes one.
#[derive(Clone, Copy, Debug)]
pub struct Administrator(());

/// # Errors
/// [`Code::PermissionDenied`].
pub fn administer(principal: &Principal) -> Result<Administrator, Fault> {
    if principal.grants.administrator {
        return Ok(Administrator(()));
    }
    let message = format!("{} may not administer keys", principal.name);
    Err(Fault::new(Code::PermissionDenied, message))
}

impl Administrator {
    /// An administrator may make any key.
    pub(crate) const fn may_create(self, create: CreateKey) -> MayCreate {
        MayCreate(create)
    }
}

/// Proof that this key may be made for who asked.
#[derive(Clone, Debug)]
pub(crate) struct MayCreate(CreateKey);

impl MayCreate {
    /// The key that was decided about.
    pub(crate) const fn create(&self) -> &CreateKey {
        &self.0
    }

    /// The same, to be made.
    pub(crate) fn into_inner(self) -> CreateKey {
        self.0
    }
}

/// Whether a key of this name may be made for the principal; says nothing about whether there is one.
///
/// # Errors
/// [`Code::PermissionDenied`].
pub(crate) fn may_create(principal: &Principal, create: CreateKey) -> Result<MayCreate, Fault> {
    if principal.grants.administrator {
        return Ok(MayCreate(create));
    }
    may_name(principal, &create.name)?;
    match create.spec.source {
        KeySource::Software(_) => Ok(MayCreate(create)),
        KeySource::Token(..) | KeySource::TakenOver(..) => {
            let message = format!("{} may make software keys alone", principal.name);
            Err(Fault::new(Code::PermissionDenied, message))
        }
    }
}

/// The same where only the name is known yet.
///
/// # Errors
/// [`Code::PermissionDenied`].
pub(crate) fn may_name(principal: &Principal, name: &KeyName) -> Result<(), Fault> {
    let Grants { administrator, makes, .. } = &principal.grants;
    if *administrator || makes.iter().any(|end| name.as_str().ends_with(end.as_ref())) {
        return Ok(());
    }
    let message = format!("{} may not make a key named {name}", principal.name);
    Err(Fault::new(Code::PermissionDenied, message))
}

#[cfg(test)]
mod tests {
    use sealwright_crypto::algorithm::HashAlgorithm;
    use sealwright_crypto::bare::{AnyDigest, Bare};
    use sealwright_crypto::digest::Hasher;
    use sealwright_crypto::openpgp::fingerprint::Fingerprint;
    use sealwright_crypto::openpgp::signature::DataKind;
    use sealwright_crypto::tbs::{Content, ToBeSigned};
    use sealwright_crypto::usage::{Purpose, Usage};
    use sealwright_proto::convert::group::{Artefact, Priority};
    use sealwright_proto::names::RequestId;

    use super::*;

    const NOW_S: i64 = 1_796_000_000;

    fn facts() -> Facts {
        Facts {
            id: Uuid::from_bytes([1; 16]),
            name: "release".to_owned(),
            version: 1,
            state: KeyState::Enabled,
            generation: 3,
            signing_fingerprint: Fingerprint::from_bytes(&[2; 20]).unwrap(),
            usages: vec![Usage::OpenPgp],
            expires_s: Some(NOW_S + 1),
            backend: "software".into(),
        }
    }

    fn group() -> Group {
        let content = Content::Midstate(Hasher::new(HashAlgorithm::Sha256).midstate());
        Group {
            request_id: RequestId::parse(Uuid::now_v7().as_bytes()).unwrap(),
            key: KeyReference::parse("release").unwrap(),
            priority: Priority::Interactive,
            deadline_ms: 1000,
            artefact: Artefact::default(),
            artefacts: Vec::new(),
            items: vec![ToBeSigned {
                usage: Usage::OpenPgp,
                purpose: Purpose::Detached,
                content,
                ticket: None,
            }],
            salt: false,
        }
    }

    /// Salts are decided about as signing is.
    fn code(principal: &Principal, facts: &Facts) -> Option<Code> {
        let code = decide(principal, &group(), facts, NOW_S).err().map(|fault| fault.code);
        let salts = decide_salts(principal, &group().key, facts, NOW_S);
        assert_eq!(salts.err().map(|fault| fault.code), code);
        code
    }

    #[test]
    fn the_owner_may_sign_with_an_enabled_key_of_the_usage() {
        let authorised = decide(&Principal::local(), &group(), &facts(), NOW_S).unwrap();
        assert_eq!((authorised.key_id(), authorised.generation()), (facts().id, 3));
        assert_eq!(authorised.decision(), "owner");
    }

    #[test]
    fn state_expiry_and_usage_each_refuse_by_their_own_code() {
        let owner = Principal::local();
        assert_eq!(code(&owner, &Facts { state: KeyState::Disabled, ..facts() }), Some(Code::KeyDisabled));
        assert_eq!(code(&owner, &Facts { expires_s: Some(NOW_S), ..facts() }), Some(Code::KeyExpired));
        assert_eq!(code(&owner, &Facts { expires_s: None, ..facts() }), None);
        assert_eq!(code(&owner, &Facts { usages: Vec::new(), ..facts() }), Some(Code::UsageNotAllowed));
    }

    fn with(administrator: bool, names: &[&str]) -> Principal {
        let names = names.iter().map(|name| KeyName::parse(name).unwrap()).collect();
        Principal::new("ci", Grants { administrator, ..Grants::keys(names) }).unwrap()
    }

    #[test]
    fn a_grant_is_for_the_key_of_one_name() {
        assert_eq!(code(&with(false, &["release"]), &facts()), None);
        assert_eq!(code(&with(false, &["other", "release"]), &facts()), None);
        assert_eq!(
            code(&with(false, &["other", "Release", "releas"]), &facts()),
            Some(Code::PermissionDenied)
        );
        let all = Principal::new("ci", Grants { administrator: false, ..Grants::OWNER }).unwrap();
        assert_eq!(decide(&all, &group(), &facts(), NOW_S).unwrap().decision(), "grant");
    }

    #[test]
    fn a_bare_digest_needs_a_grant_of_its_own_beside_that_for_the_key() {
        let digest = AnyDigest::from_parts(8, &[7; 32]).unwrap();
        let item = ToBeSigned::bare(Bare::new(digest, DataKind::Binary, 0).unwrap());
        let bare = Group { items: vec![item], ..group() };
        let facts = Facts { usages: vec![Usage::OpenPgp, Usage::ObsDigest], ..facts() };
        let names = BTreeSet::from([KeyName::parse("release").unwrap()]);
        let code = |grants, facts: &Facts| {
            let principal = Principal::new("ci", grants).unwrap();
            decide(&principal, &bare, facts, NOW_S).err().map(|fault| fault.code)
        };
        let without = Grants::keys(names.clone());
        let with = Grants { obs: BTreeSet::from([ObsGrant::Sign]), ..without.clone() };
        assert_eq!(code(without, &facts), Some(Code::PermissionDenied));
        assert_eq!(code(with.clone(), &facts), None);
        assert_eq!(code(Grants::OWNER, &facts), Some(Code::PermissionDenied));
        let of_another = Facts { name: "other".to_owned(), ..facts.clone() };
        assert_eq!(code(with.clone(), &of_another), Some(Code::PermissionDenied));
        let project = bare.items[0].content.clone();
        let Content::Bare(project) = project else { panic!("it is bare") };
        let project = ToBeSigned::by_project_key(project, Arc::from([0x85].as_slice()));
        let project = Group { items: vec![project], ..group() };
        let owner = decide(&Principal::local(), &project, &facts, NOW_S);
        assert_eq!(owner.err().map(|fault| fault.code), Some(Code::PermissionDenied));
        assert_eq!(code(with, &Facts { usages: vec![Usage::OpenPgp], ..facts }), Some(Code::UsageNotAllowed));
    }

    #[test]
    fn a_project_key_needs_a_grant_and_a_key_that_was_sealed_for_it() {
        let names = BTreeSet::from([KeyName::parse("release").unwrap()]);
        let reference = KeyReference::parse("release").unwrap();
        let code = |obs: &[ObsGrant], usages: &[Usage]| {
            let grants = Grants { obs: obs.iter().copied().collect(), ..Grants::keys(names.clone()) };
            let principal = Principal::new("ci", grants).unwrap();
            let facts = Facts { usages: usages.to_vec(), ..facts() };
            decide_project_key(&principal, &reference, &facts, NOW_S).err().map(|fault| fault.code)
        };
        let sealed = [Usage::OpenPgp, Usage::ObsProjectKeys];
        assert_eq!(code(&[ObsGrant::Keygen], &sealed), None);
        assert_eq!(code(&[ObsGrant::Sign], &sealed), Some(Code::PermissionDenied));
        assert_eq!(code(&[ObsGrant::Keygen], &[Usage::OpenPgp]), Some(Code::UsageNotAllowed));
    }

    #[test]
    fn an_administrator_may_not_sign_without_a_grant() {
        let administrator = with(true, &[]);
        assert_eq!(code(&administrator, &facts()), Some(Code::PermissionDenied));
        assert!(administer(&administrator).is_ok());
        assert!(administer(&with(false, &["release"])).is_err());
    }

    #[test]
    fn without_a_grant_nothing_is_said_about_the_key() {
        let stranger = with(false, &[]);
        let disabled = Facts { state: KeyState::Disabled, ..facts() };
        assert_eq!(code(&stranger, &disabled), Some(Code::PermissionDenied));
        assert!(administer(&stranger).is_err());
        assert!(administer(&Principal::local()).is_ok());
        // A key that is there and one that is not get the same words.
        let reference = KeyReference::parse("release").unwrap();
        let missing = Fault::new(Code::KeyNotFound, "there is no key release");
        let there = see(&stranger, &reference, "release").unwrap_err();
        assert_eq!(look_up_failed(&stranger, &reference, missing.clone()), there);
        assert_eq!(look_up_failed(&with(false, &["release"]), &reference, missing.clone()), missing);
        assert_eq!(look_up_failed(&with(true, &[]), &reference, missing.clone()), missing);
        let fingerprint = KeyReference::parse(&"ab".repeat(20)).unwrap();
        let hidden = look_up_failed(&with(false, &["release"]), &fingerprint, missing);
        assert_eq!(hidden.code, Code::PermissionDenied);
        let full = Fault::new(Code::StoreFailed, "x");
        assert_eq!(look_up_failed(&stranger, &reference, full.clone()), full);
    }

    fn create(name: &str, token: &str) -> CreateKey {
        CreateKey::parse(sealwright_proto::v1::CreateKeyRequest {
            name: name.to_owned(),
            algorithm: "rsa2048".to_owned(),
            token: token.to_owned(),
            user_id: "a <a@example.org>".to_owned(),
            ..Default::default()
        })
        .unwrap()
    }

    #[test]
    fn a_grant_to_make_keys_is_for_software_keys_of_names_that_end_like_it() {
        let makes = |ends: &[&str]| Grants {
            makes: ends.iter().map(|end| Box::from(*end)).collect(),
            ..Grants::keys(BTreeSet::new())
        };
        let code = |grants: Grants, name: &str, token: &str| {
            let principal = Principal::new("copr", grants).unwrap();
            may_create(&principal, create(name, token)).err().map(|fault| fault.code)
        };
        let ends = ["@one.example", "@two.example"];
        assert_eq!(code(makes(&ends), "a#b@two.example", ""), None);
        for name in ["a#b@two.example.org", "two.example", "release"] {
            assert_eq!(code(makes(&ends), name, ""), Some(Code::PermissionDenied), "{name}");
        }
        assert_eq!(code(makes(&ends), "a#b@two.example", "hsm1"), Some(Code::PermissionDenied));
        assert_eq!(code(makes(&[""]), "release", ""), None);
        assert_eq!(code(makes(&[]), "release", ""), Some(Code::PermissionDenied));
        assert_eq!(code(Grants::OWNER, "release", "hsm1"), None);
        // To make a key is not to sign with it, nor to see it, nor to administer.
        let maker = Principal::new("copr", makes(&[""])).unwrap();
        assert_eq!(code_of_signing(&maker), Some(Code::PermissionDenied));
        assert!(administer(&maker).is_err() && maker.sees_only().is_some_and(BTreeSet::is_empty));
    }

    fn code_of_signing(principal: &Principal) -> Option<Code> {
        code(principal, &facts())
    }

    #[test]
    fn an_expired_key_is_refused_with_a_date() {
        let expired = Facts { expires_s: Some(1_767_225_600), ..facts() };
        let fault = decide(&Principal::local(), &group(), &expired, NOW_S).unwrap_err();
        assert_eq!(fault.message, "key release expired 2026-01-01 00:00:00 UTC");
    }
}
