//! `server.toml`: what an operator sets, read into a value that cannot be wrong. `docs/howto/serve.md` explains each line.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use sealwright_server::{Limits, obs};
use serde::Deserialize;

use crate::failure::Failure;
use crate::log;

mod copr_keygen;

pub(super) use copr_keygen::CoprKeygen;

/// Bytes of the file.
pub(super) const BYTES_MAX: usize = 64 << 10;

/// Addresses to listen on.
const ADDRESSES_MAX: usize = 16;

/// Everything that `server.toml` says; paths are absolute.
#[derive(Clone, Debug)]
pub(super) struct Config {
    /// gRPC over mTLS. Not used where a service manager hands sockets over.
    pub(super) addresses: Vec<SocketAddr>,
    /// Plain HTTP for an operator's tools.
    pub(super) metrics: Option<SocketAddr>,
    /// The protocol of obs-sign.
    pub(super) obs: Option<obs::Settings>,
    pub(super) tls: Tls,
    /// `clients.toml`.
    pub(super) clients: PathBuf,
    pub(super) store: PathBuf,
    pub(super) signer: Signer,
    pub(super) limits: Limits,
    pub(super) log: log::Settings,
    pub(super) users: Option<Users>,
    pub(super) copr_keygen: Option<CoprKeygen>,
}

/// PEM files.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Tls {
    pub(super) certificate: PathBuf,
    pub(super) key: PathBuf,
    pub(super) client_ca: PathBuf,
    pub(super) crl: Option<PathBuf>,
}

/// The process with the keys.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Signer {
    /// Path of its listening Unix socket.
    pub(super) socket: PathBuf,
    /// Its directory: what front must not be able to open.
    pub(super) root: PathBuf,
    /// Who listens at the socket, beside our own user and root.
    pub(super) uid: Option<u32>,
    /// No kernel without Landlock, for signer and front.
    #[serde(default)]
    pub(super) require_sandbox: bool,
    /// One that gives no sign for so long that its work goes on is killed and started again.
    #[serde(default = "Signer::silence_s")]
    pub(super) silence_s: u32,
}

impl Signer {
    /// Far more than a key takes to be made and a disk to answer; front gives up long before.
    const fn silence_s() -> u32 {
        60
    }
}

/// Least seconds of [`Signer::silence_s`]: a piece of work that is only slow must not look like none.
const SILENCE_S_MIN: u32 = 5;

/// Whom the children become where `serve` is started by root: names of `/etc/passwd`, or numbers.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Users {
    pub(super) front: String,
    pub(super) signer: String,
}

impl Config {
    /// Whether `next` can take the place of this one in a running server: what its sockets and processes were made of
    /// stays.
    ///
    /// # Errors
    /// The table that differs.
    pub(super) fn check_reload(&self, next: &Self) -> Result<(), Failure> {
        let has_same_obs = match (&self.obs, &next.obs) {
            (None, None) => true,
            (Some(obs), Some(next)) => obs.has_sockets_of(next),
            (None, Some(_)) | (Some(_), None) => false,
        };
        let of_keygen = |config: &Self| config.copr_keygen.as_ref().map(|keygen| keygen.addresses.clone());
        let fixed = [
            ("[listen]", self.addresses == next.addresses && self.metrics == next.metrics),
            ("[obs]", has_same_obs),
            ("[store]", self.store == next.store),
            ("[signer]", self.signer == next.signer),
            ("[users]", self.users == next.users),
            ("[copr_keygen] address", of_keygen(self) == of_keygen(next)),
        ];
        match fixed.into_iter().find(|(_, is_same)| !is_same) {
            None => Ok(()),
            Some((table, _)) => Err(Failure::failed(
                format!("{table} of server.toml was changed, which a reload cannot do"),
                "Start the server again, or change it back.",
            )),
        }
    }

