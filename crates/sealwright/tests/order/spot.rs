//! One call among all of a run, named so that the same call is found in another run of the same kind, whichever
//! thread makes it: which process, which call, about what, before or after the signer was asked, and the how-manieth.

use std::collections::HashMap;

use sealwright_testkit::effects::{Object, Place};
use sealwright_testkit::trace::{Actor, Call, Moment};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Kind {
    actor: Actor,
    name: &'static str,
    object: Object,
    asked: bool,
}

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Spot {
    kind: Kind,
    number: usize,
}

impl Spot {
    pub(crate) const fn object(&self) -> Object {
        self.kind.object
    }

    pub(crate) const fn name(&self) -> &'static str {
        self.kind.name
    }

    pub(crate) const fn actor(&self) -> Actor {
        self.kind.actor
    }
}

/// Names the calls of one run.
pub(crate) struct Spots<'a> {
    place: &'a Place,
    asked: bool,
    counts: HashMap<Kind, usize>,
}

impl<'a> Spots<'a> {
    pub(crate) fn new(place: &'a Place) -> Self {
        Self { place, asked: false, counts: HashMap::new() }
    }

    /// Each call has its name at one moment: what is read exists only after, everything else is named before.
    pub(crate) fn at(&mut self, call: &Call, moment: Moment) -> Option<Spot> {
        let due = match moment {
            Moment::Before => !call.is_read(),
            Moment::After => call.is_read() && call.result > 0,
        };
        if !due {
            return None;
        }
        let object = self.place.object(call);
        let kind = Kind { actor: call.actor, name: call.name, object, asked: self.asked };
        let count = self.counts.entry(kind).or_default();
        *count += 1;
        let is_question =
            call.actor == Actor::Front && object == Object::Socket && call.has(&self.place.sealed);
        self.asked |= is_question && call.is_write();
        Some(Spot { kind, number: *count })
    }
}
