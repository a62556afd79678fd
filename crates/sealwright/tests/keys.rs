//! Keys: made, imported, renewed, revoked, disabled; gpg is the judge.

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
use std::path::{Path, PathBuf};

use sealwright_testkit::fixtures::{self, ED25519, RSA4096};
use sealwright_testkit::sealwright::Home;
use sealwright_testkit::tools::{self, Gpg, RpmKeys};

const PROGRAM: &str = env!("CARGO_BIN_EXE_sealwright");
const PACKAGE: &str = "gen_tiny-reserved4096.rpm";

fn unsigned() -> Vec<u8> {
    fs::read(fixtures::package(PACKAGE)).unwrap()
}

/// The revocation certificate that was made with a key.
fn revocation(home: &Home, name: &str) -> PathBuf {
    let shown = home.ok(&["key", "show", name, "--json"]);
    let fingerprint = shown.json()[0]["fingerprint"].as_str().unwrap().to_owned();
    home.home().join("revocations").join(format!("{fingerprint}.asc"))
}

#[test]
fn keys_of_every_algorithm_are_taken_by_gpg_and_rpm_and_their_signatures_verify() {
    let home = Home::new(PROGRAM);
    for algorithm in ["rsa2048", "rsa3072", "rsa4096", "ed25519"] {
        let uid = format!("Test {algorithm} <{algorithm}@example.org>");
        home.ok(&["key", "create", algorithm, "--algorithm", algorithm, "--uid", &uid, "--expires", "2y"]);
        let certificate = home.export(algorithm);
        let gpg = Gpg::new();
        gpg.import(&certificate);
        let listed = gpg.list();
        assert!(
            listed.contains(&uid)
                && listed.lines().any(|line| line.starts_with("pub:u:") || line.starts_with("pub:-:")),
            "{listed}"
        );
        let file = home.copy(&fixtures::package(PACKAGE));
        home.ok(&["sign", "--key", algorithm, PACKAGE]);
        let said = RpmKeys::new(&[certificate]).check(&file);
        assert!(said.is_signed_and_all_ok(), "{algorithm}: {:?}", said.lines);
    }
}

#[test]
fn a_signing_subkey_signs_and_gpg_finds_it() {
    let home = Home::new(PROGRAM);
    home.ok(&[
        "key",
        "create",
        "sub",
        "--algorithm",
        "ed25519",
        "--uid",
        "Sub <sub@example.org>",
        "--signing-subkey",
    ]);
    let certificate = home.export("sub");
    let gpg = Gpg::new();
    gpg.import(&certificate);
    let listed = gpg.list();
    assert!(
        listed.lines().any(|line| line.starts_with("sub:") && line.split(':').nth(11) == Some("s")),
        "{listed}"
    );
    let data = home.work().join("data");
    fs::write(&data, "data").unwrap();
    home.ok(&["sign", "--format", "detached", "--key", "sub", "data"]);
    let output = tools::gpgv(std::slice::from_ref(&certificate), &home.work().join("data.asc"), &data);
    assert!(output.status.success(), "{}", tools::text(&output));
    let shown = &home.ok(&["key", "show", "sub", "--json"]).json()[0];
    assert_ne!(shown["fingerprint"], shown["signing_fingerprint"]);
    let issuer = shown["signing_fingerprint"].as_str().unwrap().to_uppercase();
    assert!(tools::text(&output).to_uppercase().contains(&issuer), "{}", tools::text(&output));
    let revoked = Gpg::new();
    revoked.import(&certificate);
    revoked.import(&revocation(&home, "sub"));
    assert!(revoked.list().lines().any(|line| line.starts_with("pub:r:")), "{}", revoked.list());
}

#[test]
fn the_revocation_certificate_made_with_a_key_revokes_it_in_gpg() {
    let home = Home::new(PROGRAM);
    for algorithm in ["rsa2048", "ed25519"] {
        home.ok(&["key", "create", algorithm, "--algorithm", algorithm]);
        let revocation = revocation(&home, algorithm);
        assert_eq!(fs::metadata(&revocation).unwrap().permissions().mode() & 0o777, 0o600);
        let gpg = Gpg::new();
        gpg.import(&home.export(algorithm));
        assert!(!gpg.list().lines().any(|line| line.starts_with("pub:r:")), "{}", gpg.list());
        gpg.import(&revocation);
        assert!(gpg.list().lines().any(|line| line.starts_with("pub:r:")), "{}", gpg.list());
    }
}

