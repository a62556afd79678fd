//! Detached OpenPGP signatures: files, standard input, the empty file; judged by gpgv and sqv.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    reason = "tests"
)]

use std::fs;
use std::path::Path;

use sealwright_testkit::fixtures::{self, ED25519, KeyFiles, RSA2048, RSA4096};
use sealwright_testkit::sealwright::Home;
use sealwright_testkit::tools;

const PROGRAM: &str = env!("CARGO_BIN_EXE_sealwright");
const KEYS: [KeyFiles; 3] = [RSA2048, RSA4096, ED25519];

fn accepted(key: KeyFiles, signature: &Path, data: &Path) {
    let gpgv = tools::gpgv(&[key.public()], signature, data);
    assert!(gpgv.status.success(), "{}: {}", key.name, tools::text(&gpgv));
    let sqv = tools::sqv(&key.public(), signature, data);
    assert!(sqv.status.success(), "{}: {}", key.name, tools::text(&sqv));
}

#[test]
fn signatures_of_files_are_accepted_by_gpgv_and_sqv() {
    let home = Home::with_keys(PROGRAM, &KEYS);
    for key in KEYS {
        for (name, content) in
            [("text.txt", b"hello\n".to_vec()), ("empty", Vec::new()), ("big.bin", vec![7; 3_000_001])]
        {
            let data = home.work().join(name);
            fs::write(&data, &content).unwrap();
            home.ok(&["sign", "--format", "detached", "--key", key.name, name]);
            assert_eq!(fs::read(&data).unwrap(), content, "the file itself must stay as it is");
            let signature = home.work().join(format!("{name}.asc"));
            assert!(fs::read(&signature).unwrap().starts_with(b"-----BEGIN PGP SIGNATURE-----"));
            accepted(key, &signature, &data);
            fs::remove_file(signature).unwrap();
        }
    }
}

#[test]
fn a_stream_on_standard_input_is_signed_to_standard_output() {
    let home = Home::with_keys(PROGRAM, &KEYS);
    for key in KEYS {
        for content in [Vec::new(), vec![0x33; 1_000_003]] {
            let ran =
                home.run_with_input(&["sign", "--format", "detached", "--key", key.name, "-"], &content);
            assert_eq!(ran.code, Some(0), "{}", ran.text());
            let (data, signature) = (home.work().join("data"), home.work().join("signature"));
            fs::write(&data, &content).unwrap();
            fs::write(&signature, ran.bytes).unwrap();
            accepted(key, &signature, &data);
        }
    }
}

#[test]
fn a_changed_file_is_found_bad() {
    let home = Home::with_keys(PROGRAM, &[ED25519]);
    let data = home.work().join("text.txt");
    fs::write(&data, "hello\n").unwrap();
    home.ok(&["sign", "--format", "detached", "--key", ED25519.name, "text.txt"]);
    let keyring = ED25519.public();
    let verify = ["verify".as_ref(), "--keyring".as_ref(), keyring.as_os_str(), "text.txt".as_ref()];
    home.ok(&verify);
    fs::write(&data, "hellO\n").unwrap();
    home.run(&verify).failed_saying(&["text.txt", "bad"]);
}

#[test]
fn several_files_of_one_call_are_each_signed() {
    let home = Home::with_keys(PROGRAM, &[RSA2048]);
    let names: Vec<String> = (0..40).map(|number| format!("file{number}")).collect();
    for name in &names {
        fs::write(home.work().join(name), name).unwrap();
    }
    let mut arguments = vec!["sign", "--format", "detached", "--key", RSA2048.name];
    arguments.extend(names.iter().map(String::as_str));
    home.ok(&arguments);
    for name in &names {
        accepted(RSA2048, &home.work().join(format!("{name}.asc")), &home.work().join(name));
    }
}

#[test]
fn a_package_can_have_a_detached_signature_too() {
    let home = Home::with_keys(PROGRAM, &[ED25519]);
    let package = fixtures::package("gen_tiny-reserved4096.rpm");
    let copy = home.copy(&package);
    home.ok(&["sign", "--format", "detached", "--key", ED25519.name, "gen_tiny-reserved4096.rpm"]);
    assert_eq!(fs::read(&copy).unwrap(), fs::read(package).unwrap());
    accepted(ED25519, &home.work().join("gen_tiny-reserved4096.rpm.asc"), &copy);
}

#[test]
fn what_is_no_signature_is_never_replaced_by_one_and_named() {
    let home = Home::with_keys(PROGRAM, &[ED25519]);
    fs::write(home.work().join("data"), "data").unwrap();
    let secret = fs::read(ED25519.secret()).unwrap();
    let sidecar = home.work().join("data.asc");
    for content in [secret.as_slice(), b"notes", b""] {
        fs::write(&sidecar, content).unwrap();
        for choice in ["replace", "skip", "add", "refuse"] {
            let ran = home.run(&[
                "sign",
                "--format",
                "detached",
                "--key",
                ED25519.name,
                "--force",
                "--if-signed",
                choice,
                "data",
            ]);
            ran.failed_saying(&["data.asc", "no OpenPGP signature", "--output"]);
            assert_eq!(fs::read(&sidecar).unwrap(), content, "{choice}");
        }
    }
    assert_eq!(home.log_size(), 0);
    // A file of another tool that is not in the way is no hindrance, and stays.
    fs::rename(&sidecar, home.work().join("data.sig")).unwrap();
    home.ok(&["sign", "--format", "detached", "--key", ED25519.name, "data"]);
    accepted(ED25519, &sidecar, &home.work().join("data"));
    assert_eq!(fs::read(home.work().join("data.sig")).unwrap(), b"");
    // A signature is.
    home.ok(&["sign", "--format", "detached", "--key", ED25519.name, "--force", "data"]);
    accepted(ED25519, &sidecar, &home.work().join("data"));
}

#[test]
fn a_signature_file_that_is_none_is_named_itself() {
    let home = Home::with_keys(PROGRAM, &[ED25519]);
    fs::write(home.work().join("data"), "data").unwrap();
    let sidecar = home.work().join("data.asc");
    let sign = ["sign", "--format", "detached", "--key", ED25519.name, "data"];
    fs::create_dir(&sidecar).unwrap();
    home.run(&sign).failed_saying(&["data.asc", "directory"]);
    fs::remove_dir(&sidecar).unwrap();
    std::os::unix::fs::symlink("elsewhere", &sidecar).unwrap();
    home.run(&sign).failed_saying(&["data.asc", "symbolic link"]);
    fs::remove_file(&sidecar).unwrap();
    tools::succeed(std::process::Command::new("mkfifo").arg(&sidecar));
    home.run(&sign).failed_saying(&["data.asc", "FIFO"]);
    assert_eq!(home.log_size(), 0);
}

#[test]
fn a_dry_run_of_standard_input_asks_for_no_signature() {
    let home = Home::with_keys(PROGRAM, &[ED25519]);
    let arguments = ["sign", "--format", "detached", "--key", ED25519.name, "--dry-run", "-"];
    let ran = home.run_with_input(&arguments, b"data");
    assert_eq!(ran.code, Some(0), "{}", ran.text());
    assert!(ran.bytes.is_empty() && ran.stderr.contains("would sign standard input"), "{}", ran.text());
    let ran = home.run_with_input(&[&arguments[..], &["--json"]].concat(), b"data");
    assert_eq!(ran.json()[0]["status"], "would-sign");
    assert_eq!(home.log_size(), 0);
}
