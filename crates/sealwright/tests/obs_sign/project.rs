//! What is asked over obs-sign's protocol alone: keys that a project keeps itself (`-g`, `-P`, `-x`, `-C`) and bare signatures
//! (`-O`, `--bulk-cpio`), judged by gpg, rpm, openssl and by what obs-sign's own client wrote.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use sealwright_testkit::fixtures;
use sealwright_testkit::sealwright::Ran;
use sealwright_testkit::tools::{self, Gpg, RpmKeys};
use tempfile::TempDir;

use crate::both_ends::{conf, sign};
use crate::serving::{Obs, RSA2048};
use crate::signd::{Manner, Signd};
use crate::{PROGRAM, package, project};

/// A folder with a sign.conf for a server of ours, and a document.
fn folder(port: u16) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    conf(folder.path(), &format!("server: 127.0.0.1\nport: {port}\nuser: {RSA2048}\n"));
    fs::copy(fixtures::path("obs/files/d.txt"), folder.path().join("d.txt")).unwrap();
    folder
}

fn ok(folder: &Path, words: &[&str]) -> Ran {
    let ran = sign(folder, words);
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "{words:?}: {}", ran.text());
    ran
}

/// `sign -g`: the secret half in `P`, the public half in `key.asc`.
fn made(folder: &Path) -> PathBuf {
    let public = ok(folder, &["-P", "P", "-g", "rsa@2048", "800", "proj key", "proj@example.org"]);
    let path = folder.join("key.asc");
    fs::write(&path, &public.bytes).unwrap();
    path
}

fn gpg_accepts(certificate: &Path, arguments: &[PathBuf]) -> bool {
    let gpg = Gpg::new();
    gpg.import(certificate);
    tools::run(gpg.command().arg("--verify").args(arguments)).status.success()
}

/// `openssl dgst -verify` with the public half of a certificate of OpenPGP, as `sign -C` gives it.
fn openssl_accepts(folder: &Path, hash: &str, signature: &[u8], content: &Path) -> bool {
    let certificate = ok(folder, &["-P", "P", "-C", "key.asc"]);
    fs::write(folder.join("cert.pem"), &certificate.bytes).unwrap();
    let mut read = Command::new("openssl");
    let public = tools::succeed(read.args(["x509", "-noout", "-pubkey", "-in"]).arg(folder.join("cert.pem")));
    fs::write(folder.join("public.pem"), public).unwrap();
    fs::write(folder.join("value"), signature).unwrap();
    let mut verify = Command::new("openssl");
    verify.args(["dgst", hash, "-verify"]).arg(folder.join("public.pem"));
    tools::run(verify.arg("-signature").arg(folder.join("value")).arg(content)).status.success()
}

#[test]
fn a_key_of_a_projects_own_signs_everything_and_only_with_its_public_half() {
    let obs = Obs::with("", &[0]);
    let folder = folder(obs.port);
    let (folder, at) = (folder.path(), |name: &str| folder.path().join(name));
    let public = made(folder);
    assert_eq!(at("P").metadata().unwrap().permissions().mode() & 0o777, 0o600);
    fs::write(at("a.rpm"), package()).unwrap();
    fs::copy(at("d.txt"), at("c.txt")).unwrap();
    let refused = sign(folder, &["-P", "P", "-r", "a.rpm"]);
    refused.failed_saying(&["nothing unverified is written", "--public-key"]);
    assert_eq!(fs::read(at("a.rpm")).unwrap(), package());
    let with_key = |words: &[&str]| ok(folder, &[&["-P", "P", "--public-key", "key.asc"], words].concat());
    with_key(&["-4", "-h", "sha256", "-r", "a.rpm"]);
    with_key(&["-d", "d.txt"]);
    with_key(&["-c", "c.txt"]);
    let verdict = RpmKeys::new(std::slice::from_ref(&public)).check(&at("a.rpm"));
    assert!(verdict.is_signed_and_all_ok(), "{:?}", verdict.lines);
    assert!(gpg_accepts(&public, &[at("d.txt.asc"), at("d.txt")]));
    assert!(gpg_accepts(&public, &[at("c.txt")]));
    // What the server says of it, and what its public half says.
    let ids = [ok(folder, &["-P", "P", "--full-keyid"]), with_key(&["--full-keyid"])];
    assert_eq!(ids[0].stdout, ids[1].stdout);
    let other = fixtures::path("obs/keys/rsa4096.pub.asc");
    let other = sign(folder, &["-P", "P", "--public-key", other.to_str().unwrap(), "-d", "d.txt"]);
    other.failed_saying(&["another issuer than was asked for"]);
}

