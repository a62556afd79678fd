//! What front reaches as its signer: the real one in a thread, with a relay before it that can hold back or exchange
//! frames; or, for what only broken hardware does, a voice that speaks the protocol and says so.

use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};

use sealwright_proto::frame;
use sealwright_proto::signer_v1::from_signer::Response;
use sealwright_proto::signer_v1::to_signer::Request;
use sealwright_proto::signer_v1::{FromSigner, ToSigner};
use sealwright_proto::status::{Code, Fault};
use sealwright_signer::{Clock, Config, SystemClock};

/// What becomes of a batch to sign.
pub(crate) enum Act {
    /// It goes to the real signer.
    Pass,
    /// It is answered with this.
    Answer(Box<Response>),
    /// It is never answered.
    Forget,
}

type OnSign = Box<dyn FnMut() -> Act + Send>;
type OnSigned = Box<dyn FnMut(&mut Response) + Send>;

/// How the next signer starts.
enum Start {
    Real,
    /// It greets with a failure.
    Failing(Code),
    /// There is none.
    Not,
}

/// See the module.
pub(crate) struct Stand {
    root: PathBuf,
    clock: Arc<ShiftedClock>,
    start: Mutex<Start>,
    on_sign: Mutex<OnSign>,
    on_signed: Mutex<OnSigned>,
    /// Both ends of the relay that runs.
    running: Mutex<Vec<UnixStream>>,
}

#[derive(Default)]
struct ShiftedClock(AtomicI64);

impl Clock for ShiftedClock {
    fn unix_s(&self) -> i64 {
        SystemClock.unix_s() + self.0.load(Ordering::SeqCst)
    }
}

impl Stand {
    pub(crate) fn new(root: &Path) -> Arc<Self> {
        Arc::new(Self {
            root: root.to_owned(),
            clock: Arc::default(),
            start: Mutex::new(Start::Real),
            on_sign: Mutex::new(Box::new(|| Act::Pass)),
            on_signed: Mutex::new(Box::new(|_| {})),
            running: Mutex::default(),
        })
    }

    /// Where the signer's files are.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// The signer's clock is off by this from now on.
    pub(crate) fn shift_clock(&self, seconds: i64) {
        self.clock.0.store(seconds, Ordering::SeqCst);
    }

    pub(crate) fn on_sign(&self, act: impl FnMut() -> Act + Send + 'static) {
        *self.on_sign.lock().unwrap() = Box::new(act);
    }

    /// Before an answer to a batch goes to front; may take its time.
    pub(crate) fn on_signed(&self, change: impl FnMut(&mut Response) + Send + 'static) {
        *self.on_signed.lock().unwrap() = Box::new(change);
    }

    /// The signer dies; the next one starts with whatever lies in its directory now.
    pub(crate) fn kill(&self) {
        for socket in self.running.lock().unwrap().drain(..) {
            let _ = socket.shutdown(Shutdown::Both);
        }
    }

    /// It dies, and none comes after it.
    pub(crate) fn kill_for_good(&self) {
        *self.start.lock().unwrap() = Start::Not;
        self.kill();
    }

    /// It dies, and the next one greets with this failure.
    pub(crate) fn kill_and_fail(&self, code: Code) {
        *self.start.lock().unwrap() = Start::Failing(code);
        self.kill();
    }

    /// What front calls to have a signer.
    pub(crate) fn launch(self: &Arc<Self>) -> std::io::Result<UnixStream> {
        let (front, mut theirs) = UnixStream::pair()?;
        match *self.start.lock().unwrap() {
            Start::Not => return Err(std::io::Error::other("no process numbers left")),
            Start::Failing(code) => {
                let failure = Response::Failure(Fault::new(code, format!("the test says {code}")).into());
                frame::write(&mut theirs, &FromSigner { id: 0, response: Some(failure) }).unwrap();
                return Ok(front);
            }
            Start::Real => {}
        }
        let (ours, signer) = UnixStream::pair()?;
        let config = Config {
            root: self.root.clone(),
            create: true,
            root_key: None,
            socket: signer.into(),
            watcher: None,
        };
        let clock = Arc::clone(&self.clock);
        std::thread::spawn(move || sealwright_signer::serve(config, clock));
        *self.running.lock().unwrap() = vec![theirs.try_clone()?, ours.try_clone()?];
        let to_front = Arc::new(Mutex::new(theirs.try_clone()?));
        let (stand, from_front, to_signer) = (Arc::clone(self), theirs, ours.try_clone()?);
        let answers = Arc::clone(&to_front);
        std::thread::spawn(move || stand.pass_questions(from_front, to_signer, &answers));
        let stand = Arc::clone(self);
        std::thread::spawn(move || stand.pass_answers(ours, &to_front));
        Ok(front)
    }

    fn pass_questions(&self, mut front: UnixStream, mut signer: UnixStream, answers: &Mutex<UnixStream>) {
        while let Ok(Some((message, _))) = frame::read::<ToSigner>(&mut front) {
            let is_sign = matches!(message.request, Some(Request::Sign(_)));
            let act = if is_sign { (self.on_sign.lock().unwrap())() } else { Act::Pass };
            let passed = match act {
                Act::Pass => frame::write(&mut signer, &message),
                Act::Answer(response) => {
                    let answer = FromSigner { id: message.id, response: Some(*response) };
                    frame::write(&mut *answers.lock().unwrap(), &answer)
                }
                Act::Forget => Ok(()),
            };
            if passed.is_err() {
                return;
            }
        }
        let _ = signer.shutdown(Shutdown::Write);
    }

    fn pass_answers(self: Arc<Self>, mut signer: UnixStream, front: &Arc<Mutex<UnixStream>>) {
        let mut passing = Vec::new();
        while let Ok(Some((mut message, _))) = frame::read::<FromSigner>(&mut signer) {
            let (stand, front) = (Arc::clone(&self), Arc::clone(front));
            let pass = move || {
                if let Some(response @ Response::Sign(_)) = &mut message.response {
                    (stand.on_signed.lock().unwrap())(response);
                }
                let _ = frame::write(&mut *front.lock().unwrap(), &message);
            };
            // A thread each: an answer that is held up holds up no other.
            passing.push(std::thread::spawn(pass));
        }
        passing.into_iter().for_each(|thread| drop(thread.join()));
        let _ = front.lock().unwrap().shutdown(Shutdown::Both);
    }
}
