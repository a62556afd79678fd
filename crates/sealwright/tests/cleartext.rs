//! Clear-signed documents by the real program: judged by gpg and Sequoia, in every place that the result can go.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    reason = "tests"
)]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use sealwright_testkit::fixtures::{self, ED25519, KeyFiles, RSA2048, RSA4096};
use sealwright_testkit::sealwright::Home;
use sealwright_testkit::tools::{self, Gpg};

const PROGRAM: &str = env!("CARGO_BIN_EXE_sealwright");

/// Fixture documents that gpg and Sequoia read alike.
const DOCUMENTS: [&str; 5] =
    ["gen_Release.plain", "gen_dashes.txt", "gen_nofinalnl.txt", "gen_empty.txt", "gen_onenewline.txt"];

fn document(name: &str) -> std::path::PathBuf {
    fixtures::path(&format!("cleartext/{name}"))
}

fn sign<'a>(key: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    [&["sign", "--format", "cleartext", "--key", key], more].concat()
}

fn gpg_accepts(key: KeyFiles, file: &Path) -> bool {
    let gpg = Gpg::new();
    gpg.import(&key.public());
    tools::run(gpg.command().arg("--verify").arg(file)).status.success()
}

fn sq_accepts(key: KeyFiles, file: &Path) -> bool {
    tools::run(Command::new("sq").args(["verify", "--signer-cert"]).arg(key.public()).arg(file))
        .status
        .success()
}

/// The text that gpg takes out of a signed document.
fn gpg_text(key: KeyFiles, file: &Path) -> Vec<u8> {
    let gpg = Gpg::new();
    gpg.import(&key.public());
    tools::succeed(gpg.command().arg("--decrypt").arg(file))
}

fn verify(home: &Home, key: KeyFiles, name: &str) -> sealwright_testkit::sealwright::Ran {
    let keyring = key.public();
    home.run(&["verify".as_ref(), "--keyring".as_ref(), keyring.as_os_str(), name.as_ref()])
}

#[test]
fn documents_are_accepted_by_gpg_and_sequoia_and_stay_as_they_are() {
    let home = Home::with_keys(PROGRAM, &[RSA4096, ED25519]);
    for key in [RSA4096, ED25519] {
        for name in DOCUMENTS {
            let before = fs::read(document(name)).unwrap();
            let copy = home.copy(&document(name));
            home.ok(&sign(key.name, &[name]));
            assert_eq!(fs::read(&copy).unwrap(), before, "the document itself");
            let signed = home.work().join(format!("{name}.asc"));
            assert!(gpg_accepts(key, &signed), "{name}");
            assert!(sq_accepts(key, &signed), "{name}");
            let mut text = before;
            if !text.ends_with(b"\n") {
                text.push(b'\n');
            }
            assert_eq!(gpg_text(key, &signed), text, "{name}");
            assert_eq!(verify(&home, key, &format!("{name}.asc")).code, Some(0));
            home.ok(&["strip", &format!("{name}.asc")]);
            assert_eq!(fs::read(&signed).unwrap(), text, "{name}");
            fs::remove_file(signed).unwrap();
        }
    }
}

#[test]
fn line_ends_and_blanks_are_read_as_gpg_reads_them() {
    let home = Home::with_keys(PROGRAM, &[ED25519]);
    let long = "x".repeat(19_993);
    for (name, text) in [
        ("crlf", "one\r\ntwo\r\n".to_owned()),
        ("blanks", "one \t\n \n\t\r\ntwo \n\n\n".to_owned()),
        ("lone-cr", "one\rtwo\r\r\n \r x\r".to_owned()),
        ("long", format!("{long}\n-{}\n", &long[1..])),
        ("utf-8", "\u{feff}gr\u{fc}\u{df}e \u{1f512}\u{a0}\n".to_owned()),
    ] {
        fs::write(home.work().join(name), &text).unwrap();
        let ran = home.ok(&sign(ED25519.name, &[name]));
        assert_eq!(ran.text().contains("carriage return"), name == "lone-cr", "{}", ran.text());
        let signed = home.work().join(format!("{name}.asc"));
        assert!(gpg_accepts(ED25519, &signed), "{name}");
        assert_eq!(verify(&home, ED25519, &format!("{name}.asc")).code, Some(0));
        let changed = fs::read_to_string(&signed).unwrap().replacen("\n\n", "\n\nz", 1);
        fs::write(&signed, changed).unwrap();
        assert!(!gpg_accepts(ED25519, &signed), "{name}");
        verify(&home, ED25519, &format!("{name}.asc")).failed_saying(&["bad"]);
    }
}

#[test]
fn what_gpg_could_not_read_is_refused_and_nothing_is_written() {
    let home = Home::with_keys(PROGRAM, &[ED25519]);
    fs::write(home.work().join("long"), "x".repeat(19_994)).unwrap();
    home.copy(&document("gen_binaryish.txt"));
    home.run(&sign(ED25519.name, &["long"])).failed_saying(&["long", "19994 bytes", "--format detached"]);
    home.run(&sign(ED25519.name, &["gen_binaryish.txt"])).failed_saying(&["zero byte"]);
    assert_eq!(fs::read_dir(home.work()).unwrap().count(), 2);
    assert_eq!(home.log_size(), 0);
}

