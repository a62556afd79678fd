//! The order of effects, as data. [`LAW`] is read from top to bottom; docs/REQUEST.md tells the same in words.
//! [`recognise`] finds the effects in what a run did ([`crate::trace`]) by the bytes that flow: the id of the
//! request, the sealed key, the signature. [`check`] compares: each step is there, none comes before its turn.

mod recognise;

use std::fmt;

use crate::trace::Actor;

pub use recognise::{Facts, Object, Place, recognise};

/// How the result comes to its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// A new file takes the name.
    Replace,
    /// The changed bytes are written into the file.
    InPlace,
    /// The signature lies beside the file.
    Beside,
}

/// Something that a run leaves in the world, or learns from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// The file is locked.
    Locked,
    /// The temporary is made, under a name that nobody has.
    TemporaryMade,
    /// The file is open for writing.
    OpenForWriting,
    /// The temporary has its space; in place, the undo record that is to come.
    SpaceTaken,
    /// The intent is written to the store: it holds the id of the request.
    IntentWritten,
    /// It is on the disk.
    IntentDurable,
    /// The sealed key, and what to sign, is given to the signer.
    SignerAsked,
    /// The signer reserves numbers for its signatures.
    NumbersReserved,
    /// They are on the disk.
    NumbersDurable,
    /// The signature leaves the signer.
    SignerAnswered,
    /// Front has it.
    AnswerTaken,
    /// The log entry, with the hash of the signature, is written to the store.
    EntryWritten,
    /// It is on the disk.
    EntryDurable,
    /// What to undo is written.
    UndoWritten,
    /// It is on the disk.
    UndoDurable,
    /// It has the name under which the next run finds it.
    UndoNamed,
    /// The name is on the disk.
    UndoNameDurable,
    /// What the name stands for is compared with what was read.
    SourceCompared,
    /// The signature is in the temporary, or in the file.
    SignatureWritten,
    /// It looks newer than before.
    TimesSet,
    /// Content and times are on the disk.
    ContentDurable,
    /// The temporary has taken the name.
    Renamed,
    /// The name is on the disk.
    NameDurable,
    /// The signature was read again, by name.
    ReadBack,
    /// The undo record is gone.
    UndoRemoved,
    /// The user is told.
    Reported,
}

/// What a file is if the step fails, or if the program dies at it and the next run has settled it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leaves {
    /// As it was.
    Old,
    /// Signed.
    New,
    /// One of the two.
    OldOrNew,
}

/// One line of the law.
#[derive(Clone, Copy, Debug)]
pub struct Line {
    /// What is done.
    pub step: Step,
    /// By whom.
    pub actor: Actor,
    /// In which of the ways of writing.
    pub ways: &'static [Way],
    /// What the file is if it is not done.
    pub leaves: Leaves,
    /// Why here and not later, or not earlier.
    pub why: &'static str,
}

const ALL: &[Way] = &[Way::Replace, Way::InPlace, Way::Beside];
const BY_RENAME: &[Way] = &[Way::Replace, Way::Beside];
const IN_PLACE: &[Way] = &[Way::InPlace];

