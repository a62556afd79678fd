//! Renewing a certificate: new self-signatures, SHA-256, with a new end; the keys, the user ids, the flags and other
//! people's signatures stay. The newest self-signature counts, so the old ones stay too.

use std::time::Duration;

use pgp::packet::{PacketHeader, PublicSubkey, Signature, SubpacketData, UserId};
use pgp::types::{KeyDetails as _, Tag};
use sealwright_crypto::algorithm::KeyVersion;
use sealwright_crypto::error::Error as CryptoError;
use sealwright_crypto::openpgp::certificate::Certificate;
use sealwright_proto::convert::keys::{KeyMaterial, SignerRenew};
use sealwright_proto::limits::CERTIFICATE_BYTES_MAX;
use sealwright_proto::status::{Code, Fault};

use crate::certify::{self, Claims};
use crate::clock::{Clock, openpgp_time, utc};
use crate::create;
use crate::opened::Component;
use crate::packets::{self, RawPacket};
use crate::root::Sealer;
use crate::seal::{Primary, StoredKey};
use crate::tokens::Tokens;

/// Renews as of now.
///
/// # Errors
/// [`Code::NotRenewable`] without the primary secret, or if the certificate is revoked, damaged or another key's;
/// [`Code::ClockBehind`] if the newest self-signature is of a later time; those of opening and sealing.
pub(crate) fn renew(
    sealer: &Sealer,
    tokens: &Tokens,
    wanted: &SignerRenew,
    clock: &dyn Clock,
) -> Result<KeyMaterial, Fault> {
    let stored = StoredKey::open(sealer, &wanted.key)?;
    let signing = Component::open(tokens, &stored.signing)?;
    let separate;
    let primary = match &stored.primary {
        Primary::Signs => &signing,
        Primary::Separate(primary) => {
            separate = Component::open(tokens, primary)?;
            &separate
        }
        Primary::Absent => return Err(not_renewable("its primary secret key is not here")),
    };
    let old = Certificate::parse(&wanted.certificate).map_err(|error| unreadable(&error))?;
    if old.fingerprint() != primary.public().fingerprint() {
        return Err(not_renewable("the stored certificate is another key's"));
    }
    if old.components().first().is_none_or(|listed| listed.revoked().is_some()) {
        return Err(not_renewable("its certificate is revoked"));
    }
    // Only time may be against it: what else is wrong with the stored certificate, a renewal does not mend.
    let listed = old.find(&signing.public().fingerprint());
    let listed = listed.ok_or_else(|| not_renewable("the stored certificate lacks the key that signs"))?;
    let flags = (!listed.can_sign()).then_some("its key flags do not allow signing data");
    let revoked = listed.revoked().is_some().then_some("it is revoked");
    if let Some(problem) = listed.binding_problem().or(flags).or(revoked) {
        return Err(not_renewable(&format!("the stored certificate does not let its key sign: {problem}")));
    }
    let groups = Group::split(&wanted.certificate)?;
    let plan = Plan { primary, signing: &signing, groups: &groups };
    let now = wait_until_after(plan.newest(), clock)?;
    let expires = create::end_of_validity(now, wanted.valid_for_s)?;
    let certificate = plan.write(openpgp_time(now)?, expires)?;
    if certificate.len() > CERTIFICATE_BYTES_MAX {
        return Err(Fault::new(Code::LimitExceeded, "the renewed certificate would be larger than 1 MiB"));
    }
    let stored = StoredKey { generation: wanted.generation, expires, ..stored };
    let certificate = create::checked(&certificate, &stored, now)?;
    let warnings = warnings(&certificate, now);
    create::material(sealer, &stored, &certificate, warnings)
}

/// What is left to warn of. The advice to renew has just been followed: what it did not mend, it never will.
fn warnings(certificate: &Certificate, now: i64) -> Vec<String> {
    let left = "It is not used to sign here, and renewing leaves it as it is.";
    let warnings = certificate.warnings_at(now).into_iter();
    warnings.map(|warning| warning.replace(RENEW_ADVICE, left)).collect()
}

