//! Clear-signed text (RFC 9580 section 7; `gpg --clearsign`): the document stays readable, its signatures follow in the same
//! file. The byte table and what readers disagree about are in `docs/formats/cleartext.md`.
//!
//! Who hashes: the document is read once here, into the state that the key holder finishes (signature type 0x01). A signed file is
//! made from the document piece by piece when the signature is there; nothing of it is kept in memory.
//!
//! Reading order: `cleartext/text.rs` (canonical text, escapes), `plain.rs` (a document), `signed.rs` (a clear-signed one),
//! `plan.rs` (what is written).

mod plain;
mod plan;
mod signed;
mod text;

use std::io::Read;

use sealwright_crypto::algorithm::HashAlgorithm;
use sealwright_crypto::digest::{Digest, Hasher};
use sealwright_crypto::openpgp::certificate::{Certificate, Keyring};
use sealwright_crypto::openpgp::packet::SignaturePacket;
use sealwright_crypto::openpgp::salt::Salt;
use sealwright_crypto::openpgp::signature::DataKind;
use sealwright_crypto::openpgp::verify::{Outcome, State, preflight_kind, verify_kind};
use sealwright_crypto::usage::Purpose;

use crate::Format;
use crate::cleartext::plan::{FramePlan, InPlacePlan, ResignPlan, StreamPlan};
use crate::cleartext::signed::Signed;
use crate::error::Error;
use crate::openpgp_detached::reports;
use crate::options::{IfSigned, OptionSpec, Repeat, SignOptions};
use crate::prepared::{
    BesideFile, BesideKind, BesideName, Item, Plan, Preparation, Prepared, first_salt, kept_unchecked,
    salts_for,
};
use crate::report::{Inspection, SignatureReport, Verification, VerifyContext};
use crate::source::ReadAt;
use crate::splice::Edits;

pub(crate) use crate::cleartext::plain::Plain;
pub use crate::cleartext::plan::Framed;

/// First line of a clear-signed document.
pub const BEGIN: &[u8] = b"-----BEGIN PGP SIGNED MESSAGE-----";
/// Longest line that is signed, in bytes: gpg 2.2 cuts what is longer, escape included, and then finds the signature bad.
pub const LINE_BYTES_MAX: u64 = 19_993;
/// Lines with an escape that are written into, or stripped from, a file in place: an edit for each is held in memory.
pub const ESCAPES_MAX: usize = 1 << 16;
/// Longest document on standard input, in bytes: it is held in memory.
pub const STREAM_BYTES_MAX: u64 = 16 << 20;

/// Where the signed document goes.
pub const CLEARTEXT_OUTPUT: OptionSpec = OptionSpec {
    name: "cleartext-output",
    value_name: "KIND",
    choices: &["asc", "in-place"],
    default: "asc",
    help: "Where a clear-signed document goes: asc (a new file, FILE.asc) or in-place (FILE itself becomes it)",
    check: |_| false,
};

static OPTIONS: [OptionSpec; 1] = [CLEARTEXT_OUTPUT];

/// A text with its signatures in one file.
#[derive(Clone, Copy, Debug)]
pub struct Cleartext;

