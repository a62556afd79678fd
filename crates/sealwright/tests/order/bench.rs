//! One file, one way of signing it, one run that is watched.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use sealwright_testkit::effects::{self, Effect, Facts, Place, Way};
use sealwright_testkit::fixtures::{self, ED25519};
use sealwright_testkit::rpm::{DSA_HEADER, GPG, OPENPGP, Package};
use sealwright_testkit::sealwright::Home;
use sealwright_testkit::tools::{self, RpmKeys};
use sealwright_testkit::trace::{self, Act, Call, Moment, Traced};
use sha2::{Digest as _, Sha256};

pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_sealwright");
const PACKAGE: &str = "gen_tiny-reserved4096.rpm";

/// A way of signing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Manner {
    pub(crate) way: Way,
    pub(crate) options: &'static [&'static str],
    /// Signatures that it makes.
    pub(crate) signatures: usize,
}

pub(crate) const HEADER: Manner = Manner { way: Way::Replace, options: &[], signatures: 1 };
pub(crate) const HEADER_AND_PAYLOAD: Manner =
    Manner { way: Way::Replace, options: &["--rpm-signature", "both"], signatures: 2 };
pub(crate) const IN_PLACE: Manner = Manner { way: Way::InPlace, options: &["--in-place"], signatures: 1 };
pub(crate) const DETACHED: Manner = Manner {
    way: Way::Beside,
    options: &["--format", "detached", "--detached-output", "sig"],
    signatures: 1,
};
pub(crate) const MANNERS: [Manner; 4] = [HEADER, HEADER_AND_PAYLOAD, IN_PLACE, DETACHED];

/// What a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// Byte for byte as it was; no signature file.
    Old,
    Changed,
}

/// A home with a key and a file.
pub(crate) struct Bench {
    pub(crate) home: Home,
    pub(crate) manner: Manner,
    pub(crate) place: Place,
    pub(crate) original: Vec<u8>,
}

/// A home that others are twins of: with a key that has signed nothing.
pub(crate) fn first_home() -> Home {
    Home::with_keys(PROGRAM, &[ED25519])
}

impl Bench {
    pub(crate) fn new(home: Home, manner: Manner) -> Self {
        let package = fixtures::package(PACKAGE);
        let source = home.copy(&package).canonicalize().unwrap();
        let result = match manner.way {
            Way::Replace | Way::InPlace => source.clone(),
            Way::Beside => PathBuf::from(format!("{}.sig", source.display())),
        };
        let sealed = unhex(&home.sql("SELECT hex(sealed) FROM keys")[0]);
        let place = Place { home: home.home().canonicalize().unwrap(), source, result, sealed };
        Self { home, manner, place, original: fs::read(package).unwrap() }
    }

    pub(crate) fn arguments(&self) -> Vec<&str> {
        let mut arguments = vec!["sign", "--json", "--salt", "--key", ED25519.name];
        arguments.extend(self.manner.options);
        arguments.push(self.place.source.to_str().unwrap());
        arguments
    }

    /// Signs the file, watched.
    pub(crate) fn run(&self, decide: &mut dyn FnMut(&Call, Moment) -> Act) -> Traced {
        trace::run(&self.home.command(&self.arguments()), decide)
    }

    /// The effects of a run that signed.
    pub(crate) fn effects(&self, traced: &Traced) -> Vec<Effect> {
        effects::recognise(&traced.calls, &self.facts(traced))
    }

    fn facts(&self, traced: &Traced) -> Facts {
        let json = traced.ran.json();
        let id = json.iter().find_map(|line| line["request_id"].as_str()).unwrap_or_default();
        Facts { place: self.place.clone(), request_id: unhex(&id.replace('-', "")), packets: self.packets() }
    }

    /// What became of the file.
    pub(crate) fn state(&self) -> State {
        let is_as_it_was = fs::read(&self.place.source).unwrap() == self.original;
        match self.manner.way {
            Way::Replace | Way::InPlace if is_as_it_was => State::Old,
            Way::Replace | Way::InPlace => State::Changed,
            Way::Beside => {
                assert!(is_as_it_was, "the file itself is never written");
                if self.place.result.exists() { State::Changed } else { State::Old }
            }
        }
    }

    /// Names beside the file that no run may leave behind.
    pub(crate) fn leftovers(&self) -> Vec<String> {
        let beside = fs::read_dir(self.home.work()).unwrap();
        let undo = fs::read_dir(self.home.home().join("state")).into_iter().flatten();
        let names = beside.chain(undo).map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let is_ours =
            |name: &String| [".sealwright-", "undo-", "new-"].iter().any(|start| name.starts_with(start));
        names.filter(is_ours).collect()
    }

    /// How many log entries each signature that is there has.
    pub(crate) fn entries(&self) -> Vec<u64> {
        let count = |packet: Vec<u8>| {
            let hash: String = Sha256::digest(packet).iter().map(|byte| format!("{byte:02X}")).collect();
            self.home.sql(&format!("SELECT COUNT(*) FROM log WHERE instr(entry, x'{hash}') > 0"))[0]
                .parse()
                .unwrap()
        };
        self.packets().into_iter().map(count).collect()
    }

    /// Signed, by the judgement of a tool that is not ours.
    pub(crate) fn is_signed(&self) -> bool {
        match self.manner.way {
            Way::Replace | Way::InPlace => {
                RpmKeys::new(&[ED25519.public()]).check(&self.place.result).is_signed_and_all_ok()
            }
            Way::Beside => {
                let mut sqv = Command::new("sqv");
                sqv.arg("--keyring").arg(ED25519.public()).args([&self.place.result, &self.place.source]);
                tools::run(&mut sqv).status.success()
            }
        }
    }

    /// The signatures that are there now.
    pub(crate) fn packets(&self) -> Vec<Vec<u8>> {
        packets(self.manner.way, &self.place.result)
    }
}

/// The signatures of a package, or of a signature file.
pub(crate) fn packets(way: Way, result: &Path) -> Vec<Vec<u8>> {
    let Ok(bytes) = fs::read(result) else { return Vec::new() };
    if way == Way::Beside {
        return vec![bytes];
    }
    let package = Package::read(&bytes);
    let tags = [DSA_HEADER, GPG].into_iter().filter_map(|tag| package.binary(tag).map(<[u8]>::to_vec));
    assert!(!package.signature_tags().contains(&OPENPGP), "a v4 package");
    tags.collect()
}

pub(crate) fn unhex(text: &str) -> Vec<u8> {
    let pairs = text.as_bytes().chunks(2);
    pairs.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}
