//! Values of sign.conf that have a shape of their own.

use core::net::IpAddr;

/// One word of `allow`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Allowed {
    /// Addresses that share their first bits with this one; a single address has all of its bits.
    Network {
        /// As it stands there; bits behind the prefix may be set.
        address: IpAddr,
        /// At most 32, or 128 for IPv6.
        prefix_bits: u8,
    },
    /// A name that the address of a client must resolve to. Who serves the reverse zone of an address decides its name.
    Host(String),
}

impl Allowed {
    pub(super) fn parse(word: &str) -> Result<Self, &'static str> {
        let (address, prefix) = match word.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix)),
            None => (word, None),
        };
        let Ok(address) = address.parse::<IpAddr>() else {
            let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
            let numeric = word.chars().all(|c| c.is_ascii_digit() || c == '.');
            return if prefix.is_none() && word.chars().all(is_name) && !numeric {
                Ok(Self::Host(word.to_owned()))
            } else {
                Err("it is not an address, a network or a host name")
            };
        };
        let bits = if address.is_ipv4() { 32 } else { 128 };
        let prefix_bits = prefix.map_or(Some(bits), |prefix| {
            prefix.parse().ok().filter(|_| prefix.bytes().all(|byte| byte.is_ascii_digit()))
        });
        match prefix_bits {
            Some(prefix_bits) if prefix_bits <= bits => Ok(Self::Network { address, prefix_bits }),
            _ => Err("the length of its network is not a number of bits that its address has"),
        }
    }

    /// Is the address in this network? A host is never matched here: names are looked up elsewhere, or not at all. An IPv4
    /// address in IPv6 clothes counts as itself.
    #[must_use]
    pub fn contains(&self, other: IpAddr) -> bool {
        let Self::Network { address, prefix_bits } = self else { return false };
        match (address.to_canonical(), other.to_canonical()) {
            (IpAddr::V4(a), IpAddr::V4(b)) => {
                // A network that was written in IPv6 clothes counts its 96 bits.
                let bits = if address.is_ipv6() { prefix_bits.saturating_sub(96) } else { *prefix_bits };
                same(u32::from(a).into(), u32::from(b).into(), 32_u8.saturating_sub(bits))
            }
            (IpAddr::V6(a), IpAddr::V6(b)) => {
                same(u128::from(a), u128::from(b), 128_u8.saturating_sub(*prefix_bits))
            }
            (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => false,
        }
    }
}

/// Are they the same but for the last bits?
fn same(a: u128, b: u128, free_bits: u8) -> bool {
    let cut = |value: u128| value.checked_shr(u32::from(free_bits)).unwrap_or_default();
    cut(a) == cut(b)
}

/// A value of `allow_subject`: matched against the subject of a certificate as RFC 2253 writes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// The whole subject.
    Exact(String),
    /// Between slashes: a regular expression of Perl.
    Pattern(String),
}

impl Subject {
    pub(super) fn parse(value: &str) -> Result<Self, &'static str> {
        match value.strip_prefix('/') {
            Some(rest) => {
                let pattern = rest.strip_suffix('/').filter(|pattern| !pattern.is_empty());
                pattern.map(|pattern| Self::Pattern(pattern.to_owned())).ok_or("its pattern has no end")
            }
            None if value.is_empty() => Err("it has no value"),
            None => Ok(Self::Exact(value.to_owned())),
        }
    }
}

/// A value of `map`: `[HASH:]from to`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MapEntry {
    /// Only for requests with this hash, by its name in the request.
    pub hash: Option<String>,
    /// The user that clients name.
    pub from: String,
    /// The user whose key is used; empty means the default.
    pub to: String,
}

impl MapEntry {
    pub(super) fn parse(value: &str) -> Option<Self> {
        let mut words = value.split_whitespace();
        let first = words.next()?;
        let to = words.next().unwrap_or_default().to_owned();
        let (hash, from) = match first.split_once(':') {
            Some((hash, from)) => (Some(hash.to_owned()), from),
            None => (None, first),
        };
        Some(Self { hash, from: from.to_owned(), to })
    }
}
