//! The way to a server: one connection, one stream of sign groups with many in flight, and the key calls.
//! Whether the server is another machine or a front in this process makes no difference here.

pub(crate) mod chance;
pub mod credentials;
mod keys;
mod lines;
pub mod remote;
mod salts;
mod stream;
pub mod trace;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use prost::Message as _;
use sealwright_crypto::tbs::ToBeSigned;
use sealwright_proto::convert::group::{self, Artefact, GroupResult, LoggedSignature};
use sealwright_proto::limits;
use sealwright_proto::names::{KeyReference, RequestId};
use sealwright_proto::trace::Traceparent;
use sealwright_proto::v1;
use tokio::sync::Semaphore;
use tonic::transport::Channel;

use crate::batch::Stop;
use crate::connection::lines::Lines;
use crate::connection::remote::Remote;
use crate::error::{Code, Error};

pub use sealwright_proto::convert::group::Priority;

pub use crate::connection::keys::{Key, KeyState, NewKey, Token};

/// How often a failure that is not about the way to the server is met with another attempt, and any failure of a front
/// in this process: the same request id each time, so that the server makes each signature once.
const ATTEMPTS_MAX: u32 = 4;
/// Milliseconds by which waits before further attempts are spread; doubled for each further one.
const BACKOFF_MS: u64 = 100;
/// Longest wait that a server can make us take, in milliseconds, and longest spread; who names a longer one is not
/// asked again.
const BACKOFF_MS_MAX: u64 = 5_000;
/// After this no further attempt begins: a signer that hangs, or a server that is away, costs each request one
/// deadline. What a server that is away for so long already costs further requests is one attempt each.
const PATIENCE: Duration = Duration::from_millis(limits::DEADLINE_MS_DEFAULT as u64);
/// What the server's own word about the deadline may take to arrive.
const GRACE: Duration = Duration::from_secs(5);

/// A connection to one server at a time. Cheap to clone; all clones share one stream.
#[derive(Clone, Debug)]
pub struct Connection {
    pub(crate) lines: Arc<Lines>,
    in_flight: Arc<Semaphore>,
}

/// What is asked of the server at once: one policy decision.
#[derive(Clone, Debug)]
pub struct Group {
    /// Name of the key or fingerprint in hexadecimal.
    pub key: String,
    /// Who waits for it.
    pub priority: Priority,
    /// File name without directories, for the log; cut at [`limits::FILE_NAME_BYTES_MAX`].
    pub name: String,
    /// Size of the file in bytes, for the log.
    pub size: u64,
    /// The things to sign, at most [`limits::ITEMS_PER_GROUP_MAX`], with those of [`Self::more`].
    pub items: Vec<ToBeSigned>,
    /// Further files of the same group, whose items come after these.
    pub more: Vec<OneFile>,
    /// Ask for a random salt in each signature, so that two of one second differ.
    pub salt: bool,
}

/// A further file of a group.
#[derive(Clone, Debug)]
pub struct OneFile {
    /// As [`Group::name`].
    pub name: String,
    /// As [`Group::size`].
    pub size: u64,
    /// As [`Group::items`].
    pub items: Vec<ToBeSigned>,
}

impl Group {
    /// Items of all files.
    #[must_use]
    pub fn items_len(&self) -> usize {
        let more = self.more.iter().map(|file| file.items.len());
        more.fold(self.items.len(), usize::saturating_add)
    }
}

/// The answer to a group.
#[derive(Debug)]
pub struct Answer {
    /// UUID of the request as the server's log has it.
    pub request_id: String,
    /// One for each item, in order.
    pub items: Vec<Result<LoggedSignature, Error>>,
    /// Encoded bytes of all messages that were sent for it.
    pub sent_bytes: u64,
    /// The server that answered, for people; none for a front in this process.
    pub server: Option<Arc<str>>,
}

impl Connection {
    /// Over an open channel, as a trace of its own.
    #[must_use]
    pub fn new(channel: Channel) -> Self {
        Self::traced(channel, trace::of_run(None))
    }

    /// Over an open channel.
    #[must_use]
    pub fn traced(channel: Channel, trace: Traceparent) -> Self {
        Self::over(Lines::given(channel, trace))
    }

