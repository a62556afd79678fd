//! The rules in force: who asks from an address, and which key a user is. Immutable; a reload makes new ones.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use sealwright_obs::Refusal;
use sealwright_proto::names::KeyName;

use super::{MakeOnPubkey, Settings};
use crate::allow::AllowList;
use crate::keygen::Shape;

/// Ports from here on are everybody's; `sign` binds one from 600 to 1023 unless it is told not to.
const UNPRIVILEGED_PORTS: u16 = 1024;

pub(super) struct Rules {
    allow: AllowList,
    reserved_ports: bool,
    user: String,
    aliases: BTreeMap<String, KeyName>,
    pub(super) digests_per_s: u32,
    /// What keys are like that a request for a public key makes, if it does.
    pub(super) makes: Option<Shape>,
}

impl Rules {
    pub(super) fn new(settings: &Settings) -> Self {
        Self {
            allow: AllowList::new(settings.allow.clone()),
            reserved_ports: settings.reserved_ports,
            user: settings.user.clone(),
            aliases: settings.aliases.clone(),
            digests_per_s: settings.digests_per_s,
            makes: settings.make_on_pubkey.as_ref().map(MakeOnPubkey::shape),
        }
    }

    /// The client that asks from this address.
    ///
    /// # Errors
    /// `signd`'s texts, in its order: the port, then the address.
    pub(super) fn client(&self, address: SocketAddr) -> Result<Arc<str>, Refusal> {
        self.port_is_right(address)?;
        let client = self.allow.client_at(address.ip()).map(Arc::from);
        client.ok_or(Refusal::IllegalHost { address: address.ip() })
    }

    /// # Errors
    /// [`Refusal::NotReservedPort`] where that is a rule.
    pub(super) fn port_is_right(&self, address: SocketAddr) -> Result<(), Refusal> {
        let is_right = !self.reserved_ports || address.port() < UNPRIVILEGED_PORTS;
        if is_right { Ok(()) } else { Err(Refusal::NotReservedPort) }
    }

    /// The name of the key of a user: another name where it has one, else its own.
    ///
    /// # Errors
    /// [`Refusal::UnknownKey`] if no key can have that name.
    pub(super) fn key(&self, user: &str) -> Result<KeyName, Refusal> {
        let user = if user.is_empty() { &self.user } else { user };
        match self.aliases.get(user) {
            Some(name) => Ok(name.clone()),
            None => KeyName::parse(user).map_err(|_| Refusal::UnknownKey { user: user.to_owned() }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(text: &str) -> Rules {
        Rules::new(&toml::from_str(text).unwrap())
    }

    fn client(rules: &Rules, address: &str) -> String {
        match rules.client(address.parse().unwrap()) {
            Ok(client) => client.to_string(),
            Err(refusal) => refusal.to_string(),
        }
    }

    #[test]
    fn the_port_is_looked_at_only_where_it_is_a_rule_and_before_the_address() {
        let rules = rules("reserved_ports = true\nallow = [{ from = \"127.0.0.1\", client = \"copr\" }]");
        assert_eq!(client(&rules, "127.0.0.1:1023"), "copr");
        assert_eq!(client(&rules, "127.0.0.1:1024"), "not coming from a reserved port");
        assert_eq!(client(&rules, "127.0.0.2:1024"), "not coming from a reserved port");
        assert_eq!(client(&rules, "127.0.0.2:1023"), "illegal host 127.0.0.2");
    }

    #[test]
    fn a_user_is_the_key_of_its_alias_or_of_its_name_and_of_nothing_like_it() {
        let rules = rules("user = \"home\"\naliases = { \"old name\" = \"new\", \"home\" = \"release\" }");
        let key =
            |user: &str| rules.key(user).map_or_else(|refusal| refusal.to_string(), |key| key.to_string());
        assert_eq!(key("alice#project@copr.example.org"), "alice#project@copr.example.org");
        assert_eq!(key("old name"), "new");
        assert_eq!(key(""), "release");
        assert_eq!(key("Old name"), "unknown key: Old name");
        assert_eq!(key("openssl:x"), "unknown key: openssl:x");
        assert_eq!(rules_of_nothing().key("").unwrap_err().to_string(), "unknown key: ");
    }

    fn rules_of_nothing() -> Rules {
        rules("")
    }

    #[test]
    fn a_fingerprint_is_no_user() {
        let fingerprint = "11f89654d23205fe9f9ce941a5b9a4c9e37025c8";
        assert_eq!(
            rules_of_nothing().key(fingerprint).unwrap_err().to_string(),
            format!("unknown key: {fingerprint}")
        );
    }
}
