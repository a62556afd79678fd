//! The other end of the socket to the key process: many requests in flight by their number, deadlines, and when
//! the process dies another one, and the same requests once more (`link.rs`; one socket is `line.rs`).
//!
//! Signing requests of concurrent groups cross together: while a few batches are with the signer, further groups
//! queue (`queue.rs`), and the next free place takes what the schedule chooses (`schedule.rs`, docs/adr/0015-scheduler.md).

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use sealwright_proto::convert::batch::{Request, SealedKey, SignedItem};
use sealwright_proto::convert::keys::{KeyMaterial, SignerCreate, SignerImport, SignerRenew};
use sealwright_proto::convert::project::{MakeProjectKey, ProjectKeyMade};
use sealwright_proto::signer_v1::{self as wire, from_signer::Response, to_signer};
use sealwright_proto::status::{Code, Fault};
use tokio::time::Instant;

use crate::metrics::Metrics;

mod line;
mod link;
mod path;
mod queue;
mod schedule;

use line::Line;
use link::Link;

pub use link::Launcher;
pub use path::connecting;
pub(crate) use queue::{QueueNow, Turn};
pub(crate) use schedule::{Ask, Length};

/// Items of one group with the sealed key they are for; all of one key.
pub(crate) struct Job {
    pub(crate) key: SealedKey,
    /// Their `key` field is set when the batch is put together.
    pub(crate) requests: Vec<Request>,
    pub(crate) deadline: Instant,
    /// When it leaves for the signer, this is set.
    pub(crate) left: Arc<OnceLock<Instant>>,
}

/// An answer as old as this says that the signer is there.
const JUST_NOW: Duration = Duration::from_secs(2);

/// What came of each item.
pub(crate) type Signed = Vec<Result<SignedItem, Fault>>;

/// See the module. When the last clone is gone, the socket is closed and the signer leaves.
#[derive(Clone)]
pub(crate) struct SignerClient {
    link: Link,
    queue: queue::Queue,
    data_key_id: Arc<str>,
    has_history: bool,
}

impl SignerClient {
    /// Waits until the signer says that it is ready, and starts the tasks that serve the socket. When it dies,
    /// `launcher` starts another; without one it stays gone.
    ///
    /// # Errors
    /// What the signer says that keeps it from serving; [`Code::SignerGone`], [`Code::DeadlineExceeded`].
    pub(crate) async fn connect(
        socket: tokio::net::UnixStream,
        launcher: Option<Launcher>,
        silence_max: Duration,
        metrics: Arc<Metrics>,
    ) -> Result<Self, Fault> {
        let line = Line::open(socket, silence_max).await?;
        let data_key_id = line.data_key_id();
        let has_history = line.has_history();
        let link = Link::start(line, launcher, metrics);
        Ok(Self { queue: queue::Queue::start(link.clone()), link, data_key_id, has_history })
    }

    /// The data key under which the signer seals, in hexadecimal.
    pub(crate) fn data_key_id(&self) -> &str {
        &self.data_key_id
    }

    /// Whether keys had signed under its root key when it started.
    pub(crate) const fn has_history(&self) -> bool {
        self.has_history
    }

    /// A place in the queue of its backend, for one group; at once or not at all.
    ///
    /// # Errors
    /// [`Code::Overloaded`], with the time to come again, when none is free or the wait would be longer than the group
    /// has time; [`Code::DeadlineExceeded`].
    pub(crate) fn turn(&self, ask: &Ask) -> Result<Turn, Fault> {
        self.queue.turn(ask)
    }

    /// Has the items of one group signed. When its client goes away before any of them has left for the signer, the
    /// group leaves the queue.
    ///
    /// # Errors
    /// [`Code::SignerGone`], [`Code::DeadlineExceeded`], or what the signer says about the batch as a whole.
    pub(crate) async fn sign(
        &self,
        turn: Turn,
        job: Job,
        client_gone: impl Future<Output = ()>,
    ) -> Result<Signed, Fault> {
        self.queue.sign(turn, job, client_gone).await
    }

    /// The queues as they are now, for metrics.
    pub(crate) fn queues(&self) -> Vec<QueueNow> {
        self.queue.now()
    }

    /// Whether the signer answers: it did a moment ago, or does when it is asked.
    ///
    /// # Errors
    /// Why not.
    pub(crate) async fn answers(&self, deadline: Instant) -> Result<(), Fault> {
        if self.link.has_answered_since(Instant::now().checked_sub(JUST_NOW)) {
            return Ok(());
        }
        self.begin_import(deadline).await.map(|_| ())
    }

    /// # Errors
    /// What the signer says; [`Code::SignerGone`]; [`Code::DeadlineExceeded`].
    pub(crate) async fn create(&self, create: SignerCreate, deadline: Instant) -> Result<KeyMaterial, Fault> {
        key_material(self.link.ask(to_signer::Request::Create(create.into_wire()), deadline).await?)
    }

    /// # Errors
    /// As for [`Self::create`].
    pub(crate) async fn begin_import(&self, deadline: Instant) -> Result<Vec<u8>, Fault> {
        match self.link.ask(to_signer::Request::BeginImport(wire::BeginImport {}), deadline).await? {
            Response::ImportKey(key) => Ok(key.hpke_public_key),
            Response::Failure(_)
            | Response::Sign(_)
            | Response::Key(_)
            | Response::Ready(_)
            | Response::ProjectKey(_) => Err(other_answer()),
        }
    }

    /// A key that a client will keep, certified by and encrypted to the key of the request.
    ///
    /// # Errors
    /// As for [`Self::create`].
    pub(crate) async fn make_project_key(
        &self,
        make: MakeProjectKey,
        deadline: Instant,
    ) -> Result<ProjectKeyMade, Fault> {
        match self.link.ask(to_signer::Request::MakeProjectKey(make.into_wire()), deadline).await? {
            Response::ProjectKey(made) => ProjectKeyMade::parse(made),
            Response::Failure(_)
            | Response::Sign(_)
            | Response::Key(_)
            | Response::Ready(_)
            | Response::ImportKey(_) => Err(other_answer()),
        }
    }

    /// # Errors
    /// As for [`Self::create`].
    pub(crate) async fn import(&self, import: SignerImport, deadline: Instant) -> Result<KeyMaterial, Fault> {
        key_material(self.link.ask(to_signer::Request::Import(import.into_wire()), deadline).await?)
    }

    /// # Errors
    /// As for [`Self::create`].
    pub(crate) async fn renew(&self, renew: SignerRenew, deadline: Instant) -> Result<KeyMaterial, Fault> {
        key_material(self.link.ask(to_signer::Request::Renew(renew.into_wire()), deadline).await?)
    }
}

fn key_material(response: Response) -> Result<KeyMaterial, Fault> {
    match response {
        Response::Key(material) => KeyMaterial::parse(material),
        Response::Failure(_)
        | Response::Sign(_)
        | Response::ImportKey(_)
        | Response::Ready(_)
        | Response::ProjectKey(_) => Err(other_answer()),
    }
}

fn other_answer() -> Fault {
    Fault::new(Code::Internal, "the signer answered something else than it was asked")
}

fn gone() -> Fault {
    Fault::new(Code::SignerGone, "the signer process ended with the request in its hands")
}

fn silent() -> Fault {
    Fault::new(Code::SignerGone, "the signer process answered nobody for too long")
}

fn too_late() -> Fault {
    Fault::new(Code::DeadlineExceeded, "the signer did not answer in time")
}
