//! The laws R1 to R13 (`docs/adr/0013-registry.md`), as far as they are the registry's; a test has the number of its
//! law in its name. Races are in `laws/races.rs`, memory is measured in `laws/measured.rs`, the real store is read in
//! `laws/stored.rs`.

mod measured;
mod races;
mod shelf;
mod stored;

use std::pin::{Pin, pin};
use std::task::Poll;

use super::sync::{locks_taken, modelled};
use super::*;
use shelf::{Shelf, authorised, key, named};

/// As many as a test can afford without optimisation, or all.
const MANY: u64 = if cfg!(debug_assertions) { 100_000 } else { 10_000_000 };

/// Lets it go as far as it goes by itself.
async fn step<F: Future>(future: &mut Pin<&mut F>) -> Poll<F::Output> {
    std::future::poll_fn(|context| Poll::Ready(future.as_mut().poll(context))).await
}

/// So much that `keys` of [`key`] fit.
fn room(keys: usize) -> usize {
    keys.saturating_mul(Entry::new(key(1), false).bytes())
}

#[tokio::test]
async fn r1_a_resolve_takes_no_lock() {
    let registry = Registry::new(Shelf::with(3));
    let (entry, _) = registry.find(&named(1)).await.unwrap();
    let authorised = authorised(&entry.facts);
    let before = locks_taken();
    for _ in 0..MANY / 2 {
        registry.find(&named(1)).await.unwrap();
        registry.resolve(&authorised).await.unwrap();
    }
    assert_eq!(locks_taken() - before, 0);
    registry.find(&named(2)).await.unwrap();
    assert!(locks_taken() > before, "the control: a load takes some");
}

#[tokio::test]
async fn r1_a_reader_frees_nothing() {
    let registry = Registry::with_limit(Shelf::with(0), room(1));
    let entry = Arc::downgrade(&registry.put(key(1)));
    let (reader, _) = registry.memory.look();
    registry.put(key(2));
    assert!(entry.upgrade().is_some());
    drop(reader);
    assert!(entry.upgrade().is_some(), "freed by a reader");
    registry.put(key(3));
    assert!(entry.upgrade().is_none(), "kept for nobody");
    assert_eq!(registry.memory.look().1, 0);
}

#[tokio::test]
async fn r2_registrations_of_one_key_load_no_other() {
    let registry = Registry::new(Shelf::with(64));
    let mut entries = Vec::new();
    for n in 2..=64 {
        entries.push(registry.find(&named(n)).await.unwrap().0);
    }
    assert_eq!(registry.source.reads(), 63);
    for revision in 1..=10_000 {
        registry.put(Key { revision, ..key(1) });
        let n = 2 + usize::try_from(revision).unwrap() % entries.len();
        let (found, _) = registry.find(&named(n)).await.unwrap();
        assert!(Arc::ptr_eq(&found, &entries[n - 2]), "moved by a registration of another");
    }
    assert_eq!(registry.source.reads(), 63);
}

#[tokio::test]
async fn r2_a_key_that_makes_room_for_another_is_one_and_was_not_in_use() {
    let registry = Registry::with_limit(Shelf::with(9), room(4));
    for n in 1..=4 {
        registry.find(&named(n)).await.unwrap();
    }
    // 1, 2 and 4 are used since; 3 is the oldest of the others.
    for n in [1, 2, 4] {
        registry.find(&named(n)).await.unwrap();
    }
    registry.find(&named(5)).await.unwrap();
    let reads = registry.source.reads();
    for n in [1, 2, 4, 5] {
        registry.find(&named(n)).await.unwrap();
    }
    assert_eq!(registry.source.reads(), reads, "one made room for one");
    registry.find(&named(3)).await.unwrap();
    assert_eq!(registry.source.reads(), reads + 1);
}

#[tokio::test]
async fn r3_a_key_that_is_gone_from_the_store_is_forgotten_and_no_other() {
    let registry = Registry::new(Shelf::with(2));
    let other = registry.find(&named(2)).await.unwrap().0;
    registry.find(&named(1)).await.unwrap();
    registry.source.remove(1);
    assert!(registry.find(&named(1)).await.is_ok(), "remembered until somebody looks");
    assert_eq!(registry.refresh(&named(1)).await.unwrap_err().code, Code::KeyNotFound);
    assert_eq!(registry.find(&named(1)).await.unwrap_err().code, Code::KeyNotFound);
    assert!(Arc::ptr_eq(&other, &registry.find(&named(2)).await.unwrap().0));
    assert_eq!(registry.memory.size(), (1, other.bytes()));
}

#[tokio::test]
async fn r4_an_entry_in_use_outlives_its_place_and_goes_with_its_last_user() {
    let registry = Registry::with_limit(Shelf::with(9), room(1));
    let (held, _) = registry.find(&named(1)).await.unwrap();
    let authorised = authorised(&held.facts);
    registry.find(&named(2)).await.unwrap();
    assert!(registry.memory.named(&named(1)).is_none(), "it made room");
    assert_eq!(held.sealed(), [1]);
    // Between the decision and the look for the material, too.
    assert_eq!(registry.resolve(&authorised).await.unwrap().sealed(), [1]);
    let weak = Arc::downgrade(&held);
    drop(held);
    assert!(weak.upgrade().is_none());
}

