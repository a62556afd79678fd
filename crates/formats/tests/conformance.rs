//! What holds for every format of the list and every fixture: names, detection, sign, verify, strip.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::expect_used,
    clippy::panic,
    clippy::ptr_arg,
    reason = "tests"
)]

use std::collections::HashSet;
use std::fmt::Write as _;
use std::fs;

use sealwright_crypto::openpgp::certificate::Keyring;
use sealwright_crypto::openpgp::verify::State;
use sealwright_formats::error::Error;
use sealwright_formats::options::{PayloadCheck, Repeat, SignOptions};
use sealwright_formats::prepared::{Layout, Output, Preparation, Prepared};
use sealwright_formats::report::VerifyContext;
use sealwright_formats::{DETECT_BYTES, FORMATS, Format, by_name, detect};
use signer::{SIGNING_TIME, Signer, fixture, fixture_names};

#[allow(dead_code, reason = "each test target uses its part")]
#[path = "support/signer.rs"]
mod signer;

fn rpm() -> &'static dyn Format {
    by_name("rpm").unwrap()
}

fn packages() -> Vec<String> {
    fixture_names("rpm").into_iter().chain(fixture_names("rpm-malformed")).collect()
}

fn forced() -> SignOptions {
    SignOptions { repeat: Repeat::Force, ..SignOptions::default() }
}

fn checked() -> SignOptions {
    SignOptions { payload: PayloadCheck::Always, ..forced() }
}

/// The signed package, or the reason why there is none.
fn sign(bytes: &Vec<u8>, options: &SignOptions, signer: &Signer) -> Result<Vec<u8>, Error> {
    let prepared = match rpm().prepare(bytes, options, &signer.certificate, &signer.salts(options.hash))? {
        Preparation::Sign(prepared) => prepared,
        Preparation::Leave { why } => panic!("left: {why}"),
    };
    apply(bytes, &prepared, signer)
}

fn apply(bytes: &[u8], prepared: &Prepared, signer: &Signer) -> Result<Vec<u8>, Error> {
    let packets = signer.sign(&prepared.items);
    let longest = packets.iter().map(Vec::len).max().unwrap();
    match prepared.plan.output(&packets, Layout::Tight)? {
        Output::Edits(edits) => {
            let growth = edits.new_len().saturating_sub(edits.old_len());
            assert!(growth <= prepared.plan.room(longest, Layout::Tight).growth_max, "grew by {growth}");
            Ok(edits.apply(bytes))
        }
        Output::Beside(_) => panic!("not embedded"),
    }
}

fn strip(bytes: &Vec<u8>) -> Vec<u8> {
    rpm().strip(bytes).unwrap().map_or_else(|| bytes.clone(), |edits| edits.apply(bytes))
}

#[test]
fn names_of_formats_and_their_options_are_unique() {
    let mut names = HashSet::new();
    for format in FORMATS {
        assert!(names.insert(format.name()), "{}", format.name());
        assert!(std::ptr::addr_eq(by_name(format.name()).unwrap(), *format));
        for option in format.options() {
            assert!(names.insert(option.name), "{}", option.name);
            assert!(option.choices.contains(&option.default) || (option.check)(option.default));
        }
    }
}

#[test]
fn packages_are_detected_by_content_and_other_files_are_not() {
    for name in fixture_names("rpm") {
        let bytes = fixture(&name);
        let head = &bytes[..bytes.len().min(DETECT_BYTES)];
        assert_eq!(detect(head).map(Format::name), Some("rpm"), "{name}");
    }
    for name in fixture_names("pgp-key").iter().chain(&fixture_names("pgp-sig")) {
        if !name.ends_with(".rpm") {
            assert!(detect(&fixture(name)).is_none(), "{name}");
        }
    }
    assert!(detect(b"").is_none());
}

