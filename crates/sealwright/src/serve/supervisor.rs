//! The parent of front and signer: holds the sockets, starts both, starts each again when it has died, hands files over,
//! passes states on. It has one thread, holds no key, reads no request, and ends only when it is told to.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use rustix::process::Signal as Number;

use super::backoff::{Backoff, from_now};
use super::channel::{self, Channel};
use super::config::Config;
use super::files::{Files, Loaded};
use super::inherit::Listeners;
use super::listeners::{self, Lock, SignerSocket};
use super::notify::{self, Notify};
use super::process::{Kind, Running, Users};
use super::signals::{Asked, End, Signals};
use super::watchdog::Watchdog;
use crate::config as environment;
use crate::failure::{Exit, Failure};
use crate::{log, users};

/// A front that says nothing for so long hangs, and is killed: it says something every few seconds.
const SILENCE_MAX: Duration = Duration::from_secs(60);

/// What a front may take beyond its own limit for answering what is in flight.
const DRAIN_MORE: Duration = Duration::from_secs(10);

/// What a signer may take to end when front has gone.
const SIGNER_END_MAX: Duration = Duration::from_secs(5);

/// Status of a front that would say the same again if it were started again.
const REFUSED: i32 = 2;

/// Runs until it is told to end.
pub(super) fn run(file: &Path, inherited: Listeners) -> Result<Exit, Failure> {
    let mut supervisor = Supervisor::prepare(file, inherited)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::failed(format!("cannot start: {error}"), "Raise the process limits."))?;
    runtime.block_on(supervisor.run())
}

struct Supervisor {
    /// `server.toml`.
    file: PathBuf,
    config: Config,
    /// What is in force, as it was read and found good: a front that is started again gets these very bytes.
    files: Files,
    listeners: Listeners,
    socket: SignerSocket,
    users: Option<Users>,
    notify: Notify,
    front: Slot,
    signer: Slot,
    channel: Option<Channel>,
    /// Handed over for a reload, and neither taken nor refused yet.
    candidate: Option<(Config, Files)>,
    /// A reload was asked for while one was under way.
    again: bool,
    /// Whether front was ever ready.
    was_ready: bool,
    /// Set by the first signal to end: when front is killed.
    ends: Option<Instant>,
    status: String,
    _store: Lock,
}

/// One of the two processes, or the moment of its next start.
struct Slot {
    running: Option<Running>,
    backoff: Backoff,
    start: Option<Instant>,
    watchdog: Watchdog,
}

impl Slot {
    fn new(silence_max: Duration) -> Self {
        let watchdog = Watchdog::new(silence_max);
        Self { running: None, backoff: Backoff::new(), start: Some(Instant::now()), watchdog }
    }

    fn is_due(&self) -> bool {
        self.running.is_none() && self.start.is_some_and(|start| start <= Instant::now())
    }

    /// Notes how an attempt to start ended; a failed one is tried again.
    fn started(&mut self, kind: Kind, started: std::io::Result<Running>) {
        match started {
            Ok(running) => {
                (self.running, self.start) = (Some(running), None);
                self.watchdog.started();
            }
            Err(error) => {
                let pause = self.backoff.after(Duration::ZERO);
                tracing::error!(child = %kind, %error, "does not start");
                self.start = Some(from_now(pause));
            }
        }
    }

    /// Notes its end, and when the next one is started.
    fn ended(&mut self, kind: Kind, status: ExitStatus) {
        let lived = self.running.take().map_or(Duration::ZERO, |running| running.lived());
        let pause = self.backoff.after(lived);
        let (pause_ms, lived_s) = (pause.as_millis(), lived.as_secs());
        tracing::warn!(child = %kind, %status, lived_s, pause_ms, "ended; it is started again");
        self.start = Some(from_now(pause));
    }

    fn signal(&self, number: Number) {
        if let Some(running) = &self.running {
            running.signal(number);
        }
    }

    /// When it is started, or looked at.
    const fn next_look(&self) -> Option<Instant> {
        if self.running.is_some() { Some(self.watchdog.next_look()) } else { self.start }
    }