/// The law.
#[rustfmt::skip]
pub const LAW: &[Line] = &[
    line(Step::Locked, ALL, Leaves::Old, "two signers never have one file in hand"),
    line(Step::TemporaryMade, BY_RENAME, Leaves::Old, "a directory that cannot be written costs no signature"),
    line(Step::OpenForWriting, IN_PLACE, Leaves::Old, "a file that cannot be written costs no signature"),
    line(Step::SpaceTaken, ALL, Leaves::Old, "a full disk costs no signature"),
    line(Step::IntentWritten, ALL, Leaves::Old, "nothing is signed that nobody knows of"),
    line(Step::IntentDurable, ALL, Leaves::Old, "also after a power cut"),
    line(Step::SignerAsked, ALL, Leaves::Old, "the intent comes first"),
    signer(Step::NumbersReserved, "a signature without a number could be hidden"),
    signer(Step::NumbersDurable, "a number is never given twice, also after a power cut"),
    signer(Step::SignerAnswered, "it leaves with its number, verified"),
    line(Step::AnswerTaken, ALL, Leaves::Old, "the entry is about this signature"),
    line(Step::EntryWritten, ALL, Leaves::Old, "no signature leaves without its entry"),
    line(Step::EntryDurable, ALL, Leaves::Old, "also after a power cut; only now there is a reply"),
    line(Step::UndoWritten, IN_PLACE, Leaves::Old, "what cannot be undone is not begun"),
    line(Step::UndoDurable, IN_PLACE, Leaves::Old, "a half record is no record"),
    line(Step::UndoNamed, IN_PLACE, Leaves::Old, "a record that has its name is whole"),
    line(Step::UndoNameDurable, IN_PLACE, Leaves::Old, "the next run finds it"),
    line(Step::SourceCompared, IN_PLACE, Leaves::Old, "a file that was changed while it was signed is not ours to write"),
    line(Step::SignatureWritten, ALL, Leaves::Old, "only what is logged and verified"),
    line(Step::TimesSet, &[Way::Replace, Way::InPlace], Leaves::Old, "synced with the content"),
    line(Step::ContentDurable, ALL, Leaves::Old, "a name never stands for what is not on the disk"),
    line(Step::SourceCompared, BY_RENAME, Leaves::Old, "a file that was changed while it was signed is not replaced, and gets no signature"),
    line(Step::Renamed, BY_RENAME, Leaves::OldOrNew, "a reader sees the old or the new file"),
    line(Step::NameDurable, BY_RENAME, Leaves::New, "no success before the name lasts"),
    line(Step::ReadBack, ALL, Leaves::New, "no success before the bytes were seen"),
    line(Step::UndoRemoved, IN_PLACE, Leaves::New, "only when the file is on the disk"),
    line(Step::Reported, ALL, Leaves::New, "last: what is said is done"),
];

const fn line(step: Step, ways: &'static [Way], leaves: Leaves, why: &'static str) -> Line {
    Line { step, actor: Actor::Front, ways, leaves, why }
}

const fn signer(step: Step, why: &'static str) -> Line {
    Line { step, actor: Actor::Signer, ways: ALL, leaves: Leaves::Old, why }
}

/// A step that was done, from when to when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Effect {
    /// What.
    pub step: Step,
    /// By whom.
    pub actor: Actor,
    /// Position in time of its first call's begin.
    pub begun: usize,
    /// Position in time at which its last call was over.
    pub ended: usize,
    /// Position of its first call among the calls of the run.
    pub call: usize,
}

/// A breach of the law.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Broken {
    /// This step was due; instead came another, or nothing.
    Due {
        /// The step.
        step: Step,
        /// What came.
        came: Option<Step>,
    },
    /// The first was not over when the second began.
    TooEarly {
        /// The step that had to be over.
        before: Step,
        /// The step that began.
        step: Step,
    },
    /// A step after the last one.
    TooMany {
        /// The step.
        step: Step,
    },
}

impl fmt::Display for Broken {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Due { step, came } => {
                let why = LAW.iter().find(|line| line.step == *step).map_or("", |line| line.why);
                write!(formatter, "{step:?} was due ({why}), and came {came:?}")
            }
            Self::TooEarly { before, step } => write!(formatter, "{step:?} began before {before:?} was over"),
            Self::TooMany { step } => write!(formatter, "{step:?} once more, after all was done"),
        }
    }
}

/// The lines that hold for this way.
pub fn lines(way: Way) -> impl Iterator<Item = &'static Line> {
    LAW.iter().filter(move |line| line.ways.contains(&way))
}

/// Compares what was done with the law.
///
/// # Errors
/// The first breach.
pub fn check(effects: &[Effect], way: Way) -> Result<(), Broken> {
    let mut rest = effects.iter();
    let mut before: Option<&Effect> = None;
    for line in lines(way) {
        let due =
            |came: Option<&Effect>| Broken::Due { step: line.step, came: came.map(|effect| effect.step) };
        let effect = rest.next().ok_or(due(None))?;
        if effect.step != line.step || effect.actor != line.actor {
            return Err(due(Some(effect)));
        }
        if let Some(before) = before {
            // Of what goes from one process to the other, the one is not over when the other begins.
            let over = if before.actor == effect.actor { before.ended } else { before.begun };
            let is_taking = effect.step == Step::AnswerTaken;
            let begins = if is_taking { effect.ended } else { effect.begun };
            if over >= begins {
                return Err(Broken::TooEarly { before: before.step, step: effect.step });
            }
        }
        before = Some(effect);
    }
    rest.next().map_or(Ok(()), |effect| Err(Broken::TooMany { step: effect.step }))
}
