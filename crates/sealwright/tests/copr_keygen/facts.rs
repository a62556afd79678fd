//! The facts of copr-keygen, each asked over HTTP.

use std::path::Path;
use std::process::{Command, Stdio};

use sealwright_testkit::tools;
use serde_json::json;

use super::site::{COPR, Site, email, project};

const PLAIN: &str = "content-type: text/plain;charset=utf-8";

#[test]
fn ping_answers_pong() {
    let site = Site::start();
    let answer = site.request(COPR, "GET", "/ping", &[], b"").unwrap();
    assert_eq!((answer.status, answer.body.as_str()), (200, "pong\n"));
    assert!(answer.head.contains(PLAIN), "{}", answer.head);
    assert_eq!(site.say(COPR, b"GET /ping HTTP/1.0\r\n\r\n").unwrap().body, "pong\n");
}

#[test]
fn other_methods_and_paths_are_405_and_404() {
    let site = Site::start();
    for (method, path, status, allow) in [
        ("GET", "/gen_key", 405, "allow: post"),
        ("PUT", "/gen_key", 405, "allow: post"),
        ("POST", "/ping", 405, "allow: get"),
        ("GET", "/", 404, ""),
        ("POST", "/gen_key/", 404, ""),
        ("POST", "/remove_key", 404, ""),
        ("GET", "/metrics", 404, ""),
    ] {
        let answer = site.request(COPR, method, path, &[], b"").unwrap();
        assert_eq!(answer.status, status, "{method} {path}");
        assert!(answer.head.contains(allow), "{}", answer.head);
    }
    assert!(site.keys().is_empty());
}

#[test]
fn a_new_name_is_201_and_a_known_one_200_and_changes_nothing() {
    let site = Site::start();
    let made = site.gen_key(&project("alice", "tools"));
    assert_eq!((made.status, made.body.as_str()), (201, ""));
    assert!(made.head.contains(PLAIN), "{}", made.head);
    let before = site.keys();
    assert_eq!(before.len(), 1);
    let other = json!({ "name_real": "x\ny", "name_email": email("alice", "tools"), "key_length": 100, "expire": "1y" });
    for query in [project("alice", "tools"), other] {
        let there = site.gen_key(&query);
        assert_eq!((there.status, there.body.as_str()), (200, ""), "{query}");
        assert!(there.head.contains(PLAIN), "{}", there.head);
    }
    assert_eq!(site.keys(), before);
    // Of a key that is switched off as well.
    site.server.ok(&["key", "disable", &email("alice", "tools")]);
    assert_eq!(site.gen_key(&project("alice", "tools")).status, 200);
}

