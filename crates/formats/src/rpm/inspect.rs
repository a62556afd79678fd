//! What a package says about itself. Nothing is trusted, and nothing but the headers is read.

use super::package::Package;
use super::signature_header::Item;
use super::signature_read::Load;
use super::signatures::Found;
use super::{digests, tags};
use crate::error::Error;
use crate::report::{Inspection, SignatureReport};
use crate::source::ReadAt;

pub(super) fn inspect(source: &dyn ReadAt) -> Result<Inspection, Error> {
    let package = Package::read(source, Load::Look, |_, _| {})?;
    let (signature, main) = (&package.signature, &package.main);
    let checks = [
        digests::header(signature, &package.header_hashes),
        digests::sizes(signature, main, package.len),
        digests::whole(signature, main, None),
        digests::payload(main, None),
    ];
    let report = |found: &Found| match &found.packet {
        Ok(packet) => SignatureReport::unchecked(found.place(), packet),
        Err(reason) => SignatureReport::unreadable(found.place(), reason.clone()),
    };
    Ok(Inspection {
        facts: facts(&package),
        signatures: package.found.iter().map(report).collect(),
        digests: checks.iter().flatten().map(digests::Check::report).collect(),
    })
}

fn facts(package: &Package) -> Vec<(&'static str, String)> {
    let (signature, main) = (&package.signature, &package.main);
    let (entries, data_bytes) = signature.size();
    let count = |tag| signature.find(tag).map_or(0, Item::filled_strings);
    let mut facts = vec![
        ("name", name(package)),
        ("rpm format", format(package).to_string()),
        ("built by rpm", main.string(tags::RPM_VERSION).unwrap_or_else(|| "unknown".to_owned())),
        (
            "payload compressor",
            main.string(tags::PAYLOAD_COMPRESSOR).unwrap_or_else(|| "none named".to_owned()),
        ),
        ("signature header", format!("{entries} tags, {data_bytes} bytes of data")),
        ("main header", format!("{} tags, {} bytes", main.entries, main.end.saturating_sub(main.start))),
        ("payload", format!("{} bytes", package.len.saturating_sub(main.end))),
        ("payload digest", if digests::covers_payload(main) { "yes" } else { "no" }.to_owned()),
        ("reserve", signature.reserve().map_or_else(|| "none".to_owned(), |bytes| format!("{bytes} bytes"))),
        ("file signatures", count(tags::FILE_SIGNATURES).to_string()),
        ("fs-verity signatures", count(tags::VERITY_SIGNATURES).to_string()),
    ];
    if let Some(fault) = signature.fault {
        facts.push(("signature header fault", fault.what.to_owned()));
    }
    facts
}

/// `name-[epoch:]version-release.arch`, with `src` for a source package (rpm `lib/tagexts.cc`).
fn name(package: &Package) -> String {
    let main = &package.main;
    let text = |tag| main.string(tag).unwrap_or_default();
    let is_source = main.has(tags::SOURCE_PACKAGE) || !main.has(tags::SOURCE_RPM);
    let arch = if is_source { "src".to_owned() } else { text(tags::ARCH) };
    let epoch = main.number(tags::EPOCH).map(|epoch| format!("{epoch}:")).unwrap_or_default();
    format!("{}-{epoch}{}-{}.{arch}", text(tags::NAME), text(tags::VERSION), text(tags::RELEASE))
}

/// 6, 4, or 3 for a package that lists its files as rpm 3 did (rpm `lib/package.cc`, `applyRetrofits`).
fn format(package: &Package) -> u64 {
    let format = package.main.format();
    if format == 4 && package.main.has(tags::OLD_FILENAMES) { 3 } else { format }
}
