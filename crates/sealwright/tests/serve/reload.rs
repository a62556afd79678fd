//! Reloads: all of the files or none, and no request fails of one.

use std::fs;

use sealwright_testkit::fixtures::ED25519;
use sealwright_testkit::server::Server;

use super::PROGRAM;
use super::load::Load;

/// Ten, every other of them with a malformed file.
#[test]
fn reloads_under_load_fail_no_request_and_a_malformed_file_changes_nothing() {
    let mut server = Server::new(PROGRAM);
    server.start();
    server.import(ED25519);
    let load = Load::start(&server, "a", ED25519.name);
    let clients = server.directory().join("clients.toml");
    let good = fs::read_to_string(&clients).unwrap();
    let mut signed = 0;
    for round in 0..10 {
        let is_bad = round % 2 == 1;
        // Replaced, as editors do.
        let next = server.directory().join("next");
        fs::write(
            &next,
            if is_bad { "[[client]]\nname = 7\n".to_owned() } else { format!("{good}\n# {round}\n") },
        )
        .unwrap();
        fs::rename(&next, &clients).unwrap();
        server.forget_notices();
        server.signal(server.supervisor(), "HUP");
        assert!(server.await_notice("RELOADING=1").contains("MONOTONIC_USEC="));
        let status = server.await_notice("STATUS=");
        assert_eq!(status.contains("not reloaded"), is_bad, "{status}");
        server.until("signatures after it", || load.signed() > signed);
        signed = load.signed();
    }
    let failures = load.stop();
    assert!(failures.is_empty(), "{failures:#?}");
    assert!(server.log().contains("clients.toml"), "the log names the file");
    assert!(server.stop().success());
}

#[test]
fn a_client_that_a_reload_takes_the_grants_from_signs_no_more() {
    let mut server = Server::new(PROGRAM);
    server.start();
    server.import(ED25519);
    let file = server.files("a", 1).remove(0);
    let sign = ["sign", "--format", "detached", "--force", "--key", ED25519.name, &file];
    server.ok(&sign);
    let clients = server.directory().join("clients.toml");
    let text = fs::read_to_string(&clients).unwrap();
    fs::write(&clients, text.replace("keys = [\"*\"]", "keys = []")).unwrap();
    server.forget_notices();
    server.signal(server.supervisor(), "HUP");
    server.await_notice("STATUS=reloaded");
    assert_ne!(server.run(&sign).code, Some(0));
    // And a front that is started again has the same files.
    server.signal(server.child("front"), "KILL");
    server.await_notice("STATUS=ready");
    assert_ne!(server.run(&sign).code, Some(0));
    assert!(server.stop().success());
}

/// Each asks for what lies there by then: the last one counts, whatever comes of those before.
#[test]
fn many_reloads_at_once_end_with_the_files_of_the_last() {
    let mut server = Server::new(PROGRAM);
    server.start();
    server.import(ED25519);
    let file = server.files("a", 1).remove(0);
    let sign = ["sign", "--format", "detached", "--force", "--key", ED25519.name, &file];
    let clients = server.directory().join("clients.toml");
    let good = fs::read_to_string(&clients).unwrap();
    let without = good.replace("keys = [\"*\"]", "keys = []");
    for _ in 0..10 {
        for text in [&without, &good, &"nonsense".to_owned()] {
            fs::write(server.directory().join("next"), text).unwrap();
            fs::rename(server.directory().join("next"), &clients).unwrap();
            server.signal(server.supervisor(), "HUP");
        }
    }
    fs::write(&clients, good).unwrap();
    server.signal(server.supervisor(), "HUP");
    server.until("signatures again", || server.run(&sign).code == Some(0));
    // It stays so: nothing older comes after it.
    std::thread::sleep(std::time::Duration::from_millis(300));
    server.ok(&sign);
    assert!(server.stop().success());
}

#[test]
fn what_a_reload_cannot_change_is_named() {
    let mut server = Server::new(PROGRAM);
    server.start();
    server.configure("folder =", "folder = \"elsewhere\"");
    server.forget_notices();
    server.signal(server.supervisor(), "HUP");
    let status = server.await_notice("STATUS=not reloaded");
    assert!(status.contains("[store]"), "{status}");
    assert!(server.stop().success());
}
