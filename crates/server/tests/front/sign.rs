//! The order of effects, answers, retries.

use std::sync::mpsc;
use std::time::Duration;

use sealwright_crypto::algorithm::HashAlgorithm;
use sealwright_crypto::openpgp::certificate::Keyring;
use sealwright_crypto::openpgp::packet::SignaturePacket;
use sealwright_crypto::openpgp::verify::{State, verify};
use sealwright_crypto::tbs::Content;
use sealwright_proto::convert::group::{Artefact, Group, GroupResult, LoggedSignature, Priority};
use sealwright_proto::limits::INLINE_BYTES_MAX;
use sealwright_proto::status::{Code, Fault};
use sealwright_store::{Intent, IntentId, KeyState, Material, Recorded, Store, Tickets};
use sealwright_tlog::Entry;
use sealwright_tlog::merkle::leaf_hash;
use uuid::Uuid;

use crate::bench::{Bench, group, hasher};
use crate::peer::{self, Act, CREATED};

pub(crate) fn signatures(answer: &GroupResult) -> Vec<LoggedSignature> {
    answer.outcome.clone().unwrap().into_iter().map(Result::unwrap).collect()
}

/// The one failure of all items, or of the group.
pub(crate) fn failure(answer: &GroupResult) -> Fault {
    match &answer.outcome {
        Err(fault) => fault.clone(),
        Ok(items) => {
            let mut faults = items.iter().map(|item| item.clone().expect_err("an item was signed"));
            let first = faults.next().unwrap();
            assert!(faults.all(|fault| fault == first));
            first
        }
    }
}

/// Runs on the signer's thread, as a process of its own would.
pub(crate) fn blocking<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
}

#[tokio::test]
async fn a_signature_verifies_with_the_certificate_and_stands_in_the_log() {
    let bench = Bench::start(|_, _| Act::Sign).await;
    let key = bench.create("release").await;
    let group = group("release", &[b"first", b"second"]);
    let signed = signatures(&bench.sign(&group).await);
    assert_eq!(signed.iter().map(|item| item.log_index).collect::<Vec<_>>(), [0, 1]);
    let mut keyring = Keyring::default();
    keyring.push(peer::certificate());
    for (item, content) in signed.iter().zip([b"first".as_slice(), b"second"]) {
        let packet = SignaturePacket::parse(&item.packet).unwrap();
        let outcome = verify(&packet, &hasher(content), &keyring, CREATED + 1);
        assert_eq!(outcome.state, State::Valid, "{:?}", outcome.detail);
        assert_eq!(verify(&packet, &hasher(b"other"), &keyring, CREATED + 1).state, State::Bad);
    }
    let entries = bench.other_process().await.log_entries(0, 10).await.unwrap();
    for (number, (bytes, item)) in entries.iter().zip(&signed).enumerate() {
        assert_eq!(leaf_hash(bytes).0, item.leaf_hash);
        let entry = Entry::decode(bytes).unwrap();
        assert_eq!(entry.request_id, *group.request_id.as_bytes());
        assert_eq!((entry.item as usize, entry.principal.as_str()), (number, "local"));
        assert_eq!(entry.key_id.as_slice(), key.id);
        assert_eq!((entry.key_generation, entry.signed_at_s), (1, CREATED));
        assert_eq!(entry.packet_sha256, sealwright_tlog::entry::packet_hash(&item.packet));
        assert_eq!(entry.decision, "owner");
        assert_eq!(entry.artefact.unwrap().name, "a.rpm");
    }
}

