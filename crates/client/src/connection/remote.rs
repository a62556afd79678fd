//! One connection to one of several servers: names are looked up, addresses tried in random order, the first that
//! completes TLS and says its HTTP/2 greeting is taken. What failed before is kept, so that a person sees all of it.

use std::net::{IpAddr, SocketAddr, ToSocketAddrs as _};
use std::sync::Arc;
use std::time::{Duration, Instant};

use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls_pki_types::ServerName;
use tokio::io::AsyncBufReadExt as _;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tonic::transport::{Channel, Endpoint, Uri};

use crate::connection::chance;
use crate::error::{Error, Tried, Unreached};

/// Port of a URL that names none.
pub const PORT_DEFAULT: u16 = 7443;
/// Servers of one list at most.
pub const SERVERS_MAX: usize = 64;
/// Addresses of one name that are tried at most.
const ADDRESSES_OF_A_NAME_MAX: usize = 16;
/// The name of this machine for itself: the file of hosts has it.
const LOCALHOST: &str = "localhost";
/// How long a name may take to be looked up, a socket to connect, and TLS to be ready, each.
const STEP_MAX: Duration = Duration::from_secs(5);
/// How often a connection with requests in flight is asked for a sign of life, and how long that may take: a server
/// that is gone is noticed after the sum at the latest.
const PING_INTERVAL: Duration = Duration::from_secs(10);
const PONG_MAX: Duration = Duration::from_secs(10);
/// Answers that may be on the way to us, in bytes, of one stream and in all.
const WINDOW_BYTES: u32 = 1 << 20;
/// A server that failed or said that it stops is tried last for so long.
const AVOIDED: Duration = Duration::from_secs(10);

/// A server as a URL names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    host: String,
    port: u16,
    name: ServerName<'static>,
}

impl Address {
    /// `https://host`, `https://host:7443`, `https://192.0.2.1`, `https://[2001:db8::1]:7443`; the scheme can be left
    /// out, the port is [`PORT_DEFAULT`] then too.
    ///
    /// # Errors
    /// [`Error::BadAddress`].
    pub fn parse(url: &str) -> Result<Self, Error> {
        let wrong = |why| Error::BadAddress { text: url.to_owned(), why };
        let rest = match url.split_once("://") {
            Some(("https", rest)) => rest,
            Some(("http", _)) => return Err(wrong("a server is spoken to over https alone")),
            Some(_) => return Err(wrong("the scheme is https")),
            None => url,
        };
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        if rest.contains(['/', '?', '#', '@']) {
            return Err(wrong("there is more in it than a host and a port"));
        }
        let authority: http::uri::Authority =
            rest.parse().map_err(|_| wrong("it is no host with or without a port"))?;
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
        let port = match rest.rsplit_once(':') {
            Some((before, port)) if !before.contains(':') || before.ends_with(']') => port
                .parse()
                .ok()
                .filter(|port| *port > 0)
                .ok_or_else(|| wrong("the port is a number up to 65535"))?,
            Some(_) | None => PORT_DEFAULT,
        };
        let name =
            ServerName::try_from(host.clone()).map_err(|_| wrong("its host is no name and no address"))?;
        Ok(Self { host, port, name })
    }

    /// The host, and the port unless it is the usual one: for people.
    #[must_use]
    pub fn short(&self) -> String {
        if self.port == PORT_DEFAULT { self.bracketed() } else { self.to_string() }
    }

    /// Whether no name server is needed to find it, and so no thread that waits for one.
    #[must_use]
    pub fn is_found_at_once(&self) -> bool {
        self.host.eq_ignore_ascii_case(LOCALHOST) || self.host.parse::<IpAddr>().is_ok()
    }

    fn bracketed(&self) -> String {
        if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() }
    }
}

impl core::fmt::Display for Address {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{}:{}", self.bracketed(), self.port)
    }
}

/// Servers of which any will do: they share one store.
#[derive(Clone, Debug)]
pub struct Remote {
    addresses: Vec<Address>,
    tls: Arc<ClientConfig>,
}

