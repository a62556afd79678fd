//! The way to the server: a fresh TCP connection and a full TLS handshake each time.

use std::path::Path;
use std::sync::Arc;

use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls::client::Resumption;
use rustls_pki_types::ServerName;
use sealwright_client::connection::credentials::Credentials;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tonic::transport::{Channel, Endpoint};

#[derive(Clone)]
pub(crate) struct Line {
    tls: Arc<ClientConfig>,
    port: u16,
}

impl Line {
    /// With the credentials in this folder, as `sealwright init` makes them.
    pub(crate) fn new(folder: &str, port: &str) -> Self {
        let folder = Path::new(folder);
        let credentials = Credentials {
            ca: folder.join("ca.pem"),
            certificate: folder.join("client.pem"),
            key: folder.join("client.key"),
        };
        let mut tls = ClientConfig::clone(&credentials.load().unwrap());
        // Clients that do not know each other: nobody has a ticket.
        tls.resumption = Resumption::disabled();
        Self { tls: Arc::new(tls), port: port.parse().unwrap() }
    }

    pub(crate) async fn connect(&self) -> Result<Channel, tonic::transport::Error> {
        let line = self.clone();
        let connect = tower::service_fn(move |_| {
            let line = line.clone();
            async move {
                let stream = TcpStream::connect(("127.0.0.1", line.port)).await?;
                stream.set_nodelay(true)?;
                let name = ServerName::try_from("localhost").unwrap();
                let stream = TlsConnector::from(line.tls).connect(name, stream).await?;
                Ok::<_, std::io::Error>(TokioIo::new(stream))
            }
        });
        let endpoint = Endpoint::from_static("http://localhost")
            .initial_stream_window_size(4 << 20)
            .initial_connection_window_size(8 << 20);
        endpoint.connect_with_connector(connect).await
    }
}
