//! One gRPC Sign stream: groups go out as they come, answers find their caller by request id, in any order.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use sealwright_proto::limits;
use sealwright_proto::status::{Code, Fault};
use sealwright_proto::trace::Traceparent;
use sealwright_proto::v1::signing_client::SigningClient;
use sealwright_proto::v1::{SignGroup, SignGroupResult};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio_stream::StreamExt as _;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;
use tonic::transport::Channel;

use crate::connection::trace;
use crate::error::Error;

type RequestId = [u8; 16];

/// An open stream. Dropping it ends both halves: the server sees that nobody waits any more.
#[derive(Debug)]
pub(crate) struct Stream {
    groups: mpsc::Sender<SignGroup>,
    waiting: Arc<Mutex<Waiting>>,
    reader: JoinHandle<()>,
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.reader.abort();
    }
}

#[derive(Debug, Default)]
struct Waiting {
    callers: HashMap<RequestId, oneshot::Sender<SignGroupResult>>,
    ended: Option<Ended>,
}

/// How the stream ended: the server's status, if it gave one.
#[derive(Clone, Debug)]
struct Ended(Option<tonic::Status>);

impl From<Ended> for Error {
    fn from(ended: Ended) -> Self {
        match ended.0 {
            Some(status) => from_status(status),
            None => Self::ConnectionLost { source: None },
        }
    }
}

/// A status with a failure of ours in it is the server's word; anything else is the transport's, or what our side makes
/// of an answer that is none.
pub(crate) fn from_status(status: tonic::Status) -> Error {
    if !status.details().is_empty() {
        return Error::Server(Fault::from(&status));
    }
    // HTTP/2 or the socket failed: whatever status the library has for it.
    if std::error::Error::source(&status).is_some() {
        return Error::ConnectionLost { source: Some(Box::new(status)) };
    }
    match status.code() {
        tonic::Code::Unimplemented => Error::NotSealwright,
        tonic::Code::OutOfRange => Error::BadAnswer { what: "a message above the limit" },
        tonic::Code::Unavailable | tonic::Code::Unknown | tonic::Code::Internal | tonic::Code::Cancelled => {
            Error::ConnectionLost { source: Some(Box::new(status)) }
        }
        tonic::Code::Ok
        | tonic::Code::InvalidArgument
        | tonic::Code::DeadlineExceeded
        | tonic::Code::NotFound
        | tonic::Code::AlreadyExists
        | tonic::Code::PermissionDenied
        | tonic::Code::ResourceExhausted
        | tonic::Code::FailedPrecondition
        | tonic::Code::Aborted
        | tonic::Code::DataLoss
        | tonic::Code::Unauthenticated => Error::Server(Fault::from(&status)),
    }
}

impl Stream {
    pub(crate) async fn open(channel: Channel, trace: Traceparent) -> Result<Self, Error> {
        let (groups, outgoing) = mpsc::channel(limits::GROUPS_IN_FLIGHT_MAX);
        let mut client = SigningClient::new(channel)
            .max_decoding_message_size(limits::GRPC_MESSAGE_BYTES_MAX)
            .max_encoding_message_size(limits::GRPC_MESSAGE_BYTES_MAX);
        let waiting = Arc::new(Mutex::new(Waiting::default()));
        // What its caller has given up meanwhile is not sent any more.
        let wanted = {
            let waiting = Arc::clone(&waiting);
            move |group: &SignGroup| {
                RequestId::try_from(group.request_id.as_slice())
                    .is_ok_and(|id| lock(&waiting).callers.contains_key(&id))
            }
        };
        let outgoing = trace::request(trace, ReceiverStream::new(outgoing).filter(wanted));
        let answers = client.sign(outgoing).await.map_err(from_status)?.into_inner();
        let reader = tokio::spawn(read(answers, Arc::clone(&waiting)));
        Ok(Self { groups, waiting, reader })
    }

    pub(crate) fn is_open(&self) -> bool {
        lock(&self.waiting).ended.is_none() && !self.groups.is_closed()
    }

