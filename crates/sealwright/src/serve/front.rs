//! The process with the network: takes its sockets and files, shuts itself in, serves, and tells its state.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit};
use sealwright_server::keygen::{self, Keygen};
use sealwright_server::metrics::{Process, listener};
use sealwright_server::{Front, Limits, Readiness, Service, obs};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;

use super::channel::{self, Channel};
use super::complaint::Complaint;
use super::files::{Files, Loaded};
use super::inherit::{Listeners, Name};
use super::listeners;
use super::notify::Notify;
use super::sandbox::Sandbox;
use super::signals::{Asked, End, Signals};
use crate::config as environment;
use crate::failure::{Exit, Failure};
use crate::log;

/// Between two looks at whether a request would be signed now: one that is ready, one that is not.
const LOOK_READY: Duration = Duration::from_secs(5);
const LOOK_NOT_READY: Duration = Duration::from_secs(1);

/// Descriptors beside those of connections: store, signer, listeners, metrics, runtime. Of few, a quarter.
const DESCRIPTORS_MORE: u64 = 256;
const DESCRIPTORS_MORE_PART: u64 = 4;

/// Threads that nobody waits for get so long at the end.
const END_MAX: Duration = Duration::from_millis(500);

/// Where configuration comes from.
enum Origin {
    /// Handed over; also at a reload.
    Supervisor(OwnedFd),
    /// Opened by this process, from `server.toml` here.
    Disk(PathBuf),
}

/// Everything that is needed before the sandbox.
struct Start {
    origin: Origin,
    files: Files,
    loaded: Loaded,
    listeners: Listeners,
    notify: Notify,
}

/// Front under a supervisor, which is at the other end of standard input.
pub(super) fn supervised() -> Result<Exit, Failure> {
    let copy = || rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3).map_err(std::io::Error::from);
    let channel = copy().map_err(|error| channel::broken(&error))?;
    let taken = channel::take(&channel).map_err(|error| channel::broken(&error))?;
    let Some((files, listeners)) = taken else { return Ok(Exit::Done) };
    let loaded = files.load().map_err(refusal)?;
    let notify = Notify::supervisor(copy().map_err(|error| channel::broken(&error))?);
    Start { origin: Origin::Supervisor(channel), files, loaded, listeners, notify }.run()
}

/// Front as a unit of its own.
pub(super) fn alone(file: &Path, mut listeners: Listeners) -> Result<Exit, Failure> {
    let files = Files::read(file, super::log_as_configured).map_err(refusal)?;
    let loaded = files.load().map_err(refusal)?;
    listeners::bind_missing(&loaded.config, &mut listeners)?;
    let notify = Notify::service_manager(environment::notify_socket().as_deref());
    Start { origin: Origin::Disk(file.to_owned()), files, loaded, listeners, notify }.run()
}

/// What a new start would say again: not worth one.
fn refusal(failure: Failure) -> Failure {
    Failure { exit: Exit::Usage, ..failure }
}

impl Start {
    fn run(self) -> Result<Exit, Failure> {
        let config = &self.loaded.config;
        listeners::make_directory(&config.store, 0o700, None)?;
        let of_keygen = config.copr_keygen.as_ref().map_or(0, |_| keygen::CONNECTIONS_MAX);
        let of_obs = config.obs.as_ref().map_or(0, |obs| obs.connections);
        let limits = fitting(&config.limits, u64::from(of_keygen).saturating_add(of_obs.into()));
        let readable = match &self.origin {
            Origin::Supervisor(_) => Vec::new(),
            Origin::Disk(_) => self.files.directories(),
        };
        let required = config.signer.require_sandbox || environment::require_sandbox();
        let sandbox =
            Sandbox { store: &config.store, readable: &readable, root: &config.signer.root, required };
        // Afterwards nothing under /proc opens.
        let _opened = Process::opened();
        sandbox.enter().map_err(refusal)?;
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(|error| {
            Failure::failed(format!("cannot start: {error}"), "Raise the process limits.")
        })?;
        let outcome = runtime.block_on(self.serve(limits));
        runtime.shutdown_timeout(END_MAX);
        outcome
    }

    async fn serve(self, limits: Limits) -> Result<Exit, Failure> {
        let Self { origin, files: _, loaded, mut listeners, notify } = self;
        let mut signals = Signals::new()?;
        let origin = Watched::new(origin)?;
        let front = tokio::select! {
            biased;
            _ = signals.end() => return Ok(Exit::Done),
            () = origin.is_gone() => return Ok(Exit::Failed),
            () = beat(&notify) => return Ok(Exit::Failed),
            front = start_front(&loaded) => front?,
        };
        let service = Service::new(front, limits, Arc::clone(&loaded.tls), Arc::clone(&loaded.clients));
        let mut serving = JoinSet::new();
        for listener in listeners.take_tcp(Name::Grpc) {
            let service = service.clone();
            serving.spawn(async move { service.serve(listener).await });
        }
        let obs = loaded.config.obs.as_ref().map(|settings| service.obs(settings));
        if let Some(gateway) = &obs {
            for (name, by) in [(Name::Obs, obs::By::Address), (Name::ObsTls, obs::By::Certificate)] {
                for listener in listeners.take_tcp(name) {
                    let gateway = gateway.clone();
                    serving.spawn(async move { gateway.serve(listener, by).await });
                }
            }
        }
        let observed: Arc<dyn listener::Source> = Arc::new(service.clone());
        let mut observing = JoinSet::new();
        for socket in listeners.take_tcp(Name::Metrics) {
            observing.spawn(listener::serve(socket, Arc::clone(&observed)));
        }
        let keygen = loaded.keygen.clone().map(|settings| Keygen::new(&service, settings));
        if let Some(keygen) = &keygen {
            for socket in listeners.take_tcp(Name::Keygen) {
                let keygen = keygen.clone();
                serving.spawn(async move { keygen.serve(socket).await });
            }
        }
        let mut running =
            Running { service, obs, keygen, notify, loaded, is_told: false, complaint: Complaint::default() };
        running.until_stopped(&mut signals, &origin, &mut serving).await
    }
}

