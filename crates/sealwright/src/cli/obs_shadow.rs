//! `sealwright obs-shadow`: stands between the clients of a `signd` and it, and asks a server of ours the same. Clients get
//! `signd`'s bytes; what ours would have said is compared with them, counted, and named in a line now and then.
//!
//! ```text
//! client --relay.rs--> signd                 bytes as they come, in both directions
//!            | request and reply, once the client has its answer
//!            v
//!         ours --obs::compare--> watch.rs    counts, lines, summaries
//! ```
//!
//! Nothing of ours reaches a client: not a byte, and not the time that ours takes. Without a signd a client is cut off, as
//! it would be. What is compared is decided in `sealwright_obs::compare`; here are sockets, deadlines and numbers.

mod relay;
mod watch;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use sealwright_client::batch::Stop;
use sealwright_client::error::Error;
use sealwright_client::signd::{Peer, SourcePort};
use sealwright_obs::compare::{compare, may_be_asked_twice};
use sealwright_obs::{Reply, Request, Verb};
use sealwright_server::allow::Network;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio::time::{interval, timeout};

use crate::cli::Context;
use crate::failure::{Exit, Failure};
use relay::{End, Seen};
use watch::{Different, NotAsked, Outcome, Watch};

/// Clients that are served at once. More wait in the queue of the kernel, as they do before a busy signd.
const CLIENTS_MAX: usize = 256;
/// Requests that ours is asked at once, each with up to 64 KiB and a reply of up to twice that. One more is not compared.
const COMPARED_MAX: usize = 64;
/// Strangers that are told so at once; one more is cut off. They have no part in [`CLIENTS_MAX`].
const STRANGERS_MAX: usize = 32;
/// How long ours may take for a reply.
const OURS_MAX: Duration = Duration::from_secs(30);
/// How long after a signal is waited for what was begun.
const DRAIN_MAX: Duration = Duration::from_secs(10);
/// After a connection could not be accepted.
const PAUSE: Duration = Duration::from_millis(100);
/// Lines of `--allow`.
const ALLOW_MAX: usize = 1_024;

/// `sealwright obs-shadow`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Where clients ask; a port alone is one of 127.0.0.1.
    #[arg(long, value_name = "[ADDRESS:]PORT", value_parser = listen)]
    listen: SocketAddr,
    /// The signd that answers.
    #[arg(long, value_name = "HOST:PORT", value_parser = host_and_port)]
    signd: HostAndPort,
    /// The server of ours that is asked the same: an address of `[obs] listen`.
    #[arg(long, value_name = "HOST:PORT", value_parser = host_and_port)]
    ours: HostAndPort,
    /// Who may ask; several times. Needed unless it listens on a loopback address, where everybody may without it.
    #[arg(long, value_name = "ADDRESS|CIDR")]
    allow: Vec<Network>,
    /// Minutes between summaries.
    #[arg(long, value_name = "MINUTES", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=1440))]
    every: u64,
}

/// Where a server is.
#[derive(Clone, Debug, PartialEq, Eq)]
struct HostAndPort {
    host: String,
    port: u16,
}

struct Shadow {
    signd: Peer,
    ours: Peer,
    allow: Vec<Network>,
    compared: Semaphore,
    strangers: Semaphore,
    watch: Watch,
}

/// Carries `obs-shadow` out, until a signal.
pub(crate) async fn run(args: Args, context: Context) -> Result<Exit, Failure> {
    check(args.listen.ip(), &args.allow)?;
    let stop = Stop::on_signals()
        .map_err(|error| Failure::failed(format!("cannot catch signals: {error}"), "Try again."))?;
    let shadow = Arc::new(Shadow {
        signd: args.signd.peer()?,
        ours: args.ours.peer()?,
        allow: args.allow,
        compared: Semaphore::new(COMPARED_MAX),
        strangers: Semaphore::new(STRANGERS_MAX),
        watch: Watch::new(context.json),
    });
    let cannot = |error| {
        let what = format!("cannot listen on {}: {error}", args.listen);
        Failure::failed(what, "Name an address of this host, and a port that nobody else has.")
    };
    let listener = TcpListener::bind(args.listen).await.map_err(cannot)?;
    shadow.watch.listens(listener.local_addr().map_err(cannot)?);
    let tasks = accept(&shadow, listener, Duration::from_secs(args.every.saturating_mul(60)), &stop).await;
    drain(tasks, &stop).await;
    shadow.watch.summary();
    Ok(Exit::Done)
}