#[test]
fn a_file_with_a_key_in_it_is_not_overwritten_by_another() {
    let obs = Obs::with("", &[0]);
    let folder = folder(obs.port);
    let words = ["-P", "P", "-g", "rsa@2048", "800", "proj key", "proj@example.org"];
    fs::write(folder.path().join("P"), "").unwrap();
    ok(folder.path(), &words);
    let before = fs::read(folder.path().join("P")).unwrap();
    sign(folder.path(), &words).failed_saying(&["has something in it"]);
    assert_eq!(fs::read(folder.path().join("P")).unwrap(), before);
    // Without a file both go to standard output, the secret half first.
    let both = ok(folder.path(), &["-g", "rsa@2048", "800", "proj key", "proj@example.org"]).stdout;
    assert!(both.lines().nth(1).unwrap().starts_with("-----BEGIN PGP PUBLIC KEY BLOCK"), "{both}");
    for (word, said) in [("rsa@512", "-g"), ("rsa@2048\n", "-g")] {
        let ran = sign(folder.path(), &["-g", word, "800", "proj key", "proj@example.org"]);
        ran.failed_saying(&[said]);
    }
}

#[test]
fn a_key_is_extended_by_itself_and_no_other() {
    let obs = Obs::with("", &[0]);
    let folder = folder(obs.port);
    let folder = folder.path();
    let end = |file: &Path| {
        let gpg = Gpg::new();
        gpg.import(file);
        let listed =
            String::from_utf8(tools::succeed(gpg.command().args(["--with-colons", "--list-keys"]))).unwrap();
        let public = listed.lines().find(|line| line.starts_with("pub:")).unwrap();
        public.split(':').nth(6).unwrap().parse::<u64>().unwrap()
    };
    let public = made(folder);
    let before = end(&public);
    let longer = ok(folder, &["-P", "P", "-x", "1000", "key.asc"]);
    fs::write(folder.join("longer.asc"), &longer.bytes).unwrap();
    let gained = end(&folder.join("longer.asc")) - before;
    assert!((200 * 86_400..200 * 86_400 + 600).contains(&gained), "{gained} s");
    sign(folder, &["-x", "1000", "key.asc"]).failed_saying(&["another issuer than was asked for", "-P"]);
    for days in ["0", "10000", "1.5", "x"] {
        sign(folder, &["-P", "P", "-x", days, "key.asc"]).failed_saying(&["bad expire argument"]);
    }
    let endless = fixtures::path("obs/keys/rsa2048.pub.asc");
    sign(folder, &["-x", "1000", endless.to_str().unwrap()]).failed_saying(&["does not expire"]);
}

#[test]
fn a_certificate_is_of_the_name_the_address_and_the_time_of_the_key() {
    let obs = Obs::with("", &[0]);
    let folder = folder(obs.port);
    made(folder.path());
    let pem = ok(folder.path(), &["-P", "P", "-C", "key.asc"]);
    let path = folder.path().join("cert.pem");
    fs::write(&path, &pem.bytes).unwrap();
    let mut openssl = Command::new("openssl");
    tools::succeed(openssl.args(["verify", "-purpose", "any", "-CAfile"]).arg(&path).arg(&path));
    let mut openssl = Command::new("openssl");
    openssl.args(["x509", "-noout", "-subject", "-nameopt", "RFC2253", "-ext", "extendedKeyUsage", "-in"]);
    let said = String::from_utf8(tools::succeed(openssl.arg(&path))).unwrap();
    assert!(
        said.contains("emailAddress=proj@example.org,CN=proj key") && said.contains("Code Signing"),
        "{said}"
    );
    let endless = fixtures::path("obs/keys/rsa2048.pub.asc");
    sign(folder.path(), &["-C", endless.to_str().unwrap()]).failed_saying(&["does not expire"]);
    let other = fixtures::path("obs/keys/ed25519.pub.asc");
    sign(folder.path(), &["-C", other.to_str().unwrap()]).failed_saying(&["not a RSA pubkey"]);
}

#[test]
fn bare_signatures_of_a_projects_key_are_those_that_openssl_takes() {
    let obs = Obs::with("", &[0]);
    let folder = folder(obs.port);
    let folder = folder.path();
    made(folder);
    let content = folder.join("d.txt");
    let value = |words: &[&str]| {
        ok(folder, &[&["-P", "P", "--public-key", "key.asc", "-O"], words].concat());
        fs::read(folder.join("d.txt.sig")).unwrap()
    };
    assert!(openssl_accepts(folder, "-sha256", &value(&["d.txt"]), &content));
    assert!(openssl_accepts(folder, "-sha512", &value(&["-h", "sha512", "d.txt"]), &content));
    sign(folder, &["-P", "P", "-O", "d.txt"]).failed_saying(&["--public-key"]);
}

