//! Bare digests: only keys that were sealed for them sign any, and then what `signd` of obs-sign answered with the same keys
//! (fixtures/obs) comes out byte for byte.

use std::collections::BTreeMap;
use std::path::Path;

use sealwright_crypto::algorithm::{KeyAlgorithm, KeyVersion};
use sealwright_crypto::bare::{AnyDigest, Bare};
use sealwright_crypto::openpgp::fingerprint::Fingerprint;
use sealwright_crypto::openpgp::signature::DataKind;
use sealwright_crypto::tbs::ToBeSigned;
use sealwright_crypto::usage::Usage;
use sealwright_proto::convert::batch::{Batch, Request, SealedKey, SignedItem};
use sealwright_proto::convert::group::Priority;
use sealwright_proto::convert::keys::{KeyMaterial, KeySpec};
use sealwright_proto::signer_v1::ImportSecret;
use sealwright_proto::status::{Code, Fault};

use crate::harness::{NOW, Signer, key_id, sealed, spec};

const ALL: [Usage; 3] = [Usage::OpenPgp, Usage::ObsDigest, Usage::ObsDigestSha1];

pub(crate) fn obs(name: &str) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/obs").join(name);
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

pub(crate) fn import(
    signer: &mut Signer,
    id: u8,
    key: &str,
    usages: &[Usage],
    on_primary: bool,
) -> Result<KeyMaterial, Fault> {
    let secret = ImportSecret {
        key: obs(&format!("keys/{key}.sec.asc")),
        passphrase: Vec::new(),
        subkey: String::new(),
        usages: usages.iter().map(|usage| usage.id().into()).collect(),
        bare_digests_on_primary: on_primary,
    };
    signer.import_told(id, &secret, ("imported", "imported"), usages.to_vec())
}

fn request(item: ToBeSigned) -> Request {
    Request { key: 0, item, not_before: 0, salt: false, first: None, trace_id: None }
}

fn bare(hash: u8, digest: &[u8]) -> Bare {
    Bare::new(AnyDigest::from_parts(hash, digest).unwrap(), DataKind::Binary, 1_700_000_000).unwrap()
}

fn sign(signer: &mut Signer, key: SealedKey, items: Vec<Bare>) -> Vec<Result<SignedItem, Fault>> {
    let requests = items.into_iter().map(|item| request(ToBeSigned::bare(item))).collect();
    let batch = Batch { keys: vec![key], requests, deadline_ms: None, priority: Priority::Interactive };
    signer.sign_batch(batch).unwrap()
}

fn refused(signer: &mut Signer, key: SealedKey, item: Bare) -> Code {
    sign(signer, key, vec![item]).remove(0).unwrap_err().code
}

/// What one request of the transcripts asked `signd` to sign, and what came back.
struct Captured {
    name: String,
    key: String,
    digests: Vec<Bare>,
    packets: Vec<Vec<u8>>,
}

pub(crate) fn hex(text: &str) -> Vec<u8> {
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
}

fn captured() -> Vec<Captured> {
    let text = String::from_utf8(obs("transcripts.tsv")).unwrap();
    text.lines().skip(1).filter_map(captured_line).collect()
}

/// Good answers to `sign` alone; a probe, 04 in every byte, is no digest that is signed.
fn captured_line(line: &str) -> Option<Captured> {
    let [name, request, reply] = line.split('\t').collect::<Vec<_>>().try_into().unwrap();
    if reply == "-" || !reply.starts_with("0000") || name.starts_with("privsign") {
        return None;
    }
    let (request, reply) = (hex(request), hex(reply));
    let is_new = request[2..4] == [0, 0];
    let text: String = request.iter().map(|byte| char::from(*byte)).collect();
    let hash = if text.contains("SHA256:") { 8 } else { 2 };
    let digits = if hash == 8 { 64 } else { 40 };
    let digests: Option<Vec<_>> = text
        .match_indices('@')
        .filter_map(|(at, _)| Some((text.get(at.checked_sub(digits)?..at)?, text.get(at + 1..at + 11)?)))
        .filter(|(digest, tail)| (digest.to_string() + tail).bytes().all(|byte| byte.is_ascii_hexdigit()))
        .map(|(digest, tail)| {
            let kind = if tail.starts_with("00") { DataKind::Binary } else { DataKind::Text };
            let created = u32::from_str_radix(&tail[2..], 16).unwrap();
            Bare::new(AnyDigest::from_parts(hash, &hex(digest)).unwrap(), kind, created).ok()
        })
        .collect();
    let digests = digests.filter(|digests| !digests.is_empty())?;
    let key = text.split_once("bench#")?.1.split_once('@')?.0.to_owned();
    let mut packets = Vec::new();
    if is_new {
        let mut at = 8 + 2 * digests.len();
        for lens in reply[8..at].chunks(2) {
            let len = usize::from(u16::from_be_bytes([lens[0], lens[1]]));
            packets.push(reply[at..at + len].to_vec());
            at += len;
        }
    } else {
        packets.push(reply[6..].to_vec());
    }
    assert_eq!(packets.len(), digests.len(), "{name}");
    Some(Captured { name: name.to_owned(), key, digests, packets })
}