    /// Parses the text; relative paths are relative to the directory of `file`.
    ///
    /// # Errors
    /// With file, line, and what to do.
    pub(super) fn parse(file: &Path, text: &str) -> Result<Self, Failure> {
        let raw: Raw = toml::from_str(text).map_err(|error| {
            let what = crate::mistake::of(text, &error);
            refused(file, &what, "Mend the line; docs/howto/serve.md shows a whole file.")
        })?;
        let base = file.parent().unwrap_or(Path::new("/"));
        let in_base = |path: &Path| base.join(path);
        let Raw { listen, tls, clients, store, signer, limits, obs, log, users, copr_keygen } = raw;
        let copr_keygen = copr_keygen.map(|keygen| keygen.checked(file, base)).transpose()?;
        let metrics = metrics_address(file, &listen)?;
        if listen.address.len() > ADDRESSES_MAX {
            let what = format!("[listen] address has more than {ADDRESSES_MAX} addresses");
            return Err(refused(file, &what, "Listen on [::] instead."));
        }
        check_limits(file, &limits)?;
        if let Some(mistake) = obs.as_ref().and_then(|obs| obs.check().err()) {
            return Err(refused(file, &format!("[obs] {mistake}"), mistake.advice()));
        }
        if signer.silence_s < SILENCE_S_MIN {
            let what = format!("[signer] silence_s = {} would kill a signer that is busy", signer.silence_s);
            return Err(refused(file, &what, "Leave it out: 60 seconds are right for nearly everybody."));
        }
        let log = log::Settings { format: log.format, filter: log.filter };
        log::check(&log).map_err(|error| {
            refused(file, &format!("[log] {}", Failure::chain(&error)), "Use for example filter = \"info\".")
        })?;
        Ok(Self {
            addresses: listen.address,
            metrics,
            obs,
            tls: Tls {
                certificate: in_base(&tls.certificate),
                key: in_base(&tls.key),
                client_ca: in_base(&tls.client_ca),
                crl: tls.crl.as_deref().map(in_base),
            },
            clients: in_base(&clients.file),
            store: in_base(&store.folder),
            signer: Signer { socket: in_base(&signer.socket), root: in_base(&signer.root), ..signer },
            limits,
            log,
            users,
            copr_keygen,
        })
    }
}

/// A failure that names the file.
pub(super) fn refused(file: &Path, what: &str, advice: &str) -> Failure {
    Failure::failed(format!("{}: {}", file.display(), what.trim_end()), advice)
}

/// With none of something nothing is served, and that is not what anybody means. At once is a way to end, though.
fn check_limits(file: &Path, limits: &Limits) -> Result<(), Failure> {
    let least_one = [
        ("connections", limits.connections),
        ("connections_per_address", limits.connections_per_address),
        ("connections_per_client", limits.connections_per_client),
        ("unauthenticated", limits.unauthenticated),
        ("unauthenticated_per_address", limits.unauthenticated_per_address),
        ("handshakes", limits.handshakes),
        ("first_byte_ms", limits.first_byte_ms),
        ("handshake_ms", limits.handshake_ms),
        ("idle_s", limits.idle_s),
        ("write_stall_s", limits.write_stall_s),
        ("streams_per_connection", limits.streams_per_connection),
        ("request_bytes_in_work", limits.request_bytes_in_work),
    ];
    match least_one.into_iter().find(|(_, limit)| *limit == 0) {
        None => Ok(()),
        Some((name, _)) => Err(refused(
            file,
            &format!("[limits] {name} = 0 would serve nobody"),
            "Set at least 1, or leave it out for its default.",
        )),
    }
}

