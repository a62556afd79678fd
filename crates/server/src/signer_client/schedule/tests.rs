//! One test a rule. Time stands still unless a test moves it.

#![allow(clippy::arithmetic_side_effects, reason = "tests")]

use super::*;

const RSA: KeyAlgorithm = KeyAlgorithm::Rsa(4096);
const PROCESSORS: usize = 2;
/// Batches of the software backend with the signer.
const HANDS: usize = 4;
const HANDS_OF_MASS: usize = 2;
/// A backend whose batches are small.
const TOKEN: &str = "pkcs11:a";

pub(super) fn ask(client: &str, items: usize, now: Instant) -> Ask {
    Ask {
        backend: SOFTWARE.into(),
        client: client.into(),
        weight: 1,
        priority: Priority::Batch,
        algorithm: RSA,
        key: (Uuid::from_u128(1), 1),
        items,
        inline_bytes: 0,
        inline_bytes_max: 0,
        deadline: now + Duration::from_secs(3600),
    }
}

fn schedule() -> (Schedule, Instant) {
    (Schedule::new(PROCESSORS), Instant::now())
}

/// Admitted and queued.
fn put(schedule: &mut Schedule, ask: &Ask, now: Instant) -> GroupId {
    let id = schedule.admit(ask, now).unwrap();
    schedule.enqueue(id);
    id
}

fn put_many(schedule: &mut Schedule, groups: usize, ask: &Ask, now: Instant) {
    for _ in 0..groups {
        put(schedule, ask, now);
    }
}

fn fill_hands(schedule: &mut Schedule, backend: &str, now: Instant) -> Vec<Outgoing> {
    std::iter::from_fn(|| schedule.next(backend, now).outgoing).collect()
}

fn groups(outgoing: &Outgoing) -> Vec<GroupId> {
    outgoing.parts.iter().map(|part| part.group).collect()
}

fn length(schedule: &Schedule, backend: &str, priority: Priority) -> Length {
    let mut lengths = schedule.lengths().into_iter();
    lengths.find(|length| &*length.backend == backend && length.priority == priority).unwrap()
}

#[test]
fn a_lone_item_goes_next_whatever_another_client_has_queued() {
    for priority in [Priority::Interactive, Priority::Batch] {
        let (mut schedule, now) = schedule();
        for _ in 0..1000 {
            put(&mut schedule, &Ask { priority, ..ask("mass", 10, now) }, now);
        }
        let mut hands = fill_hands(&mut schedule, SOFTWARE, now);
        let lone = put(&mut schedule, &Ask { priority, ..ask("person", 1, now) }, now);
        assert!(schedule.next(SOFTWARE, now).outgoing.is_none(), "the signer has all that it may have");
        schedule.done(&hands.remove(0).place, None, now);
        let next = schedule.next(SOFTWARE, now).outgoing.unwrap();
        assert_eq!(groups(&next)[0], lone);
    }
}

/// Each client always has something queued; the work that each got after so many batches.
fn served(clients: &[(&str, u32, KeyAlgorithm)], batches: usize) -> HashMap<GroupId, u64> {
    let (mut schedule, now) = schedule();
    let mut client_of = HashMap::new();
    let mut served = HashMap::new();
    let put_one = |schedule: &mut Schedule, client_of: &mut HashMap<_, _>, number: usize| {
        let (client, weight, algorithm) = clients[number];
        let id = put(schedule, &Ask { weight, algorithm, ..ask(client, 40, now) }, now);
        client_of.insert(id, number);
    };
    for number in 0..clients.len() {
        (0..100).for_each(|_| put_one(&mut schedule, &mut client_of, number));
    }
    for _ in 0..batches {
        let outgoing = schedule.next(SOFTWARE, now).outgoing.unwrap();
        for part in &outgoing.parts {
            let number = client_of[&part.group];
            let us = times(part.items, clients[number].2.nominal_us().into());
            *served.entry(GroupId(number.try_into().unwrap())).or_default() += us;
            if part.first == 0 {
                put_one(&mut schedule, &mut client_of, number);
            }
        }
        schedule.done(&outgoing.place, None, now);
    }
    served
}

