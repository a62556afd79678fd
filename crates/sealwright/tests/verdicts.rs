//! Every package among the fixtures, signed with three kinds of keys by the real program: accepted by rpm, or refused
//! for the reason in crates/formats/tests/verdicts.tsv and left as it was. Then stripped again.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    reason = "tests"
)]

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use sealwright_testkit::fixtures::{self, ED25519, KeyFiles, RSA2048, RSA4096};
use sealwright_testkit::rpm::Package;
use sealwright_testkit::sealwright::{Home, Ran};
use sealwright_testkit::tools::{self, RpmKeys};

const PROGRAM: &str = env!("CARGO_BIN_EXE_sealwright");

#[test]
fn rsa_2048_signatures_are_accepted_by_rpm() {
    every_package(RSA2048);
}

#[test]
fn rsa_4096_signatures_are_accepted_by_rpm() {
    every_package(RSA4096);
}

#[test]
fn ed25519_signatures_are_accepted_by_rpm() {
    every_package(ED25519);
}

/// What the table says of a package.
enum Verdict {
    /// It is signed.
    Signed,
    /// It is refused, for this reason.
    Refused(String),
}

/// The table of the formats crate, which also has sizes and tags.
fn verdicts(key: KeyFiles) -> BTreeMap<String, Verdict> {
    let table = fixtures::root().join("../crates/formats/tests/verdicts.tsv");
    let column = [RSA2048, RSA4096, ED25519].iter().position(|other| other.name == key.name).unwrap();
    fs::read_to_string(table)
        .unwrap()
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| {
            // The last one is for a version 6 key, which rpm 4 does not read.
            let (line, _) = line.rsplit_once('\t').unwrap();
            let cells: Vec<&str> = line.split('\t').collect();
            // One verdict for all keys, one for RSA and one for Ed25519, or one for each key.
            let cell = match cells.len() {
                2 => cells[1],
                3 => cells[1 + usize::from(column == 2)],
                4 => cells[1 + column],
                _ => panic!("verdicts.tsv: {line}"),
            };
            let verdict = match cell.strip_prefix("refused: ") {
                Some(reason) => Verdict::Refused(reason.to_owned()),
                None => {
                    assert!(cell.starts_with("signed "), "verdicts.tsv: {line}");
                    Verdict::Signed
                }
            };
            (cells[0].to_owned(), verdict)
        })
        .collect()
}