/// Until a stop is asked for. Gives back what is not done.
async fn accept(shadow: &Arc<Shadow>, listener: TcpListener, every: Duration, stop: &Stop) -> JoinSet<()> {
    let (places, mut tasks) = (Arc::new(Semaphore::new(CLIENTS_MAX)), JoinSet::new());
    let mut every = interval(every);
    every.tick().await;
    loop {
        tokio::select! {
            biased;
            () = stop.asked() => return tasks,
            _ = every.tick() => shadow.watch.summary(),
            Some(_) = tasks.join_next() => {}
            accepted = next(&listener, &places) => match accepted {
                Ok((place, client, address)) => {
                    tasks.spawn(Arc::clone(shadow).serve(place, client, address));
                }
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be accepted");
                    tokio::time::sleep(PAUSE).await;
                }
            },
        }
    }
}

async fn next(
    listener: &TcpListener,
    places: &Arc<Semaphore>,
) -> std::io::Result<(OwnedSemaphorePermit, TcpStream, SocketAddr)> {
    let place = Arc::clone(places).acquire_owned().await.map_err(std::io::Error::other)?;
    let (client, address) = listener.accept().await?;
    Ok((place, client, address))
}

async fn drain(mut tasks: JoinSet<()>, stop: &Stop) {
    let all = async { while tasks.join_next().await.is_some() {} };
    tokio::select! {
        _ = timeout(DRAIN_MAX, all) => {}
        () = stop.forced() => {}
    }
}

impl Shadow {
    /// The place is free again when the client has its answer; the comparison comes after.
    async fn serve(self: Arc<Self>, place: OwnedSemaphorePermit, client: TcpStream, address: SocketAddr) {
        let from = address.ip().to_canonical();
        if !self.allow.is_empty() && !self.allow.iter().any(|network| network.holds(from)) {
            drop(place);
            self.watch.take(Outcome::Stranger(from));
            return match self.strangers.try_acquire() {
                Ok(_place) => relay::refuse(client, &format!("illegal host {from}")).await,
                Err(_) => relay::reset(client),
            };
        }
        let signd = match self.signd.open().await {
            Ok(signd) => signd,
            Err(fault) => {
                relay::reset(client);
                return self.watch.take(Outcome::SigndLost(fault.to_string()));
            }
        };
        let seen = relay::run(client, signd).await;
        drop(place);
        let outcome = self.outcome(&seen).await;
        self.watch.take(outcome);
    }

    async fn outcome(&self, seen: &Seen) -> Outcome {
        match &seen.end {
            End::Whole => {}
            End::ClientGone => return Outcome::ClientGone,
            End::SigndLost(why) => return Outcome::SigndLost(why.clone()),
        }
        let request = match &seen.request {
            _ if seen.is_long => return Outcome::NotAsked(NotAsked::TooLong),
            None => return Outcome::NotAsked(NotAsked::Incomplete),
            Some(Err(_)) => None,
            Some(Ok(request)) if may_be_asked_twice(request.verb()) => Some(request),
            Some(Ok(request)) => return Outcome::NotAsked(NotAsked::Command(request.verb())),
        };
        let Ok(_place) = self.compared.try_acquire() else { return Outcome::NotAsked(NotAsked::Busy) };
        match timeout(OURS_MAX, self.ours.exchange(&seen.request_bytes)).await {
            Err(_) => Outcome::OursLost(format!("no answer in {} s", OURS_MAX.as_secs())),
            Ok(Err(fault)) => Outcome::OursLost(fault.to_string()),
            Ok(Ok(ours)) => compared(request, &seen.reply, &ours),
        }
    }
}

fn compared(request: Option<&Request>, signd: &[u8], ours: &[u8]) -> Outcome {
    let Some(difference) = compare(request, signd, ours) else { return Outcome::Same };
    let verb = request.map_or(Verb::Unknown, Request::verb);
    let user = request.map_or_else(String::new, |request| request.user().to_owned());
    // Texts about project keys stay where they are: what they repeat is somebody's secret, if encrypted.
    let said = match verb {
        Verb::Ping | Verb::Pubkey | Verb::Sign | Verb::Certgen => {
            Reply::parse(ours).map(|ours| ours.text()).unwrap_or_default()
        }
        Verb::Privsign | Verb::Keygen | Verb::Privtotp | Verb::Privileged | Verb::Unknown => String::new(),
    };
    Outcome::Different(Different { difference, verb, user, said })
}

