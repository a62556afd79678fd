//! `[copr_keygen]`: copr-keygen's HTTP API. `docs/howto/copr.md` explains each line.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use sealwright_server::allow::Allow;
use sealwright_server::keygen::{ObsDigest, Shape};
use serde::Deserialize;

use super::{ADDRESSES_MAX, refused};
use crate::failure::Failure;

/// Lines of `allow`.
const ALLOW_MAX: usize = 1_024;

/// The API of copr-keygen.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::serve) struct CoprKeygen {
    /// Plain HTTP.
    #[serde(rename = "address")]
    pub(in crate::serve) addresses: Vec<SocketAddr>,
    /// From where, as which client.
    pub(in crate::serve) allow: Vec<Allow>,
    /// Holds the token that each request for a key has to carry.
    pub(in crate::serve) token_file: Option<PathBuf>,
    /// Bits of keys whose request names no length.
    #[serde(default = "CoprKeygen::key_length")]
    pub(in crate::serve) key_length: u32,
    /// Whether keys are for digests over obs-sign's protocol.
    #[serde(default)]
    pub(in crate::serve) obs_digest: ObsDigest,
    /// And with the primary key.
    #[serde(default)]
    pub(in crate::serve) obs_digest_on_primary: bool,
}

impl CoprKeygen {
    /// As copr-keygen has it.
    const fn key_length() -> u32 {
        2048
    }

    /// What keys are like.
    pub(in crate::serve) const fn shape(&self) -> Shape {
        Shape {
            key_length: self.key_length,
            obs_digest: self.obs_digest,
            obs_digest_on_primary: self.obs_digest_on_primary,
        }
    }

    /// The same with the path of the token in `base`.
    ///
    /// # Errors
    /// Nobody or everybody could ask, or no key can be made like that.
    pub(super) fn checked(self, file: &Path, base: &Path) -> Result<Self, Failure> {
        if !(1..=ADDRESSES_MAX).contains(&self.addresses.len()) {
            let what = format!("[copr_keygen] address has none, or more than {ADDRESSES_MAX} addresses");
            return Err(refused(file, &what, "Set for example address = [\"127.0.0.1:5003\"]."));
        }
        if !(1..=ALLOW_MAX).contains(&self.allow.len()) {
            let what = format!(
                "[copr_keygen] allow has no line, or more than {ALLOW_MAX}: each says from where which client may ask"
            );
            let advice = "Set for example allow = [{ from = \"127.0.0.1\", client = \"copr\" }].";
            return Err(refused(file, &what, advice));
        }
        let is_reachable = self.addresses.iter().any(|address| !address.ip().is_loopback());
        if let Some(all) = self.allow.iter().find(|line| line.from.is_everything())
            && is_reachable
            && self.token_file.is_none()
        {
            let what = format!(
                "[copr_keygen] can be reached from other machines, and anybody there could have keys made as {}",
                all.client
            );
            return Err(refused(
                file,
                &what,
                "Name the networks that may, set token_file, or listen on 127.0.0.1.",
            ));
        }
        if ![2048, 3072, 4096].contains(&self.key_length) {
            let what =
                format!("[copr_keygen] key_length = {} is none of 2048, 3072 and 4096", self.key_length);
            return Err(refused(file, &what, "Leave it out for 2048, as copr-keygen has it."));
        }
        if self.obs_digest == ObsDigest::None && self.obs_digest_on_primary {
            let what = "[copr_keygen] obs_digest_on_primary = true without obs_digest";
            return Err(refused(file, what, "Set obs_digest = \"sha2\", or leave both out."));
        }
        Ok(Self { token_file: self.token_file.map(|path| base.join(path)), ..self })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(text: &str) -> Result<CoprKeygen, String> {
        let raw: CoprKeygen = toml::from_str(text).map_err(|error| error.to_string())?;
        let base = Path::new("/etc/sealwright");
        raw.checked(&base.join("server.toml"), base).map_err(|failure| failure.what)
    }

    #[test]
    fn a_listener_that_others_reach_names_who_may_or_has_a_token() {
        let open = "address = [\"0.0.0.0:5003\"]\nallow = [{ from = \"0.0.0.0/0\", client = \"copr\" }]\n";
        assert!(checked(open).unwrap_err().contains("anybody there could have keys made as copr"));
        assert!(checked(&open.replace("0.0.0.0/0", "::/0")).is_err());
        checked(&open.replace("0.0.0.0:5003", "127.0.0.1:5003")).unwrap();
        checked(&open.replace("0.0.0.0:5003", "[::1]:5003")).unwrap();
        checked(&open.replace("0.0.0.0/0", "10.0.0.0/8")).unwrap();
        let token = checked(&format!("{open}token_file = \"keygen.token\"\n")).unwrap();
        assert_eq!(token.token_file.unwrap(), Path::new("/etc/sealwright/keygen.token"));
    }

    #[test]
    fn a_listener_for_nobody_and_a_key_of_another_length_are_refused() {
        let good = "address = [\"127.0.0.1:5003\"]\nallow = [{ from = \"127.0.0.1\", client = \"copr\" }]\n";
        assert_eq!(checked(good).unwrap().key_length, 2048);
        for (found, instead, what) in [
            ("\"127.0.0.1:5003\"", "", "address has none"),
            ("{ from = \"127.0.0.1\", client = \"copr\" }", "", "allow has no line"),
            ("\"127.0.0.1\",", "\"127.0.0.1/8\",", "bits are set"),
            ("address", "key_length = 1024\naddress", "none of 2048"),
            ("address", "obs_digest_on_primary = true\naddress", "without obs_digest"),
            ("address", "obs_digest = \"md5\"\naddress", "unknown variant"),
            ("client =", "clients =", "unknown field"),
            ("address", "addresses = 1\naddress", "unknown field"),
        ] {
            let refused = checked(&good.replacen(found, instead, 1)).unwrap_err();
            assert!(refused.contains(what), "{refused}");
        }
    }
}
