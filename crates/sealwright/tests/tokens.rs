//! Keys on a token of SoftHSM2: made there, taken over, at work; sessions and logins counted; workers that die or stand
//! still under load, a token that refuses the PIN, and a module that is an enemy.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    reason = "tests"
)]

#[path = "tokens/configured.rs"]
mod configured;
#[path = "serve/load.rs"]
mod load;
#[path = "tokens/trouble.rs"]
mod trouble;
#[path = "tokens/walls.rs"]
mod walls;

use std::fs;
use std::path::Path;

use sealwright_testkit::fixtures::{self, ED25519};
use sealwright_testkit::sealwright::Home;
use sealwright_testkit::softhsm::{PIN, SoftHsm};
use sealwright_testkit::tools::{self, RpmKeys};
use sealwright_testkit::{pysequoia, server};

const PROGRAM: &str = env!("CARGO_BIN_EXE_sealwright");

/// A small package.
const PACKAGE: &str = "crc_empty-0-0.x86_64.rpm";

fn root(home: &Home) -> std::path::PathBuf {
    home.home().join("root")
}

/// A home whose token `hsm1` is a fresh one with a key `signer`.
fn home_with_token(more: &str) -> (Home, SoftHsm) {
    let hsm = SoftHsm::new();
    hsm.add_rsa("signer", "01");
    let home = Home::new(PROGRAM);
    SoftHsm::install(&root(&home), &hsm.entry(more), PIN);
    (home, hsm)
}

fn is_accepted(home: &Home, key: &str, name: &str) {
    fs::write(home.work().join(name), format!("of {key}\n")).unwrap();
    home.ok(&["sign", "--format", "detached", "--force", "--key", key, name]);
    let (data, signature) = (home.work().join(name), home.work().join(format!("{name}.asc")));
    let gpgv = tools::gpgv(&[home.export(key)], &signature, &data);
    assert!(gpgv.status.success(), "{key}: {}", tools::text(&gpgv));
}

#[test]
fn keys_that_are_made_on_a_token_and_keys_that_are_taken_over_sign_packages_and_files() {
    let (home, _hsm) = home_with_token("");
    home.ok(&["key", "create", "rsa", "--token", "hsm1", "--algorithm", "rsa3072"]);
    home.ok(&["key", "create", "ed", "--token", "hsm1", "--algorithm", "ed25519", "--signing-subkey"]);
    home.ok(&[
        "key",
        "import",
        "taken",
        "--token",
        "hsm1",
        "--object",
        "signer",
        "--uid",
        "T <t@example.org>",
    ]);
    home.ok(&["key", "create", "software", "--algorithm", "ed25519"]);
    for key in ["rsa", "ed", "taken", "software"] {
        is_accepted(&home, key, "text");
    }
    for key in ["rsa", "taken"] {
        let package = home.copy(&fixtures::package(PACKAGE));
        home.ok(&["sign", "--key", key, package.to_str().unwrap()]);
        let verdict = RpmKeys::new(&[home.export(key)]).check(&package);
        assert!(verdict.is_signed_and_all_ok(), "{key}: {verdict:?}");
    }
    let listed = home.ok(&["key", "list", "--json"]).json();
    let backend = |name: &str| {
        let key = listed.iter().find(|key| key["name"] == name).unwrap();
        (key["backend"].as_str().unwrap().to_owned(), key["algorithm"].as_str().unwrap().to_owned())
    };
    let on_token = |algorithm: &str| ("pkcs11:hsm1".to_owned(), algorithm.to_owned());
    assert_eq!(backend("rsa"), on_token("rsa3072"));
    assert_eq!(backend("ed"), on_token("ed25519"));
    assert_eq!(backend("taken"), on_token("rsa2048"));
    assert_eq!(backend("software").0, "software");
}

