//! The canonical record of one signature. Its bytes are what the log hashes: they never change for version 1.
//!
//! ```text
//! length    field (numbers are big-endian)
//! 1         version, 1
//! 8         time in the signature, Unix seconds, signed
//! 1 + n     principal that asked, UTF-8, at most 255 bytes
//! 16        request id, UUID
//! 4         item number within the request, from 0
//! 16        key id, UUID
//! 4         key version (rotation)
//! 4         key generation (renewal)
//! 1 + n     OpenPGP fingerprint of the component that signed, 20 or 32 bytes
//! 1         usage (crypto::usage)
//! 1         purpose claimed by the client (crypto::usage)
//! 1         hash algorithm, OpenPGP number (SHA-1 for a bare digest alone)
//! n         the digest that was signed, length by the algorithm
//! 32        SHA-256 of the signature packet
//! 1         artefact claim: 0 absent, 1 present, then
//!   1 + n     name, UTF-8, at most 255 bytes
//!   8         size in bytes
//! 1 + n     policy decision, UTF-8, at most 255 bytes
//! 1         claimed time (of a bare digest, as the client says it): 0 absent, 1 present, then
//!   8         Unix seconds, signed
//! 8         number of this signature among those of its key, as the key process counts, from 1
//! 8         numbers that the key process has declared skipped so far
//! 32        its chain of hashes up to this signature (docs/WIRE.md, "Operations")
//! ```
//!
//! Who hashes: the signer process finished the digest; this crate hashes only the entry itself.

use sealwright_crypto::bare::AnyDigest;
use sealwright_crypto::openpgp::fingerprint::Fingerprint;
use sealwright_crypto::usage::{Purpose, Usage};

use crate::error::Error;
use crate::merkle;

/// The only version so far.
pub const VERSION: u8 = 1;

/// Longest text field in bytes: one length byte.
pub const TEXT_BYTES_MAX: usize = 255;

/// Longest canonical entry in bytes: every field at its limit.
pub const ENCODED_BYTES_MAX: usize =
    1 + 8 + 256 + 16 + 4 + 16 + 4 + 4 + 33 + 3 + 64 + 32 + 1 + 256 + 8 + 256 + 9 + 48;

/// What happened, once: one item of one request was signed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Time in the signature, Unix seconds; read by the key process.
    pub signed_at_s: i64,
    /// Who asked, at most [`TEXT_BYTES_MAX`] bytes.
    pub principal: String,
    /// UUID of the request.
    pub request_id: [u8; 16],
    /// Number of the item within the request, from 0.
    pub item: u32,
    /// UUID of the key.
    pub key_id: [u8; 16],
    /// Rotation: which key of that name.
    pub key_version: u32,
    /// Renewal: which sealed blob of that key.
    pub key_generation: u32,
    /// Fingerprint of the primary key or subkey that signed.
    pub signing_fingerprint: Fingerprint,
    /// The signature encoding.
    pub usage: Usage,
    /// What the client said that it is.
    pub purpose: Purpose,
    /// The digest that was signed: content and what the key holder appended; a bare digest as it came.
    pub digest: AnyDigest,
    /// SHA-256 of the whole signature packet, see [`packet_hash`].
    pub packet_sha256: [u8; 32],
    /// What the client said about the artefact; never trusted.
    pub artefact: Option<Artefact>,
    /// The policy decision under which it was signed, at most [`TEXT_BYTES_MAX`] bytes.
    pub decision: String,
    /// A time that the client claimed, Unix seconds; kept apart from the time of signing.
    pub claimed_time_s: Option<i64>,
    /// The count of the key process: a number that is in no entry, and not declared, is a signature that was made and
    /// not logged.
    pub operation: Operation,
}

/// The place of a signature in the key process's own count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation {
    /// From 1, for each key.
    pub number: u64,
    /// How many numbers before were reserved, and declared as not, or perhaps not, used.
    pub skipped: u64,
    /// SHA-256, chained over reservations and packets.
    pub chain: [u8; 32],
}

/// A client's claim about what it signs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Artefact {
    /// File name without directories, at most [`TEXT_BYTES_MAX`] bytes.
    pub name: String,
    /// Size in bytes.
    pub size: u64,
}

/// SHA-256 of a signature packet, as [`Entry::packet_sha256`] holds it.
#[must_use]
pub fn packet_hash(packet: &[u8]) -> [u8; 32] {
    merkle::sha256(&[packet]).0
}

impl Entry {
    /// The canonical bytes, at most [`ENCODED_BYTES_MAX`].
    ///
    /// # Errors
    /// [`Error::FieldTooLong`] if a text is longer than [`TEXT_BYTES_MAX`] bytes.
    pub fn encode(&self) -> Result<Vec<u8>, Error> {
        let mut out = Vec::with_capacity(ENCODED_BYTES_MAX);
        out.push(VERSION);
        out.extend(self.signed_at_s.to_be_bytes());
        put(&mut out, "principal", self.principal.as_bytes())?;
        out.extend(self.request_id);
        out.extend(self.item.to_be_bytes());
        out.extend(self.key_id);
        out.extend(self.key_version.to_be_bytes());
        out.extend(self.key_generation.to_be_bytes());
        put(&mut out, "signing fingerprint", self.signing_fingerprint.as_bytes())?;
        out.extend([self.usage.id(), self.purpose.id(), self.digest.openpgp_id()]);
        out.extend(self.digest.as_bytes());
        out.extend(self.packet_sha256);
        match &self.artefact {
            None => out.push(0),
            Some(artefact) => {
                out.push(1);
                put(&mut out, "artefact name", artefact.name.as_bytes())?;
                out.extend(artefact.size.to_be_bytes());
            }
        }
        put(&mut out, "decision", self.decision.as_bytes())?;
        match self.claimed_time_s {
            None => out.push(0),
            Some(time) => {
                out.push(1);
                out.extend(time.to_be_bytes());
            }
        }
        out.extend(self.operation.number.to_be_bytes());
        out.extend(self.operation.skipped.to_be_bytes());
        out.extend(self.operation.chain);
        Ok(out)
    }

