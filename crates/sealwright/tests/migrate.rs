//! Keys of copr-keygen and of signd taken over: homes of GnuPG made as those make them, gpg and rpm are the judges.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    reason = "tests"
)]

#[path = "migrate/old.rs"]
mod old;
#[allow(dead_code, reason = "shared by several tests")]
#[path = "copr_keygen/site.rs"]
mod site;

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::Stdio;
use std::time::{SystemTime, UNIX_EPOCH};

use sealwright_testkit::fixtures;
use sealwright_testkit::sealwright::{Home, Ran};
use sealwright_testkit::server::Server;
use sealwright_testkit::tools::{self, RpmKeys};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use old::Old;
use site::Site;

const PROGRAM: &str = env!("CARGO_BIN_EXE_sealwright");
const PACKAGE: &str = "gen_tiny-reserved4096.rpm";

/// What each name became, and the reason of what was not taken; the summary is under the empty name.
fn outcomes(ran: &Ran) -> BTreeMap<String, (String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let of = |object: &Value| (text(&object["key"]), (text(&object["status"]), text(&object["error"])));
    ran.json().iter().map(of).collect()
}

fn counts(ran: &Ran) -> [u64; 4] {
    let json = ran.json();
    let summary = json.iter().find(|object| object["status"] == "summary").expect("a summary");
    ["imported", "there", "would_import", "not_taken"].map(|name| summary[name].as_u64().unwrap())
}

#[test]
fn what_can_be_taken_is_taken_and_all_else_is_named_with_its_reason() {
    let old = Old::new();
    let good = old.copr_key("alice#one");
    old.copr_key("@group#two.x");
    old.key("Key-Type: EDDSA\nKey-Curve: ed25519\nKey-Usage: sign\n", "alice#ed", "Passphrase: tr0ub\n");
    old.phrase("alice#ed", "tr0ub\n");
    let broken = old.copr_key("alice#broken");
    old.break_secret(&broken);
    old.phrase("alice#gone", "1\n");
    old.key(old::RSA, "alice#unserved", "%no-protection\n");
    old.key(
        old::RSA,
        "alice#past",
        "%no-protection\nCreation-Date: 20200101T000000\nExpire-Date: 20210101T000000\n",
    );
    old.phrase("alice#past", "1\n");
    old.key(old::RSA, "alice#locked", "Passphrase: right\n");
    old.phrase("alice#locked", "wrong\n");
    old.key("Key-Type: ECDSA\nKey-Curve: nistp256\nKey-Usage: sign\n", "alice#nist", "%no-protection\n");
    old.phrase("alice#nist", "1\n");
    old.key(old::RSA, "alice#odd name", "%no-protection\n");
    old.phrase("alice#odd name", "1\n");
    fs::write(old.phrases().join(old::named("alice#one") + ".lock"), "").unwrap();
    old.end_agent();

    let home = Home::new(PROGRAM);
    let ran = home.run(&["--json", "import", "copr-keygen", old.text(), "--jobs", "3"]);
    assert_eq!(ran.code, Some(1), "{}", ran.text());
    assert_eq!(counts(&ran), [3, 0, 0, 7], "{}", ran.text());
    let outcomes = outcomes(&ran);
    for (name, why) in [
        ("alice#broken", "its secret is not in the home"),
        ("alice#gone", "no secret key with this address"),
        ("alice#unserved", "no passphrase file has the name"),
        ("alice#past", "it expired 2020-01-01"),
        ("alice#locked", "Bad passphrase"),
        ("alice#nist", "ECDSA nistp256"),
        ("alice#odd name", "a character that is not allowed"),
    ] {
        let (status, error) = &outcomes[&old::named(name)];
        assert!(status == "not-taken" && error.contains(why), "{name}: {status} {error}");
    }
    for name in ["alice#one", "@group#two.x", "alice#ed"] {
        assert_eq!(outcomes[&old::named(name)].0, "imported", "{}", ran.text());
    }
    assert!(!old.has_agent(), "an agent that was started for the import goes with it");
    let shown = &home.ok(&["key", "show", &old::named("alice#one"), "--json"]).json()[0];
    assert_eq!(shown["fingerprint"], good);

    // A package that is signed here verifies with the public key that gpg has always given out.
    let package = home.copy(&fixtures::package(PACKAGE));
    for name in ["alice#one", "@group#two.x", "alice#ed"] {
        home.ok(&["sign", "--key", &old::named(name), PACKAGE]);
        let said = RpmKeys::new(&[old.public(name)]).check(&package);
        assert!(said.is_signed_and_all_ok(), "{name}: {:?}", said.lines);
    }
    for clear in ["tr0ub", "PRIVATE KEY"] {
        assert!(!ran.text().contains(clear), "{}", ran.text());
    }
}

