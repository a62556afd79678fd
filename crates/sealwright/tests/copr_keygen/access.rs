//! Who may ask: by address, by grant, by token.

use std::fs;
use std::io::Write as _;
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;

use super::site::{ALLOW, BUILDER, COPR, GONE, STRANGER, Site, bytes_of, email, project, read_answer};

#[test]
fn a_host_off_the_list_and_a_client_without_the_grant_read_why() {
    let site = Site::start();
    let query = project("alice", "tools");
    for (from, what) in [
        (STRANGER, "127.0.0.2 is no address of a client"),
        (BUILDER, "builder may not make a key named alice#tools@copr.example.org"),
        (GONE, "the client gone is disabled"),
    ] {
        let answer = site.gen_key_from(from, &query).unwrap();
        assert_eq!(answer.status, 403, "{from}");
        assert!(answer.body.contains(what), "{}", answer.body);
    }
    assert_eq!(site.request(STRANGER, "GET", "/ping", &[], b"").unwrap().status, 403);
    assert_eq!(site.request(BUILDER, "GET", "/ping", &[], b"").unwrap().status, 200);
    // Of another domain, also by who has a grant.
    let mut other = query.clone();
    other["name_email"] = "alice#tools@copr.example.net".into();
    assert_eq!(site.gen_key(&other).status, 403);
    assert!(site.keys().is_empty());
    assert_eq!(site.gen_key(&query).status, 201);
    // Without a grant not even that it is there.
    assert_eq!(site.gen_key_from(BUILDER, &query).unwrap().status, 403);
    let log = site.server.log();
    let made = log.lines().find(|line| line.contains("call=create") && line.contains("is_new=true")).unwrap();
    assert!(made.contains("principal=copr") && made.contains(&email("alice", "tools")), "{made}");
    assert!(log.lines().any(|line| line.contains("turned away") && line.contains("127.0.0.2")), "{log}");
}

#[test]
fn a_large_body_is_refused_and_half_a_request_is_answered_in_time() {
    let site = Site::start();
    let body = format!("{{\"name_real\":\"{}\"}}", "a".repeat(17 << 10));
    let answer = site.request(COPR, "POST", "/gen_key", &[], body.as_bytes()).unwrap();
    assert_eq!(answer.status, 413, "{}", answer.body);
    let whole = bytes_of("POST", "/gen_key", &[], project("a", "b").to_string().as_bytes());
    let mut half = site.connect(COPR);
    half.write_all(&whole[..whole.len() - 3]).unwrap();
    let mut head = site.connect(COPR);
    head.write_all(b"POST /gen_key HTTP/1.1\r\nHost: k").unwrap();
    assert_eq!(read_answer(&mut half).unwrap().status, 408);
    // It ends; with which words is the library's.
    let _ = read_answer(&mut head);
    // Whoever hangs up in the middle leaves nothing.
    let mut cut = site.connect(COPR);
    cut.write_all(&whole[..whole.len() - 3]).unwrap();
    drop(cut);
    assert!(site.keys().is_empty());
}

#[test]
fn strangers_that_wait_hinder_nobody() {
    let site = Site::start();
    let silent: Vec<TcpStream> = (0..1_000).map(|_| site.connect(STRANGER)).collect();
    assert_eq!(site.gen_key(&project("alice", "tools")).status, 201);
    drop(silent);
}

#[test]
fn with_a_token_each_request_for_a_key_carries_it_and_a_reload_changes_it() {
    let mut site = Site::prepare("token_file = \"keygen.token\"\n");
    let file = site.server.directory().join("keygen.token");
    let (old, new) = ("0123456789abcdef0123456789abcdef", "fedcba9876543210fedcba9876543210");
    let write = |token: &str| {
        fs::write(&file, format!("{token}\n")).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    };
    write(old);
    site.server.start();
    let query = project("alice", "tools").to_string();
    let ask = |token: &str| {
        let bearer = format!("Bearer {token}");
        let headers: &[(&str, &str)] = if token.is_empty() { &[] } else { &[("Authorization", &bearer)] };
        site.request(COPR, "POST", "/gen_key", headers, query.as_bytes()).unwrap()
    };
    for wrong in ["", "x", new] {
        let answer = ask(wrong);
        assert_eq!(answer.status, 401, "{}", answer.body);
        assert!(answer.head.contains("www-authenticate: bearer"), "{}", answer.head);
    }
    assert!(site.keys().is_empty());
    assert_eq!(site.request(COPR, "GET", "/ping", &[], b"").unwrap().status, 200);
    assert_eq!(ask(old).status, 201);
    write(new);
    assert_eq!(ask(old).status, 200);
    site.server.reload();
    site.server.until("the new token counts", || ask(new).status == 200);
    assert_eq!(ask(old).status, 401);
    assert!(!site.server.log().contains(old) && !site.server.log().contains(new));
}

