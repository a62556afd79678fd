//! Who may ask, and for what.

use std::fs;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, TcpStream};

use rustix::net::{AddressFamily, SocketType, bind, connect, socket};
use sealwright_obs::{Hash, Request};
use sealwright_testkit::server::Server;

use super::PROGRAM;
use super::serving::{KEYS, Obs, RSA2048, SEALED, append, ask, refusal, sign};

/// A connection from another address of this machine.
fn from(address: &str, to: SocketAddr) -> TcpStream {
    let from: IpAddr = address.parse().unwrap();
    let made = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    bind(&made, &SocketAddr::from((from, 0))).unwrap();
    connect(&made, &to).unwrap();
    made.into()
}

#[test]
fn a_host_that_is_not_on_the_list_reads_why_whatever_it_sends() {
    let obs = Obs::with("", &[0]);
    let stranger = || from("127.0.0.2", obs.address());
    let large = [&[0xff, 0xff, 0, 0, 0xff, 0xff][..], &[0; 65_533]].concat();
    for request in [&[0; 4][..], &sign(RSA2048, 1).to_bytes(), &large] {
        assert_eq!(refusal(&ask(stranger(), request)), "illegal host 127.0.0.2");
    }
    obs.signs();
    assert!(obs.server.log().contains("illegal host 127.0.0.2"), "{}", obs.server.log());
}

#[test]
fn a_reload_changes_who_may_ask_and_a_wrong_one_changes_nothing() {
    let mut obs = Obs::with("", &[0]);
    let stranger = |obs: &Obs| ask(from("127.0.0.2", obs.address()), &[0; 4]);
    obs.server.configure("allow", "allow = [{ from = \"127.0.0.2\", client = \"copr\" }]");
    obs.server.reload();
    obs.server.await_notice("STATUS=reloaded");
    assert_eq!(stranger(&obs), [0; 6]);
    assert_eq!(obs.refusal(&[0; 4]), "illegal host 127.0.0.1");
    obs.server.configure("allow", "allow = [{ from = \"127.0.0.1\", client = \"nobody\" }]");
    obs.server.reload();
    let notice = obs.server.await_notice("STATUS=not reloaded");
    assert!(notice.contains("nobody"), "{notice}");
    assert_eq!(stranger(&obs), [0; 6]);
}

#[test]
fn a_listener_for_both_families_knows_ipv4_as_ipv4_and_ipv6_by_itself() {
    let mut obs = Obs::new("");
    let port = obs.port;
    obs.server.configure("listen = ", &format!("listen = [\"[::]:{port}\"]"));
    obs.server.start();
    let six = || TcpStream::connect((Ipv6Addr::LOCALHOST, port)).unwrap();
    assert_eq!(obs.ask(&[0; 4]), [0; 6]);
    assert_eq!(refusal(&ask(six(), &[0; 4])), "illegal host ::1");
    obs.server.configure("allow", "allow = [{ from = \"::1\", client = \"copr\" }]");
    obs.server.reload();
    obs.server.await_notice("STATUS=reloaded");
    assert_eq!(ask(six(), &[0; 4]), [0; 6]);
    assert_eq!(obs.refusal(&[0; 4]), "illegal host 127.0.0.1");
}

#[test]
fn only_a_port_below_1024_may_ask_where_that_is_the_rule() {
    let obs = Obs::with("reserved_ports = true", &[]);
    assert_eq!(obs.refusal(&[0; 4]), "not coming from a reserved port");
}

#[test]
fn a_key_without_a_grant_is_an_unknown_one_and_signing_needs_a_grant_of_its_own() {
    let mut obs = Obs::with("", &[0, 1]);
    let other = KEYS[1].0;
    let clients = obs.server.directory().join("clients.toml");
    let text = fs::read_to_string(&clients).unwrap();
    let (before, _) = text.split_once("\n[[client]]\nname = \"copr\"").unwrap();
    fs::write(&clients, format!("{before}\n[[client]]\nname = \"copr\"\nkeys = [{RSA2048:?}]\n")).unwrap();
    obs.server.reload();
    obs.server.await_notice("STATUS=reloaded");
    let public = |user: &str| Request::pubkey(user, Hash::Sha256).unwrap().to_bytes();
    assert_eq!(obs.refusal(&sign(other, 1).to_bytes()), format!("unknown key: {other}"));
    assert_eq!(obs.refusal(&public(other)), format!("unknown key: {other}"));
    assert_eq!(obs.ask(&public(RSA2048))[..2], [0, 0]);
    assert_eq!(obs.refusal(&sign(RSA2048, 1).to_bytes()), "copr has no grant for signing over this protocol");
}

#[test]
fn a_key_that_was_not_sealed_for_digests_signs_none_and_sha1_is_apart() {
    let obs = Obs::with("", &[]);
    obs.import(KEYS[0].0, KEYS[0].1, &[]);
    let text = obs.refusal(&sign(RSA2048, 1).to_bytes());
    assert!(text.contains("is not for the usage obs-digest"), "{text}");
    obs.import(KEYS[1].0, KEYS[1].1, &["--obs-digest", SEALED[1]]);
    assert_eq!(obs.ask(&sign(KEYS[1].0, 1).to_bytes())[..2], [0, 0]);
    let digest =
        sealwright_obs::DigestArgument::new(Hash::Sha1, &[1; 20], sealwright_obs::Class::Binary, 1).unwrap();
    let text = obs.refusal(&Request::sign(KEYS[1].0, &[digest]).unwrap().to_bytes());
    assert!(text.contains("obs-digest-sha1"), "{text}");
    assert_eq!(obs.server.sql("SELECT count(*) FROM log"), ["1"]);
}

#[test]
fn a_client_over_its_measure_is_refused() {
    let obs = Obs::with("digests_per_s = 1", &[0]);
    let digests: Vec<_> = (10..20).map(super::serving::digest).collect();
    let text = obs.refusal(&Request::sign(RSA2048, &digests).unwrap().to_bytes());
    assert_eq!(text, "too many digests: at most 1 a second; try again later");
    obs.signs();
}

#[test]
fn a_listener_without_a_list_a_list_of_everybody_and_unknown_clients_do_not_start() {
    for (table, want) in [
        ("listen = [\"127.0.0.1:1\"]", "nobody may ask"),
        ("listen = [\"127.0.0.1:1\"]\nallow = [{ from = \"0.0.0.0/0\", client = \"admin\" }]", "everybody"),
        ("listen = [\"127.0.0.1:1\"]\nallow = [{ from = \"127.0.0.1\", client = \"copr\" }]", "copr"),
        ("listen = [\"127.0.0.1:1\"]\nallow = [{ from = \"localhost\", client = \"admin\" }]", "no address"),
        ("user = \"x\"", "listens nowhere"),
    ] {
        let server = Server::new(PROGRAM);
        append(&server, "server.toml", &format!("\n[obs]\n{table}\n"));
        let file = server.directory().join("server.toml");
        let file = file.to_str().unwrap();
        server.run(&["serve", "--check-config", "--config", file]).failed_saying(&["server.toml", want]);
    }
}