#[test]
fn renewal_moves_the_expiry_and_gpg_takes_it() {
    let home = Home::new(PROGRAM);
    home.ok(&["key", "create", "short", "--algorithm", "ed25519", "--expires", "90d", "--signing-subkey"]);
    let gpg = Gpg::new();
    gpg.import(&home.export("short"));
    let first = expiries(&gpg);
    home.ok(&["key", "renew", "short", "--expires", "3y"]);
    gpg.import(&home.export("short"));
    let second = expiries(&gpg);
    assert_eq!(first.len(), second.len());
    for (before, after) in first.iter().zip(&second) {
        assert!(after - before > 900 * 86_400, "{first:?} {second:?}");
    }
}

/// Expiry times of primary and subkeys.
fn expiries(gpg: &Gpg) -> Vec<i64> {
    gpg.list()
        .lines()
        .filter(|line| line.starts_with("pub:") || line.starts_with("sub:"))
        .map(|line| line.split(':').nth(6).unwrap().parse().unwrap())
        .collect()
}

#[test]
fn an_expired_key_gives_no_signature() {
    let home = Home::new(PROGRAM);
    home.ok(&["key", "create", "short", "--algorithm", "ed25519", "--expires", "90d"]);
    home.copy(&fixtures::package(PACKAGE));
    home.run_at("+200 days", &["sign", "--key", "short", PACKAGE]).failed_saying(&["short", "expired"]);
    assert_eq!(fs::read(home.work().join(PACKAGE)).unwrap(), unsigned());
    let ran = home.run(&[
        "key",
        "import",
        "old",
        fixtures::key("gen_expired-primary-rsa2048.sec.asc").to_str().unwrap(),
    ]);
    if ran.code == Some(0) {
        home.run(&["sign", "--key", "old", PACKAGE]).failed_saying(&["expired"]);
    } else {
        ran.failed_saying(&["expired"]);
    }
    assert_eq!(fs::read(home.work().join(PACKAGE)).unwrap(), unsigned());
}

#[test]
fn a_disabled_key_gives_no_signature_until_it_is_enabled() {
    let home = Home::with_keys(PROGRAM, &[ED25519]);
    home.copy(&fixtures::package(PACKAGE));
    home.ok(&["key", "disable", ED25519.name]);
    home.run(&["sign", "--key", ED25519.name, PACKAGE]).failed_saying(&[ED25519.name, "disabled"]);
    assert_eq!(fs::read(home.work().join(PACKAGE)).unwrap(), unsigned());
    home.ok(&["key", "enable", ED25519.name]);
    home.ok(&["sign", "--key", ED25519.name, PACKAGE]);
}

#[test]
fn a_name_is_never_used_twice() {
    let home = Home::with_keys(PROGRAM, &[ED25519]);
    home.run(&["key", "create", ED25519.name, "--algorithm", "ed25519"]).failed_saying(&[ED25519.name]);
}

#[test]
fn a_protected_key_needs_its_passphrase() {
    let home = Home::new(PROGRAM);
    let file = fixtures::key("gen_rsa3072-passphrase.sec.asc");
    let passphrase = home.work().join("passphrase");
    home.run(&["key", "import", "p", file.to_str().unwrap()]).failed_saying(&["passphrase"]);
    fs::write(&passphrase, "wrong\n").unwrap();
    let import = |name: &str| {
        home.run(&[
            "key".as_ref(),
            "import".as_ref(),
            name.as_ref(),
            file.as_os_str(),
            "--passphrase-file".as_ref(),
            passphrase.as_os_str(),
        ])
    };
    import("p").failed_saying(&["passphrase"]);
    fs::write(&passphrase, "corpus-pass\n").unwrap();
    assert_eq!(import("p").code, Some(0));
    home.copy(&fixtures::package(PACKAGE));
    home.ok(&["sign", "--key", "p", PACKAGE]);
    let said =
        RpmKeys::new(&[fixtures::key("gen_rsa3072-passphrase.pub.asc")]).check(&home.work().join(PACKAGE));
    assert!(said.is_signed_and_all_ok(), "{:?}", said.lines);
}

