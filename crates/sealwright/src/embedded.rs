//! The embedded default: front runs in this process and is spoken to as a server is, over an in-memory
//! stream; the signer is a child process, spoken to over a socket that only the two of us have.

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use hyper_util::rt::TokioIo;
use sealwright_client::connection::Connection;
use sealwright_server::Front;
use tonic::transport::{Channel, Endpoint, Server, Uri};

use crate::config::Places;
use crate::failure::{Exit, Failure};

/// Bytes in flight in each direction of the in-memory stream.
const DUPLEX_BYTES: usize = 256 << 10;
/// How long the signer may take to leave after its socket was closed; then it is killed.
const SIGNER_EXIT_MS_MAX: Duration = Duration::from_millis(2_000);

/// The hidden `signer` command.
#[derive(Debug, clap::Args)]
pub(crate) struct SignerArgs {
    /// Directory of root key, data key and floors.
    #[arg(long, value_name = "DIR")]
    root: PathBuf,
}

/// A running front and signer.
pub(crate) struct Embedded {
    /// Talks to the front as to any server.
    pub(crate) connection: Connection,
    signer: SignerProcess,
    front: tokio::task::JoinHandle<()>,
}

impl Embedded {
    /// Starts front and signer over the store in `places`; both are made if they are not there.
    ///
    /// # Errors
    /// The store cannot be opened, the signer cannot start (wrong root key, permissions).
    pub(crate) async fn start(places: &Places) -> Result<Self, Failure> {
        let (ours, theirs) = UnixStream::pair()
            .map_err(|error| Failure::failed(format!("cannot make a socket: {error}"), "Try again."))?;
        let signer = SignerProcess::spawn(theirs, places)?;
        let front = Front::start(sealwright_server::Config::default(), &places.store, ours)
            .await
            .map_err(|error| Failure::failed(Failure::chain(&error), error.advice()))?;
        let (client_half, server_half) = tokio::io::duplex(DUPLEX_BYTES);
        let routes = front.routes(sealwright_server::Principal::local());
        let incoming = tokio_stream::once(Ok::<_, std::io::Error>(server_half));
        let front = tokio::spawn(async move {
            if let Err(error) = Server::builder().add_routes(routes).serve_with_incoming(incoming).await {
                tracing::error!(error = &error as &dyn std::error::Error, "the embedded front ended");
            }
        });
        let channel = channel_over(client_half).await?;
        Ok(Self { connection: Connection::new(channel), signer, front })
    }

    /// Ends front and signer.
    pub(crate) async fn stop(self) {
        drop(self.connection);
        self.front.abort();
        let _ = self.front.await;
        self.signer.wait();
    }
}

async fn channel_over(half: tokio::io::DuplexStream) -> Result<Channel, Failure> {
    let mut half = Some(TokioIo::new(half));
    let connector = tower::service_fn(move |_: Uri| {
        let half = half.take();
        async move { half.ok_or_else(|| std::io::Error::other("the embedded connection has ended")) }
    });
    Endpoint::from_static("http://embedded")
        .connect_with_connector(connector)
        .await
        .map_err(|error| Failure::failed(Failure::chain(&error), "Please report it."))
}

/// The signer child. It leaves by itself when its socket is closed; nothing it needs is on the command line
/// but the directory of the root key.
struct SignerProcess(Child);

impl SignerProcess {
    fn spawn(socket: UnixStream, places: &Places) -> Result<Self, Failure> {
        // The running file itself, even if another was installed over it meanwhile.
        Command::new("/proc/self/exe")
            .arg("signer")
            .arg("--root")
            .arg(&places.root)
            .stdin(Stdio::from(OwnedFd::from(socket)))
            .stdout(Stdio::null())
            .spawn()
            .map(Self)
            .map_err(|error| Failure::failed(format!("cannot start the signer: {error}"), "Try again."))
    }

    fn wait(mut self) {
        let deadline = Instant::now().checked_add(SIGNER_EXIT_MS_MAX);
        while matches!(self.0.try_wait(), Ok(None)) {
            if deadline.is_none_or(|deadline| Instant::now() >= deadline) {
                let _ = self.0.kill();
                let _ = self.0.wait();
                return;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

/// The body of the `signer` command: serves the socket on standard input until it is closed.
pub(crate) fn signer(args: &SignerArgs) -> Result<Exit, Failure> {
    let stdin = rustix::stdio::stdin();
    let socket = rustix::io::fcntl_dupfd_cloexec(stdin, 3).map(UnixStream::from).map_err(|error| {
        Failure::failed(
            format!("standard input is not usable: {error}"),
            "The signer is started by sealwright itself.",
        )
    })?;
    let config = sealwright_signer::Config { root: args.root.clone(), create: true, socket };
    Ok(sealwright_signer::run(config).map_or_else(
        |error| {
            // Front was told, and says it to the user: once is enough.
            tracing::info!(error = &error as &dyn std::error::Error, "the signer ends");
            Exit::Failed
        },
        |()| Exit::Done,
    ))
}
