//! Signer, keeper and workers of tokens: the first byte says who hears the rest. What a worker says, as bytes or as frames
//! of messages, while requests wait for it; what reaches a worker first; packets to and from the keeper.
//!
//! Any bytes are read or refused. Whoever waits for a worker gets one answer, the one to its own question, whatever else
//! the worker says; one that has failed or speaks no messages is not ready, and is killed in the second case; a
//! key that it found can be found again. Packets are read whole or not at all.

use std::fmt::Debug;
use std::sync::LazyLock;

use prost::Message;
use sealwright_proto::frame;
use sealwright_proto::limits::{TOKEN_FRAME_BYTES_MAX, TOKEN_WARNINGS_MAX};
use sealwright_proto::status::Code;
use sealwright_proto::token_v1::from_worker::Response;
use sealwright_proto::token_v1::to_worker::Request;
use sealwright_proto::token_v1::{Failed, FromWorker, NewWorker, ToKeeper, ToWorker};
use sealwright_signer::token_fuzz::{
    Answer, Place, first_of_worker, heard_by_keeper, heard_of_keeper, heard_of_worker,
};

use crate::choices::Choices;

/// Requests that wait.
const ASKED: [u64; 3] = [1, 2, 3];
/// Characters of what a worker says that are shown at most, with what is put around it.
const SHOWN_MAX: usize = 400;

static FOLDER: LazyLock<tempfile::TempDir> =
    LazyLock::new(|| tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap());

pub(crate) fn run(data: &[u8]) {
    let mut input = Choices::new(data);
    match input.byte() % 5 {
        0 => of_worker(input.rest()),
        1 => of_worker(&framed(&mut input)),
        2 => to_worker(input.rest()),
        3 => to_keeper(input.rest()),
        _ => of_keeper(&mut input),
    }
}

/// Pieces of the input, each with the length of a frame.
fn framed(input: &mut Choices<'_>) -> Vec<u8> {
    let mut said = Vec::new();
    while !input.is_empty() {
        let len = input.number();
        let piece = input.bytes(usize::from(len) % 2048);
        said.extend(u32::try_from(piece.len()).unwrap().to_be_bytes());
        said.extend(piece);
    }
    said
}

/// Code of the failure, or the answer itself.
type Expected = Result<Response, Code>;

/// What a worker that was told to start has done so far.
struct Model {
    answers: [Option<Expected>; 3],
    is_there: bool,
    is_ready: bool,
    down: Option<Code>,
    is_refused: bool,
}

fn of_worker(said: &[u8]) {
    let mut model =
        Model { answers: [None, None, None], is_there: true, is_ready: false, down: None, is_refused: false };
    let is_killed = model.hear(said);
    let report = heard_of_worker(FOLDER.path(), said, &ASKED).expect("one answer for each who had asked");
    assert_eq!((report.killed, report.pin_refused), (is_killed, model.is_refused));
    assert_eq!(report.down.as_ref().map(|fault| fault.code), model.down);
    for (answer, expected) in report.answers.iter().zip(model.answers) {
        match (&answer.given, expected.unwrap()) {
            (Ok(given), Ok(expected)) => assert_eq!(*given, expected, "the answer to another question"),
            (Err(fault), Err(code)) => {
                assert_eq!(fault.code, code);
                is_shown(&fault.message);
            }
            (given, expected) => panic!("{given:?} instead of {expected:?}"),
        }
        key(answer);
    }
}

