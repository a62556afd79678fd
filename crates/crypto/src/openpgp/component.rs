//! One key of a certificate: its primary key or a subkey, with what the self-signatures say about it.

use pgp::crypto::hash::HashAlgorithm as PgpHash;
use pgp::packet::{PublicKey, PublicSubkey};
use pgp::ser::Serialize as _;
use pgp::types::{
    EcdsaPublicParams, EddsaLegacyPublicParams, KeyDetails, Mpi, PublicParams, SignatureBytes,
    VerifyingKey as _,
};
use pkcs1::der::Encode as _;
use pkcs1::{RsaPublicKey, UintRef};

use crate::algorithm::{HashAlgorithm, KeyAlgorithm, RSA_BITS_MAX, RSA_BITS_MIN};
use crate::digest::Digest;
use crate::error::Error;
use crate::openpgp::fingerprint::Fingerprint;
use crate::openpgp::packet::{SignaturePacket, key_algorithm_name};
use crate::openpgp::rsa::{self, RsaVerifier};

/// A primary key or subkey. For a subkey, end and revocation of the primary key are included: it is valid only
/// while both are.
#[derive(Clone, Debug)]
pub struct Component {
    pub(crate) key: Key,
    fingerprint: Fingerprint,
    algorithm: Option<KeyAlgorithm>,
    algorithm_name: String,
    weak: Option<String>,
    pub(crate) rsa: Option<RsaVerifier>,
    pub(crate) standing: Standing,
}

/// The key material, as rPGP holds it.
#[derive(Clone, Debug)]
pub(crate) enum Key {
    Primary(PublicKey),
    Subkey(PublicSubkey),
}

/// What the valid self-signatures say, taken together.
#[derive(Clone, Debug, Default)]
pub(crate) struct Standing {
    /// End of validity, Unix seconds.
    pub(crate) expires: Option<i64>,
    pub(crate) revocations: Vec<Revocation>,
    /// The key flags allow signing data, and a subkey has signed back.
    pub(crate) may_sign: bool,
    /// Why no valid self-signature binds it to the certificate, or why it cannot sign although flagged so.
    pub(crate) problem: Option<&'static str>,
    /// The newest valid self-signature uses SHA-1.
    pub(crate) bound_by_sha1: bool,
}

/// A valid revocation (RFC 9580 section 5.2.3.31).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Revocation {
    /// When it was made, Unix seconds.
    pub created: u32,
    /// The key may be in wrong hands, or no reason is given: nothing it ever signed counts. Otherwise (superseded,
    /// retired) what it signed before stays valid.
    pub hard: bool,
}

impl Component {
    pub(crate) fn new(key: Key) -> Result<Self, Error> {
        let details = key.details();
        let version = u8::from(details.version());
        if version != 4 && version != 6 {
            return Err(Error::Unsupported { what: "key version", name: version.to_string() });
        }
        let fingerprint = Fingerprint::from_bytes(details.fingerprint().as_bytes())?;
        let (algorithm, algorithm_name) = name_algorithm(details)?;
        let weak = name_weakness(details, &algorithm_name);
        let rsa = rsa_verifier(details)?;
        let standing = Standing::default();
        Ok(Self { key, fingerprint, algorithm, algorithm_name, weak, rsa, standing })
    }

