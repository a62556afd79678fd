//! The way to a server: one connection, one stream of sign groups with many in flight, and the key calls.
//! Whether the server is another machine or a front in this process makes no difference here.

mod keys;
mod salts;
mod stream;

use std::sync::Arc;
use std::time::{Duration, Instant};

use prost::Message as _;
use sealwright_crypto::tbs::ToBeSigned;
use sealwright_proto::convert::group::{self, Artefact, GroupResult, LoggedSignature};
use sealwright_proto::limits;
use sealwright_proto::names::{KeyReference, RequestId};
use sealwright_proto::v1;
use tokio::sync::{Mutex, Semaphore};
use tonic::transport::Channel;

use crate::connection::stream::Stream;
use crate::error::Error;

pub use sealwright_proto::convert::group::Priority;

pub use crate::connection::keys::{Key, KeyState, NewKey};

/// How often one group is sent before its failure is reported: the same request id each time, so that the
/// server makes each signature once.
const ATTEMPTS_MAX: u32 = 4;
/// Milliseconds before the second attempt when the server names no wait; doubled for each further one.
const BACKOFF_MS: u64 = 100;
/// Longest wait that a server can make us take, in milliseconds; who names a longer one is not asked again.
const BACKOFF_MS_MAX: u64 = 5_000;
/// After this no further attempt begins: a signer that hangs costs each request one deadline, not several.
const PATIENCE: Duration = Duration::from_millis(limits::DEADLINE_MS_DEFAULT as u64);

/// A connection to one server. Cheap to clone; all clones share one stream.
#[derive(Clone, Debug)]
pub struct Connection {
    pub(crate) channel: Channel,
    stream: Arc<Mutex<Option<Arc<Stream>>>>,
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
    /// The things to sign, at most [`limits::ITEMS_PER_GROUP_MAX`].
    pub items: Vec<ToBeSigned>,
    /// Ask for a random salt in each signature, so that two of one second differ.
    pub salt: bool,
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
}

impl Connection {
    /// Over an open channel.
    #[must_use]
    pub fn new(channel: Channel) -> Self {
        let in_flight = Arc::new(Semaphore::new(limits::GROUPS_IN_FLIGHT_MAX));
        Self { channel, stream: Arc::default(), in_flight }
    }

    /// Asks for signatures and waits for the answer. Lost connections and failures that a retry can mend are
    /// retried, with the same request id.
    ///
    /// # Errors
    /// The group was refused as a whole, the connection was lost for good, or the answer breaks a rule.
    pub async fn sign(&self, group: &Group) -> Result<Answer, Error> {
        let _permit =
            self.in_flight.acquire().await.map_err(|_| Error::Internal("the connection was closed"))?;
        let id = uuid::Uuid::now_v7();
        let request = to_request(group, id)?;
        let message = request.to_wire();
        let len = u64::try_from(message.encoded_len()).unwrap_or(u64::MAX);
        let mut sent_bytes = 0u64;
        let mut attempt = 1;
        let begun = Instant::now();
        loop {
            sent_bytes = sent_bytes.saturating_add(len);
            let outcome = self.attempt(&message, id.into_bytes()).await;
            let outcome = outcome.and_then(|result| results(result, group.items.len()));
            let wait_ms = match &outcome {
                Ok(items) => retry_of_items(items),
                Err(error) => retry_of(error),
            };
            match (outcome, wait_ms) {
                (Err(_) | Ok(_), Some(wait_ms)) if attempt < ATTEMPTS_MAX && begun.elapsed() < PATIENCE => {
                    let backoff = BACKOFF_MS.saturating_mul(1 << attempt.min(10));
                    let wait = wait_ms.max(backoff).min(BACKOFF_MS_MAX);
                    tokio::time::sleep(Duration::from_millis(wait)).await;
                    attempt = attempt.saturating_add(1);
                }
                (Ok(items), _) => return Ok(Answer { request_id: id.to_string(), items, sent_bytes }),
                (Err(error), _) => return Err(error),
            }
        }
    }

    async fn attempt(&self, message: &v1::SignGroup, id: [u8; 16]) -> Result<v1::SignGroupResult, Error> {
        let stream = {
            let mut current = self.stream.lock().await;
            match current.as_ref().filter(|stream| stream.is_open()) {
                Some(stream) => Arc::clone(stream),
                None => {
                    let stream = Arc::new(Stream::open(self.channel.clone()).await?);
                    *current = Some(Arc::clone(&stream));
                    stream
                }
            }
        };
        stream.ask(message.clone(), id).await
    }
}

fn to_request(group: &Group, id: uuid::Uuid) -> Result<group::Group, Error> {
    let mut name = group.name.replace(['/', '\0'], "_");
    let mut end = limits::FILE_NAME_BYTES_MAX.min(name.len());
    while !name.is_char_boundary(end) {
        end = end.saturating_sub(1);
    }
    name.truncate(end);
    Ok(group::Group {
        request_id: RequestId::parse(id.as_bytes())?,
        key: KeyReference::parse(&group.key)?,
        priority: group.priority,
        deadline_ms: limits::DEADLINE_MS_DEFAULT,
        artefact: Artefact { name, size: group.size },
        items: group.items.clone(),
        salt: group.salt,
    })
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

/// Milliseconds to wait before the group is sent again; `None` if that cannot help.
fn retry_of(error: &Error) -> Option<u64> {
    if let Error::Server(fault) = error {
        let wait = fault.retry_after_ms.map_or(BACKOFF_MS, u64::from);
        return (fault.code.is_retryable() && wait <= BACKOFF_MS_MAX).then_some(wait);
    }
    matches!(error, Error::ConnectionLost { .. }).then_some(BACKOFF_MS)
}

/// A group is sent again if one of its items asks for it: the others come from the server's memory.
fn retry_of_items(items: &[Result<LoggedSignature, Error>]) -> Option<u64> {
    items.iter().filter_map(|item| item.as_ref().err().and_then(retry_of)).max()
}

#[cfg(test)]
mod tests {
    use sealwright_crypto::algorithm::HashAlgorithm;
    use sealwright_crypto::digest::Hasher;
    use sealwright_crypto::tbs::Content;
    use sealwright_crypto::usage::{Purpose, Usage};
    use sealwright_proto::status::{Code, Fault};

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
        assert_eq!(retry_of(&Error::Server(Fault::new(Code::Overloaded, "x").retry_after(7))), Some(7));
        assert!(retry_of(&Error::ConnectionLost { source: None }).is_some());
        assert_eq!(retry_of(&server(Code::KeyDisabled)), None);
        assert_eq!(retry_of(&Error::Locked), None);
    }

    #[test]
    fn who_names_a_long_wait_is_not_asked_again() {
        let gone = |wait_ms| Error::Server(Fault::new(Code::SignerGone, "x").retry_after(wait_ms));
        assert_eq!(retry_of(&gone(5_000)), Some(5_000));
        assert_eq!(retry_of(&gone(30_000)), None);
        assert_eq!(retry_of(&Error::Server(Fault::new(Code::StoreFull, "x"))), None);
    }
}