#[test]
fn the_answers_of_signd_come_out_byte_for_byte() {
    let mut signer = Signer::start();
    let mut keys = BTreeMap::new();
    for (id, name) in [(1, "rsa2048"), (2, "rsa4096"), (3, "ed25519")] {
        let key = import(&mut signer, id, name, &ALL, true).unwrap();
        keys.insert(name.to_owned(), (sealed(id, &key), 0));
    }
    let mut sha1 = 0;
    for Captured { name, key, digests, packets } in captured() {
        let (key, seen) = keys.get_mut(&key).unwrap();
        *seen += digests.len();
        sha1 += digests.iter().filter(|digest| digest.usage() == Usage::ObsDigestSha1).count();
        for ((signed, packet), digest) in
            sign(&mut signer, key.clone(), digests.clone()).into_iter().zip(packets).zip(digests)
        {
            let signed = signed.unwrap();
            assert_eq!(signed.packet, packet, "{name}");
            assert_eq!(
                (signed.digest.as_slice(), signed.created),
                (digest.digest().as_bytes(), NOW),
                "{name}"
            );
        }
    }
    let seen: Vec<_> = keys.values().map(|(_, seen)| *seen).collect();
    assert_eq!((seen, sha1), (vec![3, 25, 1], 4));
    signer.stop().unwrap();
}

#[test]
fn a_key_signs_the_bare_digests_that_it_was_sealed_for_and_no_other() {
    let mut signer = Signer::start();
    let (sha2, sha1) = (bare(8, &[7; 32]), bare(2, &[7; 20]));
    let without = import(&mut signer, 1, "ed25519", &[Usage::OpenPgp], false).unwrap();
    let plain = sealed(1, &without);
    assert_eq!(refused(&mut signer, plain.clone(), sha2), Code::UsageNotAllowed);
    assert_eq!(refused(&mut signer, plain, sha1), Code::UsageNotAllowed);
    let modern = import(&mut signer, 2, "ed25519", &[Usage::OpenPgp, Usage::ObsDigest], true).unwrap();
    let modern = sealed(2, &modern);
    assert!(sign(&mut signer, modern.clone(), vec![sha2]).remove(0).is_ok());
    assert_eq!(refused(&mut signer, modern.clone(), sha1), Code::UsageNotAllowed);
    // Of one request, what may be signed is.
    let both = sign(&mut signer, modern, vec![sha1, sha2]);
    assert_eq!((both[0].is_ok(), both[1].is_ok()), (false, true));
    // What is sealed for bare digests alone signs no content.
    let only = import(&mut signer, 3, "ed25519", &[Usage::ObsDigest], true).unwrap();
    let content = crate::harness::request(0, sealwright_crypto::algorithm::HashAlgorithm::Sha256, b"x");
    let batch = Batch {
        keys: vec![sealed(3, &only)],
        requests: vec![content],
        deadline_ms: None,
        priority: Priority::Interactive,
    };
    let fault = signer.sign_batch(batch).unwrap().remove(0).unwrap_err();
    assert_eq!(fault.code, Code::UsageNotAllowed);
    signer.stop().unwrap();
}

#[test]
fn every_hash_has_its_own_signature_and_each_verifies() {
    let mut signer = Signer::start();
    for (id, name) in [(1, "rsa2048"), (2, "ed25519")] {
        let key = import(&mut signer, id, name, &ALL, true).unwrap();
        let items = [(2, 20), (8, 32), (9, 48), (10, 64)].map(|(hash, len)| bare(hash, &vec![0x5a; len]));
        let signed = sign(&mut signer, sealed(id, &key), items.to_vec());
        let issuer = Fingerprint::from_hex(&key.signing_fingerprint).unwrap();
        let mut numbers = Vec::new();
        for (signed, item) in signed.into_iter().zip(items) {
            // The signer lets out only what it has verified itself.
            let packet = signed.unwrap().packet;
            assert!(item.is_answered_by(&packet, &issuer));
            numbers.push(packet[packet.len() - 32..].to_vec());
        }
        numbers.sort();
        numbers.dedup();
        assert_eq!(numbers.len(), 4, "{name}");
    }
    signer.stop().unwrap();
}

