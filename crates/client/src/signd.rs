//! The way to a signd of obs-sign: one connection a request, digests instead of midstates, version 3 packets that become
//! version 4 signatures here. What signd signs is bare digests; what makes a signature of them is written, hashed and
//! verified on this side.

mod link;
mod raw;

use std::sync::Arc;

use sealwright_crypto::algorithm::{HashAlgorithm, KeyAlgorithm};
use sealwright_crypto::openpgp::armor;
use sealwright_crypto::openpgp::certificate::{Certificate, Component};
use sealwright_crypto::openpgp::fingerprint::Fingerprint;
use sealwright_crypto::openpgp::signature::DataKind;
use sealwright_crypto::tbs::{Content, ToBeSigned};
use sealwright_obs::hashed::HashedPart;
use sealwright_obs::packet::SignaturePacket;
use sealwright_obs::project_key::ProjectKey;
use sealwright_obs::{Class, DigestArgument, Hash, Reply, Request, packet};
use sealwright_proto::convert::group::LoggedSignature;
use tokio::sync::Semaphore;

use crate::connection::{Answer, Group, Key, KeyState};
use crate::error::{Error, SigndFault};
use crate::sign::finish::now;

pub use crate::signd::link::{Peer, SourcePort};
pub use crate::signd::raw::{DIGESTS_MAX, RawKey};

/// Requests on their way at once. signd handles no more than ten, and stops answering when twelve wait.
const REQUESTS_MAX: usize = 8;

/// A signd.
#[derive(Debug)]
pub struct Signd {
    peer: Peer,
    places: Semaphore,
}

/// The time in a signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SigningTime {
    /// When it is made.
    Now,
    /// Unix seconds: signd signs any.
    Claimed(u32),
}

/// Whose key signs.
#[derive(Clone, Debug)]
pub struct Holder {
    /// The user; empty is signd's default.
    pub user: String,
    /// A key of the caller's own that travels with each request, encrypted for the user's, in the place of the user's.
    pub project: Option<ProjectKey>,
}

impl Holder {
    /// The request for signatures over these digests.
    fn request(&self, digests: &[DigestArgument]) -> Result<Request, Error> {
        let request = match &self.project {
            None => Request::sign(&self.user, digests),
            Some(key) => Request::privsign(&self.user, key, digests),
        };
        request.map_err(wrong)
    }
}

/// A key of a signd, and how signatures by it are asked for.
#[derive(Debug)]
pub(crate) struct KeyOfSignd {
    signd: Arc<Signd>,
    holder: Holder,
    algorithm: packet::KeyAlgorithm,
    fingerprint: packet::Fingerprint,
    time: SigningTime,
}

/// What a user of signd stands for: the key as its certificate describes it.
pub(crate) struct Described {
    pub(crate) key: Key,
    pub(crate) certificate: Certificate,
    pub(crate) issuer: Fingerprint,
    pub(crate) way: KeyOfSignd,
}

impl Signd {
    /// Nothing is connected yet.
    #[must_use]
    pub fn new(peer: Peer) -> Self {
        Self { peer, places: Semaphore::new(REQUESTS_MAX) }
    }

    /// Whether it answers. It touches no key for that.
    ///
    /// # Errors
    /// [`Error::Signd`].
    pub async fn ping(&self) -> Result<(), Error> {
        self.results(&Request::ping(), 0).await.map(|_| ())
    }

    /// The public key of a user, as signd sends it: armor that is whole, and that a terminal can show. Which key is in it
    /// is not checked. An empty user is signd's default.
    ///
    /// # Errors
    /// [`Error::Signd`]; armor that is damaged.
    pub async fn public_key(&self, user: &str, hash: HashAlgorithm) -> Result<Vec<u8>, Error> {
        let request = Request::pubkey(user, hash_of(hash)?).map_err(wrong)?;
        let results = self.results(&request, 1).await?;
        let sent = results.into_iter().next().ok_or(Error::Internal("one result is none"))?;
        armored(&sent)?;
        Ok(sent)
    }

    /// The certificate of a key, and the component of it that signd will sign with. It is the user's as signd sends it, unless one
    /// is given: signd has none of a project's key.
    ///
    /// # Errors
    /// [`Error::Signd`]; a certificate that cannot be read.
    pub async fn certificate(
        &self,
        holder: &Holder,
        given: Option<Certificate>,
        hash: HashAlgorithm,
    ) -> Result<(Certificate, Fingerprint), Error> {
        let certificate = match given {
            Some(certificate) => certificate,
            None => {
                let sent = self.public_key(&holder.user, hash).await?;
                Certificate::parse(&armor::decode_or_binary(&sent).map_err(bad_key)?).map_err(bad_key)?
            }
        };
        let issuer = self.issuer(holder, hash, &certificate).await?;
        Ok((certificate, issuer))
    }

