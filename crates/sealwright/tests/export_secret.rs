//! Secret keys given back to a home of GnuPG, as signd and gpg have them; gpg and rpm are the judges.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    reason = "tests"
)]

#[allow(dead_code, reason = "shared by several tests")]
#[path = "migrate/old.rs"]
mod old;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use sealwright_testkit::fixtures;
use sealwright_testkit::sealwright::{Home, Ran};
use sealwright_testkit::server::Server;
use sealwright_testkit::tools::{self, RpmKeys};

use old::{Old, named};

const PROGRAM: &str = env!("CARGO_BIN_EXE_sealwright");
const PACKAGE: &str = "gen_tiny-reserved4096.rpm";

fn export(home: &Home, to: &Old, names: &[&str], more: &[&str]) -> Ran {
    let (gnupg, phrases) = (to.gnupg(), to.phrases());
    let of = ["--gnupghome", gnupg.to_str().unwrap(), "--phrases", phrases.to_str().unwrap()];
    home.run(&[&["--json", "key", "export-secret"], names, &of, more].concat())
}

/// What signd does: gpg with the phrase of the file by a pipe.
fn sign_as_signd(old: &Old, name: &str, data: &Path) -> std::path::PathBuf {
    let signature = data.with_extension("sig");
    let phrase = old.phrases().join(name);
    let mut gpg = Command::new("gpg");
    gpg.arg("--homedir").arg(old.gnupg());
    gpg.args(["--batch", "--no-tty", "--yes", "--pinentry-mode", "loopback", "--passphrase-fd", "0"]);
    gpg.args(["--digest-algo", "SHA256", "-u", &format!("<{name}>"), "-o"]).arg(&signature);
    gpg.arg("--detach-sign").arg(data).stdin(fs::File::open(phrase).unwrap());
    tools::succeed(&mut gpg);
    signature
}

fn entries(folder: &Path) -> usize {
    fs::read_dir(folder).unwrap().count()
}