/// What it tells is not secret, but it is plain HTTP without a check of who asks.
fn metrics_address(file: &Path, listen: &Listen) -> Result<Option<SocketAddr>, Failure> {
    match listen.metrics {
        Some(address) if !address.ip().is_loopback() && !listen.metrics_public => Err(refused(
            file,
            &format!(
                "[listen] metrics = \"{address}\" can be reached from other machines, without a check of who asks"
            ),
            "Listen on 127.0.0.1 or [::1], or set metrics_public = true if a firewall guards it.",
        )),
        address => Ok(address),
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Raw {
    listen: Listen,
    tls: Tls,
    clients: ClientsFile,
    store: Store,
    signer: Signer,
    #[serde(default)]
    limits: Limits,
    obs: Option<obs::Settings>,
    #[serde(default)]
    log: Log,
    users: Option<Users>,
    copr_keygen: Option<CoprKeygen>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Listen {
    address: Vec<SocketAddr>,
    metrics: Option<SocketAddr>,
    #[serde(default)]
    metrics_public: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ClientsFile {
    file: PathBuf,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Store {
    folder: PathBuf,
}

#[derive(Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Log {
    format: log::Format,
    filter: String,
}

impl Default for Log {
    fn default() -> Self {
        Self { format: log::Format::Json, filter: "info".to_owned() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: &str = r#"
[listen]
address = ["[::]:7443", "127.0.0.1:7444"]
metrics = "127.0.0.1:9464"
[tls]
certificate = "tls/server.pem"
key = "tls/server.key"
client_ca = "tls/ca.pem"
[clients]
file = "clients.toml"
[store]
folder = "/var/lib/sealwright/store"
[signer]
socket = "run/signer.socket"
root = "root"
[limits]
connections = 12
"#;

    fn parse(text: &str) -> Result<Config, Failure> {
        Config::parse(Path::new("/etc/sealwright/server.toml"), text)
    }

    #[test]
    fn relative_paths_are_relative_to_the_file_and_what_is_left_out_has_a_default() {
        let config = parse(WHOLE).unwrap();
        assert_eq!(config.tls.key, Path::new("/etc/sealwright/tls/server.key"));
        assert_eq!(config.store, Path::new("/var/lib/sealwright/store"));
        assert_eq!(config.signer.root, Path::new("/etc/sealwright/root"));
        assert_eq!(config.limits.connections, 12);
        assert_eq!(config.limits.drain_s, Limits::default().drain_s);
        assert_eq!(config.log.format, log::Format::Json);
        assert!(!config.signer.require_sandbox && config.users.is_none());
    }

    #[test]
    fn an_unknown_field_is_refused_with_file_and_line() {
        for (found, instead) in [
            ("connections = 12", "conections = 12"),
            ("[store]", "[stores]"),
            ("root = \"root\"", "root = \"root\"\nkey = 1"),
        ] {
            let failure = parse(&WHOLE.replace(found, instead)).unwrap_err();
            assert!(failure.what.contains("/etc/sealwright/server.toml"), "{}", failure.what);
            assert!(failure.what.contains("line "), "{}", failure.what);
        }
    }

    #[test]
    fn a_limit_of_nothing_is_refused_by_name_but_an_end_at_once_is_not() {
        for name in [
            "connections",
            "connections_per_address",
            "connections_per_client",
            "unauthenticated",
            "unauthenticated_per_address",
            "handshakes",
            "first_byte_ms",
            "handshake_ms",
            "idle_s",
            "write_stall_s",
            "streams_per_connection",
            "request_bytes_in_work",
        ] {
            let failure = parse(&WHOLE.replace("connections = 12", &format!("{name} = 0"))).unwrap_err();
            assert!(failure.what.contains(&format!("[limits] {name} = 0")), "{}", failure.what);
        }
        parse(&WHOLE.replace("connections = 12", "drain_s = 0")).unwrap();
    }

    /// `docs/howto/serve.md` has every setting of the file; those that may be left out, with the value of then.
    #[test]
    fn the_whole_file_of_the_manual_says_every_setting_with_its_default() {
        let manual = include_str!("../../../../docs/howto/serve.md");
        let (_, section) = manual.split_once("## server.toml").unwrap();
        let text: String = section
            .lines()
            .skip_while(|line| !line.starts_with("    "))
            .take_while(|line| line.is_empty() || line.starts_with("    "))
            .map(|line| format!("{}\n", line.trim_start()))
            .collect();
        let config = parse(&text).unwrap();
        assert_eq!(config.limits, Limits::default());
        let log = Log::default();
        assert_eq!(config.log, log::Settings { format: log.format, filter: log.filter });
        let table: toml::Table = text.parse().unwrap();
        let limits = table.get("limits").and_then(toml::Value::as_table).unwrap();
        let debug = format!("{:?}", Limits::default());
        assert_eq!(limits.len(), debug.matches(": ").count(), "each of {debug}");
        assert!(config.users.is_some());
        let (settings, _) = text.split_once("[users]").unwrap();
        for line in settings.lines().filter(|line| line.contains(" = ")) {
            let cut = parse(&text.replace(&format!("{line}\n"), ""));
            match line.split(' ').next().unwrap() {
                "metrics" | "crl" | "uid" => assert!(cut.is_ok(), "{line}"),
                _ if line.contains("# default") => {
                    assert_eq!(format!("{:?}", cut.unwrap()), format!("{config:?}"), "{line}");
                }
                _ => assert!(cut.is_err(), "{line}"),
            }
        }
    }

    /// `docs/howto/obs.md` has every setting of the table; those with a default, with that.
    #[test]
    fn the_table_of_the_manual_for_clients_of_obs_sign_says_every_setting_with_its_default() {
        let manual = include_str!("../../../../docs/howto/obs.md");
        let (_, section) = manual.split_once("## The server: ").unwrap();
        let lines = section.lines().skip_while(|line| !line.starts_with("    "));
        let lines: Vec<&str> = lines.take_while(|line| line.starts_with("    ")).map(str::trim).collect();
        let obs = |text: &str| parse(&format!("{WHOLE}\n{text}")).unwrap().obs.unwrap();
        let whole = obs(&lines.join("\n"));
        assert_eq!((whole.listen.len(), whole.listen_tls.len(), whole.allow.len()), (2, 1, 2));
        let rest: Vec<&str> = lines.iter().filter(|line| !line.contains("# default")).copied().collect();
        assert_eq!(format!("{:?}", obs(&rest.join("\n"))), format!("{whole:?}"));
        let debug = format!("{:?}", obs::Settings::default());
        let table: toml::Table = lines.join("\n").parse().unwrap();
        assert_eq!(table["obs"].as_table().unwrap().len(), debug.matches(": ").count(), "each of {debug}");
    }

    #[test]
    fn obs_settings_that_cannot_be_served_are_refused_and_a_reload_moves_no_listener() {
        let with = |table: &str| parse(&format!("{WHOLE}\n[obs]\n{table}"));
        let allow = "allow = [{ from = \"127.0.0.1\", client = \"copr\" }]\n";
        let refused = with("listen = [\"127.0.0.1:5167\"]").unwrap_err();
        assert!(refused.what.contains("[obs]") && refused.advice.contains("allow"), "{}", refused.what);
        let running = with(&format!("listen = [\"127.0.0.1:5167\"]\n{allow}")).unwrap();
        let moved = with(&format!("listen = [\"127.0.0.1:5168\"]\n{allow}")).unwrap();
        assert!(running.check_reload(&moved).unwrap_err().what.contains("[obs]"));
        assert!(running.check_reload(&parse(WHOLE).unwrap()).unwrap_err().what.contains("[obs]"));
        let other = allow.replace("127.0.0.1", "127.0.0.2");
        let next = with(&format!("listen = [\"127.0.0.1:5167\"]\nreserved_ports = true\n{other}")).unwrap();
        running.check_reload(&next).unwrap();
    }

    #[test]
    fn metrics_for_everybody_need_a_word_of_their_own() {
        let public = WHOLE.replace("127.0.0.1:9464", "0.0.0.0:9464");
        assert!(parse(&public).unwrap_err().advice.contains("metrics_public"));
        let said = public.replace("metrics =", "metrics_public = true\nmetrics =");
        assert_eq!(parse(&said).unwrap().metrics.unwrap().port(), 9464);
    }

    #[test]
    fn a_reload_changes_no_socket_store_signer_or_user() {
        let running = parse(WHOLE).unwrap();
        for (found, instead, table) in [
            ("\"127.0.0.1:7444\"", "\"127.0.0.1:7445\"", "[listen]"),
            ("/var/lib/sealwright/store", "/srv/store", "[store]"),
            ("root = \"root\"", "root = \"other\"", "[signer]"),
            ("[limits]", "[users]\nfront = \"a\"\nsigner = \"b\"\n[limits]", "[users]"),
            (
                "[limits]",
                "[copr_keygen]\naddress = [\"[::1]:1\"]\nallow = [{ from = \"::1\", client = \"a\" }]\n[limits]",
                "[copr_keygen]",
            ),
        ] {
            let refused = running.check_reload(&parse(&WHOLE.replace(found, instead)).unwrap()).unwrap_err();
            assert!(refused.what.contains(table), "{}", refused.what);
        }
        let next = WHOLE.replace("server.key", "next.key").replace("connections = 12", "connections = 13");
        running.check_reload(&parse(&next).unwrap()).unwrap();
    }

    #[test]
    fn a_log_filter_that_cannot_be_read_is_refused() {
        let failure = parse(&format!("{WHOLE}[log]\nfilter = \"info,,=\"\n")).unwrap_err();
        assert!(failure.what.contains("[log]"), "{}", failure.what);
    }
}
