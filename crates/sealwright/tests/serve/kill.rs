//! kill -9 under load: every request gets a signature or a typed error, and the service is back by itself.

use std::time::Duration;

use sealwright_testkit::fixtures::ED25519;
use sealwright_testkit::server::Server;

use super::load::{Load, each_signature_is_logged_once};
use super::{PROGRAM, times};

const KILLS: &str = "SEALWRIGHT_SERVE_KILLS";

#[test]
fn a_signer_that_is_killed_under_load_is_replaced_and_every_request_is_answered() {
    killed("signer");
}

#[test]
fn a_front_that_is_killed_under_load_is_replaced_and_every_request_is_answered() {
    killed("front");
}

fn killed(name: &str) {
    let mut server = Server::running(PROGRAM, &[ED25519]);
    let load = Load::start(&server, "a", ED25519.name);
    let mut last = 0;
    for round in 0..times(KILLS, 3) {
        server.until("another process", || server.child(name) != last);
        last = server.child(name);
        // From before it serves to well into its work.
        std::thread::sleep(Duration::from_millis([400, 5, 150][round % 3]));
        assert!(server.signal(last, "KILL"));
        let before = load.signed();
        server.until("signatures again", || load.signed() > before);
    }
    load.stop();
    let file = server.files("b", 1).remove(0);
    server.ok(&["sign", "--format", "detached", "--key", ED25519.name, &file]);
    each_signature_is_logged_once(&server, &["a"]);
    assert!(server.stop().success(), "{}", server.log());
}

/// Nobody is left with its sockets, and the next one starts at once in the same place.
#[test]
fn a_supervisor_that_is_killed_under_load_takes_both_processes_with_it_and_can_be_started_again() {
    let mut server = Server::running(PROGRAM, &[ED25519]);
    let load = Load::start(&server, "a", ED25519.name);
    for _ in 0..times(KILLS, 3) {
        let before = load.signed();
        server.until("signatures", || load.signed() > before);
        let children = ["front", "signer"].map(|name| server.child(name));
        assert!(server.signal(server.supervisor(), "KILL"));
        assert!(!server.ended().success());
        for child in children {
            server.until("both have ended", || is_gone(child));
        }
        server.start();
    }
    let before = load.signed();
    server.until("signatures again", || load.signed() > before);
    load.stop();
    each_signature_is_logged_once(&server, &["a"]);
    assert!(server.stop().success(), "{}", server.log());
}

/// Gone, or waiting for somebody to take notice of it.
fn is_gone(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_none_or(|(_, fields)| fields.trim_start().starts_with(['Z', 'X']))
}
