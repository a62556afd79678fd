//! The streaming call: many groups in flight, answers as they come.
//!
//! Memory is bounded twice: a stream and a connection have a number of places, taken before the next message is
//! read, and all streams together have a number of bytes, taken before a message is worked on. What is not read
//! stays with the client (HTTP/2 flow control); what was read and finds no room for longer than a moment is refused
//! with a time to come again.

use std::sync::Arc;
use std::time::Duration;

use prost::Message as _;
use sealwright_proto::convert::group::{Group, GroupResult};
use sealwright_proto::convert::salts::SaltsRequest;
use sealwright_proto::limits::GROUPS_IN_FLIGHT_MAX;
use sealwright_proto::status::{Code, Fault};
use sealwright_proto::trace::TraceId;
use sealwright_proto::v1::signing_server::Signing;
use sealwright_proto::v1::{BeginSaltsRequest, BeginSaltsResponse, SignGroup, SignGroupResult};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};
use tracing::Instrument as _;

use crate::authn::Caller;
use crate::sign::{Course, Gone, turned_away};
use crate::{Front, salts, sign};

/// How long a group that was read waits for room, before it is refused.
const MOMENT: Duration = Duration::from_secs(1);

/// When it is told to come again, in milliseconds: about as long as a full queue takes with slow keys.
const COME_AGAIN_MS: u32 = 2_000;

/// Places of one stream, as the semaphore counts.
const PLACES: u32 = 256;

pub(super) struct Service {
    pub(super) front: Front,
}

/// What goes back to the client.
type Answers = mpsc::Sender<Result<SignGroupResult, Status>>;

#[tonic::async_trait]
impl Signing for Service {
    type SignStream = ReceiverStream<Result<SignGroupResult, Status>>;

    async fn sign(
        &self,
        request: Request<Streaming<SignGroup>>,
    ) -> Result<Response<Self::SignStream>, Status> {
        let caller = Caller::of(&request)?;
        let (span, trace_id) = super::span("sign", &caller, request.metadata());
        // Each group asks again; who may nothing is told at once.
        let may_begin = if caller.is_draining() { Err(stopping()) } else { caller.principal() };
        if let Err(fault) = may_begin {
            span.in_scope(|| turned_away(&self.front.inner, &fault));
            return Err(fault.into());
        }
        let (answers, stream) = mpsc::channel(GROUPS_IN_FLIGHT_MAX);
        let places = Arc::new(Semaphore::new(GROUPS_IN_FLIGHT_MAX));
        let stream_of_groups = Groups { front: self.front.clone(), caller, places, answers, trace_id };
        tokio::spawn(stream_of_groups.run(request.into_inner()).instrument(span));
        Ok(Response::new(ReceiverStream::new(stream)))
    }

    async fn begin_salts(
        &self,
        request: Request<BeginSaltsRequest>,
    ) -> Result<Response<BeginSaltsResponse>, Status> {
        let caller = Caller::of(&request)?;
        let (span, _) = super::span("begin-salts", &caller, request.metadata());
        let begun = async {
            if caller.is_draining() {
                return Err(stopping());
            }
            let principal = caller.principal()?;
            let asked = SaltsRequest::parse(request.get_ref())?;
            salts::begin(&self.front.inner, &principal, &asked).await
        };
        let begun = begun.instrument(span.clone()).await;
        let fault = match begun {
            Ok(salts) => return Ok(Response::new(salts.into_wire())),
            Err(fault) => fault,
        };
        span.in_scope(|| turned_away(&self.front.inner, &fault));
        Err(caller.reads(fault).into())
    }
}

/// One stream.
struct Groups {
    front: Front,
    caller: Caller,
    places: Arc<Semaphore>,
    answers: Answers,
    trace_id: Option<TraceId>,
}

/// Held while a group is in flight: places of its stream and of its connection.
type Place = (OwnedSemaphorePermit, OwnedSemaphorePermit);

impl Groups {
    async fn run(self, mut groups: Streaming<SignGroup>) {
        while let Some(place) = self.place().await {
            let group = tokio::select! {
                biased;
                () = self.answers.closed() => return,
                group = groups.message() => group,
                () = self.finished() => {
                    // Groups that are on their way get this instead of an answer, and are sent again elsewhere.
                    let _ = self.answers.send(Err(stopping().into())).await;
                    return;
                }
            };
            match group {
                Ok(Some(group)) => self.begin(group, place).await,
                Ok(None) => return,
                Err(status) => {
                    // A message over its limit or not decodable ends the stream; the client is told why.
                    let _ = self.answers.send(Err(status)).await;
                    return;
                }
            }
        }
    }

