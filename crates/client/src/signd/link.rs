//! One connection to a signd: one request, one reply, each with a deadline.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use rustls::ClientConfig;
use rustls_pki_types::ServerName;
use sealwright_obs::limits::REPLY_BYTES_MAX;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};
use tokio_rustls::TlsConnector;

use crate::connection::chance;
use crate::error::{Error, SigndFault, Unreached};

/// How long a name may take to be looked up, a socket to connect, and TLS to be ready, each.
const STEP_MAX: Duration = Duration::from_secs(5);
/// How long the answer may take: signd signs one request after the other, and a busy one has been seen to take minutes.
const ANSWER_MAX: Duration = Duration::from_secs(180);
/// Addresses of one name that are tried at most.
const ADDRESSES_MAX: usize = 16;
/// Ports that only root may use, and that have no services (bindresvport(3)).
const RESERVED: core::ops::RangeInclusive<u16> = 600..=1023;
/// How often all of them are tried again when others use them, and after how long.
const ROUNDS: u32 = 5;
const ROUND: Duration = Duration::from_millis(300);

/// From which port signd is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SourcePort {
    /// One below 1024 where this process may use it, else any: signd asks for the former unless it is told otherwise.
    ReservedIfAllowed,
    /// Any (`use-unprivileged-ports`).
    Any,
}

/// Where a signd is, and how it is spoken to.
#[derive(Clone)]
pub struct Peer {
    host: String,
    port: u16,
    source: SourcePort,
    tls: Option<(Arc<ClientConfig>, ServerName<'static>)>,
}

impl Peer {
    /// Over plain TCP, or TLS in which the name of the server is checked.
    ///
    /// # Errors
    /// [`Error::BadAddress`] for a host that no certificate can name.
    pub fn new(
        host: &str,
        port: u16,
        source: SourcePort,
        tls: Option<Arc<ClientConfig>>,
    ) -> Result<Self, Error> {
        let tls = match tls {
            None => None,
            Some(config) => {
                let name = ServerName::try_from(host.to_owned()).map_err(|_| Error::BadAddress {
                    text: host.to_owned(),
                    why: "it is no name and no address",
                })?;
                // What it speaks has no name in TLS.
                let mut config = (*config).clone();
                config.alpn_protocols.clear();
                Some((Arc::new(config), name))
            }
        };
        Ok(Self { host: host.to_owned(), port, source, tls })
    }

    /// A connection, for whoever passes on what others say; without TLS.
    ///
    /// # Errors
    /// [`SigndFault::Unreached`].
    pub async fn open(&self) -> Result<TcpStream, SigndFault> {
        let outcome = self.connect().await;
        outcome.map_err(|why| SigndFault::Unreached { server: self.to_string(), why })
    }

    /// Sends a request and reads until the other end closes: one byte more than a reply can have, at most.
    ///
    /// # Errors
    /// [`SigndFault::Unreached`].
    pub async fn exchange(&self, request: &[u8]) -> Result<Vec<u8>, SigndFault> {
        let outcome = async {
            let stream = self.connect().await?;
            match &self.tls {
                None => exchange_over(stream, request).await,
                Some((config, name)) => {
                    let connector = TlsConnector::from(Arc::clone(config));
                    let stream = within(connector.connect(name.clone(), stream)).await?;
                    exchange_over(stream, request).await
                }
            }
        };
        outcome.await.map_err(|why| SigndFault::Unreached { server: self.to_string(), why })
    }

    async fn connect(&self) -> Result<TcpStream, Unreached> {
        let found = tokio::net::lookup_host((self.host.as_str(), self.port));
        let found = tokio::time::timeout(STEP_MAX, found).await.map_err(|_| silent(STEP_MAX))?;
        let found = found.map_err(|error| Unreached::Name(Arc::new(error)))?;
        let mut last = Unreached::NoAddress;
        for address in found.take(ADDRESSES_MAX) {
            match self.connect_to(address).await {
                Ok(stream) => return Ok(stream),
                Err(why) => last = why,
            }
        }
        Err(last)
    }

    async fn connect_to(&self, address: SocketAddr) -> Result<TcpStream, Unreached> {
        let socket = match self.source {
            SourcePort::Any => new_socket(address).map_err(Unreached::of)?,
            SourcePort::ReservedIfAllowed => reserved_socket(address).await.map_err(Unreached::of)?,
        };
        let stream = within(socket.connect(address)).await?;
        stream.set_nodelay(true).map_err(Unreached::of)?;
        Ok(stream)
    }
}

impl core::fmt::Display for Peer {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

impl core::fmt::Debug for Peer {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Peer({self}, {})", if self.tls.is_some() { "TLS" } else { "plain" })
    }
}

fn new_socket(address: SocketAddr) -> std::io::Result<TcpSocket> {
    if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }
}

/// Bound to a port below 1024, from a random one on; to none where that is not allowed.
async fn reserved_socket(address: SocketAddr) -> std::io::Result<TcpSocket> {
    let any: IpAddr =
        if address.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let mut ports: Vec<u16> = RESERVED.collect();
    let begin = chance::below(u64::try_from(ports.len()).unwrap_or(1));
    ports.rotate_left(usize::try_from(begin).unwrap_or(0));
    for round in 0..ROUNDS {
        if round > 0 {
            tokio::time::sleep(ROUND).await;
        }
        for port in &ports {
            let socket = new_socket(address)?;
            match socket.bind(SocketAddr::new(any, *port)) {
                Ok(()) => return Ok(socket),
                Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => {}
                Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
                    return new_socket(address);
                }
                Err(error) => return Err(error),
            }
        }
    }
    Err(std::io::ErrorKind::AddrInUse.into())
}

/// The server ends the connection: with TLS perhaps without a word, and after a refusal perhaps with a reset. What came
/// until then has its own lengths.
async fn exchange_over(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    request: &[u8],
) -> Result<Vec<u8>, Unreached> {
    // One byte more than there can be shows that it is too long.
    let limit = u64::try_from(REPLY_BYTES_MAX).unwrap_or(u64::MAX).saturating_add(1);
    let mut reply = Vec::new();
    let exchange = async {
        stream.write_all(request).await?;
        stream.flush().await?;
        (&mut stream).take(limit).read_to_end(&mut reply).await
    };
    let outcome = tokio::time::timeout(ANSWER_MAX, exchange).await.map_err(|_| silent(ANSWER_MAX))?;
    match outcome {
        Ok(_) => Ok(reply),
        // A refusal can be on its way although the request could not be sent any more.
        Err(error) if reply.is_empty() => {
            let mut rest = stream.take(limit);
            let _ = tokio::time::timeout(STEP_MAX, rest.read_to_end(&mut reply)).await;
            if reply.is_empty() { Err(Unreached::of(error)) } else { Ok(reply) }
        }
        Err(_) => Ok(reply),
    }
}

async fn within<T>(step: impl Future<Output = std::io::Result<T>>) -> Result<T, Unreached> {
    tokio::time::timeout(STEP_MAX, step).await.map_err(|_| silent(STEP_MAX))?.map_err(Unreached::of)
}

const fn silent(after: Duration) -> Unreached {
    Unreached::Silent { seconds: after.as_secs() }
}
