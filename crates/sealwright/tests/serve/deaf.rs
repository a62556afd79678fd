//! Peers that begin a message and say nothing more, and peers that read nothing of their answers: a client beside them
//! notices nothing, and they cost a bounded amount for a bounded time.

use std::sync::atomic::Ordering;

use sealwright_testkit::fixtures::ED25519;
use sealwright_testkit::server::{Server, anonymous_kib};
use tokio::io::AsyncWriteExt as _;
use tokio::task::JoinSet;

use super::caller::{self, Caller};
use super::load::{Load, each_signature_is_logged_once};
use super::{PROGRAM, times};

/// The client's greeting of HTTP/2 (RFC 9113 section 3.4), with empty settings.
const GREETING: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
/// The head of a frame of 100 bytes, and two of them.
const HALF_A_FRAME: &[u8] = b"\0\0\x64\x01\x04\0\0\0\x01\x82\x86";

/// Peers of each kind.
const SILENT: usize = 50;
const DEAF: usize = 10;
/// Requests of each that reads nothing, all at once, and groups in each.
const STREAMS: usize = 60;
const GROUPS: usize = 60;

/// Rounds of the honest client.
const ROUNDS: usize = 5;

/// What front may need for all of them: 64 KiB for the answers of a stream, its window for a connection, and buffers.
const PEERS_KIB_MAX: u64 = (DEAF * STREAMS * 64 + (DEAF + SILENT) * 256) as u64;

/// Growth of front's memory afterwards that says nothing.
const GROWTH_KIB_MAX: u64 = 8 << 10;

#[tokio::test(flavor = "multi_thread")]
async fn half_frames_and_deaf_clients_cost_an_honest_one_nothing() {
    let server = Server::new(PROGRAM);
    server.configure("# [limits]", "[limits]\nidle_s = 2\nwrite_stall_s = 2");
    let mut server = server.run_with(&[ED25519]);
    let front = server.child("front");
    let load = Load::start(&server, "a", ED25519.name);
    server.until("a round", || load.signed() > 0);
    let before = anonymous_kib(front);
    let mut silent = Vec::new();
    for number in 0..SILENT {
        let (mut stream, _) = caller::connect(&server).await;
        let said = if number % 2 == 0 { HALF_A_FRAME } else { &HALF_A_FRAME[..5] };
        stream.write_all(&[GREETING, said].concat()).await.unwrap();
        silent.push(stream);
    }
    let mut deaf = JoinSet::new();
    for _ in 0..DEAF {
        let (stream, ears) = caller::connect(&server).await;
        let mut caller = Caller::over(stream).await;
        // Those before it may have taken all places of the client that they share.
        while !caller.try_sign(ED25519.name).await {
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
        ears.store(false, Ordering::SeqCst);
        for _ in 0..STREAMS {
            let mut caller = caller.clone();
            deaf.spawn(async move { caller.ask(ED25519.name, GROUPS, 60_000).await });
        }
    }
    let another_round = || {
        let signed = load.signed();
        server.until("another round", || load.signed() > signed);
        anonymous_kib(front)
    };
    let beside = another_round().max(another_round());
    let rounds = times("SEALWRIGHT_SERVE_ROUNDS", ROUNDS);
    let peak = (0..rounds).map(|_| another_round()).max().unwrap();
    let signed = load.signed();
    assert_eq!(load.stop(), Vec::<String>::new(), "a call of the honest client failed");
    let ended = deaf.try_join_next();
    let is_cut_off = |ended: &Result<Result<(), tonic::Status>, _>| matches!(ended, Ok(Err(_)));
    assert!(ended.as_ref().is_none_or(is_cut_off), "one that reads nothing got an answer: {ended:?}");
    println!(
        "{SILENT} silent, {DEAF} deaf with {STREAMS} requests each; beside them {signed} signatures, 0 failures; \
         front {before} KiB before, {beside} KiB with them, at most {peak} KiB"
    );
    assert!(beside < before + PEERS_KIB_MAX, "{before} KiB, then {beside} KiB");
    assert!(peak < beside + GROWTH_KIB_MAX, "{beside} KiB, then {peak} KiB");
    // The silent ones are cut off when they are idle, the deaf ones when they answer no ping: in a minute, which a soak
    // test has.
    let left = if rounds > ROUNDS { 0 } else { DEAF };
    server.until("they are cut off", || established(server.port()) <= left);
    drop((silent, deaf));
    each_signature_is_logged_once(&server, &["a"]);
    assert_eq!(server.child("front"), front, "it was not replaced");
    assert!(server.stop().success(), "{}", server.log());
}

/// Connections that the server at this port holds.
fn established(port: u16) -> usize {
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let local = format!(":{port:04X}");
    let is_held = |line: &&str| {
        let mut fields = line.split_whitespace().skip(1);
        let (address, state) = (fields.next(), fields.nth(1));
        address.is_some_and(|address| address.ends_with(&local)) && state == Some("01")
    };
    table.lines().filter(is_held).count()
}
