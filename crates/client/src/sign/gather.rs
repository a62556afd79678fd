//! Files that are ready at the same moment are asked for together: one message, one decision, one intent, one line of the
//! log for all of them, and for each its own result. Nobody waits for others to become ready: as long as few groups are
//! on their way, whatever is there goes at once.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use sealwright_proto::limits;
use sealwright_proto::status::Code;
use tokio::sync::oneshot;

use crate::batch::Stop;
use crate::connection::{Answer, Connection, Group, OneFile};
use crate::error::Error;

/// Groups on their way at once. What becomes ready meanwhile goes with the next: so one becomes many when the server, not
/// the reading of files, is what takes time.
const GROUPS_MAX: usize = 4;
/// Items of a group that holds several files: at most, so that the checks and writes of one are done while the server
/// signs the others; and at first.
const ITEMS_MAX: usize = 16;
const ITEMS_FIRST: usize = 8;
/// A group that took so long makes the next ones half as large, down to one file: a token that needs a second for each
/// signature answers a file long before the deadline of a group. One that took less than the other makes them twice as
/// large.
const SLOW: Duration = Duration::from_secs(5);
const QUICK: Duration = Duration::from_secs(1);

/// Files that wait to be asked for, by one key over one connection.
#[derive(Debug)]
pub(crate) struct Gather {
    connection: Connection,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    waiting: VecDeque<Waiting>,
    groups: usize,
    items_max: usize,
}

/// One file. Its answer goes to whoever waits for it.
#[derive(Debug)]
struct Waiting {
    group: Group,
    stop: Stop,
    answer: oneshot::Sender<Result<Answer, Error>>,
}

impl Gather {
    pub(crate) fn new(connection: Connection) -> Arc<Self> {
        let state = State { waiting: VecDeque::new(), groups: 0, items_max: ITEMS_FIRST };
        Arc::new(Self { connection, state: Mutex::new(state) })
    }

    /// Asks for the signatures of one file, with those of others if others wait. A stop ends it as long as no server was
    /// asked.
    ///
    /// # Errors
    /// Those of [`Connection::sign_as`].
    pub(crate) async fn ask(self: &Arc<Self>, group: Group, stop: Stop) -> Result<Answer, Error> {
        let (answer, answered) = oneshot::channel();
        if self.add(Waiting { group, stop, answer }) {
            let this = Arc::clone(self);
            tokio::spawn(async move {
                while let Some(members) = this.next() {
                    this.ask_for(members).await;
                }
            });
        }
        answered.await.map_err(|_| Error::Internal("a group was taken and not asked for"))?
    }

    /// Whether another group can be on its way.
    fn add(&self, waiting: Waiting) -> bool {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.waiting.push_back(waiting);
        let more = state.groups < GROUPS_MAX;
        if more {
            state.groups = state.groups.saturating_add(1);
        }
        more
    }

    /// The next group. That nothing waits and that there is one group less is one step.
    fn next(&self) -> Option<Vec<Waiting>> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let members = state.take();
        if members.is_empty() {
            state.groups = state.groups.saturating_sub(1);
            return None;
        }
        Some(members)
    }

    async fn ask_for(&self, members: Vec<Waiting>) {
        let begun = Instant::now();
        let refused = self.ask_together(members).await;
        // The server refused the group before it signed anything, and one of its files can be why.
        for member in refused {
            drop(self.ask_together(vec![member]).await);
        }
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.learn(begun.elapsed());
    }

    /// Under one request id, so that a retry signs nothing twice. Those that are to be asked for alone come back.
    async fn ask_together(&self, mut members: Vec<Waiting>) -> Vec<Waiting> {
        let Some((group, stop)) = together(&members) else { return Vec::new() };
        let outcome = {
            let mut gone = Box::pin(all_gone(&mut members));
            tokio::select! {
                biased;
                outcome = self.connection.sign_as(uuid::Uuid::now_v7(), &group, Some(&stop)) => outcome,
                // As when a request for one file is given up: the server sees that nobody waits.
                () = &mut gone => return Vec::new(),
            }
        };
        match outcome {
            Ok(answer) => share(answer, members),
            Err(error) if members.len() > 1 && can_be_of_one(&error) => return members,
            Err(error) => tell(error, members),
        }
        Vec::new()
    }
}

impl State {
    /// The first of those that wait, and what fits with it. Who has given up meanwhile is not asked for.
    fn take(&mut self) -> Vec<Waiting> {
        let mut members: Vec<Waiting> = Vec::new();
        let mut items = 0usize;
        while let Some(next) = self.waiting.pop_front() {
            if next.answer.is_closed() {
                continue;
            }
            items = items.saturating_add(next.group.items_len());
            let fits = members.first().is_none_or(|first| items <= self.items_max && next.fits(first));
            if !fits {
                self.waiting.push_front(next);
                break;
            }
            members.push(next);
        }
        members
    }

