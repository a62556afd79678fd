//! What was seen: counted all of it, and a line of each kind now and then. Neither digests, nor project keys, nor what a
//! reply holds are in a line: the command, the user, the kind of difference, and the text of our refusal.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use sealwright_obs::Verb;
use sealwright_obs::compare::Difference;
use serde::Serialize;

use crate::terminal;

/// Between two lines of one kind.
const LINE_EVERY: Duration = Duration::from_secs(60);
/// Bytes of a name or a text in a line: both come from outside.
const TEXT_BYTES_MAX: usize = 256;

/// What became of one connection.
pub(super) enum Outcome {
    /// Both said the same.
    Same,
    Different(Different),
    NotAsked(NotAsked),
    /// Ours was not reached, or did not answer.
    OursLost(String),
    /// signd was not reached, or broke off: the client saw that.
    SigndLost(String),
    /// It did not wait for its answer.
    ClientGone,
    /// `--allow` does not have it.
    Stranger(IpAddr),
}

/// A difference, and in which request.
pub(super) struct Different {
    pub(super) difference: Difference,
    pub(super) verb: Verb,
    /// As it came; empty if the request could not be read.
    pub(super) user: String,
    /// The text of our reply.
    pub(super) said: String,
}

/// Why ours was not asked.
pub(super) enum NotAsked {
    /// It has effects, or another answer each time.
    Command(Verb),
    /// No whole request came.
    Incomplete,
    /// More bytes than a request has here.
    TooLong,
    /// Ours has too many to answer.
    Busy,
}

impl NotAsked {
    const fn name(&self) -> &'static str {
        match self {
            Self::Command(verb) => verb.name(),
            Self::Incomplete => "incomplete",
            Self::TooLong => "too-long",
            Self::Busy => "busy",
        }
    }
}

/// Where outcomes go.
pub(super) struct Watch {
    json: bool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    counts: Counts,
    lines: BTreeMap<&'static str, Line>,
}

/// The summary, since the start.
#[derive(Clone, Default, Serialize)]
struct Counts {
    requests: u64,
    same: u64,
    different: BTreeMap<&'static str, u64>,
    not_asked: BTreeMap<&'static str, u64>,
    ours_lost: u64,
    signd_lost: u64,
    client_gone: u64,
    strangers: u64,
}

/// The last line of a kind.
struct Line {
    at: Instant,
    /// Of the same kind since then, without a line.
    more: u64,
}

/// One line.
#[derive(Serialize)]
struct View {
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    command: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    user: Option<String>,
    #[serde(skip_serializing_if = "String::is_empty")]
    why: String,
    /// Of this kind without a line since the last one.
    unsaid: u64,
}

impl Watch {
    pub(super) fn new(json: bool) -> Self {
        Self { json, state: Mutex::default() }
    }

    /// The first line: clients can ask from now on.
    pub(super) fn listens(&self, address: SocketAddr) {
        if self.json {
            terminal::json(&serde_json::json!({ "status": "listening", "address": address.to_string() }));
        } else {
            terminal::out(&format!("listening on {address}"));
        }
    }

    pub(super) fn take(&self, outcome: Outcome) {
        let line = self.lock().take(outcome, Instant::now());
        match line {
            Some(view) if self.json => terminal::json(&view),
            Some(view) => terminal::out(&view.text()),
            None => {}
        }
    }

    /// All counts since the start.
    pub(super) fn summary(&self) {
        let counts = self.lock().counts.clone();
        if self.json {
            terminal::json(&Summary { status: "summary", counts });
        } else {
            terminal::out(&counts.text());
        }
    }

    /// Numbers are right whoever panicked.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Counts it, and gives the line that is due for it.
    fn take(&mut self, outcome: Outcome, now: Instant) -> Option<View> {
        self.counts.add(&outcome);
        let mut view = View::of(outcome)?;
        let key = view.kind.unwrap_or(view.status);
        if let Some(last) = self.lines.get_mut(key) {
            if now.saturating_duration_since(last.at) < LINE_EVERY {
                last.more = last.more.saturating_add(1);
                return None;
            }
            view.unsaid = last.more;
        }
        self.lines.insert(key, Line { at: now, more: 0 });
        Some(view)
    }
}

#[derive(Serialize)]
struct Summary {
    status: &'static str,
    #[serde(flatten)]
    counts: Counts,
}

impl Counts {
    fn add(&mut self, outcome: &Outcome) {
        let count = match outcome {
            Outcome::Same => &mut self.same,
            Outcome::Different(different) => self.different.entry(different.difference.name()).or_default(),
            Outcome::NotAsked(why) => self.not_asked.entry(why.name()).or_default(),
            Outcome::OursLost(_) => &mut self.ours_lost,
            Outcome::SigndLost(_) => &mut self.signd_lost,
            Outcome::ClientGone => &mut self.client_gone,
            Outcome::Stranger(_) => &mut self.strangers,
        };
        *count = count.saturating_add(1);
        self.requests = self.requests.saturating_add(1);
    }

