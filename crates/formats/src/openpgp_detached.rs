//! OpenPGP signatures beside a file (RFC 9580 section 10.4): `.asc` with armor, `.sig` without. Any content,
//! the empty file too; it is hashed as it is (signature type 0x00) and never changed, so one pass over a stream is enough.

use std::io::{ErrorKind, Read};

use sealwright_crypto::algorithm::HashAlgorithm;
use sealwright_crypto::digest::Hasher;
use sealwright_crypto::openpgp::armor;
use sealwright_crypto::openpgp::certificate::Certificate;
use sealwright_crypto::openpgp::packet::SignaturePacket;
use sealwright_crypto::openpgp::salt::Salt;
use sealwright_crypto::openpgp::verify::{Outcome, State, preflight, verify};
use sealwright_crypto::usage::Purpose;

use crate::Format;
use crate::error::Error;
use crate::options::{OptionSpec, SignOptions};
use crate::prepared::{
    BesideFile, BesideKind, BesideName, Item, Layout, NewContent, Output, Plan, Preparation, Prepared, Room,
    first_salt, salts_for,
};
use crate::report::{Inspection, SignatureReport, Verification, VerifyContext};
use crate::source::{CHUNK_BYTES, ReadAt, for_each_chunk};
use crate::splice::Edits;

/// Largest signature file that is read, in bytes: 64 post-quantum signatures with armor have less.
pub const SIDECAR_BYTES_MAX: usize = 1 << 20;

/// With or without armor.
pub const DETACHED_OUTPUT: OptionSpec = OptionSpec {
    name: "detached-output",
    value_name: "KIND",
    choices: &["asc", "sig"],
    default: "asc",
    help: "Kind of detached OpenPGP signature: asc (text with armor) or sig (binary)",
    check: |_| false,
};

static OPTIONS: [OptionSpec; 1] = [DETACHED_OUTPUT];

/// A detached OpenPGP signature.
#[derive(Clone, Copy, Debug)]
pub struct OpenPgpDetached;

impl Format for OpenPgpDetached {
    fn name(&self) -> &'static str {
        "detached"
    }

    fn summary(&self) -> &'static str {
        "any file, with an OpenPGP signature beside it (.asc, .sig)"
    }

    fn is_embedded(&self) -> bool {
        false
    }

    fn options(&self) -> &'static [OptionSpec] {
        &OPTIONS
    }

    fn beside(&self) -> &'static [BesideName] {
        &[BesideName::Suffix(".asc"), BesideName::Suffix(".sig")]
    }

    fn detect(&self, _: &[u8]) -> bool {
        false
    }

    fn salts_needed(&self, _: &SignOptions, key: &Certificate) -> usize {
        salts_for(key, 1)
    }

    fn prepare(
        &self,
        source: &dyn ReadAt,
        options: &SignOptions,
        key: &Certificate,
        salts: &[Salt],
    ) -> Result<Preparation, Error> {
        let (salt, mut content) = begin(options, key, salts)?;
        for_each_chunk(source, 0, source.len(), |chunk| content.update(chunk))
            .map_err(|cause| Error::Read { offset: content.total(), source: cause })?;
        Ok(prepared(content, salt, options))
    }

    fn prepare_stream(
        &self,
        stream: &mut dyn Read,
        options: &SignOptions,
        key: &Certificate,
        salts: &[Salt],
    ) -> Result<Preparation, Error> {
        let (salt, mut content) = begin(options, key, salts)?;
        let mut buf = vec![0; CHUNK_BYTES];
        loop {
            match stream.read(&mut buf) {
                Ok(0) => return Ok(prepared(content, salt, options)),
                Ok(len) => content.update(buf.get(..len).unwrap_or_default()),
                Err(cause) if cause.kind() == ErrorKind::Interrupted => {}
                Err(cause) => return Err(Error::Read { offset: content.total(), source: cause }),
            }
        }
    }

    fn verify(&self, source: &dyn ReadAt, context: &VerifyContext<'_>) -> Result<Verification, Error> {
        let signatures = match read_sidecar(context.sidecar) {
            Ok(packets) => check(source, &packets, "detached", context)?,
            Err(reason) => vec![SignatureReport::unreadable("detached".to_owned(), reason)],
        };
        Ok(Verification { signatures, digests: Vec::new() })
    }

    fn inspect(&self, source: &dyn ReadAt, sidecar: Option<&[u8]>) -> Result<Inspection, Error> {
        let signatures = match read_sidecar(sidecar) {
            Ok(packets) => reports(&packets, "detached", SignatureReport::unchecked),
            Err(reason) => vec![SignatureReport::unreadable("detached".to_owned(), reason)],
        };
        let facts = vec![("size", format!("{} bytes", source.len()))];
        Ok(Inspection { facts, signatures, digests: Vec::new() })
    }

    fn strip(&self, _: &dyn ReadAt) -> Result<Option<Edits>, Error> {
        Err(Error::Refused {
            reason: "a detached signature is a file of its own; there is nothing to strip".to_owned(),
            advice: "Remove the .asc or .sig file.",
        })
    }
}