    /// One that hangs is killed; its end is noticed as any other.
    fn look(&mut self, kind: Kind, now: Instant) {
        if self.running.is_some() && self.watchdog.is_silent(now) {
            tracing::error!(child = %kind, "says nothing any more; it is killed");
            self.signal(Number::KILL);
        }
    }
}

impl Supervisor {
    /// Reads the configuration, and makes what outlives the two processes.
    fn prepare(file: &Path, mut inherited: Listeners) -> Result<Self, Failure> {
        let files = Files::read(file, super::log_as_configured)?;
        let Loaded { config, .. } = files.load()?;
        let users = children(&config)?;
        places(&config, users.as_ref())?;
        listeners::make_directory(&config.store, 0o700, users.as_ref().map(|users| &users.front))?;
        let store = Lock::of_directory(&config.store, "the store")?;
        if let Some(users) = &users {
            listeners::make_directory(&config.signer.root, 0o700, Some(&users.signer))?;
        }
        let socket = match inherited.take_signer() {
            Some(listener) => SignerSocket::inherited(listener),
            None => SignerSocket::make(&config.signer.socket, users.as_ref().map(|users| &users.front))?,
        };
        listeners::bind_missing(&config, &mut inherited)?;
        let signer_silence_max = Duration::from_secs(u64::from(config.signer.silence_s));
        Ok(Self {
            file: file.to_owned(),
            config,
            files,
            listeners: inherited,
            socket,
            users,
            notify: Notify::service_manager(environment::notify_socket().as_deref()),
            front: Slot::new(SILENCE_MAX),
            signer: Slot::new(signer_silence_max),
            channel: None,
            candidate: None,
            again: false,
            was_ready: false,
            ends: None,
            status: String::new(),
            _store: store,
        })
    }

    async fn run(&mut self) -> Result<Exit, Failure> {
        let mut signals = Signals::new()?;
        loop {
            self.start_due();
            let until = self.next_look();
            tokio::select! {
                biased;
                asked = signals.next() => match asked {
                    Asked::Reload => self.reload(),
                    Asked::End(End::InOrder) if self.ends.is_none() => self.begin_end(),
                    Asked::End(End::InOrder | End::AtOnce) => return Ok(self.end_at_once().await),
                },
                news = news(&mut self.signer) => match news {
                    Some(status) => self.signer.ended(Kind::Signer, status),
                    None => self.signer.watchdog.heard(),
                },
                notice = notice(self.channel.as_ref()) => self.hear(notice.as_deref()),
                status = ended(&mut self.front) => {
                    if self.ends.is_some() {
                        self.front.running = None;
                        return Ok(self.end_signer(status).await);
                    }
                    self.front_ended(status)?;
                }
                () = tokio::time::sleep_until(until.into()) => self.look(),
            }
            if self.ends.is_some() && self.front.running.is_none() {
                return Ok(self.end_signer(ExitStatus::default()).await);
            }
        }
    }

    fn start_due(&mut self) {
        if self.signer.is_due() {
            let copy = self.socket.copy();
            let users = self.users.as_ref();
            let started = copy.and_then(|socket| Running::start_signer(&self.config, users, socket.into()));
            self.signer.started(Kind::Signer, started);
        }
        if self.ends.is_none() && self.front.is_due() {
            let started = self.start_front();
            self.front.started(Kind::Front, started);
        }
    }

    fn start_front(&mut self) -> std::io::Result<Running> {
        let (ours, theirs) = channel::pair()?;
        let ours = Channel::new(ours)?;
        channel::hand_over(ours.descriptor(), &self.files, Some(&self.listeners))?;
        let running = Running::start_front(&self.config, self.users.as_ref(), theirs)?;
        self.channel = Some(ours);
        Ok(running)
    }

