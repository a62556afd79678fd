//! From a package and the user's wishes to the things to sign: check, choose, plan.

use std::sync::Arc;

use sealwright_crypto::algorithm::{KeyAlgorithm, KeyVersion};
use sealwright_crypto::openpgp::certificate::{Certificate, Keyring};
use sealwright_crypto::openpgp::salt::Salt;
use sealwright_crypto::openpgp::verify::{State, verify};
use sealwright_crypto::usage::Purpose;

use super::digests::{self, demand};
use super::hashes::{Algorithm, Hashes};
use super::limits::Release;
use super::package::{Package, PayloadHashes};
use super::plan::{RpmPlan, Slot};
use super::signature_header::Item;
use super::signature_read::Load;
use super::signatures::{Covers, Found, encode};
use super::{MIN_RPM, RPM_SIGNATURE, tags};
use crate::error::Error;
use crate::options::{IfSigned, PayloadCheck, Repeat, SignOptions};
use crate::prepared::{Item as ToSign, Preparation, Prepared, first_salt, kept_unchecked};
use crate::source::ReadAt;

/// A packet with RSA or Ed25519 has at least this much besides its value, in bytes.
const PACKET_FRAME_BYTES_MIN: usize = 40;

pub(super) fn prepare(
    source: &dyn ReadAt,
    options: &SignOptions,
    key: &Certificate,
    salts: &[Salt],
) -> Result<Preparation, Error> {
    let salt = first_salt(key, salts, options.hash)?;
    let mut wanted = Hashes::default();
    let release = Release::parse(options.format.value(&MIN_RPM))
        .ok_or(Error::internal("an unchecked value of --min-rpm"))?;
    let package = Package::read(source, Load::Whole(release), |found, hashes| {
        match &salt {
            None => wanted.want(Algorithm::Sha2(options.hash)),
            Some(salt) => wanted.want_salted(salt.as_bytes(), salt.hash()),
        }
        for packet in
            found.iter().filter(|found| found.claims(key)).filter_map(|found| found.packet.as_ref().ok())
        {
            wanted.want_for(packet);
        }
        hashes.want_all(&wanted);
    })?;
    package.signature.stripped().check_types()?;
    package.main.check_merge(|tag| package.signature.find(tag).is_some())?;
    digests::demand_digests(&package.signature, &package.main)?;
    demand(&digests::header(&package.signature, &package.header_hashes))?;
    demand(&digests::sizes(&package.signature, &package.main, package.len))?;
    if let Some(why) = leave_signed(&package, options.if_signed)? {
        return Ok(Preparation::Leave { why });
    }

    let covers = choose(&package, options, key.fingerprint().version())?;
    let signs_payload = covers.contains(&Covers::HeaderAndPayload);
    // The digests of an empty payload cost nothing.
    let is_empty = package.main.end == package.len;
    let payload = if signs_payload || is_empty || options.payload == PayloadCheck::Always {
        let none = Hashes::default();
        let hashes = package.read_payload(source, if signs_payload { &wanted } else { &none })?;
        demand(&digests::whole(&package.signature, &package.main, Some(&hashes.whole)))?;
        demand(&digests::payload(&package.main, Some(&hashes.payload)))?;
        Some(hashes)
    } else {
        None
    };
    if options.repeat == Repeat::Skip && is_signed_so(&package, payload.as_ref(), options, key, &covers) {
        return Ok(Preparation::Leave { why: "already signed by this key".to_owned() });
    }

    let mut notes = Vec::new();
    let plan = plan(&package, options, key, &covers, release, &mut notes)?;
    plan.check(packet_len_min(key))?;
    if payload.is_none() {
        notes.push("payload not checked".to_owned());
    }
    let items = items(&package, payload.as_ref(), options, salt, &covers)?;
    Ok(Preparation::Sign(Prepared { items, plan: Box::new(plan), beside: Vec::new(), notes }))
}

/// Signatures that are there decide alone under `skip` and `refuse`.
fn leave_signed(package: &Package, if_signed: IfSigned) -> Result<Option<String>, Error> {
    if package.found.is_empty() {
        return Ok(None);
    }
    match if_signed {
        IfSigned::Skip => Ok(Some("already signed (skipped)".to_owned())),
        IfSigned::Refuse => {
            let by: Vec<String> = package.found.iter().map(Found::describe).collect();
            Err(Error::AlreadySigned { by: by.join(", ") })
        }
        IfSigned::Replace | IfSigned::Add => Ok(None),
    }
}

