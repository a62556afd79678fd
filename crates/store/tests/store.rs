//! The store through its public interface: opening, keys, intents, the log, and how many commits they take.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::expect_used,
    clippy::panic,
    reason = "tests"
)]

#[path = "store/support.rs"]
mod support;
#[path = "store/times.rs"]
mod times;
#[path = "store/upgrade.rs"]
mod upgrade;

use std::os::unix::fs::{MetadataExt, PermissionsExt};

use futures_util::future::join_all;
use sealwright_store::{
    Concluded, Error, Intent, IntentId, ItemOutcome, ItemResult, KeyState, Recorded, Refusal, Store, Tickets,
    intents, log,
};
use sealwright_tlog::merkle::leaf_hash;
use sealwright_tlog::{CompactRange, Entry};
use support::{NOW_S, Opened, conclusion, intent, key, material, open, signed, uuid, with_tickets};

#[tokio::test]
async fn folder_and_files_are_the_owners_alone() {
    let Opened { store, folder } = open().await;
    store.insert_key(key(1, "release")).await.unwrap();
    let mode = |name: &str| folder.path().join(name).metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!(mode("store"), 0o700);
    for file in ["store/store.db", "store/store.db-wal", "store/store.lock"] {
        assert_eq!(mode(file), 0o600, "{file}");
    }
}

#[tokio::test]
async fn a_store_that_others_can_reach_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    std::fs::create_dir(&path).unwrap();
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o777)).unwrap();
    assert!(matches!(Store::open(&path).await, Err(Error::Permissions { mode: 0o777, .. })));
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o700)).unwrap();
    drop(Store::open(&path).await.unwrap());
    std::fs::set_permissions(path.join("store.db"), PermissionsExt::from_mode(0o640)).unwrap();
    assert!(matches!(Store::open(&path).await, Err(Error::Permissions { mode: 0o640, .. })));
}

/// Only root can give a file away, and so only root's tests can try this.
#[tokio::test]
async fn a_store_of_another_user_is_refused_by_name_to_root_too() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    drop(Store::open(&path).await.unwrap());
    for file in [path.clone(), path.join("store.db")] {
        let ours = file.metadata().unwrap().uid();
        if std::os::unix::fs::chown(&file, Some(65_534), None).is_err() {
            assert_ne!(ours, 0, "root can");
            return;
        }
        let Err(error) = Store::open(&path).await else { panic!("opened") };
        assert!(error.to_string().contains(file.to_str().unwrap()), "{error}");
        assert!(matches!(error, Error::OtherOwner { owner: 65_534, .. }), "{error}");
        std::os::unix::fs::chown(&file, Some(ours), None).unwrap();
    }
    drop(Store::open(&path).await.unwrap());
}

#[tokio::test]
async fn a_store_of_a_newer_release_is_refused_and_keeps_every_byte() {
    let Opened { store, folder } = open().await;
    drop(store);
    let file = folder.path().join("store/store.db");
    support::sql(&file, "INSERT INTO _sqlx_migrations VALUES (9000, 'later', '2030-01-01', 1, x'00', 0)")
        .await;
    let before = std::fs::read(&file).unwrap();
    let Err(error) = Store::open(&folder.path().join("store")).await else { panic!("opened") };
    assert!(matches!(error, Error::NewerStore { version: 9000, .. }), "{error:?}");
    assert!(error.to_string().contains("written by a newer release"), "{error}");
    assert!(error.to_string().contains("use that release"), "{error}");
    assert_eq!(std::fs::read(&file).unwrap(), before);
}

#[tokio::test]
async fn a_database_of_something_else_is_refused_and_keeps_every_byte() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    drop(Store::open(&path).await.unwrap());
    let file = path.join("store.db");
    for extra in ["", "-wal", "-shm"] {
        let _ = std::fs::remove_file(path.join(format!("store.db{extra}")));
    }
    std::fs::File::create(&file).unwrap().set_permissions(PermissionsExt::from_mode(0o600)).unwrap();
    support::sql(&file, "CREATE TABLE rpm (name TEXT)").await;
    let before = std::fs::read(&file).unwrap();
    assert!(matches!(Store::open(&path).await, Err(Error::NotAStore { .. })));
    assert_eq!(std::fs::read(&file).unwrap(), before);
    std::fs::write(&file, vec![b'x'; 5000]).unwrap();
    assert!(matches!(Store::open(&path).await, Err(Error::Damaged { .. })));
    assert_eq!(std::fs::read(&file).unwrap(), vec![b'x'; 5000]);
}

