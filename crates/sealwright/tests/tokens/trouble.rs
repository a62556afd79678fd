//! Workers that are killed, crash or stand still under load: other keys see nothing of it, requests for the token are
//! answered with a signature or a typed failure, and the service is back by itself.

use sealwright_testkit::fixtures::ED25519;
use sealwright_testkit::server::Server;
use sealwright_testkit::softhsm::{PIN, SoftHsm};

use super::load::{Load, each_signature_is_logged_once};
use super::{PROGRAM, only_the_worker_has_the_module, worker_of};

/// What a request for the token may be told.
const TYPED: [&str; 4] = ["token-gone", "token-silent", "deadline-exceeded", "overloaded"];

#[test]
fn a_worker_that_is_killed_crashes_or_stands_still_disturbs_no_other_key_and_is_replaced() {
    let hsm = SoftHsm::new();
    hsm.add_rsa("signer", "01");
    let mut server = Server::new(PROGRAM);
    // The usual deadline: a shorter one is missed by a worker that is only slow, on a machine with other work.
    SoftHsm::install(&server.directory().join("root"), &hsm.entry(""), PIN);
    server.start();
    server.import(ED25519);
    server.ok(&["key", "import", "hard", "--token", "hsm1", "--object", "signer"]);
    let signer = server.child("signer");
    only_the_worker_has_the_module(signer);
    let (hard, soft) = (Load::start(&server, "hard", "hard"), Load::start(&server, "soft", ED25519.name));
    let mut last = 0;
    for signal in ["KILL", "SEGV", "STOP"] {
        signatures_by_both(&server, &hard, &soft);
        last = hit_worker(&server, signer, last, signal);
        server.until("the old worker is gone", || {
            if signal == "SEGV" {
                // Rust's handler looks for a stack overflow, finds none, and leaves the next one to the kernel: where a
                // real one would come at once, as the same instruction is tried again. One that comes before the handler
                // of another has run is the same as that one, so there may be no end after two.
                server.signal(last, signal);
            }
            worker_of(signer) != Some(last)
        });
        signatures_by_both(&server, &hard, &soft);
    }
    assert_eq!(soft.stop(), Vec::<String>::new(), "software keys");
    for failure in hard.stop() {
        assert!(TYPED.iter().any(|code| failure.contains(&format!("\"{code}\""))), "{failure}");
    }
    assert_eq!(server.child("signer"), signer, "the signer was not replaced");
    each_signature_is_logged_once(&server, &["hard", "soft"]);
    assert!(server.stop().success(), "{}", server.log());
}

fn signatures_by_both(server: &Server, hard: &Load, soft: &Load) {
    let before = (hard.signed(), soft.signed());
    server.until("signatures by both", || hard.signed() > before.0 && soft.signed() > before.1);
}

/// Sends the signal to a worker that is another than the last one, and says to which. One may end by itself meanwhile.
fn hit_worker(server: &Server, signer: u32, last: u32, signal: &str) -> u32 {
    let mut hit = None;
    server.until("another worker is hit", || {
        hit = worker_of(signer).filter(|worker| *worker != last && server.signal(*worker, signal));
        hit.is_some()
    });
    hit.unwrap()
}

/// Nothing of it is left when the signer ends, however it ends.
#[test]
fn keeper_and_worker_end_with_their_signer() {
    let hsm = SoftHsm::new();
    hsm.add_rsa("signer", "01");
    let mut server = Server::new(PROGRAM);
    SoftHsm::install(&server.directory().join("root"), &hsm.entry(""), PIN);
    server.start();
    server.ok(&["key", "import", "hard", "--token", "hsm1", "--object", "signer"]);
    let signer = server.child("signer");
    let worker = worker_of(signer).unwrap();
    let keeper = sealwright_testkit::server::children(signer)[0];
    assert!(server.signal(signer, "KILL"));
    for pid in [keeper, worker] {
        server.until("it has ended", || {
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            stat.rsplit_once(')').is_none_or(|(_, fields)| fields.trim_start().starts_with(['Z', 'X']))
        });
    }
    let file = server.files("after", 1).remove(0);
    server.ok(&["sign", "--format", "detached", "--key", "hard", &file]);
    assert!(server.stop().success(), "{}", server.log());
}
