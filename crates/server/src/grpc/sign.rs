//! The streaming call: many groups in flight, answers as they come.
//!
//! Memory is bounded twice: a stream has a number of places, taken before the next message is read, and all
//! streams together have a number of bytes, taken before a message is worked on. What is not read stays with the
//! client (HTTP/2 flow control).

use std::sync::Arc;

use prost::Message as _;
use sealwright_proto::convert::group::Group;
use sealwright_proto::convert::salts::SaltsRequest;
use sealwright_proto::limits::GROUPS_IN_FLIGHT_MAX;
use sealwright_proto::status::{Code, Fault};
use sealwright_proto::v1::signing_server::Signing;
use sealwright_proto::v1::{BeginSaltsRequest, BeginSaltsResponse, SignGroup, SignGroupResult};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};

use crate::policy::Principal;
use crate::{Front, salts, sign};

pub(super) struct Service {
    pub(super) front: Front,
    pub(super) principal: Arc<Principal>,
}

type Answers = mpsc::Sender<Result<SignGroupResult, Status>>;

#[tonic::async_trait]
impl Signing for Service {
    type SignStream = ReceiverStream<Result<SignGroupResult, Status>>;

    async fn sign(
        &self,
        request: Request<Streaming<SignGroup>>,
    ) -> Result<Response<Self::SignStream>, Status> {
        let (answers, stream) = mpsc::channel(GROUPS_IN_FLIGHT_MAX);
        let (front, principal) = (self.front.clone(), Arc::clone(&self.principal));
        tokio::spawn(read_groups(front, principal, request.into_inner(), answers));
        Ok(Response::new(ReceiverStream::new(stream)))
    }

    async fn begin_salts(
        &self,
        request: Request<BeginSaltsRequest>,
    ) -> Result<Response<BeginSaltsResponse>, Status> {
        let asked = SaltsRequest::parse(request.get_ref())?;
        let salts = salts::begin(&self.front.inner, &self.principal, &asked).await?;
        Ok(Response::new(salts.into_wire()))
    }
}

async fn read_groups(
    front: Front,
    principal: Arc<Principal>,
    mut groups: Streaming<SignGroup>,
    answers: Answers,
) {
    let places = Arc::new(Semaphore::new(GROUPS_IN_FLIGHT_MAX));
    while let Ok(place) = Arc::clone(&places).acquire_owned().await {
        let group = match groups.message().await {
            Ok(Some(group)) => group,
            Ok(None) => return,
            Err(status) => {
                // A message over its limit or not decodable ends the stream; the client is told why.
                let _ = answers.send(Err(status)).await;
                return;
            }
        };
        let Ok(bytes) = bytes_in_work(&front, &group).await else { return };
        let (front, principal, answers) = (front.clone(), Arc::clone(&principal), answers.clone());
        // On its own: once begun, a group runs to its end and its answer is stored, even if the client goes away.
        tokio::spawn(async move {
            let answer = answer(&front, &principal, group).await;
            drop(bytes);
            // The place is kept until the client takes its answers: one that does not read is not read from.
            let _ = answers.send(answer).await;
            drop(place);
        });
    }
}

async fn bytes_in_work(front: &Front, group: &SignGroup) -> Result<OwnedSemaphorePermit, Code> {
    let kib = u32::try_from(group.encoded_len().div_ceil(1024)).unwrap_or(u32::MAX);
    let kib = kib.clamp(1, front.inner.request_kib_max);
    Arc::clone(&front.inner.request_kib).acquire_many_owned(kib).await.map_err(|_| Code::ShuttingDown)
}

async fn answer(front: &Front, principal: &Principal, group: SignGroup) -> Result<SignGroupResult, Status> {
    let request_id = group.request_id.clone();
    match Group::parse(group) {
        Ok(group) => Ok(sign::sign(&front.inner, principal, group).await.into_wire()),
        Err(fault) => Ok(refusal(request_id, fault)),
    }
}

/// The refusal of a group that could not be parsed, under the id that it came with, cut to its length.
fn refusal(mut request_id: Vec<u8>, fault: Fault) -> SignGroupResult {
    request_id.truncate(16);
    SignGroupResult { request_id, items: Vec::new(), failure: Some(fault.into()) }
}
