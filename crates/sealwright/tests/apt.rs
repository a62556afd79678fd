//! The index of an apt repository, both files in one call: apt itself takes it, and takes no other.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    reason = "tests"
)]

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use sealwright_testkit::fixtures::{ED25519, KeyFiles, RSA4096};
use sealwright_testkit::sealwright::{Home, Ran};
use sealwright_testkit::tools;

const PROGRAM: &str = env!("CARGO_BIN_EXE_sealwright");
const PACKAGES: &str = "Package: sealed-hello\nVersion: 1.0\nArchitecture: amd64\nMaintainer: Nobody <nobody@example.org>\n\
    Filename: pool/hello.deb\nSize: 4\nSHA256: 0000000000000000000000000000000000000000000000000000000000000000\n\
    Description: none\n\n";

/// A repository in the folder for files, and an apt that knows nothing else.
struct Site {
    home: Home,
    root: tempfile::TempDir,
}

impl Site {
    fn new(keys: &[KeyFiles]) -> Self {
        let site = Self { home: Home::with_keys(PROGRAM, keys), root: tempfile::tempdir().unwrap() };
        let index = site.dist().join("main/binary-amd64");
        fs::create_dir_all(&index).unwrap();
        fs::write(index.join("Packages"), PACKAGES).unwrap();
        for folder in ["etc/apt/apt.conf.d", "var/lib/apt/lists/partial", "var/cache/apt/archives/partial"] {
            fs::create_dir_all(site.root.path().join(folder)).unwrap();
        }
        fs::write(site.root.path().join("status"), "").unwrap();
        site.release("1.1");
        site
    }

    fn dist(&self) -> PathBuf {
        self.home.work().join("dists/stable")
    }

    fn file(&self, name: &str) -> PathBuf {
        self.dist().join(name)
    }

    fn read(&self, name: &str) -> Vec<u8> {
        fs::read(self.file(name)).unwrap()
    }

    fn release(&self, version: &str) {
        let digest = tools::succeed(Command::new("sha256sum").arg(self.file("main/binary-amd64/Packages")));
        let digest = String::from_utf8(digest).unwrap();
        let (digest, len) = (&digest[..64], PACKAGES.len());
        let text = format!(
            "Origin: Test\nLabel: Test \nVersion: {version}\nSuite: stable\nCodename: stable\nDate: Mon, 30 Nov 2026 10:00:00 UTC\n\
             Architectures: amd64\nComponents: main\nSHA256:\n {digest} {len} main/binary-amd64/Packages\n"
        );
        fs::write(self.file("Release"), text).unwrap();
    }

    fn sign(&self, key: KeyFiles, more: &[&str]) -> Ran {
        let fixed = ["sign", "--format", "apt-release", "--key", key.name, "dists/stable/Release"];
        self.home.run(&[&fixed, more].concat())
    }

    fn signed(&self, key: KeyFiles, more: &[&str]) {
        let ran = self.sign(key, more);
        assert_eq!(ran.code, Some(0), "{}", ran.text());
    }

    /// `apt-get update` by somebody who trusts this key.
    fn update(&self, key: KeyFiles) -> Output {
        let root = self.root.path();
        let source = format!(
            "deb [signed-by={} arch=amd64] file:{} stable main\n",
            key.public().display(),
            self.home.work().display()
        );
        fs::write(root.join("sources.list"), source).unwrap();
        let set = |name: &str, path: &str| format!("{name}={}", root.join(path).display());
        let mut command = Command::new("apt-get");
        for option in [
            set("Dir", ""),
            set("Dir::State::status", "status"),
            set("Dir::Etc::sourcelist", "sources.list"),
            "APT::Sandbox::User=".to_owned(),
            "APT::Architecture=amd64".to_owned(),
            "APT::Update::Error-Mode=any".to_owned(),
            "Acquire::Languages=none".to_owned(),
        ] {
            command.arg("-o").arg(option);
        }
        tools::run(command.arg("update"))
    }

    fn accepts(&self, key: KeyFiles) {
        let ran = self.update(key);
        assert!(ran.status.success(), "{}", tools::text(&ran));
        let lists = self.root.path().join("var/lib/apt/lists");
        let names =
            fs::read_dir(lists).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        assert!(
            names.into_iter().any(|name| name.contains("main_binary-amd64_Packages")),
            "nothing was read"
        );
    }

    fn refuses(&self, key: KeyFiles, words: &str) {
        let ran = self.update(key);
        assert!(!ran.status.success(), "{}", tools::text(&ran));
        assert!(tools::text(&ran).contains(words), "{}", tools::text(&ran));
    }
}

fn replace(path: &Path, from: &str, to: &str) {
    let text = fs::read_to_string(path).unwrap();
    assert!(text.contains(from));
    fs::write(path, text.replacen(from, to, 1)).unwrap();
}

