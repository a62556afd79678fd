//! Who may connect, and what each may do: `clients.toml`, parsed once for each reload into principals.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use sealwright_proto::names::KeyName;
use sealwright_proto::status::{Code, Fault};
use serde::Deserialize;

use crate::Error;
use crate::policy::{Grants, Keys, LOCAL, ObsGrant, PRINCIPAL_BYTES_MAX, Principal, WEIGHT_MAX};
use crate::serial::Serial;

/// Bytes of `clients.toml`.
pub const CLIENTS_BYTES_MAX: usize = 16 << 20;

/// Clients in one file.
pub const CLIENTS_MAX: usize = 65_536;

/// Keys of one client, and revoked certificates of one client.
pub const PER_CLIENT_MAX: usize = 4_096;

/// The clients of one moment; immutable.
#[derive(Debug, Default)]
pub struct Clients {
    by_name: HashMap<String, Client>,
}

#[derive(Debug)]
struct Client {
    principal: Arc<Principal>,
    revoked: HashSet<Serial>,
    disabled: bool,
}

impl Clients {
    /// Parses the text of `clients.toml`.
    ///
    /// # Errors
    /// [`Error::ClientsTooLarge`], [`Error::ClientsSyntax`], and [`Error::Client`] for an entry that breaks a rule.
    pub fn parse(text: &str) -> Result<Self, Error> {
        if text.len() > CLIENTS_BYTES_MAX {
            return Err(Error::ClientsTooLarge { what: "bytes", limit: CLIENTS_BYTES_MAX });
        }
        let file: File = toml::from_str(text).map_err(|source| Error::ClientsSyntax(Box::new(source)))?;
        if file.client.len() > CLIENTS_MAX {
            return Err(Error::ClientsTooLarge { what: "clients", limit: CLIENTS_MAX });
        }
        let mut by_name = HashMap::with_capacity(file.client.len());
        for entry in file.client {
            let name = entry.name.clone();
            let client = client(entry).map_err(|what| Error::Client { name: shown(&name), what })?;
            if by_name.insert(name.clone(), client).is_some() {
                return Err(Error::Client { name: shown(&name), what: "is there twice" });
            }
        }
        Ok(Self { by_name })
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.by_name.len()
    }

    /// Whether there is none; then nobody may do anything.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    /// What the holder of a certificate of this name and number may do now.
    ///
    /// # Errors
    /// [`Code::UnknownClient`], [`Code::ClientRevoked`].
    pub(crate) fn principal(&self, name: &str, serial: &Serial) -> Result<&Arc<Principal>, Fault> {
        let client = self.enabled(name)?;
        if client.revoked.contains(serial) {
            let message = format!("the certificate {serial} of the client {name} is revoked");
            return Err(Fault::new(Code::ClientRevoked, message));
        }
        Ok(&client.principal)
    }

    /// What the client of this name may do now, who was known by something else than a certificate.
    ///
    /// # Errors
    /// [`Code::UnknownClient`], [`Code::ClientRevoked`].
    pub(crate) fn named(&self, name: &str) -> Result<&Arc<Principal>, Fault> {
        self.enabled(name).map(|client| &client.principal)
    }

    /// Whether there is a client of this name.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.by_name.contains_key(name)
    }

    fn enabled(&self, name: &str) -> Result<&Client, Fault> {
        let Some(client) = self.by_name.get(name) else {
            return Err(Fault::new(Code::UnknownClient, format!("this server knows no client {name}")));
        };
        if client.disabled {
            return Err(Fault::new(Code::ClientRevoked, format!("the client {name} is disabled")));
        }
        Ok(client)
    }
}

/// Endings of names for which one client may make keys.
const ENDS_MAX: usize = 64;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    client: Vec<EntryOfFile>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct EntryOfFile {
    name: String,
    #[serde(default)]
    keys: Vec<String>,
    #[serde(default)]
    administrator: bool,
    #[serde(default)]
    create_keys: Vec<String>,
    #[serde(default)]
    obs: Vec<ObsGrant>,
    #[serde(default)]
    revoked: Vec<String>,
    #[serde(default)]
    disabled: bool,
    #[serde(default = "one")]
    weight: u32,
}

