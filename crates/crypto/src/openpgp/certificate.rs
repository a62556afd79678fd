//! Certificates: transferable public keys (RFC 9580 section 10.1) with their self-signatures checked at parsing.
//! rPGP reads the packets and does the public-key operations, RSA apart (`checked.rs`); which self-signature counts is
//! decided here.
//!
//! Rules: of several valid self-signatures the newest counts, with any key expiry or key flags that only the
//! newest of the other kind (direct key, user id) has; a revocation by the key itself counts, by others not;
//! third-party certifications are not looked at; SHA-1 self-signatures bind, and are warned of; MD5 does not.

use crate::error::Error;
use crate::openpgp::armor::{self, Kind};
use crate::openpgp::fingerprint::Fingerprint;
use crate::openpgp::framing;
use parts::Parts;
use standing::Identity;

mod checked;
mod keyring;
mod parts;
mod standing;

pub use crate::openpgp::component::{Component, Revocation};
pub use keyring::{CERTIFICATES_MAX, Keyring};
pub use parts::{SELF_SIGNATURES_MAX, SUBKEYS_MAX, USER_IDS_MAX};

/// What this module calls its input in errors.
const WHAT: &str = "certificate";

/// One certificate. Holding one means that it was parsed and every binding in it was checked; what did not hold
/// is said by its component.
#[derive(Clone, Debug)]
pub struct Certificate {
    /// The packets as they came, without local trust packets.
    packets: Vec<u8>,
    components: Vec<Component>,
    identities: Vec<Identity>,
    fingerprint: Fingerprint,
    created: u32,
    expires: Option<i64>,
}

impl Certificate {
    /// Reads exactly one certificate, armored or binary.
    ///
    /// # Errors
    /// [`Error::Malformed`] if it is not exactly one certificate, or a private key; [`Error::Packet`] if rPGP cannot
    /// read a key; [`Error::Unsupported`] for keys older than version 4; [`Error::TooLarge`] above
    /// [`armor::INPUT_BYTES_MAX`], [`USER_IDS_MAX`], [`SUBKEYS_MAX`] or [`SELF_SIGNATURES_MAX`].
    pub fn parse(bytes: &[u8]) -> Result<Self, Error> {
        let packets = armor::decode_or_binary(bytes)?;
        let mut all = parts::split(&packets)?;
        match (all.pop(), all.is_empty()) {
            (Some(one), true) => Self::from_packets(&one),
            (Some(_), false) => Err(Error::malformed(WHAT, "there are several; one was expected")),
            (None, _) => Err(Error::malformed(WHAT, "there is none")),
        }
    }

    /// Reads the packets of one certificate.
    fn from_packets(packets: &[framing::RawPacket<'_>]) -> Result<Self, Error> {
        let parts = Parts::read(packets)?;
        let (components, identities) = standing::evaluate(parts)?;
        let primary = components.first().ok_or_else(|| Error::malformed(WHAT, "it has no primary key"))?;
        Ok(Self {
            packets: parts::export(packets),
            fingerprint: primary.fingerprint(),
            created: primary.created(),
            expires: primary.expires(),
            components,
            identities,
        })
    }

    /// The packets, as they came.
    #[must_use]
    pub fn to_binary(&self) -> Vec<u8> {
        self.packets.clone()
    }

    /// The packets as one armor block.
    #[must_use]
    pub fn to_armor(&self) -> String {
        armor::encode(Kind::PublicKey, &self.packets)
    }

    /// The fingerprint of the primary key.
    #[must_use]
    pub const fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }

    /// The user ids with a valid, unrevoked self-signature, the primary one first. Control characters are
    /// replaced: the texts are safe to print.
    #[must_use]
    pub fn user_ids(&self) -> Vec<String> {
        self.identities.iter().map(|identity| identity.text.clone()).collect()
    }

    /// The first of [`Self::user_ids`].
    #[must_use]
    pub fn primary_user_id(&self) -> Option<&str> {
        self.identities.first().map(|identity| identity.text.as_str())
    }

    /// Creation time of the primary key, Unix seconds.
    #[must_use]
    pub const fn created(&self) -> u32 {
        self.created
    }

    /// End of validity of the primary key, Unix seconds; `None` if it never ends.
    #[must_use]
    pub const fn expires(&self) -> Option<i64> {
        self.expires
    }

    /// The primary key and all subkeys, in this order.
    #[must_use]
    pub fn components(&self) -> &[Component] {
        &self.components
    }

    /// The components that Sealwright can sign with at `at` (Unix seconds), in the order of the certificate.
    #[must_use]
    pub fn signing_components(&self, at: i64) -> Vec<&Component> {
        self.components.iter().filter(|component| component.unfit_to_sign(at).is_none()).collect()
    }

    /// The component with this fingerprint.
    #[must_use]
    pub fn find(&self, fingerprint: &Fingerprint) -> Option<&Component> {
        self.components.iter().find(|component| component.fingerprint() == *fingerprint)
    }

    /// The first component with this key id. Key ids can be forged: use it only where there is no fingerprint.
    #[must_use]
    pub fn find_by_key_id(&self, key_id: [u8; 8]) -> Option<&Component> {
        self.components.iter().find(|component| component.fingerprint().key_id() == key_id)
    }

    /// What current verifiers will dislike about it, whatever the time: one sentence each, with what to do.
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        let mut out = Vec::new();
        for (name, sha1) in self.self_signed() {
            if sha1 {
                out.push(format!(
                    "{name}: its self-signature uses SHA-1, and current systems refuse such a certificate. \
                     Renew it: `sealwright key renew`."
                ));
            }
        }
        for component in &self.components {
            let name = role(component);
            if let Some(weak) = component.weak() {
                out.push(format!("{name}: {weak}. Make a new key: `sealwright key create`."));
            }
            if let Some(problem) = component.binding_problem() {
                out.push(format!("{name}: {problem}. Verifiers ignore it."));
            }
        }
        out
    }

    /// Everything that a self-signature binds, and whether that is a SHA-1 one. The primary key is bound together
    /// with its user ids; it is named only where it has none.
    fn self_signed(&self) -> impl Iterator<Item = (String, bool)> {
        let identities =
            self.identities.iter().map(|identity| (format!("user id \"{}\"", identity.text), identity.sha1));
        let alone = self.identities.is_empty();
        let components = self.components.iter().filter(move |component| alone || !component.is_primary());
        identities.chain(components.map(|component| (role(component), component.is_bound_by_sha1())))
    }

    /// [`Self::warnings`], and what is wrong at `now` (Unix seconds): expired and revoked components.
    #[must_use]
    pub fn warnings_at(&self, now: i64) -> Vec<String> {
        let mut out = self.warnings();
        for component in &self.components {
            let name = role(component);
            if component.revoked_at(now).is_some() {
                out.push(format!("{name}: it is revoked."));
            } else if component.expired_at(now) {
                out.push(format!("{name}: it has expired. Renew it: `sealwright key renew`."));
            }
        }
        out
    }
}

fn role(component: &Component) -> String {
    let role = if component.is_primary() { "primary key" } else { "subkey" };
    format!("{role} {}", component.fingerprint())
}