#[tokio::test]
async fn many_first_openings_at_once_make_one_store() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let stores = join_all((0..8).map(|_| Store::open(&path))).await;
    for (n, store) in stores.into_iter().enumerate() {
        let n = u8::try_from(n).unwrap();
        store.unwrap().insert_key(key(n, &format!("key{n}"))).await.unwrap();
    }
    assert_eq!(Store::open(&path).await.unwrap().keys_after("", 100).await.unwrap().len(), 8);
}

#[tokio::test]
async fn keys_are_found_by_name_and_by_both_fingerprints() {
    let Opened { store, folder: _folder } = open().await;
    let inserted = store.insert_key(key(1, "release")).await.unwrap();
    assert_eq!(inserted.state, KeyState::Enabled);
    assert_eq!((inserted.version, inserted.material.generation), (1, 1));
    assert_eq!(store.key_by_name("release").await.unwrap(), Some(inserted.clone()));
    for fingerprint in [inserted.material.fingerprint, inserted.material.signing_fingerprint] {
        assert_eq!(store.key_by_fingerprint(&fingerprint).await.unwrap(), Some(inserted.clone()));
    }
    assert_eq!(store.key_by_name("Release").await.unwrap(), None);
    assert_eq!(store.key_by_fingerprint(&material(9, 1).fingerprint).await.unwrap(), None);
}

#[tokio::test]
async fn a_name_and_a_signing_key_are_given_once() {
    let Opened { store, folder: _folder } = open().await;
    store.insert_key(key(1, "release")).await.unwrap();
    let taken = store.insert_key(key(2, "release")).await;
    assert!(matches!(taken, Err(Error::NameTaken { name }) if name == "release"));
    let mut again = key(3, "other");
    again.material = material(1, 1);
    let taken = store.insert_key(again).await;
    assert!(matches!(taken, Err(Error::FingerprintTaken { name, .. }) if name == "release"));
}

#[tokio::test]
async fn a_certificate_of_two_keys_is_ambiguous_its_subkeys_are_not() {
    let Opened { store, folder: _folder } = open().await;
    let first = store.insert_key(key(1, "a")).await.unwrap();
    let mut other = key(2, "b");
    other.material.fingerprint = first.material.fingerprint;
    let second = store.insert_key(other).await.unwrap();
    let both = store.key_by_fingerprint(&first.material.fingerprint).await;
    assert!(matches!(both, Err(Error::Ambiguous { .. })));
    let one = store.key_by_fingerprint(&second.material.signing_fingerprint).await.unwrap();
    assert_eq!(one.unwrap().name, "b");
}

#[tokio::test]
async fn pages_follow_the_name() {
    let Opened { store, folder: _folder } = open().await;
    for n in 0..5 {
        store.insert_key(key(n, &format!("k{n}"))).await.unwrap();
    }
    let names = |keys: Vec<sealwright_store::Key>| keys.into_iter().map(|key| key.name).collect::<Vec<_>>();
    assert_eq!(names(store.keys_after("", 2).await.unwrap()), ["k0", "k1"]);
    assert_eq!(names(store.keys_after("k1", 2).await.unwrap()), ["k2", "k3"]);
    assert_eq!(names(store.keys_after("k3", 2).await.unwrap()), ["k4"]);
    assert_eq!(store.keys_after("k4", u32::MAX).await.unwrap(), []);
}

#[tokio::test]
async fn a_renewal_replaces_the_generation_it_read_and_no_other() {
    let Opened { store, folder: _folder } = open().await;
    let old = store.insert_key(key(1, "release")).await.unwrap();
    let new = store.replace_material(old.id, 1, material(1, 2)).await.unwrap();
    assert_eq!(new.material, material(1, 2));
    assert!(new.revision > old.revision);
    let late = store.replace_material(old.id, 1, material(1, 2)).await;
    assert!(matches!(late, Err(Error::GenerationChanged { expected: 1, found: 2, .. })));
    assert!(matches!(store.replace_material(uuid(99), 1, material(1, 2)).await, Err(Error::UnknownKey)));
}