const fn one() -> u32 {
    1
}

fn client(entry: EntryOfFile) -> Result<Client, &'static str> {
    let EntryOfFile { name, keys, administrator, create_keys, obs, revoked, disabled, weight } = entry;
    name_is_usable(&name)?;
    if keys.len() > PER_CLIENT_MAX || revoked.len() > PER_CLIENT_MAX {
        return Err("has too many keys or revoked certificates (4096)");
    }
    if !(1..=WEIGHT_MAX).contains(&weight) {
        return Err("has a weight that is not from 1 to 100");
    }
    let grants = Grants {
        administrator,
        keys: granted(&keys)?,
        makes: ends(&create_keys)?,
        obs: obs.into_iter().collect(),
    };
    let principal = Principal::new(&name, grants).map_err(|_| "has too long a name")?.with_weight(weight);
    let revoked: Option<HashSet<_>> = revoked.iter().map(|hex| Serial::from_hex(hex)).collect();
    let revoked = revoked.ok_or("has a revoked number that is not hexadecimal")?;
    Ok(Client { principal: Arc::new(principal), revoked, disabled })
}

fn name_is_usable(name: &str) -> Result<(), &'static str> {
    if name.is_empty() {
        return Err("has no name");
    }
    if name.len() > PRINCIPAL_BYTES_MAX {
        return Err("has a name of more than 255 bytes");
    }
    if name.chars().any(char::is_control) {
        return Err("has a control character in its name");
    }
    if name == LOCAL {
        return Err("has the name of the user of an embedded store");
    }
    Ok(())
}

fn granted(keys: &[String]) -> Result<Keys, &'static str> {
    if keys.iter().any(|key| key == "*") {
        let alone = keys.len() == 1;
        return alone.then_some(Keys::All).ok_or("has \"*\" and names beside it; one of them is not meant");
    }
    let names: Result<BTreeSet<_>, _> = keys.iter().map(|key| KeyName::parse(key)).collect();
    names.map(Keys::Names).map_err(|_| "has a grant for a name that no key can have")
}

/// `*` is any name; a star with something beside it is not meant.
fn ends(create_keys: &[String]) -> Result<Vec<Box<str>>, &'static str> {
    if create_keys.iter().any(|end| end == "*") {
        let alone = create_keys.len() == 1;
        return alone
            .then(|| vec!["".into()])
            .ok_or("has \"*\" and endings beside it in create_keys; one of them is not meant");
    }
    if create_keys.len() > ENDS_MAX {
        return Err("has too many endings in create_keys (64)");
    }
    if create_keys.iter().any(|end| KeyName::parse(end).is_err()) {
        return Err("has an ending in create_keys that no key's name can have");
    }
    Ok(create_keys.iter().map(|end| end.as_str().into()).collect())
}

