//! The two subpacket areas of a version 4 or 6 signature (RFC 9580 section 5.2.3.7). We read the few that a
//! signature over data needs, check the framing of all, and keep note of a critical one that we do not know.

use crate::error::Error;
use crate::openpgp::fingerprint::Fingerprint;
use crate::openpgp::framing::{Reader, two_octets};

const WHAT: &str = "signature packet";

/// Subpacket types (section 5.2.3.7, table 5).
pub(crate) mod kind {
    pub(crate) const CREATED: u8 = 2;
    pub(crate) const EXPIRES: u8 = 3;
    pub(crate) const KEY_EXPIRES: u8 = 9;
    pub(crate) const ISSUER_KEY_ID: u8 = 16;
    pub(crate) const NOTATION: u8 = 20;
    pub(crate) const ISSUER_FINGERPRINT: u8 = 33;
}

/// Critical subpackets whose meaning, in a signature over data, we either apply or may ignore: besides those
/// that we read, statements about keys (exportable 4, revocable 7, preferences 11 and 21 to 24, primary 25,
/// key flags 27, features 30) and about the signer (policy 26, user id 28).
const UNDERSTOOD: [u8; 15] = [2, 3, 4, 7, 11, 16, 21, 22, 23, 24, 25, 26, 27, 28, 30];

/// What the subpackets say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Areas {
    /// Hashed area only.
    pub(crate) created: Option<u32>,
    /// Seconds after `created`; hashed area only.
    pub(crate) expires_after: Option<u32>,
    pub(crate) issuer_fingerprint: Option<Fingerprint>,
    pub(crate) issuer_key_id: Option<[u8; 8]>,
    /// Hashed area only.
    pub(crate) critical_unknown: Option<u8>,
}

impl Areas {
    pub(crate) fn read_hashed(&mut self, area: &[u8]) -> Result<(), Error> {
        each(area, |subpacket| {
            match subpacket.kind {
                kind::CREATED => set_once(&mut self.created, subpacket.u32()?)?,
                kind::EXPIRES => set_once(&mut self.expires_after, subpacket.u32()?)?,
                _ => {}
            }
            if subpacket.critical && !subpacket.is_understood() {
                self.critical_unknown = self.critical_unknown.or(Some(subpacket.kind));
            }
            self.read_issuer(&subpacket)
        })
    }

    /// Nothing here is signed: only hints at the issuer are taken, and those of the hashed area go first.
    pub(crate) fn read_unhashed(&mut self, area: &[u8]) -> Result<(), Error> {
        each(area, |subpacket| self.read_issuer(&subpacket))
    }

    fn read_issuer(&mut self, subpacket: &Subpacket<'_>) -> Result<(), Error> {
        match subpacket.kind {
            kind::ISSUER_KEY_ID => {
                let id = subpacket
                    .body
                    .try_into()
                    .map_err(|_| Error::malformed(WHAT, "the issuer key id has not eight bytes"))?;
                self.issuer_key_id = self.issuer_key_id.or(Some(id));
            }
            kind::ISSUER_FINGERPRINT => {
                let fingerprint = read_fingerprint(subpacket.body)?;
                self.issuer_fingerprint = self.issuer_fingerprint.or(fingerprint);
            }
            _ => {}
        }
        Ok(())
    }
}

/// One subpacket, not interpreted.
pub(crate) struct Subpacket<'a> {
    /// Its type.
    pub(crate) kind: u8,
    critical: bool,
    body: &'a [u8],
    /// Length, type and body, as they came.
    pub(crate) whole: &'a [u8],
}

impl Subpacket<'_> {
    fn u32(&self) -> Result<u32, Error> {
        let bytes = self
            .body
            .try_into()
            .map_err(|_| Error::malformed(WHAT, "a time subpacket has not four bytes"))?;
        Ok(u32::from_be_bytes(bytes))
    }

    /// A critical notation must be known by name; the only one that we know is our own salt.
    fn is_understood(&self) -> bool {
        match self.kind {
            kind::NOTATION => {
                let mut reader = Reader(self.body);
                let name_len = reader.take(4).and_then(|_| reader.u16());
                let name = name_len.and_then(|len| {
                    reader.u16()?;
                    reader.take(usize::from(len))
                });
                name == Some(crate::openpgp::signature::SALT_NOTATION.as_bytes())
            }
            kind::ISSUER_FINGERPRINT => true,
            other => UNDERSTOOD.contains(&other),
        }
    }
}

/// Section 5.2.3.35: key version, fingerprint. Other key versions exist and cannot be ours.
fn read_fingerprint(body: &[u8]) -> Result<Option<Fingerprint>, Error> {
    let bad = || Error::malformed(WHAT, "the issuer fingerprint has not the length of its key version");
    match body.split_first() {
        None => Err(bad()),
        Some((4, bytes)) => bytes.try_into().map(|bytes| Some(Fingerprint::v4(bytes))).map_err(|_| bad()),
        Some((6, bytes)) => bytes.try_into().map(|bytes| Some(Fingerprint::v6(bytes))).map_err(|_| bad()),
        Some(_) => Ok(None),
    }
}

/// Two different creation times make a signature ambiguous: verifiers differ in which one they take.
fn set_once(field: &mut Option<u32>, value: u32) -> Result<(), Error> {
    if field.is_some_and(|old| old != value) {
        return Err(Error::malformed(WHAT, "a time subpacket comes twice with different values"));
    }
    *field = Some(value);
    Ok(())
}

/// Visits all of an area.
///
/// # Errors
/// [`Error::Malformed`] if the area is not made of subpackets; those of `visit`.
pub(crate) fn each(
    area: &[u8],
    mut visit: impl FnMut(Subpacket<'_>) -> Result<(), Error>,
) -> Result<(), Error> {
    let truncated = || Error::malformed(WHAT, "a subpacket is longer than its area");
    let mut reader = Reader(area);
    while !reader.0.is_empty() {
        let all = reader.0;
        let len = match reader.u8().ok_or_else(truncated)? {
            short @ 0..192 => u32::from(short),
            high @ 192..255 => two_octets(high, reader.u8().ok_or_else(truncated)?),
            255 => reader.u32().ok_or_else(truncated)?,
        };
        let typed = reader.take(usize::try_from(len).unwrap_or(usize::MAX)).ok_or_else(truncated)?;
        let (kind, body) =
            typed.split_first().ok_or_else(|| Error::malformed(WHAT, "a subpacket is empty"))?;
        let whole = all.get(..all.len().saturating_sub(reader.0.len())).unwrap_or_default();
        visit(Subpacket { kind: kind & 0x7f, critical: kind & 0x80 != 0, body, whole })?;
    }
    Ok(())
}