    /// The component of this certificate that signd will sign with.
    async fn issuer(
        &self,
        holder: &Holder,
        hash: HashAlgorithm,
        certificate: &Certificate,
    ) -> Result<Fingerprint, Error> {
        let fit: Vec<Fingerprint> =
            certificate.signing_components(now()).iter().map(|component| component.fingerprint()).collect();
        match fit.as_slice() {
            [] => Err(unfit(&holder.user, certificate).into()),
            [one] => Ok(*one),
            // gpg and gpg-agent choose differently among several: it is asked, with a digest that everybody may have signed.
            [..] => {
                let asked = self.asked_issuer(holder, hash).await?;
                let issuer = certificate.find_by_key_id(asked.issuer).map(Component::fingerprint);
                issuer.filter(|issuer| fit.contains(issuer)).ok_or_else(|| {
                    let why = "it signs with a component that is not in its public key, or cannot sign";
                    SigndFault::Key { user: holder.user.clone(), why: why.to_owned() }.into()
                })
            }
        }
    }

    /// What signd says of the key that it signs with: it is asked as obs-sign's client asks. Nothing of it is verified.
    ///
    /// # Errors
    /// [`Error::Signd`].
    pub async fn asked_issuer(&self, holder: &Holder, hash: HashAlgorithm) -> Result<SignaturePacket, Error> {
        let request = holder.request(&[DigestArgument::probe(hash_of(hash)?)])?;
        let results = self.results(&request, 1).await?;
        SignaturePacket::parse(results.first().map(Vec::as_slice).unwrap_or_default()).map_err(wrong)
    }

    /// # Errors
    /// Those of [`Self::certificate`].
    pub(crate) async fn describe(
        self: &Arc<Self>,
        holder: Holder,
        given: Option<Certificate>,
        hash: HashAlgorithm,
        time: SigningTime,
    ) -> Result<Described, Error> {
        let (certificate, issuer) = self.certificate(&holder, given, hash).await?;
        let component =
            certificate.find(&issuer).ok_or(Error::Internal("a component without its certificate"))?;
        let (algorithm, fingerprint) = known(component).ok_or_else(|| unserved(&holder.user))?;
        let key = Key {
            id: [0; 16],
            name: holder.user.clone(),
            state: KeyState::Enabled,
            algorithm: component.algorithm_name().to_owned(),
            fingerprint: certificate.fingerprint().to_string(),
            signing_fingerprint: issuer.to_string(),
            user_id: certificate.primary_user_id().unwrap_or_default().to_owned(),
            created: i64::from(certificate.created()),
            expires: certificate.expires(),
            generation: 0,
            certificate: certificate.to_binary(),
            renewable: false,
            backend: "signd".to_owned(),
            usages: Vec::new(),
            revocation: String::new(),
            warnings: Vec::new(),
        };
        let way = KeyOfSignd { signd: Arc::clone(self), holder, algorithm, fingerprint, time };
        Ok(Described { key, certificate, issuer, way })
    }

    /// So many results, or why not.
    async fn results(&self, request: &Request, expected: usize) -> Result<Vec<Vec<u8>>, Error> {
        let _place =
            self.places.acquire().await.map_err(|_| Error::Internal("the way to signd was closed"))?;
        let reply = Reply::parse(&self.peer.exchange(&request.to_bytes()).await?).map_err(wrong)?;
        let results = reply.results(request.form(), expected).map_err(wrong)?;
        let text = reply.text();
        if !text.is_empty() {
            tracing::warn!(text = text.trim_end(), "signd has a warning");
        }
        Ok(results.into_iter().map(<[u8]>::to_vec).collect())
    }
}

