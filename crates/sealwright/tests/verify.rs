//! What verify says: a state a file, exit status 0 for valid ones alone.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    reason = "tests"
)]

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use sealwright_testkit::fixtures::{self, RSA4096};
use sealwright_testkit::sealwright::Home;

const PROGRAM: &str = env!("CARGO_BIN_EXE_sealwright");

/// RSA-4096 and the weak DSA-1024 certificate in one file.
fn keyring(home: &Home) -> PathBuf {
    let file = home.work().join("keyring.asc");
    let mut keys = fs::read(RSA4096.public()).unwrap();
    keys.extend(fs::read(fixtures::key("gen_dsa1024.pub.asc")).unwrap());
    fs::write(&file, keys).unwrap();
    file
}

const STATES: &[(&str, &str)] = &[
    ("rpm/gen_tiny-reserved4096.rpm", "unsigned"),
    ("rpm/gen_tiny-signed-rsa4096.rpm", "valid"),
    ("rpm/gen_tiny-signed-rsa4096-rpmv3.rpm", "valid"),
    ("rpm/signatrust_Imath-3.1.4-1.oe2303.x86_64.rpm", "unknown-key"),
    ("rpm-malformed/gen_mut-payload-flip.rpm", "bad"),
    ("rpm/gen_tiny-signed-in-2035.rpm", "future"),
    ("rpm/gen_tiny-signed-dsa1024.rpm", "weak"),
];

#[test]
fn each_file_of_a_call_has_its_own_state() {
    let home = Home::new(PROGRAM);
    let keyring = keyring(&home);
    let files: Vec<PathBuf> = STATES.iter().map(|(name, _)| fixtures::path(name)).collect();
    let mut arguments = vec!["verify".into(), "--json".into(), "--keyring".into(), keyring.into_os_string()];
    arguments.extend(files.iter().map(|file| file.clone().into_os_string()));
    let ran = home.run(&arguments);
    assert_eq!(ran.code, Some(1), "{}", ran.text());
    let said: BTreeMap<String, String> = ran
        .json()
        .iter()
        .map(|object| {
            (object["file"].as_str().unwrap().to_owned(), object["state"].as_str().unwrap().to_owned())
        })
        .collect();
    for ((name, state), file) in STATES.iter().zip(&files) {
        assert_eq!(said.get(file.to_str().unwrap()).map(String::as_str), Some(*state), "{name}");
    }
}

#[test]
fn exit_status_is_0_for_valid_files_alone() {
    let home = Home::new(PROGRAM);
    let keyring = keyring(&home);
    for (name, state) in STATES {
        let file = fixtures::path(name);
        let ran = home.run(&["verify".as_ref(), "--keyring".as_ref(), keyring.as_os_str(), file.as_os_str()]);
        assert_eq!(ran.code == Some(0), *state == "valid", "{name}: {}", ran.text());
        assert!(ran.text().contains(state), "{name}: {}", ran.text());
    }
}

#[test]
fn a_signature_by_a_key_that_expired_later_counts_and_one_by_an_expired_key_does_not() {
    let home = Home::new(PROGRAM);
    let certificate = fixtures::key("gen_expired-primary-rsa2048.pub.asc");
    let file = fixtures::package("gen_tiny-signed-by-now-expired-key.rpm");
    let arguments = ["verify".as_ref(), "--keyring".as_ref(), certificate.as_os_str(), file.as_os_str()];
    let ran = home.run(&arguments);
    // Made in 2020 while the key was alive: good by the rule of OpenPGP, which rpm follows.
    assert_eq!(ran.code, Some(0), "{}", ran.text());
    let data = fixtures::path("pgp-sig/librepo_test_data.txt");
    let copy = home.copy(&data);
    home.copy(&fixtures::path("pgp-sig/librepo_test_data.txt.asc"));
    let certificate = fixtures::key("librepo_expired_key.asc");
    let ran = home.run(&["verify".as_ref(), "--keyring".as_ref(), certificate.as_os_str(), copy.as_os_str()]);
    assert_eq!(ran.code, Some(0), "{}", ran.text());
}

#[test]
fn a_file_that_is_not_there_is_named_and_the_others_are_judged() {
    let home = Home::new(PROGRAM);
    let keyring = keyring(&home);
    let good = fixtures::package("gen_tiny-signed-rsa4096.rpm");
    let ran = home.run(&[
        "verify".as_ref(),
        "--keyring".as_ref(),
        keyring.as_os_str(),
        "missing.rpm".as_ref(),
        good.as_os_str(),
    ]);
    ran.failed_saying(&["missing.rpm", "valid"]);
}

#[test]
fn verification_needs_no_key_store() {
    let home = Home::new(PROGRAM);
    let keyring = keyring(&home);
    let good = fixtures::package("gen_tiny-signed-rsa4096.rpm");
    home.ok(&["verify".as_ref(), "--keyring".as_ref(), keyring.as_os_str(), good.as_os_str()]);
    assert!(!home.home().exists(), "verify made a key store");
}