/// The table says, for every package and with `--check-payload`: signed with which tags and growth, or refused
/// and why. What was signed verifies, strips to the original, and changed nothing but the signature header.
#[test]
fn every_package_is_signed_or_refused_with_its_reason() {
    let signers = [Signer::rsa2048(), Signer::rsa4096(), Signer::ed25519()];
    let v6 = Signer::ed25519_v6();
    let mut table = String::from(
        "# package, then the verdict for rsa2048, rsa4096, ed25519, equal neighbours once; then for ed25519 of version 6\n",
    );
    for name in packages() {
        let original = fixture(&name);
        let verdict = |signer: &Signer| match sign(&original, &checked(), signer) {
            Ok(signed) => check_signed(&name, &original, &signed, signer),
            Err(error) => format!("refused: {error}"),
        };
        let mut verdicts: Vec<String> = signers.iter().map(verdict).collect();
        verdicts.dedup();
        verdicts.push(verdict(&v6));
        write!(table, "{name}\t{}", verdicts.join("\t")).unwrap();
        table.push('\n');
    }
    let wanted = include_str!("verdicts.tsv");
    if table != wanted {
        let path = concat!(env!("CARGO_TARGET_TMPDIR"), "/verdicts.tsv");
        fs::write(path, &table).unwrap();
        panic!("tests/verdicts.tsv is not what came out: compare it with {path}");
    }
}

fn check_signed(name: &str, original: &Vec<u8>, signed: &Vec<u8>, signer: &Signer) -> String {
    let (keyring, now) = (keyring(signer), i64::from(SIGNING_TIME));
    let context = VerifyContext { keyring: &keyring, now, sidecar: None };
    let verification = rpm().verify(signed, &context).unwrap();
    assert_eq!(verification.state(), State::Valid, "{name}: {verification:?}");
    assert_eq!(strip(signed), strip(original), "{name}: strip is not the original");
    assert_eq!(&original[..96], &signed[..96], "{name}: lead");
    let rest = |bytes: &[u8]| bytes[main_start(bytes)..].to_vec();
    assert!(rest(original) == rest(signed), "{name}: main header or payload changed");
    let places: Vec<&str> =
        verification.signatures.iter().map(|s| s.place.split([' ', '(']).next().unwrap()).collect();
    let growth = i64::try_from(signed.len()).unwrap() - i64::try_from(original.len()).unwrap();
    format!("signed {} {growth:+}", places.join("+"))
}

fn keyring(signer: &Signer) -> Keyring {
    let mut keyring = Keyring::new();
    keyring.push(signer.certificate.clone());
    keyring
}

/// Our own arithmetic, not that of the crate.
fn main_start(bytes: &[u8]) -> usize {
    let number = |at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap()) as usize;
    (96 + 16 + 16 * number(104) + number(108)).next_multiple_of(8)
}

#[test]
fn an_unsigned_package_with_reserve_strips_to_the_original_after_any_signature() {
    let mut with_reserve = 0;
    for name in fixture_names("rpm") {
        let original = fixture(&name);
        if rpm().strip(&original).unwrap().is_some() {
            continue;
        }
        let inspection = rpm().inspect(&original, None).unwrap();
        let reserve = inspection.facts.iter().find(|(what, _)| *what == "reserve").unwrap();
        for signer in [Signer::rsa4096(), Signer::ed25519()] {
            let Ok(signed) = sign(&original, &SignOptions::default(), &signer) else { continue };
            assert!(strip(&signed) == original, "{name}");
            with_reserve += usize::from(reserve.1 != "none");
        }
    }
    assert!(with_reserve > 50, "only {with_reserve} packages had a reserve");
}

#[test]
fn signing_a_signed_package_equals_signing_the_stripped_one() {
    for name in fixture_names("rpm") {
        let original = fixture(&name);
        let signer = Signer::ed25519();
        let options = forced();
        let (Ok(one), Ok(other)) =
            (sign(&original, &options, &signer), sign(&strip(&original), &options, &signer))
        else {
            continue;
        };
        assert!(one == other, "{name}");
    }
}