    /// The fingerprint of this key.
    #[must_use]
    pub const fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }

    /// Whether it is the primary key of its certificate.
    #[must_use]
    pub const fn is_primary(&self) -> bool {
        matches!(self.key, Key::Primary(_))
    }

    /// The algorithm, if it is one that Sealwright signs with.
    #[must_use]
    pub const fn algorithm(&self) -> Option<KeyAlgorithm> {
        self.algorithm
    }

    /// The algorithm's name, whichever it is: `rsa4096`, `ed25519`, `dsa1024`, `nistp256`, ...
    #[must_use]
    pub fn algorithm_name(&self) -> &str {
        &self.algorithm_name
    }

    /// Creation time, Unix seconds.
    #[must_use]
    pub fn created(&self) -> u32 {
        self.key.details().created_at().as_secs()
    }

    /// End of validity, Unix seconds; `None` if it never ends.
    #[must_use]
    pub const fn expires(&self) -> Option<i64> {
        self.standing.expires
    }

    /// The valid revocation that weighs most: a hard one, else the earliest.
    #[must_use]
    pub fn revoked(&self) -> Option<Revocation> {
        self.standing
            .revocations
            .iter()
            .copied()
            .min_by_key(|revocation| (!revocation.hard, revocation.created))
    }

    /// Whether it is properly bound, flagged for signing data, and has signed back if it is a subkey.
    #[must_use]
    pub const fn can_sign(&self) -> bool {
        self.standing.may_sign
    }

    /// A subkey is valid only while its primary key is, and worth no more than the signature that binds it.
    pub(crate) fn inherit(&mut self, primary: &Self) {
        self.standing.inherit(&primary.standing);
        let inherited = primary.weak().map(|weak| format!("its primary key is weak: {weak}"));
        self.weak = self.weak.take().or(inherited);
    }

    /// What is wrong with the self-signatures that should bind it.
    #[must_use]
    pub const fn binding_problem(&self) -> Option<&'static str> {
        self.standing.problem
    }

    /// Why signatures by this key are worth little: it or its primary key is DSA, or RSA under 2048 bits.
    #[must_use]
    pub fn weak(&self) -> Option<&str> {
        self.weak.as_deref()
    }

    /// Whether its newest valid self-signature uses SHA-1, which current verifiers refuse.
    #[must_use]
    pub const fn is_bound_by_sha1(&self) -> bool {
        self.standing.bound_by_sha1
    }

    /// The revocation that spoils a signature made at `at` (Unix seconds).
    #[must_use]
    pub fn revoked_at(&self, at: i64) -> Option<Revocation> {
        let spoils = |revocation: &Revocation| revocation.hard || i64::from(revocation.created) <= at;
        self.revoked().filter(spoils)
    }

    /// Whether its validity had ended at `at` (Unix seconds).
    #[must_use]
    pub fn expired_at(&self, at: i64) -> bool {
        self.expires().is_some_and(|end| end <= at)
    }

    /// Why Sealwright cannot sign with it at `at` (Unix seconds); `None` if it can.
    #[must_use]
    pub fn unfit_to_sign(&self, at: i64) -> Option<String> {
        if let Some(problem) = self.binding_problem() {
            Some(problem.to_owned())
        } else if !self.can_sign() {
            Some("its key flags do not allow signing data".to_owned())
        } else if let Some(weak) = self.weak() {
            Some(weak.to_owned())
        } else if self.algorithm.is_none() {
            let id = u8::from(self.key.details().algorithm());
            Some(format!(
                "Sealwright does not sign with {} keys (OpenPGP algorithm {id})",
                self.algorithm_name
            ))
        } else if let Some(revocation) = self.revoked_at(at) {
            Some(format!("it was revoked at {}", revocation.created))
        } else if self.expired_at(at) {
            Some(format!("it expired at {}", self.expires().unwrap_or_default()))
        } else if i64::from(self.created()) > at {
            Some(format!("it is valid only from {} on", self.created()))
        } else {
            None
        }
    }

    /// Whether keys of this algorithm make signatures at all.
    pub(crate) fn is_signing_algorithm(&self) -> bool {
        self.key.details().algorithm().can_sign()
    }

    /// Why we cannot check signatures of this key, if we cannot.
    pub(crate) fn unchecked(&self) -> Option<&'static str> {
        let params = self.key.details().public_params();
        if matches!(params, PublicParams::Unknown { .. }) {
            return Some("this release does not check signatures of its algorithm");
        }
        let odd_curve = matches!(
            params,
            PublicParams::EdDSALegacy(EddsaLegacyPublicParams::Unsupported { .. })
                | PublicParams::ECDSA(EcdsaPublicParams::Unsupported { .. })
        );
        odd_curve.then_some("this release does not check signatures on its curve")
    }

    /// Whether `packet` is of a kind that this key can make: RFC 9580 sections 5.2.3 (version 6 keys and signatures
    /// go together) and 9.1 (3 is an old number for RSA).
    pub(crate) fn can_have_made(&self, packet: &SignaturePacket) -> bool {
        let rsa = |id: u8| id == 1 || id == 3;
        let own = u8::from(self.key.details().algorithm());
        let its = packet.key_algorithm_id();
        let same_version = (packet.version() == 6) == (self.fingerprint.key_version() == 6);
        same_version && (own == its || (rsa(own) && rsa(its)))
    }

    /// What a signature over `digest` is to PKCS#1 v1.5 (RFC 8017 section 8.2): the number of OpenPGP without its length, as many
    /// bytes as the modulus has. `None` if this key is no RSA key of ours, or did not make it.
    #[must_use]
    pub fn pkcs1_signature(&self, digest: &Digest, number: &[u8]) -> Option<Vec<u8>> {
        let rsa = self.rsa.as_ref()?;
        let (number, rest) = rsa::split_mpi(number)?;
        let value = SignatureBytes::Mpis(vec![Mpi::from_slice(number)]);
        let is_made = rest.is_empty() && rsa.verify(digest.hash(), digest.as_bytes(), &value) == Some(true);
        is_made.then(|| rsa.padded(number)).flatten()
    }

    /// The `RSAPublicKey` of PKCS#1 (RFC 8017 appendix A.1.1), in DER; `None` for other keys.
    #[must_use]
    pub fn rsa_public_key(&self) -> Option<Vec<u8>> {
        let params = self.key.details().public_params();
        matches!(params, PublicParams::RSA(_)).then(|| params.to_bytes().ok()).flatten().and_then(|numbers| {
            let (n, rest) = rsa::split_mpi(&numbers)?;
            let (e, _) = rsa::split_mpi(rest)?;
            let key = RsaPublicKey { modulus: UintRef::new(n).ok()?, public_exponent: UintRef::new(e).ok()? };
            key.to_der().ok()
        })
    }

    /// The public-key operation alone: whether `value` is this key's signature over `digest`.
    pub(crate) fn verify_digest(&self, hash: HashAlgorithm, digest: &[u8], value: &SignatureBytes) -> bool {
        if let Some(answer) = self.rsa.as_ref().and_then(|rsa| rsa.verify(hash, digest, value)) {
            return answer;
        }
        let hash = PgpHash::from(hash.openpgp_id());
        match &self.key {
            Key::Primary(key) => key.verify(hash, digest, value).is_ok(),
            Key::Subkey(key) => key.verify(hash, digest, value).is_ok(),
        }
    }
}