/// What to sign (rpm `sign/rpmgensig.cc`, `rpmSign`): the header; and header and payload too where the header
/// does not vouch for the payload. v6 packages always do, and have no place for the latter.
fn choose(package: &Package, options: &SignOptions, key: KeyVersion) -> Result<Vec<Covers>, Error> {
    let covered = digests::covers_payload(&package.main);
    let wish = options.format.value(&RPM_SIGNATURE);
    let refused = |reason: &str, advice| Err(Error::Refused { reason: reason.to_owned(), advice });
    if digests::is_v6(&package.main) {
        if !covered {
            return refused("it is a v6 package without a payload digest", "Rebuild it.");
        }
        return match wish {
            "auto" | "header" => Ok(vec![Covers::Header]),
            _ => refused(
                "v6 packages have no signature over header and payload",
                "Leave out --rpm-signature: the header signature covers the payload by its digest.",
            ),
        };
    }
    if key == KeyVersion::V6 {
        return choose_in_v4_for_v6_key(options, wish, covered);
    }
    match wish {
        "header" if !covered => refused(
            "it has no SHA-256 digest of its payload, so a signature over the header alone protects nothing else",
            "Use --rpm-signature auto, which signs header and payload too.",
        ),
        "header" => Ok(vec![Covers::Header]),
        "header+payload" => Ok(vec![Covers::HeaderAndPayload]),
        "both" => Ok(vec![Covers::Header, Covers::HeaderAndPayload]),
        _ if covered => Ok(vec![Covers::Header]),
        _ => Ok(vec![Covers::Header, Covers::HeaderAndPayload]),
    }
}

/// A version 6 signature in a v4 package goes into tag 278, where only rpm 6 looks; rpm before 6 takes the package for
/// unsigned, or fails if such a packet is in an old tag (rpm issue 3851). So only beside others, and on request.
fn choose_in_v4_for_v6_key(options: &SignOptions, wish: &str, covered: bool) -> Result<Vec<Covers>, Error> {
    let refused = |reason: &str, advice| Err(Error::Refused { reason: reason.to_owned(), advice });
    if options.if_signed != IfSigned::Add {
        return refused(
            "it is a v4 package, and rpm before version 6 cannot read signatures of a version 6 key",
            "Sign it with a version 4 key; --if-signed add puts one of a version 6 key beside it, for rpm 6.",
        );
    }
    match wish {
        "auto" | "header" if covered => Ok(vec![Covers::Header]),
        "auto" | "header" => refused(
            "it has no SHA-256 digest of its payload, and a version 6 signature covers the header alone",
            "Sign it with a version 4 key.",
        ),
        _ => refused(
            "a version 6 key makes no signature over header and payload: only old tags have a place for it",
            "Leave out --rpm-signature, or use a version 4 key.",
        ),
    }
}

/// Whether the signatures asked for are there already, by this key, with this hash, where we would put them,
/// and good; under `replace` also that there is no other. They are checked as of their own time: whether the
/// key is still good is for the key holder to say.
fn is_signed_so(
    package: &Package,
    payload: Option<&PayloadHashes>,
    options: &SignOptions,
    key: &Certificate,
    covers: &[Covers],
) -> bool {
    let v6 = digests::is_v6(&package.main);
    let replace = options.if_signed != IfSigned::Add;
    let mut keyring = Keyring::default();
    keyring.push(key.clone());
    let is_good = |found: &&Found, covers: Covers| {
        let Ok(packet) = &found.packet else { return false };
        let hashes = match covers {
            Covers::Header => Some(&package.header_hashes),
            Covers::HeaderAndPayload => payload.map(|payload| &payload.whole),
        };
        let Some(content) = hashes.and_then(|hashes| hashes.for_packet(packet)) else { return false };
        let in_openpgp = found.tag == tags::OPENPGP;
        let placed = if replace { in_openpgp == v6 && found.also.is_empty() } else { in_openpgp || !v6 };
        let at = packet.created().map_or(i64::MAX, i64::from);
        found.covers == covers
            && placed
            && found.claims(key)
            && packet.hash() == Some(options.hash)
            && verify(packet, content, &keyring, at).state == State::Valid
    };
    let all_there = covers.iter().all(|covers| package.found.iter().any(|found| is_good(&found, *covers)));
    all_there && (!replace || package.found.len() == covers.len())
}

