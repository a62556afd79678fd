//! A client of the test's own: groups with deadlines that no command has.

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
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tonic::transport::{Channel, Endpoint, Uri};

/// One connection.
pub(crate) struct Caller(SigningClient<Channel>);

impl Caller {
    pub(crate) async fn connect(server: &Server) -> Self {
        let file = |name| server.admin().join(name);
        let credentials =
            Credentials { ca: file("ca.pem"), certificate: file("client.pem"), key: file("client.key") };
        let socket = TcpStream::connect(("127.0.0.1", server.port())).await.unwrap();
        let name = "localhost".try_into().unwrap();
        let connector = TlsConnector::from(credentials.load().unwrap());
        let mut stream = Some(TokioIo::new(connector.connect(name, socket).await.unwrap()));
        let connector = tower::service_fn(move |_: Uri| {
            let stream = stream.take();
            async move { stream.ok_or_else(|| std::io::Error::other("connected already")) }
        });
        let channel =
            Endpoint::from_static("http://localhost").connect_with_connector(connector).await.unwrap();
        Self(SigningClient::new(channel))
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

fn group(key: &str, deadline_ms: u32) -> Group {
    let content = Content::Midstate(Hasher::new(HashAlgorithm::Sha256).midstate());
    Group {
        request_id: RequestId::parse(uuid::Uuid::now_v7().as_bytes()).unwrap(),
        key: KeyReference::parse(key).unwrap(),
        priority: Priority::Interactive,
        deadline_ms,
        artefact: Artefact { name: "a".to_owned(), size: 0 },
        items: vec![ToBeSigned { usage: Usage::OpenPgp, purpose: Purpose::Detached, content, ticket: None }],
        salt: false,
    }
}