/// As [`Certificate::warnings_at`] gives it.
pub(crate) const RENEW_ADVICE: &str = "Renew it: `sealwright key renew`.";

/// A key or user id, with the signatures behind it.
struct Group<'a> {
    head: RawPacket<'a>,
    signatures: Vec<RawPacket<'a>>,
}

impl<'a> Group<'a> {
    fn split(certificate: &'a [u8]) -> Result<Vec<Self>, Fault> {
        let mut groups: Vec<Self> = Vec::new();
        for packet in packets::split(certificate).map_err(|error| unreadable(&error))? {
            match groups.last_mut() {
                Some(group) if packet.tag == Tag::Signature => group.signatures.push(packet),
                _ => groups.push(Self { head: packet, signatures: Vec::new() }),
            }
        }
        Ok(groups)
    }
}

/// The groups, and the keys to sign them anew.
struct Plan<'a> {
    primary: &'a Component,
    signing: &'a Component,
    groups: &'a [Group<'a>],
}

impl Plan<'_> {
    /// The time of the newest self-signature, Unix seconds.
    fn newest(&self) -> i64 {
        let signatures = self.groups.iter().flat_map(|group| self.own(group));
        signatures.map(|signature| created(&signature)).max().unwrap_or(0)
    }

    /// The certificate with a new signature in each group that has one of ours.
    fn write(&self, created: u32, expires: Option<i64>) -> Result<Vec<u8>, Fault> {
        let mut out = Vec::new();
        for group in self.groups {
            out.extend_from_slice(group.head.whole);
            if let Some(signature) = self.renewed(group, created, expires)? {
                out.extend(signature);
            }
            for old in &group.signatures {
                out.extend_from_slice(old.whole);
            }
        }
        Ok(out)
    }

    fn renewed(
        &self,
        group: &Group<'_>,
        created: u32,
        expires: Option<i64>,
    ) -> Result<Option<Vec<u8>>, Fault> {
        let public = self.primary.public().packet();
        let claims = |signature: &Signature| Claims { created, expires, other: kept(signature) };
        if group.head.tag == Tag::PublicKey {
            let old = self.newest_of(group, |signature| signature.verify_key(public).is_ok());
            let old = old.filter(|signature| kind(signature) == Some(KIND_DIRECT));
            return old.map(|old| certify::certify_directly(self.primary, claims(&old))).transpose();
        }
        if group.head.tag == Tag::UserId {
            let Some(user) = read_user(&group.head) else { return Ok(None) };
            let old = self.newest_of(group, |signature| {
                signature.verify_certification(public, Tag::UserId, &user).is_ok()
            });
            let old = old.filter(|signature| kind(signature) != Some(KIND_REVOKED_USER));
            // The direct-key signature of a version 6 key says when it ends; the user id's then only binds the user id.
            let expires = if self.ends_directly() { None } else { expires };
            let claims = |old: &Signature| Claims { expires, ..claims(old) };
            return old.map(|old| certify::certify_user(self.primary, &user, claims(&old))).transpose();
        }
        let is_signing =
            group.head.tag == Tag::PublicSubkey && group.head.body == self.signing.public().body();
        if !is_signing {
            return Ok(None);
        }
        let Some(subkey) = read_subkey(&group.head) else { return Ok(None) };
        let old = self.newest_of(group, |signature| signature.verify_subkey_binding(public, &subkey).is_ok());
        let old = old.ok_or_else(|| not_renewable("the binding of its signing subkey is not valid"))?;
        certify::bind_subkey(self.primary, self.signing, claims(&old)).map(Some)
    }

    /// Whether it is a version 6 key with a direct-key signature (RFC 9580 section 10.1.1; some have none).
    fn ends_directly(&self) -> bool {
        let mut direct = self.groups.iter().filter(|group| group.head.tag == Tag::PublicKey);
        self.primary.public().version() == KeyVersion::V6
            && direct.any(|group| self.own(group).any(|signature| kind(&signature) == Some(KIND_DIRECT)))
    }

    /// The newest signature by our primary key that holds.
    fn newest_of(&self, group: &Group<'_>, holds: impl Fn(&Signature) -> bool) -> Option<Signature> {
        let mut own: Vec<_> = self.own(group).collect();
        own.sort_by_key(created);
        own.into_iter().rev().find(holds)
    }

    /// Signatures that say they are by our primary key.
    fn own(&self, group: &Group<'_>) -> impl Iterator<Item = Signature> {
        let public = self.primary.public().packet();
        group.signatures.iter().filter_map(read_signature).filter(move |signature| {
            signature.issuer_key_id().into_iter().any(|id| *id == public.legacy_key_id())
                || signature.issuer_fingerprint().into_iter().any(|own| *own == public.fingerprint())
        })
    }
}

