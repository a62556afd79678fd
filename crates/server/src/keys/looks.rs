//! Looks at keys as they are in the store now. Who asks while a look is under way shares the next one with all who ask for
//! the same key meanwhile: ten thousand clients that come at once and want to know of one key cost a few looks. Nobody
//! gets what was read before they asked.

use std::collections::HashMap;

use sealwright_proto::names::KeyReference;
use sealwright_proto::status::{Code, Fault};
use sealwright_store::{Key, Store};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;

use crate::registry;

/// Most that are answered by one round of looks; as many more wait, further ones wait for a place.
const ROUND_MAX: usize = 1_024;

type Answer = oneshot::Sender<Result<Key, Fault>>;

/// Where to ask.
pub(crate) struct Looks(mpsc::Sender<(KeyReference, Answer)>);

impl Looks {
    /// Starts the task that looks; it ends with the last who can ask.
    pub(crate) fn start(store: Store) -> Self {
        let (asking, asked) = mpsc::channel(ROUND_MAX);
        tokio::spawn(run(store, asked));
        Self(asking)
    }

    /// The key as it is in the store.
    ///
    /// # Errors
    /// [`Code::KeyNotFound`]; those of the store.
    pub(crate) async fn look(&self, reference: &KeyReference) -> Result<Key, Fault> {
        let over = || Fault::new(Code::ShuttingDown, "the server is stopping");
        let (answer, answered) = oneshot::channel();
        self.0.send((reference.clone(), answer)).await.map_err(|_| over())?;
        answered.await.map_err(|_| over())?
    }
}

async fn run(store: Store, mut asked: mpsc::Receiver<(KeyReference, Answer)>) {
    let mut round = Vec::new();
    while asked.recv_many(&mut round, ROUND_MAX).await > 0 {
        let mut wanted: HashMap<KeyReference, Vec<Answer>> = HashMap::new();
        for (reference, answer) in round.drain(..) {
            wanted.entry(reference).or_default().push(answer);
        }
        let mut looks: JoinSet<()> =
            wanted.into_iter().map(|(reference, answers)| look(store.clone(), reference, answers)).collect();
        // One that panics answers nobody; its callers are told when their senders are dropped.
        while looks.join_next().await.is_some() {}
    }
}

async fn look(store: Store, reference: KeyReference, answers: Vec<Answer>) {
    let found = registry::load(&store, &reference).await;
    for answer in answers {
        // Who has gone does not want it.
        let _ = answer.send(found.clone());
    }
}

#[cfg(test)]
mod tests {
    use sealwright_crypto::algorithm::KeyAlgorithm;
    use sealwright_crypto::openpgp::fingerprint::Fingerprint;
    use sealwright_crypto::usage::Usage;
    use sealwright_store::{Material, NewKey};
    use uuid::Uuid;

    use super::*;

    fn release() -> NewKey {
        let material = Material {
            generation: 1,
            algorithm: KeyAlgorithm::Ed25519,
            fingerprint: Fingerprint::v4([1; 20]),
            signing_fingerprint: Fingerprint::v4([1; 20]),
            user_id: String::new(),
            created_s: 0,
            expires_s: None,
            certificate: vec![1],
            sealed: vec![1],
            data_key_id: "d1".to_owned(),
            renewable: true,
            backend: "software".to_owned(),
        };
        NewKey { id: Uuid::now_v7(), name: "release".to_owned(), usages: vec![Usage::OpenPgp], material }
    }

    #[tokio::test]
    async fn who_asks_after_a_change_sees_it_and_what_is_not_there_is_not_remembered() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&folder.path().join("store")).await.unwrap();
        let looks = Looks::start(store.clone());
        let reference = KeyReference::parse("release").unwrap();
        let code = |found: Result<Key, Fault>| found.map(|key| key.state).map_err(|fault| fault.code);
        assert_eq!(code(looks.look(&reference).await), Err(Code::KeyNotFound));
        let key = store.insert_key(release()).await.unwrap();
        assert_eq!(code(looks.look(&reference).await), Ok(sealwright_store::KeyState::Enabled));
        store.set_key_state(key.id, sealwright_store::KeyState::Disabled).await.unwrap();
        let mut all = JoinSet::new();
        let looks = std::sync::Arc::new(looks);
        for _ in 0..100 {
            let (looks, reference) = (std::sync::Arc::clone(&looks), reference.clone());
            all.spawn(async move { looks.look(&reference).await });
        }
        while let Some(found) = all.join_next().await {
            assert_eq!(code(found.unwrap()), Ok(sealwright_store::KeyState::Disabled));
        }
    }
}
