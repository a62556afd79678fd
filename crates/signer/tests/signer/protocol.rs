//! The socket: greeting, bad frames, deadlines, many at once, the end.

use std::io::Write as _;
use std::sync::Arc;

use super::harness::*;
use sealwright_crypto::algorithm::{HashAlgorithm, KeyAlgorithm};
use sealwright_crypto::openpgp::verify::State;
use sealwright_proto::convert::batch::{Batch, parse_outcomes};
use sealwright_proto::convert::group::Priority;
use sealwright_proto::frame;
use sealwright_proto::signer_v1::from_signer::Response;
use sealwright_proto::signer_v1::to_signer::Request as Asked;
use sealwright_proto::signer_v1::{SignBatch, ToSigner};
use sealwright_proto::status::{Code, Fault};
use sealwright_signer::Error;

fn batch(key: usize, keys: Vec<sealwright_proto::convert::batch::SealedKey>) -> Batch {
    Batch {
        keys,
        requests: vec![request(key, HashAlgorithm::Sha256, b"x")],
        deadline_ms: None,
        priority: Priority::Batch,
    }
}

#[test]
fn a_signer_that_cannot_open_its_root_key_says_why_and_ends() {
    let first = Signer::start();
    let directory = Arc::new(tempfile::tempdir().unwrap());
    let other = Signer::start_without_greeting(Arc::clone(&directory));
    let other_root = other.root();
    other.stop().unwrap();
    std::fs::copy(first.root().join("root.key"), other_root.join("root.key")).unwrap();
    let mut wrong = Signer::start_without_greeting(directory);
    let answer = wrong.receive();
    let Some(Response::Failure(failure)) = answer.response else { panic!("{answer:?}") };
    let fault = Fault::from(failure);
    assert_eq!((answer.id, fault.code), (0, Code::RootKeyWrong));
    assert!(matches!(wrong.ended(), Err(Error::RootKeyWrong { .. })));
}

#[test]
fn a_request_that_is_not_understood_fails_alone() {
    let mut signer = Signer::start();
    let key = signer.create(1, spec(KeyAlgorithm::Ed25519));
    frame::write(&mut signer.socket, &ToSigner { id: 77, request: None }).unwrap();
    let answer = signer.receive();
    assert_eq!(answer.id, 77);
    let Some(Response::Failure(failure)) = answer.response else { panic!("{answer:?}") };
    assert_eq!(Fault::from(failure).code, Code::MalformedRequest);
    let empty = SignBatch::default();
    assert_eq!(signer.ask(Asked::Sign(empty)).unwrap_err().code, Code::MalformedRequest);
    signer.sign(sealed(1, &key), HashAlgorithm::Sha256, b"x").unwrap();
}

#[test]
fn a_broken_frame_ends_the_connection_and_nothing_else() {
    for bytes in [&[0xff; 4][..], &[0, 0, 0, 2, 0xff, 0xff], &[0, 0]] {
        let mut signer = Signer::start();
        signer.socket.write_all(bytes).unwrap();
        signer.socket.shutdown(std::net::Shutdown::Write).unwrap();
        assert!(matches!(signer.ended(), Err(Error::Connection(_))), "{bytes:?}");
    }
}

#[test]
fn requests_in_hand_are_answered_after_front_stopped_asking() {
    let mut signer = Signer::start();
    let key = signer.create(1, spec(KeyAlgorithm::Rsa(2048)));
    let ids: Vec<_> =
        (0..20).map(|_| signer.send(Asked::Sign(batch(0, vec![sealed(1, &key)]).into_wire()))).collect();
    signer.socket.shutdown(std::net::Shutdown::Write).unwrap();
    let mut answered: Vec<_> = ids.iter().map(|_| signer.receive().id).collect();
    answered.sort_unstable();
    assert_eq!(answered, ids);
    signer.ended().unwrap();
}

#[test]
fn items_past_their_deadline_are_not_signed() {
    let mut signer = Signer::start();
    let key = signer.import(1, &fixture("gen_rsa4096.sec.asc"), "", "").unwrap();
    let requests = vec![request(0, HashAlgorithm::Sha256, b"x"); 1000];
    let slow =
        Batch { keys: vec![sealed(1, &key)], requests, deadline_ms: Some(50), priority: Priority::Batch };
    let outcomes = signer.sign_batch(slow).unwrap();
    let late = outcomes.iter().filter(|outcome| outcome.is_err()).count();
    assert!(late > 0, "1000 RSA-4096 signatures take longer than 50 ms");
    for outcome in outcomes.iter().filter_map(|outcome| outcome.as_ref().err()) {
        assert_eq!(outcome.code, Code::DeadlineExceeded);
    }
}

/// More than may be held at once: the rest waits in the socket, and all are answered.
#[test]
fn more_batches_than_are_held_are_all_answered() {
    let mut signer = Signer::start();
    let key = signer.create(1, spec(KeyAlgorithm::Ed25519));
    let count = 2 * sealwright_proto::limits::BATCHES_IN_FLIGHT_MAX;
    let mut asking = signer.socket.try_clone().unwrap();
    let wire = batch(0, vec![sealed(1, &key)]).into_wire();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            for id in 0..count {
                let message = ToSigner {
                    id: 1000 + u64::try_from(id).unwrap(),
                    request: Some(Asked::Sign(wire.clone())),
                };
                frame::write(&mut asking, &message).unwrap();
            }
        });
        let mut seen = std::collections::BTreeSet::new();
        for _ in 0..count {
            let answer = signer.receive();
            let Some(Response::Sign(result)) = answer.response else { panic!("{answer:?}") };
            let signed = parse_outcomes(result, 1).unwrap().remove(0).unwrap();
            assert_eq!(verdict(&key, &signed.packet, b"x", NOW), State::Valid);
            assert!(seen.insert(answer.id));
        }
    });
}

#[test]
fn front_can_close_at_any_time() {
    for _ in 0..20 {
        let mut signer = Signer::start();
        let key = signer.create(1, spec(KeyAlgorithm::Ed25519));
        for _ in 0..10 {
            signer.send(Asked::Sign(batch(0, vec![sealed(1, &key)]).into_wire()));
        }
        // What is asked and not read is lost; the signer ends well, or says that front went away.
        match signer.stop() {
            Ok(()) | Err(Error::Connection(_)) => {}
            Err(other) => panic!("{other}"),
        }
    }
}

#[test]
fn the_greeting_says_whether_keys_have_signed_here() {
    let mut first = Signer::start();
    let key = first.create(1, spec(KeyAlgorithm::Ed25519));
    let greeting = |directory: &Signer| {
        let mut signer = Signer::start_without_greeting(directory.shared());
        let Some(Response::Ready(ready)) = signer.receive().response else { panic!("not ready") };
        ready.has_history
    };
    assert!(!greeting(&first), "a key that never signed");
    first.sign(sealed(1, &key), HashAlgorithm::Sha256, b"x").unwrap();
    assert!(greeting(&first));
}