impl Format for Cleartext {
    fn name(&self) -> &'static str {
        "cleartext"
    }

    fn summary(&self) -> &'static str {
        "a text, with an OpenPGP signature after it in one file (clear-signed, FILE.asc)"
    }

    fn is_embedded(&self) -> bool {
        true
    }

    fn is_found(&self) -> bool {
        false
    }

    fn options(&self) -> &'static [OptionSpec] {
        &OPTIONS
    }

    fn detect(&self, head: &[u8]) -> bool {
        signed::is_signed(head)
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
        let salt = first_salt(key, salts, options.hash)?;
        if signed::starts_signed(source)? {
            return prepare_signed(source, options, key, salt);
        }
        let in_place = options.format.value(&CLEARTEXT_OUTPUT) == "in-place";
        let plain = Plain::read(source, salted(options.hash, salt), |_| {})?;
        let notes = plain.notes();
        if in_place {
            let plan = Box::new(InPlacePlan::new(&plain, source.len())?);
            return Ok(sign(plain.content, salt, plan, Vec::new(), notes));
        }
        let beside = vec![document(BesideName::Suffix(".asc"), &plain, 0)];
        let plan = Box::new(FramePlan { document_len: source.len() });
        Ok(sign(plain.content, salt, plan, beside, notes))
    }

    fn prepare_stream(
        &self,
        stream: &mut dyn Read,
        options: &SignOptions,
        key: &Certificate,
        salts: &[Salt],
    ) -> Result<Preparation, Error> {
        let mut document = Vec::new();
        let read = stream.take(STREAM_BYTES_MAX.saturating_add(1)).read_to_end(&mut document);
        read.map_err(|source| Error::Read { offset: ReadAt::len(&document), source })?;
        if ReadAt::len(&document) > STREAM_BYTES_MAX {
            return Err(Error::Refused {
                reason: format!(
                    "standard input has more than {STREAM_BYTES_MAX} bytes, and is held in memory"
                ),
                advice: "Save it to a file first: files may have any length.",
            });
        }
        // Whatever is decided, a document has to come out.
        let options = SignOptions { repeat: Repeat::Force, ..options.clone() };
        match self.prepare(&document, &options, key, salts)? {
            Preparation::Sign(Prepared { items, plan, notes, .. }) => {
                let plan: Box<dyn Plan> = Box::new(StreamPlan { document, plan });
                Ok(Preparation::Sign(Prepared { items, plan, beside: Vec::new(), notes }))
            }
            Preparation::Leave { why } => Err(Error::Refused {
                reason: format!("standard input is {why}"),
                advice: "Use --if-signed replace or add.",
            }),
        }
    }

    fn verify(&self, source: &dyn ReadAt, context: &VerifyContext<'_>) -> Result<Verification, Error> {
        let signed = Signed::read(source)?;
        let signatures = check(source, &signed, context.keyring, context.now)?;
        Ok(Verification { signatures, digests: Vec::new() })
    }

    fn inspect(&self, source: &dyn ReadAt, _: Option<&[u8]>) -> Result<Inspection, Error> {
        let signed = Signed::read(source)?;
        let signatures = match &signed.packets {
            Ok(packets) => reports(packets, PLACE, SignatureReport::unchecked),
            Err(reason) => vec![SignatureReport::unreadable(PLACE.to_owned(), reason.clone())],
        };
        let mut facts = vec![("text", format!("{} bytes", signed.body_len()))];
        if !signed.declared.is_empty() {
            facts.push(("hash header", signed.declared.join(", ")));
        }
        facts.push(("escaped lines", signed.escapes.to_string()));
        Ok(Inspection { facts, signatures, digests: Vec::new() })
    }

    fn strip(&self, source: &dyn ReadAt) -> Result<Option<Edits>, Error> {
        if !signed::starts_signed(source)? {
            return Ok(None);
        }
        plan::strip(&Signed::read(source)?, source.len()).map(Some)
    }
}

/// Whether it starts as a clear-signed document does.
///
/// # Errors
/// It cannot be read.
pub fn is_clear_signed(source: &dyn ReadAt) -> Result<bool, Error> {
    signed::starts_signed(source)
}

/// SHA-256 of the canonical text of a clear-signed document: two documents with the same have the same signatures.
///
/// # Errors
/// It is none, or cannot be read.
pub fn text_of(source: &dyn ReadAt) -> Result<Digest, Error> {
    let signed = Signed::read(source)?;
    let hashers = signed.hash(source, vec![Hasher::new(HashAlgorithm::Sha256)])?.finish();
    hashers.into_iter().next().map(Hasher::finish).ok_or(Error::internal("a hash is missing"))
}

/// The signatures of a clear-signed document.
///
/// # Errors
/// It is none, or its signatures cannot be read.
pub fn signatures_of(source: &dyn ReadAt) -> Result<Vec<SignaturePacket>, Error> {
    Signed::read(source)?.packets.map_err(|reason| unreadable(&reason))
}

/// The hash, with the salt in it if the key has one.
pub(crate) fn salted(hash: HashAlgorithm, salt: Option<Salt>) -> Hasher {
    salt.map_or_else(|| Hasher::new(hash), |salt| salt.hasher())
}

/// A document that is made beside the file.
pub(crate) fn document(name: BesideName, plain: &Plain, item: usize) -> BesideFile {
    let len_max = plain.escaped_len.saturating_add(plan::HEAD_BYTES_MAX);
    BesideFile { name, kind: BesideKind::Document { text: plain.text }, item, len_max }
}

/// Where signatures are, in reports.
const PLACE: &str = "cleartext";

fn sign(
    content: Hasher,
    salt: Option<Salt>,
    plan: Box<dyn Plan>,
    beside: Vec<BesideFile>,
    notes: Vec<String>,
) -> Preparation {
    let items = vec![Item { purpose: Purpose::Cleartext, content, salt }];
    Preparation::Sign(Prepared { items, plan, beside, notes })
}