    fn front_ended(&mut self, status: ExitStatus) -> Result<(), Failure> {
        self.channel = None;
        if self.candidate.take().is_some() {
            self.refuse("front ended during the reload", "Ask for the reload again.");
            if std::mem::take(&mut self.again) {
                self.reload();
            }
        }
        if status.code() == Some(REFUSED) && !self.was_ready {
            return Err(Failure::failed(
                "front does not start; what it says stands above",
                "Mend it: sealwright serve --check-config reads everything that the configuration names.",
            ));
        }
        self.front.ended(Kind::Front, status);
        self.say(&format!("front ended ({status}) and is started again"));
        Ok(())
    }

    /// When something is to be done, if nothing happens.
    fn next_look(&self) -> Instant {
        let looks = [self.front.next_look(), self.signer.next_look(), self.ends];
        looks.into_iter().flatten().min().unwrap_or_else(|| from_now(SILENCE_MAX))
    }

    fn look(&mut self) {
        let now = Instant::now();
        if self.ends.is_some_and(|ends| ends <= now) {
            tracing::error!("front does not end; it is killed");
            self.front.signal(Number::KILL);
            self.ends = Some(from_now(DRAIN_MORE));
        }
        self.front.look(Kind::Front, now);
        self.signer.look(Kind::Signer, now);
    }

    /// What front says. It is believed about itself and nothing else.
    fn hear(&mut self, notice: Option<&str>) {
        let Some(notice) = notice else {
            // Its end is noticed by itself, too.
            self.channel = None;
            return;
        };
        self.front.watchdog.heard();
        let mut told = String::new();
        for line in notice.lines() {
            match line.split_once('=') {
                Some(("READY", "1")) if self.candidate.is_none() && self.ends.is_none() => {
                    if !self.was_ready {
                        tracing::info!("ready");
                    }
                    self.was_ready = true;
                    told.push_str("READY=1\n");
                }
                Some(("WATCHDOG", "1")) => told.push_str("WATCHDOG=1\n"),
                Some(("STATUS", status)) => {
                    let status = notify::line(status);
                    if status != self.status {
                        told.push_str(&format!("STATUS={status}\n"));
                        self.status = status;
                    }
                }
                Some(("X_RELOAD", outcome)) => self.reloaded(outcome == "taken"),
                _ => (),
            }
        }
        if !told.is_empty() {
            self.notify.tell(told.trim_end());
        }
    }

    /// Reads the files of now, checks them as front does, and hands them to it; it takes or refuses all of them. The check
    /// here is what counts while there is no front, and where front is not to be believed.
    fn reload(&mut self) {
        if self.candidate.is_some() {
            self.again = true;
            return;
        }
        self.notify.reloading();
        let read = Files::read(&self.file, |_| ()).and_then(|files| {
            let Loaded { config, .. } = files.load()?;
            self.config.check_reload(&config)?;
            Ok((config, files))
        });
        let (config, files) = match read {
            Ok(read) => read,
            Err(failure) => {
                // Front counts it. What it does not get it does not count.
                if let Some(channel) = &self.channel {
                    let _ = channel::hand_over(channel.descriptor(), &Files::none(), None);
                }
                self.refuse(&failure.what, &failure.advice);
                return;
            }
        };
        let handed_over = self
            .channel
            .as_ref()
            .map(|channel| channel::hand_over(channel.descriptor(), &files, None))
            // Its end is about to be noticed.
            .filter(|handed_over| {
                !handed_over.as_ref().is_err_and(|error| error.kind() == ErrorKind::BrokenPipe)
            });
        match handed_over {
            Some(Ok(())) => self.candidate = Some((config, files)),
            Some(Err(error)) => self.refuse(&error.to_string(), "Ask for the reload again."),
            None => {
                tracing::info!("reloaded; the next front starts with it");
                self.candidate = Some((config, files));
                self.reloaded(true);
            }
        }
    }

    fn refuse(&mut self, why: &str, advice: &str) {
        tracing::error!(reason = why, advice, "not reloaded; what was in force stays");
        let status = notify::line(&format!("not reloaded, what was in force stays: {why}"));
        self.notify.tell(&format!("READY=1\nSTATUS={status}"));
        self.status = status;
    }