#[test]
fn bare_signatures_are_byte_for_byte_those_of_obs_signs_client() {
    let signd = Signd::start(Manner::Good);
    let folder = folder(signd.address.port());
    let folder = folder.path();
    fs::copy(fixtures::path("obs/files/bulk.cpio"), folder.join("bulk.cpio")).unwrap();
    ok(folder, &["-h", "sha256", "-O", "d.txt"]);
    ok(folder, &["-h", "sha256", "-O", "--bulk-cpio", "bulk.cpio"]);
    for (made, captured) in [("d.txt.sig", "d.O.sig"), ("bulk.cpio.sig", "bulk.cpio.sig")] {
        let captured = fs::read(fixtures::path(&format!("obs/files/{captured}"))).unwrap();
        assert_eq!(fs::read(folder.join(made)).unwrap(), captured, "{made}");
    }
    // One request for the public key, one for all files.
    assert_eq!(signd.asked().len(), 4);
    let mut filter = Command::new(PROGRAM);
    filter.args(["obs-sign", "--config", "sign.conf", "-h", "sha256", "-O", "--bulk-cpio"]);
    filter.current_dir(folder).env("SEALWRIGHT_HOME", folder.join("home"));
    filter.env_remove("SEALWRIGHT_SERVER").env_remove("SEALWRIGHT_CLIENT_CONFIG");
    filter.stdin(Stdio::from(fs::File::open(folder.join("bulk.cpio")).unwrap()));
    assert_eq!(tools::succeed(&mut filter), fs::read(fixtures::path("obs/files/bulk.cpio.sig")).unwrap());
}

#[test]
fn more_files_than_fit_into_a_request_are_asked_for_in_several() {
    let signd = Signd::start(Manner::Good);
    let folder = folder(signd.address.port());
    let names: Vec<String> = (0..101).map(|number| format!("{number}")).collect();
    for name in &names {
        fs::write(folder.path().join(name), name).unwrap();
    }
    let mut words = vec!["-O", "missing"];
    words.extend(names.iter().map(String::as_str));
    let ran = sign(folder.path(), &words);
    ran.failed_saying(&["missing: "]);
    assert!(names.iter().all(|name| folder.path().join(format!("{name}.sig")).is_file()));
    assert_eq!(signd.asked().len(), 3, "one for the key, two for the files");
}

#[test]
fn no_bare_signature_is_written_that_was_not_verified() {
    for manner in [
        Manner::OtherDigest,
        Manner::OtherKey,
        Manner::OtherCount,
        Manner::Probe,
        Manner::Cut,
        Manner::Refusal,
    ] {
        let signd = Signd::start(manner);
        let folder = folder(signd.address.port());
        fs::copy(fixtures::path("obs/files/bulk.cpio"), folder.path().join("bulk.cpio")).unwrap();
        for words in [&["-O", "d.txt"][..], &["-O", "--bulk-cpio", "bulk.cpio"]] {
            let ran = sign(folder.path(), words);
            assert_eq!(
                (ran.code, ran.stdout.as_str()),
                (Some(1), ""),
                "{manner:?} {words:?}: {}",
                ran.text()
            );
            assert!(!ran.stderr.contains('\u{1b}'), "{manner:?}: {}", ran.stderr);
        }
        let left = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name());
        let mut left: Vec<_> = left.map(|name| name.into_string().unwrap()).collect();
        left.sort();
        assert_eq!(left, ["bulk.cpio", "d.txt", "sign.conf"], "{manner:?}");
    }
}

#[test]
fn an_archive_that_is_none_or_ends_early_leaves_no_signatures() {
    let signd = Signd::start(Manner::Good);
    let folder = folder(signd.address.port());
    let whole = fs::read(fixtures::path("obs/files/bulk.cpio")).unwrap();
    for (bytes, said) in
        [(&whole[..300], "the archive ends before its last entry"), (&[7; 300][..], "newc"), (&[], "ends")]
    {
        fs::write(folder.path().join("b.cpio"), bytes).unwrap();
        sign(folder.path(), &["-O", "--bulk-cpio", "b.cpio"]).failed_saying(&["b.cpio: ", said]);
        assert!(!folder.path().join("b.cpio.sig").exists());
    }
}

#[test]
fn a_server_of_ours_is_not_asked_in_its_own_way_for_what_only_the_protocol_has() {
    let server = project();
    for words in [
        &["-O", "d"][..],
        &["-g", "rsa@2048", "800", "a", "b@c"],
        &["-x", "9", "key"],
        &["-C", "key"],
        &["-P", "P", "--public-key", "key", "-d", "d"],
        &["-P", "P", "-k"],
    ] {
        let ran = crate::sign(&server, &[&["-u", crate::USER], words].concat());
        ran.failed_saying(&["is asked over obs-sign's protocol alone"]);
    }
}
