//! Through a signd: what is asked is what obs-sign's client asks, what is written is what it wrote, and what a signd does wrong
//! never reaches a file.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use sealwright_testkit::fixtures;
use sealwright_testkit::sealwright::Ran;
use sealwright_testkit::tools::{self, Gpg, RpmKeys};
use tempfile::TempDir;

use crate::signd::{Manner, Signd};
use crate::{PACKAGE, PROGRAM, package};

const RSA: &str = "bench#rsa2048@copr.example.org";
/// The signing time of the captured connections.
const TIME: &str = "1796041642";

struct Client {
    folder: TempDir,
}

impl Client {
    fn of(signd: &Signd, more: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("sign.conf"), format!("{}{more}", signd.conf())).unwrap();
        Self { folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(PROGRAM);
        command
            .args(["obs-sign", "--config", "sign.conf"])
            .args(words)
            .current_dir(self.folder.path())
            .env("SEALWRIGHT_HOME", self.path("home"))
            .env_remove("SEALWRIGHT_SERVER")
            .env_remove("SEALWRIGHT_CLIENT_CONFIG")
            .stdin(Stdio::null());
        command
    }

    fn run(&self, words: &[&str]) -> Ran {
        Ran::from(tools::run(&mut self.command(words)))
    }

    fn ok(&self, words: &[&str]) -> Ran {
        let ran = self.run(words);
        assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "{words:?}: {}", ran.text());
        ran
    }
}

fn captured(name: &str) -> Vec<u8> {
    let all = fs::read_to_string(fixtures::path("obs/transcripts.tsv")).unwrap();
    let line = all.lines().find(|line| line.split('\t').next() == Some(name)).unwrap();
    let request = line.split('\t').nth(1).unwrap();
    (0..request.len()).step_by(2).map(|at| u8::from_str_radix(&request[at..at + 2], 16).unwrap()).collect()
}

fn public(key: &str) -> PathBuf {
    fixtures::path(&format!("obs/keys/{key}.pub.asc"))
}

fn gpg_accepts(key: &str, arguments: &[PathBuf]) -> bool {
    let gpg = Gpg::new();
    gpg.import(&public(key));
    tools::run(gpg.command().arg("--verify").args(arguments)).status.success()
}

fn document(client: &Client, name: &str) -> PathBuf {
    let copy = client.path(name);
    fs::copy(fixtures::path("obs/files/d.txt"), &copy).unwrap();
    copy
}

#[test]
fn requests_and_signatures_are_byte_for_byte_those_of_obs_signs_client() {
    let signd = Signd::start(Manner::Good);
    let client = Client::of(&signd, "");
    document(&client, "d.txt");
    client.ok(&["-4", "-h", "sha256", "-T", TIME, "-u", RSA, "-D", "d.txt"]);
    assert_eq!(
        fs::read(client.path("d.txt.sig")).unwrap(),
        fs::read(fixtures::path("obs/files/d.v4.sig")).unwrap()
    );
    let asked: Vec<Vec<u8>> = signd.asked().into_iter().map(|asked| asked.bytes).collect();
    // The public key takes the place of the probe: it says more, and costs no signature.
    assert_eq!(asked, [captured("pubkey-sha256.1"), captured("detached-raw-D-v4-sha256.2")]);
    client.ok(&["-t"]);
    assert_eq!(signd.asked().last().unwrap().bytes, captured("ping.1"));
    client.run(&["-u", "nosuch@example.org", "-h", "sha256", "-p"]);
    let key = client.ok(&["-u", RSA, "-p"]);
    assert_eq!(key.bytes, fs::read(public("rsa2048")).unwrap());
}