#[test]
fn what_cannot_be_understood_is_400_in_the_words_of_copr_keygen() {
    let site = Site::start();
    let ask = |headers: &[(&str, &str)], body: &[u8]| {
        let answer = site.request(COPR, "POST", "/gen_key", headers, body).unwrap();
        assert!(answer.head.contains(PLAIN), "{}", answer.head);
        let form = answer.body.starts_with("Keygen service error\nargs: ('")
            && answer.body.ends_with("',)\nkwargs: {}\n");
        assert!(form, "{:?}", answer.body);
        (answer.status, answer.body)
    };
    for body in [&b""[..], b"{", b"[]", b"7", b"name_real=a&name_email=b"] {
        assert_eq!(ask(&[], body).0, 400, "{body:?}");
    }
    let (status, text) = ask(&[], br#"{"name_email":"a#b@copr.example.org"}"#);
    assert_eq!(status, 400);
    assert_eq!(
        text,
        "Keygen service error\nargs: ('Request query missing required parameter `name_real`',)\nkwargs: {}\n"
    );
    assert_eq!(ask(&[], br#"{"name_real":"a"}"#).0, 400);
    let good = project("form", "type").to_string();
    // What curl sends by itself.
    let (status, text) = ask(&[("Content-Type", "application/x-www-form-urlencoded")], good.as_bytes());
    assert!(status == 400 && text.contains("a form is not taken"), "{text}");
    assert_eq!(ask(&[("charset", "klingon")], good.as_bytes()).0, 400);
    for bad in [
        "foo",
        "user#invalid-email",
        "@copr#copr.example.org",
        "user#foo@@copr.example.org",
        "@c&pr#foo@copr.example.org",
    ] {
        let query = json!({ "name_real": "a", "name_email": bad });
        assert_eq!(ask(&[], query.to_string().as_bytes()).0, 400, "{bad}");
    }
    assert!(site.keys().is_empty());
}

#[test]
fn any_type_but_that_of_a_form_is_json() {
    let site = Site::start();
    for (number, headers) in
        [&[][..], &[("Content-Type", "text/plain")], &[("Content-Type", "a")], &[("charset", "latin-1")]]
            .iter()
            .enumerate()
    {
        let query = project("type", &number.to_string()).to_string();
        let made = site.request(COPR, "POST", "/gen_key", headers, query.as_bytes()).unwrap();
        assert_eq!(made.status, 201, "{headers:?}");
    }
    let latin = b"{\"name_real\":\"J\xe9r\xf4me\",\"name_email\":\"latin#a@copr.example.org\"}";
    assert_eq!(site.request(COPR, "POST", "/gen_key", &[], latin).unwrap().status, 400);
    assert_eq!(
        site.request(COPR, "POST", "/gen_key", &[("charset", "iso-8859-1")], latin).unwrap().status,
        201
    );
    assert!(site.keys()[0].contains("J\u{e9}r\u{f4}me <latin#a@"), "{:?}", site.keys());
}

#[test]
fn a_body_in_pieces_is_one_body() {
    let site = Site::start();
    let query = project("alice", "chunked").to_string();
    let (one, two) = query.split_at(9);
    let text = format!(
        "POST /gen_key HTTP/1.1\r\nHost: k\r\nTransfer-Encoding: chunked\r\n\r\n{:x}\r\n{one}\r\n{:x}\r\n{two}\r\n0\r\n\r\n",
        one.len(),
        two.len()
    );
    assert_eq!(site.say(COPR, text.as_bytes()).unwrap().status, 201);
}

/// What gpg says of a key: algorithm, bits, seconds of validity, capabilities, user ids.
fn by_gpg(site: &Site, folder: &Path, name: &str) -> (String, String, Option<u64>, String, Vec<String>) {
    let file = folder.join(format!("{name}.asc"));
    site.server.ok(&["key", "export", name, "--output", file.to_str().unwrap()]);
    let mut gpg = Command::new("gpg");
    gpg.arg("--homedir").arg(folder).args(["--batch", "--with-colons", "--show-keys"]).arg(&file);
    let said = String::from_utf8(tools::succeed(&mut gpg)).unwrap();
    let lines: Vec<Vec<&str>> = said.lines().map(|line| line.split(':').collect()).collect();
    assert!(!lines.iter().any(|fields| fields[0] == "sub"), "{said}");
    let key = lines.iter().find(|fields| fields[0] == "pub").unwrap();
    let (created, expires) = (key[5].parse::<u64>().unwrap(), key[6].parse::<u64>().ok());
    let user_ids = lines.iter().filter(|fields| fields[0] == "uid").map(|fields| fields[9].to_owned());
    let valid = expires.map(|expires| expires - created);
    (key[3].to_owned(), key[2].to_owned(), valid, key[11].to_owned(), user_ids.collect())
}

#[test]
fn length_expiry_and_names_are_those_that_were_asked_for_as_gpg_sees_them() {
    let site = Site::start();
    let folder = tempfile::tempdir().unwrap();
    let year = 365 * 86_400;
    assert_eq!(site.gen_key(&project("@group", "tools")).status, 201);
    let (algorithm, bits, valid, capabilities, user_ids) =
        by_gpg(&site, folder.path(), &email("@group", "tools"));
    assert_eq!((algorithm.as_str(), bits.as_str(), valid), ("1", "2048", Some(5 * year)));
    assert_eq!(user_ids, ["@group_tools <@group#tools@copr.example.org>"]);
    assert!(capabilities.contains('s') && capabilities.contains('c'), "{capabilities}");
    for (project, length, expire, bits, valid) in [
        ("a", json!(3072), json!("10m"), "3072", Some(300 * 86_400)),
        ("b", json!("2048"), json!(30), "2048", Some(30 * 86_400)),
        ("c", json!(2048), json!("0"), "2048", None),
    ] {
        let query = json!({
            "name_real": "Alice",
            "name_comment": "of the tools",
            "name_email": email("alice", project),
            "key_length": length,
            "expire": expire,
        });
        assert_eq!(site.gen_key(&query).status, 201, "{query}");
        let seen = by_gpg(&site, folder.path(), &email("alice", project));
        assert_eq!((seen.1.as_str(), seen.2), (bits, valid), "{query}");
        assert_eq!(seen.4, [format!("Alice (of the tools) <{}>", email("alice", project))]);
    }
}

#[test]
fn nothing_can_be_slipped_into_a_key() {
    let site = Site::start();
    let long = format!("{}#p@copr.example.org", "u".repeat(2_000));
    for (field, value) in [
        ("name_real", json!("xabcde\nSubkey-Type: RSA")),
        ("name_real", json!("x <root@copr.example.org>")),
        ("name_real", json!("x\u{0}y")),
        ("name_real", json!("\u{202e}x")),
        ("name_real", json!("x".repeat(300))),
        ("name_real", json!("")),
        ("name_real", json!(["x"])),
        ("name_comment", json!("x\r\n%no-protection")),
        ("name_comment", json!("x) <root@copr.example.org> (")),
        ("name_email", json!("a#b@copr.example.org\nExpire-Date: 0")),
        ("name_email", json!("a#b@copr.example.org> <c#d@copr.example.org")),
        ("name_email", json!("../../a#b@copr.example.org")),
        ("name_email", json!(long)),
        ("key_length", json!(100)),
        ("key_length", json!(1024)),
        ("key_length", json!(16_384)),
        ("key_length", json!("2048\nSubkey-Type: RSA")),
        ("expire", json!("5y\nSubkey-Type: RSA")),
        ("expire", json!("1000y")),
        ("expire", json!(-1)),
    ] {
        let mut query = project("alice", "tools");
        query[field] = value.clone();
        let answer = site.gen_key(&query);
        assert_eq!(answer.status, 400, "{field} {value} {}", answer.body);
        assert!(!answer.body.contains("Subkey") && !answer.body.contains("uuu"), "{}", answer.body);
    }
    assert!(site.keys().is_empty(), "{:?}", site.keys());
}

#[test]
fn keys_are_sealed_for_digests_of_obs_sign_where_the_configuration_says_so() {
    for (lines, usages, subkeys) in [
        ("", vec!["openpgp"], 0),
        ("obs_digest = \"sha2\"\n", vec!["openpgp", "obs-digest"], 1),
        (
            "obs_digest = \"sha1\"\nobs_digest_on_primary = true\n",
            vec!["openpgp", "obs-digest", "obs-digest-sha1"],
            0,
        ),
    ] {
        let mut site = Site::prepare(lines);
        site.server.start();
        assert_eq!(site.gen_key(&project("alice", "tools")).status, 201);
        let name = email("alice", "tools");
        let mut show = site.server.command(&["key", "show", "--json", &name]);
        let shown = tools::succeed(show.stdout(Stdio::piped()));
        let shown: serde_json::Value = serde_json::from_slice(&shown).unwrap();
        assert_eq!(shown["usages"], json!(usages));
        let file = site.server.work().join("key.asc");
        site.server.ok(&["key", "export", &name, "--output", file.to_str().unwrap()]);
        let folder = tempfile::tempdir().unwrap();
        let mut gpg = Command::new("gpg");
        gpg.arg("--homedir").arg(folder.path()).args(["--batch", "--with-colons", "--show-keys"]).arg(&file);
        let said = String::from_utf8(tools::succeed(&mut gpg)).unwrap();
        assert_eq!(said.lines().filter(|line| line.starts_with("sub:")).count(), subkeys, "{said}");
    }
}
