//! A client of the test's own: groups with deadlines that no command has, connections that read nothing.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use hyper_util::rt::TokioIo;
use sealwright_client::connection::credentials::Credentials;
use sealwright_crypto::algorithm::HashAlgorithm;
use sealwright_crypto::digest::Hasher;
use sealwright_crypto::tbs::{Content, ToBeSigned};
use sealwright_crypto::usage::{Purpose, Usage};
use sealwright_proto::convert::group::{Artefact, Group, GroupResult, Priority};
use sealwright_proto::names::{KeyReference, RequestId};
use sealwright_proto::status::Fault;
use sealwright_proto::v1::signing_client::SigningClient;
use sealwright_testkit::server::Server;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tonic::transport::{Channel, Endpoint, Uri};

/// One connection. Its clones share it.
#[derive(Clone)]
pub(crate) struct Caller(SigningClient<Channel>);

/// A connection of the client `admin`, and whether it reads what it gets.
pub(crate) async fn connect(server: &Server) -> (TlsStream<Hearing>, Arc<AtomicBool>) {
    let file = |name| server.admin().join(name);
    let credentials =
        Credentials { ca: file("ca.pem"), certificate: file("client.pem"), key: file("client.key") };
    let socket = TcpStream::connect(("127.0.0.1", server.port())).await.unwrap();
    let ears = Arc::new(AtomicBool::new(true));
    let connector = TlsConnector::from(credentials.load().unwrap());
    let hearing = Hearing { socket, ears: Arc::clone(&ears) };
    (connector.connect("localhost".try_into().unwrap(), hearing).await.unwrap(), ears)
}

impl Caller {
    pub(crate) async fn connect(server: &Server) -> Self {
        Self::over(connect(server).await.0).await
    }

    pub(crate) async fn over(stream: TlsStream<Hearing>) -> Self {
        let mut stream = Some(TokioIo::new(stream));
        let connector = tower::service_fn(move |_: Uri| {
            let stream = stream.take();
            async move { stream.ok_or_else(|| std::io::Error::other("connected already")) }
        });
        let channel =
            Endpoint::from_static("http://localhost").connect_with_connector(connector).await.unwrap();
        Self(SigningClient::new(channel))
    }

    /// Asks for so many signatures in one stream, and waits until the server begins to answer.
    pub(crate) async fn ask(
        &mut self,
        key: &str,
        count: usize,
        deadline_ms: u32,
    ) -> Result<(), tonic::Status> {
        let groups: Vec<_> = (0..count).map(|_| group(key, deadline_ms).to_wire()).collect();
        self.0.sign(tokio_stream::iter(groups)).await.map(|_| ())
    }

    /// Asks for one signature; whether it was let in and got it.
    pub(crate) async fn try_sign(&mut self, key: &str) -> bool {
        let group = group(key, 60_000).to_wire();
        let Ok(answers) = self.0.sign(tokio_stream::once(group)).await else { return false };
        answers
            .into_inner()
            .message()
            .await
            .is_ok_and(|answer| answer.is_some_and(|answer| answer.failure.is_none()))
    }

    /// Asks for so many signatures in one stream; what came of each.
    pub(crate) async fn sign(&mut self, key: &str, count: usize, deadline_ms: u32) -> Vec<Result<(), Fault>> {
        let groups: Vec<_> = (0..count).map(|_| group(key, deadline_ms).to_wire()).collect();
        let mut answers = self.0.sign(tokio_stream::iter(groups)).await.unwrap().into_inner();
        let mut outcomes = Vec::new();
        while let Some(answer) = answers.message().await.unwrap() {
            let outcome = GroupResult::parse(answer).unwrap().outcome;
            outcomes.push(outcome.and_then(|items| items.into_iter().next().unwrap().map(|_| ())));
        }
        outcomes
    }
}

/// A socket that can stop reading for good.
pub(crate) struct Hearing {
    socket: TcpStream,
    ears: Arc<AtomicBool>,
}

impl AsyncRead for Hearing {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        // Nobody wakes it.
        if !self.ears.load(Ordering::SeqCst) {
            return Poll::Pending;
        }
        Pin::new(&mut self.socket).poll_read(context, buffer)
    }
}

impl AsyncWrite for Hearing {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.socket).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(context)
    }
}

fn group(key: &str, deadline_ms: u32) -> Group {
    let content = Content::Midstate(Hasher::new(HashAlgorithm::Sha256).midstate());
    Group {
        request_id: RequestId::parse(uuid::Uuid::now_v7().as_bytes()).unwrap(),
        key: KeyReference::parse(key).unwrap(),
        priority: Priority::Interactive,
        deadline_ms,
        artefact: Artefact { name: "a".to_owned(), size: 0 },
        artefacts: Vec::new(),
        items: vec![ToBeSigned { usage: Usage::OpenPgp, purpose: Purpose::Detached, content, ticket: None }],
        salt: false,
    }
}
