//! HTTP/1.1 on listeners of their own (metrics, copr-keygen): one request a connection, its head bounded in bytes, lines
//! and time. How many connections there are, and how long one may take in all, is the listener's.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpStream;

/// From the first byte to the end of the headers.
pub(crate) const HEAD_TIME_MAX: Duration = Duration::from_secs(5);
/// Bytes of the request line and all headers.
pub(crate) const HEAD_BYTES_MAX: usize = 8 << 10;
/// Lines of headers.
pub(crate) const HEADERS_MAX: usize = 64;

/// Answers one request; an error of the connection ends it, and is for the log alone.
pub(crate) async fn serve_one<A>(stream: TcpStream, peer: SocketAddr, answer: impl Fn(Request<Incoming>) -> A)
where
    A: Future<Output = Response<Full<Bytes>>>,
{
    let service = service_fn(|request| {
        let answered = answer(request);
        async { Ok::<_, Infallible>(answered.await) }
    });
    let served = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME_MAX)
        .max_buf_size(HEAD_BYTES_MAX)
        .max_headers(HEADERS_MAX)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), service)
        .await;
    if let Err(error) = served {
        tracing::debug!(%peer, error = &error as &dyn std::error::Error, "an HTTP connection ended");
    }
}