/// A document that is clear-signed already gets other signatures; its text stays byte for byte.
fn prepare_signed(
    source: &dyn ReadAt,
    options: &SignOptions,
    key: &Certificate,
    salt: Option<Salt>,
) -> Result<Preparation, Error> {
    let signed = Signed::read(source)?;
    if let Some(why) = leave(source, &signed, options, key)? {
        return Ok(Preparation::Leave { why });
    }
    let text = signed.hash(source, vec![salted(options.hash, salt)])?;
    let mut notes = plain::notes(&text)?;
    let content = text.finish().into_iter().next().ok_or(Error::internal("a hash is missing"))?;
    let others = match (options.if_signed, signed.packets) {
        (IfSigned::Add, Ok(packets)) => packets.into_iter().filter(|packet| !is_by(packet, key)).collect(),
        (IfSigned::Add, Err(reason)) => return Err(unreadable(&reason)),
        (IfSigned::Replace | IfSigned::Skip | IfSigned::Refuse, _) => Vec::new(),
    };
    notes.extend(kept_unchecked(others.len()));
    let plan = ResignPlan::new(others, signed.head_len, signed.body_end, source.len())?;
    Ok(sign(content, salt, Box::new(plan), Vec::new(), notes))
}

/// Why a signed document stays as it is, if it does.
fn leave(
    source: &dyn ReadAt,
    signed: &Signed,
    options: &SignOptions,
    key: &Certificate,
) -> Result<Option<String>, Error> {
    match options.if_signed {
        IfSigned::Skip => return Ok(Some("already signed (skipped)".to_owned())),
        IfSigned::Refuse => {
            let issuers = signed.packets.iter().flatten().map(SignaturePacket::issuer_hex);
            return Err(Error::AlreadySigned { by: issuers.collect::<Vec<_>>().join(", ") });
        }
        IfSigned::Replace | IfSigned::Add => {}
    }
    let Ok(packets) = &signed.packets else { return Ok(None) };
    if options.repeat == Repeat::Force || (options.if_signed == IfSigned::Replace && packets.len() != 1) {
        return Ok(None);
    }
    let mut keyring = Keyring::new();
    keyring.push(key.clone());
    // As of their own time: whether the key is still good is for the key holder to say.
    let now = packets.iter().filter_map(SignaturePacket::created).max().map_or(0, i64::from);
    let states = check(source, signed, &keyring, now)?;
    let is_good = |(packet, report): (&SignaturePacket, SignatureReport)| {
        packet.hash() == Some(options.hash) && report.state == State::Valid
    };
    let good = packets.iter().zip(states).any(is_good);
    Ok(good.then(|| "already signed by this key".to_owned()))
}

/// Reads the text once for all signatures that need it.
fn check(
    source: &dyn ReadAt,
    signed: &Signed,
    keyring: &Keyring,
    now: i64,
) -> Result<Vec<SignatureReport>, Error> {
    let packets = match &signed.packets {
        Ok(packets) => packets,
        Err(reason) => return Ok(vec![SignatureReport::unreadable(PLACE.to_owned(), reason.clone())]),
    };
    let early = |packet: &SignaturePacket| preflight_kind(DataKind::Text, packet, keyring, now);
    let mut kinds: Vec<(HashAlgorithm, &[u8])> = Vec::new();
    for packet in packets.iter().filter(|packet| early(packet).is_none()) {
        let Some(hash) = packet.hash() else { continue };
        let kind = (hash, packet.salt().unwrap_or_default());
        if !kinds.contains(&kind) {
            kinds.push(kind);
        }
    }
    let begun = |(hash, salt): &(HashAlgorithm, &[u8])| {
        let mut hasher = Hasher::new(*hash);
        hasher.update(salt);
        hasher
    };
    let hashers: Vec<Hasher> = kinds.iter().map(begun).collect();
    let hashers = if hashers.is_empty() { hashers } else { signed.hash(source, hashers)?.finish() };
    let outcome = |packet: &SignaturePacket| {
        if let Some(outcome) = early(packet) {
            return outcome;
        }
        let salt = packet.salt().unwrap_or_default();
        let at = kinds.iter().position(|kind| Some(kind.0) == packet.hash() && kind.1 == salt);
        match at.and_then(|at| hashers.get(at)) {
            Some(content) => verify_kind(DataKind::Text, packet, content, keyring, now),
            None => Outcome::not_valid(State::Weak, "its hash algorithm is not supported"),
        }
    };
    Ok(reports(packets, PLACE, |place, packet| SignatureReport::new(place, packet, outcome(packet))))
}

fn is_by(packet: &SignaturePacket, key: &Certificate) -> bool {
    key.components().iter().any(|component| match packet.issuer_fingerprint() {
        Some(issuer) => issuer == component.fingerprint(),
        None => packet.issuer_key_id() == Some(component.fingerprint().key_id()),
    })
}

fn unreadable(reason: &str) -> Error {
    Error::Refused {
        reason: format!("its signatures cannot be read ({reason}), so none of them can be kept"),
        advice: "Use --if-signed replace.",
    }
}
