//! Project keys: what `signd` of obs-sign answered to `privsign` comes out byte for byte, and what is made opens again.

use sealwright_crypto::algorithm::{HashAlgorithm, KeyAlgorithm};
use sealwright_crypto::bare::{AnyDigest, Bare};
use sealwright_crypto::digest::Hasher;
use sealwright_crypto::openpgp::certificate::Certificate;
use sealwright_crypto::openpgp::signature::DataKind;
use sealwright_crypto::tbs::ToBeSigned;
use sealwright_crypto::usage::Usage;
use sealwright_proto::convert::batch::{Batch, Request, SealedKey, SignedItem};
use sealwright_proto::convert::group::Priority;
use sealwright_proto::convert::keys::KeySpec;
use sealwright_proto::convert::project::{MakeProjectKey, ProjectKeyMade};
use sealwright_proto::signer_v1::from_signer::Response;
use sealwright_proto::signer_v1::to_signer::Request as Asked;
use sealwright_proto::status::{Code, Fault};

use sealwright_testkit::fixtures;
use sealwright_testkit::tools::Gpg;

use crate::bare::{hex, import, obs};
use crate::harness::{NOW, Signer, sealed, spec};

const ALL: [Usage; 3] = [Usage::OpenPgp, Usage::ObsDigestSha1, Usage::ObsProjectKeys];

fn sign(signer: &mut Signer, key: &SealedKey, bare: Bare, project_key: &[u8]) -> Result<SignedItem, Fault> {
    let item = ToBeSigned::by_project_key(bare, project_key.into());
    let request = Request { key: 0, item, not_before: 0, salt: false, first: None, trace_id: None };
    let (keys, requests) = (vec![key.clone()], vec![request]);
    let batch = Batch { keys, requests, deadline_ms: None, priority: Priority::Interactive };
    signer.sign_batch(batch).unwrap().remove(0)
}

fn project_key() -> Vec<u8> {
    hex(String::from_utf8(obs("files/P")).unwrap().trim_end())
}

fn digest() -> Bare {
    let digest = Hasher::digest(HashAlgorithm::Sha256, b"content");
    Bare::new(digest.into(), DataKind::Binary, 1_700_000_000).unwrap()
}

fn make(signer: &mut Signer, key: &SealedKey, algorithm: KeyAlgorithm) -> Result<ProjectKeyMade, Fault> {
    let user_id = "Project <project@example.org>".to_owned();
    let make = MakeProjectKey { key: key.clone(), algorithm, user_id, valid_for_s: Some(86_400) };
    match signer.ask(Asked::MakeProjectKey(make.into_wire()))? {
        Response::ProjectKey(made) => Ok(ProjectKeyMade::parse(made).unwrap()),
        other => panic!("{other:?}"),
    }
}

/// Arguments of a request of the new form, after command and user.
fn arguments(request: &[u8]) -> Vec<Vec<u8>> {
    let u16_at = |at: usize| usize::from(u16::from_be_bytes([request[at], request[at + 1]]));
    let count = u16_at(4);
    let mut at = 6 + 2 * count;
    let mut all = Vec::new();
    for number in 0..count {
        let len = u16_at(6 + 2 * number);
        all.push(request[at..at + len].to_vec());
        at += len;
    }
    all.split_off(2)
}

#[test]
fn the_answers_of_signd_to_privsign_come_out_byte_for_byte() {
    let mut signer = Signer::start();
    let key = import(&mut signer, 1, "rsa2048", &ALL, true).unwrap();
    let key = sealed(1, &key);
    let text = String::from_utf8(obs("transcripts.tsv")).unwrap();
    let mut seen = 0;
    for line in text.lines().filter(|line| line.starts_with("privsign")) {
        let [name, request, reply] = line.split('\t').collect::<Vec<_>>().try_into().unwrap();
        let (arguments, reply) = (arguments(&hex(request)), hex(reply));
        let [project, digest] = arguments.try_into().unwrap();
        let project = hex(core::str::from_utf8(&project).unwrap());
        let (digest, tail) = core::str::from_utf8(&digest).unwrap().split_once('@').unwrap();
        let hash = if digest.len() == 64 { 8 } else { 2 };
        let digest = AnyDigest::from_parts(hash, &hex(digest)).unwrap();
        let created = u32::from_str_radix(&tail[2..], 16).unwrap();
        let bare = Bare::new(digest, DataKind::Binary, created).unwrap();
        let signed = sign(&mut signer, &key, bare, &project).unwrap();
        // One result: the number of results, its length, itself.
        assert_eq!(signed.packet, reply[10..], "{name}");
        let certificate =
            sealwright_crypto::openpgp::armor::decode_or_binary(&obs("files/proj.asc")).unwrap();
        assert_eq!(signed.issuer, Some(Certificate::parse(&certificate).unwrap().fingerprint()), "{name}");
        assert_eq!((signed.created, signed.operation.number), (NOW, seen + 1), "{name}");
        seen += 1;
    }
    assert_eq!(seen, 3);
    signer.stop().unwrap();
}