#[tokio::test]
async fn each_entry_of_a_group_of_several_artefacts_names_its_own() {
    let bench = Bench::start(|_, _| Act::Sign).await;
    bench.create("release").await;
    let claim = |name: &str, size| Artefact { name: name.to_owned(), size };
    let several = Group {
        artefact: Artefact::default(),
        artefacts: vec![claim("b.rpm", 7), claim("c.rpm", 8)],
        ..group("release", &[b"x", b"y"])
    };
    signatures(&bench.sign(&several).await);
    let entries = bench.other_process().await.log_entries(0, 10).await.unwrap();
    let named = entries.iter().map(|bytes| Entry::decode(bytes).unwrap().artefact.unwrap());
    let named: Vec<_> = named.map(|artefact| (artefact.name, artefact.size)).collect();
    assert_eq!(named, [("b.rpm".to_owned(), 7), ("c.rpm".to_owned(), 8)]);
}

#[tokio::test]
async fn keys_are_named_by_name_or_by_fingerprint() {
    let bench = Bench::start(|_, _| Act::Sign).await;
    let key = bench.create("release").await;
    for name in ["release", &key.signing_fingerprint, &key.fingerprint.to_uppercase()] {
        assert_eq!(signatures(&bench.sign(&group(name, &[b"x"])).await).len(), 1, "{name}");
    }
    for name in ["Release", &"00".repeat(20)] {
        assert_eq!(failure(&bench.sign(&group(name, &[b"x"])).await).code, Code::KeyNotFound, "{name}");
    }
}

/// What the store holds at the moment when the signer is asked: the intent, durable; no entry. And when the answer
/// has come: the entry, for every other process.
#[tokio::test]
async fn the_intent_is_durable_before_the_signer_is_asked_and_the_entry_before_the_answer() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let (seen, saw) = mpsc::channel();
    let (sent_id, request_id) = mpsc::channel::<Group>();
    let on_sign = move |_, batch: &sealwright_proto::convert::batch::Batch| {
        let group = request_id.recv().unwrap();
        let key_id = Uuid::from_bytes(*batch.keys[0].key_id.as_bytes());
        seen.send(blocking(async {
            let store = Store::open(&path).await.unwrap();
            let id = IntentId {
                principal: "local".to_owned(),
                request_id: Uuid::from_bytes(*group.request_id.as_bytes()),
                attempt: Uuid::now_v7(),
            };
            let digest = group.fingerprint();
            let tickets = Tickets::Spend(Vec::new());
            let intent = Intent { id, digest, key_id, now_ms: CREATED * 1000, lease_until_ms: 0, tickets };
            (store.record_intent(intent).await.unwrap(), store.log_head().await.unwrap().size())
        }))
        .unwrap();
        Act::Sign
    };
    let bench = Bench::start_in(folder, Box::new(on_sign)).await;
    bench.create("release").await;
    let group = group("release", &[b"x"]);
    sent_id.send(group.clone()).unwrap();
    let answer = bench.sign(&group).await;
    assert_eq!(saw.recv().unwrap(), (Recorded::InFlight, 0));
    assert_eq!(signatures(&answer)[0].log_index, 0);
    assert_eq!(bench.log_size().await, 1);
}

#[tokio::test]
async fn nothing_reaches_the_signer_before_the_request_is_authorised() {
    let bench = Bench::start(|_, _| Act::Sign).await;
    let key = bench.create("release").await;
    let id = Uuid::from_slice(&key.id).unwrap();
    bench.other_process().await.set_key_state(id, KeyState::Disabled).await.unwrap();
    let fresh = Bench::start(|_, _| Act::Sign).await;
    assert_eq!(failure(&fresh.sign(&group("none", &[b"x"])).await).code, Code::KeyNotFound);
    // This front still remembers the key as enabled; one that reads it now does not.
    let second = Bench::start_in(bench.folder, Box::new(|_, _| Act::Sign)).await;
    assert_eq!(failure(&second.sign(&group("release", &[b"x"])).await).code, Code::KeyDisabled);
    assert_eq!((second.signer.batches(), second.log_size().await), (0, 0));
}

#[tokio::test]
async fn a_retry_gets_the_stored_answer_and_nothing_is_signed_twice() {
    let bench = Bench::start(|_, _| Act::Sign).await;
    bench.create("release").await;
    let group = group("release", &[b"first", b"second"]);
    let first = bench.sign(&group).await;
    let second = bench.sign(&group).await;
    assert_eq!(signatures(&first), signatures(&second));
    assert_eq!((bench.signer.items(), bench.log_size().await), (2, 2));
}