/// An open connection to one of them.
pub(crate) struct Reached {
    pub(crate) channel: Channel,
    pub(crate) server: usize,
}

/// When each server failed last.
#[derive(Debug, Default)]
pub(crate) struct Failures(Vec<(usize, Instant)>);

impl Failures {
    pub(crate) fn note(&mut self, server: usize) {
        self.0.retain(|(known, _)| *known != server);
        self.0.push((server, Instant::now()));
    }

    fn is_avoided(&self, server: usize) -> bool {
        self.0.iter().any(|(known, at)| *known == server && at.elapsed() < AVOIDED)
    }
}

impl Remote {
    /// # Errors
    /// [`Error::BadAddress`] for no server, or more than [`SERVERS_MAX`].
    pub fn new(addresses: Vec<Address>, tls: Arc<ClientConfig>) -> Result<Self, Error> {
        let why = if addresses.is_empty() {
            "no server is named"
        } else if addresses.len() > SERVERS_MAX {
            "more than 64 servers are named"
        } else {
            return Ok(Self { addresses, tls });
        };
        Err(Error::BadAddress { text: "server".to_owned(), why })
    }

    /// A server of the list.
    pub(crate) fn address(&self, server: usize) -> Option<&Address> {
        self.addresses.get(server)
    }

    /// Tries all, those that failed a moment ago last.
    pub(crate) async fn connect(&self, failures: &mut Failures) -> Result<Reached, Vec<Tried>> {
        let mut order: Vec<usize> = (0..self.addresses.len()).collect();
        chance::shuffle(&mut order);
        order.sort_by_key(|server| failures.is_avoided(*server));
        let mut tried = Vec::new();
        for server in order {
            let Some(address) = self.address(server) else { continue };
            match self.connect_one(address, &mut tried).await {
                Some(channel) => return Ok(Reached { channel, server }),
                None => failures.note(server),
            }
        }
        Err(tried)
    }

    async fn connect_one(&self, address: &Address, tried: &mut Vec<Tried>) -> Option<Channel> {
        let mut sockets = match look_up(address).await {
            Ok(sockets) => sockets,
            Err(why) => {
                tried.push(Tried { address: address.to_string(), why });
                return None;
            }
        };
        chance::shuffle(&mut sockets);
        for socket in sockets.into_iter().take(ADDRESSES_OF_A_NAME_MAX) {
            match self.open(address, socket).await {
                Ok(channel) => return Some(channel),
                Err(why) => {
                    tracing::debug!(%address, %socket, reason = %why, "a server was not reached");
                    tried.push(Tried { address: shown(address, socket.ip()), why });
                }
            }
        }
        None
    }

    async fn open(&self, address: &Address, socket: SocketAddr) -> Result<Channel, Unreached> {
        let stream = within(TcpStream::connect(socket)).await?;
        stream.set_nodelay(true).map_err(Unreached::of)?;
        let connector = TlsConnector::from(Arc::clone(&self.tls));
        let mut stream = within(connector.connect(address.name.clone(), stream)).await?;
        if stream.get_ref().1.alpn_protocol().is_none() {
            return Err(Unreached::NotSealwright);
        }
        // In TLS 1.3 our side is done before the server has looked at our certificate; its first bytes say that it
        // likes it.
        if within(stream.fill_buf()).await?.is_empty() {
            return Err(Unreached::Closed);
        }
        channel(address, stream).await
    }
}

async fn look_up(address: &Address) -> Result<Vec<SocketAddr>, Unreached> {
    if let Ok(ip) = address.host.parse::<IpAddr>() {
        return Ok(vec![SocketAddr::new(ip, address.port)]);
    }
    let place = (address.host.as_str(), address.port);
    let found = if address.is_found_at_once() {
        place.to_socket_addrs().map(Iterator::collect)
    } else {
        let found = tokio::net::lookup_host(place);
        let Ok(found) = tokio::time::timeout(STEP_MAX, found).await else { return Err(silent()) };
        found.map(Iterator::collect)
    };
    let mut sockets: Vec<SocketAddr> = found.map_err(|error| Unreached::Name(Arc::new(error)))?;
    sockets.sort_unstable();
    sockets.dedup();
    if sockets.is_empty() { Err(Unreached::NoAddress) } else { Ok(sockets) }
}