/// As of `[obs] allow`: a listener that others reach has a list, and not one of everybody.
fn check(listens: IpAddr, allow: &[Network]) -> Result<(), Failure> {
    let advice = "Name them: --allow 192.0.2.7 --allow 2001:db8::/64.";
    if allow.is_empty() && !listens.is_loopback() {
        return Err(Failure::usage(
            format!("--listen {listens} is reached by other hosts, and nobody may ask"),
            advice,
        ));
    }
    if allow.iter().any(Network::is_everything) {
        return Err(Failure::usage("--allow lets everybody in", advice));
    }
    if allow.len() > ALLOW_MAX {
        return Err(Failure::usage(
            format!("{} times --allow, at most {ALLOW_MAX}", allow.len()),
            "Name networks.",
        ));
    }
    Ok(())
}

fn listen(text: &str) -> Result<SocketAddr, String> {
    if let Ok(port) = text.parse::<u16>() {
        return Ok((Ipv4Addr::LOCALHOST, port).into());
    }
    text.parse().map_err(|_| {
        "it is no PORT, and no ADDRESS:PORT like 192.0.2.1:5167 or [2001:db8::1]:5167".to_owned()
    })
}

fn host_and_port(text: &str) -> Result<HostAndPort, String> {
    let wrong = || "it is not HOST:PORT, like signd.example.org:5167 or [::1]:5167".to_owned();
    let (host, port) = text.rsplit_once(':').ok_or_else(wrong)?;
    let port: u16 = port.parse().ok().filter(|port| *port != 0).ok_or_else(wrong)?;
    let inner = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    let host = match inner {
        Some(six) if six.parse::<std::net::Ipv6Addr>().is_ok() => six,
        None if !host.is_empty() && !host.contains([':', '[', ']', '/']) => host,
        Some(_) | None => return Err(wrong()),
    };
    Ok(HostAndPort { host: host.to_owned(), port })
}

impl HostAndPort {
    fn peer(&self) -> Result<Peer, Failure> {
        Peer::new(&self.host, self.port, SourcePort::ReservedIfAllowed, None)
            .map_err(|error: Error| Failure::of(&error, Exit::Usage))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_alone_is_of_this_machine_and_names_are_no_address_to_listen_on() {
        assert_eq!(listen("5168").unwrap().to_string(), "127.0.0.1:5168");
        assert_eq!(listen("192.0.2.1:5168").unwrap().to_string(), "192.0.2.1:5168");
        assert_eq!(listen("[::]:5168").unwrap().to_string(), "[::]:5168");
        for bad in ["", "localhost:5168", "65536", "::1:5168:", "192.0.2.1"] {
            assert!(listen(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_server_is_a_host_and_a_port() {
        let of = |text| host_and_port(text).map(|of| (of.host, of.port));
        assert_eq!(of("signd.example.org:5167").unwrap(), ("signd.example.org".to_owned(), 5167));
        assert_eq!(of("[::1]:5167").unwrap(), ("::1".to_owned(), 5167));
        for bad in
            ["", "host", "host:", ":5167", "host:0", "host:65536", "::1:5167", "[host]:1", "a/b:1", "[::1:5"]
        {
            assert!(of(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_listener_that_others_reach_needs_a_list_and_no_list_is_of_everybody() {
        let at = |listens: &str, allow: &[&str]| {
            let allow: Vec<Network> = allow.iter().map(|network| network.parse().unwrap()).collect();
            check(listens.parse().unwrap(), &allow).is_ok()
        };
        assert!(at("127.0.0.1", &[]) && at("::1", &[]) && at("0.0.0.0", &["192.0.2.7"]));
        assert!(!at("0.0.0.0", &[]) && !at("::", &[]) && !at("192.0.2.1", &[]));
        assert!(!at("0.0.0.0", &["0.0.0.0/0"]) && !at("127.0.0.1", &["192.0.2.7", "::/0"]));
        assert!(!at("0.0.0.0", &["192.0.2.7"; ALLOW_MAX + 1]));
    }
}
