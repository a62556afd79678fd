//! Races, in thousands of random orders: shuttle runs the tasks and decides at each lock, pointer and await who is
//! next. A deadlock is found as such, without a clock.

use shuttle::future::{block_on, spawn};

use super::*;

const ORDERS: usize = 2_000;

/// A source that others overtake at each step.
struct Slow(Shelf);

impl Source for Slow {
    async fn read(&self, wanted: &Wanted) -> Result<Key, Fault> {
        shuttle::future::yield_now().await;
        let row = self.0.read(wanted).await;
        shuttle::future::yield_now().await;
        row
    }
}

fn registry(keys: usize, bytes_max: usize) -> Arc<Registry<Slow>> {
    Arc::new(Registry::with_limit(Slow(Shelf::with(keys)), bytes_max))
}

#[test]
fn r1_a_resolve_returns_while_a_writer_stands_in_its_critical_section() {
    modelled(100, || {
        let registry = registry(1, BYTES_MAX);
        let entry = registry.put(key(1));
        let authorised = authorised(&entry.facts);
        let (inside, is_inside) = shuttle::sync::mpsc::channel();
        let (go_on, may_go_on) = shuttle::sync::mpsc::channel();
        let stopped = Arc::clone(&registry);
        let writer = shuttle::thread::spawn(move || {
            stopped.memory.stop_inside(|| {
                inside.send(()).unwrap();
                may_go_on.recv().unwrap();
            });
        });
        is_inside.recv().unwrap();
        // With a lock in it, this would never return, and shuttle says so.
        block_on(async {
            registry.find(&named(1)).await.unwrap();
            registry.resolve(&authorised).await.unwrap();
        });
        go_on.send(()).unwrap();
        writer.join().unwrap();
    });
}

#[test]
fn r3_a_look_that_starts_after_a_change_returned_sees_it() {
    modelled(ORDERS, || {
        // Room for one: the others drive out what was changed while slow readers are on their way.
        let registry = registry(3, room(1));
        let readers: Vec<_> = (0..2)
            .map(|_| Arc::clone(&registry))
            .map(|registry| spawn(async move { registry.find(&named(1)).await.map(|_| ()) }))
            .collect();
        let crowd = Arc::clone(&registry);
        let crowd = spawn(async move { crowd.find(&named(2)).await.map(|_| ()) });
        block_on(async move {
            for _ in 0..4 {
                shuttle::future::yield_now().await;
            }
            let disabled = Key { revision: 2, state: KeyState::Disabled, ..key(1) };
            registry.source.0.add(disabled.clone());
            registry.put(disabled);
            for _ in 0..2 {
                registry.find(&named(3)).await.unwrap();
                let (found, _) = registry.find(&named(1)).await.unwrap();
                assert_eq!(found.facts.state, KeyState::Disabled, "older than a change that had returned");
            }
            for reader in readers {
                reader.await.unwrap().unwrap();
            }
            crowd.await.unwrap().unwrap();
            assert_eq!(registry.find(&named(1)).await.unwrap().0.facts.state, KeyState::Disabled);
        });
    });
}

#[test]
fn r6_nobody_is_told_not_found_by_a_look_that_began_before_the_question() {
    modelled(ORDERS, || {
        let registry = registry(0, BYTES_MAX);
        let early = Arc::clone(&registry);
        let early = spawn(async move { early.find(&named(1)).await.map(|_| ()) });
        block_on(async move {
            shuttle::future::yield_now().await;
            // As another process does it: nothing is put into memory here.
            registry.source.0.add(key(1));
            registry.find(&named(1)).await.unwrap();
            let _either = early.await.unwrap();
        });
    });
}

#[test]
fn r8_in_every_order_a_cold_key_is_read_once() {
    modelled(ORDERS, || {
        let registry = registry(1, BYTES_MAX);
        let finds: Vec<_> = (0..4)
            .map(|_| Arc::clone(&registry))
            .map(|registry| spawn(async move { registry.find(&named(1)).await.unwrap().0 }))
            .collect();
        block_on(async move {
            for find in finds {
                let found = find.await.unwrap();
                assert!(Arc::ptr_eq(&found, &registry.memory.by_id(&found.facts.id).unwrap()));
            }
            assert_eq!((registry.source.0.reads(), registry.flights.len()), (1, 0));
        });
    });
}

#[test]
fn r8_in_every_order_someone_goes_on_when_loaders_give_up() {
    modelled(ORDERS, || {
        let registry = registry(1, BYTES_MAX);
        let given_up: Vec<_> = (0..2)
            .map(|_| Arc::clone(&registry))
            .map(|registry| spawn(async move { registry.find(&named(1)).await.map(|_| ()) }))
            .collect();
        let other = Arc::clone(&registry);
        let other = spawn(async move { other.find(&named(1)).await.map(|_| ()) });
        block_on(async move {
            for find in &given_up {
                shuttle::future::yield_now().await;
                find.abort();
            }
            other.await.unwrap().unwrap();
            for find in given_up {
                let _given_up_or_done = find.await;
            }
            assert_eq!(registry.flights.len(), 0);
        });
    });
}

#[test]
fn r12_a_request_sees_one_copy_and_never_a_mix() {
    modelled(ORDERS, || {
        let registry = registry(1, BYTES_MAX);
        let first = registry.put(key(1));
        let authorised = authorised(&first.facts);
        let writer = Arc::clone(&registry);
        let writer = spawn(async move {
            for generation in 2..=3_u8 {
                let mut renewed = Key { revision: generation.into(), ..key(1) };
                renewed.material.generation = generation.into();
                renewed.material.sealed = vec![generation];
                renewed.material.signing_fingerprint = Fingerprint::v4([generation; 20]);
                writer.put(renewed);
            }
        });
        block_on(async move {
            for _ in 0..3 {
                let (found, _) = registry.find(&named(1)).await.unwrap();
                assert_eq!(found.sealed(), [u8::try_from(found.facts.generation).unwrap()]);
                match registry.resolve(&authorised).await {
                    Ok(entry) => assert_eq!(entry.sealed(), [1]),
                    Err(fault) => assert_eq!(fault.code, Code::KeyChanged),
                }
            }
            writer.await.unwrap();
            let newest = KeyReference::parse(&Fingerprint::v4([3; 20]).to_string()).unwrap();
            assert_eq!(registry.memory.named(&newest).unwrap().facts.generation, 3);
            let older = KeyReference::parse(&Fingerprint::v4([2; 20]).to_string()).unwrap();
            assert!(registry.memory.named(&older).is_none(), "a name of a copy that is gone");
            assert_eq!(registry.memory.size().0, 1);
        });
    });
}
