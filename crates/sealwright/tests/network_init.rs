//! `sealwright init`: what it makes, for whose eyes, and what it leaves alone.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::panic,
    clippy::print_stderr,
    reason = "tests"
)]

#[allow(dead_code, reason = "shared by several tests")]
#[path = "network/site.rs"]
mod site;

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::Command;

use sealwright_testkit::sealwright::{Home, Ran};
use sealwright_testkit::tools;

use site::{Site, mode};

const PROGRAM: &str = env!("CARGO_BIN_EXE_sealwright");

/// Every file and directory below, with its content.
fn tree(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let mut all = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            all.extend(tree(&path));
        } else {
            all.push((path.display().to_string(), fs::read(&path).unwrap()));
        }
    }
    all.sort();
    all
}

fn registered(site: &Site) -> Vec<Vec<String>> {
    let text = fs::read_to_string(site.directory().join("ca/issued.tsv")).unwrap();
    text.lines().map(|line| line.split('\t').map(str::to_owned).collect()).collect()
}

#[test]
fn secrets_are_for_their_owner_whatever_the_umask_is_and_front_may_read_its_configuration() {
    let folder = tempfile::tempdir().unwrap();
    for umask in ["000", "077"] {
        let server = folder.path().join(umask);
        let script = "umask $1; exec \"$0\" init --directory \"$2\" --name localhost";
        let mut sh = Command::new("sh");
        sh.args(["-c", script, env!("CARGO_BIN_EXE_sealwright"), umask]).arg(&server);
        let made = Ran::from(tools::run(&mut sh));
        assert_eq!(made.code, Some(0), "{}", made.text());
        for (name, want) in [
            ("", 0o700),
            ("ca", 0o700),
            ("ca/ca.key", 0o600),
            ("ca/issued.tsv", 0o600),
            ("tls/server.key", 0o600),
            ("tls/server.pem", 0o644),
            ("server.toml", 0o640),
            ("clients.toml", 0o640),
            ("clients", 0o700),
            ("clients/admin", 0o700),
            ("clients/admin/client.key", 0o600),
            ("root", 0o700),
            ("root/root.key", 0o600),
            ("store", 0o700),
        ] {
            assert_eq!(mode(&server.join(name)), want, "umask {umask}: {name}");
        }
        let check = Command::new(env!("CARGO_BIN_EXE_sealwright"))
            .args(["serve", "--check-config", "--config"])
            .arg(server.join("server.toml"))
            .output()
            .unwrap();
        assert!(check.status.success(), "{}", tools::text(&check));
    }
    let left: BTreeSet<_> =
        fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left.len(), 2, "{left:?}");
}

#[test]
fn a_second_init_refuses_names_what_is_there_and_changes_nothing() {
    let site = Site::new(&["--name", "localhost"]);
    let before = tree(&site.directory());
    let again = site.init(&[]);
    again.failed_saying(&["server.toml", "is there", "--directory"]);
    assert_eq!(tree(&site.directory()), before);
}

#[test]
fn an_init_that_cannot_be_completed_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let long = folder.path().join("n".repeat(100));
    let ran = Ran::from(tools::run(
        Command::new(env!("CARGO_BIN_EXE_sealwright")).args(["init", "--directory"]).arg(&long),
    ));
    assert_eq!(ran.code, Some(2), "{}", ran.text());
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn the_certificates_are_what_openssl_and_the_rules_say() {
    let site = Site::new(&["--name", "sign.example", "--name", "192.0.2.7"]);
    let openssl = |file: &str| {
        let file = site.directory().join(file);
        let text = tools::succeed(Command::new("openssl").args(["x509", "-noout", "-text", "-in"]).arg(file));
        String::from_utf8(text).unwrap()
    };
    let ca = openssl("ca/ca.pem");
    for want in ["CA:TRUE, pathlen:0", "Certificate Sign, CRL Sign", "NIST CURVE: P-256"] {
        assert!(ca.contains(want), "{want}: {ca}");
    }
    let server = openssl("tls/server.pem");
    for want in
        ["TLS Web Server Authentication", "DNS:sign.example, IP Address:192.0.2.7", "Digital Signature"]
    {
        assert!(server.contains(want), "{want}: {server}");
    }
    assert!(!server.contains("Client Authentication"));
    let client = openssl("clients/admin/client.pem");
    assert!(client.contains("TLS Web Client Authentication") && client.contains("CN = admin"), "{client}");
    assert!(!client.contains("Server Authentication"));
    for (file, purpose) in [("tls/server.pem", "sslserver"), ("clients/admin/client.pem", "sslclient")] {
        let mut verify = Command::new("openssl");
        verify.args(["verify", "-x509_strict", "-purpose", purpose, "-CAfile"]);
        tools::succeed(verify.arg(site.directory().join("ca/ca.pem")).arg(site.directory().join(file)));
    }
}

