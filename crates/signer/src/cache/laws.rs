//! The laws R1 to R13 (`docs/adr/0013-registry.md`), as far as they are the cache's; a test has the number of its law
//! in its name. Races are in `laws/races.rs`.

mod races;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::AtomicUsize;
use std::sync::{Barrier, mpsc};

use super::sync::{locks_taken, modelled};
use super::*;
use crate::seal::Primary;
use crate::seal::tests::{ID, stored};

/// Key number `n` in that generation.
fn key(n: usize, generation: u32) -> SealedKey {
    let mut id = ID;
    id[14..].copy_from_slice(&u16::try_from(n).unwrap().to_be_bytes());
    SealedKey { key_id: KeyId::parse(&id).unwrap(), generation, blob: b"sealed".to_vec() }
}

/// What stands for an open key where none is needed: its number.
type Numbers = Cache<usize>;

fn opens(n: usize) -> impl FnOnce(&SealedKey) -> Result<usize, Fault> {
    move |_| Ok(n)
}

fn must_not_open<T>(_: &SealedKey) -> Result<T, Fault> {
    panic!("it is in the cache")
}

fn broken(_: &SealedKey) -> Result<usize, Fault> {
    Err(Fault::new(Code::SealBroken, "no"))
}

#[test]
fn r1_a_key_that_is_open_is_found_without_a_lock() {
    let cache = Numbers::new();
    cache.get_or_open(&key(1, 1), opens(1)).unwrap();
    let before = locks_taken();
    for _ in 0..10_000 {
        cache.get_or_open(&key(1, 1), must_not_open).unwrap();
    }
    assert_eq!(locks_taken(), before);
    cache.get_or_open(&key(2, 1), opens(2)).unwrap();
    assert!(locks_taken() > before, "the control: opening takes some");
}

#[test]
fn r2_keys_that_come_and_go_open_no_other_again() {
    let cache = Numbers::with_limit(65);
    let kept: Vec<_> = (0..64).map(|n| cache.get_or_open(&key(n, 1), opens(n)).unwrap()).collect();
    for comes in 0..10_000 {
        // All 64 are used between one and the next, which takes the place of the one before.
        for (n, kept) in kept.iter().enumerate() {
            assert!(Arc::ptr_eq(kept, &cache.get_or_open(&key(n, 1), must_not_open).unwrap()));
        }
        cache.get_or_open(&key(64 + comes % 1_000, 1), opens(0)).unwrap();
    }
}

#[test]
fn r2_one_key_makes_room_for_one_and_it_was_not_in_use() {
    let cache = Numbers::with_limit(4);
    for n in 1..=4 {
        cache.get_or_open(&key(n, 1), opens(n)).unwrap();
    }
    for n in [1, 2, 4] {
        cache.get_or_open(&key(n, 1), must_not_open).unwrap();
    }
    cache.get_or_open(&key(5, 1), opens(5)).unwrap();
    for n in [1, 2, 4, 5] {
        cache.get_or_open(&key(n, 1), must_not_open).unwrap();
    }
    let mut opened = 0;
    let open = |_: &SealedKey| {
        opened += 1;
        Ok(3)
    };
    cache.get_or_open(&key(3, 1), open).unwrap();
    assert_eq!(opened, 1);
}

#[test]
fn r3_a_newer_generation_takes_the_place_of_the_older_at_once() {
    let cache = Numbers::new();
    let other = cache.get_or_open(&key(2, 1), opens(2)).unwrap();
    let old = Arc::downgrade(&cache.get_or_open(&key(1, 1), opens(1)).unwrap());
    let new = cache.get_or_open(&key(1, 2), opens(1)).unwrap();
    assert!(old.upgrade().is_none(), "a private key that is superseded stays open");
    // Who still has the older blob has it opened, seal and all, and takes no place away.
    cache.get_or_open(&key(1, 1), opens(1)).unwrap();
    assert!(Arc::ptr_eq(&new, &cache.get_or_open(&key(1, 2), must_not_open).unwrap()));
    assert!(Arc::ptr_eq(&other, &cache.get_or_open(&key(2, 1), must_not_open).unwrap()));
}

