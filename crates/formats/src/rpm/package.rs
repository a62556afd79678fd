//! A package, read from the outside in: lead, signature header, main header; the payload only when asked, and
//! then once.
//!
//! ```text
//! 0    lead               96 bytes; magic, major version and signature type are looked at, nothing else
//! 96   signature header   digests and signatures; up to 64 MiB, in memory only to write it
//!      padding            to a multiple of 8
//!      main header        what header signatures cover; streamed
//!      payload            to the end of the file; streamed
//! ```

use std::sync::Arc;

use super::budget::Buffer;
use super::hashes::Hashes;
use super::header::read;
use super::limits::LEAD_BYTES;
use super::main_header::MainHeader;
use super::one_pass::hash_both;
use super::signature_header::SignatureHeader;
use super::signature_read::{Load, Loaded, load};
use super::signatures::{self, Found};
use super::{digests, tags};
use crate::error::Error;
use crate::source::ReadAt;

/// First four bytes of every package.
pub(super) const LEAD_MAGIC: [u8; 4] = [0xed, 0xab, 0xee, 0xdb];

/// Where the lead has the major version of the format, 1 byte.
const LEAD_MAJOR_OFFSET: u64 = 4;
/// Where it has the signature type, 2 bytes, and the only one that rpm reads (`RPMSIGTYPE_HEADERSIG`).
const LEAD_SIGNATURE_TYPE_OFFSET: u64 = 78;
const LEAD_SIGNATURE_TYPE: u16 = 5;

/// Lead, headers and signatures of a package.
pub(super) struct Package {
    pub(super) signature: SignatureHeader,
    /// The signature header as it is in the file, padding included; empty if it was only looked at.
    pub(super) signature_bytes: Arc<Buffer>,
    pub(super) main: MainHeader,
    pub(super) found: Vec<Found>,
    /// Over the main header.
    pub(super) header_hashes: Hashes,
    /// Bytes of the file.
    pub(super) len: u64,
}

/// What one pass over the payload gave.
pub(super) struct PayloadHashes {
    /// Over main header and payload.
    pub(super) whole: Hashes,
    /// Over the payload.
    pub(super) payload: Hashes,
}

impl Package {
    /// Reads both headers. `want` adds hashes to those that the recorded digests need.
    pub(super) fn read(
        source: &dyn ReadAt,
        purpose: Load,
        want: impl FnOnce(&[Found], &mut Hashes),
    ) -> Result<Self, Error> {
        read_lead(source)?;
        let Loaded { header: signature, main_start, bytes: signature_bytes } = load(source, purpose)?;
        let found = signatures::find(&signature);
        let mut header_hashes = Hashes::default();
        digests::want_header(&signature, &mut header_hashes);
        want(&found, &mut header_hashes);
        let main = MainHeader::read(source, main_start, &mut |bytes| header_hashes.update(bytes))?;
        Ok(Self { signature, signature_bytes, main, found, header_hashes, len: source.len() })
    }

    /// Reads the payload for its digests and for `wanted` over main header and payload (hashes that were asked
    /// for in [`Self::read`]). Reads nothing if no hash needs it.
    pub(super) fn read_payload(&self, source: &dyn ReadAt, wanted: &Hashes) -> Result<PayloadHashes, Error> {
        let mut wanted = wanted.clone();
        if self.signature.find(tags::MD5).is_some() && !digests::is_v6(&self.main) {
            wanted.want(super::hashes::Algorithm::Md5);
        }
        let mut whole = self.header_hashes.select(&wanted);
        let mut payload = Hashes::default();
        digests::want_payload(&self.main, &mut payload);
        if !(whole.is_empty() && payload.is_empty()) {
            hash_both(source, self.main.end, self.len, &mut whole, &mut payload)
                .map_err(|cause| Error::Read { offset: self.main.end, source: cause })?;
        }
        Ok(PayloadHashes { whole, payload })
    }
}

/// The lead is historical (rpm `docs/manual/format_lead.md`): v6 packages say 4, all others 3. Checked is what rpm
/// does (`lib/rpmlead.c`, `rpmLeadCheck`).
fn read_lead(source: &dyn ReadAt) -> Result<(), Error> {
    let have = source.len();
    let not_rpm = |reason| Error::NotThisFormat { format: "rpm", reason };
    if have == 0 {
        return Err(not_rpm("the file is empty"));
    }
    let mut magic = [0; 4];
    let looked_at = magic.get_mut(..usize::try_from(have).unwrap_or(usize::MAX).min(4)).unwrap_or_default();
    read(source, 0, looked_at)?;
    if magic != LEAD_MAGIC {
        return Err(not_rpm("it does not start with the lead of a package"));
    }
    if have < LEAD_BYTES {
        return Err(Error::Truncated { what: "lead", need: LEAD_BYTES, have });
    }
    let bad = |offset, reason| Err(Error::Malformed { what: "lead", offset, reason });
    let mut major = [0; 1];
    read(source, LEAD_MAJOR_OFFSET, &mut major)?;
    let [major] = major;
    if !matches!(major, 3 | 4) {
        return bad(LEAD_MAJOR_OFFSET, format!("it says package version {major}; rpm reads 3 and 4"));
    }
    let mut kind = [0; 2];
    read(source, LEAD_SIGNATURE_TYPE_OFFSET, &mut kind)?;
    let kind = u16::from_be_bytes(kind);
    if kind != LEAD_SIGNATURE_TYPE {
        let reason = format!("it says signature type {kind}; rpm reads {LEAD_SIGNATURE_TYPE}");
        return bad(LEAD_SIGNATURE_TYPE_OFFSET, reason);
    }
    Ok(())
}