impl Model {
    /// Whether it is killed.
    fn hear(&mut self, mut said: &[u8]) -> bool {
        loop {
            let message: FromWorker = match frame::read_within(&mut said, TOKEN_FRAME_BYTES_MAX) {
                Ok(Some((message, _))) => message,
                Ok(None) | Err(frame::Error::Truncated) => {
                    self.end();
                    return false;
                }
                Err(_) => {
                    self.end();
                    return true;
                }
            };
            same(&message);
            match (message.id, message.response) {
                (_, Some(Response::Failure(failure))) if failure.kind() == Failed::Pin => {
                    self.is_refused = true;
                    self.give_up(Code::TokenRefused);
                    self.down = Some(Code::TokenRefused);
                    return false;
                }
                (0, Some(Response::Started(_))) if self.is_there => (self.is_ready, self.down) = (true, None),
                (0, Some(Response::Failure(failure))) if self.is_there => {
                    self.is_there = false;
                    self.give_up(code(failure.kind()));
                    self.down = Some(code(failure.kind()));
                }
                (id, Some(response)) => {
                    let at = ASKED.iter().position(|asked| *asked == id);
                    if let Some(answer) = at.map(|at| &mut self.answers[at]) {
                        let failed = match &response {
                            Response::Failure(failure) => Some(code(failure.kind())),
                            Response::Started(_) | Response::Signature(_) | Response::Key(_) => None,
                        };
                        answer.get_or_insert(failed.map_or(Ok(response), Err));
                    }
                }
                (_, None) => {}
            }
        }
    }

    fn give_up(&mut self, code: Code) {
        for answer in &mut self.answers {
            answer.get_or_insert(Err(code));
        }
    }

    fn end(&mut self) {
        if self.is_there {
            self.give_up(Code::TokenGone);
            if !self.is_ready {
                self.down = Some(Code::TokenGone);
            }
        }
    }
}

fn code(kind: Failed) -> Code {
    match kind {
        Failed::Gone | Failed::Unspecified => Code::TokenGone,
        Failed::Refused | Failed::Pin => Code::TokenRefused,
    }
}

fn is_shown(text: &str) {
    assert!(text.chars().count() <= SHOWN_MAX && !text.chars().any(char::is_control), "{text:?}");
}

/// A key that a worker says it has.
fn key(answer: &Answer) {
    let Some(key) = &answer.key else { return };
    let Ok(Response::Key(found)) = &answer.given else { panic!("a key out of something else") };
    let object = found.object.as_ref().unwrap();
    let place = Place::read(&key.place).expect("the key can be found again");
    assert_eq!((&place.id, &place.label), (&object.id, &object.label));
    assert!(key.warnings.len() == found.warnings.len() && key.warnings.len() <= TOKEN_WARNINGS_MAX);
    key.warnings.iter().for_each(|warning| is_shown(warning));
    if let Some((body, again)) = &key.public {
        assert_eq!(again.as_ref(), Some(body), "a public key is read as another");
    }
}

fn to_worker(data: &[u8]) {
    let started = first_of_worker(data);
    let mut rest = data;
    let first = frame::read::<ToWorker>(&mut rest);
    if let Ok(Some((message, _))) = &first {
        same(message);
    }
    let start = match first {
        Ok(Some((ToWorker { request: Some(Request::Start(start)), .. }, _))) => start,
        _ => return assert!(started.is_none(), "a worker starts without being told to"),
    };
    let len = usize::try_from(start.pin_bytes).unwrap();
    match rest.get(..len).filter(|_| len <= 1024) {
        Some(pin) => assert_eq!(started, Some((start, pin.to_vec()))),
        None => assert!(started.is_none(), "a worker starts with a part of a PIN"),
    }
}

fn to_keeper(packet: &[u8]) {
    let read = ToKeeper::decode(packet).ok().filter(|_| !packet.is_empty());
    if let Some(message) = &read {
        same(message);
    }
    assert_eq!(heard_by_keeper(packet), read.and_then(|message| message.request));
}

fn of_keeper(input: &mut Choices<'_>) {
    let descriptors = usize::from(input.byte()) % 4;
    let packet = std::mem::replace(input, Choices::new(&[])).rest();
    let read = NewWorker::decode(packet).ok().filter(|_| !packet.is_empty() && packet.len() <= 64);
    if let Some(message) = &read {
        same(message);
    }
    let expected = read.filter(|_| descriptors == 1);
    let expected = expected.map(|message| (usize::try_from(message.token).unwrap(), message.worker));
    assert_eq!(heard_of_keeper(packet, descriptors), expected, "a worker with none or several sockets");
}

fn same<M: Message + Default + PartialEq + Debug>(message: &M) {
    let again = M::decode(message.encode_to_vec().as_slice()).unwrap();
    assert_eq!(again, *message, "writing and reading changed a message");
}