    /// To any of these servers: the first that serves, and another when it stops doing so. Nothing is connected yet.
    #[must_use]
    pub fn remote(remote: Remote) -> Self {
        Self::remote_traced(remote, trace::of_run(None))
    }

    /// The same as a part of this trace.
    #[must_use]
    pub fn remote_traced(remote: Remote, trace: Traceparent) -> Self {
        Self::over(Lines::remote(remote, trace))
    }

    /// What goes with each call of this connection.
    #[must_use]
    pub fn trace(&self) -> Traceparent {
        self.lines.trace()
    }

    fn over(lines: Lines) -> Self {
        tracing::info!(trace_id = %lines.trace().trace_id, "a run begins");
        Self { lines: Arc::new(lines), in_flight: Arc::new(Semaphore::new(limits::GROUPS_IN_FLIGHT_MAX)) }
    }

    /// The server that is spoken to, for people; none for a front in this process.
    ///
    /// # Errors
    /// No server is reached.
    pub async fn server(&self) -> Result<Option<Arc<str>>, Error> {
        Ok(self.lines.line().await?.server.clone())
    }

    /// Asks for signatures and waits for the answer. Lost connections and failures that a retry can mend are
    /// retried, with the same request id.
    ///
    /// # Errors
    /// The group was refused as a whole, the connection was lost for good, or the answer breaks a rule.
    pub async fn sign(&self, group: &Group) -> Result<Answer, Error> {
        self.sign_unless_stopped(group, None).await
    }

    /// The same; a stop ends it as long as no server was asked. After that there may be a signature, and its answer is
    /// waited for.
    ///
    /// # Errors
    /// Those of [`Self::sign`]; [`Error::Stopped`].
    pub async fn sign_unless_stopped(&self, group: &Group, stop: Option<&Stop>) -> Result<Answer, Error> {
        self.sign_as(uuid::Uuid::now_v7(), group, stop).await
    }

    /// The same under this request id. Asked for again, also by another process, the server answers from its memory: a
    /// signature that was made is not made twice.
    ///
    /// # Errors
    /// Those of [`Self::sign_unless_stopped`].
    pub async fn sign_as(&self, id: uuid::Uuid, group: &Group, stop: Option<&Stop>) -> Result<Answer, Error> {
        let asked = AtomicBool::new(false);
        let stopped = async {
            match stop {
                Some(stop) => stop.asked().await,
                None => std::future::pending().await,
            }
            if asked.load(Ordering::Relaxed) {
                std::future::pending::<()>().await;
            }
        };
        tokio::select! {
            biased;
            answer = self.ask(id, group, &asked) => answer,
            () = stopped => Err(Error::Stopped),
        }
    }

    async fn ask(&self, id: uuid::Uuid, group: &Group, asked: &AtomicBool) -> Result<Answer, Error> {
        let _permit =
            self.in_flight.acquire().await.map_err(|_| Error::Internal("the connection was closed"))?;
        let mut message = to_request(group, id)?.to_wire();
        let len = u64::try_from(message.encoded_len()).unwrap_or(u64::MAX);
        let mut sent_bytes = 0u64;
        let mut attempt = 1;
        let begun = Instant::now();
        loop {
            let left = PATIENCE.saturating_sub(begun.elapsed());
            message.deadline_ms = u32::try_from(left.as_millis()).unwrap_or(u32::MAX).max(1);
            sent_bytes = sent_bytes.saturating_add(len);
            let outcome = self.attempt(&message, id.into_bytes(), left.saturating_add(GRACE), asked).await;
            let outcome = outcome
                .and_then(|(result, server)| results(result, group.items_len()).map(|items| (items, server)));
            let again = match &outcome {
                Ok((items, _)) => retry_of_items(items),
                Err(error) => retry_of(error),
            };
            let again = again.filter(|again| begun.elapsed() < PATIENCE && self.may_repeat(again, attempt));
            // Another server, or one that comes back, is looked for only as long as there is hope.
            match again {
                Some(again) if self.lines.down_for().await < PATIENCE => {
                    tokio::time::sleep(again.wait(attempt)).await;
                    attempt = attempt.saturating_add(1);
                }
                Some(_) | None => {
                    let (items, server) = outcome.map_err(Error::with_time)?;
                    return Ok(Answer { request_id: id.to_string(), items, sent_bytes, server });
                }
            }
        }
    }

