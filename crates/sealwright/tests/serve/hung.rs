//! A signer that hangs for good: the supervisor notices by itself, and replaces it.

use std::time::{Duration, Instant};

use sealwright_testkit::fixtures::{ED25519, RSA4096};
use sealwright_testkit::server::Server;

use super::PROGRAM;
use super::load::Load;

/// Seconds, the least that can be configured; and longer than these and the supervisor's second look.
const SILENCE_S: u32 = 5;
const LONGER: Duration = Duration::from_secs(8);

const SAID: &str = "says nothing any more; it is killed";

#[test]
fn a_signer_that_hangs_is_replaced_and_one_that_is_idle_or_busy_is_not() {
    let server = Server::new(PROGRAM);
    server.configure("require_sandbox", &format!("require_sandbox = false\nsilence_s = {SILENCE_S}"));
    let mut server = server.run_with(&[ED25519, RSA4096]);
    let signer = server.child("signer");
    std::thread::sleep(LONGER);
    let load = Load::start(&server, "busy", RSA4096.name);
    let begun = Instant::now();
    server.until("work for a while", || begun.elapsed() > LONGER);
    assert!(load.stop().is_empty());
    assert_eq!(server.child("signer"), signer, "{}", server.log());
    assert!(!server.log().contains(SAID), "{}", server.log());
    for _ in 0..2 {
        let signer = server.child("signer");
        server.signal(signer, "STOP");
        server.until("another signer", || server.child("signer") != signer);
        // By its own count: front has forgotten the one before only when its socket was closed.
        server.signs(ED25519);
    }
    assert_eq!(server.log().matches(SAID).count(), 2, "{}", server.log());
    assert!(server.stop().success(), "{}", server.log());
}

#[test]
fn a_time_in_which_work_looks_like_none_is_refused() {
    let server = Server::new(PROGRAM);
    server.configure("require_sandbox", "silence_s = 4");
    let file = server.directory().join("server.toml");
    server
        .run(&["serve", "--check-config", "--config", file.to_str().unwrap()])
        .failed_saying(&["[signer] silence_s = 4"]);
}
