//! What the signer does with a request, whoever carried it here.
//!
//! Signing: open the sealed key -> may it sign this, now? -> compose and finish the hash -> key operation -> verify
//! it with the sealed public half -> pack. Each step needs the value of the one before. A bare digest was finished by others:
//! only keys that were sealed for it take that way.

use std::path::Path;
use std::sync::Arc;

use sealwright_crypto::algorithm::KeyVersion;
use sealwright_crypto::bare::{AnyDigest, Bare};
use sealwright_crypto::openpgp::fingerprint::Fingerprint;
use sealwright_crypto::openpgp::salt::Salt;
use sealwright_crypto::openpgp::signature::Template;
use sealwright_crypto::tbs::Content;
use sealwright_crypto::usage::Usage;
use sealwright_proto::convert::batch::{Request, SealedKey, SignedItem};
use sealwright_proto::convert::keys::{KeyMaterial, SignerCreate, SignerImport, SignerRenew};
use sealwright_proto::convert::project::{MakeProjectKey, ProjectKeyMade};
use sealwright_proto::signer_v1::Ready;
use sealwright_proto::status::{Code, Fault};

use crate::cache::Cache;
use crate::clock::{Clock, openpgp_time};
use crate::count::Counts;
use crate::error::Error;
use crate::floor::Floors;
use crate::import::ImportKeys;
use crate::opened::{Component, OpenKey};
use crate::root::Root;
use crate::seal::{Primary, StoredKey};
use crate::secret::fill_random;
use crate::tokens::Tokens;
use crate::{create, import, project, renew, self_test};

/// Version of the protocol with front.
const PROTOCOL_VERSION: u32 = 1;

/// Everything that requests share.
pub(crate) struct Service {
    root: Root,
    tokens: Tokens,
    floors: Floors,
    counts: Counts,
    cache: Cache,
    import_keys: ImportKeys,
    clock: Arc<dyn Clock>,
}

impl Service {
    /// # Errors
    /// Those of [`Root::open`], [`Floors::open`] and [`Counts::open`].
    pub(crate) fn open(
        directory: &Path,
        root_key: Option<&Path>,
        create: bool,
        clock: Arc<dyn Clock>,
        tokens: Tokens,
        _: self_test::Passed,
    ) -> Result<Self, Error> {
        Ok(Self {
            root: Root::open(directory, root_key, create)?,
            tokens,
            floors: Floors::open(directory)?,
            counts: Counts::open(directory)?,
            cache: Cache::new(),
            import_keys: ImportKeys::new()?,
            clock,
        })
    }

    /// The first message to front.
    pub(crate) fn ready(&self) -> Ready {
        Ready {
            version: PROTOCOL_VERSION,
            root_key_id: self.root.root_key_id.to_string(),
            data_key_id: self.root.data_key.tag().to_string(),
            has_history: self.counts.has_any() || self.floors.has_any(),
        }
    }

    /// The key, open. Its generation passes the floor each time, found in the cache or not.
    ///
    /// # Errors
    /// [`Code::SealBroken`], [`Code::RootKeyWrong`], [`Code::GenerationSuperseded`], [`Code::SignerStateFailed`].
    pub(crate) fn open_key(&self, key: &SealedKey) -> Result<Arc<OpenKey>, Fault> {
        let opened = self.cache.get_or_open(key, |key| {
            StoredKey::open(&self.root.data_key, key).and_then(|stored| OpenKey::open(&self.tokens, &stored))
        })?;
        // After the seal: an unsealed generation must not raise the floor.
        self.floors.pass(key.key_id, key.generation)?;
        Ok(opened)
    }

    /// Signs one item with an open key, as of now, and counts it.
    ///
    /// # Errors
    /// [`Code::UsageNotAllowed`], [`Code::ClockBehind`], [`Code::KeyExpired`], [`Code::SignatureSelfCheckFailed`],
    /// [`Code::SignerStateFailed`]; of a token, [`Code::TokenGone`], [`Code::TokenSilent`], [`Code::TokenRefused`].
    pub(crate) fn sign(&self, key: &OpenKey, request: &Request) -> Result<SignedItem, Fault> {
        let Made { packet, digest, created, issuer } = sign_at(key, request, self.clock.unix_s())?;
        let operation = self.counts.count(key.key_id(), &packet)?;
        Ok(SignedItem { packet, digest: digest.as_bytes().to_vec(), created, operation, issuer })
    }

    /// The tokens of this installation.
    pub(crate) const fn tokens(&self) -> &Tokens {
        &self.tokens
    }

    /// The number of the token that a creation waits for.
    ///
    /// # Errors
    /// [`Code::TokenRefused`] if it is not one of this installation.
    pub(crate) fn lane_of_create(&self, wanted: &SignerCreate) -> Result<Option<usize>, Fault> {
        wanted.spec.source.token().map(|token| Ok(self.tokens.find(token)?.index())).transpose()
    }

    /// The number of the token that a renewal waits for.
    ///
    /// # Errors
    /// Those of opening the key.
    pub(crate) fn lane_of_renew(&self, wanted: &SignerRenew) -> Result<Option<usize>, Fault> {
        let stored = StoredKey::open(&self.root.data_key, &wanted.key)?;
        let signing = Component::open(&self.tokens, &stored.signing)?.lane();
        let primary = match &stored.primary {
            Primary::Separate(primary) => Component::open(&self.tokens, primary)?.lane(),
            Primary::Signs | Primary::Absent => None,
        };
        Ok(signing.or(primary))
    }

    /// After the last request.
    pub(crate) fn close(&self) {
        self.counts.close();
    }