    fn may_repeat(&self, again: &Again, attempt: u32) -> bool {
        attempt < ATTEMPTS_MAX || (again.of_the_way && self.lines.is_remote())
    }

    async fn attempt(
        &self,
        message: &v1::SignGroup,
        id: [u8; 16],
        patience: Duration,
        asked: &AtomicBool,
    ) -> Result<(v1::SignGroupResult, Option<Arc<str>>), Error> {
        let begun = Instant::now();
        let found = async {
            let line = self.lines.line().await?;
            let stream = line.stream().await;
            if let Err(error) = &stream {
                self.lines.learn(&line, error).await;
            }
            Ok::<_, Error>((line, stream?))
        };
        let found = tokio::time::timeout(patience, found).await;
        let (line, stream) = found.map_err(|_| stream::no_answer(patience))??;
        let left = patience.saturating_sub(begun.elapsed());
        asked.store(true, Ordering::Relaxed);
        let outcome = stream.ask(message.clone(), id, left).await.and_then(refusal_of_group);
        if let Err(error) = &outcome {
            self.lines.learn(&line, error).await;
        }
        outcome.map(|result| (result, line.server.clone()))
    }
}

/// A group that was refused as a whole.
fn refusal_of_group(result: v1::SignGroupResult) -> Result<v1::SignGroupResult, Error> {
    let stops = result.failure.as_ref().is_some_and(|failure| failure.code == Code::ShuttingDown.number());
    match result.failure {
        Some(failure) if stops => Err(Error::Server(failure.into())),
        Some(_) | None => Ok(result),
    }
}

fn to_request(group: &Group, id: uuid::Uuid) -> Result<group::Group, Error> {
    let (mut artefact, mut artefacts) = (claim(&group.name, group.size), Vec::new());
    let mut items = group.items.clone();
    if !group.more.is_empty() {
        artefacts.resize(items.len(), std::mem::take(&mut artefact));
        for file in &group.more {
            items.extend(file.items.iter().cloned());
            artefacts.resize(items.len(), claim(&file.name, file.size));
        }
    }
    Ok(group::Group {
        request_id: RequestId::parse(id.as_bytes())?,
        key: KeyReference::parse(&group.key)?,
        priority: group.priority,
        deadline_ms: limits::DEADLINE_MS_DEFAULT,
        artefact,
        artefacts,
        items,
        salt: group.salt,
    })
}

fn claim(name: &str, size: u64) -> Artefact {
    let mut name = name.replace(['/', '\0'], "_");
    let mut end = limits::FILE_NAME_BYTES_MAX.min(name.len());
    while !name.is_char_boundary(end) {
        end = end.saturating_sub(1);
    }
    name.truncate(end);
    Artefact { name, size }
}

/// Parses an answer: as many results as there were items, each whole.
fn results(result: v1::SignGroupResult, want: usize) -> Result<Vec<Result<LoggedSignature, Error>>, Error> {
    let answer = GroupResult::parse(result).map_err(|source| Error::AnswerRefused { source })?;
    let items = answer.outcome?;
    if items.len() != want {
        return Err(Error::BadAnswer { what: "another number of results than of items" });
    }
    Ok(items.into_iter().map(|item| item.map_err(Error::Server)).collect())
}

/// That another attempt can help.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Again {
    /// Milliseconds that the server asks to be left alone.
    hint_ms: u64,
    /// The way to the server, or its state as a whole, is what failed; not this request.
    of_the_way: bool,
}

impl Again {
    /// The wait that the server names, and a random one on top: many clients that failed together do not come back
    /// together.
    pub(crate) fn wait(self, attempt: u32) -> Duration {
        let spread = BACKOFF_MS.saturating_mul(1 << attempt.min(10)).min(BACKOFF_MS_MAX);
        Duration::from_millis(self.hint_ms.saturating_add(chance::below(spread.saturating_add(1))))
    }
}

/// Whether, and after what, the group is sent again; `None` if that cannot help.
pub(crate) fn retry_of(error: &Error) -> Option<Again> {
    if let Error::Server(fault) = error {
        let hint_ms = fault.retry_after_ms.map_or(BACKOFF_MS, u64::from);
        let of_the_way = matches!(fault.code, Code::ShuttingDown | Code::SignerGone | Code::Overloaded);
        return (fault.code.is_retryable() && hint_ms <= BACKOFF_MS_MAX)
            .then_some(Again { hint_ms, of_the_way });
    }
    let passes = match error.reach() {
        Some(tried) => tried.iter().any(|tried| tried.why.passes()),
        None => matches!(error, Error::ConnectionLost { .. }),
    };
    passes.then_some(Again { hint_ms: BACKOFF_MS, of_the_way: true })
}