#[test]
fn a_version_6_certificate_of_a_key_on_a_token_is_read_and_renewed() {
    let (home, _hsm) = home_with_token("");
    home.ok(&[
        "key",
        "import",
        "taken",
        "--token",
        "hsm1",
        "--id",
        "01",
        "--openpgp",
        "v6",
        "--expires",
        "1y",
    ]);
    home.ok(&["key", "create", "ed", "--token", "hsm1", "--algorithm", "ed25519", "--openpgp", "v6"]);
    for key in ["taken", "ed"] {
        let data = home.work().join(key);
        fs::write(&data, key).unwrap();
        home.ok(&["sign", "--format", "detached", "--key", key, key]);
        let signature = home.work().join(format!("{key}.asc"));
        pysequoia::verify(&home.export(key), &signature, &data).unwrap();
        home.ok(&["key", "renew", key, "--expires", "3y"]);
        fs::remove_file(&signature).unwrap();
        home.ok(&["sign", "--format", "detached", "--key", key, key]);
        pysequoia::verify(&home.export(key), &signature, &data).unwrap();
    }
}

/// What is not there, or cannot be used, is refused by name, and nothing is stored.
#[test]
fn what_a_token_has_not_is_refused_by_name() {
    let (home, _hsm) = home_with_token("");
    let import = |arguments: &[&str]| home.run(&[&["key", "import", "k"], arguments].concat());
    import(&["--token", "hsm2", "--object", "signer"]).failed_saying(&["hsm2", "tokens.toml"]);
    import(&["--token", "hsm1", "--object", "nobody"]).failed_saying(&["hsm1", "no private key", "nobody"]);
    import(&["--token", "hsm1", "--id", "ff"]).failed_saying(&["no private key", "ff"]);
    for wrong in [
        vec!["--token", "hsm1"],
        vec!["--object", "signer"],
        vec!["--token", "hsm1", "--id", "0"],
        vec!["file", "--token", "hsm1", "--id", "01"],
    ] {
        assert_eq!(import(&wrong).code, Some(2), "{wrong:?}");
    }
    assert!(home.ok(&["key", "list", "--json"]).stdout.is_empty());
}

/// A key of which the token says that somebody could take it away is named.
#[test]
fn a_key_that_can_leave_its_token_is_warned_of() {
    let (home, hsm) = home_with_token("");
    let mut tool = std::process::Command::new("pkcs11-tool");
    tool.env("SOFTHSM2_CONF", hsm.folder().join("softhsm2.conf"));
    tool.args([
        "--module",
        sealwright_testkit::softhsm::MODULE,
        "--login",
        "--pin",
        PIN,
        "--token-label",
        "corpus",
    ]);
    tool.args(["--keypairgen", "--key-type", "rsa:2048", "--label", "loose", "--id", "02", "--extractable"]);
    tools::succeed(&mut tool);
    let ran = home.ok(&["key", "import", "k", "--token", "hsm1", "--object", "loose"]);
    assert!(ran.stderr.contains("Warning") && ran.stderr.contains("exported"), "{}", ran.text());
    let ran = home.ok(&["key", "import", "firm", "--token", "hsm1", "--object", "signer"]);
    assert!(!ran.stderr.contains("Warning"), "{}", ran.text());
}

/// Sessions, logins and searches of one run, counted in the module's own calls.
#[test]
fn sessions_stay_within_the_limit_and_a_run_logs_in_once_and_looks_for_a_key_once() {
    for limit in [1, 4, 16] {
        let hsm = SoftHsm::new();
        hsm.add_rsa("signer", "01");
        let home = Home::new(PROGRAM);
        SoftHsm::install(&root(&home), &hsm.spied_entry(&format!("sessions_max = {limit}")), PIN);
        home.ok(&["key", "import", "k", "--token", "hsm1", "--object", "signer"]);
        let _ = hsm.spied();
        fs::create_dir(home.work().join("files")).unwrap();
        for number in 0..100 {
            fs::write(home.work().join(format!("files/{number}")), number.to_string()).unwrap();
        }
        let mut names: Vec<String> = (0..100).map(|number| format!("files/{number}")).collect();
        let mut arguments: Vec<String> =
            ["sign", "--format", "detached", "--jobs", "32", "--key", "k"].map(str::to_owned).to_vec();
        arguments.append(&mut names);
        home.ok(&arguments);
        let spied = hsm.spied();
        assert_eq!(spied.signatures, 100, "{spied:?}");
        assert_eq!((spied.logins, spied.left_open), (1, 0), "{spied:?}");
        assert!((1..=limit).contains(&spied.open_max), "{limit}: {spied:?}");
        // Each thread that comes at once may look; afterwards nobody does.
        assert!((1..=limit).contains(&spied.searches), "{limit}: {spied:?}");
    }
}