#[test]
fn r4_a_key_in_use_outlives_its_place_and_goes_with_its_last_user() {
    let cache = Numbers::with_limit(1);
    let held = cache.get_or_open(&key(1, 1), opens(1)).unwrap();
    let next = Arc::downgrade(&cache.get_or_open(&key(2, 1), opens(2)).unwrap());
    assert_eq!(*held, 1);
    let weak = Arc::downgrade(&held);
    drop(held);
    assert!(weak.upgrade().is_none());
    cache.get_or_open(&key(3, 1), opens(3)).unwrap();
    assert!(next.upgrade().is_none(), "nobody used it");
}

#[test]
fn r5_nothing_keeps_an_open_key_but_its_place() {
    let cache = Cache::new();
    let open = |_: &SealedKey| OpenKey::open(&crate::tokens::Tokens::none(), &stored(Primary::Signs));
    let opened = Arc::downgrade(&cache.get_or_open(&key(1, 1), open).unwrap());
    assert!(opened.upgrade().is_some());
    drop(cache);
    assert!(opened.upgrade().is_none());
}

#[test]
fn r6_a_failure_is_not_kept() {
    let cache = Numbers::new();
    assert_eq!(cache.get_or_open(&key(1, 1), broken).unwrap_err().code, Code::SealBroken);
    assert!(cache.get_or_open(&key(1, 1), opens(1)).is_ok());
    cache.get_or_open(&key(1, 1), must_not_open).unwrap();
}

#[test]
fn r7_another_generation_or_blob_opens_anew() {
    let cache = Cache::new();
    let open = |_: &SealedKey| OpenKey::open(&crate::tokens::Tokens::none(), &stored(Primary::Signs));
    let first = cache.get_or_open(&key(1, 1), open).unwrap();
    let altered = SealedKey { blob: b"altered".to_vec(), ..key(1, 1) };
    for other in [altered, key(1, 2)] {
        assert!(!Arc::ptr_eq(&first, &cache.get_or_open(&other, open).unwrap()));
    }
}

