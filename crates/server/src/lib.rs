//! Who may sign what, recorded: the process that talks.
//!
//! ```text
//! grpc/* --parse--> sign.rs: authorise (policy.rs) -> resolve (registry.rs) -> record intent (store)
//!        -> the key process signs (signer_client.rs) -> append log entry (store, durable) -> reply
//! ```
//!
//! What this crate refuses to do: hold a clear private key, know a file format, answer with a signature that has
//! no durable log entry. It reads the clock in one file and has no SQL.
//!
//! Over the network: `service.rs` (connections and their limits), [`tls`], `authn.rs` (who it is), [`clients`]; [`obs`] for
//! clients of obs-sign.
//!
//! Reading order: `sign.rs`, [`policy`], [`tickets`], `registry.rs`, `signer_client.rs`, `keys.rs`, `grpc.rs`, `service.rs`.
//!
//! Promise: the order of effects in `sign.rs`; a test fails when two of them are exchanged.

#![forbid(unsafe_code)]

use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use sealwright_proto::status::Code;
use sealwright_store::Store;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{Semaphore, watch};
use uuid::Uuid;

pub mod allow;
mod authn;
pub mod clients;
mod clock;
mod error;
mod fault;
mod grpc;
mod http1;
pub mod keygen;
mod keys;
mod limits;
pub mod metrics;
mod notices;
pub mod obs;
pub mod policy;
mod readiness;
mod registry;
mod salts;
mod serial;
mod service;
mod sign;
mod signer_client;
pub mod tickets;
pub mod tls;

pub use clients::Clients;
pub use error::Error;
pub use limits::Limits;
pub use policy::{Grants, Keys, Principal};
pub use readiness::{DISK_FREE_BYTES_MIN, Readiness};
pub use registry::Facts;
#[cfg(feature = "bench")]
#[doc(hidden)]
pub use registry::bench as registry_bench;
pub use service::Service;
pub use signer_client::{Launcher, connecting};

/// What an operator can set.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// Most bytes of requests in work at once, over all connections; further ones wait unread.
    pub request_bytes_in_work_max: u32,
    /// A signer that holds a request to sign and answers nobody for so long counts as dead: it is replaced, and the
    /// next one is asked. Longer than four full batches take on a slow machine.
    pub signer_silence_max: Duration,
}

impl Default for Config {
    fn default() -> Self {
        Self { request_bytes_in_work_max: 32 << 20, signer_silence_max: Duration::from_secs(40) }
    }
}

/// A running front; clones are the same one.
#[derive(Clone)]
pub struct Front {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) store: Store,
    pub(crate) registry: registry::Registry,
    pub(crate) looks: keys::Looks,
    pub(crate) making: keys::Making,
    pub(crate) signer: signer_client::SignerClient,
    pub(crate) tickets: tickets::Tickets,
    /// One permit a KiB, see [`Config::request_bytes_in_work_max`].
    pub(crate) request_kib: Arc<Semaphore>,
    pub(crate) request_kib_max: u32,
    pub(crate) metrics: Arc<metrics::Metrics>,
    pub(crate) notices: notices::Notices,
    store_folder: PathBuf,
    readiness: readiness::Remembered,
    /// Places for large messages on their way in, of all connections.
    pub(crate) arrivals: service::Arrivals,
    /// Said to all connections at once.
    pub(crate) phase: watch::Sender<authn::Phase>,
}

/// How often the first signer is started if it dies before it is ready.
const FIRST_STARTS_MAX: u32 = 3;

impl Front {
    /// Opens the store in `store_folder` and waits until the signer at the other end of `signer` is ready. Must be
    /// called inside a Tokio runtime with input, output and time enabled, and be used inside it. When that signer
    /// ends, signing ends: see [`Self::start_with`].
    ///
    /// # Errors
    /// [`Error::Store`], [`Error::SignerSocket`], [`Error::Signer`], [`Error::OtherRootKey`], [`Error::StoreLost`].
    pub async fn start(config: Config, store_folder: &Path, signer: UnixStream) -> Result<Self, Error> {
        Self::start_on(config, store_folder, signer, None).await
    }

    /// The same with a signer that `launcher` starts, now and whenever it has died.
    ///
    /// # Errors
    /// As for [`Self::start`].
    pub async fn start_with(config: Config, store_folder: &Path, launcher: Launcher) -> Result<Self, Error> {
        let mut tries_left = FIRST_STARTS_MAX;
        loop {
            tries_left = tries_left.saturating_sub(1);
            let signer = launcher().map_err(Error::SignerSocket)?;
            match Self::start_on(config, store_folder, signer, Some(Arc::clone(&launcher))).await {
                // It died before it could say a word; if it says why, it would say it again.
                Err(Error::Signer(fault)) if fault.code == Code::SignerGone && tries_left > 0 => {}
                started => return started,
            }
        }
    }