#[test]
fn clients_get_time_by_weight_whatever_their_operations_cost() {
    let clients =
        [("a", 1, RSA), ("b", 2, KeyAlgorithm::Ed25519), ("c", 5, KeyAlgorithm::Rsa(2048)), ("d", 1, RSA)];
    let served = served(&clients, 400);
    let by_weight: Vec<u64> =
        (0..4).map(|n| served[&GroupId(n)] / u64::from(clients[usize::try_from(n).unwrap()].1)).collect();
    let (least, most) = (by_weight.iter().min().unwrap(), by_weight.iter().max().unwrap());
    assert!(most - least <= 2 * u64::from(RSA.nominal_us()), "{by_weight:?}");
    assert!(*least > 1_000_000, "{by_weight:?}");
}

#[test]
fn quick_items_of_two_clients_share_a_batch() {
    let (mut schedule, now) = schedule();
    let quick = |client| Ask { algorithm: KeyAlgorithm::Ed25519, ..ask(client, 900, now) };
    let first = put(&mut schedule, &quick("a"), now);
    put(&mut schedule, &quick("b"), now);
    let outgoing = schedule.next(SOFTWARE, now).outgoing.unwrap();
    let of_first = outgoing.parts.iter().filter(|part| part.group == first).map(|part| part.items);
    assert_eq!((of_first.sum::<usize>(), outgoing.place.items), (512, ITEMS_PER_BATCH_MAX as u64));
}

#[test]
fn who_leaves_and_comes_back_gets_no_more_than_who_stays() {
    let (mut schedule, now) = schedule();
    let ask = |client: &str| Ask { backend: TOKEN.into(), ..ask(client, 1, now) };
    put_many(&mut schedule, 1000, &ask("stays"), now);
    let mut back = Some(put(&mut schedule, &ask("returns"), now));
    let mut returned = 0;
    for _ in 0..400 {
        let outgoing = schedule.next(TOKEN, now).outgoing.unwrap();
        if back.is_some_and(|id| groups(&outgoing).contains(&id)) {
            returned += 1;
            // Always gone before its next one comes.
            back = Some(put(&mut schedule, &ask("returns"), now));
        }
        schedule.done(&outgoing.place, None, now);
    }
    assert!((199..=201).contains(&returned), "{returned} of 400");
}

#[test]
fn what_waits_is_bounded_and_a_newcomer_finds_a_place() {
    let (mut schedule, now) = schedule();
    let cheap = |client: &str| Ask { algorithm: KeyAlgorithm::Ed25519, ..ask(client, 1, now) };
    let mut admitted = 0;
    let refused = (0..=PLACES).find_map(|_| {
        let refused = schedule.admit(&cheap("greedy"), now).err();
        admitted += usize::from(refused.is_none());
        refused
    });
    let refused = refused.unwrap();
    assert_eq!(admitted, PLACES / 2);
    assert!(matches!(refused, Refused::Full { come_again_ms: 100.. }), "{refused:?}");
    for client in 0..50 {
        schedule.admit(&cheap(&format!("newcomer {client}")), now).unwrap();
    }
    assert_eq!(length(&schedule, SOFTWARE, Priority::Batch).groups, admitted + 50);
    schedule.admit(&Ask { priority: Priority::Interactive, ..cheap("greedy") }, now).unwrap();
    schedule.admit(&Ask { backend: "pkcs11:a".into(), ..cheap("greedy") }, now).unwrap();
    let mut all = 0;
    while all <= PLACES && schedule.admit(&cheap(&format!("one of many {all}")), now).is_ok() {
        all += 1;
    }
    assert_eq!(length(&schedule, SOFTWARE, Priority::Batch).groups, PLACES, "{all}");
}