async fn within<T>(step: impl Future<Output = std::io::Result<T>>) -> Result<T, Unreached> {
    tokio::time::timeout(STEP_MAX, step).await.map_err(|_| silent())?.map_err(Unreached::of)
}

const fn silent() -> Unreached {
    Unreached::Silent { seconds: STEP_MAX.as_secs() }
}

fn shown(address: &Address, ip: IpAddr) -> String {
    if ip.to_string() == address.host { address.to_string() } else { format!("{address} ({ip})") }
}

/// HTTP/2 over a stream that is open. When it ends, it ends: the next one is looked for among all servers.
async fn channel(address: &Address, stream: TlsStream<TcpStream>) -> Result<Channel, Unreached> {
    let uri = |scheme: &str| format!("{scheme}://{address}").parse::<Uri>();
    // The connector below is TLS already; the requests themselves say https.
    let (Ok(inner), Ok(origin)) = (uri("http"), uri("https")) else { return Err(Unreached::NoAddress) };
    let mut stream = Some(TokioIo::new(stream));
    let connector = tower::service_fn(move |_: Uri| {
        let stream = stream.take();
        async move { stream.ok_or_else(|| std::io::Error::from(std::io::ErrorKind::NotConnected)) }
    });
    Endpoint::from(inner)
        .origin(origin)
        .user_agent(concat!("sealwright/", env!("CARGO_PKG_VERSION")))
        .map_err(|_| Unreached::NotSealwright)?
        .http2_keep_alive_interval(PING_INTERVAL)
        .keep_alive_timeout(PONG_MAX)
        .keep_alive_while_idle(false)
        .initial_stream_window_size(WINDOW_BYTES)
        .initial_connection_window_size(WINDOW_BYTES)
        .connect_with_connector(connector)
        .await
        .map_err(|error| Unreached::Io(Arc::new(std::io::Error::other(error))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_name_a_host_and_perhaps_a_port_and_nothing_else() {
        let shown = |url: &str| Address::parse(url).map(|address| address.to_string()).ok();
        assert_eq!(shown("https://sign.example"), Some("sign.example:7443".to_owned()));
        assert_eq!(shown("https://sign.example:443/"), Some("sign.example:443".to_owned()));
        assert_eq!(shown("sign.example"), Some("sign.example:7443".to_owned()));
        assert_eq!(shown("https://192.0.2.1:1"), Some("192.0.2.1:1".to_owned()));
        assert_eq!(shown("https://[2001:db8::1]"), Some("[2001:db8::1]:7443".to_owned()));
        assert_eq!(shown("https://[::1]:9"), Some("[::1]:9".to_owned()));
        for bad in [
            "http://a",
            "ftp://a",
            "https://",
            "https://a/b",
            "https://a?b",
            "https://u@a",
            "https://a:0",
            "https://a:70000",
            "https://a b",
            "https://-",
            "",
            "https://::1",
        ] {
            assert!(Address::parse(bad).is_err(), "{bad}");
        }
        assert_eq!(Address::parse("https://a.example").unwrap().short(), "a.example");
        assert_eq!(Address::parse("https://[::1]:9").unwrap().short(), "[::1]:9");
    }

    #[test]
    fn addresses_and_this_machine_need_no_name_server() {
        let at_once = |url: &str| Address::parse(url).unwrap().is_found_at_once();
        for here in
            ["https://localhost", "https://LOCALHOST:1", "https://192.0.2.1", "https://[2001:db8::1]:9"]
        {
            assert!(at_once(here), "{here}");
        }
        for far in ["https://sign.example", "https://localhost.example", "https://localhost4"] {
            assert!(!at_once(far), "{far}");
        }
    }

    #[test]
    fn a_server_that_failed_is_avoided_once_each() {
        let mut failures = Failures::default();
        failures.note(3);
        failures.note(3);
        assert!(failures.is_avoided(3) && !failures.is_avoided(2));
        assert_eq!(failures.0.len(), 1);
    }
}
