//! What Copr's `copr_backend.sign` depends on: its two calls, the text for a missing key, one failing package among others.

use std::fs;
use std::process::Stdio;

use sealwright_testkit::sealwright::Ran;
use sealwright_testkit::tools::{self, RpmKeys};

use crate::{PACKAGE, USER, called_sign, package, project, rpm, sign, signs};

#[test]
fn both_calls_of_copr_work_by_the_name_sign_and_say_nothing() {
    let server = project();
    let key = Ran::from(tools::run(&mut called_sign(&server, &["-u", USER, "-p"])));
    assert_eq!((key.code, key.stderr.as_str()), (Some(0), ""));
    assert!(key.stdout.starts_with("-----BEGIN PGP PUBLIC KEY BLOCK-----\n"), "{}", key.stdout);
    let published = server.work().join("pubkey.gpg");
    fs::write(&published, &key.bytes).unwrap();
    let file = server.copy(PACKAGE);
    let words = ["-4", "-h", "sha256", "-u", USER, "-r", file.to_str().unwrap()];
    let signed = Ran::from(tools::run(&mut called_sign(&server, &words)));
    assert_eq!((signed.code, signed.text().as_str()), (Some(0), ""));
    let verdict = RpmKeys::new(&[published]).check(&file);
    assert!(verdict.is_signed_and_all_ok(), "{:?}", verdict.lines);
    assert!(verdict.signatures().iter().any(|line| line.contains("Header V4 EdDSA/SHA256")), "{verdict:?}");
}

#[test]
fn a_key_that_is_not_there_is_said_in_copr_s_words_and_nothing_is_touched() {
    let server = project();
    let file = server.copy(PACKAGE);
    let name = file.to_str().unwrap();
    for user in ["nobody#none@copr.example.org", "no/name", "proj@copr.example.org", &USER.to_uppercase()] {
        for words in
            [&["-u", user, "-p"][..], &["-4", "-h", "sha256", "-u", user, "-r", name], &["-u", user, "-k"]]
        {
            let ran = sign(&server, words);
            assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), ""), "{words:?}");
            assert!(ran.stderr.starts_with(&format!("unknown key: {user}\n")), "{}", ran.stderr);
        }
    }
    assert_eq!(fs::read(&file).unwrap(), package());
}

#[test]
fn a_failing_package_fails_alone_with_its_name() {
    let server = project();
    let good = server.copy(PACKAGE);
    let bad = server.work().join("bad.rpm");
    let mut damaged = package();
    let last = damaged.len() - 1;
    // In the main header: it is not what its digest says.
    damaged[4600] ^= 1;
    damaged[last] ^= 1;
    fs::write(&bad, &damaged).unwrap();
    let words = ["-4", "-h", "sha256", "-u", USER, "-r", "bad.rpm", good.to_str().unwrap(), "missing.rpm"];
    let ran = sign(&server, &words);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), ""));
    for name in ["bad.rpm: ", "missing.rpm: no such file"] {
        assert!(ran.stderr.lines().any(|line| line.starts_with(name)), "{name}: {}", ran.stderr);
    }
    assert_eq!(fs::read(&bad).unwrap(), damaged);
    assert!(rpm().check(&good).is_signed_and_all_ok());
}

#[test]
fn a_package_with_another_signature_is_signed_again_unless_it_is_to_be_kept() {
    let server = project();
    server.ok(&["key", "create", "other", "--algorithm", "ed25519"]);
    let file = server.copy(PACKAGE);
    let name = file.to_str().unwrap();
    signs(&server, &["-u", "other", "-r", name]);
    let foreign = fs::read(&file).unwrap();
    let kept = signs(&server, &["--keep-signed", "-u", USER, "-r", name]);
    assert_eq!(kept.stdout, format!("{name}: already signed\n"));
    assert_eq!(fs::read(&file).unwrap(), foreign);
    assert!(!rpm().check(&file).is_signed_and_all_ok());
    signs(&server, &["-u", USER, "-r", name]);
    let verdict = rpm().check(&file);
    assert!(verdict.is_signed_and_all_ok() && verdict.signatures().len() == 1, "{verdict:?}");
}

#[test]
fn a_server_that_is_away_is_a_failure_that_copr_repeats() {
    let server = project();
    let mut command = server.command(&["obs-sign", "-u", USER, "-p"]);
    command.env("SEALWRIGHT_SERVER", "https://localhost:1").stdout(Stdio::piped());
    let ran = Ran::from(tools::run(&mut command));
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), ""));
    assert!(
        ran.stderr.contains("connection refused") && !ran.stderr.contains("unknown key"),
        "{}",
        ran.stderr
    );
}