#[tokio::test]
async fn states_change_and_the_revision_tells_the_newer_copy() {
    let Opened { store, folder: _folder } = open().await;
    let first = store.insert_key(key(1, "release")).await.unwrap();
    let disabled = store.set_key_state(first.id, KeyState::Disabled).await.unwrap();
    assert_eq!(disabled.state, KeyState::Disabled);
    assert!(disabled.revision > first.revision);
    assert_eq!(store.set_key_state(first.id, KeyState::Disabled).await.unwrap(), disabled);
    assert!(matches!(store.set_key_state(uuid(99), KeyState::Enabled).await, Err(Error::UnknownKey)));
}

#[tokio::test]
async fn an_intent_is_new_once_then_in_flight_then_answered() {
    let Opened { store, folder: _folder } = open().await;
    let key = store.insert_key(key(1, "release")).await.unwrap();
    let first = intent(1, 1, key.id);
    assert_eq!(store.record_intent(first.clone()).await.unwrap(), Recorded::New);
    assert_eq!(store.record_intent(intent(1, 2, key.id)).await.unwrap(), Recorded::InFlight);
    let concluded = store.conclude(conclusion(&first, &key, &[b"one", b"two"])).await.unwrap();
    let Concluded::Done(outcomes) = concluded else { panic!("{concluded:?}") };
    let indexes: Vec<u64> = outcomes.iter().map(|outcome| signed(outcome).1).collect();
    assert_eq!(indexes, [0, 1]);
    assert_eq!(store.record_intent(intent(1, 3, key.id)).await.unwrap(), Recorded::Replayed(outcomes));
}

#[tokio::test]
async fn other_content_under_the_same_id_is_a_conflict_before_and_after_the_answer() {
    let Opened { store, folder: _folder } = open().await;
    let key = store.insert_key(key(1, "release")).await.unwrap();
    let first = intent(1, 1, key.id);
    let mut other = intent(1, 2, key.id);
    other.digest = [0xff; 32];
    store.record_intent(first.clone()).await.unwrap();
    assert_eq!(store.record_intent(other.clone()).await.unwrap(), Recorded::Conflict);
    store.conclude(conclusion(&first, &key, &[b"one"])).await.unwrap();
    assert_eq!(store.record_intent(other.clone()).await.unwrap(), Recorded::Conflict);
    other.id.principal = "someone else".to_owned();
    assert_eq!(store.record_intent(other).await.unwrap(), Recorded::New);
}

#[tokio::test]
async fn a_retry_takes_over_after_the_lease_and_the_first_attempt_appends_nothing() {
    let Opened { store, folder: _folder } = open().await;
    let key = store.insert_key(key(1, "release")).await.unwrap();
    let first = intent(1, 1, key.id);
    store.record_intent(first.clone()).await.unwrap();
    let mut second = intent(1, 2, key.id);
    second.now_ms = first.lease_until_ms;
    second.lease_until_ms += 1000;
    assert_eq!(store.record_intent(second.clone()).await.unwrap(), Recorded::New);
    let late = store.conclude(conclusion(&first, &key, &[b"one"])).await.unwrap();
    assert_eq!(late, Concluded::Superseded);
    assert_eq!(store.log_head().await.unwrap().size(), 0);
    let done = store.conclude(conclusion(&second, &key, &[b"one"])).await.unwrap();
    assert!(matches!(done, Concluded::Done(_)));
    let again = store.conclude(conclusion(&second, &key, &[b"one"])).await.unwrap();
    assert_eq!(again, Concluded::Superseded, "an answer is written once");
    assert_eq!(store.log_head().await.unwrap().size(), 1);
}

