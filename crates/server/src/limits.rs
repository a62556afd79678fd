//! What one peer, and all peers together, may cost this process: the `[limits]` table of `server.toml`.

use std::time::Duration;

use serde::Deserialize;

/// The limits of the network side. Over one of them a connection is closed before anything is computed for it, or a
/// request is answered with a failure that says when to come again; nothing waits without end.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Limits {
    /// Connections at once of those who have authenticated. One that is idle costs a descriptor and less than 35 KiB
    /// (measured with both ends in one process).
    pub connections: u32,
    /// Of these, of one address; for IPv6, of one /64. As many as all by default: behind one address there may be a
    /// whole build farm, and a client is limited by its name.
    pub connections_per_address: u32,
    /// Of these, of one client (name in its certificate). Less than [`Self::connections`]: one client must not be able
    /// to take all.
    pub connections_per_client: u32,
    /// Connections at once of those who have not authenticated (yet); beside [`Self::connections`]. Over it the one that
    /// has been silent for longest is closed for the next.
    pub unauthenticated: u32,
    /// Of these, of one address. Less than [`Self::unauthenticated`]: one machine must not be able to take all.
    pub unauthenticated_per_address: u32,
    /// Handshakes in work at once; a quarter of them for one address. Further ones wait in their order.
    pub handshakes: u32,
    /// Milliseconds for the first byte of a peer. A client has something to say at once; this leaves time for a packet
    /// that was lost twice.
    pub first_byte_ms: u32,
    /// Milliseconds from there for its handshake, without the wait for its turn.
    pub handshake_ms: u32,
    /// Seconds after which a connection without any request is asked to leave.
    pub idle_s: u32,
    /// Seconds that a peer may take nothing of what is sent to it, or be in the middle of a message.
    pub write_stall_s: u32,
    /// Requests (HTTP/2 streams) of one connection at once.
    pub streams_per_connection: u32,
    /// Bytes of requests in work at once, over all connections.
    pub request_bytes_in_work: u32,
    /// Seconds that requests in flight get when the process is asked to end.
    pub drain_s: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 10_000,
            connections_per_address: 10_000,
            connections_per_client: 1_000,
            unauthenticated: 5_000,
            unauthenticated_per_address: 2_500,
            handshakes: 256,
            first_byte_ms: 5_000,
            handshake_ms: 10_000,
            idle_s: 900,
            write_stall_s: 30,
            streams_per_connection: 64,
            request_bytes_in_work: 32 << 20,
            drain_s: 30,
        }
    }
}

impl Limits {
    /// What of this concerns the front behind the network.
    #[must_use]
    pub fn front(&self) -> crate::Config {
        crate::Config { request_bytes_in_work_max: self.request_bytes_in_work, ..crate::Config::default() }
    }

    /// Descriptors that all these connections take.
    #[must_use]
    pub fn sockets(&self) -> u64 {
        u64::from(self.connections).saturating_add(self.unauthenticated.into())
    }

    /// The same with no more sockets than these: each number of connections made smaller by the same part.
    #[must_use]
    pub fn within(mut self, sockets: u64) -> Self {
        let wanted = self.sockets();
        if wanted <= sockets {
            return self;
        }
        for number in [
            &mut self.connections,
            &mut self.connections_per_address,
            &mut self.connections_per_client,
            &mut self.unauthenticated,
            &mut self.unauthenticated_per_address,
        ] {
            let part = u64::from(*number).saturating_mul(sockets).checked_div(wanted).unwrap_or_default();
            *number = u32::try_from(part).unwrap_or(u32::MAX).max(1);
        }
        self
    }

    /// Time for the first byte.
    pub(crate) fn first_byte(&self) -> Duration {
        Duration::from_millis(self.first_byte_ms.max(1).into())
    }

    /// Time for a handshake.
    pub(crate) fn handshake(&self) -> Duration {
        Duration::from_millis(self.handshake_ms.max(1).into())
    }

    /// Time without any request.
    pub(crate) fn idle(&self) -> Duration {
        Duration::from_secs(self.idle_s.max(1).into())
    }

    /// Time in which a peer takes nothing.
    pub(crate) fn stall(&self) -> Duration {
        Duration::from_secs(self.write_stall_s.max(1).into())
    }

    /// Time for requests in flight at the end.
    #[must_use]
    pub fn drain(&self) -> Duration {
        Duration::from_secs(self.drain_s.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn with_fewer_descriptors_every_number_of_connections_is_smaller_and_none_is_nothing() {
        let whole = Limits::default();
        assert_eq!(whole.clone().within(whole.sockets()), whole);
        let few = whole.clone().within(225);
        assert!(few.sockets() <= 225 && few.connections > few.connections_per_client, "{few:?}");
        assert!(few.unauthenticated > few.unauthenticated_per_address, "{few:?}");
        assert_eq!(few.handshakes, whole.handshakes);
        let none = whole.within(0);
        assert_eq!((none.connections, none.unauthenticated, none.connections_per_client), (1, 1, 1));
    }
}