    /// # Errors
    /// Those of [`create::create`].
    pub(crate) fn create(&self, wanted: SignerCreate) -> Result<KeyMaterial, Fault> {
        create::create(&self.root.data_key, &self.tokens, wanted, self.clock.unix_s())
    }

    /// The HPKE public key for imports.
    pub(crate) fn import_public_key(&self) -> Vec<u8> {
        self.import_keys.public_key()
    }

    /// # Errors
    /// Those of [`import::import`].
    pub(crate) fn import(&self, wanted: SignerImport) -> Result<KeyMaterial, Fault> {
        import::import(&self.import_keys, &self.root.data_key, wanted, self.clock.unix_s())
    }

    /// # Errors
    /// [`Code::UsageNotAllowed`], [`Code::ClockBehind`], [`Code::KeyExpired`]; those of [`project::make`].
    pub(crate) fn make_project_key(&self, wanted: &MakeProjectKey) -> Result<ProjectKeyMade, Fault> {
        let now = self.clock.unix_s();
        let key = self.open_key(&wanted.key)?;
        key.terms().allow(Usage::ObsProjectKeys)?;
        key.terms().allow_at(now, 0)?;
        project::make(&self.tokens, &StoredKey::open(&self.root.data_key, &wanted.key)?, wanted, now)
    }

    /// # Errors
    /// Those of [`renew::renew`], and a generation that is too old.
    pub(crate) fn renew(&self, wanted: &SignerRenew) -> Result<KeyMaterial, Fault> {
        self.open_key(&wanted.key)?;
        renew::renew(&self.root.data_key, &self.tokens, wanted, self.clock.as_ref())
    }
}

/// Checked, and not yet counted.
#[derive(Debug)]
struct Made {
    packet: Vec<u8>,
    digest: AnyDigest,
    /// Unix seconds.
    created: i64,
    /// The project key that signed, if one did.
    issuer: Option<Fingerprint>,
}

fn sign_at(key: &OpenKey, request: &Request, now: i64) -> Result<Made, Fault> {
    if !request.item.is_of_one_kind() {
        return Err(Fault::new(Code::MalformedRequest, "the usage is not that of the content"));
    }
    let terms = key.terms();
    terms.allow(request.item.usage)?;
    terms.allow_at(now, request.not_before)?;
    let component = key.signing();
    let content = match &request.item.content {
        Content::Bare(bare) => return sign_bare(component, bare, now),
        Content::Project(bare, project_key) => return sign_by_project_key(key, bare, project_key, now),
        content @ (Content::Midstate(_) | Content::Inline(..)) => content.to_midstate(request.first.as_ref()),
    };
    let content = content.ok_or_else(|| Fault::new(Code::Internal, "content without a hash"))?;
    let template = Template {
        hash: content.hash(),
        kind: request.item.purpose.data_kind(),
        key: component.public().algorithm(),
        issuer: component.public().fingerprint(),
        created: openpgp_time(now)?,
        salt: if request.salt { Some(draw_salt()?) } else { None },
        first: request.first,
    };
    check_salt(component.public().version(), request.first.as_ref())?;
    let unsigned = template.finish(&content).map_err(internal)?;
    let digest = unsigned.digest();
    let checked = component.sign(&digest)?;
    let packet = unsigned.pack(checked.raw()).map_err(internal)?;
    Ok(Made { packet, digest: digest.into(), created: now, issuer: None })
}

/// What the client finished is signed as it is; class and time in the packet are the client's. Ours is the time of the log.
fn sign_bare(component: &Component, bare: &Bare, now: i64) -> Result<Made, Fault> {
    let public = component.public();
    if public.version() != KeyVersion::V4 {
        return Err(Fault::new(Code::Unsupported, "bare digests are signed by keys of version 4 alone"));
    }
    let digest = bare.digest();
    let checked = match &digest {
        AnyDigest::Sha2(digest) => component.sign(digest)?,
        AnyDigest::Sha1(digest) => component.sign_sha1(digest)?,
    };
    let packet = bare.pack(public.algorithm(), &public.fingerprint(), checked.raw()).map_err(internal)?;
    Ok(Made { packet, digest, created: now, issuer: None })
}

/// The project key is opened with ours, and signs. For SHA-1 ours must have been sealed too.
fn sign_by_project_key(key: &OpenKey, bare: &Bare, project_key: &[u8], now: i64) -> Result<Made, Fault> {
    if bare.usage() == Usage::ObsDigestSha1 {
        key.terms().allow(Usage::ObsDigestSha1)?;
    }
    let project = project::open(key.signing(), project_key)?;
    let made = sign_bare(&project, bare, now)?;
    Ok(Made { issuer: Some(project.public().fingerprint()), ..made })
}

#[expect(clippy::needless_pass_by_value, reason = "what map_err hands over")]
fn internal(error: sealwright_crypto::error::Error) -> Fault {
    Fault::new(Code::Internal, error.to_string())
}

/// Version 6 hashes a salt first, which front gave out and passes on; version 4 knows none.
fn check_salt(version: KeyVersion, first: Option<&Salt>) -> Result<(), Fault> {
    match (version, first) {
        (KeyVersion::V4, None) | (KeyVersion::V6, Some(_)) => Ok(()),
        (KeyVersion::V6, None) => {
            Err(Fault::new(Code::TicketRefused, "the key is of version 6: its signatures need a salt first"))
        }
        (KeyVersion::V4, Some(_)) => {
            Err(Fault::new(Code::TicketRefused, "the key is of version 4: its signatures have no salt first"))
        }
    }
}

fn draw_salt() -> Result<[u8; 32], Fault> {
    let mut salt = [0; 32];
    fill_random(&mut salt).map_err(|error| Fault::from(&error))?;
    Ok(salt)
}

#[cfg(test)]
mod tests;
