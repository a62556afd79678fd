//! The digests and sizes that a package records about itself, and whether its bytes agree.
//!
//! | covers | in the signature header | in the main header |
//! |---|---|---|
//! | main header | SHA-1 269, SHA-256 273, SHA3-256 279 | |
//! | main header and payload | size 1000 or 270, MD5 1004 (not in v6 packages) | |
//! | payload, compressed | | SHA-256 5092, SHA-512 5121, SHA3-256 5123, size 5112 |
//! | payload, uncompressed | | SHA-256 5097, SHA-512 5122, SHA3-256 5124, size 5113 |
//!
//! A package may be shipped with its payload uncompressed: then the last row holds for the bytes that are there
//! (rpm `lib/rpmvs.cc`, `getAlt`), and either of the two is enough.

use super::hashes::{Algorithm, Hashes};
use super::header::{Kind, malformed};
use super::limits::LEAD_BYTES;
use super::main_header::{MainHeader, number};
use super::signature_header::SignatureHeader;
use super::signature_read::WHICH;
use super::tags;
use crate::error::Error;
use crate::report::{DigestReport, DigestState};
use sealwright_crypto::digest::to_hex;

/// Longest recorded digest that is shown in a message, in characters.
const SHOWN_CHARS_MAX: usize = 128;

/// Digests of the main header: tag, algorithm, name.
const HEADER: [(u32, Algorithm, &str); 3] = [
    (tags::SHA1_HEADER, Algorithm::Sha1, "header SHA-1"),
    (tags::SHA256_HEADER, Algorithm::SHA256, "header SHA-256"),
    (tags::SHA3_256_HEADER, Algorithm::Sha3_256, "header SHA3-256"),
];

/// Digests of the payload: tag, tag for the uncompressed payload, algorithm, names of both.
const PAYLOAD: [(u32, u32, Algorithm, &str, &str); 3] = [
    (
        tags::PAYLOAD_SHA256,
        tags::PAYLOAD_SHA256_ALT,
        Algorithm::SHA256,
        "payload SHA-256",
        "uncompressed payload SHA-256",
    ),
    (
        tags::PAYLOAD_SHA512,
        tags::PAYLOAD_SHA512_ALT,
        Algorithm::SHA512,
        "payload SHA-512",
        "uncompressed payload SHA-512",
    ),
    (
        tags::PAYLOAD_SHA3_256,
        tags::PAYLOAD_SHA3_256_ALT,
        Algorithm::Sha3_256,
        "payload SHA3-256",
        "uncompressed payload SHA3-256",
    ),
];

/// One comparison.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Check {
    pub(super) what: &'static str,
    pub(super) recorded: String,
    /// `None` if it was not computed.
    pub(super) computed: Option<String>,
    /// Agrees although the texts differ, or need not agree.
    pub(super) state: DigestState,
}

impl Check {
    fn new(what: &'static str, recorded: String, computed: Option<String>) -> Self {
        let state = match &computed {
            None => DigestState::NotChecked,
            Some(computed) if computed.eq_ignore_ascii_case(&recorded) => DigestState::Right,
            Some(_) => DigestState::Wrong,
        };
        Self { what, recorded, computed, state }
    }

    pub(super) fn report(&self) -> DigestReport {
        DigestReport { what: self.what, state: self.state }
    }
}

/// The first that is wrong becomes an error.
///
/// # Errors
/// [`Error::Damaged`], which names it.
pub(super) fn demand(checks: &[Check]) -> Result<(), Error> {
    let Some(wrong) = checks.iter().find(|check| check.state == DigestState::Wrong) else { return Ok(()) };
    Err(Error::Damaged {
        what: wrong.what,
        recorded: wrong.recorded.chars().take(SHOWN_CHARS_MAX).collect(),
        computed: wrong.computed.clone().unwrap_or_default(),
    })
}

/// Asks for what [`header`] and [`whole`] need of the main header.
pub(super) fn want_header(signature: &SignatureHeader, hashes: &mut Hashes) {
    for (tag, algorithm, _) in HEADER {
        if signature.find(tag).is_some() {
            hashes.want(algorithm);
        }
    }
    if signature.find(tags::MD5).is_some() {
        hashes.want(Algorithm::Md5);
    }
}

/// Asks for what [`payload`] needs of the payload.
pub(super) fn want_payload(main: &MainHeader, hashes: &mut Hashes) {
    for (tag, alternative, algorithm, ..) in PAYLOAD {
        if main.has(tag) || main.has(alternative) {
            hashes.want(algorithm);
        }
    }
}

/// Whether the main header vouches for the payload with SHA-256 or better, so that a signature over the header
/// covers both (rpm `sign/rpmgensig.cc`, `rpmSign`).
pub(super) fn covers_payload(main: &MainHeader) -> bool {
    PAYLOAD.iter().any(|(tag, alternative, algorithm, ..)| {
        let len = match algorithm {
            Algorithm::Md5 => 32,
            Algorithm::Sha1 => 40,
            Algorithm::Sha3_256 => 64,
            Algorithm::Sha2(hash) => hash.digest_len().saturating_mul(2),
        };
        let is_digest = |text: String| text.len() == len && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        [*tag, *alternative].into_iter().any(|tag| main.string(tag).is_some_and(is_digest))
    })
}

