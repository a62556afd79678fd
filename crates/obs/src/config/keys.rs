//! Every key of sign.conf, its modules included: what it sets, or why it sets nothing here.

use super::values::{Allowed, MapEntry, Subject};
use super::{Config, Line, Protocol, Tls};
use crate::digest::Hash;
use crate::error::Error;

/// Keys that `sign` reads.
const CLIENTS: &[&str] = &[
    "server",
    "port",
    "proto",
    "user",
    "hash",
    "allowuser",
    "use-unprivileged-ports",
    "ssl_certfile",
    "ssl_keyfile",
    "ssl_verifyfile",
    "ssl_verifydir",
];

const MODULES: &str = "there are no modules here; what they do is built in or not served";
const BACKEND: &str = "keys are used by the signer process, which has its own backends";
const PROCESS: &str = "this server has its own files and its own log";
const PRIVILEGED: &str = "keys are administered with `sealwright key`, not over this port";

/// Keys that `signd` or one of its modules reads and that do nothing here.
const IGNORED: &[(&str, &str)] = &[
    ("modulepath", MODULES),
    ("module", MODULES),
    ("use-agent", BACKEND),
    ("use-gcrypt", BACKEND),
    ("use-tpm", BACKEND),
    ("use-pkcs11", BACKEND),
    ("agentsocket", BACKEND),
    ("openssl", BACKEND),
    ("tpm_ctxcache", BACKEND),
    ("tpm_device", BACKEND),
    ("tpm_lock", BACKEND),
    ("keycache", "keys are always kept at hand"),
    ("patchclasstime", "class and time are always those of the request"),
    ("tmpdir", PROCESS),
    ("logfile", PROCESS),
    ("pidfile", PROCESS),
    ("restricted_gnupghome", PRIVILEGED),
    ("restricted_phrases", PRIVILEGED),
    ("restricted_aliases", PRIVILEGED),
    ("privileged_gnupghome", PRIVILEGED),
    ("privileged_logfile", PRIVILEGED),
    ("system_gnupghome", PRIVILEGED),
    ("extranonce", PRIVILEGED),
    ("keybackup", PRIVILEGED),
    ("backup", PRIVILEGED),
    ("backup_user", PRIVILEGED),
];

pub(super) fn is_clients(key: &str) -> bool {
    CLIENTS.contains(&key)
}

pub(super) fn set(config: &mut Config, line: &Line<'_>) -> Result<(), Error> {
    if let Some((_, reason)) = IGNORED.iter().find(|(key, _)| *key == line.key) {
        config.remark(line.number, line.key, reason);
        return Ok(());
    }
    if !shared(config, line)? && !servers(config, line)? && !tls(config, line) {
        config.remark(line.number, line.key, "neither sign nor signd knows this key");
    }
    Ok(())
}

/// Keys that `sign` reads, and `signd` some of them.
fn shared(config: &mut Config, line: &Line<'_>) -> Result<bool, Error> {
    match line.key {
        "server" => config.server = Some(one_word(config, line)?),
        "port" => config.port = Some(port(config, line)?),
        "proto" => config.protocol = protocol(config, line)?,
        "user" => config.user = Some(one_word(config, line)?),
        "hash" => {
            let hash = Hash::from_request(Some(line.value)).ok().filter(|_| !line.value.is_empty());
            config.hash = Some(hash.ok_or_else(|| line.error("it is not sha1, sha256 or sha512"))?);
        }
        "allowuser" => {
            let user = one_word(config, line)?;
            config.allow_users.push(user);
        }
        "use-unprivileged-ports" => config.use_unprivileged_ports = truth(config, line),
        _ => return Ok(false),
    }
    Ok(true)
}

/// Keys that `signd` alone reads.
fn servers(config: &mut Config, line: &Line<'_>) -> Result<bool, Error> {
    match line.key {
        "proxyport" => config.proxy_port = Some(port(config, line)?),
        "proxyproto" => config.proxy_protocol = Some(protocol(config, line)?),
        "allow" => {
            for word in line.value.split_whitespace() {
                config.allow.push(Allowed::parse(word).map_err(|reason| line.error(reason))?);
            }
        }
        "allow-unprivileged-ports" => config.allow_unprivileged_ports = truth(config, line),
        "allow_subject" => {
            config.allow_subjects.push(Subject::parse(line.value).map_err(|reason| line.error(reason))?);
        }
        "ssl_allow_certless" | "proxyssl_allow_certless" => config.allow_certless = truth(config, line),
        "map" => {
            let entry = MapEntry::parse(line.value).ok_or_else(|| line.error("it has no value"))?;
            if line.value.split_whitespace().nth(2).is_some() {
                config.remark(line.number, line.key, EXTRA_WORDS);
            }
            config.map.push(entry);
        }
        "phrases" => config.phrases = Some(one_word(config, line)?),
        "aliases" => config.aliases = Some(one_word(config, line)?),
        "encryptionkeys" => config.encryption_keys = Some(one_word(config, line)?),
        "gnupghome" => config.gnupg_home = Some(one_word(config, line)?),
        "gpg" => config.gpg = Some(one_word(config, line)?),
        "opensslkeys" => config.openssl_keys = Some(one_word(config, line)?),
        _ => return Ok(false),
    }
    Ok(true)
}

fn tls(config: &mut Config, line: &Line<'_>) -> bool {
    let (tls, name): (&mut Tls, _) = match line.key.strip_prefix("proxy") {
        Some(name) => (&mut config.proxy_tls, name),
        None => (&mut config.tls, line.key),
    };
    let field = match name {
        "ssl_certfile" => &mut tls.certificate_file,
        "ssl_keyfile" => &mut tls.key_file,
        "ssl_verifyfile" => &mut tls.verify_file,
        "ssl_verifydir" => &mut tls.verify_folder,
        _ => return false,
    };
    *field = Some(line.value.to_owned()).filter(|value| !value.is_empty());
    true
}

const EXTRA_WORDS: &str =
    "signd does not look at what follows the first value, and sign takes it for a part of it";

/// The first word, as `signd` takes it.
fn one_word(config: &mut Config, line: &Line<'_>) -> Result<String, Error> {
    let mut words = line.value.split_whitespace();
    let first = words.next().ok_or_else(|| line.error("it has no value"))?;
    if words.next().is_some() {
        config.remark(line.number, line.key, EXTRA_WORDS);
    }
    Ok(first.to_owned())
}

fn port(config: &mut Config, line: &Line<'_>) -> Result<u16, Error> {
    let port = one_word(config, line)?.parse().ok().filter(|port| *port != 0);
    port.ok_or_else(|| line.error("it is not a port, 1 to 65535"))
}

fn protocol(config: &mut Config, line: &Line<'_>) -> Result<Protocol, Error> {
    match one_word(config, line)?.as_str() {
        "ssl" => Ok(Protocol::Tls),
        "unprotected" => Ok(Protocol::Plain),
        _ => Err(line.error("it is not `ssl` or `unprotected`")),
    }
}

/// `1` and `true` are true to both programs, and everything else is false.
fn truth(config: &mut Config, line: &Line<'_>) -> bool {
    let is = |word: &str| line.value.eq_ignore_ascii_case(word);
    if !["1", "0", "true", "false"].into_iter().any(is) {
        config.remark(line.number, line.key, "everything but `1` and `true` means no");
    }
    is("1") || is("true")
}
