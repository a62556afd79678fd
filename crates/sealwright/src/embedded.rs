//! The embedded default: front runs in this process and is spoken to as a server is, over an in-memory
//! stream; the signer is a child process, spoken to over a socket that only the two of us have.

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use hyper_util::rt::TokioIo;
use sealwright_client::connection::{Connection, trace};
use sealwright_server::{Front, Launcher};
use sealwright_signer::{Landlock, Socket, Walls};
use tonic::transport::{Channel, Endpoint, Uri};

use crate::config::{self, Places};
use crate::failure::{Exit, Failure};
use crate::machine;
use crate::serve;
use crate::users;

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
    /// Does not start on a kernel without Landlock.
    #[arg(long)]
    require_sandbox: bool,
    /// User ids that may hold the other end of the socket, beside the signer's own and root.
    #[arg(long, value_name = "UID")]
    front_uid: Vec<u32>,
    /// The same by name.
    #[arg(long, value_name = "USER")]
    front_user: Vec<String>,
    /// Reads the root key from this file, which it never makes.
    #[arg(long, value_name = "FILE")]
    root_key: Option<PathBuf>,
    /// Makes a root key in the directory, if there is none, and ends.
    #[arg(long)]
    make_root_key: bool,
    /// Ends with the process of this number, which started it.
    #[arg(long, value_name = "PID")]
    parent: Option<u32>,
    /// Says on standard output that it works, several times in so many seconds.
    #[arg(long, value_name = "SECONDS")]
    watched: Option<u32>,
}

/// A running front and signer.
pub(crate) struct Embedded {
    /// Talks to the front as to any server.
    pub(crate) connection: Connection,
    signers: Arc<Signers>,
    front: tokio::task::JoinHandle<()>,
}

impl Embedded {
    /// Starts front and signer over the store in `places`; both are made if they are not there.
    ///
    /// # Errors
    /// The store cannot be opened, the signer cannot start (wrong root key, permissions).
    pub(crate) async fn start(places: &Places) -> Result<Self, Failure> {
        let signers = Arc::new(Signers::new(places));
        let launcher: Launcher = {
            let signers = Arc::clone(&signers);
            Arc::new(move || signers.launch())
        };
        let front = Front::start_with(sealwright_server::Config::default(), &places.store, launcher)
            .await
            .map_err(|error| Failure::failed(Failure::chain(&error), error.advice()))?;
        let (client_half, server_half) = tokio::io::duplex(DUPLEX_BYTES);
        let front = tokio::spawn(async move {
            front.serve_stream(server_half, sealwright_server::Principal::local()).await;
        });
        let channel = channel_over(client_half).await?;
        Ok(Self {
            connection: Connection::traced(channel, trace::of_run(config::traceparent().as_deref())),
            signers,
            front,
        })
    }

    /// Ends front and signer.
    pub(crate) async fn stop(self) {
        drop(self.connection);
        self.front.abort();
        let _ = self.front.await;
        self.signers.stop();
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

/// The signer child, and those that follow it if it dies. It leaves by itself when its socket is closed; nothing it
/// needs is on the command line but the directory of the root key.
struct Signers {
    root: PathBuf,
    require_sandbox: bool,
    state: Mutex<Children>,
}

#[derive(Default)]
struct Children {
    living: Option<Child>,
    stopped: bool,
}

impl Signers {
    fn new(places: &Places) -> Self {
        Self {
            root: places.root.clone(),
            require_sandbox: config::require_sandbox(),
            state: Mutex::default(),
        }
    }

    /// Starts a signer; what is left of the one before goes first.
    fn launch(&self) -> std::io::Result<UnixStream> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(before) = state.living.take() {
            end(before);
        }
        if state.stopped {
            return Err(std::io::Error::other("the program is ending"));
        }
        let (ours, theirs) = UnixStream::pair()?;
        // The running file itself, even if another was installed over it meanwhile.
        let mut command = Command::new("/proc/self/exe");
        command.arg("signer").arg("--root").arg(&self.root);
        if self.require_sandbox {
            command.arg("--require-sandbox");
        }
        command
            .env_clear()
            .envs(config::signer_environment())
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::null());
        state.living = Some(command.spawn()?);
        Ok(ours)
    }

    /// Waits until the last one has left; its socket is closed.
    fn stop(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.stopped = true;
        let Some(mut child) = state.living.take() else { return };
        let deadline = Instant::now().checked_add(SIGNER_EXIT_MS_MAX);
        while matches!(child.try_wait(), Ok(None)) {
            if deadline.is_none_or(|deadline| Instant::now() >= deadline) {
                return end(child);
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

/// At once.
fn end(mut child: Child) {
    let _ = child.kill();
    let _ = child.wait();
}

/// The body of the `signer` command: serves the socket on standard input until it is closed; one that listens, until
/// SIGTERM.
pub(crate) fn signer(args: &SignerArgs) -> Result<Exit, Failure> {
    if args.make_root_key {
        let made = sealwright_signer::make_root_key(&args.root);
        return made
            .map(|()| Exit::Done)
            .map_err(|error| Failure::failed(Failure::chain(&error), error.advice()));
    }
    if let Some(parent) = args.parent {
        machine::end_with(parent)?;
    }
    let unusable = |error: String| {
        Failure::failed(
            format!("standard input is not usable: {error}"),
            "The signer is started by sealwright itself, or by the service manager with its socket as standard input.",
        )
    };
    let stdin = rustix::stdio::stdin();
    let socket = rustix::io::fcntl_dupfd_cloexec(stdin, 3).map_err(|error| unusable(error.to_string()))?;
    let socket = Socket::inherited(socket).map_err(|error| unusable(Failure::chain(&error)))?;
    let (root, root_key) = (args.root.clone(), args.root_key.clone());
    let watcher = serve::watcher(args.watched).map_err(|error| {
        Failure::failed(format!("nobody can be told that the signer works: {error}"), "Please report it.")
    })?;
    let config = sealwright_signer::Config { root, root_key, create: true, socket, watcher };
    let landlock = if args.require_sandbox { Landlock::Required } else { Landlock::IfPresent };
    let mut peers = args.front_uid.clone();
    for name in &args.front_user {
        peers.push(users::find(name)?.uid);
    }
    let walls = Walls { landlock, peers };
    Ok(sealwright_signer::run(config, &walls).map_or_else(
        |error| {
            // Front was told, and says it to the user: once is enough.
            tracing::info!(error = &error as &dyn std::error::Error, "the signer ends");
            Exit::Failed
        },
        |()| Exit::Done,
    ))
}