    async fn start_on(
        config: Config,
        store_folder: &Path,
        signer: UnixStream,
        launcher: Option<Launcher>,
    ) -> Result<Self, Error> {
        signer.set_nonblocking(true).map_err(Error::SignerSocket)?;
        let signer = tokio::net::UnixStream::from_std(signer).map_err(Error::SignerSocket)?;
        let store = Store::open(store_folder).await?;
        // At least one message of the largest size, or it could never be taken.
        let largest = sealwright_proto::limits::GRPC_MESSAGE_BYTES_MAX.div_ceil(1024);
        let kib = usize::try_from(config.request_bytes_in_work_max.div_ceil(1024)).unwrap_or(usize::MAX);
        let kib = kib.max(largest).min(Semaphore::MAX_PERMITS);
        let silence_max = config.signer_silence_max;
        let metrics = Arc::new(metrics::Metrics::default());
        let signer =
            signer_client::SignerClient::connect(signer, launcher, silence_max, Arc::clone(&metrics));
        let signer = signer.await.map_err(Error::Signer)?;
        belong_together(&store, &signer).await?;
        let inner = Inner {
            registry: registry::Registry::new(store.clone()),
            looks: keys::Looks::start(store.clone()),
            making: keys::Making::default(),
            store,
            signer,
            tickets: tickets::Tickets::default(),
            request_kib: Arc::new(Semaphore::new(kib)),
            request_kib_max: u32::try_from(kib).unwrap_or(u32::MAX),
            metrics,
            notices: notices::Notices::default(),
            store_folder: store_folder.to_owned(),
            readiness: readiness::Remembered::default(),
            arrivals: service::arrivals(),
            phase: watch::Sender::new(authn::Phase::Serving),
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Serves one stream that only `principal` can have, until its other end closes it: the embedded default. The same
    /// services, by the same way, as over the network ([`Service`]).
    pub async fn serve_stream<S>(&self, stream: S, principal: Principal)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        service::serve_stream(self, stream, principal).await;
    }

    /// For the only front of its store, once, before it serves: requests that the front before it had in hand when it
    /// was killed are free for their retries at once, not when their leases end. Safe even if that one still lives:
    /// it can append no log entry for a request that it has lost.
    ///
    /// # Errors
    /// [`Error::Store`].
    pub async fn take_over(&self) -> Result<(), Error> {
        Ok(self.inner.store.release_unanswered_intents().await?)
    }

    /// The same for these requests of this principal alone, who knows that nobody works on them any more: the embedded default,
    /// where client and front die together and other fronts have the store too.
    ///
    /// # Errors
    /// [`Error::Store`].
    pub async fn take_over_requests(
        &self,
        principal: &Principal,
        request_ids: Vec<Uuid>,
    ) -> Result<(), Error> {
        Ok(self.inner.store.release_requests(principal.name().to_owned(), request_ids).await?)
    }

    /// Whether a request would be signed now. Asked for real, at most once a second.
    pub async fn readiness(&self) -> Arc<Readiness> {
        self.inner.readiness.readiness(&self.inner).await
    }

    /// What is counted.
    #[must_use]
    pub fn metrics(&self) -> &metrics::Metrics {
        &self.inner.metrics
    }

    /// Bytes of requests that are held now, to the next KiB.
    #[must_use]
    pub fn request_bytes_in_work(&self) -> u64 {
        let free = u32::try_from(self.inner.request_kib.available_permits()).unwrap_or(u32::MAX);
        u64::from(self.inner.request_kib_max.saturating_sub(free)).saturating_mul(1024)
    }

    /// Commits of the store by this front so far, for metrics.
    #[must_use]
    pub fn store_commits(&self) -> u64 {
        self.inner.store.commits()
    }
}

/// Whether the signer can open what the store has, and the store has what the signer worked with. Found out at the
/// start: a key that was made anew, or a store that was, would else be found out when it is too late to go back.
async fn belong_together(store: &Store, signer: &signer_client::SignerClient) -> Result<(), Error> {
    let found = signer.data_key_id();
    match store.any_key().await? {
        Some((_, wanted)) if wanted == found => Ok(()),
        Some((key, wanted)) => Err(Error::OtherRootKey { key, wanted, found: found.to_owned() }),
        None if signer.has_history() => Err(Error::StoreLost),
        None => Ok(()),
    }
}
