//! One file, one way of signing it, one run that is watched.

use std::fs;
use std::path::{Path, PathBuf};

use sealwright_testkit::effects::{self, Effect, Facts, Place, Way};
use sealwright_testkit::fixtures::{self, ED25519};
use sealwright_testkit::rpm::{DSA_HEADER, GPG, OPENPGP, Package};
use sealwright_testkit::sealwright::Home;
use sealwright_testkit::trace::{self, Act, Call, Moment, Traced};

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
        let mut arguments = vec!["sign", "--json", "--key", ED25519.name];
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

    pub(crate) fn facts(&self, traced: &Traced) -> Facts {
        let json = traced.ran.json();
        let id = json.iter().find_map(|line| line["request_id"].as_str()).unwrap_or_default();
        Facts { place: self.place.clone(), request_id: unhex(&id.replace('-', "")), packets: self.packets() }
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
