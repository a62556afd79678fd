//! OpenPGP version 6 from the command line: keys, detached signatures and packages, judged by Sequoia. rpm 6 would judge
//! packages too; Debian 12 has rpm 4, which does not read them.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    reason = "tests"
)]

use std::fs;
use std::path::PathBuf;

use sealwright_crypto::openpgp::armor;
use sealwright_testkit::fixtures;
use sealwright_testkit::pysequoia::{self, Accepted};
use sealwright_testkit::rpm::Package;
use sealwright_testkit::sealwright::Home;

const PROGRAM: &str = env!("CARGO_BIN_EXE_sealwright");
const V6_PACKAGE: &str = "rpmrs_v6_rpm-basic-2.3.4-5.el9.noarch.rpm";
const V4_PACKAGE: &str = "gen_tiny-reserved4096.rpm";

fn create(home: &Home, name: &str, more: &[&str]) {
    let uid = format!("Test {name} <{name}@example.org>");
    let fixed = ["key", "create", name, "--openpgp", "v6", "--uid", &uid];
    home.ok(&[&fixed, more].concat());
}

/// `fingerprint` or `signing_fingerprint` of a key.
fn shown(home: &Home, key: &str, field: &str) -> String {
    home.ok(&["key", "show", key, "--json"]).json()[0][field].as_str().unwrap().to_owned()
}

fn write(home: &Home, name: &str, bytes: &[u8]) -> PathBuf {
    let file = home.work().join(name);
    fs::write(&file, bytes).unwrap();
    file
}

#[test]
fn a_version_6_certificate_says_to_sequoia_what_was_asked_for_and_after_a_renewal_what_is_new() {
    let home = Home::new(PROGRAM);
    create(&home, "short", &["--algorithm", "ed25519", "--expires", "90d", "--signing-subkey"]);
    let listed = home.ok(&["key", "list"]).stdout;
    assert!(listed.contains("OPENPGP") && listed.contains(" v6 "), "{listed}");
    let view = home.ok(&["key", "show", "short", "--json"]).json().remove(0);
    assert_eq!((view["openpgp"].as_u64(), view["fingerprint"].as_str().unwrap().len()), (Some(6), 64));
    let first = pysequoia::certificate(&home.export("short"));
    assert_eq!(first.fingerprint, view["fingerprint"].as_str().unwrap());
    assert_eq!(first.user_ids, ["Test short <short@example.org>"]);
    assert!(!first.is_revoked);
    home.ok(&["key", "renew", "short", "--expires", "2y"]);
    let renewed = pysequoia::certificate(&home.export("short"));
    let moved = renewed.expires.unwrap() - first.expires.unwrap();
    assert!(moved > 500 * 86_400, "moved by {moved} seconds");
    home.ok(&["key", "renew", "short", "--expires", "never"]);
    assert_eq!(pysequoia::certificate(&home.export("short")).expires, None);
}

#[test]
fn the_revocation_certificate_of_a_version_6_key_revokes_it_for_sequoia() {
    let home = Home::new(PROGRAM);
    create(&home, "gone", &["--algorithm", "ed25519"]);
    let certificate = armor::decode_or_binary(&fs::read(home.export("gone")).unwrap()).unwrap();
    let file = home.home().join("revocations").join(format!("{}.asc", shown(&home, "gone", "fingerprint")));
    let revocation = armor::decode_or_binary(&fs::read(file).unwrap()).unwrap();
    // It stands behind the primary key, whose packet has a length of one byte.
    let (primary, rest) = certificate.split_at(2 + usize::from(certificate[1]));
    let revoked = write(&home, "revoked", &[primary, &revocation, rest].concat());
    assert!(pysequoia::certificate(&revoked).is_revoked);
}

