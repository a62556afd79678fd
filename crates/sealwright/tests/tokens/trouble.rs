//! Workers and keepers that are killed, crash or stand still under load: other keys see nothing of it, requests for the token
//! are answered with a signature or a typed failure, and the service is back by itself. Modules that block.

use sealwright_testkit::fixtures::ED25519;
use sealwright_testkit::server::{Server, children};
use sealwright_testkit::softhsm::{MODULE, PIN, SoftHsm, compile};

use super::load::{Load, each_signature_is_logged_once};
use super::{PROGRAM, called, home_with_token, is_accepted, only_the_worker_has_the_module, root, worker_of};

/// What a request for the token may be told.
const TYPED: [&str; 4] = ["token-gone", "token-silent", "deadline-exceeded", "overloaded"];

#[test]
fn a_worker_that_is_killed_crashes_or_stands_still_disturbs_no_other_key_and_is_replaced() {
    let (mut server, _hsm) = server_with_both();
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
    only_the_token_was_disturbed(&mut server, signer, hard, soft);
}

/// Its workers die with it; the spare one takes its place, on the same socket, and has a spare one of its own.
#[test]
fn a_keeper_that_is_killed_crashes_or_stands_still_disturbs_no_other_key_and_is_replaced() {
    let (mut server, _hsm) = server_with_both();
    let signer = server.child("signer");
    let (hard, soft) = (Load::start(&server, "hard", "hard"), Load::start(&server, "soft", ED25519.name));
    let mut keeper = children(signer)[0];
    for signal in ["KILL", "SEGV", "STOP"] {
        signatures_by_both(&server, &hard, &soft);
        let worker = called(keeper, "token-worker");
        let spare = spare_of(&server, keeper);
        assert!(server.signal(keeper, signal));
        server.until("a worker of the next keeper", || {
            if signal == "SEGV" {
                // As above.
                server.signal(keeper, signal);
            }
            called(spare, "token-worker").is_some()
        });
        for pid in worker.into_iter().chain([keeper]) {
            server.until("the old ones are gone", || is_gone(pid));
        }
        keeper = spare;
        signatures_by_both(&server, &hard, &soft);
    }
    // The spare one comes back, too.
    for signal in ["KILL", "STOP"] {
        let spare = spare_of(&server, keeper);
        assert!(server.signal(spare, signal));
        server
            .until("another spare keeper", || called(keeper, "token-keeper").is_some_and(|pid| pid != spare));
    }
    let spare = spare_of(&server, keeper);
    only_the_token_was_disturbed(&mut server, signer, hard, soft);
    for pid in [keeper, spare] {
        server.until("it ends with its signer", || is_gone(pid));
    }
}

/// A server with a key `hard` on a token, and one in software. With the usual deadline: a shorter one is missed by a worker
/// that is only slow, on a machine with other work.
fn server_with_both() -> (Server, SoftHsm) {
    let hsm = SoftHsm::new();
    hsm.add_rsa("signer", "01");
    let mut server = Server::new(PROGRAM);
    SoftHsm::install(&server.directory().join("root"), &hsm.entry(""), PIN);
    server.start();
    server.import(ED25519);
    server.ok(&["key", "import", "hard", "--token", "hsm1", "--object", "signer"]);
    (server, hsm)
}

fn only_the_token_was_disturbed(server: &mut Server, signer: u32, hard: Load, soft: Load) {
    assert_eq!(soft.stop(), Vec::<String>::new(), "software keys");
    for failure in hard.stop() {
        assert!(TYPED.iter().any(|code| failure.contains(&format!("\"{code}\""))), "{failure}");
    }
    assert_eq!(server.child("signer"), signer, "the signer was not replaced");
    each_signature_is_logged_once(server, &["hard", "soft"]);
    assert!(server.stop().success(), "{}", server.log());
}

fn spare_of(server: &Server, keeper: u32) -> u32 {
    let mut spare = None;
    server.until("a spare keeper", || {
        spare = called(keeper, "token-keeper");
        spare.is_some()
    });
    spare.unwrap()
}

fn is_gone(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_none_or(|(_, fields)| fields.trim_start().starts_with(['Z', 'X']))
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
    let keeper = children(signer)[0];
    let spare = spare_of(&server, keeper);
    assert!(server.signal(signer, "KILL"));
    for pid in [keeper, spare, worker] {
        server.until("it has ended", || is_gone(pid));
    }
    let file = server.files("after", 1).remove(0);
    server.ok(&["sign", "--format", "detached", "--key", "hard", &file]);
    assert!(server.stop().success(), "{}", server.log());
}

/// SoftHSM, but one function of its list never comes back.
const BLOCKS: &str = r#"
#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>

struct list { unsigned char version[2]; void *functions[68]; };

static struct list ours;

static unsigned long blocks(void) {
    for (;;) pause();
}

unsigned long C_GetFunctionList(struct list **out) {
    void *library = dlopen(getenv("BEHIND"), RTLD_NOW);
    if (!library) return 5;
    unsigned long (*get)(struct list **) = (unsigned long (*)(struct list **))dlsym(library, "C_GetFunctionList");
    struct list *theirs;
    if (get(&theirs)) return 5;
    ours = *theirs;
    ours.functions[atoi(getenv("BLOCKS"))] = (void *)blocks;
    *out = &ours;
    return 0;
}
"#;

/// Places of C_Initialize, C_Login and C_Sign in the list (PKCS #11 version 2.40, CK_FUNCTION_LIST).
#[test]
fn a_module_that_blocks_is_said_to_be_silent_with_the_deadline_of_the_token_to_all_who_wait() {
    let (home, hsm) = home_with_token("");
    home.ok(&["key", "import", "k", "--token", "hsm1", "--object", "signer"]);
    let module = compile(hsm.folder(), BLOCKS);
    let names: Vec<String> = (0..6).map(|number| format!("{number}.txt")).collect();
    for name in &names {
        std::fs::write(home.work().join(name), name).unwrap();
    }
    let mut sign = vec!["sign", "--json", "--format", "detached", "--jobs", "6", "--key", "k"];
    sign.extend(names.iter().map(String::as_str));
    for place in [0, 18, 43] {
        let environment = format!(", BEHIND = \"{MODULE}\", BLOCKS = \"{place}\"");
        let entry = hsm.entry_of(&module, &environment, "deadline_ms = 1500");
        SoftHsm::install(&root(&home), &entry, PIN);
        let ran = home.run(&sign);
        let failed: Vec<_> = ran.json().into_iter().filter(|line| line.get("file").is_some()).collect();
        assert_eq!(failed.len(), names.len(), "{place}: {}", ran.text());
        for line in failed {
            let (code, said) = (line["code"].as_str().unwrap(), line.to_string());
            // Where one request waits in vain, its worker goes, and with it the others' requests.
            let told = code == "token-silent" && said.contains("within 1500 ms")
                || place == 43 && code == "token-gone";
            assert!(told, "{place}: {said}");
        }
    }
    SoftHsm::install(&root(&home), &hsm.entry(""), PIN);
    is_accepted(&home, "k", "text");
}
