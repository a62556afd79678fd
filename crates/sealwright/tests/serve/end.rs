//! Ends: in good order, at once, and of one that was never ready.

use sealwright_testkit::fixtures::ED25519;
use sealwright_testkit::server::Server;

use super::load::{Load, each_signature_is_logged_once};
use super::{PROGRAM, times};

/// A group whose intent was written down has its answer in the store: it was given, or can be asked for again.
#[test]
fn sigterm_under_load_ends_with_status_0_and_what_is_in_flight_is_answered() {
    let mut server = Server::running(PROGRAM, &[ED25519]);
    let load = Load::start(&server, "a", ED25519.name);
    for _ in 0..times("SEALWRIGHT_SERVE_ENDS", 5) {
        let before = load.signed();
        server.until("signatures", || load.signed() > before);
        let status = server.stop();
        assert_eq!(status.code(), Some(0), "{}", server.log());
        let begun = "SELECT COUNT(*) FROM intents WHERE principal != '' AND outcome IS NULL";
        assert_eq!(server.sql(begun), ["0"], "begun and not answered\n{}", server.log());
        server.start();
    }
    let before = load.signed();
    server.until("signatures again", || load.signed() > before);
    load.stop();
    each_signature_is_logged_once(&server, &["a"]);
}

#[test]
fn sigquit_and_a_second_sigterm_end_it_at_once_with_another_status() {
    let mut server = Server::running(PROGRAM, &[]);
    server.signal(server.supervisor(), "QUIT");
    assert_eq!(server.ended().code(), Some(1));
    server.start();
    // A front that cannot end: it is not asked for long.
    server.signal(server.child("front"), "STOP");
    server.signal(server.supervisor(), "TERM");
    server.await_notice("STOPPING=1");
    server.signal(server.supervisor(), "TERM");
    assert_eq!(server.ended().code(), Some(1));
}

#[test]
fn a_second_server_on_one_store_is_refused_by_name() {
    let mut server = Server::running(PROGRAM, &[]);
    let mut second = server.serve();
    let refused = sealwright_testkit::tools::run(second.stderr(std::process::Stdio::piped()));
    assert_eq!(refused.status.code(), Some(1));
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    let store = server.directory().join("store");
    assert!(said.contains(store.to_str().unwrap()) && said.contains("another"), "{said}");
    assert!(server.stop().success());
}