#[test]
fn detached_signatures_of_every_algorithm_hash_and_kind_are_accepted_by_sequoia_for_their_content_alone() {
    let home = Home::new(PROGRAM);
    create(&home, "ed", &["--algorithm", "ed25519"]);
    create(&home, "sub", &["--algorithm", "ed25519", "--signing-subkey"]);
    create(&home, "rsa", &[]);
    let data = write(&home, "data", b"what is signed\n");
    let other = write(&home, "other", b"something else\n");
    for (key, algorithm) in [("ed", "Ed25519"), ("sub", "Ed25519"), ("rsa", "RSAEncryptSign")] {
        let certificate = home.export(key);
        for (hash, name) in [("sha256", "SHA256"), ("sha384", "SHA384"), ("sha512", "SHA512")] {
            for kind in ["asc", "sig"] {
                let fixed = ["sign", "--key", key, "--format", "detached", "--force"];
                home.ok(&[&fixed[..], &["--hash", hash, "--detached-output", kind, "data"]].concat());
                let signature = home.work().join(format!("data.{kind}"));
                let accepted = Accepted {
                    certificate: shown(&home, key, "fingerprint"),
                    signing_key: shown(&home, key, "signing_fingerprint"),
                    version: 6,
                    hash: name.to_owned(),
                    key_algorithm: algorithm.to_owned(),
                };
                assert_eq!(pysequoia::verify(&certificate, &signature, &data), Ok(accepted));
                assert!(pysequoia::verify(&certificate, &signature, &other).is_err(), "{key} {hash}");
            }
        }
        let verdict = home.ok(&["verify", "--key", key, "data"]).text();
        assert!(verdict.contains("v6"), "{verdict}");
    }
}

#[test]
fn with_another_salt_in_the_packet_sequoia_and_we_refuse_it() {
    let home = Home::new(PROGRAM);
    create(&home, "ed", &["--algorithm", "ed25519"]);
    let data = write(&home, "data", b"what is signed\n");
    home.ok(&["sign", "--key", "ed", "--format", "detached", "--detached-output", "sig", "data"]);
    let file = home.work().join("data.sig");
    let good = fs::read(&file).unwrap();
    // The value has 64 bytes, the salt before it 16.
    for at in [good.len() - 64 - 16, good.len() - 64 - 1] {
        let mut changed = good.clone();
        changed[at] ^= 1;
        fs::write(&file, &changed).unwrap();
        assert!(pysequoia::verify(&home.export("ed"), &file, &data).is_err());
        assert_eq!(home.run(&["verify", "--key", "ed", "data"]).code, Some(1));
    }
    fs::write(&file, &good).unwrap();
    assert!(pysequoia::verify(&home.export("ed"), &file, &data).is_ok());
}

#[test]
fn two_signatures_of_one_file_have_different_salts() {
    let home = Home::new(PROGRAM);
    create(&home, "ed", &["--algorithm", "ed25519"]);
    write(&home, "data", b"x");
    let sign = || {
        home.ok(&[
            "sign",
            "--key",
            "ed",
            "--format",
            "detached",
            "--detached-output",
            "sig",
            "--force",
            "data",
        ]);
        fs::read(home.work().join("data.sig")).unwrap()
    };
    let salt = |packet: Vec<u8>| packet[packet.len() - 80..packet.len() - 64].to_vec();
    assert_ne!(salt(sign()), salt(sign()));
    assert_eq!(home.sql("SELECT COUNT(*) FROM tickets"), ["2"], "each ticket is remembered");
}

/// The content of a header signature is the main header alone.
#[test]
fn tag_278_of_a_v6_package_holds_a_signature_that_sequoia_accepts_over_the_main_header() {
    let home = Home::new(PROGRAM);
    create(&home, "ed", &["--algorithm", "ed25519"]);
    create(&home, "rsa", &["--algorithm", "rsa4096", "--signing-subkey"]);
    for key in ["ed", "rsa"] {
        for hash in ["sha256", "sha512"] {
            let package = home.copy(&fixtures::package(V6_PACKAGE));
            let before = fs::read(&package).unwrap();
            home.ok(&["sign", "--key", key, "--hash", hash, V6_PACKAGE]);
            let bytes = fs::read(&package).unwrap();
            assert_eq!(bytes.len(), before.len(), "the reserve took it");
            let parts = Package::read(&bytes);
            assert_eq!(parts.signature_tags(), [62, 273, 278, 279, 999]);
            let packets = parts.openpgp();
            assert_eq!(packets.len(), 1);
            let signature = write(&home, "signature", &packets[0]);
            let header = write(&home, "header", parts.header);
            let accepted = pysequoia::verify(&home.export(key), &signature, &header).unwrap();
            assert_eq!((accepted.version, accepted.hash.to_lowercase()), (6, hash.to_owned()));
            let mut changed = parts.header.to_vec();
            *changed.last_mut().unwrap() ^= 1;
            let changed = write(&home, "changed", &changed);
            assert!(pysequoia::verify(&home.export(key), &signature, &changed).is_err());
            home.ok(&["verify", "--key", key, V6_PACKAGE]);
            home.ok(&["strip", V6_PACKAGE]);
            assert_eq!(fs::read(&package).unwrap(), before);
        }
    }
}

