//! The packets of a certificate in their groups (RFC 9580 section 10.1.1), and the limits on them.

use pgp::packet::{PacketHeader, PublicKey, PublicSubkey, Signature, UserId};
use pgp::types::KeyDetails as _;

use super::WHAT;
use crate::error::Error;
use crate::openpgp::framing::{self, RawPacket, tag};

/// Most user ids in one certificate; people with many addresses have dozens.
pub const USER_IDS_MAX: usize = 256;
/// Most subkeys in one certificate; a yearly subkey since 1991 would be 35.
pub const SUBKEYS_MAX: usize = 128;
/// Most self-signatures that are checked in one certificate: each costs a public-key operation.
pub const SELF_SIGNATURES_MAX: usize = 1024;

/// Longest key or user-id packet in bytes: the hash of a certification has 16 bits for a key's length.
const KEY_BYTES_MAX: usize = 32 << 10;

/// One certificate, sorted; signatures that cannot be self-signatures are left out.
pub(super) struct Parts {
    pub(super) primary: PublicKey,
    pub(super) direct: Vec<Signature>,
    pub(super) users: Vec<(UserId, Vec<Signature>)>,
    pub(super) subkeys: Vec<(PublicSubkey, Vec<Signature>)>,
}

/// Cuts at each primary key.
///
/// # Errors
/// [`Error::Malformed`] for broken framing, and for anything that does not start with a public key.
pub(super) fn split(bytes: &[u8]) -> Result<Vec<Vec<RawPacket<'_>>>, Error> {
    let mut all: Vec<Vec<RawPacket<'_>>> = Vec::new();
    let mut rest = bytes;
    while !rest.is_empty() {
        let (packet, tail) = framing::split_first(WHAT, rest)?;
        rest = tail;
        match packet.tag {
            tag::PUBLIC_KEY => all.push(vec![packet]),
            tag::SECRET_KEY | tag::SECRET_SUBKEY => {
                return Err(Error::malformed(WHAT, "it is a private key; give the public key instead"));
            }
            tag::MARKER => {}
            _ => match all.last_mut() {
                Some(certificate) => certificate.push(packet),
                None => return Err(Error::malformed(WHAT, "it does not start with a public key")),
            },
        }
    }
    Ok(all)
}

/// The packets that may be published: a trust packet is one keyring's own opinion (section 5.10).
pub(super) fn export(packets: &[RawPacket<'_>]) -> Vec<u8> {
    let public = packets.iter().filter(|packet| packet.tag != tag::TRUST);
    public.flat_map(|packet| packet.whole).copied().collect()
}

/// Where a signature belongs: to the last packet before it that is not one.
enum Owner {
    Primary,
    User,
    Subkey,
    /// Something that we do not read.
    Other,
}

impl Parts {
    pub(super) fn read(packets: &[RawPacket<'_>]) -> Result<Self, Error> {
        let (first, rest) =
            packets.split_first().ok_or_else(|| Error::malformed(WHAT, "it has no primary key"))?;
        let mut parts = Self {
            primary: read_key(first, |header, body| PublicKey::try_from_reader(header, body))?,
            direct: Vec::new(),
            users: Vec::new(),
            subkeys: Vec::new(),
        };
        let mut owner = Owner::Primary;
        let mut signatures = 0_usize;
        for packet in rest {
            match packet.tag {
                tag::SIGNATURE => {
                    let Some(signature) = parts.read_self_signature(packet) else { continue };
                    signatures = signatures.saturating_add(1);
                    at_most("self-signatures", signatures, SELF_SIGNATURES_MAX)?;
                    let list = match owner {
                        Owner::Primary => Some(&mut parts.direct),
                        Owner::User => parts.users.last_mut().map(|(_, list)| list),
                        Owner::Subkey => parts.subkeys.last_mut().map(|(_, list)| list),
                        Owner::Other => None,
                    };
                    list.into_iter().for_each(|list| list.push(signature.clone()));
                }
                tag::USER_ID => {
                    parts.users.push((
                        read_key(packet, |header, body| UserId::try_from_reader(header, body))?,
                        Vec::new(),
                    ));
                    at_most("user ids", parts.users.len(), USER_IDS_MAX)?;
                    owner = Owner::User;
                }
                tag::PUBLIC_SUBKEY => {
                    owner = parts.read_subkey(packet)?;
                    at_most("subkeys", parts.subkeys.len(), SUBKEYS_MAX)?;
                }
                tag::TRUST => {}
                _ => owner = Owner::Other,
            }
        }
        Ok(parts)
    }

    /// A subkey that rPGP cannot read (a new version, an odd curve) is left out; the others still count.
    fn read_subkey(&mut self, packet: &RawPacket<'_>) -> Result<Owner, Error> {
        let Ok(subkey) = read_key(packet, |header, body| PublicSubkey::try_from_reader(header, body)) else {
            return Ok(Owner::Other);
        };
        // Section 10.1.1: every subkey of a version 6 key is a version 6 key.
        if (self.primary.version() == pgp::types::KeyVersion::V6)
            != (subkey.version() == pgp::types::KeyVersion::V6)
        {
            return Err(Error::malformed(WHAT, "a subkey is of another version than the primary key"));
        }
        self.subkeys.push((subkey, Vec::new()));
        Ok(Owner::Subkey)
    }

    /// `None` for what is no signature by the primary key: others' certifications, and what rPGP cannot read.
    fn read_self_signature(&self, packet: &RawPacket<'_>) -> Option<Signature> {
        let signature = read_key(packet, |header, body| Signature::try_from_reader(header, body)).ok()?;
        let ids = signature.issuer_key_id();
        let fingerprints = signature.issuer_fingerprint();
        let anonymous = ids.is_empty() && fingerprints.is_empty();
        let ours = ids.into_iter().any(|id| *id == self.primary.legacy_key_id())
            || fingerprints.into_iter().any(|fingerprint| *fingerprint == self.primary.fingerprint());
        (anonymous || ours).then_some(signature)
    }
}

/// Lets rPGP read the body of one packet, all of it.
fn read_key<T>(
    packet: &RawPacket<'_>,
    read: impl FnOnce(PacketHeader, &mut &[u8]) -> Result<T, pgp::errors::Error>,
) -> Result<T, Error> {
    if packet.body.len() > KEY_BYTES_MAX {
        return Err(too_large("a packet of a certificate", packet.body.len(), KEY_BYTES_MAX, "bytes"));
    }
    let header = PacketHeader::try_from_reader(packet.whole)
        .map_err(|_| Error::malformed(WHAT, "a packet header is not well formed"))?;
    let mut body = packet.body;
    let read = read(header, &mut body).map_err(|error| Error::packet(WHAT, error))?;
    if body.is_empty() { Ok(read) } else { Err(Error::malformed(WHAT, "a packet has bytes after its end")) }
}

fn at_most(parts: &'static str, count: usize, limit: usize) -> Result<(), Error> {
    if count > limit { Err(too_large("a certificate", count, limit, parts)) } else { Ok(()) }
}

fn too_large(what: &'static str, size: usize, limit: usize, unit: &'static str) -> Error {
    Error::TooLarge {
        what,
        size: u64::try_from(size).unwrap_or(u64::MAX),
        limit: u64::try_from(limit).unwrap_or(u64::MAX),
        unit,
    }
}
