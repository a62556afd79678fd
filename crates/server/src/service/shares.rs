//! What one client has over all its connections: how many there are, and its places for large messages.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Semaphore;

use super::arrivals;

/// Clients by the name in their certificates; one that has no connection is not in it.
#[derive(Default)]
pub(super) struct Shares {
    by_name: Mutex<HashMap<String, Client>>,
}

struct Client {
    connections: u32,
    large: Arc<Semaphore>,
}

/// The part of one connection; given back when dropped.
pub(super) struct Share {
    shares: Arc<Shares>,
    name: String,
    pub(super) large: Arc<Semaphore>,
}

impl Shares {
    /// None if the client has as many connections as it may.
    pub(super) fn take(self: &Arc<Self>, name: &str, connections_max: u32) -> Option<Share> {
        let mut by_name = self.by_name.lock().unwrap_or_else(PoisonError::into_inner);
        let client = by_name
            .entry(name.to_owned())
            .or_insert_with(|| Client { connections: 0, large: arrivals::of_client() });
        if client.connections >= connections_max.max(1) {
            return None;
        }
        client.connections = client.connections.saturating_add(1);
        Some(Share { shares: Arc::clone(self), name: name.to_owned(), large: Arc::clone(&client.large) })
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut by_name = self.shares.by_name.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(client) = by_name.get_mut(&self.name) {
            client.connections = client.connections.saturating_sub(1);
            if client.connections == 0 {
                by_name.remove(&self.name);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_has_so_many_connections_and_leaves_nothing_behind() {
        let shares = Arc::new(Shares::default());
        let first = shares.take("a", 2).unwrap();
        let second = shares.take("a", 2).unwrap();
        assert!(shares.take("a", 2).is_none());
        assert!(shares.take("b", 2).is_some());
        assert!(Arc::ptr_eq(&first.large, &second.large), "its places are the same on all of them");
        drop(first);
        assert!(shares.take("a", 2).is_some());
        drop(second);
        assert!(shares.by_name.lock().unwrap().is_empty());
    }
}
