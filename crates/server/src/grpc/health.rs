//! The health service of gRPC: SERVING only while a request would be signed.

use std::time::Duration;

use sealwright_proto::health_v1::health_check_response::ServingStatus;
use sealwright_proto::health_v1::health_server::Health;
use sealwright_proto::health_v1::{HealthCheckRequest, HealthCheckResponse};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status};

use crate::Front;
use crate::authn::Caller;

/// Bytes of a request: the name of a service.
pub(super) const MESSAGE_BYTES_MAX: usize = 1024;

/// How often a watcher looks.
const WATCH_EVERY: Duration = Duration::from_secs(2);

/// What can be asked about; the empty name is the server as a whole. All of them serve, or none does.
const SERVICES: [&str; 3] = ["", "sealwright.v1.Signing", "sealwright.v1.Keys"];

pub(super) struct Service {
    pub(super) front: Front,
}

#[tonic::async_trait]
impl Health for Service {
    type WatchStream = ReceiverStream<Result<HealthCheckResponse, Status>>;

    async fn check(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<HealthCheckResponse>, Status> {
        let caller = Caller::of(&request)?;
        caller.principal()?;
        if !SERVICES.contains(&request.get_ref().service.as_str()) {
            return Err(Status::not_found("a service that is none of this server"));
        }
        Ok(Response::new(response(status(&self.front, &caller).await)))
    }

    async fn watch(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        let caller = Caller::of(&request)?;
        caller.principal()?;
        let (changes, stream) = mpsc::channel(1);
        let is_known = SERVICES.contains(&request.get_ref().service.as_str());
        tokio::spawn(watch(self.front.clone(), caller, is_known, changes));
        Ok(Response::new(ReceiverStream::new(stream)))
    }
}

/// Until the watcher goes away, or the server does.
async fn watch(
    front: Front,
    caller: Caller,
    is_known: bool,
    changes: mpsc::Sender<Result<HealthCheckResponse, Status>>,
) {
    let mut told = None;
    loop {
        let now = if is_known { status(&front, &caller).await } else { ServingStatus::ServiceUnknown };
        if told != Some(now) && changes.send(Ok(response(now))).await.is_err() {
            return;
        }
        told = Some(now);
        if caller.is_draining() {
            return;
        }
        tokio::select! {
            () = changes.closed() => return,
            () = caller.draining() => (),
            () = tokio::time::sleep(WATCH_EVERY) => (),
        }
        if let Err(fault) = caller.principal() {
            let _ = changes.send(Err(fault.into())).await;
            return;
        }
    }
}

async fn status(front: &Front, caller: &Caller) -> ServingStatus {
    if !caller.is_draining() && front.readiness().await.is_ready() {
        ServingStatus::Serving
    } else {
        ServingStatus::NotServing
    }
}

fn response(status: ServingStatus) -> HealthCheckResponse {
    HealthCheckResponse { status: status.into() }
}
