//! What holds whatever comes, in any order.

#![allow(clippy::arithmetic_side_effects, reason = "tests")]

use proptest::prelude::*;

use super::tests::ask;
use super::*;

const BACKENDS: [&str; 2] = ["software", "pkcs11:a"];
const ALGORITHMS: [KeyAlgorithm; 3] =
    [KeyAlgorithm::Rsa(4096), KeyAlgorithm::Rsa(2048), KeyAlgorithm::Ed25519];
const PROCESSORS: usize = 2;

#[derive(Clone, Copy, Debug)]
enum Step {
    Admit {
        backend: usize,
        client: u8,
        priority: Priority,
        algorithm: usize,
        items: usize,
        time_ms: u64,
    },
    /// The group of this place in the list of those that were admitted.
    Enqueue(usize),
    Withdraw(usize),
    Next(usize),
    Done(usize),
    Pass(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let priority = prop_oneof![Just(Priority::Interactive), Just(Priority::Batch)];
    prop_oneof![
        4 => (0..2_usize, 0..4_u8, priority, 0..3_usize, 1..40_usize, 0..5_000_u64).prop_map(
            |(backend, client, priority, algorithm, items, time_ms)| Step::Admit {
                backend, client, priority, algorithm, items, time_ms,
            }
        ),
        4 => (0..200_usize).prop_map(Step::Enqueue),
        1 => (0..200_usize).prop_map(Step::Withdraw),
        4 => (0..2_usize).prop_map(Step::Next),
        3 => (0..20_usize).prop_map(Step::Done),
        1 => (0..500_u64).prop_map(Step::Pass),
    ]
}

/// What a reader of the rules would expect of one group.
#[derive(Debug)]
struct Model {
    backend: usize,
    items: usize,
    sent: usize,
    is_queued: bool,
    is_gone: bool,
    deadline: Instant,
}

struct Run {
    schedule: Schedule,
    now: Instant,
    groups: Vec<(GroupId, Model)>,
    places: Vec<Place>,
}

impl Run {
    fn new() -> Self {
        let (schedule, now) = (Schedule::new(PROCESSORS), Instant::now());
        Self { schedule, now, groups: Vec::new(), places: Vec::new() }
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Admit { backend, client, priority, algorithm, items, time_ms } => {
                let ask = Ask {
                    backend: BACKENDS[backend].into(),
                    priority,
                    weight: u32::from(client) + 1,
                    algorithm: ALGORITHMS[algorithm],
                    deadline: self.now + Duration::from_millis(time_ms),
                    ..ask(&client.to_string(), items, self.now)
                };
                let deadline = ask.deadline;
                if let Ok(id) = self.schedule.admit(&ask, self.now) {
                    let model = Model { backend, items, sent: 0, is_queued: false, is_gone: false, deadline };
                    self.groups.push((id, model));
                }
            }
            Step::Enqueue(place) => {
                if let Some((id, model)) = self.groups.get_mut(place)
                    && !model.is_queued
                {
                    model.is_queued = true;
                    self.schedule.enqueue(*id);
                }
            }
            Step::Withdraw(place) => {
                if let Some((id, model)) = self.groups.get_mut(place) {
                    let was_here = !model.is_gone && model.sent < model.items;
                    assert_eq!(self.schedule.withdraw(*id), was_here);
                    model.is_gone = true;
                }
            }
            Step::Next(backend) => drop(self.next(backend)),
            Step::Done(place) => {
                if place < self.places.len() {
                    let place = self.places.swap_remove(place);
                    self.schedule.done(&place, Some(1_000), self.now);
                }
            }
            Step::Pass(ms) => self.now += Duration::from_millis(ms),
        }
        self.check();
    }

    fn next(&mut self, backend: usize) -> bool {
        let chosen = self.schedule.next(BACKENDS[backend], self.now);
        for id in chosen.late {
            let (_, model) = self.groups.iter_mut().find(|(known, _)| *known == id).unwrap();
            assert!(!model.is_gone && model.deadline <= self.now);
            model.is_gone = true;
        }
        let Some(Outgoing { parts, place }) = chosen.outgoing else { return false };
        let mut nominal_us = 0;
        for part in &parts {
            let (_, model) = self.groups.iter_mut().find(|(known, _)| *known == part.group).unwrap();
            assert!(model.is_queued && !model.is_gone && model.backend == backend);
            assert!(model.deadline > self.now, "nothing is done for who is late");
            assert_eq!(part.first, model.sent, "each item once, in order");
            assert!(part.items > 0 && part.first + part.items <= model.items);
            model.sent += part.items;
            nominal_us += part.items;
        }
        assert!(nominal_us > 0);
        self.places.push(place);
        true
    }

