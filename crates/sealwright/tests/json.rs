//! `--json`, as docs/json.md describes it.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    reason = "tests"
)]

use std::fs;

use sealwright_testkit::fixtures::{self, ED25519};
use sealwright_testkit::sealwright::{Home, Ran};
use serde_json::Value;

const PROGRAM: &str = env!("CARGO_BIN_EXE_sealwright");
const PACKAGE: &str = "gen_tiny-reserved4096.rpm";

fn home() -> Home {
    let home = Home::with_keys(PROGRAM, &[ED25519]);
    home.copy(&fixtures::package(PACKAGE));
    home
}

#[track_caller]
fn statuses(ran: &Ran) -> Vec<(String, String)> {
    let mut found: Vec<_> =
        ran.json().iter().map(|object| (text(object, "file"), text(object, "status"))).collect();
    found.sort();
    found
}

#[track_caller]
fn text(object: &Value, name: &str) -> String {
    object[name].as_str().unwrap_or_else(|| panic!("no {name} in {object}")).to_owned()
}

#[test]
fn every_object_about_a_file_has_file_and_status_and_every_failure_error_and_advice() {
    let home = home();
    fs::write(home.work().join("bad"), "bad").unwrap();
    let calls: [(&[&str], &str, &str); 8] = [
        (&["verify"], "failed", "unsigned"),
        (&["sign", "--dry-run", "--key", ED25519.name], "failed", "would-sign"),
        (&["sign", "--key", ED25519.name], "failed", "signed"),
        (&["sign", "--key", ED25519.name], "failed", "unchanged"),
        (&["verify"], "failed", "valid"),
        (&["inspect"], "failed", "inspected"),
        (&["strip", "--dry-run"], "failed", "would-strip"),
        (&["strip"], "failed", "stripped"),
    ];
    for (call, bad, good) in calls {
        // A missing file fails in every command.
        let ran = home.run(&[call, &["--json", PACKAGE, "none"]].concat());
        assert_eq!(ran.code, Some(1), "{}", ran.text());
        let expected = [(PACKAGE.to_owned(), good.to_owned()), ("none".to_owned(), bad.to_owned())];
        assert_eq!(statuses(&ran), expected, "{call:?}");
        let failed = ran.json().into_iter().find(|object| object["file"] == "none").unwrap();
        assert!(text(&failed, "error").contains("no such file") && !text(&failed, "advice").is_empty());
        if call == ["verify"] {
            let good = ran.json().into_iter().find(|object| object["file"] == PACKAGE).unwrap();
            assert_eq!(good["state"], good["status"]);
        }
    }
}

#[test]
fn standard_input_has_the_fields_of_a_file() {
    let home = home();
    let sign = ["sign", "--json", "--format", "detached", "--key", ED25519.name];
    fs::write(home.work().join("data"), "data").unwrap();
    let file = home.ok(&[&sign[..], &["data"]].concat()).json().remove(0);
    let stream = home.run_with_input(&[&sign[..], &["-"]].concat(), b"data").json().remove(0);
    for name in
        ["file", "status", "format", "key", "log", "size", "sent", "written", "elapsed_ms", "request_id"]
    {
        assert!(!file[name].is_null() && !stream[name].is_null(), "{name}: {file} {stream}");
    }
    assert_eq!((&stream["status"], &stream["file"]), (&Value::from("signed"), &Value::from("-")));
    assert_eq!(stream["log"], Value::from([1]));
    assert_eq!(stream["key"], file["key"]);
    assert!(text(&stream, "signature_hex").len() > 100);
}

#[test]
fn times_are_of_rfc_3339_in_utc() {
    let home = home();
    home.ok(&["sign", "--key", ED25519.name, PACKAGE]);
    let is_time = |text: &str| text.len() == 20 && text.ends_with('Z') && text.as_bytes()[10] == b'T';
    for command in ["verify", "inspect"] {
        let object = home.ok(&[command, "--json", PACKAGE]).json().remove(0);
        let signature = &object["signatures"][0];
        assert!(is_time(&text(signature, "created")), "{signature}");
        assert!(signature["created_s"].as_i64().unwrap() > 1_700_000_000, "{signature}");
    }
    home.ok(&["key", "create", "new", "--algorithm", "ed25519", "--expires", "2y"]);
    let key = home.ok(&["key", "show", "new", "--json"]).json().remove(0);
    assert!(is_time(&text(&key, "created")) && is_time(&text(&key, "expires")), "{key}");
}

#[test]
fn a_failure_before_the_first_file_is_one_object() {
    let home = home();
    let ran = home.run(&["sign", "--json", "--key", "nobody", PACKAGE]);
    assert_eq!(ran.code, Some(1), "{}", ran.text());
    let [object] = &ran.json()[..] else { panic!("{}", ran.text()) };
    assert_eq!(object["status"], "failed");
    assert!(text(object, "error").contains("nobody"), "{object}");
}