#[test]
fn a_reload_changes_who_may_and_keeps_what_is_in_force_when_it_is_wrong() {
    let site = Site::start();
    let path = site.server.directory().join("server.toml");
    let text = fs::read_to_string(&path).unwrap();
    let query = project("alice", "tools");
    assert_eq!(site.gen_key_from(STRANGER, &query).unwrap().status, 403);
    fs::write(&path, text.replace(ALLOW, &ALLOW.replace("127.0.0.1\"", "127.0.0.2\""))).unwrap();
    site.server.reload();
    site.server
        .until("it counts", || site.gen_key_from(STRANGER, &query).is_some_and(|answer| answer.status < 300));
    assert_eq!(site.gen_key(&query).status, 403);
    for wrong in [
        text.replace("client = \"copr\"", "client = \"nobody-knows\""),
        text.replace("[copr_keygen]\naddress = [\"127.0.0.1:", "[copr_keygen]\naddress = [\"127.0.0.9:"),
        text.replace(ALLOW, "allow = []\n"),
    ] {
        assert_ne!(wrong, text);
        fs::write(&path, wrong).unwrap();
        let refused = |log: &str| log.matches("not reloaded").count();
        let before = refused(&site.server.log());
        site.server.reload();
        site.server.until("it is refused", || refused(&site.server.log()) > before);
    }
    assert_eq!(site.gen_key_from(STRANGER, &query).unwrap().status, 200);
}

#[test]
fn a_configuration_that_lets_anybody_in_does_not_start() {
    let site = Site::prepare("");
    let path = site.server.directory().join("server.toml");
    let text = fs::read_to_string(&path).unwrap();
    let file = path.to_str().unwrap();
    let check = || site.server.run(&["serve", "--config", file, "--check-config"]);
    assert_eq!(check().code, Some(0), "{}", check().text());
    for (found, instead, what) in [
        ("address = [\"127.0.0.1:", "token_file = \"none\"\naddress = [\"127.0.0.1:", "none: cannot be read"),
        ("127.0.0.4/30", "0.0.0.0/0", ""),
        ("\"gone\"", "\"nobody-knows\"", "nobody-knows"),
    ] {
        fs::write(&path, text.replace(found, instead)).unwrap();
        let ran = check();
        assert_eq!(ran.code == Some(0), what.is_empty(), "{}", ran.text());
        assert!(ran.text().contains(what), "{}", ran.text());
    }
    // The same list is too much where others reach it.
    let open = text
        .replace("127.0.0.4/30", "0.0.0.0/0")
        .replace("\naddress = [\"127.0.0.1:", "\naddress = [\"0.0.0.0:");
    fs::write(&path, &open).unwrap();
    let ran = check();
    assert!(
        ran.code != Some(0) && ran.text().contains("anybody there could have keys made"),
        "{}",
        ran.text()
    );
    let token = site.server.directory().join("token");
    fs::write(&token, "0123456789abcdef0123456789abcdef").unwrap();
    fs::set_permissions(&token, fs::Permissions::from_mode(0o600)).unwrap();
    fs::write(&path, open.replace("[copr_keygen]", "[copr_keygen]\ntoken_file = \"token\"")).unwrap();
    let ran = check();
    assert_eq!(ran.code, Some(0), "{}", ran.text());
    fs::set_permissions(&token, fs::Permissions::from_mode(0o644)).unwrap();
    assert!(check().text().contains("can be read by others"), "{}", check().text());
}
