//! The `[obs]` table of `server.toml`. `docs/howto/obs.md` explains each line.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use sealwright_proto::names::KeyName;
use serde::{Deserialize, Deserializer, de};

use crate::Clients;
use crate::allow::Allow;
use crate::keygen::{ObsDigest, Shape};

/// Entries of [`Settings::allow`], each looked at for a connection.
pub const ALLOW_MAX: usize = 1_024;

/// Addresses to listen on, of each kind.
pub const LISTENERS_MAX: usize = 8;

/// What an operator sets.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Settings {
    /// Plain TCP: who asks is known by the address alone, and anybody on the way reads and changes what is said.
    pub listen: Vec<SocketAddr>,
    /// TLS with the certificates of `[tls]`: who asks is the client of the certificate.
    pub listen_tls: Vec<SocketAddr>,
    /// Which client of `clients.toml` an address is; the smallest network counts. For [`Self::listen`] alone.
    pub allow: Vec<Allow>,
    /// Only from ports below 1024, which on a machine that is its owner's only root has.
    pub reserved_ports: bool,
    /// Who is meant by a request without a user; empty: nobody.
    pub user: String,
    /// Keys of users whose names are not those of their keys.
    #[serde(deserialize_with = "key_names")]
    pub aliases: BTreeMap<String, KeyName>,
    /// Has a request for the public key of a project that has none make it, for clients with a grant to make keys.
    pub make_on_pubkey: Option<MakeOnPubkey>,
    /// Digests of one client in a second. Who asks for more waits, and is refused when that takes too long.
    pub digests_per_s: u32,
    /// Connections at once, on all of these listeners.
    pub connections: u32,
    /// Of these, of one address; for IPv6, of one /64.
    pub connections_per_address: u32,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            listen: Vec::new(),
            listen_tls: Vec::new(),
            allow: Vec::new(),
            reserved_ports: false,
            user: String::new(),
            aliases: BTreeMap::new(),
            make_on_pubkey: None,
            digests_per_s: 5_000,
            connections: 1_024,
            connections_per_address: 512,
        }
    }
}

/// What keys are like that a request for a public key makes.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct MakeOnPubkey {
    /// Bits of the RSA key.
    pub key_length: u32,
    /// Which digests it signs.
    pub obs_digest: ObsDigest,
    /// Whether that is the primary key, which can certify, instead of a subkey that cannot.
    pub obs_digest_on_primary: bool,
}

impl Default for MakeOnPubkey {
    fn default() -> Self {
        Self { key_length: 2048, obs_digest: ObsDigest::Sha2, obs_digest_on_primary: false }
    }
}

impl MakeOnPubkey {
    pub(super) const fn shape(&self) -> Shape {
        let Self { key_length, obs_digest, obs_digest_on_primary } = *self;
        Shape { key_length, obs_digest, obs_digest_on_primary }
    }
}

/// What cannot be meant; nothing is served with it. All of these are the operator's to mend.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Mistake {
    /// The table is there, and no listener.
    #[error("it listens nowhere")]
    NoListener,
    /// More addresses than anybody needs.
    #[error("it has more than {LISTENERS_MAX} addresses to listen on")]
    Listeners,
    /// Nobody could ask, or it was forgotten.
    #[error("listen without allow: nobody may ask over plain TCP")]
    NobodyAllowed,
    /// A list for a listener that is not there.
    #[error("allow without listen: with TLS the certificate says who asks")]
    AllowedForNothing,
    /// Every host there is.
    #[error("allow says that everybody is the client {client}")]
    Everybody {
        /// By the list.
        client: String,
    },
    /// A search for each connection.
    #[error("allow has more than {ALLOW_MAX} entries")]
    Allowed,
    /// Nobody by that name.
    #[error("allow names the client {client}, whom clients.toml does not have")]
    UnknownClient {
        /// By the list.
        client: String,
    },
    /// No key is made like that.
    #[error(
        "make_on_pubkey: key_length is none of 2048, 3072 and 4096, or obs_digest_on_primary stands without obs_digest"
    )]
    Made,
    /// Nothing could be served.
    #[error("{name} = 0 would serve nobody")]
    Zero {
        /// The setting.
        name: &'static str,
    },
}

impl Mistake {
    /// What to do, one plain sentence.
    #[must_use]
    pub const fn advice(&self) -> &'static str {
        match self {
            Self::NoListener => "Set listen or listen_tls, or take [obs] out.",
            Self::Listeners => "Listen on [::] instead.",
            Self::NobodyAllowed | Self::AllowedForNothing => {
                "Say with listen which hosts are which clients: allow = [{ from = \"192.0.2.7\", client = \"copr\" }]; docs/howto/obs.md."
            }
            Self::Everybody { .. } => "Name the hosts that may ask, or their networks.",
            Self::Allowed => "Name networks instead of hosts.",
            Self::UnknownClient { .. } => {
                "Add the client to clients.toml first: `sealwright init --client NAME --key KEY`."
            }
            Self::Made => "Leave make_on_pubkey = {} for RSA-2048 keys with a subkey that signs digests.",
            Self::Zero { .. } => "Set at least 1, or leave it out for its default.",
        }
    }
}

