//! Two threads between front and a real signer, passing frames on, some of them changed.

use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use sealwright_crypto::algorithm::HashAlgorithm;
use sealwright_crypto::digest::Hasher;
use sealwright_crypto::openpgp::fingerprint::Fingerprint;
use sealwright_proto::frame;
use sealwright_proto::signer_v1::from_signer::Response;
use sealwright_proto::signer_v1::sign_outcome::Outcome;
use sealwright_proto::signer_v1::to_signer::Request;
use sealwright_proto::signer_v1::{FromSigner, SealedKey, SignBatchResult, ToSigner, sign_request};
use sealwright_proto::status::{Code, Fault};
use sealwright_signer::{Config, SystemClock};

/// What becomes of each signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lie {
    None,
    /// The operation failed.
    Fails,
    /// Nothing at all.
    Empty,
    /// The end is missing.
    Short,
    /// By the right key, over something else.
    OtherData,
    /// By another key, which says that it is the right one.
    OtherKey,
}

impl Lie {
    pub(crate) const ALL: [Self; 5] =
        [Self::Fails, Self::Empty, Self::Short, Self::OtherData, Self::OtherKey];
}

pub(crate) struct Between {
    socket: Mutex<Option<UnixStream>>,
    state: Arc<State>,
}

struct State {
    lie: Mutex<Lie>,
    spoiled: AtomicUsize,
    /// As they were made: the key as front gives it, and its fingerprint.
    keys: Mutex<Vec<(SealedKey, String)>>,
}

impl Between {
    pub(crate) fn start(root: &Path) -> Self {
        let (front, mut from_front) = UnixStream::pair().unwrap();
        let (mut to_signer, signer) = UnixStream::pair().unwrap();
        let config = Config {
            root: root.to_owned(),
            create: true,
            root_key: None,
            socket: signer.into(),
            watcher: None,
        };
        std::thread::spawn(move || sealwright_signer::serve(config, Arc::new(SystemClock)));
        let state = Arc::new(State {
            lie: Mutex::new(Lie::None),
            spoiled: AtomicUsize::new(0),
            keys: Mutex::default(),
        });
        let (mut to_front, mut from_signer) =
            (from_front.try_clone().unwrap(), to_signer.try_clone().unwrap());
        std::thread::spawn({
            let state = Arc::clone(&state);
            move || {
                while let Ok(Some((message, _))) = frame::read::<ToSigner>(&mut from_front) {
                    frame::write(&mut to_signer, &state.asked(message)).unwrap();
                }
                let _ = to_signer.shutdown(std::net::Shutdown::Write);
            }
        });
        std::thread::spawn({
            let state = Arc::clone(&state);
            move || {
                while let Ok(Some((message, _))) = frame::read::<FromSigner>(&mut from_signer) {
                    if frame::write(&mut to_front, &state.answered(message)).is_err() {
                        return;
                    }
                }
            }
        });
        Self { socket: Mutex::new(Some(front)), state }
    }

    /// Front's end.
    pub(crate) fn socket(&self) -> UnixStream {
        self.socket.lock().unwrap().take().unwrap()
    }

    /// From now on; nothing is in flight.
    pub(crate) fn tell(&self, lie: Lie) {
        *self.state.lie.lock().unwrap() = lie;
    }

    /// How many signatures were spoiled so far.
    pub(crate) fn spoiled(&self) -> usize {
        self.state.spoiled.load(Ordering::SeqCst)
    }
}

impl State {
    fn asked(&self, mut message: ToSigner) -> ToSigner {
        let lie = *self.lie.lock().unwrap();
        match &mut message.request {
            Some(Request::Create(create)) => {
                let key = SealedKey { key_id: create.key_id.clone(), generation: 1, sealed: Vec::new() };
                self.keys.lock().unwrap().push((key, String::new()));
            }
            Some(Request::Sign(batch)) if lie == Lie::OtherData => {
                let mut hasher = Hasher::new(HashAlgorithm::Sha256);
                hasher.update(b"something else");
                for item in &mut batch.items {
                    item.content = Some(sign_request::Content::Midstate(hasher.midstate().encode()));
                }
            }
            Some(Request::Sign(batch)) if lie == Lie::OtherKey => {
                batch.keys = vec![self.keys.lock().unwrap()[1].0.clone()];
            }
            _ => {}
        }
        message
    }

    fn answered(&self, mut message: FromSigner) -> FromSigner {
        match &mut message.response {
            Some(Response::Key(made)) => {
                let mut keys = self.keys.lock().unwrap();
                let (key, fingerprint) = keys.last_mut().unwrap();
                key.sealed.clone_from(&made.sealed);
                fingerprint.clone_from(&made.signing_fingerprint);
            }
            Some(Response::Sign(result)) => self.spoil(result),
            _ => {}
        }
        message
    }

    fn spoil(&self, result: &mut SignBatchResult) {
        let lie = *self.lie.lock().unwrap();
        if lie == Lie::None {
            return;
        }
        for item in &mut result.items {
            let Some(Outcome::Signature(signature)) = &mut item.outcome else {
                panic!("the signer behind is honest and able: {item:?}")
            };
            self.spoiled.fetch_add(1, Ordering::SeqCst);
            match lie {
                Lie::None | Lie::OtherData => {}
                Lie::Fails => {
                    let fault = Fault::new(Code::SignatureSelfCheckFailed, "the token was pulled out");
                    item.outcome = Some(Outcome::Failure(fault.into()));
                }
                Lie::Empty => signature.packet.clear(),
                Lie::Short => signature.packet.truncate(signature.packet.len() - 20),
                Lie::OtherKey => {
                    let keys = self.keys.lock().unwrap();
                    let [right, other] =
                        [&keys[0].1, &keys[1].1].map(|hex| Fingerprint::from_hex(hex).unwrap());
                    replace(&mut signature.packet, other.as_bytes(), right.as_bytes());
                    replace(&mut signature.packet, &other.key_id(), &right.key_id());
                }
            }
        }
    }
}

fn replace(bytes: &mut [u8], from: &[u8], to: &[u8]) {
    while let Some(at) = bytes.windows(from.len()).position(|window| window == from) {
        bytes[at..at + from.len()].copy_from_slice(to);
    }
}