/// A front that serves.
struct Running {
    service: Service,
    obs: Option<obs::Gateway>,
    keygen: Option<Keygen>,
    notify: Notify,
    loaded: Loaded,
    /// Whether READY was said.
    is_told: bool,
    /// Of not being ready.
    complaint: Complaint,
}

impl Running {
    async fn until_stopped(
        &mut self,
        signals: &mut Signals,
        origin: &Watched,
        serving: &mut JoinSet<Result<(), sealwright_server::Error>>,
    ) -> Result<Exit, Failure> {
        let service = self.service.clone();
        let (readiness, mut looked) = watch::channel(None);
        let looking = tokio::spawn(look(service, readiness));
        let end = loop {
            tokio::select! {
                biased;
                asked = signals.next() => match asked {
                    Asked::End(end) => break end,
                    Asked::Reload => self.reload_from_disk(origin),
                },
                taken = origin.taken() => match taken {
                    // The supervisor has said why.
                    Ok(Some((files, _))) if files.is_none() => {
                        self.service.metrics().reloads_refused.increment();
                    }
                    Ok(Some((files, _))) => self.reload(&files),
                    Ok(None) => return Ok(Exit::Failed),
                    Err(error) => tracing::error!(%error, "what was handed over is not used"),
                },
                Some(ended) = serving.join_next() => {
                    if let Ok(Err(error)) = ended {
                        return Err(Failure::failed(Failure::chain(&error), error.advice()));
                    }
                }
                Ok(()) = looked.changed() => {
                    let readiness = looked.borrow_and_update().clone();
                    if let Some(readiness) = readiness {
                        self.tell(&readiness);
                    }
                }
            }
        };
        let ended = self.end(end, signals).await;
        looking.abort();
        Ok(ended)
    }

    /// The event loop runs, and readiness was asked for a moment ago: that is what a watchdog wants to know.
    fn tell(&mut self, readiness: &Readiness) {
        let parts: Vec<&'static str> = readiness.reasons().map(|(part, _)| part).collect();
        let reasons: Vec<String> = readiness.reasons().map(|(part, why)| format!("{part}: {why}")).collect();
        if reasons.is_empty() {
            let ready = if self.is_told { "" } else { "READY=1\n" };
            self.is_told = true;
            if self.complaint.end() {
                tracing::info!("ready again");
            }
            self.notify.tell(&format!("{ready}WATCHDOG=1\nSTATUS=ready"));
        } else {
            let reasons = reasons.join("; ");
            if self.complaint.is_due(&parts, Instant::now()) {
                tracing::warn!(reasons, "not ready");
            }
            self.notify.tell("WATCHDOG=1");
            self.notify.status(&format!("not ready: {reasons}"));
        }
    }

    fn reload_from_disk(&mut self, origin: &Watched) {
        let Watched::Disk(file) = origin else {
            tracing::info!("a reload is asked of the supervisor: it hands over the files");
            return;
        };
        self.notify.reloading();
        match Files::read(file, |_| ()) {
            Ok(files) => self.reload(&files),
            Err(failure) => self.refuse(&failure),
        }
    }

    /// All of it, or nothing.
    fn reload(&mut self, files: &Files) {
        let loaded = files.load().and_then(|loaded| {
            self.loaded.config.check_reload(&loaded.config)?;
            Ok(loaded)
        });
        match loaded {
            Ok(loaded) => self.take(loaded),
            Err(failure) => self.refuse(&failure),
        }
    }

    fn take(&mut self, loaded: Loaded) {
        if loaded.config.log != self.loaded.config.log
            && let Err(error) = log::change(&loaded.config.log)
        {
            tracing::warn!(error = &error as &dyn std::error::Error, "the log stays as it was");
        }
        if loaded.config.limits != self.loaded.config.limits {
            tracing::warn!("[limits] were changed: they take effect when the server is started again");
        }
        self.service.reload(Arc::clone(&loaded.tls), Arc::clone(&loaded.clients));
        if let (Some(keygen), Some(settings)) = (&self.keygen, &loaded.keygen) {
            keygen.reload(settings.clone());
        }
        if let (Some(gateway), Some(settings)) = (&self.obs, &loaded.config.obs) {
            gateway.reload(settings);
        }
        self.service.metrics().reloads.increment();
        let limits = self.loaded.config.limits.clone();
        self.loaded = loaded;
        self.loaded.config.limits = limits;
        tracing::info!(clients = self.loaded.clients.len(), "reloaded");
        self.notify.tell("READY=1\nSTATUS=reloaded\nX_RELOAD=taken");
    }