#[test]
fn packages_texts_and_files_are_signed_with_version_4_and_accepted() {
    let signd = Signd::start(Manner::Good);
    let client = Client::of(&signd, "hash: sha512\n");
    for (key, user) in [("rsa2048", RSA), ("ed25519", "bench#ed25519@copr.example.org")] {
        fs::write(client.path("a.rpm"), package()).unwrap();
        document(&client, "d.txt");
        document(&client, "c.txt");
        client.ok(&["-4", "-u", user, "-r", "a.rpm"]);
        client.ok(&["-u", user, "-d", "d.txt"]);
        client.ok(&["-u", user, "-c", "c.txt"]);
        let verdict = RpmKeys::new(&[public(key)]).check(&client.path("a.rpm"));
        assert!(verdict.is_signed_and_all_ok(), "{:?}", verdict.lines);
        assert!(
            verdict.signatures().iter().all(|line| line.contains(" V4 ") && line.contains("SHA512")),
            "{verdict:?}"
        );
        assert!(gpg_accepts(key, &[client.path("d.txt.asc"), client.path("d.txt")]));
        assert!(gpg_accepts(key, &[client.path("c.txt")]));
    }
    // sign.conf names the user, and -3 changes nothing but a word.
    fs::write(client.path("a.rpm"), package()).unwrap();
    let ran = client.run(&["-3", "--noheaderonly", "-r", "a.rpm"]);
    assert_eq!((ran.code, ran.stderr.lines().count()), (Some(0), 1), "{}", ran.stderr);
    let verdict = RpmKeys::new(&[public("ed25519")]).check(&client.path("a.rpm"));
    assert!(verdict.is_signed_and_all_ok(), "{:?}", verdict.lines);
}

#[test]
fn many_files_are_asked_for_with_one_look_at_the_key() {
    let signd = Signd::start(Manner::Good);
    let client = Client::of(&signd, "");
    let names: Vec<String> = (0..30).map(|number| format!("{number}.rpm")).collect();
    for name in &names {
        fs::write(client.path(name), package()).unwrap();
    }
    let words: Vec<&str> = ["-u", RSA, "-r"].into_iter().chain(names.iter().map(String::as_str)).collect();
    client.ok(&words);
    assert_eq!(signd.asked().len(), 31);
    let rpm = RpmKeys::new(&[public("rsa2048")]);
    for name in &names {
        assert!(rpm.check(&client.path(name)).is_signed_and_all_ok(), "{name}");
    }
}

#[test]
fn what_a_signd_does_wrong_is_refused_and_the_file_stays() {
    for (manner, said) in [
        (Manner::OtherDigest, "the returned signature does not verify"),
        (Manner::OtherKey, "the server's signature has another key algorithm than was asked for"),
        (Manner::OtherCount, "malformed"),
        (Manner::Probe, "the server's signature has another digest than was asked for"),
        (Manner::Cut, "the reply"),
        (Manner::Refusal, "bad hash"),
    ] {
        let signd = Signd::start(manner);
        let client = Client::of(&signd, "");
        fs::write(client.path("a.rpm"), package()).unwrap();
        let ran = client.run(&["-u", RSA, "-r", "a.rpm"]);
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), ""), "{manner:?}");
        assert!(ran.stderr.contains(said), "{manner:?}: {}", ran.stderr);
        assert!(ran.stderr.is_ascii() && !ran.stderr.contains('\u{1b}'), "{manner:?}: {}", ran.stderr);
        assert_eq!(fs::read(client.path("a.rpm")).unwrap(), package(), "{manner:?}");
        let left: Vec<_> =
            fs::read_dir(client.folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert!(left.iter().all(|name| !name.to_string_lossy().starts_with(".sealwright-")), "{left:?}");
    }
}

#[test]
fn what_is_no_public_key_is_not_printed_as_one() {
    for (manner, said) in [
        (Manner::KeyWithControls, "bytes in it that no armor has"),
        (Manner::KeyDamaged, "the checksum does not match"),
        (Manner::KeyOfNothing, "it is not in ascii armor"),
    ] {
        let signd = Signd::start(manner);
        let client = Client::of(&signd, "");
        let ran = client.run(&["-u", RSA, "-p"]);
        ran.failed_saying(&[said]);
        assert_eq!(ran.stdout, "", "{manner:?}");
        assert!(!ran.stderr.contains('\u{1b}'), "{manner:?}: {}", ran.stderr);
    }
    let signd = Signd::start(Manner::KeyWithControls);
    let ran = Client::of(&signd, "").run(&["-u", RSA, "-g", "rsa@2048", "800", "a", "b@example.org"]);
    ran.failed_saying(&["bytes in it that no armor has"]);
    assert_eq!(ran.stdout, "");
}