#[test]
fn a_second_run_goes_on_where_the_first_ended_and_a_dry_run_makes_nothing() {
    let old = Old::new();
    let first = old.copr_key("o#first");
    let home = Home::new(PROGRAM);
    let import = ["--json", "import", "copr-keygen", old.text()];
    let dry = [import.as_slice(), &["--dry-run"]].concat();
    let ran = home.run(&dry);
    assert_eq!((ran.code, counts(&ran)), (Some(0), [0, 0, 1, 0]), "{}", ran.text());
    assert!(!home.home().exists(), "a dry run made a store");
    let ran = home.run(&import);
    assert_eq!((ran.code, counts(&ran)), (Some(0), [1, 0, 0, 0]), "{}", ran.text());

    old.copr_key("o#second");
    let ran = home.run(&dry);
    assert_eq!((ran.code, counts(&ran)), (Some(0), [0, 1, 1, 0]), "{}", ran.text());
    let ran = home.run(&[import.as_slice(), &["--obs-digest", "--obs-digest-on-primary"]].concat());
    assert_eq!((ran.code, counts(&ran)), (Some(0), [1, 1, 0, 0]), "{}", ran.text());
    let there = ran.json().into_iter().find(|object| object["fingerprint"] == first).unwrap();
    assert!(there["warnings"][0].as_str().unwrap().contains("not for obs-digest"), "{there}");
    let second = &home.ok(&["key", "show", &old::named("o#second"), "--json"]).json()[0];
    assert_eq!(second["usages"], serde_json::json!(["openpgp", "obs-digest"]));

    // The name of another key, and a key under another name.
    let home = Home::new(PROGRAM);
    home.ok(&["key", "create", &old::named("o#first"), "--algorithm", "ed25519"]);
    let secret = old.secret("o#second", &home.work());
    home.import("other", &secret);
    let ran = home.run(&import);
    assert_eq!((ran.code, counts(&ran)), (Some(1), [0, 0, 0, 2]), "{}", ran.text());
    let outcomes = outcomes(&ran);
    assert!(outcomes[&old::named("o#first")].1.contains("another key has this name"), "{outcomes:?}");
    assert!(outcomes[&old::named("o#second")].1.contains("by the name other"), "{outcomes:?}");
}

#[test]
fn a_served_installation_takes_the_keys_over_and_an_agent_that_runs_goes_on() {
    let old = Old::new();
    old.copr_key("alice#one");
    old.copr_key("alice#two");
    assert!(old.has_agent());
    let server = Server::running(PROGRAM, &[]);
    let ran = server.ok(&["import", "copr-keygen", old.text(), "--obs-digest", "--obs-digest-on-primary"]);
    assert!(ran.stderr.contains("2 imported, 0 there already, 0 not taken"), "{}", ran.text());
    assert!(old.has_agent(), "the agent of the old service was ended");
    let package = fixtures::copy_into(&server.work(), &fixtures::package(PACKAGE));
    server.ok(&["sign", "--key", &old::named("alice#two"), PACKAGE]);
    let said = RpmKeys::new(&[old.public("alice#two")]).check(&package);
    assert!(said.is_signed_and_all_ok(), "{:?}", said.lines);
    assert!(!server.log().contains("PRIVATE KEY"), "{}", server.log());
}

#[test]
fn the_clients_of_the_old_services_notice_nothing() {
    let old = Old::new();
    let fingerprint = old.copr_key("alice#one");
    let mut site = Site::prepare("");
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    for (file, text) in [
        ("clients.toml", "\n[[client]]\nname = \"farm\"\nkeys = [\"*\"]\nobs = [\"sign\"]\n".to_owned()),
        (
            "server.toml",
            format!(
                "\n[obs]\nlisten = [\"127.0.0.1:{port}\"]\nallow = [{{ from = \"127.0.0.1\", client = \"farm\" }}]\n"
            ),
        ),
    ] {
        let path = site.server.directory().join(file);
        fs::write(&path, fs::read_to_string(&path).unwrap() + &text).unwrap();
    }
    site.server.start();
    site.server.ok(&["import", "copr-keygen", old.text(), "--obs-digest", "--obs-digest-on-primary"]);

    // The keygen service has it already.
    assert_eq!(site.gen_key(&site::project("alice", "one")).status, 200);
    let keys = site.keys();
    assert!(keys.len() == 1 && keys[0].to_lowercase().ends_with(&fingerprint), "{keys:?}");

    // And signd signs with it: what gpg takes for the old key's signature.
    let user = old::named("alice#one");
    let armored = asked(port, &user, "PUBKEY");
    assert!(armored.starts_with(b"-----BEGIN PGP PUBLIC KEY BLOCK-----"), "{armored:?}");
    let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let time = u32::try_from(time).unwrap();
    let mut hashed = b"a document".to_vec();
    hashed.push(0);
    hashed.extend(time.to_be_bytes());
    let hex: String = Sha256::digest(&hashed).iter().map(|byte| format!("{byte:02x}")).collect();
    let packet = asked(port, &user, &format!("SHA256:{hex}@00{time:08x}"));
    let (data, signature) = (site.server.work().join("document"), site.server.work().join("document.sig"));
    fs::write(&data, "a document").unwrap();
    fs::write(&signature, packet).unwrap();
    let judged = tools::gpgv(&[old.public("alice#one")], &signature, &data);
    assert!(judged.status.success(), "{}", tools::text(&judged));
}