#[test]
fn what_is_with_the_signer_is_bounded_by_time() {
    let algorithms = [RSA, KeyAlgorithm::Rsa(2048), KeyAlgorithm::Rsa(8192), KeyAlgorithm::Ed25519];
    let items = [(1, 64), (8, 512), (1, 8), (250, ITEMS_PER_BATCH_MAX)];
    for (algorithm, (interactive, batch)) in algorithms.into_iter().zip(items) {
        let (mut schedule, now) = self::schedule();
        for _ in 0..300 {
            let ask = Ask { algorithm, ..ask("a", 10, now) };
            put(&mut schedule, &ask, now);
            put(&mut schedule, &Ask { priority: Priority::Interactive, ..ask }, now);
        }
        let hands = fill_hands(&mut schedule, SOFTWARE, now);
        let of = |priority| {
            let hands = hands.iter().filter(move |outgoing| outgoing.place.priority == priority);
            hands.map(|outgoing| outgoing.parts.iter().map(|part| part.items).sum()).collect::<Vec<usize>>()
        };
        assert_eq!(of(Priority::Interactive), [interactive; HANDS], "{algorithm}");
        assert_eq!(of(Priority::Batch), [batch; HANDS_OF_MASS], "{algorithm}");
    }
}

#[test]
fn a_large_group_crosses_in_parts_and_all_of_it_once() {
    let (mut schedule, now) = schedule();
    let large = put(&mut schedule, &ask("a", 140, now), now);
    for (first, items) in [(0, 64), (64, 64), (128, 12)] {
        let Outgoing { parts, place } = schedule.next(SOFTWARE, now).outgoing.unwrap();
        assert_eq!(parts, [Part { group: large, first, items }]);
        schedule.done(&place, None, now);
    }
    assert!(schedule.next(SOFTWARE, now).outgoing.is_none());
    assert_eq!(length(&schedule, SOFTWARE, Priority::Batch).groups, 0);
}

#[test]
fn batch_work_has_places_of_its_own_while_interactive_work_never_ends() {
    let (mut schedule, now) = schedule();
    let interactive = Ask { priority: Priority::Interactive, ..ask("people", 1, now) };
    put(&mut schedule, &ask("mass", 100, now), now);
    put_many(&mut schedule, 100, &interactive, now);
    let hands = fill_hands(&mut schedule, SOFTWARE, now);
    let batch = hands.iter().filter(|outgoing| outgoing.place.priority == Priority::Batch).count();
    assert_eq!((batch, hands.len()), (HANDS_OF_MASS, HANDS + HANDS_OF_MASS));
}

#[test]
fn interactive_work_needs_no_batch_to_come_back() {
    let (mut schedule, now) = schedule();
    put(&mut schedule, &ask("mass", 256, now), now);
    let _hands = fill_hands(&mut schedule, SOFTWARE, now);
    let lone = put(&mut schedule, &Ask { priority: Priority::Interactive, ..ask("mass", 1, now) }, now);
    assert_eq!(groups(&schedule.next(SOFTWARE, now).outgoing.unwrap()), [lone]);
}

#[test]
fn who_calls_everything_interactive_is_treated_as_batch_above_a_quarter() {
    let (mut schedule, start) = schedule();
    let (mut now, mut interactive_us) = (start, 0);
    for _ in 0..10_000 {
        now += Duration::from_millis(1);
        let ask = Ask { priority: Priority::Interactive, ..ask("greedy", 1, now) };
        let id = put(&mut schedule, &ask, now);
        if schedule.groups[&id].priority == Priority::Interactive {
            interactive_us += u64::from(RSA.nominal_us());
        }
        schedule.withdraw(id);
    }
    // Ten seconds of two processors, a quarter of that, and what it may use at once.
    let share = 5_000_000 + 2_000_000;
    assert!(interactive_us <= share && interactive_us + 20_000 > share, "{interactive_us}");
    let ask = Ask { priority: Priority::Interactive, ..ask("person", 1, now) };
    let id = put(&mut schedule, &ask, now);
    assert_eq!(schedule.groups[&id].priority, Priority::Interactive, "each client has its own");
}

