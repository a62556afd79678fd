//! Reloads: all of the files or none, and no request fails of one.

use std::fs;

use sealwright_testkit::fixtures::ED25519;
use sealwright_testkit::server::{Server, children};
use sealwright_testkit::tools;

use super::PROGRAM;
use super::load::Load;

/// Ten, every other of them with a malformed file.
#[test]
fn reloads_under_load_fail_no_request_and_a_malformed_file_changes_nothing() {
    let mut server = Server::running(PROGRAM, &[ED25519]);
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
        server.reload();
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
fn a_reload_of_an_emptied_list_of_clients_shuts_nobody_out_and_one_that_is_taken_says_their_number() {
    let mut server = Server::running(PROGRAM, &[ED25519]);
    let clients = server.directory().join("clients.toml");
    let good = fs::read_to_string(&clients).unwrap();
    fs::write(&clients, "").unwrap();
    server.reload();
    let status = server.await_notice("STATUS=not reloaded");
    assert!(status.contains("names no client"), "{status}");
    server.signs(ED25519);
    fs::write(&clients, good + "\n[[client]]\nname = \"another\"\n").unwrap();
    server.reload();
    server.await_notice("STATUS=reloaded");
    let said = |line: &str| {
        line.contains("reloaded") && (line.contains("clients=2") || line.contains("\"clients\":2"))
    };
    server.until("it says how many there are", || server.log().lines().any(said));
    assert!(server.stop().success());
}

#[test]
fn a_client_that_a_reload_takes_the_grants_from_signs_no_more() {
    let mut server = Server::running(PROGRAM, &[ED25519]);
    server.signs(ED25519);
    let clients = server.directory().join("clients.toml");
    let text = fs::read_to_string(&clients).unwrap();
    fs::write(&clients, text.replace("keys = [\"*\"]", "keys = []")).unwrap();
    server.reload();
    server.await_notice("STATUS=reloaded");
    assert_ne!(server.sign(ED25519).code, Some(0));
    // And a front that is started again has the same files.
    server.signal(server.child("front"), "KILL");
    server.await_notice("STATUS=ready");
    assert_ne!(server.sign(ED25519).code, Some(0));
    assert!(server.stop().success());
}

/// Each asks for what lies there by then: the last one counts, whatever comes of those before.
#[test]
fn many_reloads_at_once_end_with_the_files_of_the_last() {
    let mut server = Server::running(PROGRAM, &[ED25519]);
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
    server.until("signatures again", || server.sign(ED25519).code == Some(0));
    // It stays so: nothing older comes after it.
    std::thread::sleep(std::time::Duration::from_millis(300));
    server.signs(ED25519);
    assert!(server.stop().success());
}

#[test]
fn what_a_reload_cannot_change_is_named() {
    let mut server = Server::running(PROGRAM, &[]);
    server.configure("folder =", "folder = \"elsewhere\"");
    server.reload();
    let status = server.await_notice("STATUS=not reloaded");
    assert!(status.contains("[store]"), "{status}");
    assert!(server.stop().success());
}

/// Written into the very file that was read, as some editors do.
#[test]
fn what_is_in_force_is_what_was_read_and_found_good_for_each_front_that_is_started_again() {
    let mut server = Server::running(PROGRAM, &[ED25519]);
    for name in ["clients.toml", "server.toml", "tls/server.pem", "tls/server.key", "tls/ca.pem"] {
        let place = server.directory().join(name);
        let right = fs::read(&place).unwrap();
        fs::write(&place, "nonsense").unwrap();
        server.reload();
        server.await_notice("STATUS=not reloaded");
        for _ in 0..2 {
            server.forget_notices();
            server.signal(server.child("front"), "KILL");
            server.await_notice("STATUS=ready");
            server.signs(ED25519);
        }
        fs::write(&place, right).unwrap();
    }
    assert!(server.stop().success());
}

#[test]
fn a_reload_while_there_is_no_front_is_checked_and_taken_or_refused_as_with_one() {
    let mut server = Server::running(PROGRAM, &[ED25519]);
    let clients = server.directory().join("clients.toml");
    let good = fs::read_to_string(&clients).unwrap();
    for (text, is_taken) in
        [("nonsense".to_owned(), false), (good.replace("keys = [\"*\"]", "keys = []"), true)]
    {
        fs::write(&clients, text).unwrap();
        server.forget_notices();
        let (supervisor, front) = (server.supervisor(), server.child("front"));
        server.signal(supervisor, "STOP");
        server.signal(front, "KILL");
        server.until("front has ended", || !children(supervisor).contains(&front));
        server.signal(supervisor, "HUP");
        server.signal(supervisor, "CONT");
        if !is_taken {
            server.await_notice("STATUS=not reloaded");
        }
        server.await_notice("STATUS=ready");
        assert_eq!(server.sign(ED25519).code != Some(0), is_taken, "{}", server.log());
    }
    assert!(server.log().contains("the next front starts with it"), "{}", server.log());
    assert!(server.stop().success());
}

#[test]
fn a_fifo_in_the_place_of_a_file_holds_up_no_reload_and_no_end() {
    let mut server = Server::running(PROGRAM, &[]);
    let clients = server.directory().join("clients.toml");
    fs::remove_file(&clients).unwrap();
    tools::succeed(std::process::Command::new("mkfifo").arg(&clients));
    server.reload();
    let status = server.await_notice("STATUS=not reloaded");
    assert!(status.contains("not a regular file"), "{status}");
    assert!(server.stop().success());
}
