//! Detached OpenPGP signatures.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::expect_used,
    clippy::panic,
    clippy::ptr_arg,
    reason = "tests"
)]

use std::io::Read;

use sealwright_crypto::openpgp::certificate::{Certificate, Keyring};
use sealwright_crypto::openpgp::verify::State;
use sealwright_formats::openpgp_detached::{OpenPgpDetached, SIDECAR_BYTES_MAX};
use sealwright_formats::options::SignOptions;
use sealwright_formats::prepared::{
    BesideFile, BesideName, Layout, NewContent, Output, Preparation, Prepared,
};
use sealwright_formats::report::{Verification, VerifyContext};
use sealwright_formats::{Format as _, by_name};
use signer::{SIGNING_TIME, Signer, fixture};

#[allow(dead_code, reason = "each test target uses its part")]
#[path = "support/signer.rs"]
mod signer;

fn options(kind: &str) -> SignOptions {
    let mut options = SignOptions::default();
    options.format.set(&by_name("detached").unwrap().options()[0], kind).unwrap();
    options
}

fn prepared(preparation: Preparation) -> Prepared {
    match preparation {
        Preparation::Sign(prepared) => prepared,
        Preparation::Leave { why } => panic!("left: {why}"),
    }
}

fn sidecar(prepared: &Prepared, signer: &Signer) -> (&'static str, Vec<u8>) {
    assert_eq!(prepared.plan.room(1000, Layout::Tight).growth_max, 0);
    let [BesideFile { name: BesideName::Suffix(suffix), .. }] = prepared.beside.as_slice() else {
        panic!("one file beside it");
    };
    match prepared.plan.output(&signer.sign(&prepared.items), Layout::Tight).unwrap() {
        Output::Beside(contents) => match contents.as_slice() {
            [NewContent::Bytes(bytes)] => (suffix, bytes.clone()),
            _ => panic!("a signature file holds signatures alone"),
        },
        Output::Edits(_) => panic!("the file itself is never changed"),
    }
}

fn verify(content: &Vec<u8>, sidecar: Option<&[u8]>, certificates: &[&Certificate]) -> Verification {
    let mut keyring = Keyring::new();
    certificates.iter().for_each(|certificate| keyring.push((*certificate).clone()));
    let context = VerifyContext { keyring: &keyring, now: i64::from(SIGNING_TIME), sidecar };
    OpenPgpDetached.verify(content, &context).unwrap()
}

/// Gives one byte at a time.
struct Drip<'a>(&'a [u8]);

impl Read for Drip<'_> {
    fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
        let len = buf.len().min(1);
        self.0.read(&mut buf[..len])
    }
}

#[test]
fn file_and_stream_are_signed_alike_in_both_kinds_the_empty_file_too() {
    for content in [Vec::new(), b"text\r\nwith line ends\n".to_vec(), vec![7; 600_000]] {
        for (kind, wanted) in [("asc", ".asc"), ("sig", ".sig")] {
            for signer in [Signer::ed25519(), Signer::rsa4096(), Signer::ed25519_v6()] {
                let options = options(kind);
                let (key, salts) = (&signer.certificate, signer.salts(options.hash));
                assert_eq!(OpenPgpDetached.salts_needed(&options, key), salts.len());
                let file = prepared(OpenPgpDetached.prepare(&content, &options, key, &salts).unwrap());
                let mut stream = Drip(&content);
                let stream =
                    prepared(OpenPgpDetached.prepare_stream(&mut stream, &options, key, &salts).unwrap());
                let (suffix, bytes) = sidecar(&file, &signer);
                assert_eq!((suffix, &bytes), (wanted, &sidecar(&stream, &signer).1));
                assert_eq!(bytes.starts_with(b"-----BEGIN PGP SIGNATURE-----"), kind == "asc");
                assert_eq!(verify(&content, Some(&bytes), &[key]).state(), State::Valid);
                let mut changed = content.clone();
                changed.push(0);
                assert_eq!(verify(&changed, Some(&bytes), &[key]).state(), State::Bad);
                assert_eq!(verify(&content, Some(&bytes), &[]).state(), State::UnknownKey);
            }
        }
    }
}

#[test]
fn several_signatures_in_one_file_are_reported_each() {
    let content = b"data".to_vec();
    let (first, second) = (Signer::ed25519(), Signer::rsa2048());
    let mut both = Vec::new();
    for signer in [&first, &second] {
        let item =
            prepared(OpenPgpDetached.prepare(&content, &options("sig"), &signer.certificate, &[]).unwrap());
        both.extend(sidecar(&item, signer).1);
    }
    let verification = verify(&content, Some(&both), &[&first.certificate]);
    let states: Vec<State> = verification.signatures.iter().map(|signature| signature.state).collect();
    assert_eq!(states, [State::Valid, State::UnknownKey]);
    assert_eq!(verification.signatures[1].place, "detached #2");
}

#[test]
fn signatures_of_other_tools_are_read() {
    let keyring_key = Certificate::parse(&fixture("pgp-key/librepo_expired_key.asc"));
    let content = fixture("pgp-sig/librepo_test_data.txt");
    let signature = fixture("pgp-sig/librepo_test_data.txt.asc");
    let inspection = OpenPgpDetached.inspect(&content, Some(&signature)).unwrap();
    assert_eq!(inspection.signatures.len(), 1);
    assert!(!inspection.signatures[0].issuer.is_empty());
    if let Ok(key) = keyring_key {
        assert_ne!(verify(&content, Some(&signature), &[&key]).state(), State::Malformed);
    }
}

#[test]
fn no_signature_file_is_unsigned_and_junk_is_malformed() {
    let content = b"data".to_vec();
    assert_eq!(verify(&content, None, &[]).state(), State::Unsigned);
    let large = vec![0x88; SIDECAR_BYTES_MAX + 1];
    for junk in [b"".as_slice(), b"junk", b"-----BEGIN PGP SIGNATURE-----\n", &large] {
        assert_eq!(verify(&content, Some(junk), &[]).state(), State::Malformed);
        let inspection = OpenPgpDetached.inspect(&content, Some(junk)).unwrap();
        assert_eq!(inspection.signatures[0].state, State::Malformed);
    }
}

#[test]
fn there_is_nothing_to_strip_or_detect() {
    assert!(OpenPgpDetached.strip(&b"data".to_vec()).is_err());
    assert!(!OpenPgpDetached.detect(b"-----BEGIN PGP SIGNATURE-----"));
    assert!(!OpenPgpDetached.is_embedded());
}