    fn text(&self) -> String {
        let group = |name: &str, counts: &BTreeMap<&'static str, u64>| {
            let sum = counts.values().fold(0, |sum: u64, count| sum.saturating_add(*count));
            let each: Vec<String> = counts.iter().map(|(name, count)| format!("{name} {count}")).collect();
            if each.is_empty() {
                format!("{sum} {name}")
            } else {
                format!("{sum} {name} ({})", each.join(", "))
            }
        };
        let Self { requests, same, ours_lost, signd_lost, client_gone, strangers, .. } = self;
        format!(
            "{requests} requests: {same} same, {}, {}, {ours_lost} without ours, {signd_lost} without signd, \
             {client_gone} not waited for, {strangers} from strangers",
            group("different", &self.different),
            group("not asked", &self.not_asked),
        )
    }
}

impl View {
    fn of(outcome: Outcome) -> Option<Self> {
        let bare = |status, why: &str| Self {
            status,
            kind: None,
            command: None,
            user: None,
            why: short(why),
            unsaid: 0,
        };
        match outcome {
            Outcome::Same | Outcome::NotAsked(_) | Outcome::ClientGone => None,
            Outcome::Different(Different { difference, verb, user, said }) => Some(Self {
                kind: Some(difference.name()),
                command: Some(verb.name()),
                user: Some(short(&user)),
                ..bare("different", &said)
            }),
            Outcome::OursLost(why) => Some(bare("ours-lost", &why)),
            Outcome::SigndLost(why) => Some(bare("signd-lost", &why)),
            Outcome::Stranger(address) => Some(bare("stranger", &address.to_string())),
        }
    }

    fn text(&self) -> String {
        let Self { status, why, unsaid, .. } = self;
        let mut text = (*status).to_owned();
        for part in [self.kind, self.command, self.user.as_deref(), Some(why)].into_iter().flatten() {
            if !part.is_empty() {
                text.push_str(": ");
                text.push_str(&terminal::safe(part));
            }
        }
        if *unsaid > 0 {
            text.push_str(&format!(" (and {unsaid} more since the last such line)"));
        }
        text
    }
}

/// One line of a bounded length.
fn short(text: &str) -> String {
    let text = text.trim_end();
    match text.get(..text.floor_char_boundary(TEXT_BYTES_MAX)) {
        Some(kept) if kept.len() < text.len() => format!("{kept}..."),
        Some(_) | None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn different(difference: Difference) -> Outcome {
        let (user, said) = ("alice#\u{1b}[2Jproj@copr.example.org".to_owned(), "no grant\n".to_owned());
        Outcome::Different(Different { difference, verb: Verb::Sign, user, said })
    }

    #[test]
    fn every_outcome_is_counted_once_and_a_summary_names_what_differs() {
        let mut counts = Counts::default();
        for outcome in [
            Outcome::Same,
            Outcome::Same,
            different(Difference::PublicKey),
            different(Difference::SecondRefused),
            different(Difference::SecondRefused),
            Outcome::NotAsked(NotAsked::Command(Verb::Keygen)),
            Outcome::OursLost("x".to_owned()),
            Outcome::SigndLost("x".to_owned()),
            Outcome::ClientGone,
            Outcome::Stranger([192, 0, 2, 7].into()),
        ] {
            counts.add(&outcome);
        }
        assert_eq!(
            counts.text(),
            "10 requests: 2 same, 3 different (ours-refused 2, public-key 1), 1 not asked (keygen 1), \
             1 without ours, 1 without signd, 1 not waited for, 1 from strangers"
        );
    }

    #[test]
    fn a_line_says_command_user_and_kind_and_nothing_that_a_terminal_obeys() {
        let view = View::of(different(Difference::SecondRefused)).unwrap();
        assert_eq!(
            view.text(),
            "different: ours-refused: sign: alice#\\u{1b}[2Jproj@copr.example.org: no grant"
        );
        let long = Outcome::Different(Different {
            difference: Difference::Text,
            verb: Verb::Pubkey,
            user: "u".repeat(5_000),
            said: "s".repeat(5_000),
        });
        assert!(View::of(long).unwrap().text().len() < 600);
        assert!(View::of(Outcome::Same).is_none());
    }

    #[test]
    fn of_one_kind_there_is_one_line_a_minute_and_the_rest_is_counted() {
        let (mut state, begun) = (State::default(), Instant::now());
        let mut at = |seconds: u64, difference| {
            let now = begun.checked_add(Duration::from_secs(seconds)).unwrap();
            state.take(different(difference), now).map(|view| view.unsaid)
        };
        assert_eq!(at(0, Difference::Probe), Some(0));
        assert_eq!([1, 2, 59].map(|seconds| at(seconds, Difference::Probe)), [None; 3]);
        assert_eq!(at(59, Difference::PublicKey), Some(0), "another kind");
        assert_eq!(at(60, Difference::Probe), Some(3));
        assert_eq!(at(61, Difference::Probe), None);
        assert_eq!(state.counts.different["probe"], 6);
    }
}
