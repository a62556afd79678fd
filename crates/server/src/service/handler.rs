//! From HTTP/2 to the services: says who asks, refuses who may nothing before anything of a request is read, and keeps
//! count of what is open.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, Response};
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use tonic::service::Routes;
use tower::Service as _;

use super::activity::{Activity, Open};
use super::arrivals::{Arriving, Budget};
use crate::Front;
use crate::authn::Caller;
use crate::sign::turned_away;

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
        let open = self.activity.open();
        if let Err(fault) = self.caller.principal() {
            turned_away(&self.front.inner.metrics, &fault);
            let refused = tonic::Status::from(self.caller.reads(fault)).into_http();
            return Box::pin(async move { Ok(refused.map(|body| Answer { body, _open: open })) });
        }
        let mut request = request.map(|body| Arriving::new(body, self.budget.clone()));
        request.extensions_mut().insert(self.caller.clone());
        // Routes are always ready, and a clone shares them.
        let answer = self.routes.clone().call(request);
        Box::pin(async move { Ok(answer.await?.map(|body| Answer { body, _open: open })) })
    }
}

/// An answer; while it lasts, its request is open.
pub(super) struct Answer {
    body: tonic::body::Body,
    _open: Open,
}

impl Body for Answer {
    type Data = Bytes;
    type Error = tonic::Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, tonic::Status>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
