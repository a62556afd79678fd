//! What a run does is what the law says; and the law refuses what is missing or swapped.

use sealwright_testkit::effects::{Broken, Effect, check};
use sealwright_testkit::trace::Act;

use crate::bench::{Bench, MANNERS, Manner, first_home};

fn recorded(manner: Manner) -> Vec<Effect> {
    let bench = Bench::new(first_home(), manner);
    let traced = bench.run(&mut |_, _| Act::Go);
    assert_eq!(traced.ran.code, Some(0), "{}", traced.ran.text());
    assert_eq!(bench.packets().len(), manner.signatures);
    bench.effects(&traced)
}

#[test]
fn every_way_of_signing_keeps_the_order_of_effects() {
    for manner in MANNERS {
        let effects = recorded(manner);
        if let Err(broken) = check(&effects, manner.way) {
            let steps: Vec<String> = effects.iter().map(|effect| format!("{:?}", effect.step)).collect();
            panic!("{manner:?}: {broken}\n{}", steps.join("\n"));
        }
    }
}

/// The test of the test, on what real runs did.
#[test]
fn an_effect_that_is_dropped_and_two_that_are_swapped_are_a_breach() {
    for manner in MANNERS {
        let effects = recorded(manner);
        assert_eq!(check(&effects, manner.way), Ok(()));
        for dropped in 0..effects.len() {
            let mut less = effects.clone();
            let step = less.remove(dropped).step;
            let broken = check(&less, manner.way);
            assert!(
                matches!(broken, Err(Broken::Due { step: due, .. }) if due == step),
                "{step:?}: {broken:?}"
            );
        }
        for first in 0..effects.len() {
            for second in first + 1..effects.len() {
                let mut swapped = effects.clone();
                swapped.swap(first, second);
                assert!(check(&swapped, manner.way).is_err(), "{first} {second}");
                // In order as they began, but the one was not over, or not begun, when the other was.
                let (early, late) = (effects[first], effects[second]);
                let mut slow = effects.clone();
                slow[first] = Effect { begun: late.ended + 1, ended: late.ended + 2, ..early };
                assert!(check(&slow, manner.way).is_err(), "{first} {second}");
            }
        }
    }
}
