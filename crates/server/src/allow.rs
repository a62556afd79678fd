//! Who may use a listener where the address of a peer says who it is: networks, and the client of each. What it is worth
//! depends on the network: whoever can send from an address, or sits in between, is that client.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use serde::Deserialize;

/// An address, or all that share their first bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    bits: u8,
}

/// Why a text is no network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NotANetwork {
    /// Neither 192.0.2.7 nor 2001:db8::7.
    #[error("it is no address, and no network like 192.0.2.0/24 or 2001:db8::/32")]
    Address,
    /// IPv4 inside IPv6: peers are compared as everybody writes them.
    #[error("it is an address of IPv4 in IPv6; write it as 192.0.2.7")]
    Mapped,
    /// More bits than the address has.
    #[error("it has more bits than its address")]
    Bits,
    /// An address inside the network where the network itself should be: one of the two is not meant.
    #[error("bits are set behind its length")]
    HostBits,
}

impl Network {
    /// Whether it holds this address. One of IPv4 in IPv6 is the one of IPv4.
    #[must_use]
    pub fn holds(&self, address: IpAddr) -> bool {
        match (self.address, address.to_canonical()) {
            (IpAddr::V4(ours), IpAddr::V4(other)) => first(ours, self.bits) == first(other, self.bits),
            (IpAddr::V6(ours), IpAddr::V6(other)) => first6(ours, self.bits) == first6(other, self.bits),
            (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => false,
        }
    }

    /// Whether it holds every address of its family: no restriction at all.
    #[must_use]
    pub const fn is_everything(&self) -> bool {
        self.bits == 0
    }
}

impl FromStr for Network {
    type Err = NotANetwork;

    fn from_str(text: &str) -> Result<Self, NotANetwork> {
        let (address, bits) = text.split_once('/').map_or((text, None), |(at, bits)| (at, Some(bits)));
        let address: IpAddr = address.parse().map_err(|_| NotANetwork::Address)?;
        if address.to_canonical() != address {
            return Err(NotANetwork::Mapped);
        }
        let all = if address.is_ipv4() { 32 } else { 128 };
        let bits = match bits {
            Some(bits) if !bits.is_empty() && bits.bytes().all(|byte| byte.is_ascii_digit()) => {
                bits.parse().map_err(|_| NotANetwork::Bits)?
            }
            Some(_) => return Err(NotANetwork::Address),
            None => all,
        };
        if bits > all {
            return Err(NotANetwork::Bits);
        }
        let is_network = match address {
            IpAddr::V4(v4) => first(v4, bits) == v4.to_bits(),
            IpAddr::V6(v6) => first6(v6, bits) == v6.to_bits(),
        };
        if is_network { Ok(Self { address, bits }) } else { Err(NotANetwork::HostBits) }
    }
}

impl<'de> Deserialize<'de> for Network {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(|error| serde::de::Error::custom(format!("{text:?}: {error}")))
    }
}

fn first(address: Ipv4Addr, bits: u8) -> u32 {
    address.to_bits() & u32::MAX.checked_shl(32_u32.saturating_sub(bits.into())).unwrap_or(0)
}

fn first6(address: Ipv6Addr, bits: u8) -> u128 {
    address.to_bits() & u128::MAX.checked_shl(128_u32.saturating_sub(bits.into())).unwrap_or(0)
}

/// One line of a list.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Allow {
    /// Peers from here ...
    pub from: Network,
    /// ... are this client of `clients.toml`.
    pub client: String,
}

/// A list; the smallest network that holds an address counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AllowList(Vec<Allow>);

impl AllowList {
    /// Of these lines, in any order; of two for the same network the first counts.
    #[must_use]
    pub fn new(mut lines: Vec<Allow>) -> Self {
        lines.sort_by_key(|line| std::cmp::Reverse(line.from.bits));
        Self(lines)
    }

    /// The client of an address; `None`: a stranger.
    #[must_use]
    pub fn client_at(&self, address: IpAddr) -> Option<&str> {
        self.0.iter().find(|line| line.from.holds(address)).map(|line| line.client.as_str())
    }

    /// All lines.
    pub fn lines(&self) -> impl Iterator<Item = &Allow> {
        self.0.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network(text: &str) -> Result<Network, NotANetwork> {
        text.parse()
    }

    #[test]
    fn a_network_holds_the_addresses_that_begin_like_it() {
        for (text, inside, outside) in [
            ("192.0.2.7", "192.0.2.7", "192.0.2.6"),
            ("192.0.2.0/24", "192.0.2.255", "192.0.3.0"),
            ("128.0.0.0/1", "255.255.255.255", "127.255.255.255"),
            ("10.0.0.0/8", "::ffff:10.1.2.3", "::10.1.2.3"),
            ("2001:db8::/32", "2001:db8:ffff::1", "2001:db9::1"),
            ("2001:db8::1", "2001:db8::1", "2001:db8::2"),
        ] {
            let network = network(text).unwrap();
            assert!(network.holds(inside.parse().unwrap()), "{text} {inside}");
            assert!(!network.holds(outside.parse().unwrap()), "{text} {outside}");
        }
        assert!(network("0.0.0.0/0").unwrap().holds("198.51.100.1".parse().unwrap()));
        assert!(!network("0.0.0.0/0").unwrap().holds("2001:db8::1".parse().unwrap()));
        assert!(network("::/0").unwrap().is_everything() && !network("128.0.0.0/1").unwrap().is_everything());
    }

    #[test]
    fn what_is_no_network_is_refused_with_the_reason() {
        for (text, why) in [
            ("", NotANetwork::Address),
            ("localhost", NotANetwork::Address),
            ("192.0.2.7/", NotANetwork::Address),
            ("192.0.2.7/+8", NotANetwork::Address),
            ("::ffff:192.0.2.7", NotANetwork::Mapped),
            ("192.0.2.0/33", NotANetwork::Bits),
            ("192.0.2.0/256", NotANetwork::Bits),
            ("2001:db8::/129", NotANetwork::Bits),
            ("192.0.2.7/24", NotANetwork::HostBits),
            ("2001:db8::1/64", NotANetwork::HostBits),
        ] {
            assert_eq!(network(text), Err(why), "{text}");
        }
    }

    #[test]
    fn the_smallest_network_counts_whatever_its_place_in_the_list() {
        let line =
            |from: &str, client: &str| Allow { from: network(from).unwrap(), client: client.to_owned() };
        let list = AllowList::new(vec![
            line("10.0.0.0/8", "farm"),
            line("10.1.0.0/16", "copr"),
            line("::1", "here"),
        ]);
        let at = |address: &str| list.client_at(address.parse().unwrap());
        assert_eq!(at("10.2.0.1"), Some("farm"));
        assert_eq!(at("10.1.0.1"), Some("copr"));
        assert_eq!(at("::ffff:10.1.0.1"), Some("copr"));
        assert_eq!((at("::1"), at("127.0.0.1"), at("11.0.0.1")), (Some("here"), None, None));
    }
}