/// Threads of all at once for a cold key; `open` is entered when all others wait for it.
fn race(
    threads: usize,
    open: impl Fn() -> Result<usize, Fault> + Sync,
) -> (Numbers, Vec<Opened<usize>>, usize) {
    let cache = Numbers::new();
    let (barrier, entered) = (Barrier::new(threads), AtomicUsize::new(0));
    let opening = |_: &SealedKey| {
        entered.fetch_add(1, Ordering::Relaxed);
        // One reference is in the table and one with this thread.
        while cache.waiting().saturating_add(1) < threads {
            std::thread::yield_now();
        }
        open()
    };
    let ask = || {
        barrier.wait();
        catch_unwind(AssertUnwindSafe(|| cache.get_or_open(&key(1, 1), opening)))
    };
    let answers: Vec<_> = std::thread::scope(|scope| {
        let asked: Vec<_> = (0..threads).map(|_| scope.spawn(ask)).collect();
        asked.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    (cache, answers.into_iter().filter_map(Result::ok).collect(), entered.into_inner())
}

impl<T> Cache<T> {
    /// Threads that wait for the one key that is being opened.
    fn waiting(&self) -> usize {
        self.opening.with(|opening| {
            opening.values().map(|promise| Arc::strong_count(promise).saturating_sub(2)).sum()
        })
    }
}

#[test]
fn r8_threads_racing_for_a_cold_key_open_it_once() {
    let (cache, answers, entered) = race(256, || Ok(7));
    assert_eq!((answers.len(), entered), (256, 1));
    let kept = cache.get_or_open(&key(1, 1), must_not_open).unwrap();
    assert!(answers.iter().all(|answer| Arc::ptr_eq(answer.as_ref().unwrap(), &kept)));
    assert_eq!(cache.waiting(), 0);
}

#[test]
fn r8_a_failure_goes_once_to_all_who_wait_and_the_next_opens_again() {
    let (cache, answers, entered) = race(64, || Err(Fault::new(Code::SealBroken, "no")));
    assert_eq!((answers.len(), entered), (64, 1));
    assert!(answers.iter().all(|answer| answer.as_ref().is_err_and(|fault| fault.code == Code::SealBroken)));
    assert!(cache.get_or_open(&key(1, 1), opens(1)).is_ok());
}

#[test]
fn r8_a_panic_while_a_key_is_opened_hangs_nobody_and_poisons_nothing() {
    let (cache, answers, entered) = race(64, || panic!("as it was told"));
    assert_eq!((answers.len(), entered), (63, 1), "one panicked");
    assert!(answers.iter().all(|answer| answer.as_ref().is_err_and(|fault| fault.code == Code::Internal)));
    assert!(cache.get_or_open(&key(1, 1), opens(1)).is_ok());
    assert!(cache.get_or_open(&key(2, 1), opens(2)).is_ok());
}

#[test]
fn r9_a_key_that_opens_slowly_holds_up_no_other() {
    let cache = Numbers::new();
    cache.get_or_open(&key(3, 1), opens(3)).unwrap();
    let (go_on, may_go_on) = mpsc::channel();
    std::thread::scope(|scope| {
        let (entered, is_entered) = mpsc::channel();
        let cache = &cache;
        let slow = scope.spawn(move || {
            cache.get_or_open(&key(1, 1), |_| {
                entered.send(()).unwrap();
                may_go_on.recv().unwrap();
                Ok(1)
            })
        });
        is_entered.recv().unwrap();
        // If one of these waited for the slow one, it would wait for ever.
        cache.get_or_open(&key(2, 1), opens(2)).unwrap();
        cache.get_or_open(&key(3, 1), must_not_open).unwrap();
        go_on.send(()).unwrap();
        slow.join().unwrap().unwrap();
    });
}

#[test]
fn r10_no_more_keys_are_open_than_the_limit() {
    let cache = Numbers::with_limit(16);
    let opened: Vec<_> = (0..1_000)
        .map(|n| Arc::downgrade(&cache.get_or_open(&key(n, 1), opens(n)).unwrap()))
        .inspect(|_| assert!(cache.ring.with(|ring| ring.len()) <= 16))
        .collect();
    assert_eq!(opened.iter().filter(|key| key.upgrade().is_some()).count(), 16);
    for n in 0..1_000 {
        assert!(cache.get_or_open(&key(n, 2), broken).is_err());
    }
    assert_eq!(cache.ring.with(|ring| ring.len()), 16, "failures take no place");
    assert_eq!(cache.opening.with(|opening| opening.len()), 0);
}

#[test]
fn r11_a_hundred_thousand_uses_open_a_key_once() {
    let cache = Cache::new();
    cache
        .get_or_open(&key(1, 1), |_| OpenKey::open(&crate::tokens::Tokens::none(), &stored(Primary::Signs)))
        .unwrap();
    let key = key(1, 1);
    for _ in 0..100_000 {
        cache.get_or_open(&key, must_not_open).unwrap();
    }
}

/// The guard is in debug builds.
#[cfg(debug_assertions)]
#[test]
#[should_panic(expected = "a lock of the cache is held")]
fn r13_opening_a_key_under_a_lock_is_found() {
    sync::Mutex::new(()).with(|()| sync::assert_no_lock_is_held());
}

/// The guard is in debug builds.
#[cfg(debug_assertions)]
#[test]
#[should_panic(expected = "a lock of the cache is taken inside another")]
fn r13_a_lock_inside_another_is_found() {
    sync::Mutex::new(()).with(|()| sync::Mutex::new(()).with(|()| ()));
}
