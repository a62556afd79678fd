//! Both ends ours, over obs-sign's protocol: `sign` through the listener of `serve`, plain and over TLS.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use sealwright_testkit::sealwright::Ran;
use sealwright_testkit::tools::{self, RpmKeys};

use crate::serving::{KEYS, Obs, RSA2048, free_port};
use crate::{PROGRAM, package};

/// A client that has a sign.conf, and nothing else.
pub(crate) fn sign(folder: &Path, words: &[&str]) -> Ran {
    let mut command = Command::new(PROGRAM);
    command
        .args(["obs-sign", "--config", "sign.conf"])
        .args(words)
        .current_dir(folder)
        .env("SEALWRIGHT_HOME", folder.join("home"))
        .env_remove("SEALWRIGHT_SERVER")
        .env_remove("SEALWRIGHT_CLIENT_CONFIG")
        .stdin(Stdio::null());
    Ran::from(tools::run(&mut command))
}

pub(crate) fn conf(folder: &Path, text: &str) {
    fs::write(folder.join("sign.conf"), text).unwrap();
}

fn published(folder: &Path, user: &str) -> RpmKeys {
    let key = sign(folder, &["-u", user, "-p"]);
    assert_eq!((key.code, key.stderr.as_str()), (Some(0), ""));
    fs::write(folder.join("key.asc"), &key.bytes).unwrap();
    RpmKeys::new(&[folder.join("key.asc")])
}

/// Entries of the log, read by a library of its own.
fn logged(obs: &Obs) -> usize {
    const SCRIPT: &str = "
import sqlite3, sys
print(sqlite3.connect(sys.argv[1]).execute('SELECT COUNT(*) FROM log').fetchone()[0])
";
    let store = obs.server.directory().join("store/store.db");
    let printed = tools::succeed(Command::new("python3").args(["-c", SCRIPT]).arg(store));
    String::from_utf8(printed).unwrap().trim().parse().unwrap()
}

#[test]
fn packages_are_signed_with_every_key_and_each_signature_has_its_log_entry() {
    let obs = Obs::with("", &[0, 1, 2]);
    let folder = tempfile::tempdir().unwrap();
    conf(folder.path(), &format!("server: 127.0.0.1\nport: {}\n", obs.port));
    for (user, _) in KEYS {
        fs::write(folder.path().join("a.rpm"), package()).unwrap();
        let ran = sign(folder.path(), &["-4", "-h", "sha256", "-u", user, "-r", "a.rpm"]);
        assert_eq!((ran.code, ran.text().as_str()), (Some(0), ""), "{user}\n{}", obs.server.log());
        let verdict = published(folder.path(), user).check(&folder.path().join("a.rpm"));
        assert!(verdict.is_signed_and_all_ok(), "{user}: {:?}", verdict.lines);
    }
    assert_eq!(logged(&obs), KEYS.len());
    let missing = sign(folder.path(), &["-u", "bench#none@copr.example.org", "-p"]);
    assert_eq!(missing.code, Some(1));
    assert!(missing.stderr.starts_with("unknown key: bench#none@copr.example.org\n"), "{}", missing.stderr);
}

#[test]
fn over_tls_the_name_of_the_server_and_all_three_files_count() {
    let mut obs = Obs::new("");
    let port = free_port();
    obs.server.configure("listen = [", &format!("listen_tls = [\"127.0.0.1:{port}\"]"));
    obs.server.configure("allow = ", "");
    let clients = obs.server.directory().join("clients.toml");
    let table = fs::read_to_string(&clients).unwrap();
    fs::write(&clients, table.replace("name = \"admin\"", "name = \"admin\"\nobs = [\"sign\"]")).unwrap();
    obs.server.start();
    obs.import(RSA2048, "rsa2048", &["--obs-digest", "--obs-digest-on-primary"]);
    let folder = tempfile::tempdir().unwrap();
    let admin = obs.server.admin();
    let text = |server: &str| {
        format!(
            "server: {server}\nport: {port}\nproto: ssl\nssl_verifyfile: {0}/ca.pem\nssl_certfile: {0}/client.pem\nssl_keyfile: {0}/client.key\n",
            admin.display()
        )
    };
    conf(folder.path(), &text("localhost"));
    fs::write(folder.path().join("a.rpm"), package()).unwrap();
    let ran = sign(folder.path(), &["-u", RSA2048, "-r", "a.rpm"]);
    assert_eq!((ran.code, ran.text().as_str()), (Some(0), ""), "{}", obs.server.log());
    let verdict = published(folder.path(), RSA2048).check(&folder.path().join("a.rpm"));
    assert!(verdict.is_signed_and_all_ok(), "{:?}", verdict.lines);
    conf(folder.path(), &text("127.0.0.1"));
    sign(folder.path(), &["-t"]).failed_saying(&["its certificate is for localhost, not for 127.0.0.1"]);
    conf(folder.path(), &text("localhost").replace("proto: ssl", "proto: unprotected"));
    assert_eq!(sign(folder.path(), &["-t"]).code, Some(1));
}
