//! Keys that programs ask for: each name once, however many ask for it at the same time, and few at once, however many
//! names there are. A key that was begun is made also when nobody waits for it any more, so that who comes again finds it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use sealwright_proto::names::{KeyName, KeyReference};
use sealwright_proto::status::{Code, Fault};
use tokio::sync::{Semaphore, watch};
use tracing::Instrument as _;

use super::{Wait, create};
use crate::Front;
use crate::policy::MayCreate;

/// Names that wait for their key, or have it made. With the parameters of a key each takes a few KiB; on two processors
/// this many RSA-2048 keys take some minutes.
const NAMES_MAX: usize = 4_096;

/// With the signer at once, for each processor: one is made, the next is there when it is finished.
const PLACES_PER_PROCESSOR: usize = 2;

/// When those above [`NAMES_MAX`] are told to come again, in milliseconds.
const COME_AGAIN_MS: u32 = 10_000;

/// What came of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Once {
    /// It was made for this request.
    Made,
    /// It was there, or was being made for another.
    There,
}

type Landed = Option<Result<(), Fault>>;

/// The keys in work of one front.
pub(crate) struct Making {
    places: Arc<Semaphore>,
    names: Mutex<HashMap<KeyName, watch::Receiver<Landed>>>,
}

impl Default for Making {
    fn default() -> Self {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let places = processors.saturating_mul(PLACES_PER_PROCESSOR);
        Self { places: Arc::new(Semaphore::new(places)), names: Mutex::default() }
    }
}

impl Making {
    /// From now on nothing is begun: who waits for his turn is told so, and what the signer has is finished.
    pub(crate) fn close(&self) {
        self.places.close();
    }

    fn names(&self) -> std::sync::MutexGuard<'_, HashMap<KeyName, watch::Receiver<Landed>>> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Has this key made if there is none of its name, and waits for it. Who stops waiting does not stop it.
///
/// # Errors
/// [`Code::Overloaded`] with the time to come again; [`Code::ShuttingDown`]; what the signer says; those of the store.
pub(crate) async fn make_once(front: &Front, may: MayCreate) -> Result<Once, Fault> {
    let name = may.create().name.clone();
    match front.inner.looks.look(&KeyReference::Name(name.clone())).await {
        Ok(_) => return Ok(Once::There),
        Err(fault) if fault.code == Code::KeyNotFound => (),
        Err(fault) => return Err(fault),
    }
    let (mut landed, is_mine) = join(front, name, may)?;
    let landed = match landed.wait_for(Option::is_some).await {
        Ok(landed) => landed.clone(),
        // The task ended without a word.
        Err(_) => None,
    };
    match landed {
        Some(Ok(())) if is_mine => Ok(Once::Made),
        Some(Ok(())) => Ok(Once::There),
        // Somebody made it between our look and ours, by another way.
        Some(Err(fault)) if fault.code == Code::KeyExists => Ok(Once::There),
        Some(Err(fault)) => Err(fault),
        None => Err(Fault::new(Code::Internal, "making the key ended unexpectedly; the log says where")),
    }
}

/// The way to what comes of this name, and whether this request is the one that began it.
fn join(front: &Front, name: KeyName, may: MayCreate) -> Result<(watch::Receiver<Landed>, bool), Fault> {
    let mut names = front.inner.making.names();
    if let Some(landed) = names.get(&name) {
        return Ok((landed.clone(), false));
    }
    if names.len() >= NAMES_MAX {
        let message = format!("{NAMES_MAX} keys wait to be made");
        return Err(Fault::new(Code::Overloaded, message).retry_after(COME_AGAIN_MS));
    }
    let (landing, landed) = watch::channel(None);
    names.insert(name.clone(), landed.clone());
    let flight = Flight { front: front.clone(), name };
    let task = async move {
        let made = make(&flight.front, may).await;
        // First the name goes: who comes now finds the key in the store, or begins anew.
        drop(flight);
        landing.send_replace(Some(made));
    };
    // The lines about the key say for whom it is made.
    tokio::spawn(task.in_current_span());
    Ok((landed, true))
}

async fn make(front: &Front, may: MayCreate) -> Result<(), Fault> {
    let place = Arc::clone(&front.inner.making.places).acquire_owned().await;
    let _place = place.map_err(|_| Fault::new(Code::ShuttingDown, "the server is stopping"))?;
    create(&front.inner, may, Wait::MayWait).await.map(|_| ())
}

/// A name in the table; out of it when this is dropped, also by a panic.
struct Flight {
    front: Front,
    name: KeyName,
}

impl Drop for Flight {
    fn drop(&mut self) {
        self.front.inner.making.names().remove(&self.name);
    }
}