/// The hash, with the salt in it if the key has one.
fn begin(options: &SignOptions, key: &Certificate, salts: &[Salt]) -> Result<(Option<Salt>, Hasher), Error> {
    let salt = first_salt(key, salts, options.hash)?;
    Ok((salt, salt.map_or_else(|| Hasher::new(options.hash), |salt| salt.hasher())))
}

fn prepared(content: Hasher, salt: Option<Salt>, options: &SignOptions) -> Preparation {
    let items = vec![Item { purpose: Purpose::Detached, content, salt }];
    let armored = options.format.value(&DETACHED_OUTPUT) == "asc";
    let name = BesideName::Suffix(if armored { ".asc" } else { ".sig" });
    let beside = vec![BesideFile { name, kind: BesideKind::Signatures, item: 0, len_max: 0 }];
    Preparation::Sign(Prepared { items, plan: Box::new(DetachedPlan { armored }), beside, notes: Vec::new() })
}

struct DetachedPlan {
    armored: bool,
}

impl Plan for DetachedPlan {
    fn room(&self, _: usize, _: Layout) -> Room {
        Room { from: 0, until: 0, growth_max: 0, keeps_len: true, shares: true }
    }

    fn output(&self, packets: &[Vec<u8>], _: Layout) -> Result<Output, Error> {
        let [packet] = packets else {
            return Err(Error::internal("not one signature for one file"));
        };
        SignaturePacket::parse_many(packet)?;
        let bytes = if self.armored {
            armor::encode(armor::Kind::Signature, packet).into_bytes()
        } else {
            packet.clone()
        };
        Ok(Output::Beside(vec![NewContent::Bytes(bytes)]))
    }
}

/// The packets of a signature file; none if there is no file; else why it is none.
pub(crate) fn read_sidecar(sidecar: Option<&[u8]>) -> Result<Vec<SignaturePacket>, String> {
    let Some(bytes) = sidecar else { return Ok(Vec::new()) };
    if bytes.len() > SIDECAR_BYTES_MAX {
        return Err(format!("it has {} bytes; the limit is {SIDECAR_BYTES_MAX}", bytes.len()));
    }
    armor::decode_or_binary(bytes)
        .and_then(|bytes| SignaturePacket::parse_many(&bytes))
        .map_err(|error| error.to_string())
}

/// Reads the file once for all signatures that need it.
pub(crate) fn check(
    source: &dyn ReadAt,
    packets: &[SignaturePacket],
    place: &str,
    context: &VerifyContext<'_>,
) -> Result<Vec<SignatureReport>, Error> {
    let needs_content = |packet: &&SignaturePacket| preflight(packet, context.keyring, context.now).is_none();
    let mut hashers: Vec<(HashAlgorithm, &[u8], Hasher)> = Vec::new();
    for packet in packets.iter().filter(needs_content) {
        let (Some(hash), salt) = (packet.hash(), packet.salt().unwrap_or_default()) else { continue };
        if !hashers.iter().any(|(known, known_salt, _)| (*known, *known_salt) == (hash, salt)) {
            let mut hasher = Hasher::new(hash);
            hasher.update(salt);
            hashers.push((hash, salt, hasher));
        }
    }
    if !hashers.is_empty() {
        for_each_chunk(source, 0, source.len(), |chunk| {
            for (_, _, hasher) in &mut hashers {
                hasher.update(chunk);
            }
        })
        .map_err(|cause| Error::Read { offset: 0, source: cause })?;
    }
    let outcome = |packet: &SignaturePacket| {
        if let Some(outcome) = preflight(packet, context.keyring, context.now) {
            return outcome;
        }
        let salt = packet.salt().unwrap_or_default();
        let fits =
            |known: &&(HashAlgorithm, &[u8], Hasher)| Some(known.0) == packet.hash() && known.1 == salt;
        match hashers.iter().find(fits) {
            Some((_, _, content)) => verify(packet, content, context.keyring, context.now),
            None => Outcome::not_valid(State::Weak, "its hash algorithm is not supported"),
        }
    };
    Ok(reports(packets, place, |place, packet| SignatureReport::new(place, packet, outcome(packet))))
}

/// One report for each packet, with its number if there are several.
pub(crate) fn reports(
    packets: &[SignaturePacket],
    place: &str,
    report: impl Fn(String, &SignaturePacket) -> SignatureReport,
) -> Vec<SignatureReport> {
    let numbered = |number: usize| match packets.len() {
        1 => place.to_owned(),
        _ => format!("{place} #{}", number.saturating_add(1)),
    };
    packets.iter().enumerate().map(|(number, packet)| report(numbered(number), packet)).collect()
}