#[tokio::test]
async fn a_released_intent_is_free_at_once_and_keeps_its_content() {
    let Opened { store, folder: _folder } = open().await;
    let key = store.insert_key(key(1, "release")).await.unwrap();
    let first = intent(1, 1, key.id);
    store.record_intent(first.clone()).await.unwrap();
    let stranger = IntentId { attempt: uuid(77), ..first.id.clone() };
    store.release_intent(stranger).await.unwrap();
    assert_eq!(store.record_intent(intent(1, 2, key.id)).await.unwrap(), Recorded::InFlight);
    store.release_intent(first.id.clone()).await.unwrap();
    let mut other = intent(1, 2, key.id);
    other.digest = [0xff; 32];
    assert_eq!(store.record_intent(other).await.unwrap(), Recorded::Conflict);
    assert_eq!(store.record_intent(intent(1, 2, key.id)).await.unwrap(), Recorded::New);
}

#[tokio::test]
async fn final_failures_are_answered_again_and_log_nothing() {
    let Opened { store, folder: _folder } = open().await;
    let key = store.insert_key(key(1, "release")).await.unwrap();
    let first = intent(1, 1, key.id);
    store.record_intent(first.clone()).await.unwrap();
    let mut failed = conclusion(&first, &key, &[]);
    failed.items = vec![ItemResult::Failed { code: 25, message: "no".to_owned() }];
    let want = vec![ItemOutcome::Failed { code: 25, message: "no".to_owned() }];
    assert_eq!(store.conclude(failed).await.unwrap(), Concluded::Done(want.clone()));
    assert_eq!(store.record_intent(intent(1, 2, key.id)).await.unwrap(), Recorded::Replayed(want));
    assert_eq!(store.log_head().await.unwrap(), CompactRange::empty());
}

#[tokio::test]
async fn a_ticket_is_used_once_and_a_request_that_is_refused_for_one_leaves_nothing() {
    let Opened { store, .. } = open().await;
    let key = store.insert_key(key(1, "release")).await.unwrap();
    let record = |request: u8, numbers: &[u8]| {
        store.record_intent(with_tickets(intent(request, request, key.id), numbers))
    };
    assert_eq!(record(1, &[1, 2]).await.unwrap(), Recorded::New);
    // Its own retry is the same request, and uses nothing.
    assert_eq!(record(1, &[1, 2]).await.unwrap(), Recorded::InFlight);
    assert_eq!(record(2, &[3, 2]).await.unwrap(), Recorded::TicketUsed);
    assert_eq!(record(3, &[4, 4]).await.unwrap(), Recorded::TicketUsed, "twice in one request");
    // What stood beside the used ones is as before, and so are the ids of the requests.
    assert_eq!(record(2, &[3, 4]).await.unwrap(), Recorded::New);
    assert_eq!(record(3, &[5]).await.unwrap(), Recorded::New);
}

#[tokio::test]
async fn of_many_requests_with_one_ticket_at_once_exactly_one_is_new() {
    let Opened { store, .. } = open().await;
    let key = store.insert_key(key(1, "release")).await.unwrap();
    let requests = (1..=40).map(|n| store.record_intent(with_tickets(intent(n, n, key.id), &[100 + n, 7])));
    let outcomes: Vec<_> = join_all(requests).await.into_iter().map(Result::unwrap).collect();
    assert_eq!(outcomes.iter().filter(|outcome| **outcome == Recorded::New).count(), 1);
    assert_eq!(outcomes.iter().filter(|outcome| **outcome == Recorded::TicketUsed).count(), 39);
}

#[tokio::test]
async fn with_bad_tickets_a_request_is_answered_from_what_is_known_and_never_begun() {
    let Opened { store, .. } = open().await;
    let key = store.insert_key(key(1, "release")).await.unwrap();
    let bad = |request: u8| Intent { tickets: Tickets::Refused, ..intent(request, 9, key.id) };
    assert_eq!(store.record_intent(bad(1)).await.unwrap(), Recorded::TicketsRefused);
    let good = with_tickets(intent(1, 1, key.id), &[1]);
    assert_eq!(store.record_intent(good.clone()).await.unwrap(), Recorded::New, "it left nothing");
    assert_eq!(store.record_intent(bad(1)).await.unwrap(), Recorded::InFlight);
    let other = Intent { digest: [99; 32], ..bad(1) };
    assert_eq!(store.record_intent(other).await.unwrap(), Recorded::Conflict);
    let Concluded::Done(answer) = store.conclude(conclusion(&good, &key, &[b"packet"])).await.unwrap() else {
        panic!("no answer")
    };
    assert_eq!(store.record_intent(bad(1)).await.unwrap(), Recorded::Replayed(answer));
    store.record_intent(with_tickets(intent(2, 2, key.id), &[2])).await.unwrap();
    store.release_intent(with_tickets(intent(2, 2, key.id), &[2]).id).await.unwrap();
    assert_eq!(store.record_intent(bad(2)).await.unwrap(), Recorded::TicketsRefused, "it is not taken over");
    assert_eq!(store.record_intent(with_tickets(intent(2, 3, key.id), &[2])).await.unwrap(), Recorded::New);
}

