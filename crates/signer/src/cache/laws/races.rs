//! Races, in thousands of random orders: shuttle decides at each lock and each look at a pointer which thread is next.
//! A deadlock is found as such, without a clock.

use shuttle::thread;

use super::*;

const ORDERS: usize = 2_000;

#[test]
fn r1_a_look_returns_while_a_writer_stands_in_its_critical_section() {
    modelled(100, || {
        let cache = Arc::new(Numbers::new());
        cache.get_or_open(&key(1, 1), opens(1)).unwrap();
        let (inside, is_inside) = shuttle::sync::mpsc::channel();
        let (go_on, may_go_on) = shuttle::sync::mpsc::channel();
        let stopped = Arc::clone(&cache);
        let writer = thread::spawn(move || {
            stopped.ring.with(|_| {
                stopped.opening.with(|_| {
                    inside.send(()).unwrap();
                    may_go_on.recv().unwrap();
                });
            });
        });
        is_inside.recv().unwrap();
        // With a lock in it, this would never return, and shuttle says so.
        cache.get_or_open(&key(1, 1), must_not_open).unwrap();
        go_on.send(()).unwrap();
        writer.join().unwrap();
    });
}

#[test]
fn r8_in_every_order_a_cold_key_is_opened_once_and_others_find_it() {
    modelled(ORDERS, || {
        let cache = Arc::new(Numbers::new());
        let opened = Arc::new(AtomicUsize::new(0));
        let ask = |cache: Arc<Numbers>, opened: Arc<AtomicUsize>| {
            move || {
                let open = |_: &SealedKey| {
                    thread::yield_now();
                    Ok(opened.fetch_add(1, Ordering::Relaxed))
                };
                cache.get_or_open(&key(1, 1), open).unwrap()
            }
        };
        let threads: Vec<_> =
            (0..4).map(|_| thread::spawn(ask(Arc::clone(&cache), Arc::clone(&opened)))).collect();
        for thread in threads {
            assert_eq!(*thread.join().unwrap(), 0);
        }
        assert_eq!(opened.load(Ordering::Relaxed), 1);
        assert!(cache.opening.with(|opening| opening.is_empty()));
    });
}

#[test]
fn r8_in_every_order_a_failure_is_tried_again_by_the_next() {
    modelled(ORDERS, || {
        let cache = Arc::new(Numbers::new());
        let threads: Vec<_> = (0..3)
            .map(|n| {
                let cache = Arc::clone(&cache);
                thread::spawn(move || cache.get_or_open(&key(1, 1), if n == 0 { broken } else { opened_one }))
            })
            .collect();
        let answers: Vec<_> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
        let is_open = answers.iter().any(Result::is_ok);
        let kept = cache.get_or_open(&key(1, 1), broken);
        assert_eq!(kept.is_ok(), is_open, "a failure took the place of a key");
    });
}

fn opened_one(_: &SealedKey) -> Result<usize, Fault> {
    thread::yield_now();
    Ok(1)
}

#[test]
fn r3_r10_in_every_order_the_newest_generation_stays_and_no_more_than_fit() {
    for limit in [3, 2] {
        modelled(ORDERS, move || {
            let cache = Arc::new(Numbers::with_limit(limit));
            let threads: Vec<_> = [(1, 1), (1, 2), (2, 1), (3, 1)]
                .into_iter()
                .map(|(n, generation)| {
                    let cache = Arc::clone(&cache);
                    thread::spawn(move || {
                        assert_eq!(*cache.get_or_open(&key(n, generation), opens(n)).unwrap(), n);
                    })
                })
                .collect();
            for thread in threads {
                thread.join().unwrap();
            }
            let ring = cache.ring.with(|ring| ring.clone());
            let places = cache.places.load();
            assert_eq!((ring.len(), places.size()), (limit, limit));
            assert!(ring.iter().all(|id| places.contains_key(id)));
            if limit == 3 {
                assert_eq!(places.get(&key(1, 1).key_id).unwrap().exact.generation, 2);
            }
        });
    }
}