#[tokio::test]
async fn a_retry_is_authorised_again() {
    let bench = Bench::start(|_, _| Act::Sign).await;
    let key = bench.create("release").await;
    let group = group("release", &[b"x"]);
    signatures(&bench.sign(&group).await);
    let disable = sealwright_proto::v1::SetKeyStateRequest { key: key.name, state: 2 };
    bench.keys().await.set_state(disable).await.unwrap();
    assert_eq!(failure(&bench.sign(&group).await).code, Code::KeyDisabled);
}

#[tokio::test]
async fn two_of_one_id_at_once_are_signed_once_and_get_one_answer() {
    let bench = Bench::start(|_, _| {
        std::thread::sleep(Duration::from_millis(100));
        Act::Sign
    })
    .await;
    bench.create("release").await;
    let group = group("release", &[b"x"]);
    let (first, second) = tokio::join!(bench.sign(&group), bench.sign(&group));
    assert_eq!(signatures(&first), signatures(&second));
    assert_eq!((bench.signer.items(), bench.log_size().await), (1, 1));
}

#[tokio::test]
async fn other_content_under_the_same_id_is_a_conflict() {
    let bench = Bench::start(|_, _| Act::Sign).await;
    bench.create("release").await;
    let first = group("release", &[b"x"]);
    signatures(&bench.sign(&first).await);
    let mut salted = first.clone();
    salted.salt = true;
    for other in [Group { request_id: first.request_id, ..group("release", &[b"y"]) }, salted] {
        assert_eq!(failure(&bench.sign(&other).await).code, Code::RequestConflict);
    }
    let more_time = Group { deadline_ms: 10_000, priority: Priority::Batch, ..first };
    assert_eq!(signatures(&bench.sign(&more_time).await).len(), 1, "waiting longer is not other content");
}

#[tokio::test]
async fn a_key_disabled_after_it_was_resolved_gives_no_signature() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let on_sign = move |_, batch: &sealwright_proto::convert::batch::Batch| {
        let id = Uuid::from_bytes(*batch.keys[0].key_id.as_bytes());
        blocking(async {
            Store::open(&path).await.unwrap().set_key_state(id, KeyState::Disabled).await.unwrap();
        });
        Act::Sign
    };
    let bench = Bench::start_in(folder, Box::new(on_sign)).await;
    bench.create("release").await;
    let group = group("release", &[b"x"]);
    assert_eq!(failure(&bench.sign(&group).await).code, Code::KeyDisabled);
    assert_eq!((bench.signer.items(), bench.log_size().await), (1, 0), "it was signed, and never left");
}

#[tokio::test]
async fn a_key_renewed_after_it_was_resolved_signs_once_more_with_the_new_generation() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let on_sign = move |number, batch: &sealwright_proto::convert::batch::Batch| {
        let key = &batch.keys[0];
        if number == 0 {
            let id = Uuid::from_bytes(*key.key_id.as_bytes());
            blocking(async {
                let store = Store::open(&path).await.unwrap();
                let old = store.key_by_name("release").await.unwrap().unwrap();
                let new = Material { generation: 2, sealed: b"new".to_vec(), ..old.material };
                store.replace_material(id, 1, new).await.unwrap();
            });
        } else {
            assert_eq!((key.generation, key.blob.as_slice()), (2, b"new".as_slice()));
        }
        Act::Sign
    };
    let bench = Bench::start_in(folder, Box::new(on_sign)).await;
    bench.create("release").await;
    assert_eq!(signatures(&bench.sign(&group("release", &[b"x"])).await).len(), 1);
    assert_eq!(bench.signer.batches(), 2);
    let entries = bench.other_process().await.log_entries(0, 10).await.unwrap();
    assert_eq!(entries.len(), 1);
    assert_eq!(Entry::decode(&entries[0]).unwrap().key_generation, 2);
}