#[test]
fn a_signd_that_says_nothing_or_is_away_is_named_with_its_address() {
    let signd = Signd::start(Manner::Silent);
    let client = Client::of(&signd, "");
    client.run(&["-u", RSA, "-p"]).failed_saying(&["empty reply from server"]);
    fs::write(client.path("sign.conf"), "server: 127.0.0.1\nport: 1\n").unwrap();
    client.run(&["-u", RSA, "-p"]).failed_saying(&["signd at 127.0.0.1:1: connection refused", "sign.conf"]);
    client.run(&["-t"]).failed_saying(&["signd at 127.0.0.1:1: connection refused"]);
}

#[test]
fn refusals_of_signd_stand_at_the_beginning_of_a_line() {
    let signd = Signd::start(Manner::Good);
    let client = Client::of(&signd, "");
    fs::write(client.path("a.rpm"), package()).unwrap();
    for words in [&["-u", "nosuch@example.org", "-p"][..], &["-u", "nosuch@example.org", "-r", "a.rpm"]] {
        let ran = client.run(words);
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), ""));
        assert!(ran.stderr.starts_with("unknown key: nosuch@example.org\n"), "{}", ran.stderr);
    }
    client.run(&["-u", "bench#p256@copr.example.org", "-r", "a.rpm"]).failed_saying(&["nistp256"]);
    let asked = signd.asked().len();
    client.run(&["-u", "../x", "-p"]).failed_saying(&["illegal user ../x", "nothing was sent", "-u USER"]);
    assert_eq!(signd.asked().len(), asked);
    assert_eq!(fs::read(client.path("a.rpm")).unwrap(), package());
}

#[test]
fn a_reserved_port_is_used_where_it_may_be_unless_sign_conf_says_otherwise() {
    let signd = Signd::start(Manner::Good);
    let reserved = Client::of(&signd, "");
    reserved.ok(&["-t"]);
    let any = Client::of(&signd, "use-unprivileged-ports: true\n");
    any.ok(&["-t"]);
    let from: Vec<u16> = signd.asked().iter().map(|asked| asked.from.port()).collect();
    let may = rustix::process::geteuid().is_root();
    assert_eq!(from.iter().map(|port| *port < 1024).collect::<Vec<_>>(), [may, false], "{from:?}");
}

#[test]
fn sign_conf_with_a_mistake_or_half_of_tls_leads_nowhere() {
    let signd = Signd::start(Manner::Good);
    for (more, said) in [
        ("hash: md5\n", "sign.conf line 4: hash: it is not sha1, sha256 or sha512"),
        ("proto: ssl\n", "proto: ssl needs ssl_verifyfile"),
        ("proto: ssl\nssl_verifyfile: /ca\n", "proto: ssl needs ssl_certfile"),
    ] {
        let client = Client::of(&signd, more);
        client.run(&["-u", RSA, "-p"]).failed_saying(&[said]);
    }
    assert!(signd.asked().is_empty());
}

#[test]
fn a_configured_server_of_ours_is_asked_before_the_signd() {
    let signd = Signd::start(Manner::Good);
    let client = Client::of(&signd, "");
    let mut command = client.command(&["-u", RSA, "-p"]);
    let ran = Ran::from(tools::run(command.env("SEALWRIGHT_SERVER", "embedded")));
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), ""), "{}", ran.text());
    assert!(signd.asked().is_empty());
    assert!(!Path::new(&client.path("home")).exists(), "looking makes no store");
}

#[test]
fn mtime_and_buildtime_are_refused_with_the_way_to_name_the_time() {
    let signd = Signd::start(Manner::Good);
    let client = Client::of(&signd, "");
    fs::copy(fixtures::package(PACKAGE), client.path("a.rpm")).unwrap();
    client.run(&["-T", "mtime", "-u", RSA, "-r", "a.rpm"]).failed_saying(&["-T mtime", "stat -c %Y"]);
    assert!(signd.asked().is_empty());
}
