//! Digests that are signed as they are, by the key of a certificate that the caller has: obs-sign's `-O`, `-C` and `-x`; and keys
//! that signd makes for others to keep, `-g`. Whatever signd answers is verified here.

use sealwright_crypto::digest::Digest;
use sealwright_crypto::openpgp::certificate::{Certificate, Component};
use sealwright_crypto::openpgp::extension::Extension;
use sealwright_obs::command::Keygen;
use sealwright_obs::hashed::HashedPart;
use sealwright_obs::project_key::ProjectKey;
use sealwright_obs::{Class, DigestArgument, Hash};

use crate::error::{Error, SigndFault};
use crate::sign::finish::now;
use crate::signd::{Holder, Signd, armored, bad_key, hash_of, known, unserved, wrong};

/// Digests in one request at most: the replies of as many keys of 4096 bits fit into one.
pub const DIGESTS_MAX: usize = 100;
/// The seconds of a day.
const DAY_S: u32 = 86_400;

/// A component that signs digests as they are.
#[derive(Clone, Copy, Debug)]
pub struct RawKey<'a> {
    /// Whose it is.
    pub holder: &'a Holder,
    /// What its answers are verified with.
    pub component: &'a Component,
}

impl Signd {
    /// Signatures over up to [`DIGESTS_MAX`] digests as PKCS#1 v1.5 has them (RFC 8017 section 8.2), each verified.
    ///
    /// # Errors
    /// [`Error::Signd`]: what it refuses, a key that is not RSA, an answer that the key did not make.
    pub async fn pkcs1(&self, key: RawKey<'_>, digests: &[Digest]) -> Result<Vec<Vec<u8>>, Error> {
        let values = self.numbers(key, digests, 0).await?;
        let verified = digests.iter().zip(&values).map(|(digest, numbers)| {
            key.component.pkcs1_signature(digest, numbers).ok_or_else(|| not_made(&key.holder.user))
        });
        verified.collect()
    }

    /// The certificate with so many days from now.
    ///
    /// # Errors
    /// [`Error::Signd`]; a certificate that cannot be extended, or whose key is not the holder's.
    pub async fn extended(
        &self,
        holder: &Holder,
        certificate: &Certificate,
        days: u32,
    ) -> Result<Certificate, Error> {
        let now = u32::try_from(now()).unwrap_or(u32::MAX);
        let unfit_for = |error: sealwright_crypto::error::Error| {
            Error::from(SigndFault::Key { user: holder.user.clone(), why: error.to_string() })
        };
        let extension = Extension::new(certificate, now, now.saturating_add(days.saturating_mul(DAY_S)));
        let extension = extension.map_err(unfit_for)?;
        let primary =
            certificate.components().first().ok_or(Error::Internal("a certificate without a key"))?;
        let key = RawKey { holder, component: primary };
        let values = self.numbers(key, &[extension.digest()], now).await?;
        let numbers = values.first().ok_or(Error::Internal("one result is none"))?;
        extension.finish(numbers).map_err(unfit_for)
    }

    /// A new key that the caller keeps, certified by the user's: its certificate in the words of signd, and its secret half,
    /// encrypted.
    ///
    /// # Errors
    /// [`Error::Signd`]; a public key that is another than was asked for.
    pub async fn make_project_key(
        &self,
        user: &str,
        wanted: &Keygen,
    ) -> Result<(Vec<u8>, ProjectKey), Error> {
        let request = wanted.request(user, Hash::Sha256).map_err(wrong)?;
        let results = self.results(&request, 2).await?;
        let [public, secret] = results.as_slice() else {
            return Err(Error::Internal("two results are none"));
        };
        armored(public)?;
        let certificate = Certificate::parse(public).map_err(bad_key)?;
        let name = format!("{} <{}>", wanted.real_name, wanted.email);
        let is_asked_for = certificate.primary_user_id() == Some(name.as_str())
            && !certificate.signing_components(now()).is_empty();
        if !is_asked_for {
            let why = "the public key that signd made has another name than was asked for, or cannot sign";
            return Err(SigndFault::Key { user: user.to_owned(), why: why.to_owned() }.into());
        }
        let secret = ProjectKey::from_file(&String::from_utf8_lossy(secret)).map_err(wrong)?;
        Ok((public.clone(), secret))
    }

    /// The numbers of the signatures, by the component that was named; nothing more is verified here.
    async fn numbers(
        &self,
        key: RawKey<'_>,
        digests: &[Digest],
        created: u32,
    ) -> Result<Vec<Vec<u8>>, Error> {
        let (algorithm, fingerprint) = known(key.component).ok_or_else(|| unserved(&key.holder.user))?;
        let asked = digests.iter().map(|digest| {
            let fingerprint = Some(fingerprint);
            let hash = hash_of(digest.hash())?;
            let part = HashedPart { class: Class::Binary, algorithm, hash, created, fingerprint };
            Ok((part, part.argument(digest.as_bytes()).map_err(wrong)?))
        });
        let asked: Vec<(HashedPart, DigestArgument)> = asked.collect::<Result<_, Error>>()?;
        let arguments: Vec<DigestArgument> = asked.iter().map(|(_, argument)| argument.clone()).collect();
        let results = self.results(&key.holder.request(&arguments)?, asked.len()).await?;
        let numbers = asked.iter().zip(&results);
        numbers
            .map(|((part, argument), result)| part.numbers(argument.digest(), result).map_err(wrong))
            .collect()
    }
}

fn not_made(user: &str) -> Error {
    let why = "its answer is no RSA signature over what was asked for by this public key".to_owned();
    SigndFault::Key { user: user.to_owned(), why }.into()
}
