//! Every captured request, sent to `serve` with the given keys, gets the very bytes that `signd` answered with, but for those
//! of fixtures/obs/differences.tsv.

use std::collections::BTreeMap;
use std::fs;
use std::net::TcpStream;

use sealwright_obs::packet::SignaturePacket;
use sealwright_obs::{Form, Reply};
use sealwright_testkit::fixtures;

use super::serving::{Obs, ask, ask_half};

/// How a reply differs, and why.
pub(crate) enum Difference {
    /// In the numbers of the one packet.
    Probe,
    /// Wholly.
    Other,
}

pub(crate) fn differences() -> BTreeMap<String, Difference> {
    let text = fs::read_to_string(fixtures::path("obs/differences.tsv")).unwrap();
    let rows = text.lines().skip(1).map(|line| {
        let [name, kind, reason] = line.split('\t').collect::<Vec<_>>().try_into().unwrap();
        assert!(!reason.is_empty(), "{name} has no reason");
        let kind = match kind {
            "probe" => Difference::Probe,
            "other" => Difference::Other,
            _ => panic!("{name}: {kind}"),
        };
        (name.to_owned(), kind)
    });
    rows.collect()
}

pub(crate) fn hex(text: &str) -> Vec<u8> {
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
}

fn probe(reply: &[u8]) -> SignaturePacket {
    let reply = Reply::parse(reply).unwrap();
    SignaturePacket::parse(reply.results(Form::Old, 1).unwrap()[0]).unwrap()
}

#[test]
fn every_captured_request_gets_the_reply_of_signd_but_for_a_listed_few() {
    let obs = Obs::with("", &[0, 1, 2]);
    let text = fs::read_to_string(fixtures::path("obs/transcripts.tsv")).unwrap();
    let (mut differences, mut same) = (differences(), 0);
    for line in text.lines().skip(1) {
        let [name, request, reply] = line.split('\t').collect::<Vec<_>>().try_into().unwrap();
        let (request, captured) = (hex(request), if reply == "-" { Vec::new() } else { hex(reply) });
        let stream = TcpStream::connect(obs.address()).unwrap();
        // Half a request is answered at its deadline, or at once where it is known that no more will come.
        let asked = if name == "err-short-packet.1" { ask_half } else { ask };
        let ours = asked(stream, &request);
        match differences.remove(name) {
            None => {
                let shown = String::from_utf8_lossy(&ours);
                assert!(ours == captured, "{name}: {shown}\n{}", obs.server.log());
                same += 1;
            }
            Some(Difference::Probe) => {
                let (ours, theirs) = (probe(&ours), probe(&captured));
                assert_ne!(ours.numbers, theirs.numbers, "{name}");
                let numbers = theirs.numbers.clone();
                assert_eq!(SignaturePacket { numbers, ..ours }, theirs, "{name}");
            }
            Some(Difference::Other) => assert_ne!(ours, captured, "{name} does not differ any more"),
        }
    }
    assert!(differences.is_empty(), "nobody sent {:?}", differences.keys());
    assert!(same >= 35, "{same}");
}
