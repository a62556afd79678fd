//! A worker of the test's own: it says what it is told to, late or never.

use super::*;
use sealwright_proto::token_v1::{Find, Keep, Object, Started, ToKeeper, to_keeper};

/// A token whose keeper and worker are the test.
struct Bench {
    token: Arc<Token>,
    /// The keeper's end.
    keeper: std::os::fd::OwnedFd,
    _directory: tempfile::TempDir,
}

impl Bench {
    fn new(deadline: Duration) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let entry = "[[token]]\nname = \"hsm1\"\nmodule = \"/x.so\"\nlabel = \"l\"\npin_file = \"pin\"\nsessions_max = 2\n";
        for (name, text) in [("tokens.toml", entry), ("pin", "1234\n")] {
            let path = directory.path().join(name);
            std::fs::write(&path, text).unwrap();
            let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
            std::fs::set_permissions(path, mode).unwrap();
        }
        let settings = config::read(directory.path()).unwrap().tokens.pop().unwrap();
        let settings = Settings { deadline, ..settings };
        let (ours, theirs) = rustix::net::socketpair(
            rustix::net::AddressFamily::UNIX,
            rustix::net::SocketType::SEQPACKET,
            rustix::net::SocketFlags::CLOEXEC,
            None,
        )
        .unwrap();
        let token = Token {
            index: 3,
            settings,
            require_sandbox: false,
            directory: directory.path().to_owned(),
            keeper: Arc::new(Keeper::of(ours)),
            state: Mutex::default(),
            changed: Condvar::new(),
        };
        Self { token: Arc::new(token), keeper: theirs, _directory: directory }
    }

    /// A worker that has been started; its end.
    fn worker(&self, number: u64) -> UnixStream {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let token = Arc::clone(&self.token);
        std::thread::spawn(move || token.serve(number, ours));
        theirs
    }

    fn call(&self) -> std::thread::JoinHandle<Result<Response, Fault>> {
        let token = Arc::clone(&self.token);
        std::thread::spawn(move || token.call(find()))
    }

    /// Which worker the keeper is to kill.
    fn killed(&self) -> u64 {
        let mut packet = [0; 64];
        let (_, len) =
            rustix::net::recv(&self.keeper, &mut packet[..], rustix::net::RecvFlags::empty()).unwrap();
        match prost::Message::decode(&packet[..len]).unwrap() {
            ToKeeper { request: Some(to_keeper::Request::Kill(kill)) } => {
                assert_eq!(kill.token, 3);
                kill.worker
            }
            other => panic!("{other:?}"),
        }
    }
}

fn find() -> Request {
    Request::Find(Find { object: Some(Object { id: vec![1], label: Vec::new() }) })
}

/// Reads the start with its PIN, and says that the token is there.
fn start(worker: &mut UnixStream) {
    let (message, _) = frame::read::<ToWorker>(worker).unwrap().unwrap();
    let Some(Request::Start(start)) = message.request else { panic!("{message:?}") };
    assert_eq!((message.id, start.pin_bytes, start.sessions_max), (0, 4, 2));
    let mut pin = [0; 4];
    std::io::Read::read_exact(worker, &mut pin).unwrap();
    assert_eq!(&pin, b"1234");
    say(worker, 0, Response::Started(Started { token: "t".to_owned() }));
}

fn asked(worker: &mut UnixStream) -> u64 {
    frame::read::<ToWorker>(worker).unwrap().unwrap().0.id
}

fn say(worker: &mut UnixStream, id: u64, response: Response) {
    frame::write(worker, &FromWorker { id, response: Some(response) }).unwrap();
}

fn failure(kind: Failed) -> Response {
    Response::Failure(WorkerFailure { kind: kind.into(), message: "said\nso".to_owned() })
}

const LONG: Duration = Duration::from_secs(60);

/// Waited for in vain; and enough for a worker that does answer, on a machine with other work.
const MISSED: Duration = Duration::from_secs(3);

#[test]
fn a_worker_gets_the_pin_when_it_is_first_needed_and_answers_in_any_order() {
    let bench = Bench::new(LONG);
    let mut worker = bench.worker(1);
    worker.set_nonblocking(true).unwrap();
    assert!(matches!(frame::read::<ToWorker>(&mut worker), Err(frame::Error::Io(_))), "nothing, unasked");
    worker.set_nonblocking(false).unwrap();
    let calls = [bench.call(), bench.call()];
    start(&mut worker);
    let ids = [asked(&mut worker), asked(&mut worker)];
    // To nobody: after its deadline.
    say(&mut worker, 99, Response::Signature(vec![9]));
    for id in [ids[1], ids[0]] {
        say(&mut worker, id, Response::Signature(vec![u8::try_from(id).unwrap()]));
    }
    let mut answers: Vec<_> = calls.map(|call| call.join().unwrap().unwrap()).to_vec();
    answers.sort_by_key(|answer| format!("{answer:?}"));
    assert_eq!(answers, [Response::Signature(vec![1]), Response::Signature(vec![2])]);
}

