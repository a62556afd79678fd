//! A tonic server with mutual TLS and nothing behind it: it answers the question of the crowd from memory.

use std::io;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use rustls::RootCertStore;
use rustls::server::{ServerConfig, WebPkiClientVerifier};
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use sealwright_proto::v1::keys_server::{Keys, KeysServer};
use sealwright_proto::v1::{
    BeginImportRequest, BeginImportResponse, CreateKeyRequest, DescribeKeyRequest, ImportKeyRequest,
    ImportKeyResponse, Key, ListKeysRequest, ListKeysResponse, RenewKeyRequest, SetKeyStateRequest,
};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::server::Connected;
use tonic::{Request, Response, Status};

/// Accepted and not yet handed to tonic.
const ACCEPTED_MAX: usize = 1024;
/// About that of an RSA-4096 key with one user id.
const CERTIFICATE_BYTES: usize = 1_200;

pub(crate) async fn run(folder: &str) {
    let tls = TlsAcceptor::from(Arc::new(config(Path::new(folder))));
    let socket = rustix::net::socket(rustix::net::AddressFamily::INET, rustix::net::SocketType::STREAM, None);
    let socket = socket.unwrap();
    rustix::net::bind(&socket, &std::net::SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    rustix::net::listen(&socket, 16_384).unwrap();
    let listener = std::net::TcpListener::from(socket);
    listener.set_nonblocking(true).unwrap();
    println!("{{\"port\":{}}}", listener.local_addr().unwrap().port());
    let listener = TcpListener::from_std(listener).unwrap();
    let (accepted, incoming) = mpsc::channel::<std::io::Result<_>>(ACCEPTED_MAX);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (tls, accepted) = (tls.clone(), accepted.clone());
            tokio::spawn(async move {
                stream.set_nodelay(true).unwrap();
                if let Ok(stream) = tls.accept(stream).await {
                    let _ = accepted.send(Ok(Encrypted(stream))).await;
                }
            });
        }
    });
    let service = KeysServer::new(Echo { certificate: vec![7; CERTIFICATE_BYTES] });
    let serving = tonic::transport::Server::builder().add_service(service);
    serving.serve_with_incoming(ReceiverStream::new(incoming)).await.unwrap();
}

/// As the product: TLS 1.3, the authority of clients alone.
fn config(folder: &Path) -> ServerConfig {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let certificates = |name: &str| -> Vec<CertificateDer<'static>> {
        CertificateDer::pem_file_iter(folder.join(name)).unwrap().map(Result::unwrap).collect()
    };
    let mut roots = RootCertStore::empty();
    for certificate in certificates("tls/ca.pem") {
        roots.add(certificate).unwrap();
    }
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider));
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .with_client_cert_verifier(verifier.build().unwrap())
        .with_single_cert(
            certificates("tls/server.pem"),
            PrivateKeyDer::from_pem_file(folder.join("tls/server.key")).unwrap(),
        )
        .unwrap();
    config.alpn_protocols = vec![b"h2".to_vec()];
    config
}

/// For tonic, which only knows a stream of TLS that it has made itself.
struct Encrypted(TlsStream<TcpStream>);

impl Connected for Encrypted {
    type ConnectInfo = ();

    fn connect_info(&self) {}
}

impl AsyncRead for Encrypted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, buffer)
    }
}

impl AsyncWrite for Encrypted {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}

struct Echo {
    certificate: Vec<u8>,
}

/// What a bare server does not do.
fn nothing<T>() -> Result<T, Status> {
    Err(Status::permission_denied("this server only echoes"))
}

#[tonic::async_trait]
impl Keys for Echo {
    async fn describe(&self, asked: Request<DescribeKeyRequest>) -> Result<Response<Key>, Status> {
        let name = asked.into_inner().key;
        Ok(Response::new(Key { name, certificate: self.certificate.clone(), ..Key::default() }))
    }

    async fn create(&self, _: Request<CreateKeyRequest>) -> Result<Response<Key>, Status> {
        nothing()
    }

    async fn list(&self, _: Request<ListKeysRequest>) -> Result<Response<ListKeysResponse>, Status> {
        nothing()
    }

    async fn begin_import(
        &self,
        _: Request<BeginImportRequest>,
    ) -> Result<Response<BeginImportResponse>, Status> {
        nothing()
    }

    async fn import(&self, _: Request<ImportKeyRequest>) -> Result<Response<ImportKeyResponse>, Status> {
        nothing()
    }

    async fn renew(&self, _: Request<RenewKeyRequest>) -> Result<Response<Key>, Status> {
        nothing()
    }

    async fn set_state(&self, _: Request<SetKeyStateRequest>) -> Result<Response<Key>, Status> {
        nothing()
    }
}
