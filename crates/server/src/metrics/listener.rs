//! The listener for an operator's tools: `/metrics`, `/livez`, `/readyz` over plain HTTP/1.1, on a port of its own.
//!
//! It tells nothing that is secret and takes no orders, but whoever reaches it must not cost anything: few
//! connections, one request on each, small headers, no body, and not much time.

use std::sync::Arc;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

use crate::http1;

/// Connections at once; further ones wait in the backlog.
pub const CONNECTIONS_MAX: usize = 16;
/// One connection, from its start to its end.
pub const CONNECTION_MS_MAX: Duration = Duration::from_millis(15_000);

/// After an error of the listener itself (no descriptor is left).
const PAUSE: Duration = Duration::from_millis(200);

/// What the paths show.
#[tonic::async_trait]
pub trait Source: Send + Sync + 'static {
    /// The page of `/metrics`.
    async fn page(&self) -> String;

    /// Why no request can be served now; empty: ready. Plain sentences, without a path of this machine.
    async fn not_ready(&self) -> Vec<String>;
}

/// Serves until it is dropped.
///
/// # Errors
/// The socket cannot be used. An error of a single connection ends only that.
pub async fn serve(listener: std::net::TcpListener, source: Arc<dyn Source>) -> std::io::Result<()> {
    listener.set_nonblocking(true)?;
    let listener = TcpListener::from_std(listener)?;
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let mut connections = tokio::task::JoinSet::new();
    while let Ok(place) = Arc::clone(&places).acquire_owned().await {
        while connections.try_join_next().is_some() {}
        match listener.accept().await {
            Ok((stream, peer)) => {
                let source = Arc::clone(&source);
                connections.spawn(async move {
                    let source = source.as_ref();
                    let served =
                        http1::serve_one(
                            stream,
                            peer,
                            |request| async move { answer(&request, source).await },
                        );
                    // Whoever is slower than this has had its time.
                    let _ = tokio::time::timeout(CONNECTION_MS_MAX, served).await;
                    drop(place);
                });
            }
            Err(error) => {
                tracing::warn!(
                    error = &error as &dyn std::error::Error,
                    "the metrics listener does not accept"
                );
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
    Ok(())
}

async fn answer(request: &Request<Incoming>, source: &dyn Source) -> Response<Full<Bytes>> {
    if request.method() != Method::GET {
        let mut refusal = text(StatusCode::METHOD_NOT_ALLOWED, "only GET\n".to_owned());
        refusal.headers_mut().insert(ALLOW, HeaderValue::from_static("GET"));
        return refusal;
    }
    match request.uri().path() {
        "/metrics" => {
            let mut page = text(StatusCode::OK, source.page().await);
            let kind = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
            page.headers_mut().insert(CONTENT_TYPE, kind);
            page
        }
        "/livez" => text(StatusCode::OK, "live\n".to_owned()),
        "/readyz" => match source.not_ready().await {
            reasons if reasons.is_empty() => text(StatusCode::OK, "ready\n".to_owned()),
            reasons => text(StatusCode::SERVICE_UNAVAILABLE, reasons.join("\n") + "\n"),
        },
        _ => text(StatusCode::NOT_FOUND, "there are /metrics, /livez and /readyz\n".to_owned()),
    }
}

fn text(status: StatusCode, body: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpStream;

    use super::*;
    use crate::http1::{HEAD_BYTES_MAX, HEADERS_MAX};

    struct Fixed(&'static [&'static str]);

    #[tonic::async_trait]
    impl Source for Fixed {
        async fn page(&self) -> String {
            "sealwright_up 1\n".to_owned()
        }

        async fn not_ready(&self) -> Vec<String> {
            self.0.iter().map(|reason| (*reason).to_owned()).collect()
        }
    }

    async fn ask(reasons: &'static [&'static str], request: &[u8]) -> String {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let serving = tokio::spawn(serve(listener, Arc::new(Fixed(reasons))));
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(request).await.unwrap();
        let mut answer = Vec::new();
        // A peer that is cut off while it still sends sees a reset.
        let _ = stream.read_to_end(&mut answer).await;
        serving.abort();
        String::from_utf8_lossy(&answer).into_owned()
    }

    fn get(path: &str) -> Vec<u8> {
        format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").into_bytes()
    }

    #[tokio::test]
    async fn each_path_says_what_it_is_for() {
        let page = ask(&[], &get("/metrics")).await;
        assert!(page.starts_with("HTTP/1.1 200") && page.ends_with("sealwright_up 1\n"), "{page}");
        assert!(page.contains("text/plain; version=0.0.4"), "{page}");
        assert!(ask(&["the signer is gone"], &get("/livez")).await.starts_with("HTTP/1.1 200"));
        assert!(ask(&[], &get("/readyz")).await.starts_with("HTTP/1.1 200"));
        let not_ready = ask(&["the signer is gone", "the disk is full"], &get("/readyz")).await;
        assert!(not_ready.starts_with("HTTP/1.1 503"), "{not_ready}");
        assert!(not_ready.ends_with("the signer is gone\nthe disk is full\n"), "{not_ready}");
        assert!(ask(&[], &get("/")).await.starts_with("HTTP/1.1 404"));
    }

    #[tokio::test]
    async fn nothing_but_get_is_answered() {
        for method in ["POST", "HEAD", "PUT", "DELETE", "OPTIONS"] {
            let request = format!("{method} /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n");
            let answer = ask(&[], request.as_bytes()).await;
            assert!(answer.starts_with("HTTP/1.1 405"), "{method}: {answer}");
        }
    }

    #[tokio::test]
    async fn headers_over_the_limit_are_refused() {
        let long =
            format!("GET /metrics HTTP/1.1\r\nHost: x\r\nX: {}\r\n\r\n", "a".repeat(2 * HEAD_BYTES_MAX));
        let many = format!("GET /metrics HTTP/1.1\r\nHost: x\r\n{}\r\n", "A: b\r\n".repeat(HEADERS_MAX));
        for request in [long, many] {
            let answer = ask(&[], request.as_bytes()).await;
            assert!(!answer.contains("HTTP/1.1 200"), "{answer}");
        }
    }

    #[tokio::test]
    async fn more_peers_than_places_wait_and_are_answered_when_others_go() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let serving = tokio::spawn(serve(listener, Arc::new(Fixed(&[]))));
        let mut silent = Vec::new();
        for _ in 0..CONNECTIONS_MAX {
            silent.push(TcpStream::connect(address).await.unwrap());
        }
        let mut last = TcpStream::connect(address).await.unwrap();
        last.write_all(&get("/livez")).await.unwrap();
        drop(silent);
        let mut answer = String::new();
        last.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        serving.abort();
    }
}
