//! Idle crowds, a signer that is killed, the end of the server.

use std::io::Write as _;
use std::net::TcpStream;

use sealwright_obs::{Form, Reply};

use super::serving::{Obs, RSA2048, refusal, rest, sign};

/// More than twice what `signd` has children for, a hundredfold.
const IDLE: usize = 1_000;

#[test]
fn a_thousand_idle_connections_hinder_nobody() {
    let obs = Obs::with("", &[0]);
    let idle: Vec<_> = (0..IDLE)
        .map(|number| {
            let mut stream = TcpStream::connect(obs.address()).unwrap();
            // Every other one is in the middle of its request.
            if number % 2 == 0 {
                stream.write_all(&[0, 9, 0]).unwrap();
            }
            stream
        })
        .collect();
    obs.signs();
    drop(idle);
    obs.signs();
}

#[test]
fn with_as_few_places_as_idle_connections_the_oldest_of_them_leaves() {
    let obs = Obs::with("connections = 4\nconnections_per_address = 4", &[0]);
    let mut idle: Vec<_> = (0..4).map(|_| TcpStream::connect(obs.address()).unwrap()).collect();
    obs.signs();
    assert!(rest(idle.remove(0)).is_empty(), "it made room");
    obs.signs();
}

/// A request that waits for the signer, which stands still.
fn begun(obs: &Obs) -> TcpStream {
    let mut stream = TcpStream::connect(obs.address()).unwrap();
    stream.write_all(&sign(RSA2048, 9).to_bytes()).unwrap();
    let begun = "SELECT COUNT(*) FROM intents WHERE principal != '' AND outcome IS NULL";
    obs.server.until("the intent is there", || obs.server.sql(begun) == ["1"]);
    stream
}

/// A signer that does nothing any more, killed while a request is with it.
#[test]
fn a_signer_that_is_killed_in_the_middle_gives_a_text_and_never_half_a_reply() {
    let obs = Obs::with("", &[0]);
    let signer = obs.server.child("signer");
    assert!(obs.server.signal(signer, "STOP"));
    let stream = begun(&obs);
    assert!(obs.server.signal(signer, "KILL"));
    let reply = rest(stream);
    // Its successor may have come in time.
    let parsed = Reply::parse(&reply).unwrap();
    if parsed.status() == 0 {
        assert_eq!(parsed.results(Form::Old, 1).unwrap().len(), 1);
    } else {
        assert!(refusal(&reply).ends_with("try again"), "{}", refusal(&reply));
    }
    obs.server.until("it signs again", || obs.ask(&sign(RSA2048, 10).to_bytes())[..2] == [0, 0]);
}

#[test]
fn the_end_of_the_server_answers_what_it_has_and_closes_what_is_idle() {
    let mut obs = Obs::with("", &[0]);
    let idle = TcpStream::connect(obs.address()).unwrap();
    let signer = obs.server.child("signer");
    assert!(obs.server.signal(signer, "STOP"));
    let stream = begun(&obs);
    assert!(obs.server.signal(obs.server.supervisor(), "TERM"));
    assert!(rest(idle).is_empty());
    assert!(obs.server.signal(signer, "CONT"));
    let reply = Reply::parse(&rest(stream)).unwrap();
    assert_eq!(reply.results(Form::Old, 1).unwrap().len(), 1);
    assert!(obs.server.ended().success(), "{}", obs.server.log());
}