#[tokio::test]
async fn r5_nothing_keeps_an_entry_but_its_place() {
    let registry = Registry::new(Shelf::with(1));
    for _ in 0..1_000 {
        let entry = Arc::downgrade(&registry.find(&named(1)).await.unwrap().0);
        registry.memory.forget(&named(1));
        assert!(entry.upgrade().is_none());
        assert_eq!((registry.memory.size(), registry.flights.len()), ((0, 0), 0));
    }
}

#[tokio::test]
async fn r6_not_found_and_failures_are_not_remembered() {
    let registry = Registry::new(Shelf::with(1));
    assert_eq!(registry.find(&named(2)).await.unwrap_err().code, Code::KeyNotFound);
    registry.source.add(key(2));
    assert_eq!(registry.find(&named(2)).await.unwrap().0.sealed(), [2]);
    registry.source.fail(true);
    assert_eq!(registry.find(&named(1)).await.unwrap_err().code, Code::StoreFailed);
    registry.source.fail(false);
    assert_eq!(registry.find(&named(1)).await.unwrap().1, Freshness::Fresh);
}

#[tokio::test]
async fn r7_a_newer_version_of_a_name_is_used_at_once() {
    let registry = Registry::new(Shelf::with(1));
    let (old, _) = registry.find(&named(1)).await.unwrap();
    let next = Key { version: 2, name: old.facts.name.clone(), ..key(2) };
    registry.put(next.clone());
    assert_eq!(registry.find(&named(1)).await.unwrap().0.facts.id, next.id);
    registry.put(Key { revision: 2, ..key(1) });
    assert_eq!(registry.find(&named(1)).await.unwrap().0.facts.id, next.id, "a change of the older one");
    let signing = KeyReference::parse(&old.facts.signing_fingerprint.to_string()).unwrap();
    assert_eq!(registry.find(&signing).await.unwrap().0.facts.id, old.facts.id);
}

#[tokio::test]
async fn r7_the_slower_reader_of_an_older_row_does_not_win() {
    let registry = Registry::new(Shelf::with(1));
    let hold = registry.source.hold(1);
    let mut slow = pin!(registry.refresh(named_once()));
    assert!(step(&mut slow).await.is_pending());
    registry.put(Key { revision: 2, state: KeyState::Disabled, ..key(1) });
    drop(hold);
    assert_eq!(slow.await.unwrap().facts.state, KeyState::Disabled);
    assert_eq!(registry.find(&named(1)).await.unwrap().0.facts.state, KeyState::Disabled);
}

#[tokio::test]
async fn r8_requests_racing_for_a_cold_key_read_it_once() {
    let registry = Registry::new(Shelf::with(1));
    let hold = registry.source.hold(1);
    let mut finds: Vec<_> = (0..256).map(|_| Box::pin(registry.find(named_once()))).collect();
    for find in &mut finds {
        assert!(step(&mut find.as_mut()).await.is_pending());
    }
    drop(hold);
    let mut found = Vec::new();
    for find in finds {
        found.push(find.await.unwrap().0);
    }
    assert!(found.iter().all(|entry| Arc::ptr_eq(entry, &found[0])));
    assert_eq!(registry.source.reads(), 1);
}

/// [`named`] of the first key, for as long as a test lasts.
fn named_once() -> &'static KeyReference {
    static FIRST: std::sync::OnceLock<KeyReference> = std::sync::OnceLock::new();
    FIRST.get_or_init(|| named(1))
}

#[tokio::test]
async fn r8_a_failure_goes_once_to_all_who_wait_and_the_next_reads_again() {
    let registry = Registry::new(Shelf::with(1));
    let hold = registry.source.hold(1);
    registry.source.fail(true);
    let mut finds: Vec<_> = (0..256).map(|_| Box::pin(registry.find(named_once()))).collect();
    for find in &mut finds {
        assert!(step(&mut find.as_mut()).await.is_pending());
    }
    drop(hold);
    for find in finds {
        assert_eq!(find.await.unwrap_err().code, Code::StoreFailed);
    }
    assert_eq!(registry.source.reads(), 1);
    registry.source.fail(false);
    assert!(registry.find(&named(1)).await.is_ok());
    assert_eq!(registry.source.reads(), 2);
}

#[tokio::test]
async fn r8_a_loader_that_gives_up_leaves_its_place_to_one_who_waits() {
    let registry = Registry::new(Shelf::with(1));
    let hold = registry.source.hold(1);
    let mut loader = Box::pin(registry.find(named_once()));
    assert!(step(&mut loader.as_mut()).await.is_pending());
    let mut waiters: Vec<_> = (0..8).map(|_| Box::pin(registry.find(named_once()))).collect();
    for waiter in &mut waiters {
        assert!(step(&mut waiter.as_mut()).await.is_pending());
    }
    drop(loader);
    drop(hold);
    for waiter in waiters {
        waiter.await.unwrap();
    }
    assert_eq!(registry.source.reads(), 2, "the one that was given up, and one for all others");
    assert_eq!(registry.flights.len(), 0);
}