#[test]
fn keys_that_were_taken_over_and_keys_made_here_sign_in_the_old_home_again() {
    let old = Old::new();
    let fingerprint = old.copr_key("alice#one");
    let home = Home::new(PROGRAM);
    home.ok(&["import", "copr-keygen", old.text()]);
    let (imported, made, curve) = (named("alice#one"), named("alice#new"), named("alice#ed"));
    let uid = |name: &str| format!("new <{name}>");
    home.ok(&["key", "create", &made, "--algorithm", "rsa2048", "--uid", &uid(&made), "--obs-digest"]);
    home.ok(&["key", "create", &curve, "--algorithm", "ed25519", "--uid", &uid(&curve)]);

    let back = Old::new();
    let ran = export(&home, &back, &[&imported, &made, &curve], &["--secret-leaves-custody"]);
    assert_eq!(ran.code, Some(0), "{}", ran.text());
    assert_eq!(ran.json()[0]["fingerprint"], fingerprint);

    let data = home.work().join("document");
    fs::write(&data, "a document").unwrap();
    for name in [&imported, &made, &curve] {
        // gpg's signature by our certificate, and our signature by gpg's.
        let signature = sign_as_signd(&back, name, &data);
        let judged = tools::gpgv(&[home.export(name)], &signature, &data);
        assert!(judged.status.success(), "{name}: {}", tools::text(&judged));
        let mode = fs::metadata(back.phrases().join(name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let phrase = fs::read_to_string(back.phrases().join(name)).unwrap();
        assert!(!ran.text().contains(phrase.trim()), "the phrase of {name} was printed");
    }
    let package = home.copy(&fixtures::package(PACKAGE));
    home.ok(&["sign", "--key", &imported, PACKAGE]);
    let said = RpmKeys::new(&[back.public("alice#one")]).check(&package);
    assert!(said.is_signed_and_all_ok(), "{:?}", said.lines);
    assert!(!ran.text().contains("PRIVATE KEY"), "{}", ran.text());

    let record = fs::read_to_string(home.home().join("root/exports")).unwrap();
    let lines: Vec<&str> = record.lines().collect();
    assert_eq!(lines.len(), 3, "{record}");
    assert!(lines[0].contains(&fingerprint) && lines[0].contains(&imported), "{record}");
    // What is there already keeps its phrase, and the file with it.
    let before = fs::read(back.phrases().join(&imported)).unwrap();
    let again = export(&home, &back, &[&imported], &["--secret-leaves-custody"]);
    assert_eq!(again.code, Some(1), "{}", again.text());
    assert!(again.text().contains("has the secret"), "{}", again.text());
    assert_eq!(fs::read(back.phrases().join(&imported)).unwrap(), before);
}

#[test]
fn without_its_word_or_with_another_root_key_nothing_is_written() {
    let home = Home::new(PROGRAM);
    let name = named("alice#one");
    home.ok(&["key", "create", &name, "--algorithm", "ed25519"]);
    let back = Old::new();
    let ran = export(&home, &back, &[&name], &[]);
    assert_eq!(ran.code, Some(2), "{}", ran.text());
    assert!(ran.text().contains("for ever"), "{}", ran.text());
    let ran = export(&home, &back, &[&name], &["--secret-leaves-custody", "--server", "https://host:1"]);
    assert_eq!(ran.code, Some(2), "{}", ran.text());

    let taken = back.phrases().join(&name);
    fs::write(&taken, "of another\n").unwrap();
    let ran = export(&home, &back, &[&name], &["--secret-leaves-custody"]);
    assert_eq!(ran.code, Some(1), "{}", ran.text());
    assert_eq!(fs::read_to_string(&taken).unwrap(), "of another\n");
    fs::remove_file(&taken).unwrap();
    let ran = export(&home, &back, &["nobody"], &["--secret-leaves-custody"]);
    assert_eq!(ran.code, Some(1), "{}", ran.text());

    let other = Home::new(PROGRAM);
    other.ok(&["key", "create", "x", "--algorithm", "ed25519"]);
    // The data key of another directory of a signer.
    let ours = home.home().join("root");
    let kept = home.home().join("kept");
    fs::rename(&ours, &kept).unwrap();
    fs::create_dir(&ours).unwrap();
    fs::set_permissions(&ours, fs::Permissions::from_mode(0o700)).unwrap();
    for file in fs::read_dir(other.home().join("root")).unwrap() {
        let file = file.unwrap();
        fs::copy(file.path(), ours.join(file.file_name())).unwrap();
    }
    let ran = export(&home, &back, &[&name], &["--secret-leaves-custody"]);
    assert_eq!(ran.code, Some(1), "{}", ran.text());
    assert!(ran.text().contains("sealwright-signer"), "{}", ran.text());
    assert_eq!(entries(&back.phrases()), 0);
    fs::remove_dir_all(&ours).unwrap();
    fs::rename(&kept, &ours).unwrap();
    fs::copy(other.home().join("root/root.key"), home.home().join("root/root.key")).unwrap();
    let ran = export(&home, &back, &[&name], &["--secret-leaves-custody"]);
    assert_eq!(ran.code, Some(1), "{}", ran.text());
    assert!(ran.text().contains("wrong root key"), "{}", ran.text());
    assert_eq!(entries(&back.phrases()), 0);
    assert!(!home.home().join("root/exports").exists());
}

#[test]
fn of_a_server_that_runs_the_owner_of_its_files_exports_and_version_6_is_left_out() {
    let server = Server::running(PROGRAM, &[]);
    let (name, six) = (named("alice#one"), named("alice#six"));
    let uid = format!("new <{name}>");
    server.ok(&["key", "create", &name, "--algorithm", "ed25519", "--uid", &uid]);
    server.ok(&["key", "create", &six, "--algorithm", "ed25519", "--openpgp", "v6"]);
    let back = Old::new();
    let (gnupg, phrases) = (back.gnupg(), back.phrases());
    let config = server.directory().join("server.toml");
    let home = Home::new(PROGRAM);
    let names = ["key", "export-secret", &name, &six, "--secret-leaves-custody"];
    let folders = ["--gnupghome", gnupg.to_str().unwrap(), "--phrases", phrases.to_str().unwrap()];
    let config = ["--server-config", config.to_str().unwrap()];
    let ran = home.run(&[names.as_slice(), &folders, &config].concat());
    assert_eq!(ran.code, Some(1), "{}", ran.text());
    assert!(ran.text().contains("version 6"), "{}", ran.text());
    assert_eq!(entries(&phrases), 1);
    let data = home.work().join("document");
    fs::write(&data, "a document").unwrap();
    let signature = sign_as_signd(&back, &name, &data);
    let judged = tools::gpgv(&[back.public("alice#one")], &signature, &data);
    assert!(judged.status.success(), "{}", tools::text(&judged));
    // The service goes on with it.
    server.ok(&["sign", "--key", &name, "--format", "detached", data.to_str().unwrap()]);
    assert!(!server.log().contains("PRIVATE KEY"), "{}", server.log());
}
