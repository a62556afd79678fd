//! What no client should send, sent: a text as precise as `signd`'s, and a server that goes on.

use std::io::Write as _;
use std::net::TcpStream;
use std::time::Instant;

use sealwright_obs::{Hash, Request};

use super::serving::{Obs, RSA2048, ask_half, digest, refusal, rest};

/// In the new form, of any bytes; lengths as they are.
fn new_form(arguments: &[&[u8]]) -> Vec<u8> {
    let two = |len: usize| u16::try_from(len).unwrap().to_be_bytes();
    let mut payload = two(arguments.len()).to_vec();
    payload.extend(arguments.iter().flat_map(|argument| two(argument.len())));
    payload.extend(arguments.concat());
    [&two(payload.len())[..], &[0, 0], &payload].concat()
}

#[test]
fn every_bad_request_gets_its_text_and_the_next_one_is_served() {
    let obs = Obs::with("", &[0]);
    let good = "a4".repeat(32) + "@006b0d6c48";
    let good = good.as_bytes();
    let long = [b'u'; 2_000];
    let too_long = format!("unknown key: {}", "u".repeat(2_000));
    let user = format!("SHA256:{RSA2048}");
    let user = user.as_bytes();
    for (request, want) in [
        (new_form(&[b"sign", b"../x", good]), "illegal user ../x"),
        (new_form(&[b"sign", b"a/b", good]), "illegal user a/b"),
        (new_form(&[b"sign", b"a\nb", good]), "malformed argument"),
        (new_form(&[b"sign", user, b"a\x00b"]), "malformed argument"),
        (new_form(&[b"sign", user, b"\xff"]), "malformed argument"),
        (new_form(&[b"sign", &long, good]), &*too_long),
        (new_form(&[b"sign", b"", good]), "unknown key:"),
        (new_form(&[b"sign", b"SHA256:nosuch", b"zz"]), "unknown key: nosuch"),
        (new_form(&[b"no-such-command", b"nosuch"]), "unknown key: nosuch"),
        (new_form(&[b"privileged", b"-", b"nonce"]), "privileged module is not loaded"),
        (
            new_form(&[b"sign", b"SHA384:bench#rsa2048@copr.example.org", good]),
            "sign_with_agent: bad hashalgo SHA384",
        ),
        (new_form(&[b"keygen", user, b"rsa@100", b"1", b"a", b"b"]), "bad type: rsa@100"),
        (new_form(&[b"keygen", user, b"rsa@2048", b"1y", b"a", b"b"]), "bad expire format"),
        (new_form(&[b"keygen", user, b"rsa@2048", b"1", b"a\nb", b"b"]), "malformed argument"),
        (
            new_form(&[b"keygen", user, b"rsa@2048", b"1", b"a", &long]),
            "email too long: 2000 bytes, at most 255",
        ),
        (new_form(&[b"privsign", user, b"zz", good]), "bad private key"),
        (new_form(&vec![&b""[..]; 32_766]), "too many arguments: 32766, at most 1240"),
        ([&[0xff, 0xff, 0, 0, 0xff, 0xff][..], &[0; 65_533]].concat(), "packet too small"),
        ([&[0xff; 4][..], &vec![0x41; 131_070]].concat(), "packet too big: 131070 bytes, at most 65535"),
        (vec![0, 3, 0, 0, 0, 1, 0], "packet too small"),
        (
            vec![0, 5, 0, 0, 0, 1, 0, 9, b'x'],
            "packet size mismatch: its arguments have 9 bytes by their lengths, and 1 are there",
        ),
        (vec![0, 0, 0, 0, 0], "packet size mismatch"),
    ] {
        assert_eq!(obs.refusal(&request), want);
    }
    obs.signs();
}

#[test]
fn more_digests_than_a_reply_holds_are_refused_before_any_is_signed() {
    let obs = Obs::with("", &[0]);
    let digests: Vec<_> = (0..240).map(|byte| digest(if byte == 4 { 250 } else { byte })).collect();
    let request = Request::sign(RSA2048, &digests).unwrap();
    assert_eq!(
        obs.refusal(&request.to_bytes()),
        "240 results have up to 67682 bytes, and one reply holds 65535; ask for fewer at once"
    );
    assert_eq!(obs.server.sql("SELECT count(*) FROM log"), ["0"]);
    let request = Request::sign(RSA2048, &digests[..100]).unwrap();
    assert_eq!(obs.ask(&request.to_bytes())[..2], [0, 0]);
    assert_eq!(obs.server.sql("SELECT count(*) FROM log"), ["100"], "each digest has an entry");
}

#[test]
fn one_bad_digest_of_many_refuses_all_and_none_is_signed() {
    let obs = Obs::with("", &[0]);
    let good = digest(1).to_text();
    for (bad, want) in [
        ("aabb@006b0d6c48".to_owned(), "unsupported length of hash"),
        ("a4".repeat(32) + "@436b0d6c48", "bad hash a4"),
        (good.replace('@', "#"), "bad hash"),
    ] {
        let arguments = vec![good.clone(), bad, good.clone()];
        let request = Request::new_form("sign", RSA2048, Hash::Sha256, arguments).unwrap();
        let text = obs.refusal(&request.to_bytes());
        assert!(text.contains(want), "{text}");
    }
    assert_eq!(obs.server.sql("SELECT count(*) FROM log"), ["0"]);
}

#[test]
fn a_probe_is_answered_without_a_signature_and_among_digests_too() {
    let obs = Obs::with("", &[0]);
    let probe = sealwright_obs::DigestArgument::probe(Hash::Sha256);
    let request = Request::sign(RSA2048, &[digest(1), probe, digest(2)]).unwrap();
    let reply = sealwright_obs::Reply::parse(&obs.ask(&request.to_bytes())).unwrap();
    let results = reply.results(sealwright_obs::Form::New, 3).unwrap();
    let packets: Vec<_> = results
        .iter()
        .map(|result| sealwright_obs::packet::SignaturePacket::parse(result).unwrap())
        .collect();
    assert_eq!(packets.iter().map(|packet| packet.version).collect::<Vec<_>>(), [3, 4, 3]);
    assert_eq!(packets[1].numbers, [0, 1, 1]);
    assert_eq!(obs.server.sql("SELECT count(*) FROM log"), ["2"], "nothing was signed for the probe");
}

#[test]
fn half_a_request_is_answered_at_its_end_or_at_the_deadline() {
    let obs = Obs::with("", &[]);
    let connect = || TcpStream::connect(obs.address()).unwrap();
    assert_eq!(refusal(&ask_half(connect(), &[0])), "packet too small");
    assert_eq!(refusal(&ask_half(connect(), &[0, 9, 0, 0, 1])), "packet read error");
    let begun = Instant::now();
    let mut waiting = connect();
    waiting.write_all(&[0]).unwrap();
    assert_eq!(refusal(&rest(waiting)), "packet too small");
    // The other bound is what the test as a whole may take: a loaded machine is slow.
    assert!(begun.elapsed() >= sealwright_server::obs::REQUEST_MAX);
}

#[test]
fn a_request_in_single_bytes_is_served() {
    let obs = Obs::with("", &[]);
    let mut stream = TcpStream::connect(obs.address()).unwrap();
    stream.set_nodelay(true).unwrap();
    for byte in [0; 4] {
        stream.write_all(&[byte]).unwrap();
    }
    assert_eq!(rest(stream), [0; 6]);
}
