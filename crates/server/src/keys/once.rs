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

/// The keys in work of one front.
pub(crate) struct Making {
    places: Arc<Semaphore>,
    names: Arc<Names>,
}

impl Default for Making {
    fn default() -> Self {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let places = processors.saturating_mul(PLACES_PER_PROCESSOR);
        Self { places: Arc::new(Semaphore::new(places)), names: Arc::default() }
    }
}

impl Making {
    /// From now on nothing is begun: who waits for his turn is told so, and what the signer has is finished.
    pub(crate) fn close(&self) {
        self.places.close();
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
    let (waiter, once) = match front.inner.making.names.join(name)? {
        Place::First(begun, waiter) => {
            // The lines about the key say for whom it is made.
            tokio::spawn(make(front.clone(), may, begun).in_current_span());
            (waiter, Once::Made)
        }
        Place::After(waiter) => (waiter, Once::There),
    };
    match waiter.landed().await {
        Ok(()) => Ok(once),
        // Somebody made it between our look and ours, by another way.
        Err(fault) if fault.code == Code::KeyExists => Ok(Once::There),
        Err(fault) => Err(fault),
    }
}

async fn make(front: Front, may: MayCreate, begun: Begun) {
    let place = Arc::clone(&front.inner.making.places).acquire_owned().await;
    let made = match &place {
        Ok(_) => create(&front.inner, may, Wait::MayWait).await.map(|_| ()),
        Err(_) => Err(Fault::new(Code::ShuttingDown, "the server is stopping")),
    };
    begun.land(made);
}

type Landed = Option<Result<(), Fault>>;

/// Names in work, and the way to what comes of each.
#[derive(Default)]
struct Names(Mutex<HashMap<KeyName, watch::Receiver<Landed>>>);

enum Place {
    /// Nobody makes it yet: whoever gets this does.
    First(Begun, Waiter),
    /// It is being made.
    After(Waiter),
}

impl Names {
    /// # Errors
    /// [`Code::Overloaded`] when there is no room for another name.
    fn join(self: &Arc<Self>, name: KeyName) -> Result<Place, Fault> {
        let mut names = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(landed) = names.get(&name) {
            return Ok(Place::After(Waiter(landed.clone())));
        }
        if names.len() >= NAMES_MAX {
            let message = format!("{NAMES_MAX} keys wait to be made");
            return Err(Fault::new(Code::Overloaded, message).retry_after(COME_AGAIN_MS));
        }
        let (landing, landed) = watch::channel(None);
        names.insert(name.clone(), landed.clone());
        let begun = Begun { entry: Entry { names: Arc::clone(self), name }, landing };
        Ok(Place::First(begun, Waiter(landed)))
    }
}

/// A key that somebody is making.
struct Begun {
    entry: Entry,
    landing: watch::Sender<Landed>,
}

impl Begun {
    /// Tells all who wait. First the name goes: who comes now finds the key in the store, or begins anew.
    fn land(self, made: Result<(), Fault>) {
        drop(self.entry);
        self.landing.send_replace(Some(made));
    }
}

/// A name in the table; out of it when this is dropped, also by a panic.
struct Entry {
    names: Arc<Names>,
    name: KeyName,
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.names.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.name);
    }
}

struct Waiter(watch::Receiver<Landed>);

impl Waiter {
    async fn landed(mut self) -> Result<(), Fault> {
        let landed = match self.0.wait_for(Option::is_some).await {
            Ok(landed) => landed.clone(),
            // Whoever made it ended without a word.
            Err(_) => None,
        };
        let ended = || Fault::new(Code::Internal, "making the key ended unexpectedly; the log says where");
        landed.unwrap_or_else(|| Err(ended()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn join(names: &Arc<Names>, name: &str) -> Result<Place, Fault> {
        names.join(KeyName::parse(name).unwrap())
    }

    fn first(names: &Arc<Names>, name: &str) -> (Begun, Waiter) {
        match join(names, name) {
            Ok(Place::First(begun, waiter)) => (begun, waiter),
            _ => panic!("{name} is in work"),
        }
    }

    fn after(names: &Arc<Names>, name: &str) -> Waiter {
        match join(names, name) {
            Ok(Place::After(waiter)) => waiter,
            _ => panic!("{name} is not in work"),
        }
    }

    #[tokio::test]
    async fn one_begins_and_all_learn_what_comes_of_it() {
        let names = Arc::new(Names::default());
        let (begun, own) = first(&names, "a");
        let others = [after(&names, "a"), after(&names, "a")];
        let (other, _) = first(&names, "b");
        begun.land(Ok(()));
        assert_eq!(own.landed().await, Ok(()));
        for waiter in others {
            assert_eq!(waiter.landed().await, Ok(()));
        }
        // The next one begins anew.
        let (begun, own) = first(&names, "a");
        let waiter = after(&names, "a");
        let fault = Fault::new(Code::SignerGone, "x");
        begun.land(Err(fault.clone()));
        assert_eq!((own.landed().await, waiter.landed().await), (Err(fault.clone()), Err(fault)));
        drop(other);
    }

    #[tokio::test]
    async fn a_maker_that_ends_without_a_word_leaves_the_name_free_and_nobody_waiting() {
        let names = Arc::new(Names::default());
        let (begun, own) = first(&names, "a");
        let waiter = after(&names, "a");
        let panicked = tokio::spawn(async move {
            let _begun = begun;
            panic!("as meant");
        });
        assert!(panicked.await.is_err());
        for waiter in [own, waiter] {
            assert_eq!(waiter.landed().await.unwrap_err().code, Code::Internal);
        }
        let _ = first(&names, "a");
    }

    #[test]
    fn more_names_than_there_is_room_for_are_told_to_come_again_and_those_in_work_are_not() {
        let names = Arc::new(Names::default());
        let mut begun: Vec<_> = (0..NAMES_MAX).map(|number| first(&names, &format!("n{number}")).0).collect();
        let full = join(&names, "one-more").err().unwrap();
        assert_eq!((full.code, full.retry_after_ms), (Code::Overloaded, Some(COME_AGAIN_MS)));
        let _ = after(&names, "n7");
        begun.pop().unwrap().land(Ok(()));
        let _ = first(&names, "one-more");
    }
}
