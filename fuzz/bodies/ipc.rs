//! Front and signer: the first byte says whether the rest is a stream of frames or one message, and of which side. Any
//! bytes are read or refused; what is read is within the limits, and goes over the wire as the same.

use prost::Message;
use sealwright_proto::convert::batch::{Batch, SealedKey, outcomes_to_wire, parse_outcomes};
use sealwright_proto::convert::keys::{KeyMaterial, SignerCreate, SignerImport, SignerRenew};
use sealwright_proto::convert::project::{MakeProjectKey, ProjectKeyMade};
use sealwright_proto::frame::{self, HEADER_BYTES};
use sealwright_proto::limits;
use sealwright_proto::signer_v1::from_signer::Response;
use sealwright_proto::signer_v1::to_signer::Request;
use sealwright_proto::signer_v1::{FromSigner, ImportSecret, SignBatchResult, ToSigner};
use sealwright_proto::status::{Code, Fault};

use crate::message::{decoded, round_trip, sound};

pub(crate) fn run(data: &[u8]) {
    let Some((first, rest)) = data.split_first() else { return };
    match first % 5 {
        0 => stream(rest, to_signer),
        1 => stream(rest, from_signer),
        2 => decoded(rest).map_or((), to_signer),
        3 => decoded(rest).map_or((), from_signer),
        _ => drop(decoded::<ImportSecret>(rest)),
    }
}

/// Frames one after the other, until the stream ends or breaks.
fn stream<M: Message + Default + PartialEq>(data: &[u8], check: fn(M)) {
    let mut rest = data;
    loop {
        let start = rest;
        let Ok(read) = frame::read::<M>(&mut rest) else { return };
        let Some((message, len)) = read else {
            assert!(start.is_empty(), "the stream ended before its end");
            return;
        };
        assert!(len <= limits::FRAME_BYTES_MAX, "over the limit");
        assert_eq!(start.len() - rest.len(), HEADER_BYTES + len, "another length than that of the frame");
        let written = frame::encode(&message).unwrap();
        let (header, body) = written.split_first_chunk().unwrap();
        assert_eq!(frame::body_len(*header).unwrap(), body.len());
        assert!(frame::decode::<M>(body).unwrap() == message, "writing and reading changed the message");
        check(message);
    }
}

fn to_signer(message: ToSigner) {
    match message.request {
        Some(Request::Sign(wire)) => {
            let parsed = Batch::parse(wire);
            if let Ok(batch) = &parsed {
                assert!((1..=limits::ITEMS_PER_BATCH_MAX).contains(&batch.requests.len()));
                assert!(batch.keys.len() <= limits::KEYS_PER_BATCH_MAX);
                assert!(batch.requests.iter().all(|request| request.key < batch.keys.len()));
                assert!(batch.keys.iter().all(sealed_is_bounded));
            }
            round_trip(parsed, Batch::parse, |batch| batch.clone().into_wire());
        }
        Some(Request::Create(wire)) => {
            round_trip(SignerCreate::parse(wire), SignerCreate::parse, |create| create.clone().into_wire());
        }
        Some(Request::Import(wire)) => {
            round_trip(SignerImport::parse(wire), SignerImport::parse, |import| import.clone().into_wire());
        }
        Some(Request::Renew(wire)) => {
            let parsed = SignerRenew::parse(wire);
            if let Ok(renew) = &parsed {
                assert!(renew.generation > renew.key.generation && sealed_is_bounded(&renew.key));
            }
            round_trip(parsed, SignerRenew::parse, |renew| renew.clone().into_wire());
        }
        Some(Request::MakeProjectKey(wire)) => {
            let parsed = MakeProjectKey::parse(wire);
            assert!(parsed.as_ref().is_ok_and(|make| sealed_is_bounded(&make.key)) || parsed.is_err());
            round_trip(parsed, MakeProjectKey::parse, |make| make.clone().into_wire());
        }
        Some(Request::BeginImport(_)) | None => {}
    }
}

fn sealed_is_bounded(key: &SealedKey) -> bool {
    key.generation >= 1 && key.blob.len() <= limits::SEALED_BYTES_MAX
}

fn from_signer(message: FromSigner) {
    match message.response {
        Some(Response::Failure(failure)) => sound(&Fault::from(failure)),
        Some(Response::Sign(wire)) => outcomes(&wire),
        Some(Response::Key(wire)) => match KeyMaterial::parse(wire) {
            Ok(material) => {
                let again = KeyMaterial::parse(material.clone().into_wire()).unwrap();
                assert_eq!(again, material, "the wire changed the key");
            }
            Err(fault) => assert_eq!(fault.code, Code::Internal, "a broken answer is our fault"),
        },
        Some(Response::ProjectKey(wire)) => {
            round_trip(ProjectKeyMade::parse(wire), ProjectKeyMade::parse, |made| made.clone().into_wire());
        }
        Some(Response::ImportKey(_) | Response::Ready(_)) | None => {}
    }
}

fn outcomes(wire: &SignBatchResult) {
    let asked = wire.items.len();
    for wrong in [asked + 1, asked.saturating_sub(1)] {
        let parsed = parse_outcomes(wire.clone(), wrong);
        assert!(wrong == asked || parsed.is_err(), "another number of outcomes than was asked for");
    }
    let Ok(outcomes) = parse_outcomes(wire.clone(), asked) else { return };
    for outcome in &outcomes {
        match outcome {
            Ok(signed) => assert!((1..=limits::SIGNATURE_BYTES_MAX).contains(&signed.packet.len())),
            Err(fault) => sound(fault),
        }
    }
    let again = parse_outcomes(outcomes_to_wire(outcomes.clone()), asked).unwrap();
    assert_eq!(again, outcomes, "the wire changed the outcomes");
}