#[test]
fn neither_front_nor_the_database_adds_a_usage() {
    let mut signer = Signer::start();
    let key = import(&mut signer, 1, "ed25519", &[Usage::OpenPgp], false).unwrap();
    let good = sealed(1, &key);
    // Byte 29 is the number of usages, byte 30 the only one (docs/WIRE.md, "Sealed key").
    assert_eq!(good.blob[29..31], [1, 1]);
    let mut other = good.clone();
    other.blob[30] = 2;
    let fault = signer.sign_batch(Batch {
        keys: vec![other],
        requests: vec![request(ToBeSigned::bare(bare(8, &[7; 32])))],
        deadline_ms: None,
        priority: Priority::Interactive,
    });
    assert_eq!(fault.unwrap().remove(0).unwrap_err().code, Code::SealBroken);
    let mut more = good;
    more.blob[29] = 2;
    more.blob.insert(31, 2);
    assert_eq!(refused(&mut signer, more, bare(8, &[7; 32])), Code::SealBroken);
    // What front says at an import must be what the client encrypted for the signer.
    let secret = |usages: Vec<u32>| ImportSecret {
        key: obs("keys/ed25519.sec.asc"),
        passphrase: Vec::new(),
        subkey: String::new(),
        usages,
        bare_digests_on_primary: true,
    };
    for (encrypted, told) in [
        (vec![], &ALL[..2]),
        (vec![1], &ALL[..2]),
        (vec![1, 2], &ALL[..1]),
        (vec![1, 2], &ALL),
        (vec![2, 1], &ALL[..2]),
    ] {
        let fault = signer.import_told(2, &secret(encrypted), ("imported", "imported"), told.to_vec());
        assert_eq!(fault.unwrap_err().code, Code::ImportRefused, "{told:?}");
    }
    assert!(signer.import_told(2, &secret(vec![1, 2]), ("imported", "imported"), ALL[..2].to_vec()).is_ok());
    signer.stop().unwrap();
}

#[test]
fn a_primary_key_signs_bare_digests_only_if_that_was_meant() {
    let mut signer = Signer::start();
    let fault = import(&mut signer, 1, "rsa2048", &ALL, false).unwrap_err();
    assert_eq!(fault.code, Code::UsageNotAllowed);
    assert!(fault.message.contains("--obs-digest-on-primary"), "{}", fault.message);
    let edwards = spec(KeyAlgorithm::Ed25519);
    let fault = signer.create_for(1, edwards.clone(), ALL.to_vec()).unwrap_err();
    assert_eq!(fault.code, Code::UsageNotAllowed);
    for (id, wanted) in [
        (1, KeySpec { signing_subkey: true, ..edwards.clone() }),
        (2, KeySpec { bare_digests_on_primary: true, ..edwards.clone() }),
    ] {
        let key = signer.create_for(id, wanted, ALL.to_vec()).unwrap();
        assert_eq!(key.fingerprint == key.signing_fingerprint, id == 2);
        assert!(sign(&mut signer, sealed(id, &key), vec![bare(2, &[7; 20])]).remove(0).is_ok());
    }
    signer.stop().unwrap();
}

#[test]
fn a_version_6_key_is_not_sealed_for_bare_digests() {
    let mut signer = Signer::start();
    let six = KeySpec { version: KeyVersion::V6, signing_subkey: true, ..spec(KeyAlgorithm::Ed25519) };
    let fault = signer.create_for(1, six, ALL.to_vec()).unwrap_err();
    assert_eq!(fault.code, Code::Unsupported);
    signer.stop().unwrap();
}

#[test]
fn a_renewal_changes_nothing_of_what_a_key_is_sealed_for() {
    let mut signer = Signer::start();
    let wanted = KeySpec { signing_subkey: true, ..spec(KeyAlgorithm::Ed25519) };
    let key = signer.create_for(1, wanted, ALL[..2].to_vec()).unwrap();
    signer.set_clock(NOW + 1);
    let renewed = signer.renew(1, &key, Some(86_400)).unwrap();
    let renewed = SealedKey { key_id: key_id(1), generation: 2, blob: renewed.sealed };
    assert!(sign(&mut signer, renewed.clone(), vec![bare(8, &[7; 32])]).remove(0).is_ok());
    assert_eq!(refused(&mut signer, renewed, bare(2, &[7; 20])), Code::UsageNotAllowed);
    signer.stop().unwrap();
}

#[test]
fn time_and_end_of_a_key_hold_for_bare_digests_too() {
    let mut signer = Signer::start();
    let wanted = KeySpec { signing_subkey: true, valid_for_s: Some(1_000), ..spec(KeyAlgorithm::Ed25519) };
    let key = signer.create_for(1, wanted, ALL.to_vec()).unwrap();
    let item = bare(8, &[7; 32]);
    signer.set_clock(NOW - 1);
    assert_eq!(refused(&mut signer, sealed(1, &key), item), Code::ClockBehind);
    signer.set_clock(NOW + 1_000);
    assert_eq!(refused(&mut signer, sealed(1, &key), item), Code::KeyExpired);
    signer.set_clock(NOW + 999);
    assert!(sign(&mut signer, sealed(1, &key), vec![item]).remove(0).is_ok());
    signer.stop().unwrap();
}