#[test]
fn a_document_in_place_keeps_its_mode_and_gets_a_second_signature() {
    let home = Home::with_keys(PROGRAM, &[RSA2048, ED25519]);
    let copy = home.copy(&document("gen_dashes.txt"));
    fs::set_permissions(&copy, fs::Permissions::from_mode(0o640)).unwrap();
    home.ok(&sign(RSA2048.name, &["--cleartext-output", "in-place", "gen_dashes.txt"]));
    assert_eq!(fs::metadata(&copy).unwrap().permissions().mode() & 0o777, 0o640);
    assert!(gpg_accepts(RSA2048, &copy) && sq_accepts(RSA2048, &copy));
    let again = home.ok(&sign(RSA2048.name, &["gen_dashes.txt"]));
    assert!(again.text().contains("already signed by this key"), "{}", again.text());
    home.ok(&sign(ED25519.name, &["--if-signed", "add", "--hash", "sha512", "gen_dashes.txt"]));
    for key in [RSA2048, ED25519] {
        let ran =
            tools::run(Command::new("sq").args(["verify", "--signer-cert"]).arg(key.public()).arg(&copy));
        assert!(tools::text(&ran).contains("Good signature"), "{}", tools::text(&ran));
        assert!(gpg_says_good(key, &copy));
    }
    let head = fs::read_to_string(&copy).unwrap();
    assert!(head.starts_with("-----BEGIN PGP SIGNED MESSAGE-----\nHash: SHA256,SHA512\n\n- -dash first\n"));
    home.ok(&sign(ED25519.name, &["gen_dashes.txt"]));
    let inspected = home.ok(&["inspect", "--json", "gen_dashes.txt"]).json();
    assert_eq!(inspected[0]["signatures"].as_array().unwrap().len(), 1, "replace leaves ours alone");
    home.ok(&["strip", "gen_dashes.txt"]);
    assert_eq!(fs::read(&copy).unwrap(), fs::read(document("gen_dashes.txt")).unwrap());
    assert_eq!(fs::read_dir(home.work()).unwrap().count(), 1, "nothing was left beside it");
}

/// Another key's signature in the file makes gpg fail for a user who has one key; what it says of that one counts.
fn gpg_says_good(key: KeyFiles, file: &Path) -> bool {
    let gpg = Gpg::new();
    gpg.import(&key.public());
    let ran = tools::run(gpg.command().args(["--status-fd", "1", "--verify"]).arg(file));
    tools::text(&ran).contains("GOODSIG")
}

#[test]
fn a_signed_copy_follows_its_document_and_other_signatures_stay_only_over_the_same_text() {
    let home = Home::with_keys(PROGRAM, &[RSA2048, ED25519]);
    let (data, signed) = (home.work().join("data"), home.work().join("data.asc"));
    fs::write(&data, "one\n").unwrap();
    home.ok(&sign(RSA2048.name, &["data"]));
    assert!(home.ok(&sign(RSA2048.name, &["data"])).text().contains("already signed by this key (.asc)"));
    home.ok(&sign(ED25519.name, &["--if-signed", "add", "data"]));
    assert!(gpg_says_good(RSA2048, &signed) && gpg_says_good(ED25519, &signed));
    fs::write(&data, "two\n").unwrap();
    let before = fs::read(&signed).unwrap();
    home.run(&sign(ED25519.name, &["--if-signed", "add", "data"]))
        .failed_saying(&["data.asc", "another text"]);
    home.run(&sign(ED25519.name, &["--if-signed", "refuse", "data"])).failed_saying(&["data.asc"]);
    assert!(home.ok(&sign(ED25519.name, &["--if-signed", "skip", "data"])).text().contains("skipped"));
    assert_eq!(fs::read(&signed).unwrap(), before);
    home.ok(&sign(ED25519.name, &["data"]));
    assert_eq!(gpg_text(ED25519, &signed), b"two\n");
    fs::write(&signed, "notes\n").unwrap();
    home.run(&sign(ED25519.name, &["data"])).failed_saying(&["data.asc", "was not touched"]);
    assert_eq!(fs::read(&signed).unwrap(), b"notes\n");
}

#[test]
fn standard_input_becomes_a_signed_document_on_standard_output() {
    let home = Home::with_keys(PROGRAM, &[ED25519]);
    let text = fs::read(document("gen_dashes.txt")).unwrap();
    let ran = home.run_with_input(&sign(ED25519.name, &["-"]), &text);
    assert_eq!(ran.code, Some(0), "{}", ran.text());
    let signed = home.work().join("signed");
    fs::write(&signed, &ran.bytes).unwrap();
    assert_eq!(gpg_text(ED25519, &signed), text);
}

#[test]
fn trees_are_never_signed_or_stripped_as_documents() {
    let home = Home::with_keys(PROGRAM, &[ED25519]);
    let copy = home.copy(&document("gen_Release.plain.clear.asc"));
    let before = fs::read(&copy).unwrap();
    home.ok(&["sign", "--key", ED25519.name, "-r", "."]);
    home.ok(&["strip", "-r", "."]);
    assert_eq!(fs::read(&copy).unwrap(), before);
    let ran = home.run(&sign(ED25519.name, &["-r", "."]));
    assert_eq!(ran.code, Some(2), "{}", ran.text());
}

#[test]
fn what_is_no_signed_document_is_shown_and_a_plain_one_names_the_signed_one() {
    let home = Home::with_keys(PROGRAM, &[ED25519]);
    fs::write(home.work().join("InRelease"), "<html>Please log in</html>").unwrap();
    let keyring = ED25519.public();
    let verify_named = ["verify".as_ref(), "--format".as_ref(), "cleartext".as_ref(), "--keyring".as_ref()];
    let arguments = [&verify_named[..], &[keyring.as_os_str(), "InRelease".as_ref()]].concat();
    home.run(&arguments).failed_saying(&["not a clear-signed document", "<html>Please log in"]);
    fs::write(home.work().join("data"), "one\n").unwrap();
    home.ok(&sign(ED25519.name, &["data"]));
    let ran = verify(&home, ED25519, "data");
    assert_eq!(ran.code, Some(1));
    assert!(ran.text().contains("data.asc is a signed document of its own"), "{}", ran.text());
}