/// A name from a file, for a message: short, and without control characters.
fn shown(name: &str) -> String {
    name.chars().filter(|c| !c.is_control()).take(64).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::administer;

    const FILE: &str = r#"
        [[client]]
        name = "build-7"
        keys = ["release", "nightly"]
        revoked = ["0A:1b", "ff"]

        [[client]]
        name = "operator"
        keys = ["*"]
        administrator = true
        weight = 4

        [[client]]
        name = "gone"
        keys = ["release"]
        disabled = true
    "#;

    fn code(clients: &Clients, name: &str, serial: &str) -> Option<Code> {
        clients.principal(name, &Serial::from_hex(serial).unwrap()).err().map(|fault| fault.code)
    }

    #[test]
    fn a_client_is_known_by_its_name_and_refused_by_its_number() {
        let clients = Clients::parse(FILE).unwrap();
        assert_eq!(clients.len(), 3);
        assert_eq!(code(&clients, "build-7", "0a1c"), None);
        assert_eq!(code(&clients, "build-7", "a1b"), Some(Code::ClientRevoked));
        assert_eq!(code(&clients, "build-7", "00ff"), Some(Code::ClientRevoked));
        assert_eq!(code(&clients, "operator", "ff"), None);
        assert_eq!(code(&clients, "gone", "01"), Some(Code::ClientRevoked));
        assert_eq!(code(&clients, "Build-7", "01"), Some(Code::UnknownClient));
        let serial = Serial::from_hex("01").unwrap();
        let weight = |name| clients.principal(name, &serial).unwrap().weight();
        assert_eq!((weight("operator"), weight("build-7")), (4, 1));
        assert!(administer(clients.principal("operator", &serial).unwrap()).is_ok());
        assert!(administer(clients.principal("build-7", &serial).unwrap()).is_err());
    }

    #[test]
    fn a_client_known_by_an_address_is_looked_up_without_a_number_and_may_be_disabled() {
        let clients = Clients::parse(FILE).unwrap();
        let code = |name| clients.named(name).err().map(|fault| fault.code);
        assert_eq!(code("build-7"), None);
        assert_eq!(code("gone"), Some(Code::ClientRevoked));
        assert_eq!(code("nobody"), Some(Code::UnknownClient));
        assert!(clients.has("gone") && !clients.has("nobody"));
        let text = "[[client]]\nname = \"a\"\nobs = [\"sign\"]\n[[client]]\nname = \"b\"";
        let clients = Clients::parse(text).unwrap();
        assert!(clients.named("a").unwrap().may_over_obs(ObsGrant::Sign));
        assert!(!clients.named("b").unwrap().may_over_obs(ObsGrant::Sign));
        assert!(Clients::parse("[[client]]\nname = \"a\"\nobs = [\"certify\"]").is_err());
    }

    #[test]
    fn no_client_at_all_is_a_table_in_which_nobody_is_known() {
        assert_eq!(code(&Clients::parse("").unwrap(), "build-7", "01"), Some(Code::UnknownClient));
    }

    #[test]
    fn an_entry_that_breaks_a_rule_refuses_the_file_and_is_named() {
        let named = |text: &str| {
            let error = Clients::parse(text).unwrap_err();
            if let Error::Client { name, what } = &error {
                format!("{name} {what}")
            } else {
                format!("{error:?}")
            }
        };
        for (text, want) in [
            ("[[client]]\nname = \"\"", "has no name"),
            ("[[client]]\nname = \"local\"", "embedded"),
            ("[[client]]\nname = \"a\\nb\"", "control"),
            ("[[client]]\nname = \"a\"\n[[client]]\nname = \"a\"", "a is there twice"),
            ("[[client]]\nname = \"a\"\nkeys = [\"*\", \"b\"]", "not meant"),
            ("[[client]]\nname = \"a\"\nkeys = [\"a b\"]", "no key can have"),
            ("[[client]]\nname = \"a\"\nrevoked = [\"xyz\"]", "not hexadecimal"),
            ("[[client]]\nname = \"a\"\nrevoked = [\"\"]", "not hexadecimal"),
            ("[[client]]\nname = \"a\"\nweight = 0", "from 1 to 100"),
            ("[[client]]\nname = \"a\"\nweight = 101", "from 1 to 100"),
            ("[[client]]\nname = \"a\"\ncreate_keys = [\"*\", \"@b\"]", "not meant"),
            ("[[client]]\nname = \"a\"\ncreate_keys = [\"\"]", "no key's name can have"),
            ("[[client]]\nname = \"a\"\ncreate_keys = [\"@b/c\"]", "no key's name can have"),
            ("[[client]]\nname = \"a\"\nkey = [\"b\"]", "ClientsSyntax"),
            ("[[client]]\nkeys = [\"b\"]", "ClientsSyntax"),
            ("[[clients]]\nname = \"b\"", "ClientsSyntax"),
        ] {
            assert!(named(text).contains(want), "{text}: {}", named(text));
        }
        let long = format!("[[client]]\nname = \"{}\"", "n".repeat(256));
        assert!(named(&long).contains("more than 255"));
    }
}