#[tokio::test]
async fn ended_tickets_are_pruned_as_new_ones_are_used_and_those_that_live_are_not() {
    let Opened { store, folder } = open().await;
    let key = store.insert_key(key(1, "release")).await.unwrap();
    let file = folder.path().join("store/store.db");
    store.record_intent(with_tickets(intent(1, 1, key.id), &[1, 2, 3])).await.unwrap();
    let later = |request: u8, numbers: &[u8]| {
        let now_ms = intent(1, 1, key.id).now_ms + 1_800_001;
        let intent = Intent { now_ms, lease_until_ms: now_ms + 1, ..intent(request, request, key.id) };
        with_tickets(intent, numbers)
    };
    assert_eq!(support::count(&file, "tickets").await, 3);
    store.record_intent(later(2, &[4])).await.unwrap();
    assert_eq!(support::count(&file, "tickets").await, 2, "two went, one came");
    store.record_intent(later(3, &[5])).await.unwrap();
    assert_eq!(support::count(&file, "tickets").await, 2, "the last old one went");
    assert_eq!(store.record_intent(later(4, &[4])).await.unwrap(), Recorded::TicketUsed);
}

#[tokio::test]
async fn old_intents_are_pruned_as_new_ones_come() {
    let Opened { store, folder } = open().await;
    let key = store.insert_key(key(1, "release")).await.unwrap();
    for n in 0..10 {
        store.record_intent(intent(n, n, key.id)).await.unwrap();
    }
    for n in 10..20 {
        let mut late = intent(n, n, key.id);
        late.now_ms += intents::RETENTION_MS + 1_000_000;
        late.lease_until_ms += intents::RETENTION_MS + 1_000_000;
        store.record_intent(late).await.unwrap();
    }
    drop(store);
    let count = support::count(&folder.path().join("store/store.db"), "intents").await;
    assert_eq!(count, 10, "the ten of the day before are gone, the ten of today are not");
}

#[tokio::test]
async fn a_key_that_changed_after_it_was_resolved_gives_no_entry() {
    let Opened { store, folder: _folder } = open().await;
    let key = store.insert_key(key(1, "release")).await.unwrap();
    let first = intent(1, 1, key.id);
    store.record_intent(first.clone()).await.unwrap();
    let ready = conclusion(&first, &key, &[b"one"]);

    store.set_key_state(key.id, KeyState::Disabled).await.unwrap();
    let refused = store.conclude(ready.clone()).await.unwrap();
    assert_eq!(refused, Concluded::Refused(Refusal::Disabled));

    store.set_key_state(key.id, KeyState::Enabled).await.unwrap();
    store.replace_material(key.id, 1, material(1, 2)).await.unwrap();
    let refused = store.conclude(ready.clone()).await.unwrap();
    assert_eq!(refused, Concluded::Refused(Refusal::GenerationChanged { found: 2 }));

    let mut unknown = ready.clone();
    unknown.key_id = uuid(99);
    assert_eq!(store.conclude(unknown).await.unwrap(), Concluded::Refused(Refusal::Gone));
    assert_eq!(store.log_head().await.unwrap(), CompactRange::empty());
    let still = store.record_intent(intent(1, 2, key.id)).await.unwrap();
    assert_eq!(still, Recorded::InFlight, "the attempt keeps its intent and can try with the new key");
}