#[test]
fn a_v4_package_is_refused_by_name_and_with_add_both_signatures_are_there() {
    let home = Home::new(PROGRAM);
    create(&home, "six", &["--algorithm", "ed25519"]);
    home.ok(&["key", "create", "four", "--algorithm", "ed25519"]);
    let package = home.copy(&fixtures::package(V4_PACKAGE));
    let before = fs::read(&package).unwrap();
    let words = ["v4 package", "version 6 key", "--if-signed add"];
    home.run(&["sign", "--key", "six", V4_PACKAGE]).failed_saying(&words);
    assert_eq!(fs::read(&package).unwrap(), before);
    home.ok(&["sign", "--key", "four", V4_PACKAGE]);
    let added = home.ok(&["sign", "--key", "six", "--if-signed", "add", V4_PACKAGE]);
    assert!(added.text().contains("rpm before version 6 does not see"), "{}", added.text());
    let bytes = fs::read(&package).unwrap();
    let parts = Package::read(&bytes);
    let versions: Vec<u8> = parts.openpgp().iter().map(|packet| packet[2]).collect();
    assert_eq!(versions, [4, 6]);
    let signature = write(&home, "signature", &parts.openpgp()[1]);
    let header = write(&home, "header", parts.header);
    assert!(pysequoia::verify(&home.export("six"), &signature, &header).is_ok());
    // Old rpms go on reading the signature in the old tag.
    let judge = sealwright_testkit::tools::RpmKeys::new(&[home.export("four")]);
    assert!(judge.check(&package).is_signed_and_all_ok());
}

/// What others made: the sample key of RFC 9580 among them.
#[test]
fn imported_version_6_keys_sign_what_sequoia_accepts() {
    let home = Home::new(PROGRAM);
    let data = write(&home, "data", b"x");
    for (name, file) in [
        ("sample", "rpgp_v6-25519-annex-a-4_tsk.asc"),
        ("rpmorg", "rpmorg_rpm.org-v6-ed25519-test.secret"),
        ("rsa", "rpgp_v6-rsa_tsk.asc"),
    ] {
        home.import(name, &fixtures::key(file));
        home.ok(&["sign", "--key", name, "--format", "detached", "--force", "data"]);
        let accepted = pysequoia::verify(&home.export(name), &home.work().join("data.asc"), &data);
        assert_eq!(accepted.unwrap().version, 6, "{file}");
    }
}

/// One call, many files: each has its own salt, and there is one entry in the log for each.
#[test]
fn many_files_in_one_call_are_each_signed_once() {
    let home = Home::new(PROGRAM);
    create(&home, "ed", &["--algorithm", "ed25519"]);
    let names: Vec<String> = (0..60).map(|number| format!("file-{number}")).collect();
    for name in &names {
        write(&home, name, name.as_bytes());
    }
    let mut arguments: Vec<&str> = vec!["sign", "--key", "ed", "--format", "detached", "--jobs", "8"];
    arguments.extend(names.iter().map(String::as_str));
    home.ok(&arguments);
    assert_eq!(home.log_size(), 60);
    assert_eq!(home.sql("SELECT COUNT(*) FROM tickets"), ["60"]);
    home.ok(&["verify", "--key", "ed", &names[0], &names[59]]);
}