    fn learn(&mut self, took: Duration) {
        if took > SLOW {
            self.items_max = (self.items_max / 2).max(1);
        } else if took < QUICK {
            self.items_max = self.items_max.saturating_mul(2).min(ITEMS_MAX);
        }
    }
}

impl Waiting {
    fn fits(&self, first: &Self) -> bool {
        let (group, other) = (&self.group, &first.group);
        (group.key == other.key)
            && (group.priority, group.salt) == (other.priority, other.salt)
            && self.stop.is_same(&first.stop)
    }
}

/// One group of all members, in their order.
fn together(members: &[Waiting]) -> Option<(Group, Stop)> {
    let first = members.first()?;
    let mut group = first.group.clone();
    for member in members.iter().skip(1) {
        let Group { name, size, items, .. } = &member.group;
        group.more.push(OneFile { name: name.clone(), size: *size, items: items.clone() });
    }
    Some((group, first.stop.clone()))
}

/// Waits until nobody waits for any of the answers.
async fn all_gone(members: &mut [Waiting]) {
    for member in members {
        member.answer.closed().await;
    }
}

/// To each member its results, and its part of the bytes.
fn share(answer: Answer, members: Vec<Waiting>) {
    let Answer { request_id, items, mut sent_bytes, server } = answer;
    let mut items = items.into_iter();
    let mut left = u64::try_from(members.len()).unwrap_or(u64::MAX);
    for member in members {
        let part = sent_bytes.checked_div(left).unwrap_or(0);
        sent_bytes = sent_bytes.saturating_sub(part);
        left = left.saturating_sub(1);
        let items = items.by_ref().take(member.group.items_len()).collect();
        let answer =
            Answer { request_id: request_id.clone(), items, sent_bytes: part, server: server.clone() };
        // Who has given up meanwhile has its signature in the log, as after any request that was given up.
        let _ = member.answer.send(Ok(answer));
    }
}

/// What failed failed for all.
fn tell(error: Error, members: Vec<Waiting>) {
    let mut members = members.into_iter();
    let first = members.next();
    for member in members {
        let _ = member.answer.send(Err(error.of_another()));
    }
    if let Some(first) = first {
        let _ = first.answer.send(Err(error));
    }
}

/// Whether the server refused the group as a whole, with a reason that one of its items can have brought on the others.
fn can_be_of_one(error: &Error) -> bool {
    let of_item = [
        Code::MalformedRequest,
        Code::LimitExceeded,
        Code::Unsupported,
        Code::UsageNotAllowed,
        Code::TicketRefused,
    ];
    error.server_code().is_some_and(|code| of_item.contains(&code))
}

const _: () = assert!(ITEMS_MAX <= limits::ITEMS_PER_GROUP_MAX && ITEMS_FIRST <= ITEMS_MAX);

#[cfg(test)]
mod tests {
    use sealwright_crypto::algorithm::HashAlgorithm;
    use sealwright_crypto::digest::Hasher;
    use sealwright_crypto::tbs::{Content, ToBeSigned};
    use sealwright_crypto::usage::{Purpose, Usage};
    use sealwright_proto::convert::group::LoggedSignature;
    use sealwright_proto::status::Fault;
    use tokio::sync::watch;

    use crate::connection::Priority;

    use super::*;

    type Answered = oneshot::Receiver<Result<Answer, Error>>;

    fn waiting(name: &str, items: usize, stop: &Stop) -> (Waiting, Answered) {
        let (answer, answered) = oneshot::channel();
        let item = ToBeSigned {
            usage: Usage::OpenPgp,
            purpose: Purpose::RpmHeader,
            content: Content::Midstate(Hasher::new(HashAlgorithm::Sha256).midstate()),
            ticket: None,
        };
        let group = Group {
            key: "release".to_owned(),
            priority: Priority::Interactive,
            name: name.to_owned(),
            size: 1,
            items: vec![item; items],
            more: Vec::new(),
            salt: false,
        };
        (Waiting { group, stop: stop.clone(), answer }, answered)
    }

    fn stop() -> (watch::Sender<u8>, Stop) {
        let (level, receiver) = watch::channel(0);
        (level, Stop::from_level(receiver))
    }

    fn state(waiting: Vec<Waiting>, items_max: usize) -> State {
        State { waiting: waiting.into(), groups: 1, items_max }
    }