#[tokio::test]
async fn a_key_enabled_by_another_process_signs_although_it_is_remembered_as_disabled() {
    let bench = Bench::start(|_, _| Act::Sign).await;
    let key = bench.create("release").await;
    let id = Uuid::from_slice(&key.id).unwrap();
    let disable = sealwright_proto::v1::SetKeyStateRequest { key: key.name, state: 2 };
    bench.keys().await.set_state(disable).await.unwrap();
    assert_eq!(failure(&bench.sign(&group("release", &[b"x"])).await).code, Code::KeyDisabled);
    bench.other_process().await.set_key_state(id, KeyState::Enabled).await.unwrap();
    assert_eq!(signatures(&bench.sign(&group("release", &[b"x"])).await).len(), 1);
}

#[tokio::test]
async fn the_signer_is_told_the_time_of_the_last_entry_of_the_key() {
    let (told, heard) = mpsc::channel();
    let bench = Bench::start(move |_, batch| {
        told.send((batch.requests[0].not_before, batch.requests[0].salt)).unwrap();
        Act::Sign
    })
    .await;
    bench.create("release").await;
    let salted = Group { salt: true, ..group("release", &[b"x"]) };
    signatures(&bench.sign(&salted).await);
    signatures(&bench.sign(&group("release", &[b"x"])).await);
    assert_eq!(heard.recv().unwrap(), (0, true));
    assert_eq!(heard.recv().unwrap(), (CREATED, false));
}

/// Each of these is a third of what may be in work at once over all connections: they wait for each other.
#[tokio::test]
async fn large_inline_contents_are_hashed_by_the_signer_and_wait_for_their_turn() {
    let bench = Bench::start(|_, batch| {
        let bytes = batch.requests.iter().map(|request| match &request.item.content {
            Content::Inline(_, bytes) => bytes.len(),
            Content::Midstate(_) | Content::Bare(_) | Content::Project(..) => 0,
        });
        assert!(bytes.sum::<usize>() <= INLINE_BYTES_MAX);
        Act::Sign
    })
    .await;
    bench.create("release").await;
    let content = vec![5; INLINE_BYTES_MAX];
    let mut keyring = Keyring::default();
    keyring.push(peer::certificate());
    let inline = || {
        let mut group = group("release", &[b""]);
        group.items[0].content = Content::Inline(HashAlgorithm::Sha256, content.clone());
        group
    };
    let answers = bench.sign_all(&[inline(), inline(), inline(), inline()]).await;
    for answer in answers {
        let packet = SignaturePacket::parse(&signatures(&answer)[0].packet).unwrap();
        assert_eq!(verify(&packet, &hasher(&content), &keyring, CREATED + 1).state, State::Valid);
    }
}

/// While the signer holds the first batches, the groups that come after queue; then they cross together.
#[tokio::test]
async fn groups_that_queue_cross_to_the_signer_together() {
    let (release, released) = mpsc::channel::<()>();
    let bench = Bench::start(move |number, _| {
        if number == 0 {
            released.recv().unwrap();
        }
        Act::Sign
    })
    .await;
    bench.create("release").await;
    let groups: Vec<Group> = (0..100_u8).map(|n| group("release", &[&[n]])).collect();
    let wait = async {
        // The places are taken and everything else has queued when nothing moves any more.
        tokio::time::sleep(Duration::from_millis(500)).await;
        release.send(()).unwrap();
    };
    let (answers, ()) = tokio::join!(bench.sign_all(&groups), wait);
    assert!(answers.iter().all(|answer| signatures(answer).len() == 1));
    assert_eq!(bench.signer.items(), 100);
    assert!(bench.signer.batches() <= 12, "{} batches for 100 groups", bench.signer.batches());
    assert!(bench.front.store_commits() <= 40, "{} commits", bench.front.store_commits());
}