/// RFC 9580 section 5.2.1.
const KIND_DIRECT: u8 = 0x1f;
const KIND_REVOKED_USER: u8 = 0x30;

fn kind(signature: &Signature) -> Option<u8> {
    signature.typ().map(u8::from)
}

fn created(signature: &Signature) -> i64 {
    signature.created().map_or(0, |time| i64::from(time.as_secs()))
}

/// What the old signature said that the new one says too: all but times, issuer and the subkey's signature back.
fn kept(old: &Signature) -> Vec<SubpacketData> {
    let Some(config) = old.config() else { return Vec::new() };
    let replaced = |data: &SubpacketData| {
        matches!(
            data,
            SubpacketData::SignatureCreationTime(_)
                | SubpacketData::SignatureExpirationTime(_)
                | SubpacketData::KeyExpirationTime(_)
                | SubpacketData::IssuerKeyId(_)
                | SubpacketData::IssuerFingerprint(_)
                | SubpacketData::EmbeddedSignature(_)
        )
    };
    config
        .hashed_subpackets()
        .map(|subpacket| &subpacket.data)
        .filter(|data| !replaced(data))
        .cloned()
        .collect()
}

fn read_signature(packet: &RawPacket<'_>) -> Option<Signature> {
    Signature::try_from_reader(header(Tag::Signature, packet), packet.body).ok()
}

fn read_user(packet: &RawPacket<'_>) -> Option<UserId> {
    UserId::try_from_reader(header(Tag::UserId, packet), packet.body).ok()
}

fn read_subkey(packet: &RawPacket<'_>) -> Option<PublicSubkey> {
    PublicSubkey::try_from_reader(header(Tag::PublicSubkey, packet), packet.body).ok()
}

fn header(tag: Tag, packet: &RawPacket<'_>) -> PacketHeader {
    PacketHeader::new_fixed(tag, u32::try_from(packet.body.len()).unwrap_or(u32::MAX))
}

/// How often to look at the clock while a second passes.
const TICK: Duration = Duration::from_millis(20);
/// Looks at the clock before it counts as standing still: two seconds of them.
const TICKS_MAX: u32 = 100;

/// The time, once it is later than the newest self-signature: of two with one time, nobody can say which counts. A
/// key renewed in the second of its creation waits for the next.
fn wait_until_after(newest: i64, clock: &dyn Clock) -> Result<i64, Fault> {
    for _ in 0..TICKS_MAX {
        let now = clock.unix_s();
        if now > newest {
            return Ok(now);
        }
        if now < newest {
            break;
        }
        std::thread::sleep(TICK);
    }
    let message = format!(
        "the renewal would not be newer than the certificate: the clock says {}, its last signature is of {}",
        utc(clock.unix_s()),
        utc(newest)
    );
    Err(Fault::new(Code::ClockBehind, message))
}

fn not_renewable(reason: &str) -> Fault {
    Fault::new(Code::NotRenewable, format!("the key cannot be renewed: {reason}"))
}

fn unreadable(error: &CryptoError) -> Fault {
    not_renewable(&format!("the stored certificate is not readable: {error}"))
}