fn plan(
    package: &Package,
    options: &SignOptions,
    key: &Certificate,
    covers: &[Covers],
    release: Release,
    notes: &mut Vec<String>,
) -> Result<RpmPlan, Error> {
    let v6 = digests::is_v6(&package.main);
    let (kept, kept_strings, legacy, openpgp) = match options.if_signed {
        IfSigned::Add => keep_others(package, key, covers)?,
        IfSigned::Replace | IfSigned::Skip | IfSigned::Refuse => (Vec::new(), Vec::new(), !v6, v6),
    };
    // Version 6 signatures go nowhere but into tag 278.
    let is_v6_key = key.fingerprint().version() == KeyVersion::V6;
    let (legacy, openpgp) = (legacy && !is_v6_key, openpgp || is_v6_key);
    if is_v6_key && !v6 {
        notes.push("rpm before version 6 does not see the new signature".to_owned());
    }
    let added = options.if_signed == IfSigned::Add;
    let mut others = 0usize;
    for found in &package.found {
        if !added || found.claims(key) {
            notes.push(format!("replaced {}", found.describe()));
        } else {
            notes.push(format!("kept {}", found.describe()));
            others = others.saturating_add(1);
        }
    }
    notes.extend(kept_unchecked(others));
    for (tag, what) in [(tags::FILE_SIGNATURES, "file"), (tags::VERITY_SIGNATURES, "fs-verity")] {
        let count = package.signature.find(tag).map_or(0, Item::filled_strings);
        if count > 0 {
            notes.push(format!("kept {count} {what} signatures"));
        }
    }
    if let Some(fault) = package.signature.fault {
        notes.push(format!("its signature header had {}; rewritten", fault.what));
    }
    let slot = |covers: &Covers| Slot {
        covers: *covers,
        legacy: legacy || *covers == Covers::HeaderAndPayload,
        openpgp: openpgp && *covers == Covers::Header,
    };
    let old = Arc::clone(&package.signature_bytes);
    let slots = covers.iter().map(slot).collect();
    let base = package.signature.stripped();
    Ok(RpmPlan { base, old, kept, kept_strings, slots, release, file_len: package.len })
}

/// What stays: entries with old tags; strings of tag 278; whether ours goes to an old tag; whether to 278.
type Kept = (Vec<Item>, Vec<Vec<u8>>, bool, bool);

/// Under `add`, signatures of other keys stay. rpm 6 looks at no old tag where 278 is, so header signatures of
/// others go there too; an old tag is never given twice.
fn keep_others(package: &Package, key: &Certificate, covers: &[Covers]) -> Result<Kept, Error> {
    let v6 = digests::is_v6(&package.main);
    let refused = |reason| Err(Error::Refused { reason, advice: "Use --if-signed replace." });
    let mut kept = Vec::new();
    let mut strings = Vec::new();
    let mut header_slot_is_free = true;
    for found in &package.found {
        let Ok(packet) = &found.packet else {
            return refused(format!("{} holds no signature that could be kept", found.place()));
        };
        if found.claims(key) && (found.covers == Covers::Header || covers.contains(&found.covers)) {
            continue;
        }
        if found.covers == Covers::HeaderAndPayload
            && covers.contains(&Covers::HeaderAndPayload)
            && !found.claims(key)
        {
            return refused(format!(
                "it has a header+payload signature of key {} already, and there is room for one",
                packet.issuer_hex()
            ));
        }
        for tag in found.also.iter().copied().chain([found.tag]).filter(|tag| *tag != tags::OPENPGP) {
            header_slot_is_free &= found.covers != Covers::Header;
            kept.extend(package.signature.find(tag).cloned());
        }
        if found.covers == Covers::Header {
            strings.push(string_of(package, found).unwrap_or_else(|| encode(packet.bytes())));
        }
    }
    let others_sign_header = !strings.is_empty();
    Ok((kept, strings, !v6 && header_slot_is_free, v6 || others_sign_header))
}

/// The string of tag 278 that it came from, unchanged.
fn string_of(package: &Package, found: &Found) -> Option<Vec<u8>> {
    let item = package.signature.find(found.tag).filter(|_| found.tag == tags::OPENPGP)?;
    item.strings_of().nth(found.number).map(<[u8]>::to_vec)
}

fn items(
    package: &Package,
    payload: Option<&PayloadHashes>,
    options: &SignOptions,
    salt: Option<Salt>,
    covers: &[Covers],
) -> Result<Vec<ToSign>, Error> {
    let item = |covers: &Covers| {
        let (purpose, hashes) = match covers {
            Covers::Header => (Purpose::RpmHeader, Some(&package.header_hashes)),
            Covers::HeaderAndPayload => (Purpose::RpmHeaderPayload, payload.map(|payload| &payload.whole)),
        };
        let content = hashes.and_then(|hashes| match &salt {
            None => hashes.sha2(options.hash),
            Some(salt) => hashes.salted(salt.as_bytes(), salt.hash()),
        });
        let content = content.cloned().ok_or(Error::internal("a hash was not computed"))?;
        Ok(ToSign { purpose, content, salt })
    };
    covers.iter().map(item).collect()
}

/// The least that a signature of this certificate's keys will have, in bytes.
fn packet_len_min(key: &Certificate) -> usize {
    let value = |algorithm| match algorithm {
        KeyAlgorithm::Rsa(bits) => usize::from(bits / 8),
        KeyAlgorithm::Ed25519 => 64,
    };
    let lens = key.components().iter().filter_map(|component| component.algorithm().map(value));
    lens.min().unwrap_or(0).saturating_add(PACKET_FRAME_BYTES_MIN)
}