impl KeyOfSignd {
    /// The signatures of a group: one request for all of its items. Nothing of the answer is verified here.
    ///
    /// # Errors
    /// [`Error::Signd`]: all of them are there, or none.
    pub(crate) async fn sign(&self, group: &Group) -> Result<Answer, Error> {
        let created = match self.time {
            SigningTime::Now => u32::try_from(now()).unwrap_or(u32::MAX),
            SigningTime::Claimed(time) => time,
        };
        let asked: Vec<Asked> =
            group.items.iter().map(|item| self.asked(item, created)).collect::<Result<_, _>>()?;
        let arguments: Vec<DigestArgument> = asked.iter().map(|asked| asked.argument.clone()).collect();
        let request = self.holder.request(&arguments)?;
        let bytes = request.to_bytes().len();
        let results = self.signd.results(&request, asked.len()).await?;
        let signatures = asked.iter().zip(&results).map(|(asked, result)| {
            let packet = asked.part.transplant(asked.argument.digest(), result).map_err(wrong)?;
            Ok(LoggedSignature { packet, log_index: 0, leaf_hash: [0; 32] })
        });
        Ok(Answer {
            request_id: String::new(),
            items: signatures.collect::<Result<Vec<_>, Error>>()?.into_iter().map(Ok).collect(),
            sent_bytes: u64::try_from(bytes).unwrap_or(u64::MAX),
            server: Some(self.signd.peer.to_string().into()),
        })
    }

    fn asked(&self, item: &ToBeSigned, created: u32) -> Result<Asked, Error> {
        let Content::Midstate(midstate) = &item.content else {
            return Err(Error::Internal("content that signd was not meant to see"));
        };
        let part = HashedPart {
            class: match item.purpose.data_kind() {
                DataKind::Binary => Class::Binary,
                DataKind::Text => Class::Text,
            },
            algorithm: self.algorithm,
            hash: hash_of(midstate.hash())?,
            created,
            fingerprint: Some(self.fingerprint),
        };
        let mut hasher = midstate.resume();
        hasher.update(&part.trailer());
        let argument = part.argument(hasher.finish().as_bytes()).map_err(wrong)?;
        Ok(Asked { part, argument })
    }
}

/// One digest that is asked for, and what was hashed behind the content.
struct Asked {
    part: HashedPart,
    argument: DigestArgument,
}

/// The component as this protocol names it; `None` for algorithms and versions that it has no room for.
fn known(component: &Component) -> Option<(packet::KeyAlgorithm, packet::Fingerprint)> {
    let fingerprint = packet::Fingerprint::try_from(component.fingerprint().as_bytes()).ok()?;
    let algorithm = match component.algorithm()? {
        KeyAlgorithm::Rsa(_) => packet::KeyAlgorithm::Rsa,
        KeyAlgorithm::Ed25519 => packet::KeyAlgorithm::EdDsaLegacy,
    };
    Some((algorithm, fingerprint))
}

fn unserved(user: &str) -> Error {
    let why = "only version 4 keys, RSA or Ed25519, can be served by this protocol".to_owned();
    SigndFault::Key { user: user.to_owned(), why }.into()
}

fn hash_of(hash: HashAlgorithm) -> Result<Hash, Error> {
    match hash {
        HashAlgorithm::Sha256 => Ok(Hash::Sha256),
        HashAlgorithm::Sha512 => Ok(Hash::Sha512),
        HashAlgorithm::Sha384 => Err(Error::Internal("signd does not know SHA-384")),
    }
}

/// Whether what was sent is a public key in armor: of OpenPGP, or, for an `openssl:` user of signd, of PEM (RFC 7468).
fn armored(sent: &[u8]) -> Result<(), Error> {
    let is_shown =
        |c: char| matches!(c, '\n' | '\r' | '\t' | ' '..='~') || !c.is_ascii() && c.is_alphanumeric();
    let text = std::str::from_utf8(sent).ok().filter(|text| text.chars().all(is_shown));
    match text {
        Some(text) if text.starts_with("-----BEGIN PGP PUBLIC KEY BLOCK-----") => {
            armor::decode_or_binary(sent).map(drop).map_err(bad_key)
        }
        Some(text) if text.starts_with("-----BEGIN PUBLIC KEY-----") => Ok(()),
        Some(_) => Err(SigndFault::PublicKey { why: "it is not in ASCII armor" }.into()),
        None => Err(SigndFault::PublicKey { why: "it has bytes in it that no armor has" }.into()),
    }
}

fn bad_key(source: sealwright_crypto::error::Error) -> Error {
    Error::BadAnswerBytes { what: "public key", source }
}

fn wrong(source: sealwright_obs::Error) -> Error {
    SigndFault::Answer { source }.into()
}

/// Why none of its components will do: that of the primary key, which is what a person knows.
fn unfit(user: &str, certificate: &Certificate) -> SigndFault {
    let primary = certificate.components().first();
    let why = primary.and_then(|component| component.unfit_to_sign(now()));
    SigndFault::Key {
        user: user.to_owned(),
        why: why.unwrap_or_else(|| "it has no component that signs".to_owned()),
    }
}
