//! A signd on a free port: its keys are fixtures, its signatures rPGP's. It answers as the real one does, or wrongly on purpose.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use pgp::composed::{Deserializable as _, SignedSecretKey};
use pgp::crypto::hash::HashAlgorithm;
use pgp::types::{KeyDetails as _, Password, SignatureBytes, SigningKey as _};
use sealwright_obs::packet::{Value, probe_answer, version_3};
use sealwright_obs::{Command, DigestArgument, Parser, Progress, Refusal, Reply, Request};
use sealwright_testkit::fixtures;

/// How it answers a request for signatures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Manner {
    /// As signd does.
    Good,
    /// Over another digest, of which it says that it is the one.
    OtherDigest,
    /// With another key.
    OtherKey,
    /// One signature where several were asked for, or two where one was.
    OtherCount,
    /// As if everything were a probe.
    Probe,
    /// With a reply that ends in the middle.
    Cut,
    /// Not at all.
    Silent,
    /// With a refusal that has a control sequence in it.
    Refusal,
    /// As signd does, but a control sequence stands in front of the public key.
    KeyWithControls,
    /// As signd does, but a bit of the public key is another.
    KeyDamaged,
    /// As signd does, but the public key is something else.
    KeyOfNothing,
}

/// It runs until the process ends.
pub(crate) struct Signd {
    pub(crate) address: SocketAddr,
    asked: Arc<Mutex<Vec<Asked>>>,
}

/// One request that it got.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) bytes: Vec<u8>,
    pub(crate) from: SocketAddr,
}

impl Signd {
    pub(crate) fn start(manner: Manner) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let noted = Arc::clone(&asked);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let noted = Arc::clone(&noted);
                std::thread::spawn(move || serve(stream.unwrap(), manner, &noted));
            }
        });
        Self { address, asked }
    }

    /// What a sign.conf says about it.
    pub(crate) fn conf(&self) -> String {
        format!("server: 127.0.0.1\nport: {}\nuser: bench#ed25519@copr.example.org\n", self.address.port())
    }

    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }
}

fn serve(mut stream: TcpStream, manner: Manner, noted: &Mutex<Vec<Asked>>) {
    let mut parser = Parser::new();
    let mut bytes = Vec::new();
    let request = loop {
        let mut piece = [0; 4096];
        let len = stream.read(&mut piece).unwrap();
        bytes.extend(&piece[..len]);
        match parser.push(&piece[..len]) {
            Progress::Done(request) => break request,
            Progress::More(_) => assert_ne!(len, 0, "a request that ends too early"),
        }
    };
    noted.lock().unwrap().push(Asked { bytes, from: stream.peer_addr().unwrap() });
    let reply = request.and_then(|request| answer(&request, manner));
    let mut bytes = reply.unwrap_or_else(|refusal| Reply::refused(&refusal)).to_bytes();
    match manner {
        Manner::Cut => bytes.truncate(bytes.len() / 2),
        Manner::Silent => bytes.clear(),
        Manner::Good
        | Manner::OtherDigest
        | Manner::OtherKey
        | Manner::OtherCount
        | Manner::Probe
        | Manner::Refusal
        | Manner::KeyWithControls
        | Manner::KeyDamaged
        | Manner::KeyOfNothing => {}
    }
    // A client that has seen enough may be gone.
    let _ = stream.write_all(&bytes);
}

fn answer(request: &Request, manner: Manner) -> Result<Reply, Refusal> {
    let name = request.user().strip_prefix("bench#").and_then(|user| user.split('@').next());
    let name = name.filter(|name| ["rsa2048", "ed25519", "p256"].contains(name));
    let unknown = || Refusal::UnknownKey { user: request.user().to_owned() };
    match request.command()? {
        Command::Ping => Reply::ok::<Vec<u8>>(request.form(), &[]),
        Command::Pubkey => {
            let name = name.ok_or_else(unknown)?;
            let mut public = std::fs::read(fixtures::path(&format!("obs/keys/{name}.pub.asc"))).unwrap();
            if manner == Manner::KeyWithControls {
                public.splice(0..0, *b"\x1b]0;title\x07\n");
            }
            if manner == Manner::KeyDamaged {
                // A letter of another case is another number.
                let middle = public.len() / 2;
                let letter = public[middle..].iter_mut().find(|byte| byte.is_ascii_alphabetic()).unwrap();
                *letter ^= 0x20;
            }
            if manner == Manner::KeyOfNothing {
                public = b"no key\n".to_vec();
            }
            Reply::ok(request.form(), &[public])
        }
        Command::Sign { digests } => {
            let mut name = name.ok_or_else(unknown)?;
            if manner == Manner::Refusal {
                let argument = "\u{1b}[2Jcome \u{202e}again".to_owned();
                return Err(Refusal::BadHash { argument });
            }
            if manner == Manner::OtherKey {
                name = if name == "rsa2048" { "ed25519" } else { "rsa2048" };
            }
            let mut results: Vec<Vec<u8>> =
                digests.iter().map(|digest| signature(name, digest, manner)).collect();
            if manner == Manner::OtherCount {
                results.push(results[0].clone());
                return Reply::ok(sealwright_obs::Form::New, &results);
            }
            Reply::ok(request.form(), &results)
        }
        Command::Keygen(_) if manner == Manner::KeyWithControls => {
            let mut public = b"\x1b]0;title\x07\n".to_vec();
            public.extend(std::fs::read(fixtures::path("obs/keys/rsa2048.pub.asc")).unwrap());
            Reply::ok(request.form(), &[public, b"80".to_vec()])
        }
        Command::Privsign { .. } | Command::Keygen(_) | Command::Privtotp { .. } => {
            Err(Refusal::UnknownCommand { command: request.command_name().to_owned() })
        }
    }
}

fn signature(name: &str, digest: &DigestArgument, manner: Manner) -> Vec<u8> {
    let armored = std::fs::read(fixtures::path(&format!("obs/keys/{name}.sec.asc"))).unwrap();
    let (key, _) = SignedSecretKey::from_armor_single(&armored[..]).unwrap();
    let key = &key.primary_key;
    let fingerprint: [u8; 20] = key.fingerprint().as_bytes().try_into().unwrap();
    if manner == Manner::Probe {
        let algorithm = match name {
            "rsa2048" => sealwright_obs::packet::KeyAlgorithm::Rsa,
            _ => sealwright_obs::packet::KeyAlgorithm::EdDsaLegacy,
        };
        return probe_answer(&DigestArgument::probe(digest.hash()), algorithm, &fingerprint).unwrap();
    }
    let mut signed = digest.digest().to_vec();
    if manner == Manner::OtherDigest {
        *signed.last_mut().unwrap() ^= 1;
    }
    let hash = match digest.hash() {
        sealwright_obs::Hash::Sha512 => HashAlgorithm::Sha512,
        sealwright_obs::Hash::Sha1 | sealwright_obs::Hash::Sha256 => HashAlgorithm::Sha256,
    };
    let made = key.sign(&Password::empty(), hash, &signed).unwrap();
    let SignatureBytes::Mpis(numbers) = made else { panic!("version 4 keys have numbers") };
    let numbers: Vec<Vec<u8>> = numbers.iter().map(|number| number.as_ref().to_vec()).collect();
    let value = match numbers.as_slice() {
        [one] => Value::Rsa(one),
        [r, s] => Value::EdDsaLegacy { r, s },
        _ => panic!("one number or two"),
    };
    version_3(digest, fingerprint[12..].try_into().unwrap(), &value).unwrap()
}