    fn names(members: &[Waiting]) -> Vec<&str> {
        members.iter().map(|member| member.group.name.as_str()).collect()
    }

    #[test]
    fn what_waits_goes_together_up_to_the_limit_and_what_is_longer_goes_alone() {
        let (_level, stop) = stop();
        let (waiting, _answered): (Vec<_>, Vec<_>) = [("a", 1), ("b", 2), ("c", 2), ("d", 9), ("e", 1)]
            .map(|(name, items)| waiting(name, items, &stop))
            .into_iter()
            .unzip();
        let mut state = state(waiting, 4);
        let taken: Vec<Vec<String>> = std::iter::from_fn(|| {
            let members = state.take();
            (!members.is_empty()).then(|| names(&members).into_iter().map(str::to_owned).collect())
        })
        .collect();
        assert_eq!(taken, [vec!["a", "b"], vec!["c"], vec!["d"], vec!["e"]]);
    }

    #[test]
    fn another_key_priority_or_stop_begins_another_group_and_what_was_given_up_is_not_asked_for() {
        let ((_first, one), (_second, other)) = (stop(), stop());
        let ((a, _a), (b, gone), (c, _c)) =
            (waiting("a", 1, &one), waiting("b", 1, &one), waiting("c", 1, &one));
        let (mut d, _d) = waiting("d", 1, &one);
        d.group.key = "other".to_owned();
        let ((mut e, _e), (f, _f)) = (waiting("e", 1, &one), waiting("f", 1, &other));
        e.group.priority = Priority::Batch;
        drop(gone);
        let mut state = state(vec![a, b, c, d, e, f], 16);
        for wanted in [vec!["a", "c"], vec!["d"], vec!["e"], vec!["f"]] {
            assert_eq!(names(&state.take()), wanted);
        }
    }

    fn made(log_index: u64) -> Result<LoggedSignature, Error> {
        Ok(LoggedSignature { packet: Vec::new(), log_index, leaf_hash: [0; 32] })
    }

    #[test]
    fn each_file_gets_its_own_results_and_its_part_of_the_bytes() {
        let (_level, stop) = stop();
        let ((a, mut of_a), (b, mut of_b)) = (waiting("a", 1, &stop), waiting("b", 2, &stop));
        let failed = Err(Error::Server(Fault::new(Code::KeyExpired, "x")));
        let items = vec![made(7), failed, made(8)];
        share(Answer { request_id: "id".to_owned(), items, sent_bytes: 101, server: None }, vec![a, b]);
        let (of_a, of_b) = (of_a.try_recv().unwrap().unwrap(), of_b.try_recv().unwrap().unwrap());
        assert_eq!((of_a.sent_bytes, of_b.sent_bytes), (50, 51));
        assert_eq!((of_a.request_id.as_str(), of_b.request_id.as_str()), ("id", "id"));
        assert_eq!(of_a.items[0].as_ref().unwrap().log_index, 7);
        assert_eq!(of_b.items[0].as_ref().unwrap_err().server_code(), Some(Code::KeyExpired));
        assert_eq!(of_b.items[1].as_ref().unwrap().log_index, 8);
    }

    #[test]
    fn what_failed_for_the_group_is_told_to_each_file_in_the_same_words() {
        let (_level, stop) = stop();
        let fault = Fault::new(Code::KeyDisabled, "key release is disabled");
        let errors: [fn(Fault) -> Error; 4] = [
            Error::Server,
            |source| Error::AnswerRefused { source },
            |_| Error::ConnectionLost { source: None },
            |_| Error::Stopped,
        ];
        for error in errors {
            let (members, mut answered): (Vec<_>, Vec<_>) =
                ["a", "b", "c"].map(|name| waiting(name, 1, &stop)).into_iter().unzip();
            tell(error(fault.clone()), members);
            for answered in &mut answered {
                let told = answered.try_recv().unwrap().unwrap_err();
                assert_eq!(told.to_string(), error(fault.clone()).to_string());
                assert_eq!(told.retry(), error(fault.clone()).retry());
            }
        }
    }

    #[test]
    fn groups_become_smaller_where_a_signature_takes_long_and_larger_again_where_it_does_not() {
        let mut state = state(Vec::new(), ITEMS_FIRST);
        state.learn(QUICK);
        assert_eq!(state.items_max, ITEMS_FIRST, "neither quick nor slow");
        for _ in 0..10 {
            state.learn(SLOW + Duration::from_millis(1));
        }
        assert_eq!(state.items_max, 1);
        for _ in 0..10 {
            state.learn(Duration::ZERO);
        }
        assert_eq!(state.items_max, ITEMS_MAX);
    }
}