#[tokio::test]
async fn an_expired_key_gives_no_entry_neither_by_the_signature_nor_by_the_clock() {
    let Opened { store, folder: _folder } = open().await;
    let mut expiring = key(1, "release");
    expiring.material.expires_s = Some(NOW_S + 5);
    let key = store.insert_key(expiring).await.unwrap();
    let refused = Concluded::Refused(Refusal::Expired { at_s: NOW_S + 5 });
    for (n, (signed_at_s, now_s, good)) in
        [(NOW_S + 4, NOW_S + 4, true), (NOW_S + 5, NOW_S + 4, false), (NOW_S + 4, NOW_S + 5, false)]
            .into_iter()
            .enumerate()
    {
        let intent = intent(u8::try_from(n).unwrap(), 1, key.id);
        store.record_intent(intent.clone()).await.unwrap();
        let mut conclusion = conclusion(&intent, &key, &[b"one"]);
        conclusion.now_s = now_s;
        support::set_time(&mut conclusion, signed_at_s);
        let got = store.conclude(conclusion).await.unwrap();
        assert_eq!(got == refused, !good, "{n}: {got:?}");
    }
}

#[tokio::test]
async fn a_signature_far_behind_the_last_entry_of_its_key_is_refused_naming_both_times() {
    let Opened { store, folder: _folder } = open().await;
    let key = store.insert_key(key(1, "release")).await.unwrap();
    for (n, (time, good)) in
        [(NOW_S, true), (NOW_S - log::DISORDER_S_MAX, true), (NOW_S - log::DISORDER_S_MAX - 1, false)]
            .into_iter()
            .enumerate()
    {
        let intent = intent(u8::try_from(n).unwrap(), 1, key.id);
        store.record_intent(intent.clone()).await.unwrap();
        let mut conclusion = conclusion(&intent, &key, &[b"one"]);
        support::set_time(&mut conclusion, time);
        let got = store.conclude(conclusion).await.unwrap();
        let refused = Concluded::Refused(Refusal::ClockBehind { signed_at_s: time, last_s: NOW_S });
        assert_eq!(got == refused, !good, "{n}: {got:?}");
    }
    let last = store.key_by_name("release").await.unwrap().unwrap().last_signed_s;
    assert_eq!(last, Some(NOW_S));
}

#[tokio::test]
async fn the_head_is_the_tree_over_the_entries_also_with_two_writers() {
    let Opened { store, folder } = open().await;
    let other = Store::open(&folder.path().join("store")).await.unwrap();
    let key = store.insert_key(key(1, "release")).await.unwrap();
    let one = |n: u8| {
        let store = if n.is_multiple_of(2) { store.clone() } else { other.clone() };
        let key = key.clone();
        async move {
            let intent = intent(n, n, key.id);
            assert_eq!(store.record_intent(intent.clone()).await.unwrap(), Recorded::New);
            let done = store.conclude(conclusion(&intent, &key, &[&[n], b"second"])).await.unwrap();
            let Concluded::Done(outcomes) = done else { panic!("{done:?}") };
            outcomes.iter().map(signed).map(|(hash, index)| (index, hash)).collect::<Vec<_>>()
        }
    };
    let mut answered: Vec<_> = join_all((0..40).map(one)).await.into_iter().flatten().collect();
    answered.sort_unstable_by_key(|(index, _)| *index);
    let entries = store.log_entries(0, 1000).await.unwrap();
    assert_eq!(entries.len(), 80);
    let mut head = CompactRange::empty();
    for (bytes, (index, hash)) in entries.iter().zip(answered) {
        assert_eq!(leaf_hash(bytes), hash);
        assert_eq!(head.append(leaf_hash(bytes)).unwrap(), index);
        Entry::decode(bytes).unwrap();
    }
    assert_eq!(store.log_head().await.unwrap(), head);
    assert_eq!(other.log_head().await.unwrap(), head);
    assert_eq!(store.log_entries(79, 1000).await.unwrap().len(), 1);
    assert_eq!(store.log_entries(u64::MAX, 1000).await.unwrap().len(), 0);
}