    /// Waits for the answer, at most `patience`.
    pub(crate) async fn ask(
        &self,
        group: SignGroup,
        id: RequestId,
        patience: Duration,
    ) -> Result<SignGroupResult, Error> {
        let (answer, answered) = oneshot::channel();
        {
            let mut waiting = lock(&self.waiting);
            if let Some(ended) = &waiting.ended {
                return Err(ended.clone().into());
            }
            waiting.callers.insert(id, answer);
        }
        // When the caller gives up, nobody is left to answer.
        let _forget = Forget { waiting: &self.waiting, id };
        let asked = async {
            if self.groups.send(group).await.is_err() {
                return Err(self.end());
            }
            answered.await.map_err(|_| self.end())
        };
        match tokio::time::timeout(patience, asked).await {
            Ok(answer) => answer,
            Err(_) => Err(no_answer(patience)),
        }
    }

    fn end(&self) -> Error {
        lock(&self.waiting).ended.clone().unwrap_or(Ended(None)).into()
    }
}

/// Nothing came in time.
pub(crate) fn no_answer(patience: Duration) -> Error {
    let what = format!("no answer within {} seconds", patience.as_secs().max(1));
    Fault::new(Code::DeadlineExceeded, what).into()
}

struct Forget<'a> {
    waiting: &'a Mutex<Waiting>,
    id: RequestId,
}

impl Drop for Forget<'_> {
    fn drop(&mut self) {
        lock(self.waiting).callers.remove(&self.id);
    }
}

async fn read(mut answers: Streaming<SignGroupResult>, waiting: Arc<Mutex<Waiting>>) {
    let ended = loop {
        match answers.message().await {
            Ok(Some(result)) => deliver(result, &waiting),
            Ok(None) => break Ended(None),
            Err(status) => break Ended(Some(status)),
        }
    };
    let mut waiting = lock(&waiting);
    waiting.ended = Some(ended);
    // Dropping the senders wakes every caller.
    waiting.callers.clear();
}

fn deliver(result: SignGroupResult, waiting: &Mutex<Waiting>) {
    let caller = RequestId::try_from(result.request_id.as_slice())
        .ok()
        .and_then(|id| lock(waiting).callers.remove(&id));
    match caller {
        // The caller may have given up meanwhile.
        Some(caller) => drop(caller.send(result)),
        None => tracing::debug!("an answer that nobody waits for"),
    }
}

/// The table has no state that a panic elsewhere could leave half made.
fn lock(waiting: &Mutex<Waiting>) -> std::sync::MutexGuard<'_, Waiting> {
    waiting.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_with_a_failure_is_the_servers_word_and_one_without_is_not() {
        for code in Code::ALL {
            let error = from_status(Fault::new(*code, "x").into());
            assert_eq!(error.server_code(), Some(*code));
        }
        assert!(matches!(from_status(tonic::Status::unimplemented("")), Error::NotSealwright));
        assert!(matches!(from_status(tonic::Status::out_of_range("x")), Error::BadAnswer { .. }));
        for code in [1, 2, 13, 14] {
            let status = tonic::Status::new(tonic::Code::from_i32(code), "x");
            assert!(matches!(from_status(status), Error::ConnectionLost { .. }), "{code}");
        }
        // Of a proxy between.
        let late = from_status(tonic::Status::deadline_exceeded("x"));
        assert_eq!(late.server_code(), Some(Code::DeadlineExceeded));
    }

    #[test]
    fn what_http_2_fails_with_is_a_lost_connection_whatever_its_status() {
        for reason in [
            h2::Reason::ENHANCE_YOUR_CALM,
            h2::Reason::INADEQUATE_SECURITY,
            h2::Reason::REFUSED_STREAM,
            h2::Reason::PROTOCOL_ERROR,
        ] {
            let status = tonic::Status::from_error(Box::new(h2::Error::from(reason)));
            assert!(matches!(from_status(status), Error::ConnectionLost { .. }), "{reason:?}");
        }
    }
}