#[tokio::test]
async fn r8_a_loader_that_panics_hangs_nobody() {
    let registry = Arc::new(Registry::new(Shelf::with(1)));
    let hold = registry.source.hold(1);
    registry.source.panic_once();
    let find = |registry: Arc<Registry<Shelf>>| async move { registry.find(&named(1)).await.map(|_| ()) };
    let loader = tokio::spawn(find(Arc::clone(&registry)));
    let waiters: Vec<_> = (0..8).map(|_| tokio::spawn(find(Arc::clone(&registry)))).collect();
    while registry.source.reads() == 0 {
        tokio::task::yield_now().await;
    }
    drop(hold);
    assert!(loader.await.unwrap_err().is_panic());
    for waiter in waiters {
        waiter.await.unwrap().unwrap();
    }
    assert!(registry.find(&named(1)).await.is_ok());
    assert_eq!(registry.flights.len(), 0);
}

#[tokio::test]
async fn r9_a_key_that_loads_slowly_holds_up_no_other() {
    let registry = Registry::new(Shelf::with(3));
    registry.find(&named(3)).await.unwrap();
    let _held = registry.source.hold(1);
    let mut slow = pin!(registry.find(named_once()));
    assert!(step(&mut slow).await.is_pending());
    for n in [2, 3] {
        let other = named(n);
        let mut other = pin!(registry.find(&other));
        assert!(step(&mut other).await.is_ready(), "key {n} waits for another");
    }
    registry.put(Key { revision: 2, ..key(3) });
    assert!(step(&mut slow).await.is_pending());
}

#[tokio::test]
async fn r10_unknown_names_leave_nothing() {
    let registry = Registry::new(Shelf::with(1));
    let (entry, _) = registry.find(&named(1)).await.unwrap();
    for n in 2..1_000 {
        assert_eq!(registry.find(&named(n)).await.unwrap_err().code, Code::KeyNotFound);
    }
    assert_eq!((registry.memory.size(), registry.flights.len()), ((1, entry.bytes()), 0));
}

#[tokio::test]
async fn r10_what_is_remembered_never_exceeds_its_limit() {
    const LIMIT: usize = 100_000;
    let registry = Registry::with_limit(Shelf::with(0), LIMIT);
    let mut largest = 0;
    for n in 1..2_000 {
        let mut key = key(n);
        key.material.sealed = vec![0; n * 7919 % 9_000];
        let bytes = registry.put(key).bytes();
        let (keys, counted) = registry.memory.size();
        assert!(counted <= LIMIT && keys >= 1, "{counted}");
        largest = largest.max(counted + bytes);
    }
    assert!(largest > LIMIT, "the control: there was no room for all");
    let mut huge = key(1);
    huge.material.sealed = vec![0; LIMIT];
    let before = registry.memory.size();
    registry.put(huge);
    assert_eq!(registry.memory.size(), before, "what can never fit makes nobody go");
}

#[tokio::test]
async fn r10_the_keys_that_are_read_at_once_are_limited() {
    let mut registry = Registry::new(Shelf::with(3));
    registry.flights = Flights::new(1);
    let _held = registry.source.hold(1);
    let mut slow = pin!(registry.find(named_once()));
    assert!(step(&mut slow).await.is_pending());
    assert_eq!(registry.find(&named(2)).await.unwrap_err().code, Code::Overloaded);
    let mut same = pin!(registry.find(named_once()));
    assert!(step(&mut same).await.is_pending(), "who waits for the same one takes no place");
}

#[tokio::test]
async fn r11_requests_for_a_key_that_is_remembered_read_nothing() {
    let registry = Registry::new(Shelf::with(8));
    for n in (1..=8).cycle().take(100_000) {
        let (entry, _) = registry.find(&named(n)).await.unwrap();
        assert_eq!(registry.resolve(&authorised_once(n, &entry)).await.unwrap().sealed().len(), 1);
    }
    assert_eq!(registry.source.reads(), 8);
}

fn authorised_once(n: usize, entry: &Entry) -> Authorised {
    thread_local! {
        static DECIDED: std::cell::RefCell<std::collections::HashMap<usize, Authorised>> = std::cell::RefCell::default();
    }
    DECIDED.with_borrow_mut(|decided| decided.entry(n).or_insert_with(|| authorised(&entry.facts)).clone())
}

/// The guard is in debug builds.
#[cfg(debug_assertions)]
#[test]
#[should_panic(expected = "a lock of the registry is held")]
fn r13_a_read_under_a_lock_is_found() {
    sync::Mutex::new(()).with(|()| sync::assert_no_lock_is_held());
}

/// The guard is in debug builds.
#[cfg(debug_assertions)]
#[test]
#[should_panic(expected = "a lock of the registry is taken inside another")]
fn r13_a_lock_inside_another_is_found() {
    sync::Mutex::new(()).with(|()| sync::Mutex::new(()).with(|()| ()));
}
