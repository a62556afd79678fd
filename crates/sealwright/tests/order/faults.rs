//! A fault at each step of the law: the call fails, is late, or the program or the signer is killed at it. After
//! each the file is the old or the new one, no success is reported for an old one, what is in a file is in the log, and
//! the next run does the rest.

use std::collections::HashMap;
use std::time::Duration;

use sealwright_testkit::effects::{self, Effect, Leaves, Line, Object, Step, Way, check};
use sealwright_testkit::sealwright::Home;
use sealwright_testkit::trace::{Act, Actor, Traced};

use crate::bench::{
    Bench, DETACHED, HEADER, HEADER_AND_PAYLOAD, IN_PLACE, MANNERS, Manner, State, first_home,
};
use crate::spot::{Spot, Spots};

/// Set: not one fault a step, but one at each call of each way of signing (`cargo xtask order --every`).
const EVERY: &str = "SEALWRIGHT_ORDER_EVERY";
const EIO: i32 = 5;
/// Longer than anything that could overtake the thread that is held.
const LATE: Duration = Duration::from_millis(60);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    Fails,
    Killed,
    SignerKilled,
}

impl Fault {
    const fn act(self) -> Act {
        match self {
            Self::Fails => Act::Fail(EIO),
            Self::Killed => Act::Kill(Actor::Front),
            Self::SignerKilled => Act::Kill(Actor::Signer),
        }
    }
}

/// A run without a fault, and where its calls are.
pub(crate) struct Recorded {
    pub(crate) home: Home,
    manner: Manner,
    effects: Vec<Effect>,
    /// By position among the calls.
    spots: HashMap<usize, Spot>,
}

impl Recorded {
    pub(crate) fn new(manner: Manner) -> Self {
        let home = first_home();
        let bench = Bench::new(home.twin(), manner);
        let mut named = HashMap::new();
        let mut spots = Spots::new(&bench.place);
        let traced = bench.run(&mut |call, moment| {
            named.extend(spots.at(call, moment).map(|spot| (call.begun, spot)));
            Act::Go
        });
        assert_eq!(traced.ran.code, Some(0), "{}", traced.ran.text());
        let effects = bench.effects(&traced);
        assert_eq!(check(&effects, manner.way), Ok(()));
        let spot = |(position, call): (usize, &sealwright_testkit::trace::Call)| {
            named.get(&call.begun).map(|spot| (position, *spot))
        };
        let spots = traced.calls.iter().enumerate().filter_map(spot).collect();
        Self { home, manner, effects, spots }
    }

    /// Where the step before this one is done.
    pub(crate) fn spot_before(&self, step: Step) -> Spot {
        let position = self.effects.iter().position(|effect| effect.step == step).unwrap();
        self.spots[&self.effects[position - 1].call]
    }

    /// The same run with this fault, and how often it was hit.
    fn with(&self, spot: Spot, fault: Fault) -> (Bench, Traced, usize) {
        let bench = Bench::new(self.home.twin(), self.manner);
        let mut spots = Spots::new(&bench.place);
        let mut hits = 0;
        let traced = bench.run(&mut |call, moment| {
            if spots.at(call, moment) == Some(spot) {
                hits += 1;
                return fault.act();
            }
            Act::Go
        });
        (bench, traced, hits)
    }
}

#[test]
fn a_fault_at_any_step_of_a_replaced_file_leaves_the_old_or_the_new_one() {
    fault_at_each_step(HEADER, |_| true);
}

#[test]
fn a_fault_at_any_step_of_a_file_written_in_place_leaves_the_old_or_the_new_one() {
    // Up to the entry it is as for a file that is replaced.
    fault_at_each_step(IN_PLACE, |step| step == Step::SpaceTaken || is_after_entry(step));
}

#[test]
fn a_fault_at_any_step_of_a_signature_file_leaves_none_or_a_whole_one() {
    fault_at_each_step(DETACHED, is_after_entry);
}

fn is_after_entry(step: Step) -> bool {
    let position = |step| effects::LAW.iter().position(|line| line.step == step);
    position(step) > position(Step::EntryDurable)
}

fn fault_at_each_step(manner: Manner, of_interest: fn(Step) -> bool) {
    let recorded = Recorded::new(manner);
    for (line, effect) in effects::lines(manner.way).zip(&recorded.effects) {
        if !of_interest(line.step) {
            continue;
        }
        let spot = recorded.spots[&effect.call];
        for fault in [Fault::Fails, Fault::Killed] {
            judge(&recorded, spot, fault, Some(line));
        }
        if line.actor == Actor::Signer || line.step == Step::SignerAsked {
            judge(&recorded, spot, Fault::SignerKilled, Some(line));
        }
    }
}