impl Key {
    pub(crate) fn details(&self) -> &dyn KeyDetails {
        match self {
            Self::Primary(key) => key,
            Self::Subkey(key) => key,
        }
    }
}

fn name_algorithm(key: &dyn KeyDetails) -> Result<(Option<KeyAlgorithm>, String), Error> {
    let id = u8::from(key.algorithm());
    let params = key.public_params();
    let name = key_algorithm_name(id);
    if matches!(params, PublicParams::RSA(_)) {
        let bits = leading_mpi_bits(params)?;
        let fits = (RSA_BITS_MIN..=RSA_BITS_MAX).contains(&bits) && id == 1;
        Ok((fits.then_some(KeyAlgorithm::Rsa(bits)), format!("rsa{bits}")))
    } else if matches!(params, PublicParams::DSA(_)) {
        Ok((None, format!("dsa{}", leading_mpi_bits(params)?)))
    } else if matches!(params, PublicParams::EdDSALegacy(EddsaLegacyPublicParams::Ed25519 { .. })) {
        Ok((
            Some(KeyAlgorithm::Ed25519).filter(|_| u8::from(key.version()) == 4),
            KeyAlgorithm::Ed25519.to_string(),
        ))
    } else if matches!(params, PublicParams::Ed25519(_)) {
        // In version 4 keys this algorithm is not what rpm and gpg read; we neither make nor sign with such.
        let algorithm = Some(KeyAlgorithm::Ed25519).filter(|_| u8::from(key.version()) == 6);
        Ok((algorithm, KeyAlgorithm::Ed25519.to_string()))
    } else if let PublicParams::ECDSA(params) = params {
        Ok((None, nist_curve(params).map_or(name, str::to_owned)))
    } else {
        Ok((None, name))
    }
}

fn rsa_verifier(key: &dyn KeyDetails) -> Result<Option<RsaVerifier>, Error> {
    let params = key.public_params();
    if !matches!(params, PublicParams::RSA(_)) {
        return Ok(None);
    }
    let bytes = params.to_bytes().map_err(|error| Error::packet("public key", error))?;
    Ok(RsaVerifier::new(&bytes))
}

fn nist_curve(params: &EcdsaPublicParams) -> Option<&'static str> {
    if matches!(params, EcdsaPublicParams::P256 { .. }) {
        Some("nistp256")
    } else if matches!(params, EcdsaPublicParams::P384 { .. }) {
        Some("nistp384")
    } else if matches!(params, EcdsaPublicParams::P521 { .. }) {
        Some("nistp521")
    } else {
        None
    }
}

fn name_weakness(key: &dyn KeyDetails, name: &str) -> Option<String> {
    let params = key.public_params();
    let short_rsa = matches!(params, PublicParams::RSA(_))
        && leading_mpi_bits(params).is_ok_and(|bits| bits < RSA_BITS_MIN);
    if short_rsa {
        Some(format!("it is an {name} key; RSA keys need at least {RSA_BITS_MIN} bits"))
    } else if matches!(params, PublicParams::DSA(_)) {
        Some(format!("it is a {name} key; use RSA or Ed25519"))
    } else {
        None
    }
}

/// The bit length of the first number of RSA and DSA keys: the modulus.
fn leading_mpi_bits(params: &PublicParams) -> Result<u16, Error> {
    let bytes = params.to_bytes().map_err(|error| Error::packet("public key", error))?;
    let (bits, _) =
        bytes.split_first_chunk::<2>().ok_or_else(|| Error::malformed("public key", "it has no modulus"))?;
    Ok(u16::from_be_bytes(*bits))
}