/// A request of obs-sign's old form, and its result.
fn asked(port: u16, user: &str, argument: &str) -> Vec<u8> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    let len = |text: &str| u16::try_from(text.len()).unwrap().to_be_bytes();
    let request = [len(user).as_slice(), &len(argument), user.as_bytes(), argument.as_bytes()].concat();
    stream.write_all(&request).unwrap();
    let mut reply = Vec::new();
    stream.read_to_end(&mut reply).unwrap();
    let (head, rest) = reply.split_at(6);
    assert_eq!(&head[..2], [0, 0], "{}", String::from_utf8_lossy(rest));
    rest[..usize::from(u16::from_be_bytes([head[2], head[3]]))].to_vec()
}

#[test]
fn sign_conf_becomes_keys_and_a_text_that_a_server_takes() {
    let old = Old::new();
    old.copr_key("home@localobs");
    old.copr_key("other@localobs");
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::create_dir(at("aliases")).unwrap();
    fs::write(at("aliases/short"), "home@localobs\n").unwrap();
    fs::write(at("aliases/:enc"), "00112233\n").unwrap();
    fs::write(at("aliases/bad"), "no/key\n").unwrap();
    fs::create_dir(at("enckeys")).unwrap();
    fs::write(at("enckeys/0011223344556677"), [1; 72]).unwrap();
    let conf = format!(
        "server: 127.0.0.1\nuser: home@localobs\nallow: 127.0.0.1 10.1.2.0/24 192.0.2.77/16 build.example.org\n\
         map: copied short\nmap: SHA1:copied other@localobs\nlogfile: /var/log/signd.log\nphrases: {}\n\
         aliases: {}\nencryptionkeys: {}\ngnupghome: {}\n",
        old.phrases().display(),
        at("aliases").display(),
        at("enckeys").display(),
        old.gnupg().display(),
    );
    fs::write(at("sign.conf"), conf).unwrap();

    let server = Server::running(PROGRAM, &[]);
    let conf = at("sign.conf");
    let mut import =
        server.command(&["--json", "import", "obs-signd", "--sign-conf", conf.to_str().unwrap()]);
    let ran = Ran::from(tools::run(import.stdout(Stdio::piped())));
    assert_eq!((ran.code, counts(&ran)), (Some(1), [2, 0, 0, 0]), "{}", ran.text());
    let settings: Vec<String> = ran
        .json()
        .iter()
        .filter(|object| object["status"] == "not-taken")
        .map(|object| object["setting"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(
        settings,
        [
            "encryptionkeys/0011223344556677",
            "aliases/:enc",
            "aliases/bad",
            "map copied",
            "allow build.example.org"
        ]
    );
    let json = ran.json();
    let text =
        json.iter().find(|object| object["status"] == "settings").unwrap()["server_toml"].as_str().unwrap();
    assert_eq!(
        text,
        "[obs]\nlisten = [\"0.0.0.0:5167\"]\nallow = [{ from = \"127.0.0.1\", client = \"obs\" }, { from = \
         \"10.1.2.0/24\", client = \"obs\" }, { from = \"192.0.0.0/16\", client = \"obs\" }]\nreserved_ports = true\n\
         user = \"home@localobs\"\naliases = { copied = \"home@localobs\", short = \"home@localobs\" }\n"
    );
    let file = server.directory().join("server.toml");
    let configured = fs::read_to_string(&file).unwrap() + "\n" + &text.replace("\"obs\"", "\"admin\"");
    fs::write(&file, configured).unwrap();
    server.ok(&["serve", "--check-config", "--config", file.to_str().unwrap()]);
}

#[test]
fn a_home_or_a_gpg_that_is_not_there_ends_it_before_anything_is_taken() {
    let old = Old::new();
    old.copr_key("o#p");
    let home = Home::new(PROGRAM);
    let missing = home.work().join("nothing");
    let missing = missing.to_str().unwrap();
    let of = |arguments: &[&str]| {
        home.run(&[["import", "copr-keygen", old.text()].as_slice(), arguments].concat())
    };
    of(&["--gnupghome", missing]).failed_saying(&["the home of GnuPG", "--gnupghome"]);
    of(&["--phrases", missing]).failed_saying(&["cannot read", "nothing"]);
    of(&["--gpg", missing]).failed_saying(&["cannot run", "--gpg"]);
    of(&["--gpg", "false"]).failed_saying(&["gpg ended with"]);
    let refused = of(&["--obs-digest-on-primary"]);
    assert_eq!(refused.code, Some(2), "{}", refused.text());
    assert!(home.ok(&["key", "list", "--json"]).json().is_empty());
}