/// Minutes: `cargo xtask order --every`. Without the variable a sample of one way shows that it works.
#[test]
fn a_fault_at_any_call_leaves_the_old_or_the_new_file() {
    let every = std::env::var_os(EVERY).is_some();
    let manners = if every { &MANNERS[..] } else { &[HEADER_AND_PAYLOAD][..] };
    for manner in manners {
        let recorded = Recorded::new(*manner);
        let mut positions: Vec<usize> = recorded.spots.keys().copied().collect();
        positions.sort_unstable();
        let mut faults = 0;
        for (number, position) in positions.into_iter().enumerate() {
            let spot = recorded.spots[&position];
            let is_last = recorded.effects.last().is_some_and(|last| position > last.call);
            if spot.object() == Object::Other || is_last || !(every || number % 23 == 0) {
                continue;
            }
            judge(&recorded, spot, Fault::Fails, None);
            judge(&recorded, spot, Fault::Killed, None);
            if spot.actor() == Actor::Signer {
                judge(&recorded, spot, Fault::SignerKilled, None);
            }
            faults += 1;
        }
        println!("{:?}: faults at {faults} calls", manner.way);
        assert!(faults > 0);
    }
}

#[test]
fn an_effect_that_is_late_keeps_all_that_wait_for_it() {
    for manner in MANNERS {
        let recorded = Recorded::new(manner);
        let steps: Vec<Spot> = recorded.effects.iter().map(|effect| recorded.spots[&effect.call]).collect();
        let bench = Bench::new(recorded.home.twin(), manner);
        let mut spots = Spots::new(&bench.place);
        let mut held = 0;
        let traced = bench.run(&mut |call, moment| {
            if spots.at(call, moment).is_some_and(|spot| steps.contains(&spot)) {
                held += 1;
                return Act::Hold(LATE);
            }
            Act::Go
        });
        assert_eq!((traced.ran.code, held), (Some(0), steps.len()), "{}", traced.ran.text());
        assert_eq!(check(&bench.effects(&traced), manner.way), Ok(()), "{manner:?}");
        assert!(bench.is_signed());
    }
}

/// One fault, all rules.
fn judge(recorded: &Recorded, spot: Spot, fault: Fault, line: Option<&Line>) {
    let (bench, traced, hits) = recorded.with(spot, fault);
    let what = format!("{:?} {spot:?} {fault:?} {:?}\n{}", bench.manner.way, line, traced.ran.text());
    if line.is_none() && hits == 0 {
        // Not every run makes every call that is no step: connections to the store are opened as they are needed.
        return;
    }
    assert_eq!(hits, 1, "{what}");
    let killed = fault == Fault::Killed;
    assert_eq!(traced.ran.code.is_none(), killed, "{what}");
    if killed && bench.manner.way == Way::InPlace {
        // What is half written is put back before anything else.
        bench.home.ok(&["strip", "--files-from", "/dev/null"]);
    }
    let state = bench.state();
    if traced.ran.code == Some(0) {
        assert_eq!(state, State::Changed, "a success that is none: {what}");
    } else {
        let said =
            !traced.ran.text().is_empty() || killed || line.is_some_and(|line| line.step == Step::Reported);
        assert!(said && [None, Some(1), Some(3)].contains(&traced.ran.code), "{what}");
        assert!(line.is_none_or(|line| allowed(line, &bench, killed, state)), "left {state:?}: {what}");
    }
    if state == State::Changed {
        assert!(bench.is_signed(), "{what}");
        assert!(bench.entries().iter().all(|entries| *entries == 1), "{what}");
    }
    // A record that cannot be removed stays, with a warning; the next run finds every sector new, and removes it.
    let is_record_kept = spot.object() == Object::Undo && spot.name() == "unlinkat";
    if !killed && !is_record_kept {
        assert_eq!(bench.leftovers(), Vec::<String>::new(), "{what}");
    }
    let next = bench.home.run(&bench.arguments());
    assert_eq!(next.code, Some(0), "the next run: {}\nafter {what}", next.text());
    assert_eq!((bench.state(), bench.is_signed()), (State::Changed, true), "{what}");
    assert_eq!(bench.entries(), vec![1; bench.manner.signatures], "{what}");
    assert_eq!(bench.leftovers(), Vec::<String>::new(), "{what}");
    let _ = bench.home.log_size();
}

fn allowed(line: &Line, bench: &Bench, killed: bool, state: State) -> bool {
    // A file whose sectors are all new when the program dies is left so by the next run.
    let is_settled = killed && bench.manner.way == Way::InPlace && line.step != Step::SignatureWritten;
    match line.leaves {
        Leaves::Old => state == State::Old || (is_settled && is_after_entry(line.step)),
        Leaves::New => state == State::Changed,
        Leaves::OldOrNew => true,
    }
}