/// Refuses a package whose main header, or whose payload, no digest covers, as rpm does (`lib/rpmvs.c`,
/// `rpmvsVerify`: a range that no digest verifies is a failure). In v6 packages, where the MD5 of both is ignored, the
/// header needs SHA-256, the only one that rpm 4 and 6 both know.
///
/// # Errors
/// [`Error::Malformed`].
pub(super) fn demand_digests(signature: &SignatureHeader, main: &MainHeader) -> Result<(), Error> {
    let has = |tag: &u32| signature.find(*tag).is_some();
    let v4 = [tags::SHA256_HEADER, tags::SHA1_HEADER, tags::MD5];
    let header = if is_v6(main) { has(&tags::SHA256_HEADER) } else { v4.iter().any(has) };
    let missing =
        |what| Err(malformed(WHICH, LEAD_BYTES, format!("it has no digest {what}; rpm demands one")));
    if !header {
        return missing("of the main header");
    }
    if !covers_payload(main) && (is_v6(main) || !has(&tags::MD5)) {
        return missing("of the payload, and the main header has none either");
    }
    Ok(())
}

/// Digests of the main header.
pub(super) fn header(signature: &SignatureHeader, hashes: &Hashes) -> Vec<Check> {
    let check = |(tag, algorithm, what)| {
        let recorded = recorded_text(signature, tag)?;
        Some(Check::new(what, recorded, hashes.hex(algorithm)))
    };
    HEADER.into_iter().filter_map(check).collect()
}

/// Sizes, which need no reading: `len` is that of the file. They find what was cut off or appended.
pub(super) fn sizes(signature: &SignatureHeader, main: &MainHeader, len: u64) -> Vec<Check> {
    let mut checks = Vec::new();
    let covered = len.saturating_sub(main.start).to_string();
    let legacy = if is_v6(main) { [].as_slice() } else { [tags::SIZE, tags::LONG_SIZE].as_slice() };
    for tag in legacy {
        if let Some(item) = signature.find(*tag) {
            let recorded =
                number(item.kind, item.data.bytes()).map_or("not a number".to_owned(), |n| n.to_string());
            checks.push(Check::new("size of header and payload", recorded, Some(covered.clone())));
        }
    }
    let payload = len.saturating_sub(main.end);
    let recorded = [tags::PAYLOAD_SIZE, tags::PAYLOAD_SIZE_ALT].map(|tag| main.number(tag));
    if let [Some(size), alternative] = recorded {
        let size = if alternative == Some(payload) { payload } else { size };
        checks.push(Check::new("payload size", size.to_string(), Some(payload.to_string())));
    }
    checks
}

/// The digest over main header and payload; `hashes` is `None` if the payload was not read.
pub(super) fn whole(signature: &SignatureHeader, main: &MainHeader, hashes: Option<&Hashes>) -> Vec<Check> {
    let Some(item) = signature.find(tags::MD5).filter(|_| !is_v6(main)) else { return Vec::new() };
    let recorded =
        if item.kind == Kind::Binary { to_hex(item.data.bytes()) } else { "not a digest".to_owned() };
    let computed = hashes.and_then(|hashes| hashes.hex(Algorithm::Md5));
    vec![Check::new("MD5 of header and payload", recorded, computed)]
}

/// Digests of the payload; `hashes` is `None` if it was not read.
pub(super) fn payload(main: &MainHeader, hashes: Option<&Hashes>) -> Vec<Check> {
    let mut checks = Vec::new();
    for (tag, alternative, algorithm, what, what_alternative) in PAYLOAD {
        let computed = hashes.and_then(|hashes| hashes.hex(algorithm));
        let mut pair: Vec<Check> = [(tag, what), (alternative, what_alternative)]
            .into_iter()
            .filter(|(tag, _)| main.has(*tag))
            .map(|(tag, what)| Check::new(what, main.string(tag).unwrap_or_default(), computed.clone()))
            .collect();
        // One of the two is about bytes that are not in the file. Where neither agrees, the first is wrong.
        let right = pair.iter().any(|check| check.state == DigestState::Right);
        for (number, check) in pair.iter_mut().enumerate() {
            if check.state == DigestState::Wrong && (right || number > 0) {
                check.state = DigestState::NotChecked;
            }
        }
        checks.append(&mut pair);
    }
    checks
}

/// Whether it is a v6 package, where rpm ignores what is left of the old tags.
pub(super) fn is_v6(main: &MainHeader) -> bool {
    main.format() >= 6
}

/// The text of a digest tag of the signature header, if the tag is there.
fn recorded_text(signature: &SignatureHeader, tag: u32) -> Option<String> {
    let item = signature.find(tag)?;
    let text = item.strings_of().next().map(|text| String::from_utf8_lossy(text).into_owned());
    Some(text.unwrap_or_else(|| "not a digest".to_owned()))
}