    /// Reads canonical bytes, strictly: `decode(encode(x)) == x`, and nothing else is accepted.
    ///
    /// # Errors
    /// [`Error::UnknownVersion`], or [`Error::MalformedEntry`] naming the field: truncated, trailing bytes,
    /// a text that is not UTF-8, an unknown number, a presence byte other than 0 and 1.
    pub fn decode(bytes: &[u8]) -> Result<Self, Error> {
        let mut reader = Reader(bytes);
        let [version] = reader.take("version")?;
        if version != VERSION {
            return Err(Error::UnknownVersion { version });
        }
        let entry = Self {
            signed_at_s: i64::from_be_bytes(reader.take("time")?),
            principal: reader.text("principal")?,
            request_id: reader.take("request id")?,
            item: u32::from_be_bytes(reader.take("item")?),
            key_id: reader.take("key id")?,
            key_version: u32::from_be_bytes(reader.take("key version")?),
            key_generation: u32::from_be_bytes(reader.take("key generation")?),
            signing_fingerprint: reader.fingerprint()?,
            usage: {
                let [id] = reader.take("usage")?;
                Usage::from_id(id.into()).map_err(|_| malformed("usage", "unknown number"))?
            },
            purpose: {
                let [id] = reader.take("purpose")?;
                Purpose::from_id(id.into()).map_err(|_| malformed("purpose", "unknown number"))?
            },
            digest: reader.digest()?,
            packet_sha256: reader.take("hash of the packet")?,
            artefact: if reader.present("artefact")? {
                let name = reader.text("artefact name")?;
                Some(Artefact { name, size: u64::from_be_bytes(reader.take("artefact size")?) })
            } else {
                None
            },
            decision: reader.text("decision")?,
            claimed_time_s: if reader.present("claimed time")? {
                Some(i64::from_be_bytes(reader.take("claimed time")?))
            } else {
                None
            },
            operation: Operation {
                number: u64::from_be_bytes(reader.take("operation number")?),
                skipped: u64::from_be_bytes(reader.take("skipped operations")?),
                chain: reader.take("operation chain")?,
            },
        };
        if reader.0.is_empty() { Ok(entry) } else { Err(malformed("end", "bytes after the entry")) }
    }
}

fn put(out: &mut Vec<u8>, field: &'static str, bytes: &[u8]) -> Result<(), Error> {
    let too_long = Error::FieldTooLong { field, len: bytes.len(), limit: TEXT_BYTES_MAX };
    out.push(u8::try_from(bytes.len()).map_err(|_| too_long)?);
    out.extend(bytes);
    Ok(())
}

const fn malformed(field: &'static str, reason: &'static str) -> Error {
    Error::MalformedEntry { field, reason }
}

/// The bytes not yet read.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take<const N: usize>(&mut self, field: &'static str) -> Result<[u8; N], Error> {
        let (head, rest) = self.0.split_first_chunk::<N>().ok_or_else(|| malformed(field, "truncated"))?;
        self.0 = rest;
        Ok(*head)
    }

    fn slice(&mut self, field: &'static str, len: usize) -> Result<&'a [u8], Error> {
        let (head, rest) = self.0.split_at_checked(len).ok_or_else(|| malformed(field, "truncated"))?;
        self.0 = rest;
        Ok(head)
    }

    fn prefixed(&mut self, field: &'static str) -> Result<&'a [u8], Error> {
        let [len] = self.take(field)?;
        self.slice(field, len.into())
    }

    fn text(&mut self, field: &'static str) -> Result<String, Error> {
        let text = core::str::from_utf8(self.prefixed(field)?).map_err(|_| malformed(field, "not UTF-8"))?;
        Ok(text.to_owned())
    }

    fn present(&mut self, field: &'static str) -> Result<bool, Error> {
        match self.take(field)? {
            [0] => Ok(false),
            [1] => Ok(true),
            [_] => Err(malformed(field, "the presence byte is neither 0 nor 1")),
        }
    }

    fn fingerprint(&mut self) -> Result<Fingerprint, Error> {
        let field = "signing fingerprint";
        Fingerprint::from_bytes(self.prefixed(field)?)
            .map_err(|_| malformed(field, "neither 20 nor 32 bytes"))
    }

    fn digest(&mut self) -> Result<AnyDigest, Error> {
        let [id] = self.take("hash algorithm")?;
        let len = AnyDigest::len_of(id).map_err(|_| malformed("hash algorithm", "unknown"))?;
        AnyDigest::from_parts(id, self.slice("digest", len)?).map_err(|_| malformed("digest", "wrong length"))
    }
}

#[cfg(test)]
pub(crate) mod tests;