#[test]
fn apt_takes_what_we_sign_and_nothing_that_was_changed() {
    let site = Site::new(&[RSA4096, ED25519]);
    let before = site.read("Release");
    for key in [RSA4096, ED25519] {
        site.signed(key, &[]);
        assert_eq!(site.read("Release"), before, "Release itself");
        site.accepts(key);
        let (signature, data) = (site.file("Release.gpg"), site.file("Release"));
        assert!(tools::gpgv(&[key.public()], &signature, &data).status.success());
        assert!(tools::sqv(&key.public(), &signature, &data).status.success());
    }
    site.refuses(RSA4096, "public key is not available");
    replace(&site.file("InRelease"), "Origin: Test", "Origin: Tost");
    site.refuses(ED25519, "BADSIG");
}

#[test]
fn apt_takes_the_detached_signature_where_there_is_no_inrelease() {
    let site = Site::new(&[ED25519]);
    site.signed(ED25519, &[]);
    fs::remove_file(site.file("InRelease")).unwrap();
    site.accepts(ED25519);
    replace(&site.file("Release"), "Origin: Test", "Origin: Tost");
    site.refuses(ED25519, "BADSIG");
}

#[test]
fn each_of_two_keys_is_enough_and_a_new_release_loses_the_old_ones() {
    let site = Site::new(&[RSA4096, ED25519]);
    site.signed(RSA4096, &[]);
    site.signed(ED25519, &["--if-signed", "add"]);
    site.accepts(RSA4096);
    site.accepts(ED25519);
    site.release("1.2");
    let old = ["InRelease", "Release.gpg"].map(|name| site.read(name));
    site.sign(ED25519, &["--if-signed", "add"]).failed_saying(&["InRelease", "another text"]);
    assert_eq!(["InRelease", "Release.gpg"].map(|name| site.read(name)), old);
    site.signed(ED25519, &[]);
    site.accepts(ED25519);
    site.refuses(RSA4096, "public key is not available");
}

#[test]
fn both_files_are_as_asked_for_or_both_stay() {
    let site = Site::new(&[ED25519]);
    site.signed(ED25519, &[]);
    let inodes = || ["InRelease", "Release.gpg"].map(|name| fs::metadata(site.file(name)).unwrap().ino());
    let before = inodes();
    let again = site.sign(ED25519, &[]);
    assert!(again.text().contains("already signed by this key (.gpg, InRelease)"), "{}", again.text());
    assert_eq!(inodes(), before);
    // One that is missing or no longer fits: both are made.
    fs::remove_file(site.file("Release.gpg")).unwrap();
    let signed = site.sign(ED25519, &[]);
    assert!(
        signed.text().contains("InRelease") && signed.text().contains("Release.gpg"),
        "{}",
        signed.text()
    );
    assert!(inodes()[0] != before[0]);
    site.release("1.2");
    site.signed(ED25519, &[]);
    // Where one cannot be written, the other is not either.
    site.release("1.3");
    let old = site.read("InRelease");
    fs::write(site.file("Release.gpg"), "notes\n").unwrap();
    site.sign(ED25519, &[]).failed_saying(&["Release.gpg", "was not touched"]);
    assert_eq!((site.read("InRelease"), site.read("Release.gpg")), (old, b"notes\n".to_vec()));
    let count = fs::read_dir(site.dist()).unwrap().count();
    assert_eq!(count, 4, "something was left behind");
}

#[test]
fn verifying_looks_at_both_files_and_at_whether_they_fit() {
    let site = Site::new(&[ED25519]);
    site.signed(ED25519, &[]);
    let keyring = ED25519.public();
    let verify = |more: &[&str], file: &str| {
        let mut arguments = vec!["verify", "--keyring", keyring.to_str().unwrap()];
        arguments.extend(more);
        let file = format!("dists/stable/{file}");
        arguments.push(&file);
        site.home.run(&arguments)
    };
    let both = verify(&["--format", "apt-release", "--json"], "Release");
    assert_eq!(both.code, Some(0), "{}", both.text());
    let signatures = both.json()[0]["signatures"].clone();
    let places: Vec<&str> =
        signatures.as_array().unwrap().iter().map(|signature| signature["place"].as_str().unwrap()).collect();
    assert_eq!(places, ["Release.gpg", "InRelease"]);
    for file in ["InRelease", "Release.gpg"] {
        assert_eq!(verify(&[], file).code, Some(0), "{file}");
    }
    site.release("1.2");
    verify(&["--format", "apt-release"], "Release").failed_saying(&["InRelease has another text"]);
    assert_eq!(verify(&[], "InRelease").code, Some(0), "valid by itself");
    assert_eq!(verify(&[], "Release.gpg").code, Some(1));
    site.sign(ED25519, &["--dry-run"]);
    verify(&["--format", "apt-release"], "Release").failed_saying(&["InRelease has another text"]);
    let inline = ["sign", "--format", "apt-release", "--key", ED25519.name, "dists/stable/InRelease"];
    site.home.run(&inline).failed_saying(&["clear-signed already", "Name the Release file"]);
}