    async fn place(&self) -> Option<Place> {
        let of_stream = Arc::clone(&self.places).acquire_owned().await.ok()?;
        let of_connection = tokio::select! {
            () = self.answers.closed() => return None,
            place = self.caller.places().acquire_owned() => place.ok()?,
        };
        Some((of_stream, of_connection))
    }

    /// Waits until the server is stopping and all groups of this stream but the one that was not read are answered.
    async fn finished(&self) {
        self.caller.draining().await;
        // Never closed, so this is the wait for the last answer.
        let _ = self.places.acquire_many(PLACES.saturating_sub(1)).await;
    }

    async fn begin(&self, group: SignGroup, place: Place) {
        let course = Course::new(self.trace_id);
        if self.caller.is_draining() {
            return self.refuse(group.request_id, stopping()).await;
        }
        let bytes = match bytes_in_work(&self.front, &group).await {
            Ok(bytes) => bytes,
            Err(fault) => return self.refuse(group.request_id, fault).await,
        };
        let (front, caller, answers) = (self.front.clone(), self.caller.clone(), self.answers.clone());
        // On its own: once recorded, a group runs to its end and its answer is stored, even if the client goes away.
        tokio::spawn(
            async move {
                let answer = answer(&front, &caller, group, &Gone::new(answers.clone()), &course).await;
                drop(bytes);
                // The place is kept until the client takes its answers: one that does not read is not read from.
                let _ = answers.send(Ok(answer)).await;
                drop(place);
            }
            .instrument(tracing::Span::current()),
        );
    }

    async fn refuse(&self, request_id: Vec<u8>, fault: Fault) {
        turned_away(&self.front.inner, &fault);
        let _ = self.answers.send(Ok(refusal(request_id, fault))).await;
    }
}

async fn bytes_in_work(front: &Front, group: &SignGroup) -> Result<OwnedSemaphorePermit, Fault> {
    let kib = u32::try_from(group.encoded_len().div_ceil(1024)).unwrap_or(u32::MAX);
    let kib = kib.clamp(1, front.inner.request_kib_max);
    let room = Arc::clone(&front.inner.request_kib).acquire_many_owned(kib);
    match tokio::time::timeout(MOMENT, room).await {
        Ok(Ok(room)) => Ok(room),
        Ok(Err(_)) => Err(stopping()),
        Err(_) => Err(overloaded("there is no room for more requests")),
    }
}

async fn answer<T>(
    front: &Front,
    caller: &Caller,
    group: SignGroup,
    gone: &Gone<T>,
    course: &Course,
) -> SignGroupResult {
    let request_id = group.request_id.clone();
    let parsed = Group::parse(group).and_then(|group| Ok((caller.principal()?, group)));
    match parsed {
        Ok((principal, group)) => {
            let signed = sign::sign(&front.inner, &principal, group, gone, course).await;
            readable(signed, caller).into_wire()
        }
        Err(fault) => {
            turned_away(&front.inner, &fault);
            refusal(request_id, fault)
        }
    }
}

fn readable(result: GroupResult, caller: &Caller) -> GroupResult {
    let reads = |fault| caller.reads(fault);
    let GroupResult { request_id, outcome } = result;
    let outcome = outcome.map_err(reads);
    let outcome = outcome.map(|items| items.into_iter().map(|item| item.map_err(reads)).collect());
    GroupResult { request_id, outcome }
}

/// The refusal of a group that could not be parsed, under the id that it came with, cut to its length.
fn refusal(mut request_id: Vec<u8>, fault: Fault) -> SignGroupResult {
    request_id.truncate(16);
    SignGroupResult { request_id, items: Vec::new(), failure: Some(fault.into()) }
}

fn stopping() -> Fault {
    Fault::new(Code::ShuttingDown, "the server is stopping")
}

/// Early: the client knows within a moment that it has to come again.
fn overloaded(what: &str) -> Fault {
    Fault::new(Code::Overloaded, what).retry_after(COME_AGAIN_MS)
}