    fn reloaded(&mut self, is_taken: bool) {
        if let Some((config, files)) = self.candidate.take().filter(|_| is_taken) {
            if config.log != self.config.log {
                let _ = log::change(&config.log);
            }
            (self.config, self.files) = (config, files);
        }
        self.notify.tell("READY=1");
        if std::mem::take(&mut self.again) {
            self.reload();
        }
    }

    fn say(&mut self, status: &str) {
        status.clone_into(&mut self.status);
        self.notify.status(status);
    }

    /// Front first: the signer answers what is in flight.
    fn begin_end(&mut self) {
        self.notify.tell("STOPPING=1\nSTATUS=answering what is in flight");
        let most = self.config.limits.drain().saturating_add(DRAIN_MORE);
        self.ends = Some(from_now(most));
        self.front.signal(Number::TERM);
    }

    async fn end_signer(&mut self, front: ExitStatus) -> Exit {
        self.signer.signal(Number::TERM);
        let in_time = match &mut self.signer.running {
            Some(running) => tokio::time::timeout(SIGNER_END_MAX, running.ended()).await.is_ok(),
            None => true,
        };
        if !in_time {
            tracing::error!("the signer does not end; it is killed");
            self.end_at_once().await;
        }
        if front.success() && in_time { Exit::Done } else { Exit::Failed }
    }

    async fn end_at_once(&mut self) -> Exit {
        for slot in [&mut self.front, &mut self.signer] {
            slot.signal(Number::KILL);
            if let Some(mut running) = slot.running.take() {
                let _ = running.ended().await;
            }
        }
        Exit::Failed
    }
}

/// Whom the children become. With one user for both, only Landlock keeps front from the root key: a user's own account is
/// theirs to risk, root's is not.
fn children(config: &Config) -> Result<Option<Users>, Failure> {
    let is_root = rustix::process::geteuid().is_root();
    match &config.users {
        Some(named) if is_root => {
            let (front, signer) = (users::find(&named.front)?, users::find(&named.signer)?);
            if front.uid == signer.uid || [front, signer].iter().any(|user| user.uid == 0) {
                return Err(Failure::failed(
                    "[users] are the same user, or one of them is root",
                    "Name two users of their own: sealwright and sealwright-signer.",
                ));
            }
            Ok(Some(Users { front, signer }))
        }
        Some(_) => {
            tracing::info!("[users] is not used: only root can become another user");
            Ok(None)
        }
        None if is_root && !sealwright_signer::has_landlock() => Err(Failure::failed(
            "started by root without [users], on a kernel without Landlock: the process with the network could read every key",
            "Name two users in [users] of server.toml, or start it as a plain user.",
        )),
        None => Ok(None),
    }
}

/// What the configuration says about users and directories, as it would be refused at the start.
///
/// # Errors
/// Which directory, whose it is, and the command that changes it.
pub(super) fn check(config: &Config) -> Result<(), Failure> {
    places(config, children(config)?.as_ref())
}

/// Whether directories that are there can be used by the users of now.
fn places(config: &Config, users: Option<&Users>) -> Result<(), Failure> {
    let Some(users) = users else { return Ok(()) };
    listeners::check_directory(&config.store, &users.front)?;
    listeners::check_directory(&config.signer.root, &users.signer)?;
    config.signer.socket.parent().map_or(Ok(()), |run| listeners::check_way(run, &users.front))
}

async fn ended(slot: &mut Slot) -> ExitStatus {
    match &mut slot.running {
        // An error means that there is nothing to wait for: it has ended.
        Some(running) => running.ended().await.unwrap_or_default(),
        None => std::future::pending().await,
    }
}

/// Its end, or a sign that it works.
async fn news(slot: &mut Slot) -> Option<ExitStatus> {
    match &mut slot.running {
        Some(running) => running.news().await.map(Result::unwrap_or_default),
        None => std::future::pending().await,
    }
}

async fn notice(channel: Option<&Channel>) -> Option<String> {
    match channel {
        Some(channel) => channel.notice().await,
        None => std::future::pending().await,
    }
}