#[test]
fn a_missed_deadline_ends_the_worker_and_whatever_else_it_had_in_hand_can_be_repeated() {
    let bench = Bench::new(MISSED);
    let mut worker = bench.worker(1);
    let first = bench.call();
    start(&mut worker);
    asked(&mut worker);
    assert_eq!(first.join().unwrap().unwrap_err().code, Code::TokenSilent);
    assert_eq!(bench.killed(), 1);
    // It is not asked any more, though its socket is still there; the next one is.
    let second = bench.call();
    let mut next = bench.worker(2);
    start(&mut next);
    let id = asked(&mut next);
    say(&mut next, id, Response::Signature(vec![7]));
    assert_eq!(second.join().unwrap().unwrap(), Response::Signature(vec![7]));
    // An end of the old one means nothing to the new one.
    drop(worker);
    let third = bench.call();
    let id = asked(&mut next);
    drop(next);
    let fault = third.join().unwrap().unwrap_err();
    assert!(id > 0 && fault.code == Code::TokenGone && fault.code.is_retryable(), "{fault}");
}

#[test]
fn all_who_wait_for_a_start_that_blocks_are_told_at_its_one_deadline_and_for_a_while_nobody_waits_again() {
    let bench = Bench::new(MISSED);
    let mut worker = bench.worker(1);
    let calls = [bench.call(), bench.call(), bench.call()];
    let (message, _) = frame::read::<ToWorker>(&mut worker).unwrap().unwrap();
    assert!(matches!(message.request, Some(Request::Start(_))));
    let faults = calls.map(|call| call.join().unwrap().unwrap_err());
    assert!(faults[0].code == Code::TokenSilent && faults[0].message.contains("3000 ms"), "{}", faults[0]);
    assert!(faults.iter().all(|fault| *fault == faults[0]), "{faults:?}");
    assert_eq!(bench.killed(), 1);
    let mut next = bench.worker(2);
    while bench.token.state().worker.is_none() {
        std::thread::sleep(Duration::from_millis(1));
    }
    bench.token.state().down_until = Instant::now().checked_add(LONG);
    assert_eq!(bench.call().join().unwrap().unwrap_err(), faults[0]);
    // The pause is over: the next worker is told to start, once.
    bench.token.state().down_until = Some(Instant::now());
    let call = bench.call();
    start(&mut next);
    let id = asked(&mut next);
    say(&mut next, id, Response::Signature(vec![5]));
    assert_eq!(call.join().unwrap().unwrap(), Response::Signature(vec![5]));
}

/// The worker of a keeper that died, if it lives on, is not left with its sessions beside the next.
#[test]
fn a_worker_in_whose_place_another_comes_is_hung_up_on() {
    let bench = Bench::new(LONG);
    let mut worker = bench.worker(1);
    let call = bench.call();
    start(&mut worker);
    asked(&mut worker);
    let mut next = bench.worker(1 << 32);
    assert_eq!(call.join().unwrap().unwrap_err().code, Code::TokenGone);
    assert!(frame::read::<ToWorker>(&mut worker).unwrap().is_none());
    let call = bench.call();
    start(&mut next);
    let id = asked(&mut next);
    say(&mut next, id, Response::Signature(vec![6]));
    assert_eq!(call.join().unwrap().unwrap(), Response::Signature(vec![6]));
}

#[test]
fn what_a_worker_refuses_is_said_as_it_is_and_in_one_line() {
    let bench = Bench::new(LONG);
    let mut worker = bench.worker(1);
    let call = bench.call();
    start(&mut worker);
    let id = asked(&mut worker);
    say(&mut worker, id, failure(Failed::Refused));
    let fault = call.join().unwrap().unwrap_err();
    assert_eq!((fault.code, fault.message.as_str()), (Code::TokenRefused, "token hsm1: said?so"));
}

#[test]
fn a_token_that_the_file_named_only_after_the_start_is_refused_with_what_to_do() {
    let Err(fault) = Tokens::none().find(&TokenName::parse("hsm2").unwrap()) else { panic!("it is there") };
    assert_eq!(fault.code, Code::TokenRefused);
    assert!(fault.message.contains("token hsm2") && fault.message.contains("restart"), "{fault}");
}

#[test]
fn a_refused_pin_goes_to_no_worker_again_and_to_no_later_signer() {
    let bench = Bench::new(LONG);
    let mut worker = bench.worker(1);
    let call = bench.call();
    let (_, _) = frame::read::<ToWorker>(&mut worker).unwrap().unwrap();
    say(&mut worker, 0, failure(Failed::Pin));
    let fault = call.join().unwrap().unwrap_err();
    assert!(fault.code == Code::TokenRefused && fault.message.contains("down: wrong PIN"), "{fault}");
    drop(worker);
    let mut next = bench.worker(2);
    assert_eq!(bench.call().join().unwrap().unwrap_err(), fault);
    next.set_nonblocking(true).unwrap();
    assert!(matches!(frame::read::<ToWorker>(&mut next), Err(frame::Error::Io(_))), "no PIN");
    let refused = refused::read(&bench.token.directory).unwrap();
    assert!(
        refused.contains(&config::read(&bench.token.directory).unwrap().tokens[0].state),
        "not remembered"
    );
}