/// Looking, and signing with other keys, does not touch the token.
#[test]
fn who_needs_no_token_does_not_log_in() {
    let hsm = SoftHsm::new();
    let home = Home::new(PROGRAM);
    SoftHsm::install(&root(&home), &hsm.spied_entry(""), PIN);
    home.import(ED25519.name, &ED25519.secret());
    is_accepted(&home, ED25519.name, "text");
    home.ok(&["key", "list"]);
    assert_eq!(hsm.spied(), sealwright_testkit::softhsm::Spied::default());
}

/// A token locks itself after a few wrong PINs: one is enough, in this run and in all that follow.
#[test]
fn a_wrong_pin_is_tried_once_until_its_file_is_written_anew() {
    let hsm = SoftHsm::new();
    hsm.add_rsa("signer", "01");
    let home = Home::new(PROGRAM);
    let entry = hsm.spied_entry("");
    SoftHsm::install(&root(&home), &entry, PIN);
    home.ok(&["key", "import", "k", "--token", "hsm1", "--object", "signer"]);
    home.import(ED25519.name, &ED25519.secret());
    let _ = hsm.spied();
    SoftHsm::install(&root(&home), &entry, "9999");
    fs::write(home.work().join("text"), "text").unwrap();
    for _ in 0..4 {
        home.run(&["sign", "--format", "detached", "--key", "k", "text"])
            .failed_saying(&["hsm1", "down: wrong PIN"]);
    }
    let spied = hsm.spied();
    assert_eq!((spied.logins, spied.signatures), (1, 0), "{spied:?}");
    is_accepted(&home, ED25519.name, "other");
    SoftHsm::install(&root(&home), &entry, PIN);
    is_accepted(&home, "k", "text");
    assert_eq!(hsm.spied().logins, 1);
}

/// Down: it is said so. There again: the next request has it, and nobody restarts anything.
#[test]
fn a_token_that_is_not_there_is_said_to_be_gone_and_used_as_soon_as_it_is_there() {
    let (home, hsm) = home_with_token("");
    home.ok(&["key", "import", "k", "--token", "hsm1", "--object", "signer"]);
    let (there, away) = (hsm.folder().join("tokens"), hsm.folder().join("away"));
    fs::rename(&there, &away).unwrap();
    fs::create_dir(&there).unwrap();
    fs::write(home.work().join("text"), "text").unwrap();
    let failed = home.run(&["sign", "--json", "--format", "detached", "--key", "k", "text"]);
    assert_eq!(failed.json()[0]["code"], "token-gone", "{}", failed.text());
    fs::remove_dir(&there).unwrap();
    fs::rename(&away, &there).unwrap();
    is_accepted(&home, "k", "text");
}

/// The signer's maps have no module, those of its keepers neither; only the worker's do.
fn only_the_worker_has_the_module(signer: u32) {
    let has = |pid: u32| fs::read_to_string(format!("/proc/{pid}/maps")).unwrap().contains("softhsm");
    let keepers = server::children(signer);
    assert_eq!(keepers.len(), 1);
    let (worker, spare) = (worker_of(signer).unwrap(), called(keepers[0], "token-keeper").unwrap());
    assert_eq!(server::children(keepers[0]).len(), 2);
    assert_eq!([signer, keepers[0], spare, worker].map(has), [false, false, false, true]);
}

fn worker_of(signer: u32) -> Option<u32> {
    called(server::children(signer).into_iter().next()?, "token-worker")
}

/// The child that was started with this command.
fn called(parent: u32, command: &str) -> Option<u32> {
    server::children(parent).into_iter().find(|pid| {
        let line = fs::read(Path::new("/proc").join(pid.to_string()).join("cmdline")).unwrap_or_default();
        line.split(|byte| *byte == 0).nth(1) == Some(command.as_bytes())
    })
}