    fn refuse(&self, failure: &Failure) {
        self.service.metrics().reloads_refused.increment();
        tracing::error!(
            reason = failure.what,
            advice = failure.advice,
            "not reloaded; what was in force stays"
        );
        let status = super::notify::line(&format!("not reloaded, what was in force stays: {}", failure.what));
        self.notify.tell(&format!("READY=1\nSTATUS={status}\nX_RELOAD=refused"));
    }

    /// Answers what is in flight, unless it is to be at once.
    async fn end(&self, end: End, signals: &mut Signals) -> Exit {
        self.notify.tell("STOPPING=1\nSTATUS=answering what is in flight");
        if end == End::AtOnce {
            return Exit::Failed;
        }
        let time = self.loaded.config.limits.drain();
        let keygen = async {
            if let Some(keygen) = &self.keygen {
                keygen.drain(time).await;
            }
        };
        tokio::select! {
            (cut, ()) = async { tokio::join!(self.service.drain(time), keygen) } => {
                tracing::info!(connections_cut = cut, "stopped");
                Exit::Done
            }
            _ = signals.end() => Exit::Failed,
        }
    }
}

async fn start_front(loaded: &Loaded) -> Result<Front, Failure> {
    let config = &loaded.config;
    let launcher = sealwright_server::connecting(config.signer.socket.clone(), config.signer.uid);
    let started = async {
        let front = Front::start_with(config.limits.front(), &config.store, launcher).await?;
        front.take_over().await?;
        Ok(front)
    };
    started
        .await
        .map_err(|error: sealwright_server::Error| Failure::failed(Failure::chain(&error), error.advice()))
}

/// For as long as nothing else says that this process lives. Never ends.
async fn beat(notify: &Notify) {
    let mut ticks = tokio::time::interval(LOOK_NOT_READY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        notify.tell("WATCHDOG=1\nSTATUS=waiting for the signer");
    }
}

async fn look(service: Service, readiness: watch::Sender<Option<Arc<Readiness>>>) {
    loop {
        let found = service.readiness().await;
        let pause = if found.is_ready() { LOOK_READY } else { LOOK_NOT_READY };
        readiness.send_replace(Some(found));
        tokio::time::sleep(pause).await;
    }
}

/// Where files come from at a reload.
enum Watched {
    Supervisor(Channel),
    Disk(PathBuf),
}

impl Watched {
    fn new(origin: Origin) -> Result<Self, Failure> {
        match origin {
            Origin::Supervisor(channel) => {
                Channel::new(channel).map(Self::Supervisor).map_err(|error| channel::broken(&error))
            }
            Origin::Disk(file) => Ok(Self::Disk(file)),
        }
    }

    async fn taken(&self) -> std::io::Result<Option<(Files, Listeners)>> {
        match self {
            Self::Supervisor(channel) => channel.taken().await,
            Self::Disk(_) => std::future::pending().await,
        }
    }

    /// The supervisor has ended. What it hands over meanwhile is left for later.
    async fn is_gone(&self) {
        match self {
            Self::Supervisor(channel) => channel.hung_up().await,
            Self::Disk(_) => std::future::pending().await,
        }
    }
}

/// As many descriptors as the limits of connections need, those of other listeners beside them, as far as this process may;
/// and the limits that fit those.
fn fitting(limits: &Limits, beside: u64) -> Limits {
    let connections = limits.sockets();
    let more = DESCRIPTORS_MORE.saturating_add(beside);
    let open_files = raise_descriptors(connections.saturating_add(more));
    let part = open_files.checked_div(DESCRIPTORS_MORE_PART).unwrap_or_default();
    let room = open_files.saturating_sub(more.min(part));
    let fitting = limits.clone().within(room);
    if fitting != *limits {
        tracing::warn!(
            open_files_max = open_files,
            connections = fitting.connections,
            connections_per_client = fitting.connections_per_client,
            unauthenticated = fitting.unauthenticated,
            configured = connections,
            "[limits] were made smaller: too few files may be open; raise LimitNOFILE, or ulimit -n"
        );
    }
    fitting
}

/// Raises the limit of open files to this, as far as this process may; returns the limit of then.
fn raise_descriptors(wanted: u64) -> u64 {
    let limit = rustix::process::getrlimit(Resource::Nofile);
    let current = limit.current.unwrap_or(u64::MAX);
    let raised = wanted.min(limit.maximum.unwrap_or(u64::MAX));
    if current >= raised {
        return current;
    }
    let limit = Rlimit { current: Some(raised), maximum: limit.maximum };
    match rustix::process::setrlimit(Resource::Nofile, limit) {
        Ok(()) => raised,
        Err(error) => {
            tracing::warn!(%error, "the limit of open files stays as it is");
            current
        }
    }
}