#[test]
fn a_client_is_added_renewed_and_revoked_and_what_a_person_wrote_stays() {
    let site = Site::new(&["--name", "localhost"]);
    let clients = site.directory().join("clients.toml");
    fs::write(&clients, fs::read_to_string(&clients).unwrap() + "\n# by hand\n").unwrap();
    assert_eq!(site.init(&["--client", "build-7", "--key", "release", "--key", "nightly"]).code, Some(0));
    let text = || fs::read_to_string(&clients).unwrap();
    assert!(text().contains("name = \"build-7\"\nkeys = [\"release\", \"nightly\"]\n"), "{}", text());
    let folder = site.directory().join("clients/build-7");
    let (before, entry) = (fs::read(folder.join("client.pem")).unwrap(), text());
    assert_eq!(site.init(&["--client", "build-7"]).code, Some(0));
    assert_ne!(fs::read(folder.join("client.pem")).unwrap(), before, "renewed");
    assert_eq!(text(), entry, "the entry is kept");
    let granted = site.init(&["--client", "build-7", "--key", "other"]);
    assert_eq!((granted.code, text()), (Some(2), entry), "grants are a person's");
    let revoked = site.init(&["--json", "--revoke", "build-7"]);
    assert_eq!((revoked.code, &revoked.json()[0]["revoked"]), (Some(0), &2.into()), "{}", revoked.text());
    let lines = registered(&site);
    let of_client: Vec<_> = lines.iter().filter(|line| line[2] == "build-7").collect();
    assert_eq!(of_client.len(), 2);
    assert!(of_client.iter().all(|line| text().contains(&line[0]) && line[0].len() == 32), "{}", text());
    assert!(text().contains("# by hand"));
    let serials: BTreeSet<_> = lines.iter().map(|line| &line[0]).collect();
    assert_eq!(serials.len(), lines.len());
    assert_eq!(site.init(&["--revoke", "nobody"]).code, Some(1));
    for name in ["a/b", "..", "local", ".x", ""] {
        assert_eq!(site.init(&["--client", name]).code, Some(2), "{name:?}");
    }
}

#[test]
fn a_renewed_server_certificate_keeps_the_key_and_the_names_and_adds_those_given_unless_they_are_all() {
    let site = Site::new(&["--name", "localhost"]);
    let (key, certificate) =
        (site.directory().join("tls/server.key"), site.directory().join("tls/server.pem"));
    let (key_before, certificate_before) = (fs::read(&key).unwrap(), fs::read(&certificate).unwrap());
    assert_eq!(site.init(&["--renew-server"]).code, Some(0));
    assert_ne!(fs::read(&certificate).unwrap(), certificate_before);
    assert_eq!(fs::read(&key).unwrap(), key_before);
    let names = || {
        let text = tools::succeed(
            Command::new("openssl")
                .args(["x509", "-noout", "-ext", "subjectAltName", "-in"])
                .arg(&certificate),
        );
        String::from_utf8(text).unwrap()
    };
    assert!(names().contains("DNS:localhost"), "{}", names());
    assert_eq!(site.init(&["--renew-server", "--name", "sign.example"]).code, Some(0));
    assert!(names().contains("DNS:localhost, DNS:sign.example"), "{}", names());
    // One that it has is not there twice.
    assert_eq!(site.init(&["--renew-server", "--name", "sign.example", "--name", "::1"]).code, Some(0));
    assert_eq!(names().matches("DNS:").count(), 2, "{}", names());
    let only = site.init(&["--renew-server", "--only-names", "--name", "sign.example", "--name", "0::1"]);
    assert!(only.text().contains("sign.example, ::1") && !only.text().contains("0::1"), "{}", only.text());
    assert!(names().contains("DNS:sign.example") && !names().contains("localhost"), "{}", names());
    assert_eq!(site.init(&["--renew-server", "--only-names"]).code, Some(2));
    assert_eq!(registered(&site).iter().filter(|line| line[1] == "server").count(), 5);
}

#[test]
fn without_the_authority_nothing_is_issued_and_serving_goes_on() {
    let mut site = Site::with_key();
    fs::rename(site.directory().join("ca"), site.work().join("ca")).unwrap();
    site.init(&["--client", "late"]).failed_saying(&["ca.pem", "Put the folder ca back"]);
    assert!(!fs::read_to_string(site.directory().join("clients.toml")).unwrap().contains("late"));
    site.stop();
    site.start();
    site.ok("admin", &["key", "list"]);
}

#[test]
fn two_users_get_what_is_theirs_and_the_server_signs_with_them() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("left out: only root can give files to other users");
        return;
    }
    let mut site = Site::new(&["--name", "localhost", "--user-front", "www-data", "--user-signer", "daemon"]);
    let at = |name: &str| fs::metadata(site.directory().join(name)).unwrap().uid();
    let (front, signer) = (at("store"), at("root"));
    assert!(front != 0 && signer != 0 && front != signer);
    for (name, owner) in [
        ("tls/server.key", front),
        ("root/root.key", signer),
        ("ca/ca.key", 0),
        ("server.toml", 0),
        ("clients", 0),
    ] {
        assert_eq!(at(name), owner, "{name}");
    }
    let text = fs::read_to_string(site.directory().join("server.toml")).unwrap();
    assert!(text.contains("[users]") && text.contains("front = \"www-data\""), "{text}");
    site.start();
    site.ok("admin", &["key", "create", "release", "--algorithm", "ed25519"]);
    site.packages(1);
    site.ok("admin", &["sign", "--key", "release", "0.rpm"]);
    // Nobody owns store and root key both: the way back says what root can do.
    let home = site.directory();
    let config = home.join("server.toml");
    let words = ["key", "export-secret", "release", "--secret-leaves-custody", "--gnupghome", "."];
    let more = ["--phrases", ".", "--server-config", config.to_str().unwrap()];
    let ran = Home::new(PROGRAM).run(&[words.as_slice(), &more].concat());
    ran.failed_saying(&["another user", "stop the server", "take [users] out"]);
    assert!(!home.join("root/exports").exists());
}

#[test]
fn init_says_under_which_name_clients_find_the_server() {
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().join("server");
    let mut init = Command::new(PROGRAM);
    init.args(["init", "--name", "127.0.0.1", "--port", "7555", "--directory"]).arg(&directory);
    let said = String::from_utf8(tools::succeed(&mut init)).unwrap();
    assert!(said.contains("https://127.0.0.1:7555"), "{said}");
    let client = fs::read_to_string(directory.join("clients/admin/client.toml")).unwrap();
    assert!(client.contains("\"https://127.0.0.1:7555\""), "{client}");
}
