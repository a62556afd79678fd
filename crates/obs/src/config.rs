//! sign.conf: one file for `sign` and `signd`, lines of `key: value`. What is read, and what is not and why.
//!
//! `sign` and `signd` read it differently, and so each line is taken as the one reads it that uses its key; where both
//! do and would differ, it is said in [`Config::remarks`]:
//!
//! * a comment is a line whose first byte is `#`; a `#` behind a value belongs to it
//! * `signd` takes the first word of a value, `sign` all of it without the blanks around it
//! * `sign` does not see lines of more than 254 bytes; here they count
//! * a key that stands twice: the last one counts, but `allow`, `allowuser`, `allow_subject` and `map` are collected

use crate::digest::Hash;
use crate::error::Error;
use crate::limits::{CONFIG_BYTES_MAX, CONFIG_LINE_BYTES_SEEN};

mod keys;
mod values;

pub use values::{Allowed, MapEntry, Subject};

/// The port where nothing else is said.
pub const PORT_DEFAULT: u16 = 5167;

/// What a sign.conf says. Where it is silent, `None`, empty or false.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Config {
    /// Host that clients ask, and that `signd` forwards unknown keys to.
    pub server: Option<String>,
    /// Of that host; [`PORT_DEFAULT`] when absent.
    pub port: Option<u16>,
    /// How to talk to that host.
    pub protocol: Protocol,
    /// The key where none is named.
    pub user: Option<String>,
    /// Client: of signatures where none is named; `sign` then takes SHA-1.
    pub hash: Option<Hash>,
    /// Client: names or numbers of users that may run a `sign` that is setuid.
    pub allow_users: Vec<String>,
    /// Client, and a forwarding `signd`: ask from any port.
    pub use_unprivileged_ports: bool,
    /// Of connections to `server`.
    pub tls: Tls,
    /// Where `signd` listens; `port` when absent.
    pub proxy_port: Option<u16>,
    /// How `signd` listens; `protocol` when absent.
    pub proxy_protocol: Option<Protocol>,
    /// Of connections that `signd` takes; what is absent is that of `tls`.
    pub proxy_tls: Tls,
    /// Who may ask. None means nobody.
    pub allow: Vec<Allowed>,
    /// Server: take requests from any port.
    pub allow_unprivileged_ports: bool,
    /// Server: subjects of client certificates.
    pub allow_subjects: Vec<Subject>,
    /// Server: take clients without a certificate.
    pub allow_certless: bool,
    /// Users that stand for others.
    pub map: Vec<MapEntry>,
    /// Folder with one passphrase file a key: a key exists if its file does.
    pub phrases: Option<String>,
    /// Folder with one file an alias, holding the key's name.
    pub aliases: Option<String>,
    /// Folder with the secrets of wrapping keys.
    pub encryption_keys: Option<String>,
    /// GnuPG's folder.
    pub gnupg_home: Option<String>,
    /// The gpg that `signd` runs; Copr has a wrapper, which reads another folder than its caller's.
    pub gpg: Option<String>,
    /// Folder with keys of the openssl module.
    pub openssl_keys: Option<String>,
    /// Lines that do nothing here, or not what they look like: in the order of the file.
    pub remarks: Vec<Remark>,
}

/// How a connection is made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// `unprotected`.
    #[default]
    Plain,
    /// `ssl`.
    Tls,
}

/// Files of a TLS connection, PEM. An empty value in the file means none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tls {
    /// Certificate chain.
    pub certificate_file: Option<String>,
    /// Its key.
    pub key_file: Option<String>,
    /// Authorities of the other end, in one file.
    pub verify_file: Option<String>,
    /// Authorities of the other end, in a folder.
    pub verify_folder: Option<String>,
}

/// A line that deserves a word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remark {
    /// From 1.
    pub line: usize,
    /// The key word, without its colon; empty where the line has none.
    pub key: String,
    /// Why it does nothing, or what is odd about it.
    pub reason: &'static str,
}

impl Config {
    /// Reads the whole file. Nothing of a file with a mistake is used.
    ///
    /// # Errors
    /// [`Error::TooLarge`]; [`Error::Config`] with the line whose value cannot be meant.
    pub fn parse(bytes: &[u8]) -> Result<Self, Error> {
        if bytes.len() > CONFIG_BYTES_MAX {
            return Err(Error::TooLarge { what: "sign.conf", size: bytes.len(), limit: CONFIG_BYTES_MAX });
        }
        let mut config = Self::default();
        for (line, text) in (1_usize..).zip(bytes.split(|byte| *byte == b'\n')) {
            config.line(line, text)?;
        }
        Ok(config)
    }

    /// Where clients connect to.
    #[must_use]
    pub fn port_or_default(&self) -> u16 {
        self.port.unwrap_or(PORT_DEFAULT)
    }

    /// Where `signd` listens, and how.
    #[must_use]
    pub fn listener(&self) -> (u16, Protocol) {
        (self.proxy_port.unwrap_or(self.port_or_default()), self.proxy_protocol.unwrap_or(self.protocol))
    }

    fn line(&mut self, line: usize, bytes: &[u8]) -> Result<(), Error> {
        let Ok(text) = core::str::from_utf8(bytes) else {
            let key = String::new();
            return Err(Error::Config { line, key, reason: "it is not UTF-8" });
        };
        if text.starts_with('#') || text.trim().is_empty() {
            return Ok(());
        }
        let Some((key, value)) = text.split_once(':') else {
            self.remark(line, "", "neither sign nor signd reads a line without a colon");
            return Ok(());
        };
        let (key, value) = (key.trim(), value.trim());
        if bytes.len() > CONFIG_LINE_BYTES_SEEN && keys::is_clients(key) {
            self.remark(line, key, "sign does not see a line of more than 254 bytes; here it counts");
        }
        keys::set(self, &Line { number: line, key, value })
    }

    fn remark(&mut self, line: usize, key: &str, reason: &'static str) {
        self.remarks.push(Remark { line, key: key.to_owned(), reason });
    }
}

/// One line with a key.
struct Line<'a> {
    number: usize,
    key: &'a str,
    /// Without the blanks around it.
    value: &'a str,
}

impl Line<'_> {
    fn error(&self, reason: &'static str) -> Error {
        Error::Config { line: self.number, key: self.key.to_owned(), reason }
    }
}

#[cfg(test)]
mod tests;