#[test]
fn a_token_that_is_down_is_tried_again_by_the_next_worker_and_only_by_it() {
    let bench = Bench::new(LONG);
    let mut worker = bench.worker(1);
    let call = bench.call();
    let (_, _) = frame::read::<ToWorker>(&mut worker).unwrap().unwrap();
    say(&mut worker, 0, failure(Failed::Gone));
    assert_eq!(call.join().unwrap().unwrap_err().code, Code::TokenGone);
    drop(worker);
    // Nobody waits for a worker that may not come.
    assert_eq!(bench.call().join().unwrap().unwrap_err().code, Code::TokenGone);
    let mut next = bench.worker(2);
    while bench.token.state().worker.is_none() {
        std::thread::sleep(Duration::from_millis(1));
    }
    let call = bench.call();
    start(&mut next);
    let id = asked(&mut next);
    say(&mut next, id, Response::Signature(vec![1]));
    assert!(call.join().unwrap().is_ok());
}

#[test]
fn the_keeper_takes_no_message_that_is_too_long() {
    let bench = Bench::new(LONG);
    let kept =
        sealwright_proto::token_v1::Kept { name: "n".repeat(PACKET_BYTES_MAX), environment: Vec::new() };
    let keep = to_keeper::Request::Keep(Keep { tokens: vec![kept] });
    assert!(bench.token.keeper.send(keep).is_err());
}

/// The message of a new worker, and bytes that make it longer than any.
#[test]
fn a_new_worker_comes_with_exactly_one_socket_in_a_packet_that_was_read_whole() {
    let message = sealwright_proto::token_v1::NewWorker { token: 1, worker: 7 };
    let packet = prost::Message::encode_to_vec(&message);
    assert_eq!(fuzz::heard_of_keeper(&packet, 1), Some((1, 7)));
    for descriptors in [0, 2, 3] {
        assert_eq!(fuzz::heard_of_keeper(&packet, descriptors), None, "{descriptors}");
    }
    // A field that nobody knows, of 80 bytes.
    let long = [packet.as_slice(), &[0x4a, 80], &[0; 80]].concat();
    assert_eq!(fuzz::heard_of_keeper(&long, 1), None);
}

fn said(messages: &[FromWorker]) -> Vec<u8> {
    messages.iter().flat_map(|message| frame::encode(message).unwrap()).collect()
}

#[test]
fn a_worker_that_has_failed_is_not_ready_whatever_it_says_afterwards() {
    let directory = tempfile::tempdir().unwrap();
    let failure = WorkerFailure { kind: Failed::Refused.into(), message: "no module".to_owned() };
    let messages = [Response::Failure(failure), Response::Started(Started { token: "t".to_owned() })];
    let messages = messages.map(|response| FromWorker { id: 0, response: Some(response) });
    let report = fuzz::heard_of_worker(directory.path(), &said(&messages), &[1]).unwrap();
    assert_eq!(report.down.unwrap().code, Code::TokenRefused);
    assert_eq!(report.answers[0].given.as_ref().unwrap_err().code, Code::TokenRefused);
}

#[test]
fn a_worker_that_sends_a_frame_above_its_limit_is_killed_and_who_waits_is_told() {
    let directory = tempfile::tempdir().unwrap();
    let answer = |bytes: usize| {
        let response = Some(Response::Signature(vec![7; bytes]));
        let said = said(&[FromWorker { id: 1, response }]);
        fuzz::heard_of_worker(directory.path(), &said, &[1]).unwrap()
    };
    assert!(answer(TOKEN_FRAME_BYTES_MAX - 16).answers[0].given.is_ok());
    let report = answer(TOKEN_FRAME_BYTES_MAX);
    assert!(report.killed);
    assert_eq!(report.answers[0].given.as_ref().unwrap_err().code, Code::TokenGone);
}

#[test]
fn a_worker_starts_with_its_whole_pin_or_not_at_all() {
    let first = |pin_bytes: usize, sent: usize| {
        let start = Start { pin_bytes: u32::try_from(pin_bytes).unwrap(), ..Start::default() };
        let message = ToWorker { id: 0, request: Some(Request::Start(start)) };
        let bytes = [frame::encode(&message).unwrap(), vec![b'1'; sent]].concat();
        fuzz::first_of_worker(&bytes).map(|(_, pin)| pin.len())
    };
    assert_eq!(first(1024, 1024), Some(1024));
    assert_eq!((first(4, 3), first(1025, 1025)), (None, None));
}