impl Settings {
    /// Whether it can be served.
    ///
    /// # Errors
    /// Every [`Mistake`] but [`Mistake::UnknownClient`].
    pub fn check(&self) -> Result<(), Mistake> {
        if self.listen.is_empty() && self.listen_tls.is_empty() {
            return Err(Mistake::NoListener);
        }
        if self.listen.len() > LISTENERS_MAX || self.listen_tls.len() > LISTENERS_MAX {
            return Err(Mistake::Listeners);
        }
        match (self.listen.is_empty(), self.allow.is_empty()) {
            (false, true) => return Err(Mistake::NobodyAllowed),
            (true, false) => return Err(Mistake::AllowedForNothing),
            (true, true) | (false, false) => (),
        }
        if self.allow.len() > ALLOW_MAX {
            return Err(Mistake::Allowed);
        }
        if let Some(line) = self.allow.iter().find(|line| line.from.is_everything()) {
            return Err(Mistake::Everybody { client: line.client.clone() });
        }
        if let Some(MakeOnPubkey { key_length, obs_digest, obs_digest_on_primary }) = self.make_on_pubkey {
            let on_nothing = obs_digest_on_primary && obs_digest == ObsDigest::None;
            if on_nothing || ![2048, 3072, 4096].contains(&key_length) {
                return Err(Mistake::Made);
            }
        }
        let numbers = [
            ("digests_per_s", self.digests_per_s),
            ("connections", self.connections),
            ("connections_per_address", self.connections_per_address),
        ];
        match numbers.into_iter().find(|(_, number)| *number == 0) {
            Some((name, _)) => Err(Mistake::Zero { name }),
            None => Ok(()),
        }
    }

    /// Whether every client that it names is one.
    ///
    /// # Errors
    /// [`Mistake::UnknownClient`].
    pub fn check_clients(&self, clients: &Clients) -> Result<(), Mistake> {
        match self.allow.iter().find(|line| !clients.has(&line.client)) {
            Some(line) => Err(Mistake::UnknownClient { client: line.client.clone() }),
            None => Ok(()),
        }
    }

    /// Whether `next` listens where this does, with as much room: what a reload cannot change.
    #[must_use]
    pub fn has_sockets_of(&self, next: &Self) -> bool {
        let sockets = |of: &Self| {
            (of.listen.clone(), of.listen_tls.clone(), of.connections, of.connections_per_address)
        };
        sockets(self) == sockets(next)
    }
}

fn key_names<'de, D: Deserializer<'de>>(from: D) -> Result<BTreeMap<String, KeyName>, D::Error> {
    let texts = BTreeMap::<String, String>::deserialize(from)?;
    let names = texts.into_iter().map(|(user, key)| {
        let name = KeyName::parse(&key).map_err(|fault| de::Error::custom(fault.message))?;
        Ok((user, name))
    });
    names.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"
        listen = ["127.0.0.1:5167", "[::1]:5167"]
        allow = [{ from = "127.0.0.1", client = "copr" }]
    "#;

    fn mistake(text: &str) -> Option<String> {
        let settings: Settings = toml::from_str(text).unwrap();
        settings.check().err().map(|mistake| mistake.to_string())
    }

    #[test]
    fn settings_with_which_everybody_or_nobody_could_ask_are_refused() {
        assert_eq!(mistake(GOOD), None);
        assert_eq!(mistake("listen_tls = [\"[::]:5168\"]"), None);
        for (text, want) in [
            ("", "listens nowhere"),
            ("listen = [\"127.0.0.1:5167\"]", "nobody may ask"),
            (
                "listen_tls = [\"[::]:5168\"]\nallow = [{ from = \"127.0.0.1\", client = \"copr\" }]",
                "allow without listen",
            ),
            (
                "listen = [\"0.0.0.0:5167\"]\nallow = [{ from = \"0.0.0.0/0\", client = \"copr\" }]",
                "everybody is the client copr",
            ),
            ("listen = [\"0.0.0.0:5167\"]\nallow = [{ from = \"::/0\", client = \"copr\" }]", "everybody"),
        ] {
            assert!(mistake(text).is_some_and(|found| found.contains(want)), "{text}: {:?}", mistake(text));
        }
        for made in ["key_length = 1024", "obs_digest_on_primary = true, obs_digest = \"none\""] {
            let text = format!("{GOOD}\nmake_on_pubkey = {{ {made} }}");
            assert!(mistake(&text).is_some_and(|found| found.contains("make_on_pubkey")), "{text}");
        }
        assert_eq!(mistake(&format!("{GOOD}\nmake_on_pubkey = {{}}")), None);
        for name in ["digests_per_s", "connections", "connections_per_address"] {
            assert_eq!(
                mistake(&format!("{GOOD}\n{name} = 0")),
                Some(format!("{name} = 0 would serve nobody"))
            );
        }
    }

    #[test]
    fn names_of_hosts_and_names_that_no_key_has_are_refused_when_they_are_read() {
        for text in [
            "allow = [{ from = \"build.example.org\", client = \"copr\" }]",
            "allow = [{ from = \"192.0.2.1/24\", client = \"copr\" }]",
            "aliases = { \"old\" = \"new name\" }",
            "listen = [\"localhost:5167\"]",
            "alow = {}",
        ] {
            assert!(toml::from_str::<Settings>(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_client_that_is_in_no_table_is_named() {
        let settings: Settings = toml::from_str(GOOD).unwrap();
        let clients = Clients::parse("[[client]]\nname = \"farm\"\n").unwrap();
        let mistake = settings.check_clients(&clients).unwrap_err().to_string();
        assert!(mistake.contains("the client copr"), "{mistake}");
        let clients = Clients::parse("[[client]]\nname = \"copr\"\n").unwrap();
        assert_eq!(settings.check_clients(&clients), Ok(()));
    }
}