#[test]
fn a_group_whose_time_is_over_leaves_without_an_operation() {
    let (mut schedule, now) = schedule();
    let soon = now + Duration::from_secs(1);
    let late = put(&mut schedule, &Ask { deadline: soon, ..ask("a", 3, now) }, now);
    let other = put(&mut schedule, &ask("b", 1, now), now);
    let chosen = schedule.next(SOFTWARE, soon);
    assert_eq!((chosen.late, groups(&chosen.outgoing.unwrap())), (vec![late], vec![other]));
    assert!(schedule.next(SOFTWARE, soon).outgoing.is_none());
    assert_eq!(schedule.admit(&Ask { deadline: soon, ..ask("a", 1, now) }, soon), Err(Refused::Late));
    assert_eq!(
        length(&schedule, SOFTWARE, Priority::Batch),
        Length { backend: SOFTWARE.into(), priority: Priority::Batch, groups: 0, us: 0, batches: 1 }
    );
}

#[test]
fn what_is_withdrawn_is_not_sent_and_its_place_is_free() {
    let (mut schedule, now) = schedule();
    let (gone, begun) =
        (put(&mut schedule, &ask("a", 2, now), now), put(&mut schedule, &ask("b", 100, now), now));
    let kept = schedule.admit(&ask("a", 1, now), now).unwrap();
    assert!(!schedule.has_begun(gone) && schedule.withdraw(gone));
    let first = schedule.next(SOFTWARE, now).outgoing.unwrap();
    assert_eq!(groups(&first), [begun]);
    assert!(schedule.has_begun(begun) && schedule.withdraw(begun));
    assert!(schedule.withdraw(kept), "a place that was never used");
    assert!(schedule.next(SOFTWARE, now).outgoing.is_none());
    assert!(!schedule.withdraw(gone), "only once");
    let Length { groups, us, .. } = length(&schedule, SOFTWARE, Priority::Batch);
    assert_eq!((groups, us), (0, 0));
}

#[test]
fn what_would_wait_for_longer_than_it_has_time_is_refused_at_once() {
    let (mut schedule, now) = schedule();
    // 200 operations of 5 ms on two processors: half a second.
    put_many(&mut schedule, 20, &ask("mass", 10, now), now);
    let in_ms = |client: &str, ms| Ask { deadline: now + Duration::from_millis(ms), ..ask(client, 1, now) };
    let refused = schedule.admit(&in_ms("mass", 300), now).unwrap_err();
    let Refused::TooLong { wait, come_again_ms } = refused else { panic!("{refused:?}") };
    assert!((490..=510).contains(&wait.as_millis()), "{wait:?}");
    assert!((190..=210).contains(&come_again_ms), "{come_again_ms}");
    schedule.admit(&in_ms("mass", 600), now).unwrap();
    // Another client waits for its own share alone, and interactive work for a part of batch work.
    schedule.admit(&in_ms("other", 50), now).unwrap();
    schedule.admit(&Ask { priority: Priority::Interactive, ..in_ms("mass", 50) }, now).unwrap();
}

#[test]
fn a_heavier_client_is_told_a_shorter_wait() {
    let (mut schedule, now) = schedule();
    for client in ["a", "b", "c"] {
        put_many(&mut schedule, 100, &ask(client, 1, now), now);
    }
    let heavy = Ask { weight: 10, deadline: now + Duration::from_millis(10), ..ask("d", 2, now) };
    schedule.admit(&heavy, now).unwrap();
    let light = Ask { weight: 1, client: "e".into(), ..heavy };
    assert!(matches!(schedule.admit(&light, now), Err(Refused::TooLong { .. })));
}