#[test]
fn what_cannot_sign_is_refused_at_import_by_name() {
    let home = Home::new(PROGRAM);
    for (file, words) in [
        ("gen_dsa1024.sec.asc", "DSA"),
        ("gen_nistp256.sec.asc", "nistp256"),
        ("gen_nistp384.sec.asc", "nistp384"),
        ("gen_certonly-encrypt-sub-no-sign.sec.asc", "sign"),
        ("gen_rsa4096.pub.asc", "secret"),
        ("nfpm_wrong_key_format.pub", "PUBLIC KEY"),
        ("rpmorg_rpm.org-v6-mldsa87-test.secret", "unknown algorithm (31)"),
        ("rpgp_v6-legacy_illegal_tsk.asc", "version 6"),
    ] {
        home.run(&["key", "import", "x", fixtures::key(file).to_str().unwrap()]).failed_saying(&[words]);
    }
    assert_eq!(home.ok(&["key", "list", "--json"]).json().len(), 0, "a refused key is listed");
}

#[test]
fn what_a_key_is_sealed_for_is_said_when_it_is_made_and_shown() {
    let home = Home::new(PROGRAM);
    let usages = |name: &str| {
        let shown = home.ok(&["key", "show", name, "--json"]).json();
        let usages = shown[0]["usages"].as_array().unwrap().clone();
        let usages: Vec<_> = usages.iter().map(|usage| usage.as_str().unwrap().to_owned()).collect();
        (usages.join(","), shown[0]["fingerprint"] == shown[0]["signing_fingerprint"])
    };
    let create = |name: &str, options: &[&str]| {
        home.ok(&[&["key", "create", name, "--algorithm", "ed25519"][..], options].concat());
        usages(name)
    };
    assert_eq!(create("plain", &[]), ("openpgp".to_owned(), true));
    // Who may have a digest signed can then certify nobody: a subkey signs.
    assert_eq!(create("subkey", &["--obs-digest"]), ("openpgp,obs-digest".to_owned(), false));
    let on_primary = ["--obs-digest=sha1", "--obs-digest-on-primary"];
    assert_eq!(create("primary", &on_primary), ("openpgp,obs-digest,obs-digest-sha1".to_owned(), true));
    let secret = fixtures::path("obs/keys/rsa2048.sec.asc");
    let import = ["key", "import", "imported", secret.to_str().unwrap(), "--obs-digest"];
    home.run(&import).failed_saying(&["--obs-digest-on-primary"]);
    home.ok(&[&import[..], &["--obs-digest-on-primary", "--obs-project-keys"]].concat());
    assert_eq!(usages("imported"), ("openpgp,obs-digest,obs-project-keys".to_owned(), true));
    let shown = home.ok(&["key", "show", "imported"]).text();
    assert!(shown.contains("openpgp, obs-digest, obs-project-keys"), "{shown}");
}

#[test]
fn secrets_are_readable_by_their_owner_alone_and_not_in_the_store() {
    let home = Home::with_keys(PROGRAM, &[RSA4096]);
    let mut files = Vec::new();
    walk(&home.home(), &mut files);
    assert!(!files.is_empty());
    let armored = fs::read_to_string(RSA4096.secret()).unwrap();
    let secret = dearmored(&armored);
    // Any 32 bytes of the secret integers, which are at the end of the packet before the user id.
    let needle = &secret[700..732];
    for file in files {
        let mode = fs::metadata(&file).unwrap().permissions().mode() & 0o077;
        assert_eq!(mode, 0, "{} is open to others", file.display());
        let bytes = fs::read(&file).unwrap();
        assert!(
            !bytes.windows(needle.len()).any(|window| window == needle),
            "{} has the clear key",
            file.display()
        );
    }
}

fn dearmored(armored: &str) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("key.asc");
    fs::write(&file, armored).unwrap();
    tools::succeed(Gpg::new().command().args(["--dearmor", "--output", "-"]).arg(&file))
}

fn walk(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { walk(&path, files) } else { files.push(path) }
    }
}
