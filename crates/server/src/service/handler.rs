//! From HTTP/2 to the services: says who asks, refuses who may nothing before anything of a request is read, keeps
//! count of what is open, and gives each failure a code.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use sealwright_proto::status::Fault;
use sealwright_proto::trace::TraceId;
use tonic::service::Routes;
use tower::Service as _;

use super::activity::{Activity, Open};
use super::arrivals::{Arriving, Budget};
use super::typed::make_typed;
use crate::authn::Caller;
use crate::sign::turned_away_of;
use crate::{Front, grpc};

/// Of the path of a call, in lines and answers; ours are shorter.
const PATH_CHARS_MAX: usize = 128;

/// Of one connection.
#[derive(Clone)]
pub(super) struct Handler {
    front: Front,
    routes: Routes,
    caller: Caller,
    activity: Arc<Activity>,
    budget: Budget,
}

impl Handler {
    pub(super) const fn new(
        front: Front,
        routes: Routes,
        caller: Caller,
        activity: Arc<Activity>,
        budget: Budget,
    ) -> Self {
        Self { front, routes, caller, activity, budget }
    }
}

impl hyper::service::Service<Request<Incoming>> for Handler {
    type Response = Response<Answer>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        self.budget.request();
        let call = Call::new(self, &request);
        if let Err(fault) = self.caller.principal() {
            let fault = self.caller.reads(fault);
            call.refused(&fault);
            let refused = tonic::Status::from(fault).into_http();
            return Box::pin(async move { Ok(refused.map(|body| Answer { body, call })) });
        }
        let taken = Arc::clone(&self.front.inner.metrics.request_bytes);
        let mut request = request.map(|body| Arriving::new(body, self.budget.clone(), taken));
        request.extensions_mut().insert(self.caller.clone());
        // Routes are always ready, and a clone shares them.
        let answer = self.routes.clone().call(request);
        Box::pin(async move {
            let mut answer = answer.await?;
            call.make_typed(answer.headers_mut());
            Ok(answer.map(|body| Answer { body, call }))
        })
    }
}

/// A call, for what is said about it. While it lasts, its request is open.
struct Call {
    front: Front,
    caller: Caller,
    path: String,
    trace_id: Option<TraceId>,
    _open: Open,
}

impl Call {
    fn new(handler: &Handler, request: &Request<Incoming>) -> Self {
        Self {
            front: handler.front.clone(),
            caller: handler.caller.clone(),
            path: path(request),
            trace_id: grpc::trace_id(request.headers()),
            _open: handler.activity.open(),
        }
    }

    fn make_typed(&self, headers: &mut HeaderMap) {
        if let Some(fault) = make_typed(headers, &self.path) {
            self.refused(&fault);
        }
    }

    /// Not by a service, which would say it: before, or by what reads messages for it.
    fn refused(&self, fault: &Fault) {
        refused(&self.front, &self.caller, self.path.clone(), self.trace_id, fault);
    }
}

/// Counts the refusal of a call, and says it.
fn refused(front: &Front, caller: &Caller, path: String, trace_id: Option<TraceId>, fault: &Fault) {
    front.inner.metrics.requests.count(Some(fault.code));
    let (caller, fault) = (caller.clone(), fault.clone());
    front.inner.notices.refused(move |left_out| {
        let span = grpc::span_of(&path, &caller, trace_id);
        span.in_scope(|| turned_away_of(&fault, left_out));
    });
}

/// The same for a connection whose calls reach no service.
pub(super) fn refused_unread(front: &Front, caller: &Caller, request: &Request<Incoming>, fault: &Fault) {
    refused(front, caller, path(request), grpc::trace_id(request.headers()), fault);
}

fn path(request: &Request<Incoming>) -> String {
    request.uri().path().chars().take(PATH_CHARS_MAX).collect()
}

/// An answer.
pub(super) struct Answer {
    body: tonic::body::Body,
    call: Call,
}

impl Body for Answer {
    type Data = Bytes;
    type Error = tonic::Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, tonic::Status>>> {
        let mut polled = Pin::new(&mut self.body).poll_frame(context);
        if let Poll::Ready(Some(Ok(frame))) = &mut polled
            && let Some(trailers) = frame.trailers_mut()
        {
            self.call.make_typed(trailers);
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