/// A group is sent again if one of its items asks for it: the others come from the server's memory.
fn retry_of_items(items: &[Result<LoggedSignature, Error>]) -> Option<Again> {
    items.iter().filter_map(|item| item.as_ref().err().and_then(retry_of)).max_by_key(|again| again.hint_ms)
}

#[cfg(test)]
mod tests {
    use sealwright_crypto::algorithm::HashAlgorithm;
    use sealwright_crypto::digest::Hasher;
    use sealwright_crypto::tbs::Content;
    use sealwright_crypto::usage::{Purpose, Usage};
    use sealwright_proto::status::Fault;

    use super::*;

    #[test]
    fn a_midstate_group_stays_far_below_four_kilobytes_and_names_are_cut_at_a_character() {
        let item = ToBeSigned {
            usage: Usage::OpenPgp,
            purpose: Purpose::RpmHeader,
            content: Content::Midstate(Hasher::new(HashAlgorithm::Sha512).midstate()),
            ticket: Some(vec![7; 366]),
        };
        let group = Group {
            key: "k".repeat(255),
            priority: Priority::Interactive,
            name: "ä".repeat(300),
            size: u64::MAX,
            items: vec![item.clone(), item],
            more: Vec::new(),
            salt: true,
        };
        let message = to_request(&group, uuid::Uuid::now_v7()).unwrap().to_wire();
        assert!(message.encoded_len() < 2500);
        assert_eq!(message.artefact.unwrap().name.len(), 254);
    }

    #[test]
    fn an_answer_with_missing_or_broken_results_is_refused() {
        let result = |items, failure| {
            let request_id = uuid::Uuid::now_v7().as_bytes().to_vec();
            v1::SignGroupResult { request_id, items, failure }
        };
        assert!(matches!(results(result(Vec::new(), None), 1), Err(Error::BadAnswer { .. })));
        let empty = v1::SignItemResult { outcome: None };
        assert!(matches!(results(result(vec![empty], None), 1), Err(Error::AnswerRefused { .. })));
        let fault = Fault::new(Code::KeyDisabled, "key k is disabled");
        let refused = results(result(Vec::new(), Some(fault.into())), 1).unwrap_err();
        assert_eq!(refused.server_code(), Some(Code::KeyDisabled));
        let long = v1::Signature { packet: vec![0; 9000], log_index: 0, leaf_hash: vec![0; 32] };
        let outcome = Some(v1::sign_item_result::Outcome::Signature(long));
        let parsed = results(result(vec![v1::SignItemResult { outcome }], None), 1);
        assert!(matches!(parsed, Err(Error::AnswerRefused { .. })));
    }

    #[test]
    fn only_failures_that_pass_are_retried() {
        let server = |code| Error::Server(Fault::new(code, "x"));
        let overloaded = retry_of(&Error::Server(Fault::new(Code::Overloaded, "x").retry_after(7))).unwrap();
        assert_eq!(overloaded, Again { hint_ms: 7, of_the_way: true });
        for attempt in 1..40 {
            let wait = overloaded.wait(attempt).as_millis();
            assert!((7..=7 + u128::from(BACKOFF_MS_MAX)).contains(&wait), "{wait}");
        }
        assert!(retry_of(&Error::ConnectionLost { source: None }).is_some());
        assert_eq!(retry_of(&server(Code::KeyDisabled)), None);
        assert_eq!(retry_of(&Error::Locked), None);
    }

    #[test]
    fn who_names_a_long_wait_is_not_asked_again() {
        let gone = |wait_ms| Error::Server(Fault::new(Code::SignerGone, "x").retry_after(wait_ms));
        assert_eq!(retry_of(&gone(5_000)), Some(Again { hint_ms: 5_000, of_the_way: true }));
        assert_eq!(retry_of(&gone(30_000)), None);
        assert_eq!(retry_of(&Error::Server(Fault::new(Code::StoreFull, "x"))), None);
    }
}