#[test]
fn a_backend_that_stands_still_fills_its_own_queue_and_places_alone() {
    let (mut schedule, now) = schedule();
    let stuck = Ask { backend: "pkcs11:stuck".into(), ..ask("a", 1, now) };
    put_many(&mut schedule, 500, &stuck, now);
    assert_eq!(fill_hands(&mut schedule, "pkcs11:stuck", now).len(), BATCHES_OF_TOKEN);
    let refused = (0..=PLACES).find_map(|_| schedule.admit(&stuck, now).err());
    assert!(matches!(refused, Some(Refused::Full { .. })), "{refused:?}");
    for _ in 0..500 {
        let id = put(&mut schedule, &ask("a", 1, now), now);
        let outgoing = schedule.next(SOFTWARE, now).outgoing.unwrap();
        assert_eq!(groups(&outgoing), [id]);
        schedule.done(&outgoing.place, None, now);
    }
    assert!(schedule.next("pkcs11:stuck", now).outgoing.is_none());
}

#[test]
fn a_backend_that_has_not_moved_for_longer_than_a_group_has_time_refuses_it_at_once() {
    let (mut schedule, now) = schedule();
    let stuck = Ask { backend: "pkcs11:stuck".into(), ..ask("a", 1, now) };
    put_many(&mut schedule, BATCHES_OF_TOKEN, &stuck, now);
    let hands = fill_hands(&mut schedule, "pkcs11:stuck", now);
    let later = now + Duration::from_secs(10);
    let in_s = |seconds| Ask { deadline: later + Duration::from_secs(seconds), ..stuck.clone() };
    assert!(matches!(schedule.admit(&in_s(9), later), Err(Refused::TooLong { .. })));
    schedule.admit(&in_s(11), later).unwrap();
    schedule.done(&hands[0].place, None, later);
    schedule.admit(&in_s(9), later).unwrap();
}

#[test]
fn a_slow_backend_is_known_as_slow() {
    let (mut schedule, now) = schedule();
    let slow = Ask { backend: "pkcs11:slow".into(), ..ask("a", 1, now) };
    for _ in 0..200 {
        put(&mut schedule, &slow, now);
        let outgoing = schedule.next("pkcs11:slow", now).outgoing.unwrap();
        schedule.done(&outgoing.place, Some(300_000), now);
    }
    let soon = now + Duration::from_millis(100);
    let refused = schedule.admit(&Ask { deadline: soon, ..slow }, now);
    assert!(matches!(refused, Err(Refused::TooLong { .. })), "{refused:?}");
    schedule.admit(&Ask { deadline: soon, ..ask("a", 1, now) }, now).unwrap();
}

#[test]
fn a_batch_keeps_the_limits_of_the_wire() {
    let (mut schedule, now) = schedule();
    let small =
        |key| Ask { algorithm: KeyAlgorithm::Ed25519, key: (Uuid::from_u128(key), 1), ..ask("a", 1, now) };
    for key in 0..100 {
        put(&mut schedule, &small(key), now);
    }
    let first = schedule.next(SOFTWARE, now).outgoing.unwrap();
    assert_eq!(first.parts.len(), KEYS_PER_BATCH_MAX);
    let inline = INLINE_BYTES_MAX / 4 + 1;
    let (mut schedule, _) = self::schedule();
    let large = Ask { inline_bytes: 3 * inline, inline_bytes_max: inline, ..small(1) };
    put(&mut schedule, &Ask { items: 3, ..large.clone() }, now);
    put(&mut schedule, &Ask { items: 3, ..large }, now);
    for outgoing in fill_hands(&mut schedule, SOFTWARE, now) {
        let items: usize = outgoing.parts.iter().map(|part| part.items).sum();
        assert!(items <= 3, "{items}");
    }
}

#[test]
fn backends_that_are_gone_are_forgotten() {
    let (mut schedule, now) = schedule();
    let busy = put(&mut schedule, &ask("a", 1, now), now);
    for number in 0..3 * LANES_MAX {
        let ask = Ask { backend: format!("pkcs11:{number}").into(), ..ask("a", 1, now) };
        let id = put(&mut schedule, &ask, now);
        schedule.withdraw(id);
    }
    assert!(schedule.lanes.len() <= LANES_MAX);
    assert_eq!(groups(&schedule.next(SOFTWARE, now).outgoing.unwrap()), [busy]);
}
