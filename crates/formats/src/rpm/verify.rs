//! Every digest and every signature of a package, with one pass over the payload.

use sealwright_crypto::openpgp::packet::SignaturePacket;
use sealwright_crypto::openpgp::verify::{Outcome, State, preflight, verify};

use super::hashes::Hashes;
use super::package::Package;
use super::signature_read::Load;
use super::signatures::{Covers, Found};
use super::{digests, tags};
use crate::error::Error;
use crate::report::{SignatureReport, Verification, VerifyContext};
use crate::source::ReadAt;

pub(super) fn verify_package(
    source: &dyn ReadAt,
    context: &VerifyContext<'_>,
) -> Result<Verification, Error> {
    let mut wanted = Hashes::default();
    let package = Package::read(source, Load::Look, |found, hashes| {
        let mut header = Hashes::default();
        for found in found {
            let Ok(packet) = &found.packet else { continue };
            if preflight(packet, context.keyring, context.now).is_none() {
                match found.covers {
                    Covers::Header => header.want_for(packet),
                    Covers::HeaderAndPayload => wanted.want_for(packet),
                }
            }
        }
        hashes.want_all(&header);
        hashes.want_all(&wanted);
    })?;
    package.signature.check_readable()?;
    package.main.check_merge(|tag| package.signature.find(tag).is_some())?;
    digests::demand_digests(&package.signature, &package.main)?;
    let payload = package.read_payload(source, &wanted)?;

    let (signature, main) = (&package.signature, &package.main);
    let checks = [
        digests::header(signature, &package.header_hashes),
        digests::sizes(signature, main, package.len),
        digests::whole(signature, main, Some(&payload.whole)),
        digests::payload(main, Some(&payload.payload)),
    ];
    let only_header = !digests::covers_payload(main) && !package.found.iter().any(signs_payload);
    let check = |found: &Found| {
        let hashes = match found.covers {
            Covers::Header => &package.header_hashes,
            Covers::HeaderAndPayload => &payload.whole,
        };
        match &found.packet {
            Ok(packet) => {
                let outcome = counted(found, only_header, outcome(packet, hashes, context));
                SignatureReport::new(found.place(), packet, outcome)
            }
            Err(reason) => SignatureReport::unreadable(found.place(), reason.clone()),
        }
    };
    Ok(Verification {
        signatures: package.found.iter().map(check).collect(),
        digests: checks.iter().flatten().map(digests::Check::report).collect(),
    })
}

/// Whether it covers the payload, and rpm looks at it.
fn signs_payload(found: &Found) -> bool {
    found.covers == Covers::HeaderAndPayload && found.tag != tags::PGP5
}

/// A good signature that does not protect the package is weak: rpm rejects packages that are signed in part
/// (`lib/rpmvs.c`, `rpmvsVerify`), and looks at no tag of PGP 5.
fn counted(found: &Found, only_header: bool, outcome: Outcome) -> Outcome {
    if outcome.state != State::Valid {
        return outcome;
    }
    let why = match found.covers {
        Covers::Header if only_header => "nothing signed vouches for the payload",
        Covers::HeaderAndPayload if found.tag == tags::PGP5 => "no rpm looks at this tag",
        Covers::Header | Covers::HeaderAndPayload => return outcome,
    };
    Outcome { user_id: outcome.user_id, ..Outcome::not_valid(State::Weak, why) }
}

fn outcome(packet: &SignaturePacket, hashes: &Hashes, context: &VerifyContext<'_>) -> Outcome {
    if let Some(outcome) = preflight(packet, context.keyring, context.now) {
        return outcome;
    }
    match hashes.for_packet(packet) {
        Some(content) => verify(packet, content, context.keyring, context.now),
        None => Outcome::not_valid(State::Weak, "its hash algorithm is not supported"),
    }
}