/// Signs all packages in one call and judges each.
fn every_package(key: KeyFiles) {
    let home = Home::with_keys(PROGRAM, &[key]);
    let verdicts = verdicts(key);
    let names: Vec<String> = ["rpm", "rpm-malformed"]
        .into_iter()
        .flat_map(|folder| {
            let files = if folder == "rpm" { fixtures::packages() } else { fixtures::malformed() };
            files
                .into_iter()
                .map(move |file| format!("{folder}/{}", file.file_name().unwrap().to_str().unwrap()))
        })
        .collect();
    assert_eq!(
        names.iter().collect::<Vec<_>>().len(),
        verdicts.len(),
        "verdicts.tsv has not one row a package"
    );
    for folder in ["rpm", "rpm-malformed"] {
        fs::create_dir(home.work().join(folder)).unwrap();
    }
    for name in &names {
        fs::copy(fixtures::path(name), home.work().join(name)).unwrap();
    }
    let mut arguments: Vec<OsString> =
        ["sign", "--key", key.name, "--format", "rpm", "--check-payload", "--force", "--json"]
            .map(OsString::from)
            .to_vec();
    arguments.extend(names.iter().map(OsString::from));
    let ran = home.run(&arguments);
    assert_eq!(ran.code, Some(1), "some are refused: {}", ran.stderr);
    let judge = Judge { rpm: RpmKeys::new(&[key.public()]), key, home: &home };
    let mut wrong = Vec::new();
    for name in &names {
        let verdict = verdicts.get(name).unwrap_or_else(|| panic!("verdicts.tsv has no row for {name}"));
        let outcome = match verdict {
            Verdict::Signed => judge.signed(name),
            Verdict::Refused(words) => judge.refused(name, words, &ran),
        };
        if let Err(reason) = outcome {
            wrong.push(format!("{name}: {reason}"));
        }
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

struct Judge<'a> {
    rpm: RpmKeys,
    key: KeyFiles,
    home: &'a Home,
}

impl Judge<'_> {
    /// Signed so that rpm 4.18 accepts it (v6: so that gpgv accepts each new packet over the main header), with every
    /// byte from the main header on as it was; and stripped again, what it was before where that was unsigned.
    fn signed(&self, name: &str) -> Result<(), String> {
        let file = self.home.work().join(name);
        let before = fs::read(fixtures::path(name)).unwrap();
        let after = fs::read(&file).unwrap();
        if after == before {
            return Err("not signed".to_owned());
        }
        let (old, new) = (Package::read(&before), Package::read(&after));
        if old.header_and_payload != new.header_and_payload {
            return Err("bytes from the main header on differ".to_owned());
        }
        let mut tags = new.signature_tags();
        tags.sort_unstable();
        if tags.windows(2).any(|pair| pair[0] == pair[1]) {
            return Err(format!("a tag twice: {tags:?}"));
        }
        let said = self.rpm.check(&file);
        if new.is_v6() {
            if !said.all_ok() {
                return Err(format!("rpm: {:?}", said.lines));
            }
            self.packets_of_v6(&new)?;
        } else if !said.is_signed_and_all_ok() {
            return Err(format!("rpm: {:?}", said.lines));
        }
        self.stripped(&file, &before)
    }

    fn packets_of_v6(&self, package: &Package<'_>) -> Result<(), String> {
        let packets = package.openpgp();
        if packets.is_empty() {
            return Err("no signature in tag 278".to_owned());
        }
        let folder = tempfile::tempdir().unwrap();
        let (header, signature) = (folder.path().join("header"), folder.path().join("signature"));
        fs::write(&header, package.header).unwrap();
        for packet in packets {
            fs::write(&signature, packet).unwrap();
            let output = tools::gpgv(&[self.key.public()], &signature, &header);
            if !output.status.success() {
                return Err(format!("gpgv: {}", tools::text(&output)));
            }
        }
        Ok(())
    }

    fn stripped(&self, file: &Path, before: &[u8]) -> Result<(), String> {
        let old = Package::read(before);
        let stripped = self.home.ok(&["strip".as_ref(), file.as_os_str()]);
        let after = fs::read(file).unwrap();
        let new = Package::read(&after);
        if new.header_and_payload != old.header_and_payload {
            return Err("strip changed bytes from the main header on".to_owned());
        }
        if new.signature_tags().iter().any(|tag| SIGNATURES.contains(tag)) {
            return Err(format!("strip left a signature: {:?} {}", new.signature_tags(), stripped.text()));
        }
        let was_unsigned = !old.signature_tags().iter().any(|tag| SIGNATURES.contains(tag));
        if was_unsigned && old.has_reserve() && after != before {
            return Err("strip did not give the original".to_owned());
        }
        Ok(())
    }

    fn refused(&self, name: &str, words: &str, ran: &Ran) -> Result<(), String> {
        let file: PathBuf = self.home.work().join(name);
        if fs::read(file).unwrap() != fs::read(fixtures::path(name)).unwrap() {
            return Err("refused, but changed".to_owned());
        }
        let said = ran.json().into_iter().find(|object| object["file"] == name).unwrap_or_default();
        let reason = said["error"].as_str().unwrap_or_default();
        if reason.contains(words) { Ok(()) } else { Err(format!("{words:?} is not in {said}")) }
    }
}

/// Tags of signatures over the header, or header and payload.
const SIGNATURES: &[u32] = &[267, 268, 278, 1002, 1005];