    /// The lengths are those of the model, and the places are kept.
    fn check(&self) {
        let lengths = self.schedule.lengths();
        for (number, backend) in BACKENDS.into_iter().enumerate() {
            let of_backend = || lengths.iter().filter(|length| &*length.backend == backend);
            let here = self.groups.iter().map(|(_, model)| model);
            let here = here.filter(|model| model.backend == number && !model.is_gone);
            let here = here.filter(|model| model.sent < model.items).count();
            assert_eq!(of_backend().map(|length| length.groups).sum::<usize>(), here);
            for length in of_backend() {
                let with_signer =
                    |place: &&Place| &*place.backend == backend && place.priority == length.priority;
                assert_eq!(length.batches, self.places.iter().filter(with_signer).count());
                let most = Most::of(backend, length.priority, 2);
                assert!(length.batches <= most.batches && length.groups <= PLACES);
            }
        }
    }

    /// Everybody asks, everything is answered.
    fn finish(mut self) {
        for (id, model) in &mut self.groups {
            if !model.is_queued && !model.is_gone {
                self.schedule.enqueue(*id);
                model.is_queued = true;
            }
        }
        loop {
            for place in std::mem::take(&mut self.places) {
                self.schedule.done(&place, None, self.now);
            }
            let (first, second) = (self.next(0), self.next(1));
            if !first && !second {
                break;
            }
        }
        for (_, model) in &self.groups {
            assert!(model.is_gone || model.sent == model.items, "nothing is left behind: {model:?}");
        }
        assert!(self.schedule.groups.is_empty());
        assert!(self.schedule.lengths().iter().all(|length| length.groups == 0 && length.us == 0));
        assert!(self.schedule.lanes.values().all(Lane::is_idle));
    }
}

proptest! {
    #[test]
    fn every_item_leaves_once_in_order_in_time_within_its_places_or_its_group_is_gone(
        steps in proptest::collection::vec(step(), 0..300)
    ) {
        let mut run = Run::new();
        steps.into_iter().for_each(|step| run.step(step));
        run.finish();
    }

    /// The theorem of start-time fair queueing: two clients that always have something queued differ, in time by
    /// weight, by at most one item of each.
    #[test]
    fn two_clients_that_always_wait_never_differ_by_more_than_one_item_of_each(
        clients in proptest::collection::vec((1..=100_u32, 0..3_usize, 1..30_usize), 2..6)
    ) {
        let (mut schedule, now) = (Schedule::new(PROCESSORS), Instant::now());
        let mut client_of = HashMap::new();
        let mut served = vec![0_u64; clients.len()];
        for (number, (weight, algorithm, items)) in clients.iter().enumerate() {
            let algorithm = ALGORITHMS[*algorithm];
            // More than all batches take together.
            let groups = 2_000_000 / (u64::from(algorithm.nominal_us()) * u64::try_from(*items).unwrap()) + 1;
            for _ in 0..groups.min(340) {
                // A backend whose batches are small.
                let backend = BACKENDS[1].into();
                let ask = Ask { weight: *weight, algorithm, backend, ..ask(&number.to_string(), *items, now) };
                let id = schedule.admit(&ask, now).unwrap();
                schedule.enqueue(id);
                client_of.insert(id, number);
            }
        }
        for _ in 0..200 {
            let Some(Outgoing { parts, place }) = schedule.next(BACKENDS[1], now).outgoing else { break };
            for part in &parts {
                let number = client_of[&part.group];
                served[number] += times(part.items, ALGORITHMS[clients[number].1].nominal_us().into());
            }
            schedule.done(&place, None, now);
            let waiting = &schedule.lanes[BACKENDS[1]].batch.waiting;
            if (0..clients.len()).any(|number| waiting.held_by(&number.to_string()).groups == 0) {
                break;
            }
            for (a, b) in (0..clients.len()).flat_map(|a| (0..a).map(move |b| (a, b))) {
                // Without fractions: times both weights.
                let (wa, wb) = (u64::from(clients[a].0), u64::from(clients[b].0));
                let (us_a, us_b) = (ALGORITHMS[clients[a].1].nominal_us(), ALGORITHMS[clients[b].1].nominal_us());
                let apart = (served[a] * wb).abs_diff(served[b] * wa);
                let most = u64::from(us_a) * wb + u64::from(us_b) * wa;
                // One in a thousand for what is rounded.
                prop_assert!(apart <= most + (served[a] * wb) / 1000 + wa + wb, "{} {} {:?}", a, b, served);
            }
        }
    }
}