/// The test runtime has one thread, so all callers queue before the writer runs: the count is exact. (Many more
/// than forty, and the runtime makes the test itself pause between two of them.)
#[tokio::test]
async fn forty_concurrent_requests_take_one_commit_a_step() {
    let Opened { store, folder: _folder } = open().await;
    let key = store.insert_key(key(1, "release")).await.unwrap();
    let before = store.commits();
    let recorded = join_all((0..40).map(|n| store.record_intent(intent(n, n, key.id)))).await;
    assert!(recorded.iter().all(|recorded| matches!(recorded, Ok(Recorded::New))));
    assert_eq!(store.commits() - before, 1);
    let concluded =
        join_all((0..40).map(|n| store.conclude(conclusion(&intent(n, n, key.id), &key, &[&[n]])))).await;
    assert!(concluded.iter().all(|concluded| matches!(concluded, Ok(Concluded::Done(_)))));
    assert_eq!(store.commits() - before, 2);
}

#[tokio::test]
async fn a_lone_request_takes_two_commits_and_a_large_crowd_is_cut_into_batches() {
    let Opened { store, folder: _folder } = open().await;
    let key = store.insert_key(key(1, "release")).await.unwrap();
    let before = store.commits();
    let alone = intent(1, 1, key.id);
    store.record_intent(alone.clone()).await.unwrap();
    store.conclude(conclusion(&alone, &key, &[b"one"])).await.unwrap();
    assert_eq!(store.commits() - before, 2);
    let crowd = sealwright_store::BATCH_MAX * 2 + 1;
    let many = join_all((0..crowd).map(|_| store.release_intent(alone.id.clone()))).await;
    assert!(many.iter().all(Result::is_ok));
    assert!((3..40).contains(&(store.commits() - before - 2)), "{}", store.commits());
}

/// One in the batch hits an error of the database: nothing of the batch stays, and all are told so.
#[tokio::test]
async fn an_error_undoes_the_batch_and_goes_to_everyone_in_it() {
    let Opened { store, folder } = open().await;
    let key = store.insert_key(key(1, "release")).await.unwrap();
    let file = folder.path().join("store/store.db");
    support::sql(
        &file,
        "CREATE TRIGGER fault BEFORE INSERT ON intents WHEN NEW.principal = 'fault' \
         BEGIN SELECT RAISE(ABORT, 'injected'); END",
    )
    .await;
    let results = join_all((0..10).map(|n| {
        let mut intent = intent(n, n, key.id);
        if n == 7 {
            intent.id.principal = "fault".to_owned();
        }
        store.record_intent(intent)
    }))
    .await;
    for result in results {
        assert!(matches!(result, Err(Error::Database { doing: "record an intent", .. })), "{result:?}");
    }
    let after = store.record_intent(intent(3, 3, key.id)).await;
    assert_eq!(after.unwrap(), Recorded::New, "nothing of the failed batch stayed, and the writer goes on");
}

/// What a batch writes goes into each table together, unless something is in the way of that: then each goes alone.
#[tokio::test]
async fn a_retry_and_a_lost_attempt_among_many_have_their_own_answers_and_disturb_nobody() {
    let Opened { store, folder: _folder } = open().await;
    let key = store.insert_key(key(1, "release")).await.unwrap();
    let intents: Vec<_> = (0..70).map(|n| intent(n, n, key.id)).collect();
    let retry = intent(3, 200, key.id);
    let all = intents.iter().chain([&retry]).map(|intent| store.record_intent(intent.clone()));
    let mut recorded = join_all(all).await;
    assert_eq!(recorded.pop().unwrap().unwrap(), Recorded::InFlight);
    assert!(recorded.iter().all(|recorded| matches!(recorded, Ok(Recorded::New))), "{recorded:?}");
    let lost = intents.iter().chain([&retry]).map(|intent| conclusion(intent, &key, &[b"one", b"two"]));
    let mut concluded = join_all(lost.map(|conclusion| store.conclude(conclusion))).await;
    assert_eq!(concluded.pop().unwrap().unwrap(), Concluded::Superseded);
    let mut indexes: Vec<u64> = Vec::new();
    for concluded in concluded {
        let Ok(Concluded::Done(outcomes)) = concluded else { panic!("{concluded:?}") };
        indexes.extend(outcomes.iter().map(|outcome| signed(outcome).1));
    }
    indexes.sort_unstable();
    assert_eq!(indexes, (0..140).collect::<Vec<_>>());
    assert_eq!(store.log_head().await.unwrap().size(), 140);
    let again = store.record_intent(retry).await.unwrap();
    assert!(matches!(again, Recorded::Replayed(outcomes) if outcomes.len() == 2));
}
