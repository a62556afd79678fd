//! The way to the server: a fresh TCP connection and a full TLS handshake each time.

use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::Arc;

use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls::client::Resumption;
use rustls_pki_types::ServerName;
use sealwright_client::connection::credentials::Credentials;
use tokio::net::TcpSocket;
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

    /// From any address of this machine.
    pub(crate) async fn connect(&self) -> Result<Channel, tonic::transport::Error> {
        self.connect_from(Ipv4Addr::UNSPECIFIED).await
    }

    /// From this address: the server counts connections by address, and a crowd does not sit on one machine.
    pub(crate) async fn connect_from(&self, own: Ipv4Addr) -> Result<Channel, tonic::transport::Error> {
        let line = self.clone();
        let connect = tower::service_fn(move |_| {
            let line = line.clone();
            async move {
                let socket = TcpSocket::new_v4()?;
                socket.bind((own, 0).into())?;
                let stream = socket.connect((Ipv4Addr::LOCALHOST, line.port).into()).await?;
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