#[test]
fn only_a_key_that_was_sealed_for_it_opens_and_makes_project_keys() {
    let mut signer = Signer::start();
    let without = import(&mut signer, 1, "rsa2048", &[Usage::OpenPgp, Usage::ObsDigest], true).unwrap();
    let without = sealed(1, &without);
    let fault = sign(&mut signer, &without, digest(), &project_key()).unwrap_err();
    assert_eq!(fault.code, Code::UsageNotAllowed);
    let fault = make(&mut signer, &without, KeyAlgorithm::Ed25519).unwrap_err();
    assert_eq!(fault.code, Code::UsageNotAllowed);
    // It needs no other usage, and gives none.
    let only = import(&mut signer, 2, "rsa2048", &[Usage::OpenPgp, Usage::ObsProjectKeys], false).unwrap();
    let only = sealed(2, &only);
    assert!(sign(&mut signer, &only, digest(), &project_key()).is_ok());
    let sha1 = Bare::new(AnyDigest::Sha1([7; 20]), DataKind::Binary, 1).unwrap();
    assert_eq!(sign(&mut signer, &only, sha1, &project_key()).unwrap_err().code, Code::UsageNotAllowed);
    let request = Request {
        key: 0,
        item: ToBeSigned::bare(digest()),
        not_before: 0,
        salt: false,
        first: None,
        trace_id: None,
    };
    let (keys, requests) = (vec![only.clone()], vec![request]);
    let batch = Batch { keys, requests, deadline_ms: None, priority: Priority::Interactive };
    assert_eq!(signer.sign_batch(batch).unwrap().remove(0).unwrap_err().code, Code::UsageNotAllowed);
    let fault = sign(&mut signer, &only, digest(), &project_key()[..100]).unwrap_err();
    assert_eq!(fault.code, Code::MalformedRequest);
    signer.stop().unwrap();
}

#[test]
fn keys_that_decrypt_nothing_are_not_sealed_for_project_keys() {
    let mut signer = Signer::start();
    let fault = import(&mut signer, 1, "ed25519", &ALL, true).unwrap_err();
    assert_eq!(fault.code, Code::Unsupported);
    let edwards = KeySpec { signing_subkey: true, ..spec(KeyAlgorithm::Ed25519) };
    let fault = signer.create_for(1, edwards, ALL.to_vec()).unwrap_err();
    assert_eq!(fault.code, Code::Unsupported);
    signer.stop().unwrap();
}

#[test]
fn a_project_key_that_was_made_signs() {
    let mut signer = Signer::start();
    let key = import(&mut signer, 1, "rsa2048", &ALL, true).unwrap();
    let key = sealed(1, &key);
    for algorithm in [KeyAlgorithm::Ed25519, KeyAlgorithm::Rsa(2048)] {
        let made = make(&mut signer, &key, algorithm).unwrap();
        let certificate = Certificate::parse(&made.certificate).unwrap();
        let signed = sign(&mut signer, &key, digest(), &made.encrypted).unwrap();
        assert_eq!(signed.issuer, Some(certificate.fingerprint()));
        assert!(digest().is_answered_by(&signed.packet, &certificate.fingerprint()));
    }
    signer.set_clock(NOW - 86_400);
    assert_eq!(make(&mut signer, &key, KeyAlgorithm::Ed25519).unwrap_err().code, Code::ClockBehind);
    signer.stop().unwrap();
}

/// `signd` would hand it to gpg.
#[test]
fn gpg_opens_what_is_made_and_finds_both_certifications_right() {
    let mut signer = Signer::start();
    let key = import(&mut signer, 1, "rsa2048", &ALL, true).unwrap();
    let made = make(&mut signer, &sealed(1, &key), KeyAlgorithm::Rsa(2048)).unwrap();
    signer.stop().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let (message, certificate) = (folder.path().join("message"), folder.path().join("certificate"));
    std::fs::write(&message, &made.encrypted).unwrap();
    std::fs::write(&certificate, &made.certificate).unwrap();
    let gpg = Gpg::new();
    gpg.import(&fixtures::path("obs/keys/rsa2048.sec.asc"));
    let run = |arguments: &[&str]| {
        // An hour after it was made.
        let output = gpg.command().args(["--faked-system-time", "20261130T150359"]).args(arguments).output();
        let output = output.unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        output.stdout
    };
    // A secret key packet of the present format: header, length of two bytes, and the public half of the certificate in front.
    let secret = run(&["--decrypt", message.to_str().unwrap()]);
    let public = Certificate::parse(&made.certificate).unwrap();
    assert_eq!(secret[0], 0xc5);
    assert_eq!(secret[3..3 + 269], made.certificate[3..3 + 269]);
    run(&["--import", certificate.to_str().unwrap()]);
    let checked = run(&["--check-sigs", "--with-colons", &public.fingerprint().to_string()]);
    let checked = String::from_utf8(checked).unwrap();
    let right = checked.lines().filter(|line| line.starts_with("sig:!:")).count();
    assert_eq!(right, 2, "{checked}");
}
